//! From what a person points at to an edit of the config.

use std::collections::HashSet;

use recut_core::config::{PartitionConfig, WrapDefinition, WrapInstance};
use recut_core::document::{Edit, MarkList, Patch};

/// Entries of a list of the config.
#[must_use]
pub fn entries(config: &PartitionConfig, list: MarkList) -> &[String] {
    match list {
        MarkList::TorchOps => &config.torch_executed_ops,
        MarkList::TorchModules => &config.torch_executed_modules,
        MarkList::TorchNodes => &config.torch_executed_nodes,
        MarkList::AcceleratedNodes => &config.accelerated_nodes,
        MarkList::LeafModules => &config.leaf_modules,
    }
}

/// Name of a list in the config.
#[must_use]
pub const fn list_name(list: MarkList) -> &'static str {
    match list {
        MarkList::TorchOps => "torch_executed_ops",
        MarkList::TorchModules => "torch_executed_modules",
        MarkList::TorchNodes => "torch_executed_nodes",
        MarkList::AcceleratedNodes => "accelerated_nodes",
        MarkList::LeafModules => "leaf_modules",
    }
}

/// A name as selectors take it literally: in quotes where a bare one could mean something else.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let reserved = matches!(name, "and" | "or" | "not" | "re");
    if !name.is_empty() && !reserved && name.chars().all(plain) {
        return name.to_owned();
    }
    let mut out = String::from("\"");
    for c in name.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// `prefix:name`, with the name in quotes where needed.
#[must_use]
pub fn term(prefix: &str, name: &str) -> String {
    format!("{prefix}:{}", quoted(name))
}

/// A selector of exactly these nodes.
#[must_use]
pub fn node_selector<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    ids.map(|id| term("node", id)).collect::<Vec<_>>().join(" or ")
}

/// Collects patches, with positions as they are when each is applied.
struct Patches<'a> {
    config: &'a PartitionConfig,
    patches: Vec<Patch>,
}

impl Patches<'_> {
    fn len(&self, list: MarkList) -> usize {
        let mut n = entries(self.config, list).len();
        for p in &self.patches {
            match p {
                Patch::Insert { list: l, .. } if *l == list => n += 1,
                Patch::Remove { list: l, .. } if *l == list => n -= 1,
                _ => {}
            }
        }
        n
    }

    /// Removes all entries that are in `texts`, from the last to the first.
    fn remove(&mut self, list: MarkList, texts: &HashSet<&str>) {
        for (index, text) in entries(self.config, list).iter().enumerate().rev() {
            if texts.contains(&**text) {
                self.patches.push(Patch::Remove { list, index, text: text.clone() });
            }
        }
    }

    fn add<'b>(&mut self, list: MarkList, texts: impl Iterator<Item = &'b str>) {
        let known: HashSet<&str> = entries(self.config, list).iter().map(String::as_str).collect();
        let mut index = self.len(list);
        for text in texts.filter(|t| !known.contains(t)) {
            self.patches.push(Patch::Insert { list, index, text: text.to_owned() });
            index += 1;
        }
    }
}

/// Toggles pins: all of `texts` get into `list`, and out of the opposite one; or, if all are in it, out of it.
#[must_use]
pub fn toggle(config: &PartitionConfig, list: MarkList, texts: &[String], what: &str) -> Edit {
    let set: HashSet<&str> = texts.iter().map(String::as_str).collect();
    let known: HashSet<&str> = entries(config, list).iter().map(String::as_str).collect();
    let mut p = Patches { config, patches: Vec::new() };
    let verb = match list {
        MarkList::TorchOps | MarkList::TorchModules | MarkList::TorchNodes => "torch",
        MarkList::AcceleratedNodes => "accelerate",
        MarkList::LeafModules => "leaf",
    };
    if set.iter().all(|t| known.contains(t)) {
        p.remove(list, &set);
        return Edit { label: format!("no longer {verb} {what}"), patches: p.patches };
    }
    let opposite = match list {
        MarkList::TorchNodes => Some(MarkList::AcceleratedNodes),
        MarkList::AcceleratedNodes => Some(MarkList::TorchNodes),
        _ => None,
    };
    if let Some(opposite) = opposite {
        p.remove(opposite, &set);
    }
    p.add(list, texts.iter().map(String::as_str));
    Edit { label: format!("{verb} {what}"), patches: p.patches }
}

