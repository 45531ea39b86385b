//! Reading and writing at indices: Gather, Scatter and their forms, OneHot, NonZero.

use recut_core::dtype::DType;

use super::attrs::{Attrs, to_size};
use super::binary::Op;
use super::{
    Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, half_float, kernel, movement, one, parallel, resolve_axis,
};
use crate::tensor::{Dims, Element, Tensor, element_bytes};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Gather", 1, gather),
    Entry::onnx("GatherElements", 11, gather_elements),
    Entry::onnx("GatherND", 11, gather_nd),
    Entry::onnx("Scatter", 9, scatter_elements),
    Entry::onnx("ScatterElements", 11, scatter_elements),
    Entry::onnx("ScatterND", 11, scatter_nd),
    Entry::onnx("TensorScatter", 24, tensor_scatter),
    Entry::onnx("OneHot", 9, one_hot),
    Entry::onnx("NonZero", 9, |_| kernel(non_zero)),
];

/// `index` of an axis of `size`, negative ones from the end.
fn resolve_index(index: i64, size: usize) -> Result<usize, KernelError> {
    let d = size as i64;
    if (-d..d).contains(&index) {
        Ok(if index < 0 { index + d } else { index } as usize)
    } else {
        invalid!("index {index} is out of bounds for an axis of size {size}")
    }
}

fn product(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
}

fn copy_blocks<T: Copy + Send + Sync>(src: &[T], indices: &[usize], size: usize, inner: usize, dst: &mut [T]) {
    let row = indices.len() * inner;
    if row == 0 || dst.is_empty() {
        return;
    }
    if inner == 1 {
        return parallel::pieces(dst, row, 1, |start, piece| {
            for (r, out) in piece.chunks_exact_mut(row).enumerate() {
                let base = (start / row + r) * size;
                out.iter_mut().zip(indices).for_each(|(d, &i)| *d = src[base + i]);
            }
        });
    }
    parallel::pieces(dst, inner, 1, |start, piece| {
        for (b, out) in piece.chunks_exact_mut(inner).enumerate() {
            let block = start / inner + b;
            let at = (block / indices.len() * size + indices[block % indices.len()]) * inner;
            out.copy_from_slice(&src[at..at + inner]);
        }
    });
}

/// The slices of `x` along `axis` at `indices`, which have the shape `index_dims`.
pub(super) fn take(ctx: &mut RunCtx<'_>, x: &Tensor, indices: &[i64], index_dims: &[usize], axis: usize) -> Result<Tensor, KernelError> {
    let size = x.dims()[axis];
    let indices: Vec<usize> = indices.iter().map(|&i| resolve_index(i, size)).collect::<Result<_, _>>()?;
    let mut dims = Dims::from_slice(&x.dims()[..axis]);
    dims.extend_from_slice(index_dims);
    dims.extend_from_slice(&x.dims()[axis + 1..]);
    let inner = product(&x.dims()[axis + 1..]);
    let mut moved = movement::moving(ctx, &[x], |ctx, xs| {
        let x = xs[0];
        let mut out = ctx.alloc(x.dtype(), &dims)?;
        movement::by_width!(x.dtype(), T => {
            copy_blocks::<T>(bytemuck::cast_slice(x.bytes()), &indices, size, inner, bytemuck::cast_slice_mut(out.bytes_mut()));
        });
        Ok(vec![out])
    })?;
    moved.pop().map_or_else(|| invalid!("nothing to gather"), Ok)
}

