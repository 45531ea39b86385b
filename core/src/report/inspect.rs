//! What `recut inspect --json` prints: a model as it was imported, without its weights.

use std::collections::HashMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::{Column, ColumnData, Entry};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expr::{Bindings, Expr};
use crate::graph::{Attr, AttrValue, Graph, NodeId, ValueId, ValueKind, ValueType};
use crate::infer::cost;
use crate::model::{Format, Model};
use crate::modules::ModuleId;
use crate::trace;
use crate::weights::{Storage, WeightRef};

/// Name and version of the format.
pub const SCHEMA: &str = "recut.inspect/1";

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InspectReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the file says about itself.
    pub model: ModelInfo,
    /// Nodes of the main graph as stored, before functions were expanded.
    pub stored_nodes: usize,
    /// What a caller feeds.
    pub inputs: Vec<ValueInfo>,
    /// What a caller gets.
    pub outputs: Vec<ValueInfo>,
    /// Sums over the main graph.
    pub totals: Totals,
    /// Operators, most frequent first.
    pub ops: Vec<OpCount>,
    /// Module instances, parents before children.
    pub modules: Vec<ModuleInfo>,
    /// Nodes of the main graph, in topological order.
    pub nodes: Vec<NodeInfo>,
    /// Values of the main graph.
    pub values: Vec<ValueInfo>,
    /// Data columns that came with the file; their entries stand with the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnInfo>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// What the file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// File it was read from.
    pub file: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Kind of file.
    pub format: Format,
    /// Name of the main graph.
    pub graph: String,
    /// Program that wrote it.
    pub producer: String,
    /// ONNX IR version.
    pub ir_version: Option<i64>,
    /// Operator-set versions by domain (`""` is the standard one).
    pub opsets: IndexMap<String, i64>,
    /// Symbols in the shapes of inputs.
    pub symbols: Vec<String>,
    /// Key-value metadata.
    pub metadata: IndexMap<String, String>,
}

/// A data column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Unit of its numbers.
    pub unit: Option<String>,
    /// `number` or `text`.
    pub kind: String,
}

/// An entry of a data column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ColumnEntry {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// Sums over the main graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Nodes of the main graph.
    pub nodes: usize,
    /// Nodes of the main graph and all nested graphs.
    pub nodes_with_bodies: usize,
    /// Stored elements that nodes read, each tensor once.
    pub params: u64,
    /// Bytes of those as stored.
    pub param_bytes: u64,
    /// Floating-point operations of one run, over the nodes for which they are known.
    pub flops: Quantity,
    /// Nodes whose operations are not known, since a shape is open.
    pub nodes_without_flops: usize,
}

/// A number, or an expression over symbolic dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Quantity {
    /// A number.
    Number(u64),
    /// An expression; give the dimensions to get a number.
    Expression(String),
    /// Unknown.
    Unknown(Option<()>),
}

impl Quantity {
    fn new(expr: Option<&Expr>, dims: &Bindings) -> Self {
        let Some(e) = expr else { return Self::Unknown(None) };
        match e.eval(dims) {
            Some(n) => u64::try_from(n).map_or(Self::Unknown(None), Self::Number),
            None if e.is_overflow() => Self::Unknown(None),
            None => Self::Expression(e.to_string()),
        }
    }
}

/// An operator with its number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpCount {
    /// The operator.
    pub op: String,
    /// Nodes of the main graph.
    pub count: usize,
    /// Nodes in nested graphs.
    pub in_bodies: usize,
}

