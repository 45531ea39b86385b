//! The graph side of recut: reading converted neural-network graphs, and deciding which part runs where.
//!
//! This crate knows no terminal, no thread pool and no engine. Its parts, in the order data takes:
//! [`import`] makes a [`model::Model`] from a file; [`infer`] fills in shapes; [`select`] turns selector text into sets
//! of nodes; [`config`] holds what a user asked for and [`document`] its history; [`view`] contracts wraps;
//! [`support`] says what a backend takes; [`partition`] gives the plan; [`report`] and [`export`] write it down.

mod base64;
pub mod columns;
pub mod config;
pub mod diagnostic;
pub mod document;
pub mod dtype;
pub mod export;
pub mod expr;
pub mod files;
pub mod graph;
mod hash;
pub mod import;
pub mod infer;
pub mod lower;
pub mod model;
pub mod modules;
pub mod partition;
pub mod report;
pub mod select;
pub mod shape;
pub mod support;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod trace;
pub mod view;
pub mod weights;
