//! A model with the config that is being edited, its history and the current plan.
//!
//! Every change, whether a key, an option or a config line asks for it, is one [`Edit`]: a patch of the config with its
//! inverse. No node id ever enters an edit, so that undo survives a reload of the model.

mod backend;
mod edits;
mod patch;
mod problems;
mod recovery;
mod reload;
mod resolve;
mod state;

pub use edits::{Clear, MarkEntry};
pub use recovery::{Recovery, RecoveryError};
pub use state::Document;

use crate::config::{PartitionConfig, PartitionerConfig, RunConfig, WrapDefinition, WrapInstance};
use crate::diagnostic::printable;
use crate::select::Bare;
use crate::view::WrapError;

/// A list of selectors in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum MarkList {
    /// `torch_executed_ops`.
    TorchOps,
    /// `torch_executed_modules`.
    TorchModules,
    /// `torch_executed_nodes`.
    TorchNodes,
    /// `accelerated_nodes`.
    AcceleratedNodes,
    /// `leaf_modules`.
    LeafModules,
}

impl MarkList {
    /// All lists, in the order of the config.
    pub const ALL: [Self; 5] = [Self::TorchOps, Self::TorchModules, Self::TorchNodes, Self::AcceleratedNodes, Self::LeafModules];

    /// Field of the config.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TorchOps => "torch_executed_ops",
            Self::TorchModules => "torch_executed_modules",
            Self::TorchNodes => "torch_executed_nodes",
            Self::AcceleratedNodes => "accelerated_nodes",
            Self::LeafModules => "leaf_modules",
        }
    }

    /// How names without a prefix are read in it.
    #[must_use]
    pub const fn bare(self) -> Bare {
        match self {
            Self::TorchOps => Bare::Op,
            Self::TorchModules | Self::LeafModules => Bare::Module,
            Self::TorchNodes | Self::AcceleratedNodes => Bare::Node,
        }
    }

    /// Its entries.
    #[must_use]
    pub fn entries(self, config: &PartitionConfig) -> &[String] {
        match self {
            Self::TorchOps => &config.torch_executed_ops,
            Self::TorchModules => &config.torch_executed_modules,
            Self::TorchNodes => &config.torch_executed_nodes,
            Self::AcceleratedNodes => &config.accelerated_nodes,
            Self::LeafModules => &config.leaf_modules,
        }
    }
}

/// One change of the config. Indices are positions in the list before the patch.
#[expect(clippy::large_enum_variant, reason = "an edit holds few patches, and those of marks are the small ones")]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Patch {
    /// Inserts `text` at `index`.
    Insert {
        /// The list.
        list: MarkList,
        /// Position.
        index: usize,
        /// Selector text.
        text: String,
    },
    /// Removes the entry at `index`, which is `text`.
    Remove {
        /// The list.
        list: MarkList,
        /// Position.
        index: usize,
        /// Selector text, for the inverse.
        text: String,
    },
    /// Sets the backend.
    Backend {
        /// Before.
        from: Option<String>,
        /// After.
        to: Option<String>,
    },
    /// Sets strategy and size rules.
    Partitioner {
        /// Before.
        from: PartitionerConfig,
        /// After.
        to: PartitionerConfig,
    },
    /// Sets how to run.
    Run {
        /// Before.
        from: RunConfig,
        /// After.
        to: RunConfig,
    },
    /// Sets (a new one at the end) or clears the size of a dimension.
    Dim {
        /// Its name.
        name: String,
        /// Before.
        from: Option<i64>,
        /// After.
        to: Option<i64>,
    },
    /// Changes the order of the entries of a map, which must hold just these.
    Order {
        /// The map.
        map: ConfigMap,
        /// Before.
        from: Vec<String>,
        /// After.
        to: Vec<String>,
    },
    /// Adds (at the end) or removes a definition.
    Definition {
        /// Its key.
        name: String,
        /// Before.
        from: Option<WrapDefinition>,
        /// After.
        to: Option<WrapDefinition>,
    },
    /// Adds an instance (and its group, if it is the first).
    AddWrap {
        /// Key of the definition.
        definition: String,
        /// The instance.
        instance: WrapInstance,
        /// Position of the group among the wraps.
        group: usize,
        /// Position in the group.
        index: usize,
    },
    /// Removes an instance (and its group, if it was the last). Inverse of [`Patch::AddWrap`].
    RemoveWrap {
        /// Key of the definition.
        definition: String,
        /// The instance.
        instance: WrapInstance,
        /// Position of the group among the wraps.
        group: usize,
        /// Position in the group.
        index: usize,
    },
}

/// A map of the config, whose order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ConfigMap {
    /// `definitions`.
    Definitions,
    /// `dims`.
    Dims,
}

/// One undoable change with a name.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Edit {
    /// What a person did (`torch layer4.0`), for the status line and the undo list.
    pub label: String,
    /// Patches, applied in order.
    pub patches: Vec<Patch>,
}

/// What a change did to the plan, for the status line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Label of the edit.
    pub label: String,
    /// Nodes whose placement changed.
    pub nodes_replaced: usize,
    /// Accelerated partitions, before and after.
    pub accelerated: (usize, usize),
    /// Torch partitions, before and after.
    pub torch: (usize, usize),
    /// Opaque nodes, before and after.
    pub opaque: (usize, usize),
    /// Bytes that cross partitions, before and after; `None` where a shape is open.
    pub bytes_across: (Option<u64>, Option<u64>),
}

/// What another model under the same config changed, see [`Document::reload`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reloaded {
    /// What it did to the plan; ids of nodes are not compared.
    pub change: Change,
    /// Nodes of the old model whose stable ids the new one does not have.
    pub gone: usize,
    /// Nodes of the new model whose stable ids the old one did not have.
    pub added: usize,
    /// Selectors that matched something and match nothing now.
    pub lost: Vec<String>,
    /// Selectors that match other nodes now: with other ids, or of the same ids with another operator, module or other inputs.
    pub moved: Vec<String>,
}

/// Options that are not part of the config.
#[derive(Clone, Debug, Default)]
pub struct DocumentOptions {
    /// Selectors that match nothing are errors.
    pub strict: bool,
    /// Conditional support counts as none.
    pub strict_support: bool,
    /// Capability table given by the user instead of a built-in one (JSON text and its file name).
    pub support_file: Option<(String, String)>,
}

/// Why a config or an edit cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A selector.
    #[error("{list}: {source}")]
    Select {
        /// The list or field it stands in.
        list: String,
        /// What is wrong.
        source: crate::select::SelectError,
    },
    /// A selector matches nothing, and that is to be an error.
    #[error("{list}: `{}` matches nothing{}", printable(.text), nearest_hint(.nearest))]
    NoMatch {
        /// The list or field it stands in.
        list: String,
        /// Its text.
        text: String,
        /// Nearest names.
        nearest: Vec<String>,
    },
    /// A wrap.
    #[error(transparent)]
    Wrap(#[from] WrapError),
    /// Anything else about the config.
    #[error("{0}")]
    Config(String),
}

fn nearest_hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!(" (nearest: {})", nearest.join(", ")) }
}

/// One line of the explanation why a node is where it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ReasonStep {
    /// Step of the design, 1 to 5.
    pub step: u8,
    /// Whether this step decided.
    pub decided: bool,
    /// What it says, in one sentence that names the mark, table row or rule.
    pub text: String,
}

#[cfg(test)]
mod tests;
