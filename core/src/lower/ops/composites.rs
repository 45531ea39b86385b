//! Operators that torch itself composes of others.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::{axes_of, axis_of, int, ints, of_rank, text};
use super::super::walk::Lower;
use super::compare::promoted;
use super::linear::matmul;
use super::pool::{batched, unbatched};
use super::reduction::norm_over;
use super::{Table, dropped, in_training, one, operand};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_cdist_forward", cdist),
    ("block_diag", block_diag),
    ("cdist", cdist),
    ("col2im", col2im),
    ("cosine_similarity", cosine_similarity),
    ("cross", cross),
    ("deg2rad", |l, c| scaled(l, c, std::f64::consts::PI / 180.0)),
    ("diag_embed", diag_embed),
    ("diff", diff),
    ("glu", glu),
    ("im2col", im2col),
    ("isin", isin),
    ("kron", kron),
    ("l1_loss", |l, c| loss(l, c, "Abs")),
    ("linalg_cross", cross),
    ("linalg_multi_dot", chain),
    ("logcumsumexp", logcumsumexp),
    ("median", median),
    ("mse_loss", |l, c| loss(l, c, "Square")),
    ("nanmean", |l, c| without_nan(l, c, true)),
    ("nansum", |l, c| without_nan(l, c, false)),
    ("pairwise_distance", pairwise_distance),
    ("rad2deg", |l, c| scaled(l, c, 180.0 / std::f64::consts::PI)),
    ("ravel", |l, c| {
        let x = c.tensor("self")?;
        one(l.reshape_to(x, &[-1]))
    }),
    ("rot90", rot90),
    ("rrelu", rrelu),
    ("tensordot", tensordot),
    ("torchvision._cuda_version", dropped),
    ("trace", trace),
];

fn scaled(l: &mut Lower<'_>, c: &Call<'_>, by: f64) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let by = l.number(dtype, by)?;
    one(l.zip("Mul", x, by, dtype))
}

/// Half of an axis, gated by the other half.
fn glu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let half = l.static_dim(x, axis).ok_or("the size of its axis is not known")? / 2;
    let a = l.slice(x, axis, Size::Known(0), Size::Known(half), 1);
    let b = l.slice(x, axis, Size::Known(half), Size::Known(half * 2), 1);
    let gate = l.map("Sigmoid", b, dtype);
    one(l.zip("Mul", a, gate, dtype))
}

/// In inference the slope is the mean of its bounds.
fn rrelu(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if c.flag("training")? {
        return in_training("takes slopes at random");
    }
    let (x, dtype) = operand(l, c, "self")?;
    let slope = (c.float("lower")? + c.float("upper")?) / 2.0;
    let shape = l.shape(x);
    one(l.emit_fact("LeakyRelu", &[Some(x)], &[("alpha", super::super::values::float(slope))], Fact::of(Some(dtype), shape)))
}

fn isin(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.number(if c.has("elements") { "elements" } else { "element" })?;
    let among = c.number(if c.has("test_elements") { "test_elements" } else { "test_element" })?;
    let dtype = promoted(l, x, among)?;
    let (x, among) = (l.scalar(dtype, x)?, l.scalar(dtype, among)?);
    let rank = l.rank(x)?;
    let (wide, flat) = (l.unsqueeze(x, &[rank]), l.reshape_to(among, &[-1]));
    let same = l.zip("Equal", wide, flat, DType::Bool);
    let number = l.cast(same, DType::I32);
    let any = l.reduce("ReduceMax", number, &[rank], false, DType::I32);
    let held = l.cast(any, DType::Bool);
    one(if c.flag("invert")? { l.map("Not", held, DType::Bool) } else { held })
}

/// A mean, a sum, or each by itself.
fn loss(l: &mut Lower<'_>, c: &Call<'_>, of: &str) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "self")?, operand(l, c, "target")?);
    let difference = l.zip("Sub", a, b, dtype);
    let each = if of == "Abs" { l.map("Abs", difference, dtype) } else { l.zip("Mul", difference, difference, dtype) };
    let axes: Vec<usize> = (0..l.rank(each)?).collect();
    one(match c.int("reduction")? {
        0 => each,
        1 => l.reduce("ReduceMean", each, &axes, false, dtype),
        _ => l.reduce("ReduceSum", each, &axes, false, dtype),
    })
}

