//! Operators that only move elements: Transpose, Slice, Concat, Split, Expand, Tile, Pad and others. They work on the
//! width of an element, whatever its type; strings travel as their places.

use recut_core::dtype::DType;
use smallvec::SmallVec;

use super::attrs::{Attrs, to_size};
use super::strided::{self, View};
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, broadcast_dims, kernel, one, parallel, resolve_axis};
use crate::invalid;
use crate::tensor::{Dims, Tensor, Value};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Transpose", 1, transpose),
    Entry::onnx("Concat", 1, concat),
    Entry::onnx("Split", 1, split),
    Entry::onnx("Expand", 8, |_| kernel(expand)),
    Entry::onnx("Tile", 1, |_| kernel(tile_counts)),
    Entry::onnx("Tile", 6, |_| kernel(tile)),
    Entry::onnx("DepthToSpace", 1, depth_to_space),
    Entry::onnx("SpaceToDepth", 1, space_to_depth),
];

/// Runs a block with a type of the width of `dtype`'s elements.
macro_rules! by_width {
    ($dtype:expr, $T:ident => $body:block) => {
        match $crate::tensor::element_bytes($dtype) {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            16 => {
                type $T = u128;
                $body
            }
            _ => return $crate::unsupported!("elements of type {}", $dtype),
        }
    };
}
pub(super) use by_width;

/// The strings whose places `picked` holds, counted through `tables`.
pub(super) fn strings_at(picked: &Tensor, tables: &[&[Box<[u8]>]]) -> Result<Tensor, KernelError> {
    let all: Vec<&Box<[u8]>> = tables.iter().flat_map(|t| t.iter()).collect();
    let places = picked.as_slice::<u64>().unwrap_or_default();
    let strings = places.iter().map(|&p| all.get(p as usize).map(|s| (*s).clone()).unwrap_or_default()).collect();
    Ok(Tensor::from_strings(picked.dims(), strings)?)
}

/// Runs `f`, which only moves elements of `sources`, also where these are strings.
pub(super) fn moving(
    ctx: &mut RunCtx<'_>,
    sources: &[&Tensor],
    f: impl FnOnce(&mut RunCtx<'_>, &[&Tensor]) -> Result<Vec<Tensor>, KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    if let Some(odd) = sources.iter().find(|t| t.dtype() != sources[0].dtype()) {
        return invalid!("inputs are {} and {}: their types must be the same", sources[0].dtype(), odd.dtype());
    }
    let Some(tables) = sources.iter().map(|t| t.as_strings()).collect::<Option<Vec<_>>>() else { return f(ctx, sources) };
    let mut places = Vec::new();
    let mut next = 0u64;
    for t in sources {
        let own: Vec<u64> = (next..next + t.len() as u64).collect();
        next += t.len() as u64;
        places.push(Tensor::from_slice(t.dims(), &own)?);
    }
    let moved = f(ctx, &places.iter().collect::<Vec<_>>())?;
    moved.iter().map(|t| strings_at(t, &tables)).collect()
}

/// The elements of `x` that `view` reads.
pub(super) fn read(ctx: &mut RunCtx<'_>, x: &Tensor, view: &View) -> Result<Tensor, KernelError> {
    let mut moved = moving(ctx, &[x], |ctx, xs| {
        let x = xs[0];
        let mut out = ctx.alloc(x.dtype(), &view.dims)?;
        by_width!(x.dtype(), T => {
            strided::copy::<T>(bytemuck::cast_slice(x.bytes()), view, bytemuck::cast_slice_mut(out.bytes_mut()));
        });
        Ok(vec![out])
    })?;
    moved.pop().map_or_else(|| invalid!("nothing to move"), Ok)
}

/// The axes in another order.
pub(super) fn permute(ctx: &mut RunCtx<'_>, x: &Tensor, perm: &[usize]) -> Result<Tensor, KernelError> {
    // Moving axes of size 1 about, or none, changes no element's place.
    let moving: SmallVec<[usize; 6]> = perm.iter().copied().filter(|&p| x.dims()[p] != 1).collect();
    if moving.is_sorted() {
        let dims: Dims = perm.iter().map(|&p| x.dims()[p]).collect();
        return Ok(x.reshaped(&dims)?);
    }
    read(ctx, x, &View::whole(x.dims()).permuted(perm))
}

