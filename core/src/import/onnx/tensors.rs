//! `TensorProto` to [`WeightRef`]: where a tensor's bytes lie, after checking that they are what the shape asks for.
//!
//! A tensor with something wrong does not stop the import: it becomes [`Storage::Missing`] with the reason, and a
//! diagnostic. Nothing is allocated by a number of the file that exceeds what the file holds.

use std::path::Path;
use std::sync::Arc;

use super::external::Entry;
use super::names::show;
use super::proto::{SparseTensorProto, TensorProto};
use super::tensor_proto::{EXTERNAL, Payload};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::import::external::External;
use crate::weights::{DataFile, Storage, WeightRef};

/// Reads tensors of one model.
#[derive(Debug)]
pub(super) struct Tensors {
    file: Arc<DataFile>,
    external: External,
    /// Bytes of sparse tensors made dense so far.
    densified: u64,
}

/// Bytes that sparse tensors of one model may take in memory when made dense.
const MAX_DENSIFIED: u64 = 256 << 20;

/// Why a tensor has no data, and under which code that is reported.
struct Fault {
    code: &'static str,
    why: String,
}

fn bad(why: impl Into<String>) -> Fault {
    Fault { code: "bad_tensor", why: why.into() }
}

impl Tensors {
    pub(super) fn new(model: &Path, file: Arc<DataFile>) -> Self {
        Self { file, external: External::new(model), densified: 0 }
    }

    /// A dense tensor. `what` names it in messages (``initializer `w` ``).
    pub(super) fn dense(&mut self, t: &TensorProto, what: &str, report: &mut impl FnMut(Diagnostic)) -> WeightRef {
        let found = self.storage(t);
        finish(&t.dims, t.data_type, found, what, &t.name, report)
    }

    /// A sparse tensor, made dense.
    pub(super) fn sparse(&mut self, t: &SparseTensorProto, what: &str, report: &mut impl FnMut(Diagnostic)) -> WeightRef {
        let (name, number) = t.values.as_ref().map_or((&[][..], 0), |v| (&v.name, v.data_type));
        let found = self.densify(t);
        finish(&t.dims, number, found, what, name, report)
    }

    fn storage(&mut self, t: &TensorProto) -> Result<Storage, Fault> {
        let dtype = dtype(t.data_type)?;
        let (elements, bytes) = size(dtype, &t.dims)?;
        if t.has_segment {
            return Err(bad("it is stored in segments, which are not supported"));
        }
        if t.data_location == EXTERNAL {
            return self.external(t, dtype, bytes);
        }
        if dtype == DType::String {
            if t.string_data.len() as u64 != elements {
                return Err(bad(format!("string_data holds {} strings, but the shape asks for {elements}", t.string_data.len())));
            }
            return Ok(Storage::Strings(t.string_data.iter().map(|s| s.as_ref().into()).collect()));
        }
        if let Some(raw) = &t.raw_data {
            let len = match raw {
                Payload::Here(b) => b.len() as u64,
                Payload::InFile { len, .. } => *len,
            };
            if len != bytes {
                return Err(bad(format!("raw_data holds {len} bytes, but {bytes} are needed for {}", typed(dtype, &t.dims))));
            }
            return Ok(self.payload(raw));
        }
        self.typed_data(t, dtype, elements, bytes)
    }

    fn payload(&self, p: &Payload) -> Storage {
        match p {
            Payload::Here(b) => Storage::Inline(b.as_ref().into()),
            Payload::InFile { from_end, len } => {
                Storage::File { file: self.file.clone(), offset: self.file.len.saturating_sub(*from_end), len: *len }
            }
        }
    }

    /// The bytes of a payload, read if need be.
    fn bytes(&self, p: &Payload) -> Result<Vec<u8>, Fault> {
        match p {
            Payload::Here(b) => Ok(b.to_vec()),
            Payload::InFile { from_end, len } => {
                self.file.read_at(self.file.len.saturating_sub(*from_end), *len).map_err(|e| bad(e.to_string()))
            }
        }
    }

