//! The same model as torch and as ONNX graph has the same cost.

use std::path::Path;

use recut_core::expr::Bindings;
use recut_core::import;
use recut_core::infer::cost;
use recut_core::model::Model;

fn open(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name);
    import::open(&path).unwrap_or_else(|e| panic!("{name}: {e}")).model
}

/// Operations of the main graph.
fn flops(m: &Model, dims: &Bindings) -> f64 {
    let total = cost::total(&m.graph).flops.expect("every operator of the model has a cost");
    total.eval(dims).unwrap_or_else(|| panic!("{total} is no number")) as f64
}

#[test]
fn both_forms_of_a_model_count_alike() {
    let dims = |pairs: &[(&str, i64)]| pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect::<Bindings>();
    for (torch, onnx, torch_dims, onnx_dims, within) in [
        // BatchNormalization is folded into the weights of the ONNX form.
        ("tiny_cnn.pt2", "tiny_cnn_ext.onnx", dims(&[]), dims(&[]), 0.03),
        ("tiny_bf16.pt2", "tiny_bf16.onnx", dims(&[]), dims(&[]), 0.01),
        ("tiny_names.pt2", "tiny_names.onnx", dims(&[]), dims(&[]), 0.01),
        // Biases and the scale of the attention are nodes of their own in the ONNX form.
        ("tiny_transformer.pt2", "tiny_transformer.onnx", dims(&[]), dims(&[]), 0.015),
        ("tiny_dynamic.pt2", "tiny_dynamic.onnx", dims(&[("s77", 8), ("s27", 5)]), dims(&[("batch", 8), ("seq", 5)]), 0.035),
    ] {
        let (a, b) = (flops(&open(torch), &torch_dims), flops(&open(onnx), &onnx_dims));
        assert!((a / b - 1.0).abs() < within, "{torch} {a}, {onnx} {b}");
    }
}

#[test]
fn functional_and_fresh_exports_count_alike() {
    let none = Bindings::new();
    let (fresh, core) = (flops(&open("tiny_cnn.pt2"), &none), flops(&open("tiny_cnn_decomp.pt2"), &none));
    assert!((fresh / core - 1.0).abs() < 0.001, "{fresh} {core}");
}

#[test]
fn every_node_of_a_torch_model_has_bytes() {
    for name in ["tiny_cnn.pt2", "tiny_dynamic.pt2", "tiny_edge.pt2", "tiny_cond.pt2"] {
        let m = open(name);
        for n in m.graph.node_ids() {
            assert!(cost::node_cost(&m, n).bytes.is_some(), "{name}: {}", m.graph.stable_id(n));
        }
    }
}
