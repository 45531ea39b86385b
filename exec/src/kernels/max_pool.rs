//! MaxPool with indices, and MaxUnpool.

use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::pool::geometry;
use super::window::{Window, WindowAttrs};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::{Dims, Element, element_count};

pub(super) const TABLE: &[Entry] = &[Entry::onnx("MaxPool", 1, max_pool), Entry::onnx("MaxUnpool", 9, max_unpool)];

fn max_pool(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let window = WindowAttrs::new(attrs)?;
    let ceil = attrs.flag("ceil_mode", false)?;
    let column_major = attrs.flag("storage_order", false)?;
    let indices = ctx.node.outputs.get(1).is_some_and(Option::is_some);
    float_kernel(ctx, move |ctx, args| {
        let how = How { window: &window, ceil, column_major, indices };
        match args.get(0)?.dtype() {
            DType::I8 => run::<i8>(ctx, args, &how, i8::MIN, |a, b| a > b),
            DType::U8 => run::<u8>(ctx, args, &how, u8::MIN, |a, b| a > b),
            d => by_float!(d, "input 0 (X)", T => run::<T>(ctx, args, &how, -T::INFINITY, |a, b| a > b || a.is_nan())),
        }
    })
}

struct How<'a> {
    window: &'a WindowAttrs,
    ceil: bool,
    column_major: bool,
    indices: bool,
}

fn run<T: Element>(
    ctx: &mut RunCtx<'_>,
    args: &Args,
    how: &How<'_>,
    lowest: T,
    greater: impl Fn(T, T) -> bool + Sync,
) -> Result<Outs, KernelError> {
    let (dims, win) = geometry(args.get(0)?.dims(), how.window, how.ceil)?;
    let x = args.slice::<T>(0)?;
    let (plane_in, plane_out) = (win.input_len()?, win.output_len()?);
    let mut y = alloc::<T>(ctx, &dims)?;
    if y.is_empty() {
        return Ok(smallvec::smallvec![Some(y), if how.indices { Some(alloc::<i64>(ctx, &dims)?) } else { None }]);
    }
    let dst = elements_mut::<T>(&mut y)?;
    if !how.indices {
        dst.par_chunks_mut(plane_out).enumerate().for_each(|(p, y)| plane(y, &x[p * plane_in..][..plane_in], &win, lowest, &greater));
        return Ok(out(y));
    }
    let mut places = alloc::<i64>(ctx, &dims)?;
    let index = elements_mut::<i64>(&mut places)?;
    dst.par_chunks_mut(plane_out).zip(index.par_chunks_mut(plane_out)).enumerate().for_each(|(p, (y, index))| {
        let x = &x[p * plane_in..][..plane_in];
        for (i, (y, index)) in y.iter_mut().zip(index).enumerate() {
            let (best, at) = search(x, &win, i, lowest, &greater);
            *y = best;
            let at = if how.column_major { column_major(at, &win) } else { at };
            *index = (p * plane_in + at) as i64;
        }
    });
    Ok(smallvec::smallvec![Some(y), Some(places)])
}

/// One plane, row by row: every kernel element is compared along a whole output row.
fn plane<T: Element>(y: &mut [T], x: &[T], win: &Window, lowest: T, greater: &impl Fn(T, T) -> bool) {
    let [_, oh, ow] = win.output;
    for (r, row) in y.chunks_mut(ow).enumerate() {
        row.fill(lowest);
        for a in 0..win.kernel[0] {
            let Some(id) = win.source(0, r / oh, a) else { continue };
            for b in 0..win.kernel[1] {
                let Some(iy) = win.source(1, r % oh, b) else { continue };
                let line = &x[(id * win.input[1] + iy) * win.input[2]..][..win.input[2]];
                for c in 0..win.kernel[2] {
                    let valid = win.valid(2, c);
                    if valid.is_empty() {
                        continue;
                    }
                    let first = valid.start * win.stride[2] + c * win.dilation[2] - win.begin[2];
                    for (y, &v) in row[valid].iter_mut().zip(line[first..].iter().step_by(win.stride[2])) {
                        *y = if greater(v, *y) { v } else { *y };
                    }
                }
            }
        }
    }
}

/// Largest element of the window of output `i`, and where in the plane it is.
fn search<T: Element>(x: &[T], win: &Window, i: usize, lowest: T, greater: &impl Fn(T, T) -> bool) -> (T, usize) {
    let [_, oh, ow] = win.output;
    let at = [i / (oh * ow), i / ow % oh, i % ow];
    let mut best: Option<(T, usize)> = None;
    for a in 0..win.kernel[0] {
        let Some(id) = win.source(0, at[0], a) else { continue };
        for b in 0..win.kernel[1] {
            let Some(iy) = win.source(1, at[1], b) else { continue };
            for c in 0..win.kernel[2] {
                let Some(ix) = win.source(2, at[2], c) else { continue };
                let place = (id * win.input[1] + iy) * win.input[2] + ix;
                if best.is_none_or(|(v, _)| greater(x[place], v)) {
                    best = Some((x[place], place));
                }
            }
        }
    }
    best.unwrap_or((lowest, 0))
}

