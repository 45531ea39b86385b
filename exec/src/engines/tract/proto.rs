//! ONNX messages for tract, made from our graph.

use recut_core::dtype::DType;
use recut_core::graph::{AttrValue, Graph, Node, NodeId, ValueId, ValueKind};
use recut_core::weights::WeightRef;
use tract_onnx::pb;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::convert;
use crate::io::weight::{load_weight, to_file_bytes};
use crate::tensor::Tensor;

/// A stored tensor for tract; bf16 is widened.
pub(crate) fn tensor(name: &str, t: &Tensor) -> Result<pb::TensorProto, String> {
    let t = convert::widened(t)?;
    if convert::datum_type(t.dtype()).is_none() {
        return Err(format!("tract has no {} tensors", t.dtype()));
    }
    let dims = t.dims().iter().map(|&d| i64::try_from(d)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let mut proto = pb::TensorProto { name: name.to_owned(), dims, data_type: t.dtype().to_onnx(), ..Default::default() };
    match t.as_strings() {
        Some(s) => proto.string_data = s.iter().map(|s| s.to_vec()).collect(),
        None => proto.raw_data = to_file_bytes(&t),
    }
    Ok(proto)
}

/// A graph input with its type and shape.
pub(crate) fn input(name: &str, dtype: DType, dims: &[usize]) -> Result<pb::ValueInfoProto, String> {
    use pb::tensor_shape_proto::{Dimension, dimension};
    if convert::datum_type(dtype).is_none() {
        return Err(format!("tract has no {dtype} tensors"));
    }
    let dim = dims
        .iter()
        .map(|&d| {
            let value = i64::try_from(d).map_err(|e| e.to_string())?;
            Ok(Dimension { value: Some(dimension::Value::DimValue(value)), ..Default::default() })
        })
        .collect::<Result<_, String>>()?;
    let elem_type = if dtype == DType::Bf16 { DType::F32 } else { dtype }.to_onnx();
    let tensor = pb::type_proto::Tensor { elem_type, shape: Some(pb::TensorShapeProto { dim }) };
    let r#type = Some(pb::TypeProto { value: Some(pb::type_proto::Value::TensorType(tensor)), ..Default::default() });
    Ok(pb::ValueInfoProto { name: name.to_owned(), r#type, ..Default::default() })
}

/// A graph output; tract finds out its type.
pub(crate) fn output(name: &str) -> pb::ValueInfoProto {
    pb::ValueInfoProto { name: name.to_owned(), ..Default::default() }
}

/// A whole model around a graph.
pub(crate) fn model(graph: pb::GraphProto, opset: i64) -> pb::ModelProto {
    let import = pb::OperatorSetIdProto { domain: String::new(), version: opset };
    pb::ModelProto { ir_version: 8, opset_import: vec![import], graph: Some(graph), ..Default::default() }
}

/// Attributes of a node. `body` makes the message of a nested graph.
pub(crate) fn attributes(
    node: &Node,
    body: &mut dyn FnMut(usize) -> Result<pb::GraphProto, String>,
) -> Result<Vec<pb::AttributeProto>, String> {
    let load = |w: &WeightRef| tensor("", &load_weight(w).map_err(|e| e.to_string())?);
    let mut protos = Vec::with_capacity(node.attrs.len());
    for attr in &node.attrs {
        let mut p = pb::AttributeProto { name: attr.name.to_string(), ..Default::default() };
        let ty = match &attr.value {
            AttrValue::None => continue,
            AttrValue::Bool(b) => {
                p.i = i64::from(*b);
                AttributeType::Int
            }
            AttrValue::Int(i) => {
                p.i = *i;
                AttributeType::Int
            }
            AttrValue::Float(x) => {
                p.f = *x as f32;
                AttributeType::Float
            }
            AttrValue::Bytes(b) => {
                p.s = b.to_vec();
                AttributeType::String
            }
            AttrValue::Ints(v) => {
                p.ints = v.to_vec();
                AttributeType::Ints
            }
            AttrValue::Floats(v) => {
                p.floats = v.iter().map(|&x| x as f32).collect();
                AttributeType::Floats
            }
            AttrValue::ByteStrings(v) => {
                p.strings = v.iter().map(|s| s.to_vec()).collect();
                AttributeType::Strings
            }
            AttrValue::Tensor(w) => {
                p.t = Some(load(w)?);
                AttributeType::Tensor
            }
            AttrValue::Tensors(v) => {
                p.tensors = v.iter().map(load).collect::<Result<_, _>>()?;
                AttributeType::Tensors
            }
            AttrValue::Body(i) => {
                p.g = Some(body(*i)?);
                AttributeType::Graph
            }
            AttrValue::Bodies(v) => {
                p.graphs = v.iter().map(|&i| body(i)).collect::<Result<_, _>>()?;
                AttributeType::Graphs
            }
            AttrValue::Type(_) | AttrValue::List(_) => return Err(format!("tract cannot be given the attribute `{}`", attr.name)),
            AttrValue::Input(_) => return Err(format!("the attribute `{}` is an argument of a torch operator", attr.name)),
            AttrValue::Reference(r) => return Err(format!("the attribute `{}` refers to `{r}`, which nothing defines", attr.name)),
        };
        p.r#type = ty as i32;
        protos.push(p);
    }
    Ok(protos)
}

/// Names of values in messages: unique over all levels, whatever the file calls them.
fn value_name(level: usize, v: ValueId) -> String {
    format!("l{level}v{}", v.0)
}

/// Some nodes of a graph, with everything they need, as one message. Levels of nesting are capped by the importers.
pub(crate) struct GraphWriter<'a> {
    graph: &'a Graph,
    level: usize,
    outer: Option<&'a GraphWriter<'a>>,
}

impl<'a> GraphWriter<'a> {
    /// A writer for the main graph.
    pub(crate) fn new(graph: &'a Graph) -> Self {
        Self { graph, level: 0, outer: None }
    }

    /// Name of a value in the message.
    pub(crate) fn name(&self, v: ValueId) -> String {
        match (&self.graph.value(v).kind, self.outer) {
            (ValueKind::Captured { outer: o }, Some(w)) => w.name(*o),
            _ => value_name(self.level, v),
        }
    }

    /// The message. Inputs are declared by the caller.
    pub(crate) fn write(&self, nodes: &[NodeId], outputs: &[ValueId]) -> Result<pb::GraphProto, String> {
        let mut proto = pb::GraphProto { name: format!("level{}", self.level), ..Default::default() };
        let mut stored = std::collections::HashSet::new();
        for &id in nodes {
            let node = self.graph.node(id);
            for v in node.reads().chain(outputs.iter().copied()) {
                if let Some(w) = self.graph.value(v).weight()
                    && stored.insert(v)
                {
                    let t = load_weight(w).map_err(|e| e.to_string())?;
                    proto.initializer.push(tensor(&self.name(v), &t)?);
                }
            }
            let names = |ids: &[Option<ValueId>]| ids.iter().map(|v| v.map_or_else(String::new, |v| self.name(v))).collect();
            let mut body = |i: usize| self.body(node, i);
            proto.node.push(pb::NodeProto {
                name: format!("l{}n{}", self.level, id.0),
                op_type: node.op.name.to_string(),
                domain: node.op.domain.to_string(),
                input: names(&node.inputs),
                output: names(&node.outputs),
                attribute: attributes(node, &mut body)?,
                ..Default::default()
            });
        }
        proto.output = outputs.iter().map(|&v| output(&self.name(v))).collect();
        Ok(proto)
    }

    fn body(&self, node: &Node, i: usize) -> Result<pb::GraphProto, String> {
        let body = node.bodies.get(i).ok_or_else(|| format!("body {i} is missing"))?;
        let inner = GraphWriter { graph: &body.graph, level: self.level + 1, outer: Some(self) };
        let mut proto = inner.write(&body.graph.node_ids().collect::<Vec<_>>(), body.graph.outputs())?;
        proto.input = body
            .graph
            .inputs()
            .iter()
            .map(|&v| {
                let value = body.graph.value(v);
                let dims: Option<Vec<usize>> =
                    value.shape.eval(&Default::default()).and_then(|d| d.into_iter().map(|d| usize::try_from(d).ok()).collect());
                match (value.dtype, dims) {
                    (Some(dtype), Some(dims)) => input(&inner.name(v), dtype, &dims),
                    (Some(dtype), None) => {
                        let mut info = input(&inner.name(v), dtype, &[])?;
                        if let Some(pb::TypeProto { value: Some(pb::type_proto::Value::TensorType(t)), .. }) = &mut info.r#type {
                            t.shape = None;
                        }
                        Ok(info)
                    }
                    (None, _) => Err(format!("the type of the input `{}` of a body is not known", value.name)),
                }
            })
            .collect::<Result<_, String>>()?;
        Ok(proto)
    }
}
