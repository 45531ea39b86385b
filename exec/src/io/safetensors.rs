//! The safetensors format.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use recut_core::dtype::DType;
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::weight::{from_file_bytes, to_native};
use super::{ArrayError, Arrays};
use crate::tensor::Tensor;

pub(super) fn read(path: &Path, mut file: BufReader<File>, len: u64) -> Result<Arrays, ArrayError> {
    let fail = |e: &dyn std::fmt::Display| ArrayError::reading(path, None, e.to_string());
    let mut start = [0u8; 8];
    file.read_exact(&mut start).map_err(|e| fail(&e))?;
    let header = u64::from_le_bytes(start);
    if header > len.saturating_sub(8) {
        return Err(fail(&format!("its header claims {header} bytes, the file has {len}")));
    }
    // The crate's own reader wants the whole file in memory; its metadata checks the header as well.
    let mut bytes = Vec::new();
    file.by_ref().take(header).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    let metadata: Metadata = serde_json::from_slice(&bytes).map_err(|e| fail(&format!("its header is broken: {e}")))?;
    let tensors = metadata.tensors();
    let data = 8 + header;
    let mut arrays = Arrays::new();
    for name in metadata.offset_keys() {
        let Some(info) = tensors.get(&name) else { continue };
        let fail = |message: String| ArrayError::reading(path, Some(&name), message);
        let dtype = dtype(info.dtype).ok_or_else(|| fail(format!("its type {:?} is not known", info.dtype)))?;
        let (from, to) = info.data_offsets;
        let end = data.checked_add(to as u64).filter(|&e| e <= len && from <= to);
        if end.is_none() {
            return Err(fail(format!("its bytes {from}..{to} are outside of the file")));
        }
        file.seek(SeekFrom::Start(data + from as u64)).map_err(|e| fail(e.to_string()))?;
        let t = if dtype.bits() < 8 {
            let mut packed = vec![0; to - from];
            file.read_exact(&mut packed).map_err(|e| fail(e.to_string()))?;
            from_file_bytes(dtype, &info.shape, &packed).map_err(|e| fail(e.to_string()))?
        } else {
            let mut t = Tensor::zeros(dtype, &info.shape).map_err(|e| fail(e.to_string()))?;
            if t.byte_len() != to - from {
                return Err(fail(format!("it has {} bytes, its shape {:?} takes {}", to - from, info.shape, t.byte_len())));
            }
            file.read_exact(t.bytes_mut()).map_err(|e| fail(e.to_string()))?;
            to_native(dtype, t.bytes_mut());
            t
        };
        arrays.insert(name, t);
    }
    Ok(arrays)
}

fn dtype(d: Dtype) -> Option<DType> {
    Some(match d {
        Dtype::BOOL => DType::Bool,
        Dtype::F4 => DType::F4e2m1,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::F8_E5M2 => DType::F8e5m2,
        Dtype::F8_E4M3 => DType::F8e4m3fn,
        Dtype::F8_E8M0 => DType::F8e8m0,
        Dtype::F8_E4M3FNUZ => DType::F8e4m3fnuz,
        Dtype::F8_E5M2FNUZ => DType::F8e5m2fnuz,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::Bf16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::F32 => DType::F32,
        Dtype::C64 => DType::C64,
        Dtype::F64 => DType::F64,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::io::load_arrays;

    #[test]
    fn tensors_are_read_and_offsets_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        let write = |header: &str, data: &[u8]| {
            let mut f = (header.len() as u64).to_le_bytes().to_vec();
            f.extend(header.as_bytes());
            f.extend(data);
            std::fs::write(&path, f).unwrap();
        };
        write(r#"{"x":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#, &[0x80, 0x3f, 0, 0x40]);
        let arrays = load_arrays(&path).unwrap();
        assert_eq!(arrays["x"].as_slice::<half::bf16>().unwrap(), [half::bf16::from_f32(1.0), half::bf16::from_f32(2.0)]);
        write(r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, &[0; 4]);
        assert!(load_arrays(&path).is_err());
        write(r#"{"x":{"dtype":"F32","shape":[99999999999,99999999999],"data_offsets":[0,8]}}"#, &[0; 8]);
        assert!(load_arrays(&path).is_err());
        std::fs::write(&path, b"\xff\xff\xff\xff\xff\xff\xff\x7f{").unwrap();
        assert!(load_arrays(&path).is_err());
    }
}
