//! Operators that compare the elements of an axis or run along it: ArgMax, ArgMin, TopK, Unique, CumSum, CumProd.

use std::cmp::Ordering;

use half::{bf16, f16};
use recut_core::dtype::DType;

use super::attrs::{Attrs, to_size};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, gather, half_float, kernel, movement, one, parallel, resolve_axis};
use crate::tensor::{Dims, Element, Tensor};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("ArgMax", 1, |ctx| arg(ctx, Ordering::Greater)),
    Entry::onnx("ArgMin", 1, |ctx| arg(ctx, Ordering::Less)),
    Entry::onnx("TopK", 1, top_k),
    Entry::onnx("Unique", 11, unique),
    Entry::onnx("CumSum", 11, |ctx| cumulative(ctx, false)),
    Entry::onnx("CumProd", 26, |ctx| cumulative(ctx, true)),
];

/// A total order: NaN above everything, as numpy sorts.
trait Ordered: Element {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered {
    (int $($T:ty),*) => {$(
        impl Ordered for $T {
            #[inline(always)]
            fn order(&self, other: &Self) -> Ordering { self.cmp(other) }
        }
    )*};
    (float $($T:ty),*) => {$(
        impl Ordered for $T {
            #[inline(always)]
            fn order(&self, other: &Self) -> Ordering {
                self.partial_cmp(other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
        }
    )*};
}
ordered!(int i8, i16, i32, i64, u8, u16, u32, u64);
ordered!(float f32, f64, f16, bf16);

/// Runs a block with the type of a tensor's elements.
macro_rules! by_order {
    ($dtype:expr, $T:ident => $body:block) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F16 => {
                type $T = f16;
                $body
            }
            DType::Bf16 => {
                type $T = bf16;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U8 | DType::Bool => {
                type $T = u8;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
            other => return unsupported!("elements of type {other}"),
        }
    };
}

/// `[outer, n, inner]` around an axis.
fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    let size = |dims: &[usize]| dims.iter().fold(1usize, |n, &d| n.saturating_mul(d));
    (size(&dims[..axis]), dims[axis], size(&dims[axis + 1..]))
}

fn arg(ctx: &PrepareCtx<'_>, better: Ordering) -> Made {
    let axis = Attrs(ctx.node).int("axis", 0)?;
    let keep = Attrs(ctx.node).flag("keepdims", true)?;
    let last = Attrs(ctx.node).flag("select_last_index", false)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let axis = resolve_axis(axis, x.rank())?;
        let (_, n, inner) = around(x.dims(), axis);
        let mut dims = Dims::from_slice(x.dims());
        dims[axis] = 1;
        let mut out = ctx.alloc(DType::I64, &dims)?;
        if n == 0 && !out.is_empty() {
            return invalid!("axis {axis} of the shape {:?} is empty: it has no largest or smallest element", x.dims());
        }
        let dst = out.as_mut_slice::<i64>().unwrap_or_default();
        by_order!(x.dtype(), T => {
            let src = x.as_slice::<T>().unwrap_or_default();
            parallel::pieces(dst, 1, n, |start, piece| {
                for (i, d) in piece.iter_mut().enumerate() {
                    let (o, c) = ((start + i) / inner, (start + i) % inner);
                    let line = src[o * n * inner + c..].iter().step_by(inner).take(n);
                    let mut best: Option<(usize, &T)> = None;
                    for (k, x) in line.enumerate() {
                        let wins = best.is_none_or(|(_, b)| {
                            let order = x.order(b);
                            order == better || last && order == Ordering::Equal
                        });
                        if wins {
                            best = Some((k, x));
                        }
                    }
                    *d = best.map_or(0, |(k, _)| k as i64);
                }
            });
        });
        if !keep {
            dims.remove(axis);
            out = out.reshaped(&dims)?;
        }
        Ok(one(out))
    })
}

