//! The graph model: nodes and values of one level (a main graph or a body), immutable after import.
//!
//! Nodes are stored in topological order: a node stands after every node whose output it (or one of its bodies) reads.
//! Where the file's own order is topological it is kept, since ties everywhere are broken by this order. Bodies of
//! control-flow nodes are graphs of their own; what they read from outside is a [`ValueKind::Captured`] value inside and
//! one of [`Node::captures`] outside, so that no reader of the outer graph can overlook it.

mod csr;
mod digraph;
mod taken;

use std::collections::HashMap;
use std::sync::Arc;

use crate::dtype::DType;
use crate::hash::FastMap;
use crate::modules::ModuleId;
use crate::shape::Shape;
use crate::weights::WeightRef;

pub use csr::Csr;
pub(crate) use digraph::Digraph;
pub(crate) use taken::Taken;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, bytemuck::TransparentWrapper)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of the element at `index`.
            ///
            /// # Panics
            /// If `index` exceeds `u32::MAX`; importers refuse files that large.
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("importers cap graphs at u32::MAX elements"))
            }

            /// Position in the vector that the id indexes.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use id;

id!(
    /// Position of a node in [`Graph::nodes`].
    NodeId
);
id!(
    /// Position of a value in [`Graph::values`].
    ValueId
);

/// Which operator set an [`Op`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// ONNX operators: a domain (`""` is the standard one) and a type.
    Onnx,
    /// `torch.ops`: namespace, name and overload.
    Aten,
    /// OpenVINO operation sets.
    OpenVino,
    /// The graph JSON of this program: whatever its writer says.
    Json,
}

/// An operator: what a node computes. Shared between the nodes of one type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op {
    /// The operator set it belongs to.
    pub dialect: Dialect,
    /// ONNX domain (`""` for the standard one, also where the file says `ai.onnx`), or torch namespace (`aten`).
    pub domain: Box<str>,
    /// Operator type (`Conv`) or torch operator name (`conv2d`).
    pub name: Box<str>,
    /// Overload (`default`, `Tensor`), or the overload id of an ONNX function; empty if there is none.
    pub overload: Box<str>,
}

impl Op {
    /// An operator of the standard ONNX domain.
    #[must_use]
    pub fn onnx(name: &str) -> Self {
        Self { dialect: Dialect::Onnx, domain: "".into(), name: name.into(), overload: "".into() }
    }

    /// Whether this is `name` of the standard ONNX domain.
    #[must_use]
    pub fn is_onnx(&self, name: &str) -> bool {
        self.dialect == Dialect::Onnx && self.domain.is_empty() && &*self.name == name
    }
}

/// The name of the operator that makes a new tensor of what `name` writes in place (`add_`: `add`); `None` if `name` is
/// none of torch's in-place names. Python's own (`__iand__`) are none.
pub(crate) fn out_of_place(name: &str) -> Option<&str> {
    name.strip_suffix('_').filter(|plain| !plain.is_empty() && !plain.ends_with('_'))
}

impl std::fmt::Display for Op {
    /// `Conv`, `com.microsoft::Gelu`, `aten.conv2d.default`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.dialect {
            Dialect::Aten => {
                write!(f, "{}.{}", self.domain, self.name)?;
                if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
            }
            _ if self.domain.is_empty() => f.write_str(&self.name),
            _ => write!(f, "{}::{}", self.domain, self.name),
        }
    }
}

/// Value of an attribute or of a non-tensor argument.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrValue {
    /// Nothing was given (`None` in torch).
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number; ONNX stores it as f32, which is kept exactly.
    Float(f64),
    /// Text, or bytes that need not be UTF-8.
    Bytes(Box<[u8]>),
    /// Integers.
    Ints(Box<[i64]>),
    /// Numbers.
    Floats(Box<[f64]>),
    /// Several texts.
    ByteStrings(Box<[Box<[u8]>]>),
    /// A tensor, read when asked for.
    Tensor(WeightRef),
    /// Several tensors.
    Tensors(Box<[WeightRef]>),
    /// A nested graph: index into [`Node::bodies`].
    Body(usize),
    /// Several nested graphs: indices into [`Node::bodies`].
    Bodies(Box<[usize]>),
    /// A type, in text form.
    Type(Box<str>),
    /// A list of mixed values (torch arguments).
    List(Box<[AttrValue]>),
    /// A value that the node reads: index into [`Node::inputs`]. Torch calls keep their nested arguments this way.
    Input(usize),
    /// A reference to an attribute of the enclosing function that nothing resolves (an error when it is run).
    Reference(Box<str>),
}

impl AttrValue {
    /// The text, if this is valid UTF-8 bytes.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Bytes(b) => std::str::from_utf8(b).ok(),
            _ => None,
        }
    }
}

/// A named attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// Name in the operator's schema.
    pub name: Arc<str>,
    /// Its value.
    pub value: AttrValue,
}

