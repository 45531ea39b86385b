//! Activations: element-wise functions with parameters.

use super::attrs::Attrs;
use super::unary::map_floats;
use super::{Entry, Kernel, KernelError, PrepareCtx, vecmath};
use crate::invalid;

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("LeakyRelu", 1, leaky_relu),
    Entry::onnx("Elu", 1, elu),
    Entry::onnx("Selu", 1, selu),
    Entry::onnx("Celu", 12, celu),
    Entry::onnx("ThresholdedRelu", 1, thresholded_relu),
    Entry::onnx("HardSigmoid", 1, hard_sigmoid),
    Entry::onnx("HardSwish", 14, |_| map_floats(3, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0), |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))),
    Entry::onnx("Softplus", 1, |_| map_floats(24, softplus, softplus64)),
    Entry::onnx("Softsign", 1, |_| map_floats(3, |x| x / (1.0 + x.abs()), |x| x / (1.0 + x.abs()))),
    Entry::onnx("Mish", 18, |_| map_floats(32, |x| x * vecmath::tanh(softplus(x)), |x| x * softplus64(x).tanh())),
    Entry::onnx("Gelu", 20, gelu_by_attribute),
    Entry::onnx("Swish", 24, |ctx| swish(Attrs(ctx.node).float("alpha", 1.0)?)),
    Entry::onnx("Shrink", 9, shrink),
    Entry { domain: "com.microsoft", op: "Gelu", since: 1, factory: |_| map_floats(14, gelu, gelu64) },
    Entry { domain: "com.microsoft", op: "QuickGelu", since: 1, factory: |ctx| swish(Attrs(ctx.node).float("alpha", 1.702)?) },
];

/// `x Phi(x)`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + vecmath::erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

fn gelu64(x: f64) -> f64 {
    0.5 * x * (1.0 + vecmath::erf64(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// [`gelu`] by its tanh approximation (Hendrycks and Gimpel, 2016).
#[inline(always)]
pub(super) fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + vecmath::tanh(0.797_884_6 * (x + 0.044_715 * x * x * x)))
}

fn gelu_tanh64(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
}

fn softplus(x: f32) -> f32 {
    // ln(1 + e^x) without overflow for large x and without cancellation for small.
    x.max(0.0) + vecmath::exp(-x.abs()).ln_1p() + if x.is_nan() { x } else { 0.0 }
}

fn softplus64(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

fn leaky_relu(ctx: &PrepareCtx<'_>) -> Made {
    let a = Attrs(ctx.node).float("alpha", 0.01)?;
    let a32 = a as f32;
    map_floats(1, move |x| if x < 0.0 { a32 * x } else { x }, move |x| if x < 0.0 { a * x } else { x })
}

/// `x` above zero, `alpha (e^x - 1)` below, times `gamma`.
fn exponential_unit(alpha: f64, gamma: f64, divisor: f64) -> Made {
    let (a, g, d) = (alpha as f32, gamma as f32, divisor as f32);
    map_floats(
        12,
        move |x| {
            // Near zero e^x - 1 cancels: there its series is exact to rounding.
            let y = x / d;
            let near = y + 0.5 * y * y + y * y * y * (1.0 / 6.0);
            let minus = if y > -0.01 { near } else { vecmath::exp(y) - 1.0 };
            g * if x > 0.0 || x.is_nan() { x } else { a * minus }
        },
        move |x| gamma * if x > 0.0 || x.is_nan() { x } else { alpha * (x / divisor).exp_m1() },
    )
}

fn elu(ctx: &PrepareCtx<'_>) -> Made {
    exponential_unit(Attrs(ctx.node).float("alpha", 1.0)?, 1.0, 1.0)
}

fn selu(ctx: &PrepareCtx<'_>) -> Made {
    // Operator set 1 had the constants rounded to four places.
    let (alpha, gamma) = if ctx.opset < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
    exponential_unit(Attrs(ctx.node).float("alpha", alpha)?, Attrs(ctx.node).float("gamma", gamma)?, 1.0)
}

fn celu(ctx: &PrepareCtx<'_>) -> Made {
    let alpha = Attrs(ctx.node).float("alpha", 1.0)?;
    if alpha == 0.0 {
        return invalid!("attribute alpha must not be 0: Celu divides by it");
    }
    exponential_unit(alpha, 1.0, alpha)
}

fn thresholded_relu(ctx: &PrepareCtx<'_>) -> Made {
    let a = Attrs(ctx.node).float("alpha", 1.0)?;
    let a32 = a as f32;
    map_floats(1, move |x| if x <= a32 { 0.0 } else { x }, move |x| if x <= a { 0.0 } else { x })
}

fn hard_sigmoid(ctx: &PrepareCtx<'_>) -> Made {
    let (a, b) = (Attrs(ctx.node).float("alpha", 0.2)?, Attrs(ctx.node).float("beta", 0.5)?);
    let (a32, b32) = (a as f32, b as f32);
    map_floats(2, move |x| (a32 * x + b32).clamp(0.0, 1.0), move |x| (a * x + b).clamp(0.0, 1.0))
}

fn gelu_by_attribute(ctx: &PrepareCtx<'_>) -> Made {
    match Attrs(ctx.node).text("approximate", "none")? {
        "none" => map_floats(14, gelu, gelu64),
        "tanh" => map_floats(14, gelu_tanh, gelu_tanh64),
        _ => invalid!("attribute approximate must be none or tanh"),
    }
}

/// `x sigmoid(alpha x)`.
pub(super) fn swish(alpha: f64) -> Made {
    let a = alpha as f32;
    map_floats(10, move |x| x * vecmath::sigmoid(a * x), move |x| x / (1.0 + (-alpha * x).exp()))
}

fn shrink(ctx: &PrepareCtx<'_>) -> Made {
    let (lambd, bias) = (Attrs(ctx.node).float("lambd", 0.5)?, Attrs(ctx.node).float("bias", 0.0)?);
    let go = move |x: f64| {
        if x < -lambd {
            x + bias
        } else if x > lambd {
            x - bias
        } else {
            0.0
        }
    };
    let float = map_floats(2, move |x| go(f64::from(x)) as f32, go)?;
    super::kernel(move |ctx, inputs| {
        // Integers are few and rare here: through f64, which holds what Shrink is used on.
        let x = inputs.tensor(0)?;
        if !x.dtype().is_int() {
            return float.run(ctx, inputs);
        }
        let wide = super::cast::to(ctx, x, recut_core::dtype::DType::F64, true)?;
        let mut out = wide;
        out.as_mut_slice::<f64>().unwrap_or_default().iter_mut().for_each(|x| *x = go(*x));
        Ok(super::one(super::cast::to(ctx, &out, x.dtype(), true)?))
    })
}
