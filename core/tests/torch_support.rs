//! What capability tables of torch operators say of real exports.

use std::path::Path;

use recut_core::expr::Bindings;
use recut_core::graph::Dialect;
use recut_core::import;
use recut_core::model::Model;
use recut_core::support::{Backend, Support, SupportMap, support_map};

fn open(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name);
    import::open(&path).unwrap_or_else(|e| panic!("{name}: {e}")).model
}

fn judge(m: &Model, backend: &str) -> SupportMap {
    support_map(m, &Backend::builtin(backend, Dialect::Aten).unwrap(), &Bindings::new())
}

/// A table of these operators.
fn table(ops: &str) -> Backend {
    let text = format!(r#"{{"format": 1, "backend": "mine", "dialect": "aten", "ops": [{ops}]}}"#);
    Backend::parse(&text, "mine.json").unwrap()
}

/// What is said of the first node of this operator.
fn of<'a>(m: &Model, verdicts: &'a SupportMap, op: &str) -> &'a Support {
    let at = m.graph.nodes().iter().position(|n| n.op.to_string() == op).unwrap_or_else(|| panic!("no {op}"));
    &verdicts[at]
}

fn reason(s: &Support) -> &str {
    match s {
        Support::Unsupported(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_network_of_common_layers_is_taken_whole() {
    let m = open("tiny_cnn.pt2");
    for backend in ["tensorrt", "openvino", "openvino-torchcompile"] {
        for (node, verdict) in m.graph.nodes().iter().zip(judge(&m, backend).iter()) {
            assert_eq!(*verdict, Support::Supported, "{backend} {}", node.op);
        }
    }
}

#[test]
fn operators_that_are_taken_apart_are_judged_by_their_parts() {
    let m = open("tiny_cnn.pt2");
    let rows = |names: &[&str]| names.iter().map(|n| format!(r#"{{"op": "{n}"}}"#)).collect::<Vec<_>>().join(",");
    let b = table(&rows(&["aten.convolution.default", "aten.relu.default", "aten.add.Scalar", "aten.view.default"]));
    let s = support_map(&m, &b, &Bindings::new());
    assert_eq!(*of(&m, &s, "aten.conv2d.default"), Support::Supported);
    assert_eq!(*of(&m, &s, "aten.flatten.using_ints"), Support::Supported);
    assert_eq!(*of(&m, &s, "aten.relu_.default"), Support::Supported, "programs are made functional first");
    let norm = reason(of(&m, &s, "aten.batch_norm.default"));
    assert!(norm.contains("its part aten._native_batch_norm_legit_no_training.default is not taken: mine does not list it"), "{norm}");
    let pool = reason(of(&m, &s, "aten.max_pool2d.default"));
    assert!(pool.contains("aten.max_pool2d_with_indices.default"), "{pool}");
    assert_eq!(reason(of(&m, &s, "aten.add.Tensor")), "aten.add.Tensor: mine lists only other overloads of it (Scalar)");
}

#[test]
fn edge_names_are_those_of_operators_without_views() {
    let m = open("tiny_cnn_decomp.pt2");
    let s = judge(&m, "executorch-xnnpack");
    assert_eq!(*of(&m, &s, "aten.view.default"), Support::Supported, "the table lists view_copy");
    assert_eq!(*of(&m, &s, "aten.convolution.default"), Support::Supported);
    assert_eq!(*of(&m, &s, "aten.relu.default"), Support::Supported);
    assert!(reason(of(&m, &judge(&m, "executorch-nxp"), "aten.relu.default")).contains("does not take f32 here; it takes i8"));
    assert!(matches!(of(&m, &s, "aten._native_batch_norm_legit_no_training.default"), Support::Conditional(_)));
    // In eval mode it becomes what an export without training holds.
    let fresh = open("tiny_cnn.pt2");
    assert!(matches!(of(&fresh, &judge(&fresh, "executorch-xnnpack"), "aten.batch_norm.default"), Support::Conditional(_)));
}

#[test]
fn sizes_and_assertions_need_no_kernel() {
    let m = open("tiny_dynamic.pt2");
    let s = judge(&m, "executorch-xnnpack");
    assert_eq!(*of(&m, &s, "aten.sym_size.int"), Support::Supported);
    assert_eq!(*of(&m, &s, "_operator.mul"), Support::Supported);
    assert_eq!(*of(&m, &judge(&m, "tensorrt"), "_operator.mul"), Support::Supported, "it is listed");
    let b = table(r#"{"op": "aten.relu.default", "dynamic_shapes": false}"#);
    let s = support_map(&m, &b, &Bindings::new());
    assert!(reason(of(&m, &s, "aten.relu.default")).contains("needs static shapes"));
    let dims = Bindings::from([("s77".to_owned(), 3), ("s27".to_owned(), 4)]);
    assert_eq!(*of(&m, &support_map(&m, &b, &dims), "aten.relu.default"), Support::Supported);
    let assertion = open("tiny_edge.pt2");
    assert_eq!(*of(&assertion, &judge(&assertion, "tensorrt"), "aten._assert_tensor_metadata.default"), Support::Supported);
}

#[test]
fn control_flow_is_judged_with_its_graphs() {
    let m = open("tiny_cond.pt2");
    assert_eq!(reason(of(&m, &judge(&m, "tensorrt"), "higher_order.cond")), "higher_order.cond: tensorrt does not list it");
    let all = r#"{"op": "higher_order.cond"}, {"op": "aten.linear.default"}, {"op": "aten.relu.default"}, {"op": "aten.tanh.default"}"#;
    let s = support_map(&m, &table(all), &Bindings::new());
    assert!(reason(of(&m, &s, "higher_order.cond")).starts_with("contains sub"), "{s:?}");
    let s = support_map(&m, &table(&format!(r#"{all}, {{"op": "aten.sub.Tensor"}}"#)), &Bindings::new());
    assert_eq!(*of(&m, &s, "higher_order.cond"), Support::Supported);
}
