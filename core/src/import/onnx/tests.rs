//! Tests of whole files, made from the messages.

use std::path::PathBuf;

use prost::Message;
use prost::bytes::Bytes;

use super::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetId, SparseTensorProto, StringStringEntry, TensorProto,
    ValueInfoProto, attribute_type as ty,
};
use super::tensor_proto::{EXTERNAL, Payload};
use crate::dtype::DType;
use crate::graph::{AttrValue, Graph, ValueKind};
use crate::import::{ImportErrorKind, Imported, open};
use crate::weights::Storage;

fn names(list: &[&str]) -> Vec<Bytes> {
    list.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect()
}

fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let (domain, op) = op.split_once("::").unwrap_or(("", op));
    NodeProto {
        name: Bytes::copy_from_slice(name.as_bytes()),
        op_type: Bytes::copy_from_slice(op.as_bytes()),
        domain: Bytes::copy_from_slice(domain.as_bytes()),
        input: names(inputs),
        output: names(outputs),
        ..NodeProto::default()
    }
}

fn with(mut n: NodeProto, a: AttributeProto) -> NodeProto {
    n.attribute.push(a);
    n
}

fn values(list: &[&str]) -> Vec<ValueInfoProto> {
    names(list).into_iter().map(|name| ValueInfoProto { name, r#type: None }).collect()
}

fn graph(nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> GraphProto {
    GraphProto { node: nodes, input: values(inputs), output: values(outputs), ..GraphProto::default() }
}

fn opset(domain: &'static str, version: i64) -> OperatorSetId {
    OperatorSetId { domain: domain.into(), version }
}

fn model(graph: GraphProto) -> ModelProto {
    ModelProto { ir_version: Some(10), opset_import: vec![opset("", 20), opset("f", 1)], graph: Some(graph), ..ModelProto::default() }
}

/// A file in a folder of its own.
struct OnDisk {
    dir: tempfile::TempDir,
}

impl OnDisk {
    fn new(m: &ModelProto) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.onnx"), m.encode_to_vec()).unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("m.onnx")
    }
}

fn opened(m: &ModelProto) -> Imported {
    open(&OnDisk::new(m).path()).unwrap()
}

fn refused(m: &ModelProto) -> String {
    let e = open(&OnDisk::new(m).path()).unwrap_err();
    assert_eq!(e.kind, ImportErrorKind::InvalidGraph);
    e.message
}

fn ids(g: &Graph) -> Vec<&str> {
    g.node_ids().map(|n| g.stable_id(n)).collect()
}

fn codes(i: &Imported) -> Vec<&str> {
    i.diagnostics.iter().map(|d| d.code.as_str()).collect()
}

fn function(name: &'static str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "f".into(),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        ..FunctionProto::default()
    }
}

fn int(name: &'static str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: ty::INT, i: Some(i), ..AttributeProto::default() }
}

fn body(name: &'static str, g: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: ty::GRAPH, g: Some(Box::new(g)), ..AttributeProto::default() }
}

#[test]
fn a_call_becomes_a_module_around_the_functions_nodes() {
    let axis = AttributeProto { name: "axis".into(), ref_attr_name: "dim".into(), r#type: ty::INT, ..AttributeProto::default() };
    let mut f = function("Soft", &["a"], &["b"], vec![node("s", "Neg", &["a"], &["t"]), with(node("", "Softmax", &["t"], &["b"]), axis)]);
    f.attribute_proto.push(int("dim", 7));
    f.opset_import.push(opset("", 11));
    let mut m = model(graph(
        vec![node("one", "f::Soft", &["x"], &["y"]), with(node("two", "f::Soft", &["y"], &["z"]), int("dim", 1))],
        &["x"],
        &["z"],
    ));
    m.functions.push(f);
    let i = opened(&m);
    let g = &i.model.graph;
    assert_eq!(ids(g), ["one/s", "y", "two/s", "z"]);
    assert_eq!(i.model.stored_nodes, 2);
    assert_eq!(g.nodes()[1].int("axis"), Some(7), "the function's default");
    assert_eq!(g.nodes()[3].int("axis"), Some(1), "what the call gives");
    assert_eq!(i.model.opset_of(&g.nodes()[1]), Some(11), "the function imports another version than the model");
    let owner = i.model.modules.module(g.nodes()[0].module);
    assert_eq!((&*owner.path, owner.class.as_deref()), ("one", Some("f::Soft")));
    assert_eq!(g.nodes()[2].ordinal, 1);
    assert!(codes(&i).is_empty(), "{:?}", i.diagnostics);
}

#[test]
fn a_function_that_returns_its_parameter_still_makes_a_value() {
    let mut m = model(graph(vec![node("c", "f::Same", &["x"], &["y"])], &["x"], &["y"]));
    m.functions.push(function("Same", &["a"], &["a"], vec![]));
    let i = opened(&m);
    assert_eq!(ids(&i.model.graph), ["c/Identity"]);
}

#[test]
fn made_up_names_never_meet_names_of_the_file() {
    let f = function("Twice", &["a"], &["b"], vec![node("n", "Neg", &["a"], &["t"]), node("m", "Neg", &["t"], &["b"])]);
    let mut m = model(graph(
        vec![node("c", "f::Twice", &["x"], &["y"]), node("c", "f::Twice", &["y"], &["c/t"]), node("c/n", "Abs", &["c/t"], &["z"])],
        &["x"],
        &["z"],
    ));
    m.functions.push(f);
    let i = opened(&m);
    let g = &i.model.graph;
    for list in [ids(g), g.values().iter().map(|v| &*v.name).collect()] {
        let mut unique = list.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), list.len(), "{list:?}");
    }
}

