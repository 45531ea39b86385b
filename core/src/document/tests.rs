use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::Strategy as PartitionStrategy;
use crate::diagnostic::Severity;
use crate::graph::NodeId;
use crate::import::Imported;
use crate::model::Model;
use crate::partition::Placement;
use crate::select::SelectError;
use crate::testing::ModelBuilder;

/// conv1 -> relu1 -> conv2 -> relu2 -> gap -> fc, in modules `layer1`, `layer2` and `head`.
fn net() -> Model {
    ModelBuilder::new()
        .node("/layer1/conv", "Conv", &["x", "w.1"], &["a"])
        .module("layer1.conv", "torch.nn.modules.conv.Conv2d")
        .node("/layer1/relu", "Relu", &["a"], &["b"])
        .module("layer1.relu", "torch.nn.modules.activation.ReLU")
        .node("/layer2/conv", "Conv", &["b", "w.2"], &["c"])
        .module("layer2.conv", "torch.nn.modules.conv.Conv2d")
        .node("/layer2/relu", "Relu", &["c"], &["d"])
        .module("layer2.relu", "torch.nn.modules.activation.ReLU")
        .node("/head/gap", "GlobalAveragePool", &["d"], &["e"])
        .module("head.gap", "")
        .node("/head/fc", "Gemm", &["e", "w.3"], &["y"])
        .module("head.fc", "torch.nn.modules.linear.Linear")
        .build()
}

fn open(model: Model, config: PartitionConfig) -> Document {
    open_with(model, config, DocumentOptions::default()).unwrap()
}

fn open_with(model: Model, config: PartitionConfig, options: DocumentOptions) -> Result<Document, DocumentError> {
    Document::new(Imported { model, diagnostics: Vec::new() }, config, options)
}

fn torch(d: &Document) -> String {
    let graph = &d.model().graph;
    let ids = graph.node_ids().filter(|&n| d.plan().placement_of_node(n) == Placement::Torch);
    ids.map(|n| graph.stable_id(n)).collect::<Vec<_>>().join(" ")
}

fn mark(d: &mut Document, list: MarkList, text: &str) -> Result<Change, DocumentError> {
    let edit = Edit::mark(d.config(), list, &[text]).map_err(|source| DocumentError::Select { list: list.name().into(), source })?;
    d.apply(edit)
}

fn node(d: &Document, id: &str) -> NodeId {
    d.index().node(id).unwrap()
}

#[test]
fn a_mark_plans_again_and_says_what_changed() {
    let mut d = open(net(), PartitionConfig::default());
    assert_eq!(torch(&d), "");
    let change = mark(&mut d, MarkList::TorchNodes, "node:/layer1/relu").unwrap();
    assert_eq!((change.accelerated, change.torch, change.nodes_replaced), ((1, 2), (0, 1), 1));
    assert_eq!(change.bytes_across, (Some(0), Some(32)), "4 floats in, 4 floats out");
    assert_eq!(d.config().torch_executed_nodes, ["/layer1/relu"]);
    assert_eq!(torch(&d), "/layer1/relu");
    mark(&mut d, MarkList::TorchOps, "torch.nn.ReLU").unwrap();
    assert_eq!(torch(&d), "/layer1/relu /layer2/relu");
    mark(&mut d, MarkList::AcceleratedNodes, "/layer1/relu").unwrap();
    assert_eq!((torch(&d), d.config().torch_executed_nodes.len()), ("/layer2/relu".to_owned(), 0), "pins exclude each other");
    assert!(d.is_dirty());
    d.mark_saved();
    assert!(!d.is_dirty());
    d.undo().unwrap();
    assert!(d.is_dirty());
    assert_eq!(torch(&d), "/layer1/relu /layer2/relu");
    d.redo().unwrap();
    assert!(!d.is_dirty());
    assert_eq!(d.redo(), None);
}

