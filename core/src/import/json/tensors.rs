//! Stored tensors: data in the text, or where it lies in other files.
//!
//! A tensor whose data cannot be had does not stop the import: it becomes [`Storage::Missing`] with the reason, and a
//! diagnostic. A tensor that contradicts itself does.

use std::path::Path;

use serde_json::Value;

use super::Fault;
use super::schema::{File, Map, Tensor};
use crate::base64;
use crate::diagnostic::{Diagnostic, Severity, printable};
use crate::dtype::DType;
use crate::import::external::External;
use crate::import::reports::Reports;
use crate::weights::{Storage, WeightRef};

/// Reads the tensors of one file.
pub(super) struct Tensors<'p> {
    external: External,
    files: &'p Map<File>,
    pub(super) reports: Reports,
    /// Tensors that come without data.
    without: usize,
}

impl<'p> Tensors<'p> {
    pub(super) fn new(path: &Path, files: &'p Map<File>) -> Self {
        Self { external: External::new(path), files, reports: Reports::default(), without: 0 }
    }

    /// A stored tensor. `place` says where it stands, `what` which one it is (``initializer `w` ``), `name` the value.
    pub(super) fn read(&mut self, t: &Tensor, place: &str, what: &str, name: &str) -> Result<WeightRef, Fault> {
        let dtype = self::dtype(&t.dtype, || format!("{place}.dtype"))?;
        let ways = [t.data.is_some(), t.file.is_some(), t.zeros, t.missing.is_some()].into_iter().filter(|given| *given).count();
        if ways > 1 {
            return Err(Fault::new(place, format!("{what} has more than one of `data`, `file`, `zeros` and `missing`")));
        }
        if t.file.is_none() && (t.offset.is_some() || t.length.is_some()) {
            return Err(Fault::new(place, format!("{what} has an `offset` or `length` and no `file`")));
        }
        let shape: Box<[u64]> = match (&t.shape, &t.data) {
            (Some(shape), _) => shape.as_slice().into(),
            (None, Some(Value::Array(list))) => [list.len() as u64].into(),
            (None, Some(Value::String(_))) if dtype != DType::String => {
                return Err(Fault::new(place, format!("{what} has its data as base64 and no `shape`")));
            }
            (None, Some(_)) => [].into(),
            (None, None) => return Err(Fault::new(place, format!("{what} has neither a `shape` nor `data` that would tell it"))),
        };
        let mut weight = WeightRef { dtype, shape, strides: t.strides.as_deref().map(Into::into), storage: Storage::Zeros };
        // Nobody counts the bytes of a tensor that has none.
        let need =
            if ways == 0 || t.missing.is_some() { 0 } else { needed(&weight).map_err(|why| Fault::new(place, format!("{what} {why}")))? };
        let found = match (&t.data, &t.file) {
            (Some(data), _) => inside(data, dtype, weight.elements(), need).map_err(|(at, why)| {
                let at = if at.is_empty() { format!("{place}.data") } else { format!("{place}.data[{at}]") };
                Fault::new(at, format!("{what}: {why}"))
            })?,
            (None, Some(file)) => self.outside(t, file, dtype, need).unwrap_or_else(|why| {
                let why = format!("{what} cannot be read: {why}");
                self.reports.add(Diagnostic::error("missing_weight", why.clone()).with_value(name));
                Storage::Missing(why.into())
            }),
            _ if t.zeros => Storage::Zeros,
            (None, None) => {
                self.without += 1;
                let why = t.missing.clone().unwrap_or_else(|| format!("the file holds no data of {what}"));
                Storage::Missing(why.into())
            }
        };
        weight.storage = found;
        Ok(weight)
    }

    /// Bytes of another file.
    fn outside(&mut self, t: &Tensor, file: &str, dtype: DType, need: u64) -> Result<Storage, String> {
        let data = self.external.file(file.as_bytes()).map_err(|why| why.to_string())?;
        let shown = printable(file);
        if dtype == DType::String {
            return Err("its data is in another file, which strings cannot be".to_owned());
        }
        if let Some(noted) = self.files.0.get(file)
            && noted.bytes != data.len
        {
            return Err(format!(
                "`{shown}` has {} bytes and not the {} that were noted: it is another file than the one that was meant; export the graph again",
                data.len, noted.bytes
            ));
        }
        let (offset, len) = (t.offset.unwrap_or(0), t.length.unwrap_or(need));
        // A view may have been given more than it reaches.
        if len < need || t.strides.is_none() && len != need {
            return Err(format!("its length is {len} bytes, and its type and shape ask for {need}"));
        }
        match offset.checked_add(len) {
            Some(end) if end <= data.len => Ok(Storage::File { file: data, offset, len }),
            _ => Err(format!("offset {offset} and length {len} lie outside of `{shown}`, which has {} bytes", data.len)),
        }
    }

    /// All findings.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        if self.without > 0 {
            let n = self.without;
            let (tensors, come) = if n == 1 { ("tensor", "comes") } else { ("tensors", "come") };
            let message = format!("{n} stored {tensors} {come} without data: the graph can be placed, but what reads them cannot run");
            self.reports.add(Diagnostic::new(Severity::Info, "no_data", message));
        }
        self.reports.finish()
    }
}

