//! The `tract` engine: a whole subgraph, optimized and run by tract. A reference to compare with.

pub(crate) mod convert;
pub(crate) mod proto;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use recut_core::diagnostic::printable;
use recut_core::dtype::DType;
use tract_onnx::pb;
use tract_onnx::prelude::{InferenceModelExt, IntoRunnable, TValue, TVec, TypedRunnableModel};

use crate::engine::{CancelToken, Capabilities, Engine, ExecContext, Observer, PrepareOptions, Prepared, RunError, Subgraph, catch};
use crate::tensor::{Dims, Tensor, Value};

/// Version of tract that is built in.
pub const TRACT_VERSION: &str = "0.23";

/// A compiled message.
pub(crate) type Plan = Arc<TypedRunnableModel>;

fn framework() -> &'static tract_onnx::Onnx {
    static ONNX: OnceLock<tract_onnx::Onnx> = OnceLock::new();
    ONNX.get_or_init(|| tract_onnx::onnx().with_ignore_value_info(true))
}

/// Whether tract knows this operator of the standard domain.
pub(crate) fn knows(op: &str) -> bool {
    framework().op_register.0.contains_key(op)
}

/// Optimizes a message for running.
pub(crate) fn compile(model: &pb::ModelProto) -> Result<Plan, String> {
    let made = catch(|| {
        let parsed = framework().parse(model, None)?;
        if !parsed.unresolved_inputs.is_empty() {
            return Err(tract_onnx::prelude::TractError::msg(format!("nothing gives {}", parsed.unresolved_inputs.join(", "))));
        }
        parsed.model.into_optimized()?.into_runnable()
    })?;
    made.map_err(|e| format!("tract cannot prepare it: {}", printable(&format!("{e:#}"))))
}

/// Runs a compiled message on these inputs.
pub(crate) fn run(plan: &Plan, inputs: impl Iterator<Item = Result<tract_onnx::prelude::Tensor, String>>) -> Result<TVec<TValue>, String> {
    let inputs = inputs.map(|t| t.map(TValue::from)).collect::<Result<TVec<_>, _>>()?;
    catch(|| plan.run(inputs))?.map_err(|e| format!("tract: {}", printable(&format!("{e:#}"))))
}

/// The engine.
pub struct TractEngine {
    context: Arc<ExecContext>,
}

impl TractEngine {
    /// An engine that computes on this pool.
    #[must_use]
    pub fn new(context: Arc<ExecContext>) -> Self {
        Self { context }
    }
}

impl Engine for TractEngine {
    fn name(&self) -> &'static str {
        "tract"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { per_node_times: false, precisions: vec!["fp32".into()], version: TRACT_VERSION.into() }
    }

    fn prepare(&self, subgraph: &Subgraph, _: &PrepareOptions) -> Result<Box<dyn Prepared>, RunError> {
        let model = &subgraph.model;
        let mut missing = Vec::new();
        for &id in subgraph.nodes.iter() {
            let node = model.graph.node(id);
            if !node.op.domain.is_empty() || !knows(&node.op.name) {
                missing.push((printable(model.graph.stable_id(id)).into_owned(), node.op.to_string()));
            }
        }
        if !missing.is_empty() {
            return Err(RunError::MissingKernels { engine: "tract".into(), partition: subgraph.name.to_string(), nodes: missing });
        }
        Ok(Box::new(TractPrepared { subgraph: subgraph.clone(), context: self.context.clone(), compiled: None }))
    }
}

/// Types and shapes of the inputs that a plan was compiled for.
type Signature = Vec<(DType, Dims)>;

struct TractPrepared {
    subgraph: Subgraph,
    context: Arc<ExecContext>,
    compiled: Option<(Signature, Plan)>,
}

impl TractPrepared {
    fn error(&self, message: String) -> RunError {
        RunError::Engine { engine: "tract".into(), partition: self.subgraph.name.to_string(), message }
    }

    fn compile(&self, inputs: &[Tensor]) -> Result<Plan, String> {
        let model = &self.subgraph.model;
        let writer = proto::GraphWriter::new(&model.graph);
        let mut graph = writer.write(&self.subgraph.nodes, &self.subgraph.outputs)?;
        for (&v, t) in self.subgraph.inputs.iter().zip(inputs) {
            graph.input.push(proto::input(&writer.name(v), t.dtype(), t.dims())?);
        }
        compile(&proto::model(graph, model.opset("").unwrap_or(crate::kernels::opset::LATEST)))
    }
}

impl Prepared for TractPrepared {
    fn run(&mut self, inputs: Vec<Value>, observer: &mut dyn Observer, cancel: &CancelToken) -> Result<Vec<Value>, RunError> {
        if cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        let tensors: Option<Vec<Tensor>> = inputs.into_iter().map(|v| v.as_tensor().cloned()).collect();
        let tensors = tensors.ok_or_else(|| self.error("an input is no tensor".into()))?;
        let signature: Signature = tensors.iter().map(|t| (t.dtype(), Dims::from(t.dims()))).collect();
        let context = self.context.clone();
        let plan = match &self.compiled {
            Some((s, plan)) if *s == signature => plan.clone(),
            _ => {
                let plan = context.install(|| self.compile(&tensors)).map_err(|e| self.error(e))?;
                self.compiled = Some((signature, plan.clone()));
                plan
            }
        };
        let start = Instant::now();
        let made = context.install(|| run(&plan, tensors.iter().map(convert::to_tract))).map_err(|e| self.error(e))?;
        let end = Instant::now();
        let graph = &self.subgraph.model.graph;
        let mut outputs = Vec::with_capacity(made.len());
        for (t, &v) in made.iter().zip(self.subgraph.outputs.iter()) {
            let t = convert::from_tract(t).map_err(|e| self.error(e))?;
            let narrow = graph.value(v).dtype == Some(DType::Bf16) && t.dtype() == DType::F32;
            outputs.push(Value::Tensor(if narrow { convert::narrowed(&t).map_err(|e| self.error(e))? } else { t }));
        }
        observer.whole(start, end, outputs.iter().map(Value::byte_len).sum());
        Ok(outputs)
    }
}
