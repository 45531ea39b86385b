//! The report for people.

use std::collections::BTreeMap;

use super::{PartitionInfo, PartitionReport, Tensor, Verdict};
use crate::diagnostic::{Severity, printable};
use crate::partition::Placement;

/// Partitions that are listed one by one; the rest is summed up.
const MOST_PARTITIONS: usize = 40;
/// Reasons, node types and diagnostics that are listed.
const MOST_ROWS: usize = 20;

/// The report as text of at most `width` columns (names that are longer are cut), without colour.
#[must_use]
pub fn render_text(report: &PartitionReport, width: usize) -> String {
    let mut out = Text { out: String::new(), width: width.max(40) };
    out.head(report);
    out.partitions(report);
    out.fallbacks(report);
    out.preview(report);
    out.sizes(report);
    out.rest(report);
    out.out
}

struct Text {
    out: String,
    width: usize,
}

impl Text {
    /// One line, cut at the width.
    fn line(&mut self, text: &str) {
        let text = text.trim_end();
        if text.chars().count() <= self.width {
            self.out.push_str(text);
        } else {
            self.out.extend(text.chars().take(self.width - 1));
            self.out.push('…');
        }
        self.out.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.out.push('\n');
        self.line(text);
    }

    /// Sentences, wrapped at spaces, with the same indent on every line.
    fn paragraph(&mut self, indent: usize, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > self.width {
                self.line(&format!("{:indent$}{line}", ""));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&format!("{:indent$}{line}", ""));
    }

    fn head(&mut self, r: &PartitionReport) {
        let t = &r.totals;
        let opset = r.model.opset.map(|v| format!(", opset {v}")).unwrap_or_default();
        self.line(&format!("{}  {}{opset}, {}", printable(&r.model.file), r.model.format, plural(t.nodes, "node")));
        match (&r.config.backend, &r.config.backend_source) {
            (Some(name), Some(source)) => self.line(&format!("backend {}  (table from {})", printable(name), printable(source))),
            _ => self.line("no backend: every operator counts as supported"),
        }
        self.out.push('\n');
        self.line(&format!(
            "accelerated  {:>7} nodes in {}  ({:.1} % of all nodes)",
            t.accelerated_nodes,
            plural(t.accelerated_partitions, "partition"),
            t.coverage * 100.0
        ));
        self.line(&format!("torch        {:>7} nodes in {}", t.torch_nodes, plural(t.torch_partitions, "partition")));
        if t.opaque > 0 {
            self.line(&format!("opaque       {:>7} nodes in {}", t.opaque_nodes, plural(t.opaque, "custom op")));
        }
        self.line(&format!(
            "supported    {:>7} of {}{}{}{}",
            t.supported,
            t.nodes,
            part(t.conditional, "under a condition"),
            part(t.unsupported, "unsupported"),
            part(t.excluded, "excluded by marks")
        ));
        let size = if r.config.min_block_size > 1 { format!(", min_block_size {}", r.config.min_block_size) } else { String::new() };
        self.line(&format!("fewest accelerated partitions for this placement: {} (proven, before size rules){size}", t.lower_bound));
        if let Some(largest) = &t.largest_partition {
            self.line(&format!("accelerated partitions hold {:.1} nodes on average; the largest is {largest}", t.average_partition));
        }
        self.line(&format!("bytes between partitions per run: {}", bytes(t.crossing_bytes)));
        if let Some(b) = &r.bottleneck {
            self.line(&format!("bottleneck: {} with {} % of all {}", b.partition, b.percent, b.by));
        }
    }

