//! A torch call as FX prints it: what `pkg.torch.onnx.fx_node` holds.

use std::fmt::Write as _;

use super::scopes::quoted;
use crate::dtype::DType;
use crate::graph::{AttrValue, Graph, Node, NodeId};
use crate::lower::schemas::Schema;

/// `%relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,), kwargs = {})`.
///
/// A program does not tell which arguments were passed by their names: those are taken for it that do not stand where the
/// operator's schema has them.
pub(super) fn text(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let mut users: Vec<NodeId> = graph.successors(id).collect();
    users.sort_unstable();
    users.dedup();
    let schema = Schema::of(&node.op);
    let by_place = match schema {
        Some(s) => node.attrs.iter().zip(s.arguments()).take_while(|(a, name)| &*a.name == *name).count(),
        None => node.attrs.len(),
    };
    let (positional, named) = node.attrs.split_at(by_place.min(node.attrs.len()));
    let shown = |v: &AttrValue| {
        let mut out = String::new();
        value(&mut out, graph, node, v, 0);
        out
    };
    let mut args = positional.iter().map(|a| shown(&a.value)).collect::<Vec<_>>().join(", ");
    if positional.len() == 1 {
        args.push(',');
    }
    let kwargs = named.iter().map(|a| format!("{}: {}", a.name, shown(&a.value))).collect::<Vec<_>>().join(", ");
    let name = node.fx_node.as_deref().unwrap_or(graph.stable_id(id));
    format!("%{name} : [num_users={}] = call_function[target=torch.ops.{}](args = ({args}), kwargs = {{{kwargs}}})", users.len(), node.op)
}

/// Lists inside each other that are shown; importers nest less.
const MAX_DEPTH: usize = 8;

/// An argument as Python's `repr` shows it.
fn value(out: &mut String, graph: &Graph, node: &Node, v: &AttrValue, depth: usize) {
    match v {
        AttrValue::None => out.push_str("None"),
        AttrValue::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
        AttrValue::Int(n) => put(out, n),
        AttrValue::Float(x) => out.push_str(&number(*x)),
        AttrValue::Bytes(b) => out.push_str(&quoted(&String::from_utf8_lossy(b))),
        AttrValue::Type(t) => out.push_str(&torch_type(t)),
        AttrValue::Input(i) => match node.input(*i) {
            Some(v) => {
                let _ = write!(out, "%{}", graph.value(v).name);
            }
            None => out.push_str("None"),
        },
        AttrValue::Body(i) => {
            let _ = write!(out, "%{}", node.bodies.get(*i).map_or("graph", |b| b.graph.name()));
        }
        AttrValue::Ints(all) => list(out, all.iter(), put),
        AttrValue::Floats(all) => list(out, all.iter(), |out, x| out.push_str(&number(*x))),
        AttrValue::ByteStrings(all) => list(out, all.iter(), |out, b| out.push_str(&quoted(&String::from_utf8_lossy(b)))),
        AttrValue::List(all) if depth < MAX_DEPTH => list(out, all.iter(), |out, v| value(out, graph, node, v, depth + 1)),
        AttrValue::List(_) | AttrValue::Tensor(_) | AttrValue::Tensors(_) | AttrValue::Bodies(_) | AttrValue::Reference(_) => out.push('…'),
    }
}

fn put(out: &mut String, x: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{x}");
}

fn list<T>(out: &mut String, items: impl Iterator<Item = T>, mut show: impl FnMut(&mut String, T)) {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        show(out, item);
    }
    out.push(']');
}

/// A number as Python shows it: `1.0`, `1e-05`, `inf`.
fn number(x: f64) -> String {
    let text = format!("{x:?}");
    match text.split_once('e') {
        None => text.replace("NaN", "nan"),
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

/// `torch.float32` for an element type; what torch calls a memory format or layout for those.
fn torch_type(text: &str) -> String {
    let name = match DType::parse(text) {
        Some(DType::F32) => "float32",
        Some(DType::F64) => "float64",
        Some(DType::F16) => "float16",
        Some(DType::Bf16) => "bfloat16",
        Some(DType::I8) => "int8",
        Some(DType::I16) => "int16",
        Some(DType::I32) => "int32",
        Some(DType::I64) => "int64",
        Some(DType::U8) => "uint8",
        Some(DType::U16) => "uint16",
        Some(DType::U32) => "uint32",
        Some(DType::U64) => "uint64",
        Some(DType::C64) => "complex64",
        Some(DType::C128) => "complex128",
        _ => text,
    };
    format!("torch.{name}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::import::open;

    #[test]
    fn numbers_as_python_shows_them() {
        let all = [1.0, -0.5, 1e-5, 1.5e300, 1e16, 0.0001, f64::INFINITY, f64::NAN].map(number);
        assert_eq!(all, ["1.0", "-0.5", "1e-05", "1.5e+300", "1e+16", "0.0001", "inf", "nan"]);
    }

    /// Both files are of one model, and the ONNX file holds what PyTorch's exporter wrote.
    #[test]
    fn calls_read_as_in_the_file_that_pytorch_made() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
        let m = open(&models.join("tiny_repeat.pt2")).unwrap().model;
        let file = std::fs::read(models.join("tiny_repeat.onnx")).unwrap();
        let file = String::from_utf8_lossy(&file);
        let texts: Vec<String> = m.graph.node_ids().map(|n| text(&m.graph, n)).collect();
        assert!(
            texts
                .iter()
                .any(|t| t.starts_with("%relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%linear,)"))
        );
        for text in texts.iter().filter(|t| t.contains("aten.relu")) {
            assert!(file.contains(text), "{text}");
        }
    }
}
