//! Products and convolutions of quantized tensors: MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv, exactly.

use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::conv::{Shape, columns, depthwise};
use super::float::{Args, Outs, alloc, elements_mut, out, tensor_kernel};
use super::gemm::{EXACT_DEPTH, Mat, Threads, gemm_i8};
use super::half_float::widened;
use super::matmul::Batches;
use super::quantized_group::Limits;
use super::vecmath::nearest;
use super::window::WindowAttrs;
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::Tensor;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("MatMulInteger", 10, matmul_integer),
    Entry::onnx("QLinearMatMul", 10, qlinear_matmul),
    Entry::onnx("ConvInteger", 10, conv_integer),
    Entry::onnx("QLinearConv", 10, qlinear_conv),
];

/// Elements of an 8-bit tensor.
fn bytes_of(t: &Tensor, name: &str) -> Result<Vec<f32>, KernelError> {
    if !matches!(t.dtype(), DType::I8 | DType::U8) {
        return invalid!("input {name} is {}, expected i8 or u8", t.dtype());
    }
    Ok(match t.as_slice::<i8>() {
        Some(v) => v.iter().map(|&x| f32::from(x)).collect(),
        None => t.as_slice::<u8>().unwrap_or_default().iter().map(|&x| f32::from(x)).collect(),
    })
}

/// Where along a tensor a list of scales or zero points applies.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    /// Elements that share one number.
    pub(super) inner: usize,
    /// How many numbers.
    pub(super) count: usize,
}

/// The elements less their zero points, in `-255..=255`.
pub(super) fn centered(t: &Tensor, zero: Option<&Tensor>, spread: Spread, name: &str) -> Result<Vec<f32>, KernelError> {
    let mut v = bytes_of(t, name)?;
    let Some(zero) = zero else { return Ok(v) };
    if zero.dtype() != t.dtype() {
        return invalid!("the zero point of input {name} is {}, expected {}", zero.dtype(), t.dtype());
    }
    let zeros = bytes_of(zero, name)?;
    match *zeros {
        [z] => {
            if z != 0.0 {
                v.par_chunks_mut(1 << 15).for_each(|c| c.iter_mut().for_each(|x| *x -= z));
            }
        }
        _ if zeros.len() == spread.count => {
            for (chunk, z) in v.chunks_mut(spread.inner.max(1)).zip(zeros.iter().cycle()) {
                chunk.iter_mut().for_each(|x| *x -= z);
            }
        }
        _ => return invalid!("the zero point of input {name} has {} elements, expected 1 or {}", zeros.len(), spread.count),
    }
    Ok(v)
}

/// One zero point for each row of the left operand, or one of all.
fn row_spread(dims: &[usize], zero: Option<&Tensor>) -> Spread {
    let (rows, cols) = match *dims {
        [.., r, c] => (r, c),
        [c] => (1, c),
        [] => (1, 1),
    };
    // One for each row of every batch, or the same ones for all batches.
    let given = zero.map_or(1, Tensor::len);
    let all = dims[..dims.len().saturating_sub(1)].iter().product::<usize>();
    Spread { inner: cols, count: if given == all { all } else { rows } }
}

