//! Tensor files: npz, npy, safetensors, ONNX `.pb`; and the weights of models.

mod npy;
mod npz;
mod pb;
mod safetensors;
pub mod weight;

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use recut_core::diagnostic::{printable, printable_path};

use crate::tensor::Tensor;

/// Named tensors, in file order.
pub type Arrays = IndexMap<String, Tensor>;

/// Why a tensor file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} {}{}: {message}", if *.writing { "write" } else { "read" }, printable_path(path),
    .array.as_ref().map_or_else(String::new, |a| format!(", array `{}`", printable(a))))]
pub struct ArrayError {
    /// The file.
    pub path: PathBuf,
    /// The array in it.
    pub array: Option<String>,
    /// Whether it was being written.
    pub writing: bool,
    /// Whether the file is not there.
    pub not_found: bool,
    /// What is wrong.
    pub message: String,
}

impl ArrayError {
    fn reading(path: &Path, array: Option<&str>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), array: array.map(str::to_owned), writing: false, not_found: false, message: message.into() }
    }

    fn io(path: &Path, e: &std::io::Error) -> Self {
        Self { not_found: e.kind() == std::io::ErrorKind::NotFound, ..Self::reading(path, None, e.to_string()) }
    }

    fn writing(path: &Path, message: impl std::fmt::Display) -> Self {
        Self { writing: true, ..Self::reading(path, None, message.to_string()) }
    }
}

/// Reads every array of a file (what kind it is is decided by content), or of the `.npy` and `.pb` files of a directory.
///
/// # Errors
/// If a file cannot be read or is broken.
pub fn load_arrays(path: &Path) -> Result<Arrays, ArrayError> {
    let meta = std::fs::metadata(path).map_err(|e| ArrayError::io(path, &e))?;
    if meta.is_dir() {
        return load_directory(path);
    }
    if !meta.is_file() {
        return Err(ArrayError::reading(path, None, "it is no regular file"));
    }
    let file = File::open(path).map_err(|e| ArrayError::io(path, &e))?;
    let mut reader = BufReader::new(file);
    let mut start = [0u8; 9];
    let n = read_up_to(&mut reader, &mut start).map_err(|e| ArrayError::io(path, &e))?;
    reader.rewind().map_err(|e| ArrayError::io(path, &e))?;
    let start = &start[..n];
    let stem = || path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        npz::read(path, reader)
    } else if start.starts_with(npy::MAGIC) {
        let t = npy::read(&mut reader, meta.len()).map_err(|e| ArrayError::reading(path, None, e))?;
        Ok(Arrays::from([(stem(), t)]))
    } else if start.len() == 9 && start[8] == b'{' {
        safetensors::read(path, reader, meta.len())
    } else if path.extension().is_some_and(|e| e == "pb") {
        let (name, t) = pb::read(&mut reader, meta.len()).map_err(|e| ArrayError::reading(path, None, e))?;
        Ok(Arrays::from([(name.unwrap_or_else(stem), t)]))
    } else {
        Err(ArrayError::reading(path, None, "it is no .npz, .npy, .safetensors or .pb file"))
    }
}

fn read_up_to(from: &mut impl Read, to: &mut [u8]) -> std::io::Result<usize> {
    let mut n = 0;
    while n < to.len() {
        match from.read(&mut to[n..]) {
            Ok(0) => break,
            Ok(k) => n += k,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

fn load_directory(path: &Path) -> Result<Arrays, ArrayError> {
    let entries = std::fs::read_dir(path).map_err(|e| ArrayError::io(path, &e))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|e| ArrayError::io(path, &e))?.path();
        if file.extension().is_some_and(|e| e == "npy" || e == "pb") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(ArrayError::reading(path, None, "the directory holds no .npy or .pb file"));
    }
    let mut arrays = Arrays::new();
    for file in files {
        for (name, t) in load_arrays(&file)? {
            if arrays.contains_key(&name) {
                return Err(ArrayError::reading(path, Some(&name), "two files of the directory hold an array of this name"));
            }
            arrays.insert(name, t);
        }
    }
    Ok(arrays)
}

/// Writes an `.npz` that numpy loads. The file appears whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn save_npz(path: &Path, arrays: &Arrays) -> Result<(), ArrayError> {
    replace(path, |f| npz::write(f, arrays))
}

/// Writes one array as `.npy`. The file appears whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn save_npy(path: &Path, t: &Tensor) -> Result<(), ArrayError> {
    replace(path, |f| {
        let mut w = BufWriter::new(f);
        npy::write(&mut w, t)?;
        w.flush()
    })
}

fn replace(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), ArrayError> {
    recut_core::files::replace(path, write).map_err(|e| ArrayError::writing(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_devices_devices() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let arrays = Arrays::from([("x".to_owned(), Tensor::from_slice(&[2], &[1.0f32, 2.0]).unwrap())]);
        std::fs::write(path("real.npz"), "old").unwrap();
        std::os::unix::fs::symlink("real.npz", path("link.npz")).unwrap();
        save_npz(&path("link.npz"), &arrays).unwrap();
        assert!(std::fs::symlink_metadata(path("link.npz")).unwrap().file_type().is_symlink());
        assert_eq!(load_arrays(&path("real.npz")).unwrap().len(), 1);
        // Through a link, so that a fault would hit the link and not the device.
        std::os::unix::fs::symlink("/dev/null", path("null.npz")).unwrap();
        let _ = save_npz(&path("null.npz"), &arrays);
        assert!(std::fs::symlink_metadata(path("null.npz")).unwrap().file_type().is_symlink());
        assert!(!std::fs::metadata(path("null.npz")).unwrap().is_file());
    }

    #[test]
    fn npz_survives_the_disk_and_broken_ones_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let t = Tensor::from_slice(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
        let arrays = Arrays::from([("x".to_owned(), t.clone()), ("sub/y.1".to_owned(), Tensor::scalar(1i64))]);
        save_npz(&path, &arrays).unwrap();
        let back = load_arrays(&path).unwrap();
        assert_eq!(back.keys().collect::<Vec<_>>(), ["x", "sub/y.1"]);
        assert_eq!(back["x"].bytes(), t.bytes());
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(load_arrays(&path).is_err(), "cut at {cut}");
        }
        let e = load_arrays(&dir.path().join("none.npz")).unwrap_err();
        assert!(e.not_found && e.to_string().contains("none.npz"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn directories_and_npy() {
        let dir = tempfile::tempdir().unwrap();
        save_npy(&dir.path().join("x.npy"), &Tensor::scalar(1f32)).unwrap();
        save_npy(&dir.path().join("y.npy"), &Tensor::scalar(2f32)).unwrap();
        assert_eq!(load_arrays(dir.path()).unwrap().keys().collect::<Vec<_>>(), ["x", "y"]);
    }
}
