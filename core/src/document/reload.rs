//! Another model under the same config: marks are attached again by name, and what that changed is counted.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::resolve::Resolver;
use super::state::{Derived, compare};
use super::{Document, DocumentError, MarkList, Reloaded};
use crate::config::PartitionConfig;
use crate::graph::NodeId;
use crate::import::Imported;
use crate::model::Model;
use crate::select::{Bare, SelectorIndex};

impl Document {
    /// Puts a newly read model under the same config and history; marks are re-attached by name. What matches nothing
    /// any more is kept and listed in [`Document::problems`].
    ///
    /// # Errors
    /// If a wrap cannot be contracted any more; then the old model stays.
    pub fn reload(&mut self, imported: Imported) -> Result<Reloaded, DocumentError> {
        let model = Arc::new(imported.model);
        let mut resolver = Resolver::new(Arc::new(SelectorIndex::new(&model)));
        let derived = Derived::new(&model, &self.config, &self.options, &mut resolver)?;
        let mut change = compare(&self.derived, &derived, "reloaded".to_owned());
        // Node ids of the two models have nothing in common.
        change.nodes_replaced = 0;
        let (mut lost, mut moved) = (Vec::new(), Vec::new());
        for (text, bare) in selectors(&self.config) {
            let (Some(before), Some(now)) = (self.resolver.resolved(text, bare), resolver.resolved(text, bare)) else { continue };
            // What matched nothing before is no news.
            if before.nodes.is_empty() || lost.contains(text) || moved.contains(text) {
                continue;
            }
            if now.nodes.is_empty() {
                lost.push(text.to_owned());
            } else {
                let of = |model: &Model, nodes: &crate::select::NodeSet| nodes.iter().map(|n| identity(model, n)).collect::<HashSet<_>>();
                if of(&self.model, &before.nodes) != of(&model, &now.nodes) {
                    moved.push(text.to_owned());
                }
            }
        }
        let (old, new) = (ids(&self.model), ids(&model));
        let (gone, added) = (old.difference(&new).count(), new.difference(&old).count());
        self.model = model;
        self.import_diagnostics = imported.diagnostics;
        self.resolver = resolver;
        self.derived = derived;
        self.model_sha256 = OnceLock::new();
        self.problems = OnceLock::new();
        Ok(Reloaded { change, gone, added, lost, moved })
    }
}

fn ids(model: &Model) -> HashSet<&str> {
    model.graph.node_ids().map(|n| model.graph.stable_id(n)).collect()
}

/// All selectors of a config, in its order.
fn selectors(config: &PartitionConfig) -> impl Iterator<Item = (&String, Bare)> {
    let lists = MarkList::ALL.into_iter().flat_map(|l| l.entries(config).iter().map(move |t| (t, l.bare())));
    lists.chain(config.wraps.iter().flat_map(|g| &g.instances).map(|i| (&i.select, Bare::ByForm)))
}

/// What tells a node of one model from one of another: exporters number names, so that the name alone can be another node's.
fn identity(model: &Model, node: NodeId) -> (String, String, String, Vec<Option<String>>) {
    let n = model.graph.node(node);
    let inputs = n.inputs.iter().map(|v| v.map(|v| model.graph.value(v).name.to_string())).collect();
    (model.graph.stable_id(node).to_owned(), n.op.to_string(), model.modules.module(n.module).path.to_string(), inputs)
}
