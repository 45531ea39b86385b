//! Rules of operators that move, select, reduce or create elements.

use super::Facts;
use super::fact::{Fact, Int, MAX_INTS, broadcast, int_to_dim};
use super::rules::{Found, axis, constant, dim_op, dtype_attr, one, shape_of, unknown_of_rank};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::Node;
use crate::shape::{Dim, Shape};

pub(super) fn outputs(f: &mut Facts<'_>, node: &Node, opset: i64) -> Option<Found> {
    match &*node.op.name {
        "Constant" => Some(vec![constant(node)]),
        "Shape" => shape(f, node),
        "Size" => {
            let ints = f.input(node, 0)?.shape.elements().map(|e| vec![Some(e)]);
            Some(vec![Some(Fact { dtype: Some(DType::I64), shape: Shape::known(&[]), ints })])
        }
        "Reshape" => reshape(f, node),
        "Flatten" => flatten(f, node),
        "Squeeze" => squeeze(f, node),
        "Unsqueeze" => unsqueeze(f, node),
        "Transpose" => transpose(f, node),
        "Concat" => concat(f, node),
        "Split" => split(f, node),
        "Slice" => slice(f, node),
        "Gather" => gather(f, node),
        "GatherElements" => {
            let dtype = f.input(node, 0)?.dtype;
            one(dtype, f.input(node, 1)?.shape.clone())
        }
        "GatherND" => gather_nd(f, node),
        "Pad" => pad(f, node),
        "Tile" => tile(f, node),
        "Expand" => expand(f, node),
        "ConstantOfShape" => {
            let dtype = match node.attr("value") {
                Some(crate::graph::AttrValue::Tensor(w)) => Some(w.dtype),
                _ => Some(DType::F32),
            };
            let shape = match f.ints(node, 0) {
                Some(ints) => shape_of(&ints),
                None => rank_from_length(f, node, 0),
            };
            one(dtype, shape)
        }
        "Range" => range(f, node),
        "OneHot" => one_hot(f, node),
        "EyeLike" => {
            let x = f.input(node, 0)?.clone();
            one(dtype_attr(node, "dtype").or(x.dtype), x.shape)
        }
        "NonZero" => {
            let rank = f.input(node, 0)?.shape.rank();
            let rows = rank.map_or(Dim::Unknown, |r| Dim::Known(r.max(1) as u64));
            one(Some(DType::I64), Shape::new(vec![rows, Dim::Unknown]))
        }
        "TopK" => top_k(f, node),
        "ArgMax" | "ArgMin" => {
            let a = node.int("axis").unwrap_or(0);
            reduce(f, node, Some(vec![a]), Some(DType::I64))
        }
        op if op.starts_with("Reduce") => {
            let dtype = f.input(node, 0)?.dtype;
            let axes = if node.inputs.len() > 1 && node.input(1).is_some() {
                let Some(axes) = f.known_ints(node, 1) else {
                    let x = f.input(node, 0)?;
                    let shape = if node.int("keepdims").unwrap_or(1) == 1 { x.shape.rank().map(unknown_of_rank) } else { None };
                    return one(dtype, shape.unwrap_or_default());
                };
                Some(axes)
            } else {
                node.ints("axes").map(<[i64]>::to_vec)
            };
            let noop = node.int("noop_with_empty_axes").unwrap_or(0) != 0 && opset >= 13;
            if axes.as_ref().is_none_or(Vec::is_empty) && noop {
                return Some(vec![Some(f.input(node, 0)?.clone())]);
            }
            reduce(f, node, axes.filter(|a| !a.is_empty()), dtype)
        }
        "Unique" => {
            let x = f.input(node, 0)?.clone();
            let shape = match (node.int("axis"), x.dims()) {
                (None, _) => Shape::new(vec![Dim::Unknown]),
                (Some(a), Some(d)) => with_dim(d, axis(a, d.len())?, Dim::Unknown),
                _ => Shape::UNKNOWN,
            };
            let index = Some(Fact::new(Some(DType::I64), Shape::new(vec![Dim::Unknown])));
            Some(vec![Some(Fact::new(x.dtype, shape)), index.clone(), index.clone(), index])
        }
        "Compress" => {
            let x = f.input(node, 0)?.clone();
            let shape = match (node.int("axis"), x.dims()) {
                (None, _) => Shape::new(vec![Dim::Unknown]),
                (Some(a), Some(d)) => with_dim(d, axis(a, d.len())?, Dim::Unknown),
                _ => Shape::UNKNOWN,
            };
            one(x.dtype, shape)
        }
        "SequenceLength" => one(Some(DType::I64), Shape::known(&[])),
        "OptionalHasElement" => one(Some(DType::Bool), Shape::known(&[])),
        _ => None,
    }
}

