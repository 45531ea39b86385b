//! What every engine is: prepares a subgraph once, runs it many times, tells an observer what it does.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use recut_core::expr::Bindings;
use recut_core::graph::{NodeId, ValueId};
use recut_core::model::Model;

use crate::kernels::BufferPool;
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
    /// Run every node by itself: fold no constants, make no groups.
    pub node_by_node: bool,
    /// Values that an observer will ask for: their nodes are neither folded nor inside of a group.
    pub keep: Arc<HashSet<ValueId>>,
}

/// A node that a prepared subgraph does not run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The node.
    pub node: NodeRef,
    /// What became of it.
    pub into: MergedInto,
}

/// What became of a node that is not run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedInto {
    /// All it reads is constant: it was computed once, while preparing.
    Constant {
        /// What that took, in nanoseconds.
        prepare_ns: u64,
    },
    /// It runs as a part of a group, whose time is told at this node.
    Group(NodeRef),
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
pub struct CancelToken {
    flag: Arc<AtomicBool>,
    parent: Option<Arc<AtomicBool>>,
}

impl CancelToken {
    /// Asks.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether it, or the token it is a child of, was asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.parent.as_ref().is_some_and(|p| p.load(Ordering::Relaxed))
    }

    /// A token that is cancelled with this one, and can be cancelled without it.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { flag: Arc::default(), parent: Some(self.flag.clone()) }
    }
}

thread_local! {
    /// The token of the run that this thread computes for.
    static CURRENT: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Runs `f` with `token` as what [`cancel_token`] gives on this thread.
pub(crate) fn with_cancel<R>(token: &CancelToken, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<CancelToken>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    // Runs nest: a thread that waits for its pieces may take up work of another partition.
    let _restore = Restore(CURRENT.replace(Some(token.clone())));
    f()
}

/// The token of the run that this thread computes for, for kernels to look at between their pieces. A kernel is called on a
/// thread that has one; other threads that help it may have none, so it is to be asked before work is spread.
pub(crate) fn cancel_token() -> CancelToken {
    CURRENT.with_borrow(|c| c.clone().unwrap_or_default())
}

/// Whether [`cancel_token`] is cancelled.
pub(crate) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|c| c.as_ref().is_some_and(CancelToken::is_cancelled))
}

/// Where computing happens: a named thread pool and recycled allocations. Shared by engines, sessions and runs.
#[derive(Debug)]
pub struct ExecContext {
    pool: rayon::ThreadPool,
    buffers: Mutex<Vec<BufferPool>>,
}

/// Stack of a compute thread: bodies of control flow recurse (importers cap the nesting), and so do some kernels.
const STACK_BYTES: usize = 16 << 20;

/// Start of the names of compute threads.
pub const THREAD_PREFIX: &str = "recut-compute-";

impl ExecContext {
    /// A pool of this many threads; as many as the process may use if `None` or 0.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn new(threads: Option<usize>) -> Result<Arc<Self>, RunError> {
        let threads = threads.filter(|&n| n > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("{THREAD_PREFIX}{i}"))
            .stack_size(STACK_BYTES)
            .build()
            .map_err(|e| RunError::Engine { engine: "cpu".into(), partition: "the model".into(), message: format!("no threads: {e}") })?;
        Ok(Arc::new(Self { pool, buffers: Mutex::default() }))
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `f` on the pool; rayon calls inside use it.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.pool.install(f)
    }

    /// Runs `f` with recycled allocations that nobody else uses meanwhile.
    pub(crate) fn with_buffers<R>(&self, f: impl FnOnce(&mut BufferPool) -> R) -> R {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let result = f(&mut buffers);
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        result
    }

    /// Takes over the allocations of values that nobody else holds.
    pub(crate) fn recycle(&self, values: impl IntoIterator<Item = Value>) {
        self.with_buffers(|buffers| {
            for v in values {
                if let Value::Tensor(t) = v
                    && let Some(b) = t.into_buffer()
                {
                    buffers.put(b);
                }
            }
        });
    }

    /// Gives all recycled allocations back to the system.
    pub fn trim(&self) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Runs `f`; a panic becomes its text. A panic hook can tell such panics by the thread's name ([`THREAD_PREFIX`]) and
/// stay silent.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
        format!("it panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
    })
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
pub trait Observer: Send {
    /// A node ran. Preparation (compilation, packing, shape-dependent setup) is outside of this time.
    fn node(&mut self, node: NodeRef, start: Instant, end: Instant, output_bytes: usize);

    /// The subgraph ran as one: for engines that do not tell nodes apart.
    fn whole(&mut self, start: Instant, end: Instant, output_bytes: usize) {
        let _ = (start, end, output_bytes);
    }

    /// Bytes of all live values, at the end of a node (what it read and what it made both counted).
    fn live_bytes(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// A value that [`Observer::wants_value`] was asked for and answered with yes.
    fn value(&mut self, value: ValueId, data: &Value) {
        let _ = (value, data);
    }

    /// Whether any value is wanted: where not, [`Observer::wants_value`] is not asked.
    fn wants_values(&self) -> bool {
        false
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

/// `op (node a), op (nodes b, c)`: every node, each operator once, in order of first use.
fn by_operator(nodes: &[(String, String)]) -> String {
    let mut groups: indexmap::IndexMap<&str, Vec<&str>> = indexmap::IndexMap::new();
    for (node, op) in nodes {
        groups.entry(op).or_default().push(node);
    }
    let text = |(op, nodes): (&str, Vec<&str>)| format!("{op} (node{} {})", if nodes.len() > 1 { "s" } else { "" }, nodes.join(", "));
    groups.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Why preparing or running failed. Always names node (where there is one), partition and engine.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nodes that the engine has no implementation for: all of them.
    #[error("{engine} cannot run {partition}: no kernel for {}", by_operator(nodes))]
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
    /// What was expected does not fit the model's outputs.
    #[error("expected array {array}: {message}")]
    Expected {
        /// Name of the array.
        array: String,
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
    /// It took longer than was allowed.
    #[error("stopped after {seconds} s, the time limit, in {partition}: allow more time, or run fewer repeats")]
    TimedOut {
        /// The partition that was running.
        partition: String,
        /// The limit.
        seconds: f64,
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

    /// Nodes that are not run by themselves, in order. The observer is told of them with a time of zero.
    fn merged(&self) -> Vec<Merged> {
        Vec::new()
    }
}
