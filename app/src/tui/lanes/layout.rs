//! Lanes: one linear pass that gives every live tensor the leftmost free lane.

use std::ops::Range;
use std::sync::Arc;

use recut_core::graph::{NodeId, ValueId};
use recut_core::modules::ModuleId;
use recut_core::partition::{PartitionId, Plan};
use recut_core::view::{Unit, UnitId};

use super::rows::{Folds, Row, RowKind};
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
    drawn: Drawn,
    cells: Vec<Cell>,
}

/// What a layout is made of. Its memory serves the next layout: fresh pages would cost more than the pass.
#[derive(Clone, Debug, Default)]
struct Drawn {
    rows: Vec<Row>,
    port_starts: Vec<u32>,
    ports: Vec<Port>,
    dot: Vec<u32>,
    /// Rows at which the lanes are stored, and where in `stored`.
    checkpoints: Vec<(u32, u32)>,
    stored: Vec<u32>,
    width: u32,
    /// By partition.
    transfers: Vec<Transfer>,
    /// Where the values begin in `given` that a partition takes, by partition.
    given_starts: Vec<u32>,
    given: Vec<u32>,
}

/// Rows between two stored states of the lanes, unless more lanes are live than this.
const CHECKPOINT_ROWS: usize = 64;

/// What the pass knows of a value.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Readers that are still to come; 0 from the start for a value without a lane.
    left: u32,
    /// The lane it is on.
    lane: u32,
    /// The last partition that has it: made it or was given it; [`CALLER`] for an input of the model, [`NONE`] for a constant
    /// of the file.
    home: u32,
    /// The last row that has a port of it.
    row: u32,
    /// Whether another partition than that which made it, or the caller, gets it.
    leaves: bool,
}

/// In place of a partition: who feeds the model.
const CALLER: u32 = NONE - 1;

impl Lanes {
    /// Lays out `plan` with `folds`. Linear in units and edges.
    #[must_use]
    pub fn new(wiring: &Wiring, plan: Arc<Plan>, folds: &Folds) -> Self {
        let mut lanes = Self { plan, drawn: Drawn::default(), cells: Vec::new() };
        lanes.draw(wiring, folds);
        lanes
    }

    /// Lays out another plan, or other folds, in the same memory.
    pub fn renew(&mut self, wiring: &Wiring, plan: Arc<Plan>, folds: &Folds) {
        self.plan = plan;
        self.draw(wiring, folds);
    }

    fn draw(&mut self, wiring: &Wiring, folds: &Folds) {
        let plan = &*self.plan;
        let out = &mut self.drawn;
        let graph = &plan.view.model.graph;
        let rows = plan.view.units().len() + plan.partitions.len() + graph.inputs().len() + graph.outputs().len();
        out.rows.clear();
        out.rows.reserve(rows);
        out.port_starts.clear();
        out.port_starts.reserve(rows + 1);
        out.port_starts.push(0);
        out.dot.clear();
        out.dot.reserve(rows);
        out.ports.clear();
        out.checkpoints.clear();
        out.stored.clear();
        out.width = 0;
        out.transfers.clear();
        out.transfers.resize(plan.partitions.len(), Transfer::default());
        out.given.clear();
        out.given_starts.clear();
        self.cells.clear();
        self.cells.extend(wiring.lane_readers().iter().map(|&left| Cell { left, lane: NONE, home: NONE, row: NONE, leaves: false }));
        let pass = Pass { wiring, plan, out, cells: &mut self.cells, free: FreeLanes::default(), live: Vec::new(), since: usize::MAX };
        pass.run(&folds.resolve(&plan.view.model.modules));
    }

