//! `recut inspect`: what a model holds.

use std::sync::Arc;

use recut_core::columns::{ColumnData, Entry, number_text};
use recut_core::diagnostic::{Diagnostic, Severity, printable};
use recut_core::expr::Bindings;
use recut_core::graph::{NodeId, ValueId};
use recut_core::import::Imported;
use recut_core::model::Model;
use recut_core::report::inspect::{self, DimInfo, InspectReport, NodeInfo, Quantity, ValueInfo};

use crate::cli::document;
use crate::cli::error::Result;
use crate::cli::files;
use crate::cli::format::{bytes, count, plural};
use crate::cli::output::{Output, Tone};
use crate::cli::request::{InspectRequest, InspectTable};
use crate::cli::table::{Align, Table};

/// Depth of the module tree in the overview.
const SUMMARY_DEPTH: u32 = 2;
/// Rows of a list in the overview.
const SUMMARY_ROWS: usize = 20;

/// Looks at a model.
///
/// # Errors
/// If it cannot be opened, the selector is no good, or the output cannot be written.
pub fn inspect(request: &InspectRequest, out: &Output) -> Result<()> {
    let Imported { model, diagnostics } = document::import(&request.model, request.model_name.as_deref(), out)?;
    let model = Arc::new(model);
    let dims: Bindings = request.dims.iter().cloned().collect();
    if let Some(target) = &request.json {
        let mut report = inspect::inspect(&model, &diagnostics, &dims);
        if let InspectTable::Select(text) = &request.table {
            let selected = document::select(&model, text, out)?;
            let keep: std::collections::HashSet<String> = selected.iter().map(|&n| model.graph.stable_id(n).to_owned()).collect();
            report.nodes.retain(|n| keep.contains(&n.id));
        }
        return files::write_json(target, &report, out);
    }
    let text = match &request.table {
        InspectTable::Summary => summary(&model, &diagnostics, &dims, out),
        InspectTable::Nodes => nodes(&model, model.graph.node_ids(), &dims, out),
        InspectTable::Select(text) => {
            let selected = document::select(&model, text, out)?;
            out.note(&format!("{} of {}", selected.len(), plural(model.graph.nodes().len(), "node")));
            nodes(&model, selected.into_iter(), &dims, out)
        }
        InspectTable::Modules => modules(&inspect::inspect(&model, &[], &dims), u32::MAX, usize::MAX, out, 0),
        InspectTable::Values => {
            let all = (0..model.graph.values().len()).map(|v| inspect::value_info(&model.graph, ValueId::new(v), &dims));
            values(all, out, 0)
        }
        InspectTable::Ops => ops(&model, usize::MAX, out, 0),
    };
    out.data(&text)
}

/// A quantity for people.
fn quantity(q: &Quantity) -> String {
    match q {
        Quantity::Number(n) => count(*n),
        Quantity::Expression(e) => e.clone(),
        Quantity::Unknown(_) => "?".to_owned(),
    }
}

/// A shape as `[1,3,h,w]`.
fn shape(v: &ValueInfo) -> String {
    let Some(dims) = &v.shape else { return "[…]".to_owned() };
    let dims: Vec<String> = dims
        .iter()
        .map(|d| match d {
            DimInfo::Size(n) => n.to_string(),
            DimInfo::Text(t) => t.clone(),
        })
        .collect();
    format!("[{}]", dims.join(","))
}

