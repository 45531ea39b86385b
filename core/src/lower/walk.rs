//! The walk over the source graph: one call after the other, values bound to names as it goes.

use std::sync::Arc;

use super::call::{Call, Res};
use super::level::{Attrs, Draft, Fact, Level, Ops, Origin, attrs};
use super::{Lowering, lowered_model, ops};
use crate::diagnostic::printable;
use crate::dtype::DType;
use crate::graph::{Attr, AttrValue, Body, Graph, Node, NodeId, ValueId, ValueKind, ValueType};
use crate::hash::FastMap;
use crate::model::Model;
use crate::weights::{DataFile, Storage, WeightRef};

/// A source graph in the middle of being lowered into a level.
pub(super) struct Lower<'a> {
    /// The graph that is read.
    source: &'a Graph,
    /// What its values have become.
    map: Vec<Option<ValueId>>,
    /// What is written.
    pub(super) level: Level,
    /// The level around it, for bodies.
    outer: Option<&'a Level>,
    pub(super) shared: &'a mut Shared,
    /// Of the node that is being lowered.
    pub(super) origin: Origin,
}

/// What all levels of a model share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) ops: Ops,
}

/// Depth of nested graphs above which a node is not lowered: every level is a call of this program.
const MAX_DEPTH: usize = 64;

/// Lowers a whole model.
pub(super) fn model(source: &Arc<Model>) -> Model {
    let graph = &source.graph;
    let mut shared = Shared::default();
    let mut l = Lower::new(graph, Level::default(), None, &mut shared);
    let mut missing: Vec<(NodeId, Arc<str>)> = Vec::new();
    // Tied weights are one initializer.
    let mut stored: FastMap<Stored<'_>, ValueId> = FastMap::default();
    for (i, v) in graph.values().iter().enumerate() {
        let fact = Fact::of_value(v);
        let bound = match &v.kind {
            ValueKind::Input { default } => l.level.input(&v.name, tensor_type(v.ty), fact, default.clone()),
            ValueKind::Initializer(w) => {
                let make = || l.level.value(&v.name, v.kind.clone(), tensor_type(v.ty), fact);
                match Stored::of(w) {
                    Some(place) => *stored.entry(place).or_insert_with(make),
                    None => make(),
                }
            }
            _ => continue,
        };
        l.map[i] = Some(bound);
    }
    for id in graph.node_ids() {
        if let Err(why) = l.node(id, id.0) {
            missing.push((id, why.into()));
        }
    }
    let outputs = graph.outputs().iter().filter_map(|v| l.map[v.index()]).collect();
    let (level, values) = (l.level, l.map);
    let lowered = level.finish(graph.name().into(), outputs);
    let nodes = lowered.nodes().iter().map(|n| NodeId(n.ordinal)).collect();
    lowered_model(source, lowered, Lowering::new(source.clone(), nodes, values, missing))
}

/// Where and how a tensor lies in a file.
#[derive(PartialEq, Eq, Hash)]
struct Stored<'m> {
    file: *const DataFile,
    range: (u64, u64),
    dtype: DType,
    shape: &'m [u64],
    strides: Option<&'m [i64]>,
}

impl<'m> Stored<'m> {
    fn of(w: &'m WeightRef) -> Option<Self> {
        let Storage::File { file, offset, len } = &w.storage else { return None };
        let (file, range) = (Arc::as_ptr(file), (*offset, *len));
        Some(Self { file, range, dtype: w.dtype, shape: &w.shape, strides: w.strides.as_deref() })
    }
}

/// Numbers outside of tensors are 0-d tensors here.
fn tensor_type(ty: ValueType) -> ValueType {
    if ty == ValueType::Scalar { ValueType::Tensor } else { ty }
}

impl<'a> Lower<'a> {
    fn new(source: &'a Graph, level: Level, outer: Option<&'a Level>, shared: &'a mut Shared) -> Self {
        let origin = Origin {
            name: "outputs".into(),
            index: 0,
            module: crate::modules::ModuleId::ROOT,
            call: None,
            torch_op: None,
            fx_node: None,
            stack_trace: None,
        };
        Self { map: vec![None; source.values().len()], source, level, outer, shared, origin }
    }

    /// Lowers one node; its place among the source's nodes is `index`. On a refusal the node stands there as it was.
    fn node(&mut self, id: NodeId, index: u32) -> Res<()> {
        let node = self.source.node(id);
        self.origin = Origin {
            name: self.source.stable_id(id).into(),
            index,
            module: node.module,
            call: node.call,
            torch_op: node.torch_op.clone(),
            fx_node: node.fx_node.clone(),
            stack_trace: node.stack_trace.clone(),
        };
        let (first, before) = (self.level.len(), self.level.mark());
        let lowered = self.called(node).and_then(|results| self.bind(node, first, &results));
        if lowered.is_err() {
            // Nothing reads what a rule made before it refused.
            self.level.back_to(&before);
            self.keep(node);
        }
        let main = node.outputs.iter().flatten().find_map(|v| self.map[v.index()]);
        self.level.name_nodes(first, main, &self.origin);
        lowered
    }

