//! Reader of `torch.export` archives (`.pt2`).
//!
//! `archive` is the zip container, `schema` the program's JSON, `symbols`, `pytree` and `scopes` the texts inside of it,
//! `weights` says where tensors lie (`unpickle` for those of older files), `build` makes the graph. Nothing in an archive
//! is ever executed. Nodes keep the names, targets and arguments of the FX graph: an argument that is a value is an
//! [`AttrValue::Input`](crate::graph::AttrValue::Input), all others are constants.

mod aliases;
mod archive;
mod build;
mod pytree;
mod schema;
mod scopes;
mod symbols;
#[cfg(test)]
mod tests;
mod unpickle;
mod weights;

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use archive::{Archive, Layout};
use build::Builder;
use schema::{Program, Version, Versions};
use weights::Weights;

use crate::diagnostic::{Diagnostic, Severity, printable};
use crate::import::{ImportError, ImportErrorKind, Imported};
use crate::model::{Format, Model, SymbolFacts};
use crate::weights::DataFile;

/// Majors of the schema that are understood, with the torch releases that write them.
const MAJORS: std::ops::RangeInclusive<u64> = 5..=8;

/// Reads the program called `asked`; else the one called `model`, or the first.
pub(super) fn read(path: &Path, file: DataFile, asked: Option<&str>) -> Result<Imported, ImportError> {
    let file = Arc::new(file);
    let mut archive = Archive::open(path, file.clone())?;
    marks(path, &mut archive)?;
    let name = choose(path, &archive, asked)?;
    check_version_entry(path, &mut archive)?;
    let entry = match archive.layout {
        Layout::Archive { .. } => archive.below_root(&format!("models/{name}.json")),
        Layout::Legacy => "serialized_exported_program.json".to_owned(),
    };
    let corrupt = |why: String| ImportError::new(path, ImportErrorKind::Corrupt, why);
    let text = archive.text(&entry)?.ok_or_else(|| corrupt(format!("there is no entry {}", printable(&entry))))?;
    let quoted;
    let program: Program<'_> = match serde_json::from_slice(&text) {
        Ok(program) => program,
        // torch up to 2.6 writes what is no JSON; to look for that in a good file would take time for nothing.
        Err(_) => {
            quoted = quote_bare_numbers(text);
            serde_json::from_slice(&quoted).map_err(|e| unreadable(path, &entry, &quoted, &e))?
        }
    };
    check_version(path, program.schema_version)?;

    let mut diagnostics = Vec::new();
    let programs = archive.programs();
    if programs.len() > 1 && asked.is_none() {
        let names: Vec<_> = programs.iter().take(16).map(|p| printable(p)).collect();
        let message = format!(
            "the archive holds {} programs ({}); this is {}, choose with --model-name",
            programs.len(),
            names.join(", "),
            printable(&name)
        );
        diagnostics.push(Diagnostic::new(Severity::Info, "several_programs", message));
    }
    let weights = match archive.layout {
        Layout::Archive { .. } => {
            let mut weights = Weights::read(&mut archive, &name, &mut diagnostics)?;
            for kind in ["weights", "constants"] {
                // torch 2.8.
                let entry = archive.below_root(&format!("data/{kind}/{name}.pt"));
                weights.read_pickled(&mut archive, &entry, &mut diagnostics);
            }
            weights
        }
        Layout::Legacy => {
            let mut weights = Weights::default();
            for entry in ["serialized_state_dict.pt", "serialized_constants.pt"] {
                weights.read_pickled(&mut archive, entry, &mut diagnostics);
            }
            weights
        }
    };
    let module = &program.graph_module;
    let mut builder = Builder::new();
    // Uncalled containers and aliases have no node that names them.
    for call in module.module_call_graph.iter().flatten().filter(|c| !c.fqn.is_empty()) {
        builder.scopes.tree.module(&call.fqn, None);
    }
    let signature = module.module_call_graph.iter().flatten().find(|c| c.fqn.is_empty()).and_then(|c| c.signature.as_ref());
    let user_inputs = signature.and_then(|s| {
        let names: Vec<&str> = s.forward_arg_names.iter().flatten().map(|n| &**n).collect();
        pytree::input_paths(s.in_spec.as_ref()?, &names)
    });
    let graph = builder
        .main(module, &weights, &user_inputs.unwrap_or_default())
        .map_err(|why| ImportError::new(path, ImportErrorKind::InvalidGraph, why))?;
    let modules = builder.scopes.tree.finish(graph.nodes().iter().map(|n| n.module));
    diagnostics.append(&mut builder.diagnostics);

    let text_of = |t: &Option<schema::Text<'_>>| t.as_deref().unwrap_or("").to_owned();
    let verifiers: Vec<&str> = program.verifiers.iter().flatten().chain(&program.dialect).map(|t| &**t).collect();
    let mut metadata = vec![("dialect".to_owned(), verifiers.join(", "))];
    for (symbol, range) in program.range_constraints.iter().flatten() {
        let bound = |b: Option<schema::Number>, none: &str| b.map_or_else(|| none.to_owned(), |b| b.0.to_string());
        let range = format!("{} to {}", bound(range.min_val, "-inf"), bound(range.max_val, "inf"));
        metadata.push((format!("range of {}", &**symbol), range));
    }
    let mut symbols: IndexMap<String, SymbolFacts> = IndexMap::new();
    for (symbol, hint) in std::mem::take(&mut builder.hints) {
        symbols.entry(symbol).or_default().hint = Some(hint);
    }
    for (symbol, range) in program.range_constraints.iter().flatten() {
        // Unbounded ends are infinite, or integers next to the largest ones.
        let bound = |b: &Option<schema::Number>| b.as_ref().map(|b| b.0).filter(|b| b.abs() < 9e15).map(|b| b as i64);
        let facts = symbols.entry(symbol.to_string()).or_default();
        (facts.min, facts.max) = (bound(&range.min_val), bound(&range.max_val));
    }
    let torch = text_of(&program.torch_version);
    Ok(Imported {
        model: Model {
            format: Format::Pt2,
            path: path.to_owned(),
            file,
            program: Some(name),
            stored_nodes: module.graph.nodes.len(),
            graph,
            modules,
            ir_version: None,
            opsets: IndexMap::new(),
            producer: if torch.is_empty() { "torch.export".to_owned() } else { format!("torch {torch}") },
            metadata,
            symbols,
            lowering: None,
            columns: Vec::new(),
        },
        diagnostics,
    })
}