/// Adds one entry, if it is not there.
#[must_use]
pub fn add(config: &PartitionConfig, list: MarkList, text: &str, label: String) -> Edit {
    let mut p = Patches { config, patches: Vec::new() };
    p.add(list, std::iter::once(text));
    Edit { label, patches: p.patches }
}

/// Removes one entry.
#[must_use]
pub fn remove(config: &PartitionConfig, list: MarkList, text: &str) -> Edit {
    let mut p = Patches { config, patches: Vec::new() };
    p.remove(list, &HashSet::from([text]));
    Edit { label: format!("clear {text} from {}", list_name(list)), patches: p.patches }
}

/// Makes what `select` matches an opaque op of the definition `name`, which is made if there is none.
#[must_use]
pub fn wrap(config: &PartitionConfig, name: &str, select: &str) -> Edit {
    let mut patches = Vec::new();
    let definition = config.definitions.get(name).cloned().unwrap_or_else(|| WrapDefinition {
        op: "InlinedCustomOp".to_owned(),
        domain: "recut".to_owned(),
        attributes: Default::default(),
        body: recut_core::config::WrapBody::Graph,
    });
    if !config.definitions.contains_key(name) {
        patches.push(Patch::Definition { name: name.to_owned(), from: None, to: Some(definition.clone()) });
    }
    let taken: HashSet<&str> = config.wraps.iter().flat_map(|g| &g.instances).map(|i| i.id.as_str()).collect();
    let id = (0..).map(|n| format!("{}_{n}", definition.op)).find(|id| !taken.contains(id.as_str())).unwrap_or_default();
    let group = config.wraps.iter().position(|g| g.definition == name);
    let index = group.and_then(|g| config.wraps.get(g)).map_or(0, |g| g.instances.len());
    patches.push(Patch::AddWrap {
        definition: name.to_owned(),
        instance: WrapInstance { id: id.clone(), select: select.to_owned() },
        group: group.unwrap_or(config.wraps.len()),
        index,
    });
    Edit { label: format!("wrap {name} ({id})"), patches }
}

/// Takes an opaque op apart; the definition goes with its last instance.
#[must_use]
pub fn unwrap(config: &PartitionConfig, id: &str) -> Option<Edit> {
    let (group, g, index, instance) = config.wraps.iter().enumerate().find_map(|(group, g)| {
        let index = g.instances.iter().position(|i| i.id == id)?;
        Some((group, g, index, g.instances.get(index)?))
    })?;
    let mut patches = vec![Patch::RemoveWrap { definition: g.definition.clone(), instance: instance.clone(), group, index }];
    if let (1, Some(d)) = (g.instances.len(), config.definitions.get(&g.definition)) {
        patches.push(Patch::Definition { name: g.definition.clone(), from: Some(d.clone()), to: None });
    }
    Some(Edit { label: format!("unwrap {id}"), patches })
}

