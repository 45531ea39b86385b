//! Reductions over axes: ReduceSum to ReduceLogSumExp. Sums of floats are accumulated in double precision (over blocks
//! in single where that is faster), so that the result does not depend on how the work is split.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::strided::View;
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, cast, half_float, kernel, movement, one, parallel, resolve_axis, vecmath};
use crate::tensor::{Dims, Element, Tensor};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

/// Operator sets from which the axes are an input are told apart by the input being there.
pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("ReduceSum", 1, |ctx| reduce(ctx, Fold::Sum)),
    Entry::onnx("ReduceMean", 1, |ctx| reduce(ctx, Fold::Mean)),
    Entry::onnx("ReduceProd", 1, |ctx| reduce(ctx, Fold::Prod)),
    Entry::onnx("ReduceMax", 1, |ctx| reduce(ctx, Fold::Max)),
    Entry::onnx("ReduceMin", 1, |ctx| reduce(ctx, Fold::Min)),
    Entry::onnx("ReduceL1", 1, |ctx| reduce(ctx, Fold::L1)),
    Entry::onnx("ReduceL2", 1, |ctx| reduce(ctx, Fold::L2)),
    Entry::onnx("ReduceLogSum", 1, |ctx| reduce(ctx, Fold::LogSum)),
    Entry::onnx("ReduceLogSumExp", 1, |ctx| reduce(ctx, Fold::LogSumExp)),
    Entry::onnx("ReduceSumSquare", 1, |ctx| reduce(ctx, Fold::SumSquare)),
];

/// What becomes of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    L1,
    L2,
    LogSum,
    LogSumExp,
    SumSquare,
}

fn reduce(ctx: &PrepareCtx<'_>, fold: Fold) -> Made {
    let axes_attr = Attrs(ctx.node).ints("axes")?.map(<[i64]>::to_vec);
    let keep = Attrs(ctx.node).flag("keepdims", true)?;
    let noop = Attrs(ctx.node).flag("noop_with_empty_axes", false)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let axes = inputs.ints(1)?.or_else(|| axes_attr.clone()).unwrap_or_default();
        let mut reduced = vec![axes.is_empty() && !noop; x.rank()];
        for &a in &axes {
            reduced[resolve_axis(a, x.rank())?] = true;
        }
        let out = over(ctx, x, &reduced, fold)?;
        if keep {
            return Ok(one(out));
        }
        let dims: Dims = x.dims().iter().zip(&reduced).filter(|(_, r)| !**r).map(|(&d, _)| d).collect();
        Ok(one(out.reshaped(&dims)?))
    })
}

/// Folds the axes that are marked; they keep size 1.
pub(super) fn over(ctx: &mut RunCtx<'_>, x: &Tensor, reduced: &[bool], fold: Fold) -> Result<Tensor, KernelError> {
    let dims: Dims = x.dims().iter().zip(reduced).map(|(&d, &r)| if r { 1 } else { d }).collect();
    let dtype = x.dtype();
    if half_float::is_half(dtype) {
        let wide = half_float::widen(ctx, x)?;
        let out = over(ctx, &wide, reduced, fold)?;
        return half_float::narrow(ctx, out, dtype);
    }
    // [outer, n, inner] where the reduced axes stand together; else they are brought to the end.
    let live: Vec<usize> = (0..x.rank()).filter(|&a| x.dims()[a] != 1).collect();
    let first = live.iter().position(|&a| reduced[a]).unwrap_or(live.len());
    let after = live[first..].iter().position(|&a| !reduced[a]).map_or(live.len(), |p| first + p);
    let together = live[after..].iter().all(|&a| !reduced[a]);
    let size = |axes: &[usize]| axes.iter().fold(1usize, |n, &a| n.saturating_mul(x.dims()[a]));
    let (source, outer, n, inner) = if together && (fold != Fold::LogSumExp || after == live.len()) {
        (x.clone(), size(&live[..first]), size(&live[first..after]), size(&live[after..]))
    } else {
        let (kept, gone): (Vec<usize>, Vec<usize>) = live.iter().partition(|&&a| !reduced[a]);
        let order: Vec<usize> = kept.iter().chain(&gone).copied().collect();
        let moved = movement::read(ctx, x, &View::whole(x.dims()).permuted(&order))?;
        (moved, size(&kept), size(&gone), 1)
    };
    let mut out = ctx.alloc(dtype, &dims)?;
    let o = &mut out;
    match dtype {
        DType::F32 => float32(&source, o, outer, n, inner, fold),
        DType::F64 => float64(&source, o, n, inner, fold),
        DType::I8 => integer::<i8>(&source, o, n, inner, fold),
        DType::I16 => integer::<i16>(&source, o, n, inner, fold),
        DType::I32 => integer::<i32>(&source, o, n, inner, fold),
        DType::I64 => integer::<i64>(&source, o, n, inner, fold),
        DType::U8 => integer::<u8>(&source, o, n, inner, fold),
        DType::U16 => integer::<u16>(&source, o, n, inner, fold),
        DType::U32 => integer::<u32>(&source, o, n, inner, fold),
        DType::U64 => integer::<u64>(&source, o, n, inner, fold),
        DType::Bool if matches!(fold, Fold::Max | Fold::Min) => {
            let start = u8::from(fold == Fold::Min);
            columns(&source, o, n, inner, start, |a, x: u8| if fold == Fold::Max { a | x } else { a & x }, |a| a);
        }
        other => return unsupported!("reduction of {other}"),
    }
    if out.len() != outer.saturating_mul(inner) {
        return invalid!("a reduction of shape {:?} gives {dims:?}", x.dims());
    }
    Ok(out)
}