    /// Data in the fields for one element type each.
    fn typed_data(&self, t: &TensorProto, dtype: DType, elements: u64, bytes: u64) -> Result<Storage, Fault> {
        let pieces = match dtype {
            DType::F32 | DType::C64 => Some((&t.float_data, "float_data")),
            DType::F64 | DType::C128 => Some((&t.double_data, "double_data")),
            _ => None,
        };
        if let Some((pieces, field)) = pieces {
            let len = pieces.iter().fold(0u64, |n, p| {
                n + match p {
                    Payload::Here(b) => b.len() as u64,
                    Payload::InFile { len, .. } => *len,
                }
            });
            expect(field, len, bytes, "bytes", dtype, &t.dims)?;
            return match pieces.as_slice() {
                [one] => Ok(self.payload(one)),
                many => {
                    let mut joined = Vec::new();
                    for p in many {
                        joined.extend(self.bytes(p)?);
                    }
                    Ok(Storage::Inline(joined.into()))
                }
            };
        }
        let dense: Vec<u8> = match dtype {
            DType::I64 => {
                expect("int64_data", t.int64_data.len() as u64, elements, "numbers", dtype, &t.dims)?;
                t.int64_data.iter().flat_map(|n| n.to_le_bytes()).collect()
            }
            DType::U64 => {
                expect("uint64_data", t.uint64_data.len() as u64, elements, "numbers", dtype, &t.dims)?;
                t.uint64_data.iter().flat_map(|n| n.to_le_bytes()).collect()
            }
            DType::U32 => {
                expect("uint64_data", t.uint64_data.len() as u64, elements, "numbers", dtype, &t.dims)?;
                collect(&t.uint64_data, |&n| u32::try_from(n).ok().map(u32::to_le_bytes), dtype)?
            }
            // The rest stands in int32_data, one number per element, or per byte for types below eight bits.
            _ => {
                let numbers = if dtype.bits() < 8 { bytes } else { elements };
                expect("int32_data", t.int32_data.len() as u64, numbers, "numbers", dtype, &t.dims)?;
                match dtype.bits() {
                    32 => t.int32_data.iter().flat_map(|n| n.to_le_bytes()).collect(),
                    16 => collect(&t.int32_data, |&n| bits16(n).map(u16::to_le_bytes), dtype)?,
                    _ => collect(&t.int32_data, |&n| bits8(n).map(|b| [b]), dtype)?,
                }
            }
        };
        Ok(Storage::Inline(dense.into()))
    }

    fn external(&mut self, t: &TensorProto, dtype: DType, bytes: u64) -> Result<Storage, Fault> {
        let missing = |why: String| Fault { code: "missing_weight", why };
        let entry = Entry::parse(&t.external_data).map_err(missing)?;
        if dtype == DType::String {
            return Err(bad("its data is external, which strings cannot be"));
        }
        let file = self.external.file(entry.location).map_err(|why| missing(why.to_string()))?;
        let shown = show(entry.location);
        let (offset, len) = (entry.offset, entry.length.unwrap_or(bytes));
        if len != bytes {
            return Err(missing(format!(
                "its external data in `{shown}` has length {len}, but the size of {} is {bytes} bytes",
                typed(dtype, &t.dims)
            )));
        }
        let Some(end) = offset.checked_add(len) else {
            return Err(missing(format!("offset {offset} and length {len} of its external data in `{shown}` overflow")));
        };
        if end > file.len {
            return Err(missing(format!(
                "its external data file `{shown}` is too short: offset {offset} and length {len} need {end} bytes, it has {}",
                file.len
            )));
        }
        Ok(Storage::File { file, offset, len })
    }

    fn densify(&mut self, t: &SparseTensorProto) -> Result<Storage, Fault> {
        let Some(values) = &t.values else { return Err(bad("the sparse tensor has no values")) };
        let dtype = dtype(values.data_type)?;
        if dtype.bits() < 8 {
            return Err(bad(format!("sparse tensors of {dtype} are not supported")));
        }
        let (elements, bytes) = size(dtype, &t.dims)?;
        let nonzero = match values.dims.as_slice() {
            [n] => u64::try_from(*n).map_err(|_| bad("the sparse tensor has a negative number of values"))?,
            _ => return Err(bad("the values of a sparse tensor must have one dimension")),
        };
        if nonzero == 0 {
            return Ok(Storage::Zeros);
        }
        if bytes > MAX_DENSIFIED.saturating_sub(self.densified) {
            return Err(bad(format!("the sparse tensor takes {bytes} bytes when made dense, which is too large")));
        }
        let values = self.all_bytes(values)?;
        let Some(index_proto) = &t.indices else { return Err(bad("the sparse tensor has no indices")) };
        if index_proto.data_type != DType::I64.to_onnx() {
            return Err(bad("the indices of a sparse tensor must be i64"));
        }
        let rank = t.dims.len() as u64;
        let columns = match index_proto.dims.as_slice() {
            [n] if u64::try_from(*n) == Ok(nonzero) => 1,
            [n, r] if u64::try_from(*n) == Ok(nonzero) && u64::try_from(*r) == Ok(rank) => t.dims.len(),
            _ => return Err(bad("the indices of a sparse tensor must be one number, or one per dimension, for each value")),
        };
        let linear = index_proto.dims.len() == 1;
        let indices = self.all_bytes(index_proto)?;
        let (indices, _) = indices.as_chunks::<8>();
        let width = dtype.bits() as usize / 8;
        let mut dense = vec![0; usize::try_from(bytes).map_err(|_| bad("the sparse tensor is too large for this machine"))?];
        for (row, value) in indices.chunks_exact(columns.max(1)).zip(values.chunks_exact(width)) {
            let mut at = 0u64;
            for (index, &dim) in row.iter().zip(if linear { &[-1][..] } else { &t.dims }) {
                let index = i64::from_le_bytes(*index);
                let limit = if linear { elements } else { u64::try_from(dim).unwrap_or(0) };
                match u64::try_from(index) {
                    Ok(i) if i < limit => at = if linear { i } else { at * limit + i },
                    _ => return Err(bad(format!("index {index} of the sparse tensor lies outside its {limit} elements"))),
                }
            }
            let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(width);
            match dense.get_mut(start..start + width) {
                Some(slot) => slot.copy_from_slice(value),
                None => return Err(bad("an index of the sparse tensor lies outside it")),
            }
        }
        self.densified += bytes;
        Ok(Storage::Inline(dense.into()))
    }

