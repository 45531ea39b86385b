//! A run for people: where the time went, on which engines, whether it held, and what to do next.

use recut_core::diagnostic::printable;
use recut_core::partition::Placement;
use recut_exec::engines::NO_TORCH;
use recut_exec::report::{NodeReport, RunReport, Times};

use crate::cli::format::{bytes, ms, plural};
use crate::cli::output::{Output, Tone};
use crate::cli::request::RunRequest;
use crate::cli::table::{Align, Table};

/// Rows of the list of partitions and of inputs.
const MAX_ROWS: usize = 12;

/// The summary.
pub(super) fn text(r: &RunReport, request: &RunRequest, out: &Output) -> String {
    let mut s = head(r, out);
    s.push_str(&nodes(r, request.top, out));
    s.push_str(&totals(r, out));
    s.push_str(&partitions(r, out));
    s.push_str(&inputs(r, out));
    s.push_str(&expectations(r, out));
    s.push_str(&hints(r, request, out));
    s
}

fn glyph(kind: Placement) -> (&'static str, Tone) {
    match kind {
        Placement::Accelerated => ("A", Tone::Accelerated),
        Placement::Torch => ("T", Tone::Torch),
        Placement::Opaque => ("O", Tone::Opaque),
    }
}

fn head(r: &RunReport, out: &Output) -> String {
    let end_to_end = r.totals.end_to_end;
    let warmup = if r.warmup > 0 { format!(" after {} to warm up", r.warmup) } else { String::new() };
    let dims: Vec<String> = r.dims.iter().map(|(n, v)| format!("{}={v}", printable(n))).collect();
    let dims = if dims.is_empty() { String::new() } else { format!(", {}", dims.join(" ")) };
    format!(
        "{}  {}, median of {}{warmup}, {}, {}{dims}\n\n",
        out.paint(Tone::Title, &printable(&r.model.path)),
        out.paint(Tone::Title, &format!("{} ms", ms(Some(end_to_end.median_ns)))),
        plural(usize::try_from(r.repeat).unwrap_or(usize::MAX), "run"),
        r.schedule,
        plural(usize::try_from(r.environment.threads).unwrap_or(usize::MAX), "thread"),
    )
}

/// The slowest nodes. Nodes inside control flow stand below, in the time of the one that holds them.
fn nodes(r: &RunReport, top: Option<usize>, out: &Output) -> String {
    let kinds: std::collections::HashMap<&str, Placement> = r.partitions.iter().map(|p| (p.name.as_str(), p.kind)).collect();
    let mut sorted: Vec<&NodeReport> = r.nodes.iter().collect();
    let total = |n: &NodeReport| n.percent.unwrap_or(0.0);
    sorted.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let mut members: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    for anchor in r.nodes.iter().filter_map(|n| n.fused_into.as_deref()) {
        *members.entry(anchor).or_default() += 1;
    }
    let limit = top.unwrap_or(usize::MAX);
    let mut t = Table::new(&[
        ("", Align::Left),
        ("ms", Align::Right),
        ("%", Align::Right),
        ("node", Align::Left),
        ("op", Align::Left),
        ("module", Align::Left),
        ("partition", Align::Left),
    ]);
    for n in sorted.iter().take(limit) {
        let (mark, tone) = kinds.get(n.partition.as_str()).map_or(("", Tone::Dim), |&k| glyph(k));
        let percent = n.percent.map_or_else(|| "-".to_owned(), |p| format!("{p:.1}"));
        let inside = match (&n.fused_into, n.folded_ns, &n.inside) {
            (Some(anchor), ..) => format!(" (in the group of {})", printable(anchor)),
            (None, Some(ns), _) => format!(" (constant: computed once in {} ms)", ms(Some(ns))),
            (None, None, Some(_)) => " (inside)".to_owned(),
            (None, None, None) => members.get(n.id.as_str()).map_or_else(String::new, |&count| format!(" (group of {})", count + 1)),
        };
        t.toned([
            (mark.to_owned(), Some(tone)),
            (ms(n.median_ns), None),
            (percent, None),
            (n.id.clone(), None),
            (format!("{}{inside}", n.op), None),
            (n.module.clone(), Some(Tone::Dim)),
            (n.partition.clone(), Some(Tone::Dim)),
        ]);
    }
    if t.is_empty() {
        return "no engine that ran times single nodes; the times of the partitions are in --json\n".to_owned();
    }
    let mut s = t.render(out.colored(), 0);
    if sorted.len() > limit {
        s.push_str(&format!("… and {} (--top 0 lists all, --json has every number)\n", plural(sorted.len() - limit, "more node")));
    }
    s.push_str("A accelerated, T torch, O opaque\n");
    s
}

fn spread(t: Times) -> String {
    format!("{} ms ({} to {})", ms(Some(t.median_ns)), ms(Some(t.min_ns)), ms(Some(t.max_ns)))
}

