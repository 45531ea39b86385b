//! The tables: their file format and the built-in ones.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::SupportError;
use super::predicate::{Check, Rules};
use super::torch;
use crate::diagnostic::printable;
use crate::dtype::DType;
use crate::graph::Dialect;

macro_rules! builtin {
    ($($name:literal $dialect:ident $end:literal),* $(,)?) => {
        /// Built-in tables by name and dialect, sorted.
        pub(super) const BUILTIN: &[(&str, Dialect, &str)] =
            &[$(($name, Dialect::$dialect, include_str!(concat!("../../data/support/", $name, $end)))),*];
    };
}

builtin![
    "executorch-arm-tosa" Aten ".aten.json",
    "executorch-nxp" Aten ".aten.json",
    "executorch-qnn" Aten ".aten.json",
    "executorch-vulkan" Aten ".aten.json",
    "executorch-xnnpack" Aten ".aten.json",
    "onnxruntime-coreml-mlprogram" Onnx ".onnx.json",
    "onnxruntime-coreml-neuralnetwork" Onnx ".onnx.json",
    "onnxruntime-cpu" Onnx ".onnx.json",
    "onnxruntime-cuda" Onnx ".onnx.json",
    "onnxruntime-dml" Onnx ".onnx.json",
    "onnxruntime-nnapi" Onnx ".onnx.json",
    "onnxruntime-openvino" Onnx ".onnx.json",
    "onnxruntime-qnn" Onnx ".onnx.json",
    "onnxruntime-webgpu" Onnx ".onnx.json",
    "onnxruntime-webnn" Onnx ".onnx.json",
    "onnxruntime-xnnpack" Onnx ".onnx.json",
    "openvino" Onnx ".onnx.json",
    "openvino" Aten ".aten.json",
    "openvino-torchcompile" Aten ".aten.json",
    "tensorrt" Onnx ".onnx.json",
    "tensorrt" Aten ".aten.json",
];

/// Newest table format that is read.
const FORMAT: u32 = 1;

/// A table file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    backend: String,
    dialect: String,
    #[serde(default)]
    source: serde_json::Value,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    defaults: Option<Defaults>,
    #[serde(default)]
    opset_range: Option<(i64, i64)>,
    #[serde(default)]
    max_opset: Option<i64>,
    #[serde(default)]
    unsupported: Vec<String>,
    ops: Vec<FileRow>,
}

#[derive(Deserialize)]
struct Defaults {
    #[serde(default)]
    min_block_size: Option<u32>,
}

/// A row of a table file. What is not judged (`devices`, `quantized`, …) is read over.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    op: String,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    since: Option<(i64, Option<i64>)>,
    #[serde(default)]
    dtypes: Option<Vec<String>>,
    #[serde(default)]
    dynamic_shapes: Option<bool>,
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    via: Option<String>,
    #[serde(default)]
    types: Option<serde_json::Value>,
    #[serde(default, rename = "devices")]
    _devices: serde::de::IgnoredAny,
    #[serde(default, rename = "quantized")]
    _quantized: serde::de::IgnoredAny,
    #[serde(default, rename = "output_allocator")]
    _output_allocator: serde::de::IgnoredAny,
}

/// One row: an operator in a range of opsets.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// First and last opset; all where the table does not say.
    pub(super) since: Option<(i64, Option<i64>)>,
    /// Types of the first typed input, as tables write them (`f32`, `seq(f32)`).
    pub(super) dtypes: Option<Vec<Box<str>>>,
    /// Position of the input that [`Row::dtypes`] speaks of.
    pub(super) typed_input: usize,
    /// Whether dynamic shapes are taken, where known.
    pub(super) dynamic_shapes: Option<bool>,
    /// Condition in words.
    pub(super) condition: Option<Arc<str>>,
    /// What can be checked of the condition.
    pub(super) checks: Arc<[Check]>,
    /// Whether the checks are all of the condition.
    pub(super) complete: bool,
    /// The torch overload that it is about; all of the operator's where `None`.
    pub(super) overload: Option<Box<str>>,
    /// Whether the backend takes the operator apart first and looks at the parts.
    pub(super) decomposed: bool,
}

/// Rows by domain and operator.
type Rows = HashMap<(Box<str>, Box<str>), Vec<Row>>;

/// A capability table.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Its name (`tensorrt`, `onnxruntime-cpu`).
    pub name: Arc<str>,
    /// The operators that it speaks of: [`Dialect::Onnx`] or [`Dialect::Aten`].
    pub dialect: Dialect,
    /// Where the facts are from, for reports.
    pub source: Arc<str>,
    /// What its makers remark, one sentence each.
    pub notes: Arc<[String]>,
    /// Its own default of `min_block_size`, where it has one.
    pub default_min_block_size: Option<u32>,
    /// Opsets of the standard domain that it reads, where there is a limit.
    pub(super) opsets: (Option<i64>, Option<i64>),
    pub(super) rows: Arc<Rows>,
    pub(super) unsupported: Arc<[String]>,
    /// Checks that hold for every operator of the table.
    pub(super) general: Arc<[Check]>,
    /// Whether its torch operators are those of ExecuTorch's edge dialect: core ATen, without views (`view_copy`).
    pub(super) edge: bool,
}

