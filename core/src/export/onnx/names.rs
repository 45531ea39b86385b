//! Names of values as ONNX wants them: in a graph each its own, and none that a graph around it has.
//!
//! In a [`Graph`] a name may be empty, a body may use a name again that stands outside, and an output may be an input, an
//! initializer, a value from outside, or listed twice. ONNX Runtime takes none of these from every graph, so outputs that
//! no node makes get an `Identity` of their own.

use crate::dtype::DType;
use crate::graph::{Graph, Value, ValueId, ValueKind, ValueType};
use crate::hash::FastMap;

/// Names of one graph, and of the bodies of its nodes.
#[derive(Debug)]
pub(super) struct Level<'m> {
    /// The graph.
    pub(super) graph: &'m Graph,
    /// Names of values that are not called as the model has it.
    renamed: FastMap<u32, Box<str>>,
    /// For every output, the name of the `Identity` output that stands for it, where it needs one.
    copies: Vec<Option<Box<str>>>,
    /// Of all bodies, in the order of nodes and in nodes in that of their bodies.
    bodies: Vec<Level<'m>>,
}

/// The names that are taken in one graph, and where the search for a free one goes on.
#[derive(Default)]
struct Taken {
    names: FastMap<Box<str>, ()>,
    next: FastMap<Box<str>, u32>,
}

impl<'m> Level<'m> {
    /// Names for a main graph and all below it, of this version of the standard operator set.
    pub(super) fn main(graph: &'m Graph, opset: i64) -> Self {
        Self::new(graph, opset, None, &mut Vec::new())
    }

    /// `around` are the graphs that this one stands in, outermost first. Nesting is capped by whoever made the graph.
    fn new(graph: &'m Graph, opset: i64, outer: Option<&Self>, around: &mut Vec<Taken>) -> Self {
        around.push(Taken::default());
        let mut level = Self { graph, renamed: FastMap::default(), copies: Vec::new(), bodies: Vec::new() };
        // What the caller sees keeps its name if anything does.
        let seen = graph.inputs().iter().chain(graph.outputs());
        let mut named = vec![false; graph.values().len()];
        for v in seen.copied().chain((0..graph.values().len()).map(ValueId::new)) {
            if !std::mem::replace(&mut named[v.index()], true) {
                level.name_value(v, outer, around);
            }
        }
        let mut used = FastMap::default();
        for &v in graph.outputs() {
            let value = graph.value(v);
            let made = matches!(value.kind, ValueKind::Output { .. });
            let first = used.insert(v.0, ()).is_none();
            let copy = ((!made || !first) && copyable(value, opset)).then(|| free(&format!("{}_output", level.name(v)), around));
            level.copies.push(copy);
        }
        for node in graph.nodes() {
            for body in &node.bodies {
                let inner = Level::new(&body.graph, opset, Some(&level), around);
                level.bodies.push(inner);
            }
        }
        around.pop();
        level
    }

    fn name_value(&mut self, v: ValueId, outer: Option<&Self>, around: &mut [Taken]) {
        let value = self.graph.value(v);
        let name = match (&value.kind, outer) {
            (ValueKind::Captured { outer: v }, Some(outer)) => outer.name(*v).into(),
            _ => free(&value.name, around),
        };
        if name != value.name {
            self.renamed.insert(v.0, name);
        }
    }

    /// The name of a value.
    pub(super) fn name(&self, v: ValueId) -> &str {
        match self.renamed.get(&v.0) {
            Some(name) => name,
            None => &self.graph.value(v).name,
        }
    }

    /// The outputs in order: value, name, and whether an `Identity` has to make it from the value.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&'m Value, &str, Option<&str>)> {
        self.graph.outputs().iter().zip(&self.copies).map(|(&v, copy)| {
            let name = self.name(v);
            (self.graph.value(v), copy.as_deref().unwrap_or(name), copy.as_ref().map(|_| name))
        })
    }

    /// Whether this graph or one below it needs an `Identity`.
    pub(super) fn copies_any(&self) -> bool {
        let mut work = vec![self];
        while let Some(level) = work.pop() {
            if level.copies.iter().any(Option::is_some) {
                return true;
            }
            work.extend(&level.bodies);
        }
        false
    }

    /// The names inside all bodies, in order.
    pub(super) fn bodies(&self) -> &[Level<'m>] {
        &self.bodies
    }
}

