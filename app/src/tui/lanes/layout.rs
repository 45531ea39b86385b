//! Lanes: one linear pass that gives every live tensor the leftmost free lane.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use recut_core::graph::{NodeId, ValueId};
use recut_core::partition::{PartitionId, Plan};
use recut_core::view::UnitId;

use super::rows::{Folds, Row, RowKind, Rows, nodes, rows};
use super::{NONE, Wiring};

/// Where a row touches a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The lane, from 0 at the left.
    pub lane: u32,
    /// The tensor on it.
    pub value: u32,
    /// The lane comes from above: the row reads the tensor.
    pub up: bool,
    /// The lane goes on below: the row makes the tensor, or is not its last reader.
    pub down: bool,
}

/// What a partition is given by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Tensors made in other partitions and read in this one.
    pub tensors: u32,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Whether some size is not known.
    pub open: bool,
}

/// A finished layout. All arrays are indexed by row unless they say otherwise.
#[derive(Clone, Debug)]
pub struct Lanes {
    plan: Arc<Plan>,
    rows: Vec<Row>,
    order: Vec<UnitId>,
    row_of_unit: Vec<u32>,
    port_starts: Vec<u32>,
    ports: Vec<Port>,
    dot: Vec<u32>,
    checkpoints: Vec<(u32, Vec<u32>)>,
    width: u32,
    transfers: Vec<Transfer>,
}

/// Rows between two stored states of the lanes, unless more lanes are live than this.
const CHECKPOINT_ROWS: usize = 64;

struct Pass<'a> {
    wiring: &'a Wiring,
    plan: &'a Plan,
    rows: &'a Rows,
    /// Last row that reads the value; 0 if none does (row 0 never reads).
    last_reader: Vec<u32>,
    transfers: Vec<Transfer>,
}

impl Lanes {
    /// Lays out `plan` with `folds`. Linear in units and edges.
    #[must_use]
    pub fn new(wiring: &Wiring, plan: Arc<Plan>, folds: &Folds) -> Self {
        let rows = rows(wiring, &plan, folds);
        let mut pass = Pass {
            wiring,
            plan: &plan,
            rows: &rows,
            last_reader: vec![0; wiring.values()],
            transfers: vec![Transfer::default(); plan.partitions.len()],
        };
        pass.find_last_readers();
        let (port_starts, ports, dot, checkpoints, width) = pass.assign();
        let transfers = pass.transfers;
        Self {
            rows: rows.rows,
            order: rows.order,
            row_of_unit: rows.row_of_unit,
            port_starts,
            ports,
            dot,
            checkpoints,
            width,
            transfers,
            plan,
        }
    }

    /// The plan it shows.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of a unit.
    #[must_use]
    pub fn row_of_unit(&self, unit: UnitId) -> Option<usize> {
        self.row_of_unit.get(unit.index()).filter(|&&r| r != NONE).map(|&r| r as usize)
    }

    /// The row that shows a node.
    #[must_use]
    pub fn row_of_node(&self, node: NodeId) -> Option<usize> {
        self.row_of_unit(self.plan.view.unit_of(node))
    }

    /// The rule above a partition.
    #[must_use]
    pub fn row_of_partition(&self, partition: PartitionId) -> Option<usize> {
        let first = *self.plan.units(partition).first()?;
        let mut row = self.row_of_unit(first)?;
        while !matches!(self.rows.get(row)?.kind, RowKind::Rule(_)) {
            row = row.checked_sub(1)?;
        }
        Some(row)
    }

    /// The partition a row belongs to; `None` for inputs and outputs.
    #[must_use]
    pub fn partition_of_row(&self, row: usize) -> Option<PartitionId> {
        match self.rows.get(row)?.kind {
            RowKind::Rule(p) => Some(p),
            RowKind::Unit(u) => self.plan.partition_of.get(u.index()).copied(),
            RowKind::Folded(_) => {
                let unit = self.order.get(self.rows.get(row)?.start as usize)?;
                self.plan.partition_of.get(unit.index()).copied()
            }
            RowKind::Input(_) | RowKind::Output(_) => None,
        }
    }

