//! Running the model as a background job: the only place that knows the runner.

use std::sync::Arc;

use recut_core::config::PartitionConfig;
use recut_core::partition::Plan;
use recut_exec::engine::CancelToken;

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
    pub fn time(&self, node: recut_core::graph::NodeId) -> Option<u64> {
        self.node_ns.get(node.index()).copied().flatten()
    }

    /// What is neither in a node nor hidden: transfers and bookkeeping.
    #[must_use]
    pub fn gap_ns(&self) -> u64 {
        self.end_to_end_ns.saturating_sub(self.nodes_ns)
    }
}

/// Runs the model once under `plan`, with generated inputs.
///
/// # Errors
/// What the runner says; `cancelled` if it was asked to stop.
pub fn run(plan: &Arc<Plan>, config: &PartitionConfig, cancel: &CancelToken, progress: &dyn Fn(Progress)) -> Result<RunResult, String> {
    let _ = (plan, config, cancel, progress);
    Err("this build has no engine".to_owned())
}
