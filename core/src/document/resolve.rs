//! Selectors of the config resolved to node sets, each text once.

use std::collections::HashMap;
use std::sync::Arc;

use super::MarkList;
use crate::config::PartitionConfig;
use crate::partition::Marks;
use crate::select::{Bare, NodeSet, SelectContext, SelectError, Selected, Selector, SelectorIndex};

/// What a selector of the config comes to.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The nodes; empty where it cannot be resolved.
    pub(super) nodes: Arc<NodeSet>,
    /// The outcome without its nodes, or why there is none.
    pub(super) outcome: Result<Selected, SelectError>,
}

impl Resolution {
    fn new(index: &SelectorIndex, text: &str, bare: Bare) -> Self {
        match Selector::parse(text, bare).and_then(|s| s.eval(index, &SelectContext::default())) {
            Ok(mut selected) => {
                let nodes = Arc::new(std::mem::take(&mut selected.nodes));
                Self { nodes, outcome: Ok(selected) }
            }
            Err(e) => Self { nodes: Arc::new(NodeSet::empty(index.model().graph.nodes().len())), outcome: Err(e) },
        }
    }

    /// Stable id, within a body, of the node for whose sake `node` is in the set.
    pub(super) fn contained(&self, node: crate::graph::NodeId) -> Option<&str> {
        let contains = &self.outcome.as_ref().ok()?.contains;
        contains.iter().find(|(n, _)| *n == node).map(|(_, inner)| &**inner)
    }
}

/// Resolved selectors by text.
#[derive(Debug)]
pub(super) struct Resolver {
    index: Arc<SelectorIndex>,
    by_text: HashMap<Bare, HashMap<String, Arc<Resolution>>>,
    /// Node sets of the single instances that an entry of `leaf_modules` matches.
    leaves: HashMap<String, Vec<Arc<NodeSet>>>,
}

/// Resolved selectors that are kept though no entry needs them any more, for undo.
const SPARE: usize = 256;

impl Resolver {
    pub(super) fn new(index: Arc<SelectorIndex>) -> Self {
        Self { index, by_text: HashMap::new(), leaves: HashMap::new() }
    }

    pub(super) fn index(&self) -> &Arc<SelectorIndex> {
        &self.index
    }

    /// What `text` comes to; resolved now, if it was not before.
    pub(super) fn resolve(&mut self, text: &str, bare: Bare) -> Arc<Resolution> {
        let texts = self.by_text.entry(bare).or_default();
        if let Some(known) = texts.get(text) {
            return known.clone();
        }
        let new = Arc::new(Resolution::new(&self.index, text, bare));
        texts.insert(text.to_owned(), new.clone());
        new
    }

    /// What `text` came to when it was resolved.
    pub(super) fn resolved(&self, text: &str, bare: Bare) -> Option<&Arc<Resolution>> {
        self.by_text.get(&bare)?.get(text)
    }

    /// Node sets of one list.
    pub(super) fn list(&mut self, list: MarkList, config: &PartitionConfig) -> Vec<Arc<NodeSet>> {
        if list != MarkList::LeafModules {
            return list.entries(config).iter().map(|text| self.resolve(text, list.bare()).nodes.clone()).collect();
        }
        let mut sets = Vec::new();
        for text in list.entries(config) {
            let whole = self.resolve(text, list.bare());
            if !self.leaves.contains_key(text) {
                let instances = Selector::parse(text, list.bare()).and_then(|s| s.instances(&self.index));
                let instances =
                    instances.ok().flatten().map_or_else(|| vec![whole.nodes.clone()], |v| v.into_iter().map(Arc::new).collect());
                self.leaves.insert(text.clone(), instances);
            }
            sets.extend(self.leaves.get(text).into_iter().flatten().filter(|s| !s.is_empty()).cloned());
        }
        sets
    }

    /// Node sets of all lists.
    pub(super) fn marks(&mut self, config: &PartitionConfig) -> Marks {
        let mut marks = Marks::default();
        for list in MarkList::ALL {
            *sets_mut(list, &mut marks) = self.list(list, config);
        }
        marks
    }

    /// Forgets selectors that no entry of `config` needs, once there are many.
    pub(super) fn prune(&mut self, config: &PartitionConfig) {
        let entries: usize = MarkList::ALL.into_iter().map(|l| l.entries(config).len()).sum();
        if self.by_text.values().map(HashMap::len).sum::<usize>() <= 2 * entries + SPARE {
            return;
        }
        let mut used: HashMap<Bare, Vec<&str>> = HashMap::new();
        for list in MarkList::ALL {
            used.entry(list.bare()).or_default().extend(list.entries(config).iter().map(String::as_str));
        }
        used.entry(Bare::ByForm).or_default().extend(config.wraps.iter().flat_map(|g| &g.instances).map(|i| &*i.select));
        for (bare, texts) in &mut self.by_text {
            let used: std::collections::HashSet<&str> = used.remove(bare).unwrap_or_default().into_iter().collect();
            texts.retain(|text, _| used.contains(&**text));
        }
        self.leaves.clear();
    }
}

/// The resolved sets of a list.
pub(super) fn sets_mut(list: MarkList, marks: &mut Marks) -> &mut Vec<Arc<NodeSet>> {
    match list {
        MarkList::TorchOps => &mut marks.torch_executed_ops,
        MarkList::TorchModules => &mut marks.torch_executed_modules,
        MarkList::TorchNodes => &mut marks.torch_executed_nodes,
        MarkList::AcceleratedNodes => &mut marks.accelerated_nodes,
        MarkList::LeafModules => &mut marks.leaf_modules,
    }
}
