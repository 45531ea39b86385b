//! Joining values and taking them apart.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::int;
use super::super::walk::Lower;
use super::shape::{picked, sum};
use super::{Table, one};
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("broadcast_tensors", broadcast_tensors),
    ("cat", cat),
    ("chunk", chunk),
    ("concat", cat),
    ("concatenate", cat),
    ("hstack", |l, c| stacked(l, c, 1)),
    ("meshgrid", meshgrid),
    ("split", split),
    ("split_with_sizes", split),
    ("stack", stack),
    ("tensor_split", tensor_split),
    ("unbind", unbind),
    ("unsafe_chunk", chunk),
    ("unsafe_split", split),
    ("unsafe_split_with_sizes", split),
    ("vstack", |l, c| stacked(l, c, 0)),
];

fn cat(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let mut parts = c.tensors("tensors")?;
    // Torch passes over empty vectors among other shapes.
    if parts.len() > 1 && parts.iter().any(|&p| l.static_dims(p).as_deref() == Some(&[0])) {
        let whole = parts.clone();
        parts.retain(|&p| l.static_dims(p).as_deref() != Some(&[0]));
        if parts.is_empty() {
            parts = whole;
        }
    }
    let Some(&first) = parts.first() else { return Err("there is nothing to join".to_owned()) };
    let axis = l.axis(first, c.int("dim")?)?;
    let dtype = c.out_dtype()?;
    let parts: Vec<ValueId> = parts.into_iter().map(|p| l.cast(p, dtype)).collect();
    one(l.concat(&parts, axis)?)
}

fn stack(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let parts = c.tensors("tensors")?;
    let Some(&first) = parts.first() else { return Err("there is nothing to join".to_owned()) };
    let axis = super::super::values::axis_of(c.int("dim")?, l.rank(first)? + 1)?;
    let dtype = c.out_dtype()?;
    let parts: Vec<ValueId> = parts
        .into_iter()
        .map(|p| {
            let p = l.cast(p, dtype);
            l.unsqueeze(p, &[axis])
        })
        .collect();
    one(l.concat(&parts, axis)?)
}

/// `hstack` and `vstack`: vectors are joined end to end, or become rows.
fn stacked(l: &mut Lower<'_>, c: &Call<'_>, axis: usize) -> Res<Vec<Option<ValueId>>> {
    let parts = c.tensors("tensors")?;
    let dtype = c.out_dtype()?;
    let mut vectors = false;
    let mut made = Vec::new();
    for p in parts {
        let rank = l.rank(p)?;
        vectors |= rank <= 1;
        let p = l.cast(p, dtype);
        let want = if axis == 0 { 2 } else { 1 };
        let front: Vec<usize> = (0..usize::saturating_sub(want, rank)).collect();
        made.push(l.unsqueeze(p, &front));
    }
    one(l.concat(&made, if axis == 1 && vectors { 0 } else { axis })?)
}

/// Parts of known or unknown sizes along an axis.
fn parts(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId, axis: usize, sizes: &[Size]) -> Res<Vec<Option<ValueId>>> {
    if sizes.len() != c.outputs().len() {
        return Err(format!("it makes {} parts, and the program has {} results", sizes.len(), c.outputs().len()));
    }
    if let [_] = sizes {
        return one(x);
    }
    let lengths = l.sizes(sizes);
    let dtype = l.dtype(x)?;
    let facts: Vec<Option<Fact>> = (0..sizes.len()).map(|i| Some(Fact::of(Some(dtype), c.out(i).shape))).collect();
    Ok(l.emit_all("Split", &[Some(x), Some(lengths)], &[("axis", int(axis as i64))], &facts))
}

