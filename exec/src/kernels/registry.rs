//! One table of all kernels.

use std::collections::HashMap;
use std::sync::LazyLock;

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

/// Entries by operator, the latest version first.
static BY_OP: LazyLock<HashMap<(&'static str, &'static str), Vec<&'static Entry>>> = LazyLock::new(|| {
    let mut map: HashMap<_, Vec<&'static Entry>> = HashMap::new();
    for entry in TABLES.iter().flat_map(|t| t.iter()) {
        map.entry((entry.domain, entry.op)).or_default().push(entry);
    }
    // Stable, so that of two equal versions the first in order of preference stays the first.
    map.values_mut().for_each(|v| v.sort_by_key(|e| std::cmp::Reverse(e.since)));
    map
});

/// The kernel entry for an operator under a model's operator-set version.
#[must_use]
pub fn lookup(domain: &str, op: &str, opset: i64) -> Option<&'static Entry> {
    BY_OP.get(&(domain, op))?.iter().find(|e| e.since <= opset).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_that_is_not_too_new_is_found() {
        for entry in TABLES.iter().flat_map(|t| t.iter()) {
            let found = lookup(entry.domain, entry.op, entry.since).expect("every entry is found at its version");
            assert_eq!(found.since, entry.since, "{}", entry.op);
            assert!(lookup(entry.domain, entry.op, 0).is_none(), "{}", entry.op);
        }
        assert!(lookup("", "NoSuchOp", 20).is_none());
    }
}
