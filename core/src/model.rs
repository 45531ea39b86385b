//! A whole model: its main graph, modules and what the file says about itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::columns::Column;
use crate::diagnostic::printable;
use crate::graph::{AttrValue, Graph, Node, ValueKind};
use crate::lower::Lowering;
use crate::modules::ModuleTree;
use crate::weights::{DataFile, WeightRef};

/// The kind of file a model came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// ONNX protobuf.
    Onnx,
    /// `torch.export` archive.
    Pt2,
    /// OpenVINO IR.
    OpenVino,
    /// Graph JSON of this program.
    Json,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Onnx => "ONNX",
            Self::Pt2 => "torch.export",
            Self::OpenVino => "OpenVINO IR",
            Self::Json => "recut graph",
        })
    }
}

/// What a file says of a symbolic size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Symbol")]
pub struct SymbolFacts {
    /// The size it had while the program was traced: what stands for it where nothing else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<i64>,
    /// Smallest size that the program was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// Largest size that the program was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

impl SymbolFacts {
    /// Whether the program was made for this size.
    #[must_use]
    pub fn allows(&self, size: i64) -> bool {
        self.min.is_none_or(|min| min <= size) && self.max.is_none_or(|max| size <= max)
    }

    /// The range in words (`1 to 64`), where there is one.
    #[must_use]
    pub fn range(&self) -> Option<String> {
        match (self.min, self.max) {
            (Some(min), Some(max)) => Some(format!("{min} to {max}")),
            (Some(min), None) => Some(format!("{min} or more")),
            (None, Some(max)) => Some(format!("up to {max}")),
            (None, None) => None,
        }
    }
}

/// A model as it was imported; immutable, shared as `Arc<Model>`.
#[derive(Clone, Debug)]
pub struct Model {
    /// What kind of file it was.
    pub format: Format,
    /// The file it was opened from.
    pub path: PathBuf,
    /// State of that file when it was decoded.
    pub file: Arc<DataFile>,
    /// The main graph. Model-local functions are expanded into it.
    pub graph: Graph,
    /// Modules of the main graph.
    pub modules: ModuleTree,
    /// Which program of the file this is, where it may hold several.
    pub program: Option<String>,
    /// Nodes of the main graph as stored in the file, before functions were expanded.
    pub stored_nodes: usize,
    /// ONNX IR version, where that applies.
    pub ir_version: Option<i64>,
    /// Operator-set versions by domain (`""` is the standard one).
    pub opsets: IndexMap<String, i64>,
    /// Program that wrote the file, with its version.
    pub producer: String,
    /// Key-value metadata of the file.
    pub metadata: Vec<(String, String)>,
    /// What the file says of symbolic sizes, by name; only where it says something.
    pub symbols: IndexMap<String, SymbolFacts>,
    /// How it was made from a model of another dialect; `None` for models that were read from a file.
    pub lowering: Option<Arc<Lowering>>,
    /// Data about the nodes of the main graph that came with the file.
    pub columns: Vec<Column>,
}

impl Model {
    /// Version of the operator set of `domain` that the model imports.
    #[must_use]
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.opsets.get(domain).copied()
    }

    /// Version of the operator set that defines `node` (a node of the main graph or of any body).
    #[must_use]
    pub fn opset_of(&self, node: &Node) -> Option<i64> {
        node.opset.or_else(|| self.opset(&node.op.domain))
    }

    /// Refuses a size that the program was not made for.
    ///
    /// # Errors
    /// A sentence that names the size and the range.
    pub fn check_sizes<'d>(&self, sizes: impl IntoIterator<Item = (&'d String, &'d i64)>) -> Result<(), String> {
        for (name, &size) in sizes {
            if let Some(facts) = self.symbols.get(name).filter(|f| !f.allows(size)) {
                let (name, range) = (printable(name), facts.range().unwrap_or_default());
                return Err(format!("`{name}` cannot be {size}: the model was exported for {range}; give another size or export it again"));
            }
        }
        Ok(())
    }

    /// Whether this is a file that the model is made of: its own, or one that holds weights. Links are followed.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let Ok(target) = std::fs::canonicalize(path) else { return false };
        self.files().iter().any(|f| std::fs::canonicalize(&f.path).is_ok_and(|f| f == target))
    }

    /// Every file that the model is made of, without duplicates: its own first, then those that hold its weights.
    fn files(&self) -> Vec<Arc<DataFile>> {
        let mut files = vec![self.file.clone()];
        let mut add = |w: &WeightRef| {
            if let Some(file) = w.storage.file()
                && !files.iter().rev().any(|f| Arc::ptr_eq(f, file) || f.path == file.path)
            {
                files.push(file.clone());
            }
        };
        let mut work = vec![&self.graph];
        while let Some(graph) = work.pop() {
            for value in graph.values() {
                match &value.kind {
                    ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } => add(w),
                    _ => {}
                }
            }
            for node in graph.nodes() {
                for attr in &node.attrs {
                    match &attr.value {
                        AttrValue::Tensor(w) => add(w),
                        AttrValue::Tensors(ws) => ws.iter().for_each(&mut add),
                        _ => {}
                    }
                }
                work.extend(node.bodies.iter().map(|b| &b.graph));
            }
        }
        files
    }
}
