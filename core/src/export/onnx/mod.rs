//! Writer of ONNX files.
//!
//! `check` says what ONNX cannot express, `names` gives every value a name that ONNX takes, `graph` makes the messages,
//! `types`, `scopes` and `fx` parts of them; `sink` writes them as a stream, `payload` copies weights from where they lie, and
//! `layout` places those that go into a file beside the model. Of the weights no more than a piece is ever in memory.

mod check;
mod fx;
mod graph;
mod layout;
mod names;
mod payload;
mod scopes;
mod sink;
#[cfg(test)]
mod tests;
mod types;
mod versions;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::files;
use crate::model::Model;
use crate::weights::WeightError;

pub use check::{Problem, Problems};
use graph::Messages;
use layout::Layout;
use names::Level;
pub(crate) use scopes::CALL_KEY;
use sink::{Lengths, Sink};

/// Largest message that protobuf reads, in bytes.
const MAX_MESSAGE: u64 = i32::MAX as u64;

/// What a caller may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Large tensors go into a file beside the model also where they would fit into it.
    pub external_data: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the model file.
    pub bytes: u64,
    /// The file beside it that holds the large tensors, and its bytes.
    pub data: Option<(PathBuf, u64)>,
}

/// Why a model was not written. Nothing is left behind, and older files are as they were.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// ONNX cannot say all of it.
    #[error("the model cannot be written as ONNX: {0}")]
    Refused(Problems),
    /// The graph alone is larger than a protobuf message may be, or the weights are more than 64 bits count.
    #[error("the model takes {0} bytes{1}, and an ONNX file holds at most {MAX_MESSAGE}")]
    TooLarge(u64, &'static str),
    /// The name of the file beside the model cannot be written into the model.
    #[error("the file name {} is not UTF-8, and a model with external data names its data file: choose another name", crate::diagnostic::printable_path(.0))]
    Name(PathBuf),
    /// A weight could not be read.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// Writing failed.
    #[error("cannot write {}: {source}", crate::diagnostic::printable_path(path))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The file beside a model at `path` that would hold its large tensors.
#[must_use]
pub fn data_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".data");
    name.into()
}

/// Writes the model to `path`, and its large tensors to [`data_path`] beside it if asked to or if they do not fit. Files
/// of these names are replaced, each as a whole and only once both are complete.
///
/// # Errors
/// If the model cannot be said in ONNX, its weights cannot be read, or a file cannot be written.
pub fn write(model: &Model, path: &Path, options: Options) -> Result<Written, ExportError> {
    let mut messages = messages(model)?;
    let mut lengths = (!options.external_data).then(|| measured(&messages)).filter(|l| l.total <= MAX_MESSAGE);
    if lengths.is_none() {
        let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(|| ExportError::Name(path.to_owned()))?;
        let layout = Layout::new(format!("{name}.data"), &messages.names);
        // With nothing large to put into it there is no such file.
        messages.external = Some(layout.ok_or(ExportError::TooLarge(u64::MAX, " or more"))?).filter(|l| l.total > 0);
        lengths = Some(measured(&messages)).filter(|l| l.total <= MAX_MESSAGE);
    }
    let Some(lengths) = lengths else {
        return Err(ExportError::TooLarge(measured(&messages).total, " without the tensors that can be stored beside it"));
    };
    let bytes = lengths.total;
    let written = files::replace(path, |file| {
        // The data is complete before either file gets its name.
        if let Some(layout) = &messages.external {
            return files::replace(&data_path(path), |data| {
                buffered(data, |out| layout.write(out))?;
                buffered(file, |out| messages.write(&mut Sink::writing(lengths, out)))
            });
        }
        buffered(file, |out| messages.write(&mut Sink::writing(lengths, out)))
    });
    written.map_err(|e| failed(e, path))?;
    Ok(Written { bytes, data: messages.external.map(|l| (data_path(path), l.total)) })
}

/// Writes the model, with all its tensors, to a stream.
///
/// # Errors
/// Those of [`write()`], and if the model is too large for one file.
pub fn write_to(model: &Model, out: &mut dyn Write) -> Result<Written, ExportError> {
    let messages = messages(model)?;
    let lengths = measured(&messages);
    let bytes = lengths.total;
    if bytes > MAX_MESSAGE {
        return Err(ExportError::TooLarge(bytes, ""));
    }
    messages.write(&mut Sink::writing(lengths, out)).map_err(|e| failed(e, Path::new("-")))?;
    Ok(Written { bytes, data: None })
}

fn buffered(file: &mut std::fs::File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, file);
    write(&mut out)?;
    out.flush()
}

/// Errors of weights travel through the writer as those of writing.
fn failed(e: io::Error, path: &Path) -> ExportError {
    match e.downcast::<WeightError>() {
        Ok(weight) => ExportError::Weight(weight),
        Err(source) => ExportError::Write { path: path.to_owned(), source },
    }
}

fn measured(messages: &Messages<'_>) -> Lengths {
    let mut sink = Sink::measuring();
    // Nothing is written, so nothing can fail.
    let _ = messages.write(&mut sink);
    sink.finish()
}

/// Checks the model and prepares its messages, with all tensors in the model file.
fn messages(model: &Model) -> Result<Messages<'_>, ExportError> {
    let problems = check::problems(model);
    if !problems.is_empty() {
        return Err(ExportError::Refused(Problems(problems)));
    }
    let mut opsets = versions::opsets(model);
    let names = Level::main(&model.graph, opsets.get("").copied().unwrap_or(versions::OPSET));
    if names.copies_any() {
        opsets.entry(String::new()).or_insert(versions::OPSET);
    }
    let ir_version = versions::ir_version(model, &opsets);
    Ok(Messages { model, names, ir_version, opsets, external: None })
}
