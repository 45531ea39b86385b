//! Element-wise arithmetic of two or more operands: Add to Pow, Mod, bit operations, variadic Max to Mean, PRelu.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::broadcast::{Plan, zip, zip_in_place};
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, half_float, kernel, one};
use crate::tensor::{Dims, Element, Tensor};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Add", 1, |ctx| binary(ctx, Op::Add)),
    Entry::onnx("Sub", 1, |ctx| binary(ctx, Op::Sub)),
    Entry::onnx("Mul", 1, |ctx| binary(ctx, Op::Mul)),
    Entry::onnx("Div", 1, |ctx| binary(ctx, Op::Div)),
    Entry::onnx("Pow", 1, |ctx| binary(ctx, Op::Pow)),
    Entry::onnx("PRelu", 1, p_relu),
    Entry::onnx("Mod", 10, |ctx| binary(ctx, if Attrs(ctx.node).flag("fmod", false)? { Op::Fmod } else { Op::Mod })),
    Entry::onnx("BitwiseAnd", 18, |ctx| binary(ctx, Op::BitAnd)),
    Entry::onnx("BitwiseOr", 18, |ctx| binary(ctx, Op::BitOr)),
    Entry::onnx("BitwiseXor", 18, |ctx| binary(ctx, Op::BitXor)),
    Entry::onnx("BitShift", 11, bit_shift),
    Entry::onnx("Max", 1, |_| kernel(|ctx, inputs| variadic(ctx, inputs, Op::Max))),
    Entry::onnx("Min", 1, |_| kernel(|ctx, inputs| variadic(ctx, inputs, Op::Min))),
    Entry::onnx("Sum", 1, |_| kernel(|ctx, inputs| variadic(ctx, inputs, Op::Add))),
    Entry::onnx("Mean", 1, |_| kernel(mean)),
];

/// An operation on two elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    /// Remainder with the divisor's sign.
    Mod,
    /// Remainder with the dividend's sign.
    Fmod,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Max,
    Min,
    PRelu,
}

/// The second operand as operator sets before 7 align it: where `broadcast` is set, at dimension `axis` of the first.
pub(super) fn aligned(a: &Tensor, b: &Tensor, axis: Option<i64>) -> Result<Tensor, KernelError> {
    let Some(axis) = axis else { return Ok(b.clone()) };
    let at = super::resolve_axis(axis, a.rank().max(1))?;
    let Some(trailing) = a.rank().checked_sub(at + b.rank()) else {
        return invalid!("the second operand's shape {:?} does not fit into {:?} at axis {axis}", b.dims(), a.dims());
    };
    let mut dims = Dims::from_slice(b.dims());
    dims.extend(std::iter::repeat_n(1, trailing));
    Ok(b.reshaped(&dims)?)
}

/// The `axis` attribute of operator sets before 7.
pub(super) fn legacy_axis(ctx: &PrepareCtx<'_>) -> Result<Option<i64>, KernelError> {
    if ctx.opset < 7 && Attrs(ctx.node).flag("broadcast", false)? { Attrs(ctx.node).opt_int("axis") } else { Ok(None) }
}

fn binary(ctx: &PrepareCtx<'_>, op: Op) -> Made {
    let axis = legacy_axis(ctx)?;
    kernel(move |ctx, mut inputs| {
        let b = aligned(inputs.tensor(0)?, inputs.tensor(1)?, axis)?;
        let dtype = inputs.tensor(0)?.dtype();
        let b = if op == Op::Pow && b.dtype() != dtype { return pow_mixed(ctx, inputs.tensor(0)?, &b) } else { b };
        let a = match inputs.take_unique(0) {
            Some(a) => a,
            None => inputs.tensor(0)?.clone(),
        };
        Ok(one(apply(ctx, a, &b, op)?))
    })
}

/// `op` of two tensors of one type; written over `a` where nothing shares it and the shape allows.
pub(super) fn apply(ctx: &mut RunCtx<'_>, a: Tensor, b: &Tensor, op: Op) -> Result<Tensor, KernelError> {
    let dtype = a.dtype();
    if dtype != b.dtype() {
        return invalid!("the operands are {dtype} and {}: their types must be the same", b.dtype());
    }
    match dtype {
        DType::F32 => float(ctx, a, b, op),
        DType::F64 => float64(ctx, a, b, op),
        DType::F16 | DType::Bf16 => {
            let (a, b) = (half_float::widen(ctx, &a)?, half_float::widen(ctx, b)?);
            let out = float(ctx, a, &b, op)?;
            half_float::narrow(ctx, out, dtype)
        }
        DType::I8 => int_i8(ctx, &a, b, op),
        DType::I16 => int_i16(ctx, &a, b, op),
        DType::I32 => int_i32(ctx, &a, b, op),
        DType::I64 => int_i64(ctx, &a, b, op),
        DType::U8 => int_u8(ctx, &a, b, op),
        DType::U16 => int_u16(ctx, &a, b, op),
        DType::U32 => int_u32(ctx, &a, b, op),
        DType::U64 => int_u64(ctx, &a, b, op),
        _ => unsupported!("operands of type {dtype}"),
    }
}

