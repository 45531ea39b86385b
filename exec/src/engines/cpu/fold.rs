//! Nodes that read constants only: computed once, while preparing.

use std::time::Instant;

use recut_core::graph::{Dialect, Graph, Node};

use super::tract_op::TractOp;
use crate::engine::catch;
use crate::kernels::{BufferPool, Inputs, KernelError, PrepareCtx, RunCtx, Slot, registry};
use crate::tensor::{Tensor, Value};

/// Results may take this many times the bytes that are read: what a file keeps small on purpose (weights of 8 bits are read as
/// 32) may grow, what it only describes (a tensor of zeros) shall not.
const GROWTH: u64 = 4;

/// Results may take so many bytes in any case.
const SMALL: u64 = 1 << 20;

/// Operators that give something else in every run, or may.
const RANDOM: &[&str] = &["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"];

/// Whether a node gives the same whenever its inputs are the same, and has no bodies.
pub(super) fn is_pure(node: &Node) -> bool {
    node.op.dialect == Dialect::Onnx && node.bodies.is_empty() && !node.inputs.is_empty() && !RANDOM.contains(&&*node.op.name)
}

/// Bytes that results of `given` bytes may take.
pub(super) fn cap(given: u64) -> u64 {
    given.saturating_mul(GROWTH).saturating_add(SMALL)
}

/// Bytes of a node's outputs, where the graph knows.
pub(super) fn declared_bytes(graph: &Graph, node: &Node) -> Option<u64> {
    node.outputs.iter().flatten().try_fold(0u64, |sum, &v| {
        let value = graph.value(v);
        let bytes = crate::tensor::element_bytes(value.dtype?) as u64;
        let size = value.shape.dims()?.iter().try_fold(bytes, |n, d| n.checked_mul(d.known()?))?;
        sum.checked_add(size)
    })
}

/// What computing a node gave.
pub(super) struct Computed {
    /// Its outputs, by position.
    pub(super) outputs: Vec<Option<Tensor>>,
    /// What it took.
    pub(super) ns: u64,
}

/// Computes a node; `None` if it fails (running will say why) or gives something else than tensors. `fallback` makes tract's
/// operator of it.
pub(super) fn compute(node: &Node, opset: i64, inputs: &[Option<Tensor>], fallback: impl Fn() -> Option<TractOp>) -> Option<Computed> {
    let start = Instant::now();
    let mut slots: Vec<Option<Slot>> =
        inputs.iter().map(|t| t.clone().map(|t| Slot { value: Value::Tensor(t), last_use: false })).collect();
    let own = registry::lookup(&node.op.domain, &node.op.name, opset).map(|entry| {
        catch(|| {
            let kernel = (entry.factory)(&PrepareCtx { node, opset, constants: inputs })?;
            kernel.run(&mut RunCtx { pool: &mut BufferPool::default() }, Inputs::new(&mut slots))
        })
    });
    let outputs = match own {
        Some(Ok(Ok(outputs))) => outputs,
        None | Some(Ok(Err(KernelError::Unsupported(_)))) => {
            let op = fallback()?;
            catch(|| op.ready(&slots).and_then(|ready| op.run(&ready, &slots))).ok()?.ok()?
        }
        Some(_) => return None,
    };
    let tensor = |v: Option<Value>| match v {
        None => Some(None),
        Some(Value::Tensor(t)) => Some(Some(t)),
        Some(_) => None,
    };
    let outputs: Vec<Option<Tensor>> = outputs.into_iter().map(tensor).collect::<Option<_>>()?;
    Some(Computed { outputs, ns: crate::profile::nanos(start.elapsed()) })
}
