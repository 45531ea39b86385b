//! The `cpu` engine: runs a subgraph node by node, each with our kernel or, where there is none, tract's operator.
//!
//! `prepare` turns nodes into `program::Step`s once: kernels chosen and prepared with the constants they see, every
//! value given a slot, every last use known. `execute` walks the steps; it looks nothing up. Bodies of control-flow
//! nodes are programs of their own, run by `control_flow` over slots that are reused from iteration to iteration; what
//! they read from outside is reached through a chain of frames and never copied.
//!
//! A node that reads constants only is computed while preparing (`fold`).
//!
//! What the layout leaves room for:
//! * *Fused groups*: a step need not be one node. A fused step takes the operands of all its nodes but inner ones,
//!   is timed at its anchor node, and members report through the observer as fused into it. `groups` finds the
//!   quantized ones (DequantizeLinear, operator, QuantizeLinear), which run on integers.
//! * *Packed weights and blocked layouts*: a kernel sees its constant inputs when it is prepared and keeps its own form
//!   of them. A layout that crosses nodes is a property of a slot, chosen before kernels are prepared, with conversion
//!   steps where producer and consumer differ.
//! * *Buffer reuse*: slots die at their last use and their buffers go to the pool; a kernel may take a dying input and
//!   write in place. A static plan would replace the pool by offsets per slot, since lifetimes are known here.

mod control_flow;
mod execute;
mod fold;
mod group_kernel;
mod groups;
mod merge;
mod prepare;
mod program;
mod tract_op;
mod weights;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::engine::{
    CancelToken, Capabilities, Engine, ExecContext, Merged, Observer, PrepareOptions, Prepared, RunError, Subgraph, with_cancel,
};
use crate::tensor::Value;
use execute::Run;
use program::Program;
use weights::{WeightStore, WeightStores};

/// The engine.
pub struct CpuEngine {
    context: Arc<ExecContext>,
    weights: WeightStores,
}

impl CpuEngine {
    /// An engine that computes on this pool.
    #[must_use]
    pub fn new(context: Arc<ExecContext>) -> Self {
        Self { context, weights: WeightStores::default() }
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { per_node_times: true, precisions: vec!["fp32".into()], version: env!("CARGO_PKG_VERSION").into() }
    }

    fn prepare(&self, subgraph: &Subgraph, options: &PrepareOptions) -> Result<Box<dyn Prepared>, RunError> {
        let weights = self.weights.of(&subgraph.model);
        let program = self.context.install(|| prepare::prepare(subgraph, &weights, options))?;
        weights.forget_unused();
        Ok(Box::new(CpuPrepared { subgraph: subgraph.clone(), program, context: self.context.clone(), _weights: weights }))
    }
}

struct CpuPrepared {
    subgraph: Subgraph,
    program: Program,
    context: Arc<ExecContext>,
    /// Lets other partitions of the model share what this one loaded.
    _weights: Arc<WeightStore>,
}

impl Prepared for CpuPrepared {
    fn merged(&self) -> Vec<Merged> {
        self.program.merged.clone()
    }

    fn run(&mut self, inputs: Vec<Value>, observer: &mut dyn Observer, cancel: &CancelToken) -> Result<Vec<Value>, RunError> {
        if inputs.len() != self.subgraph.inputs.len() {
            let message = format!("{} inputs were given, it takes {}", inputs.len(), self.subgraph.inputs.len());
            return Err(RunError::Engine { engine: "cpu".into(), partition: self.subgraph.name.to_string(), message });
        }
        let (program, subgraph) = (&self.program, &self.subgraph);
        self.context.install(|| {
            with_cancel(cancel, || self.context.with_buffers(|buffers| Run::new(program, subgraph, observer, cancel, buffers).main(inputs)))
        })
    }
}
