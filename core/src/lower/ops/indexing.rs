//! Reading by index.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{axis_of, int, of_rank};
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("_unsafe_index", index),
    ("embedding", |l, c| {
        let (table, at) = (c.tensor("weight")?, c.tensor("indices")?);
        one(gathered(l, table, at, 0)?)
    }),
    ("gather", |l, c| elements(l, c, "index", "dim")),
    ("index", index),
    ("index_select", |l, c| {
        let (x, at) = (c.tensor("self")?, c.tensor("index")?);
        let axis = l.axis(x, c.int("dim")?)?;
        let at = if l.rank(at)? == 0 { l.reshape_to(at, &[1]) } else { at };
        one(gathered(l, x, at, axis)?)
    }),
    ("masked_select", masked_select),
    ("nonzero", |l, c| {
        let x = c.tensor("self")?;
        one(nonzero(l, x)?)
    }),
    ("nonzero_numpy", nonzero_by_axis),
    ("one_hot", one_hot),
    ("take", |l, c| {
        let (x, at) = (c.tensor("self")?, c.tensor("index")?);
        let flat = l.reshape_to(x, &[-1]);
        one(gathered(l, flat, at, 0)?)
    }),
    ("take_along_dim", |l, c| elements(l, c, "indices", "dim")),
];

/// Slices of an axis, in the order of an index of any shape.
pub(super) fn gathered(l: &mut Lower<'_>, x: ValueId, at: ValueId, axis: usize) -> Res<ValueId> {
    let at = whole(l, at)?;
    let fact = l.fact(x);
    let shape = fact.shape.dims().zip(l.shape(at).dims()).map(|(x, at)| {
        let mut dims = x.to_vec();
        if axis < dims.len() {
            dims.splice(axis..=axis, at.iter().cloned());
        }
        Shape::new(dims)
    });
    let list = [("axis", int(axis as i64))];
    Ok(l.emit_fact("Gather", &[Some(x), Some(at)], &list, Fact::of(fact.dtype, shape.unwrap_or_default())))
}

/// An index in a type that ONNX takes.
fn whole(l: &mut Lower<'_>, at: ValueId) -> Res<ValueId> {
    Ok(match l.dtype(at)? {
        DType::I64 | DType::I32 => at,
        _ => l.cast(at, DType::I64),
    })
}

fn elements(l: &mut Lower<'_>, c: &Call<'_>, index: &str, dim: &str) -> Res<Vec<Option<ValueId>>> {
    let (mut x, at) = (c.tensor("self")?, c.tensor(index)?);
    let mut at = whole(l, at)?;
    let axis = match c.opt_int(dim)? {
        Some(d) => axis_of(d, l.rank(x)?)?,
        None => {
            (x, at) = (l.reshape_to(x, &[-1]), l.reshape_to(at, &[-1]));
            0
        }
    };
    let dtype = l.dtype(x)?;
    if l.rank(x)? == 0 || l.rank(at)? == 0 {
        let (wide, index) = (l.reshape_to(x, &[-1]), l.reshape_to(at, &[-1]));
        let got = l.emit("GatherElements", &[wide, index], &[("axis", int(0))], dtype);
        return one(if l.rank(at)? == 0 { l.reshape_to(got, &[]) } else { got });
    }
    let shape = l.shape(at);
    one(l.emit_fact("GatherElements", &[Some(x), Some(at)], &[("axis", int(axis as i64))], Fact::of(Some(dtype), shape)))
}

/// Positions of what is not zero, a row each.
pub(super) fn nonzero(l: &mut Lower<'_>, x: ValueId) -> Res<ValueId> {
    let rank = l.rank(x)? as u64;
    // ONNX gives scalars one axis, torch none; both count one element.
    let shape = Shape::new(vec![crate::shape::Dim::Known(rank), crate::shape::Dim::Unknown]);
    if rank == 0 {
        return Err("a scalar has no positions".to_owned());
    }
    let columns = l.emit_fact("NonZero", &[Some(x)], &[], Fact::of(Some(DType::I64), shape));
    Ok(l.transpose(columns, &[1, 0]))
}

/// Positions of what is not zero, one value an axis.
pub(super) fn nonzero_by_axis(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor(if c.has("condition") { "condition" } else { "self" })?;
    let rows = nonzero(l, x)?;
    (0..c.outputs().len()).map(|i| Ok(Some(super::shape::picked(l, rows, 1, Size::Known(i as i64))?))).collect()
}

