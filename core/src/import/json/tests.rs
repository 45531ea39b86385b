use std::path::{Path, PathBuf};

use crate::columns::ColumnData;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::export;
use crate::graph::{AttrValue, Dialect, Graph, NodeId, ValueKind};
use crate::import::{ImportError, ImportErrorKind, Imported, open};
use crate::model::{Format, Model};
use crate::weights::{Storage, WeightRef};

fn read(text: &str) -> Result<Imported, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.json");
    std::fs::write(&path, text).unwrap();
    open(&path)
}

fn model(text: &str) -> Model {
    read(text).unwrap().model
}

/// What is said of a file that is refused, without its path.
fn refused(text: &str) -> (ImportErrorKind, String) {
    let e = read(text).unwrap_err();
    (e.kind, e.message)
}

/// A file with this in it beside format and version.
fn graph(rest: &str) -> String {
    format!(r#"{{"format": "recut.graph", "version": 1, {rest}}}"#)
}

#[test]
fn ten_lines_by_hand() {
    let m = model(
        r#"{
  "format": "recut.graph", "version": 1, "dialect": "onnx",
  "inputs": ["x"], "outputs": ["y"],
  "nodes": [
    {"name": "mm", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"], "module": "head.fc"},
    {"name": "act", "op": "LeakyRelu", "inputs": ["h"], "outputs": ["y"], "attrs": {"alpha": 0.1}}
  ],
  "values": {"x": {"dtype": "f32", "shape": ["batch", 2]}},
  "initializers": {"w": {"dtype": "float32", "shape": [2, 2], "data": [1, 2, 3, 4.5]}}
}"#,
    );
    assert_eq!(m.format, Format::Json);
    assert_eq!(m.opset(""), Some(21));
    let nodes: Vec<String> = m.graph.nodes().iter().map(|n| n.op.to_string()).collect();
    assert_eq!(nodes, ["MatMul", "LeakyRelu"]);
    // As an ONNX file would have it.
    assert_eq!(m.graph.node(NodeId(1)).float("alpha"), Some(f64::from(0.1f32)));
    assert_eq!(&*m.modules.module(m.graph.node(NodeId(0)).module).path, "head.fc");
    let w = m.graph.value(m.graph.find_value("w").unwrap()).weight().unwrap();
    let want: Vec<u8> = [1f32, 2.0, 3.0, 4.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!((w.dtype, w.read().unwrap()), (DType::F32, want));
    // Shapes are inferred as for any model.
    assert_eq!(m.graph.value(m.graph.find_value("y").unwrap()).shape.to_string(), "[batch,2]");
}

#[test]
fn a_graph_of_another_tool_needs_no_known_operators() {
    let Imported { model: m, diagnostics } = read(&graph(
        r#""inputs": ["a"], "outputs": ["c"], "nodes": [{"op": "fused::conv_relu", "inputs": ["a", "w"], "outputs": ["c", null]}],
           "initializers": {"w": {"dtype": "bf16", "shape": [8]}}"#,
    ))
    .unwrap();
    let node = m.graph.node(NodeId(0));
    assert_eq!((node.op.dialect, &*node.op.domain, &*node.op.name), (Dialect::Json, "fused", "conv_relu"));
    assert_eq!(node.outputs.len(), 2);
    assert!(m.opsets.is_empty());
    assert_eq!(diagnostics.iter().map(|d| &*d.code).collect::<Vec<_>>(), ["no_data"]);
    let w = m.graph.value(m.graph.find_value("w").unwrap()).weight().unwrap();
    assert!(matches!(&w.storage, Storage::Missing(why) if why.contains("`w`")));
}

#[test]
fn nodes_are_sorted_and_circles_refused() {
    let m = model(&graph(
        r#""inputs": ["x"], "outputs": ["z"], "nodes": [
           {"name": "second", "op": "B", "inputs": ["y"], "outputs": ["z"]}, {"name": "first", "op": "A", "inputs": ["x"], "outputs": ["y"]}]"#,
    ));
    assert_eq!(m.graph.nodes().iter().map(|n| &*n.name).collect::<Vec<_>>(), ["first", "second"]);
    let (kind, why) = refused(&graph(
        r#""inputs": [], "outputs": [], "nodes": [
           {"name": "a", "op": "A", "inputs": ["q"], "outputs": ["p"]}, {"name": "b", "op": "A", "inputs": ["p"], "outputs": ["q"]}]"#,
    ));
    assert_eq!(kind, ImportErrorKind::InvalidGraph);
    assert!(why.contains("nodes") && why.contains("`a` → `b` → `a`") || why.contains("`b` → `a` → `b`"), "{why}");
}

