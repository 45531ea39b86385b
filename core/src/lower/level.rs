//! The graph that lowering writes: nodes and values of one level, with constants made on the way.

use std::sync::Arc;

use crate::dtype::DType;
use crate::graph::{Attr, AttrValue, Body, Graph, Node, NodeId, Op, Taken, Value, ValueId, ValueKind, ValueType};
use crate::hash::FastMap;
use crate::modules::ModuleId;
use crate::shape::Shape;
use crate::weights::WeightRef;

/// Stands between a name that is taken and the number that makes it unique.
const SEPARATOR: char = '_';

/// Attributes of a node to be: name and value.
pub(super) type Attrs<'a> = &'a [(&'static str, AttrValue)];

/// What is known of a value that a node makes.
#[derive(Clone, Debug, Default)]
pub(super) struct Fact {
    pub(super) dtype: Option<DType>,
    pub(super) shape: Shape,
}

impl Fact {
    pub(super) fn of(dtype: Option<DType>, shape: Shape) -> Self {
        Self { dtype, shape }
    }

    pub(super) fn of_value(value: &Value) -> Self {
        Self { dtype: value.dtype, shape: value.shape.clone() }
    }
}

/// A constant: element type, sizes, bytes.
type Constant = (DType, Box<[u64]>, Box<[u8]>);

/// A node to be, without what it makes.
pub(super) struct Draft<'a> {
    pub(super) op: Arc<Op>,
    pub(super) inputs: &'a [Option<ValueId>],
    pub(super) attrs: Vec<Attr>,
    pub(super) bodies: Vec<Body>,
    /// Values that the bodies read.
    pub(super) captures: Vec<ValueId>,
}

/// What all nodes that one source node becomes have in common.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// Stable id of the source node.
    pub(super) name: Box<str>,
    /// Its position among the source nodes of its level of counting (see [`super::Lowering`]).
    pub(super) index: u32,
    pub(super) module: ModuleId,
    pub(super) call: Option<u32>,
    pub(super) torch_op: Option<Arc<str>>,
    pub(super) fx_node: Option<Arc<str>>,
    pub(super) stack_trace: Option<Arc<str>>,
}

/// Nodes and values of the level that is being written.
#[derive(Default)]
pub(super) struct Level {
    nodes: Vec<Node>,
    values: Vec<Value>,
    inputs: Vec<ValueId>,
    names: Taken,
    node_names: Taken,
    constants: FastMap<Constant, ValueId>,
    /// Values of the level around this one, as they are known here.
    captured: FastMap<ValueId, ValueId>,
    /// Start of all names that are made up here.
    prefix: Box<str>,
    /// Number of levels around it.
    depth: usize,
}

/// A state of a level.
pub(super) struct Mark {
    nodes: usize,
    values: usize,
}