    fn partitions(&mut self, r: &PartitionReport) {
        if r.partitions.is_empty() {
            return;
        }
        let name = |p: &PartitionInfo| match (&p.wrap, &p.wrap_name) {
            (Some(id), Some(name)) => format!("{} {} ({})", p.name, printable(name), printable(id)),
            _ => p.name.clone(),
        };
        let names: Vec<String> = r.partitions.iter().take(MOST_PARTITIONS).map(name).collect();
        let column = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).clamp(22, self.width / 2);
        self.title(&format!("{:<column$} {:>7} {:>10} {:>10} {:>8}  takes -> gives", "PARTITION", "NODES", "IN", "OUT", "FLOP"));
        for (p, name) in r.partitions.iter().zip(names) {
            self.line(&format!(
                "{name:<column$} {:>7} {:>10} {:>10} {:>8}  {} -> {}",
                p.ops,
                bytes(p.bytes_in),
                bytes(p.bytes_out),
                p.flops.map_or_else(|| "?".to_owned(), scaled),
                tensors(&p.inputs),
                tensors(&p.outputs)
            ));
        }
        if r.partitions.len() > MOST_PARTITIONS {
            let rest = &r.partitions[MOST_PARTITIONS..];
            let count = |kind| rest.iter().filter(|p| p.kind == kind).count();
            let (acc, torch, op) = (count(Placement::Accelerated), count(Placement::Torch), count(Placement::Opaque));
            self.line(&format!("… {} more: {acc} accelerated, {torch} torch, {op} opaque (all in --json)", rest.len()));
        }
    }

    /// Fallbacks by reason, with the first nodes of each.
    fn fallbacks(&mut self, r: &PartitionReport) {
        if r.fallbacks.is_empty() {
            return;
        }
        let mut order: Vec<&str> = Vec::new();
        let mut by_reason: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, f) in r.fallbacks.iter().enumerate() {
            let nodes = by_reason.entry(&f.reason).or_default();
            if nodes.is_empty() {
                order.push(&f.reason);
            }
            nodes.push(i);
        }
        order.sort_by_key(|reason| std::cmp::Reverse(by_reason.get(reason).map_or(0, Vec::len)));
        self.title(&format!("IN TORCH, AND WHY ({})", plural(r.fallbacks.len(), "node")));
        for reason in order.iter().take(MOST_ROWS) {
            let nodes = by_reason.get(reason).map_or(&[][..], Vec::as_slice);
            self.paragraph(2, &format!("{:>6} x  {}", nodes.len(), printable(reason)));
            for &i in nodes.iter().take(3) {
                let f = &r.fallbacks[i];
                let module = if f.module.is_empty() { String::new() } else { format!("  in {}", printable(&f.module)) };
                let source = f.source.as_ref().map(|s| format!("  {}", printable(s))).unwrap_or_default();
                self.line(&format!("            {} ({}){module}{source}", printable(&f.node), printable(&f.op)));
            }
        }
        if order.len() > MOST_ROWS {
            self.line(&format!("  … {} more reasons (all in --json)", order.len() - MOST_ROWS));
        }
    }

    fn preview(&mut self, r: &PartitionReport) {
        let shown = r.node_support_preview.iter().filter(|n| n.support != Verdict::Supported);
        let kinds = shown.clone().count();
        if kinds == 0 {
            return;
        }
        self.title(&format!("NOT PLAINLY SUPPORTED ({})", plural(kinds, "node type")));
        for n in shown.take(MOST_ROWS) {
            let verdict = if n.support == Verdict::Unsupported { "no" } else { "if" };
            self.line(&format!("  {:>6} x {verdict}  {}  {}", n.count, printable(&n.op), n.dtypes));
            if let Some(reason) = &n.reason {
                self.paragraph(14, &printable(reason));
            }
        }
        if kinds > MOST_ROWS {
            self.line(&format!("  … {} more (all in --json)", kinds - MOST_ROWS));
        }
    }

    fn sizes(&mut self, r: &PartitionReport) {
        if r.min_block_sizes.is_empty() || r.totals.accelerated_partitions == 0 && r.config.min_block_size <= 1 {
            return;
        }
        self.title("min_block_size   accelerated     torch   accelerated nodes");
        for row in &r.min_block_sizes {
            let now = if row.min_block_size == r.config.min_block_size { "  <- now" } else { "" };
            self.line(&format!("{:>14} {:>13} {:>9} {:>19}{now}", row.min_block_size, row.accelerated, row.torch, row.accelerated_nodes));
        }
    }

    fn rest(&mut self, r: &PartitionReport) {
        if !r.non_tensor_edges.is_empty() {
            self.title("VALUES THAT ARE NO TENSORS");
            for e in r.non_tensor_edges.iter().take(MOST_ROWS) {
                let from = e.from.as_ref().map_or_else(|| "the caller".into(), |f| printable(f));
                let to: Vec<_> = e.to.iter().take(4).map(|t| printable(t)).collect();
                self.line(&format!("  {} ({})  {from} -> {}", printable(&e.value), e.kind, to.join(", ")));
            }
        }
        if !r.diagnostics.is_empty() {
            self.title("PROBLEMS");
            for d in r.diagnostics.iter().take(MOST_ROWS) {
                let mark = match d.severity {
                    Severity::Info => "info",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                };
                self.paragraph(2, &format!("{mark}: {}", printable(&d.message)));
            }
            if r.diagnostics.len() > MOST_ROWS {
                self.line(&format!("  … {} more (all in --json)", r.diagnostics.len() - MOST_ROWS));
            }
        }
    }
}

fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("{n} {noun}") } else { format!("{n} {noun}s") }
}

fn part(n: usize, what: &str) -> String {
    if n == 0 { String::new() } else { format!(", {n} {what}") }
}

/// The first tensors of an edge.
fn tensors(list: &[Tensor]) -> String {
    let first: Vec<String> = list.iter().take(2).map(|t| format!("{} {}", printable(&t.name), printable(&t.r#type))).collect();
    match list.len() {
        0 => "nothing".to_owned(),
        n if n > 2 => format!("{} +{}", first.join(", "), n - 2),
        _ => first.join(", "),
    }
}

fn bytes(n: Option<u64>) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let Some(n) = n else { return "?".to_owned() };
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

fn scaled(n: u64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { n.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}
