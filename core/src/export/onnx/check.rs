//! What ONNX cannot say of a model, found before anything is written: all of it at once.

use std::fmt;

use super::payload;
use super::types::Type;
use super::versions;
use crate::diagnostic::printable;
use crate::graph::{AttrValue, Dialect, Graph, Node, NodeId, ValueKind, ValueType};
use crate::model::Model;
use crate::weights::WeightRef;

/// Graphs inside each other above which readers give up: protobuf nests 100 messages, three for every graph.
const MAX_LEVELS: usize = 32;
/// Names that a message lists of those that have the same trouble.
const SHOWN: usize = 12;

/// One node or value that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Stable id of the node, or name of the value.
    pub name: String,
    /// Whether `name` is that of a value.
    pub is_value: bool,
    /// Why it cannot be written: a clause that others with the same trouble share.
    pub why: String,
}

/// Everything of a model that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    /// Grouped by reason, with the names of the first of each group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: indexmap::IndexMap<(&str, bool), Vec<&str>> = indexmap::IndexMap::new();
        for p in &self.0 {
            groups.entry((&p.why, p.is_value)).or_default().push(&p.name);
        }
        for (i, ((why, is_value), names)) in groups.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let what = if *is_value { "value" } else { "node" };
            write!(f, "{why} ({what}{} ", if names.len() == 1 { "" } else { "s" })?;
            for (j, name) in names.iter().take(SHOWN).enumerate() {
                if j > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "`{}`", printable(name))?;
            }
            if names.len() > SHOWN {
                write!(f, " and {} more", names.len() - SHOWN)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// Everything of the model that cannot be written.
pub(super) fn problems(model: &Model) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(lowering) = &model.lowering {
        let source = &lowering.source.graph;
        let refused = |(id, why): &(NodeId, std::sync::Arc<str>)| Problem {
            name: source.stable_id(*id).to_owned(),
            is_value: false,
            why: format!("it has {}", printable(why)),
        };
        found.extend(lowering.missing.iter().map(refused));
    }
    let mut work = vec![(&model.graph, 0usize)];
    while let Some((graph, depth)) = work.pop() {
        for (id, node) in graph.node_ids().zip(graph.nodes()) {
            let mut add = |why: String| found.push(Problem { name: graph.stable_id(id).to_owned(), is_value: false, why });
            self::node(model, node, &mut add);
            if depth == MAX_LEVELS && !node.bodies.is_empty() {
                add(format!("its graphs are nested more than {MAX_LEVELS} deep, which ONNX readers refuse"));
                continue;
            }
            work.extend(node.bodies.iter().map(|b| (&b.graph, depth + 1)));
        }
        values(graph, depth == 0, &mut found);
    }
    found
}

fn node(model: &Model, node: &Node, add: &mut impl FnMut(String)) {
    match node.op.dialect {
        Dialect::Onnx if node.op.name.is_empty() => return add("it has no operator".to_owned()),
        Dialect::Onnx => {}
        // Told with the reason already.
        Dialect::Aten if model.lowering.is_some() => return,
        Dialect::Aten => return add(format!("the torch operator {} has no translation to ONNX", printable(&node.op.to_string()))),
        Dialect::OpenVino | Dialect::Json => return add(format!("{} is no ONNX operator", printable(&node.op.to_string()))),
    }
    let imported = model.opset(&node.op.domain);
    if let (Some(own), Some(imported)) = (node.opset, imported)
        && own != imported
        && !(node.op.domain.is_empty() && versions::define_alike(&node.op.name, own, imported))
    {
        add(format!(
            "it came from a function of version {own} of the operators of {}, and the model has version {imported}: one graph cannot have both",
            if node.op.domain.is_empty() { "the standard domain".to_owned() } else { format!("domain `{}`", printable(&node.op.domain)) }
        ));
    }
    for attr in &node.attrs {
        if let Some(why) = attribute(&attr.value) {
            add(format!("its attribute `{}` {why}", printable(&attr.name)));
        }
    }
}

