//! The engines.

pub mod cpu;
pub mod tract;