    /// Units of a row, in the order of display.
    #[must_use]
    pub fn units(&self, row: &Row) -> &[UnitId] {
        self.order.get(row.start as usize..row.end as usize).unwrap_or(&[])
    }

    /// Nodes of a row.
    pub fn nodes(&self, row: &Row) -> impl Iterator<Item = NodeId> + '_ {
        nodes(&self.plan, &self.order, row)
    }

    /// Lanes that a row touches.
    #[must_use]
    pub fn ports(&self, row: usize) -> &[Port] {
        match (self.port_starts.get(row), self.port_starts.get(row + 1)) {
            (Some(&a), Some(&b)) => self.ports.get(a as usize..b as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// The lane on which the dot of a row stands.
    #[must_use]
    pub fn dot(&self, row: usize) -> u32 {
        self.dot.get(row).copied().unwrap_or(0)
    }

    /// Number of lanes at the widest place.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// What a partition is given by others.
    #[must_use]
    pub fn transfer(&self, partition: PartitionId) -> Transfer {
        self.transfers.get(partition.index()).copied().unwrap_or_default()
    }

    /// The lanes as they are above `row`, ready to be followed downwards.
    #[must_use]
    pub fn replay(&self, row: usize) -> Replay<'_> {
        let at = self.checkpoints.partition_point(|(r, _)| *r as usize <= row).saturating_sub(1);
        let (start, live) = self.checkpoints.get(at).map_or((0, Vec::new()), |(r, l)| (*r as usize, l.clone()));
        let mut replay = Replay { lanes: self, row: start, live };
        while replay.row < row.min(self.rows.len()) {
            replay.advance();
        }
        replay
    }
}

/// The lanes at one row, walking down.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    lanes: &'a Lanes,
    row: usize,
    live: Vec<u32>,
}

impl Replay<'_> {
    /// Tensor on every lane just above the current row, [`NONE`] for a free lane.
    #[must_use]
    pub fn live(&self) -> &[u32] {
        &self.live
    }

    /// Goes one row down.
    pub fn advance(&mut self) {
        apply(&mut self.live, self.lanes.ports(self.row));
        self.row += 1;
    }
}

pub(super) fn apply(live: &mut Vec<u32>, ports: &[Port]) {
    for p in ports.iter().filter(|p| !p.down) {
        if let Some(l) = live.get_mut(p.lane as usize) {
            *l = NONE;
        }
    }
    for p in ports.iter().filter(|p| p.down) {
        let lane = p.lane as usize;
        if live.len() <= lane {
            live.resize(lane + 1, NONE);
        }
        if let Some(l) = live.get_mut(lane) {
            *l = p.value;
        }
    }
    while live.last() == Some(&NONE) {
        live.pop();
    }
}

