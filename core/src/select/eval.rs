//! Evaluation of an expression: every form is one or two linear passes over the graph.

use std::collections::{HashMap, HashSet};

use super::ast::{Expr, Pattern, Prefix, Term};
use super::bare;
use super::index::{SelectorIndex, is_produced};
use super::ops::{self, OpMatch, OpQuery};
use super::pattern::Matcher;
use super::{Bare, NodeSet, SelectContext, SelectError, Selected, modules, nearest, sources};
use crate::diagnostic::printable;
use crate::graph::{Graph, NodeId};

/// What one name found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) nodes: NodeSet,
    /// Nodes that match only by a node in a body, with its stable id.
    pub(super) contains: Vec<(NodeId, String)>,
    pub(super) remarks: Vec<String>,
}

impl Found {
    pub(super) fn empty(index: &SelectorIndex) -> Self {
        Self { nodes: NodeSet::empty(index.model().graph.nodes().len()), ..Self::default() }
    }

    /// Adds the nodes around those inner nodes for which `matches` holds and which are not in the set themselves.
    pub(super) fn add_inner(&mut self, index: &SelectorIndex, matches: impl Fn(usize) -> bool) {
        for i in 0..index.inner().len() {
            if matches(i) {
                let inner = &index.inner()[i];
                if self.nodes.insert(inner.outer) {
                    self.contains.push((inner.outer, inner.stable_id.to_string()));
                }
            }
        }
    }

    pub(super) fn from_ops(index: &SelectorIndex, m: OpMatch) -> Self {
        let contains = m.contains.into_iter().map(|(n, i)| (n, index.inner()[i].stable_id.to_string())).collect();
        Self { nodes: m.nodes, contains, remarks: m.remarks }
    }
}

/// Most remarks that are kept: a long disjunction must not fill the screen.
const MAX_REMARKS: usize = 20;

pub(super) fn eval(expr: &Expr, bare: Bare, index: &SelectorIndex, context: &SelectContext<'_>) -> Result<Selected, SelectError> {
    let mut e = Evaluator { index, context, bare, contains: HashMap::new(), remarks: Vec::new(), missing: Vec::new() };
    let nodes = e.expr(expr)?;
    let mut nearest = Vec::new();
    if nodes.is_empty() {
        for near in e.missing.into_iter().flat_map(|(_, near)| near) {
            if nearest.len() < 3 && !nearest.contains(&near) {
                nearest.push(near);
            }
        }
    } else {
        for (text, near) in e.missing {
            let hint = if near.is_empty() { String::new() } else { format!(" (nearest: {})", near.join(", ")) };
            e.remarks.push(format!("`{}` matches nothing{hint}", printable(&text)));
        }
    }
    e.remarks.truncate(MAX_REMARKS);
    let mut contains: Vec<(NodeId, String)> = e.contains.into_iter().filter(|(n, _)| nodes.contains(*n)).collect();
    contains.sort_unstable();
    Ok(Selected { nodes, contains, remarks: e.remarks, nearest })
}

struct Evaluator<'a> {
    index: &'a SelectorIndex,
    context: &'a SelectContext<'a>,
    bare: Bare,
    contains: HashMap<NodeId, String>,
    remarks: Vec<String>,
    /// Names that matched nothing, with the nearest ones.
    missing: Vec<(String, Vec<String>)>,
}

