//! Which aten operators an ONNX operator can stand for, where the file does not say what it was made from.
//!
//! Written from the operators' definitions and from what the exporters of PyTorch make of each aten operator. It is
//! about identity, not about conversion: `Mul` may be a part of many things, but only `aten.mul` is a `Mul`.

use crate::graph::{Dialect, Op};

use super::index::OpHint;

/// ONNX operator (other domains than the standard one in front) to names in the aten namespace; `{n}` stands for the
/// number of spatial dimensions. Sorted.
const TABLE: &[(&str, &str)] = &[
    ("Abs", "abs"),
    ("Acos", "acos arccos"),
    ("Acosh", "acosh arccosh"),
    ("Add", "add"),
    ("AffineGrid", "affine_grid_generator"),
    ("And", "logical_and bitwise_and __and__"),
    ("ArgMax", "argmax"),
    ("ArgMin", "argmin"),
    ("Asin", "asin arcsin"),
    ("Asinh", "asinh arcsinh"),
    ("Atan", "atan arctan"),
    ("Atanh", "atanh arctanh"),
    ("Attention", "scaled_dot_product_attention"),
    ("AveragePool", "avg_pool{n}d adaptive_avg_pool{n}d"),
    ("BatchNormalization", "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm"),
    ("Bernoulli", "bernoulli"),
    ("BitShift", "bitwise_left_shift bitwise_right_shift __lshift__ __rshift__"),
    ("BitwiseAnd", "bitwise_and __and__"),
    ("BitwiseNot", "bitwise_not"),
    ("BitwiseOr", "bitwise_or __or__"),
    ("BitwiseXor", "bitwise_xor __xor__"),
    ("BlackmanWindow", "blackman_window"),
    ("Cast", "to _to_copy type_as"),
    ("CastLike", "type_as"),
    ("Ceil", "ceil"),
    ("Celu", "celu"),
    ("Clip", "clamp clip clamp_min clamp_max hardtanh relu6"),
    ("Col2Im", "col2im"),
    ("Compress", "masked_select"),
    ("Concat", "cat concat concatenate"),
    ("ConcatFromSequence", "cat stack"),
    ("ConstantOfShape", "full zeros ones full_like zeros_like ones_like new_full new_zeros new_ones"),
    ("Conv", "conv{n}d convolution _convolution"),
    ("ConvTranspose", "conv_transpose{n}d convolution _convolution"),
    ("Cos", "cos"),
    ("Cosh", "cosh"),
    ("CumProd", "cumprod"),
    ("CumSum", "cumsum"),
    ("DFT", "fft_fft fft_ifft fft_rfft _fft_c2c _fft_r2c"),
    ("DepthToSpace", "pixel_shuffle"),
    ("DequantizeLinear", "dequantize"),
    ("Det", "det linalg_det"),
    ("Div", "div divide true_divide"),
    ("Dropout", "dropout native_dropout feature_dropout"),
    ("DynamicQuantizeLinear", "quantize_per_tensor_dynamic"),
    ("Einsum", "einsum"),
    ("Elu", "elu"),
    ("Equal", "eq"),
    ("Erf", "erf"),
    ("Exp", "exp"),
    ("Expand", "expand expand_as broadcast_to"),
    ("EyeLike", "eye"),
    ("Flatten", "flatten"),
    ("Floor", "floor"),
    ("GRU", "gru"),
    ("Gather", "index_select embedding select"),
    ("GatherElements", "gather"),
    ("GatherND", "index"),
    ("Gelu", "gelu"),
    ("Gemm", "linear addmm mm"),
    ("GlobalAveragePool", "adaptive_avg_pool{n}d mean"),
    ("GlobalMaxPool", "adaptive_max_pool{n}d amax"),
    ("Greater", "gt greater"),
    ("GreaterOrEqual", "ge greater_equal"),
    ("GridSample", "grid_sampler grid_sampler_2d grid_sampler_3d"),
    ("GroupNormalization", "group_norm native_group_norm"),
    ("HammingWindow", "hamming_window"),
    ("HannWindow", "hann_window"),
    ("HardSigmoid", "hardsigmoid"),
    ("HardSwish", "hardswish"),
    ("Identity", "alias clone contiguous detach"),
    ("InstanceNormalization", "instance_norm"),
    ("IsInf", "isinf"),
    ("IsNaN", "isnan"),
    ("LSTM", "lstm"),
    ("LayerNormalization", "layer_norm native_layer_norm"),
    ("LeakyRelu", "leaky_relu"),
    ("Less", "lt less"),
    ("LessOrEqual", "le less_equal"),
    ("Log", "log"),
    ("LogSoftmax", "log_softmax _log_softmax"),
    ("MatMul", "matmul mm bmm"),
    ("MatMulInteger", "_int_mm"),
    ("Max", "maximum max amax"),
    ("MaxPool", "max_pool{n}d max_pool{n}d_with_indices adaptive_max_pool{n}d"),
    ("MaxUnpool", "max_unpool2d max_unpool3d"),
    ("Mean", "mean"),
    ("Min", "minimum min amin"),
    ("Mish", "mish"),
    ("Mod", "remainder fmod"),
    ("Mul", "mul multiply"),
    ("Multinomial", "multinomial"),
    ("Neg", "neg negative"),
    ("NegativeLogLikelihoodLoss", "nll_loss nll_loss_nd nll_loss2d"),
    ("NonMaxSuppression", "torchvision.nms"),
    ("NonZero", "nonzero"),
    ("Not", "logical_not bitwise_not"),
    ("OneHot", "one_hot"),
    ("Or", "logical_or bitwise_or __or__"),
    ("PRelu", "prelu _prelu_kernel"),
    ("Pad", "pad constant_pad_nd reflection_pad{n}d replication_pad{n}d"),
    ("Pow", "pow"),
    ("QuantizeLinear", "quantize_per_tensor quantize_per_channel fake_quantize_per_tensor_affine fake_quantize_per_channel_affine"),
    ("RMSNormalization", "rms_norm _fused_rms_norm"),
    ("RNN", "rnn_tanh rnn_relu"),
    ("RandomNormal", "randn normal"),
    ("RandomNormalLike", "randn_like normal"),
    ("RandomUniform", "rand uniform"),
    ("RandomUniformLike", "rand_like uniform"),
    ("Range", "arange"),
    ("Reciprocal", "reciprocal"),
    ("ReduceL1", "norm linalg_vector_norm"),
    ("ReduceL2", "norm linalg_vector_norm"),
    ("ReduceLogSum", "logsumexp"),
    ("ReduceLogSumExp", "logsumexp"),
    ("ReduceMax", "amax max"),
    ("ReduceMean", "mean"),
    ("ReduceMin", "amin min"),
    ("ReduceProd", "prod"),
    ("ReduceSum", "sum"),
    ("ReduceSumSquare", "sum"),
    ("Relu", "relu"),
    ("Reshape", "reshape view view_as reshape_as _unsafe_view flatten unflatten"),
    (
        "Resize",
        "upsample_nearest{n}d _upsample_nearest_exact{n}d upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d",
    ),
    ("RoiAlign", "torchvision.roi_align"),
    ("Round", "round"),
    ("STFT", "stft"),
    ("Scatter", "scatter"),
    ("ScatterElements", "scatter scatter_add scatter_reduce"),
    ("ScatterND", "index_put slice_scatter select_scatter index_copy"),
    ("Selu", "selu"),
    ("Shape", "sym_size size"),
    ("Shrink", "hardshrink softshrink"),
    ("Sigmoid", "sigmoid"),
    ("Sign", "sign sgn"),
    ("Sin", "sin"),
    ("Sinh", "sinh"),
    ("Size", "sym_numel numel"),
    ("Slice", "slice narrow select"),
    ("Softmax", "softmax _softmax"),
    ("SoftmaxCrossEntropyLoss", "cross_entropy_loss"),
    ("Softplus", "softplus"),
    ("SpaceToDepth", "pixel_unshuffle"),
    ("Split", "split split_with_sizes chunk unbind tensor_split"),
    ("SplitToSequence", "split split_with_sizes chunk unbind"),
    ("Sqrt", "sqrt"),
    ("Squeeze", "squeeze"),
    ("Sub", "sub subtract rsub"),
    ("Sum", "add sum"),
    ("Swish", "silu"),
    ("Tan", "tan"),
    ("Tanh", "tanh"),
    ("ThresholdedRelu", "threshold"),
    ("Tile", "repeat tile"),
    ("TopK", "topk sort"),
    ("Transpose", "permute transpose t numpy_T"),
    ("Trilu", "tril triu"),
    ("Unique", "unique_dim unique_consecutive _unique2"),
    ("Unsqueeze", "unsqueeze"),
    ("Upsample", "upsample_nearest{n}d upsample_linear1d upsample_bilinear2d upsample_trilinear3d"),
    ("Where", "where masked_fill"),
    ("Xor", "logical_xor bitwise_xor"),
    ("com.microsoft.BiasGelu", "gelu"),
    ("com.microsoft.FastGelu", "gelu"),
    ("com.microsoft.FusedConv", "conv{n}d convolution"),
    ("com.microsoft.FusedGemm", "linear addmm"),
    ("com.microsoft.FusedMatMul", "matmul"),
    ("com.microsoft.Gelu", "gelu"),
    ("com.microsoft.GroupNorm", "group_norm"),
    ("com.microsoft.Inverse", "inverse linalg_inv"),
    ("com.microsoft.LayerNormalization", "layer_norm"),
    ("com.microsoft.MultiHeadAttention", "scaled_dot_product_attention"),
    ("com.microsoft.QuickGelu", "gelu"),
    ("com.microsoft.RMSNormalization", "rms_norm"),
    ("com.microsoft.SimplifiedLayerNormalization", "rms_norm"),
    ("com.microsoft.SkipLayerNormalization", "layer_norm"),
    ("com.microsoft.Trilu", "tril triu"),
];

