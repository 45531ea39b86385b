//! Arithmetic on two or more values, with torch's type promotion.

use super::super::call::{Call, Number, Res};
use super::super::level::Fact;
use super::super::values::int;
use super::super::walk::Lower;
use super::pointwise::{clipped, truncate};
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("add", |l, c| scaled(l, c, "Add", "self", "other")),
    ("addcdiv", |l, c| with_product(l, c, "Div")),
    ("addcmul", |l, c| with_product(l, c, "Mul")),
    ("atan2", atan2),
    ("bitwise_and", |l, c| bits(l, c, "BitwiseAnd", "And")),
    ("bitwise_left_shift", |l, c| shift(l, c, "LEFT")),
    ("bitwise_not", bitwise_not),
    ("bitwise_or", |l, c| bits(l, c, "BitwiseOr", "Or")),
    ("bitwise_right_shift", |l, c| shift(l, c, "RIGHT")),
    ("bitwise_xor", |l, c| bits(l, c, "BitwiseXor", "Xor")),
    ("__and__", |l, c| bits(l, c, "BitwiseAnd", "And")),
    ("__or__", |l, c| bits(l, c, "BitwiseOr", "Or")),
    ("__xor__", |l, c| bits(l, c, "BitwiseXor", "Xor")),
    ("__lshift__", |l, c| shift(l, c, "LEFT")),
    ("__rshift__", |l, c| shift(l, c, "RIGHT")),
    ("clamp", clamp),
    ("clamp_max", clamp),
    ("clamp_min", clamp),
    ("clip", clamp),
    ("div", div),
    ("divide", div),
    ("true_divide", div),
    ("floor_divide", |l, c| {
        let (a, b, dtype) = both(l, c)?;
        one(floor_div(l, a, b, dtype)?)
    }),
    ("fmax", |l, c| fextreme(l, c, "Max")),
    ("fmin", |l, c| fextreme(l, c, "Min")),
    ("fmod", |l, c| {
        let (a, b, dtype) = both(l, c)?;
        one(modulo(l, a, b, dtype, true))
    }),
    ("hypot", hypot),
    ("lerp", lerp),
    ("logaddexp", logaddexp),
    ("maximum", |l, c| binary(l, c, "Max")),
    ("minimum", |l, c| binary(l, c, "Min")),
    ("mul", mul),
    ("multiply", mul),
    ("pow", pow),
    ("float_power", pow),
    ("remainder", |l, c| {
        let (a, b, dtype) = both(l, c)?;
        one(remainder(l, a, b, dtype)?)
    }),
    ("rsub", |l, c| scaled(l, c, "Sub", "other", "self")),
    ("sub", |l, c| scaled(l, c, "Sub", "self", "other")),
    ("subtract", |l, c| scaled(l, c, "Sub", "self", "other")),
    ("xlogy", xlogy),
];

/// An operand in the given type.
fn operand(l: &mut Lower<'_>, c: &Call<'_>, name: &str, dtype: DType) -> Res<ValueId> {
    let n = c.number(name)?;
    l.scalar(dtype, n)
}

/// Both operands, in the type of the result.
fn both(l: &mut Lower<'_>, c: &Call<'_>) -> Res<(ValueId, ValueId, DType)> {
    let dtype = c.out_dtype()?;
    Ok((operand(l, c, "self", dtype)?, operand(l, c, "other", dtype)?, dtype))
}

fn binary(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    one(l.zip(op, a, b, dtype))
}

/// `first op alpha * second`; booleans add up like `or`.
fn scaled(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str, first: &str, second: &str) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (a, mut b) = (operand(l, c, first, dtype)?, operand(l, c, second, dtype)?);
    let alpha = if c.has("alpha") { c.number("alpha")? } else { Number::Int(1) };
    if dtype == DType::Bool {
        return one(l.zip(if op == "Add" { "Or" } else { "Xor" }, a, b, dtype));
    }
    if !is_one(alpha) {
        // `rsub` scales what stands first to torch, which is the second operand here.
        let alpha = l.scalar(dtype, alpha)?;
        b = l.zip("Mul", b, alpha, dtype);
    }
    one(l.zip(op, a, b, dtype))
}

