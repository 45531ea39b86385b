//! Activations fused with the addition of a bias (com.microsoft), and gated ones.

use super::activation::{gelu, gelu_tanh};
use super::attrs::Attrs;
use super::binary::{self, Op};
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, Slot, half_float, kernel, one, parallel};
use crate::tensor::Value;
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] = &[
    Entry { domain: "com.microsoft", op: "BiasGelu", since: 1, factory: |ctx| biased(ctx, gelu) },
    Entry { domain: "com.microsoft", op: "FastGelu", since: 1, factory: |ctx| biased(ctx, gelu_tanh) },
    Entry::onnx("SwiGLU", 28, swiglu),
];

/// `a sigmoid(alpha a) b`.
fn swiglu(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let swish = super::activation::swish(Attrs(ctx.node).float("alpha", 1.0)?)?;
    kernel(move |ctx, inputs| {
        let (a, b) = (inputs.tensor(0)?.clone(), inputs.tensor(1)?.clone());
        if a.dims() != b.dims() {
            return invalid!("the inputs have the shapes {:?} and {:?}, which must be the same", a.dims(), b.dims());
        }
        let dtype = a.dtype();
        let mut slots = [Some(Slot { value: half_float::widen(ctx, &a)?.into(), last_use: true })];
        drop(a);
        let Some(Some(Value::Tensor(gate))) = swish.run(ctx, Inputs::new(&mut slots))?.pop() else { return invalid!("SwiGLU has no gate") };
        let b = half_float::widen(ctx, &b)?;
        let y = binary::apply(ctx, gate, &b, Op::Mul)?;
        Ok(one(half_float::narrow(ctx, y, dtype)?))
    })
}

fn biased(_: &PrepareCtx<'_>, f: impl Fn(f32) -> f32 + Send + Sync + 'static) -> Result<Box<dyn Kernel>, KernelError> {
    kernel(move |ctx, inputs| run(ctx, inputs, &f))
}

fn run(ctx: &mut RunCtx<'_>, mut inputs: Inputs<'_>, f: &(impl Fn(f32) -> f32 + Sync)) -> Result<Outputs, KernelError> {
    let dtype = inputs.tensor(0)?.dtype();
    let x = match inputs.take_unique(0) {
        Some(x) => x,
        None => inputs.tensor(0)?.clone(),
    };
    let mut x = half_float::widen(ctx, &x)?;
    if let Some(bias) = inputs.optional(1)? {
        let bias = half_float::widen(ctx, bias)?;
        x = binary::apply(ctx, x, &bias, Op::Add)?;
    }
    let Some(data) = x.as_mut_slice::<f32>() else { return unsupported!("elements of type {dtype}") };
    parallel::pieces(data, 1, 14, |_, piece| piece.iter_mut().for_each(|x| *x = f(*x)));
    Ok(one(half_float::narrow(ctx, x, dtype)?))
}
