//! Nodes by the Python source line that made them.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::Pattern;
use super::eval::Found;
use super::index::SelectorIndex;
use super::pattern::Matcher;

/// The nodes with a matching frame anywhere in their stack trace. A frame matches by its file (the whole path, or what
/// follows any slash), with or without `:LINE`.
pub(super) fn select(index: &SelectorIndex, pattern: &Pattern) -> Result<Found, String> {
    let matcher = Matcher::new(pattern)?;
    let mut found = Found::empty(index);
    // Nodes from one line usually share one trace.
    let mut decided: HashMap<usize, bool> = HashMap::new();
    let mut matches = |trace: &Arc<str>| *decided.entry(trace.as_ptr() as usize).or_insert_with(|| is_match(&matcher, trace));
    let graph = &index.model().graph;
    let mut any = false;
    for n in graph.node_ids() {
        if let Some(trace) = &graph.node(n).stack_trace {
            any = true;
            if matches(trace) {
                found.nodes.insert(n);
            }
        }
    }
    let inner: Vec<bool> = index.inner().iter().map(|n| n.stack_trace.as_ref().is_some_and(&mut matches)).collect();
    found.add_inner(index, |i| inner[i]);
    if !any {
        found.remarks.push("the file holds no stack traces, so no node can be found by its source line".to_owned());
    }
    Ok(found)
}

fn is_match(matcher: &Matcher, trace: &str) -> bool {
    frames(trace).any(|(path, line)| {
        let starts = std::iter::once(0).chain(path.match_indices(['/', '\\']).map(|(i, _)| i + 1));
        starts.map(|i| &path[i..]).any(|p| matcher.is_match(p) || matcher.is_match(&format!("{p}:{line}")))
    })
}

/// Path and line of every frame of a Python stack trace, outermost first.
pub(super) fn frames(trace: &str) -> impl Iterator<Item = (&str, &str)> {
    trace.lines().filter_map(|l| {
        let (path, rest) = l.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((path, &rest[..end]))
    })
}
