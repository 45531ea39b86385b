//! Placements, reasons and plans: pure functions of (view, marks, support, options).

mod boundary;
mod buffers;
mod colour;
mod explain;
mod groups;
mod levels;

use std::sync::Arc;

use crate::config::PartitionerConfig;
use crate::diagnostic::Diagnostic;
use crate::graph::{Csr, NodeId, ValueId, id};
use crate::select::NodeSet;
use crate::support::SupportMap;
use crate::view::{UnitId, View};

pub(crate) use buffers::Pool;
pub(crate) use colour::Colouring;
pub use explain::EntryText;
pub use groups::{AtomicGroup, GroupKind};
pub(crate) use levels::{Pairs, after_all, before_all, held};

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
    /// Step 2: the file itself holds it as an operator of a foreign domain, which the backend does not list.
    ForeignOp,
    /// Step 3: entry `n` of `torch_executed_modules`.
    TorchModule(u32),
    /// Step 3: entry `n` of `torch_executed_ops`.
    TorchOp(u32),
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
    /// Step 5: its atomic group, entry `n` of [`Plan::groups`], holds a torch unit or forms a cycle with one.
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
    /// Modules that are never split: one set for each instance that the entries match (not for each entry).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Where it runs.
    pub kind: Placement,
    /// Position in execution order, which all kinds share.
    pub index: u32,
}

impl Partition {
    /// `run_on_acc_0`, `run_on_torch_1`, `run_on_op_2`. Made when asked for: a plan may have tens of thousands.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Placement::Accelerated => "acc",
            Placement::Torch => "torch",
            Placement::Opaque => "op",
        };
        format!("run_on_{kind}_{}", self.index)
    }
}

/// Numbers of partitions and nodes by placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accelerated partitions.
    pub accelerated: usize,
    /// Torch partitions.
    pub torch: usize,
    /// Opaque nodes.
    pub opaque: usize,
    /// Nodes of the main graph in accelerated partitions.
    pub accelerated_nodes: usize,
    /// Nodes of the main graph in torch partitions.
    pub torch_nodes: usize,
    /// Nodes of the main graph inside opaque nodes.
    pub opaque_nodes: usize,
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
    /// Atomic groups that bound units in this plan, and those that a [`Rule::AtomicGroup`] names.
    pub groups: Vec<AtomicGroup>,
    /// Pins that break a rule, groups that could not be kept, a full compilation that is none.
    pub problems: Vec<Diagnostic>,
}

/// Tensors a partition exchanges with the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// Values made elsewhere (or graph inputs) and read inside, in first-use order. Weights are not among them.
    pub inputs: Vec<ValueId>,
    /// Values made inside and used elsewhere or by the caller, in the order they are made.
    pub outputs: Vec<ValueId>,
}

/// Partitions the effective graph: places every unit (steps 1 to 5) and groups them into partitions.
///
/// The order of entries within a list of `marks` changes which entry a [`Rule`] names and nothing else.
#[must_use]
pub fn plan(view: &Arc<View>, marks: &Marks, support: Option<&SupportMap>, options: &PlanOptions) -> Plan {
    let mut problems = Vec::new();
    let mut buffers = view.facts.pool.take();
    let mut colours = colour::place(view, marks, support, options.strict_support, &mut problems, &mut buffers);
    let min_block_size = options.partitioner.min_block_size;
    let (slots, groups) = groups::level(view, marks, &mut colours, &mut problems, min_block_size, &mut buffers);
    let lower_bound = slots.lower_bound;
    let numbered = slots.number(&mut buffers);
    view.facts.pool.give_back(buffers);
    let plan = Plan {
        view: view.clone(),
        placement: colours.placement,
        rule: colours.rule,
        partition_of: numbered.partition_of,
        partitions: numbered.partitions,
        members: numbered.members,
        lower_bound,
        support: support.cloned(),
        groups,
        problems,
    };
    if options.partitioner.require_full_compilation { plan.require_full_compilation() } else { plan }
}

impl Plan {
    /// Units of a partition, ascending.
    #[must_use]
    pub fn units(&self, partition: PartitionId) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.members.row(partition.index()))
    }

    /// All units in the order in which partitions run, ascending within each.
    #[must_use]
    pub fn units_in_order(&self) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.members.items())
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

    /// Units that are left in torch, ascending.
    #[must_use]
    pub fn fallbacks(&self) -> Vec<UnitId> {
        (0..self.placement.len()).filter(|&u| self.placement[u] == Placement::Torch).map(UnitId::new).collect()
    }

    /// Numbers of partitions and nodes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut c = Counts::default();
        for p in &self.partitions {
            match p.kind {
                Placement::Accelerated => c.accelerated += 1,
                Placement::Torch => c.torch += 1,
                Placement::Opaque => c.opaque += 1,
            }
        }
        let torch = self.placement.iter().filter(|&&p| p == Placement::Torch).count();
        let opaque = self.placement.iter().filter(|&&p| p == Placement::Opaque).count();
        // A wrap is one unit of several nodes; all others are one node each.
        let hidden: usize = self.view.wraps().iter().map(|w| w.nodes.len() - 1).sum();
        (c.accelerated_nodes, c.torch_nodes) = (self.placement.len() - torch - opaque, torch);
        c.opaque_nodes = opaque + hidden;
        c
    }

    fn require_full_compilation(mut self) -> Self {
        let offenders = self.fallbacks();
        if let Some(&first) = offenders.first() {
            let names: Vec<_> = offenders.iter().take(5).map(|&u| crate::diagnostic::printable(self.view.stable_id(u))).collect();
            let more = offenders.len() - names.len();
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let message = format!(
                "require_full_compilation: {} node(s) are left in torch: {}{more}; support them, wrap them, or drop the requirement",
                offenders.len(),
                names.join(", "),
            );
            let problem = Diagnostic::error("require_full_compilation", message).with_node(self.view.stable_id(first));
            self.problems.push(problem);
        }
        self
    }
}

#[cfg(test)]
mod tests;
