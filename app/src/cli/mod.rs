//! The command line: what is typed ([`args`]) becomes what is to be done ([`request`]), which [`commands`] do.
//!
//! Data goes to the standard output, everything else to the standard error, both through [`output`]; every failure is an
//! [`error::CliError`] with the exit code that scripts rely on.

pub mod args;
pub mod commands;
pub mod document;
pub mod error;
pub mod files;
pub mod format;
pub mod interrupt;
pub mod output;
pub mod request;
pub mod table;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use self::error::{CliError, Exit, Result};
use self::output::Output;
use self::request::Request;

/// Runs the command line and gives the exit code. The first argument is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    interrupt::record_panics();
    let args = request::expand_run_flag(args.into_iter().collect());
    let colors = output::Colors::before_parsing(&args);
    let command = args::Cli::command().color(colors.for_clap());
    let cli = match command.try_get_matches_from(&args).and_then(|m| args::Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) => {
            let meant = if e.use_stderr() { request::command_hint(&args).or_else(|| request::run_option_hint(&args)) } else { None };
            let Some(meant) = meant else { return clap_exit(&e) };
            let out = Output::new(colors, false);
            out.error(&meant);
            return Exit::Usage.code();
        }
    };
    let out = Output::new(colors, cli.global.quiet);
    match request::Request::resolve(cli).and_then(|r| dispatch(r, &out)) {
        Ok(()) => 0,
        Err(e) if e.closed_pipe => 0,
        Err(e) => {
            if !e.message.is_empty() {
                out.error(&e.message);
            }
            e.exit.code()
        }
    }
}

/// Help and version are data and success; anything else is a usage error.
fn clap_exit(e: &clap::Error) -> u8 {
    match e.print() {
        Err(io) if io.kind() != std::io::ErrorKind::BrokenPipe => Exit::Run.code(),
        _ if e.use_stderr() => Exit::Usage.code(),
        _ => 0,
    }
}

fn dispatch(request: Request, out: &Output) -> Result<()> {
    let timeout = request.timeout();
    match request {
        // The app owns the terminal and its signals, so it stays on the main thread.
        Request::App(r) => interrupt::unwound(|| commands::open::open(&r)),
        request => {
            let out = out.clone();
            interrupt::supervise(timeout, move |cancel| match request {
                Request::App(_) => Err(CliError::usage("the app does not run under supervision")),
                Request::Run(r) => commands::run::run(&r, &out, cancel),
                Request::Inspect(r) => commands::inspect::inspect(&r, &out),
                Request::Partition(r) => commands::partition::partition(&r, &out),
                Request::Export(r) => commands::export::export(&r, &out),
                Request::Snapshot(r) => commands::snapshot::snapshot(&r, &out),
                Request::Doctor(r) => commands::doctor::doctor(&r, &out),
                Request::Schema(what) => commands::generate::schema(what, &out),
                Request::Completions(shell) => commands::generate::completions(shell, &out),
                Request::Man(dir) => commands::generate::man(dir.as_deref(), &out),
            })
        }
    }
}
