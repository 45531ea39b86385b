//! Judging the nodes of a model by a table.

use std::collections::HashMap;
use std::sync::Arc;

use super::predicate::{Answer, Check, Context};
use super::table::Row;
use super::{Backend, Support, SupportMap};
use crate::diagnostic::printable;
use crate::dtype::DType;
use crate::expr::Bindings;
use crate::graph::{Dialect, Graph, Node, Op, Value, ValueKind, ValueType};
use crate::model::Model;

/// What the table says of an operator, an opset and an element type.
#[derive(Clone)]
enum Listed<'a> {
    No(Arc<str>),
    Row(&'a Row),
}

/// The operator by address (operators are shared), its opset, and its first input's type.
type Key = (usize, Option<i64>, Option<(ValueType, Option<DType>)>);

pub(super) struct Judge<'a> {
    model: &'a Model,
    backend: &'a Backend,
    dims: &'a Bindings,
    listed: HashMap<Key, Listed<'a>>,
}

/// One node in its graph, and what judges it.
pub(super) struct Case<'a> {
    pub(super) backend: &'a Backend,
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    pub(super) dims: &'a Bindings,
}

impl Case<'_> {
    /// Dynamic shapes and the row's condition; `shown` is the operator in messages.
    pub(super) fn conditions(&self, row: &Row, shown: &str) -> Support {
        if row.dynamic_shapes == Some(false)
            && let Some(why) = self.open_shape()
        {
            return Support::Unsupported(format!("{shown}: {why}").into());
        }
        match &row.condition {
            Some(text) => self.checks(&row.checks, row.complete, text, shown),
            None => self.checks(&[], true, "", shown),
        }
    }

    /// Why the backend, which needs static shapes, does not take the node's.
    pub(super) fn open_shape(&self) -> Option<String> {
        let open = |v: &&Value| !matches!(v.kind, ValueKind::Initializer(_)) && v.shape.eval(self.dims).is_none();
        let v = self.node.inputs.iter().flatten().map(|&v| self.graph.value(v)).find(open)?;
        Some(format!("{} needs static shapes, and {} has shape {}", printable(&self.backend.name), printable(&v.name), v.shape))
    }

    /// The table's checks for every operator, and these; `text` is the condition in words.
    pub(super) fn checks(&self, checks: &[Check], complete: bool, text: &str, shown: &str) -> Support {
        let (name, context) = (printable(&self.backend.name), Context { graph: self.graph, node: self.node, dims: self.dims });
        for check in self.backend.general.iter() {
            if let Answer::Fails(why) = check.ask(&context) {
                return Support::Unsupported(format!("{shown}: {name} does not take it, since {why}").into());
            }
        }
        let mut open = !complete;
        for check in checks {
            match check.ask(&context) {
                Answer::Holds => {}
                Answer::Open => open = true,
                Answer::Fails(why) => {
                    return Support::Unsupported(format!("{shown}: {name} takes it under a condition ({text}), and {why}").into());
                }
            }
        }
        if open { Support::Conditional(text.into()) } else { Support::Supported }
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(model: &'a Model, backend: &'a Backend, dims: &'a Bindings) -> Self {
        Self { model, backend, dims, listed: HashMap::new() }
    }

    pub(super) fn all(mut self) -> SupportMap {
        let graph = &self.model.graph;
        graph.nodes().iter().map(|n| self.with_bodies(graph, n)).collect()
    }

    /// A node and all that its bodies hold: it is placed whole.
    fn with_bodies(&mut self, graph: &'a Graph, node: &'a Node) -> Support {
        let mut verdict = self.alone(graph, node);
        let mut work: Vec<&Graph> = node.bodies.iter().map(|b| &b.graph).collect();
        while let Some(body) = work.pop() {
            for (i, inner) in body.nodes().iter().enumerate() {
                let name = || {
                    let id = crate::graph::NodeId::new(i);
                    format!("{} ({})", printable(body.stable_id(id)), printable(&inner.op.to_string()))
                };
                match (self.alone(body, inner), &verdict) {
                    (Support::Unsupported(why), Support::Supported | Support::Conditional(_)) => {
                        return Support::Unsupported(format!("contains {}: {why}", name()).into());
                    }
                    (Support::Conditional(text), Support::Supported) => {
                        verdict = Support::Conditional(format!("contains {}: {text}", name()).into());
                    }
                    _ => {}
                }
                work.extend(inner.bodies.iter().map(|b| &b.graph));
            }
        }
        verdict
    }

    fn alone(&mut self, graph: &'a Graph, node: &'a Node) -> Support {
        let case = Case { backend: self.backend, graph, node, dims: self.dims };
        if node.op.dialect == Dialect::Aten && self.backend.dialect == Dialect::Aten {
            return case.judge_torch();
        }
        if node.op.dialect != self.backend.dialect {
            let backend = printable(&self.backend.name);
            let why = format!("the table of {backend} speaks of another kind of operators and does not say what becomes of this one");
            return Support::Conditional(why.into());
        }
        let first = node.input(0).map(|v| graph.value(v)).map(|v| (v.ty, v.dtype));
        let opset = self.model.opset_of(node);
        let key: Key = (Arc::as_ptr(&node.op).addr(), opset, first);
        let listed = match self.listed.get(&key) {
            Some(l) => l.clone(),
            None => {
                let l = self.look_up(graph, node, opset);
                // The type of another input is not part of the key.
                if !matches!(l, Listed::No(_)) || node.input(1).is_none() || &*node.op.name != "Where" {
                    self.listed.insert(key, l.clone());
                }
                l
            }
        };
        match listed {
            Listed::No(why) => Support::Unsupported(why),
            Listed::Row(row) => case.conditions(row, &printable(&node.op.to_string())),
        }
    }

    /// Operator, opset and element type.
    fn look_up(&self, graph: &Graph, node: &Node, opset: Option<i64>) -> Listed<'a> {
        let (op, backend): (&Op, &'a Backend) = (&node.op, self.backend);
        let (shown, name) = (printable(&op.to_string()).into_owned(), &backend.name);
        let no = |why: String| Listed::No(why.into());
        if op.domain.is_empty()
            && let Some(version) = opset
        {
            if let Some(most) = backend.opsets.1.filter(|&m| version > m) {
                return no(format!("{shown}: {name} reads opsets up to {most}, and the model uses opset {version}"));
            }
            if let Some(least) = backend.opsets.0.filter(|&m| version < m) {
                return no(format!("{shown}: {name} reads opsets from {least}, and the model uses opset {version}"));
            }
        }
        let Some(rows) = backend.rows.get(&(op.domain.clone(), op.name.clone())) else {
            let documented = op.domain.is_empty() && backend.unsupported.iter().any(|u| **u == *op.name);
            let how = if documented { "states that it does not take it" } else { "does not list it" };
            return no(format!("{shown}: {name} {how}"));
        };
        let in_range = |row: &&Row| match (row.since, opset) {
            (Some((first, last)), Some(v)) => first <= v && last.is_none_or(|l| v <= l),
            _ => true,
        };
        let mut fitting = rows.iter().filter(in_range).peekable();
        if fitting.peek().is_none() {
            let ranges: Vec<String> = rows.iter().filter_map(|r| r.since).map(range).collect();
            let version = opset.map_or_else(|| "an unknown opset".to_owned(), |v| format!("opset {v}"));
            return no(format!("{shown}: {name} takes it in opsets {}, and the model uses {version}", ranges.join(", ")));
        }
        let mut refused: Option<(String, Vec<&str>)> = None;
        for row in fitting {
            let Some(list) = &row.dtypes else { return Listed::Row(row) };
            let Some(ty) = node.input(row.typed_input).and_then(|v| type_name(graph.value(v))) else { return Listed::Row(row) };
            if list.iter().any(|t| **t == ty) {
                return Listed::Row(row);
            }
            let all = &mut refused.get_or_insert_with(|| (ty, Vec::new())).1;
            all.extend(list.iter().map(|t| &**t).filter(|t| !t.contains('(')));
        }
        let (ty, mut taken) = refused.unwrap_or_default();
        taken.dedup();
        no(format!("{shown}: {name} does not take {ty} here; it takes {}", taken.join(", ")))
    }
}

fn range((first, last): (i64, Option<i64>)) -> String {
    match last {
        Some(last) if last == first => first.to_string(),
        Some(last) => format!("{first} to {last}"),
        None => format!("{first} and later"),
    }
}

/// The type as tables write it; `None` where the element type is unknown.
pub(super) fn type_name(value: &Value) -> Option<String> {
    let dtype = value.dtype?;
    Some(match value.ty {
        ValueType::Tensor | ValueType::Scalar | ValueType::Other => dtype.to_string(),
        ValueType::Sparse => format!("sparse({dtype})"),
        ValueType::Sequence => format!("seq({dtype})"),
        ValueType::Optional => format!("optional({dtype})"),
        // Tables tell maps apart by their key, which values do not keep.
        ValueType::Map => return None,
    })
}
