//! From request to document: opens the model, loads the config, adds the marks. The app and every command come this way,
//! so that the same marks give the same config.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recut_core::config::{ConfigError, ConfigErrorKind, PartitionConfig, RunConfig};
use recut_core::diagnostic::{Diagnostic, Severity, printable};
use recut_core::document::{Document, DocumentOptions, Edit};
use recut_core::graph::NodeId;
use recut_core::import::{Imported, OpenOptions};
use recut_core::model::Model;
use recut_core::select::{Bare, SelectContext, SelectError, Selector, SelectorIndex};

use super::error::{CliError, Exit, Result, show};
use super::files;
use super::output::Output;
use super::request::{MarkRequest, RunRequest};

/// Largest capability table that is read, in bytes.
const MAX_SUPPORT_BYTES: u64 = 16 << 20;

/// Opens a model.
///
/// # Errors
/// If it cannot be opened.
pub fn import(path: &Path, model_name: Option<&str>, out: &Output) -> Result<Imported> {
    let progress = out.progress("opening the model", 0);
    let imported = recut_core::import::open_with(path, &OpenOptions { model_name: model_name.map(str::to_owned) });
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
    if let Some(beside) = config_beside(model).filter(|_| marks.config.is_none()) {
        let beside = show(&beside);
        out.note(&format!("{beside} lies beside the model and is not used; --config {beside} takes it"));
    }
    let support_file = marks.support.as_deref().map(read_support).transpose()?;
    let options = DocumentOptions { strict: marks.strict, strict_support: marks.strict_support, support_file };
    let imported = import(model, marks.model_name.as_deref(), out)?;
    let mut document = Document::new(imported, config, options)?;
    add_marks(&mut document, marks, run)?;
    Ok(document)
}

/// The config that the app saves beside a model unless another name is given, if there is one.
#[must_use]
pub fn config_beside(model: &Path) -> Option<PathBuf> {
    Some(crate::tui::state::default_config_path(model)).filter(|p| p.is_file())
}

fn load_config(path: Option<&Path>, out: &Output) -> Result<PartitionConfig> {
    let Some(path) = path else { return Ok(PartitionConfig::default()) };
    let (config, notes) = PartitionConfig::open(path)?;
    notes.iter().for_each(|d| out.warning(&d.message));
    Ok(config)
}

fn read_support(path: &Path) -> Result<(String, String)> {
    use std::io::Read;
    let refuse = |e: std::io::Error| CliError::read("capability table", path, &e);
    let file = std::fs::File::open(path).map_err(refuse)?;
    if file.metadata().map_err(refuse)?.is_dir() {
        return Err(refuse(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SUPPORT_BYTES + 1).read_to_end(&mut bytes).map_err(refuse)?;
    if bytes.len() as u64 > MAX_SUPPORT_BYTES {
        let limit = MAX_SUPPORT_BYTES >> 20;
        return Err(CliError::usage(format!("the capability table {} is larger than {limit} MiB, which no table is", show(path))));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage(format!("the capability table {} is no text in UTF-8; it has to be JSON", show(path))))?;
    Ok((text, path.display().to_string()))
}

impl From<ConfigError> for CliError {
    fn from(e: ConfigError) -> Self {
        let exit = if e.kind == ConfigErrorKind::File { Exit::NotThere } else { Exit::Usage };
        Self::new(exit, format!("cannot use the config {e}"))
    }
}

/// Adds every mark and option as one undoable edit each, in a fixed order.
fn add_marks(document: &mut Document, marks: &MarkRequest, run: Option<&RunRequest>) -> Result<()> {
    let mut apply = |edit: &dyn Fn(&PartitionConfig) -> std::result::Result<Edit, SelectError>| -> Result<()> {
        let edit = edit(document.config())?;
        if !edit.patches.is_empty() {
            document.apply(edit)?;
        }
        Ok(())
    };
    if let Some(backend) = &marks.backend {
        apply(&|c| Ok(Edit::set_backend(c, Some(backend))))?;
    }
    for (list, text) in &marks.entries {
        apply(&|c| Edit::mark(c, *list, &[text]))?;
    }
    for (name, select) in &marks.wraps {
        apply(&|c| Edit::wrap(c, Some(name), &[select]))?;
    }
    apply(&|c| {
        let mut to = c.partitioner.clone();
        to.strategy = marks.strategy.unwrap_or(to.strategy);
        to.min_block_size = marks.min_block_size.unwrap_or(to.min_block_size);
        to.require_full_compilation |= marks.require_full_compilation;
        Ok(Edit::set_partitioner(c, to))
    })?;
    for (name, size) in &marks.dims {
        apply(&|c| Ok(Edit::set_dim(c, name, Some(*size))))?;
    }
    match run {
        Some(r) => apply(&|c| Ok(Edit::set_run(c, run_config(&c.run, r)))),
        None => Ok(()),
    }
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

/// Refuses to write over any file that the model is made of: only the opened model tells where its weights lie.
///
/// # Errors
/// A usage error that names the option.
pub fn guard_model_files(model: &Model, outputs: &[(&str, &Path)]) -> Result<()> {
    match outputs.iter().find(|(_, path)| model.holds(path)) {
        Some((option, path)) => Err(files::overwriting(option, path, "model or its weights")),
        None => Ok(()),
    }
}

/// Saves the config with the marks; an older file of that name is replaced.
///
/// # Errors
/// If it cannot be written.
pub fn save_config(document: &Document, path: &Path, out: &Output) -> Result<()> {
    let text = document.config_for(path).to_json_string();
    files::write("config", path, |w| w.write_all(text.as_bytes()))?;
    out.note(&format!("saved the config to {}", show(path)));
    Ok(())
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
