//! Strategy `min-partitions`: the fewest accelerated partitions, in linear time.
//!
//! Partitions are the slots of one sequence: slot 0 torch, 1 accelerated, 2 torch, 3 accelerated, … Every unit takes a
//! slot of its kind that is no earlier than those of the units it reads, so the partitions can run in slot order and the
//! quotient graph is acyclic. The earliest slot of an accelerated unit counts the accelerated runs on a path to it, which
//! no partitioning can put into fewer partitions: their number is the minimum.

use super::buffers::Buffers;
use super::{Partition, PartitionId, Placement};
use crate::graph::Csr;

/// Adjacency with up to two neighbours beside the vertex itself: most rows are that short, and reading them takes no
/// branch that depends on their length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<[u32; 2]>);

/// Marks a row that is longer than two, in the second place.
const LONG: u32 = u32::MAX;

impl Pairs {
    /// `rows`, where a missing neighbour is vertex `none`.
    pub(crate) fn new(rows: &Csr, none: u32) -> Self {
        let pair = |row: &[u32]| match *row {
            [] => [none, none],
            [a] => [a, none],
            [a, b] => [a, b],
            _ => [none, LONG],
        };
        Self(rows.iter_rows().map(pair).collect())
    }
}

/// How many successors hold every vertex from the start, under whatever colours: none, or one in place of a vertex without
/// successors, which has no reason to move.
pub(crate) fn held(succs: &Csr) -> Vec<u32> {
    succs.iter_rows().map(|row| u32::from(row.is_empty())).collect()
}

/// The vertex that stands for missing predecessors: its slot is 0.
pub(crate) const fn before_all(vertices: usize) -> u32 {
    vertices as u32
}

/// The vertex that stands for missing successors: its slot is [`NEVER`].
pub(crate) const fn after_all(vertices: usize) -> u32 {
    vertices as u32 + 1
}

/// Slot behind all others.
const NEVER: u32 = u32::MAX;

/// What is levelled: units, or contracted groups of them. Rows stand in topological order.
#[derive(Clone, Copy)]
pub(super) struct LevelGraph<'a> {
    pub(super) preds: &'a Csr,
    pub(super) succs: &'a Csr,
    /// Whether there may be opaque vertices.
    pub(super) opaque: bool,
    /// `preds` and `succs` again, in short form.
    pub(super) pred_pairs: &'a Pairs,
    pub(super) succ_pairs: &'a Pairs,
    /// [`held`] of `succs`.
    pub(super) held: &'a [u32],
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
    /// Vertices of each slot; empty where they were not counted.
    pub(super) count: Vec<u32>,
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
pub(super) fn level(
    g: LevelGraph<'_>,
    placement: &mut [Placement],
    pinned: impl Fn(usize) -> bool,
    min_block_size: u32,
    buffers: &mut Buffers,
) -> Slots {
    let mut slot = std::mem::take(&mut buffers.slot);
    let mut count = std::mem::take(&mut buffers.count);
    let mut last = earliest(g, placement, &mut slot, &mut buffers.tight, &mut count);
    let lower_bound = last.div_ceil(2);
    let mut sizes = (min_block_size > 1).then(|| Sizes::new(&slot, last, g.compute, min_block_size));
    settle(g, placement, &mut slot, &mut buffers.tight, &mut count, sizes.as_mut());
    slot.truncate(placement.len());
    let mut demoted = Vec::new();
    if let Some(sizes) = sizes {
        demoted = sizes.demote(&mut slot, &mut last, placement, pinned);
        if !demoted.is_empty() {
            count.clear();
        }
    }
    if g.opaque && placement.contains(&Placement::Opaque) {
        count.clear();
        return set_apart(g.preds, placement, &slot, last, Slots { slot: Vec::new(), kinds: Vec::new(), lower_bound, count, demoted });
    }
    let kinds = (0..=last).map(|s| if s % 2 == 1 { Placement::Accelerated } else { Placement::Torch }).collect();
    Slots { slot, kinds, lower_bound, count, demoted }
}

/// The first slot of the right parity (odd: accelerated) that is no earlier than those of the predecessors. Gives the last
/// one; behind the vertices stand the two that missing neighbours refer to.
///
/// On the way it counts the vertices of every slot, and for every vertex the successors that hold it where it is: those in
/// its own slot or the next, before which there is no later slot of its parity.
fn earliest(g: LevelGraph<'_>, placement: &[Placement], slot: &mut Vec<u32>, tight: &mut Vec<u32>, count: &mut Vec<u32>) -> u32 {
    let n = placement.len();
    // Every vertex is written before it is read, so only what stands behind them needs a value.
    slot.resize(n + 2, 0);
    slot[n] = 0;
    slot[n + 1] = NEVER;
    tight.clear();
    tight.extend_from_slice(g.held);
    tight.resize(n + 2, 0);
    count.clear();
    count.push(0);
    let mut last = 0;
    for (u, (&[a, b], &kind)) in g.pred_pairs.0.iter().zip(placement).enumerate() {
        let parity = u32::from(kind == Placement::Accelerated);
        let now = if b == LONG {
            let row = g.preds.row(u);
            let after = row.iter().map(|&p| slot[p as usize]).max().unwrap_or(0);
            let now = after + ((after ^ parity) & 1);
            row.iter().for_each(|&p| tight[p as usize] += u32::from(holds(slot[p as usize], now)));
            now
        } else {
            let (x, y) = (slot[a as usize], slot[b as usize]);
            let after = x.max(y);
            let now = after + ((after ^ parity) & 1);
            tight[a as usize] += u32::from(holds(x, now));
            tight[b as usize] += u32::from(holds(y, now));
            now
        };
        if now > last {
            last = now;
            count.resize(now as usize + 1, 0);
        }
        count[now as usize] += 1;
        slot[u] = now;
    }
    last
}

