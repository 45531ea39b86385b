//! Functions of one value, element by element: roots, exponentials, activations, rounding.

use super::super::call::{Call, Number, Res};
use super::super::level::{Attrs, Fact};
use super::super::values::{float, int, text};
use super::super::walk::Lower;
use super::{Table, one, operand};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("abs", |l, c| direct(l, c, "Abs")),
    ("acos", |l, c| direct(l, c, "Acos")),
    ("acosh", |l, c| direct(l, c, "Acosh")),
    ("asin", |l, c| direct(l, c, "Asin")),
    ("asinh", |l, c| direct(l, c, "Asinh")),
    ("atan", |l, c| direct(l, c, "Atan")),
    ("atanh", |l, c| direct(l, c, "Atanh")),
    ("ceil", |l, c| rounding(l, c, "Ceil")),
    ("celu", celu),
    ("cos", |l, c| direct(l, c, "Cos")),
    ("cosh", |l, c| direct(l, c, "Cosh")),
    ("elu", elu),
    ("erf", |l, c| direct(l, c, "Erf")),
    ("erfc", erfc),
    ("exp", |l, c| direct(l, c, "Exp")),
    ("exp2", |l, c| with_number(l, c, 2.0, |l, x, two, dtype| l.zip("Pow", two, x, dtype))),
    ("expm1", expm1),
    ("floor", |l, c| rounding(l, c, "Floor")),
    ("frac", frac),
    ("fix", trunc),
    ("gelu", gelu),
    ("hardshrink", |l, c| shrink(l, c, |_| 0.0)),
    ("hardsigmoid", hardsigmoid),
    ("hardswish", |l, c| direct(l, c, "HardSwish")),
    ("hardtanh", |l, c| clip(l, c, "min_val", "max_val")),
    ("leaky_relu", leaky_relu),
    ("log", |l, c| direct(l, c, "Log")),
    ("log10", |l, c| log_base(l, c, std::f64::consts::LN_10)),
    ("log1p", log1p),
    ("log2", |l, c| log_base(l, c, std::f64::consts::LN_2)),
    ("log_sigmoid", log_sigmoid),
    ("logit", logit),
    ("mish", |l, c| direct(l, c, "Mish")),
    ("nan_to_num", nan_to_num),
    ("neg", |l, c| direct(l, c, "Neg")),
    ("negative", |l, c| direct(l, c, "Neg")),
    ("positive", |_, c| one(c.tensor("self")?)),
    ("prelu", prelu),
    ("_prelu_kernel", prelu),
    ("reciprocal", |l, c| direct(l, c, "Reciprocal")),
    ("relu", |l, c| direct(l, c, "Relu")),
    ("relu6", relu6),
    ("round", round),
    ("rsqrt", rsqrt),
    ("selu", |l, c| direct(l, c, "Selu")),
    ("sgn", |l, c| direct(l, c, "Sign")),
    ("sigmoid", |l, c| direct(l, c, "Sigmoid")),
    ("sign", sign),
    ("silu", silu),
    ("sin", |l, c| direct(l, c, "Sin")),
    ("sinh", |l, c| direct(l, c, "Sinh")),
    ("softplus", softplus),
    ("softshrink", |l, c| shrink(l, c, |lambda| lambda)),
    ("sqrt", |l, c| direct(l, c, "Sqrt")),
    ("square", |l, c| {
        let (x, dtype) = operand(l, c, "self")?;
        one(l.zip("Mul", x, x, dtype))
    }),
    ("tan", |l, c| direct(l, c, "Tan")),
    ("tanh", |l, c| direct(l, c, "Tanh")),
    ("threshold", threshold),
    ("trunc", trunc),
];

fn direct(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(l.map(op, x, dtype))
}

/// Integers are round already.
fn rounding(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(if dtype.is_float() { l.map(op, x, dtype) } else { x })
}

fn with_attrs(l: &mut Lower<'_>, x: ValueId, op: &'static str, list: Attrs<'_>, dtype: DType) -> Res<Vec<Option<ValueId>>> {
    let shape = l.shape(x);
    one(l.emit_fact(op, &[Some(x)], list, Fact::of(Some(dtype), shape)))
}

/// Truncation towards zero: the sign of the number times the floor of its size.
fn truncated(l: &mut Lower<'_>, x: ValueId, dtype: DType) -> ValueId {
    let (size, sign) = (l.map("Abs", x, dtype), l.map("Sign", x, dtype));
    let floor = l.map("Floor", size, dtype);
    l.zip("Mul", floor, sign, dtype)
}

