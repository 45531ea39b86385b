//! Conv: depthwise directly, 1x1 as one matrix product, everything else as tiles of columns times the weights.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::gemm::{Mat, Threads, gemm};
use super::window::{Window, WindowAttrs};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::Dims;

pub(super) const TABLE: &[Entry] = &[Entry::onnx("Conv", 1, conv)];

/// Bytes of a tile of columns: half of a usual second-level cache, so that packing reads it from there.
const TILE_BYTES: usize = 1 << 20;

/// Sizes of one convolution.
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Input channels of one group.
    pub(super) group_in: usize,
    /// Output channels of one group.
    pub(super) group_out: usize,
    pub(super) window: Window,
    pub(super) out_dims: Dims,
}

impl Shape {
    /// From the sizes of X and W (`[M, C/group, kernel…]`) and, where given, of B.
    pub(super) fn new(x: &[usize], w: &[usize], bias: Option<&[usize]>, groups: usize, attrs: &WindowAttrs) -> Result<Self, KernelError> {
        if x.len() < 3 || w.len() != x.len() {
            return invalid!("inputs X and W must have the same rank of at least 3, they have shapes {x:?} and {w:?}");
        }
        let (channels, maps) = (x[1], w[0]);
        if channels % groups != 0 || channels / groups != w[1] {
            return invalid!(
                "input X has {channels} channels, and W of shape {w:?} takes {} in each of {groups} groups (attribute group)",
                w[1]
            );
        }
        if maps % groups != 0 {
            return invalid!("input W has {maps} output channels, which {groups} groups (attribute group) do not divide");
        }
        if bias.is_some_and(|b| b != [maps]) {
            return invalid!("input B has shape {:?}, expected [{maps}]", bias.unwrap_or_default());
        }
        if let Some(k) = &attrs.kernel
            && !(k.len() == w.len() - 2 && k.iter().zip(&w[2..]).all(|(&k, &w)| usize::try_from(k) == Ok(w)))
        {
            return invalid!("attribute kernel_shape is {k:?}, and input W has shape {w:?}");
        }
        let window = attrs.resolve(&x[2..], &w[2..], false)?;
        let mut out_dims = Dims::from_slice(&[x[0], maps]);
        out_dims.extend_from_slice(&window.output[3 - (x.len() - 2)..]);
        Ok(Self { batch: x[0], groups, group_in: w[1], group_out: maps / groups, window, out_dims })
    }
}

fn conv(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let window = WindowAttrs::new(attrs)?;
    let groups = attrs.size("group", 1, 1)?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => run::<T>(ctx, args, &window, groups)))
}

fn run<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, attrs: &WindowAttrs, groups: usize) -> Result<Outs, KernelError> {
    let shape = Shape::new(args.get(0)?.dims(), args.get(1)?.dims(), args.opt(2).map(crate::tensor::Tensor::dims), groups, attrs)?;
    let mut y = alloc::<T>(ctx, &shape.out_dims)?;
    let (x, w, bias) = (args.slice::<T>(0)?, args.slice::<T>(1)?, args.opt_slice::<T>(2)?);
    convolve(ctx, elements_mut(&mut y)?, x, w, bias, &shape)?;
    Ok(out(y))
}

