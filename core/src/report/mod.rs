//! Types of every `--json` output, shared by the terminal app and the command line.

pub mod inspect;
pub mod partition;
