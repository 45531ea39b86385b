//! Reading and writing configs and recovery files, with messages for the status line.

use std::path::Path;

use recut_core::config::{PartitionConfig, write_atomically};
use recut_core::diagnostic::printable;

/// Reads a config.
///
/// # Errors
/// If there is no such file, or it is no config.
pub fn read(path: &Path) -> Result<PartitionConfig, String> {
    PartitionConfig::open(path).map(|(config, _)| config).map_err(|e| e.to_string())
}

/// Writes `text` to `path` so that nothing half-written is ever seen.
///
/// # Errors
/// If the file system refuses.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    write_atomically(path, text.as_bytes()).map_err(|e| format!("cannot write {}: {e}", printable(&path.display().to_string())))
}

/// Whether two configs ask for the same; which model they were made for does not count.
#[must_use]
pub fn same(a: &PartitionConfig, b: &PartitionConfig) -> bool {
    let stripped = |c: &PartitionConfig| PartitionConfig { model: None, ..c.clone() };
    stripped(a) == stripped(b)
}
