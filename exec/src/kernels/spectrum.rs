//! DFT, STFT, and the windows and weights of spectrograms.

use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out, tensor_kernel};
use super::fourier::{Complex, Plan};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, resolve_axis};
use crate::invalid;
use crate::tensor::{Dims, Tensor};

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("DFT", 17, |ctx| dft(ctx, false)),
    Entry::onnx("DFT", 20, |ctx| dft(ctx, true)),
    Entry::onnx("STFT", 17, stft),
    Entry::onnx("HannWindow", 17, |ctx| window(ctx, [0.5, 0.5, 0.0])),
    Entry::onnx("HammingWindow", 17, |ctx| window(ctx, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    Entry::onnx("BlackmanWindow", 17, |ctx| window(ctx, [0.42, 0.5, 0.08])),
    Entry::onnx("MelWeightMatrix", 17, mel),
];

/// The one integer of an input, where given.
fn integer(args: &Args, i: usize, name: &str) -> Result<Option<i64>, KernelError> {
    match args.ints(i)?.as_deref() {
        None => Ok(None),
        Some(&[n]) => Ok(Some(n)),
        Some(v) => invalid!("input {name} must be one integer, it has {} elements", v.len()),
    }
}

fn positive(n: i64, name: &str) -> Result<usize, KernelError> {
    match usize::try_from(n) {
        Ok(n) if n > 0 && n < 1 << 28 => Ok(n),
        _ => invalid!("input {name} is {n}, expected a positive size"),
    }
}

#[derive(Clone, Copy)]
struct Dft {
    inverse: bool,
    onesided: bool,
    /// The axis attribute; `None` if the axis is an input.
    axis: Option<i64>,
}

fn dft(ctx: &PrepareCtx<'_>, axis_input: bool) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let axis = if axis_input { None } else { Some(attrs.int("axis", 1)?) };
    let op = Dft { inverse: attrs.flag("inverse", false)?, onesided: attrs.flag("onesided", false)?, axis };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0", T => op.run::<T>(ctx, args)))
}

impl Dft {
    fn run<T: Real>(self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let dims = args.get(0)?.dims();
        let axis = match self.axis {
            Some(a) => a,
            None => integer(args, 2, "axis")?.unwrap_or(-2),
        };
        let axis = resolve_axis(axis, dims.len())?;
        let parts = match dims.last() {
            Some(&p @ (1 | 2)) if axis + 1 < dims.len() => p,
            _ => return invalid!("input 0 has shape {dims:?}, expected a last dimension of 1 or 2 that is not the axis"),
        };
        let real_result = self.inverse && self.onesided;
        let length = match integer(args, 1, "dft_length")? {
            Some(n) => positive(n, "dft_length")?,
            None if real_result => positive(2 * (dims[axis] as i64 - 1), "dft_length")?,
            None => positive(dims[axis] as i64, "dft_length")?,
        };
        let kept = if self.onesided && !self.inverse { length / 2 + 1 } else { length };
        let out_parts = if real_result { 1 } else { 2 };
        let mut shape: Dims = dims.into();
        shape[axis] = kept;
        shape[dims.len() - 1] = out_parts;
        let mut y = alloc::<T>(ctx, &shape)?;
        let x = args.slice::<T>(0)?;
        let dst = elements_mut::<T>(&mut y)?;
        if dst.is_empty() || x.is_empty() {
            dst.fill(T::ZERO);
            return Ok(out(y));
        }
        let plan = Plan::new(length);
        let inner: usize = dims[axis + 1..dims.len() - 1].iter().product();
        let n = dims[axis];
        let (from, to) = (n * inner * parts, kept * inner * out_parts);
        x.par_chunks(from).zip(dst.par_chunks_mut(to)).for_each(|(x, y)| {
            let mut line = vec![Complex::default(); length];
            for i in 0..inner {
                line.fill(Complex::default());
                for (j, c) in line.iter_mut().enumerate().take(n) {
                    let at = (j * inner + i) * parts;
                    *c = Complex { re: x[at].wide(), im: if parts == 2 { x[at + 1].wide() } else { 0.0 } };
                }
                if real_result {
                    // The other half mirrors the given one.
                    for j in length / 2 + 1..length {
                        let c = line[length - j];
                        line[j] = Complex { re: c.re, im: -c.im };
                    }
                    line[0].im = 0.0;
                    if length % 2 == 0 {
                        line[length / 2].im = 0.0;
                    }
                }
                plan.run(&mut line, self.inverse);
                for (j, c) in line.iter().enumerate().take(kept) {
                    let at = (j * inner + i) * out_parts;
                    y[at] = T::of(c.re);
                    if out_parts == 2 {
                        y[at + 1] = T::of(c.im);
                    }
                }
            }
        });
        Ok(out(y))
    }
}

fn stft(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let onesided = Attrs(ctx.node).flag("onesided", true)?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (signal)", T => frames::<T>(ctx, args, onesided)))
}

fn frames<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, onesided: bool) -> Result<Outs, KernelError> {
    let (batch, len, parts) = match *args.get(0)?.dims() {
        [b, l] => (b, l, 1),
        [b, l, p @ (1 | 2)] => (b, l, p),
        ref d => return invalid!("input signal has shape {d:?}, expected [batch, length, 1 or 2]"),
    };
    let x = args.slice::<T>(0)?;
    let Some(step) = integer(args, 1, "frame_step")? else { return invalid!("input frame_step is missing") };
    let step = positive(step, "frame_step")?;
    let window = args.opt_slice::<T>(2)?;
    let size = match (integer(args, 3, "frame_length")?, window) {
        (Some(n), _) => positive(n, "frame_length")?,
        (None, Some(w)) => positive(w.len() as i64, "window")?,
        (None, None) => return invalid!("inputs window and frame_length are both missing"),
    };
    if window.is_some_and(|w| w.len() > size) || len < size {
        return invalid!("frames of {size} do not fit a signal of {len} and the window");
    }
    let count = (len - size) / step + 1;
    let kept = if onesided { size / 2 + 1 } else { size };
    let mut y = alloc::<T>(ctx, &[batch, count, kept, 2])?;
    let plan = Plan::new(size);
    elements_mut::<T>(&mut y)?.par_chunks_mut(kept * 2).enumerate().for_each(|(i, y)| {
        let start = i / count * len + i % count * step;
        let mut line: Vec<Complex> = (0..size)
            .map(|j| {
                let weight = window.map_or(1.0, |w| w.get(j).map_or(0.0, |w| w.wide()));
                let at = (start + j) * parts;
                Complex { re: x[at].wide() * weight, im: if parts == 2 { x[at + 1].wide() * weight } else { 0.0 } }
            })
            .collect();
        plan.run(&mut line, false);
        for (y, c) in y.chunks_exact_mut(2).zip(&line) {
            (y[0], y[1]) = (T::of(c.re), T::of(c.im));
        }
    });
    Ok(out(y))
}

