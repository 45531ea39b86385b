//! Output files of every kind: at any time either the old or the new content is there.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Temporary files that exist now: an interrupted process removes them before it ends.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what interrupted writers leave behind.
pub fn remove_pending() {
    let pending = std::mem::take(&mut *PENDING.lock().unwrap_or_else(PoisonError::into_inner));
    for path in pending {
        // It may have been renamed or removed in the meantime.
        let _ = std::fs::remove_file(path);
    }
}

/// Takes a path off the list when the writer is done with it, whichever way.
struct Pending(PathBuf);

impl Pending {
    fn new(path: &Path) -> Self {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).retain(|p| *p != self.0);
    }
}

/// Writes a file as a whole or not at all: to a temporary file beside it, which is renamed. Permissions of an existing
/// file are kept; a symbolic link stays one, and what it points at is replaced; a file that may not be written is
/// refused; a device or pipe is written to and never replaced.
///
/// # Errors
/// What `write` or the system says; then an older file of that name is as it was, and nothing is left behind.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let target = follow_links(path)?;
    let existing = match std::fs::metadata(&target) {
        Ok(m) if m.is_dir() => return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory; name a file in it")),
        Ok(m) if !m.is_file() => return write(&mut std::fs::OpenOptions::new().write(true).open(&target)?),
        Ok(m) if m.permissions().readonly() => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected")),
        Ok(m) => Some(m.permissions()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".recut-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any new file, and not private as temporary files are: the umask takes away from it.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.tempfile_in(directory(&target))?;
    let _pending = Pending::new(temporary.path());
    write(temporary.as_file_mut())?;
    if let Some(permissions) = existing {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.persist(&target).map_err(|e| e.error)?;
    Ok(())
}

/// [`replace`] by `bytes`, which are on the disk when this returns: for what nobody can make again.
///
/// # Errors
/// Those of [`replace`].
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |file| {
        file.write_all(bytes)?;
        match file.sync_all() {
            // Devices and pipes have nothing to flush.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    })?;
    // The rename itself is on the disk only once the directory is; where a directory cannot be opened, so be it.
    if let Ok(d) = File::open(directory(&follow_links(path)?)) {
        let _ = d.sync_all();
    }
    Ok(())
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_to_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        // Through a link, so that a fault would hit the link and not the device.
        let path = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        write_durably(&path, b"text").unwrap();
        assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_symlink());
        assert!(!std::fs::metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        replace(&path, |f| f.write_all(b"old")).unwrap();
        let failed = replace(&path, |f| f.write_all(b"half").and_then(|()| Err(io::Error::other("disk full"))));
        assert_eq!(failed.unwrap_err().to_string(), "disk full");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