/// A module instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleInfo {
    /// Dotted path; empty for the model itself.
    pub path: String,
    /// Class, where the file tells.
    pub class: Option<String>,
    /// Distance from the model itself.
    pub depth: u32,
    /// Nodes owned directly.
    pub own_nodes: usize,
    /// Nodes owned directly or by a descendant.
    pub nodes: u32,
    /// Stored elements that those read.
    pub params: u64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// Stable id.
    pub id: String,
    /// Name in the file.
    pub name: String,
    /// Operator.
    pub op: String,
    /// Path of its module.
    pub module: String,
    /// Class of its module.
    pub class: Option<String>,
    /// Names of the values it reads; `null` where an optional one is left out.
    pub inputs: Vec<Option<String>>,
    /// Names of the values it makes.
    pub outputs: Vec<Option<String>>,
    /// Attributes, in short.
    pub attrs: IndexMap<String, String>,
    /// Values of this graph that its nested graphs read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<String>,
    /// Nodes in its nested graphs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body_nodes: usize,
    /// Torch operator it was made from, where the file says so.
    pub torch_op: Option<String>,
    /// Innermost line of its Python stack trace.
    pub source: Option<String>,
    /// Stored elements it reads.
    pub params: u64,
    /// Floating-point operations.
    pub flops: Quantity,
    /// Bytes read and written.
    pub bytes: Quantity,
    /// Entries of the data columns, by the column's name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub columns: IndexMap<String, ColumnEntry>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValueInfo {
    /// Name in the file.
    pub name: String,
    /// `input`, `initializer`, `output` (of a node).
    pub kind: String,
    /// `tensor`, `sequence`, `optional`, …
    #[serde(rename = "type")]
    pub ty: String,
    /// Element type.
    pub dtype: Option<DType>,
    /// Dimensions: numbers, expressions, `?`; `null` if the rank is unknown.
    pub shape: Option<Vec<DimInfo>>,
    /// Stable id of the node that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// Number of reads.
    pub readers: usize,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DimInfo {
    /// A size.
    Size(u64),
    /// An expression, or `?`.
    Text(String),
}

/// The report of a model. `dims` gives sizes to symbols.
#[must_use]
pub fn inspect(model: &Model, diagnostics: &[Diagnostic], dims: &Bindings) -> InspectReport {
    let graph = &model.graph;
    let nodes: Vec<NodeInfo> = graph.node_ids().map(|n| node_info(model, n, dims)).collect();
    InspectReport {
        schema: SCHEMA.to_owned(),
        model: model_info(model),
        stored_nodes: model.stored_nodes,
        inputs: graph.inputs().iter().map(|&v| value_info(graph, v, dims)).collect(),
        outputs: graph.outputs().iter().map(|&v| value_info(graph, v, dims)).collect(),
        totals: totals(model, dims),
        ops: op_counts(graph),
        modules: modules(model, &nodes),
        nodes,
        values: (0..graph.values().len()).map(|v| value_info(graph, ValueId::new(v), dims)).collect(),
        columns: columns(model),
        diagnostics: diagnostics.to_vec(),
    }
}

/// What the file says about itself.
#[must_use]
pub fn model_info(model: &Model) -> ModelInfo {
    ModelInfo {
        file: model.path.display().to_string(),
        bytes: model.file.len,
        format: model.format,
        graph: model.graph.name().to_owned(),
        producer: model.producer.clone(),
        ir_version: model.ir_version,
        opsets: model.opsets.clone(),
        symbols: crate::infer::symbols(model),
        metadata: model.metadata.iter().cloned().collect(),
    }
}

/// Sums over the main graph.
#[must_use]
pub fn totals(model: &Model, dims: &Bindings) -> Totals {
    let graph = &model.graph;
    let weights = || graph.values().iter().enumerate().filter(|(i, _)| !graph.consumers(ValueId::new(*i)).is_empty());
    let sum = |f: fn(&WeightRef) -> u64| weights().filter_map(|(_, v)| v.weight()).fold(0u64, |n, w| n.saturating_add(f(w)));
    let mut flops = Expr::constant(0);
    let mut open = 0;
    for n in graph.node_ids() {
        match cost::node_cost(model, n).flops {
            Some(e) => flops = flops + e,
            None => open += 1,
        }
    }
    Totals {
        nodes: graph.nodes().len(),
        nodes_with_bodies: graph.total_nodes(),
        params: sum(WeightRef::elements),
        param_bytes: sum(WeightRef::byte_len),
        flops: Quantity::new(Some(&flops), dims),
        nodes_without_flops: open,
    }
}