/// An element type by name.
pub(super) fn dtype(name: &str, place: impl Fn() -> String) -> Result<DType, Fault> {
    DType::parse(name).ok_or_else(|| {
        Fault::new(place(), format!("`{}` is no element type; there are {}", printable(name), DType::ALL.map(DType::name).join(", ")))
    })
}

/// Bytes that the data of a tensor takes: those of its elements, or of the stretch that a view reaches; 0 for strings.
fn needed(w: &WeightRef) -> Result<u64, String> {
    let overflow = || "has a shape of more bytes than 64 bits can count".to_owned();
    let elements = if w.shape.contains(&0) { 0 } else { w.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(overflow)? };
    if w.dtype == DType::String {
        return Ok(0);
    }
    let bytes = w.dtype.bytes_for(elements).ok_or_else(overflow)?;
    let Some(strides) = &w.strides else { return Ok(bytes) };
    if strides.len() != w.shape.len() {
        return Err(format!("has {} strides and {} dimensions", strides.len(), w.shape.len()));
    }
    if w.dtype.bits() < 8 {
        return Err(format!("has strides, which {} cannot have", w.dtype));
    }
    if elements == 0 {
        return Ok(0);
    }
    let mut span = 1u64;
    for (&s, &d) in strides.iter().zip(&w.shape) {
        let s = u64::try_from(s).map_err(|_| format!("has the negative stride {s}"))?;
        span = s.checked_mul(d - 1).and_then(|n| span.checked_add(n)).ok_or_else(overflow)?;
    }
    w.dtype.bytes_for(span).ok_or_else(overflow)
}

/// Data in the text. An error comes with the position of the element, or an empty text.
fn inside(data: &Value, dtype: DType, elements: u64, need: u64) -> Result<Storage, (String, String)> {
    let whole = |why: String| (String::new(), why);
    if let Value::String(text) = data
        && dtype != DType::String
    {
        let bytes = base64::decode(text).map_err(whole)?;
        if bytes.len() as u64 != need {
            return Err(whole(format!("its base64 holds {} bytes, and its type and shape ask for {need}", bytes.len())));
        }
        return Ok(Storage::Inline(bytes.into()));
    }
    let list = match data {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    // Without strides, which are for other files.
    if list.len() as u64 != elements {
        return Err(whole(format!("there are {} elements, and its shape asks for {elements}", list.len())));
    }
    if dtype == DType::String {
        let texts: Result<Vec<Box<[u8]>>, _> =
            list.iter().enumerate().map(|(i, v)| super::attrs::bytes(v).map_err(|why| (i.to_string(), why))).collect();
        return Ok(Storage::Strings(texts?.into()));
    }
    let mut bytes = Vec::with_capacity(list.len().saturating_mul(dtype.bits() as usize / 8));
    for (i, v) in list.iter().enumerate() {
        element(v, dtype, &mut bytes).map_err(|why| (i.to_string(), why))?;
    }
    if bytes.len() as u64 != need {
        return Err(whole("a list cannot have strides".to_owned()));
    }
    Ok(Storage::Inline(bytes.into()))
}

/// Appends one element.
fn element(v: &Value, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
    let shown = || printable(&v.to_string()).into_owned();
    macro_rules! int {
        ($t:ty) => {{
            let n = v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from));
            let n = n.and_then(|n| <$t>::try_from(n).ok()).ok_or_else(|| format!("{} is no {dtype}", shown()))?;
            out.extend_from_slice(&n.to_le_bytes());
        }};
    }
    let float = || super::attrs::float(v).ok_or_else(|| format!("{} is no number", shown()));
    match dtype {
        DType::F32 => out.extend_from_slice(&(float()? as f32).to_le_bytes()),
        DType::F64 => out.extend_from_slice(&float()?.to_le_bytes()),
        DType::F16 => out.extend_from_slice(&half::f16::from_f64(float()?).to_le_bytes()),
        DType::Bf16 => out.extend_from_slice(&half::bf16::from_f64(float()?).to_le_bytes()),
        DType::I8 => int!(i8),
        DType::I16 => int!(i16),
        DType::I32 => int!(i32),
        DType::I64 => int!(i64),
        DType::U8 => int!(u8),
        DType::U16 => int!(u16),
        DType::U32 => int!(u32),
        DType::U64 => int!(u64),
        DType::Bool => match (v.as_bool(), v.as_u64()) {
            (Some(b), _) => out.push(u8::from(b)),
            (None, Some(n @ (0 | 1))) => out.push(u8::from(n == 1)),
            _ => return Err(format!("{} is no bool", shown())),
        },
        _ => return Err(format!("elements of {dtype} cannot stand in a list: give their bytes as base64")),
    }
    Ok(())
}

/// Whether the data of a tensor without strides is of the length that its type and shape ask for: what import demands.
pub(crate) fn is_consistent(w: &WeightRef) -> bool {
    match (&w.storage, needed(w)) {
        (Storage::File { len, .. } | Storage::Deflated { len, .. }, Ok(need)) => *len == need || w.strides.is_some() && *len > need,
        (Storage::Inline(b), Ok(need)) => b.len() as u64 == need,
        (Storage::Strings(s), Ok(_)) => s.len() as u64 == w.elements(),
        (Storage::Zeros | Storage::Missing(_), found) => found.is_ok(),
        (_, Err(_)) => false,
    }
}
