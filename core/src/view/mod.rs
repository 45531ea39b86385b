//! The effective graph: the main graph with every wrap contracted to one opaque unit.
//!
//! Layout, plan, selectors and reports all read this one adjacency, so that an opaque node is one node everywhere.

mod contract;
mod convex;
mod facts;

use std::sync::Arc;

use crate::diagnostic::printable;
use crate::graph::{Csr, NodeId, ValueId, id};
use crate::model::Model;
use crate::select::NodeSet;

pub use facts::is_compute;
pub(crate) use facts::{Facts, NonTensor};

id!(
    /// Position of a unit in [`View::units`]: the topological order of the effective graph.
    UnitId
);

/// One node of the effective graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A node of the main graph.
    Node(NodeId),
    /// An opaque custom op: index into [`View::wraps`].
    Wrap(u32),
}

/// A wrap as it stands in the effective graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapRegion {
    /// Stable id of the instance (`InlinedCustomOp_0`).
    pub id: Arc<str>,
    /// Key of its definition in the config.
    pub definition: Arc<str>,
    /// The nodes inside, in topological order.
    pub nodes: Vec<NodeId>,
    /// Tensors that cross into the region, in first-use order. Weights used only inside are not among them.
    pub inputs: Vec<ValueId>,
    /// Values used outside, or graph outputs, in the order they are made.
    pub outputs: Vec<ValueId>,
    /// Weights that are used inside, in first-use order: they belong to the body.
    pub weights: Vec<ValueId>,
    /// Those of [`WrapRegion::weights`] that are used outside too (or are graph outputs): copied into the body.
    pub shared_weights: Vec<ValueId>,
}

/// A wrap that has no unit of its own, since all its nodes lie inside another wrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absorbed {
    /// Instance id of the inner wrap.
    pub inner: Arc<str>,
    /// Instance id of the wrap around it that has a unit.
    pub outer: Arc<str>,
}

/// The effective graph.
#[derive(Clone, Debug)]
pub struct View {
    /// The model it is a view of.
    pub model: Arc<Model>,
    pub(crate) units: Vec<Unit>,
    pub(crate) unit_of: Vec<UnitId>,
    pub(crate) wraps: Vec<WrapRegion>,
    pub(crate) absorbed: Vec<Absorbed>,
    pub(crate) preds: Csr,
    pub(crate) succs: Csr,
    pub(crate) facts: Arc<Facts>,
}

/// Size of a value whose shape or type is open, in [`View::value_bytes`].
pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// Why a region cannot be an opaque node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapError {
    /// Nothing is selected.
    #[error("wrap {}: the selector `{}` matches no node", printable(.id), printable(.select))]
    Empty {
        /// The instance.
        id: String,
        /// Its selector.
        select: String,
    },
    /// A path leaves the region and comes back.
    #[error("wrap {}: the region is not convex: the path {} leaves it and returns; add {} to close it", printable(.id), listed(.path, " -> "), listed(.closing, ", "))]
    NotConvex {
        /// The instance.
        id: String,
        /// One offending path, stable ids: first and last inside, the rest outside.
        path: Vec<String>,
        /// Nodes to add so that the region is convex.
        closing: Vec<String>,
    },
    /// Two wraps share nodes.
    #[error("wrap {}: overlaps {} at {}", printable(.id), printable(.other), listed(.nodes, ", "))]
    Overlap {
        /// The instance.
        id: String,
        /// The other instance.
        other: String,
        /// Shared nodes, at most five.
        nodes: Vec<String>,
    },
    /// No value of the region is used outside.
    #[error("wrap {}: nothing outside the region uses a value made in it, so the opaque node would have no output", printable(.id))]
    NoOutput {
        /// The instance.
        id: String,
    },
    /// A value that is no tensor would cross the border.
    #[error("wrap {}: the border may only be crossed by tensors, which these values are not: {}", printable(.id), listed(.values, ", "))]
    NonTensor {
        /// The instance.
        id: String,
        /// The values.
        values: Vec<String>,
    },
}

/// Names joined for a message: those from files made printable, the middle of a long list left out.
fn listed(names: &[String], separator: &str) -> String {
    const ENDS: usize = 4;
    let mut parts: Vec<std::borrow::Cow<'_, str>> = names.iter().map(|n| printable(n)).collect();
    if parts.len() > 2 * ENDS + 1 {
        let left_out = parts.len() - 2 * ENDS;
        parts.splice(ENDS..ENDS + left_out, [format!("… ({left_out} more)").into()]);
    }
    parts.join(separator)
}

