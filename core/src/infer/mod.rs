//! Best-effort shape and element-type inference, and the cost of nodes.
//!
//! One forward pass in topological order: every operator's rule (one file per family) turns facts of its inputs into
//! facts of its outputs. Small integer tensors are followed element by element, as expressions, since graphs compute
//! their own shapes with them. What a rule cannot tell stays unknown.

mod control_flow;
pub mod cost;
mod data_movement;
mod elementwise;
mod fact;
mod linear;
mod rules;
mod spatial;

use crate::diagnostic::{Diagnostic, printable};
use crate::expr::Bindings;
use crate::graph::{Graph, Node, NodeId, ValueId, ValueKind};
use crate::model::Model;
use crate::shape::{Dim, Shape};

use fact::Fact;

/// Fills in dtypes and shapes that the file leaves open, in place. What the file says is kept and refined (an unknown
/// dimension becomes a known one); where it contradicts what the operator gives there is a diagnostic
/// (`value_info_mismatch`) and the file's word stands. Bodies are treated alike.
///
/// Linear in nodes. Reads stored integers of at most 64 elements, nothing else.
pub fn infer(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
    let opset = model.opset("").unwrap_or(1);
    infer_graph(&mut model.graph, &[], opset, diagnostics);
}

/// Facts of one level while it is walked.
pub(super) struct Facts<'a> {
    graph: &'a Graph,
    facts: Vec<Fact>,
}

impl Facts<'_> {
    /// What is known of input `i` of `node`; `None` where it is left out.
    fn input(&mut self, node: &Node, i: usize) -> Option<&Fact> {
        let v = node.input(i)?;
        Some(&self.facts[v.index()])
    }

    /// Input `i` as integers, stored ones included.
    fn ints(&mut self, node: &Node, i: usize) -> Option<Vec<fact::Int>> {
        let v = node.input(i)?;
        if self.facts[v.index()].ints.is_none()
            && let Some(weight) = self.graph.value(v).weight()
        {
            self.facts[v.index()].ints = rules::stored_ints(weight);
        }
        self.facts[v.index()].ints.clone()
    }

    /// Input `i` as numbers, where all are known.
    fn known_ints(&mut self, node: &Node, i: usize) -> Option<Vec<i64>> {
        self.ints(node, i)?.iter().map(|i| i.as_ref()?.as_const()).collect()
    }
}

/// Infers one level; `outer` are the facts of the enclosing graph, by value id.
fn infer_graph(graph: &mut Graph, outer: &[Fact], opset: i64, diagnostics: &mut Vec<Diagnostic>) {
    let stated: Vec<Fact> = graph.values().iter().map(|v| Fact::new(v.dtype, v.shape.clone())).collect();
    let mut facts: Vec<Fact> = stated;
    for (i, v) in graph.values().iter().enumerate() {
        match &v.kind {
            ValueKind::Captured { outer: o } => {
                if let Some(f) = outer.get(o.index()) {
                    facts[i] = fact::refine(&facts[i], f).unwrap_or_else(|_| f.clone());
                }
            }
            ValueKind::Initializer(w) => {
                facts[i].dtype = Some(w.dtype);
                facts[i].shape = Shape::known(&w.shape);
            }
            _ => {}
        }
    }
    for n in 0..graph.nodes().len() {
        let outputs = if graph.nodes()[n].bodies.is_empty() {
            let mut level = Facts { graph, facts: std::mem::take(&mut facts) };
            let node = &graph.nodes()[n];
            // As `Model::opset_of` has it: a node that came out of a function may be of another version than the model's.
            let outputs = rules::outputs(&mut level, node, node.opset.unwrap_or(opset));
            facts = level.facts;
            outputs
        } else {
            control_flow::outputs(graph, n, &mut facts, opset, diagnostics)
        };
        let node = &graph.nodes()[n];
        for (slot, found) in outputs.into_iter().enumerate() {
            let (Some(found), Some(v)) = (found, node.outputs.get(slot).copied().flatten()) else { continue };
            match fact::refine(&facts[v.index()], &found) {
                Ok(f) => facts[v.index()] = f,
                Err(how) => diagnostics.push(
                    Diagnostic::warning(
                        "value_info_mismatch",
                        format!(
                            "value {} of node {}: {how}; the file's word is kept",
                            printable(&graph.value(v).name),
                            printable(graph.stable_id(NodeId::new(n)))
                        ),
                    )
                    .with_node(graph.stable_id(NodeId::new(n)))
                    .with_value(&graph.value(v).name),
                ),
            }
        }
    }
    for (v, f) in graph.values_mut().iter_mut().zip(facts) {
        v.dtype = f.dtype;
        v.shape = f.shape;
    }
}