/// Why an attribute cannot be written, if so.
fn attribute(value: &AttrValue) -> Option<String> {
    let unknown_type = |t: &str| Type::parse(t).is_none().then(|| format!("is the type `{}`, of which not all is known", printable(t)));
    let tensor = |w: &WeightRef| payload::fault(w).map(|why| format!("is a tensor that cannot be read: {}", printable(&why)));
    match value {
        AttrValue::None => Some("has no value".to_owned()),
        AttrValue::Input(_) => Some("is a value, as only torch calls have it".to_owned()),
        AttrValue::Reference(name) => Some(format!("stands for attribute `{}` of a function, which nothing gives", printable(name))),
        AttrValue::Type(t) => unknown_type(t),
        AttrValue::List(items) => items.iter().find_map(|i| match i {
            AttrValue::Type(t) => unknown_type(t),
            _ => Some("is a list of mixed values, as only torch calls have it".to_owned()),
        }),
        AttrValue::Tensor(w) => tensor(w),
        AttrValue::Tensors(all) => all.iter().find_map(tensor),
        _ => None,
    }
}

fn values(graph: &Graph, main: bool, found: &mut Vec<Problem>) {
    for v in graph.values() {
        let mut add = |why: String| found.push(Problem { name: v.name.to_string(), is_value: true, why });
        match &v.kind {
            ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } => {
                if let Some(why) = payload::fault(w) {
                    add(format!("its data cannot be written: {}", printable(&why)));
                }
            }
            ValueKind::Input { default: None } if main => {
                let kind = match v.ty {
                    ValueType::Optional => "an optional",
                    ValueType::Map => "a map",
                    ValueType::Other => "of no kind that ONNX has",
                    _ => continue,
                };
                add(format!("it is an input that is {kind}, whose full type is not known"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::Op;
    use crate::testing::ModelBuilder;
    use crate::weights::Storage;

    #[test]
    fn all_is_listed_at_once_and_grouped_by_reason() {
        let torch = Arc::new(Op { dialect: Dialect::Aten, domain: "aten".into(), name: "foo".into(), overload: "default".into() });
        let missing =
            |why: &str| WeightRef { storage: Storage::Missing(why.into()), ..WeightRef::inline(crate::dtype::DType::F32, &[4], vec![]) };
        let mut b = ModelBuilder::new().node("r", "Relu", &["x"], &["v"]).attr("a", AttrValue::Reference("p".into()));
        for i in 0..14 {
            b = b.node(&format!("t{i}"), "Neg", &["v"], &[&format!("o{i}")]).with(|n| n.op = torch.clone());
        }
        let b = b.node("w", "Add", &["v", "w.a"], &["z"]).weight("w.a", missing("the file\nis gone"));
        let text = Problems(problems(&b.build())).to_string();
        assert_eq!(
            text,
            "its attribute `a` stands for attribute `p` of a function, which nothing gives (node `r`); the torch operator \
             aten.foo.default has no translation to ONNX (nodes `t0`, `t1`, `t2`, `t3`, `t4`, `t5`, `t6`, `t7`, `t8`, `t9`, `t10`, `t11` \
             and 2 more); its data cannot be written: the file\\u{a}is gone (value `w.a`)"
        );
    }

    #[test]
    fn one_graph_has_one_version_of_a_domain() {
        let m = ModelBuilder::new().node("n", "Relu", &["x"], &["y"]).with(|n| n.opset = Some(12)).build();
        assert!(Problems(problems(&m)).to_string().contains("version 12 of the operators of the standard domain"));
        let m = ModelBuilder::new().node("n", "Relu", &["x"], &["y"]).with(|n| n.opset = Some(14)).build();
        assert_eq!(problems(&m), []);
    }

    #[test]
    fn graphs_nested_too_deeply_are_refused() {
        let mut graph = ModelBuilder::new().node("n", "Relu", &["x"], &["y"]).graph();
        for _ in 0..=MAX_LEVELS {
            graph = ModelBuilder::new().node("if", "If", &["c"], &["y"]).body("then_branch", graph, &[]).graph();
        }
        let m = crate::model::Model { graph, ..ModelBuilder::new().build() };
        assert!(Problems(problems(&m)).to_string().contains("nested"));
    }
}
