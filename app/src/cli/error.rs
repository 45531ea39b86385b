//! Every way in which a command ends, with its exit code.

use std::path::Path;

use recut_core::diagnostic::Diagnostic;
pub use recut_core::diagnostic::printable_path as show;
use recut_core::document::DocumentError;
use recut_core::import::{ImportError, ImportErrorKind};
use recut_core::select::SelectError;
use recut_exec::engine::RunError;
use recut_exec::engines::EngineMissing;
use recut_exec::io::ArrayError;

/// Exit codes; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// What was asked to hold does not.
    NotHeld = 1,
    /// Usage, selector or config.
    Usage = 2,
    /// The model cannot be opened.
    Model = 3,
    /// Running failed.
    Run = 4,
    /// An engine or file that was asked for is not there.
    NotThere = 5,
    /// Interrupted.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct CliError {
    /// Exit code.
    pub exit: Exit,
    /// One paragraph: what failed, on what, why, what to do. Empty where everything was said already.
    pub message: String,
    /// Whether the reader of the standard output went away: no failure, and nothing to say.
    pub closed_pipe: bool,
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

/// What commands return.
pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    /// An error with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), closed_pipe: false }
    }

    /// A usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// An error of the standard output.
    #[must_use]
    pub fn stdout(e: &std::io::Error) -> Self {
        if e.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::NotHeld, message: String::new(), closed_pipe: true };
        }
        Self::new(Exit::Run, format!("cannot write to the standard output: {e}; redirect it to a place with room"))
    }

    /// A file that the user named cannot be read.
    #[must_use]
    pub fn read(what: &str, path: &Path, e: &std::io::Error) -> Self {
        let path = show(path);
        let hint = match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such file; check the path",
            std::io::ErrorKind::PermissionDenied => "permission denied; check the file's access rights",
            std::io::ErrorKind::IsADirectory => "it is a directory; name a file",
            _ => return Self::new(Exit::NotThere, format!("cannot read the {what} {path}: {e}")),
        };
        Self::new(Exit::NotThere, format!("cannot read the {what} {path}: {hint}"))
    }

    /// A file that the user asked for cannot be written.
    #[must_use]
    pub fn write(what: &str, path: &Path, e: &std::io::Error) -> Self {
        let path = show(path);
        let hint = match e.kind() {
            std::io::ErrorKind::NotFound => "its directory does not exist; make it first".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied; choose another place".to_owned(),
            _ => e.to_string(),
        };
        Self::new(Exit::NotThere, format!("cannot write the {what} {path}: {hint}"))
    }
}

impl From<ImportError> for CliError {
    fn from(e: ImportError) -> Self {
        let what = match e.kind {
            ImportErrorKind::Unreadable => "cannot open the model",
            ImportErrorKind::NotAModel => "this is no model that recut reads",
            ImportErrorKind::Corrupt => "the model file is damaged",
            ImportErrorKind::InvalidGraph => "the model is no valid graph",
            ImportErrorKind::TooLarge => "the model is larger than recut takes",
        };
        Self::new(Exit::Model, format!("{what}: {e}"))
    }
}

impl From<SelectError> for CliError {
    fn from(e: SelectError) -> Self {
        Self::usage(e.to_string())
    }
}

impl From<DocumentError> for CliError {
    fn from(e: DocumentError) -> Self {
        Self::usage(e.to_string())
    }
}

impl From<RunError> for CliError {
    fn from(e: RunError) -> Self {
        match e {
            RunError::Cancelled => Self::new(Exit::Interrupted, "interrupted"),
            e => Self::new(Exit::Run, format!("the run failed: {e}")),
        }
    }
}

impl CliError {
    /// A failed run, with what was noticed when the model was opened of the nodes that it names: that is often the cause.
    #[must_use]
    pub fn run(e: RunError, noticed: &[Diagnostic]) -> Self {
        let nodes: Vec<&str> = match &e {
            RunError::MissingKernels { nodes, .. } => nodes.iter().map(|(n, _)| n.as_str()).collect(),
            RunError::Node { node, .. } => vec![node],
            _ => Vec::new(),
        };
        let about: Vec<&str> =
            noticed.iter().filter(|d| d.node.as_deref().is_some_and(|n| nodes.contains(&n))).map(|d| &*d.message).collect();
        let mut error = Self::from(e);
        if !about.is_empty() {
            const SHOWN: usize = 3;
            let shown = about.iter().take(SHOWN).copied().collect::<Vec<_>>().join("; ");
            error.message = format!("{} (noticed when the model was opened: {shown})", error.message);
        }
        error
    }
}

impl From<EngineMissing> for CliError {
    fn from(e: EngineMissing) -> Self {
        Self::new(Exit::NotThere, format!("{e} (`recut doctor` shows what is found)"))
    }
}

impl From<ArrayError> for CliError {
    fn from(e: ArrayError) -> Self {
        let exit = if e.not_found || e.writing { Exit::NotThere } else { Exit::Run };
        Self::new(exit, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_map_to_the_documented_exit_codes() {
        assert_eq!(CliError::from(RunError::Cancelled).exit.code(), 130);
        let kernel = RunError::MissingKernels { engine: "cpu".into(), partition: "p".into(), nodes: vec![("n".into(), "Foo".into())] };
        let e = CliError::from(kernel);
        assert_eq!(e.exit.code(), 4);
        assert!(e.message.contains("Foo (node n)"), "{e}");
        assert_eq!(CliError::read("config", Path::new("x"), &std::io::ErrorKind::NotFound.into()).exit.code(), 5);
    }

    #[test]
    fn a_failed_run_quotes_what_was_noticed_of_its_node() {
        let e = || RunError::MissingKernels { engine: "cpu".into(), partition: "p".into(), nodes: vec![("n".into(), "f".into())] };
        let noticed = [Diagnostic::warning("a", "f calls itself").with_node("n"), Diagnostic::warning("b", "other").with_node("m")];
        let message = CliError::run(e(), &noticed).message;
        assert!(message.ends_with("(noticed when the model was opened: f calls itself)"), "{message}");
        assert!(!CliError::run(e(), &[]).message.contains("noticed"));
    }

    #[test]
    fn a_closed_pipe_is_told_from_a_full_disk() {
        assert!(CliError::stdout(&std::io::ErrorKind::BrokenPipe.into()).closed_pipe);
        assert!(!CliError::stdout(&std::io::ErrorKind::StorageFull.into()).closed_pipe);
    }
}
