//! The recut application: command line and terminal app.

pub mod theme;
pub mod tui;
pub mod watch;
