//! Walks the steps of a program.

use std::time::Instant;

use recut_core::graph::ValueId;
use smallvec::SmallVec;

use super::program::{Action, Level, Operand, Program, Step};
use super::tract_op::TractOp;
use crate::engine::{CancelToken, NodeRef, Observer, RunError, Subgraph, catch};
use crate::kernels::{BufferPool, Inputs, Kernel, KernelError, Outputs, RunCtx, Slot};
use crate::names::describe;
use crate::tensor::{Tensor, Value};

/// Slots of a level with those around it.
pub(super) struct Frame<'f> {
    pub slots: &'f [Option<Value>],
    pub parent: Option<&'f Frame<'f>>,
}

type Gathered = SmallVec<[Option<Slot>; 4]>;

/// One run of a program.
pub(super) struct Run<'r> {
    program: &'r Program,
    subgraph: &'r Subgraph,
    observer: &'r mut dyn Observer,
    pub(super) cancel: &'r CancelToken,
    buffers: &'r mut BufferPool,
    /// Bytes of all values that only slots hold: shared ones are counted where they were made.
    pub(super) live: usize,
    wants_values: bool,
}

/// Bytes that dropping the value would free.
pub(super) fn owned_bytes(v: &mut Value) -> usize {
    let unique = match v {
        Value::Tensor(t) => t.is_unique(),
        Value::Sequence(s) => std::sync::Arc::get_mut(s).is_some(),
        Value::Optional(_) => false,
    };
    if unique { v.byte_len() } else { 0 }
}

impl<'r> Run<'r> {
    pub(super) fn new(
        program: &'r Program,
        subgraph: &'r Subgraph,
        observer: &'r mut dyn Observer,
        cancel: &'r CancelToken,
        buffers: &'r mut BufferPool,
    ) -> Self {
        let wants_values = observer.wants_values();
        Self { program, subgraph, observer, cancel, buffers, live: 0, wants_values }
    }

    /// Runs the main level.
    pub(super) fn main(mut self, inputs: Vec<Value>) -> Result<Vec<Value>, RunError> {
        let level = &self.program.main;
        let mut slots = vec![None; level.slots];
        self.feed(level, &mut slots, inputs);
        self.level(level, &mut slots, None)?;
        Ok(self.outputs(level, &mut slots, None))
    }

    /// Puts inputs into their slots.
    pub(super) fn feed(&mut self, level: &Level, slots: &mut [Option<Value>], inputs: impl IntoIterator<Item = Value>) {
        for (slot, v) in level.inputs.iter().zip(inputs) {
            match slot {
                Some(s) => self.store(slots, *s, v),
                None => self.recycle(v),
            }
        }
    }