fn without_nan(l: &mut Lower<'_>, c: &Call<'_>, mean: bool) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let axes = axes_of(&c.opt_ints("dim")?.unwrap_or_default(), l.rank(x)?)?;
    let keep = c.flag("keepdim")?;
    if !dtype.is_float() {
        return one(l.reduce("ReduceSum", x, &axes, keep, dtype));
    }
    let nan = l.map("IsNaN", x, DType::Bool);
    let zero = l.number(dtype, 0.0)?;
    let held = l.select(nan, zero, x, dtype);
    let sum = l.reduce("ReduceSum", held, &axes, keep, dtype);
    if !mean {
        return one(sum);
    }
    let counted = l.map("Not", nan, DType::Bool);
    let counted = l.cast(counted, dtype);
    let count = l.reduce("ReduceSum", counted, &axes, keep, dtype);
    one(l.zip("Div", sum, count, dtype))
}

/// The lower one of the middle two, along an axis or of all.
fn median(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let dtype = l.dtype(x)?;
    let (x, axis, keep) = if c.has("dim") && l.rank(x)? > 0 {
        (x, l.axis(x, c.int("dim")?)?, c.flag("keepdim")?)
    } else {
        (l.reshape_to(x, &[-1]), 0, false)
    };
    let n = match l.static_dim(x, axis) {
        Some(n) if n > 0 => n,
        _ => {
            // Of all: the number of elements is known where the shape is.
            let n = l.static_dims(c.tensor("self")?).map(|d| d.iter().product()).filter(|&n: &i64| n > 0);
            n.ok_or("the size of its axis is not known")?
        }
    };
    let k = l.i64s(&[(n + 1) / 2]);
    let list = [("axis", int(axis as i64)), ("largest", int(0)), ("sorted", int(1))];
    let unknown = || Some(Fact::of(Some(dtype), of_rank(l.shape(x).rank().unwrap_or(1))));
    let at = Some(Fact { dtype: Some(DType::I64), ..unknown().unwrap_or_default() });
    let facts = [unknown(), at];
    let made = l.emit_all("TopK", &[Some(x), Some(k)], &list, &facts);
    let mut results = Vec::new();
    for v in made.into_iter().flatten().take(c.outputs().len()) {
        let last = l.slice(v, axis, Size::Known((n - 1) / 2), Size::Known((n + 1) / 2), 1);
        results.push(Some(if keep { last } else { l.squeeze(last, &[axis]) }));
    }
    Ok(results)
}

/// `log(sum of exp)` of all up to each place, from the largest of the axis so that nothing overflows.
fn logcumsumexp(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    if l.rank(x)? == 0 {
        return one(x);
    }
    let axis = l.axis(x, c.int("dim")?)?;
    let most = l.reduce("ReduceMax", x, &[axis], true, dtype);
    let less = l.zip("Sub", x, most, dtype);
    let e = l.map("Exp", less, dtype);
    let sum = l.running_sum(e, axis);
    let log = l.map("Log", sum, dtype);
    one(l.zip("Add", log, most, dtype))
}

/// Each element less the one before it, `n` times.
fn diff(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let dtype = c.out_dtype()?;
    let axis = l.axis(x, c.int("dim")?)?;
    let mut parts: Vec<ValueId> = [c.opt_tensor("prepend")?, Some(x), c.opt_tensor("append")?].into_iter().flatten().collect();
    parts.iter_mut().for_each(|p| *p = l.cast(*p, l.level.get(x).dtype.unwrap_or(dtype)));
    let mut now = l.concat(&parts, axis)?;
    let n = c.int("n")?;
    if !(0..=64).contains(&n) {
        return Err(format!("it takes differences {n} times"));
    }
    for _ in 0..n {
        let after = l.slice(now, axis, Size::Known(1), Size::Known(i64::MAX), 1);
        let before = l.slice(now, axis, Size::Known(0), Size::Known(-1), 1);
        now = if dtype == DType::Bool { l.zip("Xor", after, before, dtype) } else { l.zip("Sub", after, before, dtype) };
    }
    one(now)
}

