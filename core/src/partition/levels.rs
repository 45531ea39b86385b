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
    let mut last = earliest(g, placement, &mut slot);
    let lower_bound = last.div_ceil(2);
    let mut sizes = (min_block_size > 1).then(|| Sizes::new(&slot, last, g.compute, min_block_size));
    let mut count = std::mem::take(&mut buffers.count);
    count.clear();
    count.resize(last as usize + 1, 0);
    settle(g, placement, &mut slot, &mut count, sizes.as_mut());
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
fn earliest(g: LevelGraph<'_>, placement: &[Placement], slot: &mut Vec<u32>) -> u32 {
    let n = placement.len();
    // Every vertex is written before it is read, so only what stands behind them needs a value.
    slot.resize(n + 2, 0);
    slot[n] = 0;
    slot[n + 1] = NEVER;
    let mut last = 0;
    for (u, (&[a, b], &kind)) in g.pred_pairs.0.iter().zip(placement).enumerate() {
        let after = if b == LONG {
            g.preds.row(u).iter().map(|&p| slot[p as usize]).max().unwrap_or(0)
        } else {
            slot[a as usize].max(slot[b as usize])
        };
        let now = after + ((after ^ u32::from(kind == Placement::Accelerated)) & 1);
        last = last.max(now);
        slot[u] = now;
    }
    last
}

/// One backward sweep over vertices with slack. Successors are final, predecessors at their earliest, so a vertex may take
/// any slot of its parity in between; it goes to its latest one where that keeps more bytes inside a partition, or
/// where `min_block_size` asks for it. Counts the vertices of every slot.
fn settle(g: LevelGraph<'_>, placement: &[Placement], slot: &mut [u32], count: &mut [u32], mut sizes: Option<&mut Sizes>) {
    for (u, &[a, b]) in g.succ_pairs.0.iter().enumerate().rev() {
        let (next, furthest) = if b == LONG {
            let slots = g.succs.row(u).iter().map(|&s| slot[s as usize]);
            slots.fold((NEVER, 0), |(least, most), s| (least.min(s), most.max(s)))
        } else {
            let (x, y) = (slot[a as usize], slot[b as usize]);
            // The second one may be missing.
            (x.min(y), if y == NEVER { x } else { x.max(y) })
        };
        let now = slot[u];
        let latest = next - ((next ^ now) & 1);
        if latest > now && next != NEVER {
            let by_bytes = latest == furthest && {
                let bytes = |p: u32| if slot[p as usize] == now { u64::from(g.out_bytes.get(p as usize).copied().unwrap_or(0)) } else { 0 };
                let spent = match g.pred_pairs.0[u] {
                    [_, LONG] => g.preds.row(u).iter().map(|&p| bytes(p)).sum(),
                    [p, q] => bytes(p) + bytes(q),
                };
                u64::from(g.out_bytes[u]) > spent
            };
            let moves = match sizes.as_deref_mut() {
                Some(sizes) if placement[u] == Placement::Accelerated => sizes.moves(now, latest, g.compute[u], by_bytes),
                _ => by_bytes,
            };
            if moves {
                slot[u] = latest;
            }
        }
        count[slot[u] as usize] += 1;
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
        #[derive(Clone, Copy)]
        struct Cursor {
            item: u32,
            partition: u32,
            step: u32,
        }
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
        // Every item is written below, whatever the memory holds now.
        let mut items = std::mem::take(&mut buffers.items);
        items.resize(self.slot.len(), 0);
        // The slots are not needed any more: partitions take their place.
        for (u, slot) in (0u32..).zip(&mut self.slot) {
            let at = &mut cursors[*slot as usize];
            *slot = at.partition;
            items[at.item as usize] = u;
            at.item += 1;
            at.partition += at.step;
        }
        buffers.count = count;
        let partition_of = bytemuck::TransparentWrapperAlloc::wrap_vec(self.slot);
        Numbered { partition_of, partitions, members: Csr::from_rows(starts, items) }
    }
}