fn masked_select(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, mask) = (c.tensor("self")?, c.tensor("mask")?);
    let dtype = l.dtype(x)?;
    // Both along the axes that they have together.
    let shape = |l: &mut Lower<'_>, v: ValueId| l.emit("Shape", &[v], &[], DType::I64);
    let (x, mask) = if l.shape(x) == l.shape(mask) && l.shape(x).is_static() {
        (x, mask)
    } else {
        let (xs, ms) = (shape(l, x), shape(l, mask));
        (l.emit("Expand", &[x, ms], &[], dtype), l.emit("Expand", &[mask, xs], &[], DType::Bool))
    };
    let (x, mask) = (l.reshape_to(x, &[-1]), l.reshape_to(mask, &[-1]));
    one(l.emit("Compress", &[x, mask], &[("axis", int(0))], dtype))
}

fn one_hot(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let at = c.tensor("self")?;
    let classes = c.int("num_classes")?;
    if classes <= 0 {
        return Err("the number of its classes depends on the data".to_owned());
    }
    let depth = l.i64s(&[classes]);
    let values = l.i64s(&[0, 1]);
    one(l.emit("OneHot", &[at, depth, values], &[("axis", int(-1))], DType::I64))
}

/// The index lists of `index` and `index_put`: masks become positions.
pub(super) fn positions(l: &mut Lower<'_>, given: Vec<Option<ValueId>>) -> Res<Vec<Option<ValueId>>> {
    let mut positions = Vec::new();
    for v in given {
        match v {
            Some(v) if matches!(l.dtype(v)?, DType::Bool | DType::U8) => {
                let rows = nonzero(l, v)?;
                for i in 0..l.rank(v)? {
                    positions.push(Some(super::shape::picked(l, rows, 1, Size::Known(i as i64))?));
                }
            }
            Some(v) => positions.push(Some(whole(l, v)?)),
            None => positions.push(None),
        }
    }
    while positions.last() == Some(&None) {
        positions.pop();
    }
    Ok(positions)
}

/// Indices that broadcast, as rows of positions: `[…, k]`, where `…` is their common shape.
pub(super) fn rows(l: &mut Lower<'_>, at: &[ValueId]) -> Res<(ValueId, usize)> {
    let mut rank = 0;
    for &v in at {
        rank = rank.max(l.rank(v)?);
    }
    let at: Vec<ValueId> = at.iter().map(|&v| l.cast(v, DType::I64)).collect();
    // The sum of all has the shape that they have together.
    let sum = at.iter().copied().reduce(|sum, v| l.zip("Add", sum, v, DType::I64));
    let common = sum.filter(|&sum| at.iter().any(|&v| !l.shape(v).is_static() || l.shape(v) != l.shape(sum)));
    let mut columns = Vec::new();
    for mut v in at {
        if let Some(sum) = common {
            let wide = l.emit("Shape", &[sum], &[], DType::I64);
            let shape = l.shape(sum);
            v = l.emit_fact("Expand", &[Some(v), Some(wide)], &[], Fact::of(Some(DType::I64), shape));
        }
        columns.push(l.unsqueeze(v, &[rank]));
    }
    Ok((l.concat(&columns, rank)?, rank))
}

/// Torch's advanced indexing. Indices that stand together keep their place in the result, others come first.
fn index(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let at = positions(l, c.opt_tensors("indices")?)?;
    let used: Vec<usize> = at.iter().enumerate().filter(|(_, v)| v.is_some()).map(|(i, _)| i).collect();
    let values: Vec<ValueId> = at.iter().flatten().copied().collect();
    let rank = l.rank(x)?;
    if used.is_empty() {
        return one(x);
    }
    if used.iter().any(|&u| u >= rank) {
        return Err("it has more indices than its input has axes".to_owned());
    }
    if let ([axis], [v]) = (&used[..], &values[..]) {
        return one(gathered(l, x, *v, *axis)?);
    }
    // The indexed axes first, then one gather over all of them.
    let together = used.windows(2).all(|w| w[1] == w[0] + 1);
    let mut order = used.clone();
    order.extend((0..rank).filter(|a| !used.contains(a)));
    let turned = l.transpose(x, &order);
    let (rows, common) = rows(l, &values)?;
    let dtype = l.dtype(x)?;
    let left = rank - used.len();
    let made = l.emit_fact("GatherND", &[Some(turned), Some(rows)], &[], Fact::of(Some(dtype), of_rank(common + left)));
    if !together || used[0] == 0 {
        return one(made);
    }
    // The common axes back to where the first index stood.
    let before = used[0];
    let mut order: Vec<usize> = (common..common + before).collect();
    order.extend(0..common);
    order.extend(common + before..common + left);
    one(l.transpose(made, &order))
}