/// `x` without what stands behind the point; integers as they are.
pub(super) fn truncate(l: &mut Lower<'_>, x: ValueId, dtype: DType) -> ValueId {
    if dtype.is_float() { truncated(l, x, dtype) } else { x }
}

fn trunc(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(truncate(l, x, dtype))
}

fn frac(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let whole = truncate(l, x, dtype);
    one(l.zip("Sub", x, whole, dtype))
}

fn round(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let decimals = if c.has("decimals") { c.int("decimals")? } else { 0 };
    if !dtype.is_float() {
        return if decimals == 0 { one(x) } else { Err("integers are not rounded to decimals".to_owned()) };
    }
    if decimals == 0 {
        return one(l.map("Round", x, dtype));
    }
    // Powers of ten up to 10^22 are exact; beyond them torch's own result is no better.
    let scale = l.number(dtype, 10f64.powi(i32::try_from(decimals.unsigned_abs().min(22)).unwrap_or(22)))?;
    let (up, down) = if decimals > 0 { ("Mul", "Div") } else { ("Div", "Mul") };
    let scaled = l.zip(up, x, scale, dtype);
    let rounded = l.map("Round", scaled, dtype);
    one(l.zip(down, rounded, scale, dtype))
}

fn sign(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(if dtype == DType::Bool { x } else { l.map("Sign", x, dtype) })
}

fn relu6(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(clipped(l, x, Some(Number::Int(0)), Some(Number::Int(6)), dtype)?)
}

/// Between two numbers, where they are given.
pub(super) fn clipped(l: &mut Lower<'_>, x: ValueId, low: Option<Number>, high: Option<Number>, dtype: DType) -> Res<ValueId> {
    let low = low.map(|n| l.scalar(dtype, n)).transpose()?;
    let high = high.map(|n| l.scalar(dtype, n)).transpose()?;
    let shape = l.shape(x);
    Ok(l.emit_fact("Clip", &[Some(x), low, high], &[], Fact::of(Some(dtype), shape)))
}

fn clip(l: &mut Lower<'_>, c: &Call<'_>, low: &str, high: &str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    one(clipped(l, x, c.opt_number(low)?, c.opt_number(high)?, dtype)?)
}

fn rsqrt(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let root = l.map("Sqrt", x, dtype);
    one(l.map("Reciprocal", root, dtype))
}

/// A function of the input and a constant.
fn with_number(
    l: &mut Lower<'_>,
    c: &Call<'_>,
    number: f64,
    f: impl FnOnce(&mut Lower<'_>, ValueId, ValueId, DType) -> ValueId,
) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let number = l.number(dtype, number)?;
    one(f(l, x, number, dtype))
}

fn log_base(l: &mut Lower<'_>, c: &Call<'_>, ln_base: f64) -> Res<Vec<Option<ValueId>>> {
    with_number(l, c, ln_base, |l, x, ln_base, dtype| {
        let log = l.map("Log", x, dtype);
        l.zip("Div", log, ln_base, dtype)
    })
}

fn expm1(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    with_number(l, c, 1.0, |l, x, unit, dtype| {
        let e = l.map("Exp", x, dtype);
        l.zip("Sub", e, unit, dtype)
    })
}

fn log1p(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    with_number(l, c, 1.0, |l, x, unit, dtype| {
        let sum = l.zip("Add", x, unit, dtype);
        l.map("Log", sum, dtype)
    })
}

fn erfc(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    with_number(l, c, 1.0, |l, x, unit, dtype| {
        let erf = l.map("Erf", x, dtype);
        l.zip("Sub", unit, erf, dtype)
    })
}

fn gelu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let how = c.text("approximate")?.unwrap_or_else(|| "none".into());
    with_attrs(l, x, "Gelu", &[("approximate", text(&how))], dtype)
}

fn silu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let gate = l.map("Sigmoid", x, dtype);
    one(l.zip("Mul", x, gate, dtype))
}

fn hardsigmoid(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    with_attrs(l, x, "HardSigmoid", &[("alpha", float(1.0 / 6.0)), ("beta", float(0.5))], dtype)
}

fn leaky_relu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    with_attrs(l, x, "LeakyRelu", &[("alpha", float(c.float("negative_slope")?))], dtype)
}

