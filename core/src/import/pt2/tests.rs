//! Real archives of several torch releases.

use std::path::{Path, PathBuf};

use super::super::{ImportErrorKind, OpenOptions, open, open_with};
use crate::graph::{AttrValue, Dialect, ValueKind, ValueType};
use crate::import::Imported;
use crate::model::Model;
use crate::weights::Storage;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name)
}

fn model(name: &str) -> Model {
    open(&sample(name)).unwrap().model
}

/// The bytes of the weight called `name` as `f32` numbers, in storage order.
fn weight(m: &Model, name: &str) -> Vec<f32> {
    let v = m.graph.values().iter().find(|v| &*v.name == name).unwrap_or_else(|| panic!("no {name}"));
    let bytes = v.weight().unwrap().read().unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn nodes_keep_name_target_arguments_module_and_source() {
    let m = model("tiny_cnn.pt2");
    assert_eq!((m.graph.nodes().len(), m.graph.inputs().len(), m.graph.outputs().len()), (30, 1, 1));
    let node = m.graph.node(m.graph.find_node("conv2d").unwrap());
    assert_eq!((node.op.dialect, node.op.to_string().as_str()), (Dialect::Aten, "aten.conv2d.default"));
    let conv = m.modules.module(node.module);
    assert_eq!((&*conv.path, conv.class.as_deref()), ("conv1", Some("torch.nn.modules.conv.Conv2d")));
    assert_eq!(node.attr("input"), Some(&AttrValue::Input(0)));
    assert_eq!(node.ints("stride"), Some(&[2, 2][..]));
    assert!(node.stack_trace.as_deref().unwrap().contains("in forward"));
    let input = m.graph.value(m.graph.inputs()[0]);
    assert_eq!((&*input.name, input.shape.to_string().as_str()), ("x", "[2,3,32,32]"));
}

#[test]
fn symbolic_sizes_are_dimensions_and_scalars_no_tensors() {
    let m = model("tiny_dynamic.pt2");
    assert_eq!(m.graph.value(m.graph.inputs()[0]).shape.to_string(), "[s77,s27,12]");
    let mul = m.graph.value(m.graph.find_value("mul").unwrap());
    assert_eq!(mul.ty, ValueType::Scalar);
    let reshape = m.graph.node(m.graph.find_node("reshape").unwrap());
    assert_eq!(m.graph.value(reshape.outputs[0].unwrap()).shape.to_string(), "[s27*s77,16]");
    let AttrValue::List(shape) = reshape.attr("shape").unwrap() else { panic!("{:?}", reshape.attr("shape")) };
    assert_eq!(**shape, [AttrValue::Input(1), AttrValue::Int(16)]);
    assert!(m.metadata.iter().any(|(k, v)| k == "range of s77" && v == "1 to 64"), "{:?}", m.metadata);
    let facts = m.symbols["s77"];
    assert_eq!((facts.hint, facts.min, facts.max, facts.range().as_deref()), (Some(3), Some(1), Some(64), Some("1 to 64")));
    assert!(facts.allows(64) && !facts.allows(65) && !facts.allows(0));
    let error = m.check_sizes(&crate::expr::Bindings::from([("s77".to_owned(), 65)])).unwrap_err();
    assert!(error.starts_with("`s77` cannot be 65: the model was exported for 1 to 64"), "{error}");
}

#[test]
fn in_place_results_are_new_values_and_changed_state_is_returned() {
    let m = model("tiny_edge.pt2");
    let names: Vec<&str> = m.graph.outputs().iter().map(|&v| &*m.graph.value(v).name).collect();
    assert_eq!(names, ["add_3", "sum_2", "output_3", "add_"], "None is no data; the step count comes last");
    let ValueKind::Initializer(two) = &m.graph.value(m.graph.outputs()[2]).kind else { panic!("not a constant") };
    assert_eq!(two.read().unwrap(), 2i64.to_le_bytes());
    let inputs: Vec<&str> = m.graph.inputs().iter().map(|&v| &*m.graph.value(v).name).collect();
    assert_eq!(inputs, ["x", "opts.bias"], "pytree paths");
    // The functional form of the same model returns the same.
    let d = model("tiny_edge_decomp.pt2");
    assert_eq!(d.graph.outputs().len(), 4);
    assert_eq!(&*d.graph.value(d.graph.outputs()[3]).name, "add", "mutations are stored first and returned last");
}

#[test]
fn weights_are_views_of_storages() {
    let m = model("tiny_edge.pt2");
    let by_name = |name: &str| m.graph.values().iter().find(|v| &*v.name == name).unwrap().weight().unwrap().clone();
    assert_eq!(by_name("transposed").strides.as_deref(), Some(&[1, 8][..]));
    let row = by_name("row");
    assert_eq!((row.strides.is_none(), &*row.shape), (true, &[8][..]));
    let Storage::File { len, .. } = row.storage else { panic!("{row:?}") };
    assert_eq!(len, 32, "a row of a larger storage");
    assert_eq!(by_name("empty").elements(), 0);
}

#[test]
fn nested_graphs_are_bodies_whose_inputs_are_the_operands() {
    let m = model("tiny_cond.pt2");
    let cond = m.graph.nodes().iter().find(|n| &*n.op.name == "cond").unwrap();
    assert_eq!(cond.op.to_string(), "higher_order.cond");
    assert_eq!(cond.bodies.len(), 2);
    assert_eq!((cond.attr("arg1"), cond.attr("arg2")), (Some(&AttrValue::Body(0)), Some(&AttrValue::Body(1))));
    let body = &cond.bodies[0].graph;
    assert_eq!(body.inputs().len() + 1, cond.inputs.len(), "the predicate is no operand");
    assert!(body.nodes().iter().any(|n| &*n.op.name == "relu"));
    assert_eq!(model("tiny_while.pt2").graph.nodes()[1].bodies.len(), 2);
}

#[test]
fn calls_of_a_shared_module_are_told_apart() {
    let m = model("tiny_repeat.pt2");
    let calls = |path: &str| {
        let module = m.modules.find(path).unwrap();
        m.graph.nodes().iter().filter(|n| n.module == module).map(|n| n.call).collect::<Vec<_>>()
    };
    assert_eq!(calls("block.0"), [Some(0), Some(1)]);
    assert_eq!(calls("alias.0"), [None], "called once");
    assert!(m.modules.find("dict.a-b").is_some());
}

#[test]
fn several_programs_are_offered_by_name() {
    let open_named = |name: Option<&str>| open_with(&sample("tiny_two.pt2"), &OpenOptions { model_name: name.map(str::to_owned) });
    let first = open_named(None).unwrap();
    assert_eq!(first.model.program.as_deref(), Some("first"));
    assert!(first.diagnostics.iter().any(|d| d.code == "several_programs" && d.message.contains("second")), "{:?}", first.diagnostics);
    assert_eq!(open_named(Some("second")).unwrap().model.program.as_deref(), Some("second"));
    let e = open_named(Some("third")).unwrap_err();
    assert!(e.message.contains("first, second"), "{e}");
}

#[test]
fn pickled_weights_of_older_releases_are_read_without_loading_anything() {
    let old = model("old_cnn_2.8.0.pt2");
    let weights = old.graph.values().iter().filter_map(|v| v.weight());
    for w in weights {
        assert!(matches!(w.storage, Storage::File { .. }), "{w:?}");
        assert_eq!(w.read().unwrap().len() as u64, w.byte_len());
    }
    let older = open(&sample("old_misc_2.4.1.pt2")).unwrap();
    assert!(older.diagnostics.iter().all(|d| !d.code.starts_with("weight")), "{:?}", older.diagnostics);
    let bias = weight(&older.model, "lin.bias");
    assert!(!bias.is_empty() && bias.iter().all(|x| x.is_finite() && x.abs() < 10.0), "{bias:?}");
}

#[test]
fn what_cannot_be_read_says_which_version_or_entry() {
    let e = open(&sample("old_cnn_2.1.2.pt2")).unwrap_err();
    assert_eq!(e.kind, ImportErrorKind::NotAModel);
    assert!(e.message.contains("schema 1") && e.message.contains("5 to 8"), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample("tiny_cond.pt2")).unwrap();
    for end in [0, 4, 30, 1000, bytes.len() / 2, bytes.len() - 1] {
        let path = dir.path().join("cut.pt2");
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert!(open(&path).is_err(), "cut at {end}");
    }
    // Any byte may be wrong: an error or a model, and no panic.
    for at in (0..bytes.len()).step_by(211) {
        let mut b = bytes.clone();
        b[at] ^= 0x5a;
        let path = dir.path().join("bad.pt2");
        std::fs::write(&path, &b).unwrap();
        let _: Result<Imported, _> = open(&path);
    }
}

#[test]
fn bare_infinities_become_texts_only_outside_of_texts() {
    let text = br#"{"a": -Infinity, "b\\": [NaN, Infinity], "Infinity": "a \" NaN"}"#.to_vec();
    let v: serde_json::Value = serde_json::from_slice(&super::quote_bare_numbers(text)).unwrap();
    assert_eq!((&v["a"], &v["Infinity"]), (&"-Infinity".into(), &"a \" NaN".into()));
}

/// The archive with every entry compressed, as other tools pack it.
fn deflated(name: &str, dir: &Path) -> PathBuf {
    use std::io::{Read, Write};
    let mut from = zip::ZipArchive::new(std::fs::File::open(sample(name)).unwrap()).unwrap();
    let path = dir.join(name);
    let mut to = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for i in 0..from.len() {
        let mut entry = from.by_index(i).unwrap();
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        to.start_file(entry.name().to_owned(), options).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        to.write_all(&bytes).unwrap();
    }
    to.finish().unwrap();
    path
}

#[test]
fn compressed_archives_hold_the_same_weights() {
    let dir = tempfile::tempdir().unwrap();
    // Raw entries with views of one storage; nested torch.save files of both older layouts.
    for name in ["tiny_edge.pt2", "old_cnn_2.8.0.pt2", "old_misc_2.4.1.pt2"] {
        let packed = open(&deflated(name, dir.path())).unwrap();
        assert!(packed.diagnostics.iter().all(|d| !d.code.starts_with("weight")), "{:?}", packed.diagnostics);
        let plain = model(name);
        let mut compared = 0;
        for (a, b) in plain.graph.values().iter().zip(packed.model.graph.values()) {
            let (Some(a), Some(b)) = (a.weight(), b.weight()) else { continue };
            assert_eq!((a.dtype, &a.shape, &a.strides), (b.dtype, &b.shape, &b.strides));
            if matches!(a.storage, Storage::File { .. }) {
                assert!(matches!(b.storage, Storage::Deflated { .. }), "{b:?}");
                assert_eq!(a.read().unwrap(), b.read().unwrap());
                compared += 1;
            }
        }
        assert!(compared > 3, "{name}: {compared}");
    }
}

#[test]
fn damaged_compressed_archives_are_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(deflated("old_misc_2.4.1.pt2", dir.path())).unwrap();
    let path = dir.path().join("bad.pt2");
    for at in (0..bytes.len()).step_by(97) {
        let mut b = bytes.clone();
        b[at] ^= 0xa5;
        std::fs::write(&path, &b).unwrap();
        if let Ok(opened) = open(&path) {
            for w in opened.model.graph.values().iter().filter_map(|v| v.weight()) {
                let _: Result<Vec<u8>, _> = w.read();
            }
        }
    }
}

