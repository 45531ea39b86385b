//! From the file's types to a [`Graph`]: names become values, level by level.

use std::path::Path;
use std::sync::Arc;

use super::Fault;
use super::attrs::Scope;
use super::schema::{self, GraphFile, Map};
use super::tensors::{Tensors, dtype};
use crate::diagnostic::{Diagnostic, printable};
use crate::graph::{Attr, AttrValue, Body, Dialect, Graph, Node, NodeId, Op, Value, ValueId, ValueKind, ValueType};
use crate::hash::FastMap;
use crate::import::dims::parse_dim;
use crate::import::sort::{Sorted, sort};
use crate::modules::ModuleTreeBuilder;
use crate::shape::{Dim, Shape};

/// Most nodes, with those of nested graphs.
const MAX_NODES: usize = 20_000_000;

/// One graph of the file.
#[derive(Clone, Copy)]
pub(super) struct Source<'p> {
    name: &'p str,
    inputs: &'p [String],
    outputs: &'p [String],
    nodes: &'p [schema::Node],
    values: &'p Map<schema::Value>,
    initializers: &'p Map<schema::Tensor>,
    captures: Option<&'p Map<String>>,
}

impl<'p> Source<'p> {
    /// The main graph.
    pub(super) fn main(f: &'p GraphFile) -> Self {
        Self {
            name: &f.name,
            inputs: &f.inputs,
            outputs: &f.outputs,
            nodes: &f.nodes,
            values: &f.values,
            initializers: &f.initializers,
            captures: None,
        }
    }

    fn body(b: &'p schema::Body) -> Self {
        Self {
            name: &b.name,
            inputs: &b.inputs,
            outputs: &b.outputs,
            nodes: &b.nodes,
            values: &b.values,
            initializers: &b.initializers,
            captures: Some(&b.captures),
        }
    }
}

/// What makes a value.
#[derive(Clone, Copy)]
enum Maker {
    Input(usize),
    Initializer,
    Output(usize, usize),
}

/// A graph under construction.
#[derive(Default)]
struct Level<'p> {
    values: Vec<Value>,
    names: FastMap<&'p str, ValueId>,
    /// Names in here of values of the level around.
    renamed: Option<&'p Map<String>>,
    /// Values of the level around, by their id there, and in the order of their first use.
    captured: FastMap<u32, ValueId>,
    captures: Vec<ValueId>,
}

/// Builds one model.
pub(super) struct Builder<'p> {
    dialect: Dialect,
    pub(super) tensors: Tensors<'p>,
    pub(super) modules: ModuleTreeBuilder,
    levels: Vec<Level<'p>>,
    ops: FastMap<(Dialect, &'p str), Arc<Op>>,
    texts: FastMap<&'p str, Arc<str>>,
    dims: FastMap<&'p str, Dim>,
    nodes: usize,
}

impl<'p> Builder<'p> {
    pub(super) fn new(path: &Path, file: &'p GraphFile, dialect: Dialect) -> Self {
        Self {
            dialect,
            tensors: Tensors::new(path, &file.files),
            modules: ModuleTreeBuilder::default(),
            levels: Vec::new(),
            ops: FastMap::default(),
            texts: FastMap::default(),
            dims: FastMap::default(),
            nodes: 0,
        }
    }