#[test]
fn a_mark_is_written_the_same_however_it_was_made() {
    let mut by_key = open(net(), PartitionConfig::default());
    let id = crate::select::selector_for_node(by_key.model(), node(&by_key, "/layer1/relu"));
    mark(&mut by_key, MarkList::TorchNodes, &id).unwrap();
    mark(&mut by_key, MarkList::TorchModules, "module:layer2").unwrap();
    let mut by_option = open(net(), PartitionConfig::default());
    mark(&mut by_option, MarkList::TorchNodes, "/layer1/relu").unwrap();
    mark(&mut by_option, MarkList::TorchModules, "layer2").unwrap();
    assert_eq!(by_key.config().to_json_string(), by_option.config().to_json_string());
    assert!(mark(&mut by_key, MarkList::TorchModules, "layer2").unwrap().nodes_replaced == 0);
    assert_eq!(by_key.history().len(), 2, "what is there already is no edit");
}

#[test]
fn a_failing_edit_changes_nothing() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchNodes, "/layer1/relu").unwrap();
    let before = (d.config().clone(), d.plan().clone());
    let mut edit = Edit::mark(d.config(), MarkList::TorchNodes, &["/layer2/relu"]).unwrap();
    edit.patches.push(Patch::Remove { list: MarkList::TorchOps, index: 7, text: "x".into() });
    assert!(matches!(d.apply(edit), Err(DocumentError::Config(_))));
    let ambiguous = Edit::wrap(d.config(), None, &["nothing like it"]).unwrap_err();
    assert!(matches!(ambiguous, SelectError::Syntax { .. }));
    let empty = Edit::wrap(d.config(), None, &["module:nothing"]).unwrap();
    assert!(matches!(d.apply(empty), Err(DocumentError::Wrap(WrapError::Empty { .. }))));
    let open_ended = Edit::wrap(d.config(), None, &["node:/layer1/conv or node:/layer2/conv"]).unwrap();
    match d.apply(open_ended) {
        Err(DocumentError::Wrap(WrapError::NotConvex { closing, .. })) => {
            assert_eq!(closing, ["/layer1/relu"]);
            let closed = crate::select::closed_selector("node:/layer1/conv or node:/layer2/conv", &closing).unwrap();
            let edit = Edit::wrap(d.config(), None, &[&closed]).unwrap();
            assert_eq!(d.apply(edit).unwrap().opaque, (0, 1));
            d.undo().unwrap();
        }
        other => panic!("{other:?}"),
    }
    let small = PartitionerConfig { min_block_size: 0, ..d.config().partitioner.clone() };
    let e = d.apply(Edit::set_partitioner(d.config(), small)).unwrap_err();
    assert!(e.to_string().contains("partitioner.min_block_size"), "{e}");
    assert_eq!(*d.config(), before.0);
    assert_eq!((&d.plan().placement, &d.plan().partition_of), (&before.1.placement, &before.1.partition_of));
    assert_eq!(d.history().len(), 1);
}

#[test]
fn wraps_take_the_lowest_unused_id_and_keep_it() {
    let mut d = open(net(), PartitionConfig::default());
    for select in ["module:layer1", "module:layer2"] {
        let edit = Edit::wrap(d.config(), None, &[select]).unwrap();
        d.apply(edit).unwrap();
    }
    let ids = |d: &Document| -> Vec<String> { d.view().wraps().iter().map(|w| w.id.to_string()).collect() };
    assert_eq!(ids(&d), ["InlinedCustomOp_0", "InlinedCustomOp_1"]);
    let edit = Edit::unwrap(d.config(), "InlinedCustomOp_0").unwrap();
    d.apply(edit).unwrap();
    let edit = Edit::wrap(d.config(), Some("head"), &["module:head"]).unwrap();
    d.apply(edit).unwrap();
    let mut now = ids(&d);
    now.sort_unstable();
    assert_eq!(now, ["InlinedCustomOp_0", "InlinedCustomOp_1"]);
    assert_eq!(d.config().definitions.keys().collect::<Vec<_>>(), ["InlinedCustomOp", "head"]);
    let edit = Edit::unwrap(d.config(), "InlinedCustomOp_1").unwrap();
    d.apply(edit).unwrap();
    assert_eq!(d.config().definitions.keys().collect::<Vec<_>>(), ["head"], "a definition that says nothing goes with its last instance");
    assert_eq!(Edit::unwrap(d.config(), "InlinedCustomOp_1"), None);
    d.undo().unwrap();
    assert_eq!(d.config().definitions.keys().collect::<Vec<_>>(), ["InlinedCustomOp", "head"], "and comes back to its place");
}

