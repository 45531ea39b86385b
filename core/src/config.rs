//! The partition config: what a user asked for, as saved in JSON.
//!
//! Field order here is the order in the file. Lists keep the order in which marks were made, so that saving the same
//! marks gives the same bytes however they were made.

mod fingerprint;
mod load;
mod positions;
mod save;

pub use fingerprint::graph_sha256;
pub use load::{ConfigError, ConfigErrorKind, FieldError, MAX_BYTES, MAX_THREADS};
pub use save::config_schema;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the config format that this program writes, and the newest it reads.
pub const CONFIG_VERSION: u32 = 1;

/// A partition config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartitionConfig {
    /// Format version.
    pub version: u32,
    /// The model it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Backend whose capability table decides; without one every operator counts as supported.
    #[serde(default)]
    pub backend: Option<String>,
    /// Operators that run in torch; bare strings are resolved by their form.
    #[serde(default)]
    pub torch_executed_ops: Vec<String>,
    /// Modules (instance paths or classes) that run in torch.
    #[serde(default)]
    pub torch_executed_modules: Vec<String>,
    /// Nodes pinned to torch.
    #[serde(default)]
    pub torch_executed_nodes: Vec<String>,
    /// Nodes pinned to the accelerator.
    #[serde(default)]
    pub accelerated_nodes: Vec<String>,
    /// Modules that are never split.
    #[serde(default)]
    pub leaf_modules: Vec<String>,
    /// Opaque custom ops: instances by definition.
    #[serde(default)]
    pub wraps: Vec<WrapGroup>,
    /// What those custom ops are.
    #[serde(default)]
    pub definitions: IndexMap<String, WrapDefinition>,
    /// How to partition.
    #[serde(default)]
    pub partitioner: PartitionerConfig,
    /// How to run.
    #[serde(default)]
    pub run: RunConfig,
    /// Sizes of symbolic dimensions.
    #[serde(default)]
    pub dims: IndexMap<String, i64>,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        Self {
            version: CONFIG_VERSION,
            model: None,
            backend: None,
            torch_executed_ops: Vec::new(),
            torch_executed_modules: Vec::new(),
            torch_executed_nodes: Vec::new(),
            accelerated_nodes: Vec::new(),
            leaf_modules: Vec::new(),
            wraps: Vec::new(),
            definitions: IndexMap::new(),
            partitioner: PartitionerConfig::default(),
            run: RunConfig::default(),
            dims: IndexMap::new(),
        }
    }
}

/// The model a config was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelRef {
    /// File name, relative to the config.
    pub file: String,
    /// Hash of the graph's structure (operators, wiring, names, shapes), not of the weights.
    pub graph_sha256: String,
}

/// Instances of one opaque custom op.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrapGroup {
    /// Key in [`PartitionConfig::definitions`].
    pub definition: String,
    /// The calls.
    pub instances: Vec<WrapInstance>,
}

/// One opaque node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrapInstance {
    /// Stable id (`InlinedCustomOp_0`), unique in the config.
    pub id: String,
    /// Selector of the nodes it contains.
    pub select: String,
}

/// What an opaque custom op is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrapDefinition {
    /// Operator type of the opaque node.
    pub op: String,
    /// Operator domain.
    #[serde(default = "default_domain")]
    pub domain: String,
    /// Attributes of the opaque node.
    #[serde(default)]
    pub attributes: IndexMap<String, serde_json::Value>,
    /// How it is executed.
    #[serde(default)]
    pub body: WrapBody,
}

fn default_domain() -> String {
    "recut".to_owned()
}

/// How an opaque node is executed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum WrapBody {
    /// The original nodes of the instance, run as one unit.
    #[default]
    Graph,
    /// A Python callable.
    Python {
        /// File, relative to the config.
        file: String,
        /// Name in that file.
        callable: String,
        /// Hash of the file that the user agreed to run.
        sha256: String,
        /// How it gets the region's weights.
        #[serde(default)]
        weights: BodyWeights,
        /// How flat tensors (`"$0"`) rebuild nested arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structure: Option<serde_json::Value>,
    },
    /// A symbol of a shared library.
    Library {
        /// File, relative to the config.
        file: String,
        /// Exported symbol.
        symbol: String,
        /// Hash of the file that the user agreed to run.
        sha256: String,
        /// How it gets the region's weights.
        #[serde(default)]
        weights: BodyWeights,
    },
}

/// How a substituted body gets the weights of the region it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyWeights {
    /// Not at all.
    #[default]
    None,
    /// As further arguments after the inputs.
    Args,
}

/// How to partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartitionerConfig {
    /// Name of the strategy.
    #[serde(default)]
    pub strategy: Strategy,
    /// Accelerated partitions with fewer compute nodes than this go to torch.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub min_block_size: u32,
    /// Fail when anything is left in torch.
    #[serde(default)]
    pub require_full_compilation: bool,
}

fn one() -> u32 {
    1
}

impl Default for PartitionerConfig {
    fn default() -> Self {
        Self { strategy: Strategy::default(), min_block_size: 1, require_full_compilation: false }
    }
}

/// Partitioning strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Provably fewest accelerated partitions.
    #[default]
    MinPartitions,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::MinPartitions];

    /// Name in configs and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinPartitions => "min-partitions",
        }
    }
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Engine of accelerated partitions.
    #[serde(default = "cpu")]
    pub engine: String,
    /// Engine of torch partitions; `auto` takes torch where it is found.
    #[serde(default = "auto")]
    pub torch_engine: String,
    /// Precision of accelerated partitions.
    #[serde(default = "fp32")]
    pub precision: String,
    /// Threads; the machine's cores if not given.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub threads: Option<u32>,
    /// Engines and precisions for parts, as `SEL=ENGINE[:PRECISION]`.
    #[serde(default)]
    pub overrides: Vec<String>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

fn auto() -> String {
    "auto".to_owned()
}

fn fp32() -> String {
    "fp32".to_owned()
}

impl Default for RunConfig {
    fn default() -> Self {
        Self { engine: cpu(), torch_engine: auto(), precision: fp32(), threads: None, overrides: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
