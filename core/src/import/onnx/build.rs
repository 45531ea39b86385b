//! From messages to a [`Graph`]: names become values, level by level.
//!
//! A *level* is a graph under construction: the main graph, or a body inside it. A *frame* is a set of names: that of
//! the main graph, of a body (which also sees the frame around it), or of one call of a function (which sees nothing
//! else, and whose nodes join the level of the call). A name found in a frame of an outer level is captured by every
//! level in between.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use super::calls::Call;
use super::functions::{Functions, Key};
use super::hierarchy::Hierarchy;
use super::names::{FastMap, Interner, show, text};
use super::proto::{GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};
use super::tensors::Tensors;
use super::types::Types;
use crate::diagnostic::Diagnostic;
use crate::graph::{Graph, Node, NodeId, Op, Value, ValueId, ValueKind, ValueType};
use crate::import::reports::Reports;
use crate::import::sort::{Sorted, sort};
use crate::import::{ImportError, ImportErrorKind};
use crate::modules::ModuleId;
use crate::shape::Shape;
use crate::weights::{DataFile, WeightRef};

/// Graphs inside each other, above which a model is refused. The decoder already stops near 33; functions with bodies
/// that call functions with bodies can nest further.
const MAX_LEVELS: usize = 64;
/// Nodes, values and edges are counted in 32 bits; this leaves room for sums.
const MAX_ELEMENTS: usize = 1 << 30;

/// A graph under construction.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) values: Vec<Value>,
    pub(super) nodes: Vec<Node>,
    /// Values of the level around this one, by their id there.
    captured: FastMap<u32, ValueId>,
    /// The keys of `captured` in first-use order.
    captures: Vec<ValueId>,
    /// Frame of the graph itself.
    pub(super) frame: usize,
    /// Prefixes and names that expanded calls made up.
    pub(super) made_up: FastMap<Box<str>, u32>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The value; `None` for a function's parameter that the call leaves out.
    pub(super) value: Option<ValueId>,
    /// Whether something makes it already; a function's result waits for a node.
    pub(super) made: bool,
}

/// A set of names.
#[derive(Debug)]
pub(super) struct Frame<'p> {
    pub(super) names: FastMap<&'p [u8], Slot>,
    pub(super) level: usize,
    /// The frame whose names are seen through this one.
    pub(super) parent: Option<usize>,
    /// The call whose function the nodes stand in.
    pub(super) call: Option<usize>,
    /// Module of nodes that name none themselves.
    pub(super) module: ModuleId,
    /// Values of the nodes' outputs as declared, in file order, and how many of them were taken by built nodes.
    pub(super) declared: Vec<ValueId>,
    pub(super) taken: usize,
}

/// Builds one model.
pub(super) struct Builder<'p> {
    path: &'p Path,
    pub(super) tensors: Tensors,
    pub(super) types: Types<'p>,
    pub(super) functions: Functions<'p>,
    pub(super) hierarchy: Hierarchy<'p>,
    pub(super) texts: Interner<'p>,
    pub(super) ops: FastMap<Key<'p>, Arc<Op>>,
    pub(super) opsets: &'p IndexMap<String, i64>,
    pub(super) levels: Vec<Level>,
    pub(super) frames: Vec<Frame<'p>>,
    pub(super) calls: Vec<Call<'p>>,
    /// Tensors of function attributes by address, shared between the calls.
    pub(super) shared: FastMap<usize, WeightRef>,
    /// Nodes made so far, in all levels.
    pub(super) nodes_made: u64,
    pub(super) reports: Reports,
    /// Initializers are constants even where an input has their name (below IR 4).
    initializers_are_constant: bool,
}

/// Marks an [`ValueKind::Output`] whose node was not built yet.
const NOT_MADE: NodeId = NodeId(u32::MAX);

impl<'p> Builder<'p> {
    pub(super) fn new(
        path: &'p Path,
        file: Arc<DataFile>,
        model: &'p ModelProto,
        opsets: &'p IndexMap<String, i64>,
        reports: Reports,
    ) -> Self {
        Self {
            path,
            tensors: Tensors::new(path, file),
            types: Types::default(),
            functions: Functions::new(model),
            hierarchy: Hierarchy::new(model.graph.as_ref()),
            texts: Interner::default(),
            ops: FastMap::default(),
            opsets,
            levels: Vec::new(),
            frames: Vec::new(),
            calls: Vec::new(),
            shared: FastMap::default(),
            nodes_made: 0,
            reports,
            initializers_are_constant: model.ir_version.is_some_and(|v| (1..4).contains(&v)),
        }
    }

    pub(super) fn invalid(&self, why: impl Into<String>) -> ImportError {
        ImportError::new(self.path, ImportErrorKind::InvalidGraph, why)
    }

