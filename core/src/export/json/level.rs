//! One graph: names for its values, its nodes and what is inside of them.

use indexmap::IndexMap;

use super::tensors::Tensors;
use crate::graph::{Dialect, Graph, Node, Op, ValueId, ValueKind, ValueType};
use crate::hash::{FastMap, Seeded};
use crate::import::json::parse_op;
use crate::import::json::schema::{self, Map};
use crate::model::Model;
use crate::modules::ModuleId;
use crate::shape::{Dim, Shape};

/// Writes the graphs of one model.
pub(super) struct Writer<'m> {
    pub(super) dialect: Dialect,
    pub(super) tensors: Tensors,
    /// Paths by module.
    modules: Vec<&'m str>,
}

/// A graph in the format's types.
#[derive(Default)]
pub(super) struct Level {
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) nodes: Vec<schema::Node>,
    pub(super) values: Map<schema::Value>,
    pub(super) initializers: Map<schema::Tensor>,
    captures: Map<String>,
}

impl<'m> Writer<'m> {
    pub(super) fn new(dialect: Dialect, tensors: Tensors) -> Self {
        Self { dialect, tensors, modules: Vec::new() }
    }

    /// The main graph of a model.
    pub(super) fn main(&mut self, model: &'m Model) -> Level {
        self.modules = model.modules.modules().iter().map(|m| &*m.path).collect();
        self.graph(&model.graph, &[])
    }

    /// A graph with all below it; nesting is capped by the importers. `outer` are the names of the graph around it.
    fn graph(&mut self, g: &Graph, outer: &[String]) -> Level {
        let names = names(g);
        let name = |v: ValueId| names.get(v.index()).cloned().unwrap_or_default();
        let mut level = Level {
            inputs: g.inputs().iter().map(|&v| name(v)).collect(),
            outputs: g.outputs().iter().map(|&v| name(v)).collect(),
            ..Level::default()
        };
        for (v, name) in g.values().iter().zip(&names) {
            match &v.kind {
                ValueKind::Input { default: Some(w) } | ValueKind::Initializer(w) => {
                    let tensor = self.tensors.tensor(w);
                    level.initializers.0.insert(name.clone(), tensor);
                }
                ValueKind::Captured { outer: o } => match outer.get(o.index()) {
                    Some(there) if there != name => {
                        level.captures.0.insert(name.clone(), there.clone());
                    }
                    _ => {}
                },
                ValueKind::Input { default: None } | ValueKind::Output { .. } => {}
            }
        }
        level.values = values(g, &names);
        level.nodes = g.nodes().iter().zip(0..).map(|(n, i)| self.node(n, i, &names)).collect();
        level
    }

    fn node(&mut self, n: &Node, index: u32, names: &[String]) -> schema::Node {
        let name = |v: &Option<ValueId>| v.and_then(|v| names.get(v.index()).cloned());
        let single = n.op.dialect == Dialect::Onnx;
        let torch = n.op.dialect == Dialect::Aten;
        let bodies = n.bodies.iter().map(|b| {
            let level = self.graph(&b.graph, names);
            schema::Body {
                attr: b.attr.to_string(),
                name: b.graph.name().to_owned(),
                inputs: level.inputs,
                outputs: level.outputs,
                nodes: level.nodes,
                values: level.values,
                initializers: level.initializers,
                captures: level.captures,
            }
        });
        let bodies = bodies.collect();
        let attrs = n.attrs.iter().map(|a| (a.name.to_string(), self.attribute(&a.value, single))).collect();
        // What a torch node has by default is left out; what it has not is written as an empty text.
        let or_default = |given: Option<&str>, default: Option<&str>| match given {
            _ if given == default => None,
            Some(given) => Some(given.to_owned()),
            None => Some(String::new()),
        };
        let op_text = n.op.to_string();
        let module = if n.module == ModuleId::ROOT { "" } else { self.modules.get(n.module.index()).copied().unwrap_or("") };
        schema::Node {
            name: n.name.to_string(),
            op: op(&n.op, &op_text),
            dialect: (n.op.dialect != self.dialect).then_some(n.op.dialect),
            opset: n.opset,
            inputs: n.inputs.iter().map(name).collect(),
            outputs: n.outputs.iter().map(name).collect(),
            attrs: Map(attrs),
            bodies,
            module: module.to_owned(),
            call: n.call,
            torch_op: or_default(n.torch_op.as_deref(), torch.then_some(&*op_text)),
            fx_node: or_default(n.fx_node.as_deref(), Some(&*n.name).filter(|name| torch && !name.is_empty())),
            source: n.stack_trace.as_deref().map(str::to_owned),
            ordinal: (n.ordinal != index).then_some(n.ordinal),
        }
    }
}