/// Shapes of all values of the main graph under `dims`, by [`ValueId`]; `None` where still open.
#[must_use]
pub fn shapes_with(model: &Model, dims: &Bindings) -> Vec<Option<Vec<u64>>> {
    model.graph.values().iter().map(|v| v.shape.eval(dims)).collect()
}

/// Operators whose output sizes depend on the data, with what they depend on.
const DATA_DEPENDENT: &[(&str, &str)] = &[
    ("NonZero", "the number of non-zero elements"),
    ("Unique", "the number of distinct elements"),
    ("Compress", "the number of true conditions"),
    ("NonMaxSuppression", "the number of boxes kept"),
    ("Range", "start, limit and step"),
    ("Reshape", "the values of its shape input"),
    ("Expand", "the values of its shape input"),
    ("ConstantOfShape", "the values of its input"),
    ("Tile", "the values of its repeats input"),
    ("Slice", "the values of its starts and ends"),
    ("Pad", "the values of its pads"),
    ("Resize", "the values of its scales or sizes"),
    ("Upsample", "the values of its scales"),
    ("TopK", "the value of k"),
    ("OneHot", "the value of its depth"),
    ("Split", "the values of its split input"),
    ("If", "which branch is taken"),
    ("Loop", "the number of trips"),
    ("SequenceAt", "the position"),
];

/// Why the shape of `value` is not fully known, as one sentence; `None` if it is (symbols count as known).
#[must_use]
pub fn why_unknown(model: &Model, value: ValueId) -> Option<String> {
    let graph = &model.graph;
    let open = |v: ValueId| graph.value(v).shape.dims().is_none_or(|d| d.contains(&Dim::Unknown));
    if !open(value) {
        return None;
    }
    let mut v = value;
    // Every step goes to an earlier node, so this ends.
    loop {
        let Some(n) = graph.producer(v) else {
            return Some(format!("the file gives no size for {}", printable(&graph.value(v).name)));
        };
        let node = graph.node(n);
        let known = |i: &ValueId| !open(*i);
        match node.inputs.iter().flatten().find(|i| !known(i)) {
            Some(&input) => v = input,
            None => {
                let what = DATA_DEPENDENT.iter().find(|(op, _)| node.op.is_onnx(op)).map(|(_, what)| *what);
                let label = printable(graph.stable_id(n));
                return Some(match what {
                    Some(what) => format!("it depends on {what} of {} ({label})", node.op),
                    None => format!("no shape rule for {} ({label})", printable(&node.op.to_string())),
                });
            }
        }
    }
}

/// The symbols in the shapes of the model's inputs, in order of first use.
#[must_use]
pub fn symbols(model: &Model) -> Vec<String> {
    let mut names: indexmap::IndexSet<String> = indexmap::IndexSet::new();
    for &v in model.graph.inputs() {
        for d in model.graph.value(v).shape.dims().into_iter().flatten() {
            if let Dim::Sym(e) = d {
                e.for_each_var(&mut |n| {
                    names.insert(n.to_string());
                });
            }
        }
    }
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ModelBuilder;

    #[test]
    fn a_nodes_own_opset_counts() {
        let shape = |own: Option<i64>| {
            let mut model = ModelBuilder::new()
                .node("up", "Resize", &["x", "s"], &["y"])
                .typed("x", Some(crate::dtype::DType::F32), Shape::known(&[1, 2]))
                .weight(
                    "s",
                    crate::weights::WeightRef::inline(
                        crate::dtype::DType::F32,
                        &[2],
                        [1f32, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect(),
                    ),
                )
                .with(|n| n.opset = own)
                .opset("", 18)
                .build();
            for v in model.graph.values_mut().iter_mut().filter(|v| &*v.name == "y") {
                v.shape = Shape::UNKNOWN;
            }
            infer(&mut model, &mut Vec::new());
            model.graph.values().iter().find(|v| &*v.name == "y").map(|v| v.shape.clone())
        };
        // Before opset 11 the scales were input 1; later that is the region of interest.
        assert_eq!(shape(Some(10)), Some(Shape::known(&[1, 6])));
        assert_ne!(shape(None), Some(Shape::known(&[1, 6])));
    }
}