/// Operators of a graph and its bodies, most frequent first, then by name.
#[must_use]
pub fn op_counts(graph: &Graph) -> Vec<OpCount> {
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    let mut levels = vec![(graph, true)];
    while let Some((g, main)) = levels.pop() {
        for n in g.nodes() {
            let slot = counts.entry(n.op.to_string()).or_default();
            *(if main { &mut slot.0 } else { &mut slot.1 }) += 1;
            levels.extend(n.bodies.iter().map(|b| (&b.graph, false)));
        }
    }
    let mut ops: Vec<OpCount> = counts.into_iter().map(|(op, (count, in_bodies))| OpCount { op, count, in_bodies }).collect();
    ops.sort_by(|a, b| (b.count + b.in_bodies).cmp(&(a.count + a.in_bodies)).then_with(|| a.op.cmp(&b.op)));
    ops
}

fn modules(model: &Model, nodes: &[NodeInfo]) -> Vec<ModuleInfo> {
    let tree = model.modules.modules();
    let mut params = vec![0u64; tree.len()];
    // Parents stand before children, so one backward pass sums the subtrees.
    for (i, m) in tree.iter().enumerate().rev() {
        let own = m.nodes.iter().filter_map(|n| nodes.get(n.index())).fold(0u64, |n, i| n.saturating_add(i.params));
        params[i] = params[i].saturating_add(own);
        if ModuleId::new(i) != ModuleId::ROOT {
            params[m.parent.index()] = params[m.parent.index()].saturating_add(params[i]);
        }
    }
    tree.iter()
        .zip(params)
        .map(|(m, params)| ModuleInfo {
            path: m.path.to_string(),
            class: m.class.as_ref().map(ToString::to_string),
            depth: m.depth,
            own_nodes: m.nodes.len(),
            nodes: m.total_nodes,
            params,
        })
        .collect()
}

/// One node.
#[must_use]
pub fn node_info(model: &Model, id: NodeId, dims: &Bindings) -> NodeInfo {
    let graph = &model.graph;
    let node = graph.node(id);
    let module = model.modules.module(node.module);
    let cost = cost::node_cost(model, id);
    let name = |v: ValueId| graph.value(v).name.to_string();
    NodeInfo {
        id: graph.stable_id(id).to_owned(),
        name: node.name.to_string(),
        op: node.op.to_string(),
        module: module.path.to_string(),
        class: module.class.as_ref().map(ToString::to_string),
        inputs: node.inputs.iter().map(|v| v.map(name)).collect(),
        outputs: node.outputs.iter().map(|v| v.map(name)).collect(),
        attrs: node.attrs.iter().map(|a| (a.name.to_string(), attr_text(a))).collect(),
        captures: node.captures.iter().map(|&v| name(v)).collect(),
        body_nodes: node.bodies.iter().map(|b| b.graph.total_nodes()).sum(),
        torch_op: node.torch_op.as_ref().map(ToString::to_string),
        source: node.stack_trace.as_deref().and_then(trace::place),
        params: cost.params,
        flops: Quantity::new(cost.flops.as_ref(), dims),
        bytes: Quantity::new(cost.bytes.as_ref(), dims),
        columns: model.columns.iter().filter_map(|c| Some((c.name.clone(), column_entry(c, id)?))).collect(),
    }
}

fn column_entry(column: &Column, node: NodeId) -> Option<ColumnEntry> {
    Some(match column.get(node)? {
        Entry::Number(x) => ColumnEntry::Number(x),
        Entry::Text(t) => ColumnEntry::Text(t.to_owned()),
    })
}

/// The data columns that came with a model.
#[must_use]
pub fn columns(model: &Model) -> Vec<ColumnInfo> {
    let kind = |c: &Column| match c.data {
        ColumnData::Numbers(_) => "number",
        ColumnData::Texts(_) => "text",
    };
    model.columns.iter().map(|c| ColumnInfo { name: c.name.clone(), unit: c.unit.clone(), kind: kind(c).to_owned() }).collect()
}

