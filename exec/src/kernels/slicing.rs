//! Taking parts and adding margins: Slice, Pad, CenterCropPad, Trilu, Compress, ReverseSequence.

use recut_core::dtype::DType;

use super::attrs::{Attrs, to_size};
use super::strided::View;
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, gather, kernel, movement, one, parallel, resolve_axis};
use crate::invalid;
use crate::tensor::{Dims, Tensor};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Slice", 1, slice_by_attributes),
    Entry::onnx("Slice", 10, |_| kernel(slice_by_inputs)),
    Entry::onnx("Pad", 1, pad_by_attributes),
    Entry::onnx("Pad", 11, pad),
    Entry::onnx("CenterCropPad", 18, center_crop_pad),
    Entry::onnx("Trilu", 14, trilu),
    Entry::onnx("Compress", 9, compress),
    Entry::onnx("ReverseSequence", 10, reverse_sequence),
];

fn slice(
    ctx: &mut RunCtx<'_>,
    x: &Tensor,
    starts: &[i64],
    ends: &[i64],
    axes: Option<&[i64]>,
    steps: Option<&[i64]>,
) -> Result<Tensor, KernelError> {
    let n = starts.len();
    if ends.len() != n || axes.is_some_and(|a| a.len() != n) || steps.is_some_and(|s| s.len() != n) {
        return invalid!("starts, ends, axes and steps of Slice differ in length");
    }
    if axes.is_none() && n > x.rank() {
        return invalid!("Slice has {n} starts for a shape of rank {}", x.rank());
    }
    let mut view = View::whole(x.dims());
    let mut done = vec![false; x.rank()];
    for i in 0..n {
        let axis = resolve_axis(axes.map_or(i as i64, |a| a[i]), x.rank())?;
        if std::mem::replace(&mut done[axis], true) {
            return invalid!("Slice names axis {axis} twice");
        }
        let d = x.dims()[axis] as i64;
        let step = steps.map_or(1, |s| s[i]);
        if step == 0 {
            return invalid!("the step of Slice on axis {axis} is 0");
        }
        let wrap = |v: i64| if v < 0 { v.saturating_add(d) } else { v };
        let (lo, hi) = if step > 0 { (0, d) } else { (-1, d - 1) };
        let start = wrap(starts[i]).clamp(lo.max(0), hi.max(0));
        let end = wrap(ends[i]).clamp(lo, hi);
        let span = if step > 0 { end - start } else { start - end };
        let count = if span > 0 && d > 0 { (span as u64).div_ceil(step.unsigned_abs()) as usize } else { 0 };
        let stride = view.strides[axis];
        if count > 0 {
            view.offset += start as usize * stride as usize;
        }
        // A step beyond the axis takes one element: its size does not matter.
        view.strides[axis] = if count > 1 { stride * step as isize } else { stride };
        view.dims[axis] = count;
    }
    if view.dims.as_slice() == x.dims() && steps.is_none_or(|s| s.iter().all(|&s| s > 0)) {
        return Ok(x.clone());
    }
    movement::read(ctx, x, &view)
}

fn slice_by_attributes(ctx: &PrepareCtx<'_>) -> Made {
    let node = ctx.node;
    let (Some(starts), Some(ends)) = (Attrs(node).ints("starts")?.map(<[i64]>::to_vec), Attrs(node).ints("ends")?.map(<[i64]>::to_vec))
    else {
        return invalid!("Slice lacks attribute starts or ends");
    };
    let axes = Attrs(node).ints("axes")?.map(<[i64]>::to_vec);
    kernel(move |ctx, inputs| Ok(one(slice(ctx, inputs.tensor(0)?, &starts, &ends, axes.as_deref(), None)?)))
}

fn slice_by_inputs(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let (Some(starts), Some(ends)) = (inputs.ints(1)?, inputs.ints(2)?) else {
        return invalid!("starts or ends (inputs 1 and 2) are missing");
    };
    let (axes, steps) = (inputs.ints(3)?, inputs.ints(4)?);
    Ok(one(slice(ctx, inputs.tensor(0)?, &starts, &ends, axes.as_deref(), steps.as_deref())?))
}

