//! `recut partition`: the partitions that marks and backend give.

use crate::cli::error::{CliError, Exit, Result};
use crate::cli::output::Output;
use crate::cli::request::PartitionRequest;

/// Partitions a model and reports.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or full compilation is required and not reached.
pub fn partition(request: &PartitionRequest, out: &Output) -> Result<()> {
    crate::cli::document::import(&request.model, out)?;
    Err(CliError::new(
        Exit::NotThere,
        format!("the partitioner is not part of this build; use `recut inspect {}`", crate::cli::error::show(&request.model)),
    ))
}
