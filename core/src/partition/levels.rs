//! Strategy `min-partitions`: the fewest accelerated partitions, in linear time.
//!
//! Partitions are the slots of one sequence: slot 0 torch, 1 accelerated, 2 torch, 3 accelerated, … Every unit takes a
//! slot of its kind that is no earlier than those of the units it reads, so the partitions can run in slot order and the
//! quotient graph is acyclic. The earliest slot of an accelerated unit counts the accelerated runs on a path to it, which
//! no partitioning can put into fewer partitions: their number is the minimum.

use super::{Partition, PartitionId, Placement};
use crate::graph::Csr;

/// What is levelled: units, or contracted groups of them. Rows stand in topological order.
#[derive(Clone, Copy)]
pub(super) struct LevelGraph<'a> {
    pub(super) preds: &'a Csr,
    pub(super) succs: &'a Csr,
    /// Compute nodes of each vertex.
    pub(super) compute: &'a [u32],
    /// Bytes that cross a border after each vertex.
    pub(super) out_bytes: &'a [u32],
}

/// Slot of every vertex.
pub(super) struct Slots {
    pub(super) slot: Vec<u32>,
    /// Placement of each slot's vertices.
    pub(super) kinds: Vec<Placement>,
    /// Accelerated partitions before size rules.
    pub(super) lower_bound: u32,
    /// Vertices that went to torch since their partition was too small, ascending.
    pub(super) demoted: Vec<u32>,
}

/// Partitions in execution order.
pub(super) struct Numbered {
    pub(super) partition_of: Vec<PartitionId>,
    pub(super) partitions: Vec<Partition>,
    pub(super) members: Csr,
}

/// Gives every vertex its slot, and demotes accelerated slots with fewer than `min_block_size` compute nodes and no
/// pinned vertex, where that is more than 1.
pub(super) fn level(g: LevelGraph<'_>, placement: &mut [Placement], pinned: impl Fn(usize) -> bool, min_block_size: u32) -> Slots {
    let mut slot = earliest(g.preds, placement);
    let mut last = slot.iter().copied().max().unwrap_or(0);
    let lower_bound = last.div_ceil(2);
    let mut sizes = (min_block_size > 1).then(|| Sizes::new(&slot, last, g.compute, min_block_size));
    settle(g, placement, &mut slot, sizes.as_mut());
    let demoted = match sizes {
        Some(sizes) => sizes.demote(&mut slot, &mut last, placement, pinned),
        None => Vec::new(),
    };
    if placement.contains(&Placement::Opaque) {
        return set_apart(g.preds, placement, &slot, last, Slots { slot: Vec::new(), kinds: Vec::new(), lower_bound, demoted });
    }
    let kinds = (0..=last).map(|s| if s % 2 == 1 { Placement::Accelerated } else { Placement::Torch }).collect();
    Slots { slot, kinds, lower_bound, demoted }
}

/// The first slot of the right parity (odd: accelerated) that is no earlier than those of the predecessors.
fn earliest(preds: &Csr, placement: &[Placement]) -> Vec<u32> {
    let mut slot: Vec<u32> = Vec::with_capacity(placement.len());
    for (row, &kind) in preds.iter_rows().zip(placement) {
        let after = row.iter().map(|&p| slot[p as usize]).max().unwrap_or(0);
        slot.push(after + ((after ^ u32::from(kind == Placement::Accelerated)) & 1));
    }
    slot
}

/// One backward sweep over units with slack. Successors are final, predecessors at their earliest, so a unit may take
/// any slot of its parity in between; it goes to its latest one where that keeps more bytes inside a partition, or
/// where `min_block_size` asks for it.
fn settle(g: LevelGraph<'_>, placement: &[Placement], slot: &mut [u32], mut sizes: Option<&mut Sizes>) {
    for (u, row) in g.succs.iter_rows().enumerate().rev() {
        let Some(next) = row.iter().map(|&s| slot[s as usize]).min() else { continue };
        let now = slot[u];
        let latest = next - ((next ^ now) & 1);
        if latest <= now {
            continue;
        }
        let joins_all = latest == next && row.iter().all(|&s| slot[s as usize] == latest);
        let saved = if joins_all { u64::from(g.out_bytes[u]) } else { 0 };
        let leaves = |p: &&u32| slot[**p as usize] == now;
        let spent: u64 = g.preds.row(u).iter().filter(leaves).map(|&p| u64::from(g.out_bytes[p as usize])).sum();
        let by_bytes = saved > spent;
        let moves = match sizes.as_deref_mut() {
            Some(sizes) if placement[u] == Placement::Accelerated => sizes.moves(now, latest, g.compute[u], by_bytes),
            _ => by_bytes,
        };
        if moves {
            slot[u] = latest;
        }
    }
}

/// Compute nodes of every slot, where a size rule applies.
struct Sizes {
    min: u32,
    count: Vec<u32>,
}

impl Sizes {
    fn new(slot: &[u32], last: u32, compute: &[u32], min: u32) -> Self {
        let mut count = vec![0; last as usize + 1];
        for (&s, &c) in slot.iter().zip(compute) {
            count[s as usize] += c;
        }
        Self { min, count }
    }

