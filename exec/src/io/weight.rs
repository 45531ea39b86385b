//! Stored tensors of a model, read into aligned memory.

use std::io::{Read, Seek, SeekFrom};

use recut_core::dtype::DType;
use recut_core::weights::{DataFile, Storage, WeightError, WeightRef};

use crate::tensor::{Buffer, Tensor, TensorError, element_bytes};

/// Why a stored tensor could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] WeightError),
    /// Shape and bytes do not agree, or it is too large.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A view reaches outside of what is stored.
    #[error("its strides reach outside of the {0} bytes that are stored")]
    Strides(usize),
}

/// Reads a stored tensor. Types below one byte are unpacked to one byte an element.
///
/// # Errors
/// If the file changed or cannot be read, or what it holds does not fit the shape.
pub fn load_weight(weight: &WeightRef) -> Result<Tensor, LoadError> {
    let too_large = || TensorError::TooLarge { dims: Vec::new(), dtype: weight.dtype };
    let dims = weight.shape.iter().map(|&d| usize::try_from(d).map_err(|_| too_large())).collect::<Result<Vec<_>, _>>()?;
    match &weight.storage {
        Storage::Strings(s) => return Ok(Tensor::from_strings(&dims, s.to_vec())?),
        Storage::Missing(why) => return Err(WeightError::Missing(why.clone()).into()),
        Storage::Zeros => return Ok(Tensor::zeros(weight.dtype, &dims)?),
        Storage::File { .. } | Storage::Deflated { .. } | Storage::Inline(_) => {}
    }
    if weight.strides.is_some() {
        return gather(weight, &dims);
    }
    let mut out = Tensor::zeros(weight.dtype, &dims)?;
    let bits = weight.dtype.bits();
    let stored = weight.dtype.bytes_for(out.len() as u64).and_then(|n| usize::try_from(n).ok()).ok_or_else(too_large)?;
    let wrong = |got: u64| TensorError::WrongLength {
        dims: dims.clone(),
        dtype: weight.dtype,
        want: stored,
        got: usize::try_from(got).unwrap_or(usize::MAX),
    };
    match &weight.storage {
        Storage::File { file, offset, len } if bits >= 8 => {
            if *len != stored as u64 {
                return Err(wrong(*len).into());
            }
            read_into(file, *offset, out.bytes_mut())?;
        }
        _ => {
            let packed = weight.read()?;
            if packed.len() != stored {
                return Err(wrong(packed.len() as u64).into());
            }
            if bits >= 8 { out.bytes_mut().copy_from_slice(&packed) } else { unpack(weight.dtype, &packed, out.bytes_mut()) }
        }
    }
    to_native(weight.dtype, out.bytes_mut());
    Ok(out)
}

/// Reads at `offset` straight into `to`, after checking that the file is still the one that was opened.
fn read_into(file: &DataFile, offset: u64, to: &mut [u8]) -> Result<(), WeightError> {
    let io = |source| WeightError::Io { path: file.path.clone(), source };
    let mut f = std::fs::File::open(&file.path).map_err(io)?;
    let meta = f.metadata().map_err(io)?;
    let inside = offset.checked_add(to.len() as u64).is_some_and(|end| end <= file.len);
    if meta.len() != file.len || meta.modified().ok() != file.modified || !inside {
        return Err(WeightError::Changed(file.path.clone()));
    }
    f.seek(SeekFrom::Start(offset)).map_err(io)?;
    f.read_exact(to).map_err(io)
}

/// A view of its storage, made dense.
fn gather(weight: &WeightRef, dims: &[usize]) -> Result<Tensor, LoadError> {
    let stored = weight.read()?;
    let mut out = Tensor::zeros(weight.dtype, dims)?;
    // Some readers gather already.
    if weight.dtype.bytes_for(out.len() as u64) == Some(stored.len() as u64) && !is_reordered(weight) {
        out.bytes_mut().copy_from_slice(&stored);
        to_native(weight.dtype, out.bytes_mut());
        return Ok(out);
    }
    let width = element_bytes(weight.dtype);
    let strides = weight.strides.as_deref().unwrap_or_default();
    let mut index = vec![0usize; dims.len()];
    for element in out.bytes_mut().chunks_exact_mut(width) {
        let at = index.iter().zip(strides).try_fold(0i64, |sum, (&i, &s)| sum.checked_add(i64::try_from(i).ok()?.checked_mul(s)?));
        let at = at.and_then(|a| usize::try_from(a).ok()).and_then(|a| a.checked_mul(width));
        let bytes = at.and_then(|a| stored.get(a..a.checked_add(width)?)).ok_or(LoadError::Strides(stored.len()))?;
        element.copy_from_slice(bytes);
        for (i, &size) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < size {
                break;
            }
            *i = 0;
        }
    }
    to_native(weight.dtype, out.bytes_mut());
    Ok(out)
}