impl View {
    /// Units, in topological order.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// What this unit is.
    #[must_use]
    pub fn unit(&self, id: UnitId) -> Unit {
        self.units[id.index()]
    }

    /// The unit that holds `node`.
    #[must_use]
    pub fn unit_of(&self, node: NodeId) -> UnitId {
        self.unit_of[node.index()]
    }

    /// All opaque regions.
    #[must_use]
    pub fn wraps(&self) -> &[WrapRegion] {
        &self.wraps
    }

    /// Wraps without a unit of their own, in the order of the requests.
    #[must_use]
    pub fn absorbed(&self) -> &[Absorbed] {
        &self.absorbed
    }

    /// Units that `unit` reads from, each once, ascending.
    #[must_use]
    pub fn preds(&self, unit: UnitId) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.preds.row(unit.index()))
    }

    /// Units that read from `unit`, each once, ascending.
    #[must_use]
    pub fn succs(&self, unit: UnitId) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.succs.row(unit.index()))
    }

    /// Nodes of a unit, in topological order.
    pub fn nodes(&self, unit: UnitId) -> impl Iterator<Item = NodeId> + '_ {
        let (one, many): (Option<NodeId>, &[NodeId]) = match self.unit(unit) {
            Unit::Node(n) => (Some(n), &[]),
            Unit::Wrap(w) => (None, &self.wraps[w as usize].nodes),
        };
        one.into_iter().chain(many.iter().copied())
    }

    /// Every value the unit reads (weights of a wrap excepted, which are in its body). May repeat.
    pub fn reads(&self, unit: UnitId) -> impl Iterator<Item = ValueId> + '_ {
        let (node, region): (_, &[ValueId]) = match self.unit(unit) {
            Unit::Node(n) => (Some(self.model.graph.node(n)), &[]),
            Unit::Wrap(w) => (None, &self.wraps[w as usize].inputs),
        };
        node.into_iter().flat_map(|n| n.reads()).chain(region.iter().copied())
    }

    /// Every value the unit makes that others may read.
    pub fn makes(&self, unit: UnitId) -> impl Iterator<Item = ValueId> + '_ {
        let (node, region): (_, &[ValueId]) = match self.unit(unit) {
            Unit::Node(n) => (Some(self.model.graph.node(n)), &[]),
            Unit::Wrap(w) => (None, &self.wraps[w as usize].outputs),
        };
        node.into_iter().flat_map(|n| n.outputs.iter().flatten().copied()).chain(region.iter().copied())
    }

    /// The unit that makes `value`; `None` for graph inputs and weights.
    #[must_use]
    pub fn producer(&self, value: ValueId) -> Option<UnitId> {
        self.model.graph.producer(value).map(|n| self.unit_of(n))
    }

    /// Units that read `value`; one that reads it twice stands twice.
    pub fn consumers(&self, value: ValueId) -> impl Iterator<Item = UnitId> + '_ {
        self.model.graph.consumers(value).iter().map(|&n| self.unit_of(n))
    }

    /// Bytes of every value under `dims`, by [`ValueId`]; [`UNKNOWN_BYTES`] where the shape or type stays open.
    /// Computed once per set of dimensions.
    #[must_use]
    pub fn value_bytes(&self, dims: &crate::expr::Bindings) -> Arc<[u64]> {
        self.facts.value_bytes(&self.model.graph, dims)
    }

    /// Stable id of a unit: that of its node, or of the wrap instance.
    #[must_use]
    pub fn stable_id(&self, unit: UnitId) -> &str {
        match self.unit(unit) {
            Unit::Node(n) => self.model.graph.stable_id(n),
            Unit::Wrap(w) => &self.wraps[w as usize].id,
        }
    }
}

/// A region to contract: instance id, definition, its selector (for messages) and its nodes.
#[derive(Clone, Debug)]
pub struct WrapRequest {
    /// Stable id of the instance.
    pub id: Arc<str>,
    /// Key of its definition.
    pub definition: Arc<str>,
    /// Selector text.
    pub select: Arc<str>,
    /// Selected nodes.
    pub nodes: NodeSet,
}

#[cfg(test)]
mod tests;