fn transpose(ctx: &PrepareCtx<'_>) -> Made {
    let perm = Attrs(ctx.node).ints("perm")?.map(<[i64]>::to_vec);
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let perm: Vec<usize> = match &perm {
            None => (0..x.rank()).rev().collect(),
            Some(p) => {
                let axes: Vec<usize> = p.iter().map(|&a| resolve_axis(a, x.rank())).collect::<Result<_, _>>()?;
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..x.rank()) {
                    return invalid!("attribute perm {p:?} is no permutation of the {} axes", x.rank());
                }
                axes
            }
        };
        Ok(one(permute(ctx, x, &perm)?))
    })
}

fn concat(ctx: &PrepareCtx<'_>) -> Made {
    let axis = match Attrs(ctx.node).opt_int("axis")? {
        Some(a) => a,
        None if ctx.opset < 4 => 1,
        None => return invalid!("attribute axis is missing"),
    };
    kernel(move |ctx, inputs| {
        let parts: Vec<&Tensor> = (0..inputs.len()).map(|i| inputs.tensor(i)).collect::<Result<_, _>>()?;
        Ok(one(join(ctx, &parts, axis)?))
    })
}

/// The tensors one after the other along `axis`.
pub(super) fn join(ctx: &mut RunCtx<'_>, parts: &[&Tensor], axis: i64) -> Result<Tensor, KernelError> {
    let Some(first) = parts.first() else { return invalid!("Concat has no input") };
    let axis = resolve_axis(axis, first.rank())?;
    let mut dims = Dims::from_slice(first.dims());
    dims[axis] = 0;
    for (i, p) in parts.iter().enumerate() {
        let fits = p.rank() == dims.len() && p.dims().iter().zip(first.dims()).enumerate().all(|(a, (x, y))| a == axis || x == y);
        if !fits {
            return invalid!("input {i} has shape {:?}, which does not join {:?} along axis {axis}", p.dims(), first.dims());
        }
        dims[axis] = dims[axis].saturating_add(p.dims()[axis]);
    }
    if parts.len() == 1 {
        return Ok((*first).clone());
    }
    let mut joined = moving(ctx, parts, |ctx, parts| {
        let mut out = ctx.alloc(parts[0].dtype(), &dims)?;
        let inner: usize = dims[axis + 1..].iter().product();
        by_width!(parts[0].dtype(), T => {
            let sources: Vec<(&[T], usize)> =
                parts.iter().map(|p| (bytemuck::cast_slice(p.bytes()), p.dims()[axis] * inner)).collect();
            let row = dims[axis] * inner;
            let dst: &mut [T] = bytemuck::cast_slice_mut(out.bytes_mut());
            parallel::pieces(dst, row, 1, |start, piece| {
                let first = start.checked_div(row).unwrap_or(0);
                for (r, mut to) in piece.chunks_exact_mut(row.max(1)).enumerate() {
                    for (source, n) in &sources {
                        let (head, rest) = to.split_at_mut(*n);
                        head.copy_from_slice(&source[(first + r) * n..(first + r + 1) * n]);
                        to = rest;
                    }
                }
            });
        });
        Ok(vec![out])
    })?;
    joined.pop().map_or_else(|| invalid!("Concat has no input"), Ok)
}

