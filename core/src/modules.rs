//! The module tree: which `torch.nn.Module` each node came from.

use std::sync::Arc;

use crate::graph::{NodeId, id};

id!(
    /// Position of a module in [`ModuleTree::modules`].
    ModuleId
);

impl ModuleId {
    /// The model itself.
    pub const ROOT: Self = Self(0);
}

/// One module instance.
#[derive(Clone, Debug)]
pub struct Module {
    /// Dotted instance path from the root (`layer1.0.conv1`); empty for the root.
    pub path: Box<str>,
    /// Full class name, where the file tells (`torch.nn.modules.conv.Conv2d`).
    pub class: Option<Arc<str>>,
    /// The module around it; the root is its own parent.
    pub parent: ModuleId,
    /// Modules inside it, in order of first use.
    pub children: Vec<ModuleId>,
    /// Nodes owned directly, in topological order.
    pub nodes: Vec<NodeId>,
    /// Number of nodes owned directly or by a descendant.
    pub total_nodes: u32,
    /// Distance from the root.
    pub depth: u32,
}

impl Module {
    /// Last atom of the path (`conv1`).
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, n)| n)
    }
}

/// All module instances of a model. A parent stands before its children.
#[derive(Clone, Debug)]
pub struct ModuleTree {
    modules: Vec<Module>,
}

impl ModuleTree {
    /// All modules; the first is the root.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The module with this id.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.index()]
    }

    /// The module at this path. Linear.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<ModuleId> {
        self.modules.iter().position(|m| &*m.path == path).map(ModuleId::new)
    }

    /// The module and those around it, from the inside out, ending with the root.
    pub fn ancestors(&self, id: ModuleId) -> impl Iterator<Item = ModuleId> + '_ {
        std::iter::successors(Some(id), |&m| (m != ModuleId::ROOT).then(|| self.module(m).parent))
    }

    /// The same modules with other nodes: `owners` gives the module of every node, in topological order.
    #[must_use]
    pub(crate) fn regrouped(&self, owners: impl Iterator<Item = ModuleId>) -> Self {
        let empty = |m: &Module| Module { nodes: Vec::new(), total_nodes: 0, ..m.clone() };
        ModuleTreeBuilder { modules: self.modules.iter().map(empty).collect(), ..ModuleTreeBuilder::default() }.finish(owners)
    }

    /// Whether `inner` is `outer` or inside it.
    #[must_use]
    pub fn is_within(&self, inner: ModuleId, outer: ModuleId) -> bool {
        let depth = self.module(outer).depth;
        self.ancestors(inner).take_while(|&m| self.module(m).depth >= depth).any(|m| m == outer)
    }
}

/// Builds a [`ModuleTree`] path by path.
#[derive(Debug)]
pub struct ModuleTreeBuilder {
    modules: Vec<Module>,
    by_path: std::collections::HashMap<Box<str>, ModuleId>,
    /// How often [`ModuleTreeBuilder::new_child`] was asked for a path.
    repeats: std::collections::HashMap<Box<str>, u32>,
}

impl Default for ModuleTreeBuilder {
    fn default() -> Self {
        let root = Module {
            path: "".into(),
            class: None,
            parent: ModuleId::ROOT,
            children: Vec::new(),
            nodes: Vec::new(),
            total_nodes: 0,
            depth: 0,
        };
        Self { modules: vec![root], by_path: [("".into(), ModuleId::ROOT)].into(), repeats: std::collections::HashMap::new() }
    }
}

/// Depth below which a path's further atoms are kept as one name: hostile files nest without end.
const MAX_DEPTH: u32 = 512;
/// Bytes of a path above which calls of functions make no further level.
const MAX_PATH: usize = 4096;

impl ModuleTreeBuilder {
    /// The module at `path`, made with all its ancestors if it is new. `class` is kept if none was known.
    pub fn module(&mut self, path: &str, class: Option<&Arc<str>>) -> ModuleId {
        let id = match self.by_path.get(path) {
            Some(&id) => id,
            None => self.insert(path),
        };
        if let Some(class) = class {
            let slot = &mut self.modules[id.index()].class;
            if slot.is_none() {
                *slot = Some(class.clone());
            }
        }
        id
    }

