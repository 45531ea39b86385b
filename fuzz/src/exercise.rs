//! What the program does with a model between opening and running it.

use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use recut_core::config::{PartitionConfig, graph_sha256};
use recut_core::diagnostic::Diagnostic;
use recut_core::document::{Document, DocumentOptions};
use recut_core::export::dot::dot;
use recut_core::export::{json, onnx};
use recut_core::expr::Bindings;
use recut_core::graph::Graph;
use recut_core::import::{self, Imported};
use recut_core::lower;
use recut_core::model::Model;
use recut_core::partition::{Placement, Rule};
use recut_core::report::inspect::inspect;

use crate::scratch;

/// Weights up to this size are read.
const MAX_READ: u64 = 1 << 20;

/// Opens a file and does with it all that needs no engine. Whether it could be opened.
///
/// # Panics
/// If anything in the program panics, or a message could drive a terminal.
pub fn file(path: &Path) -> bool {
    match import::open(path) {
        Ok(imported) => {
            model(imported.model, imported.diagnostics);
            true
        }
        Err(e) => {
            harmless(&e.to_string());
            false
        }
    }
}

/// Inspects, lowers, partitions and reports a model.
///
/// # Panics
/// As [`file`].
pub fn model(model: Model, diagnostics: Vec<Diagnostic>) {
    let imported = Imported { model, diagnostics };
    for d in &imported.diagnostics {
        harmless(&d.message);
    }
    let dims = Bindings::from([("s0".to_owned(), 4), ("N".to_owned(), 2)]);
    let report = inspect(&imported.model, &imported.diagnostics, &dims);
    black_box(serde_json::to_string(&report).expect("a report is JSON"));
    black_box(graph_sha256(&imported.model));
    weights(&imported.model.graph);
    written_and_read(&imported.model);

    let document = Document::new(imported, config().clone(), DocumentOptions::default()).expect("the config suits every model");
    let model = document.model();
    for d in document.problems() {
        harmless(&d.message);
    }
    let plan = document.plan();
    black_box(dot(plan));
    black_box((plan.boundaries(), plan.counts(), document.bytes_across()));
    for node in model.graph.node_ids().take(64) {
        black_box(document.explain(node));
    }
    // The plan can run in the order of its partitions.
    for (index, partition) in plan.partitions.iter().enumerate() {
        assert_eq!(partition.index as usize, index, "partitions are in execution order");
    }
    for node in model.graph.node_ids() {
        let own = plan.partition_of_node(node);
        for before in model.graph.predecessors(node) {
            assert!(plan.partition_of_node(before) <= own, "a partition reads what a later one makes");
        }
    }
    // The bound is that of the colouring, which size rules and groups change.
    let as_coloured = !plan.rule.iter().any(|r| matches!(r, Rule::MinBlockSize | Rule::AtomicGroup(_)));
    let accelerated = plan.partitions.iter().filter(|p| p.kind == Placement::Accelerated).count();
    assert!(accelerated >= plan.lower_bound as usize || !as_coloured, "fewer partitions than the proven fewest");

    lowered(model, &dims);
}

/// The model as engines take it.
fn lowered(model: &Arc<Model>, dims: &Bindings) {
    black_box(lower::support(model));
    let lowered = lower::lower(model);
    written_as_onnx(&lowered);
    let Some(lowering) = &lowered.lowering else { return };
    for (_, why) in &lowering.missing {
        harmless(why);
    }
    let mut last = None;
    for id in lowered.graph.node_ids() {
        let source = lowering.source_node(id);
        assert!(last <= Some(source), "the nodes of a source node stand together");
        last = Some(source);
        for before in lowered.graph.predecessors(id) {
            assert!(before < id, "nodes are in topological order");
        }
        black_box(lowering.inner_positions(lowered.graph.node(id)));
    }
    black_box(serde_json::to_string(&inspect(&lowered, &[], dims)).expect("a report is JSON"));
    black_box(graph_sha256(&lowered));
}

/// As a recut graph file, the model is the same.
fn written_and_read(model: &Model) {
    let mut text = Vec::new();
    let Some(folder) = model.path.parent() else { return };
    // Graphs that are nested too deeply to be read again are refused.
    let Ok(_) = json::write(model, folder, &mut text) else { return };
    match import::open(scratch::second_file(&text)) {
        Ok(again) => assert_eq!(graph_sha256(&again.model), graph_sha256(model), "another graph was written"),
        Err(e) => panic!("what was written is not read: {e}"),
    }
}

/// As an ONNX file, where ONNX can say it, the model opens again.
fn written_as_onnx(model: &Model) {
    let mut file = Bounded(Vec::new());
    match onnx::write_to(model, &mut file) {
        Ok(_) => {
            if let Err(e) = import::open(scratch::second_file(&file.0)) {
                panic!("what was written is not read: {e}");
            }
        }
        Err(e) => harmless(&e.to_string()),
    }
}

/// A file that takes so much and no more: a model of a few bytes may have zeros without end.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > 1 << 22 {
            return Err(io::Error::other("the file is full"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn weights(graph: &Graph) {
    for weight in graph.values().iter().filter_map(|v| v.weight()).filter(|w| w.byte_len() <= MAX_READ) {
        match weight.read() {
            Ok(bytes) => drop(black_box(bytes)),
            Err(e) => harmless(&e.to_string()),
        }
    }
}

/// Marks of all kinds that every model takes, without a name that could be ambiguous.
fn config() -> &'static PartitionConfig {
    static CONFIG: OnceLock<PartitionConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let text = r#"{"version": 1, "backend": "tensorrt", "torch_executed_ops": ["op:*relu*", "op:Add", "op:aten::mul"],
            "torch_executed_modules": ["class:*Linear", "module:layer*"], "torch_executed_nodes": ["node:*1"],
            "accelerated_nodes": ["node:*2"], "leaf_modules": ["module:*"], "partitioner": {"min_block_size": 2}, "dims": {"s0": 4}}"#;
        let (config, _) = PartitionConfig::load(text, "fuzz.json").expect("the config is one");
        config
    })
}

/// Text from a file must not reach a terminal as it is.
///
/// # Panics
/// If the text has a control character.
pub fn harmless(message: &str) {
    assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "a message with control characters: {message:?}");
}