impl Evaluator<'_> {
    fn graph(&self) -> &Graph {
        &self.index.model().graph
    }

    /// Recursion is bounded by the parser's nesting limit.
    fn expr(&mut self, expr: &Expr) -> Result<NodeSet, SelectError> {
        Ok(match expr {
            Expr::Term(t) => self.term(t)?,
            Expr::Not(e) => {
                let mut set = self.expr(e)?;
                set.complement();
                set
            }
            Expr::And(parts) => {
                let mut set = NodeSet::full(self.graph().nodes().len());
                for part in parts {
                    set.intersect_with(&self.expr(part)?);
                }
                set
            }
            Expr::Or(parts) => {
                let mut set = NodeSet::empty(self.graph().nodes().len());
                for part in parts {
                    set.union_with(&self.expr(part)?);
                }
                set
            }
            Expr::Between(a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let mut set = downstream(self.graph(), &a, None);
                set.intersect_with(&upstream(self.graph(), &b, None));
                if set.is_empty() && !a.is_empty() && !b.is_empty() {
                    self.remarks.push(format!("no path leads from one end of `{expr}` to the other"));
                }
                set
            }
            Expr::Upstream(e, hops) => {
                let set = self.expr(e)?;
                upstream(self.graph(), &set, *hops)
            }
            Expr::Downstream(e, hops) => {
                let set = self.expr(e)?;
                downstream(self.graph(), &set, *hops)
            }
        })
    }

    fn term(&mut self, term: &Term) -> Result<NodeSet, SelectError> {
        let (found, prefixes) = match term.prefix.or_else(|| bare::certain(&term.pattern, self.bare)) {
            Some(p) => (self.named(p, &term.pattern)?, vec![p]),
            None => self.uncertain(&term.pattern)?,
        };
        if found.nodes.is_empty() {
            let near = nearest::nearest(self.index, &prefixes, term.pattern.text(), self.context);
            self.missing.push((term.to_string(), near));
        }
        for (node, inner) in found.contains {
            self.contains.entry(node).or_insert(inner);
        }
        for remark in found.remarks {
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        Ok(found.nodes)
    }

    /// A bare name whose form leaves doubt. Also gives the readings, to look for near names.
    fn uncertain(&self, pattern: &Pattern) -> Result<(Found, Vec<Prefix>), SelectError> {
        let readings = bare::readings(pattern, self.bare);
        let mut hits: Vec<(Prefix, Found)> = Vec::new();
        for (i, &p) in readings.iter().enumerate() {
            // Value names often repeat those of their nodes: they are asked only where nothing else is called so.
            if p == Prefix::Value && !hits.is_empty() {
                continue;
            }
            let found = self.named(p, pattern)?;
            if found.nodes.is_empty() {
                continue;
            }
            if i < bare::own_readings(self.bare) {
                return Ok((found, readings));
            }
            if !hits.iter().any(|(_, h)| h.nodes == found.nodes) {
                hits.push((p, found));
            }
        }
        let text = |p: Prefix| Term { prefix: Some(p), pattern: pattern.clone() }.to_string();
        if hits.len() > 1 {
            let readings = hits.iter().map(|(p, _)| text(*p)).collect();
            return Err(SelectError::Ambiguous { text: pattern.text().to_owned(), readings });
        }
        Ok(match hits.pop() {
            None => (Found::empty(self.index), readings),
            Some((p, mut found)) => {
                if self.bare != Bare::ByForm {
                    found.remarks.push(format!("`{}` is read as {}", printable(pattern.text()), text(p)));
                }
                (found, readings)
            }
        })
    }

    fn named(&self, prefix: Prefix, pattern: &Pattern) -> Result<Found, SelectError> {
        let unanswerable = |message: String| SelectError::Unanswerable {
            text: Term { prefix: Some(prefix), pattern: pattern.clone() }.to_string(),
            message,
        };
        match prefix {
            Prefix::Op => self.ops(pattern),
            Prefix::Module => modules::by_path(self.index, pattern),
            Prefix::Class => modules::by_class(self.index, pattern),
            Prefix::Node => self.nodes(pattern),
            Prefix::Value => self.values(pattern),
            Prefix::Source => sources::select(self.index, pattern),
            Prefix::Partition => self.partitions(pattern),
        }
        .map_err(unanswerable)
    }

    fn ops(&self, pattern: &Pattern) -> Result<Found, String> {
        let query = OpQuery::new(pattern)?;
        let mut m = ops::select(self.index, &query, |_, _| true);
        if !m.by_table.is_empty() {
            let types: Vec<String> = std::mem::take(&mut m.by_table).into_iter().take(8).collect();
            m.remarks.push(format!(
                "`{}`: the file does not say which torch operators its {} nodes come from, so the operator type decided",
                printable(pattern.text()),
                types.join(", ")
            ));
        }
        Ok(Found::from_ops(self.index, m))
    }

    fn nodes(&self, pattern: &Pattern) -> Result<Found, String> {
        let graph = self.graph();
        let mut found = Found::empty(self.index);
        if let Pattern::Literal(text) = pattern
            && let Some(n) = self.index.node(text)
        {
            found.nodes.insert(n);
            return Ok(found);
        }
        let matcher = Matcher::new(pattern)?;
        for n in graph.node_ids() {
            if matcher.is_match(graph.stable_id(n)) || (!graph.node(n).name.is_empty() && matcher.is_match(&graph.node(n).name)) {
                found.nodes.insert(n);
            }
        }
        let repeated = found.nodes.count();
        if let (Pattern::Literal(text), true) = (pattern, repeated > 1) {
            found.remarks.push(format!("{repeated} nodes are called `{}`", printable(text)));
        }
        let inner = self.index.inner();
        found.add_inner(self.index, |i| matcher.is_match(&inner[i].stable_id) || matcher.is_match(&inner[i].name));
        Ok(found)
    }

    fn values(&self, pattern: &Pattern) -> Result<Found, String> {
        let graph = self.graph();
        let matcher = Matcher::new(pattern)?;
        let matching: Vec<_> = match pattern {
            Pattern::Literal(text) => self.index.value(text).into_iter().collect(),
            _ => {
                let ids = (0..graph.values().len()).map(crate::graph::ValueId::new);
                ids.filter(|v| !graph.value(*v).name.is_empty() && matcher.is_match(&graph.value(*v).name)).collect()
            }
        };
        let mut found = Found::empty(self.index);
        for &v in &matching {
            if let Some(n) = graph.producer(v) {
                found.nodes.insert(n);
            }
        }
        if !matching.is_empty() && !matching.iter().any(|v| is_produced(&graph.value(*v).kind)) {
            for &v in &matching {
                graph.consumers(v).iter().for_each(|&n| {
                    found.nodes.insert(n);
                });
            }
            let text = printable(pattern.text());
            found.remarks.push(format!("`{text}` is made by no node (an input or a weight): the nodes that read it are taken"));
        }
        Ok(found)
    }

    fn partitions(&self, pattern: &Pattern) -> Result<Found, String> {
        let Some(plan) = self.context.plan else {
            return Err("partitions are known only once there is a plan, so marks and wraps cannot name them".to_owned());
        };
        let matcher = Matcher::new(pattern)?;
        let mut found = Found::empty(self.index);
        for (i, p) in plan.partitions.iter().enumerate() {
            if matcher.is_match(&p.name()) {
                for n in plan.nodes(crate::partition::PartitionId::new(i)) {
                    found.nodes.insert(n);
                }
            }
        }
        Ok(found)
    }
}

