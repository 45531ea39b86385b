//! From request to document: opens the model, loads the config, adds the marks. The app and every command come this way,
//! so that the same marks give the same config.

use std::path::{Component, Path};
use std::sync::Arc;

use recut_core::config::{ConfigError, ConfigErrorKind, ModelRef, PartitionConfig, RunConfig, graph_sha256};
use recut_core::diagnostic::{Diagnostic, Severity, printable};
use recut_core::document::{Document, DocumentOptions, Edit, MarkList, Patch};
use recut_core::graph::NodeId;
use recut_core::import::Imported;
use recut_core::model::Model;
use recut_core::select::{Bare, SelectContext, Selector, SelectorIndex, canonical_entry};

use super::error::{CliError, Exit, Result, show};
use super::files;
use super::output::Output;
use super::request::{MarkRequest, RunRequest};

/// Opens a model.
///
/// # Errors
/// If it cannot be opened.
pub fn import(path: &Path, out: &Output) -> Result<Imported> {
    let progress = out.progress("opening the model", 0);
    let imported = recut_core::import::open(path);
    progress.finish_and_clear();
    Ok(imported?)
}

/// The nodes that a selector matches, in topological order. Matching nothing is a warning.
///
/// # Errors
/// If it is no selector, or the model does not tell what it asks.
pub fn select(model: &Arc<Model>, text: &str, out: &Output) -> Result<Vec<NodeId>> {
    let index = SelectorIndex::new(model);
    let selected = Selector::parse(text, Bare::ByForm)?.eval(&index, &SelectContext::default())?;
    selected.remarks.iter().for_each(|r| out.note(r));
    if selected.nodes.is_empty() {
        let nearest = if selected.nearest.is_empty() { String::new() } else { format!("; nearest: {}", selected.nearest.join(", ")) };
        out.warning(&format!("`{}` matches nothing{nearest}", printable(text)));
    }
    Ok(selected.nodes.iter().collect())
}

/// Opens model and config and adds the marks. Says what is not as meant, unless `quiet` is wanted by the caller's output.
///
/// # Errors
/// If the model cannot be opened, or config or marks cannot be used.
pub fn open(model: &Path, marks: &MarkRequest, run: Option<&RunRequest>, out: &Output) -> Result<Document> {
    let config = load_config(marks.config.as_deref(), out)?;
    let support_file = marks.support.as_deref().map(read_support).transpose()?;
    let options = DocumentOptions { strict: marks.strict, support_file };
    let imported = import(model, out)?;
    let mut document = Document::new(imported, config, options)?;
    for edit in edits(marks, run) {
        let edit = edit(document.config())?;
        if !edit.patches.is_empty() {
            document.apply(edit)?;
        }
    }
    Ok(document)
}

fn load_config(path: Option<&Path>, out: &Output) -> Result<PartitionConfig> {
    let Some(path) = path else { return Ok(PartitionConfig::default()) };
    let (config, notes) = PartitionConfig::open(path)?;
    notes.iter().for_each(|d| out.warning(&d.message));
    Ok(config)
}

fn read_support(path: &Path) -> Result<(String, String)> {
    let text = std::fs::read_to_string(path).map_err(|e| CliError::read("capability table", path, &e))?;
    Ok((text, path.display().to_string()))
}

impl From<ConfigError> for CliError {
    fn from(e: ConfigError) -> Self {
        let exit = if e.kind == ConfigErrorKind::File { Exit::NotThere } else { Exit::Usage };
        Self::new(exit, format!("cannot use the config {e}"))
    }
}

/// Makes an edit for the config as it is when its turn comes.
type EditFor<'a> = Box<dyn Fn(&PartitionConfig) -> Result<Edit> + 'a>;

