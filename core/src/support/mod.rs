//! Backend capability tables: which nodes a backend takes, and why not the others.

use std::sync::Arc;

use crate::expr::Bindings;
use crate::model::Model;

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

/// A capability table.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Its name (`tensorrt`, `onnxruntime-cpu`).
    pub name: Arc<str>,
    /// Where the facts are from, for reports.
    pub source: Arc<str>,
    /// Its own default of `min_block_size`, where it has one.
    pub default_min_block_size: Option<u32>,
}

/// Names of all built-in backends, sorted.
#[must_use]
pub fn backend_names() -> Vec<&'static str> {
    Vec::new()
}

/// Every node of `model` under `backend`.
#[must_use]
pub fn support_map(model: &Model, backend: &Backend, dims: &Bindings) -> SupportMap {
    let _ = (model, backend, dims);
    Arc::from(Vec::new())
}
