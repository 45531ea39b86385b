//! Element-wise operators of one operand: arithmetic, rounding, trigonometry, predicates.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, kernel, one, parallel, vecmath};
use crate::tensor::{Element, Tensor};
use crate::unsupported;

type Made = Result<Box<dyn Kernel>, KernelError>;

/// What an operator does to integers, where it takes them.
#[derive(Clone, Copy, PartialEq)]
enum OnInts {
    Refuse,
    Abs,
    Neg,
    Sign,
    Relu,
}

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Abs", 1, |_| float_map(1, OnInts::Abs, f32::abs, f64::abs)),
    Entry::onnx("Neg", 1, |_| float_map(1, OnInts::Neg, |x| -x, |x| -x)),
    Entry::onnx("Sign", 9, |_| float_map(1, OnInts::Sign, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }, sign64)),
    Entry::onnx("Relu", 1, |_| float_map(1, OnInts::Relu, |x| if x < 0.0 { 0.0 } else { x }, |x| if x < 0.0 { 0.0 } else { x })),
    Entry::onnx("Floor", 1, |_| float_map(4, OnInts::Refuse, f32::floor, f64::floor)),
    Entry::onnx("Ceil", 1, |_| float_map(4, OnInts::Refuse, f32::ceil, f64::ceil)),
    Entry::onnx("Round", 11, |_| float_map(4, OnInts::Refuse, f32::round_ties_even, f64::round_ties_even)),
    Entry::onnx("Sqrt", 1, |_| float_map(4, OnInts::Refuse, f32::sqrt, f64::sqrt)),
    Entry::onnx("Reciprocal", 1, |_| float_map(2, OnInts::Refuse, |x| 1.0 / x, |x| 1.0 / x)),
    Entry::onnx("Exp", 1, |_| float_map(8, OnInts::Refuse, vecmath::exp, f64::exp)),
    Entry::onnx("Log", 1, |_| float_map(16, OnInts::Refuse, f32::ln, f64::ln)),
    Entry::onnx("Sin", 7, |_| float_map(16, OnInts::Refuse, f32::sin, f64::sin)),
    Entry::onnx("Cos", 7, |_| float_map(16, OnInts::Refuse, f32::cos, f64::cos)),
    Entry::onnx("Tan", 7, |_| float_map(16, OnInts::Refuse, f32::tan, f64::tan)),
    Entry::onnx("Asin", 7, |_| float_map(16, OnInts::Refuse, f32::asin, f64::asin)),
    Entry::onnx("Acos", 7, |_| float_map(16, OnInts::Refuse, f32::acos, f64::acos)),
    Entry::onnx("Atan", 7, |_| float_map(16, OnInts::Refuse, f32::atan, f64::atan)),
    Entry::onnx("Sinh", 9, |_| float_map(16, OnInts::Refuse, f32::sinh, f64::sinh)),
    Entry::onnx("Cosh", 9, |_| float_map(16, OnInts::Refuse, f32::cosh, f64::cosh)),
    Entry::onnx("Asinh", 9, |_| float_map(16, OnInts::Refuse, f32::asinh, f64::asinh)),
    Entry::onnx("Acosh", 9, |_| float_map(16, OnInts::Refuse, f32::acosh, f64::acosh)),
    Entry::onnx("Atanh", 9, |_| float_map(16, OnInts::Refuse, f32::atanh, f64::atanh)),
    Entry::onnx("Tanh", 1, |_| float_map(10, OnInts::Refuse, vecmath::tanh, f64::tanh)),
    Entry::onnx("Erf", 9, |_| float_map(12, OnInts::Refuse, vecmath::erf, vecmath::erf64)),
    Entry::onnx("Sigmoid", 1, |_| float_map(10, OnInts::Refuse, vecmath::sigmoid, |x| 1.0 / (1.0 + (-x).exp()))),
    Entry::onnx("Not", 1, |_| byte_map(&[DType::Bool], |x| u8::from(x == 0))),
    Entry::onnx("BitwiseNot", 18, |_| kernel(bitwise_not)),
    Entry::onnx("IsNaN", 9, |_| kernel(|ctx, inputs| predicate(ctx, inputs.tensor(0)?, f64::is_nan))),
    Entry::onnx("IsInf", 10, is_inf),
];