/// Where the elements of a margin come from.
#[derive(Clone, Copy, PartialEq)]
enum Margin {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

/// Source index of every output index along an axis; `None` is the constant.
fn sources(margin: Margin, size: usize, before: i64, after: i64) -> Result<Vec<Option<usize>>, KernelError> {
    let d = size as i64;
    let Some(out) = d.checked_add(before).and_then(|n| n.checked_add(after)).filter(|&n| n >= 0) else {
        return invalid!("pads {before} and {after} leave no size for a dimension of {size}");
    };
    if d == 0 && out > 0 && margin != Margin::Constant {
        return invalid!("a dimension of size 0 has nothing to pad with");
    }
    // A margin larger than any tensor may be: refused before it is counted through.
    if out as u64 > crate::tensor::MAX_TENSOR_BYTES {
        return invalid!("pads {before} and {after} make a dimension of {out}: too large");
    }
    let at = |j: i64| {
        let i = j - before;
        if (0..d).contains(&i) {
            return Some(i as usize);
        }
        match margin {
            Margin::Constant => None,
            Margin::Edge => Some(i.clamp(0, d - 1) as usize),
            Margin::Wrap => Some(i.rem_euclid(d) as usize),
            Margin::Reflect => {
                // Mirrored at the first and last element, as often as it takes.
                let period = 2 * (d - 1);
                let i = if period == 0 { 0 } else { i.rem_euclid(period) };
                Some(if i < d { i } else { period - i } as usize)
            }
        }
    };
    Ok((0..out).map(at).collect())
}

fn pad_typed<T: Copy + Send + Sync>(src: &[T], fill: T, dims: &[usize], maps: &[Vec<Option<usize>>], dst: &mut [T]) {
    // Trailing axes without margins move as blocks.
    let plain = |a: usize| maps[a].len() == dims[a] && maps[a].iter().enumerate().all(|(i, s)| *s == Some(i));
    let last = (0..dims.len()).rev().find(|&a| !plain(a)).unwrap_or(0);
    let Some(map) = maps.get(last) else {
        dst.copy_from_slice(src);
        return;
    };
    let block: usize = dims[last + 1..].iter().product();
    let row = map.len() * block;
    if row == 0 || dst.is_empty() {
        return;
    }
    parallel::pieces(dst, row, 1, |start, piece| {
        for (r, out) in piece.chunks_exact_mut(row).enumerate() {
            let mut k = start / row + r;
            let mut at = Some(0usize);
            let mut step = dims[last];
            for a in (0..last).rev() {
                let source = maps[a][k % maps[a].len()];
                k /= maps[a].len();
                at = at.zip(source).map(|(at, s)| at + s * step);
                step *= dims[a];
            }
            let Some(at) = at else {
                out.fill(fill);
                continue;
            };
            let base = at * block;
            let mut j = 0;
            while j < map.len() {
                // As many neighbours at once as are neighbours in the source, too.
                let mut n = 1;
                match map[j] {
                    Some(s) => {
                        while j + n < map.len() && map[j + n] == Some(s + n) {
                            n += 1;
                        }
                        out[j * block..(j + n) * block].copy_from_slice(&src[base + s * block..base + (s + n) * block]);
                    }
                    None => {
                        while j + n < map.len() && map[j + n].is_none() {
                            n += 1;
                        }
                        out[j * block..(j + n) * block].fill(fill);
                    }
                }
                j += n;
            }
        }
    });
}

/// `x` with margins: `pads` has the sizes before and after for every axis.
fn padded(ctx: &mut RunCtx<'_>, x: &Tensor, pads: &[(i64, i64)], margin: Margin, fill: Option<&Tensor>) -> Result<Tensor, KernelError> {
    let maps: Vec<_> = x.dims().iter().zip(pads).map(|(&d, &(b, a))| sources(margin, d, b, a)).collect::<Result<_, _>>()?;
    let dims: Dims = maps.iter().map(Vec::len).collect();
    let fill = match fill {
        Some(f) if f.len() != 1 => return invalid!("the pad value has {} elements, expected one", f.len()),
        Some(f) => f.clone(),
        None => Tensor::zeros(x.dtype(), &[1])?,
    };
    let mut moved = movement::moving(ctx, &[x, &fill], |ctx, xs| {
        let (x, fill) = (xs[0], xs[1]);
        let mut out = ctx.alloc(x.dtype(), &dims)?;
        movement::by_width!(x.dtype(), T => {
            let value: &[T] = bytemuck::cast_slice(fill.bytes());
            pad_typed::<T>(bytemuck::cast_slice(x.bytes()), value[0], x.dims(), &maps, bytemuck::cast_slice_mut(out.bytes_mut()));
        });
        Ok(vec![out])
    })?;
    moved.pop().map_or_else(|| invalid!("nothing to pad"), Ok)
}

fn margin(ctx: &PrepareCtx<'_>) -> Result<Margin, KernelError> {
    Ok(match Attrs(ctx.node).text("mode", "constant")? {
        "constant" => Margin::Constant,
        "edge" => Margin::Edge,
        "reflect" => Margin::Reflect,
        "wrap" => Margin::Wrap,
        _ => return invalid!("attribute mode must be constant, edge, reflect or wrap"),
    })
}

/// `[begin…, end…]` of some axes as pairs for every axis.
fn pad_pairs(rank: usize, pads: &[i64], axes: Option<&[i64]>) -> Result<Vec<(i64, i64)>, KernelError> {
    let n = axes.map_or(rank, <[i64]>::len);
    if pads.len() != 2 * n {
        return invalid!("there are {} pads, expected {} (two for each of {n} axes)", pads.len(), 2 * n);
    }
    let mut pairs = vec![(0, 0); rank];
    for i in 0..n {
        pairs[resolve_axis(axes.map_or(i as i64, |a| a[i]), rank)?] = (pads[i], pads[n + i]);
    }
    Ok(pairs)
}

fn pad_by_attributes(ctx: &PrepareCtx<'_>) -> Made {
    let margin = margin(ctx)?;
    let pads = match Attrs(ctx.node).ints("pads")?.map(<[i64]>::to_vec) {
        Some(p) => p,
        None => match Attrs(ctx.node).ints("paddings")?.map(<[i64]>::to_vec) {
            Some(p) => p,
            None => return invalid!("attribute pads is missing"),
        },
    };
    let value = Attrs(ctx.node).float("value", 0.0)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let fill = cast::to(ctx, &Tensor::scalar(value), x.dtype(), true)?;
        Ok(one(padded(ctx, x, &pad_pairs(x.rank(), &pads, None)?, margin, Some(&fill))?))
    })
}