fn op(op: &Op, text: &str) -> schema::Op {
    if parse_op(op.dialect, text) == *op {
        return schema::Op::Text(text.to_owned());
    }
    schema::Op::Parts { domain: op.domain.to_string(), name: op.name.to_string(), overload: op.overload.to_string() }
}

/// A name for every value: its own, unless another value has it too, or it has none and is read.
fn names(g: &Graph) -> Vec<String> {
    let mut taken: FastMap<&str, ()> = FastMap::default();
    taken.reserve(g.values().len());
    let mut free: Vec<bool> = Vec::with_capacity(g.values().len());
    for v in g.values() {
        free.push(v.name.is_empty() || taken.insert(&v.name, ()).is_none());
    }
    let mut returned = vec![false; g.values().len()];
    for v in g.outputs() {
        returned[v.index()] = true;
    }
    let mut made_up: FastMap<String, ()> = FastMap::default();
    let name = |(i, v): (usize, &crate::graph::Value)| {
        let nameless = v.name.is_empty() && (returned[i] || !g.consumers(ValueId::new(i)).is_empty());
        if free[i] && !nameless {
            return v.name.to_string();
        }
        let mut name = format!("{}#{i}", v.name);
        while taken.contains_key(name.as_str()) || made_up.contains_key(&name) {
            name.push('\'');
        }
        made_up.insert(name.clone(), ());
        name
    };
    g.values().iter().enumerate().map(name).collect()
}

/// Types and shapes. A table of all values also gives their order, and so it is whole where that is not the one in which
/// they would be made without it.
fn values(g: &Graph, names: &[String]) -> Map<schema::Value> {
    let mut natural: Vec<ValueId> = g.inputs().to_vec();
    let ids = |f: &dyn Fn(&ValueKind) -> bool| -> Vec<ValueId> {
        g.values().iter().enumerate().filter(|(_, v)| f(&v.kind)).map(|(i, _)| ValueId::new(i)).collect()
    };
    natural.extend(ids(&|k| matches!(k, ValueKind::Initializer(_))));
    natural.extend(g.nodes().iter().flat_map(|n| n.outputs.iter().flatten().copied()));
    let whole = !natural.is_sorted();
    let mut table: IndexMap<String, schema::Value, Seeded> = IndexMap::default();
    for (v, name) in g.values().iter().zip(names) {
        if matches!(v.kind, ValueKind::Captured { .. }) || name.is_empty() {
            continue;
        }
        // A stored tensor says it itself.
        let stored = match &v.kind {
            ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } => Some(w),
            _ => None,
        };
        let known = stored.map(|w| (Some(w.dtype), Shape::known(&w.shape)));
        let told = known.as_ref().is_some_and(|(d, s)| *d == v.dtype && *s == v.shape);
        let silent =
            if told { v.ty == ValueType::Tensor } else { v.dtype.is_none() && v.shape.dims().is_none() && v.ty == ValueType::Tensor };
        if silent && !whole {
            continue;
        }
        let entry = schema::Value {
            ty: v.ty,
            dtype: v.dtype.filter(|_| !told).map(|d| d.name().to_owned()),
            shape: if told { None } else { v.shape.dims().map(|d| d.iter().map(dim).collect()) },
        };
        table.insert(name.clone(), entry);
    }
    Map(table)
}

fn dim(d: &Dim) -> Option<schema::Dim> {
    match d {
        Dim::Known(n) => Some(schema::Dim::Size(*n)),
        Dim::Sym(e) if e.is_overflow() => None,
        Dim::Sym(e) => Some(schema::Dim::Expression(format!("{e:#}"))),
        Dim::Unknown => None,
    }
}
