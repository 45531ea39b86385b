//! Atomic groups: units that no partitioning may take apart.
//!
//! * A quantized operator (`DequantizeLinear`s, operator, `QuantizeLinear`s), as long as all of it is accelerated or the
//!   backend refuses a part of it. Where a user's marks put its parts in different places, the user has taken it apart
//!   on purpose, and it binds nothing.
//! * A leaf module: one instance, one call. It binds in torch as well.
//! * Accelerated units with a value between them that is no tensor.
//! * `If`, `Loop` and the like with their bodies, which are one unit anyway.
//!
//! Groups are contracted; those that form a cycle with each other or with units between them become one. A group that
//! holds torch and accelerated units goes to torch.

use std::sync::Arc;

use super::buffers::Buffers;
use super::levels::{self, LevelGraph, Pairs, Slots, after_all, before_all, held};
use super::{Colouring, Marks, Placement, Rule};
use crate::diagnostic::{Diagnostic, printable};
use crate::graph::{Csr, Digraph, ValueId};
use crate::view::{Unit, UnitId, View};

/// Why units belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// An operator with its `DequantizeLinear` and `QuantizeLinear`.
    Quantized,
    /// A module that is never split: entry of [`Marks::leaf_modules`].
    LeafModule(u32),
    /// A value between them is no tensor.
    NonTensor(ValueId),
}

/// Units that stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtomicGroup {
    /// Why.
    pub kind: GroupKind,
    /// Its units, ascending.
    pub units: Vec<UnitId>,
    /// Whether its units had to share a partition in the end. A quantized operator or units with a value that is no tensor
    /// between them are free again once all of them run in torch.
    pub bound: bool,
}

impl AtomicGroup {
    /// The group in words (`quantized operator conv1`), for messages.
    #[must_use]
    pub fn describe(&self, view: &View) -> String {
        let first = self.units.first().map_or("", |&u| view.stable_id(u));
        match self.kind {
            GroupKind::Quantized => format!("quantized operator around {}", printable(first)),
            GroupKind::NonTensor(v) => format!("units that share {}, which is no tensor", printable(&view.model.graph.value(v).name)),
            GroupKind::LeafModule(_) => {
                let modules = &view.model.modules;
                let owners = self.units.iter().filter_map(|&u| match view.unit(u) {
                    Unit::Node(n) => Some(view.model.graph.node(n).module),
                    Unit::Wrap(_) => None,
                });
                let common = owners.reduce(|a, b| modules.ancestors(a).find(|&m| modules.is_within(b, m)).unwrap_or(a));
                let path = common.map_or("", |m| &modules.module(m).path);
                format!("leaf module {}", if path.is_empty() { "(the whole model)".into() } else { printable(path) })
            }
        }
    }
}

/// Levels the view with its atomic groups; gives the slot of every unit and the groups that bound.
pub(super) fn level(
    view: &Arc<View>,
    marks: &Marks,
    colours: &mut Colouring,
    problems: &mut Vec<Diagnostic>,
    min_block_size: u32,
    buffers: &mut Buffers,
) -> (Slots, Vec<AtomicGroup>) {
    let mut known: Vec<AtomicGroup> = Vec::new();
    let mut dropped: Vec<AtomicGroup> = Vec::new();
    let mut lower_bound = None;
    // Usually one round; another one where a group lost its hold, or gave it up by going to torch.
    let slots = loop {
        let mut groups = active(view, marks, colours);
        groups.retain(|g| !dropped.contains(g));
        if groups.is_empty() {
            break level_units(view, colours, min_block_size, buffers);
        }
        let c = Contraction::new(view, &groups);
        let torn = c.torn_apart(&groups, colours);
        if !torn.is_empty() {
            release(view, &groups, &torn, &mut dropped, colours, problems);
            continue;
        }
        if c.unmix(view, &groups, &mut known, colours, problems) {
            continue;
        }
        let slots = c.level(view, colours, min_block_size, buffers);
        lower_bound.get_or_insert(slots.lower_bound);
        let freed = |g: &AtomicGroup| {
            let first = g.units.first().map_or(Rule::Default, |u| colours.rule[u.index()]);
            first == Rule::MinBlockSize && !matches!(g.kind, GroupKind::LeafModule(_))
        };
        if !slots.demoted.is_empty() && groups.iter().any(freed) {
            continue;
        }
        known.extend(groups);
        break slots;
    };
    (Slots { lower_bound: lower_bound.unwrap_or(slots.lower_bound), ..slots }, known)
}