fn gather(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", 0)?;
    kernel(move |ctx, inputs| {
        let (x, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = resolve_axis(axis, x.rank())?;
        let Some(indices) = inputs.ints(1)? else { return invalid!("the indices (input 1) are missing") };
        Ok(one(take(ctx, x, &indices, index.dims(), axis)?))
    })
}

/// Checks that `index` fits `x` on every axis but `axis`, and gives for each of its elements the place in `x`.
fn element_places(x: &[usize], index: &[usize], indices: &[i64], axis: usize) -> Result<Vec<usize>, KernelError> {
    if x.len() != index.len() || x.iter().zip(index).enumerate().any(|(a, (x, i))| a != axis && i > x) {
        return invalid!("the indices' shape {index:?} does not fit the shape {x:?} along axis {axis}");
    }
    let strides = super::strided::dense_strides(x);
    let mut counter = vec![0usize; index.len()];
    let mut at = 0usize;
    let mut places = Vec::with_capacity(indices.len());
    for &i in indices {
        places.push(at + resolve_index(i, x[axis])? * strides[axis] as usize);
        for a in (0..index.len()).rev() {
            let stride = if a == axis { 0 } else { strides[a] as usize };
            counter[a] += 1;
            at += stride;
            if counter[a] < index[a] {
                break;
            }
            at -= stride * index[a];
            counter[a] = 0;
        }
    }
    Ok(places)
}

fn gather_elements(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", 0)?;
    kernel(move |ctx, inputs| {
        let (x, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = resolve_axis(axis, x.rank())?;
        let indices = inputs.ints(1)?.unwrap_or_default();
        let places = element_places(x.dims(), index.dims(), &indices, axis)?;
        Ok(one(at_places(ctx, x, &places, 1, index.dims())?))
    })
}

/// Blocks of `inner` elements of `x` that start at `places`.
fn at_places(ctx: &mut RunCtx<'_>, x: &Tensor, places: &[usize], inner: usize, dims: &[usize]) -> Result<Tensor, KernelError> {
    let mut moved = movement::moving(ctx, &[x], |ctx, xs| {
        let x = xs[0];
        let mut out = ctx.alloc(x.dtype(), dims)?;
        movement::by_width!(x.dtype(), T => {
            let (src, dst): (&[T], &mut [T]) = (bytemuck::cast_slice(x.bytes()), bytemuck::cast_slice_mut(out.bytes_mut()));
            if inner > 0 {
                dst.chunks_exact_mut(inner).zip(places).for_each(|(d, &p)| d.copy_from_slice(&src[p..p + inner]));
            }
        });
        Ok(vec![out])
    })?;
    moved.pop().map_or_else(|| invalid!("nothing to gather"), Ok)
}

/// Places in a tensor of shape `x` of index tuples: `batch` leading axes are shared, tuples index the `k` after them.
fn tuple_places(x: &[usize], index: &[usize], indices: &[i64], batch: usize) -> Result<(Vec<usize>, usize), KernelError> {
    let Some(&k) = index.last() else { return invalid!("the indices (input 1) are a scalar, expected tuples in the last axis") };
    if batch >= index.len() || batch + k > x.len() || index[..batch] != x[..batch] {
        return invalid!("indices of shape {index:?} do not index the shape {x:?} after {batch} batch axes");
    }
    let inner = product(&x[batch + k..]);
    let tuples = product(&index[..index.len() - 1]);
    // Empty tuples take no memory, so that their number is not bounded by the input's size.
    if tuples > 1 << 30 {
        return invalid!("indices of shape {index:?} are too many");
    }
    let per_batch = (tuples / product(&index[..batch]).max(1)).max(1);
    let slab = product(&x[batch..]);
    let mut places = Vec::with_capacity(tuples.min(indices.len().max(1)));
    for t in 0..tuples {
        let tuple = indices.get(t * k..(t + 1) * k).unwrap_or_default();
        let mut at = 0;
        for (&i, &d) in tuple.iter().zip(&x[batch..]) {
            at = at * d + resolve_index(i, d)?;
        }
        places.push(t / per_batch * slab + at * inner);
    }
    Ok((places, inner))
}

fn gather_nd(ctx: &PrepareCtx<'_>) -> Made {
    let batch = to_size("attribute batch_dims", Attrs(ctx.node).int("batch_dims", 0)?)?;
    kernel(move |ctx, inputs| {
        let (x, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let indices = inputs.ints(1)?.unwrap_or_default();
        let (places, block) = tuple_places(x.dims(), index.dims(), &indices, batch)?;
        // A tuple lies inside of the shape: checked with the places.
        let tuple = index.dims().last().copied().unwrap_or(0);
        let mut dims = Dims::from_slice(&index.dims()[..index.rank() - 1]);
        dims.extend_from_slice(&x.dims()[batch + tuple..]);
        Ok(one(at_places(ctx, x, &places, block, &dims)?))
    })
}

/// What is done with an element that is there already.
fn reduction(ctx: &PrepareCtx<'_>) -> Result<Option<Op>, KernelError> {
    Ok(match Attrs(ctx.node).text("reduction", "none")? {
        "none" => None,
        "add" => Some(Op::Add),
        "mul" => Some(Op::Mul),
        "max" => Some(Op::Max),
        "min" => Some(Op::Min),
        _ => return invalid!("attribute reduction must be none, add, mul, max or min"),
    })
}

trait Reduce: Element {
    fn reduce(self, other: Self, op: Op) -> Self;
}

macro_rules! reduce {
    (int $($T:ty),*) => {$(
        impl Reduce for $T {
            fn reduce(self, other: Self, op: Op) -> Self {
                match op {
                    Op::Add => self.wrapping_add(other),
                    Op::Mul => self.wrapping_mul(other),
                    Op::Max => self.max(other),
                    _ => self.min(other),
                }
            }
        }
    )*};
    (float $($T:ty),*) => {$(
        impl Reduce for $T {
            fn reduce(self, other: Self, op: Op) -> Self {
                match op {
                    Op::Add => self + other,
                    Op::Mul => self * other,
                    Op::Max => if self > other || self.is_nan() { self } else { other },
                    _ => if self < other || self.is_nan() { self } else { other },
                }
            }
        }
    )*};
}
reduce!(int i8, i16, i32, i64, u8, u16, u32, u64);
reduce!(float f32, f64);

/// Writes blocks of `inner` elements of `updates` over `x` at `places`.
fn scatter(
    ctx: &mut RunCtx<'_>,
    x: Tensor,
    updates: &Tensor,
    places: &[usize],
    inner: usize,
    op: Option<Op>,
) -> Result<Tensor, KernelError> {
    fn combine<T: Reduce>(x: &mut Tensor, updates: &Tensor, places: &[usize], inner: usize, op: Op) {
        let (Some(dst), Some(src)) = (x.as_mut_slice::<T>(), updates.as_slice::<T>()) else { return };
        for (u, &p) in src.chunks_exact(inner).zip(places) {
            dst[p..p + inner].iter_mut().zip(u).for_each(|(d, &u)| *d = d.reduce(u, op));
        }
    }
    let dtype = x.dtype();
    if dtype != updates.dtype() {
        return invalid!("the updates (input 2) are {}, but the data is {dtype}", updates.dtype());
    }
    if inner == 0 {
        return Ok(x);
    }
    let mut x = x;
    let Some(op) = op else {
        if let (Some(old), Some(new)) = (x.as_strings(), updates.as_strings()) {
            let mut strings = old.to_vec();
            for (u, &p) in new.chunks_exact(inner).zip(places) {
                strings[p..p + inner].clone_from_slice(u);
            }
            return Ok(Tensor::from_strings(x.dims(), strings)?);
        }
        let width = inner * element_bytes(dtype);
        let each = element_bytes(dtype);
        let src = updates.bytes();
        let dst = x.bytes_mut();
        for (u, &p) in src.chunks_exact(width).zip(places) {
            dst[p * each..p * each + width].copy_from_slice(u);
        }
        return Ok(x);
    };
    match dtype {
        DType::F32 => combine::<f32>(&mut x, updates, places, inner, op),
        DType::F64 => combine::<f64>(&mut x, updates, places, inner, op),
        DType::I8 => combine::<i8>(&mut x, updates, places, inner, op),
        DType::I16 => combine::<i16>(&mut x, updates, places, inner, op),
        DType::I32 => combine::<i32>(&mut x, updates, places, inner, op),
        DType::I64 => combine::<i64>(&mut x, updates, places, inner, op),
        DType::U8 => combine::<u8>(&mut x, updates, places, inner, op),
        DType::U16 => combine::<u16>(&mut x, updates, places, inner, op),
        DType::U32 => combine::<u32>(&mut x, updates, places, inner, op),
        DType::U64 => combine::<u64>(&mut x, updates, places, inner, op),
        DType::F16 | DType::Bf16 => {
            let (mut wide, updates) = (half_float::widen(ctx, &x)?, half_float::widen(ctx, updates)?);
            combine::<f32>(&mut wide, &updates, places, inner, op);
            return half_float::narrow(ctx, wide, dtype);
        }
        other => return unsupported!("reduction of {other}"),
    }
    Ok(x)
}

fn taken(inputs: &mut Inputs<'_>, i: usize) -> Result<Tensor, KernelError> {
    match inputs.take_unique(i) {
        Some(t) => Ok(t),
        None => Ok(inputs.tensor(i)?.clone()),
    }
}

fn scatter_elements(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", 0)?;
    let op = reduction(ctx)?;
    kernel(move |ctx, mut inputs| {
        let index = inputs.tensor(1)?;
        let updates = inputs.tensor(2)?.clone();
        if index.dims() != updates.dims() {
            return invalid!("indices and updates have the shapes {:?} and {:?}, which must be the same", index.dims(), updates.dims());
        }
        let indices = inputs.ints(1)?.unwrap_or_default();
        let x = inputs.tensor(0)?;
        let axis = resolve_axis(axis, x.rank())?;
        let places = element_places(x.dims(), updates.dims(), &indices, axis)?;
        let x = taken(&mut inputs, 0)?;
        Ok(one(scatter(ctx, x, &updates, &places, 1, op)?))
    })
}

fn scatter_nd(ctx: &PrepareCtx<'_>) -> Made {
    let op = reduction(ctx)?;
    kernel(move |ctx, mut inputs| {
        let (x, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let updates = inputs.tensor(2)?.clone();
        let indices = inputs.ints(1)?.unwrap_or_default();
        let (places, inner) = tuple_places(x.dims(), index.dims(), &indices, 0)?;
        let k = index.dims().last().copied().unwrap_or(0);
        let mut want = Dims::from_slice(&index.dims()[..index.rank() - 1]);
        want.extend_from_slice(&x.dims()[k..]);
        if updates.dims() != &*want {
            return invalid!("the updates (input 2) have the shape {:?}, expected {want:?}", updates.dims());
        }
        let x = taken(&mut inputs, 0)?;
        Ok(one(scatter(ctx, x, &updates, &places, inner, op)?))
    })
}

fn tensor_scatter(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", -2)?;
    let circular = match Attrs(ctx.node).text("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        _ => return invalid!("attribute mode must be linear or circular"),
    };
    kernel(move |ctx, mut inputs| {
        let x = inputs.tensor(0)?;
        let updates = inputs.tensor(1)?.clone();
        let axis = resolve_axis(axis, x.rank())?;
        if axis == 0 {
            return invalid!("attribute axis must not be the batch axis");
        }
        let fits = x.rank() == updates.rank() && x.dims().iter().zip(updates.dims()).enumerate().all(|(a, (x, u))| a == axis || x == u);
        if !fits {
            return invalid!("the update's shape {:?} does not fit the cache's shape {:?} along axis {axis}", updates.dims(), x.dims());
        }
        let (max, len) = (x.dims()[axis], updates.dims()[axis]);
        let batch = x.dims()[0];
        let starts = inputs.ints(2)?.unwrap_or_else(|| vec![0; batch]);
        if starts.len() != batch {
            return invalid!("there are {} write indices (input 2) for a batch of {batch}", starts.len());
        }
        let inner = product(&x.dims()[axis + 1..]);
        let prefixes = product(&x.dims()[..axis]);
        let per_batch = product(&x.dims()[1..axis]).max(1);
        let mut places = Vec::new();
        for p in 0..prefixes {
            let start = to_size("a write index (input 2)", starts[p / per_batch])?;
            for s in 0..len {
                let at = start.saturating_add(s);
                let at = if circular { at % max.max(1) } else { at };
                if at >= max {
                    return invalid!("write index {at} is out of bounds for a cache of {max}");
                }
                places.push((p * max + at) * inner);
            }
        }
        let x = taken(&mut inputs, 0)?;
        Ok(one(scatter(ctx, x, &updates, &places, inner, None)?))
    })
}

fn one_hot(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", -1)?;
    kernel(move |ctx, inputs| {
        let index = inputs.tensor(0)?;
        let indices = cast::to(ctx, index, DType::I64, true)?;
        let indices = indices.as_slice::<i64>().unwrap_or_default();
        let depth = cast::to(ctx, inputs.tensor(1)?, DType::I64, true)?;
        let depth = match depth.as_slice::<i64>() {
            Some(&[d]) => to_size("the depth (input 1)", d)?,
            _ => return invalid!("the depth (input 1) must have one element"),
        };
        let values = inputs.tensor(2)?;
        if values.dims() != [2] {
            return invalid!("the values (input 2) have the shape {:?}, expected [2]", values.dims());
        }
        let axis = resolve_axis(axis, index.rank() + 1)?;
        let mut dims = Dims::from_slice(index.dims());
        dims.insert(axis, depth);
        // Refuses what is too large before it is counted through.
        let mut choice = Tensor::zeros(DType::Bool, &dims)?;
        let inner = product(&index.dims()[axis..]);
        let hot = choice.bytes_mut();
        for (i, &v) in indices.iter().enumerate() {
            // Outside of -depth..depth nothing is hot.
            let d = depth as i64;
            if (-d..d).contains(&v) {
                let v = if v < 0 { v + d } else { v } as usize;
                hot[(i / inner * depth + v) * inner + i % inner] = 1;
            }
        }
        let picks: Vec<i64> = choice.bytes().iter().map(|&b| i64::from(b)).collect();
        Ok(one(take(ctx, values, &picks, &dims, 0)?))
    })
}

fn non_zero(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let x = inputs.tensor(0)?;
    let set = match x.as_strings() {
        Some(strings) => strings.iter().map(|s| !s.is_empty()).collect::<Vec<bool>>(),
        None => {
            let b = cast::to(ctx, x, DType::Bool, true)?;
            b.bytes().iter().map(|&b| b != 0).collect()
        }
    };
    let found: Vec<usize> = set.iter().enumerate().filter(|(_, s)| **s).map(|(i, _)| i).collect();
    let mut out = ctx.alloc(DType::I64, &[x.rank(), found.len()])?;
    let rows = out.as_mut_slice::<i64>().unwrap_or_default();
    let mut step = 1;
    for a in (0..x.rank()).rev() {
        let d = x.dims()[a];
        for (o, &f) in rows[a * found.len()..(a + 1) * found.len()].iter_mut().zip(&found) {
            *o = (f / step % d) as i64;
        }
        step *= d.max(1);
    }
    Ok(one(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    #[test]
    fn indices_out_of_bounds_are_named() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let x = Tensor::from_slice(&[3, 2], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(take(ctx, &x, &[-1, 0], &[2], 0).unwrap().as_slice::<i32>().unwrap(), [5, 6, 1, 2]);
        assert_eq!(take(ctx, &x, &[1], &[], 1).unwrap().as_slice::<i32>().unwrap(), [2, 4, 6]);
        for bad in [3, -4, i64::MIN, i64::MAX] {
            let e = take(ctx, &x, &[bad], &[1], 0).unwrap_err().to_string();
            assert!(e.contains("index") && e.contains("out of bounds"), "{e}");
        }
    }

    #[test]
    fn scatter_reduces_in_order() {
        let mut pool = BufferPool::default();
        let ctx = &mut RunCtx { pool: &mut pool };
        let x = Tensor::from_slice(&[3], &[1i64, 1, 1]).unwrap();
        let u = Tensor::from_slice(&[3], &[2i64, 3, 4]).unwrap();
        let places = element_places(&[3], &[3], &[0, 0, 2], 0).unwrap();
        let y = scatter(ctx, x.clone(), &u, &places, 1, Some(Op::Add)).unwrap();
        assert_eq!(y.as_slice::<i64>().unwrap(), [6, 1, 5]);
        let y = scatter(ctx, x, &u, &places, 1, None).unwrap();
        assert_eq!(y.as_slice::<i64>().unwrap(), [3, 1, 4]);
    }

    #[test]
    fn tuples_address_blocks() {
        let (places, inner) = tuple_places(&[2, 3, 4], &[2, 1], &[1, 0], 0).unwrap();
        assert_eq!((places, inner), (vec![12, 0], 12));
        let (places, inner) = tuple_places(&[2, 3, 4], &[2, 1], &[1, 2], 1).unwrap();
        assert_eq!((places, inner), (vec![4, 20], 4));
        assert!(tuple_places(&[2, 3], &[1, 3], &[0, 0, 0], 0).is_err());
    }
}