fn is_one(n: Number) -> bool {
    n == Number::Int(1) || n == Number::Float(1.0) || n == Number::Bool(true)
}

fn mul(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    one(l.zip(if dtype == DType::Bool { "And" } else { "Mul" }, a, b, dtype))
}

fn div(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    let mode = if c.has("rounding_mode") { c.text("rounding_mode")? } else { None };
    match mode.as_deref() {
        None => one(l.zip("Div", a, b, dtype)),
        Some("floor") => one(floor_div(l, a, b, dtype)?),
        Some("trunc") => {
            // ONNX divides integers so.
            let q = l.zip("Div", a, b, dtype);
            one(truncate(l, q, dtype))
        }
        Some(other) => Err(format!("its rounding mode is `{other}`")),
    }
}

/// Division rounded down.
pub(super) fn floor_div(l: &mut Lower<'_>, a: ValueId, b: ValueId, dtype: DType) -> Res<ValueId> {
    if dtype.is_float() {
        let q = l.zip("Div", a, b, dtype);
        return Ok(l.map("Floor", q, dtype));
    }
    // What is left over has the sign of the divisor, so that the difference divides evenly.
    let rest = modulo(l, a, b, dtype, false);
    let even = l.zip("Sub", a, rest, dtype);
    Ok(l.zip("Div", even, b, dtype))
}

/// What a division leaves over, with the sign of the divisor.
pub(super) fn remainder(l: &mut Lower<'_>, a: ValueId, b: ValueId, dtype: DType) -> Res<ValueId> {
    if !dtype.is_float() {
        return Ok(modulo(l, a, b, dtype, false));
    }
    let q = floor_div(l, a, b, dtype)?;
    let whole = l.zip("Mul", q, b, dtype);
    Ok(l.zip("Sub", a, whole, dtype))
}

fn modulo(l: &mut Lower<'_>, a: ValueId, b: ValueId, dtype: DType, like_c: bool) -> ValueId {
    let shape = super::super::values::broadcast(&l.shape(a), &l.shape(b));
    let list = [("fmod", int(i64::from(like_c)))];
    l.emit_fact("Mod", &[Some(a), Some(b)], &list, Fact::of(Some(dtype), shape))
}

fn pow(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let exponent = c.number("exponent")?;
    let base = operand(l, c, "self", dtype)?;
    // Squares are what norms are made of.
    if exponent == Number::Int(2) || exponent == Number::Float(2.0) {
        return one(l.zip("Mul", base, base, dtype));
    }
    if exponent == Number::Float(0.5) && dtype.is_float() {
        return one(l.map("Sqrt", base, dtype));
    }
    let exponent = l.scalar(dtype, exponent)?;
    one(l.zip("Pow", base, exponent, dtype))
}

fn clamp(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let x = operand(l, c, "self", dtype)?;
    let bound = |name: &str| if c.has(name) { c.opt_number(name) } else { Ok(None) };
    let (low, high) = (bound("min")?, bound("max")?);
    let is_scalar = |l: &Lower<'_>, n: Option<Number>| match n {
        Some(Number::Value(v)) => l.shape(v).rank() == Some(0),
        _ => true,
    };
    if is_scalar(l, low) && is_scalar(l, high) {
        return one(clipped(l, x, low, high, dtype)?);
    }
    let mut now = x;
    for (bound, op) in [(low, "Max"), (high, "Min")] {
        if let Some(bound) = bound {
            let bound = l.scalar(dtype, bound)?;
            now = l.zip(op, now, bound, dtype);
        }
    }
    one(now)
}

/// `fmax` and `fmin` pass over NaN, where `Max` and `Min` keep it.
fn fextreme(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    if !dtype.is_float() {
        return one(l.zip(op, a, b, dtype));
    }
    let (a_nan, b_nan) = (l.map("IsNaN", a, DType::Bool), l.map("IsNaN", b, DType::Bool));
    let (a_or_b, b_or_a) = (l.select(a_nan, b, a, dtype), l.select(b_nan, a, b, dtype));
    one(l.zip(op, a_or_b, b_or_a, dtype))
}

