//! Operations of torch operators, by the same measure as those of ONNX ones, so that a model counts alike in both forms.

use super::{COSTLY_DEFAULT, einsum, pairs, two};
use crate::expr::Expr;
use crate::graph::{AttrValue, Graph, Node, ValueId, out_of_place};
use crate::shape::Dim;

/// Operations per output element, where they are not one.
const COSTLY: &[(&str, i64)] = &[
    ("cos", 10),
    ("erf", 10),
    ("exp", 10),
    ("expm1", 10),
    ("gelu", 14),
    ("group_norm", 8),
    ("instance_norm", 8),
    ("layer_norm", 8),
    ("log", 10),
    ("log10", 10),
    ("log1p", 10),
    ("log2", 10),
    ("log_softmax", 13),
    ("mish", 24),
    ("native_group_norm", 8),
    ("native_layer_norm", 8),
    ("pow", 20),
    ("rms_norm", 8),
    ("rsqrt", 5),
    ("sigmoid", 12),
    ("silu", 13),
    ("sin", 10),
    ("softmax", 13),
    ("softplus", 20),
    ("sqrt", 4),
    ("tanh", 12),
];

/// Operators that move data, make constants, or speak of sizes.
const MOVES: &[&str] = &[
    "alias",
    "arange",
    "as_strided",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "channel_shuffle",
    "chunk",
    "clone",
    "column_stack",
    "concat",
    "concatenate",
    "constant_pad_nd",
    "contiguous",
    "copy",
    "detach",
    "diag",
    "diagonal",
    "dropout",
    "embedding",
    "empty",
    "empty_like",
    "expand",
    "expand_as",
    "eye",
    "feature_dropout",
    "fill",
    "flatten",
    "flip",
    "full",
    "full_like",
    "gather",
    "getitem",
    "hstack",
    "index",
    "index_put",
    "index_select",
    "item",
    "lift",
    "lift_fresh",
    "lift_fresh_copy",
    "linspace",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "movedim",
    "narrow",
    "native_dropout",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "nonzero",
    "numpy_T",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "repeat",
    "repeat_interleave",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "reshape",
    "reshape_as",
    "resolve_conj",
    "resolve_neg",
    "roll",
    "rot90",
    "scalar_tensor",
    "scatter",
    "select",
    "select_scatter",
    "slice",
    "slice_scatter",
    "split",
    "split_with_sizes",
    "squeeze",
    "stack",
    "swapaxes",
    "sym_size",
    "t",
    "take",
    "take_along_dim",
    "tile",
    "to",
    "transpose",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "type_as",
    "unbind",
    "unflatten",
    "unfold",
    "unsafe_chunk",
    "unsafe_split",
    "unsqueeze",
    "view",
    "view_as",
    "vstack",
    "where",
    "zero",
    "zeros",
    "zeros_like",
];

/// Operators that look at every element of their input once.
const REDUCTIONS: &[&str] = &[
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumsum",
    "linalg_vector_norm",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "norm",
    "nansum",
    "prod",
    "sum",
];

/// Arguments of a torch call by name.
struct Call<'a> {
    graph: &'a Graph,
    node: &'a Node,
}

impl<'a> Call<'a> {
    fn value(&self, argument: &str) -> Option<ValueId> {
        self.values(argument).first().copied()
    }

