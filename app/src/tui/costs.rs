//! Parameters, FLOPs and bytes of every node, computed in the background after the first frame.

use recut_core::expr::Bindings;
use recut_core::graph::NodeId;
use recut_core::infer::cost::node_cost;
use recut_core::model::Model;

/// Costs of all nodes of the main graph, by node id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Floating-point operations.
    pub flops: Vec<Option<u64>>,
    /// Bytes read and written.
    pub bytes: Vec<Option<u64>>,
    /// Stored elements that the node reads.
    pub params: Vec<u64>,
    /// Sum of FLOPs that are known.
    pub total_flops: u64,
    /// Whether the FLOPs of some node are not known.
    pub open: bool,
    /// Largest FLOPs of a node.
    pub max_flops: u64,
    /// Largest bytes of a node.
    pub max_bytes: u64,
}

impl Costs {
    /// Computes them; `None` if `stop` says so.
    #[must_use]
    pub fn new(model: &Model, dims: &Bindings, stop: &dyn Fn() -> bool) -> Option<Self> {
        let mut costs = Self::default();
        for i in 0..model.graph.nodes().len() {
            if i % 1024 == 0 && stop() {
                return None;
            }
            let cost = node_cost(model, NodeId::new(i));
            let value = |e: Option<recut_core::expr::Expr>| e?.eval(dims).and_then(|n| u64::try_from(n).ok());
            let (flops, bytes) = (value(cost.flops), value(cost.bytes));
            costs.total_flops = costs.total_flops.saturating_add(flops.unwrap_or(0));
            costs.open |= flops.is_none();
            costs.max_flops = costs.max_flops.max(flops.unwrap_or(0));
            costs.max_bytes = costs.max_bytes.max(bytes.unwrap_or(0));
            costs.params.push(cost.params);
            costs.flops.push(flops);
            costs.bytes.push(bytes);
        }
        Some(costs)
    }
}

/// Stored elements of the model, each tensor once.
#[must_use]
pub fn parameters(model: &Model) -> u64 {
    let elements = |w: &recut_core::weights::WeightRef| w.shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).unwrap_or(0);
    model.graph.values().iter().filter_map(|v| v.weight()).map(elements).fold(0, u64::saturating_add)
}
