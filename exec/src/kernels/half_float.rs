//! f16 and bf16 tensors as f32 and back: kernels compute half precision in single precision, as accelerators do.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use recut_core::dtype::DType;

use super::{KernelError, RunCtx, parallel};
use crate::tensor::Tensor;

/// Whether this is f16 or bf16.
pub(super) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// The elements of an f16 or bf16 tensor as f32; other tensors as they are.
pub(super) fn widen(ctx: &mut RunCtx<'_>, t: &Tensor) -> Result<Tensor, KernelError> {
    if !is_half(t.dtype()) {
        return Ok(t.clone());
    }
    let mut out = ctx.alloc(DType::F32, t.dims())?;
    widen_into(t, &mut out);
    Ok(out)
}

/// [`widen`] where there is no run: when a kernel is prepared, and for small inputs like scales.
pub(super) fn widened(t: &Tensor) -> Result<Tensor, KernelError> {
    if !is_half(t.dtype()) {
        return Ok(t.clone());
    }
    let mut out = Tensor::zeros(DType::F32, t.dims())?;
    widen_into(t, &mut out);
    Ok(out)
}

fn widen_into(t: &Tensor, out: &mut Tensor) {
    let Some(dst) = out.as_mut_slice::<f32>() else { return };
    if let Some(src) = t.as_slice::<f16>() {
        parallel::map(src, dst, 1, |s, d| s.convert_to_f32_slice(d));
    } else if let Some(src) = t.as_slice::<bf16>() {
        parallel::map(src, dst, 1, |s, d| d.iter_mut().zip(s).for_each(|(d, s)| *d = s.to_f32()));
    }
}

/// An f32 tensor rounded to `dtype` if that is f16 or bf16; else as it is.
pub(super) fn narrow(ctx: &mut RunCtx<'_>, t: Tensor, dtype: DType) -> Result<Tensor, KernelError> {
    let (true, Some(src)) = (is_half(dtype), t.as_slice::<f32>()) else { return Ok(t) };
    let mut out = ctx.alloc(dtype, t.dims())?;
    if let Some(dst) = out.as_mut_slice::<f16>() {
        parallel::map(src, dst, 1, |s, d| d.convert_from_f32_slice(s));
    } else if let Some(dst) = out.as_mut_slice::<bf16>() {
        parallel::map(src, dst, 1, |s, d| d.iter_mut().zip(s).for_each(|(d, s)| *d = bf16::from_f32(*s)));
    }
    if let Some(b) = t.into_buffer() {
        ctx.pool.put(b);
    }
    Ok(out)
}
