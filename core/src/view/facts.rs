//! What the partitioner asks of every unit, worked out once per view.

use std::sync::{Arc, Mutex, PoisonError};

use super::{UNKNOWN_BYTES, Unit, UnitId, WrapRegion};
use crate::expr::Bindings;
use crate::graph::Csr;
use crate::graph::{Dialect, Graph, NodeId, Op, ValueId, ValueType};
use crate::model::Model;
use crate::partition::{Colouring, Pairs, Pool, after_all, before_all, held};

/// Whether an operator computes something: `min_block_size` counts these only. Constants, identities, element access
/// and changes of shape alone do not count.
#[must_use]
pub fn is_compute(op: &Op) -> bool {
    match op.dialect {
        Dialect::Onnx | Dialect::OpenVino => !matches!(
            &*op.name,
            "Constant"
                | "Identity"
                | "Reshape"
                | "Flatten"
                | "Squeeze"
                | "Unsqueeze"
                | "SequenceAt"
                | "OptionalGetElement"
                | "Const"
                | "Parameter"
                | "Result"
        ),
        Dialect::Aten | Dialect::Json => !matches!(
            &*op.name,
            "getitem"
                | "view"
                | "view_copy"
                | "_unsafe_view"
                | "reshape"
                | "flatten"
                | "squeeze"
                | "unsqueeze"
                | "alias"
                | "detach"
                | "lift_fresh_copy"
        ),
    }
}

/// Whether an operator is defined neither by the file nor by what its dialect comes with: such a node is an opaque custom
/// op.
fn is_foreign(op: &Op) -> bool {
    match op.dialect {
        Dialect::Onnx => !matches!(
            &*op.domain,
            "" | "ai.onnx.ml"
                | "ai.onnx.preview"
                | "ai.onnx.preview.training"
                | "ai.onnx.training"
                | "com.microsoft"
                | "com.microsoft.nchwc"
                | "com.microsoft.experimental"
                | "com.ms.internal.nhwc"
        ),
        // Torch's own namespaces, its vision library's, and Python's numbers.
        Dialect::Aten => !matches!(
            &*op.domain,
            "" | "aten"
                | "prim"
                | "prims"
                | "rngprims"
                | "quantized"
                | "quantized_decomposed"
                | "higher_order"
                | "torchvision"
                | "_operator"
                | "operator"
                | "builtins"
                | "math"
                | "torch"
        ),
        _ => false,
    }
}

/// A value that is no tensor, and the units it ties together.
#[derive(Clone, Debug)]
pub(crate) struct NonTensor {
    /// The value.
    pub(crate) value: ValueId,
    /// The unit that makes it; `None` for graph inputs.
    pub(crate) producer: Option<UnitId>,
    /// Units that read it, ascending, each once.
    pub(crate) consumers: Vec<UnitId>,
    /// Whether the caller feeds or gets it.
    pub(crate) external: bool,
}

/// Facts of every unit, and what was worked out from them.
#[derive(Debug)]
pub(crate) struct Facts {
    /// 1 where the unit is a compute node, else 0.
    pub(crate) compute: Vec<u32>,
    /// Bytes that cross a border after the unit: outputs read by other units and not by the caller; symbolic sizes count
    /// as 1. Only compared with each other.
    pub(crate) out_bytes: Vec<u32>,
    /// Nodes of foreign domains: opaque from the start.
    pub(crate) foreign: Vec<UnitId>,
    /// Values that are no tensors.
    pub(crate) non_tensor: Vec<NonTensor>,
    /// `DequantizeLinear`s, operator, `QuantizeLinear`s that a backend takes as one quantized operator; ascending.
    pub(crate) qdq: Vec<Vec<UnitId>>,
    /// Neighbours in the form that planning reads.
    pub(crate) pred_pairs: Pairs,
    pub(crate) succ_pairs: Pairs,
    pub(crate) held: Vec<u32>,
    /// Memory of former plans.
    pub(crate) pool: Pool,
    base: Mutex<Option<Arc<Colouring>>>,
    bytes: Mutex<Option<(Bindings, Arc<[u64]>)>>,
}

