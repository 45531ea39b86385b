//! The messages of a model: graphs, nodes, attributes, tensors.

use std::io;

use indexmap::IndexMap;

use super::layout::Layout;
use super::names::Level;
use super::scopes::Scopes;
use super::sink::Sink;
use super::types::{self, Type};
use crate::graph::{Attr, AttrValue, Node, Value, ValueKind};
use crate::model::Model;
use crate::weights::{Storage, WeightRef};

/// Name of a main graph that has none: ONNX asks for one.
const UNNAMED: &str = "main_graph";

/// Numbers of `AttributeProto.AttributeType`.
mod attribute_type {
    pub(super) const FLOAT: i64 = 1;
    pub(super) const INT: i64 = 2;
    pub(super) const STRING: i64 = 3;
    pub(super) const TENSOR: i64 = 4;
    pub(super) const GRAPH: i64 = 5;
    pub(super) const FLOATS: i64 = 6;
    pub(super) const INTS: i64 = 7;
    pub(super) const STRINGS: i64 = 8;
    pub(super) const TENSORS: i64 = 9;
    pub(super) const GRAPHS: i64 = 10;
    pub(super) const TYPE_PROTO: i64 = 13;
    pub(super) const TYPE_PROTOS: i64 = 14;
}

/// Number of `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i64 = 1;

/// A model that was checked, with all that its messages need.
pub(super) struct Messages<'m> {
    pub(super) model: &'m Model,
    pub(super) names: Level<'m>,
    pub(super) ir_version: i64,
    pub(super) opsets: IndexMap<String, i64>,
    /// Where large tensors lie, if not in the model file.
    pub(super) external: Option<Layout<'m>>,
}