fn pad(ctx: &PrepareCtx<'_>) -> Made {
    let margin = margin(ctx)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let Some(pads) = inputs.ints(1)? else { return invalid!("the pads (input 1) are missing") };
        let axes = inputs.ints(3)?;
        let pairs = pad_pairs(x.rank(), &pads, axes.as_deref())?;
        Ok(one(padded(ctx, x, &pairs, margin, inputs.optional(2)?)?))
    })
}

fn center_crop_pad(ctx: &PrepareCtx<'_>) -> Made {
    let axes = Attrs(ctx.node).ints("axes")?.map(<[i64]>::to_vec);
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let Some(shape) = inputs.ints(1)? else { return invalid!("the shape (input 1) is missing") };
        let axes = axes.clone().unwrap_or_else(|| (0..x.rank() as i64).collect());
        if axes.len() != shape.len() {
            return invalid!("the shape (input 1) has {} sizes for {} axes", shape.len(), axes.len());
        }
        let mut pairs = vec![(0, 0); x.rank()];
        for (&axis, &size) in axes.iter().zip(&shape) {
            let axis = resolve_axis(axis, x.rank())?;
            to_size("a size of the shape (input 1)", size)?;
            let more = size - x.dims()[axis] as i64;
            // The odd one goes to the end; of what is cropped, the start is rounded down.
            let before = if more >= 0 { more / 2 } else { -(-more / 2) };
            pairs[axis] = (before, more - before);
        }
        Ok(one(padded(ctx, x, &pairs, Margin::Constant, None)?))
    })
}

fn trilu(ctx: &PrepareCtx<'_>) -> Made {
    let upper = Attrs(ctx.node).flag("upper", true)?;
    kernel(move |_, mut inputs| {
        let k = match inputs.ints(1)? {
            None => 0,
            Some(v) => match v.first() {
                Some(&k) => k,
                None => return invalid!("the diagonal (input 1) has no element"),
            },
        };
        let mut x = match inputs.take_unique(0) {
            Some(x) => x,
            None => inputs.tensor(0)?.clone(),
        };
        let &[.., rows, cols] = x.dims() else { return invalid!("the input has shape {:?}, expected rank 2 or more", x.dims()) };
        if x.dtype() == DType::String {
            return crate::unsupported!("Trilu of strings");
        }
        if x.is_empty() {
            return Ok(one(x));
        }
        movement::by_width!(x.dtype(), T => {
            let all: &mut [T] = bytemuck::cast_slice_mut(x.bytes_mut());
            for (r, row) in all.chunks_exact_mut(cols).enumerate() {
                let diagonal = ((r % rows) as i64).saturating_add(k);
                if upper {
                    row[..diagonal.clamp(0, cols as i64) as usize].fill(0);
                } else {
                    row[diagonal.saturating_add(1).clamp(0, cols as i64) as usize..].fill(0);
                }
            }
        });
        Ok(one(x))
    })
}

