use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::graph::{AttrValue, Op};
use crate::import;
use crate::testing::ModelBuilder;

fn sample(name: &str) -> Arc<Model> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name);
    Arc::new(import::open(&path).unwrap_or_else(|e| panic!("{name}: {e}")).model)
}

fn aten(name: &str, overload: &str) -> Op {
    Op { dialect: Dialect::Aten, domain: "aten".into(), name: name.into(), overload: overload.into() }
}

#[test]
fn a_model_in_onnx_form_is_itself() {
    let model = Arc::new(ModelBuilder::new().node("r", "Relu", &["x"], &["y"]).build());
    assert!(Arc::ptr_eq(&lower(&model), &model));
    assert_eq!(support(&model), None);
}

#[test]
fn every_node_stands_for_one_of_the_source_and_keeps_its_place() {
    let source = sample("tiny_cnn.pt2");
    let lowered = lower(&source);
    let lowering = lowered.lowering.as_ref().expect("it was lowered");
    assert!(lowering.missing.is_empty(), "{:?}", lowering.missing);
    assert!(lowered.graph.nodes().iter().all(|n| n.op.dialect == Dialect::Onnx));
    let mut seen = 0;
    for id in source.graph.node_ids() {
        let nodes: Vec<NodeId> = lowering.nodes_of(id).collect();
        seen += nodes.len();
        for n in nodes {
            let (made, from) = (lowered.graph.node(n), source.graph.node(id));
            assert_eq!(lowering.source_node(n), id);
            assert_eq!((made.module, &made.torch_op, &made.fx_node), (from.module, &from.torch_op, &from.fx_node));
        }
    }
    assert_eq!(seen, lowered.graph.nodes().len());
    // A node that becomes one is called as before, and so are its results.
    let relu = source.graph.node_ids().find(|&n| &*source.graph.node(n).op.name == "relu").expect("there is a relu");
    let made = lowering.nodes_of(relu).last().expect("it is left");
    assert_eq!(lowered.graph.node(made).name, source.graph.node(relu).name);
    assert!(lowered.graph.node(made).op.is_onnx("Relu"));
    let out = source.graph.node(relu).outputs[0].expect("it gives a value");
    let now = lowering.value(out).expect("it is there");
    assert_eq!(lowered.graph.value(now).name, source.graph.value(out).name);
    assert_eq!(lowered.graph.value(now).shape, source.graph.value(out).shape);
    let total = |m: &Model| m.modules.modules()[0].total_nodes;
    assert_eq!(total(&lowered) as usize, lowered.graph.nodes().len());
}

#[test]
fn what_has_no_lowering_stays_and_is_told_with_the_reason() {
    let source = sample("tiny_custom_op.pt2");
    let lowered = lower(&source);
    let lowering = lowered.lowering.as_ref().expect("it was lowered");
    let [(node, why)] = &lowering.missing[..] else { panic!("{:?}", lowering.missing) };
    assert_eq!(&*source.graph.node(*node).op.domain, "mylib");
    assert!(why.contains("mylib.my_func.default") && why.contains("without a body"), "{why}");
    let support = support(&source).expect("a node is not supported");
    let unsupported = support.iter().filter(|s| matches!(s, Support::Unsupported(_))).count();
    assert_eq!(unsupported, 1);
}

#[test]
fn a_refusal_says_what_it_is_about() {
    let dropout = |train: bool| {
        let attrs = [("input", AttrValue::Input(0)), ("p", AttrValue::Float(0.5)), ("train", AttrValue::Bool(train))];
        let mut b = ModelBuilder::new().node("d", "Dropout", &["x"], &["y"]).with(|n| n.op = Arc::new(aten("dropout", "default")));
        for (name, value) in attrs {
            b = b.attr(name, value);
        }
        Arc::new(b.build())
    };
    let kept = lower(&dropout(false));
    let lowering = kept.lowering.as_ref().expect("it was lowered");
    assert!(lowering.missing.is_empty() && kept.graph.nodes().is_empty(), "nothing is left of it");
    assert_eq!(lowering.nodes_of(NodeId(0)).len(), 0);
    assert_eq!(kept.graph.outputs(), kept.graph.inputs(), "its result is its input");
    let refused = lower(&dropout(true));
    let why = &refused.lowering.as_ref().expect("it was lowered").missing[0].1;
    assert!(why.contains("aten.dropout.default") && why.contains("training mode"), "{why}");
}

#[test]
fn nodes_of_bodies_know_their_place_in_the_source() {
    for name in ["tiny_cond.pt2", "tiny_while.pt2", "tiny_scan.pt2"] {
        let source = sample(name);
        let lowered = lower(&source);
        let lowering = lowered.lowering.as_ref().expect("it was lowered");
        assert!(lowering.missing.is_empty(), "{name}: {:?}", lowering.missing);
        let holders = lowered.graph.node_ids().filter(|&n| !lowered.graph.node(n).bodies.is_empty());
        let mut inside = 0;
        for n in holders {
            let from = source.graph.node(lowering.source_node(n));
            let count: usize = from.bodies.iter().map(|b| b.graph.total_nodes()).sum();
            let positions = lowering.inner_positions(lowered.graph.node(n));
            inside += positions.len();
            assert!(positions.iter().all(|&p| (p as usize) < count), "{name}: {positions:?} of {count}");
        }
        assert!(inside > 0, "{name}");
    }
}

#[test]
fn calls_with_arguments_that_nobody_passes_are_lowered_or_refused() {
    let mut faults = std::collections::BTreeSet::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut calls, mut refused) = (0, 0);
    for _ in 0..60_000 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .take(96)
        .collect();
        let model = Arc::new(crate::testing::torch_call(&bytes));
        let name = model.graph.nodes()[0].op.to_string();
        let done = std::panic::catch_unwind(|| {
            let lowered = lower(&model);
            let nodes = lowered.graph.nodes();
            assert!(nodes.len() < 5000, "{} nodes", nodes.len());
            for id in lowered.graph.node_ids() {
                assert!(lowered.graph.predecessors(id).all(|before| before < id), "nodes are out of order");
            }
            lowered.lowering.as_ref().is_some_and(|l| !l.missing.is_empty())
        });
        match done {
            Ok(missing) => refused += usize::from(missing),
            Err(panic) => drop(faults.insert((name, panic.downcast_ref::<String>().cloned()))),
        }
        calls += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    // The arguments are not all nonsense.
    assert!(refused > calls / 20 && calls - refused > calls / 20, "{refused} of {calls} refused");
}
