//! Models built in code, run by the engine.

use std::sync::Arc;
use std::time::Instant;

use recut_core::dtype::DType;
use recut_core::graph::{AttrValue, Graph, ValueId, ValueKind};
use recut_core::model::Model;
use recut_core::shape::Shape;
use recut_core::testing::{ModelBuilder, Row, model};
use recut_core::weights::WeightRef;

use super::CpuEngine;
use crate::engine::{CancelToken, Engine, ExecContext, MergedInto, NodeRef, Observer, PrepareOptions, Prepared, RunError, Subgraph};
use crate::names::inner_nodes;
use crate::tensor::{Tensor, Value};

#[derive(Default)]
struct Seen {
    nodes: Vec<NodeRef>,
    peak: usize,
    cancel_after: Option<(usize, CancelToken)>,
}

impl Observer for Seen {
    fn node(&mut self, node: NodeRef, start: Instant, end: Instant, _: usize) {
        assert!(end >= start);
        self.nodes.push(node);
        if let Some((n, token)) = &self.cancel_after
            && self.nodes.len() >= *n
        {
            token.cancel();
        }
    }

    fn live_bytes(&mut self, bytes: usize) {
        self.peak = self.peak.max(bytes);
    }
}

fn whole(model: Model) -> Subgraph {
    let graph = &model.graph;
    let (inputs, outputs) = (graph.inputs().into(), graph.outputs().into());
    Subgraph { name: "p".into(), nodes: graph.node_ids().collect(), inputs, outputs, model: Arc::new(model) }
}

fn prepare(model: Model) -> Result<Box<dyn Prepared>, RunError> {
    CpuEngine::new(ExecContext::new(Some(2)).unwrap()).prepare(&whole(model), &Default::default())
}

fn run(model: Model, inputs: Vec<Value>) -> Result<(Vec<Value>, Seen), RunError> {
    let mut seen = Seen::default();
    let outputs = prepare(model)?.run(inputs, &mut seen, &CancelToken::default())?;
    Ok((outputs, seen))
}

fn vector(v: &[f32]) -> Value {
    Tensor::from_slice(&[v.len()], v).unwrap().into()
}

fn floats(v: &Value) -> &[f32] {
    v.as_tensor().unwrap().as_slice().unwrap()
}

fn scalar_weight(x: i64) -> WeightRef {
    WeightRef::inline(DType::I64, &[], x.to_le_bytes().to_vec())
}

/// A body whose values of these names are captured.
fn body(b: ModelBuilder, captured: &[(&str, ValueId)]) -> Graph {
    let g = b.graph();
    let mut values = g.values().to_vec();
    for v in &mut values {
        if let Some((_, outer)) = captured.iter().find(|(n, _)| **n == *v.name) {
            v.kind = ValueKind::Captured { outer: *outer };
        }
    }
    let inputs = g.inputs().iter().copied().filter(|v| matches!(values[v.index()].kind, ValueKind::Input { .. })).collect();
    Graph::new("body".into(), g.nodes().to_vec(), values, inputs, g.outputs().to_vec())
}

#[test]
fn a_chain_runs_and_memory_is_freed_at_the_last_use() {
    let rows: Vec<(String, String, String)> = (0..50).map(|i| (format!("n{i}"), format!("v{i}"), format!("v{}", i + 1))).collect();
    let mut b = ModelBuilder::new();
    for (n, i, o) in &rows {
        b = b.node(n, "Neg", &[i], &[o]);
    }
    let (out, seen) = run(b.build(), vec![vector(&[1.0, -2.0, 0.0, 4.0])]).unwrap();
    assert_eq!(floats(&out[0]), [1.0, -2.0, 0.0, 4.0]);
    assert_eq!(seen.nodes.len(), 50);
    assert!(seen.peak <= 32, "at most an input and an output of 16 bytes live at once, not {}", seen.peak);
}

#[test]
fn one_value_twice_and_outputs_that_repeat() {
    let b = ModelBuilder::new().node("a", "Add", &["x", "x"], &["y"]).node("b", "Mul", &["y", "y"], &["z"]).outputs(&["z", "y", "z", "x"]);
    let (out, _) = run(b.build(), vec![vector(&[1.0, 2.0])]).unwrap();
    let got: Vec<_> = out.iter().map(|v| floats(v).to_vec()).collect();
    assert_eq!(got, [[4.0, 16.0], [2.0, 4.0], [4.0, 16.0], [1.0, 2.0]]);
}

