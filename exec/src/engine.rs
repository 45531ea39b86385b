//! What every engine is: prepares a subgraph once, runs it many times, tells an observer what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use recut_core::expr::Bindings;
use recut_core::graph::{NodeId, ValueId};
use recut_core::model::Model;

use crate::tensor::Value;

/// A part of a model that one engine runs: a partition, or the whole.
#[derive(Clone, Debug)]
pub struct Subgraph {
    /// Name of the partition (`run_on_acc_0`).
    pub name: Arc<str>,
    /// The model it is part of.
    pub model: Arc<Model>,
    /// Its nodes, in topological order.
    pub nodes: Arc<[NodeId]>,
    /// Values it is given, in this order.
    pub inputs: Arc<[ValueId]>,
    /// Values it gives, in this order.
    pub outputs: Arc<[ValueId]>,
}

/// How to prepare.
#[derive(Clone, Debug, Default)]
pub struct PrepareOptions {
    /// Sizes of symbolic dimensions that are known beforehand.
    pub dims: Bindings,
    /// Precision (`fp32`).
    pub precision: String,
}

/// What an engine can do, for `doctor` and for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Reports a time for every node (else only for the whole).
    pub per_node_times: bool,
    /// Precisions.
    pub precisions: Vec<String>,
    /// Version of the library behind it.
    pub version: String,
}

/// Asks a run to stop. Checked between nodes, and by long kernels.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Which node an event is about: the path from the main graph inwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Node of the main graph.
    pub node: NodeId,
    /// For a node of a body: its index among all nodes inside `node`, in depth-first order of bodies; else `u32::MAX`.
    pub inner: u32,
}

/// Told what a run does. Every call must be cheap: it happens between nodes.
pub trait Observer {
    /// A node ran. Preparation (compilation, packing, shape-dependent setup) is outside of this time.
    fn node(&mut self, node: NodeRef, start: Instant, end: Instant, output_bytes: usize);

    /// Bytes of all live values, after a node.
    fn live_bytes(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Values of `--dump`: called for every output if [`Observer::wants_values`].
    fn value(&mut self, value: ValueId, data: &Value) {
        let _ = (value, data);
    }

    /// Whether [`Observer::value`] is to be called for this value.
    fn wants_value(&self, value: ValueId) -> bool {
        let _ = value;
        false
    }
}

/// An observer that takes no notice.
#[derive(Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn node(&mut self, _: NodeRef, _: Instant, _: Instant, _: usize) {}
}

/// Why preparing or running failed. Always names node (where there is one), partition and engine.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nodes that the engine has no implementation for: all of them.
    #[error("{engine} cannot run {partition}: no kernel for {}", .nodes.iter().map(|(n, op)| format!("{op} (node {n})")).collect::<Vec<_>>().join(", "))]
    MissingKernels {
        /// The engine.
        engine: String,
        /// The partition.
        partition: String,
        /// Stable id and operator of each, with the opset where that is why.
        nodes: Vec<(String, String)>,
    },
    /// A node failed.
    #[error("{engine} failed in {partition} at node {node} ({op}): {message}")]
    Node {
        /// The engine.
        engine: String,
        /// The partition.
        partition: String,
        /// Stable id of the node.
        node: String,
        /// Its operator.
        op: String,
        /// What is wrong.
        message: String,
    },
    /// A stored tensor could not be read.
    #[error("cannot read the weight {value} for {partition}: {message}")]
    Weight {
        /// The partition.
        partition: String,
        /// Name of the value.
        value: String,
        /// What is wrong.
        message: String,
    },
    /// What was fed does not fit the model.
    #[error("input {input}: {message}")]
    Input {
        /// Name of the model input.
        input: String,
        /// What is wrong.
        message: String,
    },
    /// The engine as a whole failed.
    #[error("{engine} failed in {partition}: {message}")]
    Engine {
        /// The engine.
        engine: String,
        /// The partition.
        partition: String,
        /// What is wrong.
        message: String,
    },
    /// It was asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// An engine.
pub trait Engine: Send + Sync {
    /// Its name (`cpu`).
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Makes a subgraph ready to run.
    ///
    /// # Errors
    /// If it cannot run some node (all such nodes are listed), or a weight cannot be read.
    fn prepare(&self, subgraph: &Subgraph, options: &PrepareOptions) -> Result<Box<dyn Prepared>, RunError>;
}

/// A subgraph that is ready to run.
pub trait Prepared: Send {
    /// Runs it once. `inputs` in the order of [`Subgraph::inputs`]; gives outputs in the order of [`Subgraph::outputs`].
    ///
    /// # Errors
    /// If a node fails or the run is cancelled.
    fn run(&mut self, inputs: Vec<Value>, observer: &mut dyn Observer, cancel: &CancelToken) -> Result<Vec<Value>, RunError>;
}
