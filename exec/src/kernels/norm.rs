//! Normalizations: layer, RMS, group, instance, batch, mean-variance, Lp and local response.
//!
//! Statistics are taken in two passes (mean, then squared distances from it) and accumulated in double precision.

use recut_core::dtype::DType;

use super::attrs::{Attrs, to_size};
use super::binary::{self, Op};
use super::reduce::{self, Fold};
use super::{
    Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, half_float, kernel, movement, one, parallel, resolve_axis,
    vecmath,
};
use crate::tensor::{Dims, Tensor};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("LayerNormalization", 1, |ctx| layer(ctx, true)),
    Entry::onnx("RMSNormalization", 23, |ctx| layer(ctx, false)),
    Entry { domain: "", op: "SimplifiedLayerNormalization", since: 1, factory: |ctx| layer(ctx, false) },
    Entry { domain: "com.microsoft", op: "SimplifiedLayerNormalization", since: 1, factory: |ctx| layer(ctx, false) },
    Entry { domain: "com.microsoft", op: "LayerNormalization", since: 1, factory: |ctx| layer(ctx, true) },
    Entry { domain: "com.microsoft", op: "SkipLayerNormalization", since: 1, factory: |ctx| skip_layer(ctx, true) },
    Entry { domain: "com.microsoft", op: "SkipSimplifiedLayerNormalization", since: 1, factory: |ctx| skip_layer(ctx, false) },
    // Scale and bias are by group in operator set 18 and by channel from 21: their length tells.
    Entry::onnx("GroupNormalization", 18, group),
    Entry::onnx("InstanceNormalization", 1, instance),
    Entry::onnx("BatchNormalization", 1, batch),
    Entry::onnx("MeanVarianceNormalization", 9, mean_variance),
    Entry::onnx("LpNormalization", 1, lp),
    Entry::onnx("LRN", 1, lrn),
];

/// Mean and `1 / sqrt(variance + epsilon)` of a row; without `centered`, 0 and `1 / sqrt(mean square + epsilon)`.
#[inline]
fn statistics(row: &[f32], centered: bool, epsilon: f64) -> (f32, f32) {
    let n = row.len() as f64;
    let mean = if centered { (vecmath::sum_by(row, |x| x) / n) as f32 } else { 0.0 };
    let variance = vecmath::sum_by(row, |x| (x - mean) * (x - mean)) / n;
    (mean, (1.0 / (variance + epsilon).sqrt()) as f32)
}

/// Rows of `n` elements of `x` normalized, times `scale`, plus `bias`; and the statistics of every row.
fn normalize_rows(x: &mut [f32], n: usize, scale: Option<&[f32]>, bias: Option<&[f32]>, centered: bool, epsilon: f64) {
    if n == 0 {
        return;
    }
    parallel::pieces(x, n, 4, |_, piece| {
        for row in piece.chunks_exact_mut(n) {
            let (mean, inv) = statistics(row, centered, epsilon);
            match (scale, bias) {
                (Some(s), Some(b)) => {
                    row.iter_mut().zip(s.iter().zip(b)).for_each(|(x, (s, b))| *x = (*x - mean) * inv * s + b);
                }
                (Some(s), None) => row.iter_mut().zip(s).for_each(|(x, s)| *x = (*x - mean) * inv * s),
                (None, Some(b)) => row.iter_mut().zip(b).for_each(|(x, b)| *x = (*x - mean) * inv + b),
                (None, None) => row.iter_mut().for_each(|x| *x = (*x - mean) * inv),
            }
        }
    });
}

/// Input `i` as f32, to be written over.
fn working_copy(ctx: &mut RunCtx<'_>, inputs: &mut Inputs<'_>, i: usize) -> Result<Tensor, KernelError> {
    let t = match inputs.take_unique(i) {
        Some(t) => t,
        None => inputs.tensor(i)?.clone(),
    };
    single(ctx, &t)
}

