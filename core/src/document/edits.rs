//! The edits that keys, options and prompts make.
//!
//! All of them write marks in their canonical form, so that the same marks give the same config however they were made.

use std::collections::HashSet;

use indexmap::IndexMap;

use super::{ConfigMap, Document, Edit, MarkList, Patch};
use crate::config::{PartitionConfig, PartitionerConfig, RunConfig, WrapBody, WrapDefinition, WrapInstance};
use crate::diagnostic::printable;
use crate::graph::NodeId;
use crate::select::{SelectError, canonical_entry};

/// Operator type, and definition, of a wrap that nobody named.
const DEFAULT_OP: &str = "InlinedCustomOp";

/// An entry of a list of marks that reaches a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkEntry {
    /// The list.
    pub list: MarkList,
    /// Position in it.
    pub index: usize,
    /// Selector text.
    pub text: String,
    /// How many nodes it reaches.
    pub nodes: usize,
}

/// What clearing the marks on a node can mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Clear {
    /// No mark reaches it.
    Nothing,
    /// Only marks on the node itself: this edit removes them.
    Edit(Edit),
    /// Rules that reach other nodes too: a person has to choose. Each can be removed with [`Edit::remove_entries`].
    Choose(Vec<MarkEntry>),
}

/// Collects patches against a config that they change one after the other.
struct Patches {
    config: PartitionConfig,
    patches: Vec<Patch>,
}

impl Patches {
    fn new(config: &PartitionConfig) -> Self {
        Self { config: config.clone(), patches: Vec::new() }
    }

    fn push(&mut self, patch: Patch) {
        let one = Edit { label: String::new(), patches: vec![patch] };
        let fits = one.apply_to(&mut self.config);
        debug_assert!(fits.is_ok(), "a patch fits the config that it was made for: {fits:?}");
        self.patches.extend(one.patches);
    }

    fn insert(&mut self, list: MarkList, texts: Vec<String>) {
        let mut known: HashSet<String> = list.entries(&self.config).iter().cloned().collect();
        for text in texts {
            if known.insert(text.clone()) {
                self.push(Patch::Insert { list, index: list.entries(&self.config).len(), text });
            }
        }
    }

    fn remove(&mut self, list: MarkList, mut matches: impl FnMut(usize, &str) -> bool) {
        let entries = list.entries(&self.config).to_vec();
        for (index, text) in entries.into_iter().enumerate().rev() {
            if matches(index, &text) {
                self.push(Patch::Remove { list, index, text });
            }
        }
    }

    fn definition(&mut self, name: &str, to: Option<WrapDefinition>) {
        let from = self.config.definitions.get(name).cloned();
        if from != to {
            let names: Vec<String> = self.config.definitions.keys().cloned().collect();
            self.move_to_end(ConfigMap::Definitions, names, name, to.is_none());
            self.push(Patch::Definition { name: name.to_owned(), from, to });
        }
    }

    fn dim(&mut self, name: &str, to: Option<i64>) {
        let from = self.config.dims.get(name).copied();
        if from != to {
            let names: Vec<String> = self.config.dims.keys().cloned().collect();
            self.move_to_end(ConfigMap::Dims, names, name, to.is_none());
            self.push(Patch::Dim { name: name.to_owned(), from, to });
        }
    }

    /// Before an entry is removed it goes to the end, so that taking that back puts it where it was.
    fn move_to_end(&mut self, map: ConfigMap, names: Vec<String>, name: &str, removed: bool) {
        if removed && names.last().is_some_and(|last| last != name) {
            let mut to: Vec<String> = names.iter().filter(|n| *n != name).cloned().collect();
            to.push(name.to_owned());
            self.push(Patch::Order { map, from: names, to });
        }
    }

    fn finish(self, label: String) -> Edit {
        Edit { label, patches: self.patches }
    }
}

impl Edit {
    /// Adds entries to a list; such that are there already are left alone, and the opposite pin of the same text goes.
    /// An edit without patches changes nothing.
    ///
    /// # Errors
    /// If a text is no selector.
    pub fn mark(config: &PartitionConfig, list: MarkList, texts: &[&str]) -> Result<Self, SelectError> {
        let texts: Vec<String> = texts.iter().map(|t| canonical_entry(t, list.bare())).collect::<Result<_, _>>()?;
        let label = format!("{} {}", verb(list), summary(&texts));
        Ok(mark_canonical(config, list, texts, label))
    }

    /// Removes entries from a list by their text.
    ///
    /// # Errors
    /// If a text is no selector.
    pub fn unmark(config: &PartitionConfig, list: MarkList, texts: &[&str]) -> Result<Self, SelectError> {
        let canonical: Vec<String> = texts.iter().map(|t| canonical_entry(t, list.bare())).collect::<Result<_, _>>()?;
        let gone: HashSet<&str> = texts.iter().copied().chain(canonical.iter().map(String::as_str)).collect();
        let mut patches = Patches::new(config);
        patches.remove(list, |_, text| gone.contains(text));
        Ok(patches.finish(format!("not {} {}", verb(list), summary(&canonical))))
    }