fn split(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", 0)?;
    let sizes_attr = Attrs(ctx.node).ints("split")?.map(<[i64]>::to_vec);
    let count_attr = Attrs(ctx.node).opt_int("num_outputs")?;
    let outputs = ctx.node.outputs.len();
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let axis = resolve_axis(axis, x.rank())?;
        let n = x.dims()[axis];
        let sizes = match (inputs.ints(1)?, &sizes_attr) {
            (Some(s), _) => s,
            (None, Some(s)) => s.clone(),
            (None, None) => {
                let parts = to_size("attribute num_outputs", count_attr.unwrap_or(outputs as i64))?;
                if parts == 0 || parts > outputs.max(1) {
                    return invalid!("attribute num_outputs is {parts}, but the node has {outputs} outputs");
                }
                // The last one is smaller where the size does not divide.
                let each = n.div_ceil(parts);
                (0..parts).map(|i| each.min(n.saturating_sub(i * each)) as i64).collect()
            }
        };
        let sizes: Vec<usize> = sizes.iter().map(|&s| to_size("a split size", s)).collect::<Result<_, _>>()?;
        if sizes.iter().fold(0usize, |sum, &s| sum.saturating_add(s)) != n {
            return invalid!("the split sizes {sizes:?} do not add up to {n}, the size of axis {axis}");
        }
        let mut result = Outputs::new();
        let strides = strided::dense_strides(x.dims());
        let mut at = 0;
        for size in sizes {
            let mut view = View::whole(x.dims());
            view.dims[axis] = size;
            view.offset = at * strides[axis] as usize;
            at += size;
            result.push(Some(read(ctx, x, &view)?.into()));
        }
        Ok(result)
    })
}

/// `x` with the sizes `dims`, which it broadcasts to.
pub(super) fn expanded(ctx: &mut RunCtx<'_>, x: &Tensor, dims: &[usize]) -> Result<Tensor, KernelError> {
    if x.dims() == dims {
        return Ok(x.clone());
    }
    let mut view = View { offset: 0, dims: dims.into(), strides: SmallVec::from_elem(0, dims.len()) };
    let lead = dims.len().saturating_sub(x.rank());
    for (a, (&d, &s)) in x.dims().iter().zip(&strided::dense_strides(x.dims())).enumerate() {
        if d != 1 {
            view.strides[lead + a] = s;
        }
    }
    read(ctx, x, &view)
}

fn expand(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let x = inputs.tensor(0)?;
    let Some(shape) = inputs.ints(1)? else { return invalid!("the shape (input 1) is missing") };
    let shape: Dims = shape.iter().map(|&d| to_size("a size of the shape (input 1)", d)).collect::<Result<_, _>>()?;
    let dims = broadcast_dims(&[x.dims(), &shape])?;
    Ok(one(expanded(ctx, x, &dims)?))
}

/// `x` repeated `repeats[a]` times along each axis.
fn repeated(ctx: &mut RunCtx<'_>, x: &Tensor, repeats: &[i64]) -> Result<Tensor, KernelError> {
    if repeats.len() != x.rank() {
        return invalid!("the repeats {repeats:?} do not fit rank {}", x.rank());
    }
    let mut view = View { offset: 0, dims: Dims::new(), strides: SmallVec::new() };
    let mut dims = Dims::new();
    for ((&r, &d), &s) in repeats.iter().zip(x.dims()).zip(&strided::dense_strides(x.dims())) {
        let r = to_size("a repeat count (input 1)", r)?;
        view.dims.extend([r, d]);
        view.strides.extend([0, s]);
        let Some(size) = r.checked_mul(d) else {
            return invalid!("repeats {repeats:?} of shape {:?} overflow the size of a dimension", x.dims());
        };
        dims.push(size);
    }
    Ok(read(ctx, x, &view)?.reshaped(&dims)?)
}

fn tile(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let Some(repeats) = inputs.ints(1)? else { return invalid!("the repeats (input 1) are missing") };
    Ok(one(repeated(ctx, inputs.tensor(0)?, &repeats)?))
}

/// Tile of operator set 1: a count and an axis.
fn tile_counts(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let x = inputs.tensor(0)?;
    let scalar = |ctx: &mut RunCtx<'_>, i: usize| -> Result<i64, KernelError> {
        let t = super::cast::to(ctx, inputs.tensor(i)?, DType::I64, true)?;
        t.as_slice::<i64>().and_then(|v| v.first().copied()).map_or_else(|| invalid!("input {i} has no element"), Ok)
    };
    let (count, axis) = (scalar(ctx, 1)?, scalar(ctx, 2)?);
    let mut repeats = vec![1; x.rank()];
    repeats[resolve_axis(axis, x.rank())?] = count;
    Ok(one(repeated(ctx, x, &repeats)?))
}

