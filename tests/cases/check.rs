//! Holds one case against what it must show.

use std::path::Path;
use std::time::Duration;

use recut::cli::error::CliError;
use recut_core::config::PartitionConfig;
use recut_core::diagnostic::Diagnostic;
use recut_core::document::{Document, DocumentOptions};
use recut_core::import::{self, Imported};
use recut_core::partition::Placement;
use recut_exec::engine::{CancelToken, ExecContext, PrepareOptions, RunError};
use recut_exec::engines::Engines;
use recut_exec::generate::complete;
use recut_exec::inputs::{bind_dims, match_inputs};
use recut_exec::io::Arrays;
use recut_exec::runner::{PartitionSpec, RunRequest, Session, partitions_of};
use recut_exec::tensor::Value;

use super::arrays;
use super::spec::{Case, Limits, Open, Run};

/// What is wrong; nothing if the case holds.
pub(crate) fn check(dir: &Path, case: &Case) -> Vec<String> {
    let mut faults = Vec::new();
    let imported = match import::open(&dir.join(&case.file)) {
        Ok(imported) => imported,
        Err(e) => {
            refused(case, &CliError::from(e), &mut faults);
            return faults;
        }
    };
    if case.open == Open::Error {
        faults.push("opens, and must be refused".to_owned());
    }
    opened(case, &imported, &mut faults);
    if let Some(p) = &case.partition {
        partitions(p, imported.clone(), &mut faults);
    }
    // Limits are for opening and partitioning.
    if let Some(limits) = &case.limits {
        within(limits, &mut faults);
    }
    for r in &case.runs {
        runs(dir, case, r, &imported, &mut faults);
    }
    faults
}

/// Runs with the arrays of `r`, and compares.
fn runs(dir: &Path, case: &Case, r: &Run, imported: &Imported, faults: &mut Vec<String>) {
    let (feeds, expected) = match arrays::load(dir, r) {
        Ok(loaded) => loaded,
        Err(e) => return faults.push(format!("{}: {e}", r.npz)),
    };
    let outcome = run(imported, &feeds).map_err(|e| CliError::run(e, &imported.diagnostics));
    match (outcome, r.expect.as_str()) {
        (Ok(_), "error") => faults.push(format!("{} runs, and must fail", r.npz)),
        (Ok(outputs), _) => {
            for want in &expected {
                let difference = match outputs.get(want.index).map(|(_, v)| v.as_tensor()) {
                    Some(Some(got)) => arrays::difference(&want.tensor, got, case.rtol, case.atol),
                    Some(None) => Some("is no tensor".to_owned()),
                    None => Some("is missing".to_owned()),
                };
                faults.extend(difference.map(|d| format!("{}: output {} {d}", r.npz, want.index)));
            }
        }
        (Err(e), expect) => {
            if expect == "equal" && case.run != Some(Open::OkOrError) {
                return faults.push(format!("{} fails: {e}", r.npz));
            }
            // Where the fed values share the fault, any documented error will do.
            if e.exit.code() != 4 && case.exit.as_deref() != Some("any") {
                faults.push(format!("exit code {} for a run that fails", e.exit.code()));
            }
            let any = if expect == "error" { r.err_any.as_slice() } else { &[] };
            message(case, &e.message, any, faults);
        }
    }
}

