//! Reader of recut graph files: a graph as JSON, from any tool (`docs/graph-json.md`).
//!
//! `schema` has the format's types, `build` makes the graph of them, `attrs` and `tensors` what nodes and values hold,
//! `columns` the data about nodes; `place` finds the path of what a message is about.

mod attrs;
mod build;
mod columns;
mod place;
pub mod schema;
mod tensors;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use prost::bytes::Buf;

use self::build::{Builder, Source};
use self::schema::{FORMAT, GraphFile, VERSION};
use crate::diagnostic::printable;
use crate::graph::{Dialect, Graph};
use crate::import::onnx::FileBuf;
use crate::import::{ImportError, ImportErrorKind, Imported};
use crate::model::{Format, Model};

pub(crate) use build::parse_op;
pub(crate) use tensors::is_consistent;

/// Largest file.
const MAX_BYTES: u64 = 1 << 30;
/// The standard operator set of ONNX nodes where the file names none.
const ASSUMED_OPSET: i64 = 21;

/// What makes a file no graph.
#[derive(Debug)]
struct Fault {
    kind: ImportErrorKind,
    place: String,
    why: String,
}

impl Fault {
    /// A contradiction at a place.
    fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind: ImportErrorKind::InvalidGraph, place: place.into(), why: why.into() }
    }

    fn too_large(why: impl Into<String>) -> Self {
        Self { kind: ImportErrorKind::TooLarge, place: String::new(), why: why.into() }
    }

    fn error(self, path: &Path) -> ImportError {
        let at = if self.place.is_empty() { String::new() } else { format!("{}: ", self.place) };
        ImportError::new(path, self.kind, format!("{at}{}", self.why))
    }
}

/// Reads a graph from a file that was opened, and of which nothing was taken yet.
pub(super) fn read(path: &Path, mut buf: FileBuf) -> Result<Imported, ImportError> {
    if buf.stat().len > MAX_BYTES {
        let why = format!(
            "it has {} bytes, and graphs as JSON are read up to {MAX_BYTES}: keep large tensors in files beside it",
            buf.stat().len
        );
        return Err(ImportError::new(path, ImportErrorKind::TooLarge, why));
    }
    let text = buf.copy_to_bytes(buf.remaining());
    let stat = buf.finish().map_err(|t| t.error(path))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let file = parse(text).map_err(|f| f.error(path))?;
    import(path, Arc::new(stat), &file).map_err(|f| f.error(path))
}

/// The text's types, or what is wrong with it.
fn parse(text: &[u8]) -> Result<GraphFile, Fault> {
    let no_model = |why: String| Fault { kind: ImportErrorKind::NotAModel, place: String::new(), why };
    match serde_json::from_slice::<GraphFile>(text) {
        Ok(file) if file.format == FORMAT && file.version == VERSION => Ok(file),
        result => {
            // What it says it is comes first: a file of another kind or version need not have this form.
            let head: Option<Head> = serde_json::from_slice(text).ok();
            let format = head.as_ref().and_then(|h| h.format.as_ref()?.as_str());
            if let Some(head) = &head
                && format != Some(FORMAT)
            {
                let is = match (format, head.torch_executed_ops.is_some() || head.partitioner.is_some() || head.wraps.is_some()) {
                    (Some(f), _) => format!("its `format` is `{}`", printable(f)),
                    (None, true) => "it looks like a partition config, which --config takes".to_owned(),
                    (None, false) => "it has no `format`".to_owned(),
                };
                return Err(no_model(format!("this is JSON, but no recut graph: {is}; a graph has `\"format\": \"{FORMAT}\"`")));
            }
            if let Some(version) = head.and_then(|h| h.version)
                && version.as_u64() != Some(VERSION)
            {
                let v = printable(&version.to_string()).into_owned();
                return Err(no_model(format!("it is a recut graph of version {v}, and this program reads version {VERSION}")));
            }
            match result {
                Ok(_) => Err(no_model("its version is not one that this program reads".to_owned())),
                Err(e) => Err(syntax(text, &e)),
            }
        }
    }
}

/// What is looked at when a file is not of the form it should be.
#[derive(serde::Deserialize)]
struct Head {
    format: Option<serde_json::Value>,
    version: Option<serde_json::Value>,
    torch_executed_ops: Option<serde::de::IgnoredAny>,
    partitioner: Option<serde::de::IgnoredAny>,
    wraps: Option<serde::de::IgnoredAny>,
}

/// What serde found, with the path of the place.
fn syntax(text: &[u8], e: &serde_json::Error) -> Fault {
    let (line, column) = (e.line(), e.column());
    let said = e.to_string();
    let what = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    let mut place = place::path_at(text, place::byte_of(text, line, column));
    if what.starts_with("missing field") {
        // The last key of the object is not what it is about.
        place = place::path_at(text, place::byte_of(text, line, column).saturating_sub(1));
        place.truncate(place.rfind('.').unwrap_or(0));
    }
    let kind = match e.classify() {
        serde_json::error::Category::Data => ImportErrorKind::InvalidGraph,
        _ if what.starts_with("recursion limit") => ImportErrorKind::TooLarge,
        _ => ImportErrorKind::Corrupt,
    };
    let why = match kind {
        ImportErrorKind::TooLarge => "it is nested too deeply: about 30 graphs can stand inside each other".to_owned(),
        ImportErrorKind::Corrupt => format!("it is no JSON: {what}"),
        _ => printable(what).into_owned(),
    };
    let place = if place.is_empty() { format!("line {line}") } else { format!("{place} (line {line})") };
    Fault { kind, place, why }
}

fn import(path: &Path, stat: Arc<crate::weights::DataFile>, file: &GraphFile) -> Result<Imported, Fault> {
    let dialect = match file.dialect {
        Some(Dialect::OpenVino) => return Err(Fault::new("dialect", "there are the dialects onnx, aten and json")),
        Some(d) => d,
        None if file.opsets.is_some() => Dialect::Onnx,
        None => Dialect::Json,
    };
    let mut builder = Builder::new(path, file, dialect);
    builder.module_list(&file.modules)?;
    let (graph, _) = builder.graph(Source::main(file), "")?;
    let modules = builder.modules.finish(graph.nodes().iter().map(|n| n.module));
    let columns = columns::read(&file.columns, &graph, &mut builder.tensors.reports)?;
    let mut opsets: IndexMap<String, i64> = IndexMap::new();
    for (domain, &version) in file.opsets.iter().flat_map(|o| &o.0) {
        opsets.entry(if domain == "ai.onnx" { String::new() } else { domain.clone() }).or_insert(version);
    }
    if file.opsets.is_none() && has_onnx(&graph) {
        opsets.insert(String::new(), ASSUMED_OPSET);
    }
    Ok(Imported {
        model: Model {
            format: Format::Json,
            path: path.to_owned(),
            file: stat,
            modules,
            program: file.program.clone(),
            stored_nodes: file.stored_nodes.unwrap_or(file.nodes.len()),
            ir_version: file.ir_version,
            opsets,
            producer: file.producer.clone(),
            metadata: file.metadata.0.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            symbols: file.symbols.0.iter().map(|(name, s)| (name.clone(), *s)).collect(),
            lowering: None,
            columns,
            graph,
        },
        diagnostics: builder.tensors.finish(),
    })
}

fn has_onnx(graph: &Graph) -> bool {
    let mut work = vec![graph];
    while let Some(g) = work.pop() {
        if g.nodes().iter().any(|n| n.op.dialect == Dialect::Onnx) {
            return true;
        }
        work.extend(g.nodes().iter().flat_map(|n| n.bodies.iter()).map(|b| &b.graph));
    }
    false
}