#[test]
fn clearing_asks_where_a_rule_reaches_further() {
    let mut d = open(net(), PartitionConfig::default());
    let relu = node(&d, "/layer1/relu");
    assert_eq!(Edit::clear(&d, &[relu]), Clear::Nothing);
    mark(&mut d, MarkList::TorchNodes, "/layer1/relu").unwrap();
    let Clear::Edit(edit) = Edit::clear(&d, &[relu]) else { panic!() };
    assert_eq!(edit.patches, [Patch::Remove { list: MarkList::TorchNodes, index: 0, text: "/layer1/relu".into() }]);
    mark(&mut d, MarkList::TorchOps, "op:Relu").unwrap();
    let Clear::Choose(entries) = Edit::clear(&d, &[relu]) else { panic!() };
    let found: Vec<_> = entries.iter().map(|e| (e.list, &*e.text, e.nodes)).collect();
    assert_eq!(found, [(MarkList::TorchOps, "Relu", 2), (MarkList::TorchNodes, "/layer1/relu", 1)]);
    let all: Vec<_> = entries.iter().map(|e| (e.list, e.index)).collect();
    let edit = Edit::remove_entries(d.config(), &all);
    d.apply(edit).unwrap();
    assert_eq!(torch(&d), "");
}

#[test]
fn problems_name_marks_without_effect() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchOps, "op:Rellu").unwrap();
    mark(&mut d, MarkList::TorchNodes, "/layer1/relu").unwrap();
    let edit = Edit::wrap(d.config(), None, &["module:layer1"]).unwrap();
    d.apply(edit).unwrap();
    let problems = d.problems();
    let with = |code: &str| problems.iter().find(|p| p.code == code).unwrap_or_else(|| panic!("{code} in {problems:?}"));
    assert!(with("mark_matches_nothing").message.contains("op:Relu"), "{problems:?}");
    assert!(with("inert_pin").message.contains("InlinedCustomOp_0"), "{problems:?}");
    assert_eq!(with("inert_pin").severity, Severity::Warning);
    assert_eq!(d.problem_counts(), (0, 2));
}

#[test]
fn strict_makes_errors_of_marks_that_match_nothing() {
    let strict = DocumentOptions { strict: true, ..DocumentOptions::default() };
    let config = PartitionConfig { torch_executed_ops: vec!["Rellu".into()], ..PartitionConfig::default() };
    match open_with(net(), config, strict.clone()).unwrap_err() {
        DocumentError::NoMatch { list, nearest, .. } => assert_eq!((&*list, &*nearest[0]), ("torch_executed_ops[0]", "op:Relu")),
        e => panic!("{e}"),
    }
    let mut d = open_with(net(), PartitionConfig::default(), strict).unwrap();
    assert!(matches!(mark(&mut d, MarkList::TorchModules, "layer3"), Err(DocumentError::NoMatch { .. })));
}

#[test]
fn a_config_that_cannot_be_used_is_refused() {
    let bad = PartitionConfig { torch_executed_ops: vec!["(".into()], ..PartitionConfig::default() };
    assert!(matches!(open_with(net(), bad, DocumentOptions::default()), Err(DocumentError::Config(_))));
    let unknown = PartitionConfig { backend: Some("no such backend".into()), ..PartitionConfig::default() };
    let e = open_with(net(), unknown, DocumentOptions::default()).unwrap_err();
    assert!(e.to_string().contains("no such backend"), "{e}");
    let plan_dependent = PartitionConfig { torch_executed_ops: vec!["partition:run_on_acc_0".into()], ..PartitionConfig::default() };
    let e = open_with(net(), plan_dependent, DocumentOptions::default()).unwrap_err();
    assert!(e.to_string().starts_with("torch_executed_ops[0]: "), "{e}");
}