impl Messages<'_> {
    /// The fields of the `ModelProto`.
    pub(super) fn write(&self, s: &mut Sink<'_>) -> io::Result<()> {
        s.int(1, self.ir_version)?;
        s.text(2, "recut")?;
        s.text(3, env!("CARGO_PKG_VERSION"))?;
        let mut scopes = Scopes::new(self.model);
        s.message(7, |s| self.graph(s, &self.names, &mut scopes))?;
        for (domain, version) in &self.opsets {
            s.message(8, |s| {
                s.text(1, domain)?;
                s.int(2, *version)
            })?;
        }
        self.model.metadata.iter().try_for_each(|(k, v)| pair(s, 14, k, v))
    }

    /// The fields of a `GraphProto`. Nesting is capped by the check that came before.
    fn graph(&self, s: &mut Sink<'_>, level: &Level<'_>, scopes: &mut Scopes<'_>) -> io::Result<()> {
        let graph = level.graph;
        let mut bodies = level.bodies();
        // Of bodies it is not told which call each node comes from.
        let main = std::ptr::eq(graph, &raw const self.model.graph);
        let lowering = self.model.lowering.as_ref().filter(|_| main);
        for (id, node) in graph.node_ids().zip(graph.nodes()) {
            let (own, later) = bodies.split_at(node.bodies.len().min(bodies.len()));
            bodies = later;
            let source = lowering.map(|l| l.source_node(id));
            s.message(1, |s| {
                self.node(s, node, level, own, scopes)?;
                scopes.each(node, source, |k, v| pair(s, 9, k, v))
            })?;
        }
        for (_, name, source) in level.outputs() {
            if let Some(source) = source {
                s.message(1, |s| {
                    s.bytes(1, source.as_bytes())?;
                    s.bytes(2, name.as_bytes())?;
                    s.text(3, name)?;
                    s.text(4, "Identity")
                })?;
            }
        }
        s.text(2, if graph.name().is_empty() { UNNAMED } else { graph.name() })?;
        for (v, name) in named(level) {
            if let ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } = &v.kind {
                s.message(5, |s| self.tensor(s, name, w, self.external.as_ref()))?;
            }
        }
        for &v in graph.inputs() {
            types::value_info(s, 11, level.name(v), graph, graph.value(v))?;
        }
        for (v, name, _) in level.outputs() {
            types::value_info(s, 12, name, graph, v)?;
        }
        let mut is_output = vec![false; graph.values().len()];
        graph.outputs().iter().for_each(|v| is_output[v.index()] = true);
        for ((v, name), is_output) in named(level).zip(is_output) {
            if matches!(v.kind, ValueKind::Output { .. }) && !is_output && types::is_known(graph, v) {
                types::value_info(s, 13, name, graph, v)?;
            }
        }
        Ok(())
    }

    /// The fields of a `NodeProto` but for its metadata; `bodies` are the names in its nested graphs.
    fn node(&self, s: &mut Sink<'_>, node: &Node, level: &Level<'_>, bodies: &[Level<'_>], scopes: &mut Scopes<'_>) -> io::Result<()> {
        for (tag, list) in [(1, &node.inputs), (2, &node.outputs)] {
            // A place that is left out is an empty name.
            list.iter().try_for_each(|v| s.bytes(tag, v.map_or("", |v| level.name(v)).as_bytes()))?;
        }
        s.text(3, &node.name)?;
        s.text(4, &node.op.name)?;
        for attr in &node.attrs {
            // Sparse tensors are dense by now.
            let sparse = node.op.is_onnx("Constant") && &*attr.name == "sparse_value" && matches!(attr.value, AttrValue::Tensor(_));
            let name = if sparse { "value" } else { &*attr.name };
            s.message(5, |s| self.attribute(s, name, attr, bodies, scopes))?;
        }
        for (i, body) in node.bodies.iter().enumerate() {
            // Graphs made by translation stand under their attribute's name alone.
            let listed = node.attrs.iter().any(|a| match &a.value {
                AttrValue::Body(b) => *b == i,
                AttrValue::Bodies(all) => all.contains(&i),
                _ => false,
            });
            if !listed {
                s.message(5, |s| {
                    s.text(1, &body.attr)?;
                    self.body(s, 6, bodies.get(i), scopes)?;
                    s.int(20, attribute_type::GRAPH)
                })?;
            }
        }
        s.text(7, &node.op.domain)?;
        s.text(8, &node.op.overload)
    }

    /// The fields of an `AttributeProto`.
    fn attribute(&self, s: &mut Sink<'_>, name: &str, attr: &Attr, bodies: &[Level<'_>], scopes: &mut Scopes<'_>) -> io::Result<()> {
        use attribute_type as ty;
        s.text(1, name)?;
        let kind = match &attr.value {
            AttrValue::Float(x) => {
                // ONNX has f32 only; what came from a file is one.
                s.float(2, *x as f32)?;
                ty::FLOAT
            }
            AttrValue::Int(i) => {
                s.int(3, *i)?;
                ty::INT
            }
            AttrValue::Bool(b) => {
                s.int(3, i64::from(*b))?;
                ty::INT
            }
            AttrValue::Bytes(b) => {
                s.bytes(4, b)?;
                ty::STRING
            }
            AttrValue::Tensor(w) => {
                s.message(5, |s| self.tensor(s, "", w, None))?;
                ty::TENSOR
            }
            AttrValue::Body(i) => {
                self.body(s, 6, bodies.get(*i), scopes)?;
                ty::GRAPH
            }
            AttrValue::Floats(all) => {
                s.packed_floats(7, all.iter().map(|&x| x as f32))?;
                ty::FLOATS
            }
            AttrValue::Ints(all) => {
                s.packed(8, all.iter().copied())?;
                ty::INTS
            }
            AttrValue::ByteStrings(all) => {
                all.iter().try_for_each(|b| s.bytes(9, b))?;
                ty::STRINGS
            }
            AttrValue::Tensors(all) => {
                all.iter().try_for_each(|w| s.message(10, |s| self.tensor(s, "", w, None)))?;
                ty::TENSORS
            }
            AttrValue::Bodies(all) => {
                for i in all {
                    self.body(s, 11, bodies.get(*i), scopes)?;
                }
                ty::GRAPHS
            }
            AttrValue::Type(text) => {
                written_type(s, 14, text)?;
                ty::TYPE_PROTO
            }
            AttrValue::List(items) => {
                for item in items {
                    if let AttrValue::Type(text) = item {
                        written_type(s, 15, text)?;
                    }
                }
                ty::TYPE_PROTOS
            }
            // The check refuses these.
            AttrValue::None | AttrValue::Input(_) | AttrValue::Reference(_) => return Ok(()),
        };
        s.int(20, kind)
    }

    fn body(&self, s: &mut Sink<'_>, tag: u32, body: Option<&Level<'_>>, scopes: &mut Scopes<'_>) -> io::Result<()> {
        match body {
            Some(level) => s.message(tag, |s| self.graph(s, level, scopes)),
            None => Ok(()),
        }
    }

    /// The fields of a `TensorProto`.
    fn tensor(&self, s: &mut Sink<'_>, name: &str, w: &WeightRef, external: Option<&Layout<'_>>) -> io::Result<()> {
        s.packed(1, w.shape.iter().map(|&d| d.cast_signed()))?;
        s.int(2, i64::from(w.dtype.to_onnx()))?;
        if let Storage::Strings(all) = &w.storage {
            all.iter().try_for_each(|text| s.bytes(6, text))?;
            return s.text(8, name);
        }
        s.text(8, name)?;
        match external.and_then(|e| Some((e, e.place(w)?))) {
            Some((e, begin)) => {
                pair(s, 13, "location", &e.location)?;
                pair(s, 13, "offset", &begin.to_string())?;
                pair(s, 13, "length", &w.byte_len().to_string())?;
                s.int(14, EXTERNAL)
            }
            None => s.payload(9, w),
        }
    }
}

/// The values of a graph that stand in it by themselves, with their names.
fn named<'l>(level: &'l Level<'_>) -> impl Iterator<Item = (&'l Value, &'l str)> {
    (0..).zip(level.graph.values()).map(|(i, v)| (v, level.name(crate::graph::ValueId(i))))
}

fn written_type(s: &mut Sink<'_>, tag: u32, text: &str) -> io::Result<()> {
    match Type::parse(text) {
        Some(t) => s.message(tag, |s| t.write(s)),
        None => Ok(()),
    }
}

/// A `StringStringEntryProto`.
fn pair(s: &mut Sink<'_>, tag: u32, key: &str, value: &str) -> io::Result<()> {
    s.message(tag, |s| {
        s.text(1, key)?;
        s.bytes(2, value.as_bytes())
    })
}
