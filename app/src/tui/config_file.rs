//! Reading and writing configs and recovery files, with messages for the status line.

use std::path::Path;

use recut_core::config::{PartitionConfig, write_atomically};
use recut_core::diagnostic::printable;
use recut_core::model::Model;

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

/// Why `path` cannot become a config: it is a file that the model is made of.
#[must_use]
pub fn part_of(path: &Path, model: &Model) -> Option<String> {
    let target = std::fs::canonicalize(path).ok()?;
    let is = model.files().iter().any(|f| std::fs::canonicalize(&f.path).is_ok_and(|f| f == target));
    is.then(|| format!("{} holds the model or its weights; give another file name", printable(&path.display().to_string())))
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
