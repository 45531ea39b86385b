//! Pooling.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::{AttrList, all_known, int, ints};
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("_adaptive_avg_pool2d", |l, c| adaptive(l, c, 2, false)),
    ("_adaptive_avg_pool3d", |l, c| adaptive(l, c, 3, false)),
    ("adaptive_avg_pool1d", |l, c| adaptive(l, c, 1, false)),
    ("adaptive_avg_pool2d", |l, c| adaptive(l, c, 2, false)),
    ("adaptive_avg_pool3d", |l, c| adaptive(l, c, 3, false)),
    ("adaptive_max_pool1d", |l, c| adaptive(l, c, 1, true)),
    ("adaptive_max_pool2d", |l, c| adaptive(l, c, 2, true)),
    ("adaptive_max_pool3d", |l, c| adaptive(l, c, 3, true)),
    ("avg_pool1d", |l, c| average(l, c, 1)),
    ("avg_pool2d", |l, c| average(l, c, 2)),
    ("avg_pool3d", |l, c| average(l, c, 3)),
    ("max_pool1d", |l, c| max(l, c, 1)),
    ("max_pool1d_with_indices", |l, c| max(l, c, 1)),
    ("max_pool2d", |l, c| max(l, c, 2)),
    ("max_pool2d_with_indices", |l, c| max(l, c, 2)),
    ("max_pool3d", |l, c| max(l, c, 3)),
    ("max_pool3d_with_indices", |l, c| max(l, c, 3)),
];

/// With channels before `n` axes, and a batch axis before them, which one example gets for the time being; whether it did.
pub(super) fn batched(l: &mut Lower<'_>, x: ValueId, n: usize) -> Res<(ValueId, bool)> {
    match l.rank(x)? {
        r if r == n + 2 => Ok((x, false)),
        r if r == n + 1 => Ok((l.unsqueeze(x, &[0]), true)),
        r => Err(format!("its input has {r} axes")),
    }
}

pub(super) fn unbatched(l: &mut Lower<'_>, v: ValueId, single: bool) -> ValueId {
    if single { l.squeeze(v, &[0]) } else { v }
}

fn window(c: &Call<'_>, n: usize) -> Res<(Vec<i64>, Vec<i64>, AttrList)> {
    let kernel = c.ints_of("kernel_size", n)?;
    let stride = if c.has("stride") { c.ints("stride")? } else { Vec::new() };
    let stride = match stride.len() {
        0 => kernel.clone(),
        1 => vec![stride[0]; n],
        _ => stride,
    };
    let padding = if c.has("padding") { c.ints_of("padding", n)? } else { vec![0; n] };
    let both: Vec<i64> = padding.iter().chain(&padding).copied().collect();
    let ceil = c.has("ceil_mode") && c.flag("ceil_mode")?;
    let list =
        vec![("kernel_shape", ints(&kernel)), ("strides", ints(&stride)), ("pads", ints(&both)), ("ceil_mode", int(i64::from(ceil)))];
    Ok((kernel, padding, list))
}

fn max(l: &mut Lower<'_>, c: &Call<'_>, n: usize) -> Res<Vec<Option<ValueId>>> {
    let (_, _, mut list) = window(c, n)?;
    if c.has("dilation") {
        list.push(("dilations", ints(&c.ints_of("dilation", n)?)));
    }
    let (x, single) = batched(l, c.tensor("self")?, n)?;
    let dtype = c.out_dtype()?;
    let shape = |i: usize| if single { Shape::UNKNOWN } else { c.out(i).shape };
    if c.outputs().len() < 2 {
        let made = l.emit_fact("MaxPool", &[Some(x)], &list, Fact::of(Some(dtype), shape(0)));
        return one(unbatched(l, made, single));
    }
    let facts = [Some(Fact::of(Some(dtype), shape(0))), Some(Fact::of(Some(DType::I64), shape(1)))];
    let made = l.emit_all("MaxPool", &[Some(x)], &list, &facts);
    let [Some(made), Some(at)] = made[..] else { return Err("no pool was made".to_owned()) };
    // ONNX counts positions over batch and channels, torch within each plane.
    let planes: Option<Vec<i64>> = (2..n + 2).map(|i| l.static_dim(x, i)).collect();
    let plane = planes.and_then(|p| p.iter().try_fold(1i64, |a, &b| a.checked_mul(b)));
    let at = match plane {
        Some(plane) if plane > 0 => {
            let plane = l.scalar(DType::I64, Number::Int(plane))?;
            let made = l.zip("Mod", at, plane, DType::I64);
            Some(unbatched(l, made, single))
        }
        _ => None,
    };
    Ok(vec![Some(unbatched(l, made, single)), at])
}

