//! Where parameters, buffers and constants lie: the payload configs of torch 2.9 and newer, the nested `torch.save` files
//! of older ones.

use std::collections::HashMap;
use std::io::{Cursor, Read, Seek};

use zip::ZipArchive;

use super::archive::{self, Archive, Place, Window};
use super::schema::{Payload, PayloadConfig, SymInt, TensorMeta};
use super::unpickle;
use crate::diagnostic::{Diagnostic, printable};
use crate::dtype::DType;
use crate::import::ImportError;
use crate::weights::{Storage, WeightRef};

/// Tensors by their dotted names.
#[derive(Default)]
pub(super) struct Weights {
    by_name: HashMap<String, WeightRef>,
}

impl Weights {
    /// The tensor called `name`; one that is missing and says so if the archive has none.
    pub(super) fn get(&self, name: &str, dtype: Option<DType>, shape: &[u64]) -> WeightRef {
        self.by_name.get(name).cloned().unwrap_or_else(|| WeightRef {
            dtype: dtype.unwrap_or(DType::F32),
            shape: shape.into(),
            strides: None,
            storage: Storage::Missing(format!("the archive does not hold {}", printable(name)).into()),
        })
    }

    /// Reads the configs of weights and constants of the program called `model`.
    pub(super) fn read(archive: &mut Archive, model: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<Self, ImportError> {
        let mut weights = Self::default();
        for kind in ["weights", "constants"] {
            let config = archive.below_root(&format!("data/{kind}/{model}_{kind}_config.json"));
            let Some(text) = archive.text(&config)? else { continue };
            match serde_json::from_slice::<PayloadConfig<'_>>(&text) {
                Ok(parsed) => {
                    for (name, payload) in &parsed.config {
                        let weight = weight(archive, kind, payload);
                        if let Storage::Missing(why) = &weight.storage {
                            let message = format!("the tensor {} cannot be read: {}", printable(name), printable(why));
                            diagnostics.push(Diagnostic::warning("weight_unreadable", message).with_value(name));
                        }
                        weights.by_name.insert(name.to_string(), weight);
                    }
                }
                Err(e) => {
                    let message = format!("{} is no list of tensors ({e}), so running the model is not possible", printable(&config));
                    diagnostics.push(Diagnostic::warning("weights_config", message));
                }
            }
        }
        Ok(weights)
    }

    /// Adds the tensors of a nested `torch.save` file, if there is such an entry. What cannot be read is a diagnostic.
    pub(super) fn read_pickled(&mut self, archive: &mut Archive, entry: &str, diagnostics: &mut Vec<Diagnostic>) {
        let Some(place) = archive.place(entry) else { return };
        let read = place.and_then(|place| match &place {
            Place::File(extent) => {
                let window = Window::open(&archive.file.path, *extent).map_err(|e| e.to_string())?;
                self.nested(archive, window, &place)
            }
            Place::Deflated(part, range) if range.len <= MAX_UNPACKED => {
                let bytes = part.read_at(range.offset, range.len).map_err(|e| e.to_string())?;
                self.nested(archive, Cursor::new(bytes), &place)
            }
            Place::Deflated(_, range) => Err(format!(
                "it is compressed and unpacks to {} bytes; up to {MAX_UNPACKED} are unpacked: save the model again with torch.export.save",
                range.len
            )),
        });
        if let Err(why) = read {
            let message = format!("the weights in {} cannot be read, so running the model is not possible: {why}", printable(entry));
            diagnostics.push(Diagnostic::warning("weights_unreadable", message));
        }
    }

    /// The tensors of a `torch.save` file, which `reader` reads and which lies at `place` of the archive.
    fn nested(&mut self, archive: &Archive, reader: impl Read + Seek, place: &Place) -> Result<(), String> {
        if place.range().len == 0 {
            return Ok(());
        }
        let mut zip = ZipArchive::new(reader).map_err(|e| e.to_string())?;
        let root = (zip.file_names()).find_map(|n| n.strip_suffix("data.pkl").map(str::to_owned)).ok_or("it has no data.pkl")?;
        let mut pickle = Vec::new();
        let name = format!("{root}data.pkl");
        let entry = zip.by_name(&name).map_err(|e| e.to_string())?;
        entry.take(MAX_PICKLE).read_to_end(&mut pickle).map_err(|e| e.to_string())?;
        for (name, t) in unpickle::tensors(&pickle)? {
            let entry = format!("{root}data/{}", t.key);
            let view = View::of(t.dtype, t.shape.clone(), Some(t.strides.clone()), t.offset)
                .ok_or_else(|| format!("the shape of {} overflows", printable(&name)))?;
            let storage = zip
                .index_for_name(&entry)
                .map(|i| zip.by_index_raw(i).map_err(|e| e.to_string()).and_then(|e| archive::within(&e, place, &archive.file)));
            self.by_name.insert(name.to_string(), view.weight(archive, &entry, storage));
        }
        Ok(())
    }
}

/// Largest pickle of a state dict; the tensors' bytes are not in it.
const MAX_PICKLE: u64 = 256 << 20;
/// Largest `torch.save` file that is unpacked to find the tensors in it; it is dropped again.
const MAX_UNPACKED: u64 = 1 << 30;

fn weight(archive: &mut Archive, kind: &str, payload: &Payload<'_>) -> WeightRef {
    let missing = |why: String| WeightRef { dtype: DType::F32, shape: [].into(), strides: None, storage: Storage::Missing(why.into()) };
    if payload.use_pickle {
        return missing("it is a pickled Python object, which is never loaded".to_owned());
    }
    let Some(meta) = &payload.tensor_meta else { return missing("its type and shape are not given".to_owned()) };
    let Some(view) = View::new(meta) else { return missing("its type or shape is not one that can be stored".to_owned()) };
    let entry = archive.below_root(&format!("data/{kind}/{}", &*payload.path_name));
    let place = archive.place(&entry);
    view.weight(archive, &entry, place)
}