/// A norm over one axis of differences.
fn distance(l: &mut Lower<'_>, difference: ValueId, p: f64, axis: usize, keep: bool, dtype: DType) -> Res<ValueId> {
    if p <= 0.0 {
        return Err(format!("its order is {p}"));
    }
    norm_over(l, difference, p, &[axis], keep, dtype)
}

/// Distances of all rows of one to all rows of the other.
fn cdist(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "x1")?, operand(l, c, "x2")?);
    let (ra, rb) = (l.rank(a)?, l.rank(b)?);
    if ra < 2 || rb < 2 {
        return Err("its inputs have no rows".to_owned());
    }
    let (a, b) = (l.unsqueeze(a, &[ra - 1]), l.unsqueeze(b, &[rb - 2]));
    let difference = l.zip("Sub", a, b, dtype);
    one(distance(l, difference, c.float("p")?, ra.max(rb), false, dtype)?)
}

fn pairwise_distance(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "x1")?, operand(l, c, "x2")?);
    let difference = l.zip("Sub", a, b, dtype);
    let eps = l.number(dtype, c.float("eps")?)?;
    let shifted = l.zip("Add", difference, eps, dtype);
    let last = l.rank(shifted)?.checked_sub(1).ok_or("its inputs are scalars")?;
    one(distance(l, shifted, c.float("p")?, last, c.flag("keepdim")?, dtype)?)
}

fn cosine_similarity(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "x1")?, operand(l, c, "x2")?);
    let product = l.zip("Mul", a, b, dtype);
    let rank = l.rank(product)?;
    let axis = axis_of(c.int("dim")?, rank)?;
    let eps = l.number(dtype, c.float("eps")?)?;
    let dot = l.reduce("ReduceSum", product, &[axis], false, dtype);
    let mut lengths = Vec::new();
    for v in [a, b] {
        let front = rank - l.rank(v)?;
        let own = axis.checked_sub(front).ok_or("its axis is not one of both inputs")?;
        let length = l.reduce("ReduceL2", v, &[own], false, dtype);
        lengths.push(l.zip("Max", length, eps, dtype));
    }
    let both = l.zip("Mul", lengths[0], lengths[1], dtype);
    one(l.zip("Div", dot, both, dtype))
}

fn cross(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "self")?, operand(l, c, "other")?);
    let axis = match c.opt_int("dim")? {
        Some(d) => l.axis(a, d)?,
        None => (0..l.rank(a)?).find(|&i| l.static_dim(a, i) == Some(3)).ok_or("it has no axis of size 3")?,
    };
    let mut turned = |v: ValueId, order: [i64; 3]| {
        let order = l.i64s(&order);
        let shape = l.shape(v);
        l.emit_fact("Gather", &[Some(v), Some(order)], &[("axis", int(axis as i64))], Fact::of(Some(dtype), shape))
    };
    let (a1, a2, b1, b2) = (turned(a, [1, 2, 0]), turned(a, [2, 0, 1]), turned(b, [1, 2, 0]), turned(b, [2, 0, 1]));
    let (x, y) = (l.zip("Mul", a1, b2, dtype), l.zip("Mul", a2, b1, dtype));
    one(l.zip("Sub", x, y, dtype))
}

fn chain(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let parts = c.tensors("tensors")?;
    let made = parts.into_iter().reduce(|a, b| matmul(l, a, b, dtype));
    one(made.ok_or("there is nothing to multiply")?)
}