/// Operands of a product, centered: one zero point a row of A and a column of B.
fn product(args: &Args, at: [(usize, usize); 2], names: [&str; 2]) -> Result<(Batches, Vec<i32>), KernelError> {
    let (a, b) = (args.get(at[0].0)?, args.get(at[1].0)?);
    let (za, zb) = (args.opt(at[0].1), args.opt(at[1].1));
    let batches = Batches::new(a.dims(), b.dims(), false, false)?;
    let (m, k, n) = (batches.m, batches.k, batches.n);
    let va = centered(a, za, row_spread(a.dims(), za), names[0])?;
    let mut spread = Spread { inner: 1, count: n };
    let vb = match zb {
        // [batch, 1, N]: a list of columns for every matrix.
        Some(z) if z.len() != 1 && z.len() != n && z.len().checked_mul(k) == Some(b.len()) => {
            let rows: Vec<f32> = bytes_of(z, names[1])?;
            let mut v = bytes_of(b, names[1])?;
            for (matrix, z) in v.chunks_mut((k * n).max(1)).zip(rows.chunks(n.max(1))) {
                matrix.chunks_mut(n.max(1)).for_each(|r| r.iter_mut().zip(z).for_each(|(x, z)| *x -= z));
            }
            v
        }
        _ => {
            spread.inner = if b.rank() == 1 { b.len() } else { 1 };
            centered(b, zb, spread, names[1])?
        }
    };
    let mut acc = vec![0i32; batches.pairs.len() * m * n];
    for (y, &(ia, ib)) in acc.chunks_mut((m * n).max(1)).zip(&batches.pairs) {
        gemm_i8(y, n, Mat::new(&va[ia * m * k..], m, k)?, Mat::new(&vb[ib * k * n..], k, n)?, Threads::Pool)?;
    }
    Ok((batches, acc))
}

fn matmul_integer(_: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    tensor_kernel(|_, args| {
        let (batches, acc) = product(args, [(0, 2), (1, 3)], ["A", "B"])?;
        Ok(out(Tensor::from_slice(&batches.dims, &acc)?))
    })
}

/// A scale input as `f32` numbers.
pub(super) fn scales(args: &Args, i: usize, name: &str) -> Result<Vec<f32>, KernelError> {
    let t = widened(args.get(i)?)?;
    match t.as_slice::<f32>() {
        Some([]) | None => invalid!("input {i} ({name}) is {} with {} elements, expected f32", t.dtype(), t.len()),
        Some(v) => Ok(v.to_vec()),
    }
}

/// Rounds half to even and saturates to 8 bits of the type of `zero`.
#[derive(Clone, Copy)]
pub(super) struct Requantize {
    pub(super) zero: f32,
    /// Limits of the result, zero point included.
    low: f32,
    high: f32,
    pub(super) dtype: DType,
}

impl Requantize {
    pub(super) fn new(zero: Option<&Tensor>, fallback: DType) -> Result<Self, KernelError> {
        let dtype = zero.map_or(fallback, Tensor::dtype);
        let zero = zero.map(|z| bytes_of(z, "y_zero_point")).transpose()?;
        let zero = match zero.as_deref() {
            None => 0.0,
            Some([z]) => *z,
            Some(z) => return invalid!("input y_zero_point has {} elements, expected 1", z.len()),
        };
        let (low, high) = if dtype == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
        Ok(Self { zero, low, high, dtype })
    }

    /// With results in the range that `limits` (real numbers) have at this scale: rounding keeps order, so that clamping the
    /// integers is clamping the numbers.
    pub(super) fn limited(self, limits: Limits, scale: f32) -> Self {
        let bound = |x: f32| if x.is_nan() { self.zero } else { (x / scale).round_ties_even() + self.zero };
        let low = if limits.low == f32::NEG_INFINITY { self.low } else { bound(limits.low).clamp(self.low, self.high) };
        let high = if limits.high == f32::INFINITY { self.high } else { bound(limits.high).clamp(self.low, self.high) };
        // Where a Clip has its limits crossed, the upper one wins.
        Self { low: low.min(high), high, ..self }
    }

    /// The low 8 bits of the result for a number without its zero point.
    #[inline(always)]
    pub(super) fn apply(&self, x: f32) -> u8 {
        // Comparisons that turn a NaN into a limit.
        let (low, high) = (self.low - self.zero, self.high - self.zero);
        let x = if x > low { x } else { low };
        let x = if x < high { x } else { high };
        nearest(x).wrapping_add(self.zero as i32) as u8
    }

