//! The module tree pane: which modules are open, the rows that show, and what is known of every module.

use recut_core::modules::{ModuleId, ModuleTree};
use recut_core::partition::{Placement, Plan};

use super::lanes::Wiring;

/// A row of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRow {
    /// The module.
    pub module: ModuleId,
    /// Indentation.
    pub depth: u32,
}

/// Nodes of a module and everything in it, by placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Accelerated, torch, opaque.
    pub nodes: [u32; 3],
}

impl Share {
    /// The placement of all of its nodes, where it is one.
    #[must_use]
    pub fn uniform(&self) -> Option<Placement> {
        match self.nodes {
            [_, 0, 0] => Some(Placement::Accelerated),
            [0, _, 0] => Some(Placement::Torch),
            [0, 0, _] => Some(Placement::Opaque),
            _ => None,
        }
    }
}

/// State of the tree pane.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    open: Vec<bool>,
    rows: Vec<TreeRow>,
    shares: Vec<Share>,
    times: Vec<u64>,
    /// Row under the cursor.
    pub cursor: usize,
    /// First row on the screen.
    pub offset: usize,
}

/// Rows that the tree opens with: one level more is opened as long as it fits.
const INITIAL_ROWS: usize = 40;

impl Tree {
    /// The tree with its upper levels open.
    #[must_use]
    pub fn new(modules: &ModuleTree) -> Self {
        let mut tree = Self { open: vec![false; modules.modules().len()], ..Self::default() };
        tree.set_open(ModuleId::ROOT, true);
        let deepest = modules.modules().iter().map(|m| m.depth).max().unwrap_or(0).min(8);
        for depth in 1..deepest {
            let opened: usize = modules.modules().iter().filter(|m| m.depth <= depth + 1).count();
            if opened > INITIAL_ROWS {
                break;
            }
            for (i, _) in modules.modules().iter().enumerate().filter(|(_, m)| m.depth == depth) {
                tree.set_open(ModuleId::new(i), true);
            }
        }
        tree.flatten(modules);
        tree
    }

    /// Rows that show.
    #[must_use]
    pub fn rows(&self) -> &[TreeRow] {
        &self.rows
    }

    /// Whether the children of a module show.
    #[must_use]
    pub fn is_open(&self, module: ModuleId) -> bool {
        self.open.get(module.index()).copied().unwrap_or(false)
    }

    fn set_open(&mut self, module: ModuleId, open: bool) {
        if let Some(o) = self.open.get_mut(module.index()) {
            *o = open;
        }
    }

    /// The module under the cursor.
    #[must_use]
    pub fn current(&self) -> ModuleId {
        self.rows.get(self.cursor).map_or(ModuleId::ROOT, |r| r.module)
    }

    /// Opens or closes a module.
    pub fn open(&mut self, modules: &ModuleTree, module: ModuleId, open: bool) {
        self.set_open(module, open);
        self.flatten(modules);
    }

    /// Opens or closes one more level everywhere.
    pub fn level(&mut self, modules: &ModuleTree, open: bool) {
        let deepest = self.rows.iter().filter(|r| self.is_open(r.module) != open).map(|r| r.depth);
        let edge = if open { deepest.min() } else { self.rows.iter().filter(|r| self.is_open(r.module)).map(|r| r.depth).max() };
        let Some(edge) = edge else { return };
        let at: Vec<ModuleId> = self.rows.iter().filter(|r| r.depth == edge).map(|r| r.module).collect();
        let kept = self.current();
        for m in at {
            self.set_open(m, open);
        }
        self.flatten(modules);
        self.go_to(modules, kept);
    }

    /// Moves the cursor to a module or, where that is hidden, to what shows around it.
    pub fn go_to(&mut self, modules: &ModuleTree, module: ModuleId) {
        for m in modules.ancestors(module) {
            if let Some(row) = self.rows.iter().position(|r| r.module == m) {
                self.cursor = row;
                return;
            }
        }
    }