/// Every mark and option as one undoable edit, in a fixed order.
fn edits<'a>(marks: &'a MarkRequest, run: Option<&'a RunRequest>) -> Vec<EditFor<'a>> {
    let mut edits: Vec<EditFor<'a>> = Vec::new();
    if let Some(backend) = &marks.backend {
        edits.push(Box::new(move |c| {
            let (from, to) = (c.backend.clone(), Some(backend.clone()));
            let patches = if from == to { Vec::new() } else { vec![Patch::Backend { from, to }] };
            Ok(Edit { label: format!("backend {backend}"), patches })
        }));
    }
    for (list, text) in &marks.entries {
        edits.push(Box::new(move |c| add(c, *list, text)));
    }
    for (name, select) in &marks.wraps {
        edits.push(Box::new(move |c| Ok(crate::tui::marks::wrap(c, name, &canonical_entry(select, Bare::ByForm)?))));
    }
    edits.push(Box::new(move |c| {
        let mut to = c.partitioner.clone();
        to.strategy = marks.strategy.unwrap_or(to.strategy);
        to.min_block_size = marks.min_block_size.unwrap_or(to.min_block_size);
        to.require_full_compilation |= marks.require_full_compilation;
        let from = c.partitioner.clone();
        let patches = if from == to { Vec::new() } else { vec![Patch::Partitioner { from, to }] };
        Ok(Edit { label: "partitioner options".to_owned(), patches })
    }));
    for (name, size) in &marks.dims {
        edits.push(Box::new(move |c| {
            let (from, to) = (c.dims.get(name).copied(), Some(*size));
            let patches = if from == to { Vec::new() } else { vec![Patch::Dim { name: name.clone(), from, to }] };
            Ok(Edit { label: format!("{name} = {size}"), patches })
        }));
    }
    if let Some(r) = run {
        edits.push(Box::new(move |c| {
            let to = run_config(&c.run, r);
            let patches = if c.run == to { Vec::new() } else { vec![Patch::Run { from: c.run.clone(), to }] };
            Ok(Edit { label: "run options".to_owned(), patches })
        }));
    }
    edits
}

fn run_config(from: &RunConfig, r: &RunRequest) -> RunConfig {
    let mut to = from.clone();
    to.engine = r.engine.clone().unwrap_or(to.engine);
    to.torch_engine = r.torch_engine.clone().unwrap_or(to.torch_engine);
    to.precision = r.precision.clone().unwrap_or(to.precision);
    to.threads = r.threads.or(to.threads);
    for text in &r.engine_for {
        if !to.overrides.contains(text) {
            to.overrides.push(text.clone());
        }
    }
    to
}

/// Adds one entry at the end of its list, in the form that the app writes too; nothing if it is there.
fn add(config: &PartitionConfig, list: MarkList, text: &str) -> Result<Edit> {
    let text = canonical_entry(text, list.bare())?;
    let entries = list.entries(config);
    let patches = match entries.contains(&text) {
        true => Vec::new(),
        false => vec![Patch::Insert { list, index: entries.len(), text: text.clone() }],
    };
    Ok(Edit { label: format!("{}: {}", list.name(), printable(&text)), patches })
}

/// The config as it is saved at `path`: it names the model, relative to the file.
#[must_use]
pub fn config_to_save(document: &Document, path: &Path) -> PartitionConfig {
    let mut config = document.config().clone();
    let model = document.model();
    config.model = Some(ModelRef { file: relative(&model.path, path), graph_sha256: graph_sha256(model) });
    config
}

/// Saves the config with the marks; an older file of that name is replaced.
///
/// # Errors
/// If it cannot be written.
pub fn save_config(document: &Document, path: &Path, out: &Output) -> Result<()> {
    let text = config_to_save(document, path).to_json_string();
    files::write("config", path, |w| w.write_all(text.as_bytes()))?;
    out.note(&format!("saved the config to {}", show(path)));
    Ok(())
}

/// `model` as seen from the directory of `config`, with forward slashes.
fn relative(model: &Path, config: &Path) -> String {
    let absolute = |p: &Path| std::path::absolute(p).unwrap_or_else(|_| p.to_owned());
    let (model, config) = (absolute(model), absolute(config));
    let dir = config.parent().unwrap_or(Path::new("/"));
    let (mut to, mut from) = (model.components().peekable(), dir.components().peekable());
    while to.peek().is_some() && to.peek() == from.peek() {
        to.next();
        from.next();
    }
    let up = from.filter(|c| matches!(c, Component::Normal(_))).map(|_| "..".to_owned());
    let down = to.map(|c| c.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Says what is not as meant: warnings and errors of the import, the marks and the plan, at most `limit` of them.
pub fn warn(problems: &[Diagnostic], limit: usize, out: &Output) {
    let serious: Vec<&Diagnostic> = problems.iter().filter(|d| d.severity > Severity::Info).collect();
    for d in serious.iter().take(limit) {
        out.warning(&d.message);
    }
    if serious.len() > limit {
        out.warning(&format!("and {} more (--json lists all)", serious.len() - limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_names_its_model_as_seen_from_itself() {
        let r = |m: &str, c: &str| relative(Path::new(m), Path::new(c));
        assert_eq!(r("/a/m.onnx", "/a/c.json"), "m.onnx");
        assert_eq!(r("/a/models/m.onnx", "/a/c.json"), "models/m.onnx");
        assert_eq!(r("/a/m.onnx", "/a/configs/x/c.json"), "../../m.onnx");
        assert_eq!(r("m.onnx", "c.json"), "m.onnx");
    }
}
