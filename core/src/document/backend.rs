//! Which capability table decides.

use std::sync::Arc;

use super::{DocumentError, DocumentOptions};
use crate::config::PartitionConfig;
use crate::diagnostic::printable;
use crate::graph::Dialect;
use crate::model::Model;
use crate::support::{Backend, backend_names, dialect_of};

/// The user's own table if one is given, else the one that the config names: that for the model's kind of operators.
pub(super) fn backend(model: &Model, config: &PartitionConfig, options: &DocumentOptions) -> Result<Option<Arc<Backend>>, DocumentError> {
    let dialect = dialect_of(model);
    let refuse = |why: String| Err(DocumentError::Config(why));
    if let Some((text, file)) = &options.support_file {
        let own = Backend::parse(text, file).map_err(|e| DocumentError::Config(e.to_string()))?;
        if own.dialect != dialect {
            return refuse(format!(
                "{}: the table is about {} operators, and this model has {} ones: give a table of dialect {}",
                printable(file),
                spoken(own.dialect),
                spoken(dialect),
                if dialect == Dialect::Aten { "aten" } else { "onnx" },
            ));
        }
        return Ok(Some(Arc::new(own)));
    }
    let Some(name) = &config.backend else { return Ok(None) };
    if let Some(backend) = Backend::builtin(name, dialect) {
        return Ok(Some(Arc::new(backend)));
    }
    let known = backend_names(dialect);
    let other = if dialect == Dialect::Aten { Dialect::Onnx } else { Dialect::Aten };
    if backend_names(other).contains(&name.as_str()) {
        let (theirs, ours) = (spoken(other), spoken(dialect));
        return refuse(format!(
            "the backend `{name}` takes {theirs} operators, and this model has {ours} ones (known for these: {})",
            known.join(", ")
        ));
    }
    let near = known.iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let near = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
    refuse(format!("there is no backend `{}`{near} (known: {})", printable(name), known.join(", ")))
}

/// A dialect as messages call it.
fn spoken(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Aten => "torch",
        Dialect::Onnx | Dialect::OpenVino | Dialect::Json => "ONNX",
    }
}
