//! Writing configs: one form, byte for byte, and never half a file.
//!
//! The form is JSON with two spaces of indent, one entry of a list a line (so that a mark is one line of a diff), fields
//! in the order of the types, and a final line feed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::PartitionConfig;
use super::load::{ConfigError, ConfigErrorKind};

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

    /// Saves the config, see [`write_atomically`].
    ///
    /// # Errors
    /// If the file cannot be written; then an existing one is as it was.
    pub fn save(&self, path: &Path) -> Result<(), ConfigError> {
        write_atomically(path, self.to_json_string().as_bytes()).map_err(|e| ConfigError {
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

/// Writes a file so that at any time either the old or the new content is there: to a temporary file beside it, which is
/// flushed to the disk and renamed. Permissions of an existing file are kept; a symbolic link stays one, and what it
/// points at is replaced; a file that may not be written is refused.
///
/// # Errors
/// What the system says; nothing is left behind.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = follow_links(path)?;
    let directory = match target.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let existing = match std::fs::metadata(&target) {
        Ok(m) if m.is_dir() => return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")),
        Ok(m) if m.permissions().readonly() => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected")),
        Ok(m) => Some(m.permissions()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".recut-").suffix(".tmp");
    #[cfg(unix)]
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(everyone);
    let mut file = builder.tempfile_in(directory)?;
    file.write_all(bytes)?;
    if let Some(permissions) = existing {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|e| e.error)?;
    // The rename itself is on the disk only once the directory is; where a directory cannot be opened, so be it.
    if let Ok(d) = std::fs::File::open(directory) {
        let _ = d.sync_all();
    }
    Ok(())
}

/// The file that a path names, through symbolic links, whether it exists or not.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().map_or_else(|| next.clone(), |p| p.join(&next)),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links"))
}