/// f16, bf16 and f64 as f32.
fn single(ctx: &mut RunCtx<'_>, t: &Tensor) -> Result<Tensor, KernelError> {
    match t.dtype() {
        DType::F32 => Ok(t.clone()),
        DType::F16 | DType::Bf16 => half_float::widen(ctx, t),
        DType::F64 => cast::to(ctx, t, DType::F32, true),
        other => unsupported!("elements of type {other}"),
    }
}

/// An optional parameter as f32 of exactly the shape `dims`.
fn parameter(ctx: &mut RunCtx<'_>, inputs: &Inputs<'_>, i: usize, dims: &[usize]) -> Result<Option<Tensor>, KernelError> {
    let Some(p) = inputs.optional(i)? else { return Ok(None) };
    let p = single(ctx, p)?;
    // Leading ones say nothing.
    let own = p.dims().iter().position(|&d| d != 1).map_or(&[][..], |at| &p.dims()[at..]);
    let fits = super::broadcast_dims(&[dims, own]).is_ok_and(|d| &*d == dims);
    if !fits {
        return invalid!("input {i} has the shape {:?}, which does not broadcast to {dims:?}", p.dims());
    }
    let trimmed = p.reshaped(own)?;
    Ok(Some(movement::expanded(ctx, &trimmed, dims)?))
}

fn layer(ctx: &PrepareCtx<'_>, centered: bool) -> Made {
    let axis = Attrs(ctx.node).int("axis", -1)?;
    let epsilon = Attrs(ctx.node).float("epsilon", 1e-5)?;
    let wants_statistics = ctx.node.outputs.iter().skip(1).any(Option::is_some);
    kernel(move |ctx, mut inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let dims = Dims::from_slice(inputs.tensor(0)?.dims());
        let axis = resolve_axis(axis, dims.len())?;
        let scale = parameter(ctx, &inputs, 1, &dims[axis..])?;
        let bias = parameter(ctx, &inputs, 2, &dims[axis..])?;
        let n = dims[axis..].iter().product::<usize>();
        let mut x = working_copy(ctx, &mut inputs, 0)?;
        let mut extra = Vec::new();
        if wants_statistics {
            let mut stat_dims = dims.clone();
            stat_dims[axis..].fill(1);
            let all: Vec<(f32, f32)> = match n {
                0 => Vec::new(),
                _ => x.as_slice::<f32>().unwrap_or_default().chunks_exact(n).map(|r| statistics(r, centered, epsilon)).collect(),
            };
            let (means, invs): (Vec<f32>, Vec<f32>) = all.into_iter().unzip();
            if centered {
                extra.push(Tensor::from_slice(&stat_dims, &means)?);
            }
            extra.push(Tensor::from_slice(&stat_dims, &invs)?);
        }
        let (scale, bias) = (scale.as_ref().and_then(Tensor::as_slice), bias.as_ref().and_then(Tensor::as_slice));
        normalize_rows(x.as_mut_slice().unwrap_or_default(), n, scale, bias, centered, epsilon);
        let y = cast::to(ctx, &x, dtype, true)?;
        Ok(movement::many(std::iter::once(y).chain(extra)))
    })
}

/// com.microsoft: the sum of input, skip and bias, normalized. The sum itself is output 3.
fn skip_layer(ctx: &PrepareCtx<'_>, centered: bool) -> Made {
    let epsilon = Attrs(ctx.node).float("epsilon", 1e-5)?;
    let wants_sum = ctx.node.outputs.get(3).is_some_and(Option::is_some);
    // input, skip, gamma, [beta,] bias
    let bias_at = if centered { 4 } else { 3 };
    kernel(move |ctx, mut inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let Some(&n) = inputs.tensor(0)?.dims().last() else { return invalid!("the input is a scalar") };
        let gamma = parameter(ctx, &inputs, 2, &[n])?;
        let beta = if centered { parameter(ctx, &inputs, 3, &[n])? } else { None };
        let bias = parameter(ctx, &inputs, bias_at, &[n])?;
        let skip = single(ctx, inputs.tensor(1)?)?;
        let x = working_copy(ctx, &mut inputs, 0)?;
        let mut sum = binary::apply(ctx, x, &skip, Op::Add)?;
        if let Some(b) = &bias {
            sum = binary::apply(ctx, sum, b, Op::Add)?;
        }
        let kept = if wants_sum { Some(cast::to(ctx, &sum, dtype, true)?) } else { None };
        let (gamma, beta) = (gamma.as_ref().and_then(Tensor::as_slice), beta.as_ref().and_then(Tensor::as_slice));
        normalize_rows(sum.as_mut_slice().unwrap_or_default(), n, gamma, beta, centered, epsilon);
        let y = cast::to(ctx, &sum, dtype, true)?;
        Ok(smallvec::smallvec![Some(y.into()), None, None, kept.map(Into::into)])
    })
}