/// Names of the tensors in a pickled dict.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn unpickled_names(pickle: &[u8]) -> Result<Vec<String>, String> {
    Ok(unpickle::tensors(pickle)?.into_iter().map(|(name, _)| name.to_string()).collect())
}

/// What the archive says of itself: its kind, and the byte order of its tensors.
fn marks(path: &Path, archive: &mut Archive) -> Result<(), ImportError> {
    let refuse = |why: String| Err(ImportError::new(path, ImportErrorKind::NotAModel, why));
    let mut mark = |name: &str| -> Result<Option<String>, ImportError> {
        let text = archive.text(&archive.below_root(name))?;
        Ok(text.map(|t| String::from_utf8_lossy(&t).trim().to_owned()))
    };
    if let Some(format) = mark("archive_format")?
        && format != "pt2"
    {
        return refuse(format!("its archive_format is {}, not pt2", printable(&format)));
    }
    match mark("byteorder")? {
        Some(order) if order != "little" => refuse(format!(
            "its byteorder is {}, and tensors are read as little-endian: save it on a little-endian machine",
            printable(&order)
        )),
        _ => Ok(()),
    }
}

/// Which of the programs is meant.
fn choose(path: &Path, archive: &Archive, name: Option<&str>) -> Result<String, ImportError> {
    let refuse = |why: String| ImportError::new(path, ImportErrorKind::NotAModel, why);
    let programs = archive.programs();
    let list = || programs.iter().take(16).map(|p| printable(p)).collect::<Vec<_>>().join(", ");
    match (name, programs.as_slice()) {
        (_, []) => Err(refuse(
            "the archive holds no program (models/*.json): it may be a compiled package, which cannot be opened; save the ExportedProgram with torch.export.save".to_owned(),
        )),
        (Some(name), all) if all.iter().any(|p| p == name) => Ok(name.to_owned()),
        (Some(name), _) => Err(refuse(format!("there is no program {} in the archive; it holds {}", printable(name), list()))),
        (None, [only]) => Ok(only.clone()),
        // Several: the one with the name that torch gives by itself, else the first.
        (None, all) => Ok(all.iter().find(|p| *p == "model").unwrap_or(&all[0]).clone()),
    }
}

