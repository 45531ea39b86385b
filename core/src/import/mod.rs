//! Readers of model files: path in, [`Imported`] out.
//!
//! The format is decided by content, not by the file's extension. Trouble in a part of the file is a [`Diagnostic`];
//! a file that cannot be a model is one [`ImportError`].

mod dims;
mod external;
pub mod json;
pub mod onnx;
pub(crate) mod pt2;
mod reports;
mod sniff;
mod sort;
mod structure;

#[cfg(any(test, feature = "testing"))]
pub(crate) use pt2::unpickled_names;

use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, harmless};
use crate::model::Model;

/// A model with what was noticed while reading it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model.
    pub model: Model,
    /// Trouble that did not stop the reading, in file order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why a file could not be opened as a model.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", crate::diagnostic::printable_path(path))]
pub struct ImportError {
    /// The file.
    pub path: PathBuf,
    /// The kind of trouble.
    pub kind: ImportErrorKind,
    /// What is wrong, where, why, and what to do. Without control characters.
    pub message: String,
}

/// Kinds of [`ImportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportErrorKind {
    /// It is not there, or the system refuses to read it.
    Unreadable,
    /// It is no model, or of a format that is not read.
    NotAModel,
    /// It is damaged: truncated, or broken encoding.
    Corrupt,
    /// It decodes, but is no valid graph (cycle, a value nobody makes, one made twice).
    InvalidGraph,
    /// It is larger or more deeply nested than this program takes.
    TooLarge,
}

impl ImportError {
    pub(crate) fn new(path: &Path, kind: ImportErrorKind, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), kind, message: harmless(message.into()) }
    }
}

/// What a caller may choose where a file leaves it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which program of a torch.export archive that holds several.
    pub model_name: Option<String>,
}

/// Opens a model file, whatever its format. Reads the graph, not the weights; fills in missing shapes.
///
/// # Errors
/// If the file cannot be read or is no model that this program understands.
pub fn open(path: &Path) -> Result<Imported, ImportError> {
    open_with(path, &OpenOptions::default())
}

/// [`open`] with options.
///
/// # Errors
/// Those of [`open`], and if a file has not what the options ask for.
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Imported, ImportError> {
    let unreadable = |why: String| ImportError::new(path, ImportErrorKind::Unreadable, why);
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => unreadable("there is no such file".into()),
        _ => unreadable(format!("cannot be opened: {e}")),
    })?;
    if meta.is_dir() {
        return Err(unreadable("is a directory, not a model file".into()));
    }
    if !meta.is_file() {
        return Err(unreadable("is not a regular file".into()));
    }
    let buf = onnx::FileBuf::open(path).map_err(|e| unreadable(format!("cannot be opened: {e}")))?;
    let mut imported = if sniff::is_zip(buf.head()) {
        pt2::read(path, buf.stat().clone(), options.model_name.as_deref())?
    } else if sniff::is_json(buf.head()) {
        json::read(path, buf)?
    } else if let Some(why) = sniff::refuse(buf.head(), buf.stat().len) {
        return Err(ImportError::new(path, ImportErrorKind::NotAModel, why));
    } else {
        onnx::read(path, buf)?
    };
    crate::infer::infer(&mut imported.model, &mut imported.diagnostics);
    Ok(imported)
}