    pub(super) fn too_large(&self, why: impl Into<String>) -> ImportError {
        ImportError::new(self.path, ImportErrorKind::TooLarge, why)
    }

    /// Builds a graph with all below it. `parent` is the frame it sees; `place` says in messages what it is. Gives the
    /// graph and the values of the level around it that it reads.
    pub(super) fn graph(
        &mut self,
        g: &'p GraphProto,
        parent: Option<usize>,
        module: ModuleId,
        place: &str,
    ) -> Result<(Graph, Vec<ValueId>), ImportError> {
        if self.levels.len() >= MAX_LEVELS {
            return Err(self.too_large(format!("the graph is nested too deeply: more than {MAX_LEVELS} graphs stand inside each other")));
        }
        if g.node.len().max(g.initializer.len()).max(g.input.len()) > MAX_ELEMENTS {
            return Err(self.too_large(format!("{place} has more than {MAX_ELEMENTS} nodes")));
        }
        let (level, frame) = (self.levels.len(), self.frames.len());
        self.levels.push(Level { frame, nodes: Vec::with_capacity(g.node.len()), ..Level::default() });
        let call = parent.and_then(|p| self.frames[p].call);
        let mut names = FastMap::default();
        names.reserve(g.input.len() + g.initializer.len() + g.node.len());
        self.frames.push(Frame { names, level, parent, call, module, declared: Vec::with_capacity(g.node.len()), taken: 0 });
        let inputs = self.inputs(frame, g, place)?;
        self.declare(frame, &g.node, "")?;
        self.declared_types(frame, g.value_info.iter().chain(&g.output));
        self.nodes(frame, &g.node, None)?;
        let outputs = self.outputs(frame, g, place)?;
        self.frames.truncate(frame);
        let built = self.levels.pop().unwrap_or_default();
        self.finish(built, text(&g.name), inputs, outputs, place)
    }

    /// Declares inputs and initializers.
    fn inputs(&mut self, frame: usize, g: &'p GraphProto, place: &str) -> Result<Vec<ValueId>, ImportError> {
        let mut stored: IndexMap<&'p [u8], WeightRef, crate::hash::Seeded> = IndexMap::default();
        stored.reserve(g.initializer.len() + g.sparse_initializer.len());
        let reports = &mut self.reports;
        for t in &g.initializer {
            let w = self.tensors.dense(t, &format!("initializer `{}`", show(&t.name)), &mut |d| reports.add(d));
            if stored.insert(&t.name, w).is_some() {
                reports.add(duplicate_initializer(&t.name));
            }
        }
        for t in &g.sparse_initializer {
            let name: &[u8] = t.values.as_ref().map_or(b"", |v| &v.name);
            let w = self.tensors.sparse(t, &format!("sparse initializer `{}`", show(name)), &mut |d| reports.add(d));
            if stored.insert(name, w).is_some() {
                reports.add(duplicate_initializer(name));
            }
        }
        let mut inputs = Vec::with_capacity(g.input.len());
        for vi in &g.input {
            let default = stored.get_mut(vi.name.as_ref()).filter(|_| !vi.name.is_empty());
            if default.is_some() && self.initializers_are_constant {
                continue;
            }
            let (ty, dtype, shape) = vi.r#type.as_ref().map_or_else(Default::default, |t| self.types.read(t));
            let mut value = Value { name: text(&vi.name), kind: ValueKind::Input { default: None }, ty, dtype, shape };
            if let Some(w) = default {
                let weight_dtype = known_dtype(w);
                let differs = value.dtype.is_some() && weight_dtype.is_some() && value.dtype != weight_dtype
                    || value.shape.dims().is_some_and(|dims| {
                        dims.len() != w.shape.len() || dims.iter().zip(&w.shape).any(|(d, n)| d.known().is_some_and(|d| d != *n))
                    });
                if differs {
                    self.reports.add(
                        Diagnostic::warning(
                            "initializer_mismatch",
                            format!(
                                "graph input `{}` and the initializer of that name disagree: declared {}{}, stored {}{}",
                                show(&vi.name),
                                value.dtype.map_or("?", |d| d.name()),
                                value.shape,
                                w.dtype,
                                Shape::known(&w.shape)
                            ),
                        )
                        .with_value(&value.name),
                    );
                }
                value.dtype = value.dtype.or(weight_dtype);
                value.kind = ValueKind::Input { default: Some(std::mem::replace(w, WeightRef::inline(w.dtype, &[0], Vec::new()))) };
            }
            let id = self.add_value(frame, value);
            inputs.push(id);
            if vi.name.is_empty() {
                continue;
            }
            if self.frames[frame].names.insert(&vi.name, Slot { value: Some(id), made: true }).is_some() {
                return Err(self.invalid(format!("{place} lists its input `{}` twice", show(&vi.name))));
            }
        }
        for (name, weight) in stored {
            if self.frames[frame].names.contains_key(name) {
                continue;
            }
            let (dtype, shape) = (known_dtype(&weight), Shape::known(&weight.shape));
            let value = Value { name: text(name), kind: ValueKind::Initializer(weight), ty: ValueType::Tensor, dtype, shape };
            let id = self.add_value(frame, value);
            self.frames[frame].names.insert(name, Slot { value: Some(id), made: true });
        }
        Ok(inputs)
    }

