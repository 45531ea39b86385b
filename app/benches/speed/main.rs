//! The speed table: what the app and the runner promise, measured in one run.
//!
//! `cargo bench --workspace --bench speed -- [MODEL|FOLDER…]`. Without arguments it writes models of its own.

mod first_frame;
mod marking;
mod own_models;
#[path = "../../../tests/pty_command.rs"]
mod pty_command;
mod table;
mod timing;

use std::path::{Path, PathBuf};

use recut_core::config::PartitionConfig;
use recut_core::document::{Document, DocumentOptions};
use recut_core::import::open;

use table::Table;

fn main() {
    let mut given: Vec<PathBuf> =
        std::env::args_os().skip(1).map(PathBuf::from).filter(|a| !a.to_string_lossy().starts_with("--")).collect();
    let own = tempfile::tempdir().expect("a folder for models of our own");
    if given.is_empty() {
        own_models::write(own.path());
        given.push(own.path().to_owned());
    }
    let mut table = Table::default();
    for path in given.iter().flat_map(|p| models_in(p)) {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let document = || -> Result<Document, String> {
            let imported = open(&path).map_err(|e| e.to_string())?;
            Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).map_err(|e| e.to_string())
        };
        // Each part opens the model anew, so that no part finds the memory of another.
        let nodes = match document() {
            Ok(d) => d.model().graph.nodes().len(),
            Err(e) => {
                table.remark(&format!("{name}: {e}"));
                continue;
            }
        };
        table.model(&name, nodes);
        first_frame::measure(&path, nodes, &mut table);
        // Marking changes its document, so timing gets one of its own.
        match (document(), document()) {
            (Ok(marked), Ok(timed)) => {
                marking::measure(marked, &mut table);
                timing::measure(&timed, &mut table);
            }
            (Err(e), _) | (_, Err(e)) => table.remark(&e),
        }
    }
    table.end();
}

/// The file itself, or every model of the folder.
fn models_in(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "onnx")).collect();
    files.sort();
    files
}
