//! What preparing makes: steps over slots.

use recut_core::dtype::DType;
use recut_core::graph::ValueId;

use super::tract_op::TractOp;
use crate::engine::{Merged, NodeRef};
use crate::kernels::Kernel;
use crate::tensor::Value;

/// Where a step reads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// Left out.
    Absent,
    /// A slot of this level; with `last` it is emptied.
    Local { slot: u32, last: bool },
    /// A slot of an enclosing level, `up` levels out.
    Outer { up: u32, slot: u32 },
    /// Index into [`Program::constants`].
    Constant(u32),
}

/// What a step does.
pub(super) enum Action {
    /// Nothing any more: computed while preparing. Bytes it gives.
    Folded(usize),
    /// Nothing by itself: the step of its group does it.
    InGroup,
    /// Our kernel; tract's operator where it turns out not to do what it is asked.
    Kernel(Box<dyn Kernel>, Option<TractOp>),
    /// tract's operator.
    Tract(TractOp),
    /// `If`.
    If { then_branch: Level, else_branch: Level },
    /// `Loop`.
    Loop(Level),
    /// `Scan`.
    Scan(Level, ScanSpec),
    /// `SequenceMap`.
    SequenceMap(Level),
}

/// Attributes of a `Scan`.
#[derive(Debug)]
pub(super) struct ScanSpec {
    /// Number of inputs that are scanned over; they are the last ones.
    pub scanned: usize,
    /// Axis of every scanned input.
    pub input_axes: Vec<i64>,
    /// Which scanned inputs run backwards.
    pub input_reverse: Vec<bool>,
    /// Axis of every scanned output.
    pub output_axes: Vec<i64>,
    /// Which scanned outputs are filled backwards.
    pub output_reverse: Vec<bool>,
    /// Version 8: a leading input of sequence lengths, and a batch axis before everything.
    pub batched: bool,
}

/// One node of a level.
pub(super) struct Step {
    /// The node.
    pub node: NodeRef,
    /// What is done.
    pub action: Action,
    /// What is read.
    pub inputs: Box<[Operand]>,
    /// Slots that are written; `None` where nobody reads the output.
    pub outputs: Box<[Option<u32>]>,
    /// Values of the outputs, for an observer that wants them; empty in bodies.
    pub values: Box<[Option<ValueId>]>,
    /// Slots that bodies read here for the last time.
    pub dies: Box<[u32]>,
}

impl Step {
    /// A node that another step does.
    pub(super) fn in_group(node: NodeRef) -> Self {
        Self {
            node,
            action: Action::InGroup,
            inputs: Box::default(),
            outputs: Box::default(),
            values: Box::default(),
            dies: Box::default(),
        }
    }
}

/// An output of a level: its source, and its type for when it is made zero times.
pub(super) struct LevelOutput {
    /// Where it is.
    pub from: Operand,
    /// Element type, where known.
    pub dtype: Option<DType>,
    /// Sizes, where known; unknown ones are 0.
    pub dims: Vec<usize>,
}

/// A graph that is ready to run.
pub(super) struct Level {
    /// Nodes in order.
    pub steps: Vec<Step>,
    /// Number of slots.
    pub slots: usize,
    /// Slot of every input; `None` where nobody reads it.
    pub inputs: Vec<Option<u32>>,
    /// Outputs.
    pub outputs: Vec<LevelOutput>,
}

/// A subgraph that is ready to run.
pub(super) struct Program {
    /// The main level.
    pub main: Level,
    /// Values that are the same in every run. What no step reads is gone (`Value::Optional(None)`).
    pub constants: Vec<Value>,
    /// Nodes without a step of their own.
    pub merged: Vec<Merged>,
}