/// `dims` with another size at `at`.
fn with_dim(dims: &[Dim], at: usize, dim: Dim) -> Shape {
    let mut dims = dims.to_vec();
    dims[at] = dim;
    Shape::new(dims)
}

/// A shape of as many unknown dimensions as the 1-D input `i` has elements.
fn rank_from_length(f: &mut Facts<'_>, node: &Node, i: usize) -> Shape {
    match f.input(node, i).and_then(|x| x.dims()) {
        Some([Dim::Known(n)]) if *n <= MAX_INTS as u64 => unknown_of_rank(*n as usize),
        _ => Shape::UNKNOWN,
    }
}

fn shape(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else { return one(Some(DType::I64), unknown_of_rank(1)) };
    let clamp = |a: i64| (if a < 0 { a.saturating_add(dims.len() as i64) } else { a }).clamp(0, dims.len() as i64) as usize;
    let start = clamp(node.int("start").unwrap_or(0));
    let end = clamp(node.int("end").unwrap_or(i64::MAX)).max(start);
    let ints: Vec<Int> = dims[start..end].iter().map(Dim::to_expr).collect();
    let shape = Shape::known(&[ints.len() as u64]);
    Some(vec![Some(Fact { dtype: Some(DType::I64), shape, ints: (ints.len() <= MAX_INTS).then_some(ints) })])
}

fn reshape(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let target = match node.ints("shape") {
        // Operator sets below 5 have it as an attribute.
        Some(ints) => Some(ints.iter().map(|&i| Some(Expr::constant(i))).collect()),
        None => f.ints(node, 1),
    };
    let x_ints = f.ints(node, 0);
    let x = f.input(node, 0)?.clone();
    let Some(target) = target else {
        return one(x.dtype, rank_from_length(f, node, 1));
    };
    let allow_zero = node.int("allowzero").unwrap_or(0) != 0;
    let mut dims: Vec<Dim> = Vec::with_capacity(target.len());
    let mut infer_at = None;
    for (i, t) in target.iter().enumerate() {
        match t.as_ref().and_then(Expr::as_const) {
            Some(-1) => {
                infer_at = Some(i);
                dims.push(Dim::Unknown);
            }
            Some(0) if !allow_zero => dims.push(x.dims().and_then(|d| d.get(i)).cloned().unwrap_or(Dim::Unknown)),
            _ => dims.push(int_to_dim(t)),
        }
    }
    if let (Some(at), Some(total)) = (infer_at, x.shape.elements()) {
        let mut rest = Some(Expr::constant(1));
        for (i, d) in dims.iter().enumerate() {
            if i != at {
                rest = rest.zip(d.to_expr()).map(|(r, d)| r * d);
            }
        }
        // `floor(n/…)` where the division is exact only for good inputs says more than nothing.
        dims[at] = match rest {
            Some(r) if r.as_const() == Some(0) => Dim::Unknown,
            Some(r) => exact_quotient(&total, &r),
            None => Dim::Unknown,
        };
    }
    let keeps_order = dims.len() <= 1;
    Some(vec![Some(Fact { dtype: x.dtype, shape: Shape::new(dims), ints: x_ints.filter(|_| keeps_order) })])
}

/// `total / rest`, cancelling common symbols of single products.
fn exact_quotient(total: &Expr, rest: &Expr) -> Dim {
    let quotient = total.exact_div(rest).unwrap_or_else(|| total.floor_div(rest));
    if quotient.is_overflow() { Dim::Unknown } else { Dim::from_expr(quotient) }
}

fn flatten(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else { return one(x.dtype, unknown_of_rank(2)) };
    let a = node.int("axis").unwrap_or(1);
    let at = if a == dims.len() as i64 { dims.len() } else { axis(a, dims.len())? };
    let product = |d: &[Dim]| Shape::new(d.to_vec()).elements().map_or(Dim::Unknown, Dim::from_expr);
    one(x.dtype, Shape::new(vec![product(&dims[..at]), product(&dims[at..])]))
}

