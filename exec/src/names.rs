//! Names of nodes for reports, also of those inside bodies.

use std::collections::HashMap;

use recut_core::diagnostic::printable;
use recut_core::graph::{Graph, Node, NodeId};
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

/// Stable id and operator of a node as messages show them.
pub(crate) fn describe(model: &Model, at: NodeRef) -> (String, String) {
    let mut names = NodeNames::new(model);
    (printable(&names.id(at)).into_owned(), printable(&names.op(at)).into_owned())
}
