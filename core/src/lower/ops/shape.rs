//! Other shapes and orders of the same elements.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{all_known, axes_of, axis_of, int, text};
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("_reshape_alias", |l, c| view(l, c, "size")),
    ("_unsafe_view", |l, c| view(l, c, "size")),
    ("adjoint", |l, c| swap(l, c, -2, -1)),
    ("atleast_1d", |l, c| at_least(l, c, 1)),
    ("channel_shuffle", channel_shuffle),
    ("constant_pad_nd", |l, c| pad(l, c, "constant")),
    ("diagonal", diagonal),
    ("expand", |l, c| expand(l, c, &c.sizes("size")?)),
    ("expand_as", expand_as),
    ("expand_copy", |l, c| expand(l, c, &c.sizes("size")?)),
    ("flatten", flatten),
    ("flip", flip),
    ("mT", |l, c| swap(l, c, -2, -1)),
    ("matrix_H", |l, c| swap(l, c, -2, -1)),
    ("movedim", movedim),
    ("moveaxis", movedim),
    ("narrow", narrow),
    ("numpy_T", numpy_t),
    ("pad", |l, c| {
        let mode = c.text("mode")?.unwrap_or_else(|| "constant".into());
        pad(l, c, &mode)
    }),
    ("permute", permute),
    ("permute_copy", permute),
    ("pixel_shuffle", |l, c| depth_space(l, c, "upscale_factor", true)),
    ("pixel_unshuffle", |l, c| depth_space(l, c, "downscale_factor", false)),
    ("reflection_pad1d", |l, c| pad(l, c, "reflect")),
    ("reflection_pad2d", |l, c| pad(l, c, "reflect")),
    ("reflection_pad3d", |l, c| pad(l, c, "reflect")),
    ("repeat", repeat),
    ("tile", repeat),
    ("repeat_interleave", repeat_interleave),
    ("replication_pad1d", |l, c| pad(l, c, "replicate")),
    ("replication_pad2d", |l, c| pad(l, c, "replicate")),
    ("replication_pad3d", |l, c| pad(l, c, "replicate")),
    ("reshape", |l, c| view(l, c, "shape")),
    ("reshape_as", view_as),
    ("roll", roll),
    ("select", select),
    ("select_copy", select),
    ("slice", slice),
    ("slice_copy", slice),
    ("squeeze", squeeze),
    ("squeeze_copy", squeeze),
    ("swapaxes", |l, c| swap(l, c, c.int("axis0")?, c.int("axis1")?)),
    ("swapdims", |l, c| swap(l, c, c.int("dim0")?, c.int("dim1")?)),
    ("t", numpy_t),
    ("t_copy", numpy_t),
    ("transpose", |l, c| swap(l, c, c.int("dim0")?, c.int("dim1")?)),
    ("transpose_copy", |l, c| swap(l, c, c.int("dim0")?, c.int("dim1")?)),
    ("tril", |l, c| triangle(l, c, 0)),
    ("triu", |l, c| triangle(l, c, 1)),
    ("unflatten", unflatten),
    ("unfold", unfold),
    ("unfold_copy", unfold),
    ("unsqueeze", unsqueeze),
    ("unsqueeze_copy", unsqueeze),
    ("view", view_or_cast),
    ("view_as", view_as),
    ("view_copy", view_or_cast),
];

/// To the shape of the result where the program gives it in numbers, else to the sizes asked for.
fn shaped(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId, asked: &[Size]) -> ValueId {
    match c.out_sizes(0) {
        Some(known) => {
            if l.static_dims(x).as_ref() == Some(&known) {
                x
            } else {
                l.reshape_to(x, &known)
            }
        }
        None => l.reshape(x, asked),
    }
}

fn view(l: &mut Lower<'_>, c: &Call<'_>, name: &str) -> Res<Vec<Option<ValueId>>> {
    let (x, sizes) = (c.tensor("self")?, c.sizes(name)?);
    one(shaped(l, c, x, &sizes))
}

fn view_or_cast(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if c.node.op.overload.starts_with("dtype") {
        return Err("it reads the bytes of another element type".to_owned());
    }
    view(l, c, "size")
}

