//! The engines.