#[test]
fn what_the_json_reader_quotes_cannot_drive_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"schema_version":{"major":8,"minor":2},"graph_module":{"graph":{"inputs":[{"as_\u001b[2J":1}]}}}"#;
    let e = open(&archive(dir.path(), text)).unwrap_err();
    assert!(e.message.contains("as_\\u{1b}[2J"), "{e}");
}

/// An archive of this program.
fn archive(dir: &Path, program: &str) -> PathBuf {
    use std::io::Write;
    let path = dir.join("program.pt2");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, bytes) in [("m/archive_format", "pt2"), ("m/models/model.json", program)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    path
}

/// A program of one input `x` of four numbers and these nodes: target, the value that is read, the value that is made.
fn program(nodes: &[(&str, String, String)]) -> Imported {
    let tensor = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let meta = |name: &str| {
        format!(
            r#""{name}":{{"dtype":7,"sizes":[{{"as_int":4}}],"requires_grad":false,"device":{{"type":"cpu","index":null}},"strides":[{{"as_int":1}}],"storage_offset":{{"as_int":0}},"layout":7}}"#
        )
    };
    let calls: Vec<String> = nodes
        .iter()
        .map(|(target, read, made)| {
            let (read, output) = (tensor(read), tensor(made));
            format!(
                r#"{{"name":"{made}","target":"torch.ops.aten.{target}.default","inputs":[{{"name":"self","arg":{read}}}],"outputs":[{output}],"metadata":{{}}}}"#
            )
        })
        .collect();
    let metas: Vec<String> = std::iter::once("x").chain(nodes.iter().map(|n| n.2.as_str())).map(meta).collect();
    let (x, last) = (tensor("x"), tensor(&nodes.last().unwrap().2));
    let text = format!(
        r#"{{"graph_module":{{"graph":{{"inputs":[{x}],"outputs":[{last}],"nodes":[{}],"tensor_values":{{{}}},"sym_int_values":{{}},"sym_bool_values":{{}},"is_single_tensor_return":false,"custom_obj_values":{{}}}},"signature":{{"input_specs":[{{"user_input":{{"arg":{x}}}}}],"output_specs":[{{"user_output":{{"arg":{last}}}}}]}},"module_call_graph":[]}},"opset_version":{{"aten":10}},"range_constraints":{{}},"schema_version":{{"major":8,"minor":2}},"dialect":"ATEN"}}"#,
        calls.join(","),
        metas.join(",")
    );
    let dir = tempfile::tempdir().unwrap();
    open(&archive(dir.path(), &text)).unwrap()
}