    /// The values of an argument that is a tensor or a list of tensors.
    fn values(&self, argument: &str) -> Vec<ValueId> {
        let one = |v: &AttrValue| if let AttrValue::Input(i) = v { self.node.input(*i) } else { None };
        match self.node.attr(argument) {
            Some(AttrValue::List(items)) => items.iter().filter_map(one).collect(),
            Some(v) => one(v).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn dims(&self, argument: &str) -> Option<&'a [Dim]> {
        self.graph.value(self.value(argument)?).shape.dims()
    }

    fn elements(&self, argument: &str) -> Option<Expr> {
        self.graph.value(self.value(argument)?).shape.elements()
    }

    fn input(&self) -> Option<Expr> {
        self.graph.value(self.node.input(0)?).shape.elements()
    }

    fn output(&self) -> Option<Expr> {
        self.graph.value(self.node.outputs.iter().flatten().next().copied()?).shape.elements()
    }
}

/// Floating-point operations of a torch node without bodies; `None` if a needed shape or the operator is unknown.
pub(super) fn flops(graph: &Graph, node: &Node) -> Option<Expr> {
    let call = Call { graph, node };
    let nothing = || Some(Expr::constant(0));
    match &*node.op.domain {
        "aten" | "prims" => {}
        "_operator" | "operator" | "math" | "torch" => return nothing(),
        "quantized_decomposed" => return call.output(),
        _ => return None,
    }
    let name = plain(&node.op.name);
    if name.starts_with("assert_") || name.starts_with("sym_") || MOVES.binary_search(&name).is_ok() {
        return nothing();
    }
    if name.contains("scaled_dot_product") {
        return attention(&call);
    }
    match name {
        "conv1d" | "conv2d" | "conv3d" | "convolution" => {
            let per_output = pairs(call.dims("weight")?)?;
            let transposed = node.attr("transposed") == Some(&AttrValue::Bool(true));
            Some(two(if transposed { call.elements("input")? } else { call.output()? } * per_output))
        }
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => Some(two(call.elements("input")? * pairs(call.dims("weight")?)?)),
        "linear" => Some(two(call.output()? * call.dims("input")?.last()?.to_expr()?)),
        "matmul" | "mm" | "bmm" | "mv" | "dot" => Some(two(inner_products(&call, "self")?)),
        "addmm" => Some(two(inner_products(&call, "mat1")?)),
        "baddbmm" | "addbmm" => Some(two(inner_products(&call, "batch1")?)),
        "addmv" => Some(two(inner_products(&call, "mat")?)),
        "einsum" => {
            let operands: Option<Vec<&[Dim]>> = call.values("tensors").iter().map(|&v| graph.value(v).shape.dims()).collect();
            einsum(node.text("equation")?, &operands?)
        }
        "lstm" | "gru" | "rnn_tanh" | "rnn_relu" => {
            // Each position and batch entry meets all matrices.
            let steps = call.dims("input")?;
            let steps = steps.get(..steps.len().checked_sub(1)?)?.iter().try_fold(Expr::constant(1), |p, d| Some(p * d.to_expr()?))?;
            let matrices = call.values("params").into_iter().map(|v| &graph.value(v).shape).filter(|s| s.rank() != Some(1));
            let weights = matrices.into_iter().try_fold(Expr::constant(0), |sum, s| Some(sum + s.elements()?))?;
            Some(two(steps * weights))
        }
        "lstm_cell" | "gru_cell" | "rnn_tanh_cell" | "rnn_relu_cell" => {
            let batch = call.dims("input")?.first()?.to_expr()?;
            Some(two(batch * (call.elements("w_ih")? + call.elements("w_hh")?)))
        }
        "batch_norm" | "native_batch_norm" => Some(two(call.output()?)),
        // A mean, differences, squares and their mean.
        "var" | "std" | "var_mean" | "std_mean" => Some(call.input()? * Expr::constant(4)),
        _ if node.attr("other").is_none() && REDUCTIONS.contains(&name) => call.input(),
        _ if name.starts_with("avg_pool") || name.starts_with("max_pool") => {
            let rank = name.bytes().find(u8::is_ascii_digit).map_or(2, |d| usize::from(d - b'0'));
            let window = match node.ints("kernel_size")? {
                [k] => k.checked_pow(u32::try_from(rank).ok()?)?,
                ks => ks.iter().try_fold(1i64, |a, &k| a.checked_mul(k))?,
            };
            Some(call.output()? * Expr::constant(window))
        }
        _ if name.starts_with("fake_quantize") => Some(two(call.output()?)),
        _ => {
            let factor = COSTLY.iter().find(|(o, _)| *o == name).map_or(COSTLY_DEFAULT, |(_, n)| *n);
            Some(call.output()? * Expr::constant(factor))
        }
    }
}

/// The operator without the marks of its forms: in place, private, kept from views, or as the backends call it.
fn plain(name: &str) -> &str {
    match name {
        "_native_batch_norm_legit" | "_native_batch_norm_legit_no_training" | "_native_batch_norm_legit_functional" => {
            return "native_batch_norm";
        }
        "_to_copy" => return "to",
        "_local_scalar_dense" => return "item",
        "_fused_rms_norm" => return "rms_norm",
        "_embedding_bag" => return "embedding_bag",
        "_unsafe_view" => return "view",
        "_unsafe_index" => return "index",
        "_unsafe_index_put" => return "index_put",
        _ if name.starts_with("__") => return name,
        _ => {}
    }
    let name = name.strip_prefix('_').unwrap_or(name);
    let name = out_of_place(name).unwrap_or(name);
    name.strip_suffix("_copy").filter(|n| *n != "lift_fresh").unwrap_or(name)
}

/// Multiply-adds of a matrix product: every output element takes as many as `left`'s last axis is long.
fn inner_products(call: &Call<'_>, left: &str) -> Option<Expr> {
    Some(call.output()? * call.dims(left)?.last()?.to_expr()?)
}

/// Two products over all pairs of positions, and a softmax of every pair.
fn attention(call: &Call<'_>) -> Option<Expr> {
    let queries = call.dims("query")?;
    let rows = queries.get(..queries.len().checked_sub(1)?)?.iter().try_fold(Expr::constant(1), |p, d| Some(p * d.to_expr()?))?;
    let keys = call.dims("key")?;
    let positions = keys.get(keys.len().checked_sub(2)?)?.to_expr()?;
    let products = two(call.elements("query")? * positions.clone() + call.output()? * positions.clone());
    Some(products + rows * positions * Expr::constant(13))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_tables_are_sorted() {
        assert!(MOVES.is_sorted(), "{:?}", MOVES.windows(2).find(|w| w[0] > w[1]));
    }

    #[test]
    fn forms_of_one_operator_count_alike() {
        for (form, name) in [
            ("relu_", "relu"),
            ("_softmax", "softmax"),
            ("view_copy", "view"),
            ("lift_fresh_copy", "lift_fresh_copy"),
            ("_native_batch_norm_legit_no_training", "native_batch_norm"),
            ("__and__", "__and__"),
            ("copy_", "copy"),
        ] {
            assert_eq!(plain(form), name);
        }
    }
}
