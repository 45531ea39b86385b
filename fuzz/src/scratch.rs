//! The file an input is written to: importers take paths. One for each process, in memory where the system has that.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file, with these bytes.
///
/// # Panics
/// If it cannot be written: then nothing can be fuzzed.
pub fn file(bytes: &[u8]) -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    written(PATH.get_or_init(|| place("in")), bytes)
}

/// Another file, for what is made of the first one.
///
/// # Panics
/// If it cannot be written.
pub fn second_file(bytes: &[u8]) -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    written(PATH.get_or_init(|| place("out")), bytes)
}

fn place(end: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("recut-fuzz-{}-{end}", std::process::id()))
}

fn written<'p>(path: &'p Path, bytes: &[u8]) -> &'p Path {
    std::fs::write(path, bytes).expect("the input can be written to a file");
    path
}