    /// Adds entries, or removes them if all are there already.
    ///
    /// # Errors
    /// If a text is no selector.
    pub fn toggle(config: &PartitionConfig, list: MarkList, texts: &[&str]) -> Result<Self, SelectError> {
        let canonical: Vec<String> = texts.iter().map(|t| canonical_entry(t, list.bare())).collect::<Result<_, _>>()?;
        let known: HashSet<&str> = list.entries(config).iter().map(String::as_str).collect();
        let all = canonical.iter().zip(texts).all(|(c, t)| known.contains(&**c) || known.contains(t));
        if all { Self::unmark(config, list, texts) } else { Self::mark(config, list, texts) }
    }

    /// Removes entries by place.
    #[must_use]
    pub fn remove_entries(config: &PartitionConfig, entries: &[(MarkList, usize)]) -> Self {
        let mut patches = Patches::new(config);
        let texts: Vec<String> = entries.iter().filter_map(|(l, i)| l.entries(config).get(*i).cloned()).collect();
        for list in MarkList::ALL {
            patches.remove(list, |index, _| entries.contains(&(list, index)));
        }
        patches.finish(format!("clear {}", summary(&texts)))
    }

    /// Clears the marks on nodes.
    #[must_use]
    pub fn clear(document: &Document, nodes: &[NodeId]) -> Clear {
        let mut entries = document.marks_on(nodes);
        // Leaf modules place nothing.
        entries.retain(|e| e.list != MarkList::LeafModules);
        if entries.is_empty() {
            return Clear::Nothing;
        }
        if entries.iter().any(|e| e.nodes > nodes.len()) {
            return Clear::Choose(entries);
        }
        let places: Vec<(MarkList, usize)> = entries.iter().map(|e| (e.list, e.index)).collect();
        Clear::Edit(Self::remove_entries(document.config(), &places))
    }

    /// Makes each selection an opaque node of the definition `name`, which is made if there is none.
    ///
    /// # Errors
    /// If a text is no selector.
    pub fn wrap(config: &PartitionConfig, name: Option<&str>, selects: &[&str]) -> Result<Self, SelectError> {
        let selects: Vec<String> = selects.iter().map(|s| canonical_entry(s, crate::select::Bare::ByForm)).collect::<Result<_, _>>()?;
        let name = name.unwrap_or(DEFAULT_OP);
        let mut patches = Patches::new(config);
        let definition = config.definitions.get(name).cloned().unwrap_or_else(|| WrapDefinition {
            op: DEFAULT_OP.to_owned(),
            domain: "recut".to_owned(),
            attributes: IndexMap::new(),
            body: WrapBody::Graph,
        });
        let op = definition.op.clone();
        patches.definition(name, Some(definition));
        let mut ids = Vec::new();
        for select in selects {
            let id = unused_id(&patches.config, &op);
            let groups = &patches.config.wraps;
            let group = groups.iter().position(|g| g.definition == name).unwrap_or(groups.len());
            let index = groups.get(group).map_or(0, |g| g.instances.len());
            ids.push(id.clone());
            patches.push(Patch::AddWrap { definition: name.to_owned(), instance: WrapInstance { id, select }, group, index });
        }
        Ok(patches.finish(format!("wrap {} as {}", summary(&ids), printable(name))))
    }

    /// Takes an opaque node apart; a definition that says nothing of its own goes with its last instance. `None` if
    /// there is no such node.
    #[must_use]
    pub fn unwrap(config: &PartitionConfig, id: &str) -> Option<Self> {
        let (group, g) = config.wraps.iter().enumerate().find(|(_, g)| g.instances.iter().any(|i| i.id == id))?;
        let index = g.instances.iter().position(|i| i.id == id)?;
        let instance = g.instances.get(index)?.clone();
        let mut patches = Patches::new(config);
        patches.push(Patch::RemoveWrap { definition: g.definition.clone(), instance, group, index });
        let used = patches.config.wraps.iter().any(|other| other.definition == g.definition);
        let plain = |d: &WrapDefinition| d.op == DEFAULT_OP && d.attributes.is_empty() && d.body == WrapBody::Graph;
        if !used && config.definitions.get(&g.definition).is_some_and(plain) {
            patches.definition(&g.definition, None);
        }
        Some(patches.finish(format!("unwrap {}", printable(id))))
    }

    /// Sets or drops a definition.
    #[must_use]
    pub fn set_definition(config: &PartitionConfig, name: &str, to: Option<WrapDefinition>) -> Self {
        let mut patches = Patches::new(config);
        patches.definition(name, to);
        patches.finish(format!("define {}", printable(name)))
    }

