//! `recut snapshot`: one frame of the app.

use std::ffi::OsStr;

use recut_core::diagnostic::printable;

use crate::cli::document;
use crate::cli::error::{CliError, Result};
use crate::cli::files;
use crate::cli::output::Output;
use crate::cli::request::SnapshotRequest;
use crate::theme::ColorDepth;
use crate::tui::{self, Key, SnapshotOptions};

/// Draws one frame.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or there is no such view or key.
pub fn snapshot(request: &SnapshotRequest, out: &Output) -> Result<()> {
    let keys = request.keys.split_whitespace().map(|k| {
        Key::parse(k).ok_or_else(|| {
            CliError::usage(format!("--keys: there is no key `{}`; write e.g. \"j j t\", \"Ctrl-r\", \"Enter\"", printable(k)))
        })
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let document = document::open(&request.model, &request.marks, None, out)?;
    let defaults = SnapshotOptions::default();
    let options = SnapshotOptions {
        size: request.size,
        keys,
        view: request.view.clone().unwrap_or(defaults.view),
        theme: request.theme.clone().unwrap_or(defaults.theme),
        colors: ColorDepth::TrueColor,
        ascii: false,
    };
    let frame = tui::snapshot(document, &options).map_err(|e| CliError::usage(e.to_string()))?;
    let extension = request.output.as_deref().and_then(|p| p.extension()).and_then(OsStr::to_str);
    let text = match extension {
        Some("svg") => frame.to_svg(),
        Some("ansi") => frame.to_ansi(),
        Some(_) => frame.to_text(),
        None if out.colored() => frame.to_ansi(),
        None => frame.to_text(),
    };
    match &request.output {
        Some(path) => files::write("snapshot", path, |w| w.write_all(text.as_bytes())),
        None => out.data(&text),
    }
}