#[test]
fn all_missing_kernels_are_listed_at_once() {
    let inner = body(ModelBuilder::new().node("deep", "my::Thing", &["c"], &["r"]), &[("c", ValueId(0))]);
    let m = ModelBuilder::new()
        .node("a", "NoSuchOp", &["x"], &["y"])
        .node("g", "Gelu", &["y"], &["z"])
        .node("if", "If", &["w.cond"], &["o"])
        .body("then_branch", inner.clone(), &["x"])
        .body("else_branch", inner, &["x"])
        .opset("", 17)
        .build();
    let Err(RunError::MissingKernels { nodes, .. }) = run(m, vec![]) else { panic!("expected missing kernels") };
    let ids: Vec<_> = nodes.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(ids, ["a", "g", "if/deep", "if/deep"]);
    assert!(nodes[1].1.contains("since opset 20") && nodes[1].1.contains("17"), "{}", nodes[1].1);
}

#[test]
fn a_failing_node_is_named() {
    let e = run(
        model(&[("first", "Relu", &["x"], &["y"]), ("bad", "MatMul", &["y", "w.m"], &["z"])]),
        vec![Tensor::from_slice(&[2, 3], &[0f32; 6]).unwrap().into()],
    );
    let text = e.err().unwrap().to_string();
    assert!(text.contains("bad") && text.contains("MatMul"), "{text}");
}

#[test]
fn cancelling_stops_between_nodes() {
    let m = model(&[("a", "Relu", &["x"], &["y"]), ("b", "Relu", &["y"], &["z"]), ("c", "Relu", &["z"], &["u"])]);
    let token = CancelToken::default();
    let mut seen = Seen { cancel_after: Some((2, token.clone())), ..Seen::default() };
    let result = prepare(m).unwrap().run(vec![vector(&[1.0; 4])], &mut seen, &token);
    assert!(matches!(result, Err(RunError::Cancelled)));
    assert_eq!(seen.nodes.len(), 2);
}

/// `for i in 0..n { x = x + x; scan out x }` with `x` of shape [2].
fn doubling(trips: i64, captured: bool) -> Model {
    let add_to = if captured { "step" } else { "state" };
    let b = ModelBuilder::new()
        .node("same", "Identity", &["cond_in"], &["cond_out"])
        .node("add", "Add", &["state", add_to], &["next"])
        .node("copy", "Identity", &["next"], &["row"])
        .outputs(&["cond_out", "next", "row"])
        .typed("cond_in", Some(DType::Bool), Shape::known(&[]))
        .typed("row", Some(DType::F32), Shape::known(&[2]));
    let inner = body(b, &[("step", ValueId(2))]);
    // The iteration number is an input that nothing reads.
    let mut values = inner.values().to_vec();
    let mut iter = values[0].clone();
    (iter.name, iter.dtype) = ("i".into(), Some(DType::I64));
    values.push(iter);
    let inputs = std::iter::once(ValueId::new(values.len() - 1)).chain(inner.inputs().iter().copied()).collect();
    let inner = Graph::new("body".into(), inner.nodes().to_vec(), values, inputs, inner.outputs().to_vec());
    ModelBuilder::new()
        .weight("trips", scalar_weight(trips))
        .node("pre", "Identity", &["x"], &["step"])
        .node("loop", "Loop", &["trips", "", "x"], &["last", "rows"])
        .body("body", inner, &["step"])
        .build()
}

#[test]
fn loops_carry_state_collect_rows_and_see_outer_values() {
    for (captured, last) in [(false, [8.0, 16.0]), (true, [4.0, 8.0])] {
        let m = doubling(3, captured);
        let (out, seen) = run(m, vec![vector(&[1.0, 2.0])]).unwrap();
        assert_eq!(floats(&out[0]), last);
        assert_eq!(out[1].as_tensor().unwrap().dims(), [3, 2]);
        assert_eq!(floats(&out[1])[4..], last);
        // Three nodes in each of three iterations, the loop itself, and the one before it.
        assert_eq!(seen.nodes.len(), 11);
    }
}

