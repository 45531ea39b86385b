//! AveragePool, LpPool, the global pools and MaxRoiPool; MaxPool is in `max_pool`.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::window::{Window, WindowAttrs};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::{Dims, Tensor};

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("AveragePool", 1, average_pool),
    Entry::onnx("LpPool", 1, lp_pool),
    Entry::onnx("GlobalAveragePool", 1, |ctx| global(ctx, Reduce::Mean)),
    Entry::onnx("GlobalMaxPool", 1, |ctx| global(ctx, Reduce::Max)),
    Entry::onnx("GlobalLpPool", 1, |ctx| {
        let p = Attrs(ctx.node);
        // Version 1 has a number, later ones an integer.
        let p = if ctx.opset < 2 { p.float("p", 2.0)? } else { p.int("p", 2)? as f64 };
        global(ctx, Reduce::Norm(p))
    }),
    Entry::onnx("MaxRoiPool", 1, max_roi_pool),
];

/// Sizes of a pool's output, and the geometry.
pub(super) fn geometry(x: &[usize], attrs: &WindowAttrs, ceil: bool) -> Result<(Dims, Window), KernelError> {
    if x.len() < 3 {
        return invalid!("input X must have a rank of at least 3, it has shape {x:?}");
    }
    let window = attrs.resolve(&x[2..], &attrs.kernel_sizes()?, ceil)?;
    for d in 0..3 {
        if window.begin[d] >= window.extent(d).max(1) && window.input[d] > 0 && window.begin[d] > 0 {
            return invalid!("attribute pads has {}, which is not less than the window of {}", window.begin[d], window.extent(d));
        }
    }
    let mut dims = Dims::from_slice(&x[..2]);
    dims.extend_from_slice(&window.output[3 - (x.len() - 2)..]);
    Ok((dims, window))
}

/// Fills every output of `y` (planes of `win.output`) by `f(plane of x, d, h, w)`.
fn fill<T: Real>(y: &mut [T], x: &[T], win: &Window, f: impl Fn(&[T], [usize; 3]) -> T + Sync) -> Result<(), KernelError> {
    let (plane_in, plane_out) = (win.input_len()?, win.output_len()?);
    if y.is_empty() {
        return Ok(());
    }
    let [_, oh, ow] = win.output;
    y.par_chunks_mut(plane_out).enumerate().for_each(|(p, y)| {
        let x = &x[p * plane_in..][..plane_in];
        for (i, y) in y.iter_mut().enumerate() {
            *y = f(x, [i / (oh * ow), i / ow % oh, i % ow]);
        }
    });
    Ok(())
}

/// Calls `f` with every element of the window of output `at`.
#[inline]
fn each<T: Copy>(x: &[T], win: &Window, at: [usize; 3], mut f: impl FnMut(T)) {
    for a in 0..win.kernel[0] {
        let Some(id) = win.source(0, at[0], a) else { continue };
        for b in 0..win.kernel[1] {
            let Some(iy) = win.source(1, at[1], b) else { continue };
            let line = &x[(id * win.input[1] + iy) * win.input[2]..][..win.input[2]];
            for c in 0..win.kernel[2] {
                if let Some(ix) = win.source(2, at[2], c) {
                    f(line[ix]);
                }
            }
        }
    }
}

fn average_pool(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let window = WindowAttrs::new(attrs)?;
    let ceil = attrs.flag("ceil_mode", false)?;
    let padded = attrs.flag("count_include_pad", false)?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => average::<T>(ctx, args, &window, ceil, padded)))
}

fn average<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, window: &WindowAttrs, ceil: bool, padded: bool) -> Result<Outs, KernelError> {
    let (dims, win) = geometry(args.get(0)?.dims(), window, ceil)?;
    let mut y = alloc::<T>(ctx, &dims)?;
    fill(elements_mut(&mut y)?, args.slice::<T>(0)?, &win, |x, at| {
        let (mut sum, mut count) = (T::ZERO, 0usize);
        each(x, &win, at, |v| {
            sum += v;
            count += 1;
        });
        if padded {
            // Elements of the window in the padded input: with ceil_mode a window may reach beyond even that.
            count = (0..3)
                .map(|d| {
                    let end = win.input[d] + win.begin[d] + win.end[d];
                    let start = at[d] * win.stride[d];
                    end.saturating_sub(start).div_ceil(win.dilation[d]).min(win.kernel[d])
                })
                .product();
        }
        if count == 0 { T::ZERO } else { sum / T::of(count as f64) }
    })?;
    Ok(out(y))
}

fn lp_pool(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let window = WindowAttrs::new(attrs)?;
    let ceil = attrs.flag("ceil_mode", false)?;
    let p = if ctx.opset < 2 { attrs.float("p", 2.0)? } else { attrs.int("p", 2)? as f64 };
    float_kernel(ctx, move |ctx, args| {
        by_float!(args.get(0)?.dtype(), "input 0 (X)", T => {
            let (dims, win) = geometry(args.get(0)?.dims(), &window, ceil)?;
            let mut y = alloc::<T>(ctx, &dims)?;
            fill(elements_mut(&mut y)?, args.slice::<T>(0)?, &win, |x, at| {
                let mut sum = T::ZERO;
                each(x, &win, at, |v| sum += v.abs().powf(T::of(p)));
                sum.powf(T::of(1.0 / p))
            })?;
            Ok(out(y))
        })
    })
}

