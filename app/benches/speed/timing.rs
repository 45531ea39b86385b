//! What the times of nodes cost: one event, times the number of events, against a real run.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use recut_core::document::Document;
use recut_core::graph::NodeId;
use recut_core::partition::PartitionId;
use recut_exec::engine::{CancelToken, ExecContext, NodeRef, Observer, PrepareOptions};
use recut_exec::engines::Engines;
use recut_exec::generate::complete;
use recut_exec::inputs::Feeds;
use recut_exec::profile::Recorder;
use recut_exec::runner::{RunRequest, Session, partitions_of};

use super::table::{Line, Spread, Table, Unit};

/// Measures the model of `document`.
pub(crate) fn measure(document: &Document, table: &mut Table) {
    let event = event_ns();
    let (events, run_ns) = match run(document) {
        Ok(r) => r,
        Err(e) => return table.remark(&format!("no run, so no cost of timing: {e}")),
    };
    table.line(&Line { what: "one timing event", unit: Unit::Nanoseconds, target: None, target_p99: None, spread: event });
    let ms = Spread::of_numbers(run_ns.iter().map(|ns| ns / 1e6).collect());
    table.line(&Line { what: &format!("a run of {events} events"), unit: Unit::Milliseconds, target: None, target_p99: None, spread: ms });
    let share = |ns: f64| 100.0 * event.median * events as f64 / ns;
    table.line(&Line {
        what: "events against the run",
        unit: Unit::Percent,
        target: Some(1.0),
        target_p99: None,
        spread: Spread::of_numbers(run_ns.into_iter().map(share).collect()),
    });
}

/// Cost of one event as the engine records it, in nanoseconds: over rounds of many events.
fn event_ns() -> Spread {
    const EVENTS: usize = 100_000;
    let round = || {
        let base = Instant::now();
        let mut recorder = Recorder::new(base, EVENTS, HashSet::new());
        // Memory is there before the run begins to count.
        recorder.events.extend((0..EVENTS).map(|_| event(0)));
        recorder.events.clear();
        let observer: &mut dyn Observer = black_box(&mut recorder);
        let begin = Instant::now();
        for i in 0..EVENTS as u32 {
            let start = Instant::now();
            let end = Instant::now();
            observer.node(NodeRef { node: NodeId(i), inner: u32::MAX }, start, end, 16);
        }
        begin.elapsed().as_nanos() as f64 / EVENTS as f64
    };
    Spread::of_numbers((0..31).map(|_| round()).collect())
}

fn event(node: u32) -> recut_exec::profile::Event {
    recut_exec::profile::Event { node: NodeRef { node: NodeId(node), inner: u32::MAX }, start_ns: 0, duration_ns: 0, bytes: 0 }
}

/// Number of events of one run, and how long runs take in nanoseconds.
fn run(document: &Document) -> Result<(usize, Vec<f64>), String> {
    let plan: &Arc<_> = document.plan();
    let model = document.model().clone();
    let mut dims = document.config().dims.clone();
    let mut feeds = Feeds::new();
    complete(&model, &mut feeds, &mut dims, &[], 0).map_err(|e| e.to_string())?;
    let engines = Engines::new(ExecContext::new(None).map_err(|e| e.to_string())?);
    let run = &document.config().run;
    let specs = partitions_of(plan);
    for kind in (0..plan.partitions.len()).filter_map(|i| plan.units(PartitionId::new(i)).first()).map(|u| plan.placement[u.index()]) {
        engines.assign(kind, run).map_err(|e| e.to_string())?;
    }
    let cancel = CancelToken::default();
    let assign = |spec: &recut_exec::runner::PartitionSpec| engines.assign(spec.kind, run).expect("asked for just before");
    let session = Session::new(
        model,
        specs,
        engines.context.clone(),
        &PrepareOptions { dims, ..PrepareOptions::default() },
        assign,
        &cancel,
        &|_| {},
    )
    .map_err(|e| e.to_string())?;
    let mut times = Vec::new();
    let mut events = 0;
    for round in 0..7 {
        let request = RunRequest { warmup: usize::from(round == 0), ..RunRequest::default() };
        let outcome = session.run(&feeds, &request, &cancel, &|_| {}).map_err(|e| e.to_string())?;
        events = outcome.profile.last.nodes.len();
        times.push(outcome.profile.totals.end_to_end.median_ns as f64);
    }
    Ok((events, times))
}
