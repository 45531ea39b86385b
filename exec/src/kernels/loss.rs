//! Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.

use recut_core::dtype::DType;

use super::softmax::log_softmax;
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, attr, cast, kernel, movement};
use crate::invalid;
use crate::tensor::{Dims, Tensor};

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("NegativeLogLikelihoodLoss", 12, |ctx| loss(ctx, false)),
    Entry::onnx("SoftmaxCrossEntropyLoss", 12, |ctx| loss(ctx, true)),
];

#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

fn loss(ctx: &PrepareCtx<'_>, from_scores: bool) -> Result<Box<dyn Kernel>, KernelError> {
    let ignore = attr::int_opt(ctx.node, "ignore_index")?;
    let reduction = match attr::text(ctx.node, "reduction", "mean")? {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        _ => return invalid!("attribute reduction must be none, sum or mean"),
    };
    kernel(move |ctx, inputs| run(ctx, &inputs, from_scores, ignore, reduction))
}

fn run(
    ctx: &mut RunCtx<'_>,
    inputs: &Inputs<'_>,
    from_scores: bool,
    ignore: Option<i64>,
    reduction: Reduction,
) -> Result<Outputs, KernelError> {
    let x = inputs.tensor(0)?;
    let dtype = x.dtype();
    let &[batch, classes, ref rest @ ..] = x.dims() else {
        return invalid!("the input has the shape {:?}, expected rank 2 or more", x.dims());
    };
    let mut want = Dims::from_slice(&[batch]);
    want.extend_from_slice(rest);
    let labels = inputs.tensor(1)?;
    if labels.dims() != &*want {
        return invalid!("the labels (input 1) have the shape {:?}, expected {want:?}", labels.dims());
    }
    let labels = inputs.ints(1)?.unwrap_or_default();
    let weights = match inputs.optional(2)? {
        None => None,
        Some(w) if w.dims() != [classes] => return invalid!("the weights (input 2) have the shape {:?}, expected [{classes}]", w.dims()),
        Some(w) => Some(cast::to(ctx, w, DType::F32, true)?),
    };
    let weights = weights.as_ref().and_then(|w| w.as_slice::<f32>());
    let inner: usize = rest.iter().product();
    let mut log_p = cast::to(ctx, x, DType::F32, true)?;
    if from_scores {
        log_softmax(&mut log_p, classes, inner);
    }
    let p = log_p.as_slice::<f32>().unwrap_or_default();
    let (mut each, mut sum, mut weight) = (Vec::with_capacity(labels.len()), 0f64, 0f64);
    for (i, &label) in labels.iter().enumerate() {
        if Some(label) == ignore {
            each.push(0f32);
            continue;
        }
        let Some(c) = usize::try_from(label).ok().filter(|&c| c < classes) else {
            return invalid!("index {label} in the labels (input 1) is out of bounds for {classes} classes");
        };
        let w = weights.map_or(1.0, |w| w[c]);
        let own = -p[(i / inner * classes + c) * inner + i % inner] * w;
        each.push(own);
        sum += f64::from(own);
        weight += f64::from(w);
    }
    let loss = match reduction {
        Reduction::None => Tensor::from_slice(&want, &each)?,
        Reduction::Sum => Tensor::scalar(sum as f32),
        Reduction::Mean => Tensor::scalar((sum / weight) as f32),
    };
    let loss = cast::to(ctx, &loss, dtype, true)?;
    if from_scores { Ok(movement::many([loss, cast::to(ctx, &log_p, dtype, true)?])) } else { Ok(movement::many([loss])) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{BufferPool, Slot};

    fn go(labels: &[i64], ignore: Option<i64>) -> Result<f32, KernelError> {
        let x = Tensor::from_slice(&[2, 2], &[-1f32, -2.0, -3.0, -4.0])?;
        let labels = Tensor::from_slice(&[2], labels)?;
        let mut slots = [x, labels].map(|t| Some(Slot { value: t.into(), last_use: false }));
        let mut pool = BufferPool::default();
        let out = run(&mut RunCtx { pool: &mut pool }, &Inputs::new(&mut slots), false, ignore, Reduction::Mean)?;
        Ok(out[0].as_ref().unwrap().as_tensor().unwrap().as_slice::<f32>().unwrap()[0])
    }

    #[test]
    fn ignored_labels_do_not_count() {
        assert_eq!(go(&[0, 1], None).unwrap(), 2.5);
        assert_eq!(go(&[0, 1], Some(1)).unwrap(), 1.0);
        assert!(go(&[0, 2], None).unwrap_err().to_string().contains("out of bounds"));
    }
}