    pub(super) fn add_value(&mut self, frame: usize, value: Value) -> ValueId {
        let values = &mut self.levels[self.frames[frame].level].values;
        values.push(value);
        ValueId::new(values.len() - 1)
    }

    /// Makes a value for every output of `nodes`, so that nodes may be in any order.
    pub(super) fn declare(&mut self, frame: usize, nodes: &'p [NodeProto], prefix: &str) -> Result<(), ImportError> {
        for node in nodes {
            for name in node.output.iter().filter(|n| !n.is_empty()) {
                let id = match self.frames[frame].names.get_mut(name.as_ref()) {
                    Some(Slot { value: Some(id), made }) if !*made => {
                        *made = true;
                        *id
                    }
                    Some(slot) => {
                        let slot = *slot;
                        return Err(self.made_twice(frame, nodes, node, name, slot));
                    }
                    None => {
                        let name_here = if prefix.is_empty() { text(name) } else { self.made_up_name(frame, prefix, name) };
                        let id = self.add_value(frame, unmade(name_here));
                        self.frames[frame].names.insert(name, Slot { value: Some(id), made: true });
                        id
                    }
                };
                self.frames[frame].declared.push(id);
            }
        }
        Ok(())
    }

    fn made_twice(&self, frame: usize, nodes: &[NodeProto], node: &NodeProto, name: &[u8], slot: Slot) -> ImportError {
        let level = &self.levels[self.frames[frame].level];
        let first = nodes.iter().find(|n| n.output.iter().any(|o| o == name)).filter(|n| !std::ptr::eq(*n, node));
        let already = match slot.value.map(|v| &level.values[v.index()].kind) {
            Some(ValueKind::Output { .. }) => match first {
                Some(first) => format!("{} already makes it", label(first)),
                None => "it makes it twice".to_owned(),
            },
            Some(ValueKind::Initializer(_)) => "that is already the name of an initializer".to_owned(),
            _ => "that is already the name of an input".to_owned(),
        };
        self.invalid(format!("value `{}` is made more than once: {} makes it, but {already}", show(name), label(node)))
    }

    /// Takes the types that the file states of inner values and outputs.
    pub(super) fn declared_types(&mut self, frame: usize, infos: impl Iterator<Item = &'p ValueInfoProto>) {
        for vi in infos {
            let Some(t) = &vi.r#type else { continue };
            let Some(Slot { value: Some(id), .. }) = self.frames[frame].names.get(vi.name.as_ref()).copied() else { continue };
            let level = self.frames[frame].level;
            let value = &self.levels[level].values[id.index()];
            // Stored tensors know better, inputs were read, and a first statement stands.
            if matches!(value.kind, ValueKind::Output { .. }) && value.dtype.is_none() && value.shape.dims().is_none() {
                self.set_type(level, id, t);
            }
        }
    }

    fn set_type(&mut self, level: usize, id: ValueId, t: &'p TypeProto) {
        let (ty, dtype, shape) = self.types.read(t);
        let value = &mut self.levels[level].values[id.index()];
        (value.ty, value.dtype, value.shape) = (ty, dtype, shape);
    }

    fn outputs(&mut self, frame: usize, g: &'p GraphProto, place: &str) -> Result<Vec<ValueId>, ImportError> {
        let mut outputs = Vec::with_capacity(g.output.len());
        for vi in &g.output {
            match self.resolve(frame, &vi.name) {
                Some(Some(id)) => outputs.push(id),
                _ => {
                    return Err(
                        self.invalid(format!("output `{}` of {place} is made by no node, and is no input or initializer", show(&vi.name)))
                    );
                }
            }
        }
        if outputs.len() > 1 {
            let mut seen = FastMap::default();
            for (vi, id) in g.output.iter().zip(&outputs) {
                if seen.insert(id.0, ()).is_some() {
                    let message = format!("output `{}` of {place} is listed twice", show(&vi.name));
                    self.reports.add(Diagnostic::warning("duplicate_output", message).with_value(&text(&vi.name)));
                }
            }
        }
        Ok(outputs)
    }

