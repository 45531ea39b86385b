//! One table of all kernels.

use super::Entry;

/// Kernel tables of every file, in order of preference.
const TABLES: &[&[Entry]] = &[
    super::activation::TABLE,
    super::attention::TABLE,
    super::binary::TABLE,
    super::cast::TABLE,
    super::constant::TABLE,
    super::deform_conv::TABLE,
    super::det::TABLE,
    super::loss::TABLE,
    super::spectrum::TABLE,
    super::conv::TABLE,
    super::conv_transpose::TABLE,
    super::detection::TABLE,
    super::einsum::TABLE,
    super::fused_activation::TABLE,
    super::gather::TABLE,
    super::grid::TABLE,
    super::integer::TABLE,
    super::logic::TABLE,
    super::loss::TABLE,
    super::matmul::TABLE,
    super::max_pool::TABLE,
    super::ml::TABLE,
    super::movement::TABLE,
    super::norm::TABLE,
    super::order::TABLE,
    super::pool::TABLE,
    super::quantize::TABLE,
    super::random::TABLE,
    super::reduce::TABLE,
    super::resize::TABLE,
    super::rnn::TABLE,
    super::rotary::TABLE,
    super::sequence::TABLE,
    super::shape::TABLE,
    super::slicing::TABLE,
    super::softmax::TABLE,
    super::unary::TABLE,
];

/// The kernel entry for an operator under a model's operator-set version.
#[must_use]
pub fn lookup(domain: &str, op: &str, opset: i64) -> Option<&'static Entry> {
    TABLES.iter().flat_map(|t| t.iter()).filter(|e| e.op == op && e.domain == domain && e.since <= opset).max_by_key(|e| e.since)
}
