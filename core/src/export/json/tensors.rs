//! Stored tensors: by reference, inside, or left out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use indexmap::IndexMap;
use serde_json::Value;

use super::Summary;
use super::attrs::{bytes_value, exact};
use crate::base64;
use crate::dtype::DType;
use crate::hash::Seeded;
use crate::import::json::is_consistent;
use crate::import::json::schema::{File, Tensor};
use crate::weights::{DataFile, Storage, WeightRef};

/// Elements up to which data is a list that can be read, and no base64.
const MAX_LISTED: u64 = 16;
/// Bytes up to which a tensor in another folder is copied.
const MAX_COPIED: u64 = 1024;

/// Writes tensors, and notes the files that they lie in.
pub(super) struct Tensors {
    /// Folder of the file that is written, with links resolved.
    folder: Option<PathBuf>,
    /// Data files as the text names them; `None` for those outside of the folder.
    known: HashMap<PathBuf, Option<String>>,
    files: IndexMap<String, File, Seeded>,
    pub(super) summary: Summary,
}

impl Tensors {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self { folder: folder.canonicalize().ok(), known: HashMap::new(), files: IndexMap::default(), summary: Summary::default() }
    }

    /// The files that were referred to.
    pub(super) fn files(&mut self) -> IndexMap<String, File, Seeded> {
        std::mem::take(&mut self.files)
    }

    pub(super) fn tensor(&mut self, w: &WeightRef) -> Tensor {
        let mut t = Tensor { dtype: w.dtype.name().to_owned(), shape: Some(w.shape.to_vec()), ..Tensor::default() };
        if let Storage::Missing(why) = &w.storage {
            t.strides = w.strides.as_deref().map(<[i64]>::to_vec);
            t.missing = Some(why.to_string());
            return t;
        }
        if !is_consistent(w) {
            t.strides = w.strides.as_deref().map(<[i64]>::to_vec);
            t.missing = Some("its type, its shape and its data do not fit together".to_owned());
            return t;
        }
        match &w.storage {
            Storage::Zeros => t.zeros = true,
            Storage::Strings(texts) => {
                self.summary.inside += 1;
                t.data = Some(texts.iter().map(|b| bytes_value(b)).collect());
            }
            Storage::Inline(bytes) => {
                self.summary.inside += 1;
                t.strides = w.strides.as_deref().map(<[i64]>::to_vec);
                t.data = Some(self::data(w, bytes));
            }
            Storage::File { file, offset, len } => match self.place(file) {
                Some(name) => {
                    self.summary.referred += 1;
                    t.file = Some(name);
                    t.offset = Some(*offset);
                    t.length = Some(*len);
                    t.strides = w.strides.as_deref().map(<[i64]>::to_vec);
                }
                None => self.elsewhere(w, *len, &mut t),
            },
            // A place in what a compressed part unpacks to is no place in a file.
            Storage::Deflated { len, .. } => self.elsewhere(w, *len, &mut t),
            Storage::Missing(_) => {}
        }
        t
    }

    /// A tensor that the file may not refer to.
    fn elsewhere(&mut self, w: &WeightRef, len: u64, t: &mut Tensor) {
        if len <= MAX_COPIED
            && let Ok(bytes) = w.read()
        {
            self.summary.inside += 1;
            t.strides = w.strides.as_deref().map(<[i64]>::to_vec);
            t.data = Some(data(w, &bytes));
            return;
        }
        self.summary.left_out += 1;
        self.summary.left_out_bytes = self.summary.left_out_bytes.saturating_add(len);
    }

    /// A data file as the text names it.
    fn place(&mut self, file: &Arc<DataFile>) -> Option<String> {
        if let Some(known) = self.known.get(&file.path) {
            return known.clone();
        }
        let inside = || {
            let real = file.path.canonicalize().ok()?;
            let relative = real.strip_prefix(self.folder.as_deref()?).ok()?;
            let parts: Option<Vec<&str>> = relative.components().map(|c| c.as_os_str().to_str()).collect();
            let name = parts?.join("/");
            // What no file may point at.
            (!name.is_empty() && !name.contains(['\\', '\0', ':'])).then_some(name)
        };
        let found = inside();
        if let Some(name) = &found {
            self.files.insert(name.clone(), File { bytes: file.len });
        }
        self.known.insert(file.path.clone(), found.clone());
        found
    }
}

/// Data as it stands in the text.
fn data(w: &WeightRef, bytes: &[u8]) -> Value {
    if w.elements() <= MAX_LISTED
        && w.strides.is_none()
        && let Some(list) = list(w.dtype, bytes)
    {
        return match (w.shape.is_empty(), list.as_slice()) {
            (true, [one]) => one.clone(),
            _ => Value::Array(list),
        };
    }
    Value::String(base64::encode(bytes))
}

/// Elements that JSON keeps exactly; `None` for types and elements that it does not.
fn list(dtype: DType, bytes: &[u8]) -> Option<Vec<Value>> {
    macro_rules! elements {
        ($t:ty, $f:expr) => {
            bytes.as_chunks().0.iter().map(|c| <$t>::from_le_bytes(*c)).map($f).collect()
        };
    }
    let float = |x: f64| if x.is_nan() { None } else { exact(x, false).or_else(|| x.is_infinite().then(|| format!("{x}").into())) };
    match dtype {
        // The shortest decimals of a single are not those of the double that it is.
        DType::F32 => elements!(f32, |x| if x.is_nan() {
            None
        } else {
            exact(f64::from(x), true).or_else(|| x.is_infinite().then(|| format!("{x}").into()))
        }),
        DType::F64 => elements!(f64, float),
        DType::F16 => elements!(f16, |x| float(x.to_f64())),
        DType::Bf16 => elements!(bf16, |x| float(x.to_f64())),
        DType::I8 => elements!(i8, |n| Some(n.into())),
        DType::I16 => elements!(i16, |n| Some(n.into())),
        DType::I32 => elements!(i32, |n| Some(n.into())),
        DType::I64 => elements!(i64, |n| Some(n.into())),
        DType::U8 => elements!(u8, |n| Some(n.into())),
        DType::U16 => elements!(u16, |n| Some(n.into())),
        DType::U32 => elements!(u32, |n| Some(n.into())),
        DType::U64 => elements!(u64, |n| Some(n.into())),
        DType::Bool => bytes.iter().map(|b| [Value::from(false), Value::from(true)].get(usize::from(*b)).cloned()).collect(),
        _ => None,
    }
}
