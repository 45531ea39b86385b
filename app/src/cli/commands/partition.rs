//! `recut partition`: the partitions that marks and backend give. Nothing is executed.

use std::path::Path;

use recut_core::export::dot::dot;
use recut_core::partition::PlanOptions;
use recut_core::report::partition::{PartitionReport, ReportInput, Verdict, partition_report, render_text};

use super::run::full_compilation;
use crate::cli::document;
use crate::cli::error::{Result, show};
use crate::cli::files;
use crate::cli::output::{Output, Tone};
use crate::cli::request::PartitionRequest;
use crate::cli::table::{Align, Table};

/// Width of the report where there is no terminal to ask.
const WIDTH: usize = 120;

/// Partitions a model and reports.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or full compilation is required and not reached.
pub fn partition(request: &PartitionRequest, out: &Output) -> Result<()> {
    let document = document::open(&request.model, &request.marks, None, out)?;
    document::guard_model_files(document.model(), &request.output_files())?;
    let config = document.config();
    let options = PlanOptions { partitioner: config.partitioner.clone(), strict_support: document.options().strict_support };
    let problems = document.problems();
    let report = partition_report(&ReportInput {
        plan: document.plan(),
        marks: document.marks(),
        options: &options,
        config,
        backend: document.backend(),
        dims: &config.dims,
        diagnostics: &problems,
    });
    if let Some(path) = &request.save_config {
        document::save_config(&document, path, out)?;
    }
    if let Some(path) = &request.dot {
        let text = dot(document.plan());
        files::write("graph", path, |w| w.write_all(text.as_bytes()))?;
        out.note(&format!("wrote the graph to {}; draw it with `dot -Tsvg`", show(path)));
    }
    if let Some(target) = &request.json {
        files::write_json(target, &report, out)?;
    }
    if request.json.as_deref() != Some(Path::new("-")) {
        out.data(&if request.preview { preview(&report, out) } else { render_text(&report, width()) })?;
    }
    full_compilation(&problems)
}

fn width() -> usize {
    use std::io::IsTerminal;
    let terminal = std::io::stdout().is_terminal().then(crossterm::terminal::size);
    terminal.and_then(std::result::Result::ok).map_or(WIDTH, |(columns, _)| usize::from(columns))
}

/// Every node type with what the backend says of it.
fn preview(report: &PartitionReport, out: &Output) -> String {
    let mut t =
        Table::new(&[("", Align::Left), ("nodes", Align::Right), ("op", Align::Left), ("types", Align::Left), ("reason", Align::Left)]);
    for n in &report.node_support_preview {
        let (word, tone) = match n.support {
            Verdict::Supported => ("takes", Tone::Good),
            Verdict::Conditional => ("may take", Tone::Warn),
            Verdict::Unsupported => ("refuses", Tone::Bad),
        };
        t.toned([
            (word.to_owned(), Some(tone)),
            (n.count.to_string(), None),
            (n.op.clone(), None),
            (n.dtypes.clone(), Some(Tone::Dim)),
            (n.reason.clone().unwrap_or_default(), None),
        ]);
    }
    let head = match &report.config.backend {
        Some(b) => {
            format!("What {} takes of {}", recut_core::diagnostic::printable(b), recut_core::diagnostic::printable(&report.model.file))
        }
        None => "No backend is set, so every operator counts as supported; choose one with --backend NAME".to_owned(),
    };
    format!("{}\n{}", out.paint(Tone::Title, &head), t.render(out.colored(), 2))
}
