//! Simple operators of `ai.onnx.ml`: Scaler, Normalizer, Binarizer, ArrayFeatureExtractor.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::unary::map_floats;
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, cast, gather, kernel, one};
use crate::invalid;

type Made = Result<Box<dyn Kernel>, KernelError>;

const fn row(op: &'static str, factory: super::Factory) -> Entry {
    Entry { domain: "ai.onnx.ml", op, since: 1, factory }
}

pub(super) const TABLE: &[Entry] =
    &[row("Scaler", scaler), row("Normalizer", normalizer), row("Binarizer", binarizer), row("ArrayFeatureExtractor", |_| kernel(extract))];

fn scaler(ctx: &PrepareCtx<'_>) -> Made {
    let offset = Attrs(ctx.node).floats("offset")?.map(<[f64]>::to_vec).unwrap_or_else(|| vec![0.0]);
    let scale = Attrs(ctx.node).floats("scale")?.map(<[f64]>::to_vec).unwrap_or_else(|| vec![1.0]);
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let features = x.dims().last().copied().unwrap_or(1);
        if [&offset, &scale].iter().any(|v| v.len() != 1 && v.len() != features) {
            return invalid!("attributes offset and scale must have one element or one for each of {features} features");
        }
        let mut y = cast::to(ctx, x, DType::F32, true)?;
        let of = |v: &[f64], i: usize| v[if v.len() == 1 { 0 } else { i % features }] as f32;
        y.as_mut_slice::<f32>().unwrap_or_default().iter_mut().enumerate().for_each(|(i, x)| *x = (*x - of(&offset, i)) * of(&scale, i));
        Ok(one(y))
    })
}

fn normalizer(ctx: &PrepareCtx<'_>) -> Made {
    let norm: fn(&[f32]) -> f64 = match Attrs(ctx.node).text("norm", "MAX")? {
        "MAX" => |r| f64::from(r.iter().fold(f32::NEG_INFINITY, |a, &x| a.max(x))),
        "L1" => |r| r.iter().map(|x| f64::from(x.abs())).sum(),
        "L2" => |r| r.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt(),
        _ => return invalid!("attribute norm must be MAX, L1 or L2"),
    };
    kernel(move |ctx, inputs| {
        let mut y = cast::to(ctx, inputs.tensor(0)?, DType::F32, true)?;
        let features = y.dims().last().copied().unwrap_or(1).max(1);
        for row in y.as_mut_slice::<f32>().unwrap_or_default().chunks_mut(features) {
            let by = norm(row);
            if by != 0.0 {
                row.iter_mut().for_each(|x| *x = (f64::from(*x) / by) as f32);
            }
        }
        Ok(one(y))
    })
}

fn binarizer(ctx: &PrepareCtx<'_>) -> Made {
    let threshold = Attrs(ctx.node).float("threshold", 0.0)?;
    let single = threshold as f32;
    map_floats(1, move |x| f32::from(u8::from(x > single)), move |x| f64::from(u8::from(x > threshold)))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of every kernel")]
fn extract(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let x = inputs.tensor(0)?;
    let indices = inputs.ints(1)?.unwrap_or_default();
    let Some(last) = x.rank().checked_sub(1) else { return invalid!("the input is a scalar") };
    let y = gather::take(ctx, x, &indices, &[indices.len()], last)?;
    // A vector gives one row.
    if last == 0 { Ok(one(y.reshaped(&[1, indices.len()])?)) } else { Ok(one(y)) }
}