/// A graph inside a node: a branch of `If`, the body of `Loop` or `Scan`, a torch higher-order operator's graph.
#[derive(Clone, Debug)]
pub struct Body {
    /// The attribute that holds it (`then_branch`, `body`).
    pub attr: Arc<str>,
    /// The nested graph.
    pub graph: Graph,
}

/// One call of an operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name as in the file, may be empty or repeated; bytes that are no UTF-8 are replaced by U+FFFD.
    pub name: Box<str>,
    /// The operator.
    pub op: Arc<Op>,
    /// Values read, in schema order; `None` where an optional input is left out.
    pub inputs: Box<[Option<ValueId>]>,
    /// Values made, in schema order; `None` where an optional output is left out.
    pub outputs: Box<[Option<ValueId>]>,
    /// Attributes in file order, without duplicates.
    pub attrs: Box<[Attr]>,
    /// Nested graphs.
    pub bodies: Box<[Body]>,
    /// Values of this graph that the bodies read, without duplicates, in first-use order.
    pub captures: Box<[ValueId]>,
    /// The module that owns the node ([`ModuleId::ROOT`] if nothing tells).
    pub module: ModuleId,
    /// Which call of that module this belongs to, from 0; only where the file tells calls apart.
    pub call: Option<u32>,
    /// The torch operator it was made from (`aten.relu.default`), where the file says so.
    pub torch_op: Option<Arc<str>>,
    /// Name of the FX node it was made from, where the file says so.
    pub fx_node: Option<Arc<str>>,
    /// Python stack trace, outermost frame first, where the file has one.
    pub stack_trace: Option<Arc<str>>,
    /// Position in the file, from 0; nodes expanded from a function share that of their call.
    pub ordinal: u32,
    /// Version of the operator set that defines the node, where it is not the one the model imports for the operator's
    /// domain: nodes expanded from a function that imports another version. Ask [`crate::model::Model::opset_of`].
    pub opset: Option<i64>,
}

impl Node {
    /// The attribute called `name`.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<&AttrValue> {
        self.attrs.iter().find(|a| &*a.name == name).map(|a| &a.value)
    }

    /// The integer attribute called `name`; `None` if absent or of another type.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attr(name)? {
            AttrValue::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The number called `name`; `None` if absent or of another type.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.attr(name)? {
            AttrValue::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// The integers called `name`; `None` if absent or of another type.
    #[must_use]
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attr(name)? {
            AttrValue::Ints(v) => Some(v),
            _ => None,
        }
    }

    /// The text called `name`; `None` if absent, of another type or no UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attr(name)?.as_str()
    }

    /// Input `i`, where it is given.
    #[must_use]
    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// Every value the node depends on: its inputs and what its bodies capture. May repeat.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + Clone + '_ {
        self.inputs.iter().flatten().copied().chain(self.captures.iter().copied())
    }
}

/// What kind of thing a value is. Only tensors may cross into an accelerated partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// A dense tensor (also assumed where the file says nothing).
    #[default]
    Tensor,
    /// A sparse tensor.
    Sparse,
    /// A sequence.
    Sequence,
    /// An optional.
    Optional,
    /// A map.
    Map,
    /// A number outside tensors (torch `SymInt`, `SymFloat`, `SymBool`).
    Scalar,
    /// Anything else.
    Other,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// Fed by the caller; with a default where the file also has an initializer of this name (IR 4 and later).
    Input {
        /// Used when the caller feeds nothing.
        default: Option<WeightRef>,
    },
    /// Stored in the file.
    Initializer(WeightRef),
    /// Output `slot` of `node`.
    Output {
        /// The node that makes it.
        node: NodeId,
        /// Position in [`Node::outputs`].
        slot: u32,
    },
    /// A value of the enclosing graph, read inside a body.
    Captured {
        /// Its id in the enclosing graph.
        outer: ValueId,
    },
}

/// A tensor (or other datum) that flows between nodes.
#[derive(Clone, Debug)]
pub struct Value {
    /// Name as in the file; unique within its graph, except that it may be empty for unnamed outputs.
    pub name: Box<str>,
    /// Where it comes from.
    pub kind: ValueKind,
    /// Tensor, sequence, optional, …
    pub ty: ValueType,
    /// Element type; `None` if unknown.
    pub dtype: Option<DType>,
    /// Shape as the file or inference gives it.
    pub shape: Shape,
}

impl Value {
    /// The stored tensor, for initializers.
    #[must_use]
    pub fn weight(&self) -> Option<&WeightRef> {
        match &self.kind {
            ValueKind::Initializer(w) => Some(w),
            _ => None,
        }
    }
}

/// Nodes and values of one level.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: Box<str>,
    nodes: Vec<Node>,
    values: Vec<Value>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    consumers: Csr,
    stable_ids: Vec<Option<Box<str>>>,
}

