//! Modules by path and by class. A module stands for all nodes below it.

use std::collections::{BTreeMap, HashMap};

use super::ast::Pattern;
use super::eval::Found;
use super::index::SelectorIndex;
use super::ops::{self, OpQuery};
use super::pattern::Matcher;
use super::set::NodeSet;
use super::torch_names::{self, Class};
use crate::diagnostic::printable;
use crate::graph::{Dialect, Graph, NodeId};
use crate::modules::ModuleId;

/// The modules whose path matches, with everything below; `shared@1` is one call of a module.
pub(super) fn by_path(index: &SelectorIndex, pattern: &Pattern) -> Result<Found, String> {
    let (pattern, call) = split_call(pattern);
    let mut found = nodes_within(index, matching_paths(index, &pattern)?);
    if let Some(call) = call
        && !found.nodes.is_empty()
    {
        let (nodes, remark) = one_call(&index.model().graph, &found.nodes, call, pattern.text())?;
        found.contains.retain(|(n, _)| nodes.contains(*n));
        found.nodes = nodes;
        found.remarks.extend(remark);
    }
    Ok(found)
}

/// The pattern without `@1`, and that number.
fn split_call(pattern: &Pattern) -> (Pattern, Option<u32>) {
    let Pattern::Glob(s) = pattern else { return (pattern.clone(), None) };
    match s.rsplit_once('@').and_then(|(path, call)| Some((path, call.parse::<u32>().ok()?))) {
        Some((path, call)) => (Pattern::from_word(path), Some(call)),
        None => (pattern.clone(), None),
    }
}

/// A flag for every module: whether its path matches.
fn matching_paths(index: &SelectorIndex, pattern: &Pattern) -> Result<Vec<bool>, String> {
    let modules = index.model().modules.modules();
    if let Pattern::Literal(path) = pattern {
        let mut flags = vec![false; modules.len()];
        if let Some(m) = index.module(path) {
            flags[m.index()] = true;
        }
        return Ok(flags);
    }
    let matcher = Matcher::new(pattern)?;
    Ok(modules.iter().map(|m| matcher.is_match(&m.path)).collect())
}

/// A flag for every module: whether its class matches.
fn matching_classes(index: &SelectorIndex, query: &ClassQuery) -> Vec<bool> {
    let mut decided: HashMap<&str, bool> = HashMap::new();
    let mut is_match = |class| *decided.entry(class).or_insert_with(|| query.is_match(class));
    index.model().modules.modules().iter().map(|m| m.class.as_deref().is_some_and(&mut is_match)).collect()
}

/// The nodes of each module that matches by path or class, where one lies in another only those of the outer; a module
/// whose calls the file tells apart gives a set for each call. Nothing if single calls are asked for.
pub(super) fn instances(index: &SelectorIndex, pattern: &Pattern, by_class: bool) -> Result<Option<Vec<NodeSet>>, String> {
    let flags = if by_class {
        matching_classes(index, &ClassQuery::new(pattern)?)
    } else if split_call(pattern).1.is_some() {
        return Ok(None);
    } else {
        matching_paths(index, pattern)?
    };
    let model = index.model();
    let modules = model.modules.modules();
    // The outermost matching module around each module; parents stand before their children.
    let mut outermost: Vec<Option<ModuleId>> = Vec::with_capacity(modules.len());
    let mut sets: BTreeMap<(ModuleId, Option<u32>), NodeSet> = BTreeMap::new();
    for (i, module) in modules.iter().enumerate() {
        let around = outermost.get(module.parent.index()).copied().flatten();
        let root = around.or_else(|| flags[i].then(|| ModuleId::new(i)));
        outermost.push(root);
        if let Some(root) = root {
            for &n in &module.nodes {
                let set = sets.entry((root, model.graph.node(n).call)).or_insert_with(|| NodeSet::empty(model.graph.nodes().len()));
                set.insert(n);
            }
        }
    }
    Ok(Some(sets.into_values().collect()))
}

/// The nodes of the flagged modules and all modules below them.
fn nodes_within(index: &SelectorIndex, mut inside: Vec<bool>) -> Found {
    let modules = index.model().modules.modules();
    let mut found = Found::empty(index);
    // A parent stands before its children, so that one pass carries the flags down.
    for (i, module) in modules.iter().enumerate() {
        inside[i] |= inside[module.parent.index()];
        if inside[i] {
            module.nodes.iter().for_each(|&n| {
                found.nodes.insert(n);
            });
        }
    }
    let inner = index.inner();
    found.add_inner(index, |i| inside.get(inner[i].module.index()).is_some_and(|&f| f));
    found
}

/// The nodes of call number `call` among all nodes of a module.
fn one_call(graph: &Graph, nodes: &NodeSet, call: u32, path: &str) -> Result<(NodeSet, Option<String>), String> {
    let mut set = NodeSet::empty(nodes.universe());
    let told: Vec<(NodeId, u32)> = nodes.iter().filter_map(|n| Some((n, graph.node(n).call?))).collect();
    let number_of_calls = if told.is_empty() {
        let calls = components(graph, nodes);
        if let Some(members) = calls.get(call as usize) {
            members.iter().for_each(|&n| {
                set.insert(n);
            });
        }
        check_calls(graph, &calls, &set, path)?;
        calls.len()
    } else {
        for &(n, c) in &told {
            if c == call {
                set.insert(n);
            }
        }
        told.iter().map(|(_, c)| *c as usize + 1).max().unwrap_or(0)
    };
    let remark = if set.is_empty() {
        Some(format!("module `{}` is called {number_of_calls} time(s), counted from @0", printable(path)))
    } else if told.is_empty() {
        Some(format!("the file does not tell calls of `{}` apart: its connected pieces are taken for them", printable(path)))
    } else {
        None
    };
    Ok((set, remark))
}