fn elu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (scale, input_scale) = (c.float("scale")?, c.float("input_scale")?);
    if input_scale != 1.0 {
        return Err(format!("its input_scale is {input_scale}"));
    }
    let (x, dtype) = operand(l, c, "self")?;
    let made = with_attrs(l, x, "Elu", &[("alpha", float(c.float("alpha")?))], dtype)?;
    match made[..] {
        [Some(e)] if scale != 1.0 => {
            let scale = l.number(dtype, scale)?;
            one(l.zip("Mul", e, scale, dtype))
        }
        _ => Ok(made),
    }
}

fn celu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    with_attrs(l, x, "Celu", &[("alpha", float(c.float("alpha")?))], dtype)
}

fn prelu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, mut slope) = (c.tensor("self")?, c.tensor("weight")?);
    let rank = l.rank(x)?;
    // One slope a channel (axis 1) in torch, broadcast from behind in ONNX.
    if l.rank(slope)? == 1 && rank > 2 && l.static_dim(slope, 0) != Some(1) {
        let after: Vec<usize> = (1..rank - 1).collect();
        slope = l.unsqueeze(slope, &after);
    }
    one(l.zip("PRelu", x, slope, c.out_dtype()?))
}

fn softplus(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (beta, limit) = (c.float("beta")?, c.float("threshold")?);
    let (x, dtype) = operand(l, c, "self")?;
    if beta == 1.0 {
        // Beyond the usual threshold of 20 both forms agree to the last bit of f32.
        let soft = l.map("Softplus", x, dtype);
        return if limit >= 20.0 { one(soft) } else { above(l, x, Number::Float(limit), x, soft, dtype) };
    }
    let beta_v = l.number(dtype, beta)?;
    let scaled = l.zip("Mul", x, beta_v, dtype);
    let soft = l.map("Softplus", scaled, dtype);
    let soft = l.zip("Div", soft, beta_v, dtype);
    above(l, scaled, Number::Float(limit), x, soft, dtype)
}

/// `x` where `measure` exceeds `limit`, else `other`.
fn above(l: &mut Lower<'_>, measure: ValueId, limit: Number, x: ValueId, other: ValueId, dtype: DType) -> Res<Vec<Option<ValueId>>> {
    let limit = l.scalar(dtype, limit)?;
    let beyond = l.zip("Greater", measure, limit, DType::Bool);
    one(l.select(beyond, x, other, dtype))
}

fn log_sigmoid(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let minus = l.map("Neg", x, dtype);
    let soft = l.map("Softplus", minus, dtype);
    one(l.map("Neg", soft, dtype))
}

fn logit(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (mut x, dtype) = operand(l, c, "self")?;
    if let Some(eps) = c.opt_float("eps")? {
        x = clipped(l, x, Some(Number::Float(eps)), Some(Number::Float(1.0 - eps)), dtype)?;
    }
    let unit = l.number(dtype, 1.0)?;
    let rest = l.zip("Sub", unit, x, dtype);
    let odds = l.zip("Div", x, rest, dtype);
    one(l.map("Log", odds, dtype))
}

fn shrink(l: &mut Lower<'_>, c: &Call<'_>, by: impl FnOnce(f64) -> f64) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let lambda = c.float("lambd")?;
    with_attrs(l, x, "Shrink", &[("bias", float(by(lambda))), ("lambd", float(lambda))], dtype)
}

fn threshold(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let other = l.scalar(dtype, c.number("value")?)?;
    above(l, x, c.number("threshold")?, x, other, dtype)
}

fn nan_to_num(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let (least, most) = match dtype {
        DType::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        DType::F64 => (f64::MIN, f64::MAX),
        DType::F16 => (half::f16::MIN.to_f64(), half::f16::MAX.to_f64()),
        DType::Bf16 => (half::bf16::MIN.to_f64(), half::bf16::MAX.to_f64()),
        _ => return one(x),
    };
    let zero = l.number(dtype, c.opt_float("nan")?.unwrap_or(0.0))?;
    let nan = l.map("IsNaN", x, DType::Bool);
    let mut now = l.select(nan, zero, x, dtype);
    let sides = [(c.opt_float("posinf")?.unwrap_or(most), 0, 1), (c.opt_float("neginf")?.unwrap_or(least), 1, 0)];
    for (value, negative, positive) in sides {
        let shape = l.shape(x);
        let list = [("detect_negative", int(negative)), ("detect_positive", int(positive))];
        let infinite = l.emit_fact("IsInf", &[Some(x)], &list, Fact::of(Some(DType::Bool), shape));
        let value = l.number(dtype, value)?;
        now = l.select(infinite, value, now, dtype);
    }
    one(now)
}
