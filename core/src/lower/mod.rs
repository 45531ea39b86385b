//! Torch graphs in ONNX form: what engines execute and what `export --to onnx` writes.
//!
//! Every node of the source becomes a run of ONNX nodes that stand together, or none at all where nothing is left to
//! compute (dropout in inference, assertions). A [`Lowering`] keeps which node came from which, so that engines, timings
//! and errors speak of the user's nodes. What cannot be lowered keeps its torch operator and is listed with the reason;
//! the graph stays whole.

mod call;
mod level;
mod ops;
pub mod schemas;
mod values;
mod walk;

use std::sync::Arc;

use crate::graph::{Dialect, Graph, Node, NodeId, ValueId};
use crate::model::{Format, Model};
use crate::support::{Support, SupportMap};

/// Version of the standard operator set that is written: the newest that all runtimes of the last years read.
pub const OPSET: i64 = 20;

/// How a lowered model came to be. Positions of nodes inside control flow count all nodes of the bodies in depth-first
/// order, a node before those of its own bodies, the bodies of a node in their order.
#[derive(Clone, Debug)]
pub struct Lowering {
    /// The model it was made from.
    pub source: Arc<Model>,
    /// The source node of every node.
    nodes: Vec<NodeId>,
    /// By source node, where its nodes begin; one entry more tells where the last one's end.
    starts: Vec<u32>,
    /// The value that each value of the source's main graph has become.
    values: Vec<Option<ValueId>>,
    /// Nodes (of bodies: the node of the main graph that holds them) that could not be lowered, with the reason.
    pub missing: Vec<(NodeId, Arc<str>)>,
}

impl Lowering {
    fn new(source: Arc<Model>, nodes: Vec<NodeId>, values: Vec<Option<ValueId>>, missing: Vec<(NodeId, Arc<str>)>) -> Self {
        let mut starts = vec![0u32; source.graph.nodes().len() + 1];
        for n in &nodes {
            starts[n.index() + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        Self { source, nodes, starts, values, missing }
    }

    /// The source node that `node` (of the main graph) was made from.
    #[must_use]
    pub fn source_node(&self, node: NodeId) -> NodeId {
        self.nodes[node.index()]
    }

    /// What a value of the source's main graph has become; `None` if nothing is left of it.
    #[must_use]
    pub fn value(&self, source: ValueId) -> Option<ValueId> {
        self.values.get(source.index()).copied().flatten()
    }

    /// The nodes that a node of the source's main graph has become: they stand together. None where nothing is left to
    /// compute.
    pub fn nodes_of(&self, source: NodeId) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (self.starts[source.index()]..self.starts[source.index() + 1]).map(NodeId)
    }

    /// Position among the nodes inside the source node, for each of the nodes inside `node`.
    #[must_use]
    pub fn inner_positions(&self, node: &Node) -> Vec<u32> {
        let mut found = Vec::new();
        let mut open: Vec<(&Graph, usize)> = node.bodies.iter().rev().map(|b| (&b.graph, 0)).collect();
        while let Some((graph, next)) = open.pop() {
            let Some(inner) = graph.nodes().get(next) else { continue };
            open.push((graph, next + 1));
            found.push(inner.ordinal);
            open.extend(inner.bodies.iter().rev().map(|b| (&b.graph, 0)));
        }
        found
    }
}

/// The model in ONNX form: itself, where it is; else lowered, with [`Model::lowering`] set. Nodes without a lowering keep
/// their operator.
#[must_use]
pub fn lower(model: &Arc<Model>) -> Arc<Model> {
    if !speaks_torch(model) { model.clone() } else { Arc::new(walk::model(model)) }
}

/// Whether engines need `model` lowered.
#[must_use]
pub fn speaks_torch(model: &Model) -> bool {
    model.graph.nodes().iter().any(|n| n.op.dialect == Dialect::Aten)
}

/// Whether there is a rule for the operator; the rule may still refuse a call.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn is_lowered(op: &crate::graph::Op) -> bool {
    ops::rule(op).is_some()
}

/// Which nodes can be lowered, for placement without a backend: those that cannot run only in torch. `None` where every
/// node can.
#[must_use]
pub fn support(model: &Arc<Model>) -> Option<SupportMap> {
    if !speaks_torch(model) {
        return None;
    }
    let lowered = lower(model);
    let lowering = lowered.lowering.as_ref().filter(|l| !l.missing.is_empty())?;
    let mut support = vec![Support::Supported; model.graph.nodes().len()];
    for (node, why) in &lowering.missing {
        support[node.index()] = Support::Unsupported(why.clone());
    }
    Some(support.into())
}

/// A model of format ONNX around a lowered graph.
fn lowered_model(source: &Arc<Model>, graph: Graph, lowering: Lowering) -> Model {
    Model {
        format: Format::Onnx,
        path: source.path.clone(),
        file: source.file.clone(),
        stored_nodes: graph.nodes().len(),
        modules: source.modules.regrouped(graph.nodes().iter().map(|n| n.module)),
        graph,
        program: source.program.clone(),
        ir_version: None,
        opsets: [(String::new(), OPSET)].into(),
        producer: source.producer.clone(),
        metadata: source.metadata.clone(),
        // Those are about the source's nodes.
        columns: Vec::new(),
        symbols: source.symbols.clone(),
        lowering: Some(Arc::new(lowering)),
    }
}

#[cfg(test)]
mod tests;
