//! Graphviz: the effective graph with a cluster for each partition.
//!
//! Accelerated units are rounded boxes, torch units octagons, opaque ops components, data (what the caller feeds and gets)
//! ellipses; each has its colour too, so that neither colour nor shape alone has to tell them apart. Edges between
//! partitions carry the type of the first tensor.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::diagnostic::printable;
use crate::graph::ValueId;
use crate::partition::{PartitionId, Placement, Plan};
use crate::view::{Unit, UnitId};

/// Shape, fill and border of a kind of unit.
const fn style(kind: Placement) -> (&'static str, &'static str, &'static str) {
    match kind {
        Placement::Accelerated => ("box", "#d5f0dc", "#1b7837"),
        Placement::Torch => ("octagon", "#fde0c5", "#b35806"),
        Placement::Opaque => ("component", "#e7d9f2", "#762a83"),
    }
}

/// The plan as a DOT digraph.
#[must_use]
pub fn dot(plan: &Plan) -> String {
    let view = &plan.view;
    let graph = &view.model.graph;
    let mut out = String::new();
    let title = view.model.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "digraph {} {{", quoted(&title));
    out.push_str("  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=10, style=filled];\n");
    out.push_str("  edge [fontname=\"Helvetica\", fontsize=8, color=\"#555555\"];\n");
    for (i, &v) in graph.inputs().iter().enumerate() {
        data(&mut out, plan, &format!("in{i}"), v);
    }
    for p in (0..plan.partitions.len()).map(PartitionId::new) {
        let partition = plan.partitions[p.index()];
        let (shape, fill, border) = style(partition.kind);
        let rounded = if partition.kind == Placement::Accelerated { ", style=\"filled,rounded\"" } else { "" };
        let _ = writeln!(out, "  subgraph cluster_{} {{", p.index());
        let _ = writeln!(out, "    label={}; color=\"{border}\"; style=\"rounded\";", quoted(&partition.name()));
        for &u in plan.units(p) {
            let op = match view.unit(u) {
                Unit::Node(n) => graph.node(n).op.to_string(),
                Unit::Wrap(_) => "opaque".to_owned(),
            };
            let label = lines(&[&op, view.stable_id(u)]);
            let why = quoted(&plan.reason(u));
            let _ = writeln!(
                out,
                "    u{} [shape={shape}, fillcolor=\"{fill}\", color=\"{border}\"{rounded}, label={label}, tooltip={why}];",
                u.index()
            );
        }
        out.push_str("  }\n");
    }
    for u in (0..view.units().len()).map(UnitId::new) {
        edges_to(&mut out, plan, u);
    }
    for (i, &v) in graph.inputs().iter().enumerate() {
        let readers: HashSet<UnitId> = view.consumers(v).collect();
        let mut readers: Vec<UnitId> = readers.into_iter().collect();
        readers.sort_unstable();
        for u in readers {
            let _ = writeln!(out, "  in{i} -> u{};", u.index());
        }
    }
    for (i, &v) in graph.outputs().iter().enumerate() {
        data(&mut out, plan, &format!("out{i}"), v);
        match (view.producer(v), graph.inputs().iter().position(|&x| x == v)) {
            (Some(u), _) => {
                let _ = writeln!(out, "  u{} -> out{i};", u.index());
            }
            (None, Some(input)) => {
                let _ = writeln!(out, "  in{input} -> out{i};");
            }
            // A weight that is an output.
            (None, None) => {}
        }
    }
    out.push_str("}\n");
    out
}

/// A value that the caller feeds or gets.
fn data(out: &mut String, plan: &Plan, id: &str, value: ValueId) {
    let name = &plan.view.model.graph.value(value).name;
    let label = lines(&[name, &type_of(plan, value)]);
    let _ = writeln!(out, "  {id} [shape=ellipse, fillcolor=\"#eeeeee\", color=\"#777777\", label={label}];");
}

/// One edge from each unit that `unit` reads, with the type where it enters another partition.
fn edges_to(out: &mut String, plan: &Plan, unit: UnitId) {
    let home = plan.partition_of[unit.index()];
    let mut drawn: HashSet<UnitId> = HashSet::new();
    for v in plan.view.reads(unit) {
        let Some(from) = plan.view.producer(v) else { continue };
        if !drawn.insert(from) {
            continue;
        }
        let label = if plan.partition_of[from.index()] == home {
            String::new()
        } else {
            format!(" [label={}, penwidth=2]", quoted(&type_of(plan, v)))
        };
        let _ = writeln!(out, "  u{} -> u{}{label};", from.index(), unit.index());
    }
}

fn type_of(plan: &Plan, value: ValueId) -> String {
    let v = plan.view.model.graph.value(value);
    let dtype = v.dtype.map_or_else(|| "?".to_owned(), |d| d.to_string());
    format!("{}@{dtype}", v.shape)
}

/// A quoted DOT string. Names from files hold anything: what ends a string or starts an escape sequence is escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Several lines of a label.
fn lines(parts: &[&str]) -> String {
    let escaped: Vec<String> = parts.iter().map(|p| escaped(p)).collect();
    format!("\"{}\"", escaped.join("\\n"))
}

fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::partition::{Marks, PlanOptions, plan};
    use crate::select::NodeSet;
    use crate::testing::model;
    use crate::view::{View, WrapRequest};

    #[test]
    fn kinds_differ_in_shape_and_names_cannot_break_out() {
        let m = Arc::new(model(&[
            ("a\"]; x [label=\"\u{1b}\\", "Relu", &["x"], &["va"]),
            ("t", "Erf", &["va"], &["vt"]),
            ("w", "Sin", &["vt", "va"], &["vw"]),
            ("b", "Add", &["vw", "vt"], &["y"]),
        ]));
        let set = |i: u32| {
            let mut s = NodeSet::empty(4);
            s.insert(crate::graph::NodeId(i));
            s
        };
        let wrap = WrapRequest { id: "W".into(), definition: "d".into(), select: "w".into(), nodes: set(2) };
        let view = Arc::new(View::new(m, &[wrap]).unwrap());
        let marks = Marks { torch_executed_ops: vec![Arc::new(set(1))], ..Marks::default() };
        let text = dot(&plan(&view, &marks, None, &PlanOptions::default()));
        assert!(text.starts_with("digraph \"test.onnx\" {\n") && text.ends_with("}\n"));
        assert!(text.contains(r#"label="Relu\na\"]; x [label=\"\\u{1b}\\""#), "{text}");
        for shape in ["shape=box", "shape=octagon", "shape=component", "shape=ellipse"] {
            assert!(text.contains(shape), "{shape} in {text}");
        }
        assert_eq!(text.matches("subgraph cluster_").count(), 4);
        assert!(text.contains(r#"u0 -> u1 [label="[4]@f32", penwidth=2];"#), "{text}");
        // Quotes come in pairs, escaped ones aside.
        let unescaped = text.replace("\\\\", "").replace("\\\"", "");
        assert!(unescaped.lines().all(|l| l.matches('"').count().is_multiple_of(2)));
    }
}