/// The set and what it feeds. Node ids are a topological order, so one pass reaches everything.
pub(super) fn downstream(graph: &Graph, from: &NodeSet, hops: Option<u32>) -> NodeSet {
    match hops {
        Some(hops) => within_hops(graph, from, hops, |n, visit| graph.successors(n).for_each(visit)),
        None => {
            let mut set = from.clone();
            for n in graph.node_ids() {
                if !set.contains(n) && graph.predecessors(n).any(|p| set.contains(p)) {
                    set.insert(n);
                }
            }
            set
        }
    }
}

/// The set and what feeds it.
pub(super) fn upstream(graph: &Graph, from: &NodeSet, hops: Option<u32>) -> NodeSet {
    match hops {
        Some(hops) => within_hops(graph, from, hops, |n, visit| graph.predecessors(n).for_each(visit)),
        None => {
            let mut set = from.clone();
            for i in (0..graph.nodes().len()).rev() {
                if set.contains(NodeId::new(i)) {
                    graph.predecessors(NodeId::new(i)).for_each(|p| {
                        set.insert(p);
                    });
                }
            }
            set
        }
    }
}

fn within_hops(graph: &Graph, from: &NodeSet, hops: u32, next: impl Fn(NodeId, &mut dyn FnMut(NodeId))) -> NodeSet {
    let mut set = from.clone();
    debug_assert_eq!(set.universe(), graph.nodes().len());
    let mut frontier: Vec<NodeId> = from.iter().collect();
    for _ in 0..hops {
        let mut reached = HashSet::new();
        for &n in &frontier {
            next(n, &mut |m| {
                if set.insert(m) {
                    reached.insert(m);
                }
            });
        }
        if reached.is_empty() {
            break;
        }
        frontier = reached.into_iter().collect();
    }
    set
}
