//! What is written is read back as the same model.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::dtype::DType;
use crate::graph::{AttrValue, Graph, Node, ValueId, ValueKind};
use crate::import::open;
use crate::modules::ModuleTree;
use crate::testing::ModelBuilder;
use crate::weights::{Storage, WeightRef};

/// Bytes of a tensor, dense, or its strings.
fn content(w: &WeightRef) -> Vec<u8> {
    if let Storage::Strings(all) = &w.storage {
        return all.iter().flat_map(|s| s.iter().copied().chain([0xff])).collect();
    }
    let mut out = Vec::new();
    payload::Copier::default().copy(w, &mut out).unwrap();
    out
}

fn same_tensor(a: &WeightRef, b: &WeightRef, what: &str) {
    assert_eq!((a.dtype, &a.shape), (b.dtype, &b.shape), "{what}");
    assert!(content(a) == content(b), "the bytes of {what} differ");
}

fn same_attr(a: &AttrValue, b: &AttrValue, what: &str) {
    match (a, b) {
        (AttrValue::Tensor(a), AttrValue::Tensor(b)) => same_tensor(a, b, what),
        (AttrValue::Tensors(a), AttrValue::Tensors(b)) => {
            assert_eq!(a.len(), b.len(), "{what}");
            a.iter().zip(b).for_each(|(a, b)| same_tensor(a, b, what));
        }
        // NaN is itself, too.
        (AttrValue::Float(a), AttrValue::Float(b)) => assert_eq!(a.to_bits(), b.to_bits(), "{what}"),
        (AttrValue::Floats(a), AttrValue::Floats(b)) => {
            let bits = |l: &[f64]| l.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(a), bits(b), "{what}");
        }
        (a, b) => assert_eq!(a, b, "{what}"),
    }
}

/// Pairs the values of two graphs by their uses, and compares everything on the way.
struct Same<'a> {
    a: &'a Graph,
    b: &'a Graph,
    pairs: HashMap<ValueId, ValueId>,
}

impl Same<'_> {
    fn value(&mut self, a: ValueId, b: ValueId) {
        if let Some(known) = self.pairs.insert(a, b) {
            assert_eq!(known, b, "`{}` became two values", self.a.value(a).name);
            return;
        }
        let (a, b) = (self.a.value(a), self.b.value(b));
        let known = types::is_known(self.a, a);
        let what = format!("value `{}`", a.name);
        assert_eq!(std::mem::discriminant(&a.kind), std::mem::discriminant(&b.kind), "{what}");
        if known {
            assert_eq!((a.ty, a.dtype, &a.shape), (b.ty, b.dtype, &b.shape), "{what}");
        }
        if let ValueKind::Initializer(x) | ValueKind::Input { default: Some(x) } = &a.kind
            && let ValueKind::Initializer(y) | ValueKind::Input { default: Some(y) } = &b.kind
        {
            same_tensor(x, y, &what);
        }
    }

    fn list(&mut self, a: &[Option<ValueId>], b: &[Option<ValueId>], what: &str) {
        assert_eq!(a.len(), b.len(), "{what}");
        for (a, b) in a.iter().zip(b) {
            match (a, b) {
                (Some(a), Some(b)) => self.value(*a, *b),
                (a, b) => assert_eq!(a, b, "{what}"),
            }
        }
    }

    fn node(&mut self, a: &Node, b: &Node, modules: Option<(&ModuleTree, &ModuleTree)>) {
        let what = format!("node `{}` ({})", a.name, a.op);
        assert_eq!((&a.name, &*a.op), (&b.name, &*b.op), "{what}");
        self.list(&a.inputs, &b.inputs, &what);
        self.list(&a.outputs, &b.outputs, &what);
        let name = |n: &Node, i: usize| n.attrs[i].name.replace("sparse_value", "value");
        assert_eq!(a.attrs.len(), b.attrs.len(), "{what}");
        for i in 0..a.attrs.len() {
            assert_eq!(name(a, i), name(b, i), "{what}");
            same_attr(&a.attrs[i].value, &b.attrs[i].value, &what);
        }
        assert_eq!((&a.torch_op, &a.fx_node, &a.stack_trace), (&b.torch_op, &b.fx_node, &b.stack_trace), "{what}");
        if let Some((ma, mb)) = modules {
            assert_eq!(ma.module(a.module).path, mb.module(b.module).path, "{what}");
            assert_eq!(a.call, b.call, "{what}");
        }
        assert_eq!(a.bodies.len(), b.bodies.len(), "{what}");
        for (x, y) in a.bodies.iter().zip(&b.bodies) {
            assert_eq!(x.attr, y.attr);
            same_graph(&x.graph, &y.graph, None);
        }
    }
}

