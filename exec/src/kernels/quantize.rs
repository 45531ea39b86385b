//! QuantizeLinear, DequantizeLinear (whole tensor, an axis, blocks of one) and DynamicQuantizeLinear.

use half::{bf16, f16};
use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, elements_mut, out, tensor_kernel};
use super::half_float::{narrow, widened};
use super::small_float::{decode_table, encode, is_small};
use super::vecmath::nearest;
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, resolve_axis};
use crate::invalid;
use crate::tensor::{Element, Tensor};

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("QuantizeLinear", 10, quantize),
    Entry::onnx("DequantizeLinear", 10, dequantize),
    Entry::onnx("DynamicQuantizeLinear", 11, dynamic),
    Entry { domain: "com.microsoft", op: "QuantizeLinear", since: 1, factory: quantize },
    Entry { domain: "com.microsoft", op: "DequantizeLinear", since: 1, factory: dequantize },
];

/// Which scale belongs to an element.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Elements below one index of the axis.
    inner: usize,
    /// Length of the axis.
    len: usize,
    /// Elements of the axis that share a scale.
    block: usize,
    /// Scales along the axis.
    count: usize,
    /// Scales differ along all other axes too (blocks), or only along this one.
    blocked: bool,
}

impl Layout {
    fn new(x: &[usize], scale: &Tensor, axis: i64, block: usize) -> Result<Self, KernelError> {
        if scale.len() == 1 && scale.rank() <= 1 && block == 0 {
            return Ok(Self { inner: 1, len: 1, block: 1, count: 1, blocked: false });
        }
        let axis = resolve_axis(axis, x.len())?;
        let (len, inner) = (x[axis], x[axis + 1..].iter().product());
        if block == 0 {
            if scale.len() != len {
                return invalid!("the scale has shape {:?}, expected one number or {len} for axis {axis} of shape {x:?}", scale.dims());
            }
            return Ok(Self { inner, len, block: 1, count: len, blocked: false });
        }
        let fits = scale.rank() == x.len()
            && x.iter().zip(scale.dims()).enumerate().all(|(d, (&n, &s))| if d == axis { s == n.div_ceil(block) } else { s == n });
        if !fits {
            return invalid!(
                "the scale has shape {:?}, which does not fit shape {x:?} in blocks of {block} (attribute block_size)",
                scale.dims()
            );
        }
        Ok(Self { inner, len, block, count: scale.dims()[axis], blocked: true })
    }

    /// Index of the scale of element `i`.
    #[inline]
    fn index(&self, i: usize) -> usize {
        if self.is_uniform() {
            return 0;
        }
        let (line, lane) = (i / self.inner, i % self.inner);
        let at = (line % self.len) / self.block;
        if self.blocked { (line / self.len * self.count + at) * self.inner + lane } else { at }
    }

    /// Whether one scale is for everything.
    fn is_uniform(&self) -> bool {
        self.count == 1 && !self.blocked
    }

    /// Elements that follow each other with the same scale, at least 1.
    fn run(&self) -> usize {
        if self.blocked { if self.inner == 1 && self.len.is_multiple_of(self.block) { self.block } else { 1 } } else { self.inner.max(1) }
    }
}

/// Calls `f(scale index, output run, input run)` for all runs of equal scale, on all threads.
fn each_run<A: Send, B: Sync>(layout: &Layout, to: &mut [A], from: &[B], f: impl Fn(usize, &mut [A], &[B]) + Sync) {
    let run = layout.run();
    if layout.is_uniform() {
        to.par_chunks_mut(1 << 14).zip(from.par_chunks(1 << 14)).for_each(|(t, x)| f(0, t, x));
    } else {
        let min = (1 << 12) / run + 1;
        to.par_chunks_mut(run)
            .zip(from.par_chunks(run))
            .enumerate()
            .with_min_len(min)
            .for_each(|(i, (t, x))| f(layout.index(i * run), t, x));
    }
}

