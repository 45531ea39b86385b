//! Files that hold a model's external tensors: which of them a model may name.
//!
//! A location is relative to the model's folder and may not lead out of it, also not by way of a link: a model must not
//! be able to read a user's other files. The one exception is the cache layout of Hugging Face, where the model file
//! itself is a link into a folder of blobs and its data are links into that same folder.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::printable;
use crate::hash::FastMap;
use crate::weights::DataFile;

/// A data file, or why it is not read.
type Found = Result<Arc<DataFile>, Arc<str>>;

/// The data files of one model.
#[derive(Debug)]
pub(in crate::import) struct External {
    /// Folder of the model as the user named it.
    folder: PathBuf,
    /// That folder with links resolved.
    real_folder: Option<PathBuf>,
    /// Folder of the file that the model's path links to, where it is a link.
    blobs: Option<PathBuf>,
    known: FastMap<Box<[u8]>, Found>,
}

impl External {
    pub(in crate::import) fn new(model: &Path) -> Self {
        let folder = match model.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let is_link = model.symlink_metadata().is_ok_and(|m| m.file_type().is_symlink());
        let blobs = is_link.then(|| model.canonicalize().ok()?.parent().map(Path::to_owned)).flatten();
        Self { real_folder: folder.canonicalize().ok(), folder, blobs, known: FastMap::default() }
    }

    /// The file at a location, or why it is not read.
    pub(in crate::import) fn file(&mut self, location: &[u8]) -> Found {
        if let Some(known) = self.known.get(location) {
            return known.clone();
        }
        let found = self.find(location).map(Arc::new).map_err(Arc::from);
        self.known.insert(location.into(), found.clone());
        found
    }

    fn find(&self, location: &[u8]) -> Result<DataFile, String> {
        let shown = printable(&String::from_utf8_lossy(location)).into_owned();
        let text = std::str::from_utf8(location).map_err(|_| format!("the location `{shown}` of its data is not UTF-8"))?;
        let relative = check(text).map_err(|why| format!("the location `{shown}` of its data {why}"))?;
        let path = self.folder.join(relative);
        let real = path.canonicalize().map_err(|e| {
            let why = if e.kind() == std::io::ErrorKind::NotFound { "does not exist".to_owned() } else { format!("cannot be opened: {e}") };
            format!("its data file `{shown}` {why}")
        })?;
        let inside = self.real_folder.as_deref().is_some_and(|f| real.starts_with(f));
        let in_blobs = self.blobs.as_deref().is_some_and(|b| real.parent() == Some(b));
        if !inside && !in_blobs {
            return Err(format!("its data file `{shown}` is a link that leads outside the model's directory"));
        }
        let meta = real.metadata().map_err(|e| format!("its data file `{shown}` cannot be opened: {e}"))?;
        if meta.is_dir() {
            return Err(format!("the location `{shown}` of its data is a directory"));
        }
        if !meta.is_file() {
            return Err(format!("the location `{shown}` of its data is not a regular file"));
        }
        Ok(DataFile { path, len: meta.len(), modified: meta.modified().ok() })
    }
}

/// A location as a path below the model's folder, or what is wrong with it.
fn check(location: &str) -> Result<&Path, &'static str> {
    let path = Path::new(location);
    let drive = location.as_bytes().get(1) == Some(&b':') && location.as_bytes()[0].is_ascii_alphabetic();
    if path.has_root() || location.starts_with(['/', '\\']) || drive {
        return Err("is an absolute path: only paths below the model's directory are read");
    }
    if location.contains("://") || location.get(..5).is_some_and(|s| s.eq_ignore_ascii_case("file:")) {
        return Err("is a URL, not a path below the model's directory");
    }
    if location.split(['/', '\\']).any(|part| part == "..") {
        return Err("has `..` and leads outside the model's directory");
    }
    if location.contains('\0') {
        return Err("has a zero byte");
    }
    if !path.components().any(|c| matches!(c, Component::Normal(_))) {
        return Err("is the model's directory itself");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_that_leave_the_folder_are_refused() {
        for bad in [
            "/etc/passwd",
            "../w.bin",
            "a/../../w.bin",
            "C:\\w.bin",
            "c:w.bin",
            "\\\\host\\share\\w",
            "file:///w",
            "file:w",
            "http://h/w",
            "a\\..\\w",
            ".",
            "./",
            "a\0b",
            "..",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in ["w.bin", "./w.bin", "data/w.bin", "a..b", "...", "weights of me.bin"] {
            assert!(check(good).is_ok(), "{good:?}");
        }
    }
}