/// Refuses the schemas of torch 2.1 and 2.2, which keep their number in an entry of its own.
fn check_version_entry(path: &Path, archive: &mut Archive) -> Result<(), ImportError> {
    let Layout::Legacy = archive.layout else { return Ok(()) };
    let Some(number) = archive.text("version")? else { return Ok(()) };
    let major = std::str::from_utf8(&number).ok().and_then(|t| t.trim().split('.').next()?.parse().ok());
    major.map_or(Ok(()), |major| check_version(path, Version::Plain(major)))
}

/// Refuses schemas that are not understood.
fn check_version(path: &Path, version: Version) -> Result<(), ImportError> {
    let (major, shown) = match version {
        Version::Pair { major, minor } => (major, format!("{major}.{minor}")),
        Version::Plain(major) => (major, major.to_string()),
    };
    if MAJORS.contains(&major) {
        return Ok(());
    }
    let why = format!(
        "it is of schema {shown}, and this version reads {} to {} (torch 2.3 and newer): export the model again with a torch release of that range",
        MAJORS.start(),
        MAJORS.end()
    );
    Err(ImportError::new(path, ImportErrorKind::NotAModel, why))
}

/// Why a program cannot be read: its form may be that of a schema which is not understood.
fn unreadable(path: &Path, entry: &str, text: &[u8], error: &serde_json::Error) -> ImportError {
    let why = match serde_json::from_slice::<Versions>(text) {
        Ok(v) => match check_version(path, v.schema_version) {
            Err(unsupported) => return unsupported,
            Ok(()) => format!("{} is no program of its schema that this version understands: {error}", printable(entry)),
        },
        Err(e) => format!("the program is no JSON with a schema_version: {e}"),
    };
    ImportError::new(path, ImportErrorKind::Corrupt, why)
}

/// Makes texts of the bare `Infinity`, `-Infinity` and `NaN` that torch up to 2.6 writes, which are no JSON.
fn quote_bare_numbers(text: Vec<u8>) -> Vec<u8> {
    let bare = |at: usize| [&b"-Infinity"[..], b"Infinity", b"NaN"].into_iter().find(|w| text[at..].starts_with(w));
    let (mut found, mut at, mut inside) = (Vec::new(), 0, false);
    while at < text.len() {
        match text[at] {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b'-' | b'I' | b'N' if !inside => {
                if let Some(word) = bare(at) {
                    found.push((at, word.len()));
                    at += word.len() - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if found.is_empty() {
        return text;
    }
    let mut quoted = Vec::with_capacity(text.len() + 2 * found.len());
    let mut from = 0;
    for (at, len) in found {
        quoted.extend_from_slice(&text[from..at]);
        quoted.push(b'"');
        quoted.extend_from_slice(&text[at..at + len]);
        quoted.push(b'"');
        from = at + len;
    }
    quoted.extend_from_slice(&text[from..]);
    quoted
}