fn bits(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str, logical: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    one(l.zip(if dtype == DType::Bool { logical } else { op }, a, b, dtype))
}

fn bitwise_not(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    one(l.map(if dtype == DType::Bool { "Not" } else { "BitwiseNot" }, c.tensor("self")?, dtype))
}

/// ONNX shifts unsigned integers only. Left is a product with a power of two; right rounds down, as signed shifts do.
fn shift(l: &mut Lower<'_>, c: &Call<'_>, direction: &str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    let two = l.scalar(dtype, Number::Int(2))?;
    let factor = l.zip("Pow", two, b, dtype);
    one(if direction == "LEFT" { l.zip("Mul", a, factor, dtype) } else { floor_div(l, a, factor, dtype)? })
}

fn with_product(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (x, a, b) = (operand(l, c, "self", dtype)?, operand(l, c, "tensor1", dtype)?, operand(l, c, "tensor2", dtype)?);
    let mut product = l.zip(op, a, b, dtype);
    let value = c.number("value")?;
    if !is_one(value) {
        let value = l.scalar(dtype, value)?;
        product = l.zip("Mul", product, value, dtype);
    }
    one(l.zip("Add", x, product, dtype))
}

fn lerp(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (a, b, w) = (operand(l, c, "self", dtype)?, operand(l, c, "end", dtype)?, operand(l, c, "weight", dtype)?);
    let way = l.zip("Sub", b, a, dtype);
    let part = l.zip("Mul", way, w, dtype);
    one(l.zip("Add", a, part, dtype))
}

fn hypot(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    let (aa, bb) = (l.zip("Mul", a, a, dtype), l.zip("Mul", b, b, dtype));
    let sum = l.zip("Add", aa, bb, dtype);
    one(l.map("Sqrt", sum, dtype))
}

/// `max + log(1 + exp(-|a - b|))`, which does not overflow.
fn logaddexp(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    let (most, difference) = (l.zip("Max", a, b, dtype), l.zip("Sub", a, b, dtype));
    let distance = l.map("Abs", difference, dtype);
    let minus = l.map("Neg", distance, dtype);
    let soft = l.map("Softplus", minus, dtype);
    one(l.zip("Add", most, soft, dtype))
}

fn xlogy(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = both(l, c)?;
    let log = l.map("Log", b, dtype);
    let product = l.zip("Mul", a, log, dtype);
    let zero = l.number(dtype, 0.0)?;
    let none = l.zip("Equal", a, zero, DType::Bool);
    one(l.select(none, zero, product, dtype))
}

/// The angle of `(other, self)`: the arc tangent of the quotient, turned by half a circle where `other` is negative.
fn atan2(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (y, x, dtype) = both(l, c)?;
    let (zero, pi) = (l.number(dtype, 0.0)?, l.number(dtype, std::f64::consts::PI)?);
    let half_pi = l.number(dtype, std::f64::consts::FRAC_PI_2)?;
    let quotient = l.zip("Div", y, x, dtype);
    let angle = l.map("Atan", quotient, dtype);
    let (x_negative, y_negative) = (l.zip("Less", x, zero, DType::Bool), l.zip("Less", y, zero, DType::Bool));
    let (down, up) = (l.zip("Sub", angle, pi, dtype), l.zip("Add", angle, pi, dtype));
    let turned = l.select(y_negative, down, up, dtype);
    let full = l.select(x_negative, turned, angle, dtype);
    // On the axis the quotient is no number, or infinite with the sign of the zero.
    let x_zero = l.zip("Equal", x, zero, DType::Bool);
    let sign = l.map("Sign", y, dtype);
    let upright = l.zip("Mul", sign, half_pi, dtype);
    one(l.select(x_zero, upright, full, dtype))
}
