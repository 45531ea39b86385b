//! Between the user's model and the lowered one that runs: nodes and values one way, what a run told the other way.

use std::collections::{HashMap, HashSet};

use recut_core::graph::{NodeId, ValueId};
use recut_core::lower::Lowering;
use recut_core::model::Model;

use crate::engine::{Merged, MergedInto, NodeRef};
use crate::names::SourceNodes;
use crate::profile::{Event, RunEvents};

/// The nodes that run for these nodes of the user's model, in order.
pub(super) fn run_nodes(lowered: &Model, nodes: &[NodeId]) -> Vec<NodeId> {
    match &lowered.lowering {
        Some(l) => nodes.iter().flat_map(|&n| l.nodes_of(n)).collect(),
        None => nodes.to_vec(),
    }
}

/// The value that runs for one of the user's model.
pub(super) fn run_value(lowered: &Model, value: ValueId) -> Option<ValueId> {
    match &lowered.lowering {
        Some(l) => l.value(value),
        None => Some(value),
    }
}

/// Whether a node makes a value that the user's model has.
fn makers(lowered: &Model, lowering: &Lowering) -> HashSet<NodeId> {
    let values = (0..lowering.source.graph.values().len()).filter_map(|v| lowering.value(ValueId::new(v)));
    values.filter_map(|v| lowered.graph.producer(v)).collect()
}

/// Turns the events of a run into those of the user's nodes: what a node has become counts as one, and a node that
/// nothing is left of took no time. `nodes_of` gives a partition's nodes.
pub(super) fn translate<'p>(lowered: &Model, events: &mut RunEvents, partitions: usize, nodes_of: &dyn Fn(usize) -> &'p [NodeId]) {
    let Some(lowering) = &lowered.lowering else { return };
    let makers = makers(lowered, lowering);
    let mut sources = SourceNodes::new(lowered, lowering);
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
    for p in 0..partitions {
        for &n in nodes_of(p).iter().filter(|n| lowering.nodes_of(**n).len() == 0) {
            joined.push((p, Event { node: NodeRef { node: n, inner: u32::MAX }, start_ns: 0, duration_ns: 0, bytes: 0 }));
        }
    }
    events.nodes = joined;
    let named: HashMap<ValueId, ValueId> =
        (0..lowering.source.graph.values().len()).rev().filter_map(|v| Some((lowering.value(ValueId::new(v))?, ValueId::new(v)))).collect();
    events.boundaries.retain_mut(|b| named.get(&b.value).map(|&v| b.value = v).is_some());
}

/// What became of nodes that did not run by themselves: of a user's node, if all of its parts did not.
pub(super) fn merged(lowered: &Model, merged: Vec<Merged>) -> Vec<Merged> {
    let Some(lowering) = &lowered.lowering else { return merged };
    let mut sources = SourceNodes::new(lowered, lowering);
    // How many parts each node of the user's model has inside and outside of control flow.
    let mut parts: HashMap<NodeRef, usize> = HashMap::new();
    for id in lowered.graph.node_ids() {
        *parts.entry(sources.source(NodeRef { node: id, inner: u32::MAX })).or_default() += 1;
        let node = lowered.graph.node(id);
        for inner in 0..lowering.inner_positions(node).len() {
            *parts.entry(sources.source(NodeRef { node: id, inner: inner as u32 })).or_default() += 1;
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