/// A tensor as `f32` numbers, where it is of a floating-point type of at least 16 bits.
fn floats(t: &Tensor, name: &str) -> Result<Vec<f32>, KernelError> {
    if t.dtype() == DType::F8e8m0 {
        let table = decode_table(DType::F8e8m0);
        return Ok(t.bytes().iter().map(|&b| table[usize::from(b)]).collect());
    }
    let t = widened(t)?;
    if let Some(v) = t.as_slice::<f64>() {
        return Ok(v.iter().map(|&x| x as f32).collect());
    }
    match t.as_slice::<f32>() {
        Some(v) => Ok(v.to_vec()),
        None => invalid!("input {name} is {}, expected a floating-point type", t.dtype()),
    }
}

/// Integers of any type that quantized tensors have.
fn integers(t: &Tensor) -> Option<Vec<i64>> {
    macro_rules! each { ($($t:ty),*) => {$( if let Some(v) = t.as_slice::<$t>() { return Some(v.iter().map(|&x| i64::from(x)).collect()); } )*} }
    if t.dtype().is_float() {
        return None;
    }
    each!(i8, u8, i16, u16, i32);
    None
}

fn type_attr(attrs: Attrs<'_>, name: &str) -> Result<Option<DType>, KernelError> {
    match attrs.int(name, 0)? {
        0 => Ok(None),
        n => match i32::try_from(n).ok().and_then(DType::from_onnx) {
            Some(d) => Ok(Some(d)),
            None => invalid!("attribute {name} is {n}, which is no type"),
        },
    }
}

fn quantize(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let (axis, block) = (attrs.int("axis", 1)?, attrs.size("block_size", 0, 0)?);
    let saturate = attrs.flag("saturate", true)?;
    let dtype = type_attr(attrs, "output_dtype")?;
    // With half scales the quotient is that of the half type unless a precision is asked for.
    let precision = type_attr(attrs, "precision")?;
    tensor_kernel(move |ctx, args| run_quantize(ctx, args, axis, block, saturate, dtype, precision))
}

fn run_quantize(
    ctx: &mut RunCtx<'_>,
    args: &Args,
    axis: i64,
    block: usize,
    saturate: bool,
    dtype: Option<DType>,
    precision: Option<DType>,
) -> Result<Outs, KernelError> {
    let (x, scale) = (args.get(0)?, args.get(1)?);
    let zero = args.opt(2);
    let to = match (zero, dtype) {
        (Some(z), Some(d)) if z.dtype() != d => return invalid!("input y_zero_point is {} and attribute output_dtype says {d}", z.dtype()),
        (Some(z), _) => z.dtype(),
        (None, d) => d.unwrap_or(DType::U8),
    };
    let layout = Layout::new(x.dims(), scale, axis, block)?;
    if zero.is_some_and(|z| z.len() != scale.len()) {
        return invalid!("inputs y_scale and y_zero_point have {} and {} elements", scale.len(), zero.map_or(0, Tensor::len));
    }
    // An i32 input counts as numbers.
    let values = match x.as_slice::<i32>() {
        Some(v) => v.iter().map(|&x| x as f32).collect(),
        None => floats(x, "x")?,
    };
    let scales = floats(scale, "y_scale")?;
    let round_to = precision.filter(|p| *p != DType::F32).or_else(|| match (precision, scale.dtype()) {
        (None, d @ (DType::F16 | DType::Bf16)) => Some(d),
        _ => None,
    });
    let quotient = move |x: f32, s: f32| match round_to {
        Some(DType::F16) => f16::from_f32(x / s).to_f32(),
        Some(DType::Bf16) => bf16::from_f32(x / s).to_f32(),
        _ => x / s,
    };
    let mut y = ctx.alloc(to, x.dims())?;
    if to.is_float() {
        if !is_small(to) {
            return invalid!("input y_zero_point is {to}, which is no quantized type");
        }
        let dst = y.bytes_mut();
        // The zero point of these types is zero, but adding it makes a negative zero positive.
        let zero = if zero.is_some() { 0.0 } else { -0.0 };
        each_run(&layout, dst, &values, |at, to_run, from| {
            to_run.iter_mut().zip(from).for_each(|(y, &x)| *y = encode(to, quotient(x, scales[at]) + zero, saturate));
        });
        return Ok(out(y));
    }
    let zeros = match zero {
        None => vec![0i64; scales.len()],
        Some(z) => match integers(z) {
            Some(v) => v,
            None => return invalid!("input y_zero_point is {}, which is no quantized type", z.dtype()),
        },
    };
    let Some((low, high)) = limits(to) else { return invalid!("quantizing to {to} is not defined") };
    let (low_f, high_f) = (low as f32, high as f32);
    macro_rules! store {
        ($t:ty) => {{
            let dst = elements_mut::<$t>(&mut y)?;
            each_run(&layout, dst, &values, |at, to_run, from| {
                let (s, z) = (scales[at], zeros[at]);
                // NaN becomes 0, as a cast does.
                to_run
                    .iter_mut()
                    .zip(from)
                    .for_each(|(y, &x)| *y = ((quotient(x, s).round_ties_even() as i64).saturating_add(z)).clamp(low, high) as $t);
            });
        }};
    }
    // The same for at most 16 bits: limits are whole numbers, so that they can come before rounding, which is then one
    // operation in every lane at once; the library's function is a call for every element.
    macro_rules! store_small {
        ($t:ty) => {{
            let dst = elements_mut::<$t>(&mut y)?;
            each_run(&layout, dst, &values, |at, to_run, from| {
                let (s, z) = (scales[at], zeros[at]);
                let (low, high) = (low_f - z as f32, high_f - z as f32);
                to_run.iter_mut().zip(from).for_each(|(y, &x)| {
                    let q = quotient(x, s);
                    let q = if q.is_nan() { 0.0 } else { q };
                    let q = if q > low { q } else { low };
                    let q = if q < high { q } else { high };
                    *y = nearest(q).wrapping_add(z as i32) as $t;
                });
            });
        }};
    }
    match to {
        DType::I8 | DType::I4 | DType::I2 => store_small!(i8),
        DType::U8 | DType::U4 | DType::U2 => store_small!(u8),
        DType::I16 => store_small!(i16),
        DType::U16 => store_small!(u16),
        _ => store!(i32),
    }
    Ok(out(y))
}