    /// A new module `name` inside `parent`, also where `name` has dots. If there is one of that path already, `_2`, `_3`,
    /// … is appended. Where paths would become absurdly long or deep, this is `parent` itself.
    pub fn new_child(&mut self, parent: ModuleId, name: &str, class: Option<&Arc<str>>) -> ModuleId {
        let outer = &self.modules[parent.index()];
        let depth = outer.depth + 1;
        if depth > MAX_DEPTH || outer.path.len() + name.len() > MAX_PATH {
            return parent;
        }
        let path = if outer.path.is_empty() { name.to_owned() } else { format!("{}.{name}", outer.path) };
        let mut unique = path.clone();
        // The count of the last one is kept, or many calls of one name would take quadratic time.
        let count = self.repeats.entry(path.as_str().into()).or_insert(1);
        while self.by_path.contains_key(unique.as_str()) {
            *count += 1;
            unique = format!("{path}_{count}");
        }
        let id = self.push(unique.as_str().into(), parent);
        self.modules[id.index()].class = class.cloned();
        id
    }

    /// The module at `path` directly inside `parent`, whatever the path says, made if it is new. Where modules would be
    /// absurdly deep, this is `parent` itself.
    pub fn inside(&mut self, parent: ModuleId, path: &str, class: Option<&Arc<str>>) -> ModuleId {
        if let Some(&known) = self.by_path.get(path) {
            return known;
        }
        if self.modules[parent.index()].depth >= MAX_DEPTH {
            return parent;
        }
        let id = self.push(path.into(), parent);
        self.modules[id.index()].class = class.cloned();
        id
    }

    /// The module at `path`, if there is one so far.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<ModuleId> {
        self.by_path.get(path).copied()
    }

    fn push(&mut self, path: Box<str>, parent: ModuleId) -> ModuleId {
        let id = ModuleId::new(self.modules.len());
        let depth = self.modules[parent.index()].depth + 1;
        let module = Module { path: path.clone(), class: None, parent, children: Vec::new(), nodes: Vec::new(), total_nodes: 0, depth };
        self.modules.push(module);
        self.modules[parent.index()].children.push(id);
        self.by_path.insert(path, id);
        id
    }

    fn insert(&mut self, path: &str) -> ModuleId {
        let mut parent = ModuleId::ROOT;
        let mut end = 0;
        loop {
            let depth = self.modules[parent.index()].depth;
            let next = path[end..].find('.').map_or(path.len(), |i| end + i);
            let prefix = if depth + 1 >= MAX_DEPTH { path } else { &path[..next] };
            let id = match self.by_path.get(prefix) {
                // An empty atom (`a..b`, a leading dot) makes no level of its own.
                Some(&id) => id,
                None => self.push(prefix.into(), parent),
            };
            if prefix.len() == path.len() {
                return id;
            }
            parent = id;
            end = next + 1;
        }
    }

    /// Freezes the tree. `owners` gives the module of every node, in topological order.
    #[must_use]
    pub fn finish(mut self, owners: impl Iterator<Item = ModuleId>) -> ModuleTree {
        for (i, owner) in owners.enumerate() {
            self.modules[owner.index()].nodes.push(NodeId::new(i));
        }
        // Parents stand before children, so one backward pass sums the subtrees.
        for i in (0..self.modules.len()).rev() {
            self.modules[i].total_nodes += self.modules[i].nodes.len() as u32;
            if i > 0 {
                let (total, parent) = (self.modules[i].total_nodes, self.modules[i].parent);
                self.modules[parent.index()].total_nodes += total;
            }
        }
        ModuleTree { modules: self.modules }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_that_are_never_called_are_filled_in() {
        let mut b = ModuleTreeBuilder::default();
        let attn = b.module("layers.0.attn", Some(&"m.Attn".into()));
        let tree = b.finish([attn, ModuleId::ROOT].into_iter());
        let path: Vec<_> = tree.ancestors(attn).map(|m| tree.module(m).path.to_string()).collect();
        assert_eq!(path, ["layers.0.attn", "layers.0", "layers", ""]);
        assert_eq!(tree.module(ModuleId::ROOT).total_nodes, 2);
        assert_eq!(tree.module(tree.find("layers").unwrap()).total_nodes, 1);
        assert!(tree.is_within(attn, tree.find("layers").unwrap()));
    }
}
