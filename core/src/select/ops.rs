//! Matching of operators: all usual spellings of one operator are one operator.
//!
//! Spellings are compared in one normal form: dots instead of colons, no `torch.ops.` in front. What a torch function
//! becomes is looked up in the table of torch names; an ONNX node whose torch operator the file does not tell is matched
//! by the table of ONNX operators, and that is remarked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ast::Pattern;
use super::index::{OpHint, SelectorIndex};
use super::onnx_aten;
use super::pattern::Matcher;
use super::set::NodeSet;
use super::torch_names::{self, expand};
use crate::diagnostic::printable;
use crate::graph::{Dialect, NodeId, Op};

/// Nodes that no `op:` selector can tell apart.
#[derive(Debug)]
pub(super) struct OpKind {
    pub(super) op: Arc<Op>,
    pub(super) torch_op: Option<Arc<str>>,
    pub(super) hint: OpHint,
    /// Nodes of the main graph.
    pub(super) nodes: Vec<NodeId>,
    /// Nodes in bodies, as positions in the index's list.
    pub(super) inner: Vec<usize>,
}

impl OpKind {
    /// Names that the file itself gives the operator, in normal form.
    fn own_names(&self) -> Vec<String> {
        let mut names = match self.op.dialect {
            Dialect::Aten => Vec::new(),
            _ if self.op.domain.is_empty() => vec![self.op.name.to_string(), format!("ai.onnx.{}", self.op.name)],
            _ => vec![format!("{}.{}", self.op.domain, self.op.name)],
        };
        if let Some(torch) = self.torch_name() {
            let torch = normal_form(&torch);
            let parts: Vec<&str> = torch.split('.').collect();
            match *parts {
                [_, name, overload] if overload != "default" => {
                    names.extend([format!("{name}.{overload}"), name.to_owned()]);
                }
                [_, name, _] | [_, name] => names.push(name.to_owned()),
                _ => {}
            }
            if let Some((packet, _)) = torch.rsplit_once('.').filter(|_| parts.len() == 3) {
                names.push(packet.to_owned());
            }
            names.push(torch);
        }
        names
    }

    /// The torch operator as the file gives it.
    fn torch_name(&self) -> Option<String> {
        match (&self.torch_op, self.op.dialect) {
            (Some(t), _) => Some(t.to_string()),
            (None, Dialect::Aten) => Some(self.op.to_string()),
            (None, _) => None,
        }
    }

    /// Qualified aten names that the table gives, where the file gives none.
    fn table_names(&self) -> Vec<String> {
        if self.torch_op.is_some() { Vec::new() } else { onnx_aten::aten_names(&self.op, self.hint) }
    }

    /// How messages call it.
    pub(super) fn label(&self) -> String {
        printable(&self.op.to_string()).into_owned()
    }
}

/// The form in which spellings are compared.
pub(super) fn normal_form(text: &str) -> String {
    let text = text.strip_prefix("torch.ops.").unwrap_or(text);
    expand(&text.replacen("::", ".", 1)).into_owned()
}

/// How a node came to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Via {
    /// By a name that the file gives.
    Name,
    /// By the table of ONNX operators.
    Table,
}

/// What an `op:` pattern asks for.
#[derive(Debug)]
pub(super) struct OpQuery {
    /// Names in normal form.
    names: BTreeSet<String>,
    /// Wildcards or a regular expression over names in normal form, and over the form with `::`.
    matcher: Option<Matcher>,
    /// The single name that stands there, where it has no namespace.
    unqualified: Option<String>,
    remark: Option<String>,
}