/// One value.
#[must_use]
pub fn value_info(graph: &Graph, id: ValueId, dims: &Bindings) -> ValueInfo {
    let v = graph.value(id);
    let (kind, producer) = match &v.kind {
        ValueKind::Input { .. } => ("input", None),
        ValueKind::Initializer(_) => ("initializer", None),
        ValueKind::Output { node, .. } => ("output", Some(graph.stable_id(*node).to_owned())),
        ValueKind::Captured { .. } => ("captured", None),
    };
    let ty = match v.ty {
        ValueType::Tensor => "tensor",
        ValueType::Sparse => "sparse",
        ValueType::Sequence => "sequence",
        ValueType::Optional => "optional",
        ValueType::Map => "map",
        ValueType::Scalar => "scalar",
        ValueType::Other => "other",
    };
    let dim = |d: &crate::shape::Dim| d.eval(dims).map_or_else(|| DimInfo::Text(d.to_string()), DimInfo::Size);
    ValueInfo {
        name: v.name.to_string(),
        kind: kind.to_owned(),
        ty: ty.to_owned(),
        dtype: v.dtype,
        shape: v.shape.dims().map(|d| d.iter().map(dim).collect()),
        producer,
        readers: graph.consumers(id).len(),
    }
}

/// Elements of a list that are shown.
const MAX_SHOWN: usize = 16;

/// An attribute in one short line; tensors by type and shape, never by content.
#[must_use]
pub fn attr_text(attr: &Attr) -> String {
    value_text(&attr.value, 0)
}

fn value_text(value: &AttrValue, depth: usize) -> String {
    match value {
        AttrValue::None => "none".to_owned(),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Int(i) => i.to_string(),
        AttrValue::Float(x) => x.to_string(),
        AttrValue::Bytes(b) => bytes_text(b),
        AttrValue::Ints(v) => list(v, ToString::to_string),
        AttrValue::Floats(v) => list(v, ToString::to_string),
        AttrValue::ByteStrings(v) => list(v, |b| bytes_text(b)),
        AttrValue::Tensor(w) => tensor_text(w),
        AttrValue::Tensors(v) => list(v, tensor_text),
        AttrValue::Body(_) => "graph".to_owned(),
        AttrValue::Bodies(b) => format!("{} graphs", b.len()),
        AttrValue::Type(t) => t.to_string(),
        // A hostile file could nest lists without end.
        AttrValue::List(_) if depth > 3 => "[…]".to_owned(),
        AttrValue::List(v) => list(v, |v| value_text(v, depth + 1)),
        AttrValue::Reference(name) => format!("@{name}"),
        AttrValue::Input(i) => format!("input {i}"),
    }
}

fn bytes_text(bytes: &[u8]) -> String {
    const MAX_BYTES: usize = 200;
    let shown = String::from_utf8_lossy(bytes.get(..MAX_BYTES).unwrap_or(bytes));
    if bytes.len() > MAX_BYTES { format!("\"{shown}…\" ({} bytes)", bytes.len()) } else { format!("\"{shown}\"") }
}

fn list<T>(items: &[T], f: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = items.iter().take(MAX_SHOWN).map(f).collect();
    let more = if items.len() > MAX_SHOWN { format!(", … {} in all", items.len()) } else { String::new() };
    format!("[{}{more}]", shown.join(", "))
}

fn tensor_text(w: &WeightRef) -> String {
    let dims: Vec<String> = w.shape.iter().map(ToString::to_string).collect();
    let missing = if let Storage::Missing(_) = w.storage { " missing" } else { "" };
    format!("{}[{}]{missing}", w.dtype, dims.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_one_short_line_whatever_the_file_holds() {
        let attr = |value| attr_text(&Attr { name: "a".into(), value });
        assert_eq!(attr(AttrValue::Ints([1, 2].into())), "[1, 2]");
        assert!(attr(AttrValue::Ints((0..1000).collect())).ends_with("15, … 1000 in all]"));
        assert!(attr(AttrValue::Bytes(vec![b'x'; 5000].into())).len() < 300);
        assert_eq!(attr(AttrValue::Tensor(WeightRef::inline(DType::F32, &[2, 3], vec![0; 24]))), "f32[2,3]");
        let nested = (0..50).fold(AttrValue::Int(1), |v, _| AttrValue::List(Box::new([v])));
        assert_eq!(attr(nested), "[[[[[…]]]]]");
    }
}
