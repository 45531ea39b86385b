//! `recut run`: runs a model and shows the time of every node.

use recut_exec::engine::CancelToken;

use crate::cli::error::{CliError, Exit, Result};
use crate::cli::output::Output;
use crate::cli::request::RunRequest;

/// Runs a model and reports.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or running fails.
pub fn run(request: &RunRequest, out: &Output, _cancel: &CancelToken) -> Result<()> {
    crate::cli::document::import(&request.model, out)?;
    Err(CliError::new(
        Exit::NotThere,
        format!("the runner is not part of this build; use `recut inspect {}`", crate::cli::error::show(&request.model)),
    ))
}
