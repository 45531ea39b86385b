//! The terminal app.
//!
//! A loop of three pure parts with an edge around them: [`update`] takes a [`Msg`] into the [`State`] and says what
//! [`Effect`]s are wanted, [`view`] draws the state and says what is where, and [`runtime`] owns terminal, threads and
//! files. [`action`] is the one table of everything a key can do; help, palette and the key table in the docs are made
//! from it. [`lanes`] is the layout, which knows no terminal.

pub mod action;
pub mod config_file;
pub mod costs;
pub mod detail;
pub mod geometry;
pub mod hit;
pub mod key;
pub mod keymap;
pub mod lanes;
pub mod layers;
pub mod msg;
pub mod overlay;
pub mod query;
pub mod run_job;
pub mod runtime;
pub mod snapshot;
pub mod state;
pub mod text;
pub mod tree;
pub mod update;
pub mod user_files;
pub mod view;

#[cfg(test)]
mod tests;

pub use key::Key;
pub use keymap::key_table_markdown;
pub use msg::{Effect, Msg};
pub use runtime::{Opened, TuiArgs, run};
pub use snapshot::{Snapshot, SnapshotOptions, render_snapshot, snapshot};
pub use state::{Setup, State};