/// Outputs of one run of the whole model on the embedded engine, as `recut run` does it.
fn run(imported: &Imported, arrays: &Arrays) -> Result<Vec<(String, Value)>, RunError> {
    let cancel = CancelToken::default();
    let document = Document::new(imported.clone(), PartitionConfig::default(), DocumentOptions::default())
        .map_err(|e| RunError::Engine { engine: "cpu".to_owned(), partition: "the model".to_owned(), message: e.to_string() })?;
    let model = document.model();
    let mut dims = document.config().dims.clone();
    let (mut feeds, _) = match_inputs(model, arrays)?;
    bind_dims(model, &feeds, &mut dims)?;
    // Defaults of the file are taken; an input that is neither fed nor has one stays open, which must be an error here.
    for g in complete(model, &mut feeds, &mut dims, &[], 0)? {
        feeds.retain(|&v, _| *model.graph.value(v).name != *g.input);
    }
    let engines = Engines::new(ExecContext::new(None)?);
    let assign = |spec: &PartitionSpec| engines.assign(spec.kind, &document.config().run).expect("the embedded engine is there");
    let specs = partitions_of(document.plan());
    let options = PrepareOptions { dims: dims.clone(), ..PrepareOptions::default() };
    let session = Session::new(model.clone(), specs, engines.context.clone(), &options, assign, &cancel, &|_| {})?;
    let request = RunRequest { timeout: Some(Duration::from_secs(120)), ..RunRequest::default() };
    Ok(session.run(&feeds, &request, &cancel, &|_| {})?.outputs)
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

/// An error of one paragraph that says what it must, and nothing that it must not.
fn message(case: &Case, text: &str, any: &[String], faults: &mut Vec<String>) {
    if !any.is_empty() && !any.iter().any(|p| contains(text, p)) {
        faults.push(format!("the error `{text}` has none of {any:?}"));
    }
    for p in case.err_all.iter().filter(|p| !contains(text, p)) {
        faults.push(format!("the error `{text}` has no {p:?}"));
    }
    printed(case, text, faults);
}

/// What is printed has no control characters and nothing that the case forbids.
fn printed(case: &Case, text: &str, faults: &mut Vec<String>) {
    if text.chars().any(char::is_control) {
        faults.push(format!("control characters in {text:?}"));
    }
    for p in case.must_not.iter().filter(|p| text.contains(p.as_str())) {
        faults.push(format!("{text:?} has {p:?}"));
    }
}

fn refused(case: &Case, e: &CliError, faults: &mut Vec<String>) {
    if case.open == Open::Ok {
        faults.push(format!("is refused, and must open: {e}"));
        return;
    }
    if e.exit.code() != 3 {
        faults.push(format!("exit code {} for a model that is refused", e.exit.code()));
    }
    message(case, &e.message, &case.err_any, faults);
}

fn opened(case: &Case, imported: &Imported, faults: &mut Vec<String>) {
    let model = &imported.model;
    if let Some(nodes) = case.nodes.filter(|&n| n != model.stored_nodes) {
        faults.push(format!("{} nodes instead of {nodes}", model.stored_nodes));
    }
    let texts = |d: &Diagnostic| format!("{} {}", d.code, d.message);
    if !case.warn_any.is_empty() && !imported.diagnostics.iter().any(|d| case.warn_any.iter().any(|p| contains(&texts(d), p))) {
        let all: Vec<_> = imported.diagnostics.iter().map(texts).collect();
        faults.push(format!("no warning has one of {:?}: {all:?}", case.warn_any));
    }
    for d in &imported.diagnostics {
        printed(case, &d.message, faults);
    }
}

fn partitions(want: &super::spec::Partition, imported: Imported, faults: &mut Vec<String>) {
    let config = PartitionConfig { torch_executed_ops: want.torch_ops.iter().map(|op| format!("op:{op}")).collect(), ..Default::default() };
    let document = match Document::new(imported, config, DocumentOptions::default()) {
        Ok(d) => d,
        Err(e) => return faults.push(format!("no plan: {e}")),
    };
    let plan = document.plan();
    let k = plan.partitions.iter().filter(|p| p.kind == Placement::Accelerated).count();
    if k != want.k {
        faults.push(format!("{k} accelerated partitions instead of {}", want.k));
    }
    if plan.lower_bound as usize != want.k {
        faults.push(format!("states the lower bound {} instead of {}", plan.lower_bound, want.k));
    }
    let count = |kind| plan.placement.iter().filter(|&&p| p == kind).count();
    let (acc, torch) = (count(Placement::Accelerated), count(Placement::Torch));
    if (acc, torch) != (want.accel_nodes, want.torch_nodes) {
        faults.push(format!("{acc} accelerated and {torch} torch nodes instead of {} and {}", want.accel_nodes, want.torch_nodes));
    }
}

/// CPU time and peak memory of this process up to now.
fn within(limits: &Limits, faults: &mut Vec<String>) {
    // Fields 14 and 15 of the line, counted from 1, are ticks of 1/100 s; the second field may hold spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    if ticks / 100.0 > limits.seconds {
        faults.push(format!("takes {} s of CPU instead of {}", ticks / 100.0, limits.seconds));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    if let Some(mb) = peak.map(|kb| kb / 1024.0).filter(|&mb| mb > limits.rss_mb) {
        faults.push(format!("takes {mb:.0} MB instead of {}", limits.rss_mb));
    }
}