/// Folds axis 1 of `[_, n, inner]`, with an accumulator for every column: rows are read in the order they lie in memory.
fn columns<T: Element, A: Copy + Send + Sync>(
    x: &Tensor,
    out: &mut Tensor,
    n: usize,
    inner: usize,
    start: A,
    step: impl Fn(A, T) -> A + Sync,
    finish: impl Fn(A) -> T + Sync,
) {
    let (Some(src), Some(dst)) = (x.as_slice::<T>(), out.as_mut_slice::<T>()) else { return };
    if dst.is_empty() {
        return;
    }
    const WIDTH: usize = 256;
    parallel::pieces(dst, 1, n, |first, piece| {
        let mut done = 0;
        while done < piece.len() {
            let (o, c) = ((first + done) / inner, (first + done) % inner);
            let width = WIDTH.min(inner - c).min(piece.len() - done);
            if inner == 1 {
                piece[done] = finish(src[o * n..(o + 1) * n].iter().fold(start, |a, &x| step(a, x)));
            } else {
                let mut acc = [start; WIDTH];
                let acc = &mut acc[..width];
                for r in 0..n {
                    let at = (o * n + r) * inner + c;
                    acc.iter_mut().zip(&src[at..at + width]).for_each(|(a, &x)| *a = step(*a, x));
                }
                piece[done..done + width].iter_mut().zip(acc).for_each(|(d, a)| *d = finish(*a));
            }
            done += width;
        }
    });
}

/// Rows of `n` contiguous elements.
fn rows(x: &Tensor, out: &mut Tensor, n: usize, weight: usize, f: impl Fn(&[f32]) -> f32 + Sync) {
    let (Some(src), Some(dst)) = (x.as_slice::<f32>(), out.as_mut_slice::<f32>()) else { return };
    parallel::pieces(dst, 1, n.saturating_mul(weight), |first, piece| {
        for (i, d) in piece.iter_mut().enumerate() {
            *d = f(&src[(first + i) * n..(first + i + 1) * n]);
        }
    });
}