#[test]
fn a_huge_trip_count_is_only_as_long_as_it_runs() {
    let token = CancelToken::default();
    let mut seen = Seen { cancel_after: Some((3000, token.clone())), ..Seen::default() };
    let result = prepare(doubling(i64::MAX, false)).unwrap().run(vec![vector(&[1.0, 2.0])], &mut seen, &token);
    assert!(matches!(result, Err(RunError::Cancelled)));
    let (out, _) = run(doubling(0, false), vec![vector(&[1.0, 2.0])]).unwrap();
    assert_eq!(out[1].as_tensor().unwrap().dims(), [0, 2]);
}

#[test]
fn bodies_of_many_nodes_and_nested_ones() {
    let mut b = ModelBuilder::new();
    let names: Vec<String> = (0..=20_000).map(|i| format!("v{i}")).collect();
    for i in 0..20_000 {
        b = b.node(&format!("n{i}"), "Neg", &[&names[i]], &[&names[i + 1]]);
    }
    let long = body(b, &[("v0", ValueId(0))]);
    let mut nested = long;
    for _ in 0..30 {
        let b = ModelBuilder::new()
            .node("take", "Identity", &["x"], &["y"])
            .node("if", "If", &["c"], &["o"])
            .body("then_branch", nested.clone(), &["y"])
            .body("else_branch", body(ModelBuilder::new().node("e", "Identity", &["q"], &["r"]), &[("q", ValueId(0))]), &["x"]);
        nested = body(b, &[("x", ValueId(0)), ("c", ValueId(2))]);
    }
    let m = ModelBuilder::new()
        .node("a", "Identity", &["x"], &["y"])
        .node("pass", "Identity", &["c"], &["d"])
        .typed("c", Some(DType::Bool), Shape::known(&[]))
        .node("top", "If", &["d"], &["o"])
        .body("then_branch", nested, &["x", "c"])
        .body("else_branch", body(ModelBuilder::new().node("e", "Identity", &["q"], &["r"]), &[("q", ValueId(0))]), &["x"])
        .build();
    let total = inner_nodes(m.graph.nodes().last().unwrap()).len();
    let yes = Tensor::from_bytes(DType::Bool, &[], &[1]).unwrap();
    let (out, seen) = run(m, vec![vector(&[1.0, 2.0]), yes.into()]).unwrap();
    assert_eq!(floats(&out[0]), [1.0, 2.0]);
    assert_eq!(total, 20_000 + 30 * 3 + 1);
    let inner: std::collections::HashSet<u32> = seen.nodes.iter().filter(|n| n.inner != u32::MAX).map(|n| n.inner).collect();
    assert_eq!(inner.len(), 20_000 + 30 * 2, "every inner node that ran has an index of its own");
    assert!(inner.iter().all(|&i| (i as usize) < total));
}

#[test]
fn constants_are_folded_and_still_seen() {
    let m = ModelBuilder::new()
        .node("k", "Constant", &[], &["k"])
        .attr("value_floats", AttrValue::Floats([1.0, 2.0].into()))
        .node("add", "Add", &["x", "k"], &["y"])
        .outputs(&["y", "k"])
        .build();
    let (out, seen) = run(m, vec![vector(&[1.0, 1.0])]).unwrap();
    assert_eq!((floats(&out[0]), floats(&out[1])), ([2.0, 3.0].as_slice(), [1.0, 2.0].as_slice()));
    assert_eq!(seen.nodes.len(), 2);
}

fn prepared(model: Model, options: &PrepareOptions) -> Box<dyn Prepared> {
    CpuEngine::new(ExecContext::new(Some(2)).unwrap()).prepare(&whole(model), options).unwrap()
}

/// `relu(transpose(w) + 1)`, added to the input; `w` is `[[1, 2], [3, -4]]`.
fn constant_chain() -> ModelBuilder {
    let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    ModelBuilder::new()
        .weight("w", WeightRef::inline(DType::F32, &[2, 2], bytes(&[1.0, 2.0, 3.0, -4.0])))
        .weight("one", WeightRef::inline(DType::F32, &[], bytes(&[1.0])))
        .node("turn", "Transpose", &["w"], &["t"])
        .node("add", "Add", &["t", "one"], &["u"])
        .node("relu", "Relu", &["u"], &["r"])
        .node("sum", "Add", &["x", "r"], &["y"])
}

