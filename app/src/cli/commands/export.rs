//! `recut export`: the model in another format.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use recut_core::export::json;
use recut_core::export::onnx::{self, ExportError};
use recut_core::model::Model;

use crate::cli::args::ExportFormat;
use crate::cli::document;
use crate::cli::error::{CliError, Exit, Result, show};
use crate::cli::files;
use crate::cli::format::{bytes, plural};
use crate::cli::output::Output;
use crate::cli::request::ExportRequest;

/// Diagnostics of the import that are shown.
const SHOWN_WARNINGS: usize = 5;

/// Writes a model.
///
/// # Errors
/// If the model cannot be opened, the format cannot say all of it, or a file cannot be written.
pub fn export(request: &ExportRequest, out: &Output) -> Result<()> {
    let imported = document::import(&request.model, request.model_name.as_deref(), out)?;
    document::warn(&imported.diagnostics, SHOWN_WARNINGS, out);
    match request.to {
        ExportFormat::Onnx => to_onnx(&recut_core::lower::lower(&Arc::new(imported.model)), request, out),
        ExportFormat::Json => to_json(&imported.model, request, out),
    }
}

fn to_json(model: &Model, request: &ExportRequest, out: &Output) -> Result<()> {
    let mut summary = json::Summary::default();
    match &request.output {
        None => out.data_with(|mut w| {
            summary = json::write(model, Path::new("."), &mut w)?;
            Ok(())
        })?,
        Some(path) => {
            document::guard_model_files(model, &[("-o", path)])?;
            let folder = path.parent().unwrap_or(Path::new("."));
            files::write("graph", path, |mut w| {
                summary = json::write(model, folder, &mut w)?;
                Ok(())
            })?;
            out.note(&format!("wrote the graph to {}", show(path)));
        }
    }
    if summary.left_out > 0 {
        out.warning(&format!(
            "{} ({}) {} left out: a graph refers only to files in its own folder or below, and compressed parts it cannot refer to; \
             write it beside the model, or run the model itself",
            plural(summary.left_out, "tensor"),
            bytes(summary.left_out_bytes),
            if summary.left_out == 1 { "is" } else { "are" }
        ));
    }
    Ok(())
}

fn to_onnx(model: &Model, request: &ExportRequest, out: &Output) -> Result<()> {
    let Some(path) = &request.output else {
        if std::io::stdout().is_terminal() {
            return Err(CliError::usage("-o -: an ONNX file is no text for a terminal; redirect the output, or give a file name"));
        }
        let mut written = Ok(());
        out.data_with(|w| {
            written = onnx::write_to(model, w).map(|_| ());
            match &mut written {
                // Errors of the stream itself are the output's to tell.
                Err(ExportError::Write { source, .. }) => Err(std::mem::replace(source, std::io::ErrorKind::Other.into())),
                _ => Ok(()),
            }
        })?;
        return Ok(written?);
    };
    document::guard_model_files(model, &[("-o", path), ("-o", &onnx::data_path(path))])?;
    let progress = out.progress("writing the model", 0);
    let written = onnx::write(model, path, onnx::Options { external_data: request.external_data });
    progress.finish_and_clear();
    let written = written?;
    let beside = written.data.map(|(file, n)| format!(", and the large tensors to {} ({})", show(&file), bytes(n)));
    out.note(&format!("wrote the model to {} ({}){}", show(path), bytes(written.bytes), beside.unwrap_or_default()));
    Ok(())
}

impl From<ExportError> for CliError {
    fn from(e: ExportError) -> Self {
        let advice = match &e {
            ExportError::Refused(_) => "; nothing was written",
            ExportError::Write { path, source } => return Self::write("model", path, source),
            ExportError::Name(_) => return Self::usage(e.to_string()),
            ExportError::TooLarge(..) | ExportError::Weight(_) => "",
        };
        Self::new(Exit::Run, format!("the export failed: {e}{advice}"))
    }
}
