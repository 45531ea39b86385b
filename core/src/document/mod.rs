//! A model with the config that is being edited, its history and the current plan.
//!
//! Every change, whether a key, an option or a config line asks for it, is one [`Edit`]: a patch of the config with its
//! inverse. No node id ever enters an edit, so that undo survives a reload of the model.

use std::sync::Arc;

use crate::config::{PartitionConfig, PartitionerConfig, RunConfig, WrapDefinition, WrapInstance};
use crate::diagnostic::Diagnostic;
use crate::graph::NodeId;
use crate::import::Imported;
use crate::model::Model;
use crate::partition::{Marks, Plan};
use crate::select::{Bare, SelectorIndex};
use crate::support::SupportMap;
use crate::view::{View, WrapError};

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
    /// Sets or clears the size of a dimension.
    Dim {
        /// Its name.
        name: String,
        /// Before.
        from: Option<i64>,
        /// After.
        to: Option<i64>,
    },
    /// Adds or removes a definition.
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

/// Options that are not part of the config.
#[derive(Clone, Debug, Default)]
pub struct DocumentOptions {
    /// Selectors that match nothing, and conditional support, are errors.
    pub strict: bool,
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
    #[error("{list}: `{text}` matches nothing{}", nearest_hint(.nearest))]
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

/// A model with the config being edited.
#[derive(Debug)]
pub struct Document {
    model: Arc<Model>,
    config: PartitionConfig,
    index: Arc<SelectorIndex>,
    marks: Marks,
    view: Arc<View>,
    support: Option<SupportMap>,
    plan: Arc<Plan>,
}

impl Document {
    /// A document over an imported model.
    ///
    /// # Errors
    /// If the config cannot be used on this model.
    pub fn new(imported: Imported, config: PartitionConfig, options: DocumentOptions) -> Result<Self, DocumentError> {
        let _ = (imported, config, options);
        todo!("document")
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The config as edited.
    #[must_use]
    pub fn config(&self) -> &PartitionConfig {
        &self.config
    }

    /// Selector indices.
    #[must_use]
    pub fn index(&self) -> &Arc<SelectorIndex> {
        &self.index
    }

    /// Resolved marks.
    #[must_use]
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The effective graph.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// What the backend says, where there is one.
    #[must_use]
    pub fn support(&self) -> Option<&SupportMap> {
        self.support.as_ref()
    }

    /// The current plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Diagnostics of the import, of the marks (such that match nothing, inert pins) and of the plan.
    #[must_use]
    pub fn problems(&self) -> Vec<Diagnostic> {
        todo!("document")
    }

    /// Applies an edit and plans again.
    ///
    /// # Errors
    /// If the result would be no valid config on this model; then nothing is changed.
    pub fn apply(&mut self, edit: Edit) -> Result<Change, DocumentError> {
        let _ = edit;
        todo!("document")
    }

    /// Takes back the last edit; `None` if there is none.
    pub fn undo(&mut self) -> Option<Change> {
        todo!("document")
    }

    /// Does the last edit that was taken back again; `None` if there is none.
    pub fn redo(&mut self) -> Option<Change> {
        todo!("document")
    }

    /// Puts a newly read model under the same config and history; marks are re-attached by name. What matches nothing
    /// any more is kept and listed in [`Document::problems`].
    ///
    /// # Errors
    /// If a wrap cannot be contracted any more; then the old model stays.
    pub fn reload(&mut self, imported: Imported) -> Result<Change, DocumentError> {
        let _ = imported;
        todo!("document")
    }

    /// Whether the config differs from what was last saved or loaded.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        todo!("document")
    }

    /// Notes that the config as it is now was saved.
    pub fn mark_saved(&mut self) {
        todo!("document")
    }

    /// Why `node` is where it is: every step in order, the deciding one flagged.
    #[must_use]
    pub fn explain(&self, node: NodeId) -> Vec<ReasonStep> {
        let _ = node;
        todo!("document")
    }
}