fn totals(r: &RunReport, out: &Output) -> String {
    let t = &r.totals;
    let one = |ns| format!("{} ms", ms(Some(ns)));
    let mut s = format!("\n{}\n", out.paint(Tone::Title, "Totals"));
    for (name, value) in [
        ("end to end", spread(t.end_to_end)),
        ("sum of nodes", one(t.sum_of_nodes_ns)),
        ("boundaries", one(t.boundary_ns)),
        ("gap", format!("{}: {}", one(t.gap_ns), printable(&t.gap_reason))),
        ("peak memory", format!("{} of values, weights excluded", bytes(t.peak_bytes))),
    ] {
        s.push_str(&format!("  {name:<13} {value}\n"));
    }
    s
}

fn partitions(r: &RunReport, out: &Output) -> String {
    let mut t = Table::new(&[
        ("", Align::Left),
        ("partition", Align::Left),
        ("nodes", Align::Right),
        ("ms", Align::Right),
        ("engine", Align::Left),
        ("", Align::Left),
    ]);
    for p in r.partitions.iter().take(MAX_ROWS) {
        let (mark, tone) = glyph(p.kind);
        t.toned([
            (mark.to_owned(), Some(tone)),
            (p.name.clone(), None),
            (p.nodes.len().to_string(), None),
            (ms(Some(p.times.median_ns)), None),
            (format!("{} {}", p.engine, p.precision), None),
            (p.note.clone().unwrap_or_default(), Some(Tone::Warn)),
        ]);
    }
    let mut s = format!("\n{}\n{}", out.paint(Tone::Title, "Partitions"), t.render(out.colored(), 2));
    if r.partitions.len() > MAX_ROWS {
        s.push_str(&format!("  … and {} more (--json lists all)\n", r.partitions.len() - MAX_ROWS));
    }
    if r.partitions.iter().any(|p| p.note.as_deref() == Some(NO_TORCH)) {
        s.push_str("  this version has no torch engine, installed or not: torch partitions run on cpu\n");
    }
    s
}

/// Only what was not fed: arrays of the user need no explanation.
fn inputs(r: &RunReport, out: &Output) -> String {
    let generated: Vec<_> = r.inputs.iter().filter_map(|i| Some((&i.name, i.generated.as_ref()?))).collect();
    if generated.is_empty() {
        return String::new();
    }
    let mut s = format!("\n{}\n", out.paint(Tone::Title, "Generated inputs"));
    for (name, how) in generated.iter().take(MAX_ROWS) {
        s.push_str(&format!("  {}: {}\n", printable(name), printable(how)));
    }
    if generated.len() > MAX_ROWS {
        s.push_str(&format!("  … and {} more (--json lists all)\n", generated.len() - MAX_ROWS));
    }
    s
}

fn expectations(r: &RunReport, out: &Output) -> String {
    if r.expect.is_empty() {
        return String::new();
    }
    let mut t = Table::new(&[
        ("", Align::Left),
        ("output", Align::Left),
        ("expected", Align::Left),
        ("max abs", Align::Right),
        ("max rel", Align::Right),
        ("SQNR dB", Align::Right),
        ("", Align::Left),
    ]);
    let number = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.2e}"));
    for e in r.expect.iter().take(MAX_ROWS.max(r.expect.iter().filter(|e| !e.ok).count().min(100))) {
        let (word, tone) = if e.ok { ("ok", Tone::Good) } else { ("differs", Tone::Bad) };
        t.toned([
            (word.to_owned(), Some(tone)),
            (e.name.clone(), None),
            (e.array.clone(), Some(Tone::Dim)),
            (number(e.max_abs), None),
            (number(e.max_rel), None),
            (e.sqnr_db.map_or_else(|| "exact".to_owned(), |x| format!("{x:.1}")), None),
            (e.message.clone(), Some(Tone::Bad)),
        ]);
    }
    format!("\n{}\n{}", out.paint(Tone::Title, "Expectation"), t.render(out.colored(), 2))
}

/// What a person may want to do next.
fn hints(r: &RunReport, request: &RunRequest, out: &Output) -> String {
    let model = printable(&r.model.path).into_owned();
    let hint = match (&request.save_config, &request.marks.config) {
        (Some(c), _) | (None, Some(c)) => format!("recut {model} --config {} opens the app with these marks", crate::cli::error::show(c)),
        (None, None) if r.partitions.iter().any(|p| p.kind != Placement::Accelerated) => {
            "add --save-config FILE to keep these marks, then open them in the app with --config FILE".to_owned()
        }
        (None, None) => format!("recut {model} opens the app: mark what stays in torch, press r to run, s to save"),
    };
    format!("\n{}\n", out.paint(Tone::Dim, &hint))
}