    /// Takes the modules that the file lists.
    pub(super) fn module_list(&mut self, modules: &'p Map<schema::Module>) -> Result<(), Fault> {
        for (path, module) in &modules.0 {
            match module {
                schema::Module::Class(class) => {
                    let class = class.as_deref().map(|c| self.text(c));
                    self.modules.module(path, class.as_ref());
                }
                schema::Module::Inside { parent, class } => {
                    let around = self.modules.find(parent).ok_or_else(|| {
                        let why =
                            format!("`{}` is said to be inside `{}`, which does not stand before it", printable(path), printable(parent));
                        Fault::new(format!("modules.{}", printable(path)), why)
                    })?;
                    let class = class.as_deref().map(|c| self.text(c));
                    self.modules.inside(around, path, class.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Builds a graph with all below it; nesting is capped by the parser. Gives the graph and the values of the level
    /// around it that it reads. `prefix` stands before every place in messages.
    pub(super) fn graph(&mut self, g: Source<'p>, prefix: &str) -> Result<(Graph, Vec<ValueId>), Fault> {
        self.nodes = self.nodes.saturating_add(g.nodes.len());
        if self.nodes > MAX_NODES {
            return Err(Fault::too_large(format!("there are more than {MAX_NODES} nodes")));
        }
        let makers = makers(g, prefix)?;
        self.levels.push(Level { renamed: g.captures, ..Level::default() });
        // A table of all values gives their order; else it is that in which they are made.
        if makers.keys().all(|name| g.values.0.contains_key(*name)) {
            for name in g.values.0.keys() {
                if let Some(&maker) = makers.get(name.as_str()) {
                    self.value(g, name, maker, prefix)?;
                }
            }
        }
        let mut inputs = Vec::with_capacity(g.inputs.len());
        for (i, name) in g.inputs.iter().enumerate() {
            inputs.push(self.value(g, name, Maker::Input(i), prefix)?);
        }
        for name in g.initializers.0.keys() {
            if let Some(Maker::Initializer) = makers.get(name.as_str()) {
                self.value(g, name, Maker::Initializer, prefix)?;
            }
        }
        for (i, node) in g.nodes.iter().enumerate() {
            for (slot, name) in node.outputs.iter().enumerate() {
                if let Some(name) = name.as_deref().filter(|n| !n.is_empty()) {
                    self.value(g, name, Maker::Output(i, slot), prefix)?;
                }
            }
        }
        let mut nodes = Vec::with_capacity(g.nodes.len());
        for (i, node) in g.nodes.iter().enumerate() {
            let made = self.node(node, i, prefix)?;
            nodes.push(made);
        }
        let mut outputs = Vec::with_capacity(g.outputs.len());
        for (i, name) in g.outputs.iter().enumerate() {
            outputs.push(self.resolve(name).ok_or_else(|| {
                let why = format!("output `{}` is made by no node, and is no input or initializer", printable(name));
                Fault::new(format!("{prefix}outputs[{i}]"), why)
            })?);
        }
        for name in g.values.0.keys().filter(|n| !makers.contains_key(n.as_str())) {
            if self.resolve_known(name).is_none() {
                let message = format!("{prefix}values has a type for `{}`, which nothing makes", printable(name));
                self.tensors.reports.add(Diagnostic::warning("unknown_value", message).with_value(name));
            }
        }
        let mut level = self.levels.pop().unwrap_or_default();
        self.sort(&mut nodes, &mut level.values, prefix)?;
        Ok((Graph::new(g.name.into(), nodes, level.values, inputs, outputs), level.captures))
    }

    fn sort(&mut self, nodes: &mut Vec<Node>, values: &mut [Value], prefix: &str) -> Result<(), Fault> {
        match sort(nodes, values) {
            // Any order is fine.
            Sorted::AsFound | Sorted::Moved(_) => Ok(()),
            Sorted::Cycle(circle) => {
                let label = |&i: &usize| {
                    let name = nodes.get(i).map_or("", |n| &n.name);
                    if name.is_empty() { format!("nodes[{i}]") } else { format!("`{}`", printable(name)) }
                };
                let names: Vec<String> = circle.iter().take(6).map(label).collect();
                let rest = if circle.len() > 6 { format!(" → … ({} nodes in all)", circle.len()) } else { String::new() };
                let first = names.first().cloned().unwrap_or_default();
                Err(Fault::new(
                    format!("{prefix}nodes"),
                    format!("they read each other in a circle: {}{rest} → {first}", names.join(" → ")),
                ))
            }
        }
    }

    /// The value called `name`, made if it is new.
    fn value(&mut self, g: Source<'p>, name: &'p str, maker: Maker, prefix: &str) -> Result<ValueId, Fault> {
        if let Some(&known) = self.levels.last().and_then(|l| l.names.get(name)) {
            return Ok(known);
        }
        let stated = g.values.0.get(name);
        let (ty, mut dtype, mut shape) = match stated {
            None => (ValueType::Tensor, None, Shape::UNKNOWN),
            Some(v) => {
                let place = || format!("{prefix}values.{}.dtype", printable(name));
                let dtype = v.dtype.as_deref().map(|d| dtype(d, place)).transpose()?;
                (v.ty, dtype, self.shape(v.shape.as_deref()))
            }
        };
        let kind = match maker {
            Maker::Output(i, slot) => {
                let slot = u32::try_from(slot).map_err(|_| Fault::too_large("a node has too many outputs"))?;
                ValueKind::Output { node: NodeId::new(i), slot }
            }
            Maker::Input(_) | Maker::Initializer => {
                let stored = g.initializers.0.get(name);
                let place = format!("{prefix}initializers.{}", printable(name));
                let what = format!("initializer `{}`", printable(name));
                let weight = stored.map(|t| self.tensors.read(t, &place, &what, name)).transpose()?;
                if let Some(w) = &weight {
                    dtype = dtype.or(Some(w.dtype));
                    if shape.dims().is_none() {
                        shape = Shape::known(&w.shape);
                    }
                }
                match (maker, weight) {
                    (Maker::Initializer, Some(w)) => ValueKind::Initializer(w),
                    (_, default) => ValueKind::Input { default },
                }
            }
        };
        let value = Value { name: name.into(), kind, ty, dtype, shape };
        let Some(level) = self.levels.last_mut() else { return Err(Fault::too_large("there is no graph")) };
        let id = ValueId::new(level.values.len());
        level.values.push(value);
        if !name.is_empty() {
            level.names.insert(name, id);
        }
        Ok(id)
    }

    fn shape(&mut self, dims: Option<&'p [Option<schema::Dim>]>) -> Shape {
        let Some(dims) = dims else { return Shape::UNKNOWN };
        let dim = |d: &'p Option<schema::Dim>| match d {
            None => Dim::Unknown,
            Some(schema::Dim::Size(n)) => Dim::Known(*n),
            Some(schema::Dim::Expression(text)) => self.dims.entry(text).or_insert_with(|| parse_dim(text)).clone(),
        };
        Shape::new(dims.iter().map(dim).collect::<Box<[_]>>())
    }

    fn node(&mut self, n: &'p schema::Node, index: usize, prefix: &str) -> Result<Node, Fault> {
        let place = |field: &str| format!("{prefix}nodes[{index}].{field}");
        let dialect = n.dialect.unwrap_or(self.dialect);
        if dialect == Dialect::OpenVino {
            return Err(Fault::new(place("dialect"), "there are the dialects onnx, aten and json"));
        }
        let op = self.op(dialect, &n.op);
        if op.name.is_empty() {
            let message = format!("{} has no op type: it cannot be run", label(n, index));
            self.tensors.reports.add(Diagnostic::error("no_op_type", message).with_node(&n.name));
        }
        let mut inputs = Vec::with_capacity(n.inputs.len());
        for (i, name) in n.inputs.iter().enumerate() {
            let name = name.as_deref().filter(|n| !n.is_empty());
            inputs.push(match name {
                None => None,
                Some(name) => Some(self.resolve(name).ok_or_else(|| {
                    let why = format!(
                        "{} reads value `{}`, which no node makes and which is no input or initializer that can be seen from there",
                        label(n, index),
                        printable(name)
                    );
                    Fault::new(place(&format!("inputs[{i}]")), why)
                })?),
            });
        }
        let made = |name: &Option<String>| {
            let name = name.as_deref().filter(|n| !n.is_empty())?;
            self.levels.last()?.names.get(name).copied()
        };
        let outputs: Box<[Option<ValueId>]> = n.outputs.iter().map(made).collect();
        let (mut bodies, mut captures) = (Vec::with_capacity(n.bodies.len()), Vec::new());
        for (i, b) in n.bodies.iter().enumerate() {
            let (graph, read) = self.graph(Source::body(b), &place(&format!("bodies[{i}].")))?;
            bodies.push(Body { attr: self.text(&b.attr), graph });
            captures.extend(read);
        }
        let mut seen = FastMap::default();
        captures.retain(|v: &ValueId| seen.insert(v.0, ()).is_none());
        let mut scope = Scope { inputs: inputs.len(), held: vec![false; bodies.len()], single: dialect == Dialect::Onnx };
        let mut attrs = Vec::with_capacity(n.attrs.0.len());
        for (name, v) in &n.attrs.0 {
            let value = self.attribute(v, &mut scope, &place(&format!("attrs.{}", printable(name))))?;
            attrs.push(Attr { name: self.text(name), value });
        }
        for (i, body) in bodies.iter().enumerate().filter(|(i, _)| !scope.held.get(*i).is_some_and(|h| *h)) {
            if attrs.iter().any(|a| a.name == body.attr) {
                let why = format!("the node has an attribute `{}` already, which does not hold this body", printable(&body.attr));
                return Err(Fault::new(place(&format!("bodies[{i}].attr")), why));
            }
            attrs.push(Attr { name: body.attr.clone(), value: AttrValue::Body(i) });
        }
        let ordinal = match n.ordinal {
            Some(o) => o,
            None => NodeId::new(index).0,
        };
        let torch = dialect == Dialect::Aten;
        let torch_op = match &n.torch_op {
            Some(t) => Some(self.text(t)).filter(|t| !t.is_empty()),
            None if torch => Some(op.to_string().into()),
            None => None,
        };
        let fx_node = match &n.fx_node {
            Some(t) => Some(self.text(t)).filter(|t| !t.is_empty()),
            None if torch && !n.name.is_empty() => Some(self.text(&n.name)),
            None => None,
        };
        Ok(Node {
            name: n.name.as_str().into(),
            op,
            inputs: inputs.into(),
            outputs,
            attrs: attrs.into(),
            bodies: bodies.into(),
            captures: captures.into(),
            module: self.modules.module(&n.module, None),
            call: n.call,
            torch_op,
            fx_node,
            stack_trace: n.source.as_deref().map(|t| self.text(t)),
            ordinal,
            opset: n.opset,
        })
    }

    fn op(&mut self, dialect: Dialect, op: &'p schema::Op) -> Arc<Op> {
        match op {
            schema::Op::Text(text) => match self.ops.get(&(dialect, text.as_str())) {
                Some(op) => op.clone(),
                None => {
                    let op = Arc::new(parse_op(dialect, text));
                    self.ops.insert((dialect, text), op.clone());
                    op
                }
            },
            schema::Op::Parts { domain, name, overload } => {
                Arc::new(Op { dialect, domain: domain.as_str().into(), name: name.as_str().into(), overload: overload.as_str().into() })
            }
        }
    }

    fn text(&mut self, text: &'p str) -> Arc<str> {
        self.texts.entry(text).or_insert_with(|| text.into()).clone()
    }

    /// The value that `name` means in the innermost level, captured down to it; `None` if nothing has that name.
    fn resolve(&mut self, name: &'p str) -> Option<ValueId> {
        let innermost = self.levels.len().checked_sub(1)?;
        // Outwards, with the name that it has at each level.
        let mut names: Vec<&'p str> = Vec::new();
        let (mut at, mut sought) = (innermost, name);
        let mut value = loop {
            let level = self.levels.get(at)?;
            if let Some(&id) = level.names.get(sought) {
                break id;
            }
            names.push(sought);
            if let Some(outer) = level.renamed.and_then(|r| r.0.get(sought)) {
                sought = outer;
            }
            at = at.checked_sub(1)?;
        };
        while let Some(name) = names.pop() {
            at += 1;
            value = self.capture(at, value, name)?;
        }
        Some(value)
    }

    /// [`Builder::resolve`] without capturing anything: the position of the level that has the name.
    fn resolve_known(&self, name: &str) -> Option<usize> {
        let mut sought = name;
        for (at, level) in self.levels.iter().enumerate().rev() {
            if level.names.contains_key(sought) {
                return Some(at);
            }
            if let Some(outer) = level.renamed.and_then(|r| r.0.get(sought)) {
                sought = outer;
            }
        }
        None
    }

    /// The value called `name` inside level `at` that stands for `outer` of the level around it.
    fn capture(&mut self, at: usize, outer: ValueId, name: &'p str) -> Option<ValueId> {
        let source = self.levels.get(at.checked_sub(1)?)?.values.get(outer.index())?.clone();
        let level = self.levels.get_mut(at)?;
        let inner = match level.captured.get(&outer.0) {
            Some(&inner) => inner,
            None => {
                let inner = ValueId::new(level.values.len());
                level.values.push(Value { name: name.into(), kind: ValueKind::Captured { outer }, ..source });
                level.captured.insert(outer.0, inner);
                level.captures.push(outer);
                inner
            }
        };
        level.names.insert(name, inner);
        Some(inner)
    }
}

/// What makes each name of a graph; a name that two make is an error.
fn makers<'p>(g: Source<'p>, prefix: &str) -> Result<FastMap<&'p str, Maker>, Fault> {
    let mut makers: FastMap<&'p str, Maker> = FastMap::default();
    makers.reserve(g.inputs.len() + g.initializers.0.len() + g.nodes.len());
    let twice = |name: &str, first: Maker, place: String| {
        let first = match first {
            Maker::Input(i) => format!("{prefix}inputs[{i}] has that name already"),
            Maker::Initializer => "that is already the name of an initializer".to_owned(),
            Maker::Output(i, slot) => format!("{prefix}nodes[{i}].outputs[{slot}] makes it already"),
        };
        Err(Fault::new(place, format!("value `{}` is made more than once: {first}", printable(name))))
    };
    for (i, name) in g.inputs.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
        if let Some(first) = makers.insert(name, Maker::Input(i)) {
            return twice(name, first, format!("{prefix}inputs[{i}]"));
        }
    }
    for name in g.initializers.0.keys() {
        // One that has the name of an input is its default.
        makers.entry(name).or_insert(Maker::Initializer);
    }
    for (i, node) in g.nodes.iter().enumerate() {
        for (slot, name) in node.outputs.iter().enumerate() {
            let Some(name) = name.as_deref().filter(|n| !n.is_empty()) else { continue };
            if let Some(first) = makers.insert(name, Maker::Output(i, slot)) {
                return twice(name, first, format!("{prefix}nodes[{i}].outputs[{slot}]"));
            }
        }
    }
    Ok(makers)
}

/// A node as messages name it.
fn label(n: &schema::Node, index: usize) -> String {
    if n.name.is_empty() { format!("nodes[{index}]") } else { format!("node `{}`", printable(&n.name)) }
}

/// An operator from its text: `Conv`, `com.microsoft::Gelu`; of torch `aten.relu.default`, `higher_order.cond`, and the
/// other ways in which torch writes them (`torch.ops.aten.relu.default`, `aten::relu.default`).
pub(crate) fn parse_op(dialect: Dialect, text: &str) -> Op {
    let op = |domain: &str, name: &str, overload: &str| Op { dialect, domain: domain.into(), name: name.into(), overload: overload.into() };
    if dialect != Dialect::Aten {
        return match text.rsplit_once("::") {
            Some(("ai.onnx", name)) if dialect == Dialect::Onnx => op("", name, ""),
            Some((domain, name)) => op(domain, name, ""),
            None => op("", text, ""),
        };
    }
    let text = text.strip_prefix("torch.ops.").unwrap_or(text);
    let (domain, rest) = match text.split_once("::").or_else(|| text.split_once('.')) {
        Some(parts) => parts,
        None => return op("", text, ""),
    };
    match rest.split_once('.') {
        Some((name, overload)) => op(domain, name, overload),
        None => op(domain, rest, ""),
    }
}