impl Facts {
    pub(super) fn new(model: &Model, units: &[Unit], unit_of: &[UnitId], wraps: &[WrapRegion], preds: &Csr, succs: &Csr) -> Self {
        let graph = &model.graph;
        let mut is_output = vec![false; graph.values().len()];
        for v in graph.outputs() {
            is_output[v.index()] = true;
        }
        let mut facts = Self {
            compute: Vec::with_capacity(units.len()),
            out_bytes: Vec::with_capacity(units.len()),
            foreign: Vec::new(),
            non_tensor: Vec::new(),
            qdq: Vec::new(),
            pred_pairs: Pairs::new(preds, before_all(units.len())),
            succ_pairs: Pairs::new(succs, after_all(units.len())),
            held: held(succs),
            pool: Pool::default(),
            base: Mutex::default(),
            bytes: Mutex::default(),
        };
        let mut made: Vec<ValueId> = Vec::new();
        for (i, unit) in units.iter().enumerate() {
            let weigh = |outputs: &mut dyn Iterator<Item = ValueId>| {
                outputs.filter(|v| !is_output[v.index()]).map(|v| rough_bytes(graph, v)).fold(0, u32::saturating_add)
            };
            match unit {
                Unit::Node(n) => {
                    let node = graph.node(*n);
                    facts.compute.push(u32::from(is_compute(&node.op)));
                    if is_foreign(&node.op) {
                        facts.foreign.push(UnitId(i as u32));
                    }
                    facts.out_bytes.push(weigh(&mut node.outputs.iter().flatten().copied()));
                    made.extend(node.outputs.iter().flatten().copied().filter(|&v| graph.value(v).ty != ValueType::Tensor));
                    if node.op.is_onnx("QuantizeLinear") {
                        facts.add_qdq(graph, *n, &is_output, unit_of, units);
                    }
                }
                Unit::Wrap(w) => {
                    facts.compute.push(1);
                    facts.out_bytes.push(weigh(&mut wraps[*w as usize].outputs.iter().copied()));
                }
            }
        }
        // Several `QuantizeLinear` of one operator found the same group.
        facts.qdq.sort();
        facts.qdq.dedup();
        // Weights are copied to where they are used and cross no border, whatever they are.
        let fed = graph.inputs().iter().copied().filter(|&v| graph.value(v).ty != ValueType::Tensor);
        for v in fed.chain(made) {
            let producer = graph.producer(v).map(|n| unit_of[n.index()]);
            let mut consumers: Vec<UnitId> = graph.consumers(v).iter().map(|n| unit_of[n.index()]).collect();
            consumers.sort_unstable();
            consumers.dedup();
            let external = is_output[v.index()] || producer.is_none();
            // Inside one unit nothing crosses.
            if external || consumers.iter().any(|&c| Some(c) != producer) {
                facts.non_tensor.push(NonTensor { value: v, producer, consumers, external });
            }
        }
        facts
    }

    /// The group of `quantize` with the operator before it, where each `DequantizeLinear` feeds that operator alone and
    /// every output of it goes to one `QuantizeLinear` alone. What is shared with other operators stays free: binding it
    /// would chain groups together over the whole network.
    fn add_qdq(&mut self, graph: &Graph, quantize: NodeId, is_output: &[bool], unit_of: &[UnitId], units: &[Unit]) {
        let only_consumer = |v: ValueId| match graph.consumers(v) {
            [one] if !is_output[v.index()] => Some(*one),
            _ => None,
        };
        let Some(op) = graph.node(quantize).input(0).and_then(|v| graph.producer(v)) else { return };
        let node = graph.node(op);
        let is_qdq = |n: NodeId| graph.node(n).op.is_onnx("QuantizeLinear") || graph.node(n).op.is_onnx("DequantizeLinear");
        if is_qdq(op) {
            return;
        }
        let mut members = vec![op];
        for &out in node.outputs.iter().flatten() {
            match only_consumer(out) {
                Some(q) if graph.node(q).op.is_onnx("QuantizeLinear") && graph.node(q).input(0) == Some(out) => members.push(q),
                _ => return,
            }
        }
        let outputs = members.len();
        for v in node.inputs.iter().flatten() {
            if let Some(p) = graph.producer(*v)
                && graph.node(p).op.is_onnx("DequantizeLinear")
                && only_consumer(*v) == Some(op)
            {
                members.push(p);
            }
        }
        let mut group: Vec<UnitId> = members.iter().map(|n| unit_of[n.index()]).collect();
        group.sort_unstable();
        group.dedup();
        if members.len() > outputs && group.iter().all(|u| matches!(units[u.index()], Unit::Node(_))) {
            self.qdq.push(group);
        }
    }

    /// The colouring made by `make`, kept for the next call as long as `fits` says that it still applies.
    pub(crate) fn base_colouring(&self, fits: impl Fn(&Colouring) -> bool, make: impl FnOnce() -> Colouring) -> Arc<Colouring> {
        let mut slot = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(c) if fits(c) => c.clone(),
            _ => slot.insert(Arc::new(make())).clone(),
        }
    }

    pub(super) fn value_bytes(&self, graph: &Graph, dims: &Bindings) -> Arc<[u64]> {
        let mut slot = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((d, bytes)) if d == dims => bytes.clone(),
            _ => {
                let size = |v: &crate::graph::Value| -> Option<u64> {
                    let mut elements = 1u64;
                    for d in v.shape.dims()? {
                        elements = elements.checked_mul(d.eval(dims)?)?;
                    }
                    v.dtype?.bytes_for(elements)
                };
                let bytes: Arc<[u64]> = graph.values().iter().map(|v| size(v).unwrap_or(UNKNOWN_BYTES)).collect();
                slot.insert((dims.clone(), bytes)).1.clone()
            }
        }
    }
}

/// Bytes of a value for comparisons: open sizes count as 1, an open type as four bytes, at most `u32::MAX`.
fn rough_bytes(graph: &Graph, value: ValueId) -> u32 {
    let v = graph.value(value);
    if graph.consumers(value).is_empty() {
        return 0;
    }
    let elements = v.shape.dims().into_iter().flatten().fold(1u64, |n, d| n.saturating_mul(d.known().unwrap_or(1)));
    let bits = elements.saturating_mul(v.dtype.map_or(32, |d| u64::from(d.bits().max(1))));
    u32::try_from(bits.div_ceil(8)).unwrap_or(u32::MAX)
}