    /// All bytes of a dense tensor.
    fn all_bytes(&mut self, t: &TensorProto) -> Result<Vec<u8>, Fault> {
        match self.storage(t)? {
            Storage::Inline(b) => Ok(b.to_vec()),
            Storage::File { file, offset, len } => file.read_at(offset, len).map_err(|e| bad(e.to_string())),
            Storage::Deflated { part, offset, len } => part.read_at(offset, len).map_err(|e| bad(e.to_string())),
            Storage::Strings(_) => Err(bad("sparse tensors of strings are not supported")),
            Storage::Zeros | Storage::Missing(_) => Err(bad("the sparse tensor has no data")),
        }
    }
}

fn finish(
    dims: &[i64],
    number: i32,
    found: Result<Storage, Fault>,
    what: &str,
    name: &[u8],
    report: &mut impl FnMut(Diagnostic),
) -> WeightRef {
    let storage = found.unwrap_or_else(|fault| {
        let why = format!("{what} cannot be read: {}", fault.why);
        report(Diagnostic::error(fault.code, why.clone()).with_value(&String::from_utf8_lossy(name)));
        Storage::Missing(why.into())
    });
    let shape: Option<Box<[u64]>> = dims.iter().map(|&d| u64::try_from(d).ok()).collect();
    // What is read from a tensor of unknown type is refused before anyone looks at the type.
    WeightRef { dtype: DType::from_onnx(number).unwrap_or(DType::U8), shape: shape.unwrap_or_default(), strides: None, storage }
}

fn dtype(number: i32) -> Result<DType, Fault> {
    DType::from_onnx(number).ok_or_else(|| bad(format!("its data type number {number} is unknown to this program")))
}

/// Number of elements and bytes (0 for strings).
fn size(dtype: DType, dims: &[i64]) -> Result<(u64, u64), Fault> {
    let mut elements = Some(1u64);
    let mut empty = false;
    for &d in dims {
        let d = u64::try_from(d).map_err(|_| bad(format!("its shape has the negative dimension {d}")))?;
        empty |= d == 0;
        elements = elements.and_then(|n| n.checked_mul(d));
    }
    let overflow = || bad(format!("its shape {dims:?} asks for more bytes than 64 bits can count"));
    let elements = if empty { 0 } else { elements.ok_or_else(overflow)? };
    let bytes = if dtype == DType::String { 0 } else { dtype.bytes_for(elements).ok_or_else(overflow)? };
    Ok((elements, bytes))
}

fn typed(dtype: DType, dims: &[i64]) -> String {
    let mut out = dtype.to_string();
    out.push('[');
    for (i, d) in dims.iter().take(16).enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&d.to_string());
    }
    out.push_str(if dims.len() > 16 { ",…]" } else { "]" });
    out
}

fn expect(field: &str, has: u64, needs: u64, unit: &str, dtype: DType, dims: &[i64]) -> Result<(), Fault> {
    if has == needs {
        return Ok(());
    }
    let what = typed(dtype, dims);
    Err(bad(if has == 0 {
        format!("it has no data: {what} needs {needs} {unit} in raw_data or {field}")
    } else {
        format!("{field} holds {has} {unit}, but {needs} are needed for {what}")
    }))
}

fn collect<T, const N: usize>(numbers: &[T], f: impl Fn(&T) -> Option<[u8; N]>, dtype: DType) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(numbers.len() * N);
    for n in numbers {
        out.extend(f(n).ok_or_else(|| bad(format!("a number of its data does not fit {dtype}")))?);
    }
    Ok(out)
}

/// A number as sixteen bits, signed or not.
fn bits16(n: i32) -> Option<u16> {
    u16::try_from(n).ok().or_else(|| i16::try_from(n).ok().map(i16::cast_unsigned))
}

/// A number as eight bits, signed or not.
fn bits8(n: i32) -> Option<u8> {
    u8::try_from(n).ok().or_else(|| i8::try_from(n).ok().map(i8::cast_unsigned))
}
