//! `recut run`: runs a model and shows the time of every node.

mod assign;
mod summary;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use recut_core::diagnostic::{Diagnostic, Severity};
use recut_core::document::Document;
use recut_core::expr::Bindings;
use recut_core::graph::ValueId;
use recut_core::select::{Bare, SelectContext, Selector};
use recut_exec::compare::{Comparison, compare, default_tolerance};
use recut_exec::engine::{CancelToken, ExecContext, PrepareOptions, RunError};
use recut_exec::engines::Engines;
use recut_exec::generate::{Generated, complete};
use recut_exec::inputs::{Feeds, MatchNote, bind_dims, match_inputs, match_outputs};
use recut_exec::io::{Arrays, load_arrays, save_npy, save_npz};
use recut_exec::report::{RunFacts, RunReport};
use recut_exec::runner::{self, Progress, RunOutcome, Schedule, Session, partitions_of};

use crate::cli::document;
use crate::cli::error::{CliError, Exit, Result, show};
use crate::cli::files;
use crate::cli::output::Output;
use crate::cli::request::RunRequest;

/// Warnings that are shown; the report has all.
const SHOWN_WARNINGS: usize = 5;

/// Runs a model and reports.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, running fails, or what was asked to hold does not.
pub fn run(request: &RunRequest, out: &Output, cancel: &CancelToken) -> Result<()> {
    let document = document::open(&request.model, &request.marks, Some(request), out)?;
    document::guard_model_files(document.model(), &request.output_files())?;
    let problems = document.problems();
    document::warn(&problems, SHOWN_WARNINGS, out);
    if let Some(path) = &request.save_config {
        document::save_config(&document, path, out)?;
    }
    let fed = feed(&document, request)?;
    let expected = match &request.expect {
        Some(path) => Some(match_outputs(document.model(), &load_arrays(path)?)?),
        None => None,
    };
    let dump = dumped_values(&document, request, out)?;

    let threads = document.config().run.threads.and_then(|n| usize::try_from(n).ok());
    let engines = Engines::new(ExecContext::new(threads)?);
    let options =
        PrepareOptions { dims: fed.dims.clone(), node_by_node: request.no_fuse, keep: Arc::new(dump.clone()), ..PrepareOptions::default() };
    let session = prepare(&document, &options, &engines, out, cancel)?;
    let outcome = measure(&session, &fed.feeds, request, dump, out, cancel).map_err(|e| CliError::run(e, &problems))?;

    let compared = compare_all(&outcome, expected.unwrap_or_default(), request);
    let report = RunReport::new(RunFacts {
        session: &session,
        engines: &engines,
        outcome: &outcome,
        config: Some(document.config()),
        dims: &fed.dims,
        matched: &fed.matched,
        generated: &fed.generated,
        expect: &compared,
        schedule: schedule(request),
        repeat: count(request.repeat),
        warmup: count(request.warmup),
        diagnostics: problems,
    });
    write_files(&document, &session, &outcome, request, out)?;
    if let Some(target) = &request.json {
        files::write_json(target, &report, out)?;
    }
    if request.json.as_deref() != Some(Path::new("-")) {
        out.data(&summary::text(&report, request, out))?;
    }
    verdict(&report, request)
}

fn count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn schedule(request: &RunRequest) -> Schedule {
    if request.parallel { Schedule::Parallel } else { Schedule::Sequential }
}

/// What the model is fed.
struct Fed {
    feeds: Feeds,
    dims: Bindings,
    matched: Vec<MatchNote>,
    generated: Vec<Generated>,
}

fn feed(document: &Document, request: &RunRequest) -> Result<Fed> {
    let model = document.model();
    let mut dims = document.config().dims.clone();
    let (mut feeds, matched) = match &request.inputs {
        Some(path) => match_inputs(model, &load_arrays(path)?)?,
        None => (Feeds::new(), Vec::new()),
    };
    bind_dims(model, &feeds, &mut dims)?;
    let generated = complete(model, &mut feeds, &mut dims, &request.input_specs, request.seed)?;
    Ok(Fed { feeds, dims, matched, generated })
}

/// The values of `--dump`: outputs of the selected nodes.
fn dumped_values(document: &Document, request: &RunRequest, out: &Output) -> Result<HashSet<ValueId>> {
    let Some((text, _)) = &request.dump else { return Ok(HashSet::new()) };
    let context = SelectContext { plan: Some(document.plan()) };
    let selected = Selector::parse(text, Bare::ByForm)?.eval(document.index(), &context)?;
    let graph = &document.model().graph;
    let values: HashSet<ValueId> = selected.nodes.iter().flat_map(|n| graph.node(n).outputs.iter().flatten().copied()).collect();
    if values.is_empty() {
        let nearest = if selected.nearest.is_empty() { String::new() } else { format!("; nearest: {}", selected.nearest.join(", ")) };
        out.warning(&format!("--dump `{}` matches nothing{nearest}", recut_core::diagnostic::printable(text)));
    }
    Ok(values)
}