    /// Runs the rule of a node's operator.
    fn called(&mut self, node: &'a Node) -> Res<Vec<Option<ValueId>>> {
        let call = self.call(node)?;
        let rule = ops::rule(&node.op).ok_or_else(|| {
            // An operator of somebody's own, or one of torch's.
            let how =
                if matches!(&*node.op.domain, "aten" | "prims") { "for which there is no lowering" } else { "an opaque op without a body" };
            format!("{}, {how}", printable(&node.op.to_string()))
        })?;
        rule(self, &call).map_err(|why| format!("{}, which is not lowered: {why}", printable(&node.op.to_string())))
    }

    fn call(&self, node: &'a Node) -> Res<Call<'a>> {
        Call::new(node, self.result_facts(node), &|i| {
            node.input(i).and_then(|v| self.map[v.index()]).ok_or_else(|| format!("its input {i} has no value here"))
        })
    }

    /// What the source says of a node's results.
    fn result_facts(&self, node: &Node) -> Vec<Option<Fact>> {
        node.outputs.iter().map(|v| v.map(|v| Fact::of_value(self.source.value(v)))).collect()
    }

    /// Takes down what the source node's results have become.
    fn bind(&mut self, node: &Node, first: usize, results: &[Option<ValueId>]) -> Res<()> {
        for (slot, out) in node.outputs.iter().enumerate() {
            let Some(out) = *out else { continue };
            let Some(&Some(made)) = results.get(slot) else {
                if self.source.consumers(out).is_empty() && !self.source.outputs().contains(&out) {
                    continue;
                }
                return Err(format!("{}, which is not lowered: its result {slot} has no ONNX form, and something reads it", node.op));
            };
            let v = self.source.value(out);
            self.level.adopt(made, first, &v.name, ValueType::Tensor, Fact::of_value(v));
            self.map[out.index()] = Some(made);
        }
        Ok(())
    }

    /// The node as it was: engines say that they have no kernel for it.
    fn keep(&mut self, node: &Node) {
        let inputs: Vec<Option<ValueId>> = node.inputs.iter().map(|v| v.and_then(|v| self.map[v.index()])).collect();
        let first = self.level.len();
        let draft = Draft { op: node.op.clone(), inputs: &inputs, attrs: node.attrs.to_vec(), bodies: Vec::new(), captures: Vec::new() };
        let made = self.level.push(draft, &self.result_facts(node), &self.origin);
        for (out, made) in node.outputs.iter().zip(made) {
            if let (Some(out), Some(made)) = (*out, made) {
                let v = self.source.value(out);
                self.level.adopt(made, first, &v.name, v.ty, Fact::of_value(v));
                self.map[out.index()] = Some(made);
            }
        }
    }

    /// Outputs of a body are made in it, and each is another value.
    fn own_values(&mut self, outputs: &[ValueId]) -> Vec<ValueId> {
        let mut given: Vec<ValueId> = Vec::new();
        for &v in outputs {
            let made_here = matches!(self.level.get(v).kind, ValueKind::Output { .. });
            given.push(if made_here && !given.contains(&v) { v } else { self.identity(v) });
        }
        given
    }

    /// Reads a graph inside of the source node into the level itself, its inputs bound to `inputs`: all that it becomes is
    /// of the source node.
    pub(super) fn inline(&mut self, graph: &Graph, inputs: &[ValueId]) -> Res<Vec<ValueId>> {
        let origin = self.origin.clone();
        self.reading(graph, inputs, |inner, id| {
            let node = inner.source.node(id);
            inner.origin = Origin { name: format!("{}/{}", origin.name, inner.source.stable_id(id)).into(), ..origin.clone() };
            let first = inner.level.len();
            let results = inner.called(node)?;
            inner.bind(node, first, &results)
        })
    }

    /// Inside of [`Lower::body`]: the nodes of `graph`, of which the first has position `start`, as nodes of their own.
    pub(super) fn read_in(&mut self, graph: &Graph, inputs: &[ValueId], start: u32) -> Res<Vec<ValueId>> {
        let mut at = start;
        self.reading(graph, inputs, |inner, id| {
            let here = at;
            at += 1 + inner_total(inner.source.node(id));
            inner.node(id, here)
        })
    }

    /// Reads another graph into the level, node by node, its inputs bound to `inputs`; gives what its outputs have become.
    fn reading(&mut self, graph: &Graph, inputs: &[ValueId], mut each: impl FnMut(&mut Lower<'_>, NodeId) -> Res<()>) -> Res<Vec<ValueId>> {
        let level = std::mem::take(&mut self.level);
        let mut inner = Lower::new(graph, level, self.outer, self.shared);
        let read = inner.bind_inputs(graph, inputs).and_then(|()| graph.node_ids().try_for_each(|id| each(&mut inner, id)));
        let given = |v: &ValueId| inner.map[v.index()].ok_or_else(|| "a nested graph gives nothing".to_owned());
        let results = read.and_then(|()| graph.outputs().iter().map(given).collect());
        self.level = inner.level;
        results
    }

    fn bind_inputs(&mut self, graph: &Graph, inputs: &[ValueId]) -> Res<()> {
        if graph.inputs().len() != inputs.len() {
            return Err(format!("a nested graph has {} inputs and is given {}", graph.inputs().len(), inputs.len()));
        }
        for (&inner, &v) in graph.inputs().iter().zip(inputs) {
            self.map[inner.index()] = Some(v);
        }
        // Constants that it holds itself.
        for (i, v) in graph.values().iter().enumerate().filter(|(_, v)| v.weight().is_some()) {
            self.map[i] = Some(self.level.value(&v.name, v.kind.clone(), ValueType::Tensor, Fact::of_value(v)));
        }
        Ok(())
    }

    /// Lowers a nested graph into a body. `write` gets the level with the inputs to bind and gives the body's outputs;
    /// `start` is the position of the graph's first node.
    pub(super) fn body(
        &mut self,
        attr: &'static str,
        write: &mut dyn FnMut(&mut Lower<'_>) -> Res<Vec<ValueId>>,
    ) -> Res<(Body, Vec<ValueId>)> {
        if self.level.depth() >= MAX_DEPTH {
            return Err(format!("graphs are nested more than {MAX_DEPTH} deep"));
        }
        let prefix = format!("{}/{attr}/", self.origin.name);
        let nothing = Graph::default();
        let level = self.level.inside(&prefix);
        let mut inner = Lower::new(&nothing, level, Some(&self.level), self.shared);
        inner.origin = self.origin.clone();
        let outputs = write(&mut inner)?;
        let outputs = inner.own_values(&outputs);
        let level = inner.level;
        let captures = level.captures();
        let graph = level.finish(attr.into(), outputs);
        Ok((Body { attr: attr.into(), graph }, captures))
    }

    /// A value of the level around this one.
    pub(super) fn capture(&mut self, outer: ValueId) -> Res<ValueId> {
        let level = self.outer.ok_or_else(|| "a main graph captures nothing".to_owned())?;
        Ok(self.level.capture(outer, level))
    }

    /// Emits a node with any number of outputs.
    pub(super) fn emit_all(
        &mut self,
        op: &'static str,
        inputs: &[Option<ValueId>],
        list: Attrs<'_>,
        outputs: &[Option<Fact>],
    ) -> Vec<Option<ValueId>> {
        self.emit_with(op, inputs, list, Vec::new(), Vec::new(), outputs)
    }

    /// Emits a node that has bodies.
    pub(super) fn emit_with(
        &mut self,
        op: &'static str,
        inputs: &[Option<ValueId>],
        list: Attrs<'_>,
        bodies: Vec<Body>,
        captures: Vec<ValueId>,
        outputs: &[Option<Fact>],
    ) -> Vec<Option<ValueId>> {
        let op = self.shared.ops.get(op);
        let mut attrs = attrs(list);
        attrs.extend(bodies.iter().enumerate().map(|(i, b)| Attr { name: b.attr.clone(), value: AttrValue::Body(i) }));
        self.level.push(Draft { op, inputs, attrs, bodies, captures }, outputs, &self.origin)
    }

    /// Emits a node with one output of this type and, where it is known, shape.
    pub(super) fn emit_fact(&mut self, op: &'static str, inputs: &[Option<ValueId>], list: Attrs<'_>, fact: Fact) -> ValueId {
        let made = self.emit_all(op, inputs, list, &[Some(fact)]);
        let [Some(value)] = made[..] else { unreachable!("one output was asked for") };
        value
    }

    /// Emits a node with one output of this type.
    pub(super) fn emit(&mut self, op: &'static str, inputs: &[ValueId], list: Attrs<'_>, dtype: DType) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().map(|&v| Some(v)).collect();
        self.emit_fact(op, &inputs, list, Fact::of(Some(dtype), crate::shape::Shape::UNKNOWN))
    }

    /// A copy under a name of its own.
    pub(super) fn identity(&mut self, value: ValueId) -> ValueId {
        let fact = self.fact(value);
        self.emit_fact("Identity", &[Some(value)], &[], fact)
    }
}

/// Number of nodes inside a node.
pub(super) fn inner_total(node: &Node) -> u32 {
    node.bodies.iter().map(|b| u32::try_from(b.graph.total_nodes()).unwrap_or(u32::MAX)).fold(0, u32::saturating_add)
}