#[test]
fn marks_are_attached_again_after_a_reload_and_nothing_is_dropped() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchNodes, "/layer1/relu").unwrap();
    mark(&mut d, MarkList::TorchModules, "layer2").unwrap();
    let edit = Edit::wrap(d.config(), None, &["module:head"]).unwrap();
    d.apply(edit).unwrap();
    let config = d.config().clone();
    let smaller = ModelBuilder::new().node("new", "Neg", &["x"], &["z"]).node("/layer1/relu", "Relu", &["z"], &["b"]).build();
    let reloaded = d.reload(Imported { model: smaller, diagnostics: Vec::new() }).unwrap();
    assert_eq!(reloaded.added, 1);
    assert_eq!(reloaded.gone, net().graph.nodes().len() - 1);
    assert_eq!(reloaded.lost, ["layer2", "module:head"]);
    assert_eq!(reloaded.moved, ["/layer1/relu"], "its input is another value now");
    assert_eq!(torch(&d), "/layer1/relu");
    assert_eq!(*d.config(), config);
    let lost: Vec<_> = d.problems().into_iter().filter(|p| p.code == "mark_matches_nothing").collect();
    assert_eq!(lost.len(), 2, "{lost:?}");
    d.undo().unwrap();
    d.undo().unwrap();
    d.undo().unwrap();
    assert_eq!((torch(&d), d.undo()), (String::new(), None));
    while d.redo().is_some() {}
    assert_eq!(*d.config(), config);
    d.reload(Imported { model: net(), diagnostics: Vec::new() }).unwrap();
    assert_eq!(torch(&d), "/layer1/relu /layer2/conv /layer2/relu");
    assert_eq!(d.view().wraps().len(), 1);
}

#[test]
fn explanations_name_the_mark_and_the_node_inside_a_body() {
    let body = crate::testing::model(&[("inner", "Relu", &["a"], &["b"])]).graph;
    let model = ModelBuilder::new()
        .node("c", "Not", &["x"], &["cond"])
        .node("branch", "If", &["cond"], &["y"])
        .body("then_branch", body, &[])
        .build();
    let mut d = open(model, PartitionConfig::default());
    mark(&mut d, MarkList::TorchOps, "op:Relu").unwrap();
    let steps = d.explain(node(&d, "branch"));
    let decided = steps.iter().find(|s| s.decided).unwrap();
    assert!(decided.step == 3 && decided.text.contains("`Relu`") && decided.text.contains("contains(inner)"), "{decided:?}");
    assert_eq!(steps.len(), 5);
}

#[test]
fn leaf_modules_bind_each_instance_by_itself() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::LeafModules, "layer*").unwrap();
    assert_eq!(d.marks().leaf_modules.len(), 2);
    mark(&mut d, MarkList::TorchNodes, "/layer1/conv").unwrap();
    assert_eq!(torch(&d), "/layer1/conv /layer1/relu");
}

#[test]
fn a_config_for_another_graph_is_noted_and_saving_names_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let model = crate::config::ModelRef { file: "other.onnx".into(), graph_sha256: "0".repeat(64) };
    let mut d = open(net(), PartitionConfig { model: Some(model), ..PartitionConfig::default() });
    assert_eq!(d.problems().iter().filter(|p| p.code == "model_mismatch").count(), 1);
    let path = dir.path().join("c.json");
    d.save(&path).unwrap();
    assert!(d.problems().is_empty() && !d.is_dirty());
    let (read, _) = PartitionConfig::open(&path).unwrap();
    assert_eq!(read, *d.config());
    assert_eq!(read.model.unwrap().graph_sha256, d.model_sha256());
}

#[test]
fn a_reload_of_the_same_model_is_no_news() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchModules, "layer2").unwrap();
    let reloaded = d.reload(Imported { model: net(), diagnostics: Vec::new() }).unwrap();
    assert_eq!((reloaded.gone, reloaded.added), (0, 0));
    assert!(reloaded.lost.is_empty() && reloaded.moved.is_empty(), "{reloaded:?}");
}