/// The type of attribute `output_datatype`.
fn output_type(ctx: &PrepareCtx<'_>) -> Result<DType, KernelError> {
    use DType::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let number = Attrs(ctx.node).int("output_datatype", 1)?;
    match i32::try_from(number).ok().and_then(DType::from_onnx) {
        Some(d @ (F16 | Bf16 | F32 | F64 | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)) => Ok(d),
        _ => invalid!("attribute output_datatype is {number}, which is no numeric type"),
    }
}

fn typed(values: &[f64], dims: &[usize], dtype: DType) -> Result<Tensor, KernelError> {
    let mut t = Tensor::zeros(dtype, dims)?;
    macro_rules! store {
        ($($t:ty => $f:expr),*) => {$(
            if let Some(to) = t.as_mut_slice::<$t>() {
                to.iter_mut().zip(values).for_each(|(o, &x)| *o = $f(x));
                return Ok(t);
            }
        )*};
    }
    store!(f32 => |x| x as f32, f64 => |x| x, half::f16 => half::f16::from_f64, half::bf16 => half::bf16::from_f64,
        i8 => |x| x as i8, u8 => |x| x as u8, i16 => |x| x as i16, u16 => |x| x as u16,
        i32 => |x| x as i32, u32 => |x| x as u32, i64 => |x| x as i64, u64 => |x| x as u64);
    invalid!("attribute output_datatype is {dtype}, which is no numeric type")
}

/// A window that is a sum of three cosines of growing frequency.
fn window(ctx: &PrepareCtx<'_>, [a, b, c]: [f64; 3]) -> Result<Box<dyn Kernel>, KernelError> {
    let periodic = Attrs(ctx.node).flag("periodic", true)?;
    let dtype = output_type(ctx)?;
    tensor_kernel(move |_, args| {
        let Some(size) = integer(args, 0, "size")? else { return invalid!("input size is missing") };
        let size = positive(size, "size")?;
        let period = if periodic { size } else { (size - 1).max(1) } as f64;
        let values: Vec<f64> = (0..size)
            .map(|i| {
                let angle = std::f64::consts::TAU * i as f64 / period;
                a - b * angle.cos() + c * (2.0 * angle).cos()
            })
            .collect();
        Ok(out(typed(&values, &[size], dtype)?))
    })
}

