//! Softmax, LogSoftmax and Hardmax along an axis.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, half_float, kernel, one, parallel, resolve_axis, vecmath};
use crate::tensor::{Element, Tensor};
use crate::unsupported;

type Made = Result<Box<dyn Kernel>, KernelError>;

/// Until operator set 12 the input is seen as a matrix of the axes before and from `axis` on; later it is one axis.
pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Softmax", 1, |ctx| make(ctx, Kind::Softmax, true)),
    Entry::onnx("Softmax", 13, |ctx| make(ctx, Kind::Softmax, false)),
    Entry::onnx("LogSoftmax", 1, |ctx| make(ctx, Kind::LogSoftmax, true)),
    Entry::onnx("LogSoftmax", 13, |ctx| make(ctx, Kind::LogSoftmax, false)),
    Entry::onnx("Hardmax", 1, |ctx| make(ctx, Kind::Hardmax, true)),
    Entry::onnx("Hardmax", 13, |ctx| make(ctx, Kind::Hardmax, false)),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Softmax,
    LogSoftmax,
    Hardmax,
}

fn make(ctx: &PrepareCtx<'_>, kind: Kind, flat: bool) -> Made {
    let axis = Attrs(ctx.node).int("axis", if flat { 1 } else { -1 })?;
    kernel(move |ctx, mut inputs| {
        let x = inputs.tensor(0)?;
        let dtype = x.dtype();
        let (n, inner) = if flat {
            // One past the last axis is allowed there: rows of one element.
            let at = if axis == x.rank() as i64 { x.rank() } else { resolve_axis(axis, x.rank())? };
            (x.dims()[at..].iter().product::<usize>(), 1)
        } else if x.rank() == 0 {
            (1, 1)
        } else {
            let at = resolve_axis(axis, x.rank())?;
            (x.dims()[at], x.dims()[at + 1..].iter().product())
        };
        let mut t = match inputs.take_unique(0) {
            Some(t) => t,
            None => inputs.tensor(0)?.clone(),
        };
        t = half_float::widen(ctx, &t)?;
        // Written over itself: a shared input is copied by the first write.
        match t.dtype() {
            _ if t.is_empty() => {}
            DType::F32 if inner == 1 => rows(&mut t, n, kind),
            DType::F32 => columns::<f32>(&mut t, n, inner, kind, vecmath::exp, f32::ln),
            DType::F64 => columns::<f64>(&mut t, n, inner, kind, f64::exp, f64::ln),
            other => return unsupported!("elements of type {other}"),
        }
        Ok(one(finish(ctx, t, dtype)?))
    })
}

fn finish(ctx: &mut RunCtx<'_>, t: Tensor, dtype: DType) -> Result<Tensor, KernelError> {
    half_float::narrow(ctx, t, dtype)
}

/// Position of the first largest element.
fn first_largest<T: PartialOrd + Copy>(row: impl Iterator<Item = T>) -> usize {
    let mut best: Option<(usize, T)> = None;
    for (i, x) in row.enumerate() {
        if best.is_none_or(|(_, b)| x > b) {
            best = Some((i, x));
        }
    }
    best.map_or(0, |(i, _)| i)
}

/// The softmax of a row, in place.
#[inline]
pub(super) fn softmax_row(row: &mut [f32]) {
    let m = vecmath::max(row);
    // A row of minus infinities (a mask that hides all) would be infinity minus infinity: NaN, as the definition has it.
    for x in row.iter_mut() {
        *x = vecmath::exp(*x - m);
    }
    let scale = (1.0 / vecmath::sum_by(row, |x| x)) as f32;
    row.iter_mut().for_each(|x| *x *= scale);
}

fn rows(t: &mut Tensor, n: usize, kind: Kind) {
    let all = t.as_mut_slice::<f32>().unwrap_or_default();
    parallel::pieces(all, n, 10, |_, piece| {
        for row in piece.chunks_exact_mut(n) {
            match kind {
                Kind::Softmax => softmax_row(row),
                Kind::LogSoftmax => {
                    let m = vecmath::max(row);
                    let shift = m + vecmath::sum_by(row, |x| vecmath::exp(x - m)).ln() as f32;
                    row.iter_mut().for_each(|x| *x -= shift);
                }
                Kind::Hardmax => {
                    let hot = first_largest(row.iter().copied());
                    row.fill(0.0);
                    row[hot] = 1.0;
                }
            }
        }
    });
}

