//! Per-node times: recorded as raw events while running, put together afterwards.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use recut_core::graph::ValueId;

use crate::engine::{NodeRef, Observer};
use crate::tensor::Value;

/// One node that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The node.
    pub node: NodeRef,
    /// When it began, in nanoseconds after the run did.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Bytes it made.
    pub bytes: u64,
}

/// Takes events down. Costs a push into memory that is there already: no look-up, no formatting.
pub struct Recorder {
    base: Instant,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// When the whole subgraph ran, for engines that do not tell nodes apart.
    pub whole: Option<(u64, u64)>,
    /// Most bytes that were live at once.
    pub peak_bytes: usize,
    wanted: HashSet<ValueId>,
    /// Values that were asked for.
    pub values: Vec<(ValueId, Value)>,
}

impl Recorder {
    /// A recorder with room for so many events; `base` is time 0, `wanted` the values to keep.
    #[must_use]
    pub fn new(base: Instant, events: usize, wanted: HashSet<ValueId>) -> Self {
        Self { base, events: Vec::with_capacity(events), whole: None, peak_bytes: 0, wanted, values: Vec::new() }
    }

    fn since_base(&self, t: Instant) -> u64 {
        nanos(t.saturating_duration_since(self.base))
    }
}

/// A duration in nanoseconds; 584 years fit.
pub(crate) fn nanos(d: std::time::Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Observer for Recorder {
    fn node(&mut self, node: NodeRef, start: Instant, end: Instant, output_bytes: usize) {
        let start_ns = self.since_base(start);
        let duration_ns = nanos(end.saturating_duration_since(start));
        self.events.push(Event { node, start_ns, duration_ns, bytes: output_bytes as u64 });
    }

    fn whole(&mut self, start: Instant, end: Instant, _: usize) {
        self.whole = Some((self.since_base(start), nanos(end.saturating_duration_since(start))));
    }

    fn live_bytes(&mut self, bytes: usize) {
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    fn value(&mut self, value: ValueId, data: &Value) {
        self.values.push((value, data.clone()));
    }

    fn wants_values(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn wants_value(&self, value: ValueId) -> bool {
        self.wanted.contains(&value)
    }
}

/// Median, extremes and mean of some durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many there are.
    pub count: u64,
    /// The middle one (the mean of the middle two).
    pub median_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All together.
    pub total_ns: u64,
}

impl Stats {
    /// Of these durations; reorders them.
    #[must_use]
    pub fn of(ns: &mut [u64]) -> Self {
        ns.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (ns.first(), ns.last()) else { return Self::default() };
        let total = ns.iter().map(|&n| u128::from(n)).sum::<u128>();
        let middle = ns.len() / 2;
        let median_ns = if ns.len() % 2 == 1 { ns[middle] } else { ns[middle - 1].midpoint(ns[middle]) };
        let clamp = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        let mean_ns = clamp(total / ns.len() as u128);
        Self { count: ns.len() as u64, median_ns, min_ns, mean_ns, max_ns, total_ns: clamp(total) }
    }
}

/// A partition in one run.
#[derive(Clone, Copy, Debug)]
pub struct PartitionRun {
    /// Position in the session's partitions.
    pub partition: usize,
    /// When it began, boundary copies excluded.
    pub start_ns: u64,
    /// How long it took, boundary copies excluded.
    pub duration_ns: u64,
}

/// A tensor handed to a partition in one run.
#[derive(Clone, Copy, Debug)]
pub struct BoundaryRun {
    /// The value.
    pub value: ValueId,
    /// The partition that takes it.
    pub to: usize,
    /// Its size.
    pub bytes: u64,
    /// What handing it over took.
    pub duration_ns: u64,
}

/// All events of one counted run.
#[derive(Clone, Debug, Default)]
pub struct RunEvents {
    /// Node events, each with its partition, in the order they were recorded.
    pub nodes: Vec<(usize, Event)>,
    /// Partitions.
    pub partitions: Vec<PartitionRun>,
    /// Boundary tensors.
    pub boundaries: Vec<BoundaryRun>,
    /// From the first input to the last output.
    pub wall_ns: u64,
    /// Most bytes of values (not weights) that were live at once.
    pub peak_bytes: u64,
}

/// A node over all runs.
#[derive(Clone, Copy, Debug)]
pub struct NodeProfile {
    /// The node.
    pub node: NodeRef,
    /// Its partition.
    pub partition: usize,
    /// Over calls: a node in a loop has many in one run.
    pub stats: Stats,
    /// Bytes of its outputs at the last call.
    pub bytes: u64,
}

/// A partition over all runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartitionProfile {
    /// Its times.
    pub stats: Stats,
    /// Median over runs of the sum of its nodes' times.
    pub sum_of_nodes_ns: u64,
}

/// A boundary tensor over all runs.
#[derive(Clone, Copy, Debug)]
pub struct BoundaryProfile {
    /// The value.
    pub value: ValueId,
    /// The partition that takes it.
    pub to: usize,
    /// Its size.
    pub bytes: u64,
    /// What handing it over took.
    pub stats: Stats,
}

/// Sums over the whole run: medians over the runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// From the first input to the last output.
    pub end_to_end: Stats,
    /// All nodes; those inside control flow count in the node that holds them.
    pub sum_of_nodes_ns: u64,
    /// Handing tensors from partition to partition.
    pub boundary_ns: u64,
    /// What neither nodes nor boundaries account for: preparing tract plans for new shapes, bookkeeping between nodes,
    /// engines that do not tell nodes apart. 0 where nodes overlap (parallel schedule).
    pub gap_ns: u64,
    /// Most bytes of values (not weights) that were live at once.
    pub peak_bytes: u64,
}