#[derive(Clone, Copy)]
enum Reduce {
    Mean,
    Max,
    Norm(f64),
}

fn global(ctx: &PrepareCtx<'_>, reduce: Reduce) -> Result<Box<dyn Kernel>, KernelError> {
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => global_run::<T>(ctx, args.get(0)?, reduce)))
}

fn global_run<T: Real>(ctx: &mut RunCtx<'_>, x: &Tensor, reduce: Reduce) -> Result<Outs, KernelError> {
    if x.rank() < 2 {
        return invalid!("input X must have a rank of at least 2, it has shape {:?}", x.dims());
    }
    let mut dims = Dims::from_elem(1, x.rank());
    dims[..2].copy_from_slice(&x.dims()[..2]);
    let plane = super::window::product(&x.dims()[2..]).unwrap_or(0);
    let mut y = alloc::<T>(ctx, &dims)?;
    let Some(x) = x.as_slice::<T>() else { return invalid!("input 0 (X) is {}", x.dtype()) };
    elements_mut::<T>(&mut y)?.par_iter_mut().enumerate().with_min_len(16).for_each(|(i, y)| {
        let x = &x[i * plane..][..plane];
        *y = match reduce {
            // Eight sums at once: faster, and closer to the true sum than one.
            Reduce::Mean => {
                let mut sums = [T::ZERO; 8];
                let chunks = x.chunks_exact(8);
                let rest: T = chunks.remainder().iter().copied().sum();
                chunks.for_each(|c| sums.iter_mut().zip(c).for_each(|(s, v)| *s += *v));
                (sums.into_iter().sum::<T>() + rest) / T::of(plane as f64)
            }
            Reduce::Max => x.iter().copied().fold(-T::INFINITY, |m, v| if v > m || v.is_nan() { v } else { m }),
            Reduce::Norm(p) => x.iter().map(|v| v.abs().powf(T::of(p))).sum::<T>().powf(T::of(1.0 / p)),
        };
    });
    Ok(out(y))
}

fn max_roi_pool(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let scale = attrs.float("spatial_scale", 1.0)?;
    let size = match attrs.ints("pooled_shape")? {
        Some(&[h, w]) if (1..=1 << 16).contains(&h) && (1..=1 << 16).contains(&w) => [h as usize, w as usize],
        _ => return invalid!("attribute pooled_shape must be two positive sizes"),
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => roi_pool::<T>(ctx, args, scale, size)))
}

fn roi_pool<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, scale: f64, [ph, pw]: [usize; 2]) -> Result<Outs, KernelError> {
    let (&[batch, channels, h, w], &[count, 5]) = (args.get(0)?.dims(), args.get(1)?.dims()) else {
        return invalid!("inputs X and rois must have shapes [N, C, H, W] and [count, 5]");
    };
    let (x, rois) = (args.slice::<T>(0)?, args.slice::<T>(1)?);
    let mut y = alloc::<T>(ctx, &[count, channels, ph, pw])?;
    let dst = elements_mut::<T>(&mut y)?;
    for (r, (roi, y)) in rois.chunks(5).zip(dst.chunks_mut((channels * ph * pw).max(1))).enumerate() {
        let index = roi[0].wide();
        if !(0.0..batch as f64).contains(&index) {
            return invalid!("input rois names image {index} in row {r}, there are {batch}");
        }
        let n = index as usize;
        let edge = |v: T| (v.wide() * scale).round().clamp(-1e9, 1e9) as i64;
        let (x0, y0, x1, y1) = (edge(roi[1]), edge(roi[2]), edge(roi[3]), edge(roi[4]));
        let (rh, rw) = ((y1 - y0 + 1).max(1) as f64, (x1 - x0 + 1).max(1) as f64);
        let bin = |i: usize, size: f64, parts: usize, start: i64, limit: usize| {
            let part = size / parts as f64;
            let lo = ((i as f64 * part).floor() as i64 + start).clamp(0, limit as i64);
            let hi = (((i + 1) as f64 * part).ceil() as i64 + start).clamp(0, limit as i64);
            lo as usize..hi as usize
        };
        for (c, y) in y.chunks_mut(ph * pw).enumerate() {
            let plane = &x[(n * channels + c) * h * w..][..h * w];
            for (i, y) in y.iter_mut().enumerate() {
                let (rows, cols) = (bin(i / pw, rh, ph, y0, h), bin(i % pw, rw, pw, x0, w));
                let mut best = None;
                for row in rows {
                    for &v in plane[row * w..].get(cols.clone()).unwrap_or(&[]) {
                        best = Some(best.map_or(v, |b: T| b.max(v)));
                    }
                }
                *y = best.unwrap_or(T::ZERO);
            }
        }
    }
    Ok(out(y))
}