/// Levels the view without groups.
fn level_units(view: &View, colours: &mut Colouring, min_block_size: u32, buffers: &mut Buffers) -> Slots {
    let facts = &view.facts;
    let g = LevelGraph {
        preds: &view.preds,
        succs: &view.succs,
        opaque: !view.wraps().is_empty() || !facts.foreign.is_empty(),
        pred_pairs: &facts.pred_pairs,
        succ_pairs: &facts.succ_pairs,
        held: &facts.held,
        compute: &facts.compute,
        out_bytes: &facts.out_bytes,
    };
    let rule = &colours.rule;
    let slots = levels::level(g, &mut colours.placement, |u| matches!(rule[u], Rule::PinAccelerated(_)), min_block_size, buffers);
    for &u in &slots.demoted {
        colours.rule[u as usize] = Rule::MinBlockSize;
    }
    slots
}

/// Gives up groups that an opaque unit tears apart: those that someone wishes first; where only values that are no
/// tensors tie the units, these go to torch.
fn release(
    view: &View,
    groups: &[AtomicGroup],
    torn: &[(usize, UnitId)],
    dropped: &mut Vec<AtomicGroup>,
    colours: &mut Colouring,
    problems: &mut Vec<Diagnostic>,
) {
    let mut wished = false;
    for &(g, opaque) in torn.iter().filter(|(g, _)| !matches!(groups[*g].kind, GroupKind::NonTensor(_))) {
        let message = format!(
            "{} cannot stay whole: {}, which is opaque, lies on a path that leaves it and returns",
            groups[g].describe(view),
            printable(view.stable_id(opaque))
        );
        problems.push(Diagnostic::warning("group_not_kept", message));
        dropped.push(groups[g].clone());
        wished = true;
    }
    if wished {
        return;
    }
    for &(g, opaque) in torn {
        let id = printable(view.stable_id(opaque));
        let why = format!("{id}, which is opaque, lies between units that share a value which is no tensor");
        for &u in &groups[g].units {
            if colours.placement[u.index()] == Placement::Accelerated {
                colours.demote(view, u, Rule::NonTensorOutput, problems, &why);
            }
        }
    }
    super::colour::keep_to_tensors(view, colours, problems);
}

/// The groups that bind under these colours.
fn active(view: &View, marks: &Marks, colours: &Colouring) -> Vec<AtomicGroup> {
    let facts = &view.facts;
    let accelerated = |u: &UnitId| colours.placement[u.index()] == Placement::Accelerated;
    let marked = |u: &UnitId| {
        matches!(colours.rule[u.index()], Rule::PinAccelerated(_) | Rule::PinTorch(_) | Rule::TorchModule(_) | Rule::TorchOp(_))
    };
    let mut groups = Vec::new();
    for units in &facts.qdq {
        let some = units.iter().any(accelerated);
        let mixed = some && !units.iter().all(accelerated);
        if some && !(mixed && units.iter().any(marked)) {
            groups.push(AtomicGroup { kind: GroupKind::Quantized, units: units.clone(), bound: true });
        }
    }
    for v in &facts.non_tensor {
        let units = || v.producer.iter().chain(&v.consumers);
        if units().next().is_some() && units().all(accelerated) {
            let mut units: Vec<UnitId> = units().copied().collect();
            units.sort_unstable();
            groups.push(AtomicGroup { kind: GroupKind::NonTensor(v.value), units, bound: true });
        }
    }
    for (i, set) in marks.leaf_modules.iter().enumerate() {
        // Calls of one module are instances of their own.
        let mut by_call: std::collections::BTreeMap<Option<u32>, Vec<UnitId>> = std::collections::BTreeMap::new();
        for n in set.iter().take_while(|n| n.index() < view.unit_of.len()) {
            let u = view.unit_of(n);
            if colours.placement[u.index()] != Placement::Opaque {
                by_call.entry(view.model.graph.node(n).call).or_default().push(u);
            }
        }
        for mut units in by_call.into_values() {
            units.sort_unstable();
            groups.push(AtomicGroup { kind: GroupKind::LeafModule(i as u32), units, bound: true });
        }
    }
    groups.retain(|g| g.units.len() > 1);
    groups
}

/// The view with groups (and what forms a cycle with them) contracted to one vertex each.
struct Contraction {
    /// Vertex of every unit. Vertices are numbered in topological order.
    vertex_of: Vec<u32>,
    /// Units of every vertex, ascending.
    units: Csr,
    preds: Csr,
}

impl Contraction {
    fn new(view: &View, groups: &[AtomicGroup]) -> Self {
        let n = view.units().len();
        let mut sets = DisjointSets::new(n);
        for g in groups {
            for pair in g.units.windows(2) {
                sets.unite(pair[0].0, pair[1].0);
            }
        }
        let part_of: Vec<u32> = (0..n as u32).map(|u| sets.find(u)).collect();
        let part_preds = view.preds.contracted(n, &part_of);
        let part_succs = part_preds.transposed(n);
        let parts: Vec<u32> = (0..n as u32).filter(|&u| part_of[u as usize] == u).collect();
        let components = Digraph::new(&parts, &part_preds, &part_succs).components();
        let count = components.len();
        let mut vertex_of_part = vec![0; n];
        for (vertex, parts) in (0u32..).zip(&components) {
            parts.iter().for_each(|&p| vertex_of_part[p as usize] = vertex);
        }
        let vertex_of: Vec<u32> = part_of.iter().map(|&p| vertex_of_part[p as usize]).collect();
        let units = Csr::from_pairs(count, vertex_of.iter().enumerate().map(|(u, &v)| (v, u as u32)));
        let preds = view.preds.contracted(count, &vertex_of);
        Self { vertex_of, units, preds }
    }

