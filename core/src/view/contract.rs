//! Making the effective graph: contraction of wraps, and the order of units.

use std::sync::Arc;

use super::{Absorbed, Facts, Unit, UnitId, View, WrapError, WrapRegion, WrapRequest};
use crate::graph::{Csr, Graph, NodeId, ValueId, ValueKind, ValueType};
use crate::model::Model;

/// No wrap, in arrays of wrap indices.
const NONE: u32 = u32::MAX;

impl View {
    /// The effective graph under `wraps`.
    ///
    /// # Errors
    /// The first wrap that cannot be contracted: without nodes, overlapping another, with a border that something
    /// other than tensors crosses, not convex, or without output.
    pub fn new(model: Arc<Model>, wraps: &[WrapRequest]) -> Result<Self, WrapError> {
        let node_preds = node_preds(&model.graph);
        if wraps.is_empty() {
            return Ok(Self::identity(model, node_preds));
        }
        let Outermost { requests, owner, absorbed } = Outermost::find(&model.graph, wraps)?;
        let mut regions = Vec::with_capacity(requests.len());
        for (w, request) in requests.iter().enumerate() {
            regions.push(region(&model.graph, request, w as u32, &owner)?);
        }
        let parts = Parts::new(&node_preds, &owner, regions.len());
        let order = match parts.order() {
            Ok(order) => order,
            Err(cycle) => return Err(parts.blame(&model.graph, &node_preds, &owner, &regions, &cycle)),
        };
        if let Some(empty) = regions.iter().find(|r| r.outputs.is_empty()) {
            return Err(WrapError::NoOutput { id: empty.id.to_string() });
        }
        Ok(parts.finish(model, &order, regions, absorbed))
    }

    /// Without wraps unit `i` is node `i`.
    fn identity(model: Arc<Model>, preds: Csr) -> Self {
        let nodes = model.graph.nodes().len();
        let succs = preds.transposed(nodes);
        let unit_of: Vec<UnitId> = (0..nodes as u32).map(UnitId).collect();
        let units: Vec<Unit> = (0..nodes as u32).map(|n| Unit::Node(NodeId(n))).collect();
        let facts = Arc::new(Facts::new(&model, &units, &unit_of, &[], &preds, &succs));
        Self { model, units, unit_of, wraps: Vec::new(), absorbed: Vec::new(), preds, succs, facts }
    }
}

/// Producers that each node reads from, each once, ascending.
fn node_preds(graph: &Graph) -> Csr {
    let mut starts = Vec::with_capacity(graph.nodes().len() + 1);
    let mut items: Vec<u32> = Vec::with_capacity(graph.nodes().len() * 2);
    starts.push(0);
    for node in graph.nodes() {
        let begin = items.len();
        items.extend(node.reads().filter_map(|v| graph.producer(v)).map(|n| n.0));
        Csr::close_row(&mut items, begin);
        starts.push(items.len() as u32);
    }
    Csr::from_rows(starts, items)
}

/// The wraps that become units, and the wrap of every node.
struct Outermost<'a> {
    requests: Vec<&'a WrapRequest>,
    owner: Vec<u32>,
    absorbed: Vec<Absorbed>,
}

