//! Kernels that are written for `f32` and `f64` and take `f16` and `bf16` by conversion.

use smallvec::SmallVec;

use super::half_float::{is_half, narrow, widen, widened};
use super::{Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx};
use crate::tensor::{Element, Tensor, Value};
use crate::{invalid, kernels::kernel};

/// `f32` or `f64`: what floating-point kernels compute in.
pub(super) trait Real:
    Element
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + std::ops::DivAssign
    + std::iter::Sum
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    /// The nearest value of this type.
    fn of(x: f64) -> Self;
    /// The same value as `f64`.
    fn wide(self) -> f64;
    fn exp(self) -> Self;
    fn tanh(self) -> Self;
    fn abs(self) -> Self;
    fn is_nan(self) -> bool;
    fn powf(self, p: Self) -> Self;
    fn max(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
}

macro_rules! real {
    ($($t:ident),*) => {$(
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $t::INFINITY;
            #[inline]
            fn of(x: f64) -> Self { x as $t }
            #[inline]
            fn wide(self) -> f64 { f64::from(self) }
            #[inline]
            fn exp(self) -> Self { $t::exp(self) }
            #[inline]
            fn tanh(self) -> Self { $t::tanh(self) }
            #[inline]
            fn is_nan(self) -> bool { $t::is_nan(self) }
            #[inline]
            fn abs(self) -> Self { $t::abs(self) }
            #[inline]
            fn powf(self, p: Self) -> Self { $t::powf(self, p) }
            #[inline]
            fn max(self, o: Self) -> Self { $t::max(self, o) }
            #[inline]
            fn min(self, o: Self) -> Self { $t::min(self, o) }
        }
    )*};
}
real!(f32, f64);

/// Runs `$body` with `$t` as the Rust type of a floating-point `$dtype`; an error that names `$what` for others.
macro_rules! by_float {
    ($dtype:expr, $what:expr, $t:ident => $body:expr) => {
        match $dtype {
            recut_core::dtype::DType::F32 => {
                type $t = f32;
                $body
            }
            recut_core::dtype::DType::F64 => {
                type $t = f64;
                $body
            }
            other => $crate::invalid!("{} is {other}, expected a floating-point type", $what),
        }
    };
}
pub(super) use by_float;

/// The elements of a tensor that was just made, to write.
pub(super) fn elements_mut<T: Element>(t: &mut Tensor) -> Result<&mut [T], KernelError> {
    let dtype = t.dtype();
    t.as_mut_slice::<T>().ok_or_else(|| KernelError::Invalid(format!("a tensor is {dtype}, expected {}", T::DTYPE)))
}

/// A new tensor of `T` with unspecified contents.
pub(super) fn alloc<T: Element>(ctx: &mut RunCtx<'_>, dims: &[usize]) -> Result<Tensor, KernelError> {
    Ok(ctx.alloc(T::DTYPE, dims)?)
}

/// Input tensors by position; `None` where left out.
pub(super) struct Args(SmallVec<[Option<Tensor>; 6]>);

impl Args {
    /// The tensors as they are given.
    pub(super) fn new(inputs: &Inputs<'_>) -> Result<Self, KernelError> {
        (0..inputs.len()).map(|i| Ok(inputs.optional(i)?.cloned())).collect::<Result<_, _>>().map(Self)
    }

    /// Input `i`.
    pub(super) fn get(&self, i: usize) -> Result<&Tensor, KernelError> {
        self.opt(i).ok_or_else(|| KernelError::Invalid(format!("input {i} is missing")))
    }

    /// Input `i`, where given.
    pub(super) fn opt(&self, i: usize) -> Option<&Tensor> {
        self.0.get(i)?.as_ref()
    }

    /// Elements of input `i`.
    pub(super) fn slice<T: Element>(&self, i: usize) -> Result<&[T], KernelError> {
        slice(self.get(i)?, i)
    }

    /// Elements of input `i`, where given.
    pub(super) fn opt_slice<T: Element>(&self, i: usize) -> Result<Option<&[T]>, KernelError> {
        self.opt(i).map(|t| slice(t, i)).transpose()
    }

    /// Integers of input `i` (i32 or i64), where given.
    pub(super) fn ints(&self, i: usize) -> Result<Option<Vec<i64>>, KernelError> {
        let Some(t) = self.opt(i) else { return Ok(None) };
        if let Some(v) = t.as_slice::<i64>() {
            return Ok(Some(v.to_vec()));
        }
        match t.as_slice::<i32>() {
            Some(v) => Ok(Some(v.iter().map(|&x| i64::from(x)).collect())),
            None => invalid!("input {i} is {}, expected i64", t.dtype()),
        }
    }
}

fn slice<T: Element>(t: &Tensor, i: usize) -> Result<&[T], KernelError> {
    t.as_slice().ok_or_else(|| KernelError::Invalid(format!("input {i} is {}, expected {}", t.dtype(), T::DTYPE)))
}

/// Output tensors by position.
pub(super) type Outs = SmallVec<[Option<Tensor>; 2]>;

/// A kernel over tensors in which `f16` and `bf16` inputs arrive as `f32`, and `f32` outputs leave as the type of the first such input.
/// Constant inputs are converted once.
pub(super) fn float_kernel<F>(ctx: &PrepareCtx<'_>, f: F) -> Result<Box<dyn Kernel>, KernelError>
where
    F: Fn(&mut RunCtx<'_>, &Args) -> Result<Outs, KernelError> + Send + Sync + 'static,
{
    let wide_constants: Vec<Option<Tensor>> =
        ctx.constants.iter().map(|c| c.as_ref().filter(|t| is_half(t.dtype())).map(widened).transpose()).collect::<Result<_, _>>()?;
    kernel(move |ctx, inputs| {
        let mut args = Args::new(&inputs)?;
        let mut half = None;
        for (i, slot) in args.0.iter_mut().enumerate() {
            let Some(t) = slot else { continue };
            if is_half(t.dtype()) {
                half.get_or_insert(t.dtype());
                *t = match wide_constants.get(i) {
                    Some(Some(w)) if w.dims() == t.dims() => w.clone(),
                    _ => widen(ctx, t)?,
                };
            }
        }
        let outs = f(ctx, &args)?;
        outs.into_iter()
            .map(|o| match (o, half) {
                (Some(t), Some(h)) => Ok(Some(Value::Tensor(narrow(ctx, t, h)?))),
                (t, _) => Ok(t.map(Value::Tensor)),
            })
            .collect::<Result<Outputs, _>>()
    })
}

/// A kernel over tensors as they are.
pub(super) fn tensor_kernel<F>(f: F) -> Result<Box<dyn Kernel>, KernelError>
where
    F: Fn(&mut RunCtx<'_>, &Args) -> Result<Outs, KernelError> + Send + Sync + 'static,
{
    kernel(move |ctx, inputs| Ok(f(ctx, &Args::new(&inputs)?)?.into_iter().map(|t| t.map(Value::Tensor)).collect()))
}

/// A single output.
pub(super) fn out(t: Tensor) -> Outs {
    smallvec::smallvec![Some(t)]
}
