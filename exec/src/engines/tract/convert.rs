//! Between our tensors and tract's.

use recut_core::dtype::DType;
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::{DatumType, IntoTensor, TDim, Tensor as TractTensor};
use tract_onnx::tract_hir::internal::f16;

use crate::tensor::{Element, Tensor};

/// tract's name of an element type, where it has it. bf16 goes as f32.
pub(crate) fn datum_type(dtype: DType) -> Option<DatumType> {
    Some(match dtype {
        DType::F32 | DType::Bf16 => DatumType::F32,
        DType::F64 => DatumType::F64,
        DType::F16 => DatumType::F16,
        DType::I8 => DatumType::I8,
        DType::I16 => DatumType::I16,
        DType::I32 => DatumType::I32,
        DType::I64 => DatumType::I64,
        DType::U8 => DatumType::U8,
        DType::U16 => DatumType::U16,
        DType::U32 => DatumType::U32,
        DType::U64 => DatumType::U64,
        DType::Bool => DatumType::Bool,
        DType::String => DatumType::String,
        _ => return None,
    })
}

/// bf16 as f32; other types as they are.
pub(crate) fn widened(t: &Tensor) -> Result<Tensor, String> {
    match t.as_slice::<half::bf16>() {
        Some(v) => {
            let wide: Vec<f32> = v.iter().map(|x| x.to_f32()).collect();
            Tensor::from_slice(t.dims(), &wide).map_err(|e| e.to_string())
        }
        None => Ok(t.clone()),
    }
}

/// f32 rounded to bf16.
pub(crate) fn narrowed(t: &Tensor) -> Result<Tensor, String> {
    let Some(v) = t.as_slice::<f32>() else { return Err(format!("tract gave {} where bf16 was expected", t.dtype())) };
    let narrow: Vec<half::bf16> = v.iter().map(|&x| half::bf16::from_f32(x)).collect();
    Tensor::from_slice(t.dims(), &narrow).map_err(|e| e.to_string())
}

/// A copy for tract.
pub(crate) fn to_tract(t: &Tensor) -> Result<TractTensor, String> {
    fn plain<T: Element + tract_onnx::prelude::Datum + Copy>(t: &Tensor) -> Result<TractTensor, String> {
        let elements = t.as_slice::<T>().unwrap_or_default();
        TractTensor::from_shape(t.dims(), elements).map_err(|e| e.to_string())
    }
    match t.dtype() {
        DType::F32 => plain::<f32>(t),
        DType::F64 => plain::<f64>(t),
        DType::F16 => plain::<f16>(t),
        DType::Bf16 => plain::<f32>(&widened(t)?),
        DType::I8 => plain::<i8>(t),
        DType::I16 => plain::<i16>(t),
        DType::I32 => plain::<i32>(t),
        DType::I64 => plain::<i64>(t),
        DType::U8 => plain::<u8>(t),
        DType::U16 => plain::<u16>(t),
        DType::U32 => plain::<u32>(t),
        DType::U64 => plain::<u64>(t),
        DType::Bool => {
            let bools: Vec<bool> = t.bytes().iter().map(|&b| b != 0).collect();
            TractTensor::from_shape(t.dims(), &bools).map_err(|e| e.to_string())
        }
        DType::String => {
            let strings = t.as_strings().unwrap_or_default().iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect();
            let array = ArrayD::from_shape_vec(t.dims(), strings).map_err(|e| e.to_string())?;
            Ok(array.into_tensor())
        }
        other => Err(format!("tract has no {other} tensors")),
    }
}

/// A copy of what tract made. Its symbolic integers become i64.
pub(crate) fn from_tract(t: &TractTensor) -> Result<Tensor, String> {
    fn plain<T: Element + tract_onnx::prelude::Datum>(t: &TractTensor) -> Result<Tensor, String> {
        let view = t.to_plain_array_view::<T>().map_err(|e| e.to_string())?;
        let made = match view.as_slice() {
            Some(elements) => Tensor::from_slice(t.shape(), elements),
            None => Tensor::from_slice(t.shape(), &view.iter().copied().collect::<Vec<T>>()),
        };
        made.map_err(|e| e.to_string())
    }
    match t.datum_type().unquantized() {
        DatumType::F32 => plain::<f32>(t),
        DatumType::F64 => plain::<f64>(t),
        DatumType::F16 => plain::<f16>(t),
        DatumType::I8 => plain::<i8>(t),
        DatumType::I16 => plain::<i16>(t),
        DatumType::I32 => plain::<i32>(t),
        DatumType::I64 => plain::<i64>(t),
        DatumType::U8 => plain::<u8>(t),
        DatumType::U16 => plain::<u16>(t),
        DatumType::U32 => plain::<u32>(t),
        DatumType::U64 => plain::<u64>(t),
        DatumType::Bool => {
            let view = t.to_plain_array_view::<bool>().map_err(|e| e.to_string())?;
            let bytes: Vec<u8> = view.iter().map(|&b| u8::from(b)).collect();
            Tensor::from_bytes(DType::Bool, t.shape(), &bytes).map_err(|e| e.to_string())
        }
        DatumType::String => {
            let view = t.to_plain_array_view::<String>().map_err(|e| e.to_string())?;
            Tensor::from_strings(t.shape(), view.iter().map(|s| s.as_bytes().into()).collect()).map_err(|e| e.to_string())
        }
        DatumType::TDim => {
            let view = t.to_plain_array_view::<TDim>().map_err(|e| e.to_string())?;
            let ints: Result<Vec<i64>, String> = view.iter().map(|d| d.to_i64().map_err(|e| e.to_string())).collect();
            Tensor::from_slice(t.shape(), &ints?).map_err(|e| e.to_string())
        }
        other => Err(format!("tract gave a tensor of type {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_the_way_there_and_back() {
        let same = |t: Tensor| {
            let back = from_tract(&to_tract(&t).unwrap()).unwrap();
            assert_eq!((back.dtype(), back.dims(), back.bytes()), (t.dtype(), t.dims(), t.bytes()));
        };
        same(Tensor::from_slice(&[2, 2], &[1f32, f32::NAN, -0.0, 3.5]).unwrap());
        same(Tensor::from_slice(&[0, 2], &[] as &[i64]).unwrap());
        same(Tensor::scalar(7u16));
        same(Tensor::from_bytes(DType::Bool, &[2], &[0, 1]).unwrap());
        let s = Tensor::from_strings(&[1], vec![b"x".as_slice().into()]).unwrap();
        assert_eq!(from_tract(&to_tract(&s).unwrap()).unwrap().as_strings(), s.as_strings());
        assert!(to_tract(&Tensor::zeros(DType::F8e5m2, &[1]).unwrap()).is_err());
    }
}
