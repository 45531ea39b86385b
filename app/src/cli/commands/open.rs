//! `recut MODEL`: the terminal app.

use std::path::Path;

use recut_core::diagnostic::Diagnostic;

use crate::cli::document;
use crate::cli::error::{CliError, Exit, Result, show};
use crate::cli::output::{Colors, Output};
use crate::cli::request::AppRequest;
use crate::theme::ColorDepth;
use crate::tui::{self, Opened, TuiArgs, config_file};

/// Opens the app.
///
/// # Errors
/// If the model cannot be opened, the config cannot be used, or there is no terminal.
pub fn open(request: &AppRequest) -> Result<()> {
    let (model, mut marks) = (request.model.clone(), request.marks.clone());
    let colors = match request.color {
        None => None,
        Some(false) => Some(ColorDepth::None),
        Some(true) => Some(ColorDepth::from_env(|name| std::env::var(name).ok().filter(|_| name != "NO_COLOR"))),
    };
    let args = TuiArgs {
        model: request.model.clone(),
        open: Box::new(move || {
            // The app shows all problems itself; the terminal is its own now.
            let quiet = Output::new(Colors { stdout: false, stderr: false }, true);
            let beside = document::config_beside(&model).filter(|_| marks.config.is_none());
            let config = beside.clone().or_else(|| marks.config.clone());
            // Its bytes are read first: should somebody write in between, that counts as a change later.
            let content = config.as_deref().and_then(config_file::content);
            let Some(beside) = beside else {
                let document = document::open(&model, &marks, None, &quiet)?;
                return Ok(Opened { document, config, content, greeting: None, problem: None });
            };
            let name = show(beside.file_name().map_or(beside.as_path(), Path::new));
            marks.config = Some(beside);
            match document::open(&model, &marks, None, &quiet) {
                Ok(document) => {
                    let greeting = Some(format!("config {name} loaded, it lies beside the model; o opens another"));
                    Ok(Opened { document, config, content, greeting, problem: None })
                }
                Err(e) => {
                    // Nobody asked for it, so it stops nothing. If it was not the config, this fails in the same way.
                    marks.config = None;
                    let document = document::open(&model, &marks, None, &quiet)?;
                    let why = format!("{} lies beside the model and was not loaded: {}", name, e.message);
                    let problem = Some(Diagnostic::error("config_broken", why));
                    Ok(Opened { document, config: None, content: None, greeting: None, problem })
                }
            }
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
