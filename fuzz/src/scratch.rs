//! The file an input is written to: importers take paths. One for each process, in memory where the system has that.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file, with these bytes.
///
/// # Panics
/// If it cannot be written: then nothing can be fuzzed.
pub fn file(bytes: &[u8]) -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        folder.join(format!("recut-fuzz-{}", std::process::id()))
    });
    std::fs::write(path, bytes).expect("the input can be written to a file");
    path
}