trait Real: Element + PartialOrd + std::ops::Sub<Output = Self> + std::ops::AddAssign + std::ops::Div<Output = Self> {
    const ZERO: Self;
    const ONE: Self;
}
impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}
impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

/// Axis 1 of `[_, n, inner]`: some columns at a time.
fn columns<T: Real>(t: &mut Tensor, n: usize, inner: usize, kind: Kind, exp: impl Fn(T) -> T + Sync, ln: impl Fn(T) -> T + Sync) {
    const WIDTH: usize = 64;
    let all = t.as_mut_slice::<T>().unwrap_or_default();
    parallel::pieces(all, n * inner, 12, |_, piece| {
        for block in piece.chunks_exact_mut(n * inner) {
            for c in (0..inner).step_by(WIDTH) {
                let width = WIDTH.min(inner - c);
                if kind == Kind::Hardmax {
                    for k in c..c + width {
                        let hot = first_largest(block[k..].iter().step_by(inner).copied());
                        block[k..].iter_mut().step_by(inner).enumerate().for_each(|(i, x)| *x = if i == hot { T::ONE } else { T::ZERO });
                    }
                    continue;
                }
                let (mut max, mut sum) = ([T::ZERO; WIDTH], [T::ZERO; WIDTH]);
                let (max, sum) = (&mut max[..width], &mut sum[..width]);
                max.copy_from_slice(&block[c..c + width]);
                for r in 1..n {
                    let row = &block[r * inner + c..r * inner + c + width];
                    max.iter_mut().zip(row).for_each(|(m, &x)| *m = if *m > x || (*m).partial_cmp(m).is_none() { *m } else { x });
                }
                for r in 0..n {
                    let row = &mut block[r * inner + c..r * inner + c + width];
                    for ((x, &m), s) in row.iter_mut().zip(&*max).zip(sum.iter_mut()) {
                        let e = exp(*x - m);
                        *s += e;
                        *x = if kind == Kind::Softmax { e } else { *x - m };
                    }
                }
                sum.iter_mut().for_each(|s| *s = if kind == Kind::Softmax { *s } else { ln(*s) });
                for r in 0..n {
                    let row = &mut block[r * inner + c..r * inner + c + width];
                    row.iter_mut().zip(&*sum).for_each(|(x, &s)| *x = if kind == Kind::Softmax { *x / s } else { *x - s });
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sum_to_one_and_large_values_do_not_overflow() {
        let mut row = [1000.0f32, 1001.0, 1002.0];
        softmax_row(&mut row);
        for (x, want) in row.iter().zip([0.090_030_57, 0.244_728_48, 0.665_240_94]) {
            assert!((x - want).abs() < 1e-6);
        }
    }

    #[test]
    fn columns_agree_with_rows() {
        let x: Vec<f32> = (0..2 * 5 * 70).map(|i| ((i * 37) % 101) as f32 / 7.0).collect();
        for kind in [Kind::Softmax, Kind::LogSoftmax, Kind::Hardmax] {
            let mut t = Tensor::from_slice(&[2, 5, 70], &x).unwrap();
            columns::<f32>(&mut t, 5, 70, kind, vecmath::exp, f32::ln);
            for (o, c) in [(0, 0), (0, 69), (1, 64)] {
                let line: Vec<f32> = (0..5).map(|r| x[(o * 5 + r) * 70 + c]).collect();
                let mut want = Tensor::from_slice(&[5], &line).unwrap();
                rows(&mut want, 5, kind);
                for r in 0..5 {
                    let got = t.as_slice::<f32>().unwrap()[(o * 5 + r) * 70 + c];
                    assert!((got - want.as_slice::<f32>().unwrap()[r]).abs() < 1e-5);
                }
            }
        }
    }
}