fn view_as(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, other) = (c.tensor("self")?, c.tensor("other")?);
    let sizes = l.sizes_of(other)?;
    one(shaped(l, c, x, &sizes))
}

fn flatten(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    if rank == 0 {
        return one(l.reshape_to(x, &[1]));
    }
    let (start, end) = (axis_of(c.int("start_dim")?, rank)?, axis_of(c.int("end_dim")?, rank)?);
    let mut sizes = Vec::new();
    for i in 0..rank {
        if i == start && end > start {
            // One size may be left open, and the others keep their places.
            sizes.push(Size::Known(-1));
        } else if i < start || i > end || start == end {
            sizes.push(l.size_of(x, i));
        }
    }
    one(shaped(l, c, x, &sizes))
}

fn unflatten(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.own_axis(x, c.int("dim")?)?;
    let mut sizes = l.sizes_of(x)?;
    sizes.splice(axis..=axis, c.sizes("sizes")?);
    one(shaped(l, c, x, &sizes))
}

fn squeeze(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    let asked = if c.has("dim") { Some(c.ints("dim")?) } else { None };
    let mut axes = match asked {
        Some(list) if list.is_empty() => Vec::new(),
        Some(list) => axes_of(&list, rank)?,
        None => (0..rank).collect(),
    };
    // Axes of another size stay; the program says which are left.
    if c.out(0).shape.rank() != Some(rank - axes.len().min(rank)) {
        axes.retain(|&a| l.static_dim(x, a) == Some(1));
    }
    one(l.squeeze(x, &axes))
}

fn unsqueeze(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = axis_of(c.int("dim")?, l.rank(x)? + 1)?;
    one(l.unsqueeze(x, &[axis]))
}

fn permute(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    let order = c.ints("dims")?.iter().map(|&a| axis_of(a, rank)).collect::<Res<Vec<_>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<_>>() {
        return Err("its order does not name every axis once".to_owned());
    }
    one(l.transpose(x, &order))
}

fn swap(l: &mut Lower<'_>, c: &Call<'_>, a: i64, b: i64) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    one(swapped(l, x, a, b)?)
}

/// Two axes exchanged.
pub(super) fn swapped(l: &mut Lower<'_>, x: ValueId, a: i64, b: i64) -> Res<ValueId> {
    let rank = l.rank(x)?;
    if rank == 0 {
        return Ok(x);
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis_of(a, rank)?, axis_of(b, rank)?);
    Ok(l.transpose(x, &order))
}

fn numpy_t(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let order: Vec<usize> = (0..l.rank(x)?).rev().collect();
    one(l.transpose(x, &order))
}

fn movedim(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    let from = c.ints("source")?.iter().map(|&a| axis_of(a, rank)).collect::<Res<Vec<_>>>()?;
    let to = c.ints("destination")?.iter().map(|&a| axis_of(a, rank)).collect::<Res<Vec<_>>>()?;
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let order: Vec<usize> =
        (0..rank).filter_map(|i| to.iter().position(|&t| t == i).and_then(|k| from.get(k).copied()).or_else(|| rest.next())).collect();
    one(l.transpose(x, &order))
}

fn expand(l: &mut Lower<'_>, c: &Call<'_>, size: &[Size]) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let known = all_known(size).is_some_and(|s| l.static_dims(x).is_some_and(|d| d == s));
    one(if known { x } else { l.expand(x, size) })
}

fn expand_as(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let other = c.tensor("other")?;
    let sizes = l.sizes_of(other)?;
    expand(l, c, &sizes)
}

fn repeat(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let mut times = c.sizes(if c.name() == "tile" { "dims" } else { "repeats" })?;
    let rank = l.rank(x)?;
    while times.len() < rank {
        times.insert(0, Size::Known(1));
    }
    let front: Vec<usize> = (0..times.len() - rank).collect();
    let x = l.unsqueeze(x, &front);
    let dtype = l.dtype(x)?;
    let times = l.sizes(&times);
    one(l.emit("Tile", &[x, times], &[], dtype))
}