fn same_graph(a: &Graph, b: &Graph, modules: Option<(&ModuleTree, &ModuleTree)>) {
    let mut same = Same { a, b, pairs: HashMap::new() };
    assert_eq!(a.inputs().len(), b.inputs().len());
    a.inputs().iter().zip(b.inputs()).for_each(|(&x, &y)| same.value(x, y));
    assert!(a.nodes().len() <= b.nodes().len());
    a.nodes().iter().zip(b.nodes()).for_each(|(x, y)| same.node(x, y, modules));
    // Nothing follows but copies of outputs.
    let copies: HashMap<ValueId, ValueId> = b.nodes()[a.nodes().len()..]
        .iter()
        .map(|n| {
            assert!(n.op.is_onnx("Identity"), "{}", n.op);
            (n.outputs[0].unwrap(), n.inputs[0].unwrap())
        })
        .collect();
    assert_eq!(a.outputs().len(), b.outputs().len());
    for (&x, y) in a.outputs().iter().zip(b.outputs()) {
        same.value(x, *copies.get(y).unwrap_or(y));
    }
    let initializers = |g: &Graph| g.values().iter().filter(|v| matches!(v.kind, ValueKind::Initializer(_))).count();
    assert_eq!(initializers(a), initializers(b));
    if modules.is_some() {
        for &v in a.inputs().iter().chain(a.outputs()).filter(|v| !a.value(**v).name.is_empty()) {
            assert_eq!(a.value(v).name, b.value(same.pairs[&v]).name);
        }
    }
}

fn same_model(a: &Model, b: &Model) {
    same_graph(&a.graph, &b.graph, Some((&a.modules, &b.modules)));
    let used = |t: &ModuleTree| {
        let used = t.modules().iter().filter(|m| m.total_nodes > 0 && !m.path.is_empty());
        let mut used: Vec<_> = used.map(|m| (m.path.to_string(), m.class.clone(), m.nodes.len())).collect();
        used.sort();
        used
    };
    assert_eq!(used(&a.modules), used(&b.modules));
    assert_eq!(a.metadata, b.metadata);
    for (domain, version) in &a.opsets {
        assert_eq!(b.opset(domain), Some(*version), "domain `{domain}`");
    }
}

/// Writes and reads.
fn round_trip(m: &Model, options: Options) -> Result<(tempfile::TempDir, Model, Written), ExportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.onnx");
    let written = write(m, &path, options)?;
    assert_eq!(std::fs::metadata(&path).unwrap().len(), written.bytes);
    if let Some((data, bytes)) = &written.data {
        assert_eq!(std::fs::metadata(data).unwrap().len(), *bytes);
    }
    let read = open(&path).unwrap_or_else(|e| panic!("{}: {e}", m.path.display()));
    Ok((dir, read.model, written))
}

fn models_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "onnx"));
    all.sort();
    all
}

#[test]
fn exported_models_come_back_as_they_were() {
    let mut seen = 0;
    for path in models_in("tests/models").into_iter().chain(models_in("sample-graphs")) {
        let original = open(&path).unwrap().model;
        for external_data in [false, true] {
            let (_dir, back, written) =
                round_trip(&original, Options { external_data }).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            same_model(&original, &back);
            seen += usize::from(written.data.is_some());
        }
    }
    assert!(seen > 2, "no model has a tensor that is stored beside it");
}

/// Cases with weights or attributes that cannot be read.
const REFUSED: &[&str] = &[
    "attr_ref_outside_function",
    "dims_huge_no_data",
    "dims_negative",
    "dims_overflow",
    "dtype_number_99",
    "dtype_undefined_0",
    "float_data_too_short",
    "no_data_at_all",
    "op_empty_type",
    "raw_not_multiple",
    "raw_too_long",
    "raw_too_short",
    "val_sparse_oob",
];