impl Pass<'_> {
    fn find_last_readers(&mut self) {
        let mut given_to = vec![NONE; self.last_reader.len()];
        let outputs = self.plan.view.model.graph.outputs();
        for (i, row) in self.rows.rows.iter().enumerate() {
            let at = i as u32;
            if let RowKind::Output(o) = row.kind {
                if let Some(last) = outputs.get(o as usize).and_then(|v| self.last_reader.get_mut(v.index())) {
                    *last = at;
                }
                continue;
            }
            let Some(&first) = self.rows.order.get(row.start as usize).filter(|_| row.start < row.end) else { continue };
            let Some(&partition) = self.plan.partition_of.get(first.index()) else { continue };
            for node in nodes(self.plan, &self.rows.order, row) {
                for &v in self.wiring.reads(node) {
                    let Some(last) = self.last_reader.get_mut(v as usize) else { continue };
                    *last = at;
                    let Some(given) = given_to.get_mut(v as usize).filter(|g| **g != partition.0) else { continue };
                    let Some(producer) = self.wiring.producer(v) else { continue };
                    if self.plan.partition_of_node(producer) == partition {
                        continue;
                    }
                    *given = partition.0;
                    if let Some(t) = self.transfers.get_mut(partition.index()) {
                        t.tensors += 1;
                        match self.wiring.bytes(ValueId(v)) {
                            Some(b) => t.bytes = t.bytes.saturating_add(b),
                            None => t.open = true,
                        }
                    }
                }
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn assign(&self) -> (Vec<u32>, Vec<Port>, Vec<u32>, Vec<(u32, Vec<u32>)>, u32) {
        let count = self.rows.rows.len();
        let graph = &self.plan.view.model.graph;
        let mut starts = Vec::with_capacity(count + 1);
        let mut ports: Vec<Port> = Vec::with_capacity(2 * count);
        let mut dots = Vec::with_capacity(count);
        let mut checkpoints = Vec::new();
        let mut lane_of = vec![NONE; self.last_reader.len()];
        let mut seen = vec![NONE; self.last_reader.len()];
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        let mut live: Vec<u32> = Vec::new();
        let mut width = 0u32;
        let mut since = usize::MAX;
        starts.push(0);
        for (i, row) in self.rows.rows.iter().enumerate() {
            if since >= CHECKPOINT_ROWS.max(live.len()) {
                checkpoints.push((i as u32, live.clone()));
                since = 0;
            }
            since += 1;
            let at = i as u32;
            let begin = ports.len();
            let read = |v: u32, ports: &mut Vec<Port>, seen: &mut Vec<u32>| {
                let lane = lane_of.get(v as usize).copied().unwrap_or(NONE);
                if lane == NONE || seen.get(v as usize) == Some(&at) {
                    return;
                }
                if let Some(s) = seen.get_mut(v as usize) {
                    *s = at;
                }
                let down = self.last_reader.get(v as usize).is_some_and(|&l| l > at);
                ports.push(Port { lane, value: v, up: true, down });
            };
            match row.kind {
                RowKind::Output(o) => {
                    if let Some(v) = graph.outputs().get(o as usize) {
                        read(v.0, &mut ports, &mut seen);
                    }
                }
                RowKind::Unit(_) | RowKind::Folded(_) => {
                    for node in nodes(self.plan, &self.rows.order, row) {
                        for &v in self.wiring.reads(node) {
                            read(v, &mut ports, &mut seen);
                        }
                    }
                }
                RowKind::Input(_) | RowKind::Rule(_) => {}
            }
            // A lane that ends here is free at once: the row's own result goes on in it, which keeps trunks straight.
            let mut trunk = NONE;
            for p in ports.get(begin..).unwrap_or(&[]).iter().filter(|p| !p.down) {
                free.push(Reverse(p.lane));
                trunk = trunk.min(p.lane);
            }
            let mut dot = NONE;
            let mut write = |v: u32, ports: &mut Vec<Port>, lane_of: &mut Vec<u32>| {
                if !self.wiring.has_lane(v) || self.last_reader.get(v as usize).is_none_or(|&l| l <= at) {
                    return;
                }
                let lane = match free.pop() {
                    Some(Reverse(lane)) => lane,
                    None => {
                        width += 1;
                        width - 1
                    }
                };
                dot = if dot == NONE { lane } else { dot };
                if let Some(l) = lane_of.get_mut(v as usize) {
                    *l = lane;
                }
                ports.push(Port { lane, value: v, up: false, down: true });
            };
            match row.kind {
                RowKind::Input(n) => {
                    if let Some(v) = graph.inputs().get(n as usize) {
                        write(v.0, &mut ports, &mut lane_of);
                    }
                }
                RowKind::Unit(_) | RowKind::Folded(_) => {
                    for node in nodes(self.plan, &self.rows.order, row) {
                        for &v in self.wiring.writes(node) {
                            write(v, &mut ports, &mut lane_of);
                        }
                    }
                }
                RowKind::Output(_) | RowKind::Rule(_) => {}
            }
            let own = ports.get(begin..).unwrap_or(&[]);
            if dot == NONE {
                // Nothing goes on from here: the dot stands where the first input comes in, or in the leftmost gap.
                dot = own.first().map_or_else(|| free.peek().map_or(width, |l| l.0), |p| p.lane);
            }
            apply(&mut live, own);
            dots.push(dot);
            starts.push(u32::try_from(ports.len()).unwrap_or(NONE));
        }
        (starts, ports, dots, checkpoints, width)
    }
}