fn float32(x: &Tensor, out: &mut Tensor, outer: usize, n: usize, inner: usize, fold: Fold) {
    // One long row: its parts side by side, joined in order.
    let sum = |row: &[f32], f: fn(f32) -> f32| -> f64 {
        use rayon::prelude::*;
        const PART: usize = 1 << 17;
        if outer == 1 && row.len() > PART {
            row.par_chunks(PART).map(|p| vecmath::sum_by(p, f)).collect::<Vec<f64>>().iter().sum()
        } else {
            vecmath::sum_by(row, f)
        }
    };
    let count = n as f64;
    if inner == 1 {
        return match fold {
            Fold::Sum => rows(x, out, n, 1, |r| sum(r, |x| x) as f32),
            Fold::Mean => rows(x, out, n, 1, |r| (sum(r, |x| x) / count) as f32),
            Fold::L1 => rows(x, out, n, 1, |r| sum(r, f32::abs) as f32),
            Fold::L2 => rows(x, out, n, 1, |r| sum(r, |x| x * x).sqrt() as f32),
            Fold::SumSquare => rows(x, out, n, 1, |r| sum(r, |x| x * x) as f32),
            Fold::LogSum => rows(x, out, n, 1, |r| sum(r, |x| x).ln() as f32),
            Fold::Max => rows(x, out, n, 1, vecmath::max),
            Fold::LogSumExp => rows(x, out, n, 8, |r| {
                let m = vecmath::max(r);
                // Infinite maxima would give infinity minus infinity.
                if m.is_infinite() { m } else { m + vecmath::sum_by(r, |x| vecmath::exp(x - m)).ln() as f32 }
            }),
            Fold::Prod => columns(x, out, n, 1, 1f64, |a, x: f32| a * f64::from(x), |a| a as f32),
            Fold::Min => columns(x, out, n, 1, f32::INFINITY, |a, x| if a < x || a.is_nan() { a } else { x }, |a| a),
        };
    }
    match fold {
        Fold::Sum => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x), |a| a as f32),
        Fold::Mean => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x), |a| (a / count) as f32),
        Fold::Prod => columns(x, out, n, inner, 1f64, |a, x: f32| a * f64::from(x), |a| a as f32),
        Fold::Max => columns(x, out, n, inner, f32::NEG_INFINITY, |a, x| if a > x || a.is_nan() { a } else { x }, |a| a),
        Fold::Min => columns(x, out, n, inner, f32::INFINITY, |a, x| if a < x || a.is_nan() { a } else { x }, |a| a),
        Fold::L1 => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x.abs()), |a| a as f32),
        Fold::L2 => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x * x), |a| a.sqrt() as f32),
        Fold::SumSquare => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x * x), |a| a as f32),
        Fold::LogSum => columns(x, out, n, inner, 0f64, |a, x: f32| a + f64::from(x), |a| a.ln() as f32),
        // Brought to the end by the caller.
        Fold::LogSumExp => {}
    }
}

fn float64(x: &Tensor, out: &mut Tensor, n: usize, inner: usize, fold: Fold) {
    let count = n as f64;
    match fold {
        Fold::Sum => columns(x, out, n, inner, 0f64, |a, x| a + x, |a| a),
        Fold::Mean => columns(x, out, n, inner, 0f64, |a, x| a + x, |a| a / count),
        Fold::Prod => columns(x, out, n, inner, 1f64, |a, x| a * x, |a| a),
        Fold::Max => columns(x, out, n, inner, f64::NEG_INFINITY, |a, x| if a > x || a.is_nan() { a } else { x }, |a| a),
        Fold::Min => columns(x, out, n, inner, f64::INFINITY, |a, x| if a < x || a.is_nan() { a } else { x }, |a| a),
        Fold::L1 => columns(x, out, n, inner, 0f64, |a, x: f64| a + x.abs(), |a| a),
        Fold::L2 => columns(x, out, n, inner, 0f64, |a, x: f64| a + x * x, f64::sqrt),
        Fold::SumSquare => columns(x, out, n, inner, 0f64, |a, x: f64| a + x * x, |a| a),
        Fold::LogSum => columns(x, out, n, inner, 0f64, |a, x| a + x, f64::ln),
        Fold::LogSumExp => columns(
            x,
            out,
            n,
            inner,
            (f64::NEG_INFINITY, 0f64),
            // The sum is kept relative to the largest so far.
            |(m, s), x: f64| {
                if x <= m {
                    (m, if m.is_infinite() { s } else { s + (x - m).exp() })
                } else if x.is_nan() {
                    (x, x)
                } else {
                    (x, s * (m - x).exp() + 1.0)
                }
            },
            |(m, s)| if m.is_infinite() { m } else { m + s.ln() },
        ),
    }
}

/// What reductions need of an integer.
trait Number: Element + Ord {
    const LEAST: Self;
    const MOST: Self;
    fn wide(self) -> i128;
    /// Wraps as sums in the type itself would.
    fn from_wide(x: i128) -> Self;
    fn from_real(x: f64) -> Self;
}

macro_rules! number {
    ($($T:ident),*) => {$(
        impl Number for $T {
            const LEAST: Self = $T::MIN;
            const MOST: Self = $T::MAX;
            fn wide(self) -> i128 { i128::from(self) }
            fn from_wide(x: i128) -> Self { x as Self }
            fn from_real(x: f64) -> Self { x as Self }
        }
    )*};
}
number!(i8, i16, i32, i64, u8, u16, u32, u64);

