//! Which capability table decides.

use std::sync::Arc;

use super::{DocumentError, DocumentOptions};
use crate::config::PartitionConfig;
use crate::diagnostic::printable;
use crate::support::{Backend, backend_names};

/// The user's own table if one is given, else the one that the config names.
pub(super) fn backend(config: &PartitionConfig, options: &DocumentOptions) -> Result<Option<Arc<Backend>>, DocumentError> {
    if let Some((text, file)) = &options.support_file {
        return Backend::parse(text, file).map(|b| Some(Arc::new(b))).map_err(|e| DocumentError::Config(e.to_string()));
    }
    let Some(name) = &config.backend else { return Ok(None) };
    if let Some(backend) = Backend::builtin(name) {
        return Ok(Some(Arc::new(backend)));
    }
    let known = backend_names();
    let near = known.iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let near = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
    Err(DocumentError::Config(format!("there is no backend `{}`{near} (known: {})", printable(name), known.join(", "))))
}