fn block_size(ctx: &PrepareCtx<'_>) -> Result<usize, KernelError> {
    match to_size("attribute blocksize", Attrs(ctx.node).int("blocksize", 0)?)? {
        0 => invalid!("attribute blocksize must be positive"),
        b => Ok(b),
    }
}

fn depth_to_space(ctx: &PrepareCtx<'_>) -> Made {
    let b = block_size(ctx)?;
    let crd = match Attrs(ctx.node).text("mode", "DCR")? {
        "DCR" => false,
        "CRD" => true,
        _ => return invalid!("attribute mode must be DCR or CRD"),
    };
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let &[n, c, h, w] = x.dims() else { return invalid!("the input has shape {:?}, expected rank 4", x.dims()) };
        let Some(depth) = b.checked_mul(b).filter(|bb| c % bb == 0).map(|bb| c / bb) else {
            return invalid!("{c} channels do not divide by the square of blocksize {b}");
        };
        let (split, perm) = if crd { ([n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3]) } else { ([n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2]) };
        let y = permute(ctx, &x.reshaped(&split)?, &perm)?;
        Ok(one(y.reshaped(&[n, depth, h * b, w * b])?))
    })
}

fn space_to_depth(ctx: &PrepareCtx<'_>) -> Made {
    let b = block_size(ctx)?;
    let crd = match Attrs(ctx.node).text("mode", "DCR")? {
        "DCR" => false,
        "CRD" => true,
        _ => return invalid!("attribute mode must be DCR or CRD"),
    };
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let &[n, c, h, w] = x.dims() else { return invalid!("the input has shape {:?}, expected rank 4", x.dims()) };
        if h % b != 0 || w % b != 0 {
            return invalid!("the height {h} or width {w} does not divide by blocksize {b}");
        }
        let perm = if crd { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
        let y = permute(ctx, &x.reshaped(&[n, c, h / b, b, w / b, b])?, &perm)?;
        let Some(depth) = b.checked_mul(b).and_then(|bb| c.checked_mul(bb)) else { return invalid!("blocksize {b} is too large") };
        Ok(one(y.reshaped(&[n, depth, h / b, w / b])?))
    })
}

/// Outputs from tensors.
pub(super) fn many(tensors: impl IntoIterator<Item = Tensor>) -> Outputs {
    tensors.into_iter().map(|t| Some(Value::from(t))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    #[test]
    fn strings_move_like_numbers() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let word = |s: &str| -> Box<[u8]> { s.as_bytes().into() };
        let x = Tensor::from_strings(&[2, 2], ["a", "b", "c", "d"].map(word).to_vec()).unwrap();
        let y = permute(ctx, &x, &[1, 0]).unwrap();
        assert_eq!(y.as_strings().unwrap(), ["a", "c", "b", "d"].map(word));
        let z = join(ctx, &[&x, &y], -1).unwrap();
        assert_eq!(z.as_strings().unwrap(), ["a", "b", "a", "c", "c", "d", "b", "d"].map(word));
    }

    #[test]
    fn a_tile_bomb_is_refused() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let x = Tensor::from_slice(&[1, 1], &[1f32]).unwrap();
        assert!(repeated(ctx, &x, &[1 << 31, 1 << 31]).is_err());
        assert!(repeated(ctx, &x, &[i64::MAX, i64::MAX]).is_err());
        assert!(repeated(ctx, &x, &[-1, 2]).is_err());
        assert_eq!(repeated(ctx, &x, &[2, 3]).unwrap().dims(), [2, 3]);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let (a, b) = (Tensor::from_slice(&[1, 2], &[1f32, 2.0]).unwrap(), Tensor::from_slice(&[3], &[1f32, 2.0, 3.0]).unwrap());
        assert!(join(ctx, &[&a, &b], 0).is_err());
        let empty = Tensor::zeros(DType::F32, &[0, 2]).unwrap();
        assert_eq!(join(ctx, &[&a, &empty], 0).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
    }
}