/// Operators whose row depends on an [`OpHint`].
pub(super) fn needs_hint(op: &Op) -> bool {
    op.dialect == Dialect::Onnx && (op.is_onnx("MatMul") || row(&key(op)).is_some_and(|names| names.contains("{n}")))
}

fn key(op: &Op) -> std::borrow::Cow<'_, str> {
    if op.domain.is_empty() { (&*op.name).into() } else { format!("{}.{}", op.domain, op.name).into() }
}

fn row(key: &str) -> Option<&'static str> {
    TABLE.binary_search_by(|(k, _)| (*k).cmp(key)).ok().and_then(|i| TABLE.get(i)).map(|(_, names)| *names)
}

/// Qualified names (`aten.relu`) of what `op` can stand for; empty if the table does not know it.
pub(super) fn aten_names(op: &Op, hint: OpHint) -> Vec<String> {
    let mut names: Vec<String> = match op.dialect {
        Dialect::Onnx => expand(row(&key(op)).unwrap_or_default(), hint.spatial),
        _ => Vec::new(),
    };
    if hint.stored_weight && op.is_onnx("MatMul") {
        names.push("aten.linear".to_owned());
    }
    names
}

/// Qualified names of what the ONNX operator called `name` (`Relu`, `com.microsoft.Gelu`) can stand for.
pub(super) fn aten_names_of(name: &str) -> Vec<String> {
    expand(row(name.strip_prefix("ai.onnx.").unwrap_or(name)).unwrap_or_default(), None)
}