/// `x[_, c, _] = x * scale[c] + bias[c]`, channels of `inner` elements.
fn affine(x: &mut [f32], channels: usize, inner: usize, scale: &[f32], bias: &[f32]) {
    if channels == 0 || inner == 0 {
        return;
    }
    parallel::pieces(x, inner, 1, |start, piece| {
        for (i, line) in piece.chunks_exact_mut(inner).enumerate() {
            let c = (start / inner + i) % channels;
            let (s, b) = (scale[c], bias[c]);
            line.iter_mut().for_each(|x| *x = *x * s + b);
        }
    });
}

/// Groups of channels normalized, then scaled for each channel. Scale and bias have one element a channel or a group.
fn grouped(ctx: &mut RunCtx<'_>, inputs: &mut Inputs<'_>, groups: Option<usize>, epsilon: f64) -> Result<Outputs, KernelError> {
    let dtype = inputs.tensor(0)?.dtype();
    let dims = Dims::from_slice(inputs.tensor(0)?.dims());
    let &[batch, channels, ..] = &*dims else { return invalid!("the input has the shape {dims:?}, expected rank 2 or more") };
    let groups = groups.unwrap_or(channels);
    if groups == 0 || channels % groups != 0 {
        return if channels == 0 {
            Ok(one(inputs.tensor(0)?.clone()))
        } else {
            invalid!("{channels} channels do not divide into {groups} groups")
        };
    }
    let spread = |ctx: &mut RunCtx<'_>, i: usize| -> Result<Vec<f32>, KernelError> {
        let p = single(ctx, inputs.tensor(i)?)?;
        let p = p.as_slice::<f32>().unwrap_or_default();
        match p.len() {
            n if n == channels => Ok(p.to_vec()),
            n if n == groups => Ok((0..channels).map(|c| p[c / (channels / groups)]).collect()),
            n => invalid!("input {i} has {n} elements for {channels} channels"),
        }
    };
    let (scale, bias) = (spread(ctx, 1)?, spread(ctx, 2)?);
    let mut x = working_copy(ctx, inputs, 0)?;
    let inner: usize = dims[2..].iter().product();
    let data = x.as_mut_slice::<f32>().unwrap_or_default();
    debug_assert_eq!(data.len(), batch * channels * inner);
    normalize_rows(data, channels / groups * inner, None, None, true, epsilon);
    affine(data, channels, inner, &scale, &bias);
    Ok(one(cast::to(ctx, &x, dtype, true)?))
}

fn group(ctx: &PrepareCtx<'_>) -> Made {
    let epsilon = Attrs(ctx.node).float("epsilon", 1e-5)?;
    let Some(groups) = Attrs(ctx.node).opt_int("num_groups")? else { return invalid!("attribute num_groups is missing") };
    let groups = to_size("attribute num_groups", groups)?;
    kernel(move |ctx, mut inputs| grouped(ctx, &mut inputs, Some(groups), epsilon))
}

fn instance(ctx: &PrepareCtx<'_>) -> Made {
    let epsilon = Attrs(ctx.node).float("epsilon", 1e-5)?;
    kernel(move |ctx, mut inputs| grouped(ctx, &mut inputs, None, epsilon))
}