/// A tensor as a view of its storage; sizes in elements.
pub(super) struct View {
    pub(super) dtype: DType,
    pub(super) shape: Box<[u64]>,
    pub(super) strides: Box<[i64]>,
    pub(super) offset: u64,
    /// Whether the elements lie one after the other in row-major order.
    pub(super) dense: bool,
    /// Elements from the first to behind the last.
    pub(super) span: u64,
}

impl View {
    fn new(meta: &TensorMeta<'_>) -> Option<Self> {
        let int = |s: &SymInt<'_>| match s {
            SymInt::AsInt(n) => Some(*n),
            SymInt::AsExpr(_) => None,
        };
        let shape = meta.sizes.iter().map(|s| int(s).and_then(|n| u64::try_from(n).ok())).collect::<Option<Vec<u64>>>()?;
        let strides = match &meta.strides {
            Some(s) => Some(s.iter().map(int).collect::<Option<Vec<i64>>>()?),
            None => None,
        };
        let offset = match &meta.storage_offset {
            Some(s) => u64::try_from(int(s)?).ok()?,
            None => 0,
        };
        Self::of(dtype(meta.dtype)?, shape, strides, offset)
    }

    /// Checks that no stride is negative and nothing overflows.
    pub(super) fn of(dtype: DType, shape: Vec<u64>, strides: Option<Vec<i64>>, offset: u64) -> Option<Self> {
        let mut row_major = vec![0i64; shape.len()];
        let mut step = 1u64;
        for (s, &d) in row_major.iter_mut().zip(&shape).rev() {
            *s = i64::try_from(step).ok()?;
            step = step.checked_mul(d.max(1))?;
        }
        let elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        let strides = strides.unwrap_or_else(|| row_major.clone());
        if strides.len() != shape.len() {
            return None;
        }
        let mut span = u64::from(elements > 0);
        for (&s, &d) in strides.iter().zip(&shape) {
            span = span.checked_add(u64::try_from(s).ok()?.checked_mul(d.saturating_sub(1))?)?;
        }
        let span = if elements == 0 { 0 } else { span };
        // The stride of a dimension of one element says nothing.
        let dense = strides.iter().zip(&row_major).zip(&shape).all(|((s, r), &d)| d <= 1 || s == r);
        Some(Self { dtype, shape: shape.into(), strides: strides.into(), offset, dense, span })
    }

    /// The view as a weight; `place` is where the storage lies, the entry called `entry`, if there is one.
    fn weight(self, archive: &Archive, entry: &str, place: Option<Result<Place, String>>) -> WeightRef {
        let storage = match place {
            None => Err(format!("the archive has no entry {}", printable(entry))),
            Some(Err(why)) => Err(format!("{}: {why}", printable(entry))),
            Some(Ok(place)) => self.within(archive, &place),
        };
        let storage = storage.unwrap_or_else(|why| Storage::Missing(why.into()));
        let strides = (!self.dense && storage != Storage::Zeros).then_some(self.strides);
        WeightRef { dtype: self.dtype, shape: self.shape, strides, storage }
    }

    /// The bytes of the view inside its storage.
    fn within(&self, archive: &Archive, place: &Place) -> Result<Storage, String> {
        let stored = place.range().len;
        if stored == 0 {
            // Fake or empty weights.
            return Ok(Storage::Zeros);
        }
        let width = u64::from(self.dtype.bits()) / 8;
        let too_large = || "its size overflows".to_owned();
        let begin = self.offset.checked_mul(width).ok_or_else(too_large)?;
        let len = self.span.checked_mul(width).ok_or_else(too_large)?;
        let end = begin.checked_add(len).ok_or_else(too_large)?;
        if end > stored {
            return Err(format!("it reaches to byte {end} of a storage of {stored} bytes"));
        }
        Ok(place.storage(&archive.file, begin, len))
    }
}

/// Element type by its number in the schema, which is not the number that c10 has for it.
pub(super) fn dtype(number: i64) -> Option<DType> {
    Some(match number {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        10 => DType::C64,
        11 => DType::C128,
        12 => DType::Bool,
        13 => DType::Bf16,
        28 => DType::U16,
        29 => DType::F8e4m3fn,
        30 => DType::F8e5m2,
        31 => DType::F8e4m3fnuz,
        32 => DType::F8e5m2fnuz,
        33 => DType::F8e8m0,
        34 => DType::U32,
        35 => DType::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_know_their_span_and_whether_they_are_dense() {
        let v = View::of(DType::F32, vec![2, 3], None, 0).unwrap();
        assert!(v.dense && v.span == 6);
        let transposed = View::of(DType::F32, vec![3, 2], Some(vec![1, 3]), 4).unwrap();
        assert!(!transposed.dense && transposed.span == 6 && transposed.offset == 4);
        assert!(View::of(DType::F32, vec![1, 3], Some(vec![99, 1]), 0).unwrap().dense, "a dimension of one has any stride");
        assert_eq!(View::of(DType::F32, vec![0, 3], None, 0).unwrap().span, 0);
        assert!(View::of(DType::F32, vec![2], Some(vec![-1]), 0).is_none());
        assert!(View::of(DType::F32, vec![u64::MAX, 4], None, 0).is_none());
        assert!(View::of(DType::F32, vec![2, 2], Some(vec![1]), 0).is_none());
    }
}
