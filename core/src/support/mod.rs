//! Backend capability tables: which nodes a backend takes, and why not the others.
//!
//! The facts stand in `core/data/support`, one file for each backend and dialect, with their sources; `predicates.json` beside them
//! says which of their conditions in words can be checked on a node, and how. A user may bring a table of their own.

mod judge;
mod parts;
mod predicate;
mod table;
mod torch;

use std::sync::Arc;

use crate::expr::Bindings;
use crate::graph::Dialect;
use crate::model::{Format, Model};

pub use table::Backend;

/// What a backend says of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It takes the node.
    Supported,
    /// It takes the node under a condition that cannot be checked here (in words): accelerated with a warning, torch
    /// with strict support.
    Conditional(Arc<str>),
    /// It does not take the node, and this is why.
    Unsupported(Arc<str>),
}

/// What a backend says of every node of the main graph, by node id.
pub type SupportMap = Arc<[Support]>;

/// Why a capability table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SupportError(String);

/// Names of the built-in backends that have a table for operators of this dialect, sorted.
#[must_use]
pub fn backend_names(dialect: Dialect) -> Vec<&'static str> {
    table::BUILTIN.iter().filter(|(_, d, _)| *d == dialect).map(|(name, ..)| *name).collect()
}

/// The dialect whose tables judge the nodes of `model`.
#[must_use]
pub fn dialect_of(model: &Model) -> Dialect {
    match model.format {
        Format::Pt2 => Dialect::Aten,
        // Whatever its writer hands in.
        Format::Json if crate::lower::speaks_torch(model) => Dialect::Aten,
        Format::Onnx | Format::OpenVino | Format::Json => Dialect::Onnx,
    }
}

/// Every node of `model` under `backend`. Shapes count as static where `dims` gives all their sizes.
#[must_use]
pub fn support_map(model: &Model, backend: &Backend, dims: &Bindings) -> SupportMap {
    judge::Judge::new(model, backend, dims).all()
}

#[cfg(test)]
mod tests;
