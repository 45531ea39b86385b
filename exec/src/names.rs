//! Names of nodes for reports, also of those inside bodies.

use std::collections::HashMap;

use recut_core::diagnostic::printable;
use recut_core::graph::{Graph, Node, NodeId};
use recut_core::lower::Lowering;
use recut_core::model::Model;

use crate::engine::NodeRef;

/// Every node inside `node`, at the index that [`NodeRef::inner`] counts: a node stands before those of its own bodies.
#[must_use]
pub fn inner_nodes(node: &Node) -> Vec<(&Graph, NodeId)> {
    let mut found = Vec::new();
    // Bodies still to visit, innermost last; explicit, since only importers know how deep they are.
    let mut open: Vec<(&Graph, usize)> = node.bodies.iter().rev().map(|b| (&b.graph, 0)).collect();
    while let Some((graph, next)) = open.pop() {
        let Some(inner) = graph.nodes().get(next) else { continue };
        open.push((graph, next + 1));
        found.push((graph, NodeId::new(next)));
        open.extend(inner.bodies.iter().rev().map(|b| (&b.graph, 0)));
    }
    found
}

/// Looks nodes up by reference; what is inside a node is listed once.
pub struct NodeNames<'m> {
    model: &'m Model,
    inner: HashMap<NodeId, Vec<(&'m Graph, NodeId)>>,
}

impl<'m> NodeNames<'m> {
    /// Names of a model's nodes.
    #[must_use]
    pub fn new(model: &'m Model) -> Self {
        Self { model, inner: HashMap::new() }
    }

    /// The node, with the graph that it is in.
    pub fn node(&mut self, at: NodeRef) -> (&'m Graph, NodeId) {
        let graph = &self.model.graph;
        if at.inner == u32::MAX {
            return (graph, at.node);
        }
        let inner = self.inner.entry(at.node).or_insert_with(|| inner_nodes(graph.node(at.node)));
        inner.get(at.inner as usize).copied().unwrap_or((graph, at.node))
    }

    /// Its stable id; inside a body after that of the node of the main graph and a slash.
    pub fn id(&mut self, at: NodeRef) -> String {
        let outer = self.model.graph.stable_id(at.node);
        let (graph, id) = self.node(at);
        if at.inner == u32::MAX { outer.to_owned() } else { format!("{outer}/{}", graph.stable_id(id)) }
    }

    /// Its operator.
    pub fn op(&mut self, at: NodeRef) -> String {
        let (graph, id) = self.node(at);
        graph.node(id).op.to_string()
    }
}

/// Stable id and operator of a node as messages show them: those of the user's own node, where the model was lowered.
pub(crate) fn describe(model: &Model, at: NodeRef) -> (String, String) {
    let mut names = NodeNames::new(model);
    let op = printable(&names.op(at)).into_owned();
    let Some(lowering) = &model.lowering else { return (printable(&names.id(at)).into_owned(), op) };
    let at = SourceNodes::new(model, lowering).source(at);
    let mut names = NodeNames::new(&lowering.source);
    let (id, source_op) = (printable(&names.id(at)).into_owned(), printable(&names.op(at)).into_owned());
    (id, if source_op == op { op } else { format!("{source_op}, lowered to {op}") })
}

/// Looks up which node of the user's model a lowered one was made from.
pub(crate) struct SourceNodes<'m> {
    model: &'m Model,
    lowering: &'m Lowering,
    inner: HashMap<NodeId, Vec<u32>>,
}

impl<'m> SourceNodes<'m> {
    /// Of a lowered model.
    pub(crate) fn new(model: &'m Model, lowering: &'m Lowering) -> Self {
        Self { model, lowering, inner: HashMap::new() }
    }

    /// The node of the source.
    pub(crate) fn source(&mut self, at: NodeRef) -> NodeRef {
        let node = self.lowering.source_node(at.node);
        if at.inner == u32::MAX {
            return NodeRef { node, inner: u32::MAX };
        }
        let positions = self.inner.entry(at.node).or_insert_with(|| self.lowering.inner_positions(self.model.graph.node(at.node)));
        // What has no place inside belongs to the node itself.
        NodeRef { node, inner: positions.get(at.inner as usize).copied().unwrap_or(u32::MAX) }
    }
}