fn sign64(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

/// Applies `f` to every element of `x`, in place where `x` was taken.
fn apply<T: Element>(
    ctx: &mut RunCtx<'_>,
    inputs: &mut Inputs<'_>,
    weight: usize,
    f: impl Fn(T) -> T + Sync,
) -> Result<Tensor, KernelError> {
    if let Some(mut t) = inputs.take_unique(0) {
        if let Some(x) = t.as_mut_slice::<T>() {
            parallel::pieces(x, 1, weight, |_, piece| piece.iter_mut().for_each(|x| *x = f(*x)));
        }
        return Ok(t);
    }
    let x = inputs.tensor(0)?;
    let mut out = ctx.alloc(x.dtype(), x.dims())?;
    if let (Some(src), Some(dst)) = (x.as_slice::<T>(), out.as_mut_slice::<T>()) {
        parallel::map(src, dst, weight, |s, d| d.iter_mut().zip(s).for_each(|(d, &s)| *d = f(s)));
    }
    Ok(out)
}

/// Half precision, through blocks of f32 that stay in the nearest cache.
macro_rules! half_map {
    ($name:ident, $T:ty, $load:expr, $store:expr) => {
        fn $name(ctx: &mut RunCtx<'_>, x: &Tensor, weight: usize, f: impl Fn(f32) -> f32 + Sync) -> Result<Tensor, KernelError> {
            let mut out = ctx.alloc(x.dtype(), x.dims())?;
            if let (Some(src), Some(dst)) = (x.as_slice::<$T>(), out.as_mut_slice::<$T>()) {
                parallel::map(src, dst, weight + 1, |s, d| {
                    let mut block = [0f32; 256];
                    for (s, d) in s.chunks(256).zip(d.chunks_mut(256)) {
                        let block = &mut block[..s.len()];
                        $load(s, block);
                        block.iter_mut().for_each(|x| *x = f(*x));
                        $store(d, block);
                    }
                });
            }
            Ok(out)
        }
    };
}
half_map!(f16_map, f16, |s: &[f16], b: &mut [f32]| s.convert_to_f32_slice(b), |d: &mut [f16], b: &[f32]| d.convert_from_f32_slice(b));
half_map!(
    bf16_map,
    bf16,
    |s: &[bf16], b: &mut [f32]| b.iter_mut().zip(s).for_each(|(b, s)| *b = s.to_f32()),
    |d: &mut [bf16], b: &[f32]| d.iter_mut().zip(b).for_each(|(d, b)| *d = bf16::from_f32(*b))
);

fn float_map(
    weight: usize,
    ints: OnInts,
    f: impl Fn(f32) -> f32 + Send + Sync + 'static,
    g: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Made {
    kernel(move |ctx, mut inputs| run_map(ctx, &mut inputs, weight, ints, &f, &g))
}

/// A kernel that maps floating-point elements: `f` in single precision (and half, through it), `g` in double.
pub(super) fn map_floats(
    weight: usize,
    f: impl Fn(f32) -> f32 + Send + Sync + 'static,
    g: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Made {
    float_map(weight, OnInts::Refuse, f, g)
}

fn run_map(
    ctx: &mut RunCtx<'_>,
    inputs: &mut Inputs<'_>,
    weight: usize,
    ints: OnInts,
    f: &(impl Fn(f32) -> f32 + Sync),
    g: &(impl Fn(f64) -> f64 + Sync),
) -> Result<Outputs, KernelError> {
    Ok(one(match inputs.tensor(0)?.dtype() {
        DType::F32 => apply::<f32>(ctx, inputs, weight, f)?,
        DType::F64 => apply::<f64>(ctx, inputs, weight, g)?,
        DType::F16 => f16_map(ctx, inputs.tensor(0)?, weight, f)?,
        DType::Bf16 => bf16_map(ctx, inputs.tensor(0)?, weight, f)?,
        _ => int_map(ctx, inputs, ints)?,
    }))
}

/// The integer side of [`run_map`]. It stands alone because closures inside a generic function are compiled once for
/// each of its instances.
fn int_map(ctx: &mut RunCtx<'_>, inputs: &mut Inputs<'_>, ints: OnInts) -> Result<Tensor, KernelError> {
    macro_rules! int {
        (signed $T:ty) => {
            match ints {
                OnInts::Abs => apply::<$T>(ctx, inputs, 1, |x| x.wrapping_abs()),
                OnInts::Neg => apply::<$T>(ctx, inputs, 1, |x| x.wrapping_neg()),
                OnInts::Sign => apply::<$T>(ctx, inputs, 1, |x| x.signum()),
                _ => apply::<$T>(ctx, inputs, 1, |x| x.max(0)),
            }
        };
        (unsigned $T:ty) => {
            match ints {
                OnInts::Neg => apply::<$T>(ctx, inputs, 1, |x| x.wrapping_neg()),
                OnInts::Sign => apply::<$T>(ctx, inputs, 1, |x| x.min(1)),
                _ => apply::<$T>(ctx, inputs, 1, |x| x),
            }
        };
    }
    match inputs.tensor(0)?.dtype() {
        dtype if ints == OnInts::Refuse => unsupported!("elements of type {dtype}"),
        DType::I8 => int!(signed i8),
        DType::I16 => int!(signed i16),
        DType::I32 => int!(signed i32),
        DType::I64 => int!(signed i64),
        DType::U8 => int!(unsigned u8),
        DType::U16 => int!(unsigned u16),
        DType::U32 => int!(unsigned u32),
        DType::U64 => int!(unsigned u64),
        dtype => unsupported!("elements of type {dtype}"),
    }
}

fn byte_map(types: &'static [DType], f: fn(u8) -> u8) -> Made {
    kernel(move |ctx, mut inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        if !types.contains(&dtype) {
            return crate::invalid!("input 0 is {dtype}, expected {}", types[0]);
        }
        Ok(one(apply::<u8>(ctx, &mut inputs, 1, f)?))
    })
}

fn bitwise_not(ctx: &mut RunCtx<'_>, mut inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let inputs = &mut inputs;
    Ok(one(match inputs.tensor(0)?.dtype() {
        DType::I8 => apply::<i8>(ctx, inputs, 1, |x| !x)?,
        DType::I16 => apply::<i16>(ctx, inputs, 1, |x| !x)?,
        DType::I32 => apply::<i32>(ctx, inputs, 1, |x| !x)?,
        DType::I64 => apply::<i64>(ctx, inputs, 1, |x| !x)?,
        DType::U8 => apply::<u8>(ctx, inputs, 1, |x| !x)?,
        DType::U16 => apply::<u16>(ctx, inputs, 1, |x| !x)?,
        DType::U32 => apply::<u32>(ctx, inputs, 1, |x| !x)?,
        DType::U64 => apply::<u64>(ctx, inputs, 1, |x| !x)?,
        other => return unsupported!("elements of type {other}"),
    }))
}

fn predicate(ctx: &mut RunCtx<'_>, x: &Tensor, f: impl Fn(f64) -> bool + Sync) -> Result<Outputs, KernelError> {
    fn fill<T: Element>(x: &Tensor, out: &mut [u8], f: impl Fn(T) -> bool + Sync) {
        parallel::map(x.as_slice::<T>().unwrap_or_default(), out, 1, |s, d| d.iter_mut().zip(s).for_each(|(d, &s)| *d = u8::from(f(s))));
    }
    let mut out = ctx.alloc(DType::Bool, x.dims())?;
    let dst = out.as_mut_slice::<u8>().unwrap_or_default();
    match x.dtype() {
        DType::F32 => fill::<f32>(x, dst, |x| f(f64::from(x))),
        DType::F64 => fill::<f64>(x, dst, f),
        DType::F16 => fill::<f16>(x, dst, |x| f(x.to_f64())),
        DType::Bf16 => fill::<bf16>(x, dst, |x| f(x.to_f64())),
        d if d.is_float() => fill::<u8>(x, dst, |x| f(f64::from(super::small_float::decode(d, x)))),
        other => return unsupported!("elements of type {other}"),
    }
    Ok(one(out))
}

fn is_inf(ctx: &PrepareCtx<'_>) -> Made {
    let negative = Attrs(ctx.node).flag("detect_negative", true)?;
    let positive = Attrs(ctx.node).flag("detect_positive", true)?;
    kernel(move |ctx, inputs| {
        predicate(ctx, inputs.tensor(0)?, |x| x.is_infinite() && if x.is_sign_negative() { negative } else { positive })
    })
}
