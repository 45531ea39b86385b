//! `If`, `Loop`, `Scan` and `SequenceMap`: bodies run over slots that are reused, and see the outer ones through frames.

use std::sync::Arc;

use recut_core::dtype::DType;
use smallvec::SmallVec;

use super::execute::{Frame, Run};
use super::program::{Action, Level, LevelOutput, ScanSpec, Step};
use crate::axis;
use crate::engine::{NodeRef, RunError};
use crate::kernels::{KernelError, Outputs, resolve_axis};
use crate::tensor::{MAX_TENSOR_BYTES, Tensor, Value};

impl Run<'_> {
    /// Runs a control-flow step.
    pub(super) fn control_flow(
        &mut self,
        step: &Step,
        slots: &mut [Option<Value>],
        parent: Option<&Frame<'_>>,
    ) -> Result<Outputs, RunError> {
        let inputs = self.moved_inputs(step, slots, parent);
        let frame = Frame { slots, parent };
        let made = match &step.action {
            Action::If { then_branch, else_branch } => self.branch(step.node, then_branch, else_branch, &inputs, &frame)?,
            Action::Loop(body) => self.repeat(step.node, body, inputs, &frame)?,
            Action::Scan(body, spec) if spec.batched => self.scan_batches(step.node, body, spec, inputs, &frame)?,
            Action::Scan(body, spec) => self.scan(step.node, body, spec, inputs, &frame)?,
            Action::SequenceMap(body) => self.map_sequence(step.node, body, &inputs, &frame)?,
            _ => Vec::new(),
        };
        Ok(made.into_iter().map(Some).collect())
    }

    fn call(&mut self, body: &Level, slots: &mut [Option<Value>], inputs: Vec<Value>, frame: &Frame<'_>) -> Result<Vec<Value>, RunError> {
        self.feed(body, slots, inputs);
        self.level(body, slots, Some(frame))?;
        Ok(self.outputs(body, slots, Some(frame)))
    }

    fn check_inputs(&self, at: NodeRef, body: &Level, given: usize) -> Result<(), RunError> {
        if body.inputs.len() == given {
            return Ok(());
        }
        Err(self.error(at, format!("its body takes {} inputs, it would be given {given}", body.inputs.len())))
    }

    fn branch(
        &mut self,
        at: NodeRef,
        yes: &Level,
        no: &Level,
        inputs: &[Option<Value>],
        frame: &Frame<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let Some(Some(condition)) = inputs.first() else { return Err(self.error(at, "the condition is missing".to_owned())) };
        let body = if self.condition(at, condition)? { yes } else { no };
        self.check_inputs(at, body, 0)?;
        self.call(body, &mut vec![None; body.slots], Vec::new(), frame)
    }

    fn repeat(&mut self, at: NodeRef, body: &Level, inputs: Vec<Option<Value>>, frame: &Frame<'_>) -> Result<Vec<Value>, RunError> {
        let mut inputs = inputs.into_iter();
        let limit = match inputs.next().flatten() {
            None => None,
            Some(v) => match v.as_tensor().and_then(|t| t.as_slice::<i64>()) {
                Some(&[n]) => Some(n),
                _ => return Err(self.error(at, "the trip count must be one 64-bit integer".to_owned())),
            },
        };
        let mut go_on = match inputs.next().flatten() {
            None => true,
            Some(v) => self.condition(at, &v)?,
        };
        let mut states: Vec<Value> = Vec::new();
        for (i, v) in inputs.enumerate() {
            states.push(v.ok_or_else(|| self.error(at, format!("the loop-carried input {} is missing", i + 2)))?);
        }
        let carried = states.len();
        self.check_inputs(at, body, carried + 2)?;
        let Some(scanned) = body.outputs.get(carried + 1..) else {
            return Err(self.error(at, format!("its body gives {} outputs, at least {} are needed", body.outputs.len(), carried + 1)));
        };
        let mut collected = Collected::new(scanned.len());
        let mut slots = vec![None; body.slots];
        let mut i = 0i64;
        while go_on && limit.is_none_or(|n| i < n) {
            let condition = Tensor::scalar(u8::from(go_on)).retyped(DType::Bool);
            let mut given = vec![Value::Tensor(Tensor::scalar(i)), condition.into()];
            given.append(&mut states);
            let mut made = self.call(body, &mut slots, given, frame)?.into_iter();
            if let Some(c) = made.next() {
                go_on = self.condition(at, &c)?;
            }
            states.extend(made.by_ref().take(carried));
            collected.push(made).map_err(|e| self.error(at, e.to_string()))?;
            i += 1;
        }
        let joined = collected.join(scanned, &vec![0; scanned.len()], &vec![false; scanned.len()]);
        states.extend(joined.map_err(|e| self.error(at, e.to_string()))?.into_iter().map(Value::Tensor));
        Ok(states)
    }

    fn scan(
        &mut self,
        at: NodeRef,
        body: &Level,
        spec: &ScanSpec,
        inputs: Vec<Option<Value>>,
        frame: &Frame<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let mut given = Vec::with_capacity(inputs.len());
        for (i, v) in inputs.into_iter().enumerate() {
            given.push(v.ok_or_else(|| self.error(at, format!("input {i} is missing")))?);
        }
        self.check_inputs(at, body, given.len())?;
        let scanned = given.split_off(given.len().saturating_sub(spec.scanned));
        let mut tensors = Vec::with_capacity(scanned.len());
        for v in &scanned {
            tensors.push(v.as_tensor().cloned().ok_or_else(|| self.error(at, "a scanned input is no tensor".to_owned()))?);
        }
        let carried = given.len();
        let (states, collected) = self.scan_once(at, body, spec, given, &tensors, None, frame)?;
        self.scan_outputs(at, body, spec, carried, states, collected)
    }

    fn scan_outputs(
        &self,
        at: NodeRef,
        body: &Level,
        spec: &ScanSpec,
        carried: usize,
        mut states: Vec<Value>,
        collected: Collected,
    ) -> Result<Vec<Value>, RunError> {
        let outputs = body.outputs.get(carried..).unwrap_or_default();
        let joined = collected.join(outputs, &spec.output_axes, &spec.output_reverse).map_err(|e| self.error(at, e.to_string()))?;
        states.extend(joined.into_iter().map(Value::Tensor));
        Ok(states)
    }

    /// The iterations of one sequence: `length` of them, or as many as the scanned inputs have.
    #[expect(clippy::too_many_arguments, reason = "one scan, with and without batches")]
    fn scan_once(
        &mut self,
        at: NodeRef,
        body: &Level,
        spec: &ScanSpec,
        mut states: Vec<Value>,
        scanned: &[Tensor],
        length: Option<usize>,
        frame: &Frame<'_>,
    ) -> Result<(Vec<Value>, Collected), RunError> {
        let carried = states.len();
        let mut axes: SmallVec<[usize; 4]> = SmallVec::new();
        let mut full = None;
        for (t, &axis) in scanned.iter().zip(&spec.input_axes) {
            let axis = resolve_axis(axis, t.rank()).map_err(|e| self.error(at, e.to_string()))?;
            let Some(&n) = t.dims().get(axis) else { return Err(self.error(at, "a scanned input is a scalar".to_owned())) };
            if full.is_some_and(|f| f != n) {
                return Err(self.error(at, format!("scanned inputs have {} and {n} elements along their axes", full.unwrap_or(0))));
            }
            full = Some(n);
            axes.push(axis);
        }
        let full = full.unwrap_or(0);
        let length = length.unwrap_or(full).min(full);
        let mut collected = Collected::new(body.outputs.len().saturating_sub(carried));
        let mut slots = vec![None; body.slots];
        for i in 0..length {
            let mut given = std::mem::take(&mut states);
            for ((t, &axis), &reverse) in scanned.iter().zip(&axes).zip(&spec.input_reverse) {
                let at_index = if reverse { length - 1 - i } else { i };
                given.push(axis::index(t, axis, at_index).map_err(|e| self.error(at, e.to_string()))?.into());
            }
            let mut made = self.call(body, &mut slots, given, frame)?.into_iter();
            states.extend(made.by_ref().take(carried));
            collected.push(made).map_err(|e| self.error(at, e.to_string()))?;
        }
        Ok((states, collected))
    }

    /// `Scan` of version 8: every input has a batch axis first, and sequences may be shorter than the longest.
    fn scan_batches(
        &mut self,
        at: NodeRef,
        body: &Level,
        spec: &ScanSpec,
        inputs: Vec<Option<Value>>,
        frame: &Frame<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let fail = |run: &Self, e: KernelError| run.error(at, e.to_string());
        let mut inputs = inputs.into_iter();
        let lengths: Option<Vec<i64>> = inputs.next().flatten().and_then(|v| Some(v.as_tensor()?.as_slice::<i64>()?.to_vec()));
        let mut tensors = Vec::new();
        for v in inputs {
            tensors.push(v.and_then(|v| v.as_tensor().cloned()).ok_or_else(|| self.error(at, "an input is no tensor".to_owned()))?);
        }
        self.check_inputs(at, body, tensors.len())?;
        let carried = tensors.len().saturating_sub(spec.scanned);
        let batch = tensors.first().and_then(|t| t.dims().first().copied()).unwrap_or(0);
        let longest = tensors.get(carried).and_then(|t| t.dims().get(1).copied()).unwrap_or(0);
        let mut columns: Vec<Vec<Tensor>> = vec![Vec::new(); body.outputs.len()];
        for b in 0..batch {
            let rows = tensors.iter().map(|t| axis::index(t, 0, b)).collect::<Result<Vec<_>, _>>().map_err(|e| fail(self, e))?;
            let (states, scanned) = rows.split_at(carried);
            let length = lengths.as_ref().and_then(|l| l.get(b)).and_then(|&n| usize::try_from(n).ok());
            let states = states.iter().cloned().map(Value::Tensor).collect();
            let (states, mut collected) = self.scan_once(at, body, spec, states, scanned, length, frame)?;
            collected.pad(longest).map_err(|e| fail(self, e))?;
            let made = self.scan_outputs(at, body, spec, carried, states, collected)?;
            for (column, v) in columns.iter_mut().zip(made) {
                column.extend(v.as_tensor().cloned());
            }
        }
        columns.iter().map(|c| axis::stack(c, 0).map(Value::Tensor)).collect::<Result<_, _>>().map_err(|e| fail(self, e))
    }

    fn map_sequence(&mut self, at: NodeRef, body: &Level, inputs: &[Option<Value>], frame: &Frame<'_>) -> Result<Vec<Value>, RunError> {
        let Some(Some(Value::Sequence(first))) = inputs.first() else {
            return Err(self.error(at, "input 0 must be a sequence".to_owned()));
        };
        self.check_inputs(at, body, inputs.len())?;
        let mut made: Vec<Vec<Value>> = vec![Vec::with_capacity(first.len()); body.outputs.len()];
        let mut slots = vec![None; body.slots];
        for i in 0..first.len() {
            let mut given = Vec::with_capacity(inputs.len());
            for (k, v) in inputs.iter().enumerate() {
                given.push(match v {
                    Some(Value::Sequence(s)) => s
                        .get(i)
                        .cloned()
                        .ok_or_else(|| self.error(at, format!("the sequence of input {k} is shorter than that of input 0")))?,
                    Some(v) => v.clone(),
                    None => return Err(self.error(at, format!("input {k} is missing"))),
                });
            }
            let outputs = self.call(body, &mut slots, given, frame)?;
            for (column, v) in made.iter_mut().zip(outputs) {
                column.push(v);
            }
        }
        Ok(made.into_iter().map(|c| Value::Sequence(Arc::new(c))).collect())
    }
}