fn prepare(document: &Document, options: &PrepareOptions, engines: &Engines, out: &Output, cancel: &CancelToken) -> Result<Session> {
    let specs = partitions_of(document.plan());
    let assignments = assign::assign(document, &specs, engines, out)?;
    let bar = out.progress("preparing", specs.len() as u64);
    let progress = |p: Progress| {
        if let Progress::Preparing { done, .. } = p {
            bar.set_position(done as u64);
        }
    };
    let mut next = assignments.into_iter();
    let fallback = assign::fallback(engines);
    let session = Session::new(
        document.model().clone(),
        specs,
        engines.context.clone(),
        options,
        // One assignment a partition, in the order in which they are asked for.
        |_| next.next().unwrap_or_else(|| fallback.clone()),
        cancel,
        &progress,
    );
    bar.finish_and_clear();
    session.map_err(|e| CliError::run(e, &document.problems()))
}

fn measure(
    session: &Session,
    feeds: &Feeds,
    request: &RunRequest,
    dump: HashSet<ValueId>,
    out: &Output,
    cancel: &CancelToken,
) -> std::result::Result<RunOutcome, RunError> {
    let runs = runner::RunRequest {
        warmup: count(request.warmup),
        repeat: count(request.repeat),
        schedule: schedule(request),
        timeout: request.timeout,
        dump,
    };
    let steps = (runs.warmup + runs.repeat).saturating_mul(session.partitions().len()) as u64;
    let bar = out.progress("running", steps.max(1));
    let progress = |p: Progress| {
        if let Progress::Running { run, done, total, .. } = p {
            bar.set_position((run * total + done) as u64);
        }
    };
    let outcome = session.run(feeds, &runs, cancel, &progress);
    bar.finish_and_clear();
    outcome
}

fn compare_all(
    outcome: &RunOutcome,
    expected: Vec<(usize, recut_exec::tensor::Tensor, MatchNote)>,
    request: &RunRequest,
) -> Vec<(MatchNote, Comparison)> {
    let one = |(i, want, note): (usize, recut_exec::tensor::Tensor, MatchNote)| {
        let (_, got) = outcome.outputs.get(i)?;
        let (rtol, atol) = default_tolerance(want.dtype());
        Some((note, compare(got, &want, request.rtol.unwrap_or(rtol), request.atol.unwrap_or(atol))))
    };
    expected.into_iter().filter_map(one).collect()
}

fn write_files(document: &Document, session: &Session, outcome: &RunOutcome, request: &RunRequest, out: &Output) -> Result<()> {
    if let Some(path) = &request.outputs {
        let mut arrays = Arrays::new();
        for (name, value) in &outcome.outputs {
            match value.as_tensor() {
                Some(t) => drop(arrays.insert(name.clone(), t.clone())),
                None => out.warning(&format!("the output {} is no tensor and not in --outputs", recut_core::diagnostic::printable(name))),
            }
        }
        save_npz(path, &arrays)?;
        out.note(&format!("wrote the outputs to {}", show(path)));
    }
    if let Some((_, dir)) = &request.dump {
        dump(&outcome.dumps, dir, out)?;
    }
    if let Some(path) = &request.trace {
        let names: Vec<String> = session.partitions().iter().map(|p| p.spec.name.to_string()).collect();
        files::write("trace", path, |mut w| {
            recut_exec::chrome_trace::write_trace(&mut w, document.model(), &outcome.profile.last, &names)
        })?;
        out.note(&format!("wrote the trace to {}; open it in https://ui.perfetto.dev or chrome://tracing", show(path)));
    }
    Ok(())
}

/// One `.npy` a value, and an index of their names: value names need not be file names.
fn dump(values: &Arrays, dir: &Path, out: &Output) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| CliError::write("directory", dir, &e))?;
    let mut index = serde_json::Map::new();
    for (i, (name, tensor)) in values.iter().enumerate() {
        let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).take(80).collect();
        let file = format!("{i:04}_{safe}.npy");
        save_npy(&dir.join(&file), tensor)?;
        index.insert(file, name.clone().into());
    }
    let path = dir.join("index.json");
    files::write("index", &path, |w| Ok(serde_json::to_writer_pretty(w, &index)?))?;
    out.note(&format!("wrote {} to {}", crate::cli::format::plural(values.len(), "value"), show(dir)));
    Ok(())
}

/// Exit 1 if what was asked to hold does not.
fn verdict(report: &RunReport, request: &RunRequest) -> Result<()> {
    let wrong: Vec<String> = (report.expect.iter().filter(|e| !e.ok))
        .map(|e| format!("{} ({})", recut_core::diagnostic::printable(&e.name), e.message))
        .collect();
    if let (Some(path), false) = (&request.expect, wrong.is_empty()) {
        return Err(CliError::new(
            Exit::NotHeld,
            format!(
                "{} of {} outputs differ from {} by more than the tolerance (--rtol, --atol): {}",
                wrong.len(),
                report.expect.len(),
                show(path),
                wrong.join("; ")
            ),
        ));
    }
    full_compilation(&report.diagnostics)
}

/// Exit 1 if full compilation is required and not reached.
///
/// # Errors
/// The plan's own words.
pub fn full_compilation(problems: &[Diagnostic]) -> Result<()> {
    match problems.iter().find(|d| d.code == "require_full_compilation" && d.severity == Severity::Error) {
        Some(d) => Err(CliError::new(Exit::NotHeld, d.message.clone())),
        None => Ok(()),
    }
}