fn axes_of(f: &mut Facts<'_>, node: &Node) -> Option<Option<Vec<i64>>> {
    if let Some(a) = node.ints("axes") {
        return Some(Some(a.to_vec()));
    }
    if node.input(1).is_some() { f.known_ints(node, 1).map(Some) } else { Some(None) }
}

fn squeeze(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let axes = axes_of(f, node);
    let ints = f.ints(node, 0);
    let x = f.input(node, 0)?;
    let (Some(dims), Some(axes)) = (x.dims(), axes) else { return one(x.dtype, Shape::UNKNOWN) };
    let shape = match axes {
        Some(axes) => {
            let drop: Option<Vec<usize>> = axes.iter().map(|&a| axis(a, dims.len())).collect();
            let drop = drop?;
            Shape::new(dims.iter().enumerate().filter(|(i, _)| !drop.contains(i)).map(|(_, d)| d.clone()).collect::<Vec<_>>())
        }
        None if dims.iter().all(|d| matches!(d, Dim::Known(_))) => {
            Shape::new(dims.iter().filter(|d| **d != Dim::Known(1)).cloned().collect::<Vec<_>>())
        }
        None => Shape::UNKNOWN,
    };
    Some(vec![Some(Fact { dtype: x.dtype, shape, ints })])
}

fn unsqueeze(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let axes = axes_of(f, node).flatten();
    let ints = f.ints(node, 0);
    let x = f.input(node, 0)?;
    let (Some(dims), Some(axes)) = (x.dims(), axes) else { return one(x.dtype, Shape::UNKNOWN) };
    let rank = dims.len() + axes.len();
    let at: Option<Vec<usize>> = axes.iter().map(|&a| axis(a, rank)).collect();
    let at = at?;
    let mut rest = dims.iter();
    let out: Option<Vec<Dim>> = (0..rank).map(|i| if at.contains(&i) { Some(Dim::Known(1)) } else { rest.next().cloned() }).collect();
    Some(vec![Some(Fact { dtype: x.dtype, shape: Shape::new(out?), ints: ints.filter(|_| rank <= 1) })])
}

fn transpose(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else { return one(x.dtype, Shape::UNKNOWN) };
    let shape = match node.ints("perm") {
        None => Shape::new(dims.iter().rev().cloned().collect::<Vec<_>>()),
        Some(perm) => {
            let out: Option<Vec<Dim>> = perm.iter().map(|&p| dims.get(axis(p, dims.len())?).cloned()).collect();
            Shape::new(out?)
        }
    };
    one(x.dtype, shape)
}

fn concat(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let a = node.int("axis").unwrap_or(1);
    let first = f.input(node, 0)?.clone();
    let mut out = first.dims().map(<[Dim]>::to_vec);
    for i in 1..node.inputs.len() {
        let Some(x) = f.input(node, i) else { continue };
        match (&mut out, x.dims()) {
            (Some(acc), Some(d)) if acc.len() == d.len() => {
                let at = axis(a, acc.len())?;
                for (j, (acc, d)) in acc.iter_mut().zip(d).enumerate() {
                    if j == at {
                        *acc = dim_op(acc, d, |a, b| a + b);
                    } else if !matches!(acc, Dim::Known(_)) {
                        *acc = d.clone();
                    }
                }
            }
            _ => out = None,
        }
    }
    let is_shape = matches!(first.dtype, Some(DType::I64 | DType::I32)) && first.shape.rank() == Some(1);
    let ints = if is_shape {
        let mut all = Some(Vec::new());
        for i in 0..node.inputs.len() {
            let part = f.ints(node, i);
            all = all.zip(part).map(|(mut all, part)| {
                all.extend(part);
                all
            });
        }
        all.filter(|v| v.len() <= MAX_INTS)
    } else {
        None
    };
    Some(vec![Some(Fact { dtype: first.dtype, shape: out.map_or(Shape::UNKNOWN, Shape::new), ints })])
}

fn split(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let parts = match node.ints("split") {
        Some(s) => Some(s.to_vec()),
        None => f.known_ints(node, 1),
    };
    let x = f.input(node, 0)?;
    let n = node.outputs.len();
    let Some(dims) = x.dims() else { return Some(vec![Some(Fact::new(x.dtype, Shape::UNKNOWN)); n]) };
    let at = axis(node.int("axis").unwrap_or(0), dims.len())?;
    let size = |i: usize| -> Dim {
        match (&parts, &dims[at]) {
            (Some(p), _) => p.get(i).and_then(|&p| u64::try_from(p).ok()).map_or(Dim::Unknown, Dim::Known),
            (None, Dim::Known(total)) if node.input(1).is_none() => {
                // Equal parts, the last one smaller where they do not divide.
                let step = total.div_ceil(n as u64);
                Dim::Known(step.min(total.saturating_sub(step * i as u64)))
            }
            (None, Dim::Sym(e)) if node.input(1).is_none() => e.exact_div(&Expr::constant(n as i64)).map_or(Dim::Unknown, Dim::from_expr),
            _ => Dim::Unknown,
        }
    };
    Some((0..n).map(|i| Some(Fact::new(x.dtype, with_dim(dims, at, size(i))))).collect())
}