/// Whether a successor in slot `next` keeps a vertex of slot `now` from every later slot of the same parity.
const fn holds(now: u32, next: u32) -> bool {
    next < now + 2
}

/// One backward sweep over vertices with slack: those that no successor holds. Successors are final, predecessors at their
/// earliest, so such a vertex may take any slot of its parity in between; it goes to its latest one where that keeps more
/// bytes inside a partition, or where `min_block_size` asks for it.
fn settle(
    g: LevelGraph<'_>,
    placement: &[Placement],
    slot: &mut [u32],
    tight: &mut [u32],
    count: &mut [u32],
    mut sizes: Option<&mut Sizes>,
) {
    let mut consider = |u: usize, tight: &mut [u32], free: &mut u64| {
        let (next, furthest) = match g.succ_pairs.0[u] {
            [_, LONG] => {
                let slots = g.succs.row(u).iter().map(|&s| slot[s as usize]);
                slots.fold((NEVER, 0), |(least, most), s| (least.min(s), most.max(s)))
            }
            [a, b] => {
                let (x, y) = (slot[a as usize], slot[b as usize]);
                // The second one may be missing.
                (x.min(y), if y == NEVER { x } else { x.max(y) })
            }
        };
        let now = slot[u];
        let latest = next - ((next ^ now) & 1);
        debug_assert!(latest > now && next != NEVER, "nothing holds it, and it has successors");
        let preds = g.preds.row(u);
        let by_bytes = latest == furthest && {
            let bytes = |p: u32| if slot[p as usize] == now { u64::from(g.out_bytes[p as usize]) } else { 0 };
            u64::from(g.out_bytes[u]) > preds.iter().map(|&p| bytes(p)).sum()
        };
        let moves = match sizes.as_deref_mut() {
            Some(sizes) if placement[u] == Placement::Accelerated => sizes.moves(now, latest, g.compute[u], by_bytes),
            _ => by_bytes,
        };
        if moves {
            slot[u] = latest;
            count[now as usize] -= 1;
            count[latest as usize] += 1;
            for &p in preds {
                let tight = &mut tight[p as usize];
                *tight -= u32::from(holds(slot[p as usize], now));
                if *tight == 0 && p as usize / 64 == u / 64 {
                    *free |= 1 << (p % 64);
                }
            }
        }
    };
    // By blocks, so that finding them takes no branch that depends on the vertex.
    for block in (0..placement.len().div_ceil(64)).rev() {
        let first = block * 64;
        let mut free = 0u64;
        for (i, &t) in tight[first..placement.len().min(first + 64)].iter().enumerate() {
            free |= u64::from(t == 0) << i;
        }
        while free != 0 {
            let at = 63 - free.leading_zeros();
            free &= !(1 << at);
            consider(first + at as usize, tight, &mut free);
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
                now += u32::from(now.is_multiple_of(2) != torch);
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
    pub(super) fn number(mut self, buffers: &mut Buffers) -> Numbered {
        let mut count = self.count;
        if count.len() != self.kinds.len() {
            count.clear();
            count.resize(self.kinds.len(), 0);
            for &s in &self.slot {
                count[s as usize] += 1;
            }
        }
        let mut partitions = std::mem::take(&mut buffers.partitions);
        let mut starts = std::mem::take(&mut buffers.starts);
        partitions.clear();
        starts.clear();
        let mut item = 0;
        // For every slot the place of its next vertex, and the partition of that.
        let mut cursors: Vec<[u32; 2]> = Vec::with_capacity(self.kinds.len());
        for (&count, &kind) in count.iter().zip(&self.kinds) {
            cursors.push([item, partitions.len() as u32]);
            let (number, each) = if kind == Placement::Opaque { (count, 1) } else { (count.min(1), count) };
            for _ in 0..number {
                starts.push(item);
                partitions.push(Partition { kind, index: partitions.len() as u32 });
                item += each;
            }
        }
        starts.push(item);
        // Every item is written below, whatever the memory holds now.
        let mut items = std::mem::take(&mut buffers.items);
        items.resize(self.slot.len(), 0);
        // The slots are not needed any more: partitions take their place.
        if self.kinds.contains(&Placement::Opaque) {
            for (u, slot) in (0u32..).zip(&mut self.slot) {
                let opaque = self.kinds[*slot as usize] == Placement::Opaque;
                let [item, partition] = &mut cursors[*slot as usize];
                *slot = *partition;
                items[*item as usize] = u;
                *item += 1;
                *partition += u32::from(opaque);
            }
        } else {
            for (u, slot) in (0u32..).zip(&mut self.slot) {
                let [item, partition] = &mut cursors[*slot as usize];
                *slot = *partition;
                items[*item as usize] = u;
                *item += 1;
            }
        }
        buffers.count = count;
        let partition_of = bytemuck::TransparentWrapperAlloc::wrap_vec(self.slot);
        Numbered { partition_of, partitions, members: Csr::from_rows(starts, items) }
    }
}