fn is_reordered(weight: &WeightRef) -> bool {
    let mut dense = 1u64;
    let strides = weight.strides.as_deref().unwrap_or_default();
    weight.shape.iter().zip(strides).rev().any(|(&d, &s)| {
        let differs = d > 1 && u64::try_from(s) != Ok(dense);
        dense = dense.saturating_mul(d);
        differs
    })
}

/// Spreads packed 4- and 2-bit elements, low bits first, to one byte each; signed ones are sign-extended.
pub fn unpack(dtype: DType, packed: &[u8], out: &mut [u8]) {
    let bits = dtype.bits();
    let (per_byte, mask) = (8 / bits as usize, (1u8 << bits) - 1);
    let signed = matches!(dtype, DType::I4 | DType::I2);
    for (i, o) in out.iter_mut().enumerate() {
        let code = packed[i / per_byte] >> (bits as usize * (i % per_byte)) & mask;
        *o = if signed { (((code << (8 - bits)) as i8) >> (8 - bits)) as u8 } else { code };
    }
}

/// From little-endian to the machine's byte order.
pub(crate) fn to_native(dtype: DType, bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        let width = match dtype {
            DType::C64 => 4,
            DType::C128 => 8,
            d => element_bytes(d),
        };
        if width > 1 {
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
    }
}

/// A tensor from packed or dense little-endian bytes, as files hold it.
///
/// # Errors
/// If their number does not fit the shape.
pub fn from_file_bytes(dtype: DType, dims: &[usize], stored: &[u8]) -> Result<Tensor, TensorError> {
    if dtype.bits() >= 8 {
        let mut t = Tensor::from_bytes(dtype, dims, stored)?;
        to_native(dtype, t.bytes_mut());
        return Ok(t);
    }
    let mut t = Tensor::zeros(dtype, dims)?;
    let want = dtype.bytes_for(t.len() as u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    if want != stored.len() {
        return Err(TensorError::WrongLength { dims: dims.to_vec(), dtype, want, got: stored.len() });
    }
    unpack(dtype, stored, t.bytes_mut());
    Ok(t)
}

/// Packs a tensor's elements as files hold them: the inverse of [`from_file_bytes`].
#[must_use]
pub fn to_file_bytes(t: &Tensor) -> Vec<u8> {
    let bits = t.dtype().bits();
    if bits == 0 || bits >= 8 {
        let mut bytes = t.bytes().to_vec();
        to_native(t.dtype(), &mut bytes);
        return bytes;
    }
    let (per_byte, mask) = (8 / bits as usize, (1u8 << bits) - 1);
    let byte = |elements: &[u8]| elements.iter().enumerate().fold(0, |b, (i, e)| b | (e & mask) << (bits as usize * i));
    t.bytes().chunks(per_byte).map(byte).collect()
}

/// An empty allocation of the right length for a tensor, to read into.
pub(crate) fn buffer_for(dtype: DType, dims: &[usize]) -> Result<Buffer, TensorError> {
    let t = Tensor::zeros(dtype, dims)?;
    Ok(t.into_buffer().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_integers_are_sign_extended_and_packed_again() {
        let w = WeightRef::inline(DType::I4, &[3], vec![0xf7, 0x08]);
        let t = load_weight(&w).unwrap();
        assert_eq!(t.as_slice::<i8>().unwrap(), [7, -1, -8]);
        assert_eq!(to_file_bytes(&t), [0xf7, 0x08]);
        let w = WeightRef::inline(DType::U2, &[5], vec![0b11_10_01_00, 0b10]);
        assert_eq!(load_weight(&w).unwrap().as_slice::<u8>().unwrap(), [0, 1, 2, 3, 2]);
    }

    #[test]
    fn wrong_lengths_are_errors() {
        assert!(load_weight(&WeightRef::inline(DType::F32, &[3], vec![0; 8])).is_err());
        assert!(load_weight(&WeightRef::inline(DType::U4, &[3], vec![0; 1])).is_err());
    }

    #[test]
    fn a_rewritten_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.bin");
        std::fs::write(&path, [0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
        let file = std::sync::Arc::new(DataFile::stat(&path).unwrap());
        let storage = Storage::File { file, offset: 4, len: 4 };
        let w = WeightRef { dtype: DType::F32, shape: [1].into(), strides: None, storage };
        assert_eq!(load_weight(&w).unwrap().as_slice::<f32>().unwrap(), [2.0]);
        std::fs::write(&path, [0; 4]).unwrap();
        assert!(load_weight(&w).unwrap_err().to_string().contains("changed"));
    }

    #[test]
    fn transposed_views_are_gathered() {
        let mut w = WeightRef::inline(DType::I8, &[2, 2], vec![1, 2, 3, 4]);
        w.strides = Some([1, 2].into());
        assert_eq!(load_weight(&w).unwrap().as_slice::<i8>().unwrap(), [1, 3, 2, 4]);
        w.strides = Some([2, 9].into());
        assert!(load_weight(&w).is_err());
    }
}