fn limits(d: DType) -> Option<(i64, i64)> {
    Some(match d {
        DType::I2 => (-2, 1),
        DType::U2 => (0, 3),
        DType::I4 => (-8, 7),
        DType::U4 => (0, 15),
        DType::I8 => (-128, 127),
        DType::U8 => (0, 255),
        DType::I16 => (-32768, 32767),
        DType::U16 => (0, 65535),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => return None,
    })
}

fn dequantize(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let (axis, block) = (attrs.int("axis", 1)?, attrs.size("block_size", 0, 0)?);
    let dtype = type_attr(attrs, "output_dtype")?;
    tensor_kernel(move |ctx, args| {
        let (x, scale) = (args.get(0)?, args.get(1)?);
        let layout = Layout::new(x.dims(), scale, axis, block)?;
        let zero = args.opt(2);
        if zero.is_some_and(|z| z.len() != scale.len() || z.dtype() != x.dtype()) {
            return invalid!("input x_zero_point does not fit x_scale of {} elements and x of {}", scale.len(), x.dtype());
        }
        let scales = floats(scale, "x_scale")?;
        let mut y = ctx.alloc(DType::F32, x.dims())?;
        let dst = elements_mut::<f32>(&mut y)?;
        if is_small(x.dtype()) {
            let table = decode_table(x.dtype());
            let zeros: Option<Vec<f32>> = zero.map(|z| z.bytes().iter().map(|&b| table[usize::from(b)]).collect());
            each_run(&layout, dst, x.bytes(), |at, to, from| {
                let (s, z) = (scales[at], zeros.as_ref().map_or(0.0, |z| z[at]));
                to.iter_mut().zip(from).for_each(|(y, &x)| *y = (table[usize::from(x)] - z) * s);
            });
        } else {
            let zeros = match zero {
                None => vec![0i64; scales.len()],
                Some(z) => match integers(z) {
                    Some(v) => v,
                    None => return invalid!("input x_zero_point is {}, which is no quantized type", z.dtype()),
                },
            };
            let job = Job { layout: &layout, scales: &scales, zeros: &zeros };
            match x.dtype() {
                DType::I8 | DType::I4 | DType::I2 => job.small::<i8>(dst, x, i32::from),
                DType::U8 | DType::U4 | DType::U2 => job.small::<u8>(dst, x, i32::from),
                DType::I16 => job.small::<i16>(dst, x, i32::from),
                DType::U16 => job.small::<u16>(dst, x, i32::from),
                DType::I32 => job.wide(dst, x),
                d => return invalid!("input x is {d}, which is no quantized type"),
            }
        }
        let want = dtype.unwrap_or(if scale.dtype() == DType::F8e8m0 { DType::F32 } else { scale.dtype() });
        Ok(out(narrow(ctx, y, want)?))
    })
}