/// The operators of the standard ONNX domain that lowering writes, shared.
#[derive(Default)]
pub(super) struct Ops(FastMap<&'static str, Arc<Op>>);

impl Ops {
    pub(super) fn get(&mut self, name: &'static str) -> Arc<Op> {
        self.0.entry(name).or_insert_with(|| Arc::new(Op::onnx(name))).clone()
    }
}

impl Level {
    /// An empty level inside of this one, whose names start with `prefix`.
    pub(super) fn inside(&self, prefix: &str) -> Self {
        Self { prefix: format!("{}{prefix}", self.prefix).into(), depth: self.depth + 1, ..Self::default() }
    }

    /// Number of levels around it.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// A new value; a name that is taken is followed by a number.
    pub(super) fn value(&mut self, name: &str, kind: ValueKind, ty: ValueType, fact: Fact) -> ValueId {
        let id = ValueId::new(self.values.len());
        let name = self.unique(name);
        self.values.push(Value { name, kind, ty, dtype: fact.dtype, shape: fact.shape });
        id
    }

    fn unique(&mut self, name: &str) -> Box<str> {
        self.names.unique(&format!("{}{name}", self.prefix), SEPARATOR)
    }

    pub(super) fn input(&mut self, name: &str, ty: ValueType, fact: Fact, default: Option<WeightRef>) -> ValueId {
        let id = self.value(name, ValueKind::Input { default }, ty, fact);
        self.inputs.push(id);
        id
    }

    /// A value of the level around this one.
    pub(super) fn capture(&mut self, outer: ValueId, outer_level: &Self) -> ValueId {
        if let Some(&known) = self.captured.get(&outer) {
            return known;
        }
        let v = outer_level.get(outer);
        let id = ValueId::new(self.values.len());
        let name = self.names.unique(&v.name, SEPARATOR);
        self.values.push(Value { name, kind: ValueKind::Captured { outer }, ty: v.ty, dtype: v.dtype, shape: v.shape.clone() });
        self.captured.insert(outer, id);
        id
    }

    /// Values of the level around this one that are read here, in order of first use.
    pub(super) fn captures(&self) -> Vec<ValueId> {
        let outer = |v: &Value| if let ValueKind::Captured { outer } = v.kind { Some(outer) } else { None };
        self.values.iter().filter_map(outer).collect()
    }

    pub(super) fn get(&self, value: ValueId) -> &Value {
        &self.values[value.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Where the level is now, to come [`Level::back_to`].
    pub(super) fn mark(&self) -> Mark {
        Mark { nodes: self.nodes.len(), values: self.values.len() }
    }

    /// Takes back all nodes and values since `mark`; their names stay taken.
    pub(super) fn back_to(&mut self, mark: &Mark) {
        self.nodes.truncate(mark.nodes);
        self.values.truncate(mark.values);
        let stays = |v: &ValueId| v.index() < mark.values;
        self.constants.retain(|_, v| stays(v));
        self.captured.retain(|_, v| stays(v));
    }

    /// A constant; equal ones are one value.
    pub(super) fn constant(&mut self, dtype: DType, dims: &[u64], bytes: Vec<u8>) -> ValueId {
        let key = (dtype, dims.into(), bytes.into_boxed_slice());
        if let Some(&known) = self.constants.get(&key) {
            return known;
        }
        let weight = WeightRef::inline(dtype, dims, key.2.to_vec());
        let id = self.value("constant", ValueKind::Initializer(weight), ValueType::Tensor, Fact::of(Some(dtype), Shape::known(dims)));
        self.constants.insert(key, id);
        id
    }

    /// A node of `outputs.len()` outputs.
    pub(super) fn push(&mut self, draft: Draft<'_>, outputs: &[Option<Fact>], origin: &Origin) -> Vec<Option<ValueId>> {
        let Draft { op, inputs, attrs, bodies, captures } = draft;
        let id = NodeId::new(self.nodes.len());
        let mut made = Vec::with_capacity(outputs.len());
        for (slot, fact) in outputs.iter().enumerate() {
            let name = format!("{}/{}", origin.name, op.name);
            made.push(fact.as_ref().map(|f| {
                let kind = ValueKind::Output { node: id, slot: slot as u32 };
                self.value(&name, kind, ValueType::Tensor, f.clone())
            }));
        }
        let mut inputs = inputs.to_vec();
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        self.nodes.push(Node {
            name: "".into(),
            op,
            inputs: inputs.into(),
            outputs: made.as_slice().into(),
            attrs: attrs.into(),
            bodies: bodies.into(),
            captures: captures.into(),
            module: origin.module,
            call: origin.call,
            torch_op: origin.torch_op.clone(),
            fx_node: origin.fx_node.clone(),
            stack_trace: origin.stack_trace.clone(),
            ordinal: origin.index,
            opset: None,
        });
        made
    }

    /// Gives a value that a node since `first` made the name and the facts of the source value that it is.
    pub(super) fn adopt(&mut self, value: ValueId, first: usize, name: &str, ty: ValueType, fact: Fact) {
        let fresh =
            matches!(self.get(value).kind, ValueKind::Output { node, .. } if node.index() >= first) && self.get(value).name.contains('/');
        if !fresh {
            return;
        }
        let unique = self.unique(name);
        let v = &mut self.values[value.index()];
        v.name = unique;
        v.ty = ty;
        v.dtype = v.dtype.or(fact.dtype);
        if fact.shape.rank().is_some() {
            v.shape = fact.shape;
        }
    }

    /// Names the nodes from `first` on: the one that makes the source node's first output is called like that node.
    pub(super) fn name_nodes(&mut self, first: usize, main: Option<ValueId>, origin: &Origin) {
        let chosen = main.and_then(|v| match self.get(v).kind {
            ValueKind::Output { node, .. } if node.index() >= first => Some(node.index()),
            _ => None,
        });
        for i in first..self.nodes.len() {
            let name = if Some(i) == chosen {
                format!("{}{}", self.prefix, origin.name)
            } else {
                format!("{}{}/{}", self.prefix, origin.name, self.nodes[i].op.name)
            };
            self.nodes[i].name = self.node_names.unique(&name, SEPARATOR);
        }
    }

    pub(super) fn finish(self, name: Box<str>, outputs: Vec<ValueId>) -> Graph {
        Graph::new(name, self.nodes, self.values, self.inputs, outputs)
    }
}

/// An attribute list as nodes keep it.
pub(super) fn attrs(list: Attrs<'_>) -> Vec<Attr> {
    list.iter().map(|(name, value)| Attr { name: (*name).into(), value: value.clone() }).collect()
}
