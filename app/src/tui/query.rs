//! Search and selectors, as jobs: both give a set of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use recut_core::graph::{AttrValue, Op};
use recut_core::model::Model;
use recut_core::partition::Plan;
use recut_core::select::{Bare, NodeSet, SelectContext, Selector, SelectorIndex};
use regex::{Regex, RegexBuilder};

/// The pattern of a search: plain text, or a regular expression after `re:`. Case matters once a capital is typed.
///
/// # Errors
/// If the regular expression is none.
pub fn pattern(text: &str) -> Result<Regex, String> {
    let source = text.strip_prefix("re:").map_or_else(|| regex::escape(text), str::to_owned);
    let typed = text.strip_prefix("re:").unwrap_or(text);
    RegexBuilder::new(&source)
        .case_insensitive(!typed.chars().any(char::is_uppercase))
        .size_limit(1 << 20)
        .build()
        .map_err(|e| format!("no regular expression: {}", e.to_string().lines().last().unwrap_or_default()))
}

/// Nodes whose name, operator, module, class, torch operator, types, or attributes match.
///
/// # Errors
/// If the text is no pattern.
pub fn search(model: &Model, text: &str, stop: &dyn Fn() -> bool) -> Result<NodeSet, String> {
    let re = pattern(text)?;
    let graph = &model.graph;
    let modules: Vec<bool> =
        model.modules.modules().iter().map(|m| re.is_match(&m.path) || m.class.as_deref().is_some_and(|c| re.is_match(c))).collect();
    let mut ops: HashMap<*const Op, bool> = HashMap::new();
    let mut found = NodeSet::empty(graph.nodes().len());
    let mut types = String::new();
    for id in graph.node_ids() {
        if id.index() % 1024 == 0 && stop() {
            break;
        }
        let node = graph.node(id);
        let op = *ops.entry(Arc::as_ptr(&node.op)).or_insert_with(|| re.is_match(&node.op.to_string()));
        let attribute = |a: &recut_core::graph::Attr| {
            re.is_match(&a.name)
                || match &a.value {
                    AttrValue::Bytes(b) => std::str::from_utf8(b).is_ok_and(|s| re.is_match(s)),
                    AttrValue::Int(i) => re.is_match(&format!("{}={i}", a.name)),
                    _ => false,
                }
        };
        let mut typed = || {
            node.outputs.iter().flatten().any(|v| {
                use std::fmt::Write;
                let value = graph.value(*v);
                types.clear();
                if let Some(d) = value.dtype {
                    types.push_str(d.name());
                }
                // Writing to a string does not fail.
                let _ = write!(types, "{}", value.shape);
                re.is_match(&types)
            })
        };
        if op
            || modules.get(node.module.index()).copied().unwrap_or(false)
            || re.is_match(graph.stable_id(id))
            || node.torch_op.as_deref().is_some_and(|t| re.is_match(t))
            || node.attrs.iter().any(attribute)
            || typed()
        {
            found.insert(id);
        }
    }
    Ok(found)
}

/// Nodes that a selector matches, and a remark.
///
/// # Errors
/// If it is no selector.
pub fn select(plan: &Plan, index: &SelectorIndex, text: &str) -> Result<(NodeSet, Option<String>), String> {
    let selector = Selector::parse(text, Bare::ByForm).map_err(|e| e.to_string())?;
    let selected = selector.eval(index, &SelectContext { plan: Some(plan) }).map_err(|e| e.to_string())?;
    let remark = if selected.nodes.is_empty() {
        let near = selected.nearest.join(", ");
        Some(if near.is_empty() { "matches nothing".to_owned() } else { format!("matches nothing; near: {near}") })
    } else {
        selected.remarks.first().cloned()
    };
    Ok((selected.nodes, remark))
}