fn split(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    if c.has("split_sizes") {
        let sizes = c.sizes("split_sizes")?;
        return parts(l, c, x, axis, &sizes);
    }
    // `split.sizes` calls its sizes `split_size`, too.
    let given = c.sizes("split_size")?;
    if c.node.op.overload.as_ref() == "sizes" {
        return parts(l, c, x, axis, &given);
    }
    let [size] = given[..] else { return parts(l, c, x, axis, &given) };
    let n = c.outputs().len();
    let sizes = pieces(l, x, axis, size, n)?;
    parts(l, c, x, axis, &sizes)
}

/// `n` pieces of one size, the last of what is left.
fn pieces(l: &mut Lower<'_>, x: ValueId, axis: usize, size: Size, n: usize) -> Res<Vec<Size>> {
    if n == 0 {
        return Err("it makes no parts".to_owned());
    }
    let mut sizes = vec![size; n - 1];
    let whole = l.size_of(x, axis);
    let last = match (whole, size) {
        (Size::Known(w), Size::Known(s)) => Size::Known(w.saturating_sub(s.saturating_mul(n as i64 - 1))),
        (whole, size) => {
            let before = l.size_product(&[size, Size::Known(1 - n as i64)]);
            sum(l, whole, before)
        }
    };
    sizes.push(last);
    Ok(sizes)
}

fn chunk(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let chunks = c.count("chunks")?;
    let size = match l.static_dim(x, axis) {
        Some(n) if chunks > 0 => Size::Known((n + chunks - 1) / chunks),
        _ => return Err("the size of its axis is not known".to_owned()),
    };
    let sizes = pieces(l, x, axis, size, c.outputs().len())?;
    parts(l, c, x, axis, &sizes)
}

fn tensor_split(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    let n = l.static_dim(x, axis).ok_or("the size of its axis is not known")?;
    let sizes: Vec<Size> = if c.has("indices") {
        let mut ends: Vec<i64> = c.ints("indices")?.iter().map(|&i| if i < 0 { i + n } else { i }.clamp(0, n)).collect();
        ends.push(n);
        let starts = std::iter::once(0).chain(ends.iter().copied().take(ends.len() - 1));
        starts.zip(&ends).map(|(s, &e)| Size::Known((e - s).max(0))).collect()
    } else {
        let sections = c.int("sections")?;
        if sections <= 0 || usize::try_from(sections) != Ok(c.outputs().len()) {
            return Err(format!("it makes {sections} parts, and {} are named", c.outputs().len()));
        }
        (0..sections).map(|i| Size::Known(n / sections + i64::from(i < n % sections))).collect()
    };
    parts(l, c, x, axis, &sizes)
}

fn unbind(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let axis = l.axis(x, c.int("dim")?)?;
    (0..c.outputs().len()).map(|i| Ok(Some(picked(l, x, axis, Size::Known(i as i64))?))).collect()
}

fn meshgrid(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let parts = c.tensors("tensors")?;
    let n = parts.len();
    let columns_first = c.has("indexing") && c.text("indexing")?.as_deref() == Some("xy") && n >= 2;
    let place = |i: usize| if columns_first && i < 2 { 1 - i } else { i };
    let mut sizes = vec![Size::Known(1); n];
    for (i, &p) in parts.iter().enumerate() {
        sizes[place(i)] = if l.rank(p)? == 0 { Size::Known(1) } else { l.size_of(p, 0) };
    }
    let mut made = Vec::new();
    for (i, &p) in parts.iter().enumerate() {
        let mut shape = vec![Size::Known(1); n];
        shape[place(i)] = Size::Known(-1);
        let wide = l.reshape(p, &shape);
        made.push(Some(l.expand(wide, &sizes)));
    }
    Ok(made)
}

fn broadcast_tensors(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let parts = c.tensors("tensors")?;
    let mut made = Vec::new();
    for (i, &p) in parts.iter().enumerate() {
        let sizes = c.out_sizes(i).ok_or("its sizes are not known")?;
        let sizes: Vec<Size> = sizes.into_iter().map(Size::Known).collect();
        made.push(Some(l.expand(p, &sizes)));
    }
    Ok(made)
}
