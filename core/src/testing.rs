//! Models built in code, for tests and benches: a few lines instead of a file.

mod calls;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::dtype::DType;
use crate::graph::{Attr, AttrValue, Body, Dialect, Graph, Node, NodeId, Op, Value, ValueId, ValueKind, ValueType};
use crate::model::{Format, Model};
use crate::modules::{ModuleId, ModuleTreeBuilder};
use crate::shape::Shape;
use crate::weights::{DataFile, WeightRef};

pub use calls::torch_call;

/// A node as a row: name, operator (`Relu`, `my.domain::Op`), inputs (`""` = left out), outputs.
pub type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str]);

/// A model of these nodes, in topological order. A value nobody makes is a graph input, or an initializer where its
/// name starts with `w.`; a value nobody reads is a graph output. Every value is an f32 tensor of shape `[4]`.
#[must_use]
pub fn model(rows: &[Row<'_>]) -> Model {
    let mut b = ModelBuilder::new();
    for (name, op, inputs, outputs) in rows {
        b = b.node(name, op, inputs, outputs);
    }
    b.build()
}

/// Names of the tensors in a pickled dict, as the reader of `.pt2` archives finds them.
///
/// # Errors
/// If it is no pickle of such a dict.
pub fn unpickled_names(pickle: &[u8]) -> Result<Vec<String>, String> {
    crate::import::unpickled_names(pickle)
}

/// Builds a [`Model`] step by step. Methods that name a node or value panic if there is none.
#[derive(Debug)]
pub struct ModelBuilder {
    nodes: Vec<Node>,
    values: Vec<Value>,
    by_name: HashMap<Box<str>, ValueId>,
    ops: HashMap<Box<str>, Arc<Op>>,
    modules: ModuleTreeBuilder,
    outputs: Option<Vec<ValueId>>,
    opsets: IndexMap<String, i64>,
}

impl Default for ModelBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelBuilder {
    /// An empty model of opset 18.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: Vec::new(),
            values: Vec::new(),
            by_name: HashMap::new(),
            ops: HashMap::new(),
            modules: ModuleTreeBuilder::default(),
            outputs: None,
            opsets: IndexMap::from([(String::new(), 18)]),
        }
    }

    fn value(&mut self, name: &str) -> ValueId {
        if let Some(&v) = self.by_name.get(name) {
            return v;
        }
        let shape = Shape::known(&[4]);
        let kind = if name.starts_with("w.") {
            ValueKind::Initializer(WeightRef::inline(DType::F32, &[4], vec![0; 16]))
        } else {
            ValueKind::Input { default: None }
        };
        let id = ValueId::new(self.values.len());
        self.values.push(Value { name: name.into(), kind, ty: ValueType::Tensor, dtype: Some(DType::F32), shape });
        self.by_name.insert(name.into(), id);
        id
    }

    fn known(&mut self, name: &str) -> &mut Value {
        let id = self.by_name[name];
        &mut self.values[id.index()]
    }

    fn last(&mut self) -> &mut Node {
        self.nodes.last_mut().expect("a node was added before")
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let inputs = inputs.iter().map(|v| (!v.is_empty()).then(|| self.value(v))).collect();
        let producer = NodeId::new(self.nodes.len());
        let outputs = outputs
            .iter()
            .enumerate()
            .map(|(slot, name)| {
                if name.is_empty() {
                    return None;
                }
                assert!(!self.by_name.contains_key(*name), "value `{name}` is made twice, or read before it is made");
                let id = self.value(name);
                self.values[id.index()].kind = ValueKind::Output { node: producer, slot: slot as u32 };
                Some(id)
            })
            .collect();
        let op = self.ops.entry(op.into()).or_insert_with(|| Arc::new(parse_op(op))).clone();
        self.nodes.push(Node {
            name: name.into(),
            op,
            inputs,
            outputs,
            attrs: Box::default(),
            bodies: Box::default(),
            captures: Box::default(),
            module: ModuleId::ROOT,
            call: None,
            torch_op: None,
            fx_node: None,
            stack_trace: None,
            ordinal: producer.0,
            opset: None,
        });
        self
    }

    /// Adds an attribute to the last node.
    #[must_use]
    pub fn attr(mut self, name: &str, value: AttrValue) -> Self {
        let attr = Attr { name: name.into(), value };
        let node = self.last();
        node.attrs = node.attrs.iter().cloned().chain([attr]).collect();
        self
    }

    /// Puts the last node into a module (call 0), of this class where one is given.
    #[must_use]
    pub fn module(mut self, path: &str, class: &str) -> Self {
        let class: Option<Arc<str>> = (!class.is_empty()).then(|| class.into());
        let module = self.modules.module(path, class.as_ref());
        self.last().module = module;
        self
    }

    /// Changes the last node in any other way.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(self.last());
        self
    }

    /// Gives the last node a body that reads these values of the outer graph.
    #[must_use]
    pub fn body(mut self, attr: &str, graph: Graph, captures: &[&str]) -> Self {
        let captured: Vec<ValueId> = captures.iter().map(|v| self.value(v)).collect();
        let node = self.last();
        let index = node.bodies.len();
        node.captures = node.captures.iter().copied().chain(captured).collect();
        node.bodies = std::mem::take(&mut node.bodies).into_vec().into_iter().chain([Body { attr: attr.into(), graph }]).collect();
        self.attr(attr, AttrValue::Body(index))
    }

    /// Sets element type and shape of a value.
    #[must_use]
    pub fn typed(mut self, value: &str, dtype: Option<DType>, shape: Shape) -> Self {
        let v = self.known(value);
        (v.dtype, v.shape) = (dtype, shape);
        self
    }

    /// Says that a value is something else than a tensor.
    #[must_use]
    pub fn kind(mut self, value: &str, ty: ValueType) -> Self {
        self.known(value).ty = ty;
        self
    }

    /// Makes a value that no node makes an initializer.
    #[must_use]
    pub fn weight(mut self, value: &str, weight: WeightRef) -> Self {
        self.value(value);
        let v = self.known(value);
        (v.dtype, v.shape) = (Some(weight.dtype), Shape::known(&weight.shape));
        v.kind = ValueKind::Initializer(weight);
        self
    }

    /// Names the graph outputs, instead of all values that nobody reads.
    #[must_use]
    pub fn outputs(mut self, names: &[&str]) -> Self {
        let ids = names.iter().map(|n| self.value(n)).collect();
        self.outputs = Some(ids);
        self
    }

    /// Sets the version of an operator set.
    #[must_use]
    pub fn opset(mut self, domain: &str, version: i64) -> Self {
        self.opsets.insert(domain.to_owned(), version);
        self
    }

    /// The graph alone (for bodies).
    #[must_use]
    pub fn graph(self) -> Graph {
        self.build().graph
    }

    /// The model.
    #[must_use]
    pub fn build(self) -> Model {
        let mut read = vec![false; self.values.len()];
        for v in self.nodes.iter().flat_map(Node::reads) {
            read[v.index()] = true;
        }
        let ids = |f: &dyn Fn(usize, &Value) -> bool| -> Vec<ValueId> {
            self.values.iter().enumerate().filter(|(i, v)| f(*i, v)).map(|(i, _)| ValueId::new(i)).collect()
        };
        let inputs = ids(&|_, v| matches!(v.kind, ValueKind::Input { .. }));
        let outputs = match self.outputs {
            Some(o) => o,
            None => ids(&|i, v| !read[i] && matches!(v.kind, ValueKind::Output { .. })),
        };
        let modules = self.modules.finish(self.nodes.iter().map(|n| n.module));
        let stored_nodes = self.nodes.len();
        Model {
            format: Format::Onnx,
            path: PathBuf::from("test.onnx"),
            file: Arc::new(DataFile { path: PathBuf::from("test.onnx"), len: 0, modified: None }),
            graph: Graph::new("test".into(), self.nodes, self.values, inputs, outputs),
            modules,
            program: None,
            symbols: IndexMap::new(),
            lowering: None,
            stored_nodes,
            ir_version: Some(9),
            opsets: self.opsets,
            producer: "test".to_owned(),
            metadata: Vec::new(),
            columns: Vec::new(),
        }
    }
}

fn parse_op(text: &str) -> Op {
    let (domain, name) = text.rsplit_once("::").unwrap_or(("", text));
    Op { dialect: Dialect::Onnx, domain: domain.into(), name: name.into(), overload: "".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_graph() {
        let m = model(&[("a", "MatMul", &["x", "w.a"], &["h"]), ("b", "my::Op", &["h", "", "x"], &["y"])]);
        assert_eq!(m.graph.nodes().len(), 2);
        let names = |ids: &[ValueId]| ids.iter().map(|&v| m.graph.value(v).name.to_string()).collect::<Vec<_>>();
        assert_eq!((names(m.graph.inputs()), names(m.graph.outputs())), (vec!["x".to_owned()], vec!["y".to_owned()]));
        assert_eq!(m.graph.predecessors(NodeId(1)).collect::<Vec<_>>(), [NodeId(0)]);
        assert_eq!(&*m.graph.nodes()[1].op.domain, "my");
    }
}