/// `y = conv(x, w) + bias`.
pub(super) fn convolve<T: Real>(
    ctx: &mut RunCtx<'_>,
    y: &mut [T],
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    shape: &Shape,
) -> Result<(), KernelError> {
    let win = &shape.window;
    let (plane_in, plane_out) = (win.input_len()?, win.output_len()?);
    let channels = shape.groups * shape.group_in;
    let maps = shape.groups * shape.group_out;
    if y.is_empty() {
        return Ok(());
    }
    if shape.group_in == 1 && !win.is_pointwise() {
        let kernel = win.kernel_len()?;
        y.par_chunks_mut(plane_out).enumerate().for_each(|(i, y)| {
            let (n, m) = (i / maps, i % maps);
            let source = n * channels + m / shape.group_out;
            let x = &x[source * plane_in..][..plane_in];
            depthwise(y, x, &w[m * kernel..][..kernel], bias.map_or(T::ZERO, |b| b[m]), win);
        });
        return Ok(());
    }
    let depth = shape.group_in * win.kernel_len()?;
    let threads = rayon::current_num_threads();
    let image = |scratch: &mut Vec<T>, n: usize, y: &mut [T], threads: Threads| {
        for g in 0..shape.groups {
            let x = &x[(n * channels + g * shape.group_in) * plane_in..][..shape.group_in * plane_in];
            let w = &w[g * shape.group_out * depth..][..shape.group_out * depth];
            let y = &mut y[g * shape.group_out * plane_out..][..shape.group_out * plane_out];
            let keep = if let Some(bias) = bias {
                y.chunks_mut(plane_out).zip(&bias[g * shape.group_out..]).for_each(|(y, b)| y.fill(*b));
                T::ONE
            } else {
                T::ZERO
            };
            group(scratch, y, x, w, keep, shape, threads)?;
        }
        Ok(())
    };
    if shape.batch >= threads && shape.batch > 1 {
        return y
            .par_chunks_mut(maps * plane_out)
            .enumerate()
            .try_for_each_init(Vec::new, |scratch, (n, y)| image(scratch, n, y, Threads::One));
    }
    // The scratch is not from the pool of tensors: its size follows the tile and not the model.
    let _ = ctx;
    let mut scratch = Vec::new();
    y.chunks_mut(maps * plane_out).enumerate().try_for_each(|(n, y)| image(&mut scratch, n, y, Threads::Pool))
}

/// One group of one image: `y = keep * y + w * columns(x)`.
fn group<T: Real>(
    scratch: &mut Vec<T>,
    y: &mut [T],
    x: &[T],
    w: &[T],
    keep: T,
    shape: &Shape,
    threads: Threads,
) -> Result<(), KernelError> {
    let win = &shape.window;
    let plane_out = win.output_len()?;
    let depth = shape.group_in * win.kernel_len()?;
    let w = Mat::new(w, shape.group_out, depth)?;
    if win.is_pointwise() {
        return gemm(y, plane_out, w, Mat::new(x, depth, plane_out)?, keep, T::ONE, threads);
    }
    let width = win.output[2];
    let rows = win.output[0] * win.output[1];
    let per_row = depth.saturating_mul(width).saturating_mul(size_of::<T>()).max(1);
    let tile_rows = (TILE_BYTES / per_row).clamp(1, rows);
    for first in (0..rows).step_by(tile_rows) {
        let count = tile_rows.min(rows - first);
        let len = depth.checked_mul(count * width).filter(|&n| n < 1 << 34);
        let Some(len) = len else { return invalid!("a row of {width} outputs with {depth} weights each is too large") };
        if scratch.len() < len {
            scratch.resize(len, T::ZERO);
        }
        columns(&mut scratch[..len], x, win, first..first + count, T::ZERO, threads);
        let columns = Mat::new(&scratch[..len], depth, count * width)?;
        gemm(&mut y[first * width..], plane_out, w, columns, keep, T::ONE, threads)?;
    }
    Ok(())
}

/// Columns of the outputs in `rows` (rows of the flattened outer output dimensions): one row for every channel and kernel element.
/// Padding reads as `padding`.
pub(super) fn columns<T: Copy + Send + Sync>(
    dst: &mut [T],
    x: &[T],
    win: &Window,
    rows: std::ops::Range<usize>,
    padding: T,
    threads: Threads,
) {
    let width = win.output[2];
    let span = rows.len() * width;
    let plane_in = win.input.iter().product::<usize>();
    let [_, kh, kw] = win.kernel;
    let kernel: usize = win.kernel.iter().product();
    let one = |(i, dst): (usize, &mut [T])| {
        let (c, k) = (i / kernel, i % kernel);
        let (kd, ky, kx) = (k / (kh * kw), k / kw % kh, k % kw);
        let x = &x[c * plane_in..][..plane_in];
        let valid = win.valid(2, kx);
        for (r, dst) in rows.clone().zip(dst.chunks_mut(width)) {
            let (od, oy) = (r / win.output[1], r % win.output[1]);
            let (Some(id), Some(iy)) = (win.source(0, od, kd), win.source(1, oy, ky)) else {
                dst.fill(padding);
                continue;
            };
            let line = &x[(id * win.input[1] + iy) * win.input[2]..][..win.input[2]];
            dst[..valid.start].fill(padding);
            dst[valid.end..].fill(padding);
            if valid.is_empty() {
                continue;
            }
            let first = valid.start * win.stride[2] + kx * win.dilation[2] - win.begin[2];
            let dst = &mut dst[valid.clone()];
            if win.stride[2] == 1 {
                dst.copy_from_slice(&line[first..first + dst.len()]);
            } else {
                dst.iter_mut().zip(line[first..].iter().step_by(win.stride[2])).for_each(|(d, s)| *d = *s);
            }
        }
    };
    if span == 0 {
        return;
    }
    if threads == Threads::Pool && dst.len() > 1 << 14 {
        let min = ((1 << 13) / span).max(1);
        dst.par_chunks_mut(span).enumerate().with_min_len(min).for_each(one);
    } else {
        dst.chunks_mut(span).enumerate().for_each(one);
    }
}