impl Graph {
    /// Freezes a graph. `inputs` are what a caller feeds, `outputs` what it gets, both in file order.
    ///
    /// # Panics
    /// If an id is out of range or the nodes are not in topological order: importers establish both.
    #[must_use]
    pub fn new(name: Box<str>, nodes: Vec<Node>, values: Vec<Value>, inputs: Vec<ValueId>, outputs: Vec<ValueId>) -> Self {
        let reads = nodes.iter().enumerate().flat_map(|(i, n)| n.reads().map(move |v| (v.0, i as u32)));
        let consumers = Csr::from_pairs(values.len(), reads);
        for (i, node) in nodes.iter().enumerate() {
            for v in node.reads() {
                if let ValueKind::Output { node: producer, .. } = values[v.index()].kind {
                    assert!(producer.index() < i, "node {i} reads a value of node {} that stands later", producer.0);
                }
            }
        }
        let stable_ids = stable_ids(&nodes, &values);
        Self { name, nodes, values, inputs, outputs, consumers, stable_ids }
    }

    /// The graph's name in the file, may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes, in topological order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Every node id, in topological order.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// All values.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value with this id.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// What a caller feeds, in file order.
    #[must_use]
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// What a caller gets, in file order; may repeat, and may name inputs or initializers.
    #[must_use]
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The node that makes `value`; `None` for inputs, initializers and captured values.
    #[must_use]
    pub fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.values[value.index()].kind {
            ValueKind::Output { node, .. } => Some(node),
            _ => None,
        }
    }

    /// The nodes that read `value` (directly or in a body), in topological order; a node that reads it twice stands twice.
    #[must_use]
    pub fn consumers(&self, value: ValueId) -> &[NodeId] {
        bytemuck::TransparentWrapper::wrap_slice(self.consumers.row(value.index()))
    }

    /// Nodes whose outputs `node` reads, in input order; may repeat.
    pub fn predecessors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.node(node).reads().filter_map(|v| self.producer(v))
    }

    /// Nodes that read an output of `node`; may repeat.
    pub fn successors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.node(node).outputs.iter().flatten().flat_map(|v| self.consumers(*v).iter().copied())
    }

    /// The node's stable id: its name; without one the name of its first output; else `#ordinal`. A repeated name is
    /// followed by `#` and the first output's name. Configs, reports and edits use it.
    #[must_use]
    pub fn stable_id(&self, node: NodeId) -> &str {
        match &self.stable_ids[node.index()] {
            Some(id) => id,
            None => &self.node(node).name,
        }
    }

    /// The node with this stable id. Linear: make a map (see [`Graph::stable_id_map`]) for more than a few look-ups.
    #[must_use]
    pub fn find_node(&self, stable_id: &str) -> Option<NodeId> {
        self.node_ids().find(|&n| self.stable_id(n) == stable_id)
    }

    /// All stable ids with their nodes.
    #[must_use]
    pub fn stable_id_map(&self) -> HashMap<&str, NodeId> {
        self.node_ids().map(|n| (self.stable_id(n), n)).collect()
    }

    /// The value with this name. Linear.
    #[must_use]
    pub fn find_value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| &*v.name == name).map(ValueId::new)
    }

    /// The values, for inference to fill in dtypes and shapes.
    pub(crate) fn values_mut(&mut self) -> &mut [Value] {
        &mut self.values
    }

    /// The nodes, for inference to descend into bodies.
    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Number of nodes in this graph and all bodies below it.
    #[must_use]
    pub fn total_nodes(&self) -> usize {
        // Nesting is capped by the importers (prost refuses more than 100 message levels).
        self.nodes.len() + self.nodes.iter().flat_map(|n| n.bodies.iter()).map(|b| b.graph.total_nodes()).sum::<usize>()
    }
}

/// Stable ids where they differ from the node's name.
fn stable_ids(nodes: &[Node], values: &[Value]) -> Vec<Option<Box<str>>> {
    let first_output = |n: &Node| n.outputs.iter().flatten().map(|v| &*values[v.index()].name).find(|s| !s.is_empty());
    let mut count: FastMap<&str, u32> = FastMap::default();
    count.reserve(nodes.len());
    for n in nodes {
        *count.entry(&n.name).or_default() += 1;
    }
    if count.len() == nodes.len() && !count.contains_key("") {
        return vec![None; nodes.len()];
    }
    let mut taken: FastMap<Box<str>, ()> = FastMap::default();
    nodes
        .iter()
        .enumerate()
        .map(|(i, n)| {
            if !n.name.is_empty() && count[&*n.name] == 1 {
                return None;
            }
            let mut id = match first_output(n) {
                Some(o) if n.name.is_empty() => o.to_owned(),
                Some(o) => format!("{}#{o}", n.name),
                None => format!("{}#{i}", n.name),
            };
            // What was made up may be another node's name: the later one is told apart by its position.
            while count.contains_key(id.as_str()) || taken.contains_key(id.as_str()) {
                id = format!("{id}#{i}");
            }
            taken.insert(id.as_str().into(), ());
            Some(id.into())
        })
        .collect()
}
