//! The selector language: text to AST to set of nodes. Grammar: `docs/selectors.ebnf`.
//!
//! A [`Selector`] is parsed once and evaluated against a [`SelectorIndex`], whose parts are built when first needed, so
//! that opening a model pays for none of them.

mod ast;
mod bare;
mod eval;
mod index;
mod modules;
mod names;
mod nearest;
mod onnx_aten;
mod ops;
mod parse;
mod pattern;
mod render;
mod set;
mod sources;
mod torch_names;

pub use ast::{Expr, Pattern, Prefix, Term};
pub use index::SelectorIndex;
pub use render::{
    canonical_entry, closed_selector, selector_for_class, selector_for_module, selector_for_node, selector_for_op, selector_for_range,
};
pub use set::NodeSet;

use crate::diagnostic::printable;
use crate::graph::NodeId;
use crate::partition::Plan;

/// How a bare string (a name without prefix) is read: set by the list it stands in.
///
/// Everywhere but in [`Bare::Node`], a form that leaves no doubt decides first: `aten::where`, `torch.add` and
/// `torch.ops.aten.add.Tensor` are operators, `torch.nn.ReLU` is a class, `/layer1/Relu` is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bare {
    /// What remains in doubt is looked up as everything; matching different nodes as two things is an error that lists
    /// both (the `:` prompt, wraps, `--select`).
    ByForm,
    /// What remains in doubt is an operator; where there is none, whatever else there is (`torch_executed_ops`).
    Op,
    /// What remains in doubt is a module path or a class; where there is none, whatever else there is
    /// (`torch_executed_modules`, `leaf_modules`).
    Module,
    /// Always a node (`torch_executed_nodes`, `accelerated_nodes`).
    Node,
}

/// Why a selector could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// It is not well-formed.
    #[error("selector `{}`: {message} (at character {at})", printable(.text))]
    Syntax {
        /// The selector.
        text: String,
        /// Character position, from 0.
        at: usize,
        /// What was expected.
        message: String,
    },
    /// A bare string could mean two things.
    #[error("`{}` could mean {}: write one of them", printable(.text), .readings.join(" or "))]
    Ambiguous {
        /// The bare string.
        text: String,
        /// Readings with their prefix.
        readings: Vec<String>,
    },
    /// The model does not tell what is asked.
    #[error("selector `{}`: {message}", printable(.text))]
    Unanswerable {
        /// The selector.
        text: String,
        /// Why.
        message: String,
    },
}

/// What a selector matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The nodes. A node whose bodies hold a match is one of them.
    pub nodes: NodeSet,
    /// Nodes that are in the set only because of a node in one of their bodies, with that node's stable id there.
    pub contains: Vec<(NodeId, String)>,
    /// Remarks (`class matched by its op, since the module identity was lost`); empty where all is plain.
    pub remarks: Vec<String>,
    /// If nothing matched: the nearest names there are, as selectors, best first, at most three.
    pub nearest: Vec<String>,
}

/// What a selector may refer to besides the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelectContext<'a> {
    /// The current plan, for `partition:`.
    pub plan: Option<&'a Plan>,
}

/// A parsed selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    expr: Expr,
    bare: Bare,
}

impl Selector {
    /// Parses a selector; `bare` says how names without a prefix are read.
    ///
    /// # Errors
    /// If the text is not well-formed.
    pub fn parse(text: &str, bare: Bare) -> Result<Self, SelectError> {
        Ok(Self { expr: parse::parse(text, bare == Bare::Node)?, bare })
    }

    /// The expression.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The nodes it selects. Linear in the model; an exact node id takes constant time once the index has been used.
    ///
    /// # Errors
    /// If a bare name could mean two things, or the model or context cannot tell what is asked.
    pub fn eval(&self, index: &SelectorIndex, context: &SelectContext<'_>) -> Result<Selected, SelectError> {
        eval::eval(&self.expr, self.bare, index, context)
    }
}

impl Selector {
    /// The nodes of each single module instance that it matches, if it is one name of modules or classes: outermost
    /// ones only, and call by call where the file tells calls apart. `None` if it is anything else.
    ///
    /// # Errors
    /// As [`Selector::eval`].
    pub fn instances(&self, index: &SelectorIndex) -> Result<Option<Vec<NodeSet>>, SelectError> {
        let Expr::Term(Term { prefix, pattern }) = &self.expr else { return Ok(None) };
        let readings = match prefix.or_else(|| bare::certain(pattern, self.bare)) {
            Some(p) => vec![p],
            None => bare::readings(pattern, self.bare),
        };
        for p in readings {
            if !matches!(p, Prefix::Module | Prefix::Class) {
                continue;
            }
            let found = modules::instances(index, pattern, p == Prefix::Class)
                .map_err(|message| SelectError::Unanswerable { text: self.to_string(), message })?;
            if found.as_ref().is_none_or(|sets| !sets.is_empty()) {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl std::fmt::Display for Selector {
    /// Canonical text: it parses back to an equal selector.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.expr.fmt(f)
    }
}

#[cfg(test)]
mod tests;