#[test]
fn a_long_chain_of_functions_is_not_expanded_on_the_stack() {
    let mut m = model(graph(vec![node("c", "f::F0", &["x"], &["y"])], &["x"], &["y"]));
    for i in 0..20_000 {
        let callee = if i == 19_999 { "Neg".to_owned() } else { format!("f::F{}", i + 1) };
        let mut f = function("", &["a"], &["b"], vec![node("n", &callee, &["a"], &["b"])]);
        f.name = format!("F{i}").into();
        m.functions.push(f);
    }
    let i = opened(&m);
    assert_eq!(i.model.graph.nodes().len(), 1);
    assert_eq!(codes(&i), ["function_too_large"]);
}

#[test]
fn bodies_capture_through_several_levels() {
    let inner = graph(vec![node("add", "Add", &["x", "w"], &["r"])], &[], &["r"]);
    let outer = graph(vec![with(node("if2", "If", &["c"], &["q"]), body("then_branch", inner))], &[], &["q"]);
    let mut g = graph(
        vec![with(node("if1", "If", &["c"], &["y"]), body("then_branch", outer)), node("late", "Neg", &["x"], &["w"])],
        &["x", "c"],
        &["y"],
    );
    g.name = "main".into();
    let i = opened(&model(g));
    let main = &i.model.graph;
    assert_eq!(ids(main), ["late", "if1"], "what a body reads counts for the order");
    let if1 = &main.nodes()[1];
    let captured: Vec<&str> = if1.captures.iter().map(|v| &*main.value(*v).name).collect();
    assert_eq!(captured, ["c", "x", "w"]);
    let middle = &if1.bodies[0].graph;
    let innermost = &middle.nodes()[0].bodies[0].graph;
    let w = innermost.value(innermost.find_value("w").unwrap());
    let ValueKind::Captured { outer } = w.kind else { panic!("{:?}", w.kind) };
    assert_eq!(&*middle.value(outer).name, "w");
}

#[test]
fn broken_wiring_names_value_and_node() {
    let dangling = refused(&model(graph(vec![node("n", "Neg", &["ghost"], &["y"])], &[], &["y"])));
    assert!(dangling.contains("`ghost`") && dangling.contains("`n`"), "{dangling}");
    let twice = refused(&model(graph(vec![node("a", "Neg", &["x"], &["y"]), node("b", "Neg", &["x"], &["y"])], &["x"], &["y"])));
    assert!(["`a`", "`b`", "`y`", "more than once"].iter().all(|w| twice.contains(w)), "{twice}");
    let cycle = refused(&model(graph(vec![node("a", "Neg", &["p"], &["q"]), node("b", "Neg", &["q"], &["p"])], &[], &["q"])));
    assert!(["cycle", "`a`", "`b`"].iter().all(|w| cycle.contains(w)), "{cycle}");
}

fn tensor(name: &'static str, dtype: DType, dims: &[i64]) -> TensorProto {
    TensorProto { name: name.into(), data_type: dtype.to_onnx(), dims: dims.into(), ..TensorProto::default() }
}

fn storing(tensors: Vec<TensorProto>) -> ModelProto {
    let mut g = graph(vec![], &[], &[]);
    g.initializer = tensors;
    model(g)
}

#[test]
fn long_weights_stay_in_the_file_and_short_ones_come_along() {
    let long: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
    let mut t = [tensor("long", DType::U32, &[40_000]), tensor("short", DType::U8, &[3]), tensor("floats", DType::F32, &[40_000])];
    t[0].raw_data = Some(Payload::Here(long.clone().into()));
    t[1].raw_data = Some(Payload::Here(Bytes::from_static(&[1, 2, 3])));
    t[2].float_data = vec![Payload::Here(long.clone().into())];
    let disk = OnDisk::new(&storing(t.into()));
    let i = open(&disk.path()).unwrap();
    let weight = |name: &str| i.model.graph.value(i.model.graph.find_value(name).unwrap()).weight().unwrap().clone();
    for name in ["long", "floats"] {
        assert!(matches!(weight(name).storage, Storage::File { .. }));
        assert_eq!(weight(name).read().unwrap(), long);
    }
    assert_eq!(weight("short").storage, Storage::Inline([1, 2, 3].as_slice().into()));
    // A file that was exported again is not read as if it were the old one.
    std::fs::write(disk.path(), b"something else").unwrap();
    assert!(weight("long").read().unwrap_err().to_string().contains("changed"));
}

