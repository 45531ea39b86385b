//! Sums, means, extremes and order over axes.

use super::super::call::{Arg, Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::{axes_of, int};
use super::super::walk::Lower;
use super::{Table, one, operand};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_log_softmax", |l, c| softmax(l, c, "LogSoftmax")),
    ("_safe_softmax", |l, c| softmax(l, c, "Softmax")),
    ("_softmax", |l, c| softmax(l, c, "Softmax")),
    ("all", |l, c| truth(l, c, "ReduceMin")),
    ("amax", |l, c| plain(l, c, "ReduceMax")),
    ("amin", |l, c| plain(l, c, "ReduceMin")),
    ("aminmax", aminmax),
    ("any", |l, c| truth(l, c, "ReduceMax")),
    ("argmax", |l, c| arg(l, c, "ArgMax")),
    ("argmin", |l, c| arg(l, c, "ArgMin")),
    ("argsort", argsort),
    ("count_nonzero", count_nonzero),
    ("cumprod", cumprod),
    ("cumsum", cumsum),
    ("linalg_vector_norm", vector_norm),
    ("log_softmax", |l, c| softmax(l, c, "LogSoftmax")),
    ("logsumexp", |l, c| plain(l, c, "ReduceLogSumExp")),
    ("max", |l, c| extreme(l, c, "ReduceMax", "ArgMax", "Max")),
    ("mean", |l, c| plain(l, c, "ReduceMean")),
    ("min", |l, c| extreme(l, c, "ReduceMin", "ArgMin", "Min")),
    ("msort", msort),
    ("norm", norm),
    ("prod", |l, c| plain(l, c, "ReduceProd")),
    ("softmax", |l, c| softmax(l, c, "Softmax")),
    ("sort", sort),
    ("std", |l, c| deviation(l, c, true, false)),
    ("std_mean", |l, c| deviation(l, c, true, true)),
    ("sum", |l, c| plain(l, c, "ReduceSum")),
    ("topk", topk),
    ("var", |l, c| deviation(l, c, false, false)),
    ("var_mean", |l, c| deviation(l, c, false, true)),
];

/// The axes of a reduction (all where none are named), and whether they stay.
fn over(l: &Lower<'_>, c: &Call<'_>, x: ValueId) -> Res<(Vec<usize>, bool)> {
    let given = if c.has("dim") { c.opt_ints("dim")? } else { None };
    let keep = c.has("keepdim") && c.flag("keepdim")?;
    Ok((axes_of(&given.unwrap_or_default(), l.rank(x)?)?, keep))
}

fn plain(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = (c.tensor("self")?, c.out_dtype()?);
    // The sum of booleans is an integer; integers have no mean of their own.
    let x = l.cast(x, dtype);
    let (axes, keep) = over(l, c, x)?;
    one(l.reduce(op, x, &axes, keep, dtype))
}

fn truth(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let (axes, keep) = over(l, c, x)?;
    let held = l.cast(x, DType::Bool);
    let number = l.cast(held, DType::I32);
    let made = l.reduce(op, number, &axes, keep, DType::I32);
    let out = c.out_dtype()?;
    one(l.cast(made, out))
}

/// An axis that `ArgMax` and its like take: scalars and "all" are one axis.
fn one_axis(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId) -> Res<(ValueId, usize, bool)> {
    let keep = c.has("keepdim") && c.flag("keepdim")?;
    let axis = if c.has("dim") { c.opt_int("dim")? } else { None };
    Ok(match axis {
        Some(a) if l.rank(x)? > 0 => (x, l.axis(x, a)?, keep),
        _ => (l.reshape_to(x, &[-1]), 0, false),
    })
}

fn arg(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let (x, axis, keep) = one_axis(l, c, x)?;
    let list = [("axis", int(axis as i64)), ("keepdims", int(i64::from(keep)))];
    let made = l.emit(op, &[x], &list, DType::I64);
    if c.out(0).shape.rank().is_some_and(|r| r > 0) && !keep && c.has("keepdim") && c.flag("keepdim")? {
        let ones = vec![1; c.out(0).shape.rank().unwrap_or(0)];
        return one(l.reshape_to(made, &ones));
    }
    one(made)
}