/// Pieces of the set that are connected by direct edges, in the order of their first nodes.
fn components(graph: &Graph, nodes: &NodeSet) -> Vec<Vec<NodeId>> {
    let mut parent: HashMap<NodeId, NodeId> = nodes.iter().map(|n| (n, n)).collect();
    fn root(parent: &mut HashMap<NodeId, NodeId>, mut n: NodeId) -> NodeId {
        while let Some(&p) = parent.get(&n)
            && p != n
        {
            let grand = parent.get(&p).copied().unwrap_or(p);
            parent.insert(n, grand);
            n = grand;
        }
        n
    }
    for n in nodes.iter() {
        for p in graph.predecessors(n).filter(|p| nodes.contains(*p)) {
            let (a, b) = (root(&mut parent, n), root(&mut parent, p));
            // The smaller id stays the root, so that it is the component's first node.
            parent.insert(a.max(b), a.min(b));
        }
    }
    let mut members: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for n in nodes.iter() {
        members.entry(root(&mut parent, n)).or_default().push(n);
    }
    members.into_values().collect()
}

/// Refuses components that cannot be calls of one module: a single one, different ones, or one that is not convex.
fn check_calls(graph: &Graph, calls: &[Vec<NodeId>], asked: &NodeSet, path: &str) -> Result<(), String> {
    let path = printable(path);
    if calls.len() < 2 {
        return Err(format!("the file does not tell calls of `{path}` apart, and its nodes hang together"));
    }
    let ops = |members: &[NodeId]| members.iter().map(|&n| &*graph.node(n).op).collect::<Vec<_>>();
    let first = ops(&calls[0]);
    if calls.iter().any(|c| c.len() != first.len() || ops(c) != first) {
        return Err(format!("the file does not tell calls of `{path}` apart, and its {} connected pieces differ", calls.len()));
    }
    let mut outside = NodeSet::empty(asked.universe());
    for n in graph.node_ids() {
        let (from_inside, from_outside) =
            graph.predecessors(n).fold((false, false), |(i, o), p| (i || asked.contains(p), o || outside.contains(p)));
        if asked.contains(n) {
            if from_outside {
                return Err(format!("the file does not tell calls of `{path}` apart, and a path leaves this piece and returns"));
            }
        } else if from_inside || from_outside {
            outside.insert(n);
        }
    }
    Ok(())
}

/// A pattern over class names, which have a public, a defining and a last name.
struct ClassQuery {
    matcher: Matcher,
}

impl ClassQuery {
    fn new(pattern: &Pattern) -> Result<Self, String> {
        let expanded = |s: &str| torch_names::expand(s).into_owned();
        let pattern = match pattern {
            Pattern::Literal(s) => Pattern::Literal(expanded(s)),
            Pattern::Glob(s) => Pattern::Glob(expanded(s)),
            Pattern::Regex(s) => Pattern::Regex(s.clone()),
        };
        Ok(Self { matcher: Matcher::new(&pattern)? })
    }

    fn is_match(&self, class: &str) -> bool {
        let table = torch_names::table();
        let last = class.rsplit('.').next().unwrap_or(class);
        self.matcher.is_match(class) || self.matcher.is_match(last) || table.class(class).is_some_and(|c| self.is_known_match(c))
    }

    fn is_known_match(&self, class: &Class<'_>) -> bool {
        class.names().any(|n| self.matcher.is_match(n) || n.rsplit('.').next().is_some_and(|last| self.matcher.is_match(last)))
    }
}

/// The modules of matching classes, with everything below; and where the file lost a node's module class, the nodes of
/// the one operator that such a class becomes.
pub(super) fn by_class(index: &SelectorIndex, pattern: &Pattern) -> Result<Found, String> {
    let query = ClassQuery::new(pattern)?;
    let modules = index.model().modules.modules();
    let mut found = nodes_within(index, matching_classes(index, &query));

    let graph = &index.model().graph;
    let lost = |m: ModuleId| modules.get(m.index()).is_none_or(|m| m.class.is_none());
    // torch.export names no modules inside of nested graphs: such nodes have the module of the node that holds them.
    let lost_inside = |i: usize| {
        let (inner, outer) = (&index.inner()[i], graph.node(index.inner()[i].outer));
        lost(inner.module) || outer.op.dialect == Dialect::Aten && inner.module == outer.module
    };
    if !graph.nodes().iter().any(|n| lost(n.module)) && !(0..index.inner().len()).any(lost_inside) {
        return Ok(found);
    }
    let mut ops: Vec<&str> =
        torch_names::table().classes().iter().filter(|c| query.is_known_match(c)).filter_map(Class::single_op).collect();
    ops.sort_unstable();
    ops.dedup();
    if ops.is_empty() {
        return Ok(found);
    }
    // A module may be asked to work in place.
    let forms = ops.iter().flat_map(|op| [(*op).to_owned(), format!("{op}_")]);
    let by_op = ops::select(index, &OpQuery::named(forms), |n, inner| inner.map_or_else(|| lost(graph.node(n).module), lost_inside));
    if !by_op.nodes.is_empty() {
        found.remarks.push(format!(
            "`{}`: the file does not tell the module class of {} node(s); they were matched by operator ({})",
            printable(pattern.text()),
            by_op.nodes.count(),
            ops.join(", ")
        ));
        let by_op = Found::from_ops(index, by_op);
        found.contains.extend(by_op.contains.into_iter().filter(|(n, _)| !found.nodes.contains(*n)));
        found.nodes.union_with(&by_op.nodes);
    }
    Ok(found)
}
