//! The running side of recut: tensors, kernels, engines, the scheduler and profiles.
//!
//! Planning happens in `recut-core`; this crate takes a finished plan. [`runner`] runs the partitions of a plan, each on
//! an [`engine::Engine`]; the embedded one is [`engines::cpu`], a node-by-node executor over the [`kernels`].

pub mod axis;
pub mod chrome_trace;
pub mod compare;
pub mod engine;
pub mod engines;
pub mod generate;
pub mod inputs;
pub mod io;
pub mod kernels;
pub mod names;
pub mod profile;
pub mod report;
pub mod runner;
pub mod tensor;