fn mel(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let dtype = output_type(ctx)?;
    float_kernel(ctx, move |_, args| {
        let size = |i, name| match integer(args, i, name)? {
            Some(n) => positive(n, name),
            None => invalid!("input {name} is missing"),
        };
        let (bins, length, rate) = (size(0, "num_mel_bins")?, size(1, "dft_length")?, size(2, "sample_rate")?);
        let edge = |i: usize, name: &str| match args.get(i)?.as_slice::<f32>() {
            Some(&[x]) if x.is_finite() && x >= 0.0 => Ok(f64::from(x)),
            _ => match args.get(i)?.as_slice::<f64>() {
                Some(&[x]) if x.is_finite() && x >= 0.0 => Ok(x),
                _ => invalid!("input {name} must be one frequency of at least 0"),
            },
        };
        let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
        let (low, high) = (mel(edge(3, "lower_edge_hertz")?), mel(edge(4, "upper_edge_hertz")?));
        let rows = length / 2 + 1;
        let step = (high - low) / (bins + 2) as f64;
        let at = |i: usize| {
            let hertz = 700.0 * (10f64.powf((low + i as f64 * step) / 2595.0) - 1.0);
            ((length as f64 + 1.0) * hertz / rate as f64).floor() as usize
        };
        if at(bins + 1) > rows || at(0) > rows {
            return invalid!("input upper_edge_hertz is above half the sample rate");
        }
        // Of this size at most, and so of a size that can be had.
        let mut weights = vec![0.0; Tensor::zeros(DType::F64, &[rows, bins])?.len()];
        for bin in 0..bins {
            let (left, center, right) = (at(bin), at(bin + 1), at(bin + 2).max(at(bin + 1)));
            let mut set = |row: usize, weight: f64| {
                if row < rows {
                    weights[row * bins + bin] = weight;
                }
            };
            if left >= center {
                set(center, 1.0);
            } else {
                (left..=center).for_each(|j| set(j, (j - left) as f64 / (center - left) as f64));
            }
            (center..right).for_each(|j| set(j, (right - j) as f64 / (right - center) as f64));
        }
        Ok(out(typed(&weights, &[rows, bins], dtype)?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn transforms_match_their_sums_and_come_back() {
        let rng = Rng::new(81);
        for n in [1usize, 2, 3, 8, 12, 31, 64] {
            let x = rng.floats(&[2, n, 2]);
            let y = Case::new("DFT", 20).one(std::slice::from_ref(&x)).unwrap();
            let v = vec_of::<f32>(&x);
            let want: Vec<f32> = (0..4 * n)
                .map(|i| {
                    let (b, k, part) = (i / (2 * n), i / 2 % n, i % 2);
                    let sum = |part: usize| -> f64 {
                        (0..n)
                            .map(|j| {
                                let angle = -std::f64::consts::TAU * (j * k) as f64 / n as f64;
                                let (re, im) = (f64::from(v[(b * n + j) * 2]), f64::from(v[(b * n + j) * 2 + 1]));
                                if part == 0 { re * angle.cos() - im * angle.sin() } else { re * angle.sin() + im * angle.cos() }
                            })
                            .sum()
                    };
                    sum(part) as f32
                })
                .collect();
            close(&y, &want, &format!("length {n}"));
            close(&Case::new("DFT", 20).int("inverse", 1).one(&[y]).unwrap(), &v, &format!("back from {n}"));
        }
    }

    #[test]
    fn half_a_spectrum_gives_the_real_signal_back() {
        let x = Rng::new(82).floats(&[1, 10, 1]);
        let half = Case::new("DFT", 17).int("onesided", 1).one(std::slice::from_ref(&x)).unwrap();
        assert_eq!(half.dims(), [1, 6, 2]);
        close(&Case::new("DFT", 17).int("onesided", 1).int("inverse", 1).one(&[half]).unwrap(), &vec_of(&x), "real");
        let long = Tensor::scalar(1i64 << 60);
        assert!(Case::new("DFT", 17).one(&[x.clone(), long]).is_err());
        assert!(Case::new("DFT", 17).int("axis", 2).one(&[x]).is_err());
    }

    #[test]
    fn frames_are_transforms_of_weighted_pieces() {
        let x = Rng::new(83).floats(&[1, 16, 1]);
        let size = Tensor::scalar(8i64);
        let hann = Case::new("HannWindow", 17).one(&[size]).unwrap();
        close(&hann, &[0.0, 0.146_447, 0.5, 0.853_553, 1.0, 0.853_553, 0.5, 0.146_447], "hann");
        let y = Case::new("STFT", 17).one(&[x.clone(), Tensor::scalar(4i64), hann.clone()]).unwrap();
        assert_eq!(y.dims(), [1, 3, 5, 2]);
        let piece: Vec<f32> = vec_of::<f32>(&x)[4..12].iter().zip(vec_of::<f32>(&hann)).map(|(x, w)| x * w).collect();
        let want = Case::new("DFT", 17).int("onesided", 1).one(&[Tensor::from_slice(&[1, 8, 1], &piece).unwrap()]).unwrap();
        close(&Tensor::from_slice(&[10], &vec_of::<f32>(&y)[10..20]).unwrap(), &vec_of(&want), "second frame");
        assert!(Case::new("STFT", 17).one(&[x, Tensor::scalar(0i64), hann]).is_err());
        assert!(Case::new("HannWindow", 17).one(&[Tensor::scalar(-1i64)]).is_err());
    }
}