impl OpQuery {
    /// The operators under any of these qualified names.
    pub(super) fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), matcher: None, unqualified: None, remark: None }
    }

    /// The operators that `pattern` names.
    pub(super) fn new(pattern: &Pattern) -> Result<Self, String> {
        let exact = match pattern {
            Pattern::Literal(s) => Some(s),
            Pattern::Glob(s) if !s.contains('*') => Some(s),
            _ => None,
        };
        let Some(text) = exact else { return Self::wildcard(pattern) };
        let name = normal_form(text);
        let mut query = Self::named([name.clone()]);
        if !name.contains('.') {
            query.unqualified = Some(name.clone());
        }
        let table = if is_torch_function(&name) { Some(torch_names::table()) } else { None };
        match table.map(|t| t.function(&name)) {
            Some(Some((ops, false))) => query.names.extend(ops.map(|op| format!("aten.{op}"))),
            Some(Some((ops, true))) => {
                let parts: Vec<String> = ops.map(|op| format!("aten.{op}")).collect();
                query.remark = Some(format!("one call of {name} becomes several operators ({}): name those", parts.join(", ")));
            }
            // Not in the table, or newer than it: most functions are called like their operator.
            Some(None) => query.names.extend(name.rsplit('.').next().map(|last| format!("aten.{last}"))),
            None => {}
        }
        Ok(query)
    }

    fn wildcard(pattern: &Pattern) -> Result<Self, String> {
        let pattern = match pattern {
            Pattern::Glob(s) => Pattern::Glob(normal_form(s)),
            other => other.clone(),
        };
        let matcher = Matcher::new(&pattern)?;
        let mut query = Self::named([]);
        if is_torch_function(pattern.text()) {
            for (function, ops) in torch_names::table().functions().filter(|(f, _)| matcher.is_match(f)) {
                query.names.insert(function.to_owned());
                query.names.extend(ops.split(' ').map(|op| format!("aten.{op}")));
            }
        }
        query.matcher = Some(matcher);
        Ok(query)
    }

    fn is_match(&self, name: &str) -> bool {
        self.names.contains(name)
            || self
                .matcher
                .as_ref()
                .is_some_and(|m| m.is_match(name) || name.split_once('.').is_some_and(|(ns, rest)| m.is_match(&format!("{ns}::{rest}"))))
    }

    /// Whether a name from the table (`aten.add`) matches: written with an overload, it counts without.
    fn is_table_match(&self, qualified: &str) -> bool {
        let bare = qualified.rsplit('.').next().unwrap_or(qualified);
        self.is_match(qualified)
            || self.is_match(bare)
            || self
                .names
                .iter()
                .any(|n| n.strip_prefix(qualified).is_some_and(|overload| overload.starts_with('.') && !overload[1..].contains('.')))
    }

    fn matches(&self, kind: &OpKind) -> Option<Via> {
        if kind.own_names().iter().any(|n| self.is_match(n)) {
            return Some(Via::Name);
        }
        let by_table = match kind.op.dialect {
            Dialect::Onnx => kind.table_names().iter().any(|n| self.is_table_match(n)),
            // The reverse: an ONNX operator asked for on a torch graph.
            Dialect::Aten => {
                let own = kind.own_names();
                self.names.iter().flat_map(|n| onnx_aten::aten_names_of(n)).any(|n| own.contains(&n))
            }
            _ => false,
        };
        by_table.then_some(Via::Table)
    }
}

/// Whether a name is one of Python's, not of an operator library.
fn is_torch_function(name: &str) -> bool {
    name.starts_with("torch.") || name.starts_with("operator.")
}

/// What an operator query found.
#[derive(Debug, Default)]
pub(super) struct OpMatch {
    pub(super) nodes: NodeSet,
    /// Nodes that match only by a node in a body: node, position in the index's list of inner nodes.
    pub(super) contains: Vec<(NodeId, usize)>,
    /// Operators that the table matched.
    pub(super) by_table: BTreeSet<String>,
    pub(super) remarks: Vec<String>,
}

/// All nodes that match, among those for which `counts` holds (position of an inner node, if it is one).
pub(super) fn select(index: &SelectorIndex, query: &OpQuery, counts: impl Fn(NodeId, Option<usize>) -> bool) -> OpMatch {
    let mut found = OpMatch { nodes: NodeSet::empty(index.model().graph.nodes().len()), ..OpMatch::default() };
    let mut inner = Vec::new();
    for kind in index.ops() {
        if let Some(via) = query.matches(kind) {
            add(&mut found, &mut inner, index, kind, via == Via::Table, &counts);
        }
    }
    if let (true, true, Some(name)) = (found.nodes.is_empty(), inner.is_empty(), &query.unqualified) {
        for kind in index.ops().iter().filter(|k| !k.op.domain.is_empty() && *k.op.name == **name) {
            add(&mut found, &mut inner, index, kind, false, &counts);
            found.remarks.push(format!("`{}` read as {}: the standard domain has none", printable(name), kind.label()));
        }
    }
    for (outer, position) in inner {
        if found.nodes.insert(outer) {
            found.contains.push((outer, position));
        }
    }
    found.remarks.extend(query.remark.clone());
    found
}

fn add(
    found: &mut OpMatch,
    inner: &mut Vec<(NodeId, usize)>,
    index: &SelectorIndex,
    kind: &OpKind,
    by_table: bool,
    counts: impl Fn(NodeId, Option<usize>) -> bool,
) {
    let before = inner.len();
    inner.extend(kind.inner.iter().map(|&i| (index.inner()[i].outer, i)).filter(|&(outer, i)| counts(outer, Some(i))));
    let mut any = inner.len() > before;
    for &n in kind.nodes.iter().filter(|&&n| counts(n, None)) {
        found.nodes.insert(n);
        any = true;
    }
    if by_table && any {
        found.by_table.insert(kind.label());
    }
}
