//! Placements, reasons and plans: pure functions of (view, marks, support, options).

use std::sync::Arc;

use crate::config::PartitionerConfig;
use crate::graph::{Csr, NodeId, ValueId, id};
use crate::select::NodeSet;
use crate::support::SupportMap;
use crate::view::{UnitId, View};

id!(
    /// Position of a partition in [`Plan::partitions`]: execution order.
    PartitionId
);

/// Where a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Placement {
    /// On the accelerator.
    Accelerated,
    /// In torch.
    Torch,
    /// An opaque custom op, run by its body.
    Opaque,
}

/// Which rule placed a unit. The numbers of the steps are those of the design: 1 pin, 2 wrap, 3 marks, 4 capability
/// table, 5 demotion by the partitioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Nothing asked for anything else: accelerated.
    Default,
    /// Step 1: pinned by entry `n` of `accelerated_nodes`.
    PinAccelerated(u32),
    /// Step 1: pinned by entry `n` of `torch_executed_nodes`.
    PinTorch(u32),
    /// Step 2: inside wrap `n` of the view.
    Wrap(u32),
    /// Step 3: entry `n` of `torch_executed_modules`.
    TorchModule(u32),
    /// Step 3: entry `n` of `torch_executed_ops`.
    TorchOp(u32),
    /// Step 3 or 4 for a node inside a body: the whole node goes to torch because of `node` in it (ordinal in the body).
    Contains(u32),
    /// Step 4: the backend does not take it; the reason stands in the support map.
    Unsupported,
    /// Step 4: supported under a condition that nothing here can check, and support is strict.
    ConditionalStrict,
    /// Step 5: reads a value that is no tensor from a torch unit.
    NonTensorInput,
    /// Step 5: gives a value that is no tensor to a torch unit or the caller.
    NonTensorOutput,
    /// Step 5: its partition had fewer compute nodes than `min_block_size`.
    MinBlockSize,
    /// Step 5: its atomic group holds a torch unit.
    AtomicGroup(u32),
}

/// What marks ask, with selectors resolved: one node set per list entry, in list order.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Step 1.
    pub accelerated_nodes: Vec<Arc<NodeSet>>,
    /// Step 1.
    pub torch_executed_nodes: Vec<Arc<NodeSet>>,
    /// Step 3; where several match, the nearest ancestor decides the reason.
    pub torch_executed_modules: Vec<Arc<NodeSet>>,
    /// Step 3.
    pub torch_executed_ops: Vec<Arc<NodeSet>>,
    /// Modules that are never split.
    pub leaf_modules: Vec<Arc<NodeSet>>,
}

/// What the partitioner is asked.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Strategy and size rules.
    pub partitioner: PartitionerConfig,
    /// Conditional support counts as unsupported.
    pub strict_support: bool,
}

/// What a partition is.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// `run_on_acc_0`, `run_on_torch_1`, `run_on_op_2`: one shared counter in execution order.
    pub name: String,
    /// Where it runs.
    pub kind: Placement,
}

/// A finished plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The view it is for.
    pub view: Arc<View>,
    /// Placement of every unit.
    pub placement: Vec<Placement>,
    /// Rule that placed every unit.
    pub rule: Vec<Rule>,
    /// Partition of every unit.
    pub partition_of: Vec<PartitionId>,
    /// Partitions, in an order in which they can run.
    pub partitions: Vec<Partition>,
    /// Units of every partition, ascending.
    pub members: Csr,
    /// Fewest accelerated partitions for this colouring, before size rules: the proven lower bound.
    pub lower_bound: u32,
    /// What the backend said, where there is one.
    pub support: Option<SupportMap>,
}

/// Tensors a partition exchanges with the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// Values made elsewhere (or graph inputs) and read inside, in first-use order. Weights are not among them.
    pub inputs: Vec<ValueId>,
    /// Values made inside and used elsewhere or by the caller, in the order they are made.
    pub outputs: Vec<ValueId>,
}

impl Plan {
    /// Units of a partition, ascending.
    #[must_use]
    pub fn units(&self, partition: PartitionId) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.members.row(partition.index()))
    }

    /// Nodes of a partition, in topological order.
    #[must_use]
    pub fn nodes(&self, partition: PartitionId) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.units(partition).iter().flat_map(|&u| self.view.nodes(u)).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Partition of a node.
    #[must_use]
    pub fn partition_of_node(&self, node: NodeId) -> PartitionId {
        self.partition_of[self.view.unit_of(node).index()]
    }

    /// Placement of a node.
    #[must_use]
    pub fn placement_of_node(&self, node: NodeId) -> Placement {
        self.placement[self.view.unit_of(node).index()]
    }
}