#[test]
fn twenty_thousand_writes_under_one_name_take_linear_time() {
    let nodes: Vec<_> = (0..20_000).map(|i| ("relu_", "x".to_owned(), format!("r{i}"))).collect();
    let m = program(&nodes).model;
    assert_eq!(m.graph.nodes().len(), 20_000);
    for pair in m.graph.nodes().windows(2) {
        assert_eq!(pair[1].input(0), pair[0].outputs[0]);
    }
}

#[test]
fn views_that_are_taken_again_and_again_have_names_of_their_own() {
    let mut nodes = vec![("detach", "x".to_owned(), "v".to_owned())];
    for i in 0..10_000 {
        nodes.push(("relu_", "x".to_owned(), format!("w{i}")));
        nodes.push(("neg", "v".to_owned(), format!("r{i}")));
    }
    let m = program(&nodes).model;
    assert_eq!(m.graph.nodes().len(), 1 + 3 * 10_000);
    let [.., again, read] = m.graph.nodes() else { panic!("no nodes") };
    assert_eq!((&*again.op.name, read.input(0)), ("detach", again.outputs[0]));
    assert_eq!(&*m.graph.value(again.outputs[0].unwrap()).name, "v_again#9999");
}

#[test]
fn a_value_without_a_name_gets_one() {
    let m = program(&[("relu", "x".to_owned(), String::new()), ("neg", String::new(), "#0".to_owned())]).model;
    let [relu, neg] = m.graph.nodes() else { panic!("two nodes") };
    assert_eq!(neg.input(0), relu.outputs[0]);
    let name = |n: &crate::graph::Node| m.graph.value(n.outputs[0].unwrap()).name.to_string();
    assert_eq!((name(relu), name(neg)), ("#0".to_owned(), "#0#1".to_owned()));
}

#[test]
fn writes_to_views_of_views_without_end_are_not_followed_and_said() {
    let chain = |depth: usize| {
        let name = |i: usize| if i == 0 { "x".to_owned() } else { format!("v{i}") };
        let mut nodes: Vec<_> = (0..depth).map(|i| ("detach", name(i), name(i + 1))).collect();
        for i in 0..500 {
            nodes.push(("relu_", name(depth), format!("w{i}")));
            nodes.push(("neg", "x".to_owned(), format!("r{i}")));
        }
        program(&nodes)
    };
    let lost = |i: &Imported| i.diagnostics.iter().any(|d| d.code == "in_place_view");
    let few = chain(3);
    assert!(!lost(&few) && few.model.graph.nodes().len() == 3 + 500 * (2 + 3), "{:?}", few.diagnostics);
    assert!(few.model.graph.values().iter().all(|v| v.name.len() < 32), "names do not grow");
    let many = chain(5000);
    assert!(lost(&many) && many.model.graph.nodes().len() == 5000 + 2 * 500, "{:?}", many.diagnostics);
}