fn batch(ctx: &PrepareCtx<'_>) -> Made {
    let epsilon = Attrs(ctx.node).float("epsilon", 1e-5)?;
    let momentum = Attrs(ctx.node).float("momentum", 0.9)?;
    let spatial = Attrs(ctx.node).flag("spatial", true)?;
    let training = Attrs(ctx.node).flag("training_mode", false)?;
    kernel(move |ctx, mut inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let dims = Dims::from_slice(inputs.tensor(0)?.dims());
        let (channels, inner) = match &*dims {
            [] => return invalid!("the input of BatchNormalization is a scalar"),
            [_] => (1, 1),
            [_, c, rest @ ..] if spatial => (*c, rest.iter().product()),
            // Before operator set 9: every feature for itself.
            [_, rest @ ..] => (rest.iter().product(), 1),
        };
        let vector = |ctx: &mut RunCtx<'_>, inputs: &Inputs<'_>, i: usize| -> Result<Vec<f32>, KernelError> {
            let p = single(ctx, inputs.tensor(i)?)?;
            let p = p.as_slice::<f32>().unwrap_or_default();
            if p.len() == channels { Ok(p.to_vec()) } else { invalid!("input {i} has {} elements for {channels} channels", p.len()) }
        };
        let (scale, bias) = (vector(ctx, &inputs, 1)?, vector(ctx, &inputs, 2)?);
        let (mut mean, mut variance) = (vector(ctx, &inputs, 3)?, vector(ctx, &inputs, 4)?);
        let stat_dtype = inputs.tensor(3)?.dtype();
        let mut x = working_copy(ctx, &mut inputs, 0)?;
        let mut running = Vec::new();
        if training {
            let cube = x.reshaped(&[dims[0], channels, inner])?;
            let axes = [true, false, true];
            let batch_mean = reduce::mean(ctx, &cube, &axes)?;
            let distance = binary::apply(ctx, cube, &batch_mean, Op::Sub)?;
            let squares = binary::apply(ctx, distance.clone(), &distance, Op::Mul)?;
            let batch_variance = reduce::mean(ctx, &squares, &axes)?;
            let m = momentum as f32;
            for (old, new) in [(&mut mean, &batch_mean), (&mut variance, &batch_variance)] {
                let new = new.as_slice::<f32>().unwrap_or_default();
                let mixed: Vec<f32> = old.iter().zip(new).map(|(o, n)| o * m + n * (1.0 - m)).collect();
                running.push(cast::to(ctx, &Tensor::from_slice(&[mixed.len()], &mixed)?, stat_dtype, true)?);
                *old = new.to_vec();
            }
        }
        let factor: Vec<f32> =
            scale.iter().zip(&variance).map(|(&s, &v)| (f64::from(s) / (f64::from(v) + epsilon).sqrt()) as f32).collect();
        let shift: Vec<f32> = bias.iter().zip(mean.iter().zip(&factor)).map(|(&b, (&m, &f))| b - m * f).collect();
        affine(x.as_mut_slice().unwrap_or_default(), channels, inner, &factor, &shift);
        let y = cast::to(ctx, &x, dtype, true)?;
        Ok(movement::many(std::iter::once(y).chain(running)))
    })
}

fn marked(axes: &[i64], rank: usize) -> Result<Vec<bool>, KernelError> {
    let mut mark = vec![false; rank];
    for &a in axes {
        mark[resolve_axis(a, rank)?] = true;
    }
    Ok(mark)
}

fn mean_variance(ctx: &PrepareCtx<'_>) -> Made {
    let axes = Attrs(ctx.node).ints("axes")?.map(<[i64]>::to_vec).unwrap_or_else(|| vec![0, 2, 3]);
    kernel(move |ctx, inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let x = single(ctx, inputs.tensor(0)?)?;
        let axes = marked(&axes, x.rank())?;
        let mean = reduce::mean(ctx, &x, &axes)?;
        let distance = binary::apply(ctx, x, &mean, Op::Sub)?;
        let squares = binary::apply(ctx, distance.clone(), &distance, Op::Mul)?;
        let mut deviation = reduce::mean(ctx, &squares, &axes)?;
        // The specification's guard against dividing by zero.
        deviation.as_mut_slice::<f32>().unwrap_or_default().iter_mut().for_each(|v| *v = v.sqrt() + 1e-9);
        let y = binary::apply(ctx, distance, &deviation, Op::Div)?;
        Ok(one(cast::to(ctx, &y, dtype, true)?))
    })
}