fn slice(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let by_attr = node.ints("starts").is_some();
    let given = |f: &mut Facts<'_>, name: &str, i: usize| -> Option<Vec<Int>> {
        if by_attr { node.ints(name).map(|v| v.iter().map(|&x| Some(Expr::constant(x))).collect()) } else { f.ints(node, i) }
    };
    let (starts, ends) = (given(f, "starts", 1), given(f, "ends", 2));
    let x_ints = f.ints(node, 0);
    let axes_given = if by_attr { node.ints("axes").is_some() } else { node.input(3).is_some() };
    let axes = given(f, "axes", 3);
    let steps = if by_attr || node.input(4).is_none() { None } else { Some(f.ints(node, 4)?) };
    let x = f.input(node, 0)?.clone();
    let Some(dims) = x.dims() else { return one(x.dtype, Shape::UNKNOWN) };
    let (Some(starts), Some(ends)) = (starts, ends) else {
        // Which axes are cut may be known even where the positions are not.
        let out = match axes.map(|a| a.iter().map(|a| axis(a.as_ref()?.as_const()?, dims.len())).collect::<Option<Vec<usize>>>()) {
            Some(Some(cut)) => dims.iter().enumerate().map(|(i, d)| if cut.contains(&i) { Dim::Unknown } else { d.clone() }).collect(),
            _ => vec![Dim::Unknown; dims.len()],
        };
        return one(x.dtype, Shape::new(out));
    };
    if axes_given && axes.is_none() {
        return one(x.dtype, unknown_of_rank(dims.len()));
    }
    let mut out = dims.to_vec();
    let mut ints = x_ints;
    for (i, (start, end)) in starts.iter().zip(&ends).enumerate() {
        let at = match &axes {
            Some(a) => axis(a.get(i)?.as_ref()?.as_const()?, dims.len())?,
            None => i,
        };
        let step = match &steps {
            Some(s) => s.get(i)?.as_ref()?.as_const()?,
            None => 1,
        };
        if at >= out.len() || step == 0 {
            return one(x.dtype, unknown_of_rank(dims.len()));
        }
        out[at] = slice_dim(&dims[at], start, end, step);
        if let (Some(v), Some(s), Some(e)) = (&ints, start.as_ref().and_then(Expr::as_const), end.as_ref().and_then(Expr::as_const)) {
            let picked = slice_positions(v.len() as i64, s, e, step);
            ints = Some(picked.filter_map(|p| v.get(p as usize).cloned()).collect());
        } else {
            ints = None;
        }
    }
    Some(vec![Some(Fact { dtype: x.dtype, shape: Shape::new(out), ints })])
}

/// Positions that a slice of `n` elements takes.
fn slice_positions(n: i64, start: i64, end: i64, step: i64) -> impl Iterator<Item = i64> {
    let wrap = |p: i64| if p < 0 { p.saturating_add(n) } else { p };
    let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let start = wrap(start).clamp(lo.max(0), hi.max(0));
    let end = if step < 0 && end < -n { -1 } else { wrap(end).clamp(lo, hi) };
    std::iter::successors(Some(start), move |p| p.checked_add(step)).take_while(move |&p| if step > 0 { p < end } else { p > end })
}

