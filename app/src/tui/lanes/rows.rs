//! Which rows there are: model inputs, a rule before every partition, its units (folded modules as one row), outputs.

use recut_core::modules::{ModuleId, ModuleTree};
use recut_core::partition::PartitionId;
use recut_core::view::UnitId;

use super::NONE;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// Position among the model's inputs.
    Input(u32),
    /// The border above a partition.
    Rule(PartitionId),
    /// One unit of the effective graph.
    Unit(UnitId),
    /// A run of units of one folded module.
    Folded(ModuleId),
    /// Position among the model's outputs.
    Output(u32),
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub kind: RowKind,
    /// First of its units in the order of display.
    pub start: u32,
    /// After its last unit.
    pub end: u32,
}

/// Which modules are folded to one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds {
    folded: Vec<bool>,
}

impl Folds {
    /// Nothing folded.
    #[must_use]
    pub fn none(modules: usize) -> Self {
        Self { folded: vec![false; modules] }
    }

    /// Folds so that a large model starts with about `rows` rows: the outermost modules of not too many nodes.
    #[must_use]
    pub fn initial(tree: &ModuleTree, rows: u32) -> Self {
        let all = tree.module(ModuleId::ROOT).total_nodes;
        let mut folds = Self::none(tree.modules().len());
        if all > rows {
            let small = (all / (rows / 8).max(1)).max(12);
            for (i, m) in tree.modules().iter().enumerate().skip(1) {
                folds.set(ModuleId::new(i), m.total_nodes > 1 && m.total_nodes <= small);
            }
        }
        folds
    }

    /// Whether this module itself is folded.
    #[must_use]
    pub fn is_folded(&self, module: ModuleId) -> bool {
        self.folded.get(module.index()).copied().unwrap_or(false)
    }

    /// Folds or unfolds a module.
    pub fn set(&mut self, module: ModuleId, folded: bool) {
        if let Some(f) = self.folded.get_mut(module.index()) {
            *f = folded;
        }
    }

    /// Unfolds a module and everything around it, so that its nodes show.
    pub fn reveal(&mut self, tree: &ModuleTree, module: ModuleId) {
        for m in tree.ancestors(module) {
            self.set(m, false);
        }
    }

    /// The outermost folded module around `module`.
    #[must_use]
    pub fn outermost(&self, tree: &ModuleTree, module: ModuleId) -> Option<ModuleId> {
        tree.ancestors(module).filter(|&m| self.is_folded(m)).last()
    }

    /// For every module the outermost folded one around it, or [`NONE`]. Parents stand before children.
    pub(super) fn resolve(&self, tree: &ModuleTree) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::with_capacity(tree.modules().len());
        for (i, m) in tree.modules().iter().enumerate() {
            let around = if i == 0 { NONE } else { out.get(m.parent.index()).copied().unwrap_or(NONE) };
            let own = if self.is_folded(ModuleId::new(i)) { ModuleId::new(i).0 } else { NONE };
            out.push(if around == NONE { own } else { around });
        }
        out
    }
}