fn repeat_interleave(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let times = c.size("repeats")?;
    let size = if c.has("output_size") { c.opt_size("output_size")? } else { None };
    if !c.has("self") {
        return one(super::bags::repeated(l, c.tensor("repeats")?, size)?);
    }
    let mut x = c.tensor("self")?;
    if let Size::Value(v) = times
        && l.rank(v)? > 0
    {
        let (x, axis) = match c.opt_int("dim")? {
            Some(d) => (x, l.axis(x, d)?),
            None => (l.reshape_to(x, &[-1]), 0),
        };
        let at = super::bags::repeated(l, v, size)?;
        return one(super::indexing::gathered(l, x, at, axis)?);
    }
    let axis = match c.opt_int("dim")? {
        Some(d) => l.own_axis(x, d)?,
        None => {
            x = l.reshape_to(x, &[-1]);
            0
        }
    };
    let mut sizes = l.sizes_of(x)?;
    let wide = l.unsqueeze(x, &[axis + 1]);
    let mut to = sizes.clone();
    to.insert(axis + 1, times);
    let wide = l.expand(wide, &to);
    sizes[axis] = Size::Known(-1);
    one(shaped(l, c, wide, &sizes))
}

fn slice(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let start = c.opt_size("start")?.unwrap_or(Size::Known(0));
    let end = c.opt_size("end")?.unwrap_or(Size::Known(i64::MAX));
    let step = c.int("step")?;
    let whole = matches!(end, Size::Known(e) if e == i64::MAX || l.static_dim(x, axis).is_some_and(|n| e >= n));
    if start == Size::Known(0) && whole && step == 1 {
        return one(x);
    }
    one(l.slice(x, axis, start, end, step))
}

fn narrow(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let (start, length) = (c.size("start")?, c.size("length")?);
    let end = sum(l, start, length);
    one(l.slice(x, axis, start, end, 1))
}

/// The sum of two sizes.
pub(super) fn sum(l: &mut Lower<'_>, a: Size, b: Size) -> Size {
    match (a, b) {
        (Size::Known(a), Size::Known(b)) => Size::Known(a.saturating_add(b)),
        (a, b) => {
            let (a, b) = (l.size_value(a), l.size_value(b));
            Size::Value(l.zip("Add", a, b, DType::I64))
        }
    }
}

fn select(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let index = c.size("index")?;
    one(picked(l, x, axis, index)?)
}

/// One position of an axis, which goes away.
pub(super) fn picked(l: &mut Lower<'_>, x: ValueId, axis: usize, index: Size) -> Res<ValueId> {
    let index = l.size_value(index);
    let fact = l.fact(x);
    let shape = fact.shape.dims().map(|d| {
        let mut d = d.to_vec();
        if axis < d.len() {
            d.remove(axis);
        }
        Shape::new(d)
    });
    let list = [("axis", int(axis as i64))];
    Ok(l.emit_fact("Gather", &[Some(x), Some(index)], &list, Fact::of(fact.dtype, shape.unwrap_or_default())))
}

fn flip(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axes = c.ints("dims")?;
    let rank = l.rank(x)?;
    if axes.is_empty() || rank == 0 {
        return one(x);
    }
    let axes = axes_of(&axes, rank)?;
    one(l.reversed(x, &axes))
}

fn roll(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let (shifts, axes) = (c.ints("shifts")?, c.ints("dims")?);
    let sizes = l.sizes_of(x)?;
    let (mut now, list): (ValueId, Vec<(usize, i64)>) = if axes.is_empty() {
        (l.reshape_to(x, &[-1]), shifts.first().map(|&s| (0, s)).into_iter().collect())
    } else {
        let axes = axes.iter().map(|&a| l.axis(x, a)).collect::<Res<Vec<_>>>()?;
        (x, axes.into_iter().zip(shifts).collect())
    };
    for (axis, shift) in list {
        // The last `shift` elements come first; counted from behind, this needs no size. Shifts beyond the size wrap.
        let shift = match l.static_dim(now, axis) {
            Some(0) => continue,
            Some(n) => shift.rem_euclid(n),
            None => shift,
        };
        if shift == 0 {
            continue;
        }
        if shift == i64::MIN {
            return Err("it shifts beyond any size".to_owned());
        }
        let shape = l.fact(now);
        let tail = l.slice(now, axis, Size::Known(-shift), Size::Known(i64::MAX), 1);
        let head = l.slice(now, axis, Size::Known(0), Size::Known(-shift), 1);
        now = l.emit_fact("Concat", &[Some(tail), Some(head)], &[("axis", int(axis as i64))], shape);
    }
    if axes.is_empty() {
        now = l.reshape(now, &sizes);
    }
    one(now)
}