fn slice_dim(dim: &Dim, start: &Int, end: &Int, step: i64) -> Dim {
    let (Some(start), Some(end)) = (start, end) else { return Dim::Unknown };
    match (dim, start.as_const(), end.as_const()) {
        (Dim::Known(n), Some(s), Some(e)) => {
            let Ok(n) = i64::try_from(*n) else { return Dim::Unknown };
            // Count without walking: n may be huge.
            let wrap = |p: i64| if p < 0 { p.saturating_add(n) } else { p };
            let (s, e) = if step > 0 {
                (wrap(s).clamp(0, n), wrap(e).clamp(0, n))
            } else {
                (wrap(s).clamp(-1, n - 1), if e < -n { -1 } else { wrap(e).clamp(-1, n - 1) })
            };
            let span = if step > 0 { e - s } else { s - e };
            Dim::Known(if span <= 0 { 0 } else { (span as u64).div_ceil(step.unsigned_abs()) })
        }
        // The whole axis, or all of it but a fixed number.
        (d, Some(s), Some(e)) if step == 1 && s >= 0 && e >= i64::from(i32::MAX) => {
            if s == 0 {
                d.clone()
            } else {
                d.to_expr().map_or(Dim::Unknown, |d| Dim::from_expr(d - Expr::constant(s)))
            }
        }
        (d, Some(0), Some(e)) if step == 1 && e < 0 => d.to_expr().map_or(Dim::Unknown, |d| Dim::from_expr(d + Expr::constant(e))),
        // An end given by symbols is a size that the graph computed from its own shapes.
        (d, Some(0), None) if step == 1 => {
            if d.to_expr().as_ref() == Some(end) {
                d.clone()
            } else {
                Dim::from_expr(end.clone())
            }
        }
        _ => Dim::Unknown,
    }
}

fn gather(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let indices = f.ints(node, 1);
    let data = if f.input(node, 0)?.shape.rank() == Some(1) { f.ints(node, 0) } else { None };
    let i = f.input(node, 1)?.clone();
    let x = f.input(node, 0)?;
    let (Some(d), Some(id)) = (x.dims(), i.dims()) else { return one(x.dtype, Shape::UNKNOWN) };
    let at = axis(node.int("axis").unwrap_or(0), d.len())?;
    let mut out = d[..at].to_vec();
    out.extend_from_slice(id);
    out.extend_from_slice(&d[at + 1..]);
    let ints = data.zip(indices).and_then(|(data, indices)| {
        indices.iter().map(|ix| data.get(axis(ix.as_ref()?.as_const()?, data.len())?).cloned()).collect::<Option<Vec<Int>>>()
    });
    Some(vec![Some(Fact { dtype: x.dtype, shape: Shape::new(out), ints })])
}

fn gather_nd(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let i = f.input(node, 1)?.clone();
    let x = f.input(node, 0)?;
    let batch = usize::try_from(node.int("batch_dims").unwrap_or(0)).ok()?;
    let shape = match (x.dims(), i.dims()) {
        (Some(d), Some(id)) => match id.last()? {
            Dim::Known(k) => {
                let mut out = id[..id.len() - 1].to_vec();
                out.extend_from_slice(d.get(batch.checked_add(usize::try_from(*k).ok()?)?..)?);
                Shape::new(out)
            }
            _ => Shape::UNKNOWN,
        },
        _ => Shape::UNKNOWN,
    };
    one(x.dtype, shape)
}

fn pad(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let pads = match node.ints("pads").or_else(|| node.ints("paddings")) {
        Some(p) => Some(p.to_vec()),
        None => f.known_ints(node, 1),
    };
    let axes = if node.input(3).is_some() { Some(f.known_ints(node, 3)) } else { None };
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else { return one(x.dtype, Shape::UNKNOWN) };
    let (Some(pads), axes) = (pads, axes) else { return one(x.dtype, unknown_of_rank(dims.len())) };
    let axes: Vec<usize> = match axes {
        None => (0..dims.len()).collect(),
        Some(None) => return one(x.dtype, unknown_of_rank(dims.len())),
        Some(Some(a)) => a.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
    };
    if pads.len() != axes.len() * 2 {
        return None;
    }
    let mut out = dims.to_vec();
    for (i, &at) in axes.iter().enumerate() {
        let by = pads[i].checked_add(pads[i + axes.len()])?;
        out[at] = dims[at].to_expr().map_or(Dim::Unknown, |d| Dim::from_expr(d + Expr::constant(by)));
    }
    one(x.dtype, Shape::new(out))
}

fn tile(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let repeats = f.ints(node, 1);
    let x = f.input(node, 0)?;
    let shape = match (x.dims(), repeats) {
        (Some(d), Some(r)) if d.len() == r.len() => {
            Shape::new(d.iter().zip(&r).map(|(d, r)| dim_op(d, &int_to_dim(r), |a, b| a * b)).collect::<Vec<_>>())
        }
        (Some(d), _) => unknown_of_rank(d.len()),
        _ => Shape::UNKNOWN,
    };
    one(x.dtype, shape)
}