#[test]
fn typed_fields_become_dense_bytes() {
    let mut t = [
        tensor("half", DType::F16, &[2]),
        tensor("nibbles", DType::I4, &[3]),
        tensor("wide", DType::U32, &[1]),
        tensor("out_of_range", DType::U8, &[1]),
        tensor("spare", DType::I64, &[1]),
    ];
    t[0].int32_data = vec![0x3c00, -1];
    t[1].int32_data = vec![0x21, 0x03];
    t[2].uint64_data = vec![4_000_000_000];
    t[3].int32_data = vec![300];
    t[4].int64_data = vec![1, 2];
    let i = opened(&storing(t.into()));
    let read = |name: &str| i.model.graph.value(i.model.graph.find_value(name).unwrap()).weight().unwrap().read();
    assert_eq!(read("half").unwrap(), [0x00, 0x3c, 0xff, 0xff]);
    assert_eq!(read("nibbles").unwrap(), [0x21, 0x03]);
    assert_eq!(read("wide").unwrap(), 4_000_000_000u32.to_le_bytes());
    for name in ["out_of_range", "spare"] {
        assert!(read(name).unwrap_err().to_string().contains(name));
    }
    assert_eq!(codes(&i), ["bad_tensor", "bad_tensor"]);
}

#[test]
fn sparse_tensors_are_made_dense_within_bounds() {
    let sparse = |name, dims: &[i64], at: &[i64]| {
        let n = i64::try_from(at.len()).unwrap();
        let mut values = tensor(name, DType::U8, &[n]);
        values.raw_data = Some(Payload::Here(vec![9; at.len()].into()));
        let mut indices = tensor("", DType::I64, &[n]);
        indices.int64_data = at.into();
        SparseTensorProto { values: Some(values), indices: Some(indices), dims: dims.into() }
    };
    let mut g = graph(vec![], &[], &[]);
    g.sparse_initializer = vec![
        sparse("ok", &[2, 2], &[0, 3]),
        sparse("outside", &[2, 2], &[4]),
        sparse("negative", &[4], &[-1]),
        sparse("huge", &[1 << 40], &[5]),
    ];
    let i = opened(&model(g));
    let read = |name: &str| i.model.graph.value(i.model.graph.find_value(name).unwrap()).weight().unwrap().read();
    assert_eq!(read("ok").unwrap(), [9, 0, 0, 9]);
    assert!(["outside", "negative", "huge"].iter().all(|n| read(n).is_err()));
    assert_eq!(codes(&i), ["bad_tensor"; 3]);
}

#[test]
fn external_data_is_found_beside_the_model() {
    let pair = |k: &'static str, v: &'static str| StringStringEntry { key: k.into(), value: v.into() };
    let mut t = tensor("w", DType::U8, &[2]);
    t.data_location = EXTERNAL;
    t.external_data = vec![pair("location", "w.bin"), pair("offset", "1")];
    let m = storing(vec![t]);
    let disk = OnDisk::new(&m);
    let weight = |i: &Imported| i.model.graph.values()[0].weight().unwrap().clone();
    let i = open(&disk.path()).unwrap();
    assert_eq!(codes(&i), ["missing_weight"]);
    assert!(weight(&i).read().unwrap_err().to_string().contains("w.bin"));
    std::fs::write(disk.dir.path().join("w.bin"), [1, 2, 3]).unwrap();
    assert_eq!(weight(&open(&disk.path()).unwrap()).read().unwrap(), [2, 3]);
    std::fs::write(disk.dir.path().join("w.bin"), [1, 2]).unwrap();
    assert_eq!(codes(&open(&disk.path()).unwrap()), ["missing_weight"]);
}

#[test]
fn attributes_of_no_type_are_read_by_their_field() {
    let mut a = AttributeProto { name: "alpha".into(), f: Some(0.5), ..AttributeProto::default() };
    let n = with(with(node("n", "LeakyRelu", &["x"], &["y"]), a.clone()), {
        a.f = Some(0.25);
        a
    });
    let i = opened(&model(graph(vec![n], &["x"], &["y"])));
    assert_eq!(i.model.graph.nodes()[0].attr("alpha"), Some(&AttrValue::Float(0.25)));
    assert_eq!(codes(&i), ["duplicate_attribute"]);
}

#[test]
fn nodes_of_a_body_belong_to_the_module_around() {
    let scope = |v: &'static str| vec![StringStringEntry { key: "pkg.torch.onnx.name_scopes".into(), value: v.into() }];
    let mut inside = node("n", "Neg", &["x"], &["r"]);
    inside.metadata_props = scope("['neg']");
    let mut outside = with(node("if", "If", &["c"], &["y"]), body("then_branch", graph(vec![inside], &[], &["r"])));
    outside.metadata_props = scope("['', 'layer', 'cond']");
    let i = opened(&model(graph(vec![outside], &["x", "c"], &["y"])));
    let n = &i.model.graph.nodes()[0];
    assert_eq!(&*i.model.modules.module(n.module).path, "layer");
    assert_eq!(n.bodies[0].graph.nodes()[0].module, n.module);
    assert_eq!(n.fx_node.as_deref(), Some("cond"));
}
