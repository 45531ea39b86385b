//! `recut`: opens a converted neural-network graph, shows what runs where, runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(recut::cli::main(std::env::args_os()))
}
