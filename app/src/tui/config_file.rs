//! Reading and writing the config as the app does it: through a temporary file beside the target.

use std::io::Write;
use std::path::Path;

use recut_core::config::PartitionConfig;
use recut_core::diagnostic::printable;

/// The text of a config file.
#[must_use]
pub fn to_text(config: &PartitionConfig) -> String {
    let mut text = serde_json::to_string_pretty(config).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads a config.
///
/// # Errors
/// If there is no such file, or it is no config.
pub fn read(path: &Path) -> Result<PartitionConfig, String> {
    let shown = printable(&path.display().to_string()).into_owned();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{shown} is no partition config: {e}"))
}

/// Writes `text` to `path`, through a temporary file that is renamed, so that nothing half-written is ever seen.
///
/// # Errors
/// If the file system refuses.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let shown = printable(&path.display().to_string()).into_owned();
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".recut-").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| format!("cannot write {shown}: {e}"))
}