#[test]
fn a_chain_of_20000_out_of_order() {
    let mut nodes: Vec<String> =
        (0..20_000).map(|i| format!(r#"{{"op": "Neg", "inputs": ["v{i}"], "outputs": ["v{}"]}}"#, i + 1)).collect();
    nodes.reverse();
    let text = graph(&format!(r#""dialect": "onnx", "inputs": ["v0"], "outputs": ["v20000"], "nodes": [{}]"#, nodes.join(",")));
    let m = model(&text);
    assert_eq!(m.graph.nodes().len(), 20_000);
    assert_eq!(m.graph.producer(m.graph.outputs()[0]), Some(NodeId(19_999)));
}

#[test]
fn bodies_read_what_is_around_them() {
    let m = model(&graph(
        r#""dialect": "onnx", "inputs": ["c", "x"], "outputs": ["y"], "nodes": [
           {"name": "n", "op": "Neg", "inputs": ["x"], "outputs": ["h"]},
           {"name": "if", "op": "If", "inputs": ["c"], "outputs": ["y"], "bodies": [
             {"attr": "then_branch", "outputs": ["t"], "nodes": [{"op": "Abs", "inputs": ["h"], "outputs": ["t"]}]},
             {"attr": "else_branch", "outputs": ["x"], "captures": {"outer x": "x"}, "nodes": [
                {"op": "Add", "inputs": ["outer x", "h"], "outputs": ["x"]}]}]}]"#,
    ));
    let node = m.graph.node(NodeId(1));
    let captured: Vec<&str> = node.captures.iter().map(|v| &*m.graph.value(*v).name).collect();
    assert_eq!(captured, ["h", "x"]);
    // Bodies that no attribute holds are attributes of their own.
    assert_eq!(node.attr("else_branch"), Some(&AttrValue::Body(1)));
    let body = &node.bodies[1].graph;
    let add = body.node(NodeId(0));
    let ValueKind::Captured { outer } = body.value(add.inputs[0].unwrap()).kind else { panic!("not captured") };
    assert_eq!(&*m.graph.value(outer).name, "x");
}

#[test]
fn every_kind_of_attribute() {
    let m = model(&graph(
        r#""nodes": [{"op": "f", "inputs": ["x"], "bodies": [{"attr": "g"}], "attrs": {
            "none": null, "yes": true, "i": 3, "f": 1.0, "t": "text", "is": [1, 2], "fs": [1, 2.5], "ts": ["a", "b"], "e": [],
            "mixed": [1, null, {"input": 0}, [2]], "f1": {"float": 1}, "nan": {"float": "-Infinity"}, "fe": {"floats": []},
            "se": {"strings": []}, "b": {"bytes": "AP8="}, "l": {"list": [1]}, "ty": {"type": "f32"}, "r": {"reference": "q"},
            "w": {"tensor": {"dtype": "i64", "data": [5, 6]}}, "ws": {"tensors": []}, "g": {"body": 0}, "gs": {"bodies": [0]}}}],
            "inputs": ["x"]"#,
    ));
    let node = m.graph.node(NodeId(0));
    let text = |s: &str| -> Box<[u8]> { s.as_bytes().into() };
    let want = [
        ("none", AttrValue::None),
        ("yes", AttrValue::Bool(true)),
        ("i", AttrValue::Int(3)),
        ("f", AttrValue::Float(1.0)),
        ("t", AttrValue::Bytes(text("text"))),
        ("is", AttrValue::Ints([1, 2].into())),
        ("fs", AttrValue::Floats([1.0, 2.5].into())),
        ("ts", AttrValue::ByteStrings([text("a"), text("b")].into())),
        ("e", AttrValue::Ints([].into())),
        ("mixed", AttrValue::List([AttrValue::Int(1), AttrValue::None, AttrValue::Input(0), AttrValue::Ints([2].into())].into())),
        ("f1", AttrValue::Float(1.0)),
        ("nan", AttrValue::Float(f64::NEG_INFINITY)),
        ("fe", AttrValue::Floats([].into())),
        ("se", AttrValue::ByteStrings([].into())),
        ("b", AttrValue::Bytes([0u8, 255].into())),
        ("l", AttrValue::List([AttrValue::Int(1)].into())),
        ("ty", AttrValue::Type("f32".into())),
        ("r", AttrValue::Reference("q".into())),
        ("w", AttrValue::Tensor(WeightRef::inline(DType::I64, &[2], [5i64, 6].iter().flat_map(|n| n.to_le_bytes()).collect()))),
        ("ws", AttrValue::Tensors([].into())),
        ("g", AttrValue::Body(0)),
        ("gs", AttrValue::Bodies([0].into())),
    ];
    for (name, value) in &want {
        assert_eq!(node.attr(name), Some(value), "{name}");
    }
    assert_eq!(node.attrs.len(), want.len());
    // And out again.
    let again = round_trip(&m, Path::new("."));
    assert_same(&again.model, &m);
}