fn compress(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).opt_int("axis")?;
    kernel(move |ctx, inputs| {
        let (x, condition) = (inputs.tensor(0)?, inputs.tensor(1)?);
        if condition.dtype() != DType::Bool || condition.rank() != 1 {
            return invalid!("the condition (input 1) is {} of rank {}, expected a vector of bool", condition.dtype(), condition.rank());
        }
        let (x, axis) = match axis {
            Some(a) => (x.clone(), resolve_axis(a, x.rank())?),
            None => (x.reshaped(&[x.len()])?, 0),
        };
        let size = x.dims()[axis];
        if condition.len() > size {
            return invalid!("the condition (input 1) has {} elements, more than the axis's size of {size}", condition.len());
        }
        let keep: Vec<i64> = condition.bytes().iter().enumerate().filter(|(_, c)| **c != 0).map(|(i, _)| i as i64).collect();
        Ok(one(gather::take(ctx, &x, &keep, &[keep.len()], axis)?))
    })
}

fn reverse_sequence(ctx: &PrepareCtx<'_>) -> Made {
    let (batch, time) = (Attrs(ctx.node).int("batch_axis", 1)?, Attrs(ctx.node).int("time_axis", 0)?);
    if (batch, time) != (0, 1) && (batch, time) != (1, 0) {
        return invalid!("attributes batch_axis and time_axis must be 0 and 1, or 1 and 0");
    }
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let Some(lengths) = inputs.ints(1)? else { return invalid!("the lengths (input 1) are missing") };
        let &[a, b, ..] = x.dims() else { return invalid!("the input has shape {:?}, expected rank 2 or more", x.dims()) };
        let (batches, steps) = if batch == 0 { (a, b) } else { (b, a) };
        if lengths.len() != batches {
            return invalid!("there are {} lengths (input 1) for a batch of {batches}", lengths.len());
        }
        let mut order = Vec::with_capacity(a.saturating_mul(b).min(x.len().max(1)));
        for i in 0..a {
            for j in 0..b {
                let (n, t) = if batch == 0 { (i, j) } else { (j, i) };
                let len = to_size("a length (input 1)", lengths[n])?;
                if len > steps {
                    return invalid!("a length (input 1) is {len}, more than {steps} steps");
                }
                let t = if t < len { len - 1 - t } else { t };
                order.push(if batch == 0 { n * b + t } else { t * b + n } as i64);
            }
        }
        let mut flat = Dims::from_slice(&[a * b]);
        flat.extend_from_slice(&x.dims()[2..]);
        let y = gather::take(ctx, &x.reshaped(&flat)?, &order, &[order.len()], 0)?;
        Ok(one(y.reshaped(x.dims())?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    #[test]
    fn slices_clamp_as_numpy_does() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let x = Tensor::from_slice(&[5], &[0i32, 1, 2, 3, 4]).unwrap();
        let mut go = |start: i64, end: i64, step: i64| {
            slice(ctx, &x, &[start], &[end], None, Some(&[step])).map(|t| t.as_slice::<i32>().unwrap().to_vec())
        };
        assert_eq!(go(1, i64::MAX, 2).unwrap(), [1, 3]);
        assert_eq!(go(-1, i64::MIN, -2).unwrap(), [4, 2, 0]);
        assert_eq!(go(10, -10, -1).unwrap(), [4, 3, 2, 1, 0]);
        assert_eq!(go(3, 1, 1).unwrap(), [0i32; 0]);
        assert_eq!(go(0, 5, i64::MAX).unwrap(), [0]);
        assert_eq!(go(4, i64::MIN, i64::MIN).unwrap(), [4]);
        assert_eq!(go(7, 9, 1).unwrap(), [0i32; 0]);
        assert!(go(0, 1, 0).unwrap_err().to_string().contains("step"));
    }

    #[test]
    fn margins_have_the_right_elements() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let x = Tensor::from_slice(&[1, 3], &[1i32, 2, 3]).unwrap();
        let mut go = |margin, b, a| padded(ctx, &x, &[(0, 0), (b, a)], margin, None).unwrap().as_slice::<i32>().unwrap().to_vec();
        assert_eq!(go(Margin::Constant, 1, 2), [0, 1, 2, 3, 0, 0]);
        assert_eq!(go(Margin::Edge, 2, 1), [1, 1, 1, 2, 3, 3]);
        assert_eq!(go(Margin::Reflect, 2, 3), [3, 2, 1, 2, 3, 2, 1, 2]);
        assert_eq!(go(Margin::Wrap, 1, 2), [3, 1, 2, 3, 1, 2]);
        assert_eq!(go(Margin::Constant, -1, 1), [2, 3, 0]);
        assert!(padded(ctx, &x, &[(0, 0), (-2, -2)], Margin::Constant, None).is_err());
        assert!(padded(ctx, &x, &[(0, 0), (i64::MAX, 0)], Margin::Constant, None).is_err());
    }
}
