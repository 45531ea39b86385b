//! Sizes and other numbers outside of tensors: they are 0-d tensors here.

use super::super::call::{Arg, Call, Number, Res, as_number};
use super::super::level::Fact;
use super::super::walk::Lower;
use super::arithmetic::{floor_div, remainder};
use super::compare::promoted;
use super::{Table, dropped, one};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("_local_scalar_dense", item),
    ("_operator.add", |l, c| arithmetic(l, c, "Add")),
    ("_operator.and_", |l, c| logic(l, c, "And")),
    ("_operator.eq", |l, c| compare(l, c, "Equal", false)),
    ("_operator.floordiv", |l, c| whole(l, c, floor_div)),
    ("_operator.ge", |l, c| compare(l, c, "GreaterOrEqual", false)),
    ("_operator.gt", |l, c| compare(l, c, "Greater", false)),
    ("_operator.le", |l, c| compare(l, c, "LessOrEqual", false)),
    ("_operator.lt", |l, c| compare(l, c, "Less", false)),
    ("_operator.mod", |l, c| whole(l, c, remainder)),
    ("_operator.mul", |l, c| arithmetic(l, c, "Mul")),
    ("_operator.ne", |l, c| compare(l, c, "Equal", true)),
    ("_operator.neg", |l, c| {
        let (x, dtype) = operand(l, c)?;
        one(l.map("Neg", x, dtype))
    }),
    ("_operator.not_", negated),
    ("_operator.or_", |l, c| logic(l, c, "Or")),
    ("_operator.pos", |l, c| {
        let (x, _) = operand(l, c)?;
        one(x)
    }),
    ("_operator.pow", |l, c| arithmetic(l, c, "Pow")),
    ("_operator.sub", |l, c| arithmetic(l, c, "Sub")),
    ("_operator.truediv", truediv),
    ("item", item),
    ("math.ceil", |l, c| rounded(l, c, "Ceil")),
    ("math.floor", |l, c| rounded(l, c, "Floor")),
    ("math.sqrt", |l, c| float_function(l, c, "Sqrt")),
    ("math.trunc", truncated),
    ("sym_constrain_range_for_size_hint", dropped),
    ("sym_numel", |l, c| {
        let x = c.tensor("self")?;
        let sizes = l.sizes_of(x)?;
        let n = l.size_product(&sizes);
        one(l.size_value(n))
    }),
    ("sym_size", |l, c| {
        let x = c.tensor("self")?;
        let axis = l.axis(x, c.int("dim")?)?;
        let n = l.size_of(x, axis);
        one(l.size_value(n))
    }),
    ("torch.sym_float", |l, c| {
        let (x, _) = operand(l, c)?;
        one(l.cast(x, DType::F64))
    }),
    ("torch.sym_int", truncated),
    ("torch.sym_ite", ite),
    ("torch.sym_max", |l, c| arithmetic(l, c, "Max")),
    ("torch.sym_min", |l, c| arithmetic(l, c, "Min")),
    ("torch.sym_not", negated),
    ("torch._sym_sqrt", |l, c| float_function(l, c, "Sqrt")),
    ("torch.sym_sqrt", |l, c| float_function(l, c, "Sqrt")),
    ("torch.sym_sum", sum),
];

/// The arguments in order, as numbers.
fn numbers(c: &Call<'_>) -> Res<Vec<Number>> {
    c.positional().map(|a| as_number(a).ok_or_else(|| "an argument is no number".to_owned())).collect()
}

fn operand(l: &mut Lower<'_>, c: &Call<'_>) -> Res<(ValueId, DType)> {
    let &[n] = &numbers(c)?[..] else { return Err("it has not one argument".to_owned()) };
    let dtype = natural(l, n)?;
    Ok((l.scalar(dtype, n)?, dtype))
}

/// Numbers of Python are double and 64 bits wide.
fn natural(l: &Lower<'_>, n: Number) -> Res<DType> {
    Ok(match n {
        Number::Bool(_) => DType::Bool,
        Number::Int(_) => DType::I64,
        Number::Float(_) => DType::F64,
        Number::Value(v) => l.dtype(v)?,
    })
}