/// Makes `from` into `to`, as one undoable edit.
#[must_use]
pub fn replace(from: &PartitionConfig, to: &PartitionConfig, label: String) -> Edit {
    let mut patches = Vec::new();
    for (group, g) in from.wraps.iter().enumerate().rev() {
        for (index, instance) in g.instances.iter().enumerate().rev() {
            patches.push(Patch::RemoveWrap { definition: g.definition.clone(), instance: instance.clone(), group, index });
        }
    }
    for (name, d) in from.definitions.iter().rev() {
        patches.push(Patch::Definition { name: name.clone(), from: Some(d.clone()), to: None });
    }
    let lists = [MarkList::TorchOps, MarkList::TorchModules, MarkList::TorchNodes, MarkList::AcceleratedNodes, MarkList::LeafModules];
    for list in lists {
        for (index, text) in entries(from, list).iter().enumerate().rev() {
            patches.push(Patch::Remove { list, index, text: text.clone() });
        }
        for (index, text) in entries(to, list).iter().enumerate() {
            patches.push(Patch::Insert { list, index, text: text.clone() });
        }
    }
    if from.backend != to.backend {
        patches.push(Patch::Backend { from: from.backend.clone(), to: to.backend.clone() });
    }
    if from.partitioner != to.partitioner {
        patches.push(Patch::Partitioner { from: from.partitioner.clone(), to: to.partitioner.clone() });
    }
    if from.run != to.run {
        patches.push(Patch::Run { from: from.run.clone(), to: to.run.clone() });
    }
    for (name, size) in &from.dims {
        patches.push(Patch::Dim { name: name.clone(), from: Some(*size), to: None });
    }
    for (name, size) in &to.dims {
        patches.push(Patch::Dim { name: name.clone(), from: None, to: Some(*size) });
    }
    for (name, d) in &to.definitions {
        patches.push(Patch::Definition { name: name.clone(), from: None, to: Some(d.clone()) });
    }
    for (group, g) in to.wraps.iter().enumerate() {
        for (index, instance) in g.instances.iter().enumerate() {
            patches.push(Patch::AddWrap { definition: g.definition.clone(), instance: instance.clone(), group, index });
        }
    }
    Edit { label, patches }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(torch: &[&str]) -> PartitionConfig {
        PartitionConfig { torch_executed_nodes: torch.iter().map(ToString::to_string).collect(), ..PartitionConfig::default() }
    }

    #[test]
    fn names_that_look_like_selectors_are_quoted() {
        assert_eq!(quoted("layer1.0.conv1"), "layer1.0.conv1");
        assert_eq!(quoted("/layer1/conv/Conv"), "/layer1/conv/Conv");
        assert_eq!(quoted("a*b"), "\"a*b\"");
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(quoted("or"), "\"or\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn a_toggle_adds_what_is_missing_and_removes_when_all_are_there() {
        let c = config(&["a", "b"]);
        let edit = toggle(&c, MarkList::TorchNodes, &["b".into(), "c".into()], "2 nodes");
        assert_eq!(edit.patches, [Patch::Insert { list: MarkList::TorchNodes, index: 2, text: "c".into() }]);
        let edit = toggle(&c, MarkList::TorchNodes, &["a".into(), "b".into()], "2 nodes");
        assert_eq!(
            edit.patches,
            [
                Patch::Remove { list: MarkList::TorchNodes, index: 1, text: "b".into() },
                Patch::Remove { list: MarkList::TorchNodes, index: 0, text: "a".into() },
            ]
        );
        let edit = toggle(&c, MarkList::AcceleratedNodes, &["a".into()], "a");
        assert_eq!(edit.patches.len(), 2);
    }

    #[test]
    fn ids_of_opaque_ops_are_the_lowest_unused() {
        let mut c = PartitionConfig::default();
        let Some(Patch::AddWrap { instance, .. }) = wrap(&c, "head", "module:head").patches.pop() else { panic!() };
        assert_eq!(instance.id, "InlinedCustomOp_0");
        c.wraps.push(recut_core::config::WrapGroup { definition: "head".into(), instances: vec![instance] });
        let Some(Patch::AddWrap { instance, group, index, .. }) = wrap(&c, "head", "module:tail").patches.pop() else { panic!() };
        assert_eq!((&*instance.id, group, index), ("InlinedCustomOp_1", 0, 1));
        assert_eq!(unwrap(&c, "InlinedCustomOp_0").map(|e| e.patches.len()), Some(1));
        assert_eq!(unwrap(&c, "nothing"), None);
    }
}