/// `max` and `min`: of all elements, along an axis with positions, or of two values.
fn extreme(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str, position: &'static str, pair: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = (c.tensor("self")?, c.out_dtype()?);
    if c.has("other") {
        let (a, b) = (l.cast(x, dtype), l.scalar(dtype, c.number("other")?)?);
        return one(l.zip(pair, a, b, dtype));
    }
    let (number, number_type) = if dtype == DType::Bool { (l.cast(x, DType::I32), DType::I32) } else { (x, dtype) };
    let (axes, keep) = over(l, c, x)?;
    let made = l.reduce(op, number, &axes, keep, number_type);
    let made = l.cast(made, dtype);
    if c.outputs().len() < 2 {
        return one(made);
    }
    let (flat, axis, _) = one_axis(l, c, number)?;
    let list = [("axis", int(axis as i64)), ("keepdims", int(i64::from(keep && l.rank(x)? > 0)))];
    let at = l.emit(position, &[flat], &list, DType::I64);
    Ok(vec![Some(made), Some(at)])
}

fn aminmax(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = (c.tensor("self")?, c.out_dtype()?);
    let (axes, keep) = over(l, c, x)?;
    let (least, most) = (l.reduce("ReduceMin", x, &axes, keep, dtype), l.reduce("ReduceMax", x, &axes, keep, dtype));
    Ok(vec![Some(least), Some(most)])
}

fn count_nonzero(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let (axes, _) = over(l, c, x)?;
    let held = l.cast(x, DType::Bool);
    let number = l.cast(held, DType::I64);
    one(l.reduce("ReduceSum", number, &axes, false, DType::I64))
}

/// The mean square distance from the mean, over all but `correction` elements.
fn deviation(l: &mut Lower<'_>, c: &Call<'_>, root: bool, with_mean: bool) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = (c.tensor("self")?, c.out_dtype()?);
    let (axes, keep) = over(l, c, x)?;
    let correction = if c.has("unbiased") {
        f64::from(u8::from(c.flag("unbiased")?))
    } else if c.has("correction") {
        c.opt_float("correction")?.unwrap_or(1.0)
    } else {
        1.0
    };
    let mean = l.reduce("ReduceMean", x, &axes, true, dtype);
    let distance = l.zip("Sub", x, mean, dtype);
    let square = l.zip("Mul", distance, distance, dtype);
    let variance = if correction == 0.0 {
        l.reduce("ReduceMean", square, &axes, keep, dtype)
    } else {
        let sum = l.reduce("ReduceSum", square, &axes, keep, dtype);
        let sizes: Vec<_> = axes.iter().map(|&a| l.size_of(x, a)).collect();
        let count = l.size_product(&sizes);
        let count = l.size_value(count);
        let count = l.cast(count, dtype);
        let less = l.number(dtype, correction)?;
        let zero = l.number(dtype, 0.0)?;
        let freedom = l.zip("Sub", count, less, dtype);
        let freedom = l.zip("Max", freedom, zero, dtype);
        l.zip("Div", sum, freedom, dtype)
    };
    let made = if root { l.map("Sqrt", variance, dtype) } else { variance };
    if !with_mean {
        return one(made);
    }
    let mean = if keep { mean } else { l.squeeze(mean, &axes) };
    Ok(vec![Some(made), Some(mean)])
}

fn vector_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let p = c.float("ord")?;
    norm_of(l, c, p)
}

fn norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let p = match c.arg("p")? {
        Arg::None => 2.0,
        Arg::Int(n) => n as f64,
        Arg::Float(x) => x,
        _ => return Err("its order is no constant".to_owned()),
    };
    norm_of(l, c, p)
}

fn norm_of(l: &mut Lower<'_>, c: &Call<'_>, p: f64) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let (axes, keep) = over(l, c, x)?;
    one(norm_over(l, x, p, &axes, keep, dtype)?)
}