    /// The plan it shows.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.drawn.rows
    }

    /// The row of a unit.
    #[must_use]
    pub fn row_of_unit(&self, unit: UnitId) -> Option<usize> {
        let plan = &self.plan;
        let partition = *plan.partition_of.get(unit.index())?;
        let before = plan.members.start(partition.index());
        let at = (before + plan.units(partition).binary_search(&unit).ok()?) as u32;
        // Rows cover the units in this order; a row without units ends where the one before does.
        Some(self.drawn.rows.partition_point(|r| r.end <= at))
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
        while !matches!(self.drawn.rows.get(row)?.kind, RowKind::Rule(_)) {
            row = row.checked_sub(1)?;
        }
        Some(row)
    }

    /// The partition a row belongs to; `None` for inputs and outputs.
    #[must_use]
    pub fn partition_of_row(&self, row: usize) -> Option<PartitionId> {
        match self.drawn.rows.get(row)?.kind {
            RowKind::Rule(p) => Some(p),
            RowKind::Unit(u) => self.plan.partition_of.get(u.index()).copied(),
            RowKind::Folded(_) => {
                let unit = self.units(self.drawn.rows.get(row)?).first()?;
                self.plan.partition_of.get(unit.index()).copied()
            }
            RowKind::Input(_) | RowKind::Output(_) => None,
        }
    }

    /// Units of a row, in the order of display.
    #[must_use]
    pub fn units(&self, row: &Row) -> &[UnitId] {
        self.plan.units_in_order().get(row.start as usize..row.end as usize).unwrap_or(&[])
    }

    /// Nodes of a row.
    pub fn nodes(&self, row: &Row) -> impl Iterator<Item = NodeId> + '_ {
        self.units(row).iter().flat_map(|&u| self.plan.view.nodes(u))
    }

    /// Lanes that a row touches.
    #[must_use]
    pub fn ports(&self, row: usize) -> &[Port] {
        let drawn = &self.drawn;
        match (drawn.port_starts.get(row), drawn.port_starts.get(row + 1)) {
            (Some(&a), Some(&b)) => drawn.ports.get(a as usize..b as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// The lane on which the dot of a row stands.
    #[must_use]
    pub fn dot(&self, row: usize) -> u32 {
        self.drawn.dot.get(row).copied().unwrap_or(0)
    }

    /// Number of lanes at the widest place.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.drawn.width
    }

    /// What a partition is given by others.
    #[must_use]
    pub fn transfer(&self, partition: PartitionId) -> Transfer {
        self.drawn.transfers.get(partition.index()).copied().unwrap_or_default()
    }

    /// Values that a partition takes from others and from the caller, constants excepted, in the order of first use.
    #[must_use]
    pub fn given(&self, partition: PartitionId) -> &[u32] {
        let drawn = &self.drawn;
        match (drawn.given_starts.get(partition.index()), drawn.given_starts.get(partition.index() + 1)) {
            (Some(&a), Some(&b)) => drawn.given.get(a as usize..b as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// Whether a value that a node makes is used in another partition or is an output of the model.
    #[must_use]
    pub fn leaves(&self, value: u32) -> bool {
        self.cells.get(value as usize).is_some_and(|c| c.leaves)
    }

    /// The lanes as they are above `row`, ready to be followed downwards.
    #[must_use]
    pub fn replay(&self, row: usize) -> Replay<'_> {
        let drawn = &self.drawn;
        let at = drawn.checkpoints.partition_point(|&(r, _)| r as usize <= row);
        let stored = |at: usize| drawn.checkpoints.get(at).map(|&(_, from)| from as usize);
        let (start, live) = match at.checked_sub(1).and_then(|i| Some((drawn.checkpoints.get(i)?.0 as usize, stored(i)?))) {
            Some((start, from)) => (start, drawn.stored.get(from..stored(at).unwrap_or(drawn.stored.len())).unwrap_or(&[]).to_vec()),
            None => (0, Vec::new()),
        };
        let mut replay = Replay { lanes: self, row: start, live };
        while replay.row < row.min(drawn.rows.len()) {
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

/// The lanes that are free, left of the widest place.
#[derive(Debug, Default)]
struct FreeLanes {
    words: Vec<u64>,
    /// Words before this one are empty.
    first: usize,
}

impl FreeLanes {
    fn insert(&mut self, lane: u32) {
        let word = lane as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(w) = self.words.get_mut(word) {
            *w |= 1 << (lane % 64);
        }
        self.first = self.first.min(word);
    }

    /// The leftmost one.
    fn first(&mut self) -> Option<u32> {
        while let Some(&w) = self.words.get(self.first) {
            if w != 0 {
                return Some(self.first as u32 * 64 + w.trailing_zeros());
            }
            self.first += 1;
        }
        None
    }

    /// Takes the leftmost one.
    fn take(&mut self) -> Option<u32> {
        let lane = self.first()?;
        if let Some(w) = self.words.get_mut(self.first) {
            *w &= *w - 1;
        }
        Some(lane)
    }
}

/// The one pass from the first row to the last.
struct Pass<'a> {
    wiring: &'a Wiring,
    plan: &'a Plan,
    out: &'a mut Drawn,
    cells: &'a mut [Cell],
    free: FreeLanes,
    live: Vec<u32>,
    /// Rows since the last checkpoint.
    since: usize,
}

impl Pass<'_> {
    fn run(mut self, fold_of: &[u32]) {
        let plan = self.plan;
        let graph = &plan.view.model.graph;
        for (i, v) in (0u32..).zip(graph.inputs()) {
            let begin = self.begin(RowKind::Input(i), 0..0);
            let dot = self.write(v.0, CALLER, NONE);
            self.end(begin, dot);
        }
        let folds = fold_of.iter().any(|&f| f != NONE);
        let fold = |u: UnitId| match plan.view.unit(u) {
            Unit::Node(n) if folds => fold_of.get(self.wiring.module(n) as usize).copied().unwrap_or(NONE),
            _ => NONE,
        };
        let mut start = 0;
        for p in (0..plan.partitions.len()).map(PartitionId::new) {
            self.out.given_starts.push(self.out.given.len() as u32);
            let begin = self.begin(RowKind::Rule(p), start..start);
            self.end(begin, NONE);
            let mut units = plan.units(p);
            while let Some(&unit) = units.first() {
                let module = fold(unit);
                let run = if module == NONE { 1 } else { units.iter().take_while(|&&u| fold(u) == module).count() };
                let (row, rest) = units.split_at(run);
                units = rest;
                let end = start + row.len() as u32;
                let kind = if module == NONE { RowKind::Unit(unit) } else { RowKind::Folded(ModuleId(module)) };
                let begin = self.begin(kind, start..end);
                self.units(p, row, begin);
                start = end;
            }
        }
        self.out.given_starts.push(self.out.given.len() as u32);
        for (i, v) in (0u32..).zip(graph.outputs()) {
            let begin = self.begin(RowKind::Output(i), start..start);
            self.read(v.0, CALLER);
            self.close_reads(begin);
            self.end(begin, NONE);
        }
    }

    /// Reads and writes of the nodes of a row.
    fn units(&mut self, p: PartitionId, units: &[UnitId], begin: usize) {
        let (view, wiring) = (&self.plan.view, self.wiring);
        let mut dot = NONE;
        if let [unit] = units
            && let Unit::Node(n) = view.unit(*unit)
        {
            wiring.reads(n).iter().for_each(|&v| self.read(v, p.0));
            self.close_reads(begin);
            wiring.writes(n).iter().for_each(|&v| dot = self.write(v, p.0, dot));
        } else {
            let nodes = || units.iter().flat_map(|&u| view.nodes(u));
            nodes().flat_map(|n| wiring.reads(n)).for_each(|&v| self.read(v, p.0));
            self.close_reads(begin);
            nodes().flat_map(|n| wiring.writes(n)).for_each(|&v| dot = self.write(v, p.0, dot));
        }
        self.end(begin, dot);
    }

    /// Opens a row; gives where its ports begin.
    fn begin(&mut self, kind: RowKind, units: Range<u32>) -> usize {
        if self.since >= CHECKPOINT_ROWS.max(self.live.len()) {
            self.out.checkpoints.push((self.out.rows.len() as u32, self.out.stored.len() as u32));
            self.out.stored.extend_from_slice(&self.live);
            self.since = 0;
        }
        self.since += 1;
        self.out.rows.push(Row { kind, start: units.start, end: units.end });
        self.out.ports.len()
    }

    /// The current row, in partition `home` (or [`CALLER`]), reads a value.
    fn read(&mut self, v: u32, home: u32) {
        let row = self.out.rows.len() as u32;
        let Some(cell) = self.cells.get_mut(v as usize) else { return };
        cell.left = cell.left.saturating_sub(1);
        if cell.home != home && cell.home != NONE {
            cell.home = home;
            cell.leaves = true;
            self.give(v, home);
        }
        let Some(cell) = self.cells.get_mut(v as usize) else { return };
        if cell.lane != NONE && cell.row != row {
            cell.row = row;
            self.out.ports.push(Port { lane: cell.lane, value: v, up: true, down: true });
        }
    }

    /// Partition `to`, or the caller, is given a value.
    fn give(&mut self, v: u32, to: u32) {
        let Some(t) = self.out.transfers.get_mut(to as usize) else { return };
        if !self.wiring.is_constant(v) {
            self.out.given.push(v);
        }
        if self.wiring.producer(v).is_some() {
            t.tensors += 1;
            match self.wiring.bytes(ValueId(v)) {
                Some(b) => t.bytes = t.bytes.saturating_add(b),
                None => t.open = true,
            }
        }
    }

    /// All reads of the row are known. A lane that ends here is free at once: the row's own result goes on in it, which
    /// keeps trunks straight.
    fn close_reads(&mut self, begin: usize) {
        for p in self.out.ports.get_mut(begin..).into_iter().flatten() {
            p.down = self.cells.get(p.value as usize).is_some_and(|c| c.left > 0);
            if !p.down {
                self.free.insert(p.lane);
                if let Some(l) = self.live.get_mut(p.lane as usize) {
                    *l = NONE;
                }
            }
        }
    }

    /// The current row, in partition `home` (or [`CALLER`]), makes a value. Gives the lane of the row's dot, which was `dot`.
    fn write(&mut self, v: u32, home: u32, dot: u32) -> u32 {
        let Some(cell) = self.cells.get_mut(v as usize) else { return dot };
        cell.home = home;
        if cell.left == 0 {
            return dot;
        }
        let lane = self.free.take().unwrap_or_else(|| {
            self.out.width += 1;
            self.out.width - 1
        });
        cell.lane = lane;
        if self.live.len() <= lane as usize {
            self.live.resize(lane as usize + 1, NONE);
        }
        if let Some(l) = self.live.get_mut(lane as usize) {
            *l = v;
        }
        self.out.ports.push(Port { lane, value: v, up: false, down: true });
        if dot == NONE { lane } else { dot }
    }

    /// Closes a row whose ports begin at `begin`.
    fn end(&mut self, begin: usize, mut dot: u32) {
        if dot == NONE {
            // Nothing goes on from here: the dot stands where the first input comes in, or in the leftmost gap.
            dot = match self.out.ports.get(begin) {
                Some(p) => p.lane,
                None => self.free.first().unwrap_or(self.out.width),
            };
        }
        while self.live.last() == Some(&NONE) {
            self.live.pop();
        }
        self.out.dot.push(dot);
        self.out.port_starts.push(u32::try_from(self.out.ports.len()).unwrap_or(NONE));
    }
}