fn expand(row: &str, spatial: Option<u8>) -> Vec<String> {
    let qualified = |name: String| if name.contains('.') { name } else { format!("aten.{name}") };
    let mut out = Vec::new();
    for name in row.split_ascii_whitespace() {
        match (name.contains("{n}"), spatial) {
            (false, _) => out.push(qualified(name.to_owned())),
            (true, Some(n)) => out.push(qualified(name.replace("{n}", &n.to_string()))),
            (true, None) => out.extend((1..=3).map(|n| qualified(name.replace("{n}", &n.to_string())))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_without_repeats() {
        assert!(TABLE.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(TABLE.len() > 150);
    }

    #[test]
    fn ranks_and_stored_weights_tell_operators_apart() {
        let conv = Op::onnx("Conv");
        assert!(needs_hint(&conv) && !needs_hint(&Op::onnx("Relu")));
        let flat = OpHint { spatial: Some(1), stored_weight: true };
        assert_eq!(aten_names(&conv, flat), ["aten.conv1d", "aten.convolution", "aten._convolution"]);
        assert!(aten_names(&conv, OpHint::default()).contains(&"aten.conv3d".to_owned()));
        assert!(aten_names(&Op::onnx("MatMul"), flat).contains(&"aten.linear".to_owned()));
        assert_eq!(aten_names(&Op::onnx("NonMaxSuppression"), flat), ["torchvision.nms"]);
        assert_eq!(aten_names(&Op { domain: "com.microsoft".into(), ..Op::onnx("Gelu") }, flat), ["aten.gelu"]);
    }
}