#[test]
fn nodes_that_read_constants_only_are_computed_once() {
    let x = || vec![Tensor::from_slice(&[2, 2], &[0f32; 4]).unwrap().into()];
    let by_node = PrepareOptions { node_by_node: true, ..PrepareOptions::default() };
    for (options, folded) in [(PrepareOptions::default(), 3), (by_node, 0)] {
        let mut p = prepared(constant_chain().build(), &options);
        let merged = p.merged();
        assert_eq!(merged.len(), folded);
        assert!(merged.iter().all(|m| matches!(m.into, MergedInto::Constant { .. })));
        for _ in 0..2 {
            let mut seen = Seen::default();
            let out = p.run(x(), &mut seen, &CancelToken::default()).unwrap();
            assert_eq!(floats(&out[0]), [2.0, 4.0, 3.0, 0.0]);
            let nodes: Vec<u32> = seen.nodes.iter().map(|n| n.node.0).collect();
            assert_eq!(nodes, [0, 1, 2, 3], "one row a node");
        }
    }
}

#[test]
fn what_is_kept_or_random_or_large_is_not_folded() {
    let options = PrepareOptions { keep: Arc::new([ValueId(3)].into()), ..PrepareOptions::default() };
    let m = constant_chain().build();
    assert_eq!(&*m.graph.value(ValueId(3)).name, "u");
    let kept: Vec<u32> = prepared(m, &options).merged().iter().map(|m| m.node.node.0).collect();
    assert_eq!(kept, [0], "what comes after a kept value is not constant any more");
    let shape = WeightRef::inline(DType::I64, &[1], (1i64 << 22).to_le_bytes().to_vec());
    let m = ModelBuilder::new()
        .weight("s", shape)
        .node("zeros", "ConstantOfShape", &["s"], &["z"])
        .typed("z", Some(DType::F32), Shape::UNKNOWN)
        .node("noise", "RandomNormalLike", &["w.a"], &["n"])
        .weight("w.a", WeightRef::inline(DType::F32, &[1], vec![0; 4]))
        .node("sum", "Add", &["z", "n"], &["y"])
        .build();
    assert!(prepared(m, &PrepareOptions::default()).merged().is_empty(), "16 MiB of 8 bytes");
}

#[test]
fn folded_values_reach_bodies_and_outputs() {
    let inner = body(ModelBuilder::new().node("deep", "Neg", &["c"], &["r"]), &[("c", ValueId(1))]);
    let m = ModelBuilder::new()
        .weight("w", WeightRef::inline(DType::F32, &[2], [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect()))
        .node("neg", "Neg", &["w"], &["k"])
        .node("pass", "Identity", &["q"], &["cond"])
        .typed("q", Some(DType::Bool), Shape::known(&[]))
        .node("if", "If", &["cond"], &["o"])
        .body("then_branch", inner.clone(), &["k"])
        .body("else_branch", inner, &["k"])
        .outputs(&["o", "k"])
        .build();
    assert_eq!(&*m.graph.value(ValueId(1)).name, "k");
    let mut p = prepared(m, &PrepareOptions::default());
    assert_eq!(p.merged().len(), 3, "one outside and one in each branch");
    let yes = Tensor::from_bytes(DType::Bool, &[], &[1]).unwrap();
    let out = p.run(vec![yes.into()], &mut Seen::default(), &CancelToken::default()).unwrap();
    assert_eq!((floats(&out[0]), floats(&out[1])), ([1.0, 2.0].as_slice(), [-1.0, -2.0].as_slice()));
}

#[test]
fn a_long_kernel_stops_when_it_is_cancelled() {
    // 2^34 multiplications, in four pieces.
    let m = model(&[("big", "MatMul", &["a", "b"], &["y"])]);
    let mut p = prepared(m, &PrepareOptions::default());
    let matrix = |r: usize, c: usize| Value::from(Tensor::from_slice(&[r, c], &vec![0.5f32; r * c]).unwrap());
    let token = CancelToken::default();
    let canceller = token.clone();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        canceller.cancel();
    });
    let mut seen = Seen::default();
    let result = p.run(vec![matrix(1 << 12, 2048), matrix(2048, 2048)], &mut seen, &token);
    waiting.join().unwrap();
    assert!(matches!(result, Err(RunError::Cancelled)));
    assert!(seen.nodes.is_empty(), "it did not end");
}