/// The `p`-norm over some axes.
pub(super) fn norm_over(l: &mut Lower<'_>, x: ValueId, p: f64, axes: &[usize], keep: bool, dtype: DType) -> Res<ValueId> {
    if p == 2.0 {
        return Ok(l.reduce("ReduceL2", x, axes, keep, dtype));
    }
    if p == 1.0 {
        return Ok(l.reduce("ReduceL1", x, axes, keep, dtype));
    }
    let size = l.map("Abs", x, dtype);
    if p.is_infinite() {
        return Ok(l.reduce(if p > 0.0 { "ReduceMax" } else { "ReduceMin" }, size, axes, keep, dtype));
    }
    if p == 0.0 {
        let held = l.cast(x, DType::Bool);
        let number = l.cast(held, dtype);
        return Ok(l.reduce("ReduceSum", number, axes, keep, dtype));
    }
    let (order, inverse) = (l.number(dtype, p)?, l.number(dtype, 1.0 / p)?);
    let power = l.zip("Pow", size, order, dtype);
    let sum = l.reduce("ReduceSum", power, axes, keep, dtype);
    Ok(l.zip("Pow", sum, inverse, dtype))
}

/// Over one axis, in the type that was asked for.
fn softmax(l: &mut Lower<'_>, c: &Call<'_>, op: &'static str) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    if l.rank(x)? == 0 {
        let wide = l.reshape_to(x, &[1]);
        let made = l.emit(op, &[wide], &[("axis", int(0))], dtype);
        return one(l.reshape_to(made, &[]));
    }
    let axis = l.axis(x, c.int("dim")?)?;
    let shape = l.shape(x);
    let made = l.emit_fact(op, &[Some(x)], &[("axis", int(axis as i64))], Fact::of(Some(dtype), shape));
    if c.name() != "_safe_softmax" {
        return one(made);
    }
    // Rows of nothing but minus infinity give zeros, and not NaN.
    let nan = l.map("IsNaN", made, DType::Bool);
    let zero = l.number(dtype, 0.0)?;
    one(l.select(nan, zero, made, dtype))
}

fn cumsum(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, _) = operand(l, c, "self")?;
    if l.rank(x)? == 0 {
        return one(x);
    }
    let axis = l.axis(x, c.int("dim")?)?;
    one(l.running_sum(x, axis))
}

/// ONNX has no running product: a short axis is multiplied up place by place.
fn cumprod(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = (c.tensor("self")?, c.out_dtype()?);
    let axis = l.axis(x, c.int("dim")?)?;
    let n = l.static_dim(x, axis).filter(|&n| n <= 64).ok_or("its axis is long, or of unknown size")?;
    let x = l.cast(x, dtype);
    let mut parts = Vec::new();
    let mut now: Option<ValueId> = None;
    for i in 0..n {
        let part = l.slice(x, axis, Size::Known(i), Size::Known(i + 1), 1);
        let product = match now {
            Some(p) => l.zip("Mul", p, part, dtype),
            None => part,
        };
        parts.push(product);
        now = Some(product);
    }
    one(l.concat(&parts, axis)?)
}

/// Elements and positions in order along an axis.
fn sorted(l: &mut Lower<'_>, x: ValueId, axis: usize, descending: bool) -> Res<Vec<Option<ValueId>>> {
    let fact = l.fact(x);
    let n = l.size_of(x, axis);
    let k = l.sizes(&[n]);
    let list = [("axis", int(axis as i64)), ("largest", int(i64::from(descending))), ("sorted", int(1))];
    let at = Fact::of(Some(DType::I64), fact.shape.clone());
    Ok(l.emit_all("TopK", &[Some(x), Some(k)], &list, &[Some(fact), Some(at)]))
}

fn sort(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    if l.rank(x)? == 0 {
        let zero = l.scalar(DType::I64, Number::Int(0))?;
        return Ok(vec![Some(x), Some(zero)]);
    }
    let axis = l.axis(x, c.int("dim")?)?;
    sorted(l, x, axis, c.flag("descending")?)
}

fn msort(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let mut made = sorted(l, x, 0, false)?;
    made.truncate(1);
    Ok(made)
}

fn argsort(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let mut made = sort(l, c)?;
    Ok(vec![made.pop().flatten()])
}

fn topk(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let k = c.size("k")?;
    let k = l.sizes(&[k]);
    let dtype = l.dtype(x)?;
    let list = [("axis", int(axis as i64)), ("largest", int(i64::from(c.flag("largest")?))), ("sorted", int(i64::from(c.flag("sorted")?)))];
    let facts = [Some(Fact::of(Some(dtype), c.out(0).shape)), Some(Fact::of(Some(DType::I64), c.out(1).shape))];
    Ok(l.emit_all("TopK", &[Some(x), Some(k)], &list, &facts))
}