/// Two arguments in the type that they have together.
fn pair(l: &mut Lower<'_>, c: &Call<'_>) -> Res<(ValueId, ValueId, DType)> {
    let &[a, b] = &numbers(c)?[..] else { return Err("it has not two arguments".to_owned()) };
    let dtype = match (natural(l, a)?, natural(l, b)?) {
        (x, y) if x == y => x,
        (x, y) if x.is_float() || y.is_float() => DType::F64,
        (DType::Bool, other) | (other, DType::Bool) => other,
        _ => promoted(l, a, b)?,
    };
    Ok((l.scalar(dtype, a)?, l.scalar(dtype, b)?, dtype))
}

fn arithmetic(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = pair(l, c)?;
    one(l.zip(op, a, b, dtype))
}

fn whole(l: &mut Lower<'_>, c: &Call<'_>, f: fn(&mut Lower<'_>, ValueId, ValueId, DType) -> Res<ValueId>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = pair(l, c)?;
    one(f(l, a, b, dtype)?)
}

fn truediv(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, _) = pair(l, c)?;
    let (a, b) = (l.cast(a, DType::F64), l.cast(b, DType::F64));
    one(l.zip("Div", a, b, DType::F64))
}

fn compare(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str, negate: bool) -> Res<Vec<Option<ValueId>>> {
    let (a, b, _) = pair(l, c)?;
    let made = l.zip(op, a, b, DType::Bool);
    one(if negate { l.map("Not", made, DType::Bool) } else { made })
}

fn logic(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (a, b, dtype) = pair(l, c)?;
    if dtype != DType::Bool {
        return Err("it joins the bits of integers".to_owned());
    }
    one(l.zip(op, a, b, DType::Bool))
}

fn negated(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, _) = operand(l, c)?;
    let x = l.cast(x, DType::Bool);
    one(l.map("Not", x, DType::Bool))
}

fn rounded(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c)?;
    let whole = if dtype.is_float() { l.map(op, x, dtype) } else { x };
    one(l.cast(whole, DType::I64))
}

/// A cast of a float to an integer drops what stands behind the point.
fn truncated(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, _) = operand(l, c)?;
    one(l.cast(x, DType::I64))
}

fn float_function(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, _) = operand(l, c)?;
    let x = l.cast(x, DType::F64);
    one(l.map(op, x, DType::F64))
}

fn ite(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let &[condition, yes, no] = &numbers(c)?[..] else { return Err("it has not three arguments".to_owned()) };
    let dtype = promoted(l, yes, no)?;
    let (condition, yes, no) = (l.scalar(DType::Bool, condition)?, l.scalar(dtype, yes)?, l.scalar(dtype, no)?);
    one(l.select(condition, yes, no, dtype))
}

fn sum(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let Some(Arg::List(items)) = c.positional().next() else { return Err("it has no list of numbers".to_owned()) };
    let numbers: Vec<Number> =
        items.iter().map(|a| as_number(a).ok_or_else(|| "an argument is no number".to_owned())).collect::<Res<_>>()?;
    let mut total = l.scalar(DType::I64, Number::Int(0))?;
    for n in numbers {
        let n = l.scalar(DType::I64, n)?;
        total = l.zip("Add", total, n, DType::I64);
    }
    one(total)
}

/// The one element of a tensor.
fn item(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let dtype = l.dtype(x)?;
    let x = if l.rank(x)? == 0 {
        x
    } else {
        let to = l.i64s(&[]);
        l.emit_fact("Reshape", &[Some(x), Some(to)], &[], Fact::of(Some(dtype), Shape::known(&[])))
    };
    // An integer of Python is as wide as any, a float double.
    one(match dtype {
        DType::Bool => x,
        d if d.is_float() => l.cast(x, DType::F64),
        _ => l.cast(x, DType::I64),
    })
}
