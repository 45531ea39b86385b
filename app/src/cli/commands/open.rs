//! `recut MODEL`: the terminal app.

use crate::cli::document;
use crate::cli::error::{CliError, Exit, Result};
use crate::cli::output::{Colors, Output};
use crate::cli::request::AppRequest;
use crate::theme::ColorDepth;
use crate::tui::{self, TuiArgs};

/// Opens the app.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or there is no terminal.
pub fn open(request: &AppRequest) -> Result<()> {
    let (model, marks) = (request.model.clone(), request.marks.clone());
    let colors = match request.color {
        None => None,
        Some(false) => Some(ColorDepth::None),
        Some(true) => Some(ColorDepth::from_env(|name| std::env::var(name).ok().filter(|_| name != "NO_COLOR"))),
    };
    let args = TuiArgs {
        model: request.model.clone(),
        config: request.marks.config.clone(),
        open: Box::new(move || {
            // The app shows all problems itself; the terminal is its own now.
            let quiet = Output::new(Colors { stdout: false, stderr: false }, true);
            Ok(document::open(&model, &marks, None, &quiet)?)
        }),
        theme: None,
        colors,
        ascii: false,
    };
    match tui::run(args) {
        Ok(0) => Ok(()),
        Ok(130) => Err(CliError::new(Exit::Interrupted, "")),
        Ok(code) => Err(CliError::new(Exit::Run, format!("the app ended with code {code}"))),
        Err(e) => Err(e.downcast::<CliError>().unwrap_or_else(|e| CliError::usage(e.to_string()))),
    }
}
