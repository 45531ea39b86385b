//! What partitions exchange.

use std::collections::HashSet;

use super::{Boundary, PartitionId, Plan};
use crate::expr::Bindings;
use crate::graph::{ValueId, ValueKind};
use crate::view::{UNKNOWN_BYTES, UnitId};

impl Plan {
    /// Tensors that a partition takes and gives.
    ///
    /// Linear in the values of its units (graph outputs are looked up in a set made once per call).
    #[must_use]
    pub fn boundary(&self, partition: PartitionId) -> Boundary {
        let graph_outputs: HashSet<ValueId> = self.view.model.graph.outputs().iter().copied().collect();
        self.boundary_with(partition, &graph_outputs)
    }

    /// [`Plan::boundary`] of every partition.
    #[must_use]
    pub fn boundaries(&self) -> Vec<Boundary> {
        let graph_outputs: HashSet<ValueId> = self.view.model.graph.outputs().iter().copied().collect();
        (0..self.partitions.len()).map(|p| self.boundary_with(PartitionId::new(p), &graph_outputs)).collect()
    }

    fn boundary_with(&self, partition: PartitionId, graph_outputs: &HashSet<ValueId>) -> Boundary {
        let (view, graph) = (&self.view, &self.view.model.graph);
        let elsewhere = |u: UnitId| self.partition_of[u.index()] != partition;
        let mut out = Boundary::default();
        let mut seen = HashSet::new();
        for &u in self.units(partition) {
            for v in view.reads(u) {
                let crosses = match graph.value(v).kind {
                    ValueKind::Initializer(_) => false,
                    ValueKind::Output { node, .. } => elsewhere(view.unit_of(node)),
                    ValueKind::Input { .. } | ValueKind::Captured { .. } => true,
                };
                if crosses && seen.insert(v) {
                    out.inputs.push(v);
                }
            }
            out.outputs.extend(view.makes(u).filter(|&v| graph_outputs.contains(&v) || view.consumers(v).any(elsewhere)));
        }
        out
    }

    /// Bytes that partitions hand each other in one run: each value once for every partition that reads it and did not
    /// make it. `None` where the size of one of them is open under `dims`.
    #[must_use]
    pub fn crossing_bytes(&self, dims: &Bindings) -> Option<u64> {
        let view = &self.view;
        let bytes = view.value_bytes(dims);
        let mut total = 0u64;
        let mut readers: Vec<PartitionId> = Vec::new();
        for u in (0..self.partition_of.len()).map(UnitId::new) {
            let home = self.partition_of[u.index()];
            if view.succs(u).iter().all(|s| self.partition_of[s.index()] == home) {
                continue;
            }
            for v in view.makes(u) {
                readers.clear();
                readers.extend(view.consumers(v).map(|c| self.partition_of[c.index()]).filter(|&p| p != home));
                readers.sort_unstable();
                readers.dedup();
                if readers.is_empty() {
                    continue;
                }
                match bytes[v.index()] {
                    UNKNOWN_BYTES => return None,
                    b => total = total.saturating_add(b.saturating_mul(readers.len() as u64)),
                }
            }
        }
        Some(total)
    }
}