struct Job<'a> {
    layout: &'a Layout,
    scales: &'a [f32],
    zeros: &'a [i64],
}

impl Job<'_> {
    /// Of at most 16 bits: differences fit an i32. `wide` is a type parameter so that it is no call.
    fn small<T: Element>(&self, dst: &mut [f32], x: &Tensor, wide: impl Fn(T) -> i32 + Sync) {
        each_run(self.layout, dst, x.as_slice::<T>().unwrap_or_default(), |at, to, from| {
            let (s, z) = (self.scales[at], self.zeros[at] as i32);
            to.iter_mut().zip(from).for_each(|(y, &x)| *y = (wide(x) - z) as f32 * s);
        });
    }

    fn wide(&self, dst: &mut [f32], x: &Tensor) {
        each_run(self.layout, dst, x.as_slice::<i32>().unwrap_or_default(), |at, to, from| {
            let (s, z) = (self.scales[at], self.zeros[at]);
            to.iter_mut().zip(from).for_each(|(y, &x)| *y = (i64::from(x) - z) as f32 * s);
        });
    }
}

fn dynamic(_: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    tensor_kernel(|ctx, args| {
        let x = args.slice::<f32>(0)?;
        let (low, high) = x.iter().fold((0f32, 0f32), |(l, h), &x| (l.min(x), h.max(x)));
        let scale = (high - low) / 255.0;
        // All zeros: any scale is right.
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
        let mut y = ctx.alloc(DType::U8, args.get(0)?.dims())?;
        let inverse = |x: f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
        elements_mut::<u8>(&mut y)?.par_iter_mut().zip(x).with_min_len(1 << 13).for_each(|(y, &x)| *y = inverse(x));
        Ok(smallvec::smallvec![Some(y), Some(Tensor::scalar(scale)), Some(Tensor::scalar(zero as u8))])
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn axes_and_blocks_choose_the_scale() {
        let x = Tensor::from_slice(&[2, 4], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 300.0]).unwrap();
        let per_axis = [x.clone(), Tensor::from_slice(&[2], &[0.5f32, 2.0]).unwrap(), Tensor::from_slice(&[2], &[0u8, 10]).unwrap()];
        let y = Case::new("QuantizeLinear", 13).int("axis", 0).one(&per_axis).unwrap();
        assert_eq!(vec_of::<u8>(&y), [2, 4, 6, 8, 12, 13, 14, 160]);
        let blocks = Tensor::from_slice(&[2, 2], &[1f32, 0.5, 2.0, 4.0]).unwrap();
        let y =
            Case::new("QuantizeLinear", 21).int("axis", 1).int("block_size", 2).int("output_dtype", 22).one(&[x, blocks.clone()]).unwrap();
        assert_eq!(vec_of::<i8>(&y), [1, 2, 6, 7, 2, 3, 2, 7]);
        let back = Case::new("DequantizeLinear", 21).int("axis", 1).int("block_size", 2).one(&[y, blocks]).unwrap();
        assert_eq!(vec_of::<f32>(&back), [1.0, 2.0, 3.0, 3.5, 4.0, 6.0, 8.0, 28.0]);
    }

    #[test]
    fn wrong_scales_are_errors() {
        let x = Tensor::from_slice(&[2, 2], &[0u8; 4]).unwrap();
        let scale = Tensor::from_slice(&[3], &[1f32; 3]).unwrap();
        assert!(Case::new("DequantizeLinear", 13).one(&[x.clone(), scale.clone()]).is_err());
        assert!(Case::new("DequantizeLinear", 13).int("axis", 5).one(&[x.clone(), scale.clone()]).is_err());
        assert!(Case::new("DequantizeLinear", 21).int("block_size", -1).one(&[x, scale]).is_err());
    }
}