    fn members(&self, vertex: u32) -> &[UnitId] {
        bytemuck::TransparentWrapper::wrap_slice(self.units.row(vertex as usize))
    }

    /// Groups that cannot stay whole, with an opaque unit that stands against it: it is always a partition of its own.
    fn torn_apart(&self, groups: &[AtomicGroup], colours: &Colouring) -> Vec<(usize, UnitId)> {
        let torn = |(g, group): (usize, &AtomicGroup)| {
            let vertex = self.vertex_of[group.units.first()?.index()];
            let opaque = |u: &&UnitId| colours.placement[u.index()] == Placement::Opaque;
            self.members(vertex).iter().find(opaque).map(|&u| (g, u))
        };
        groups.iter().enumerate().filter_map(torn).collect()
    }

    /// A vertex with torch and accelerated units goes to torch. Says whether there was any.
    fn unmix(
        &self,
        view: &View,
        groups: &[AtomicGroup],
        known: &mut Vec<AtomicGroup>,
        colours: &mut Colouring,
        problems: &mut Vec<Diagnostic>,
    ) -> bool {
        let mut any = false;
        for group in groups {
            let Some(first) = group.units.first() else { continue };
            let members = self.members(self.vertex_of[first.index()]);
            let accelerated = |u: &&UnitId| colours.placement[u.index()] == Placement::Accelerated;
            let demoted: Vec<UnitId> = members.iter().filter(accelerated).copied().collect();
            if demoted.is_empty() || demoted.len() == members.len() {
                continue;
            }
            any = true;
            let why = format!("its atomic group ({}) holds units that run in torch", group.describe(view));
            for u in demoted {
                colours.demote(view, u, Rule::AtomicGroup(known.len() as u32), problems, &why);
            }
            known.push(AtomicGroup { bound: false, ..group.clone() });
        }
        any
    }

    /// Levels the vertices and gives every unit the slot of its vertex.
    fn level(&self, view: &View, colours: &mut Colouring, min_block_size: u32, buffers: &mut Buffers) -> Slots {
        let vertices = self.units.rows();
        let sum = |of: &[u32]| -> Vec<u32> {
            (0..vertices as u32).map(|v| self.members(v).iter().fold(0u32, |n, u| n.saturating_add(of[u.index()]))).collect()
        };
        let (compute, out_bytes) = (sum(&view.facts.compute), sum(&view.facts.out_bytes));
        let succs = self.preds.transposed(vertices);
        let placed = |v: u32| self.members(v).first().map_or(Placement::Torch, |u| colours.placement[u.index()]);
        let mut placement: Vec<Placement> = (0..vertices as u32).map(placed).collect();
        let rule = &colours.rule;
        let pinned = |v: usize| self.members(v as u32).iter().any(|u| matches!(rule[u.index()], Rule::PinAccelerated(_)));
        let pred_pairs = Pairs::new(&self.preds, before_all(vertices));
        let succ_pairs = Pairs::new(&succs, after_all(vertices));
        let held = held(&succs);
        let g = LevelGraph {
            preds: &self.preds,
            succs: &succs,
            opaque: true,
            pred_pairs: &pred_pairs,
            succ_pairs: &succ_pairs,
            held: &held,
            compute: &compute,
            out_bytes: &out_bytes,
        };
        let slots = levels::level(g, &mut placement, pinned, min_block_size, buffers);
        let mut demoted: Vec<u32> = slots.demoted.iter().flat_map(|&v| self.units.row(v as usize)).copied().collect();
        demoted.sort_unstable();
        for &u in &demoted {
            colours.put(u as usize, Placement::Torch, Rule::MinBlockSize);
        }
        let slot = self.vertex_of.iter().map(|&v| slots.slot[v as usize]).collect();
        // The counts were of vertices.
        Slots { slot, demoted, count: Vec::new(), ..slots }
    }
}

/// Sets of units; the smallest member stands for a set.
struct DisjointSets {
    parent: Vec<u32>,
}

impl DisjointSets {
    fn new(n: usize) -> Self {
        Self { parent: (0..n as u32).collect() }
    }

    fn find(&mut self, mut u: u32) -> u32 {
        while self.parent[u as usize] != u {
            // Path halving.
            let up = self.parent[self.parent[u as usize] as usize];
            self.parent[u as usize] = up;
            u = up;
        }
        u
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }
}
