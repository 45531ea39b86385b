//! The recut application as a library: command line and terminal app. `main.rs` only calls [`cli::main`], so that tests
//! can do the same.

pub mod cli;
pub mod theme;
pub mod tui;
pub mod watch;
pub mod wrap_name;
