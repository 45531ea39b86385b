//! IR version and operator sets of the file that is written.

use indexmap::IndexMap;

use super::scopes;
use crate::dtype::DType;
use crate::graph::AttrValue;
use crate::model::Model;

/// Version of the standard operator set for what the writer adds, where the model imports none.
pub(super) const OPSET: i64 = crate::lower::OPSET;

/// Lowest IR version of which initializers need not be inputs.
const INITIALIZERS_ALONE: i64 = 4;
/// Lowest IR version whose nodes have metadata and overloads.
const NODE_METADATA: i64 = 10;

/// The IR version that came with a version of the standard operator set.
const fn of_opset(version: i64) -> i64 {
    match version {
        ..=8 => 3,
        9 => 4,
        10 => 5,
        11 => 6,
        12..=14 => 7,
        15..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        23 => 11,
        24 => 12,
        25..=27 => 13,
        _ => 14,
    }
}

/// The IR version that an element type came with.
const fn of_dtype(d: DType) -> i64 {
    match d {
        DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz => 9,
        DType::I4 | DType::U4 => 10,
        DType::F4e2m1 => 11,
        DType::F8e8m0 => 12,
        DType::I2 | DType::U2 => 13,
        _ => INITIALIZERS_ALONE,
    }
}

/// Operators of the standard domain, each with the versions of the operator set in which its definition changed; from the
/// schemas of onnx 1.23.
static CHANGES: &str = include_str!("../../../data/onnx_versions.txt");

/// Whether two versions of the standard operator set define an operator alike.
pub(super) fn define_alike(op: &str, a: i64, b: i64) -> bool {
    let line = CHANGES.lines().find_map(|l| l.strip_prefix(op)?.strip_prefix(' '));
    let Some(line) = line else { return false };
    // A version from later than the table may have changed anything.
    let known = |v: i64| v <= NEWEST;
    let last = |v: i64| line.split(' ').filter_map(|c| c.parse::<i64>().ok()).filter(|&c| c <= v).max();
    known(a) && known(b) && last(a).is_some() && last(a) == last(b)
}

/// Newest version of the standard operator set in [`CHANGES`].
const NEWEST: i64 = 28;

/// The operator sets of all nodes: those that the model imports, and version 1 of other domains.
pub(super) fn opsets(model: &Model) -> IndexMap<String, i64> {
    let mut opsets = model.opsets.clone();
    let mut work = vec![&model.graph];
    while let Some(graph) = work.pop() {
        for node in graph.nodes() {
            if !opsets.contains_key(&*node.op.domain) {
                opsets.insert(node.op.domain.to_string(), if node.op.domain.is_empty() { OPSET } else { 1 });
            }
            work.extend(node.bodies.iter().map(|b| &b.graph));
        }
    }
    opsets
}

/// The lowest IR version that has what the model uses; readers refuse those that are newer than they are.
pub(super) fn ir_version(model: &Model, opsets: &IndexMap<String, i64>) -> i64 {
    let mut version = opsets.get("").map_or(INITIALIZERS_ALONE, |&v| of_opset(v)).max(INITIALIZERS_ALONE);
    let mut work = vec![&model.graph];
    while let Some(graph) = work.pop() {
        for v in graph.values() {
            version = version.max(v.dtype.map_or(version, of_dtype));
        }
        for node in graph.nodes() {
            if node.stack_trace.is_some() || !node.op.overload.is_empty() || scopes::has_metadata(model, node) {
                version = version.max(NODE_METADATA);
            }
            for attr in &node.attrs {
                version = match &attr.value {
                    AttrValue::Tensor(w) => version.max(of_dtype(w.dtype)),
                    AttrValue::Tensors(all) => all.iter().fold(version, |v, w| v.max(of_dtype(w.dtype))),
                    _ => version,
                };
            }
            work.extend(node.bodies.iter().map(|b| &b.graph));
        }
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use crate::testing::ModelBuilder;

    #[test]
    fn the_lowest_version_that_has_everything() {
        let plain = |opset| ModelBuilder::new().node("n", "Relu", &["x"], &["y"]).opset("", opset);
        let version = |m: &Model| ir_version(m, &opsets(m));
        assert_eq!(version(&plain(7).build()), 4);
        assert_eq!(version(&plain(18).build()), 8);
        assert_eq!(version(&plain(28).build()), 14);
        assert_eq!(version(&plain(18).module("m", "").build()), 10);
        assert_eq!(version(&plain(18).typed("x", Some(DType::U2), Shape::UNKNOWN).build()), 13);
    }

    #[test]
    fn versions_that_changed_nothing_are_alike() {
        assert!(define_alike("Abs", 17, 21) && define_alike("Abs", 13, 13));
        assert!(!define_alike("Abs", 12, 13) && !define_alike("Gelu", 19, 20) && !define_alike("Gelu", 18, 19));
        assert!(!define_alike("Abs", 20, 99) && !define_alike("Ab", 17, 21));
    }

    #[test]
    fn every_domain_is_imported() {
        let m = ModelBuilder::new().node("n", "my::Op", &["x"], &["y"]).build();
        assert_eq!(opsets(&m), IndexMap::from([(String::new(), 18), ("my".to_owned(), 1)]));
    }
}
