//! Functions that a model defines: finding the one a node calls, and whether its call can be expanded.

use super::names::FastMap;
use super::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};

/// Nodes above which a model is not expanded further. Real exports stay far below; a few nested functions can ask for
/// any number.
pub(super) const MAX_NODES: u64 = 2_000_000;
/// Functions nested in each other above which calls stay as they are.
const MAX_NESTING: u32 = 100;

/// Domain, name and overload.
pub(super) type Key<'p> = (&'p [u8], &'p [u8], &'p [u8]);

/// Whether a function can be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It makes this many nodes. Long attributes and names count as nodes too: they are copied with each.
    Nodes(u64),
    /// It calls itself, maybe through others.
    Recursive,
    /// The calls in it are nested too deeply.
    TooDeep,
}

/// One function.
#[derive(Debug)]
pub(super) struct Function<'p> {
    pub(super) proto: &'p FunctionProto,
    pub(super) cost: Cost,
    depth: u32,
}

/// The functions of a model.
#[derive(Debug, Default)]
pub(super) struct Functions<'p> {
    by_key: FastMap<Key<'p>, usize>,
    all: Vec<Function<'p>>,
}

/// The standard domain has two spellings.
pub(super) fn domain(name: &[u8]) -> &[u8] {
    if name == b"ai.onnx" { b"" } else { name }
}

impl<'p> Functions<'p> {
    pub(super) fn new(model: &'p ModelProto) -> Self {
        let mut f = Self::default();
        for proto in &model.functions {
            f.by_key.insert((domain(&proto.domain), &proto.name, &proto.overload), f.all.len());
            f.all.push(Function { proto, cost: Cost::Recursive, depth: 0 });
        }
        f.weigh();
        f
    }

    /// The function that `node` calls.
    pub(super) fn called(&self, node: &NodeProto) -> Option<&Function<'p>> {
        self.index(node).map(|i| &self.all[i])
    }

    fn index(&self, node: &NodeProto) -> Option<usize> {
        if self.all.is_empty() {
            return None;
        }
        self.by_key.get(&(domain(&node.domain), node.op_type.as_ref(), node.overload.as_ref())).copied()
    }

    /// Sums up costs from callees to callers, without recursion. What is never summed up lies on or above a circle.
    fn weigh(&mut self) {
        let mut calls: Vec<Vec<usize>> = Vec::new();
        let mut own = Vec::new();
        for f in &self.all {
            let (mut called, mut cost) = (Vec::new(), 0);
            self.visit(&f.proto.node, &mut called, &mut cost);
            calls.push(called);
            own.push(cost);
        }
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        let mut waits: Vec<usize> = calls.iter().map(Vec::len).collect();
        for (caller, called) in calls.iter().enumerate() {
            for &c in called {
                callers[c].push(caller);
            }
        }
        let mut ready: Vec<usize> = (0..self.all.len()).filter(|&f| waits[f] == 0).collect();
        while let Some(f) = ready.pop() {
            let (mut cost, mut depth) = (Cost::Nodes(own[f]), 0);
            for &c in &calls[f] {
                depth = depth.max(self.all[c].depth + 1);
                cost = match (cost, self.all[c].cost) {
                    (Cost::Nodes(a), Cost::Nodes(b)) => Cost::Nodes(a.saturating_add(b)),
                    (Cost::Nodes(_), other) => other,
                    (cost, _) => cost,
                };
            }
            if depth > MAX_NESTING {
                cost = Cost::TooDeep;
            }
            self.all[f].cost = cost;
            self.all[f].depth = depth;
            for &caller in &callers[f] {
                waits[caller] -= 1;
                if waits[caller] == 0 {
                    ready.push(caller);
                }
            }
        }
    }

    /// Calls and own cost of nodes and their bodies. Nesting is capped by the decoder.
    fn visit(&self, nodes: &'p [NodeProto], called: &mut Vec<usize>, cost: &mut u64) {
        for n in nodes {
            called.extend(self.index(n));
            let names = n.input.iter().chain(&n.output).chain([&n.name]).map(|b| b.len() + 8).sum::<usize>();
            let attributes = n.attribute.iter().map(weight).sum::<usize>();
            *cost += 1 + (names + attributes) as u64 / 512;
            for graph in n.attribute.iter().flat_map(graphs) {
                self.visit(&graph.node, called, cost);
            }
        }
    }
}

/// Bytes that a copy of an attribute takes; tensors are shared between copies.
fn weight(a: &AttributeProto) -> usize {
    let strings = a.s.iter().chain(&a.strings).map(|s| s.len() + 16).sum::<usize>();
    strings + (a.floats.len() + a.ints.len()) * 8 + a.tensors.len() * 64
}

/// The graphs in an attribute.
pub(super) fn graphs(a: &AttributeProto) -> impl Iterator<Item = &GraphProto> {
    a.g.as_deref().into_iter().chain(&a.graphs)
}