    /// Opens everything around a module and moves the cursor to it.
    pub fn reveal(&mut self, modules: &ModuleTree, module: ModuleId) {
        for m in modules.ancestors(module).skip(1) {
            self.set_open(m, true);
        }
        self.flatten(modules);
        self.go_to(modules, module);
    }

    /// Lists the rows that show. Linear in what shows.
    fn flatten(&mut self, modules: &ModuleTree) {
        self.rows.clear();
        let mut stack = vec![ModuleId::ROOT];
        while let Some(id) = stack.pop() {
            let module = modules.module(id);
            self.rows.push(TreeRow { module: id, depth: module.depth });
            if self.is_open(id) {
                stack.extend(module.children.iter().rev());
            }
        }
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
    }

    /// Counts placements under a new plan. Linear in nodes.
    pub fn count(&mut self, wiring: &Wiring, plan: &Plan) {
        let modules = &plan.view.model.modules;
        self.shares.clear();
        self.shares.resize(modules.modules().len(), Share::default());
        for n in plan.view.model.graph.node_ids() {
            if let Some(share) = self.shares.get_mut(wiring.module(n) as usize) {
                let [acc, torch, opaque] = &mut share.nodes;
                *match plan.placement_of_node(n) {
                    Placement::Accelerated => acc,
                    Placement::Torch => torch,
                    Placement::Opaque => opaque,
                } += 1;
            }
        }
        for (i, m) in modules.modules().iter().enumerate().skip(1).rev() {
            let own = self.shares.get(i).copied().unwrap_or_default();
            if let Some(parent) = self.shares.get_mut(m.parent.index()) {
                parent.nodes.iter_mut().zip(own.nodes).for_each(|(p, o)| *p += o);
            }
        }
    }

    /// Sums measured times, by node id.
    pub fn measure(&mut self, wiring: &Wiring, modules: &ModuleTree, times: &[Option<u64>]) {
        self.times.clear();
        self.times.resize(modules.modules().len(), 0);
        for (i, t) in times.iter().enumerate() {
            let module = wiring.module(recut_core::graph::NodeId::new(i));
            if let (Some(t), Some(sum)) = (t, self.times.get_mut(module as usize)) {
                *sum = sum.saturating_add(*t);
            }
        }
        for (i, m) in modules.modules().iter().enumerate().skip(1).rev() {
            let own = self.times.get(i).copied().unwrap_or(0);
            if let Some(parent) = self.times.get_mut(m.parent.index()) {
                *parent = parent.saturating_add(own);
            }
        }
    }

    /// Forgets measured times.
    pub fn forget_times(&mut self) {
        self.times.clear();
    }

    /// Placements of a module's nodes.
    #[must_use]
    pub fn share(&self, module: ModuleId) -> Share {
        self.shares.get(module.index()).copied().unwrap_or_default()
    }

    /// Measured time of a module in nanoseconds, and its part of the whole.
    #[must_use]
    pub fn time(&self, module: ModuleId) -> Option<(u64, f64)> {
        let all = *self.times.first()?;
        let own = *self.times.get(module.index())?;
        Some((own, if all == 0 { 0.0 } else { own as f64 / all as f64 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recut_core::modules::ModuleTreeBuilder;

    #[test]
    fn rows_follow_what_is_open() {
        let mut b = ModuleTreeBuilder::default();
        let ids: Vec<ModuleId> = ["a", "a.x", "a.y", "b"].iter().map(|p| b.module(p, None)).collect();
        let modules = b.finish(ids.clone().into_iter());
        let mut tree = Tree::new(&modules);
        assert_eq!(tree.rows().len(), 5);
        tree.open(&modules, ids[0], false);
        assert_eq!(tree.rows().iter().map(|r| r.module).collect::<Vec<_>>(), [ModuleId::ROOT, ids[0], ids[3]]);
        tree.reveal(&modules, ids[2]);
        assert_eq!(tree.current(), ids[2]);
        tree.level(&modules, false);
        assert_eq!(tree.rows().len(), 3);
        assert_eq!(tree.current(), ids[0]);
        tree.level(&modules, true);
        assert_eq!(tree.rows().len(), 5);
    }
}
