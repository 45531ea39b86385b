//! Between the user's model and the lowered one that runs: nodes and values one way, what a run told the other way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recut_core::graph::{NodeId, ValueId};
use recut_core::lower::{Lowering, lower};
use recut_core::model::Model;

use crate::engine::{Merged, MergedInto, NodeRef};
use crate::names::SourceNodes;
use crate::profile::{Event, RunEvents};

/// A model in the form that engines run, with the way back to the user's.
pub(super) struct Source {
    /// What engines run: the user's model, or what it was lowered to.
    pub(super) model: Arc<Model>,
    way_back: Option<WayBack>,
}

/// What every run is translated by.
struct WayBack {
    lowering: Arc<Lowering>,
    /// Nodes that make a value of the user's model.
    makers: HashSet<NodeId>,
    /// The user's value that each value is; the first of several.
    values: HashMap<ValueId, ValueId>,
}

impl Source {
    /// Lowers the model, if engines do not run it as it is.
    pub(super) fn new(model: &Arc<Model>) -> Self {
        let lowered = lower(model);
        let way_back = lowered.lowering.as_ref().map(|lowering| {
            let user = (0..lowering.source.graph.values().len()).map(ValueId::new);
            // Backwards, so that the first one stays.
            let values: HashMap<ValueId, ValueId> = user.rev().filter_map(|v| Some((lowering.value(v)?, v))).collect();
            let makers = values.keys().filter_map(|&v| lowered.graph.producer(v)).collect();
            WayBack { lowering: lowering.clone(), makers, values }
        });
        Self { model: lowered, way_back }
    }

    fn lowering(&self) -> Option<&Lowering> {
        self.way_back.as_ref().map(|w| &*w.lowering)
    }

    /// The nodes that run for these nodes of the user's model, in order.
    pub(super) fn run_nodes(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        match self.lowering() {
            Some(l) => nodes.iter().flat_map(|&n| l.nodes_of(n)).collect(),
            None => nodes.to_vec(),
        }
    }

    /// The value that runs for one of the user's model.
    pub(super) fn run_value(&self, value: ValueId) -> Option<ValueId> {
        match self.lowering() {
            Some(l) => l.value(value),
            None => Some(value),
        }
    }

    /// The operators that run for a node of the user's model, where it was lowered.
    pub(super) fn lowered_to(&self, node: NodeId) -> Option<Vec<String>> {
        let nodes = self.lowering()?.nodes_of(node);
        Some(nodes.map(|n| self.model.graph.node(n).op.to_string()).collect())
    }

    /// Turns the events of a run into those of the user's nodes: what a node has become counts as one, and a node that
    /// nothing is left of took no time. `partitions` are their nodes.
    pub(super) fn translate<'p>(&self, events: &mut RunEvents, partitions: impl Iterator<Item = &'p [NodeId]>) {
        let Some(WayBack { lowering, makers, values }) = &self.way_back else { return };
        let mut sources = SourceNodes::new(&self.model, lowering);
        let mut joined: Vec<(usize, Event)> = Vec::with_capacity(events.nodes.len());
        // Where a node's event is, and the last of its parts that was counted into it.
        let mut open: HashMap<NodeRef, (usize, u32)> = HashMap::new();
        for (p, e) in &events.nodes {
            let node = sources.source(e.node);
            let main = node.inner == u32::MAX;
            let part = if e.node.inner == u32::MAX { e.node.node.0 } else { e.node.inner };
            let shown = if main && e.node.inner == u32::MAX && !makers.contains(&e.node.node) { 0 } else { e.bytes };
            match open.get_mut(&node) {
                // Inside a loop, parts start over at the next turn.
                Some((at, last)) if main || *last < part => {
                    let all = &mut joined[*at].1;
                    all.duration_ns += e.duration_ns;
                    all.bytes = if main { all.bytes + shown } else { all.bytes.max(shown) };
                    *last = part;
                }
                _ => {
                    open.insert(node, (joined.len(), part));
                    joined.push((*p, Event { node, bytes: shown, ..*e }));
                }
            }
        }
        for (p, nodes) in partitions.enumerate() {
            let gone = nodes.iter().filter(|n| lowering.nodes_of(**n).len() == 0);
            let nothing = |&node: &NodeId| Event { node: NodeRef { node, inner: u32::MAX }, start_ns: 0, duration_ns: 0, bytes: 0 };
            joined.extend(gone.map(|n| (p, nothing(n))));
        }
        events.nodes = joined;
        events.boundaries.retain_mut(|b| values.get(&b.value).map(|&v| b.value = v).is_some());
    }

    /// What became of nodes that did not run by themselves: of a user's node, if all of its parts did not.
    pub(super) fn merged(&self, merged: Vec<Merged>) -> Vec<Merged> {
        let Some(lowering) = self.lowering() else { return merged };
        let graph = &self.model.graph;
        let mut sources = SourceNodes::new(&self.model, lowering);
        // How many parts each node of the user's model has inside and outside of control flow.
        let mut parts: HashMap<NodeRef, usize> = HashMap::new();
        for node in graph.node_ids() {
            let inner = lowering.inner_positions(graph.node(node)).len() as u32;
            for inner in (0..inner).chain([u32::MAX]) {
                *parts.entry(sources.source(NodeRef { node, inner })).or_default() += 1;
            }
        }
        let mut order: Vec<NodeRef> = Vec::new();
        let mut found: HashMap<NodeRef, (usize, u64, Option<NodeRef>)> = HashMap::new();
        for m in merged {
            let node = sources.source(m.node);
            let entry = found.entry(node).or_insert_with(|| {
                order.push(node);
                (0, 0, None)
            });
            entry.0 += 1;
            match m.into {
                MergedInto::Constant { prepare_ns } => entry.1 += prepare_ns,
                MergedInto::Group(anchor) => entry.2 = Some(sources.source(anchor)),
            }
        }
        let whole = |node: &NodeRef| {
            let (count, prepare_ns, anchor) = found[node];
            if count != parts.get(node).copied().unwrap_or(0) {
                return None;
            }
            let into = match anchor {
                Some(anchor) if anchor == *node => return None,
                Some(anchor) => MergedInto::Group(anchor),
                None => MergedInto::Constant { prepare_ns },
            };
            Some(Merged { node: *node, into })
        };
        order.iter().filter_map(whole).collect()
    }
}