fn summary(model: &Model, diagnostics: &[Diagnostic], dims: &Bindings, out: &Output) -> String {
    let report = inspect::inspect(model, diagnostics, dims);
    let title = |t: &str| out.paint(Tone::Title, t);
    let info = &report.model;
    let mut s = format!("{}  {}, {}", title(&printable(&info.file)), info.format, bytes(info.bytes));
    if let Some(v) = info.ir_version {
        s.push_str(&format!(", IR version {v}"));
    }
    if !info.producer.is_empty() {
        s.push_str(&format!(", made by {}", printable(&info.producer)));
    }
    s.push('\n');
    let opsets: Vec<String> =
        info.opsets.iter().map(|(d, v)| format!("{} {v}", if d.is_empty() { "ai.onnx".into() } else { printable(d) })).collect();
    if !opsets.is_empty() {
        s.push_str(&format!("operator sets: {}\n", opsets.join(", ")));
    }
    let t = &report.totals;
    let mut line = plural(t.nodes, "node");
    if t.nodes_with_bodies > t.nodes {
        line.push_str(&format!(" ({} with nested graphs)", t.nodes_with_bodies));
    }
    if report.stored_nodes != t.nodes {
        line.push_str(&format!(", {} as stored before functions were expanded", report.stored_nodes));
    }
    s.push_str(&format!("{line}, {} parameters ({}), {} FLOPs a run", count(t.params), bytes(t.param_bytes), quantity(&t.flops)));
    if t.nodes_without_flops > 0 {
        s.push_str(&format!(" and {} of unknown cost", plural(t.nodes_without_flops, "node")));
    }
    s.push('\n');
    if !info.symbols.is_empty() && dims.is_empty() {
        let names: Vec<_> = info.symbols.iter().map(|n| symbol(model, n)).collect();
        s.push_str(&format!("open dimensions: {} (give sizes with --dim NAME=SIZE)\n", names.join(", ")));
    }
    s.push_str(&format!("\n{}\n{}", title("Inputs"), values(report.inputs.iter().cloned(), out, 2)));
    s.push_str(&format!("\n{}\n{}", title("Outputs"), values(report.outputs.iter().cloned(), out, 2)));
    s.push_str(&format!("\n{}\n{}", title("Operators"), ops(model, SUMMARY_ROWS, out, 2)));
    if report.modules.len() > 1 {
        s.push_str(&format!("\n{}\n{}", title("Modules"), modules(&report, SUMMARY_DEPTH, SUMMARY_ROWS, out, 2)));
    }
    if !model.columns.is_empty() {
        let names: Vec<_> = model.columns.iter().map(|c| printable(&c.heading()).into_owned()).collect();
        s.push_str(&format!("\n{}\n  {} (--nodes shows them)\n", title("Data columns"), names.join(", ")));
    }
    s.push_str(&problems(diagnostics, out));
    s
}

/// Diagnostics as a section; empty if there are none.
fn problems(diagnostics: &[Diagnostic], out: &Output) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    let mut s = format!("\n{}\n", out.paint(Tone::Title, "Problems"));
    for d in diagnostics.iter().take(SUMMARY_ROWS) {
        let (word, tone) = match d.severity {
            Severity::Info => ("info", Tone::Dim),
            Severity::Warning => ("warning", Tone::Warn),
            Severity::Error => ("error", Tone::Bad),
        };
        s.push_str(&format!("  {}: {} [{}]\n", out.paint(tone, word), d.message, d.code));
    }
    more(&mut s, diagnostics.len(), SUMMARY_ROWS, "--json", 2);
    s
}

/// Says how many rows were left out and how to see them.
fn more(s: &mut String, all: usize, shown: usize, how: &str, indent: usize) {
    if all > shown {
        s.push_str(&format!("{}… and {} more ({how} lists all)\n", " ".repeat(indent), all - shown));
    }
}

fn ops(model: &Model, limit: usize, out: &Output, indent: usize) -> String {
    let ops = inspect::op_counts(&model.graph);
    let mut t = Table::new(&[("op", Align::Left), ("nodes", Align::Right), ("nested", Align::Right)]);
    for o in ops.iter().take(limit) {
        t.row([o.op.clone(), o.count.to_string(), if o.in_bodies > 0 { o.in_bodies.to_string() } else { String::new() }]);
    }
    let mut s = t.render(out.colored(), indent);
    more(&mut s, ops.len(), limit, "--ops", indent);
    s
}

fn modules(report: &InspectReport, depth: u32, limit: usize, out: &Output, indent: usize) -> String {
    let mut t = Table::new(&[("module", Align::Left), ("class", Align::Left), ("nodes", Align::Right), ("params", Align::Right)]);
    let shown: Vec<_> = tree_order(report).into_iter().filter(|m| m.depth <= depth).collect();
    for m in shown.iter().take(limit) {
        let name = if m.path.is_empty() { "(model)".to_owned() } else { m.path.clone() };
        t.row([
            format!("{}{name}", "  ".repeat((m.depth as usize).min(20))),
            m.class.clone().unwrap_or_default(),
            m.nodes.to_string(),
            if m.params > 0 { count(m.params) } else { String::new() },
        ]);
    }
    let mut s = t.render(out.colored(), indent);
    more(&mut s, report.modules.len(), shown.len().min(limit), "--modules", indent);
    s
}