    /// Whether a unit of `compute` compute nodes goes from slot `now` to the later slot `latest`.
    fn moves(&mut self, now: u32, latest: u32, compute: u32, by_bytes: bool) -> bool {
        let large = |slot: u32, change: i64| i64::from(self.count[slot as usize]) + change >= i64::from(self.min);
        let weight = i64::from(compute);
        let (stays, target) = (large(now, 0), large(latest, 0));
        let moves = if stays && !large(now, -weight) {
            // It would make its own partition too small.
            false
        } else if !stays && (target || large(latest, weight)) {
            // Its own partition is too small and goes to torch: it is saved where it is not alone.
            true
        } else if stays && !target && large(latest, weight) {
            // It makes another one large enough.
            true
        } else {
            by_bytes && (target || !stays)
        };
        if moves {
            self.count[now as usize] -= compute;
            self.count[latest as usize] += compute;
        }
        moves
    }

    /// Turns accelerated slots that are too small and hold no pinned vertex into torch; gives the vertices. The torch
    /// slots beside such a slot become one with it, and all other slots stay as they are, so no further one becomes too
    /// small and the rest is still the minimum: a path through all old slots runs through all that stay.
    fn demote(&self, slot: &mut [u32], last: &mut u32, placement: &mut [Placement], pinned: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut small: Vec<bool> = self.count.iter().enumerate().map(|(s, &c)| s % 2 == 1 && c < self.min).collect();
        for (u, &s) in slot.iter().enumerate() {
            if small[s as usize] && pinned(u) {
                small[s as usize] = false;
            }
        }
        if !small.contains(&true) {
            return Vec::new();
        }
        let mut now = 0u32;
        let renumbered: Vec<u32> = (0u32..)
            .zip(&small)
            .map(|(s, &small)| {
                let torch = s % 2 == 0 || small;
                now += u32::from((now % 2 == 0) != torch);
                now
            })
            .collect();
        let mut demoted = Vec::new();
        for (u, s) in slot.iter_mut().enumerate() {
            if small[*s as usize] {
                placement[u] = Placement::Torch;
                demoted.push(u as u32);
            }
            *s = renumbered[*s as usize];
        }
        *last = now;
        demoted
    }
}

/// Gives every opaque vertex a place of its own within the torch slots, and splits torch around them: a torch vertex that
/// needs an opaque one of its slot stands behind it.
fn set_apart(preds: &Csr, placement: &[Placement], slot: &[u32], last: u32, slots: Slots) -> Slots {
    let mut sub = vec![0u32; slot.len()];
    let mut depth = vec![0u32; last as usize + 1];
    for (u, row) in preds.iter_rows().enumerate() {
        if placement[u] == Placement::Accelerated {
            continue;
        }
        let torch = placement[u] == Placement::Torch;
        let beside = row.iter().map(|&p| p as usize).filter(|&p| slot[p] == slot[u]);
        sub[u] = beside.map(|p| sub[p] + u32::from(torch && placement[p] == Placement::Opaque)).max().unwrap_or(0);
        let depth = &mut depth[slot[u] as usize];
        *depth = (*depth).max(sub[u]);
    }
    let mut first = Vec::with_capacity(depth.len());
    let mut kinds = Vec::new();
    for (s, &depth) in depth.iter().enumerate() {
        first.push(kinds.len() as u32);
        if s % 2 == 1 {
            kinds.push(Placement::Accelerated);
        } else {
            kinds.extend((0..=depth).flat_map(|_| [Placement::Torch, Placement::Opaque]));
        }
    }
    let fine = |u: usize| first[slot[u] as usize] + 2 * sub[u] + u32::from(placement[u] == Placement::Opaque);
    Slots { slot: (0..slot.len()).map(fine).collect(), kinds, ..slots }
}

impl Slots {
    /// Numbers the slots that are in use; an opaque vertex is a partition of its own.
    pub(super) fn number(&self) -> Numbered {
        #[derive(Clone, Copy)]
        struct Cursor {
            item: u32,
            partition: u32,
            step: u32,
        }
        let mut count = vec![0u32; self.kinds.len()];
        for &s in &self.slot {
            count[s as usize] += 1;
        }
        let mut partitions = Vec::with_capacity(self.kinds.len());
        let mut starts = Vec::with_capacity(self.kinds.len() + 1);
        let mut item = 0;
        let mut cursors: Vec<Cursor> = Vec::with_capacity(self.kinds.len());
        for (&count, &kind) in count.iter().zip(&self.kinds) {
            let step = u32::from(kind == Placement::Opaque);
            cursors.push(Cursor { item, partition: partitions.len() as u32, step });
            let (number, each) = if step == 1 { (count, 1) } else { (count.min(1), count) };
            for _ in 0..number {
                starts.push(item);
                partitions.push(Partition { kind, index: partitions.len() as u32 });
                item += each;
            }
        }
        starts.push(item);
        let mut items = vec![0u32; self.slot.len()];
        let mut partition_of = Vec::with_capacity(self.slot.len());
        for (u, &s) in self.slot.iter().enumerate() {
            let at = &mut cursors[s as usize];
            partition_of.push(PartitionId(at.partition));
            items[at.item as usize] = u as u32;
            at.item += 1;
            at.partition += at.step;
        }
        Numbered { partition_of, partitions, members: Csr::from_rows(starts, items) }
    }
}