    /// Runs every step.
    pub(super) fn level(&mut self, level: &Level, slots: &mut [Option<Value>], parent: Option<&Frame<'_>>) -> Result<(), RunError> {
        for step in &level.steps {
            if self.cancel.is_cancelled() {
                return Err(RunError::Cancelled);
            }
            match &step.action {
                Action::Folded(bytes) => {
                    let now = Instant::now();
                    self.observer.node(step.node, now, now, *bytes);
                    if self.wants_values {
                        self.show_folded(step);
                    }
                }
                Action::InGroup => {
                    let now = Instant::now();
                    self.observer.node(step.node, now, now, 0);
                }
                Action::Kernel(kernel, fallback) => self.kernel(step, &**kernel, fallback.as_ref(), slots, parent)?,
                Action::Tract(op) => {
                    let gathered = gather(self.program, &step.inputs, slots, parent);
                    let before = self.live;
                    let (outputs, start, end) = self.tract(step.node, op, &gathered)?;
                    self.finish(step, outputs, gathered, 0, before, slots, (start, end))?;
                }
                Action::If { .. } | Action::Loop(_) | Action::Scan(..) | Action::SequenceMap(_) => {
                    let start = Instant::now();
                    let outputs = self.control_flow(step, slots, parent)?;
                    let end = Instant::now();
                    let before = self.live;
                    self.finish(step, outputs, Gathered::new(), 0, before, slots, (start, end))?;
                    for &s in &step.dies {
                        if let Some(v) = slots[s as usize].take() {
                            self.release(v);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn show_folded(&mut self, step: &Step) {
        for (value, from) in step.values.iter().zip(&step.inputs) {
            if let Operand::Constant(c) = *from
                && let Some(v) = self.program.constants.get(c as usize)
            {
                self.show(*value, v);
            }
        }
    }

    fn kernel(
        &mut self,
        step: &Step,
        kernel: &dyn Kernel,
        fallback: Option<&TractOp>,
        slots: &mut [Option<Value>],
        parent: Option<&Frame<'_>>,
    ) -> Result<(), RunError> {
        let mut gathered = gather(self.program, &step.inputs, slots, parent);
        let given = gathered.iter().flatten().count();
        // What a kernel takes to write over is gone from `live` with it.
        let lasting: SmallVec<[usize; 4]> =
            gathered.iter().map(|s| s.as_ref().filter(|s| s.last_use).map_or(0, |s| s.value.byte_len())).collect();
        let before = self.live;
        let mut ctx = RunCtx { pool: self.buffers };
        let start = Instant::now();
        let result = catch(|| kernel.run(&mut ctx, Inputs::new(&mut gathered)));
        let end = Instant::now();
        // What a cancelled kernel left out must not be taken for its result.
        if self.cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        let outputs = match result {
            Ok(Ok(outputs)) => outputs,
            Ok(Err(KernelError::Cancelled)) => return Err(RunError::Cancelled),
            Ok(Err(KernelError::Unsupported(what))) => {
                let Some(op) = fallback.filter(|_| gathered.iter().flatten().count() == given) else {
                    return Err(self.error(step.node, KernelError::Unsupported(what).to_string()));
                };
                let (outputs, start, end) = self.tract(step.node, op, &gathered)?;
                return self.finish(step, outputs, gathered, 0, before, slots, (start, end));
            }
            Ok(Err(e)) => return Err(self.error(step.node, e.to_string())),
            Err(panic) => return Err(self.error(step.node, panic)),
        };
        let consumed = gathered.iter().zip(&lasting).filter(|(s, _)| s.is_none()).map(|(_, b)| b).sum();
        self.finish(step, outputs, gathered, consumed, before, slots, (start, end))
    }

    fn tract(&mut self, node: NodeRef, op: &TractOp, gathered: &[Option<Slot>]) -> Result<(Outputs, Instant, Instant), RunError> {
        let ready = op.ready(gathered).map_err(|e| self.error(node, e))?;
        let start = Instant::now();
        let outputs = op.run(&ready, gathered).map_err(|e| self.error(node, e))?;
        Ok((outputs, start, Instant::now()))
    }

    /// Stores outputs, frees what died, tells the observer.
    #[expect(clippy::too_many_arguments, reason = "the tail of every kind of step")]
    fn finish(
        &mut self,
        step: &Step,
        mut outputs: Outputs,
        gathered: Gathered,
        consumed: usize,
        before: usize,
        slots: &mut [Option<Value>],
        (start, end): (Instant, Instant),
    ) -> Result<(), RunError> {
        let mut bytes = 0;
        self.live = before.saturating_sub(consumed);
        for (i, slot) in step.outputs.iter().enumerate() {
            let made = outputs.get_mut(i).and_then(Option::take);
            let value_id = step.values.get(i).copied().flatten();
            if let Some(v) = &made {
                bytes += v.byte_len();
                if self.wants_values {
                    self.show(value_id, v);
                }
            }
            match (slot, made) {
                (Some(s), Some(v)) => self.store(slots, *s, v),
                (None, Some(v)) => self.recycle(v),
                (Some(_), None) => return Err(self.error(step.node, format!("output {i} was not made"))),
                (None, None) => {}
            }
        }
        self.observer.node(step.node, start, end, bytes);
        self.observer.live_bytes(self.live);
        // Copies first, so that the one that dies is the last holder.
        let mut dying: SmallVec<[Value; 4]> = SmallVec::new();
        for slot in gathered.into_iter().flatten() {
            if slot.last_use {
                dying.push(slot.value);
            }
        }
        for v in dying {
            self.release(v);
        }
        Ok(())
    }

    fn show(&mut self, id: Option<ValueId>, v: &Value) {
        if let Some(id) = id
            && self.observer.wants_value(id)
        {
            self.observer.value(id, v);
        }
    }

    fn store(&mut self, slots: &mut [Option<Value>], slot: u32, mut v: Value) {
        self.live += owned_bytes(&mut v);
        slots[slot as usize] = Some(v);
    }

    /// Frees a value that was counted.
    pub(super) fn release(&mut self, mut v: Value) {
        self.live = self.live.saturating_sub(owned_bytes(&mut v));
        self.recycle(v);
    }

    fn recycle(&mut self, v: Value) {
        if let Value::Tensor(t) = v
            && let Some(b) = t.into_buffer()
        {
            self.buffers.put(b);
        }
    }

    /// Outputs of a level that ran; its slots are empty afterwards.
    pub(super) fn outputs(&mut self, level: &Level, slots: &mut [Option<Value>], parent: Option<&Frame<'_>>) -> Vec<Value> {
        let mut made = Vec::with_capacity(level.outputs.len());
        for o in &level.outputs {
            let slot = fetch(self.program, o.from, slots, parent);
            let mut v = slot.map_or_else(|| Value::Optional(None), |s| s.value);
            if matches!(o.from, Operand::Local { last: true, .. }) {
                self.live = self.live.saturating_sub(owned_bytes(&mut v));
            }
            made.push(v);
        }
        made
    }

    /// Inputs of a control-flow step, moved out where they die.
    pub(super) fn moved_inputs(&mut self, step: &Step, slots: &mut [Option<Value>], parent: Option<&Frame<'_>>) -> Vec<Option<Value>> {
        let gathered = gather(self.program, &step.inputs, slots, parent);
        let mut moved = Vec::with_capacity(gathered.len());
        for slot in gathered {
            moved.push(slot.map(|mut s| {
                if s.last_use {
                    self.live = self.live.saturating_sub(owned_bytes(&mut s.value));
                }
                s.value
            }));
        }
        moved
    }

    pub(super) fn error(&self, at: NodeRef, message: String) -> RunError {
        let (node, op) = describe(&self.subgraph.model, at);
        RunError::Node { engine: "cpu".into(), partition: self.subgraph.name.to_string(), node, op, message }
    }

    /// The one boolean of a condition.
    pub(super) fn condition(&self, at: NodeRef, v: &Value) -> Result<bool, RunError> {
        match v.as_tensor().map(Tensor::bytes) {
            Some(&[b]) if v.as_tensor().is_some_and(|t| t.dtype() == recut_core::dtype::DType::Bool) => Ok(b != 0),
            _ => Err(self.error(at, "the condition must be one boolean".to_owned())),
        }
    }
}

fn fetch(program: &Program, from: Operand, slots: &mut [Option<Value>], parent: Option<&Frame<'_>>) -> Option<Slot> {
    match from {
        Operand::Absent => None,
        Operand::Local { slot, last: true } => slots[slot as usize].take().map(|value| Slot { value, last_use: true }),
        Operand::Local { slot, last: false } => slots[slot as usize].clone().map(|value| Slot { value, last_use: false }),
        Operand::Outer { up, slot } => {
            let frame = (1..up).try_fold(parent?, |f, _| f.parent)?;
            frame.slots[slot as usize].clone().map(|value| Slot { value, last_use: false })
        }
        Operand::Constant(c) => program.constants.get(c as usize).map(|v| Slot { value: v.clone(), last_use: false }),
    }
}

fn gather(program: &Program, operands: &[Operand], slots: &mut [Option<Value>], parent: Option<&Frame<'_>>) -> Gathered {
    operands.iter().map(|&o| fetch(program, o, slots, parent)).collect()
}
