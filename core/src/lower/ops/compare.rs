//! Comparisons, logic and choices.

use super::super::call::{Call, Number, Res};
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("eq", |l, c| compare(l, c, "Equal", false)),
    ("ge", |l, c| compare(l, c, "GreaterOrEqual", false)),
    ("greater", |l, c| compare(l, c, "Greater", false)),
    ("greater_equal", |l, c| compare(l, c, "GreaterOrEqual", false)),
    ("gt", |l, c| compare(l, c, "Greater", false)),
    ("isclose", isclose),
    ("isfinite", isfinite),
    ("isinf", |l, c| special(l, c, "IsInf")),
    ("isnan", |l, c| special(l, c, "IsNaN")),
    ("le", |l, c| compare(l, c, "LessOrEqual", false)),
    ("less", |l, c| compare(l, c, "Less", false)),
    ("less_equal", |l, c| compare(l, c, "LessOrEqual", false)),
    ("logical_and", |l, c| logic(l, c, "And")),
    ("logical_not", |l, c| {
        let x = c.tensor("self")?;
        let x = l.cast(x, DType::Bool);
        one(l.map("Not", x, DType::Bool))
    }),
    ("logical_or", |l, c| logic(l, c, "Or")),
    ("logical_xor", |l, c| logic(l, c, "Xor")),
    ("lt", |l, c| compare(l, c, "Less", false)),
    ("masked_fill", masked_fill),
    ("ne", |l, c| compare(l, c, "Equal", true)),
    ("not_equal", |l, c| compare(l, c, "Equal", true)),
    ("where", choose),
];

/// How general a type is: booleans, integers, floats.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        d if d.is_float() => 2,
        _ => 1,
    }
}

/// The type that torch computes two operands in: the more general kind decides; numbers and 0-d tensors only by their
/// kind.
pub(super) fn promoted(l: &Lower<'_>, a: Number, b: Number) -> Res<DType> {
    // Type, and whether it counts in full (tensors with axes), as a 0-d tensor, or as a number of Python.
    let facts = |n: Number| -> Res<(DType, u8)> {
        Ok(match n {
            Number::Bool(_) => (DType::Bool, 0),
            Number::Int(_) => (DType::I64, 0),
            Number::Float(_) => (DType::F32, 0),
            Number::Value(v) => (l.dtype(v)?, if l.shape(v).rank() == Some(0) { 1 } else { 2 }),
        })
    };
    let ((x, x_weight), (y, y_weight)) = (facts(a)?, facts(b)?);
    if kind(x) != kind(y) {
        return Ok(if kind(x) > kind(y) { x } else { y });
    }
    if x_weight != y_weight {
        return Ok(if x_weight > y_weight { x } else { y });
    }
    if x == y {
        return Ok(x);
    }
    // Half types of different form meet in f32; an unsigned byte and a signed one in the next wider.
    Ok(match (x, y) {
        (DType::F16, DType::Bf16) | (DType::Bf16, DType::F16) => DType::F32,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
        _ if x.bits() >= y.bits() => x,
        _ => y,
    })
}

fn compare(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str, negated: bool) -> Res<Vec<Option<ValueId>>> {
    let (a, b) = (c.number("self")?, c.number("other")?);
    let dtype = promoted(l, a, b)?;
    // Order is not defined on booleans in ONNX.
    let dtype = if dtype == DType::Bool && op != "Equal" { DType::I32 } else { dtype };
    let (a, b) = (l.scalar(dtype, a)?, l.scalar(dtype, b)?);
    let result = l.zip(op, a, b, DType::Bool);
    one(if negated { l.map("Not", result, DType::Bool) } else { result })
}

fn logic(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let (a, b) = (l.cast(a, DType::Bool), l.cast(b, DType::Bool));
    one(l.zip(op, a, b, DType::Bool))
}

fn special(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let dtype = l.dtype(x)?;
    // Integers are neither infinite nor no numbers; as floats they say so.
    let x = if dtype.is_float() { x } else { l.cast(x, DType::F32) };
    one(l.map(op, x, DType::Bool))
}

fn isfinite(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let x = if l.dtype(x)?.is_float() { x } else { l.cast(x, DType::F32) };
    let (infinite, nan) = (l.map("IsInf", x, DType::Bool), l.map("IsNaN", x, DType::Bool));
    let either = l.zip("Or", infinite, nan, DType::Bool);
    one(l.map("Not", either, DType::Bool))
}

fn isclose(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if c.flag("equal_nan")? {
        return Err("it takes NaN as equal to NaN".to_owned());
    }
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let dtype = match promoted(l, Number::Value(a), Number::Value(b))? {
        d if d.is_float() => d,
        _ => DType::F64,
    };
    let (a, b) = (l.cast(a, dtype), l.cast(b, dtype));
    let (rtol, atol) = (l.number(dtype, c.float("rtol")?)?, l.number(dtype, c.float("atol")?)?);
    let (difference, size) = (l.zip("Sub", a, b, dtype), l.map("Abs", b, dtype));
    let distance = l.map("Abs", difference, dtype);
    let part = l.zip("Mul", size, rtol, dtype);
    let allowed = l.zip("Add", part, atol, dtype);
    let near = l.zip("LessOrEqual", distance, allowed, DType::Bool);
    let same = l.zip("Equal", a, b, DType::Bool);
    one(l.zip("Or", near, same, DType::Bool))
}

fn masked_fill(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (x, mask) = (c.tensor("self")?, c.tensor("mask")?);
    let x = l.cast(x, dtype);
    let mask = l.cast(mask, DType::Bool);
    let value = l.scalar(dtype, c.number("value")?)?;
    one(l.select(mask, value, x, dtype))
}

fn choose(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if !c.has("self") {
        return super::indexing::nonzero_by_axis(l, c);
    }
    let dtype = c.out_dtype()?;
    let condition = l.cast(c.tensor("condition")?, DType::Bool);
    let yes = l.scalar(dtype, c.number("self")?)?;
    let no = l.scalar(dtype, c.number("other")?)?;
    one(l.select(condition, yes, no, dtype))
}
