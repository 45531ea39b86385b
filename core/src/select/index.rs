//! What selectors look things up in: indices over one model, each built when first needed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::names::NameTable;
use super::onnx_aten;
use super::ops::OpKind;
use crate::graph::{Graph, Node, NodeId, Op, ValueId, ValueKind};
use crate::model::Model;
use crate::modules::ModuleId;

/// A node of a body, at any depth, with the node of the main graph around it.
#[derive(Debug)]
pub(super) struct InnerNode {
    pub(super) outer: NodeId,
    pub(super) stable_id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) op: Arc<Op>,
    pub(super) torch_op: Option<Arc<str>>,
    pub(super) stack_trace: Option<Arc<str>>,
    pub(super) module: ModuleId,
    pub(super) hint: OpHint,
}

/// What tells apart the torch operators that one ONNX operator can stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OpHint {
    /// Spatial dimensions of a convolution, pooling or resize, where the input's rank is known.
    pub(super) spatial: Option<u8>,
    /// The second operand is stored in the file, as a linear layer's weight is.
    pub(super) stored_weight: bool,
}

impl OpHint {
    fn of(graph: &Graph, node: &Node) -> Self {
        let rank = node.input(0).and_then(|v| graph.value(v).shape.rank());
        let stored_weight = node.input(1).is_some_and(|v| graph.value(v).weight().is_some());
        Self { spatial: rank.and_then(|r| u8::try_from(r.checked_sub(2)?).ok()).filter(|n| (1..=3).contains(n)), stored_weight }
    }
}

/// Indices over one model.
#[derive(Debug)]
pub struct SelectorIndex {
    model: Arc<Model>,
    nodes: OnceLock<NameTable>,
    values: OnceLock<NameTable>,
    modules: OnceLock<NameTable>,
    ops: OnceLock<Vec<OpKind>>,
    inner: OnceLock<Vec<InnerNode>>,
}

impl SelectorIndex {
    /// Indices over `model`. Takes no time: each part is built, linear in the model, when a selector first needs it.
    #[must_use]
    pub fn new(model: &Arc<Model>) -> Self {
        Self {
            model: model.clone(),
            nodes: OnceLock::new(),
            values: OnceLock::new(),
            modules: OnceLock::new(),
            ops: OnceLock::new(),
            inner: OnceLock::new(),
        }
    }

    /// Builds every part now: for a background thread, so that the first mark is as quick as the others.
    pub fn warm(&self) {
        let _ = (self.node(""), self.module(""), self.ops());
        super::torch_names::table();
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The node with this stable id, in constant time.
    #[must_use]
    pub fn node(&self, stable_id: &str) -> Option<NodeId> {
        let graph = &self.model.graph;
        let name = |i| graph.stable_id(NodeId::new(i));
        self.nodes.get_or_init(|| NameTable::new(graph.nodes().len(), name)).find(stable_id, name).map(NodeId::new)
    }

    /// The value with this name, in constant time.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<ValueId> {
        let values = self.model.graph.values();
        let name_of = |i: usize| &*values[i].name;
        self.values.get_or_init(|| NameTable::new(values.len(), name_of)).find(name, name_of).map(ValueId::new)
    }

    /// The module at this path, in constant time.
    #[must_use]
    pub fn module(&self, path: &str) -> Option<ModuleId> {
        let modules = self.model.modules.modules();
        let name = |i: usize| &*modules[i].path;
        self.modules.get_or_init(|| NameTable::new(modules.len(), name)).find(path, name).map(ModuleId::new)
    }

    /// Kinds of nodes by operator, in order of first use.
    pub(super) fn ops(&self) -> &[OpKind] {
        self.ops.get_or_init(|| op_kinds(&self.model.graph, self.inner()))
    }

    /// All nodes in bodies.
    pub(super) fn inner(&self) -> &[InnerNode] {
        self.inner.get_or_init(|| inner_nodes(&self.model.graph))
    }
}

/// What tells kinds of nodes apart.
type KindKey = (Arc<Op>, Option<Arc<str>>, OpHint);

/// Groups nodes that no `op:` selector can tell apart.
fn op_kinds(graph: &Graph, inner: &[InnerNode]) -> Vec<OpKind> {
    let mut kinds: Vec<OpKind> = Vec::new();
    let mut by_key: HashMap<KindKey, usize> = HashMap::new();
    // Importers share operators between nodes, so that most nodes are settled by two pointers.
    let mut by_pointer: HashMap<(usize, usize, OpHint), usize> = HashMap::new();
    let mut kind_of = |op: &Arc<Op>, torch_op: &Option<Arc<str>>, hint: OpHint, kinds: &mut Vec<OpKind>| {
        let pointer = (Arc::as_ptr(op) as usize, torch_op.as_ref().map_or(0, |t| t.as_ptr() as usize), hint);
        *by_pointer.entry(pointer).or_insert_with(|| {
            *by_key.entry((op.clone(), torch_op.clone(), hint)).or_insert_with(|| {
                kinds.push(OpKind { op: op.clone(), torch_op: torch_op.clone(), hint, nodes: Vec::new(), inner: Vec::new() });
                kinds.len() - 1
            })
        })
    };
    let mut needs_hint: HashMap<usize, bool> = HashMap::new();
    for (i, node) in graph.nodes().iter().enumerate() {
        let needs_hint = *needs_hint.entry(Arc::as_ptr(&node.op) as usize).or_insert_with(|| onnx_aten::needs_hint(&node.op));
        let hint = if needs_hint { OpHint::of(graph, node) } else { OpHint::default() };
        let k = kind_of(&node.op, &node.torch_op, hint, &mut kinds);
        kinds[k].nodes.push(NodeId::new(i));
    }
    for (i, node) in inner.iter().enumerate() {
        let k = kind_of(&node.op, &node.torch_op, node.hint, &mut kinds);
        kinds[k].inner.push(i);
    }
    kinds
}

fn inner_nodes(graph: &Graph) -> Vec<InnerNode> {
    let mut out = Vec::new();
    for (i, node) in graph.nodes().iter().enumerate() {
        let mut bodies: Vec<&Graph> = node.bodies.iter().rev().map(|b| &b.graph).collect();
        while let Some(body) = bodies.pop() {
            for id in body.node_ids() {
                let n = body.node(id);
                out.push(InnerNode {
                    outer: NodeId::new(i),
                    stable_id: body.stable_id(id).into(),
                    name: n.name.clone(),
                    op: n.op.clone(),
                    torch_op: n.torch_op.clone(),
                    stack_trace: n.stack_trace.clone(),
                    module: n.module,
                    hint: if onnx_aten::needs_hint(&n.op) { OpHint::of(body, n) } else { OpHint::default() },
                });
                bodies.extend(n.bodies.iter().rev().map(|b| &b.graph));
            }
        }
    }
    out
}

/// Whether a node makes the value.
pub(super) fn is_produced(kind: &ValueKind) -> bool {
    matches!(kind, ValueKind::Output { .. })
}