#[cfg(unix)]
#[test]
fn a_recovery_file_is_found_however_the_path_is_spelled() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    let model = dir.path().join("a/m.onnx");
    std::fs::write(&model, "").unwrap();
    std::os::unix::fs::symlink(&model, dir.path().join("link.onnx")).unwrap();
    let name = Recovery::file_name(&model);
    assert_eq!(Recovery::file_name(&dir.path().join("a/../a/./m.onnx")), name);
    assert_eq!(Recovery::file_name(&dir.path().join("link.onnx")), name);
    std::fs::write(dir.path().join("a/n.onnx"), "").unwrap();
    assert_ne!(Recovery::file_name(&dir.path().join("a/n.onnx")), name);
}

#[test]
fn recovery_brings_config_and_history_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(Recovery::file_name(std::path::Path::new("m.onnx")));
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchOps, "Relu").unwrap();
    mark(&mut d, MarkList::TorchModules, "head").unwrap();
    d.undo().unwrap();
    let kept = d.recovery(Some(std::path::Path::new("c.json")));
    kept.write(&path).unwrap();
    let read = Recovery::load(&path).unwrap();
    assert_eq!(read, kept);
    let mut back = Document::restore(Imported { model: net(), diagnostics: Vec::new() }, read, DocumentOptions::default()).unwrap();
    assert!(back.is_dirty());
    assert_eq!(torch(&back), torch(&d));
    back.redo().unwrap();
    assert_eq!(back.config().torch_executed_modules, ["head"]);
    back.undo().unwrap();
    back.undo().unwrap();
    assert!(!back.is_dirty());
    std::fs::write(&path, "{").unwrap();
    assert!(Recovery::load(&path).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn a_whole_config_can_be_put_in_place_of_another() {
    let mut d = open(net(), PartitionConfig::default());
    for (list, text) in [(MarkList::TorchOps, "Relu"), (MarkList::LeafModules, "head")] {
        mark(&mut d, list, text).unwrap();
    }
    let edit = Edit::wrap(d.config(), Some("a"), &["module:layer1", "module:layer2"]).unwrap();
    d.apply(edit).unwrap();
    let edit = Edit::set_dim(d.config(), "batch", Some(2));
    d.apply(edit).unwrap();
    let from = d.config().clone();
    let mut to = PartitionConfig { torch_executed_modules: vec!["layer1".into()], ..from.clone() };
    to.wraps[0].instances.swap(0, 1);
    to.definitions.insert("spare".into(), to.definitions["a"].clone());
    to.dims.clear();
    to.dims.extend([("seq".to_owned(), 5), ("batch".to_owned(), 3)]);
    to.run.threads = Some(2);
    to.partitioner = PartitionerConfig { strategy: PartitionStrategy::MinPartitions, min_block_size: 2, require_full_compilation: false };
    let edit = Edit::replace(&from, &to, "reload config");
    d.apply(edit).unwrap();
    assert_eq!(d.config().to_json_string(), to.to_json_string());
    d.undo().unwrap();
    assert_eq!(d.config().to_json_string(), from.to_json_string());
}

/// An action of a person, on a model of the property tests.
#[derive(Clone, Debug)]
enum Act {
    Toggle(MarkList, usize),
    Wrap(usize, usize),
    Unwrap(usize),
    Clear(usize),
    Dim(usize, Option<i64>),
    MinBlockSize(u32),
    Undo,
    Redo,
}

fn act() -> impl Strategy<Value = Act> {
    let list = proptest::sample::select(MarkList::ALL.to_vec());
    prop_oneof![
        4 => (list, 0usize..10).prop_map(|(l, i)| Act::Toggle(l, i)),
        2 => (0usize..12, 0usize..12).prop_map(|(a, b)| Act::Wrap(a, b)),
        1 => (0usize..4).prop_map(Act::Unwrap),
        1 => (0usize..12).prop_map(Act::Clear),
        1 => (0usize..3, proptest::option::of(0i64..5)).prop_map(|(n, d)| Act::Dim(n, d)),
        1 => (1u32..4).prop_map(Act::MinBlockSize),
        1 => Just(Act::Undo),
        1 => Just(Act::Redo),
    ]
}

/// A graph of 12 nodes in three modules with these extra edges.
fn random_net(edges: &[(usize, usize)]) -> Model {
    let mut b = ModelBuilder::new();
    for n in 0..12 {
        let mut inputs: BTreeSet<String> = edges.iter().filter(|(f, t)| *t == n && *f < n).map(|(f, _)| format!("v{f}")).collect();
        if inputs.is_empty() {
            inputs.insert("x".into());
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let op = ["Sum", "Max", "Mean"][n % 3];
        b = b.node(&format!("n{n}"), op, &inputs, &[&format!("v{n}")]).module(["a", "a.b", "c"][n / 4], "");
    }
    b.build()
}

const TEXTS: [&str; 10] =
    ["op:Sum", "Max", "module:a", "module:a.b", "node:n3", "n4", "\"n5\"", "op:Mean and module:c", "upstream(node:n7, 1)", "node:n1*"];

fn perform(d: &mut Document, act: &Act) {
    let config = d.config().clone();
    let edit = match act {
        Act::Toggle(list, text) => Edit::toggle(&config, *list, &[TEXTS[*text]]).ok(),
        Act::Wrap(a, b) => {
            Edit::wrap(&config, Some(["p", "q"][a % 2]), &[&format!("between(node:n{}, node:n{})", a.min(b), a.max(b))]).ok()
        }
        Act::Unwrap(i) => config.wraps.iter().flat_map(|g| &g.instances).nth(*i).and_then(|w| Edit::unwrap(&config, &w.id)),
        Act::Clear(n) => match Edit::clear(d, &[NodeId::new(*n)]) {
            Clear::Edit(e) => Some(e),
            Clear::Choose(entries) => Some(Edit::remove_entries(&config, &[(entries[0].list, entries[0].index)])),
            Clear::Nothing => None,
        },
        Act::Dim(n, size) => Some(Edit::set_dim(&config, ["d", "e", "f"][*n], *size)),
        Act::MinBlockSize(n) => {
            Some(Edit::set_partitioner(&config, PartitionerConfig { min_block_size: *n, ..config.partitioner.clone() }))
        }
        Act::Undo => return drop(d.undo()),
        Act::Redo => return drop(d.redo()),
    };
    if let Some(edit) = edit {
        // Many wraps are refused; then nothing may change, which the end of the test sees.
        let _ = d.apply(edit);
    }
}

proptest! {
    #[test]
    fn undoing_all_edits_gives_the_original_and_redoing_them_the_result(
        edges in proptest::collection::vec((0usize..12, 0usize..12), 0..24),
        acts in proptest::collection::vec(act(), 0..25),
    ) {
        let mut start = PartitionConfig::default();
        start.dims.extend([("d".to_owned(), 1), ("e".to_owned(), 2)]);
        start.torch_executed_ops.push("op:Sum".into());
        let mut d = open(random_net(&edges), start.clone());
        let plan_at_start = d.plan().clone();
        for a in &acts {
            perform(&mut d, a);
            d.config().validate().unwrap();
        }
        let (config, plan) = (d.config().to_json_string(), d.plan().clone());
        let fresh = open(random_net(&edges), d.config().clone());
        prop_assert_eq!(&fresh.plan().placement, &plan.placement);
        prop_assert_eq!(&fresh.plan().partition_of, &plan.partition_of);
        while let Some(change) = d.undo() {
            prop_assert!(!change.label.contains("cannot"), "{}", change.label);
        }
        prop_assert_eq!(d.config().to_json_string(), start.to_json_string());
        prop_assert_eq!(&d.plan().placement, &plan_at_start.placement);
        prop_assert_eq!(&d.plan().partition_of, &plan_at_start.partition_of);
        prop_assert!(!d.is_dirty());
        let mut undone = d.recovery(None).undone;
        undone.reverse();
        while d.redo().is_some() {}
        prop_assert_eq!(d.history(), &undone[..]);
        if !acts.iter().any(|a| matches!(a, Act::Undo | Act::Redo)) {
            prop_assert_eq!(d.config().to_json_string(), config);
            prop_assert_eq!(&d.plan().partition_of, &plan.partition_of);
        }
    }

    #[test]
    fn the_order_of_marks_changes_no_plan(
        edges in proptest::collection::vec((0usize..12, 0usize..12), 0..24),
        marks in proptest::collection::vec((proptest::sample::select(MarkList::ALL.to_vec()), 0usize..10), 0..8).prop_shuffle(),
        seed in any::<u64>(),
    ) {
        let config = |marks: &[(MarkList, usize)]| {
            let mut c = PartitionConfig::default();
            for (list, i) in marks {
                list.entries_mut(&mut c).push(TEXTS[*i].to_owned());
            }
            c
        };
        let mut other = marks.clone();
        other.sort_by_key(|(l, i)| (*l as u64 * 31 + *i as u64 * 17).wrapping_mul(seed | 1));
        let (a, b) = (open(random_net(&edges), config(&marks)), open(random_net(&edges), config(&other)));
        prop_assert_eq!(&a.plan().placement, &b.plan().placement);
        prop_assert_eq!(&a.plan().partition_of, &b.plan().partition_of);
    }
}

#[test]
fn instances_and_arcs_stay_shared_when_nothing_touches_them() {
    let mut d = open(net(), PartitionConfig::default());
    mark(&mut d, MarkList::TorchOps, "Relu").unwrap();
    let (view, set) = (d.view().clone(), d.marks().torch_executed_ops[0].clone());
    mark(&mut d, MarkList::TorchNodes, "/head/fc").unwrap();
    assert!(Arc::ptr_eq(&view, d.view()), "marks leave the effective graph alone");
    assert!(Arc::ptr_eq(&set, &d.marks().torch_executed_ops[0]), "a selector is resolved once");
    let plan = d.plan().clone();
    let run = RunConfig { engine: "tract".into(), ..RunConfig::default() };
    d.apply(Edit::set_run(d.config(), run)).unwrap();
    assert!(Arc::ptr_eq(&plan, d.plan()), "how to run is no matter of the plan");
}

#[test]
fn the_backend_decides_and_a_table_of_the_user_comes_before_it() {
    let mut d = open(net(), PartitionConfig::default());
    let edit = Edit::set_backend(d.config(), Some("tensorrt"));
    d.apply(edit).unwrap();
    assert_eq!(d.backend().map(|b| b.name.to_string()).as_deref(), Some("tensorrt"));
    assert_eq!(d.support().map(|s| s.len()), Some(6));
    let e = d.apply(Edit::set_backend(d.config(), Some("tensort"))).unwrap_err();
    assert!(e.to_string().contains("did you mean `tensorrt`"), "{e}");
    assert_eq!(d.config().backend.as_deref(), Some("tensorrt"));
    d.undo().unwrap();
    assert!(d.backend().is_none() && d.support().is_none());

    let table = r#"{"format": 1, "backend": "mine", "dialect": "onnx", "source": {"project": "test"},
        "ops": [{"op": "Conv", "domain": "", "since": null, "dtypes": null, "dynamic_shapes": null, "condition": null},
                {"op": "Gemm", "domain": "", "since": null, "dtypes": null, "dynamic_shapes": null, "condition": "only on Tuesdays"}]}"#;
    let own = |text: &str| DocumentOptions { support_file: Some((text.into(), "mine.json".into())), ..DocumentOptions::default() };
    let d = open_with(net(), PartitionConfig::default(), own(table)).unwrap();
    assert_eq!(torch(&d), "/layer1/relu /layer2/relu /head/gap");
    let conditional = d.problems().into_iter().find(|p| p.code == "conditional_support").unwrap();
    assert!(conditional.message.contains("only on Tuesdays") && conditional.node.as_deref() == Some("/head/fc"), "{conditional:?}");
    let strict = DocumentOptions { strict_support: true, ..own(table) };
    assert_eq!(torch(&open_with(net(), PartitionConfig::default(), strict).unwrap()), "/layer1/relu /layer2/relu /head/gap /head/fc");
    let e = open_with(net(), PartitionConfig::default(), own("{")).unwrap_err();
    assert!(e.to_string().contains("mine.json"), "{e}");
}
