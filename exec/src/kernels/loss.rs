//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::Dims;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("NegativeLogLikelihoodLoss", 12, |ctx| loss(ctx, false)),
    Entry::onnx("SoftmaxCrossEntropyLoss", 12, |ctx| loss(ctx, true)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

struct Loss {
    reduction: Reduction,
    ignore: Option<i64>,
    /// Scores are turned into logarithms of probabilities first.
    softmax: bool,
}

fn loss(ctx: &PrepareCtx<'_>, softmax: bool) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let reductions = [("none", Reduction::None), ("sum", Reduction::Sum), ("mean", Reduction::Mean)];
    let op = Loss { reduction: attrs.choice("reduction", "mean", &reductions)?, ignore: attrs.opt_int("ignore_index")?, softmax };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0", T => op.run::<T>(ctx, args)))
}

impl Loss {
    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (dims, target_dims) = (args.get(0)?.dims(), args.get(1)?.dims());
        let &[batch, classes, ref spatial @ ..] = dims else { return invalid!("input 0 has shape {dims:?}, expected [N, C, ...]") };
        let mut shape: Dims = smallvec::smallvec![batch];
        shape.extend_from_slice(spatial);
        if target_dims != &shape[..] {
            return invalid!("the target has shape {target_dims:?}, expected {shape:?} for scores of shape {dims:?}");
        }
        let targets = args.ints(1)?.unwrap_or_default();
        let weights = args.opt_slice::<T>(2)?;
        if weights.is_some_and(|w| w.len() != classes) {
            return invalid!("input 2 (weights) must have {classes} elements");
        }
        let x = args.slice::<T>(0)?;
        let inner: usize = spatial.iter().product();
        let logs = if self.softmax {
            let mut logs = alloc::<T>(ctx, dims)?;
            log_softmax(x, elements_mut(&mut logs)?, classes, inner);
            Some(logs)
        } else {
            None
        };
        let scores = logs.as_ref().and_then(|t| t.as_slice::<T>()).unwrap_or(x);
        let whole = self.reduction == Reduction::None;
        let mut y = alloc::<T>(ctx, if whole { &shape } else { &[] })?;
        let dst = elements_mut::<T>(&mut y)?;
        let (mut sum, mut total) = (0.0, 0.0);
        for (i, &t) in targets.iter().enumerate() {
            let mut value = 0.0;
            if self.ignore != Some(t) {
                let Some(class) = usize::try_from(t).ok().filter(|&c| c < classes) else {
                    return invalid!("the target holds class {t}, there are {classes}");
                };
                let weight = weights.map_or(1.0, |w| w[class].wide());
                value = -weight * scores[(i / inner * classes + class) * inner + i % inner].wide();
                total += weight;
            }
            sum += value;
            if whole {
                dst[i] = T::of(value);
            }
        }
        match self.reduction {
            Reduction::None => {}
            Reduction::Sum => dst[0] = T::of(sum),
            Reduction::Mean => dst[0] = T::of(sum / total),
        }
        Ok(smallvec::smallvec![Some(y), logs])
    }
}

/// Logarithm of the softmax over the middle of `[batch, classes, inner]`.
fn log_softmax<T: Real>(x: &[T], y: &mut [T], classes: usize, inner: usize) {
    if x.is_empty() {
        return;
    }
    for (x, y) in x.chunks(classes * inner).zip(y.chunks_mut(classes * inner)) {
        for i in 0..inner {
            let column = || x[i..].iter().step_by(inner);
            let top = column().fold(-T::INFINITY, |m, &v| m.max(v));
            let sum: f64 = column().map(|&v| (v - top).wide().exp()).sum();
            let log = sum.ln();
            y[i..].iter_mut().step_by(inner).zip(column()).for_each(|(y, &v)| *y = T::of((v - top).wide() - log));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use crate::tensor::Tensor;

    #[test]
    fn losses_average_over_the_weights_of_what_counts() {
        let x = Tensor::from_slice(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 7.0]).unwrap();
        let target = Tensor::from_slice(&[3], &[0i64, 1, -100]).unwrap();
        let weights = Tensor::from_slice(&[2], &[1f32, 3.0]).unwrap();
        let case = || Case::new("NegativeLogLikelihoodLoss", 13).int("ignore_index", -100);
        let inputs = [x.clone(), target.clone(), weights];
        close(&case().one(&inputs).unwrap(), &[-(1.0 + 12.0) / 4.0], "mean");
        close(&case().text("reduction", "none").one(&inputs).unwrap(), &[-1.0, -12.0, 0.0], "none");
        assert!(Case::new("NegativeLogLikelihoodLoss", 13).one(&[x.clone(), target.clone()]).is_err(), "class -100");
        let outs = Case::new("SoftmaxCrossEntropyLoss", 13)
            .int("ignore_index", -100)
            .outputs(2)
            .run(&[Some(x.clone()), Some(target), None])
            .unwrap();
        let log = |a: f32, b: f32| a - (a.exp() + b.exp()).ln();
        close(outs[0].as_ref().unwrap(), &[-(log(1.0, 2.0) + log(4.0, 3.0)) / 2.0], "cross entropy");
        close(
            &outs[1].as_ref().unwrap().reshaped(&[6]).unwrap(),
            &[log(1.0, 2.0), log(2.0, 1.0), log(3.0, 4.0), log(4.0, 3.0), log(5.0, 7.0), log(7.0, 5.0)],
            "logs",
        );
        assert!(case().one(&[x, Tensor::from_slice(&[2], &[0i64, 0]).unwrap()]).is_err());
    }
}