    /// The value that `name` means in `frame`, captured down to the level being built. `Some(None)` is a parameter that
    /// was left out; `None` is a name that nothing has.
    #[allow(clippy::option_option)]
    pub(super) fn resolve(&mut self, frame: usize, name: &[u8]) -> Option<Option<ValueId>> {
        let mut at = frame;
        loop {
            let f = &self.frames[at];
            if let Some(slot) = f.names.get(name) {
                let Some(mut value) = slot.value else { return Some(None) };
                for level in f.level + 1..self.levels.len() {
                    value = self.capture(level, value);
                }
                return Some(Some(value));
            }
            at = f.parent?;
        }
    }

    /// The value inside `level` that stands for `outer` of the level around it.
    fn capture(&mut self, level: usize, outer: ValueId) -> ValueId {
        if let Some(&inner) = self.levels[level].captured.get(&outer.0) {
            return inner;
        }
        let source = &self.levels[level - 1].values[outer.index()];
        let mut value = Value { kind: ValueKind::Captured { outer }, ..source.clone() };
        while self.frames[self.levels[level].frame].names.contains_key(value.name.as_bytes()) {
            value.name = format!("{}'", value.name).into();
        }
        let here = &mut self.levels[level];
        let inner = ValueId::new(here.values.len());
        here.values.push(value);
        here.captured.insert(outer.0, inner);
        here.captures.push(outer);
        inner
    }

    /// Adds a finished node to the level being built.
    pub(super) fn push(&mut self, node: Node) {
        let Some(level) = self.levels.last_mut() else { return };
        let id = NodeId::new(level.nodes.len());
        for (slot, v) in (0u32..).zip(&node.outputs) {
            if let Some(v) = v {
                level.values[v.index()].kind = ValueKind::Output { node: id, slot };
            }
        }
        level.nodes.push(node);
    }

    fn finish(
        &mut self,
        mut level: Level,
        name: Box<str>,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
        place: &str,
    ) -> Result<(Graph, Vec<ValueId>), ImportError> {
        if let Some(v) = level.values.iter().find(|v| matches!(v.kind, ValueKind::Output { node: NOT_MADE, .. })) {
            return Err(self.invalid(format!("value `{}` of {place} is made by no node", show(v.name.as_bytes()))));
        }
        match sort(&mut level.nodes, &mut level.values) {
            Sorted::AsFound => {}
            Sorted::Moved(n) => self.reports.add(Diagnostic::warning(
                "unsorted_nodes",
                format!("the nodes of {place} are not in topological order, as the format asks: {n} of them were sorted into other places"),
            )),
            Sorted::Cycle(circle) => {
                let names: Vec<String> = circle.iter().take(6).map(|&i| built_label(&level.nodes[i])).collect();
                let rest = if circle.len() > 6 { format!(" → … ({} nodes in all)", circle.len()) } else { String::new() };
                let first = names.first().cloned().unwrap_or_default();
                return Err(self.invalid(format!("{place} has a cycle: {}{rest} → {first}", names.join(" → "))));
            }
        }
        Ok((Graph::new(name, level.nodes, level.values, inputs, outputs), level.captures))
    }
}

/// A value that a node is going to make.
pub(super) fn unmade(name: Box<str>) -> Value {
    let kind = ValueKind::Output { node: NOT_MADE, slot: 0 };
    Value { name, kind, ty: ValueType::Tensor, dtype: None, shape: Shape::UNKNOWN }
}

/// Element type of a stored tensor, unless the file gave a number that means none.
fn known_dtype(w: &WeightRef) -> Option<crate::dtype::DType> {
    match &w.storage {
        crate::weights::Storage::Missing(why) if why.contains("data type number") => None,
        _ => Some(w.dtype),
    }
}

fn duplicate_initializer(name: &[u8]) -> Diagnostic {
    let message = format!("there are several initializers called `{}`: the last one is used", show(name));
    Diagnostic::warning("duplicate_initializer", message).with_value(&text(name))
}

/// A node as messages name it.
pub(super) fn label(node: &NodeProto) -> String {
    let op = if node.op_type.is_empty() { "no op type".to_owned() } else { show(&node.op_type) };
    if !node.name.is_empty() {
        return format!("node `{}` ({op})", show(&node.name));
    }
    match node.output.iter().find(|o| !o.is_empty()) {
        Some(o) => format!("the unnamed node that makes `{}` ({op})", show(o)),
        None => format!("an unnamed node ({op})"),
    }
}

fn built_label(node: &Node) -> String {
    let op = show(node.op.to_string().as_bytes());
    if node.name.is_empty() {
        format!("unnamed node number {} ({op})", node.ordinal)
    } else {
        format!("node `{}` ({op})", show(node.name.as_bytes()))
    }
}