fn average(l: &mut Lower<'_>, c: &Call<'_>, n: usize) -> Res<Vec<Option<ValueId>>> {
    let (kernel, _, mut list) = window(c, n)?;
    let include = c.flag("count_include_pad")?;
    let divisor = if c.has("divisor_override") { c.opt_int("divisor_override")? } else { None };
    list.push(("count_include_pad", int(i64::from(include || divisor.is_some()))));
    let (x, single) = batched(l, c.tensor("self")?, n)?;
    let dtype = c.out_dtype()?;
    let ceil = c.has("ceil_mode") && c.flag("ceil_mode")?;
    if divisor.is_some() && ceil {
        return Err("it has a divisor of its own and rounds sizes up".to_owned());
    }
    let shape = if single { Shape::UNKNOWN } else { c.out(0).shape };
    let mut made = l.emit_fact("AveragePool", &[Some(x)], &list, Fact::of(Some(dtype), shape));
    if let Some(divisor) = divisor {
        let count: i64 = kernel.iter().product();
        let by = l.number(dtype, count as f64 / divisor as f64)?;
        made = l.zip("Mul", made, by, dtype);
    }
    one(unbatched(l, made, single))
}

/// To a given size: a mean over all, or windows of one size where the sizes divide; else axis by axis over windows of
/// sizes that differ by one.
fn adaptive(l: &mut Lower<'_>, c: &Call<'_>, n: usize, max: bool) -> Res<Vec<Option<ValueId>>> {
    let wanted = c.opt_sizes("output_size")?.ok_or("it has no output size")?;
    let wanted = all_known(&wanted).ok_or("its output size is no constant")?;
    let wanted = if wanted.len() == 1 { vec![wanted[0]; n] } else { wanted };
    let (x, single) = batched(l, c.tensor("self")?, n)?;
    let dtype = c.out_dtype()?;
    if !max && wanted.iter().all(|&w| w == 1) {
        let axes: Vec<usize> = (2..n + 2).collect();
        let made = l.reduce("ReduceMean", x, &axes, true, dtype);
        return one(unbatched(l, made, single));
    }
    let sizes: Option<Vec<i64>> = (2..n + 2).map(|i| l.static_dim(x, i)).collect();
    let sizes = sizes.ok_or("the sizes of its input are not known")?;
    if wanted.len() != n || wanted.iter().any(|&w| w <= 0) {
        return Err("its output size does not fit its input".to_owned());
    }
    if sizes.iter().zip(&wanted).all(|(s, w)| s % w == 0) {
        let kernel: Vec<i64> = sizes.iter().zip(&wanted).map(|(s, w)| s / w).collect();
        let list = [("kernel_shape", ints(&kernel)), ("strides", ints(&kernel))];
        let op = if max { "MaxPool" } else { "AveragePool" };
        let shape = if single { Shape::UNKNOWN } else { c.out(0).shape };
        let made = l.emit_fact(op, &[Some(x)], &list, Fact::of(Some(dtype), shape));
        // Positions, where the call gives them, are given up: whoever reads them makes the node one that is not lowered.
        return one(unbatched(l, made, single));
    }
    let mut now = x;
    for (i, (&size, &want)) in sizes.iter().zip(&wanted).enumerate() {
        now = windows(l, now, i + 2, size, want, max, dtype)?;
    }
    one(unbatched(l, now, single))
}

/// One axis in windows `floor(i * size / want) .. ceil((i + 1) * size / want)`.
fn windows(l: &mut Lower<'_>, x: ValueId, axis: usize, size: i64, want: i64, max: bool, dtype: DType) -> Res<ValueId> {
    if !(1..=256).contains(&want) {
        return Err(format!("it makes {want} windows of unequal sizes"));
    }
    let op = if max { "ReduceMax" } else { "ReduceMean" };
    let mut parts = Vec::new();
    for i in 0..want {
        let (start, end) = (i * size / want, ((i + 1) * size + want - 1) / want);
        let part = l.slice(x, axis, Size::Known(start), Size::Known(end), 1);
        parts.push(l.reduce(op, part, &[axis], true, dtype));
    }
    l.concat(&parts, axis)
}
