//! Tensors made from numbers.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::all_known;
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("arange", arange),
    ("empty", |l, c| sized(l, c, Number::Int(0))),
    ("empty_like", |l, c| like(l, c, Number::Int(0))),
    ("empty_permuted", |l, c| sized(l, c, Number::Int(0))),
    ("empty_strided", |l, c| sized(l, c, Number::Int(0))),
    ("eye", eye),
    ("fill", |l, c| like(l, c, c.number("value")?)),
    ("full", |l, c| sized(l, c, c.number("fill_value")?)),
    ("full_like", |l, c| like(l, c, c.number("fill_value")?)),
    ("linspace", linspace),
    ("new_empty", |l, c| sized(l, c, Number::Int(0))),
    ("new_empty_strided", |l, c| sized(l, c, Number::Int(0))),
    ("new_full", |l, c| sized(l, c, c.number("fill_value")?)),
    ("new_ones", |l, c| sized(l, c, Number::Int(1))),
    ("new_zeros", |l, c| sized(l, c, Number::Int(0))),
    ("ones", |l, c| sized(l, c, Number::Int(1))),
    ("ones_like", |l, c| like(l, c, Number::Int(1))),
    ("scalar_tensor", |l, c| {
        let dtype = c.out_dtype()?;
        one(l.scalar(dtype, c.number("s")?)?)
    }),
    ("zero", |l, c| like(l, c, Number::Int(0))),
    ("zeros", |l, c| sized(l, c, Number::Int(0))),
    ("zeros_like", |l, c| like(l, c, Number::Int(0))),
];

/// A number along axes of these sizes.
fn filled(l: &mut Lower<'_>, dtype: DType, n: Number, sizes: &[Size]) -> Res<ValueId> {
    let value = l.scalar(dtype, n)?;
    if sizes.is_empty() {
        return Ok(value);
    }
    if let (Some(known), false) = (all_known(sizes), matches!(n, Number::Value(_))) {
        let dims: Option<Vec<u64>> = known.iter().map(|&n| u64::try_from(n).ok()).collect();
        // Small ones are constants, which folds what reads them.
        if let Some(dims) = dims.filter(|d| d.iter().fold(1u64, |n, &d| n.saturating_mul(d)) <= 64) {
            let x = match n {
                Number::Float(x) => Some(x),
                Number::Int(i) => Some(i as f64).filter(|x| *x as i64 == i),
                Number::Bool(b) => Some(f64::from(u8::from(b))),
                Number::Value(_) => None,
            };
            if let Some(x) = x {
                return l.filled(dtype, &dims, x);
            }
        }
    }
    Ok(l.expand(value, sizes))
}

fn sized(l: &mut Lower<'_>, c: &Call<'_>, n: Number) -> Res<Vec<Option<ValueId>>> {
    let (dtype, sizes) = (c.out_dtype()?, c.sizes("size")?);
    one(filled(l, dtype, n, &sizes)?)
}

fn like(l: &mut Lower<'_>, c: &Call<'_>, n: Number) -> Res<Vec<Option<ValueId>>> {
    let (dtype, x) = (c.out_dtype()?, c.tensor("self")?);
    let sizes = l.sizes_of(x)?;
    one(filled(l, dtype, n, &sizes)?)
}

fn arange(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let start = if c.has("start") { c.number("start")? } else { Number::Int(0) };
    let step = if c.has("step") { c.number("step")? } else { Number::Int(1) };
    let end = c.number("end")?;
    // `Range` has no half and no small types; whole numbers are counted as such.
    let whole = [start, end, step].iter().all(|n| match n {
        Number::Float(_) => false,
        Number::Value(v) => l.dtype(*v).is_ok_and(|d| !d.is_float()),
        _ => true,
    });
    let counted = if whole {
        DType::I64
    } else if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    if let (Number::Int(s), Number::Int(e), Number::Int(step), DType::I64) = (start, end, step, counted)
        && step != 0
        && e.checked_sub(s).is_some_and(|n| n.unsigned_abs() <= 64)
    {
        let mut numbers = Vec::new();
        let mut at = s;
        while (step > 0 && at < e) || (step < 0 && at > e) {
            numbers.push(at);
            at = at.saturating_add(step);
        }
        let v = l.i64s(&numbers);
        return one(l.cast(v, dtype));
    }
    let (s, e, step) = (l.scalar(counted, start)?, l.scalar(counted, end)?, l.scalar(counted, step)?);
    let fact = Fact::of(Some(counted), c.out(0).shape);
    let made = l.emit_fact("Range", &[Some(s), Some(e), Some(step)], &[], fact);
    one(l.cast(made, dtype))
}

/// `start + i * step`, from the end for the second half, as torch does.
fn linspace(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (start, end, steps) = (c.float("start")?, c.float("end")?, c.int("steps")?);
    if !(0..=1 << 16).contains(&steps) || dtype != DType::F32 {
        return Err(format!("it makes {steps} numbers of type {dtype}"));
    }
    let step = if steps > 1 { ((end - start) / (steps - 1) as f64) as f32 } else { 0.0 };
    let number = |i: i64| {
        let from_start = start as f32 + step * i as f32;
        if i < steps / 2 { from_start } else { end as f32 - step * (steps - i - 1) as f32 }
    };
    let bytes = (0..steps).flat_map(|i| if steps == 1 { start as f32 } else { number(i) }.to_le_bytes()).collect();
    one(l.level.constant(dtype, &[steps as u64], bytes))
}

fn eye(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let n = c.size("n")?;
    let m = if c.has("m") { c.size("m")? } else { n };
    let zeros = filled(l, dtype, Number::Int(0), &[n, m])?;
    one(l.unit_like(zeros, 0, dtype))
}
