//! Selector text for things that a person points at. Each parses back to exactly that thing.

use super::ast::{Expr, Pattern, Prefix, Term};
use super::{Bare, SelectError, Selector, bare, torch_names};
use crate::graph::{NodeId, Op};
use crate::model::Model;
use crate::modules::ModuleId;

fn term(prefix: Prefix, name: &str) -> Term {
    Term { prefix: Some(prefix), pattern: Pattern::Literal(name.to_owned()) }
}

/// `node:` with the node's stable id.
#[must_use]
pub fn selector_for_node(model: &Model, node: NodeId) -> String {
    term(Prefix::Node, model.graph.stable_id(node)).to_string()
}

/// `module:` with the module's path.
#[must_use]
pub fn selector_for_module(model: &Model, module: ModuleId) -> String {
    term(Prefix::Module, &model.modules.module(module).path).to_string()
}

/// `class:` with the public name of a class that the model holds by its full name.
#[must_use]
pub fn selector_for_class(class: &str) -> String {
    term(Prefix::Class, torch_names::table().class(class).map_or(class, |c| c.public)).to_string()
}

/// `op:` with the operator's name, its domain or its overload.
#[must_use]
pub fn selector_for_op(op: &Op) -> String {
    term(Prefix::Op, &op.to_string()).to_string()
}

/// The nodes on paths from one node to another.
#[must_use]
pub fn selector_for_range(model: &Model, from: NodeId, to: NodeId) -> String {
    let end = |n| Box::new(Expr::Term(term(Prefix::Node, model.graph.stable_id(n))));
    Expr::Between(end(from), end(to)).to_string()
}

/// The selector with these nodes (stable ids) added: closes a region that is not convex.
///
/// # Errors
/// If `select` is not well-formed.
pub fn closed_selector(select: &str, closing: &[String]) -> Result<String, SelectError> {
    let mut parts = vec![Selector::parse(select, Bare::ByForm)?.expr];
    parts.extend(closing.iter().map(|id| Expr::Term(term(Prefix::Node, id))));
    Ok(Expr::or(parts).to_string())
}

/// The text under which a selector goes into a list: canonical, and without a prefix that its list or its form implies,
/// so that a mark is written the same however it was made.
///
/// # Errors
/// If `text` is not well-formed.
pub fn canonical_entry(text: &str, list: Bare) -> Result<String, SelectError> {
    let mut selector = Selector::parse(text, list)?;
    if let Expr::Term(Term { prefix: prefix @ Some(_), pattern }) = &mut selector.expr {
        let implied = bare::certain(pattern, list).or_else(|| match (list, &pattern) {
            (Bare::ByForm, _) | (_, Pattern::Regex(_)) => None,
            _ => bare::readings(pattern, list).first().copied(),
        });
        if implied == *prefix {
            *prefix = None;
        }
    }
    Ok(selector.to_string())
}