fn triangle(l: &mut Lower<'_>, c: &Call<'_>, upper: i64) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let fact = l.fact(x);
    let k = l.size_value(Size::Known(c.int("diagonal")?));
    one(l.emit_fact("Trilu", &[Some(x), Some(k)], &[("upper", int(upper))], fact))
}

/// Of two axes the elements at equal positions, as a last axis: both become one, of which every `columns + 1`th counts.
fn diagonal(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    let (a, b) = (l.axis(x, c.int("dim1")?)?, l.axis(x, c.int("dim2")?)?);
    let offset = c.count("offset")?;
    if a == b {
        return Err("its two axes are one".to_owned());
    }
    let mut order: Vec<usize> = (0..rank).filter(|&i| i != a && i != b).collect();
    order.extend([a, b]);
    let moved = l.transpose(x, &order);
    let (Some(rows), Some(columns)) = (l.static_dim(x, a), l.static_dim(x, b)) else {
        return Err("the sizes of its two axes are not known".to_owned());
    };
    let count = if offset >= 0 { rows.min(columns - offset) } else { (rows + offset).min(columns) }.max(0);
    let start = if offset >= 0 { offset } else { -offset * columns };
    let mut sizes = l.sizes_of(moved)?;
    sizes.truncate(rank - 2);
    sizes.push(Size::Known(rows * columns));
    let flat = l.reshape(moved, &sizes);
    let end = start + count * (columns + 1);
    one(l.slice(flat, rank - 2, Size::Known(start.min(rows * columns)), Size::Known(if count == 0 { 0 } else { end }), columns + 1))
}

/// Windows of an axis, their positions as a last axis.
fn unfold(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dimension")?)?;
    let (size, step) = (c.int("size")?, c.int("step")?);
    let n = l.static_dim(x, axis).ok_or("the size of its axis is not known")?;
    if step <= 0 || size > n || size < 0 || n > 1 << 20 {
        return Err(format!("windows of {size} in steps of {step} do not fit an axis of {n}"));
    }
    let windows = (n - size) / step + 1;
    if windows.saturating_mul(size) > 1 << 20 {
        return Err("there are too many windows".to_owned());
    }
    let index: Vec<i64> = (0..windows).flat_map(|w| (0..size).map(move |i| w * step + i)).collect();
    let index = l.level.constant(DType::I64, &[windows as u64, size as u64], index.iter().flat_map(|i| i.to_le_bytes()).collect());
    let rank = l.rank(x)?;
    let fact = l.fact(x);
    let shape = fact.shape.dims().map(|d| {
        let mut d = d.to_vec();
        d[axis] = crate::shape::Dim::Known(windows as u64);
        d.insert(axis + 1, crate::shape::Dim::Known(size as u64));
        Shape::new(d)
    });
    let list = [("axis", int(axis as i64))];
    let wide = l.emit_fact("Gather", &[Some(x), Some(index)], &list, Fact::of(fact.dtype, shape.unwrap_or_default()));
    let mut order: Vec<usize> = (0..=rank).filter(|&i| i != axis + 1).collect();
    order.push(axis + 1);
    one(l.transpose(wide, &order))
}

