//! One mark means the same in the torch and in the ONNX form of a model, wherever the file still knows.
//!
//! The forms have different nodes, so that selections are compared by the modules they lie in. More models are compared if
//! `RECUT_MODEL_PAIRS` names a folder with `NAME.pt2` and `NAME.onnx`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recut_core::import;
use recut_core::select::{Bare, SelectContext, Selector, SelectorIndex};

struct Opened {
    index: SelectorIndex,
}

impl Opened {
    fn new(path: &Path) -> Self {
        let model = import::open(path).unwrap_or_else(|e| panic!("{e}")).model;
        Self { index: SelectorIndex::new(&Arc::new(model)) }
    }

    /// Paths of the modules of the selected nodes.
    fn modules(&self, selector: &str) -> BTreeSet<String> {
        let selector = Selector::parse(selector, Bare::ByForm).unwrap_or_else(|e| panic!("{selector}: {e}"));
        let selected = selector.eval(&self.index, &SelectContext::default()).unwrap_or_else(|e| panic!("{e}"));
        let m = self.index.model();
        selected.nodes.iter().map(|n| m.modules.module(m.graph.node(n).module).path.to_string()).collect()
    }

    /// Number of selected nodes.
    fn count(&self, selector: &str) -> usize {
        let selector = Selector::parse(selector, Bare::ByForm).unwrap_or_else(|e| panic!("{selector}: {e}"));
        selector.eval(&self.index, &SelectContext::default()).unwrap_or_else(|e| panic!("{e}")).nodes.count()
    }

    fn classes(&self) -> BTreeSet<String> {
        let modules = self.index.model().modules.modules().iter();
        modules.filter(|m| m.total_nodes > 0).filter_map(|m| m.class.as_ref().map(ToString::to_string)).collect()
    }

    fn paths(&self) -> BTreeSet<String> {
        let modules = self.index.model().modules.modules().iter();
        modules.filter(|m| !m.nodes.is_empty()).map(|m| m.path.to_string()).collect()
    }

    /// Full names of the torch operators of the main graph, in place or not as one.
    fn torch_ops(&self) -> BTreeSet<String> {
        let ops = self.index.model().graph.nodes().iter().filter_map(|n| n.torch_op.as_deref());
        ops.filter_map(|op| op.rsplit_once('.')).map(|(name, _)| name.trim_end_matches('_').to_owned()).collect()
    }
}

fn models(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name)
}

fn pairs() -> Vec<(PathBuf, PathBuf)> {
    let mut pairs: Vec<_> = [
        ("tiny_cnn.pt2", "tiny_cnn_ext.onnx"),
        ("tiny_bf16.pt2", "tiny_bf16.onnx"),
        ("tiny_names.pt2", "tiny_names.onnx"),
        ("tiny_repeat.pt2", "tiny_repeat.onnx"),
        ("tiny_transformer.pt2", "tiny_transformer.onnx"),
        ("tiny_cond.pt2", "tiny_cond.onnx"),
        ("tiny_dynamic.pt2", "tiny_dynamic.onnx"),
    ]
    .map(|(a, b)| (models(a), models(b)))
    .into();
    if let Some(dir) = std::env::var_os("RECUT_MODEL_PAIRS") {
        let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let torch = entries.filter(|p| p.extension().is_some_and(|e| e == "pt2") && p.with_extension("onnx").exists());
        pairs.extend(torch.map(|p| (p.clone(), p.with_extension("onnx"))));
    }
    pairs
}

#[test]
fn classes_modules_and_operators_select_alike() {
    let mut compared = 0;
    let mut faults = Vec::new();
    for (torch, onnx) in pairs() {
        let name = torch.display().to_string();
        let (torch, onnx) = (Opened::new(&torch), Opened::new(&onnx));
        // An exporter drops modules that compute nothing and folds others: what both files have must agree.
        let both: BTreeSet<String> = torch.paths().intersection(&onnx.paths()).cloned().collect();
        let mut check = |a: &str, b: &str, folded: bool| {
            let common = |s: BTreeSet<String>| s.intersection(&both).cloned().collect::<BTreeSet<_>>();
            let (t, o) = (common(torch.modules(a)), common(onnx.modules(b)));
            compared += 1;
            if t != o && !(folded && o.is_subset(&t)) {
                let only = |x: &BTreeSet<String>, y: &BTreeSet<String>| x.difference(y).take(4).cloned().collect::<Vec<_>>();
                faults.push(format!("{name}: {a}: only torch {:?}, only ONNX {:?}", only(&t, &o), only(&o, &t)));
            }
        };
        for class in torch.classes().union(&onnx.classes()) {
            if class.contains('<') {
                continue;
            }
            check(class, class, false);
            if let Some(last) = class.rsplit('.').next().filter(|_| class.starts_with("torch.nn.")) {
                check(&format!("torch.nn.{last}"), &format!("torch.nn.{last}"), false);
            }
        }
        for path in &both {
            if path.is_empty() {
                continue;
            }
            check(&format!("module:\"{path}\""), &format!("module:\"{path}\""), false);
            if let Some((parent, _)) = path.split_once('.') {
                check(&format!("module:{parent}.**"), &format!("module:{parent}.**"), false);
            }
        }
        // ONNX exporters make programs functional, fold constants, and decompose what ONNX does not have (to views, often).
        for op in torch.torch_ops().intersection(&onnx.torch_ops()) {
            let Some((namespace, op)) = op.split_once('.').filter(|(_, op)| !op.is_empty() && !op.starts_with('_') && *op != "view") else {
                continue;
            };
            for spelling in [format!("{namespace}::{op}"), format!("{namespace}.{op}"), format!("torch.ops.{namespace}.{op}")] {
                check(&format!("{spelling} or {spelling}_"), &spelling, true);
            }
        }
    }
    assert!(compared > 250, "{compared}");
    assert!(faults.is_empty(), "{} of {compared}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn all_spellings_of_an_operator_select_the_same_nodes() {
    let m = Opened::new(&models("tiny_cnn.pt2"));
    assert_eq!(m.count("aten::relu"), 6);
    let relu = m.modules("aten::relu");
    for spelling in
        ["torch.relu", "torch.ops.aten.relu.default", "aten.relu", "aten.relu.default", "op:relu", "op:Relu", "torch.Tensor.relu"]
    {
        assert_eq!((m.count(spelling), m.modules(spelling)), (6, relu.clone()), "{spelling}");
    }
    // One module works in place.
    assert_eq!(m.count("aten::relu_"), 1);
    assert_eq!(m.count("torch.nn.ReLU and op:relu_"), 1);
    assert_eq!(m.count("torch.nn.functional.relu"), 7, "either form, as its argument says");
}