#[test]
fn awkward_models_come_back_as_they_were() {
    let mut refused = Vec::new();
    let mut compared = 0;
    for path in models_in("tests/cases") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Ok(original) = open(&path) else { continue };
        let original = crate::lower::lower(&std::sync::Arc::new(original.model));
        match round_trip(&original, Options::default()) {
            Ok((_dir, back, _)) => {
                let same = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| same_model(&original, &back)));
                assert!(same.is_ok(), "{name} (see above)");
                compared += 1;
            }
            Err(ExportError::Refused(_)) => refused.push(name),
            Err(e) => panic!("{name}: {e}"),
        }
    }
    assert_eq!(refused, REFUSED);
    assert!(compared > 150, "{compared}");
}

#[test]
fn calls_of_modules_and_what_nothing_is_known_of() {
    let m = ModelBuilder::new()
        .node("/a_1/Relu", "Relu", &["x"], &["h"])
        .module("a", "")
        .with(|n| n.call = Some(1))
        .node("/b/Neg", "Neg", &["h"], &["y"])
        .module("it's \"b\"", "net.B")
        .with(|n| (n.torch_op, n.stack_trace) = (Some("aten.neg.default".into()), Some("File \"a.py\", line 1".into())))
        .build();
    let (_dir, back, _) = round_trip(&m, Options::default()).unwrap();
    same_model(&m, &back);
    assert_eq!((back.graph.nodes()[0].call, &back.graph.nodes()[0].fx_node), (Some(1), &None));
}

#[test]
fn views_and_packed_elements_are_written_dense() {
    let mut view = WeightRef::inline(DType::I64, &[300, 2], (0..600i64).flat_map(i64::to_le_bytes).collect());
    view.strides = Some([1, 300].into());
    let packed = WeightRef::inline(DType::I4, &[3], vec![0x21, 0x03]);
    let strings: Box<[Box<[u8]>]> = Box::new([b"a".as_slice().into(), [].into(), [0xff, 0].into()]);
    let strings = WeightRef { storage: Storage::Strings(strings.into()), ..WeightRef::inline(DType::String, &[3], vec![]) };
    let zeros = WeightRef { storage: Storage::Zeros, ..WeightRef::inline(DType::F64, &[2, 100], vec![]) };
    let m = ModelBuilder::new()
        .node("n", "my::Op", &["x", "view", "packed", "strings", "zeros"], &["y"])
        .weight("view", view)
        .weight("packed", packed)
        .weight("strings", strings)
        .weight("zeros", zeros)
        .build();
    for external_data in [false, true] {
        let (_dir, back, written) = round_trip(&m, Options { external_data }).unwrap();
        same_model(&m, &back);
        // The view, and at the next cache line the zeros.
        assert_eq!(written.data.map(|(_, bytes)| bytes), external_data.then_some(4800 + 1600));
    }
    let mut stream = Vec::new();
    assert_eq!(write_to(&m, &mut stream).unwrap().bytes, stream.len() as u64);
}

#[test]
fn a_failed_export_leaves_both_older_files_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.onnx");
    std::fs::write(&path, "old model").unwrap();
    std::fs::write(data_path(&path), "old data").unwrap();
    let weights = dir.path().join("w.bin");
    std::fs::write(&weights, vec![0; 8000]).unwrap();
    let file = std::sync::Arc::new(crate::weights::DataFile::stat(&weights).unwrap());
    let storage = Storage::File { file, offset: 0, len: 8000 };
    let weight = WeightRef { storage, ..WeightRef::inline(DType::F32, &[2000], vec![]) };
    let m = ModelBuilder::new().node("n", "Add", &["x", "w.a"], &["y"]).weight("w.a", weight).build();
    std::fs::write(&weights, vec![0; 8001]).unwrap();
    for external_data in [false, true] {
        let e = write(&m, &path, Options { external_data }).unwrap_err();
        assert!(matches!(e, ExportError::Weight(WeightError::Changed(_))), "{e}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"old model");
    assert_eq!(std::fs::read(data_path(&path)).unwrap(), b"old data");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
}
