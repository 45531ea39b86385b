//! The request of `recut export`.

use std::path::{Path, PathBuf};

use crate::cli::args::{ExportArgs, ExportFormat};
use crate::cli::error::{CliError, Result};
use crate::cli::files::refuse_overwriting;

/// Write a model in another format.
#[derive(Debug)]
pub struct ExportRequest {
    /// Model.
    pub model: PathBuf,
    /// Program of an archive that holds several.
    pub model_name: Option<String>,
    /// Format to write.
    pub to: ExportFormat,
    /// File; the standard output if `None`.
    pub output: Option<PathBuf>,
    /// Large tensors go into a file of their own.
    pub external_data: bool,
}

impl ExportRequest {
    pub(super) fn resolve(a: ExportArgs) -> Result<Self> {
        let output = Some(a.output).filter(|p| p != Path::new("-"));
        if let Some(path) = &output {
            refuse_overwriting("-o", path, &[("model", &a.model)])?;
        }
        if output.is_none() && a.external_data {
            return Err(CliError::usage("--external-data with -o -: the file for the tensors needs a name; give a file name"));
        }
        if a.external_data && a.to != ExportFormat::Onnx {
            return Err(CliError::usage("--external-data is for --to onnx; leave it out"));
        }
        Ok(Self { model: a.model, model_name: a.model_name, to: a.to, output, external_data: a.external_data })
    }
}