/// Sums over pairs of axes: both become matrices.
fn tensordot(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "self")?, operand(l, c, "other")?);
    let (ra, rb) = (l.rank(a)?, l.rank(b)?);
    let of_a = c.ints("dims_self")?.iter().map(|&d| axis_of(d, ra)).collect::<Res<Vec<_>>>()?;
    let of_b = c.ints("dims_other")?.iter().map(|&d| axis_of(d, rb)).collect::<Res<Vec<_>>>()?;
    let free = |r: usize, used: &[usize]| (0..r).filter(|i| !used.contains(i)).collect::<Vec<_>>();
    let (free_a, free_b) = (free(ra, &of_a), free(rb, &of_b));
    let sizes_a: Vec<Size> = free_a.iter().map(|&i| l.size_of(a, i)).collect();
    let sizes_b: Vec<Size> = free_b.iter().map(|&i| l.size_of(b, i)).collect();
    let summed: Vec<Size> = of_a.iter().map(|&i| l.size_of(a, i)).collect();
    let k = l.size_product(&summed);
    let (n, m) = (l.size_product(&sizes_a), l.size_product(&sizes_b));
    let left = l.transpose(a, &[free_a, of_a].concat());
    let right = l.transpose(b, &[of_b, free_b].concat());
    let (left, right) = (l.reshape(left, &[n, k]), l.reshape(right, &[k, m]));
    let made = matmul(l, left, right, dtype);
    one(l.reshape(made, &[sizes_a, sizes_b].concat()))
}

fn trace(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let unit = l.unit_like(x, 0, dtype);
    let kept = l.zip("Mul", x, unit, dtype);
    one(l.reduce("ReduceSum", kept, &[0, 1], false, dtype))
}

/// The last axis along a diagonal of two new ones.
fn diag_embed(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let rank = l.rank(x)?;
    let (a, b) = (axis_of(c.int("dim1")?, rank + 1)?, axis_of(c.int("dim2")?, rank + 1)?);
    if c.int("offset")? != 0 || (a.min(b) + 1, a.max(b)) != (rank, rank) {
        return Err("its diagonal is not the main one of the last two axes".to_owned());
    }
    let n = l.size_of(x, rank - 1);
    let zero = l.scalar(dtype, Number::Int(0))?;
    let square = l.expand(zero, &[n, n]);
    let unit = l.unit_like(square, 0, dtype);
    // A choice, since a product would make NaN of infinities beside the diagonal.
    let on = l.cast(unit, DType::Bool);
    let wide = l.unsqueeze(x, &[rank]);
    one(l.select(on, wide, zero, dtype))
}

fn block_diag(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let mut rows = Vec::new();
    let mut sizes = Vec::new();
    for v in c.tensors("tensors")? {
        let missing: Vec<usize> = (0..2usize.saturating_sub(l.rank(v)?)).collect();
        let v = l.cast(v, dtype);
        let v = l.unsqueeze(v, &missing);
        sizes.push(l.static_dim(v, 1).ok_or("its sizes are not known")?);
        rows.push(v);
    }
    // Known sizes have 32 bits.
    let total: i64 = sizes.iter().sum();
    let mut before = 0;
    for (v, n) in rows.iter_mut().zip(&sizes) {
        let pads = l.i64s(&[0, before, 0, total - before - n]);
        *v = l.emit("Pad", &[*v, pads], &[("mode", text("constant"))], dtype);
        before += n;
    }
    one(l.concat(&rows, 0)?)
}

fn kron(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let ((a, dtype), (b, _)) = (operand(l, c, "self")?, operand(l, c, "other")?);
    let rank = l.rank(a)?.max(l.rank(b)?);
    let (fa, fb): (Vec<usize>, Vec<usize>) = ((0..rank - l.rank(a)?).collect(), (0..rank - l.rank(b)?).collect());
    let (a, b) = (l.unsqueeze(a, &fa), l.unsqueeze(b, &fb));
    let sizes: Vec<Size> = (0..rank)
        .map(|i| {
            let (x, y) = (l.size_of(a, i), l.size_of(b, i));
            l.size_product(&[x, y])
        })
        .collect();
    let (odd, even): (Vec<usize>, Vec<usize>) = ((0..rank).map(|i| 2 * i + 1).collect(), (0..rank).map(|i| 2 * i).collect());
    let (a, b) = (l.unsqueeze(a, &odd), l.unsqueeze(b, &even));
    let made = l.zip("Mul", a, b, dtype);
    one(l.reshape(made, &sizes))
}