fn top_k(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", -1)?;
    let largest = Attrs(ctx.node).flag("largest", true)?;
    let k_attr = Attrs(ctx.node).opt_int("k")?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let axis = resolve_axis(axis, x.rank())?;
        let k = match (inputs.ints(1)?.as_deref(), k_attr) {
            (Some(&[k]), _) | (None, Some(k)) => to_size("the count k (input 1)", k)?,
            (Some(more), _) => return invalid!("the count k (input 1) has {} elements, expected one", more.len()),
            (None, None) => return invalid!("the count k (input 1) is missing"),
        };
        let (_, n, inner) = around(x.dims(), axis);
        if k > n {
            return invalid!("the count k (input 1) is {k}, but axis {axis} of the shape {:?} has {n} elements", x.dims());
        }
        let mut dims = Dims::from_slice(x.dims());
        dims[axis] = k;
        let (mut values, mut places) = (ctx.alloc(x.dtype(), &dims)?, ctx.alloc(DType::I64, &dims)?);
        let places_dst = places.as_mut_slice::<i64>().unwrap_or_default();
        let block = k * inner;
        by_order!(x.dtype(), T => {
            let src = x.as_slice::<T>().unwrap_or_default();
            if block > 0 {
                let dst = values.as_mut_slice::<T>().unwrap_or_default();
                // Places first: values are then read by them.
                parallel::pieces(places_dst, block, 8 * n.div_ceil(k), |start, piece| {
                    let mut line: Vec<(T, u32)> = Vec::with_capacity(n);
                    for (b, out) in piece.chunks_exact_mut(block).enumerate() {
                        let base = (start / block + b) * n * inner;
                        for c in 0..inner {
                            line.clear();
                            line.extend(src[base + c..].iter().step_by(inner).take(n).zip(0u32..).map(|(&x, i)| (x, i)));
                            let by = |a: &(T, u32), b: &(T, u32)| {
                                let order = a.0.order(&b.0);
                                if largest { order.reverse() } else { order }.then(a.1.cmp(&b.1))
                            };
                            if k < line.len() {
                                line.select_nth_unstable_by(k, by);
                                line.truncate(k);
                            }
                            line.sort_unstable_by(by);
                            for (r, (_, i)) in line.iter().enumerate() {
                                out[r * inner + c] = i64::from(*i);
                            }
                        }
                    }
                });
                for (at, (d, &i)) in dst.iter_mut().zip(&*places_dst).enumerate() {
                    *d = src[(at / block * n + i as usize) * inner + at % inner];
                }
            }
        });
        Ok(movement::many([values, places]))
    })
}

fn cumulative(ctx: &PrepareCtx<'_>, product: bool) -> Made {
    let exclusive = Attrs(ctx.node).flag("exclusive", false)?;
    let reverse = Attrs(ctx.node).flag("reverse", false)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let axis = match inputs.ints(1)?.as_deref() {
            Some(&[a]) => resolve_axis(a, x.rank())?,
            _ => return invalid!("the axis (input 1) must have one element"),
        };
        let (_, n, inner) = around(x.dims(), axis);
        let wide = half_float::widen(ctx, x)?;
        let mut out = ctx.alloc(wide.dtype(), x.dims())?;
        macro_rules! run {
            ($T:ty, $one:expr, $zero:expr, $add:expr, $mul:expr) => {{
                let src = wide.as_slice::<$T>().unwrap_or_default();
                let dst = out.as_mut_slice::<$T>().unwrap_or_default();
                let start = if product { $one } else { $zero };
                let join = |a: $T, b: $T| if product { $mul(a, b) } else { $add(a, b) };
                parallel::pieces(dst, n.saturating_mul(inner), 2, |first, piece| {
                    for (b, out) in piece.chunks_exact_mut((n * inner).max(1)).enumerate() {
                        let block = &src[first + b * n * inner..][..n * inner];
                        for c in 0..inner {
                            let mut acc = start;
                            for r in 0..n {
                                let at = if reverse { n - 1 - r } else { r } * inner + c;
                                let next = join(acc, block[at]);
                                out[at] = if exclusive { acc } else { next };
                                acc = next;
                            }
                        }
                    }
                });
            }};
        }
        match wide.dtype() {
            DType::F32 => run!(f32, 1.0, 0.0, |a, b| a + b, |a, b| a * b),
            DType::F64 => run!(f64, 1.0, 0.0, |a, b| a + b, |a, b| a * b),
            DType::I8 => run!(i8, 1, 0, i8::wrapping_add, i8::wrapping_mul),
            DType::I16 => run!(i16, 1, 0, i16::wrapping_add, i16::wrapping_mul),
            DType::I32 => run!(i32, 1, 0, i32::wrapping_add, i32::wrapping_mul),
            DType::I64 => run!(i64, 1, 0, i64::wrapping_add, i64::wrapping_mul),
            DType::U8 => run!(u8, 1, 0, u8::wrapping_add, u8::wrapping_mul),
            DType::U16 => run!(u16, 1, 0, u16::wrapping_add, u16::wrapping_mul),
            DType::U32 => run!(u32, 1, 0, u32::wrapping_add, u32::wrapping_mul),
            DType::U64 => run!(u64, 1, 0, u64::wrapping_add, u64::wrapping_mul),
            other => return unsupported!("elements of type {other}"),
        }
        Ok(one(half_float::narrow(ctx, out, x.dtype())?))
    })
}