/// Index of a plane's element when the first spatial dimension varies fastest.
fn column_major(at: usize, win: &Window) -> usize {
    let [d, h, w] = win.input;
    let (z, y, x) = (at / (h * w), at / w % h, at % w);
    z + d * (y + h * x)
}

fn max_unpool(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let window = WindowAttrs::new(Attrs(ctx.node))?;
    let kernel = window.kernel_sizes()?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => unpool::<T>(ctx, args, &window, &kernel)))
}

fn unpool<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, window: &WindowAttrs, kernel: &[usize]) -> Result<Outs, KernelError> {
    let dims = args.get(0)?.dims();
    if dims.len() < 3 || kernel.len() != dims.len() - 2 {
        return invalid!("input X of shape {dims:?} does not fit a window of {kernel:?}");
    }
    let spatial = &dims[2..];
    let (base, pads) = (window.base(spatial, kernel)?, window.pad_list(spatial.len())?);
    let mut natural = Dims::from_slice(&dims[..2]);
    for (i, &n) in spatial.iter().enumerate() {
        let full = n.saturating_sub(1) * base.stride[3 - spatial.len() + i] + kernel[i];
        match full.checked_sub(pads[i] + pads[spatial.len() + i]) {
            Some(n) => natural.push(n),
            None => return invalid!("attribute pads is larger than the output in spatial dimension {i}"),
        }
    }
    let sizes: Dims = match args.ints(2)? {
        None => natural.clone(),
        Some(s) => match s.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Dims>>() {
            Some(s) if s.len() == dims.len() && s[..2] == dims[..2] => s,
            _ => return invalid!("input output_shape is {s:?}, which does not fit input X of shape {dims:?}"),
        },
    };
    let mut y = alloc::<T>(ctx, &sizes)?;
    let dst = elements_mut::<T>(&mut y)?;
    dst.fill(T::ZERO);
    let (x, index) = (args.slice::<T>(0)?, args.slice::<i64>(1)?);
    if args.get(1)?.dims() != dims {
        return invalid!("input I has shape {:?} and X {dims:?}", args.get(1)?.dims());
    }
    let total = element_count(&natural).unwrap_or(0);
    for (&v, &i) in x.iter().zip(index) {
        let at = usize::try_from(i).ok().filter(|&i| i < total);
        // Indices count in the tensor that was pooled; a larger output_shape leaves a margin.
        let at = at.and_then(|at| if sizes == natural { Some(at) } else { place(at, &natural, &sizes) });
        match at.and_then(|at| dst.get_mut(at)) {
            Some(y) => *y = v,
            None => return invalid!("input I holds {i}, which is outside of the output"),
        }
    }
    Ok(out(y))
}

fn place(mut at: usize, from: &[usize], to: &[usize]) -> Option<usize> {
    let (mut place, mut stride) = (0, 1);
    for (&f, &t) in from.iter().zip(to).rev() {
        let c = at % f;
        at /= f;
        if c >= t {
            return None;
        }
        place += c * stride;
        stride *= t;
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn rows_and_searches_agree() {
        let rng = Rng::new(6);
        for _ in 0..30 {
            let x = rng.floats(&[2, 3, rng.below(4, 12), rng.below(4, 20)]);
            let (k, s, d) = (rng.below(2, 4) as i64, rng.below(1, 4) as i64, 1);
            let p = rng.below(0, 2) as i64;
            let case = || {
                Case::new("MaxPool", 12)
                    .ints("kernel_shape", &[k, k])
                    .ints("strides", &[s, s])
                    .ints("dilations", &[d, d])
                    .ints("pads", &[p; 4])
                    .int("ceil_mode", p)
            };
            let (values, both) = (case().one(std::slice::from_ref(&x)).unwrap(), case().outputs(2).run(&[Some(x.clone())]).unwrap());
            let index = vec_of::<i64>(both[1].as_ref().unwrap());
            let source = vec_of::<f32>(&x);
            assert_eq!(vec_of::<f32>(&values), vec_of::<f32>(both[0].as_ref().unwrap()));
            assert_eq!(vec_of::<f32>(&values), index.iter().map(|&i| source[i as usize]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hostile_windows_are_errors() {
        let x = Tensor::from_slice(&[1, 1, 2, 2], &[1f32; 4]).unwrap();
        for case in [
            Case::new("MaxPool", 12),
            Case::new("MaxPool", 12).ints("kernel_shape", &[0, 1]),
            Case::new("MaxPool", 12).ints("kernel_shape", &[3, 3]),
            Case::new("MaxPool", 12).ints("kernel_shape", &[2, 2]).ints("strides", &[0, 1]),
            Case::new("MaxPool", 12).ints("kernel_shape", &[2, 2]).ints("pads", &[1 << 31, 0, 0, 0]),
            Case::new("AveragePool", 12).ints("kernel_shape", &[2, 2]).ints("pads", &[1000, 0, 0, 0]),
            Case::new("MaxUnpool", 11).ints("kernel_shape", &[2, 2]),
        ] {
            assert!(case.one(std::slice::from_ref(&x)).is_err());
        }
    }
}
