//! Writing configs: one form, byte for byte, and never half a file.
//!
//! The form is JSON with two spaces of indent, one entry of a list a line (so that a mark is one line of a diff), fields
//! in the order of the types, and a final line feed.

use std::path::Path;

use super::PartitionConfig;
use super::load::{ConfigError, ConfigErrorKind};
use crate::files::write_durably;

impl PartitionConfig {
    /// The config as it is saved.
    ///
    /// # Panics
    /// Never: every config can be written as JSON.
    #[must_use]
    pub fn to_json_string(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a config holds only what JSON can say");
        text.push('\n');
        text
    }

    /// Saves the config, see [`write_durably`].
    ///
    /// # Errors
    /// If the file cannot be written; then an existing one is as it was.
    pub fn save(&self, path: &Path) -> Result<(), ConfigError> {
        write_durably(path, self.to_json_string().as_bytes()).map_err(|e| ConfigError {
            file: path.display().to_string(),
            kind: ConfigErrorKind::File,
            place: None,
            field: String::new(),
            message: format!("cannot be saved: {e}"),
        })
    }
}

/// The JSON Schema of the config.
#[must_use]
pub fn config_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(PartitionConfig);
    schema.insert("title".to_owned(), "recut partition config".into());
    schema.into()
}