    /// Sets the backend.
    #[must_use]
    pub fn set_backend(config: &PartitionConfig, to: Option<&str>) -> Self {
        let (from, to) = (config.backend.clone(), to.map(ToOwned::to_owned));
        let label = format!("backend {}", to.as_deref().unwrap_or("none"));
        Self { label, patches: if from == to { Vec::new() } else { vec![Patch::Backend { from, to }] } }
    }

    /// Sets strategy and size rules.
    #[must_use]
    pub fn set_partitioner(config: &PartitionConfig, to: PartitionerConfig) -> Self {
        let from = config.partitioner.clone();
        let label = format!("strategy {}, min_block_size {}", to.strategy.name(), to.min_block_size);
        Self { label, patches: if from == to { Vec::new() } else { vec![Patch::Partitioner { from, to }] } }
    }

    /// Sets how to run.
    #[must_use]
    pub fn set_run(config: &PartitionConfig, to: RunConfig) -> Self {
        let from = config.run.clone();
        Self { label: "run options".to_owned(), patches: if from == to { Vec::new() } else { vec![Patch::Run { from, to }] } }
    }

    /// Sets or drops the size of a dimension.
    #[must_use]
    pub fn set_dim(config: &PartitionConfig, name: &str, to: Option<i64>) -> Self {
        let mut patches = Patches::new(config);
        patches.dim(name, to);
        patches.finish(to.map_or_else(|| format!("{} open", printable(name)), |n| format!("{} = {n}", printable(name))))
    }

    /// Makes `from` into `to`: for a config file that was changed outside, or loaded over the current one.
    #[must_use]
    pub fn replace(from: &PartitionConfig, to: &PartitionConfig, label: &str) -> Self {
        let mut p = Patches::new(from);
        for list in MarkList::ALL {
            if list.entries(from) != list.entries(to) {
                p.remove(list, |_, _| true);
                for (index, text) in list.entries(to).iter().enumerate() {
                    p.push(Patch::Insert { list, index, text: text.clone() });
                }
            }
        }
        if from.wraps != to.wraps || !from.definitions.iter().eq(&to.definitions) {
            for (group, g) in from.wraps.iter().enumerate().rev() {
                for (index, instance) in g.instances.iter().enumerate().rev() {
                    p.push(Patch::RemoveWrap { definition: g.definition.clone(), instance: instance.clone(), group, index });
                }
            }
            for name in from.definitions.keys().rev() {
                p.definition(name, None);
            }
            for (name, d) in &to.definitions {
                p.definition(name, Some(d.clone()));
            }
            let filled = to.wraps.iter().filter(|g| !g.instances.is_empty());
            for (group, g) in filled.enumerate() {
                for (index, instance) in g.instances.iter().enumerate() {
                    p.push(Patch::AddWrap { definition: g.definition.clone(), instance: instance.clone(), group, index });
                }
            }
        }
        if !from.dims.iter().eq(&to.dims) {
            for name in from.dims.keys().rev() {
                p.dim(name, None);
            }
            for (name, size) in &to.dims {
                p.dim(name, Some(*size));
            }
        }
        let mut patches = p.patches;
        patches.extend(Self::set_backend(from, to.backend.as_deref()).patches);
        patches.extend(Self::set_partitioner(from, to.partitioner.clone()).patches);
        patches.extend(Self::set_run(from, to.run.clone()).patches);
        Self { label: label.to_owned(), patches }
    }
}

fn mark_canonical(config: &PartitionConfig, list: MarkList, texts: Vec<String>, label: String) -> Edit {
    let mut patches = Patches::new(config);
    let opposite = match list {
        MarkList::TorchNodes => Some(MarkList::AcceleratedNodes),
        MarkList::AcceleratedNodes => Some(MarkList::TorchNodes),
        _ => None,
    };
    if let Some(opposite) = opposite {
        let gone: HashSet<&str> = texts.iter().map(String::as_str).collect();
        patches.remove(opposite, |_, text| gone.contains(text));
    }
    patches.insert(list, texts);
    patches.finish(label)
}

const fn verb(list: MarkList) -> &'static str {
    match list {
        MarkList::TorchOps | MarkList::TorchModules | MarkList::TorchNodes => "torch",
        MarkList::AcceleratedNodes => "accelerate",
        MarkList::LeafModules => "leaf",
    }
}

fn summary(texts: &[String]) -> String {
    match texts {
        [] => "nothing".to_owned(),
        [one] => printable(one).into_owned(),
        [first, rest @ ..] => format!("{} and {} more", printable(first), rest.len()),
    }
}

/// The id with the lowest unused number.
fn unused_id(config: &PartitionConfig, op: &str) -> String {
    let taken: HashSet<&str> = config.wraps.iter().flat_map(|g| &g.instances).map(|i| &*i.id).collect();
    let mut n = 0usize;
    loop {
        let id = format!("{op}_{n}");
        if !taken.contains(&*id) {
            return id;
        }
        n += 1;
    }
}
