//! Running the model as a background job: the only place of the app that knows the runner.

use std::sync::Arc;

use recut_core::config::PartitionConfig;
use recut_core::graph::NodeId;
use recut_core::partition::Plan;
use recut_exec::engine::{CancelToken, ExecContext, MergedInto, PrepareOptions};
use recut_exec::engines::Engines;
use recut_exec::generate::complete;
use recut_exec::inputs::Feeds;
use recut_exec::runner::{self, RunRequest, Session, partitions_of};

use super::msg::Progress;

/// What a run told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunResult {
    /// Time of every node of the main graph in nanoseconds; `None` where its time is in another (fused), or it did not
    /// run.
    pub node_ns: Vec<Option<u64>>,
    /// From the first input to the last output.
    pub end_to_end_ns: u64,
    /// Sum over nodes.
    pub nodes_ns: u64,
    /// What a person has to know about it.
    pub remarks: Vec<String>,
}

impl RunResult {
    /// Time of a node.
    #[must_use]
    pub fn time(&self, node: NodeId) -> Option<u64> {
        self.node_ns.get(node.index()).copied().flatten()
    }

    /// What is in no node: transfers and bookkeeping.
    #[must_use]
    pub fn gap_ns(&self) -> u64 {
        self.end_to_end_ns.saturating_sub(self.nodes_ns)
    }
}

/// Runs that warm caches up, and runs that are measured: a person waits for them.
const RUNS: (usize, usize) = (1, 3);

/// Seed of generated inputs: the default of the command line, so that both run the same.
const SEED: u64 = 0;

/// Runs the model under `plan`, with generated inputs; times are medians.
///
/// # Errors
/// What the runner says; `cancelled` if it was asked to stop.
pub fn run(
    plan: &Arc<Plan>,
    config: &PartitionConfig,
    cancel: &CancelToken,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunResult, String> {
    let model = plan.view.model.clone();
    let mut dims = config.dims.clone();
    let mut feeds = Feeds::new();
    complete(&model, &mut feeds, &mut dims, &[], SEED).map_err(|e| e.to_string())?;
    let threads = config.run.threads.and_then(|n| usize::try_from(n).ok());
    let engines = Engines::new(ExecContext::new(threads).map_err(|e| e.to_string())?);
    let specs = partitions_of(plan);
    // Every kind is asked for before anything is prepared: an engine that is not there is said at once.
    let mut assignments = Vec::with_capacity(specs.len());
    let mut remarks: Vec<String> = Vec::new();
    for spec in &specs {
        let assignment = engines.assign(spec.kind, &config.run).map_err(|e| e.to_string())?;
        if let Some(note) = assignment.note.as_ref().filter(|n| !remarks.iter().any(|r| *r == **n)) {
            remarks.push(note.to_string());
        }
        assignments.push(assignment);
    }
    let mut next = assignments.into_iter();
    let Some(spare) = next.as_slice().first().cloned() else { return Err("the model has no node to run".to_owned()) };
    let report = |p: runner::Progress| {
        progress(match p {
            runner::Progress::Preparing { done, total } => {
                Progress { share: Some(share(done, total, 0, 1) * 0.5), text: "preparing".to_owned() }
            }
            runner::Progress::Running { run, runs, done, total } => {
                Progress { share: Some(0.5 + share(done, total, run, runs) * 0.5), text: format!("run {} of {runs}", run + 1) }
            }
        });
    };
    let options = PrepareOptions { dims: dims.clone(), ..PrepareOptions::default() };
    let session =
        Session::new(model.clone(), specs, engines.context, &options, |_| next.next().unwrap_or_else(|| spare.clone()), cancel, &report)
            .map_err(|e| e.to_string())?;
    let request = RunRequest { warmup: RUNS.0, repeat: RUNS.1, ..RunRequest::default() };
    let outcome = session.run(&feeds, &request, cancel, &report).map_err(|e| e.to_string())?;
    let mut node_ns = vec![None; model.graph.nodes().len()];
    // Nodes inside control flow count in the node that holds them.
    for n in outcome.profile.nodes.iter().filter(|n| n.node.inner == u32::MAX) {
        if let Some(slot) = node_ns.get_mut(n.node.node.index()) {
            *slot = Some(n.stats.median_ns);
        }
    }
    for m in session.merged() {
        if let (u32::MAX, MergedInto::Group(_)) = (m.node.inner, m.into)
            && let Some(slot) = node_ns.get_mut(m.node.node.index())
        {
            *slot = None;
        }
    }
    let totals = &outcome.profile.totals;
    Ok(RunResult { node_ns, end_to_end_ns: totals.end_to_end.median_ns, nodes_ns: totals.sum_of_nodes_ns, remarks })
}

/// Part of `rounds` that is done when `done` of `total` steps of round `round` are.
fn share(done: usize, total: usize, round: usize, rounds: usize) -> f32 {
    (round as f32 + done as f32 / total.max(1) as f32) / rounds.max(1) as f32
}