fn run<T: Element>(
    ctx: &mut RunCtx<'_>,
    a: &Tensor,
    b: &Tensor,
    weight: usize,
    f: impl Fn(T, T) -> T + Sync,
) -> Result<Tensor, KernelError> {
    let plan = Plan::new([a.dims(), b.dims()])?;
    let mut out = ctx.alloc(a.dtype(), &plan.dims)?;
    if let (Some(a), Some(b), Some(out)) = (a.as_slice(), b.as_slice(), out.as_mut_slice()) {
        zip(&plan, a, b, out, weight, f);
    }
    Ok(out)
}

fn run_in_place<T: Element>(
    ctx: &mut RunCtx<'_>,
    mut a: Tensor,
    b: &Tensor,
    weight: usize,
    f: impl Fn(T, T) -> T + Sync,
) -> Result<Tensor, KernelError> {
    let plan = Plan::new([a.dims(), b.dims()])?;
    if a.dims() != &*plan.dims || !a.is_unique() {
        return run(ctx, &a, b, weight, f);
    }
    if let (Some(b), Some(a)) = (b.as_slice(), a.as_mut_slice()) {
        zip_in_place(&plan, a, b, weight, f);
    }
    Ok(a)
}

/// The larger one; NaN if either is.
macro_rules! nan_pick {
    ($x:ident $cmp:tt $y:ident) => { if $x $cmp $y || $x.is_nan() { $x } else { $y } };
}

macro_rules! floats {
    ($name:ident, $T:ty) => {
        fn $name(ctx: &mut RunCtx<'_>, a: Tensor, b: &Tensor, op: Op) -> Result<Tensor, KernelError> {
            match op {
                Op::Add => run_in_place::<$T>(ctx, a, b, 1, |x, y| x + y),
                Op::Sub => run_in_place::<$T>(ctx, a, b, 1, |x, y| x - y),
                Op::Mul => run_in_place::<$T>(ctx, a, b, 1, |x, y| x * y),
                Op::Div => run_in_place::<$T>(ctx, a, b, 2, |x, y| x / y),
                Op::Max => run_in_place::<$T>(ctx, a, b, 1, |x, y| nan_pick!(x > y)),
                Op::Min => run_in_place::<$T>(ctx, a, b, 1, |x, y| nan_pick!(x < y)),
                Op::PRelu => run::<$T>(ctx, &a, b, 1, |x, y| if x < 0.0 { x * y } else { x }),
                Op::Fmod => run::<$T>(ctx, &a, b, 16, |x, y| x % y),
                Op::Mod => run::<$T>(ctx, &a, b, 16, |x, y| {
                    let r = x % y;
                    if r == 0.0 {
                        (0.0 as $T).copysign(y)
                    } else if (r < 0.0) != (y < 0.0) {
                        r + y
                    } else {
                        r
                    }
                }),
                Op::Pow => match b.as_slice::<$T>() {
                    // The exponents of real models.
                    Some(&[e]) if e == 2.0 => run::<$T>(ctx, &a, b, 1, |x, _| x * x),
                    Some(&[e]) if e == 3.0 => run::<$T>(ctx, &a, b, 1, |x, _| x * x * x),
                    Some(&[e]) if e == 0.5 => run::<$T>(ctx, &a, b, 4, |x, _| x.sqrt()),
                    Some(&[e]) if e == -1.0 => run::<$T>(ctx, &a, b, 2, |x, _| 1.0 / x),
                    _ => run::<$T>(ctx, &a, b, 32, <$T>::powf),
                },
                Op::BitAnd | Op::BitOr | Op::BitXor | Op::Shl | Op::Shr => unsupported!("operands of type {}", a.dtype()),
            }
        }
    };
}
floats!(float, f32);
floats!(float64, f64);

