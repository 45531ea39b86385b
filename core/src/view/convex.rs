//! Convexity: does a path leave a region and come back?

use std::collections::VecDeque;
use std::ops::Range;

use crate::graph::Csr;

/// Why a region is not convex.
pub(super) struct Offence {
    /// A shortest path that leaves and returns: first and last inside, the rest outside.
    pub(super) path: Vec<u32>,
    /// Everything outside on any such path, ascending: with it the region is convex.
    pub(super) closing: Vec<u32>,
}

/// Looks for paths from the region to itself through the outside. `range` bounds where such a path can run. Linear: the
/// offending vertices are those outside that the region reaches and that reach it.
pub(super) fn offence(preds: &Csr, succs: &Csr, range: Range<usize>, inside: impl Fn(u32) -> bool) -> Option<Offence> {
    let offset = range.start;
    let local = |v: u32| range.contains(&(v as usize)).then(|| v as usize - offset);
    let reach = |next: &Csr| {
        let mut seen = vec![false; range.len()];
        let mut work: Vec<u32> = range.clone().map(|v| v as u32).filter(|&v| inside(v)).collect();
        while let Some(v) = work.pop() {
            for &s in next.row(v as usize) {
                if let Some(i) = local(s)
                    && !inside(s)
                    && !std::mem::replace(&mut seen[i], true)
                {
                    work.push(s);
                }
            }
        }
        seen
    };
    let (from, to) = (reach(succs), reach(preds));
    let offending = |v: u32| local(v).is_some_and(|i| from[i] && to[i]);
    let closing: Vec<u32> = range.clone().map(|v| v as u32).filter(|&v| offending(v)).collect();
    if closing.is_empty() {
        return None;
    }
    // Breadth first from the region, along offending vertices only.
    let mut parent = vec![u32::MAX; range.len()];
    let mut queue: VecDeque<u32> = VecDeque::new();
    for v in range.clone().map(|v| v as u32).filter(|&v| inside(v)) {
        for &s in succs.row(v as usize) {
            if let Some(i) = local(s)
                && offending(s)
                && parent[i] == u32::MAX
            {
                parent[i] = v;
                queue.push_back(s);
            }
        }
    }
    while let Some(v) = queue.pop_front() {
        for &s in succs.row(v as usize) {
            if inside(s) {
                let mut path = vec![s, v];
                let mut at = v;
                while let Some(i) = local(at).filter(|_| !inside(at)) {
                    at = parent[i];
                    path.push(at);
                }
                path.reverse();
                return Some(Offence { path, closing });
            }
            if let Some(i) = local(s)
                && offending(s)
                && parent[i] == u32::MAX
            {
                parent[i] = v;
                queue.push_back(s);
            }
        }
    }
    None
}
