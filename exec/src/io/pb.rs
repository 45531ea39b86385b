//! ONNX tensors in files of their own (`input_0.pb` of test data sets).

use std::io::Read;

use prost::Message;
use recut_core::dtype::DType;
use tract_onnx::pb::TensorProto;

use super::weight::from_file_bytes;
use crate::tensor::{Tensor, element_count};

/// Largest file that is read.
const MAX_BYTES: u64 = 2 << 30;

/// Reads a tensor with its name, if it has one.
pub(super) fn read(from: &mut dyn Read, len: u64) -> Result<(Option<String>, Tensor), String> {
    if len > MAX_BYTES {
        return Err(format!("it has {len} bytes, more than a protobuf message can"));
    }
    let mut bytes = Vec::new();
    from.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    let proto = TensorProto::decode(bytes.as_slice()).map_err(|e| format!("it is no ONNX tensor: {e}"))?;
    let tensor = tensor(&proto)?;
    Ok(((!proto.name.is_empty()).then_some(proto.name), tensor))
}

fn tensor(p: &TensorProto) -> Result<Tensor, String> {
    let dtype = DType::from_onnx(p.data_type).ok_or_else(|| format!("its type {} is not known", p.data_type))?;
    let dims = p.dims.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_| format!("its shape {:?} is not valid", p.dims))?;
    if !p.external_data.is_empty() {
        return Err("its data lies in another file, which is not read here".to_owned());
    }
    let count = element_count(&dims).ok_or("its shape overflows")?;
    let fits = |n: usize| if n == count { Ok(()) } else { Err(format!("it has {n} elements, its shape {dims:?} takes {count}")) };
    if dtype == DType::String {
        fits(p.string_data.len())?;
        return Tensor::from_strings(&dims, p.string_data.iter().map(|s| s.as_slice().into()).collect()).map_err(|e| e.to_string());
    }
    if !p.raw_data.is_empty() || count == 0 {
        return from_file_bytes(dtype, &dims, &p.raw_data).map_err(|e| e.to_string());
    }
    let bytes: Vec<u8> = match dtype {
        DType::F32 | DType::C64 => {
            fits(if dtype == DType::C64 { p.float_data.len() / 2 } else { p.float_data.len() })?;
            p.float_data.iter().flat_map(|x| x.to_le_bytes()).collect()
        }
        DType::F64 | DType::C128 => p.double_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I64 => p.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U64 => p.uint64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        // Stored widened, the value in the low bits.
        DType::U32 => p.uint64_data.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect(),
        DType::I32 => p.int32_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ if dtype.bits() == 16 => p.int32_data.iter().flat_map(|x| (*x as u16).to_le_bytes()).collect(),
        // One-byte types; packed ones have a byte of elements in each entry.
        _ => p.int32_data.iter().map(|x| *x as u8).collect(),
    };
    from_file_bytes(dtype, &dims, &bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_data_are_read() {
        let mut p = TensorProto { dims: vec![2], data_type: 1, name: "x".to_owned(), ..Default::default() };
        p.float_data = vec![1.0, 2.0];
        let bytes = p.encode_to_vec();
        let (name, t) = read(&mut bytes.as_slice(), bytes.len() as u64).unwrap();
        assert_eq!((name.as_deref(), t.as_slice::<f32>().unwrap()), (Some("x"), [1.0, 2.0].as_slice()));
        p.data_type = 10;
        p.int32_data = vec![0x3c00, 0x4000];
        assert_eq!(tensor(&p).unwrap().as_slice::<half::f16>().unwrap()[1].to_f32(), 2.0);
        p.dims = vec![3];
        assert!(tensor(&p).is_err());
        p.dims = vec![-1];
        assert!(tensor(&p).is_err());
        assert!(read(&mut b"garbage".as_slice(), 7).is_err());
    }
}