#[test]
fn columns_belong_to_nodes_by_id() {
    let Imported { model: m, diagnostics } = read(&graph(
        r#""inputs": ["x"], "nodes": [{"name": "a", "op": "f", "inputs": ["x"], "outputs": ["y"]}, {"op": "g", "outputs": ["z"]}],
        "columns": {"latency": {"unit": "us", "values": {"a": 12.5, "z": 3}}, "where": {"values": {"a": "npu", "z": 1, "nobody": "x"}},
                    "code": {"kind": "text", "values": {"a": 7}}}"#,
    ))
    .unwrap();
    assert_eq!(m.columns[0].heading(), "latency (us)");
    assert_eq!(m.columns[0].data, ColumnData::Numbers([Some(12.5), Some(3.0)].into()));
    assert_eq!(m.columns[1].data, ColumnData::Texts([Some("npu".into()), Some("1".into())].into()));
    assert_eq!(m.columns[2].data, ColumnData::Texts([Some("7".into()), None].into()));
    let said: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.code == "column_without_node").collect();
    assert!(said.len() == 1 && said[0].message.contains("`nobody`"), "{said:?}");
    assert_eq!(round_trip(&m, Path::new(".")).model.columns, m.columns);
}

#[test]
fn faults_are_told_with_their_place() {
    let node =
        |rest: &str| graph(&format!(r#""inputs": ["x"], "nodes": [{{"op": "A", "outputs": ["a"]}}, {{"name": "n", "op": "B", {rest}}}]"#));
    let cases = [
        (node(r#""inputs": ["x", "what"]"#), "nodes[1].inputs[1]", "node `n` reads value `what`"),
        (node(r#""inputs": [5]"#), "nodes[1].inputs[0]", "expected a string"),
        (node(r#""intputs": []"#), "nodes[1].intputs", "unknown field `intputs`"),
        (node(r#""outputs": ["a"]"#), "nodes[1].outputs[0]", "nodes[0].outputs[0] makes it already"),
        (node(r#""outputs": ["x"]"#), "nodes[1].outputs[0]", "inputs[0] has that name"),
        (node(r#""attrs": {"a": 1, "a": 2}"#), "nodes[1].attrs.a", "twice"),
        (node(r#""attrs": {"a": {"input": 0}}"#), "nodes[1].attrs.a.input", "no input 0 of a node with 0"),
        (node(r#""attrs": {"a": {"body": 0}}"#), "nodes[1].attrs.a.body", "no body 0"),
        (node(r#""attrs": {"a": {"tensr": 0}}"#), "nodes[1].attrs.a.tensr", "no kind of attribute"),
        (node(r#""attrs": {"a": 9223372036854775808}"#), "nodes[1].attrs.a", "64-bit"),
        (node(r#""attrs": {"a": [1, {"tensor": {"dtype": "f32"}}]}"#), "nodes[1].attrs.a[1].tensor", "neither a `shape` nor `data`"),
        (node(r#""dialect": "openvino""#), "nodes[1].dialect", "onnx, aten and json"),
        (node(r#""bodies": [{"attr": "b", "nodes": [{"op": "C", "inputs": ["q"]}]}]"#), "nodes[1].bodies[0].nodes[0].inputs[0]", "`q`"),
        (node(r#""call": -1"#), "nodes[1].call", "invalid value"),
        (graph(r#""nodes": [{"name": "n"}]"#), "nodes[0]", "missing field `op`"),
        (graph(r#""nodes": [{"op": 7}]"#), "nodes[0]", "an operator is a text"),
        (graph(r#""nodes": [], "outputs": ["y"]"#), "outputs[0]", "`y` is made by no node"),
        (graph(r#""nodes": [], "inputs": ["x", "x"]"#), "inputs[1]", "inputs[0] has that name"),
        (graph(r#""nodes": [], "initializers": {"w": {"dtype": "f33", "shape": []}}"#), "initializers.w.dtype", "`f33` is no element type"),
        (graph(r#""nodes": [], "initializers": {"w": {"dtype": "i8", "data": [1, 128]}}"#), "initializers.w.data[1]", "128 is no i8"),
        (graph(r#""nodes": [], "initializers": {"w": {"dtype": "f32", "shape": [3], "data": [1]}}"#), "initializers.w.data", "1 elements"),
        (graph(r#""nodes": [], "initializers": {"w": {"dtype": "f32", "shape": [2], "data": "AAAA"}}"#), "initializers.w.data", "3 bytes"),
        (
            graph(r#""nodes": [], "initializers": {"w": {"dtype": "f32", "shape": [2, 18446744073709551615], "zeros": true}}"#),
            "initializers.w",
            "64 bits can count",
        ),
        (
            graph(r#""nodes": [], "initializers": {"w": {"dtype": "f32", "shape": [2], "zeros": true, "data": [1, 2]}}"#),
            "initializers.w",
            "more than one",
        ),
        (graph(r#""nodes": [], "modules": {"a.b": {"parent": "q"}}"#), "modules.a.b", "does not stand before"),
        (
            graph(r#""nodes": [{"name": "n", "op": "A"}], "columns": {"c": {"kind": "number", "values": {"n": "fast"}}}"#),
            "columns.c.values.n",
            "no number",
        ),
        (graph(r#""nodes": [{"op": "A",]"#), "nodes[0]", "no JSON"),
    ];
    for (text, place, what) in cases {
        let (kind, why) = refused(&text);
        assert!(why.starts_with(&format!("{place}: ")) || why.starts_with(&format!("{place} (line 1): ")), "{place}: {why}");
        assert!(why.contains(what), "{what}: {why}");
        assert!(matches!(kind, ImportErrorKind::InvalidGraph | ImportErrorKind::Corrupt), "{kind:?}");
    }
}

#[test]
fn other_json_is_named() {
    for (text, what) in [
        ("{}", "no `format`"),
        (r#"{"format": 3, "version": 1}"#, "no `format`"),
        (r#"{"format": "x\u001b[2J", "nodes": []}"#, "`x\\u{1b}[2J`"),
        (r#"{"version": 1, "torch_executed_ops": ["Relu"]}"#, "--config"),
        (r#"{"format": "recut.graph", "version": 2, "things": []}"#, "version 2"),
    ] {
        let (kind, why) = refused(text);
        assert!(kind == ImportErrorKind::NotAModel && why.contains(what), "{why}");
    }
    assert_eq!(refused(&"[".repeat(100_000)).0, ImportErrorKind::NotAModel);
    let deep = format!(r#"{{"format": "recut.graph", "version": 1, "nodes": [{{"op": "a", "attrs": {{"x": {}"#, "[".repeat(100_000));
    let (kind, why) = refused(&deep);
    assert!(kind == ImportErrorKind::TooLarge && why.contains("nested too deeply"), "{kind:?} {why}");
    // A byte order mark, and white space.
    assert!(read(&format!("\u{feff}\n  {}", graph(r#""nodes": []"#))).is_ok());
}

#[test]
fn cut_off_texts_are_corrupt_wherever_the_cut_is() {
    let text = graph(
        r#""inputs": ["x"], "nodes": [{"op": "A", "inputs": ["x"], "attrs": {"é": [1, 2.5, "a\"b"]}}], "values": {"x": {"shape": [1, "n"]}}"#,
    );
    for end in 3..text.len() {
        if let Some(cut) = text.get(..end) {
            let (_, why) = refused(cut);
            assert!(why.contains("JSON"), "{why}");
        }
    }
}

#[test]
fn data_in_other_files_follows_the_rules_of_external_data() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(dir.path().join("secret.bin"), [1u8; 16]).unwrap();
    std::fs::write(sub.join("w.bin"), (0u8..16).collect::<Vec<_>>()).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret.bin", sub.join("link.bin")).unwrap();
    let weight = |rest: &str| {
        let path = sub.join("g.json");
        let text = graph(&format!(r#""nodes": [], "initializers": {{"w": {{"dtype": "u8", {rest}}}}}"#));
        std::fs::write(&path, text).unwrap();
        let imported = open(&path).unwrap();
        let w = imported.model.graph.value(imported.model.graph.find_value("w").unwrap()).weight().unwrap().clone();
        (w, imported.diagnostics)
    };
    let (w, d) = weight(r#""shape": [4], "file": "w.bin", "offset": 2"#);
    assert_eq!((w.read().unwrap(), d.len()), (vec![2, 3, 4, 5], 0));
    let (w, _) = weight(r#""shape": [2, 3], "strides": [1, 2], "file": "w.bin", "offset": 1, "length": 6"#);
    assert_eq!((w.strides.as_deref(), w.read().unwrap()), (Some(&[1i64, 2][..]), vec![1, 2, 3, 4, 5, 6]));
    let mut bad = vec![
        (r#""shape": [4], "file": "../secret.bin""#, "leads outside"),
        (r#""shape": [4], "file": "/etc/passwd""#, "absolute path"),
        (r#""shape": [4], "file": "file:w.bin""#, "URL"),
        (r#""shape": [4], "file": "none.bin""#, "does not exist"),
        (r#""shape": [4], "file": ".""#, "directory itself"),
        (r#""shape": [4], "file": "w.bin", "offset": 13"#, "lie outside"),
        (r#""shape": [4], "file": "w.bin", "offset": 18446744073709551615"#, "lie outside"),
        (r#""shape": [4], "file": "w.bin", "length": 5"#, "ask for 4"),
        (r#""shape": [2, 9], "strides": [9, 1], "file": "w.bin""#, "lie outside"),
    ];
    if cfg!(unix) {
        bad.push((r#""shape": [4], "file": "link.bin""#, "link that leads outside"));
    }
    for (text, what) in bad {
        let (w, d) = weight(text);
        assert!(matches!(&w.storage, Storage::Missing(why) if why.contains(what)), "{what}: {:?}", w.storage);
        assert_eq!(d[0].code, "missing_weight");
    }
    // A file that is not the one that was meant.
    let path = sub.join("g.json");
    let text =
        graph(r#""nodes": [], "files": {"w.bin": {"bytes": 15}}, "initializers": {"w": {"dtype": "u8", "shape": [4], "file": "w.bin"}}"#);
    std::fs::write(&path, text).unwrap();
    assert!(open(&path).unwrap().diagnostics[0].message.contains("16 bytes and not the 15"));
}

/// Writes a model into `folder` and opens that.
fn round_trip(m: &Model, folder: &Path) -> Imported {
    let dir = if folder == Path::new(".") { tempfile::tempdir().unwrap() } else { tempfile::tempdir_in(folder).unwrap() };
    // Beside what it refers to.
    let path = if folder == Path::new(".") { dir.path().join("m.json") } else { folder.join("round-trip.json") };
    let mut text = Vec::new();
    export::json::write(m, path.parent().unwrap(), &mut text).unwrap();
    std::fs::write(&path, &text).unwrap();
    let read = open(&path).unwrap();
    // Written again it is the same text, apart from where it is from.
    let mut again = Vec::new();
    export::json::write(&read.model, path.parent().unwrap(), &mut again).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), String::from_utf8(again).unwrap());
    read
}

fn assert_same_weight(a: &WeightRef, b: &WeightRef, what: &str) {
    assert_eq!((a.dtype, &a.shape, &a.strides), (b.dtype, &b.shape, &b.strides), "{what}");
    match (&a.storage, &b.storage) {
        (Storage::Strings(x), Storage::Strings(y)) => assert_eq!(x, y, "{what}"),
        (Storage::Missing(_), Storage::Missing(_)) => {}
        _ => assert_eq!(a.read().unwrap(), b.read().unwrap(), "{what}"),
    }
}

fn assert_same_attr(a: &AttrValue, b: &AttrValue, what: &str) {
    match (a, b) {
        (AttrValue::Tensor(x), AttrValue::Tensor(y)) => assert_same_weight(x, y, what),
        (AttrValue::Tensors(x), AttrValue::Tensors(y)) => x.iter().zip(y).for_each(|(x, y)| assert_same_weight(x, y, what)),
        (AttrValue::Float(x), AttrValue::Float(y)) => assert_eq!(x.to_bits(), y.to_bits(), "{what}"),
        (AttrValue::Floats(x), AttrValue::Floats(y)) => {
            let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(x), bits(y), "{what}");
        }
        _ => assert_eq!(a, b, "{what}"),
    }
}

fn assert_same_graph(a: &Graph, b: &Graph) {
    assert_eq!((a.name(), a.inputs(), a.outputs()), (b.name(), b.inputs(), b.outputs()));
    assert_eq!(a.nodes().len(), b.nodes().len());
    for (i, (x, y)) in a.nodes().iter().zip(b.nodes()).enumerate() {
        let what = format!("node {i} {}", y.name);
        assert_eq!((&x.name, &x.op, &x.inputs, &x.outputs, &x.captures), (&y.name, &y.op, &y.inputs, &y.outputs, &y.captures), "{what}");
        assert_eq!((x.module, x.call, &x.torch_op, &x.fx_node), (y.module, y.call, &y.torch_op, &y.fx_node), "{what}");
        assert_eq!((&x.stack_trace, x.ordinal, x.opset), (&y.stack_trace, y.ordinal, y.opset), "{what}");
        assert_eq!(x.attrs.len(), y.attrs.len(), "{what}");
        for (p, q) in x.attrs.iter().zip(&y.attrs) {
            assert_eq!(p.name, q.name, "{what}");
            assert_same_attr(&p.value, &q.value, &what);
        }
        assert_eq!(x.bodies.len(), y.bodies.len(), "{what}");
        for (p, q) in x.bodies.iter().zip(&y.bodies) {
            assert_eq!(p.attr, q.attr);
            assert_same_graph(&p.graph, &q.graph);
        }
    }
    assert_eq!(a.values().len(), b.values().len());
    for (x, y) in a.values().iter().zip(b.values()) {
        assert_eq!((&x.name, x.ty, x.dtype, &x.shape), (&y.name, y.ty, y.dtype, &y.shape));
        match (&x.kind, &y.kind) {
            (ValueKind::Initializer(p), ValueKind::Initializer(q))
            | (ValueKind::Input { default: Some(p) }, ValueKind::Input { default: Some(q) }) => assert_same_weight(p, q, &x.name),
            (p, q) => assert_eq!(p, q),
        }
    }
}

fn assert_same(a: &Model, b: &Model) {
    assert_same_graph(&a.graph, &b.graph);
    assert_eq!(a.graph_sha256(), b.graph_sha256());
    assert_eq!((&a.opsets, &a.ir_version, &a.producer, a.stored_nodes), (&b.opsets, &b.ir_version, &b.producer, b.stored_nodes));
    // Of a key that stands twice the last text counts.
    let metadata = |m: &Model| m.metadata.iter().cloned().collect::<std::collections::BTreeMap<_, _>>();
    assert_eq!((&a.program, metadata(a), &a.columns, &a.symbols), (&b.program, metadata(b), &b.columns, &b.symbols));
    let modules = |m: &Model| -> Vec<_> {
        m.modules.modules().iter().map(|m| (m.path.clone(), m.class.clone(), m.parent, m.nodes.clone())).collect()
    };
    assert_eq!(modules(a), modules(b));
}

/// A copy of a folder's files, so that a graph may refer to them.
fn copied(folder: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let mut copies = Vec::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let from = entry.unwrap().path();
        let to = dir.path().join(from.file_name().unwrap());
        if from.is_file() && from.extension().is_some_and(|e| e == "onnx" || e == "pt2" || e == "data") {
            std::fs::copy(&from, &to).unwrap();
            copies.push(to);
        }
    }
    copies.sort();
    (dir, copies)
}

/// Opens, writes and opens again what can be opened in a folder; gives the number of files and the names of those that
/// came back as something else.
fn survivors(folder: &str, largest: u64) -> (usize, Vec<String>) {
    let (dir, files) = copied(folder);
    let (mut seen, mut lost) = (0, Vec::new());
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e != "data")) {
        if std::fs::metadata(file).unwrap().len() > largest {
            continue;
        }
        let Ok(Imported { model: m, .. }) = open(file) else { continue };
        seen += 1;
        let same = std::panic::catch_unwind(|| assert_same(&round_trip(&m, dir.path()).model, &m));
        if same.is_err() {
            lost.push(file.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    (seen, lost)
}

#[test]
fn real_models_survive_the_round_trip() {
    let (seen, lost) = survivors("../tests/models", u64::MAX);
    assert!(seen >= 15 && lost.is_empty(), "{seen} {lost:?}");
}

#[test]
fn hostile_models_survive_the_round_trip() {
    // Larger ones have nothing that these have not.
    let (seen, lost) = survivors("../tests/cases", 200_000);
    assert!(seen >= 100 && lost.is_empty(), "{seen} {lost:?}");
}