/// What iterations gave, to be joined when their number is known: nothing is allocated by a trip count from the file.
struct Collected {
    columns: Vec<Vec<Tensor>>,
    bytes: u64,
}

impl Collected {
    fn new(columns: usize) -> Self {
        Self { columns: vec![Vec::new(); columns], bytes: 0 }
    }

    fn push(&mut self, values: impl Iterator<Item = Value>) -> Result<(), KernelError> {
        for (column, v) in self.columns.iter_mut().zip(values) {
            let Value::Tensor(t) = v else { return crate::invalid!("an output to be collected is no tensor") };
            // An element takes some memory itself, also where it is empty.
            self.bytes = self.bytes.saturating_add(t.byte_len() as u64 + 128);
            column.push(t);
        }
        if self.bytes > MAX_TENSOR_BYTES {
            return crate::invalid!("its outputs exceed {} GiB", MAX_TENSOR_BYTES >> 30);
        }
        Ok(())
    }

    /// Zeros after the last element, up to `length`.
    fn pad(&mut self, length: usize) -> Result<(), KernelError> {
        for column in &mut self.columns {
            if let Some(last) = column.last() {
                let zeros = Tensor::zeros(last.dtype(), last.dims())?;
                column.resize(length.max(column.len()), zeros);
            }
        }
        Ok(())
    }

    fn join(self, outputs: &[LevelOutput], axes: &[i64], reverse: &[bool]) -> Result<Vec<Tensor>, KernelError> {
        let mut joined = Vec::with_capacity(self.columns.len());
        for (i, mut column) in self.columns.into_iter().enumerate() {
            let axis = axes.get(i).copied().unwrap_or(0);
            if column.is_empty() {
                let Some(output) = outputs.get(i) else { return crate::invalid!("output {i} of the body is missing") };
                let Some(dtype) = output.dtype else { return crate::invalid!("it ran zero times and the type of output {i} is not known") };
                let at = resolve_axis(axis, output.dims.len() + 1)?;
                let mut dims = output.dims.clone();
                dims.insert(at, 0);
                joined.push(Tensor::zeros(dtype, &dims)?);
                continue;
            }
            if reverse.get(i).copied().unwrap_or(false) {
                column.reverse();
            }
            joined.push(axis::stack(&column, axis)?);
        }
        Ok(joined)
    }
}
