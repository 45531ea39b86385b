//! Bringing nodes into topological order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{Csr, Node, NodeId, Value, ValueKind};

/// What ordering did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sorted {
    /// The order was right.
    AsFound,
    /// Nodes were moved; this is how many stand elsewhere now.
    Moved(usize),
    /// These nodes (positions before sorting) read each other's outputs in a circle.
    Cycle(Vec<usize>),
}

/// Sorts nodes so that each stands after those it reads from (directly or in its bodies). Among nodes that could come
/// next, the one that stands first in the file does. Node ids in `values` follow. Takes O(n log n) and no recursion.
pub(super) fn sort(nodes: &mut Vec<Node>, values: &mut [Value]) -> Sorted {
    let producer = |values: &[Value], v: crate::graph::ValueId| match values[v.index()].kind {
        ValueKind::Output { node, .. } => Some(node.index()),
        _ => None,
    };
    let in_order = nodes.iter().enumerate().all(|(i, n)| n.reads().all(|v| producer(values, v).is_none_or(|p| p < i)));
    if in_order {
        return Sorted::AsFound;
    }
    let edges: Vec<(u32, u32)> = (0u32..)
        .zip(nodes.iter())
        .flat_map(|(i, n)| n.reads().map(move |v| (v, i)))
        .filter_map(|(v, i)| Some((NodeId::new(producer(values, v)?).0, i)))
        .collect();
    let mut waits = vec![0u32; nodes.len()];
    for &(_, reader) in &edges {
        waits[reader as usize] += 1;
    }
    let readers = Csr::from_pairs(nodes.len(), edges.iter().copied());
    let mut ready: BinaryHeap<Reverse<u32>> = (0u32..).zip(&waits).filter(|(_, w)| **w == 0).map(|(i, _)| Reverse(i)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i as usize);
        for &r in readers.row(i as usize) {
            waits[r as usize] -= 1;
            if waits[r as usize] == 0 {
                ready.push(Reverse(r));
            }
        }
    }
    if order.len() < nodes.len() {
        return Sorted::Cycle(cycle(nodes, &waits, |v| producer(values, v)));
    }
    let mut place = vec![0usize; nodes.len()];
    let mut moved = 0;
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
        moved += usize::from(new != old);
    }
    for v in values {
        if let ValueKind::Output { node, .. } = &mut v.kind {
            *node = NodeId::new(place[node.index()]);
        }
    }
    let mut slots: Vec<Option<Node>> = std::mem::take(nodes).into_iter().map(Some).collect();
    nodes.extend(order.iter().filter_map(|&old| slots[old].take()));
    Sorted::Moved(moved)
}

/// One circle among the nodes that still wait: from any of them, a step to a node it waits for meets a known one soon.
fn cycle(nodes: &[Node], waits: &[u32], producer: impl Fn(crate::graph::ValueId) -> Option<usize>) -> Vec<usize> {
    let Some(mut at) = waits.iter().position(|&w| w > 0) else { return Vec::new() };
    let mut seen_at = vec![usize::MAX; nodes.len()];
    let mut path = Vec::new();
    loop {
        if seen_at[at] != usize::MAX {
            let mut circle = path.split_off(seen_at[at]);
            // Walked from reader to producer; told in the direction of the data.
            circle.reverse();
            return circle;
        }
        seen_at[at] = path.len();
        path.push(at);
        match nodes[at].reads().filter_map(&producer).find(|&p| waits[p] > 0) {
            Some(p) => at = p,
            None => return path,
        }
    }
}