fn integer<T: Number>(x: &Tensor, out: &mut Tensor, n: usize, inner: usize, fold: Fold) {
    let count = n as i128;
    let sum = |a: i128, x: T| a.wrapping_add(x.wide());
    let squares = |a: i128, x: T| a.wrapping_add(x.wide() * x.wide());
    match fold {
        Fold::Sum => columns(x, out, n, inner, 0, sum, T::from_wide),
        Fold::Mean => columns(x, out, n, inner, 0, sum, |a| T::from_wide(if count == 0 { 0 } else { a / count })),
        Fold::Prod => columns(x, out, n, inner, 1i128, |a, x: T| T::from_wide(a.wrapping_mul(x.wide())).wide(), T::from_wide),
        Fold::Max => columns(x, out, n, inner, T::LEAST, |a, x: T| a.max(x), |a| a),
        Fold::Min => columns(x, out, n, inner, T::MOST, |a, x: T| a.min(x), |a| a),
        Fold::L1 => columns(x, out, n, inner, 0i128, |a, x: T| a.wrapping_add(x.wide().abs()), T::from_wide),
        Fold::L2 => columns(x, out, n, inner, 0, squares, |a| T::from_real((a as f64).sqrt())),
        Fold::SumSquare => columns(x, out, n, inner, 0, squares, T::from_wide),
        Fold::LogSum => columns(x, out, n, inner, 0, sum, |a| T::from_real((a as f64).ln())),
        Fold::LogSumExp => columns(x, out, n, inner, 0f64, |a, x: T| a + (x.wide() as f64).exp(), |a| T::from_real(a.ln())),
    }
}

/// The mean over the marked axes, in f32 or f64.
pub(super) fn mean(ctx: &mut RunCtx<'_>, x: &Tensor, reduced: &[bool]) -> Result<Tensor, KernelError> {
    let x = if x.dtype().is_float() { x.clone() } else { cast::to(ctx, x, DType::F32, true)? };
    over(ctx, &x, reduced, Fold::Mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    fn go<T: Element>(dims: &[usize], x: &[T], reduced: &[bool], fold: Fold) -> Vec<T> {
        let mut pool = BufferPool::default();
        let t = Tensor::from_slice(dims, x).unwrap();
        over(&mut RunCtx { pool: &mut pool }, &t, reduced, fold).unwrap().as_slice::<T>().unwrap().to_vec()
    }

    #[test]
    fn any_set_of_axes_is_folded() {
        let x: Vec<f32> = (0..24).map(|i| i as f32).collect();
        assert_eq!(go(&[2, 3, 4], &x, &[false, false, true], Fold::Sum), [6.0, 22.0, 38.0, 54.0, 70.0, 86.0]);
        assert_eq!(go(&[2, 3, 4], &x, &[true, false, false], Fold::Max), (12..24).map(|i| i as f32).collect::<Vec<_>>());
        assert_eq!(go(&[2, 3, 4], &x, &[true, false, true], Fold::Mean), [7.5, 11.5, 15.5]);
        assert_eq!(go(&[2, 3, 4], &x, &[false, true, false], Fold::Min), [0.0, 1.0, 2.0, 3.0, 12.0, 13.0, 14.0, 15.0]);
        assert_eq!(go(&[2, 3, 4], &x, &[true; 3], Fold::Sum), [276.0]);
        let l = go(&[2, 2], &[1f32, 2.0, 3.0, 4.0], &[true, false], Fold::LogSumExp);
        assert!((l[0] - 3.126_928).abs() < 1e-6 && (l[1] - 4.126_928).abs() < 1e-6);
    }

    #[test]
    fn empty_sets_give_the_neutral_element() {
        assert_eq!(go::<f32>(&[2, 0], &[], &[false, true], Fold::Sum), [0.0, 0.0]);
        assert_eq!(go::<f32>(&[2, 0], &[], &[false, true], Fold::Max), [f32::NEG_INFINITY; 2]);
        assert_eq!(go::<i32>(&[0, 2], &[], &[true, false], Fold::Max), [i32::MIN; 2]);
        assert_eq!(go::<f32>(&[2, 0], &[], &[false, true], Fold::Prod), [1.0, 1.0]);
        assert_eq!(go::<f32>(&[0, 2], &[], &[false, true], Fold::Sum), [0f32; 0]);
        assert_eq!(go::<f32>(&[1, 0], &[], &[true, true], Fold::LogSumExp), [f32::NEG_INFINITY]);
    }

    #[test]
    fn integers_are_exact() {
        let big = [9_007_199_254_740_993i64, 1];
        assert_eq!(go(&[2], &big, &[true], Fold::Sum), [9_007_199_254_740_994]);
        assert_eq!(go(&[2], &[7i32, -4], &[true], Fold::Mean), [1]);
        assert_eq!(go(&[2], &[3u8, 100], &[true], Fold::Prod), [44]);
    }
}
