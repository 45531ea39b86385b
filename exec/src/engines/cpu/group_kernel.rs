//! The kernel of a quantized group, and what must hold of its constants.

use recut_core::graph::{AttrValue, Node};

use super::groups::Kind;
use crate::kernels::quantized_group::{self, Limits};
use crate::kernels::{Kernel, KernelError, PrepareCtx};
use crate::tensor::Tensor;

/// The kernel of a group that is no table.
pub(super) fn make(kind: Kind, ctx: &PrepareCtx<'_>, limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    match kind {
        Kind::Conv => quantized_group::conv(ctx, limits),
        Kind::MatMul | Kind::Gemm => quantized_group::matmul(ctx, limits),
        Kind::Add => quantized_group::pointwise(false, limits),
        Kind::Mul => quantized_group::pointwise(true, limits),
        Kind::Unary => crate::unsupported!("a unary operator is a table"),
    }
}

/// Whether a bias is in the scale of the products, `x_scale * w_scale`, so that its integers can be added to their sums.
/// `inputs` are those of the group.
pub(super) fn bias_fits(inputs: &[Option<Tensor>], scale: Option<&Tensor>, zero: Option<&Tensor>) -> bool {
    let floats = |t: Option<&Tensor>| t.and_then(|t| t.as_slice::<f32>()).map(<[f32]>::to_vec).unwrap_or_default();
    let input = |i: usize| floats(inputs.get(i).and_then(Option::as_ref));
    let (sx, sw, sb) = (input(1), input(4), floats(scale));
    let ([sx], false, false) = (&*sx, sw.is_empty(), sb.is_empty()) else { return false };
    let n = sw.len().max(sb.len());
    let at = |v: &[f32], i: usize| f64::from(v[if v.len() == 1 { 0 } else { i }]);
    if [sw.len(), sb.len()].iter().any(|&l| l != 1 && l != n) || zero.is_some_and(|z| z.bytes().iter().any(|&b| b != 0)) {
        return false;
    }
    (0..n).all(|i| {
        let want = f64::from(*sx) * at(&sw, i);
        (at(&sb, i) - want).abs() <= want.abs() * 1e-5
    })
}

/// The range that a Relu or Clip leaves; `inputs` are its constant inputs.
pub(super) fn limits(node: &Node, inputs: &[Option<Tensor>]) -> Limits {
    if node.op.is_onnx("Relu") {
        return Limits { low: 0.0, ..Limits::NONE };
    }
    // Inputs since opset 11, attributes before.
    let limit = |i: usize, name: &str, none: f32| {
        let given = inputs.get(i).and_then(Option::as_ref).and_then(|t| t.as_slice::<f32>()).and_then(<[f32]>::first);
        let attribute = match node.attr(name) {
            Some(AttrValue::Float(x)) => Some(*x as f32),
            _ => None,
        };
        given.copied().or(attribute).unwrap_or(none)
    };
    Limits { low: limit(1, "min", f32::NEG_INFINITY), high: limit(2, "max", f32::INFINITY) }
}