impl Backend {
    /// The built-in table of this name for operators of this dialect.
    #[must_use]
    pub fn builtin(name: &str, dialect: Dialect) -> Option<Self> {
        let (name, _, text) = BUILTIN.iter().find(|(n, d, _)| *n == name && *d == dialect)?;
        // That every built-in table parses is a test of this module.
        Self::parse(text, name).ok()
    }

    /// Reads a table.
    ///
    /// # Errors
    /// If the text is no table of this format, or of a dialect that is not judged; the message names `file_name`, line and
    /// field.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, SupportError> {
        let shown = printable(file_name).into_owned();
        let refuse = |why: String| SupportError(format!("{shown}: {why}"));
        let file: File = serde_json::from_str(text).map_err(|e| refuse(format!("no capability table: {}", printable(&e.to_string()))))?;
        if file.format != FORMAT {
            return Err(refuse(format!("capability table of format {}; this program reads format {FORMAT}", file.format)));
        }
        let dialect = match file.dialect.as_str() {
            "onnx" => Dialect::Onnx,
            "aten" => Dialect::Aten,
            other => {
                return Err(refuse(format!(
                    "the table is about {} operators; nodes of an ONNX model need one of dialect onnx, those of a torch.export one of dialect aten",
                    printable(other)
                )));
            }
        };
        if file.backend.is_empty() {
            return Err(refuse("`backend` is empty; give the table a name".to_owned()));
        }
        let rules = Rules::of(&file.backend);
        let mut rows: HashMap<(Box<str>, Box<str>), Vec<Row>> = HashMap::new();
        let mut edge = false;
        for (i, row) in file.ops.into_iter().enumerate() {
            let at = |why: &str| refuse(format!("ops[{i}] ({}): {why}", printable(&row.op)));
            if row.op.is_empty() {
                return Err(at("`op` is empty"));
            }
            if let Some(bad) = row.dtypes.iter().flatten().find(|t| !is_type(t)) {
                return Err(at(&format!("`{}` is no element type; write f32, i64, seq(f32), …", printable(bad))));
            }
            // A range that ends before it starts: an operator withdrawn before the backend took it.
            if matches!(row.since, Some((first, Some(last))) if last < first) {
                continue;
            }
            let (domain, name, overload) = match dialect {
                Dialect::Aten => torch::parse_name(&row.op),
                _ if row.domain == "ai.onnx" => ("", row.op.as_str(), None),
                _ => (row.domain.as_str(), row.op.as_str(), None),
            };
            let whole = overload.map_or_else(|| name.to_owned(), |o| format!("{name}.{o}"));
            let (checks, complete) = rules.get(domain, &whole);
            // The registry tables give `Where` the type of its branches, not of its condition.
            let of_branches = matches!(name, "Where" | "where") && row.types.is_none() && !row.dtypes.iter().flatten().any(|t| t == "bool");
            edge |= dialect == Dialect::Aten && domain == "aten" && name == "view_copy";
            rows.entry((domain.into(), name.into())).or_default().push(Row {
                since: row.since,
                dtypes: row.dtypes.map(|l| l.into_iter().map(Into::into).collect()),
                typed_input: usize::from(of_branches),
                dynamic_shapes: row.dynamic_shapes,
                condition: row.condition.map(Into::into),
                checks,
                complete,
                overload: overload.map(Into::into),
                decomposed: row.via.as_deref() == Some("decomposition"),
            });
        }
        let (first, last) = file.opset_range.unzip();
        let last = match (last, file.max_opset) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(Self {
            general: rules.get(if dialect == Dialect::Aten { "aten" } else { "" }, "*").0,
            edge,
            dialect,
            name: file.backend.into(),
            source: source_line(&file.source).into(),
            notes: file.notes.into(),
            default_min_block_size: file.defaults.and_then(|d| d.min_block_size),
            opsets: (first, last),
            rows: Arc::new(rows),
            unsupported: file.unsupported.into(),
        })
    }
}

/// Project, version and commit of a table's source, as one line.
fn source_line(source: &serde_json::Value) -> String {
    let field = |name: &str| source.get(name).and_then(serde_json::Value::as_str);
    match (field("project"), source.as_str()) {
        (Some(project), _) => {
            let version = field("version").map(|v| format!(" {v}")).unwrap_or_default();
            let commit = field("commit").map(|c| format!(" ({c})")).unwrap_or_default();
            printable(&format!("{project}{version}{commit}")).into_owned()
        }
        (None, Some(text)) => printable(text).into_owned(),
        (None, None) => "no source given".to_owned(),
    }
}

/// Whether a table may write this type: an element type, alone or in `seq(…)`, `optional(…)`, `sparse(…)`, `map(…)`.
fn is_type(text: &str) -> bool {
    let mut inner = text;
    for wrapper in ["optional(", "seq(", "sparse("] {
        if let Some(rest) = inner.strip_prefix(wrapper).and_then(|r| r.strip_suffix(')')) {
            inner = rest;
        }
    }
    match inner.strip_prefix("map(").and_then(|r| r.strip_suffix(')')).and_then(|r| r.split_once(',')) {
        Some((key, value)) => DType::parse(key).is_some() && DType::parse(value.trim()).is_some(),
        None => DType::parse(inner).is_some(),
    }
}