fn expand(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let target = f.ints(node, 1);
    let x = f.input(node, 0)?.clone();
    let shape = match target {
        Some(t) => broadcast([x.shape.clone(), shape_of(&t)].iter()).unwrap_or_default(),
        None => match (x.shape.rank(), rank_from_length(f, node, 1).rank()) {
            (Some(a), Some(b)) => unknown_of_rank(a.max(b)),
            _ => Shape::UNKNOWN,
        },
    };
    one(x.dtype, shape)
}

fn range(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let dtype = f.input(node, 0)?.dtype;
    let scalar = |f: &mut Facts<'_>, i| f.ints(node, i).and_then(|v| v.into_iter().next().flatten());
    let (start, limit, step) = (scalar(f, 0), scalar(f, 1), scalar(f, 2));
    let dim = match (start, limit, step) {
        (Some(s), Some(l), Some(d)) => match (s.as_const(), l.as_const(), d.as_const()) {
            (Some(s), Some(l), Some(d)) if d != 0 => {
                let span = i128::from(l) - i128::from(s);
                let n = if (span > 0) == (d > 0) { span.unsigned_abs().div_ceil(i128::from(d).unsigned_abs()) } else { 0 };
                u64::try_from(n).map_or(Dim::Unknown, Dim::Known)
            }
            (_, _, Some(1)) => Dim::from_expr(l - s),
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    };
    one(dtype, Shape::new(vec![dim]))
}

fn one_hot(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let depth = f.ints(node, 1).and_then(|v| v.into_iter().next().flatten());
    let dtype = f.input(node, 2)?.dtype;
    let Some(dims) = f.input(node, 0)?.dims() else { return one(dtype, Shape::UNKNOWN) };
    let at = axis(node.int("axis").unwrap_or(-1), dims.len() + 1)?;
    let mut out = dims.to_vec();
    out.insert(at, depth.map_or(Dim::Unknown, Dim::from_expr));
    one(dtype, Shape::new(out))
}

fn top_k(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let k = match node.int("k") {
        Some(k) => Some(Expr::constant(k)),
        None => f.ints(node, 1).and_then(|v| v.into_iter().next().flatten()),
    };
    let x = f.input(node, 0)?;
    let shape = match x.dims() {
        Some(d) => with_dim(d, axis(node.int("axis").unwrap_or(-1), d.len())?, k.map_or(Dim::Unknown, Dim::from_expr)),
        None => Shape::UNKNOWN,
    };
    Some(vec![Some(Fact::new(x.dtype, shape.clone())), Some(Fact::new(Some(DType::I64), shape))])
}

/// Reduction over `axes` (all if `None`).
fn reduce(f: &mut Facts<'_>, node: &Node, axes: Option<Vec<i64>>, dtype: Option<DType>) -> Option<Found> {
    let keep = node.int("keepdims").unwrap_or(1) != 0;
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else {
        return one(dtype, if axes.is_none() && !keep { Shape::known(&[]) } else { Shape::UNKNOWN });
    };
    let at: Vec<usize> = match axes {
        None => (0..dims.len()).collect(),
        Some(a) => a.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
    };
    let out: Vec<Dim> = dims
        .iter()
        .enumerate()
        .filter_map(|(i, d)| match (at.contains(&i), keep) {
            (false, _) => Some(d.clone()),
            (true, true) => Some(Dim::Known(1)),
            (true, false) => None,
        })
        .collect();
    one(dtype, Shape::new(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_count_as_the_standard_says() {
        let int = |i: i64| Some(Expr::constant(i));
        let n = |d: u64, s, e, step| slice_dim(&Dim::Known(d), &int(s), &int(e), step);
        assert_eq!(n(10, 1, i64::MAX, 2), Dim::Known(5));
        assert_eq!(n(10, -1, i64::MIN, -1), Dim::Known(10));
        assert_eq!(n(10, 5, 5, 1), Dim::Known(0));
        assert_eq!(n(3, 0, 100, 1), Dim::Known(3));
        let batch = Dim::from_expr(Expr::var("b"));
        assert_eq!(slice_dim(&batch, &int(0), &int(i64::MAX), 1), batch);
        assert_eq!(slice_dim(&batch, &int(1), &int(i64::MAX), 1).to_string(), "b-1");
        assert_eq!(slice_positions(4, -1, i64::MIN, -2).collect::<Vec<_>>(), [3, 1]);
    }
}