impl<'a> Outermost<'a> {
    /// Larger wraps claim their nodes first; a later one lies inside one of them, beside them all, or overlaps.
    fn find(graph: &Graph, wraps: &'a [WrapRequest]) -> Result<Self, WrapError> {
        if let Some(w) = wraps.iter().find(|w| w.nodes.is_empty()) {
            return Err(WrapError::Empty { id: w.id.to_string(), select: w.select.to_string() });
        }
        let sizes: Vec<usize> = wraps.iter().map(|w| w.nodes.count()).collect();
        let mut by_size: Vec<usize> = (0..wraps.len()).collect();
        by_size.sort_by_key(|&w| std::cmp::Reverse(sizes[w]));
        let mut owner = vec![NONE; graph.nodes().len()];
        let mut inside = vec![NONE; wraps.len()];
        let mut overlaps = Vec::new();
        for &w in &by_size {
            let mut owners = wraps[w].nodes.iter().map(|n| owner[n.index()]);
            let first = owners.next().unwrap_or(NONE);
            let same = owners.all(|o| o == first);
            if same && first == NONE {
                wraps[w].nodes.iter().for_each(|n| owner[n.index()] = w as u32);
            } else if same && sizes[first as usize] > sizes[w] {
                inside[w] = first;
            } else {
                overlaps.push(w);
            }
        }
        if let Some(&w) = overlaps.iter().min() {
            let shared = || wraps[w].nodes.iter().filter(|n| owner[n.index()] != NONE);
            let other = shared().next().map_or(NONE, |n| owner[n.index()]);
            let nodes = shared().filter(|n| owner[n.index()] == other).take(5).map(|n| graph.stable_id(n).to_owned());
            return Err(WrapError::Overlap {
                id: wraps[w].id.to_string(),
                other: wraps.get(other as usize).map_or_else(String::new, |o| o.id.to_string()),
                nodes: nodes.collect(),
            });
        }
        let absorbed = (0..wraps.len())
            .filter(|&w| inside[w] != NONE)
            .map(|w| Absorbed { inner: wraps[w].id.clone(), outer: wraps[inside[w] as usize].id.clone() })
            .collect();
        // Indices of the requests become indices of the regions.
        let mut rank = vec![NONE; wraps.len()];
        let mut requests = Vec::new();
        for (w, request) in wraps.iter().enumerate().filter(|(w, _)| inside[*w] == NONE) {
            rank[w] = requests.len() as u32;
            requests.push(request);
        }
        for o in owner.iter_mut().filter(|o| **o != NONE) {
            *o = rank[*o as usize];
        }
        Ok(Self { requests, owner, absorbed })
    }
}