/// Groups of equal items: for each, the first place and how many; and the group of every item.
struct Groups {
    first: Vec<usize>,
    count: Vec<i64>,
    of: Vec<i64>,
}

/// Groups `n` items by `order`: sorted by it, or in the order of their first places.
fn group(n: usize, sorted: bool, order: impl Fn(usize, usize) -> Ordering) -> Groups {
    let mut by: Vec<usize> = (0..n).collect();
    by.sort_by(|&a, &b| order(a, b));
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for i in by {
        match runs.last_mut() {
            Some(run) if order(run[0], i) == Ordering::Equal => run.push(i),
            _ => runs.push(vec![i]),
        }
    }
    if !sorted {
        runs.sort_by_key(|r| r[0]);
    }
    let mut of = vec![0; n];
    for (g, run) in runs.iter().enumerate() {
        run.iter().for_each(|&i| of[i] = g as i64);
    }
    Groups { first: runs.iter().map(|r| r[0]).collect(), count: runs.iter().map(|r| r.len() as i64).collect(), of }
}

fn slices_in_groups(x: &Tensor, axis: usize, sorted: bool) -> Result<Groups, KernelError> {
    let (outer, n, inner) = around(x.dims(), axis);
    let each = |i: usize| (0..outer).flat_map(move |o| (0..inner).map(move |c| (o * n + i) * inner + c));
    if let Some(s) = x.as_strings() {
        return Ok(group(n, sorted, |a, b| each(a).map(|p| &s[p]).cmp(each(b).map(|p| &s[p]))));
    }
    by_order!(x.dtype(), T => {
        let v = x.as_slice::<T>().unwrap_or_default();
        Ok(group(n, sorted, |a, b| {
            each(a).zip(each(b)).map(|(p, q)| v[p].order(&v[q])).find(|o| *o != Ordering::Equal).unwrap_or(Ordering::Equal)
        }))
    })
}

fn unique(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).opt_int("axis")?;
    let sorted = Attrs(ctx.node).flag("sorted", true)?;
    kernel(move |ctx: &mut RunCtx<'_>, inputs| {
        let x = inputs.tensor(0)?;
        let (x, axis) = match axis {
            Some(a) => (x.clone(), resolve_axis(a, x.rank())?),
            None => (x.reshaped(&[x.len()])?, 0),
        };
        let groups = slices_in_groups(&x, axis, sorted)?;
        let first: Vec<i64> = groups.first.iter().map(|&i| i as i64).collect();
        let y = gather::take(ctx, &x, &first, &[first.len()], axis)?;
        let vector = |v: &[i64]| Tensor::from_slice(&[v.len()], v);
        Ok(movement::many([y, vector(&first)?, vector(&groups.of)?, vector(&groups.count)?]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_the_largest() {
        assert_eq!(f32::NAN.order(&f32::INFINITY), Ordering::Greater);
        assert_eq!(1f32.order(&f32::NAN), Ordering::Less);
        assert_eq!(f32::NAN.order(&f32::NAN), Ordering::Equal);
    }

    #[test]
    fn groups_keep_first_places() {
        let v = [2, 1, 1, 3, 2];
        let g = group(5, false, |a, b| v[a].cmp(&v[b]));
        assert_eq!((g.first, g.count, g.of), (vec![0, 1, 3], vec![2, 2, 1], vec![0, 1, 1, 2, 0]));
        let g = group(5, true, |a, b| v[a].cmp(&v[b]));
        assert_eq!((g.first, g.of), (vec![1, 0, 3], vec![1, 0, 0, 2, 1]));
    }
}