fn lp(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", -1)?;
    let fold = match Attrs(ctx.node).int("p", 2)? {
        1 => Fold::L1,
        2 => Fold::L2,
        p => return invalid!("attribute p is {p}, expected 1 or 2"),
    };
    kernel(move |ctx, inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let x = single(ctx, inputs.tensor(0)?)?;
        let axes = marked(&[axis], x.rank())?;
        let mut norm = reduce::over(ctx, &x, &axes, fold)?;
        // A zero vector stays zero.
        norm.as_mut_slice::<f32>().unwrap_or_default().iter_mut().for_each(|v| *v = if *v == 0.0 { 1.0 } else { *v });
        let y = binary::apply(ctx, x, &norm, Op::Div)?;
        Ok(one(cast::to(ctx, &y, dtype, true)?))
    })
}

fn lrn(ctx: &PrepareCtx<'_>) -> Made {
    let Some(size) = Attrs(ctx.node).opt_int("size")? else { return invalid!("attribute size is missing") };
    let size = to_size("attribute size", size)?;
    if size == 0 {
        return invalid!("attribute size must be positive");
    }
    let (alpha, beta) = (Attrs(ctx.node).float("alpha", 1e-4)? as f32, Attrs(ctx.node).float("beta", 0.75)? as f32);
    let bias = Attrs(ctx.node).float("bias", 1.0)? as f32;
    kernel(move |ctx, inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        let x = single(ctx, inputs.tensor(0)?)?;
        let &[_, channels, ..] = x.dims() else { return invalid!("the input has the shape {:?}, expected rank 2 or more", x.dims()) };
        let inner: usize = x.dims()[2..].iter().product();
        let mut out = ctx.alloc(DType::F32, x.dims())?;
        let (src, dst) = (x.as_slice::<f32>().unwrap_or_default(), out.as_mut_slice::<f32>().unwrap_or_default());
        let (before, after) = ((size - 1) / 2, (size - 1).div_ceil(2));
        parallel::pieces(dst, inner, size.min(channels.max(1)) + 32, |start, piece| {
            let mut squares = vec![0f32; inner];
            for (i, line) in piece.chunks_exact_mut(inner.max(1)).enumerate() {
                let at = start / inner + i;
                let (n, c) = (at / channels, at % channels);
                squares.fill(0.0);
                for k in c.saturating_sub(before)..=c.saturating_add(after).min(channels - 1) {
                    let from = (n * channels + k) * inner;
                    squares.iter_mut().zip(&src[from..from + inner]).for_each(|(s, x)| *s += x * x);
                }
                let own = &src[at * inner..(at + 1) * inner];
                for ((d, x), s) in line.iter_mut().zip(own).zip(&squares) {
                    *d = x / (bias + alpha / size as f32 * s).powf(beta);
                }
            }
        });
        Ok(one(cast::to(ctx, &out, dtype, true)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_centered_and_scaled() {
        let mut x = [1.0f32, 2.0, 3.0, 4.0];
        normalize_rows(&mut x, 4, Some(&[1.0, 1.0, 2.0, 2.0]), Some(&[0.0, 1.0, 0.0, 1.0]), true, 0.0);
        for (got, want) in x.iter().zip([-1.341_640_8, 0.552_786_4, 0.894_427_2, 3.683_281_6]) {
            assert!((got - want).abs() < 1e-5, "{x:?}");
        }
    }

    #[test]
    fn variance_survives_a_large_mean() {
        let mut x: Vec<f32> = (0..1000).map(|i| 10_000.0 + (i % 2) as f32).collect();
        normalize_rows(&mut x, 1000, None, None, true, 0.0);
        assert!((x[0] + 1.0).abs() < 1e-3 && (x[1] - 1.0).abs() < 1e-3);
    }
}