/// All runs together.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Nodes that ran, in the order of their first call.
    pub nodes: Vec<NodeProfile>,
    /// Partitions, as in the session.
    pub partitions: Vec<PartitionProfile>,
    /// Boundary tensors.
    pub boundaries: Vec<BoundaryProfile>,
    /// Sums.
    pub totals: Totals,
    /// Raw events of the last run, for traces.
    pub last: RunEvents,
}

impl Profile {
    /// Puts runs together. `partitions` is their number in the session.
    #[must_use]
    pub fn of(mut runs: Vec<RunEvents>, partitions: usize) -> Self {
        let median = |f: &dyn Fn(&RunEvents) -> u64| Stats::of(&mut runs.iter().map(f).collect::<Vec<_>>()).median_ns;
        let node_sum = |r: &RunEvents| outer(r).map(|(_, e)| e.duration_ns).sum();
        let boundary_sum = |r: &RunEvents| r.boundaries.iter().map(|b| b.duration_ns).sum();
        let totals = Totals {
            end_to_end: Stats::of(&mut runs.iter().map(|r| r.wall_ns).collect::<Vec<_>>()),
            sum_of_nodes_ns: median(&node_sum),
            boundary_ns: median(&boundary_sum),
            gap_ns: median(&|r| r.wall_ns.saturating_sub(node_sum(r)).saturating_sub(boundary_sum(r))),
            peak_bytes: runs.iter().map(|r| r.peak_bytes).max().unwrap_or(0),
        };
        let nodes = node_profiles(&runs);
        let mut partition_times: Vec<Vec<u64>> = vec![Vec::new(); partitions];
        let mut partition_sums: Vec<Vec<u64>> = vec![Vec::new(); partitions];
        let mut boundary_times: HashMap<(ValueId, usize), (u64, Vec<u64>)> = HashMap::new();
        let mut boundary_order = Vec::new();
        for r in &runs {
            let mut sums = vec![0u64; partitions];
            for (p, e) in outer(r) {
                if let Some(s) = sums.get_mut(*p) {
                    *s += e.duration_ns;
                }
            }
            for (all, s) in partition_sums.iter_mut().zip(sums) {
                all.push(s);
            }
            for p in &r.partitions {
                if let Some(times) = partition_times.get_mut(p.partition) {
                    times.push(p.duration_ns);
                }
            }
            for b in &r.boundaries {
                let entry = boundary_times.entry((b.value, b.to)).or_insert_with(|| {
                    boundary_order.push((b.value, b.to));
                    (b.bytes, Vec::new())
                });
                entry.1.push(b.duration_ns);
            }
        }
        let partitions = partition_times
            .iter_mut()
            .zip(&mut partition_sums)
            .map(|(t, s)| PartitionProfile { stats: Stats::of(t), sum_of_nodes_ns: Stats::of(s).median_ns })
            .collect();
        let boundaries = boundary_order
            .into_iter()
            .filter_map(|(value, to)| {
                let (bytes, times) = boundary_times.get_mut(&(value, to))?;
                Some(BoundaryProfile { value, to, bytes: *bytes, stats: Stats::of(times) })
            })
            .collect();
        Self { nodes, partitions, boundaries, totals, last: runs.pop().unwrap_or_default() }
    }
}

/// Events of nodes of the main graph.
fn outer(r: &RunEvents) -> impl Iterator<Item = &(usize, Event)> {
    r.nodes.iter().filter(|(_, e)| e.node.inner == u32::MAX)
}

fn node_profiles(runs: &[RunEvents]) -> Vec<NodeProfile> {
    let mut index: HashMap<NodeRef, usize> = HashMap::new();
    let mut found: Vec<(NodeRef, usize, u64, Vec<u64>)> = Vec::new();
    for (p, e) in runs.iter().flat_map(|r| &r.nodes) {
        let at = *index.entry(e.node).or_insert_with(|| {
            found.push((e.node, *p, 0, Vec::with_capacity(runs.len())));
            found.len() - 1
        });
        found[at].2 = e.bytes;
        found[at].3.push(e.duration_ns);
    }
    found
        .into_iter()
        .map(|(node, partition, bytes, mut times)| NodeProfile { node, partition, bytes, stats: Stats::of(&mut times) })
        .collect()
}

#[cfg(test)]
mod tests {
    use recut_core::graph::NodeId;

    use super::*;

    fn event(node: u32, inner: u32, duration_ns: u64) -> (usize, Event) {
        (0, Event { node: NodeRef { node: NodeId(node), inner }, start_ns: 0, duration_ns, bytes: 4 })
    }

    #[test]
    fn inner_nodes_are_not_counted_twice() {
        let run = |ns| RunEvents {
            nodes: vec![event(0, 0, 3), event(0, 0, 5), event(0, u32::MAX, 10), event(1, u32::MAX, ns)],
            partitions: vec![PartitionRun { partition: 0, start_ns: 0, duration_ns: 50 + ns }],
            wall_ns: 60 + ns,
            ..RunEvents::default()
        };
        let p = Profile::of(vec![run(10), run(30), run(20)], 1);
        assert_eq!(p.totals.sum_of_nodes_ns, 30);
        assert_eq!(p.totals.gap_ns, 50);
        assert_eq!(p.totals.end_to_end.median_ns, 80);
        assert_eq!(p.partitions[0].sum_of_nodes_ns, 30);
        let inner = p.nodes.iter().find(|n| n.node.inner == 0).unwrap();
        assert_eq!((inner.stats.count, inner.stats.median_ns), (6, 4));
        assert_eq!(Stats::of(&mut []).count, 0);
    }
}