macro_rules! ints {
    ($name:ident, $T:ident, $signed:literal) => {
        fn $name(ctx: &mut RunCtx<'_>, a: &Tensor, b: &Tensor, op: Op) -> Result<Tensor, KernelError> {
            let divides = matches!(op, Op::Div | Op::Mod | Op::Fmod);
            if divides && !a.is_empty() && b.as_slice::<$T>().unwrap_or_default().contains(&0) {
                return invalid!("input 1 has a zero: integers cannot divide by zero");
            }
            match op {
                Op::Add => run::<$T>(ctx, a, b, 1, $T::wrapping_add),
                Op::Sub => run::<$T>(ctx, a, b, 1, $T::wrapping_sub),
                Op::Mul => run::<$T>(ctx, a, b, 1, $T::wrapping_mul),
                // The divisor is not zero: checked above.
                Op::Div => run::<$T>(ctx, a, b, 8, |x, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
                Op::Fmod => run::<$T>(ctx, a, b, 8, |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
                Op::Mod => run::<$T>(ctx, a, b, 8, |x, y| {
                    let r = if y == 0 { 0 } else { x.wrapping_rem(y) };
                    #[allow(unused_comparisons, reason = "one body for signed and unsigned types")]
                    if r != 0 && (r < 0) != (y < 0) { r.wrapping_add(y) } else { r }
                }),
                Op::Max => run::<$T>(ctx, a, b, 1, |x, y| x.max(y)),
                Op::Min => run::<$T>(ctx, a, b, 1, |x, y| x.min(y)),
                Op::BitAnd => run::<$T>(ctx, a, b, 1, |x, y| x & y),
                Op::BitOr => run::<$T>(ctx, a, b, 1, |x, y| x | y),
                Op::BitXor => run::<$T>(ctx, a, b, 1, |x, y| x ^ y),
                // A shift by the width or more, or by a negative number, leaves nothing but copies of the sign.
                Op::Shl => run::<$T>(ctx, a, b, 1, |x, y| u32::try_from(y).ok().and_then(|y| x.checked_shl(y)).unwrap_or(0)),
                Op::Shr => run::<$T>(ctx, a, b, 1, |x, y| {
                    u32::try_from(y).ok().and_then(|y| x.checked_shr(y)).unwrap_or(if $signed { x >> ($T::BITS - 1) } else { 0 })
                }),
                #[allow(unused_comparisons, reason = "one body for signed and unsigned types")]
                Op::PRelu => run::<$T>(ctx, a, b, 1, |x, y| if x < 0 { x.wrapping_mul(y) } else { x }),
                Op::Pow => run::<$T>(ctx, a, b, 16, |x, y| power(x, y)),
            }
        }
    };
}
ints!(int_i8, i8, true);
ints!(int_i16, i16, true);
ints!(int_i32, i32, true);
ints!(int_i64, i64, true);
ints!(int_u8, u8, false);
ints!(int_u16, u16, false);
ints!(int_u32, u32, false);
ints!(int_u64, u64, false);

trait Integer: Copy + PartialEq {
    const ONE: Self;
    const ZERO: Self;
    fn times(self, other: Self) -> Self;
    fn is_negative_number(self) -> bool;
    fn is_odd(self) -> bool;
    fn halved(self) -> Self;
    fn negated(self) -> Self;
}

macro_rules! integer {
    ($($T:ident),*) => {$(
        impl Integer for $T {
            const ONE: Self = 1;
            const ZERO: Self = 0;
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[allow(unused_comparisons, reason = "one body for signed and unsigned types")]
            fn is_negative_number(self) -> bool { self < 0 }
            fn is_odd(self) -> bool { self & 1 == 1 }
            fn halved(self) -> Self { self >> 1 }
            fn negated(self) -> Self { self.wrapping_neg() }
        }
    )*};
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64);

/// `x^y`, wrapping. A negative exponent gives the truncated reciprocal: 0 except for 1 and -1.
fn power<T: Integer>(x: T, y: T) -> T {
    if y.is_negative_number() {
        return match x {
            x if x == T::ONE => T::ONE,
            x if x == T::ONE.negated() => {
                if y.is_odd() {
                    x
                } else {
                    T::ONE
                }
            }
            _ => T::ZERO,
        };
    }
    let (mut base, mut e, mut out) = (x, y, T::ONE);
    while e != T::ZERO {
        if e.is_odd() {
            out = out.times(base);
        }
        base = base.times(base);
        e = e.halved();
    }
    out
}

/// Pow with an exponent of another type: the result has the base's type.
fn pow_mixed(ctx: &mut RunCtx<'_>, a: &Tensor, b: &Tensor) -> Result<Outputs, KernelError> {
    let dtype = a.dtype();
    if dtype.is_int() && b.dtype().is_int() {
        let (wide_a, wide_b) = (cast::to(ctx, a, DType::I64, true)?, cast::to(ctx, b, DType::I64, true)?);
        let out = int_i64(ctx, &wide_a, &wide_b, Op::Pow)?;
        return Ok(one(cast::to(ctx, &out, dtype, true)?));
    }
    if dtype == DType::F32 {
        let b = cast::to(ctx, b, DType::F32, true)?;
        return Ok(one(float(ctx, a.clone(), &b, Op::Pow)?));
    }
    let (wide_a, wide_b) = (cast::to(ctx, a, DType::F64, true)?, cast::to(ctx, b, DType::F64, true)?);
    let out = float64(ctx, wide_a, &wide_b, Op::Pow)?;
    Ok(one(cast::to(ctx, &out, dtype, true)?))
}

fn bit_shift(ctx: &PrepareCtx<'_>) -> Made {
    match Attrs(ctx.node).text("direction", "")? {
        "LEFT" => binary(ctx, Op::Shl),
        "RIGHT" => binary(ctx, Op::Shr),
        _ => invalid!("attribute direction must be LEFT or RIGHT"),
    }
}

fn p_relu(ctx: &PrepareCtx<'_>) -> Made {
    let per_channel = ctx.opset < 7;
    kernel(move |ctx, inputs| {
        let (x, slope) = (inputs.tensor(0)?, inputs.tensor(1)?);
        // Before operator set 7 a vector of slopes stood for the channels.
        let slope =
            if per_channel && slope.rank() == 1 && slope.len() > 1 && x.rank() > 2 { aligned(x, slope, Some(1))? } else { slope.clone() };
        let plan = Plan::<2>::new([x.dims(), slope.dims()])?;
        if x.dims() != &*plan.dims {
            return invalid!("the slope's shape {:?} does not broadcast to the input's shape {:?}", slope.dims(), x.dims());
        }
        Ok(one(apply(ctx, x.clone(), &slope, Op::PRelu)?))
    })
}

fn variadic(ctx: &mut RunCtx<'_>, mut inputs: Inputs<'_>, op: Op) -> Result<Outputs, KernelError> {
    let first = inputs.tensor(0)?.dtype();
    // Half precision is rounded once, at the end.
    let mut acc = match inputs.take_unique(0) {
        Some(t) => t,
        None => inputs.tensor(0)?.clone(),
    };
    acc = half_float::widen(ctx, &acc)?;
    for i in 1..inputs.len() {
        let next = inputs.tensor(i)?;
        if next.dtype() != first {
            return invalid!("input {i} is {}, but input 0 is {first}", next.dtype());
        }
        let next = half_float::widen(ctx, next)?;
        acc = apply(ctx, acc, &next, op)?;
    }
    Ok(one(half_float::narrow(ctx, acc, first)?))
}

fn mean(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let count = inputs.len();
    let mut out = variadic(ctx, inputs, Op::Add)?;
    let Some(Some(crate::tensor::Value::Tensor(sum))) = out.pop() else { return invalid!("Mean has no input") };
    let n = cast::to(ctx, &Tensor::scalar(count as f64), sum.dtype(), true)?;
    Ok(one(apply(ctx, sum, &n, Op::Div)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    fn go<T: Element>(op: Op, a: &[T], b: &[T]) -> Result<Vec<T>, KernelError> {
        let (a, b) = (Tensor::from_slice(&[a.len()], a)?, Tensor::from_slice(&[b.len()], b)?);
        let out = apply(&mut RunCtx { pool: &mut BufferPool::default() }, a, &b, op)?;
        Ok(out.as_slice::<T>().unwrap().to_vec())
    }

    #[test]
    fn integer_division_truncates_and_refuses_zero() {
        assert_eq!(go(Op::Div, &[-7i64, 7, i64::MIN], &[2, -2, -1]).unwrap(), [-3, -3, i64::MIN]);
        assert!(go(Op::Div, &[1i32], &[0]).unwrap_err().to_string().contains("divide by zero"));
        assert!(go(Op::Mod, &[1u8], &[0]).is_err());
        let big = 9_007_199_254_740_993i64;
        assert_eq!(go(Op::Add, &[big], &[0]).unwrap(), [big]);
        assert_eq!(go(Op::Add, &[250u8], &[10]).unwrap(), [4]);
    }

    #[test]
    fn remainders_have_the_sign_asked_for() {
        assert_eq!(go(Op::Mod, &[-4i32, 7, 5], &[2, -3, 8]).unwrap(), [0, -2, 5]);
        assert_eq!(go(Op::Fmod, &[-4i32, 7, -7], &[3, -3, 3]).unwrap(), [-1, 1, -1]);
        assert_eq!(go(Op::Mod, &[-4.5f32, 4.5], &[2.0, -2.0]).unwrap(), [1.5, -1.5]);
    }

    #[test]
    fn shifts_beyond_the_width_are_defined() {
        assert_eq!(go(Op::Shl, &[1u8, 255], &[8, 1]).unwrap(), [0, 254]);
        assert_eq!(go(Op::Shr, &[-8i32, -8, 8], &[1, 40, -1]).unwrap(), [-4, -1, 0]);
    }

    #[test]
    fn maxima_keep_nan_and_powers_are_exact() {
        assert!(go(Op::Max, &[f32::NAN, 1.0], &[1.0, f32::NAN]).unwrap().iter().all(|x| x.is_nan()));
        assert_eq!(go(Op::Pow, &[3i64, -1, 2], &[39, -3, -1]).unwrap(), [4_052_555_153_018_976_267, -1, 0]);
    }
}