/// Quarter turns: axes exchanged and one of them turned around.
fn rot90(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let &[a, b] = &c.ints("dims")?[..] else { return Err("it turns not two axes".to_owned()) };
    let (a, b) = (l.axis(x, a)?, l.axis(x, b)?);
    let turned = match c.int("k")?.rem_euclid(4) {
        0 => return one(x),
        1 => l.reversed(x, &[b]),
        2 => return one(l.reversed(x, &[a, b])),
        _ => l.reversed(x, &[a]),
    };
    one(super::shape::swapped(l, turned, a as i64, b as i64)?)
}

/// Windows as columns: `[batch, channels * window, places]`.
fn im2col(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let (x, single) = batched(l, x, 2)?;
    let (kernel, dilation) = (c.ints_of("kernel_size", 2)?, c.ints_of("dilation", 2)?);
    let (padding, stride) = (c.ints_of("padding", 2)?, c.ints_of("stride", 2)?);
    let channels = l.static_dim(x, 1).ok_or("the number of its channels is not known")?;
    let (Some(h), Some(w)) = (l.static_dim(x, 2), l.static_dim(x, 3)) else { return Err("its sizes are not known".to_owned()) };
    let pads = l.i64s(&[0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]]);
    let padded = l.emit("Pad", &[x, pads], &[("mode", text("constant"))], dtype);
    let all = [&kernel, &dilation, &padding, &stride];
    if all.into_iter().flatten().any(|n| !(0..1 << 20).contains(n)) || channels > 1 << 20 {
        return Err("its windows are too large or go backwards".to_owned());
    }
    let places = |size: i64, i: usize| -> Res<Vec<i64>> {
        let count = (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i].max(1) + 1;
        if count < 1 || kernel[i] < 1 || count.saturating_mul(kernel[i]) > 1 << 20 {
            return Err("its windows do not fit its input".to_owned());
        }
        Ok((0..kernel[i]).flat_map(|k| (0..count).map(move |p| (k, p))).map(|(k, p)| k * dilation[i] + p * stride[i]).collect())
    };
    let (rows, columns) = (places(h, 0)?, places(w, 1)?);
    let index = |l: &mut Lower<'_>, v: &[i64], k: i64| {
        let dims = [k as u64, v.len() as u64 / k as u64];
        l.level.constant(DType::I64, &dims, v.iter().flat_map(|n| n.to_le_bytes()).collect())
    };
    let at = index(l, &rows, kernel[0]);
    // Batch, channels, window row, places, columns.
    let by_row = l.emit("Gather", &[padded, at], &[("axis", int(2))], dtype);
    let at = index(l, &columns, kernel[1]);
    // Batch, channels, window row, places down, window column, places across.
    let by_column = l.emit_fact("Gather", &[Some(by_row), Some(at)], &[("axis", int(4))], Fact::of(Some(dtype), of_rank(6)));
    let turned = l.transpose(by_column, &[0, 1, 2, 4, 3, 5]);
    let batch = l.size_of(x, 0);
    let made = l.reshape(turned, &[batch, Size::Known(channels * kernel[0] * kernel[1]), Size::Known(-1)]);
    one(unbatched(l, made, single))
}

fn col2im(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, dtype) = operand(l, c, "self")?;
    let (x, single) = batched(l, x, 1)?;
    let (size, kernel) = (c.sizes("output_size")?, c.ints_of("kernel_size", 2)?);
    let (size, block) = (l.sizes(&size), l.i64s(&kernel));
    let padding = c.ints_of("padding", 2)?;
    let list = [
        ("dilations", ints(&c.ints_of("dilation", 2)?)),
        ("pads", ints(&[padding[0], padding[1], padding[0], padding[1]])),
        ("strides", ints(&c.ints_of("stride", 2)?)),
    ];
    let made = l.emit("Col2Im", &[x, size, block], &list, dtype);
    one(unbatched(l, made, single))
}