/// One output plane of one input plane.
pub(super) fn depthwise<T: Real>(y: &mut [T], x: &[T], w: &[T], bias: T, win: &Window) {
    let [od, oh, ow] = win.output;
    let [kd, kh, kw] = win.kernel;
    if ow == 0 {
        return;
    }
    for (r, row) in y.chunks_mut(ow).enumerate().take(od * oh) {
        let (z, v) = (r / oh, r % oh);
        row.fill(bias);
        for a in 0..kd {
            let Some(id) = win.source(0, z, a) else { continue };
            for b in 0..kh {
                let Some(iy) = win.source(1, v, b) else { continue };
                let line = &x[(id * win.input[1] + iy) * win.input[2]..][..win.input[2]];
                for c in 0..kw {
                    let weight = w[(a * kh + b) * kw + c];
                    let valid = win.valid(2, c);
                    if valid.is_empty() {
                        continue;
                    }
                    let first = valid.start * win.stride[2] + c * win.dilation[2] - win.begin[2];
                    let row = &mut row[valid];
                    if win.stride[2] == 1 {
                        row.iter_mut().zip(&line[first..]).for_each(|(o, &x)| *o += weight * x);
                    } else {
                        row.iter_mut().zip(line[first..].iter().step_by(win.stride[2])).for_each(|(o, &x)| *o += weight * x);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    /// Straight from the definition, over two spatial dimensions.
    #[allow(clippy::too_many_arguments)]
    fn naive(x: &Tensor, w: &Tensor, bias: &[f32], groups: usize, s: [usize; 2], d: [usize; 2], p: [usize; 4]) -> Vec<f32> {
        let (xd, wd) = (x.dims().to_vec(), w.dims().to_vec());
        let (x, w) = (vec_of::<f32>(x), vec_of::<f32>(w));
        let o = |i: usize| (xd[2 + i] + p[i] + p[2 + i] - (wd[2 + i] - 1) * d[i] - 1) / s[i] + 1;
        let mut y = Vec::new();
        for n in 0..xd[0] {
            for m in 0..wd[0] {
                for (r, c) in (0..o(0)).flat_map(|r| (0..o(1)).map(move |c| (r, c))) {
                    let mut sum = bias[m];
                    for ci in 0..wd[1] {
                        let channel = m / (wd[0] / groups) * wd[1] + ci;
                        for (a, b) in (0..wd[2]).flat_map(|a| (0..wd[3]).map(move |b| (a, b))) {
                            let (iy, ix) = ((r * s[0] + a * d[0]).wrapping_sub(p[0]), (c * s[1] + b * d[1]).wrapping_sub(p[1]));
                            if iy < xd[2] && ix < xd[3] {
                                sum += x[((n * xd[1] + channel) * xd[2] + iy) * xd[3] + ix] * w[((m * wd[1] + ci) * wd[2] + a) * wd[3] + b];
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
        y
    }

    fn case(s: [usize; 2], d: [usize; 2], p: [usize; 4], groups: usize) -> Case {
        let list = |v: &[usize]| v.iter().map(|&x| x as i64).collect::<Vec<_>>();
        Case::new("Conv", 11).ints("strides", &list(&s)).ints("dilations", &list(&d)).ints("pads", &list(&p)).int("group", groups as i64)
    }

    #[test]
    fn matches_the_definition() {
        let rng = Rng::new(7);
        for i in 0..60 {
            let groups = [1, 1, 2, 3][i % 4];
            let (gi, go) = (if i % 5 == 0 { 1 } else { rng.below(1, 5) }, rng.below(1, 4));
            let k = [rng.below(1, 4), rng.below(1, 4)];
            let (s, d) = ([rng.below(1, 4), rng.below(1, 4)], [rng.below(1, 3), rng.below(1, 3)]);
            let p = [rng.below(0, 3), rng.below(0, 3), rng.below(0, 3), rng.below(0, 3)];
            let x = rng.floats(&[rng.below(1, 4), gi * groups, rng.below(5, 14), rng.below(5, 30)]);
            let w = rng.floats(&[go * groups, gi, k[0], k[1]]);
            let b = rng.floats(&[go * groups]);
            let want = naive(&x, &w, &vec_of(&b), groups, s, d, p);
            close(&case(s, d, p, groups).one(&[x, w, b]).unwrap(), &want, &format!("{groups} {k:?} {s:?} {d:?} {p:?}"));
        }
    }

    #[test]
    fn tiles_join() {
        let rng = Rng::new(8);
        let (x, w) = (rng.floats(&[1, 40, 70, 65]), rng.floats(&[8, 40, 3, 3]));
        let want = naive(&x, &w, &[0.0; 8], 1, [1, 1], [1, 1], [1, 1, 1, 1]);
        close(&case([1, 1], [1, 1], [1; 4], 1).one(&[x, w]).unwrap(), &want, "tiles");
    }

    #[test]
    fn same_padding_and_one_dimension() {
        let rng = Rng::new(9);
        let (x, w) = (rng.floats(&[1, 2, 1, 7]), rng.floats(&[3, 2, 1, 4]));
        let want = naive(&x, &w, &[0.0; 3], 1, [1, 2], [1, 1], [0, 1, 0, 2]);
        let (x, w) = (x.reshaped(&[1, 2, 7]).unwrap(), w.reshaped(&[3, 2, 4]).unwrap());
        let y = Case::new("Conv", 1).text("auto_pad", "SAME_UPPER").ints("strides", &[2]).one(&[x, w]).unwrap();
        assert_eq!(y.dims(), [1, 3, 4]);
        close(&y, &want, "SAME_UPPER");
    }

    #[test]
    fn bad_attributes_are_named() {
        let rng = Rng::new(10);
        let (x, w) = (rng.floats(&[1, 2, 5, 5]), rng.floats(&[3, 2, 3, 3]));
        let error = |c: Case| c.one(&[x.clone(), w.clone()]).unwrap_err().to_string();
        for (case, name) in [
            (Case::new("Conv", 11).ints("strides", &[0, 1]), "strides"),
            (Case::new("Conv", 11).ints("pads", &[-1, 0, 0, 0]), "pads"),
            (Case::new("Conv", 11).ints("pads", &[i64::MAX, 0, 0, 0]), "pads"),
            (Case::new("Conv", 11).ints("pads", &[2_000_000_000; 4]), "large"),
            (Case::new("Conv", 11).ints("dilations", &[i64::MAX, 1]), "dilations"),
            (Case::new("Conv", 11).ints("dilations", &[9, 1]), "window"),
            (Case::new("Conv", 11).ints("kernel_shape", &[2, 3]), "kernel_shape"),
            (Case::new("Conv", 11).int("group", 0), "group"),
            (Case::new("Conv", 11).int("group", 2), "group"),
            (Case::new("Conv", 11).text("auto_pad", "SOME"), "auto_pad"),
        ] {
            let e = error(case);
            assert!(e.contains(name), "{name}: {e}");
        }
        let empty = Case::new("Conv", 11).one(&[rng.floats(&[0, 2, 5, 5]), w]).unwrap();
        assert_eq!(empty.dims(), [0, 3, 3, 3]);
    }
}
