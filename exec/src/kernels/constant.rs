//! Operators whose output is stored or counted: Constant, ConstantOfShape, EyeLike, Range.

use recut_core::dtype::DType;
use recut_core::graph::AttrValue;
use recut_core::weights::WeightRef;

use super::attrs::{Attrs, to_size};
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, kernel, movement, one};
use crate::io::weight::load_weight;
use crate::tensor::{Dims, Element, Tensor, element_bytes};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Constant", 1, constant),
    Entry::onnx("ConstantOfShape", 9, constant_of_shape),
    Entry::onnx("EyeLike", 9, eye_like),
    Entry::onnx("Range", 11, |_| kernel(range)),
];

/// A stored tensor in memory form.
fn stored(w: &WeightRef) -> Result<Tensor, KernelError> {
    load_weight(w).map_err(|e| KernelError::Invalid(e.to_string()))
}

/// The tensor that a node's `value` (or one of its other forms) holds.
fn constant(ctx: &PrepareCtx<'_>) -> Made {
    let list = |n: usize| [n];
    let texts = |t: &[Box<[u8]>]| t.to_vec();
    let mut given = None;
    for a in &ctx.node.attrs {
        let t = match (&*a.name, &a.value) {
            // Sparse tensors were made dense when the file was read.
            ("value" | "sparse_value", AttrValue::Tensor(w)) => stored(w)?,
            ("value_int", AttrValue::Int(i)) => Tensor::scalar(*i),
            ("value_ints", AttrValue::Ints(v)) => Tensor::from_slice(&list(v.len()), v)?,
            ("value_float", AttrValue::Float(x)) => Tensor::scalar(*x as f32),
            ("value_floats", AttrValue::Floats(v)) => Tensor::from_slice(&list(v.len()), &v.iter().map(|&x| x as f32).collect::<Vec<_>>())?,
            ("value_string", AttrValue::Bytes(b)) => Tensor::from_strings(&[], vec![b.clone()])?,
            ("value_strings", AttrValue::ByteStrings(v)) => Tensor::from_strings(&list(v.len()), texts(v))?,
            _ => continue,
        };
        given = Some(t);
    }
    match given {
        Some(t) => kernel(move |_, _| Ok(one(t.clone()))),
        None => invalid!("Constant has no attribute value"),
    }
}

fn constant_of_shape(ctx: &PrepareCtx<'_>) -> Made {
    let value = match ctx.node.attr("value") {
        None => Tensor::scalar(0f32),
        Some(AttrValue::Tensor(w)) => stored(w)?,
        Some(_) => return invalid!("attribute value must be a tensor"),
    };
    if value.len() != 1 {
        return invalid!("attribute value has {} elements, expected one", value.len());
    }
    let value = value.reshaped(&[])?;
    kernel(move |ctx, inputs| {
        let Some(shape) = inputs.ints(0)? else { return invalid!("the shape (input 0) is missing") };
        let dims: Dims = shape.iter().map(|&d| to_size("a size of the shape (input 0)", d)).collect::<Result<_, _>>()?;
        if value.bytes().iter().all(|&b| b == 0) && value.dtype() != DType::String {
            return Ok(one(Tensor::zeros(value.dtype(), &dims)?));
        }
        Ok(one(movement::expanded(ctx, &value, &dims)?))
    })
}

fn eye_like(ctx: &PrepareCtx<'_>) -> Made {
    let dtype = cast::dtype_attr(ctx, "dtype")?;
    let k = Attrs(ctx.node).int("k", 0)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let &[rows, cols] = x.dims() else { return invalid!("the input has shape {:?}, expected rank 2", x.dims()) };
        let dtype = dtype.unwrap_or(x.dtype());
        let one_element = cast::to(ctx, &Tensor::scalar(1f32), dtype, true)?;
        let mut out = Tensor::zeros(dtype, &[rows, cols])?;
        let width = element_bytes(dtype).max(1);
        if cols > 0 {
            for (r, row) in out.bytes_mut().chunks_exact_mut(cols * width).enumerate() {
                let c = (r as i64).checked_add(k).and_then(|c| usize::try_from(c).ok()).filter(|&c| c < cols);
                if let Some(c) = c {
                    row[c * width..(c + 1) * width].copy_from_slice(one_element.bytes());
                }
            }
        }
        Ok(one(out))
    })
}

fn scalar<T: Element>(inputs: &Inputs<'_>, i: usize) -> Result<T, KernelError> {
    match inputs.slice::<T>(i)? {
        [x] => Ok(*x),
        more => invalid!("input {i} has {} elements, expected one", more.len()),
    }
}

/// Number of steps, and the check that they are not absurdly many.
fn float_steps(start: f64, limit: f64, delta: f64) -> Result<usize, KernelError> {
    let n = ((limit - start) / delta).ceil().max(0.0);
    if delta == 0.0 || !n.is_finite() {
        return invalid!("Range from {start} to {limit} by a step of {delta} has no end");
    }
    // What does not fit is refused when it is allocated.
    Ok(if n < 1e18 { n as usize } else { usize::MAX })
}

fn range(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    macro_rules! ints {
        ($T:ty) => {{
            let (start, limit, delta) = (scalar::<$T>(&inputs, 0)?, scalar::<$T>(&inputs, 1)?, scalar::<$T>(&inputs, 2)?);
            let (s, l, d) = (i128::from(start), i128::from(limit), i128::from(delta));
            if d == 0 {
                return invalid!("Range has a step (input 2) of 0");
            }
            let span = (l - s) * d.signum();
            let n = if span > 0 { (span + d.abs() - 1) / d.abs() } else { 0 };
            let mut out = ctx.alloc(<$T>::DTYPE, &[usize::try_from(n).unwrap_or(usize::MAX)])?;
            let mut x = start;
            for o in out.as_mut_slice::<$T>().unwrap_or_default() {
                *o = x;
                x = x.wrapping_add(delta);
            }
            out
        }};
    }
    let dtype = inputs.tensor(0)?.dtype();
    Ok(one(match dtype {
        DType::I16 => ints!(i16),
        DType::I32 => ints!(i32),
        DType::I64 => ints!(i64),
        DType::F32 => {
            let (s, l, d) = (scalar::<f32>(&inputs, 0)?, scalar::<f32>(&inputs, 1)?, scalar::<f32>(&inputs, 2)?);
            let n = float_steps(f64::from(s), f64::from(l), f64::from(d))?;
            let mut out = ctx.alloc(dtype, &[n])?;
            out.as_mut_slice::<f32>().unwrap_or_default().iter_mut().enumerate().for_each(|(i, o)| *o = s + i as f32 * d);
            out
        }
        DType::F64 | DType::F16 | DType::Bf16 => {
            let mut wide = [0f64; 3];
            for (i, w) in wide.iter_mut().enumerate() {
                let t = cast::to(ctx, inputs.tensor(i)?, DType::F64, true)?;
                *w = match t.as_slice::<f64>() {
                    Some(&[x]) => x,
                    _ => return invalid!("input {i} must have one element"),
                };
            }
            let [s, l, d] = wide;
            let mut out = ctx.alloc(DType::F64, &[float_steps(s, l, d)?])?;
            out.as_mut_slice::<f64>().unwrap_or_default().iter_mut().enumerate().for_each(|(i, o)| *o = s + i as f64 * d);
            cast::to(ctx, &out, dtype, true)?
        }
        other => return unsupported!("Range of {other}"),
    }))
}
