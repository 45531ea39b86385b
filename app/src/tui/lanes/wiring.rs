//! What the layout needs of a model, in compact arrays: a pass over these touches a few bytes a node instead of the
//! whole node.

use recut_core::expr::Bindings;
use recut_core::graph::{NodeId, ValueId, ValueKind};
use recut_core::model::Model;

use super::NONE;

/// A value with more readers than this is a hub: it gets no lane, its readers show it in the gutter.
const HUB_READERS: u32 = 16;

/// Edges of the main graph without constants.
#[derive(Clone, Debug, Default)]
pub struct Wiring {
    read_starts: Vec<u32>,
    reads: Vec<u32>,
    write_starts: Vec<u32>,
    writes: Vec<u32>,
    producer: Vec<u32>,
    readers: Vec<u32>,
    lane_readers: Vec<u32>,
    constants: Vec<u16>,
    is_constant_value: Vec<bool>,
    module: Vec<u32>,
    bytes: Vec<u64>,
}

/// Stands for a size that is not known in the compact array of bytes.
const UNKNOWN: u64 = u64::MAX;

impl Wiring {
    /// Reads the model once. Sizes are those under `dims`.
    #[must_use]
    pub fn new(model: &Model, dims: &Bindings) -> Self {
        let graph = &model.graph;
        let mut w = Self {
            producer: vec![NONE; graph.values().len()],
            readers: vec![0; graph.values().len()],
            is_constant_value: graph.values().iter().map(|v| matches!(v.kind, ValueKind::Initializer(_))).collect(),
            bytes: Vec::new(),
            ..Self::default()
        };
        w.read_starts.push(0);
        w.write_starts.push(0);
        for (i, node) in graph.nodes().iter().enumerate() {
            let begin = w.reads.len();
            let mut constants = 0u16;
            for v in node.reads() {
                if w.is_constant_value.get(v.index()) == Some(&true) {
                    constants = constants.saturating_add(1);
                } else if !w.reads.get(begin..).is_some_and(|r| r.contains(&v.0)) {
                    w.reads.push(v.0);
                    if let Some(n) = w.readers.get_mut(v.index()) {
                        *n += 1;
                    }
                }
            }
            let makes_constant = w.reads.len() == begin && (node.op.is_onnx("Constant") || constants == 0 && node.inputs.is_empty());
            for v in node.outputs.iter().flatten() {
                w.writes.push(v.0);
                if let Some(p) = w.producer.get_mut(v.index()) {
                    *p = NodeId::new(i).0;
                }
                if let Some(c) = w.is_constant_value.get_mut(v.index()) {
                    *c = makes_constant && node.bodies.is_empty();
                }
            }
            w.read_starts.push(u32::try_from(w.reads.len()).unwrap_or(NONE));
            w.write_starts.push(u32::try_from(w.writes.len()).unwrap_or(NONE));
            w.constants.push(constants);
            w.module.push(node.module.0);
        }
        w.lane_readers = (0..graph.values().len() as u32).map(|v| if w.has_lane(v) { w.readers(v) } else { 0 }).collect();
        for v in graph.outputs() {
            let has_lane = w.has_lane(v.0);
            if let Some(n) = w.lane_readers.get_mut(v.index()).filter(|_| has_lane) {
                *n += 1;
            }
        }
        w.set_dims(model, dims);
        w
    }

    /// Computes the sizes of all values again, under other dimensions.
    pub fn set_dims(&mut self, model: &Model, dims: &Bindings) {
        let size = |v: &recut_core::graph::Value| -> Option<u64> {
            let dtype = v.dtype?;
            let elements = v.shape.dims()?.iter().try_fold(1u64, |n, d| n.checked_mul(d.eval(dims)?))?;
            dtype.bytes_for(elements)
        };
        self.bytes = model.graph.values().iter().map(|v| size(v).unwrap_or(UNKNOWN)).collect();
    }

    /// Values that a node reads and that are no constants, each once.
    #[must_use]
    pub fn reads(&self, node: NodeId) -> &[u32] {
        row(&self.read_starts, &self.reads, node.index())
    }

    /// Values that a node makes.
    #[must_use]
    pub fn writes(&self, node: NodeId) -> &[u32] {
        row(&self.write_starts, &self.writes, node.index())
    }

    /// How many constants a node reads: those stored in the file.
    #[must_use]
    pub fn constants(&self, node: NodeId) -> u32 {
        u32::from(self.constants.get(node.index()).copied().unwrap_or(0))
            + self.reads(node).iter().filter(|&&v| self.is_constant(v)).count() as u32
    }

    /// Whether a value is a constant: stored in the file or made by a node without inputs.
    #[must_use]
    pub fn is_constant(&self, value: u32) -> bool {
        self.is_constant_value.get(value as usize).copied().unwrap_or(true)
    }

    /// Whether a value has too many readers for a lane.
    #[must_use]
    pub fn is_hub(&self, value: u32) -> bool {
        self.readers(value) > HUB_READERS
    }

    /// Nodes that read a value.
    #[must_use]
    pub fn readers(&self, value: u32) -> u32 {
        self.readers.get(value as usize).copied().unwrap_or(0)
    }

    /// Whether a value gets a lane.
    #[must_use]
    pub fn has_lane(&self, value: u32) -> bool {
        !self.is_constant(value) && !self.is_hub(value)
    }

    /// How often every value is read, by nodes and as an output of the model; 0 where it gets no lane.
    #[must_use]
    pub fn lane_readers(&self) -> &[u32] {
        &self.lane_readers
    }

    /// The node that makes a value.
    #[must_use]
    pub fn producer(&self, value: u32) -> Option<NodeId> {
        self.producer.get(value as usize).copied().filter(|&p| p != NONE).map(NodeId)
    }

    /// The module of a node.
    #[must_use]
    pub fn module(&self, node: NodeId) -> u32 {
        self.module.get(node.index()).copied().unwrap_or(0)
    }

    /// Size of a value in bytes, where it is known.
    #[must_use]
    pub fn bytes(&self, value: ValueId) -> Option<u64> {
        self.bytes.get(value.index()).copied().filter(|&b| b != UNKNOWN)
    }

    /// Number of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.producer.len()
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.module.len()
    }
}

fn row<'a>(starts: &[u32], items: &'a [u32], i: usize) -> &'a [u32] {
    match (starts.get(i), starts.get(i + 1)) {
        (Some(&a), Some(&b)) => items.get(a as usize..b as usize).unwrap_or(&[]),
        _ => &[],
    }
}