    /// The same for a number that has its zero point in it.
    #[inline(always)]
    pub(super) fn apply_shifted(&self, x: f32) -> u8 {
        let x = if x > self.low { x } else { self.low };
        let x = if x < self.high { x } else { self.high };
        nearest(x) as u8
    }
}

fn qlinear_matmul(_: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    qlinear_matmul_limited(Limits::NONE)
}

/// QLinearMatMul whose results stay within `limits`.
pub(super) fn qlinear_matmul_limited(limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    tensor_kernel(move |ctx, args| {
        let (batches, acc) = product(args, [(0, 2), (3, 5)], ["a", "b"])?;
        let (sa, sb, sy) = (scales(args, 1, "a_scale")?, scales(args, 4, "b_scale")?, scales(args, 6, "y_scale")?);
        let (m, n) = (batches.m, batches.n);
        let rows = batches.pairs.len() * m;
        let ok = |len: usize, each: usize, all: usize| len == 1 || len == each || len == all;
        if !ok(sa.len(), m, rows) || !ok(sb.len(), n, batches.pairs.len() * n) || sy.len() != 1 {
            return invalid!("scales of {}, {} and {} elements do not fit a product of {m}x{n}", sa.len(), sb.len(), sy.len());
        }
        let to = Requantize::new(args.opt(7), args.get(0)?.dtype())?.limited(limits, sy[0]);
        let mut y = ctx.alloc(to.dtype, &batches.dims)?;
        for (r, (y, acc)) in y.bytes_mut().chunks_mut(n.max(1)).zip(acc.chunks(n.max(1))).enumerate() {
            let a = sa[r % sa.len()];
            let sb = if sb.len() > n { &sb[r / m * n..] } else { &sb[..] };
            for (c, (y, &x)) in y.iter_mut().zip(acc).enumerate() {
                *y = to.apply(x as f32 * (a * sb[if sb.len() == 1 { 0 } else { c }] / sy[0]));
            }
        }
        Ok(out(y))
    })
}

/// Centered weights, once where they are constant.
type Weights = Option<Vec<f32>>;

fn constant_weights(ctx: &PrepareCtx<'_>, w: usize, zero: usize) -> Result<Weights, KernelError> {
    let given = |i: usize| ctx.constants.get(i).and_then(Option::as_ref);
    match given(w) {
        Some(t) if given(zero).is_some() || ctx.node.input(zero).is_none() => weights(t, given(zero)).map(Some),
        _ => Ok(None),
    }
}

fn weights(w: &Tensor, zero: Option<&Tensor>) -> Result<Vec<f32>, KernelError> {
    let maps = w.dims().first().copied().unwrap_or(0);
    centered(w, zero, Spread { inner: w.len().checked_div(maps).unwrap_or(0), count: maps }, "w")
}