fn depth_space(l: &mut Lower<'_>, c: &Call<'_>, name: &str, up: bool) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let factor = c.int(name)?;
    let rank = l.rank(x)?;
    if rank < 3 || factor < 1 {
        return Err("it needs channels, rows and columns".to_owned());
    }
    let dtype = l.dtype(x)?;
    // Other axes than one for the batch are joined for the time being.
    let flat = if rank == 4 {
        x
    } else {
        let mut sizes = vec![Size::Known(-1)];
        for i in rank - 3..rank {
            let s = l.size_of(x, i);
            sizes.push(s);
        }
        l.reshape(x, &sizes)
    };
    let made = if up {
        // Torch takes the channels as (channel, row, column).
        l.emit("DepthToSpace", &[flat], &[("blocksize", int(factor)), ("mode", text("CRD"))], dtype)
    } else {
        unshuffled(l, flat, factor)?
    };
    if rank == 4 {
        return one(made);
    }
    let sizes: Vec<Size> = match c.out(0).shape.dims() {
        Some(d) => d.iter().map(|d| d.known().and_then(|n| i64::try_from(n).ok()).map(Size::Known)).collect::<Option<_>>(),
        None => None,
    }
    .ok_or("its sizes are not known")?;
    one(l.reshape(made, &sizes))
}

/// Blocks of rows and columns become channels, ordered (channel, row, column).
fn unshuffled(l: &mut Lower<'_>, x: ValueId, factor: i64) -> Res<ValueId> {
    let (n, channels) = (l.size_of(x, 0), l.size_of(x, 1));
    let (Some(h), Some(w)) = (l.static_dim(x, 2), l.static_dim(x, 3)) else { return Err("its sizes are not known".to_owned()) };
    let f = Size::Known(factor);
    let (h, w) = (Size::Known(h / factor), Size::Known(w / factor));
    let split = l.reshape(x, &[n, channels, h, f, w, f]);
    let order = l.transpose(split, &[0, 1, 3, 5, 2, 4]);
    Ok(l.reshape(order, &[n, Size::Known(-1), h, w]))
}

fn channel_shuffle(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let groups = c.int("groups")?;
    let sizes = l.sizes_of(x)?;
    let Some(channels) = l.static_dim(x, 1).filter(|n| groups > 0 && n % groups == 0) else {
        return Err("its channels do not divide into its groups".to_owned());
    };
    let mut split = vec![sizes[0], Size::Known(groups), Size::Known(channels / groups)];
    split.extend_from_slice(&sizes[2..]);
    let wide = l.reshape(x, &split);
    let mut order: Vec<usize> = (0..split.len()).collect();
    order.swap(1, 2);
    let turned = l.transpose(wide, &order);
    one(l.reshape(turned, &sizes))
}

/// Elements put around: torch lists pairs from the last axis backwards.
fn pad(l: &mut Lower<'_>, c: &Call<'_>, mode: &str) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let rank = l.rank(x)?;
    let given = c.sizes(if c.has("pad") { "pad" } else { "padding" })?;
    let (mut before, mut after) = (vec![Size::Known(0); rank], vec![Size::Known(0); rank]);
    for (i, pair) in given.chunks(2).enumerate() {
        let axis = rank.checked_sub(i + 1).ok_or("it pads more axes than there are")?;
        let [b, a] = pair else { return Err("its padding comes in no pairs".to_owned()) };
        (before[axis], after[axis]) = (*b, *a);
    }
    before.append(&mut after);
    let pads = l.sizes(&before);
    let mode = match mode {
        "constant" => "constant",
        "reflect" => "reflect",
        "replicate" => "edge",
        "circular" => "wrap",
        other => return Err(format!("its mode is `{other}`")),
    };
    let dtype = l.dtype(x)?;
    let value = match c.has("value").then(|| c.opt_number("value")).transpose()?.flatten() {
        Some(n) if mode == "constant" => Some(l.scalar(dtype, n)?),
        _ => None,
    };
    one(l.emit_fact("Pad", &[Some(x), Some(pads), value], &[("mode", text(mode))], Fact { dtype: Some(dtype), ..Fact::default() }))
}

fn at_least(l: &mut Lower<'_>, c: &Call<'_>, rank: usize) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let missing = rank.saturating_sub(l.rank(x)?);
    let axes: Vec<usize> = (0..missing).collect();
    one(l.unsqueeze(x, &axes))
}