/// Modules as a reader walks the tree: every module before its children, siblings by first use.
fn tree_order(report: &InspectReport) -> Vec<&inspect::ModuleInfo> {
    use std::collections::HashMap;
    let mut children: HashMap<&str, Vec<usize>> = HashMap::new();
    let by_path: HashMap<&str, usize> = report.modules.iter().enumerate().map(|(i, m)| (m.path.as_str(), i)).collect();
    for (i, m) in report.modules.iter().enumerate().skip(1) {
        // A parent is the longest known prefix; importers give every ancestor.
        let mut path = m.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('.') {
            path = parent;
            if by_path.contains_key(path) {
                break;
            }
        }
        let parent = if path == m.path { "" } else { path };
        children.entry(parent).or_default().push(i);
    }
    let mut order = Vec::with_capacity(report.modules.len());
    let mut stack = vec![0usize];
    while let Some(i) = stack.pop() {
        let Some(m) = report.modules.get(i) else { continue };
        order.push(m);
        stack.extend(children.remove(m.path.as_str()).into_iter().flatten().rev());
    }
    order
}

fn values(all: impl Iterator<Item = ValueInfo>, out: &Output, indent: usize) -> String {
    let mut t = Table::new(&[
        ("value", Align::Left),
        ("kind", Align::Left),
        ("dtype", Align::Left),
        ("shape", Align::Left),
        ("readers", Align::Right),
    ]);
    for v in all {
        let kind = match (v.kind.as_str(), v.ty.as_str()) {
            (kind, "tensor") => kind.to_owned(),
            (kind, ty) => format!("{kind} {ty}"),
        };
        let dtype = v.dtype.map_or("?", recut_core::dtype::DType::name).to_owned();
        t.row([v.name.clone(), kind, dtype, shape(&v), v.readers.to_string()]);
    }
    t.render(out.colored(), indent)
}

fn nodes(model: &Model, which: impl Iterator<Item = NodeId>, dims: &Bindings, out: &Output) -> String {
    let headings: Vec<String> = model.columns.iter().map(|c| printable(&c.heading()).into_owned()).collect();
    let mut heads = vec![
        ("node", Align::Left),
        ("op", Align::Left),
        ("module", Align::Left),
        ("output", Align::Left),
        ("params", Align::Right),
        ("FLOPs", Align::Right),
    ];
    for (c, heading) in model.columns.iter().zip(&headings) {
        let align = if matches!(c.data, ColumnData::Numbers(_)) { Align::Right } else { Align::Left };
        heads.push((heading, align));
    }
    let mut t = Table::new(&heads);
    for id in which {
        let n: NodeInfo = inspect::node_info(model, id, dims);
        let output = model.graph.node(id).outputs.iter().flatten().next().map(|&v| inspect::value_info(&model.graph, v, dims));
        let output = output.map_or_else(String::new, |v| format!("{}{}", v.dtype.map_or("?", recut_core::dtype::DType::name), shape(&v)));
        let params = if n.params > 0 { count(n.params) } else { String::new() };
        let data = model.columns.iter().map(|c| match c.get(id) {
            Some(Entry::Number(x)) => number_text(x),
            Some(Entry::Text(t)) => t.to_owned(),
            None => String::new(),
        });
        t.row([n.id, n.op, n.module, output, params, quantity(&n.flops)].into_iter().chain(data));
    }
    t.render(out.colored(), 0)
}

/// A symbolic size with what the file says of it.
fn symbol(model: &Model, name: &str) -> String {
    let facts = model.symbols.get(name).copied().unwrap_or_default();
    let said: Vec<String> = [facts.hint.map(|h| format!("traced as {h}")), facts.range()].into_iter().flatten().collect();
    if said.is_empty() { printable(name).into_owned() } else { format!("{} ({})", printable(name), said.join(", ")) }
}
