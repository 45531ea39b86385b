//! The engines, and which of them runs what.

pub mod cpu;
pub mod tract;

use std::sync::Arc;

use recut_core::config::RunConfig;
use recut_core::partition::Placement;

use crate::engine::{Engine, ExecContext};

/// The engines of this program, over one pool.
pub struct Engines {
    /// The pool.
    pub context: Arc<ExecContext>,
    cpu: Arc<cpu::CpuEngine>,
    tract: Arc<tract::TractEngine>,
}

/// Engines that live in a Python worker.
const WORKER_ENGINES: [&str; 3] = ["torch", "onnxruntime", "openvino"];

/// An engine or precision that was asked for is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineMissing {
    /// Its name.
    pub engine: String,
    /// What is missing, and what can be used instead.
    pub message: String,
}

/// What a report says of a torch partition. This version has no torch engine, so whether
/// torch is installed makes no difference yet; summaries say so once.
pub const NO_TORCH: &str = "torch not found, ran on cpu";

/// An engine with what a report must say about the choice.
#[derive(Clone)]
pub struct Assignment {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// That another one was meant ([`NO_TORCH`]).
    pub note: Option<String>,
    /// Precision it is to compute in.
    pub precision: String,
}

impl Engines {
    /// All engines.
    #[must_use]
    pub fn new(context: Arc<ExecContext>) -> Self {
        let cpu = Arc::new(cpu::CpuEngine::new(context.clone()));
        let tract = Arc::new(tract::TractEngine::new(context.clone()));
        Self { context, cpu, tract }
    }

    /// Engines that can be used here.
    #[must_use]
    pub fn found(&self) -> Vec<Arc<dyn Engine>> {
        vec![self.cpu.clone(), self.tract.clone()]
    }

    /// Names of engines that exist but are not found here.
    #[must_use]
    pub fn not_found(&self) -> &'static [&'static str] {
        &WORKER_ENGINES
    }

    /// The engine of this name.
    ///
    /// # Errors
    /// If it is not found, or there is none of this name.
    pub fn by_name(&self, name: &str) -> Result<Arc<dyn Engine>, EngineMissing> {
        if let Some(e) = self.found().into_iter().find(|e| e.name() == name) {
            return Ok(e);
        }
        let found = "cpu, tract";
        let message = if WORKER_ENGINES.contains(&name) {
            format!("the engine {name} is not found: use one of {found}")
        } else {
            format!("there is no engine `{}`: use one of {found}", recut_core::diagnostic::printable(name))
        };
        Err(EngineMissing { engine: name.to_owned(), message })
    }

    /// The engine for a partition of this kind. Torch partitions run on `cpu` where nobody insists on another
    /// engine; opaque ones run their original graph on `cpu`.
    ///
    /// # Errors
    /// If an engine that was asked for is not found, or has not the precision.
    pub fn assign(&self, kind: Placement, run: &RunConfig) -> Result<Assignment, EngineMissing> {
        let fp32 = || "fp32".to_owned();
        match kind {
            Placement::Accelerated => {
                let engine = self.by_name(&run.engine)?;
                let known = engine.capabilities().precisions;
                if !known.contains(&run.precision) {
                    let message = format!("{} does not compute in {}: it has {}", run.engine, run.precision, known.join(", "));
                    return Err(EngineMissing { engine: run.engine.clone(), message });
                }
                Ok(Assignment { engine, note: None, precision: run.precision.clone() })
            }
            Placement::Torch if run.torch_engine == "auto" => {
                let note = Some(NO_TORCH.to_owned());
                Ok(Assignment { engine: self.cpu.clone(), note, precision: fp32() })
            }
            Placement::Torch => Ok(Assignment { engine: self.by_name(&run.torch_engine)?, note: None, precision: fp32() }),
            Placement::Opaque => Ok(Assignment { engine: self.cpu.clone(), note: None, precision: fp32() }),
        }
    }
}