/// The border of wrap `w`.
fn region(graph: &Graph, request: &WrapRequest, w: u32, owner: &[u32]) -> Result<WrapRegion, WrapError> {
    let mut out = WrapRegion {
        id: request.id.clone(),
        definition: request.definition.clone(),
        nodes: request.nodes.iter().collect(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        weights: Vec::new(),
        shared_weights: Vec::new(),
    };
    let outside = |n: &NodeId| owner[n.index()] != w;
    let mut seen = std::collections::HashSet::new();
    for &n in &out.nodes {
        for v in graph.node(n).reads() {
            match &graph.value(v).kind {
                ValueKind::Output { node, .. } if !outside(node) => {}
                ValueKind::Initializer(_) => {
                    if seen.insert(v) {
                        out.weights.push(v);
                    }
                }
                ValueKind::Output { .. } | ValueKind::Input { .. } | ValueKind::Captured { .. } => {
                    if seen.insert(v) {
                        out.inputs.push(v);
                    }
                }
            }
        }
    }
    let graph_outputs: std::collections::HashSet<ValueId> = graph.outputs().iter().copied().collect();
    let leaves = |v: &ValueId| graph_outputs.contains(v) || graph.consumers(*v).iter().any(outside);
    out.outputs = out.nodes.iter().flat_map(|&n| graph.node(n).outputs.iter().flatten().copied()).filter(leaves).collect();
    out.shared_weights = out.weights.iter().copied().filter(leaves).collect();
    let crossing = out.inputs.iter().chain(&out.outputs);
    let values: Vec<String> = crossing.map(|&v| graph.value(v)).filter(|v| v.ty != ValueType::Tensor).map(|v| v.name.to_string()).collect();
    if values.is_empty() { Ok(out) } else { Err(WrapError::NonTensor { id: out.id.to_string(), values }) }
}

/// Nodes and wraps as parts of the contracted graph, numbered by their smallest node.
struct Parts {
    part_of: Vec<u32>,
    units: Vec<Unit>,
    preds: Csr,
}

impl Parts {
    fn new(node_preds: &Csr, owner: &[u32], wraps: usize) -> Self {
        let mut part_of = vec![0u32; owner.len()];
        let mut units: Vec<Unit> = Vec::new();
        let mut part_of_wrap = vec![NONE; wraps];
        for (n, &w) in owner.iter().enumerate() {
            if w == NONE {
                part_of[n] = units.len() as u32;
                units.push(Unit::Node(NodeId::new(n)));
            } else {
                let part = &mut part_of_wrap[w as usize];
                if *part == NONE {
                    *part = units.len() as u32;
                    units.push(Unit::Wrap(w));
                }
                part_of[n] = *part;
            }
        }
        let preds = node_preds.contracted(units.len(), &part_of);
        Self { part_of, units, preds }
    }

    /// A topological order in which each part stands where its smallest node has it, with what it still needs just
    /// before it.
    ///
    /// # Errors
    /// The parts of one cycle, if the contracted graph has any.
    fn order(&self) -> Result<Vec<u32>, Vec<u32>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut state = vec![NEW; self.units.len()];
        let mut order = Vec::with_capacity(self.units.len());
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for root in 0..self.units.len() as u32 {
            if state[root as usize] != NEW {
                continue;
            }
            state[root as usize] = OPEN;
            stack.push((root, 0));
            while let Some((part, next)) = stack.last_mut() {
                match self.preds.row(*part as usize).get(*next) {
                    Some(&p) => {
                        *next += 1;
                        match state[p as usize] {
                            NEW => {
                                state[p as usize] = OPEN;
                                stack.push((p, 0));
                            }
                            OPEN => {
                                let cycle = stack.iter().rev().map(|&(q, _)| q);
                                let before = cycle.clone().position(|q| q == p).unwrap_or(0);
                                return Err(cycle.take(before + 1).collect());
                            }
                            _ => {}
                        }
                    }
                    None => {
                        state[*part as usize] = DONE;
                        order.push(*part);
                        stack.pop();
                    }
                }
            }
        }
        Ok(order)
    }

    /// Which wrap makes the contracted graph cyclic: the first that is not convex by itself, else one on the cycle,
    /// which then runs through several wraps.
    fn blame(&self, graph: &Graph, node_preds: &Csr, owner: &[u32], regions: &[WrapRegion], cycle: &[u32]) -> WrapError {
        let node_succs = node_preds.transposed(owner.len());
        for (w, r) in regions.iter().enumerate() {
            let first = r.nodes.first().map_or(0, |n| n.index());
            let last = r.nodes.last().map_or(0, |n| n.index());
            // Nodes are in topological order: a path that returns to the region never leaves this range.
            let found = super::convex::offence(node_preds, &node_succs, first..last + 1, |n| owner[n as usize] == w as u32);
            if let Some(o) = found {
                let name = |n: u32| graph.stable_id(NodeId(n)).to_owned();
                return WrapError::NotConvex {
                    id: r.id.to_string(),
                    path: o.path.into_iter().map(name).collect(),
                    closing: o.closing.into_iter().map(name).collect(),
                };
            }
        }
        let wrap_at = |part: u32| match self.units[part as usize] {
            Unit::Wrap(w) => Some((w, part)),
            Unit::Node(_) => None,
        };
        let (w, part) = cycle.iter().filter_map(|&p| wrap_at(p)).min().unwrap_or((0, cycle.first().copied().unwrap_or(0)));
        let succs = self.preds.transposed(self.units.len());
        let offence = super::convex::offence(&self.preds, &succs, 0..self.units.len(), |p| p == part);
        let (path, closing) = offence.map_or_else(|| (cycle.to_vec(), Vec::new()), |o| (o.path, o.closing));
        let label = |part: u32| match self.units[part as usize] {
            Unit::Node(n) => graph.stable_id(n).to_owned(),
            Unit::Wrap(w) => regions[w as usize].id.to_string(),
        };
        let nodes = |part: u32| match self.units[part as usize] {
            Unit::Node(n) => vec![graph.stable_id(n).to_owned()],
            Unit::Wrap(w) => regions[w as usize].nodes.iter().map(|&n| graph.stable_id(n).to_owned()).collect(),
        };
        WrapError::NotConvex {
            id: regions[w as usize].id.to_string(),
            path: path.into_iter().map(label).collect(),
            closing: closing.into_iter().flat_map(nodes).collect(),
        }
    }

    fn finish(self, model: Arc<Model>, order: &[u32], wraps: Vec<WrapRegion>, absorbed: Vec<Absorbed>) -> View {
        let mut rank = vec![0u32; order.len()];
        for (i, &part) in order.iter().enumerate() {
            rank[part as usize] = i as u32;
        }
        let units: Vec<Unit> = order.iter().map(|&p| self.units[p as usize]).collect();
        let unit_of: Vec<UnitId> = self.part_of.iter().map(|&p| UnitId(rank[p as usize])).collect();
        let mut starts = Vec::with_capacity(order.len() + 1);
        let mut items = Vec::with_capacity(self.preds.len());
        starts.push(0);
        for &part in order {
            let begin = items.len();
            items.extend(self.preds.row(part as usize).iter().map(|&p| rank[p as usize]));
            Csr::close_row(&mut items, begin);
            starts.push(items.len() as u32);
        }
        let preds = Csr::from_rows(starts, items);
        let succs = preds.transposed(units.len());
        let facts = Arc::new(Facts::new(&model, &units, &unit_of, &wraps, &preds, &succs));
        View { model, units, unit_of, wraps, absorbed, preds, succs, facts }
    }
}