/// The accumulators of one convolution are given to `done` a group of one image at a time, with the first output channel.
fn convolve(
    x: &Tensor,
    x_zero: Option<&Tensor>,
    w: &[f32],
    shape: &Shape,
    mut done: impl FnMut(usize, usize, &[i32]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let x = centered(x, x_zero, Spread { inner: 1, count: 1 }, "x")?;
    let win = &shape.window;
    let (plane_in, plane_out) = (win.input_len()?, win.output_len()?);
    let depth = shape.group_in * win.kernel_len()?;
    let Some(len) = depth.checked_mul(plane_out).filter(|&n| n < 1 << 32) else {
        return invalid!("a convolution with {plane_out} outputs of {depth} weights each is too large");
    };
    let mut cols = if win.is_pointwise() { Vec::new() } else { vec![0f32; len] };
    if shape.group_in == 1 && win.kernel_len()? <= EXACT_DEPTH {
        return each_channel(&x, w, shape, done);
    }
    let mut acc = vec![0i32; shape.group_out * plane_out];
    for n in 0..shape.batch {
        for g in 0..shape.groups {
            let x = &x[(n * shape.groups + g) * shape.group_in * plane_in..][..shape.group_in * plane_in];
            let w = Mat::new(&w[g * shape.group_out * depth..], shape.group_out, depth)?;
            let data = if win.is_pointwise() {
                x
            } else {
                // Padding is the zero point, so zero once centered.
                columns(&mut cols, x, win, 0..win.output[0] * win.output[1], 0.0, Threads::Pool);
                &cols
            };
            gemm_i8(&mut acc, plane_out, w, Mat::new(data, depth, plane_out)?, Threads::Pool)?;
            done(n, g * shape.group_out, &acc)?;
        }
    }
    Ok(())
}

/// One input channel for every output channel. The sums are of so few products that `f32` holds them exactly.
fn each_channel(
    x: &[f32],
    w: &[f32],
    shape: &Shape,
    mut done: impl FnMut(usize, usize, &[i32]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let win = &shape.window;
    let (plane_in, plane_out, kernel) = (win.input_len()?, win.output_len()?, win.kernel_len()?);
    let maps = shape.groups * shape.group_out;
    let mut acc = vec![0i32; maps * plane_out];
    for n in 0..shape.batch {
        acc.par_chunks_mut(plane_out).enumerate().for_each_init(
            || vec![0f32; plane_out],
            |sums, (m, acc)| {
                let x = &x[(n * shape.groups + m / shape.group_out) * plane_in..][..plane_in];
                depthwise(sums, x, &w[m * kernel..][..kernel], 0.0, win);
                acc.iter_mut().zip(&*sums).for_each(|(a, &s)| *a = s as i32);
            },
        );
        done(n, 0, &acc)?;
    }
    Ok(())
}

fn conv_integer(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let (window, groups) = (WindowAttrs::new(attrs)?, attrs.size("group", 1, 1)?);
    let ready = constant_weights(ctx, 1, 3)?;
    tensor_kernel(move |ctx, args| {
        let shape = Shape::new(args.get(0)?.dims(), args.get(1)?.dims(), None, groups, &window)?;
        let fresh = if ready.is_some() { None } else { Some(weights(args.get(1)?, args.opt(3))?) };
        let Some(w) = ready.as_ref().or(fresh.as_ref()) else { return invalid!("input w is missing") };
        let mut y = alloc::<i32>(ctx, &shape.out_dims)?;
        let dst = elements_mut::<i32>(&mut y)?;
        let plane = shape.window.output_len()?;
        if dst.is_empty() {
            return Ok(out(y));
        }
        convolve(args.get(0)?, args.opt(2), w, &shape, |n, first, acc| {
            dst[(n * shape.groups * shape.group_out + first) * plane..][..acc.len()].copy_from_slice(acc);
            Ok(())
        })?;
        Ok(out(y))
    })
}

fn qlinear_conv(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    qlinear_conv_limited(ctx, Limits::NONE)
}

/// QLinearConv whose results stay within `limits`.
pub(super) fn qlinear_conv_limited(ctx: &PrepareCtx<'_>, limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let (window, groups) = (WindowAttrs::new(attrs)?, attrs.size("group", 1, 1)?);
    let ready = constant_weights(ctx, 3, 5)?;
    tensor_kernel(move |ctx, args| qconv(ctx, args, (&window, groups), ready.as_ref(), limits))
}

fn qconv(
    ctx: &mut RunCtx<'_>,
    args: &Args,
    (window, groups): (&WindowAttrs, usize),
    ready: Option<&Vec<f32>>,
    limits: Limits,
) -> Result<Outs, KernelError> {
    let (x, w) = (args.get(0)?, args.get(3)?);
    let shape = Shape::new(x.dims(), w.dims(), args.opt(8).map(Tensor::dims), groups, window)?;
    let fresh = if ready.is_some() { None } else { Some(weights(w, args.opt(5))?) };
    let Some(weights) = ready.or(fresh.as_ref()) else { return invalid!("input w is missing") };
    let (sx, sw, sy) = (scales(args, 1, "x_scale")?, scales(args, 4, "w_scale")?, scales(args, 6, "y_scale")?);
    let maps = shape.groups * shape.group_out;
    if sx.len() != 1 || sy.len() != 1 || (sw.len() != 1 && sw.len() != maps) {
        return invalid!("scales of {}, {} and {} elements do not fit {maps} output channels", sx.len(), sw.len(), sy.len());
    }
    let bias = args.opt_slice::<i32>(8)?;
    let to = Requantize::new(args.opt(7), x.dtype())?.limited(limits, sy[0]);
    let mut y = ctx.alloc(to.dtype, &shape.out_dims)?;
    let plane = shape.window.output_len()?;
    if y.is_empty() {
        return Ok(out(y));
    }
    let dst = y.bytes_mut();
    convolve(x, args.opt(2), weights, &shape, |n, first, acc| {
        let dst = &mut dst[(n * maps + first) * plane..][..acc.len()];
        dst.par_chunks_mut(plane).zip(acc.par_chunks(plane)).enumerate().for_each(|(m, (y, acc))| {
            let m = first + m;
            let scale = sx[0] * sw[if sw.len() == 1 { 0 } else { m }] / sy[0];
            let bias = bias.map_or(0, |b| b[m]);
            y.iter_mut().zip(acc).for_each(|(y, &a)| *y = to.apply(a.wrapping_add(bias) as f32 * scale));
        });
        Ok(())
    })?;
    Ok(out(y))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn products_of_extreme_values_are_exact() {
        let rng = Rng::new(4);
        let (m, k, n) = (3, 1000, 5);
        let a = Tensor::from_slice(&[m, k], &vec![255u8; m * k]).unwrap();
        let b = rng.bytes(&[k, n], true);
        let (za, zb) = (Tensor::scalar(0u8), Tensor::from_slice(&[n], &[-128i8, 127, 0, 1, -1]).unwrap());
        let y = Case::new("MatMulInteger", 10).one(&[a, b.clone(), za, zb.clone()]).unwrap();
        let (b, z) = (vec_of::<i8>(&b), vec_of::<i8>(&zb));
        let want: Vec<i32> = (0..m * n).map(|i| (0..k).map(|j| 255 * (i32::from(b[j * n + i % n]) - i32::from(z[i % n]))).sum()).collect();
        assert_eq!(vec_of::<i32>(&y), want);
    }

    #[test]
    fn convolutions_pad_with_the_zero_point() {
        let rng = Rng::new(5);
        let (x, w) = (rng.bytes(&[1, 2, 4, 5], false), rng.bytes(&[3, 2, 3, 3], true));
        let inputs = [x.clone(), w.clone(), Tensor::scalar(9u8)];
        let case = || Case::new("ConvInteger", 10).ints("pads", &[1, 1, 1, 1]);
        let y = vec_of::<i32>(&case().one(&inputs).unwrap());
        let (x, w) = (vec_of::<u8>(&x), vec_of::<i8>(&w));
        let mut want = Vec::new();
        for (m, r, c) in (0usize..60).map(|i| (i / 20, i / 5 % 4, i % 5)) {
            let mut sum = 0;
            for (ci, a, b) in (0usize..18).map(|i| (i / 9, i / 3 % 3, i % 3)) {
                let (iy, ix) = ((r + a).wrapping_sub(1), (c + b).wrapping_sub(1));
                if iy < 4 && ix < 5 {
                    sum += (i32::from(x[(ci * 4 + iy) * 5 + ix]) - 9) * i32::from(w[m * 18 + ci * 9 + a * 3 + b]);
                }
            }
            want.push(sum);
        }
        assert_eq!(y, want);
        assert_eq!(vec_of::<i32>(&case().constant(true).one(&inputs).unwrap()), want, "constant weights");
    }
}
