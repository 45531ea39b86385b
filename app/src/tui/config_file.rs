//! Reading and writing configs and recovery files, with messages for the status line.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use recut_core::config::{MAX_BYTES, PartitionConfig};
use recut_core::diagnostic::{printable, printable_path};
use recut_core::files::write_durably;
use recut_core::model::Model;

/// The bytes of a config file, by which a change on disk is noticed.
pub type Content = Arc<[u8]>;

/// The bytes of a file, where it is one of a config's size.
#[must_use]
pub fn content(path: &Path) -> Option<Content> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return None;
    }
    std::fs::read(path).ok().map(Into::into)
}

/// Reads a config, and gives its bytes too.
///
/// # Errors
/// If there is no such file, or it is no config.
pub fn read(path: &Path) -> Result<(PartitionConfig, Content), String> {
    let text = PartitionConfig::read(path).map_err(|e| e.to_string())?;
    let (config, _) = PartitionConfig::load(&text, &path.display().to_string()).map_err(|e| e.to_string())?;
    Ok((config, text.into_bytes().into()))
}

/// What a failed write means and what to do about it.
#[must_use]
pub fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        ErrorKind::NotFound => "its folder does not exist: make it, or give another name".to_owned(),
        ErrorKind::PermissionDenied => "it may not be written there: give another place".to_owned(),
        ErrorKind::IsADirectory => "it is a folder: name a file in it".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is no folder: give another place".to_owned(),
        ErrorKind::StorageFull => "the disk is full: free some space, or give another place".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only: give another place".to_owned(),
        _ => {
            let text = e.to_string();
            // Temporary files add their own path, which says nothing to a person.
            printable(text.split(" at path ").next().unwrap_or(&text)).into_owned()
        }
    }
}

/// Writes `text` to `path` so that nothing half-written is ever seen.
///
/// # Errors
/// If the file system refuses.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    write_durably(path, text.as_bytes()).map_err(|e| format!("cannot write {}: {}", printable_path(path), reason(&e)))
}

/// Why `path` cannot become a config: it is a file that the model is made of.
#[must_use]
pub fn part_of(path: &Path, model: &Model) -> Option<String> {
    model.holds(path).then(|| format!("{} holds the model or its weights; give another file name", printable_path(path)))
}

/// Whether two configs ask for the same; which model they were made for does not count.
#[must_use]
pub fn same(a: &PartitionConfig, b: &PartitionConfig) -> bool {
    let stripped = |c: &PartitionConfig| PartitionConfig { model: None, ..c.clone() };
    stripped(a) == stripped(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_says_what_to_do_and_names_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let e = write(&dir.path().join("no/c.json"), "{}").unwrap_err();
        assert!(e.ends_with("no/c.json: its folder does not exist: make it, or give another name"), "{e}");
        let e = write(dir.path(), "{}").unwrap_err();
        assert!(e.contains("name a file in it") && !e.contains("os error"), "{e}");
    }

    #[test]
    fn weights_are_never_replaced_by_a_config() {
        let dir = tempfile::tempdir().unwrap();
        let (model_file, weights) = (dir.path().join("m.onnx"), dir.path().join("m.onnx.data"));
        std::fs::write(&model_file, [0; 4]).unwrap();
        std::fs::write(&weights, [0; 4]).unwrap();
        let mut model = recut_core::testing::model(&[("a", "Relu", &["x"], &["y"])]);
        model.file = std::sync::Arc::new(recut_core::weights::DataFile::stat(&model_file).unwrap());
        assert!(part_of(&model_file, &model).is_some());
        assert!(part_of(&weights, &model).is_none(), "nothing of the model lies there");
        assert!(part_of(&dir.path().join("new.json"), &model).is_none());
    }
}