/// Whether `Identity` takes the value. What it does not take stays as the model has it.
fn copyable(value: &Value, opset: i64) -> bool {
    let kind = match value.ty {
        ValueType::Tensor | ValueType::Scalar => 1,
        ValueType::Sequence => 14,
        ValueType::Optional => 16,
        ValueType::Sparse | ValueType::Map | ValueType::Other => i64::MAX,
    };
    let element = match value.dtype {
        Some(DType::Bf16) => 13,
        Some(DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz) => 19,
        Some(DType::I4 | DType::U4) => 21,
        Some(DType::F4e2m1) => 23,
        Some(DType::F8e8m0) => 24,
        Some(DType::I2 | DType::U2) => 25,
        _ => 1,
    };
    opset >= kind.max(element)
}

/// `wish`, or something like it that no graph of `around` has; taken in the innermost.
fn free(wish: &str, around: &mut [Taken]) -> Box<str> {
    let is_taken = |around: &[Taken], name: &str| around.iter().any(|t| t.names.contains_key(name));
    let mut name: Box<str> = wish.into();
    if wish.is_empty() || is_taken(around, wish) {
        let base = if wish.is_empty() { "value" } else { wish };
        let mut count = around.last().and_then(|t| t.next.get(base).copied()).unwrap_or(0);
        while name.is_empty() || is_taken(around, &name) {
            count += 1;
            name = format!("{base}_{count}").into();
        }
        if let Some(t) = around.last_mut() {
            t.next.insert(base.into(), count);
        }
    }
    if let Some(t) = around.last_mut() {
        t.names.insert(name.clone(), ());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::testing::ModelBuilder;

    fn outputs<'l>(level: &'l Level<'_>) -> Vec<(&'l str, Option<&'l str>)> {
        level.outputs().map(|(_, name, copy)| (name, copy)).collect()
    }

    #[test]
    fn outputs_that_no_node_makes_are_copied() {
        let m = ModelBuilder::new().node("a", "Add", &["x", "w.a"], &["y"]).outputs(&["y", "x", "w.a", "y"]).build();
        let level = Level::main(&m.graph, 18);
        let expected = [("y", None), ("x_output", Some("x")), ("w.a_output", Some("w.a")), ("y_output", Some("y"))];
        assert_eq!(outputs(&level), expected);
    }

    #[test]
    fn inner_names_hide_no_outer_ones_and_captures_follow() {
        let inner = ModelBuilder::new().node("i", "Neg", &["c"], &["y"]).node("j", "Add", &["y", "y_1"], &["r"]).outputs(&["r", "c"]);
        let mut graph = inner.graph();
        let c = graph.find_value("c").unwrap();
        graph.values_mut()[c.index()].kind = ValueKind::Captured { outer: ValueId(0) };
        let m = ModelBuilder::new().node("if", "If", &["x"], &["y"]).body("then_branch", graph, &["x"]).build();
        let level = Level::main(&m.graph, 18);
        assert_eq!(level.name(m.graph.find_value("y").unwrap()), "y");
        let body = &level.bodies()[0];
        let called = |n: &Node| n.reads().map(|v| body.name(v).to_owned()).collect::<Vec<_>>();
        // `y` hides the outer one, `y_1` is taken by then.
        assert_eq!(called(&body.graph.nodes()[0]), ["x"]);
        let own = called(&body.graph.nodes()[1]);
        assert!(own[0] != "y" && own[0] != own[1], "{own:?}");
        assert_eq!(outputs(body), [("r", None), ("x_output", Some("x"))]);
    }

    #[test]
    fn values_without_a_name_get_one_each() {
        let mut m = ModelBuilder::new().node("a", "Split", &["x"], &["p", "q"]).build();
        for v in m.graph.values_mut() {
            v.name = if &*v.name == "x" { "value_1".into() } else { "".into() };
        }
        let level = Level::main(&m.graph, 18);
        let names: Vec<&str> = (0..3).map(|v| level.name(ValueId(v))).collect();
        assert_eq!(names, ["value_1", "value_2", "value_3"]);
    }
}