#[test]
fn outputs_of_the_run_before_are_recycled() {
    let context = ExecContext::new(Some(1)).unwrap();
    let t = Tensor::from_slice(&[1024], &[1f32; 1024]).unwrap();
    let shared = t.clone();
    context.recycle([t.into()]);
    assert_eq!(context.with_buffers(|b| b.held()), 0, "somebody still reads it");
    context.recycle([shared.into()]);
    assert_eq!(context.with_buffers(|b| b.held()), 4096);
}

/// `x` quantized, then `ops` between DequantizeLinear (`d`) and QuantizeLinear (`q`), then numbers again.
fn quantized(ops: &[Row<'_>]) -> ModelBuilder {
    let f32s = |v: f32| WeightRef::inline(DType::F32, &[], v.to_le_bytes().to_vec());
    let u8s = |v: u8| WeightRef::inline(DType::U8, &[], vec![v]);
    let mut b = ModelBuilder::new().node("q0", "QuantizeLinear", &["x", "s", "z"], &["xq"]).weight("s", f32s(0.05)).weight("z", u8s(120));
    b = b.typed("xq", Some(DType::U8), Shape::known(&[4])).node("d", "DequantizeLinear", &["xq", "s", "z"], &["v"]);
    for (name, op, inputs, outputs) in ops {
        b = b.node(name, op, inputs, outputs);
    }
    b = b.node("q", "QuantizeLinear", &["r", "t", "u"], &["yq"]).weight("t", f32s(0.01)).weight("u", u8s(3));
    b.typed("yq", Some(DType::U8), Shape::known(&[4])).node("d1", "DequantizeLinear", &["yq", "t", "u"], &["y"])
}

#[test]
fn groups_are_made_only_where_nobody_sees_the_values_in_between() {
    let names = |m: Model, options: &PrepareOptions| -> Vec<String> {
        let graph = m.graph.clone();
        let merged = prepared(m, options).merged();
        merged.iter().map(|m| graph.node(m.node.node).name.to_string()).collect()
    };
    let default = PrepareOptions::default();
    let one: &[Row<'_>] = &[("f", "Sigmoid", &["v"], &["r"])];
    assert_eq!(names(quantized(one).build(), &default), ["d", "q"]);
    assert!(names(quantized(one).outputs(&["y", "r"]).build(), &default).is_empty(), "an output");
    let m = quantized(one).build();
    let r = m.graph.values().iter().position(|v| &*v.name == "r").unwrap();
    let keep = PrepareOptions { keep: Arc::new([ValueId::new(r)].into()), ..PrepareOptions::default() };
    assert!(names(m, &keep).is_empty(), "to be kept");
    let read = quantized(one).node("other", "Neg", &["r"], &["o"]).build();
    assert!(names(read, &default).is_empty(), "read elsewhere");
    let shared = quantized(one).node("other", "Neg", &["v"], &["o"]).build();
    assert_eq!(names(shared, &default), ["q"], "the operand is read elsewhere: it runs for that");
    let clipped: &[Row<'_>] = &[("f", "Mul", &["v", "v"], &["p"]), ("g", "Relu", &["p"], &["r"])];
    assert_eq!(names(quantized(clipped).build(), &default), ["d", "g", "q"]);
}

#[test]
fn groups_give_what_their_nodes_give() {
    let x = [-6.0f32, -0.31, 0.2, 1.7];
    let by_node = PrepareOptions { node_by_node: true, ..PrepareOptions::default() };
    let cases: [&[Row<'_>]; 4] = [
        &[("f", "Sigmoid", &["v"], &["r"])],
        &[("f", "Tanh", &["v"], &["r"])],
        &[("f", "Mul", &["v", "v"], &["p"]), ("g", "Relu", &["p"], &["r"])],
        &[("f", "Add", &["v", "v"], &["r"])],
    ];
    for ops in cases {
        let mut got = Vec::new();
        for options in [&PrepareOptions::default(), &by_node] {
            let mut p = prepared(quantized(ops).build(), options);
            assert_eq!(p.merged().is_empty(), options.node_by_node);
            let mut seen = Seen::default();
            let out = p.run(vec![vector(&x)], &mut seen, &CancelToken::default()).unwrap();
            assert_eq!(seen.nodes.len(), ops.len() + 4, "one row a node");
            got.push(floats(&out[0]).to_vec());
        }
        // The products round once in a group and twice apart: one step of the result at most.
        assert!(got[0].iter().zip(&got[1]).all(|(a, b)| (a - b).abs() < 0.0101), "{ops:?}: {got:?}");
    }
}
