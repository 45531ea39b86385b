//! What `recut partition` prints: the dry run of a partitioning. Nothing is executed.

mod make;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Strategy;
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::graph::ValueType;
use crate::model::Format;
use crate::partition::Placement;

pub use make::{ReportInput, partition_report};
pub use text::render_text;

/// Name and version of the format.
pub const SCHEMA: &str = "recut.partition/1";

/// A dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The model.
    pub model: ModelSummary,
    /// What was asked.
    pub config: ConfigSummary,
    /// Numbers over the whole model.
    pub totals: Totals,
    /// Partitions in execution order.
    pub partitions: Vec<PartitionInfo>,
    /// Every node that falls to torch, in topological order.
    pub fallbacks: Vec<Fallback>,
    /// Node types with what the backend says of them: refused ones first, then by count.
    pub node_support_preview: Vec<NodeSupport>,
    /// What other values of `min_block_size` would give.
    pub min_block_sizes: Vec<MinBlockSizeRow>,
    /// Values between units that are no tensors.
    pub non_tensor_edges: Vec<NonTensorEdge>,
    /// The partition that weighs most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What was noticed.
    pub diagnostics: Vec<Diagnostic>,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSummary {
    /// File it was read from.
    pub file: String,
    /// Kind of file.
    pub format: Format,
    /// Nodes of the main graph.
    pub nodes: usize,
    /// Opset of the standard domain, where the file says.
    pub opset: Option<i64>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigSummary {
    /// Backend whose table decided.
    pub backend: Option<String>,
    /// Where its facts are from.
    pub backend_source: Option<String>,
    /// Strategy.
    pub strategy: Strategy,
    /// Size rule.
    pub min_block_size: u32,
    /// Whether anything in torch is an error.
    pub require_full_compilation: bool,
    /// Whether conditional support counts as none.
    pub strict_support: bool,
    /// `torch_executed_ops`.
    pub torch_executed_ops: Vec<String>,
    /// `torch_executed_modules`.
    pub torch_executed_modules: Vec<String>,
    /// `torch_executed_nodes`.
    pub torch_executed_nodes: Vec<String>,
    /// `accelerated_nodes`.
    pub accelerated_nodes: Vec<String>,
    /// `leaf_modules`.
    pub leaf_modules: Vec<String>,
    /// Ids of the opaque nodes.
    pub wraps: Vec<String>,
    /// Sizes given to symbols.
    pub dims: indexmap::IndexMap<String, i64>,
}

/// Numbers over the whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Nodes of the main graph.
    pub nodes: usize,
    /// Nodes that the backend takes, also under a condition; all, without a backend.
    pub supported: usize,
    /// Those of them that it takes under a condition nothing here can check.
    pub conditional: usize,
    /// Nodes that it does not take.
    pub unsupported: usize,
    /// Nodes that marks or opaque nodes keep from the accelerator although the backend takes them.
    pub excluded: usize,
    /// Nodes in accelerated partitions.
    pub accelerated_nodes: usize,
    /// Nodes in torch partitions.
    pub torch_nodes: usize,
    /// Nodes inside opaque nodes.
    pub opaque_nodes: usize,
    /// Share of nodes that is accelerated, 0 to 1.
    pub coverage: f64,
    /// Accelerated partitions.
    pub accelerated_partitions: usize,
    /// Torch partitions.
    pub torch_partitions: usize,
    /// Opaque nodes.
    pub opaque: usize,
    /// Fewest accelerated partitions that any partitioning of these placements has, before size rules.
    pub lower_bound: u32,
    /// Bytes that partitions hand each other in one run; `null` where a shape is open.
    pub crossing_bytes: Option<u64>,
    /// Floating-point operations; `null` where a shape is open.
    pub flops: Option<u64>,
    /// Mean number of nodes of an accelerated partition.
    pub average_partition: f64,
    /// Name of the accelerated partition with most nodes.
    pub largest_partition: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionInfo {
    /// Name (`run_on_acc_0`).
    pub name: String,
    /// Where it runs.
    pub kind: Placement,
    /// Id of the opaque node, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrap: Option<String>,
    /// Name of the opaque op (the key of its definition in the config), where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_name: Option<String>,
    /// Stable ids of its nodes, in topological order.
    pub nodes: Vec<String>,
    /// Number of nodes.
    pub ops: usize,
    /// Those that `min_block_size` counts.
    pub compute_ops: usize,
    /// Tensors it takes, in first-use order.
    pub inputs: Vec<Tensor>,
    /// Tensors it gives, in the order they are made.
    pub outputs: Vec<Tensor>,
    /// Bytes of its inputs; `null` where a shape is open.
    pub bytes_in: Option<u64>,
    /// Bytes of its outputs; `null` where a shape is open.
    pub bytes_out: Option<u64>,
    /// Floating-point operations; `null` where a shape is open.
    pub flops: Option<u64>,
}

/// A tensor at the edge of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tensor {
    /// Name of the value.
    pub name: String,
    /// Shape at element type (`[1,64,56,56]@f32`).
    pub r#type: String,
    /// Bytes; `null` where the shape is open.
    pub bytes: Option<u64>,
}

/// A node in torch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fallback {
    /// Stable id.
    pub node: String,
    /// Operator.
    pub op: String,
    /// Module that owns it; empty for the model itself.
    pub module: String,
    /// `net.py:12 forward`: the innermost frame of the model's own code, where the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Partition it is in.
    pub partition: String,
    /// Step of the placement rules that decided, 1 to 5.
    pub step: u8,
    /// Why, in one sentence.
    pub reason: String,
}

/// What the backend says of a kind of node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSupport {
    /// Operator.
    pub op: String,
    /// Element types of its inputs and outputs (`f32, f32 -> f32`).
    pub dtypes: String,
    /// The verdict.
    pub support: Verdict,
    /// Reason or condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of such nodes.
    pub count: usize,
}

/// What a backend says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It refuses.
    Unsupported,
    /// It takes it under a condition that was not checked.
    Conditional,
    /// It takes it.
    Supported,
}

/// What a value of `min_block_size` would give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MinBlockSizeRow {
    /// The value.
    pub min_block_size: u32,
    /// Accelerated partitions.
    pub accelerated: usize,
    /// Torch partitions.
    pub torch: usize,
    /// Accelerated nodes.
    pub accelerated_nodes: usize,
}

/// A value that is no tensor, between units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NonTensorEdge {
    /// Name of the value.
    pub value: String,
    /// What it is (`sequence`).
    pub kind: String,
    /// Element type.
    pub dtype: Option<DType>,
    /// Stable id of the unit that makes it; `null` for an input of the model.
    pub from: Option<String>,
    /// Stable ids of the units that read it.
    pub to: Vec<String>,
}

/// The partition that weighs most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// Its name.
    pub partition: String,
    /// What was compared: `flops`, `bytes` (in and out) or `ops`.
    pub by: String,
    /// Its share of the sum over all partitions, in percent.
    pub percent: u32,
}

/// Name of a kind of value in reports.
fn kind_name(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Tensor => "tensor",
        ValueType::Sparse => "sparse tensor",
        ValueType::Sequence => "sequence",
        ValueType::Optional => "optional",
        ValueType::Map => "map",
        ValueType::Scalar => "scalar",
        ValueType::Other => "other",
    }
}

#[cfg(test)]
mod tests;
