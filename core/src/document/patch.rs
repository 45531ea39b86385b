//! Patches applied to a config, and taken back.

use indexmap::IndexMap;

use super::{ConfigMap, Edit, MarkList, Patch};
use crate::config::{PartitionConfig, WrapGroup};
use crate::diagnostic::printable;

impl MarkList {
    pub(super) fn entries_mut(self, config: &mut PartitionConfig) -> &mut Vec<String> {
        match self {
            Self::TorchOps => &mut config.torch_executed_ops,
            Self::TorchModules => &mut config.torch_executed_modules,
            Self::TorchNodes => &mut config.torch_executed_nodes,
            Self::AcceleratedNodes => &mut config.accelerated_nodes,
            Self::LeafModules => &mut config.leaf_modules,
        }
    }
}

impl Edit {
    /// The edit that takes this one back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { label: self.label.clone(), patches: self.patches.iter().rev().map(Patch::inverse).collect() }
    }

    /// Applies all patches, or none of them.
    ///
    /// # Errors
    /// If a patch does not fit the config: it was made for another one.
    pub(super) fn apply_to(&self, config: &mut PartitionConfig) -> Result<(), String> {
        for (done, patch) in self.patches.iter().enumerate() {
            if let Err(e) = patch.apply_to(config) {
                for patch in self.patches.iter().take(done).rev() {
                    // What was just applied can be taken back.
                    let _ = patch.inverse().apply_to(config);
                }
                return Err(format!("`{}` does not fit the config as it is: {e}", printable(&self.label)));
            }
        }
        Ok(())
    }
}

impl Patch {
    /// The patch that takes this one back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self.clone() {
            Self::Insert { list, index, text } => Self::Remove { list, index, text },
            Self::Remove { list, index, text } => Self::Insert { list, index, text },
            Self::Backend { from, to } => Self::Backend { from: to, to: from },
            Self::Partitioner { from, to } => Self::Partitioner { from: to, to: from },
            Self::Run { from, to } => Self::Run { from: to, to: from },
            Self::Dim { name, from, to } => Self::Dim { name, from: to, to: from },
            Self::Definition { name, from, to } => Self::Definition { name, from: to, to: from },
            Self::Order { map, from, to } => Self::Order { map, from: to, to: from },
            Self::AddWrap { definition, instance, group, index } => Self::RemoveWrap { definition, instance, group, index },
            Self::RemoveWrap { definition, instance, group, index } => Self::AddWrap { definition, instance, group, index },
        }
    }

    fn apply_to(&self, config: &mut PartitionConfig) -> Result<(), String> {
        match self {
            Self::Insert { list, index, text } => {
                let entries = list.entries_mut(config);
                if *index > entries.len() {
                    return Err(format!("{} has only {} entries", list.name(), entries.len()));
                }
                entries.insert(*index, text.clone());
            }
            Self::Remove { list, index, text } => {
                let entries = list.entries_mut(config);
                if entries.get(*index) != Some(text) {
                    return Err(format!("entry {index} of {} is not `{}`", list.name(), printable(text)));
                }
                entries.remove(*index);
            }
            Self::Backend { from, to } => replace(&mut config.backend, from, to, "the backend")?,
            Self::Partitioner { from, to } => replace(&mut config.partitioner, from, to, "the partitioner")?,
            Self::Run { from, to } => replace(&mut config.run, from, to, "how to run")?,
            Self::Dim { name, from, to } => replace_entry(&mut config.dims, name, from.as_ref(), to.as_ref())?,
            Self::Definition { name, from, to } => replace_entry(&mut config.definitions, name, from.as_ref(), to.as_ref())?,
            Self::Order { map: ConfigMap::Definitions, from, to } => reorder(&mut config.definitions, from, to)?,
            Self::Order { map: ConfigMap::Dims, from, to } => reorder(&mut config.dims, from, to)?,
            Self::AddWrap { definition, instance, group, index } => {
                let groups = &mut config.wraps;
                let count = groups.len();
                let fits = |g: &&mut WrapGroup| g.definition == *definition && *index <= g.instances.len();
                if let Some(g) = groups.get_mut(*group).filter(fits) {
                    g.instances.insert(*index, instance.clone());
                } else if *index == 0 && *group <= count {
                    groups.insert(*group, WrapGroup { definition: definition.clone(), instances: vec![instance.clone()] });
                } else {
                    return Err(format!("there is no place {index} in group {group} of the wraps"));
                }
            }
            Self::RemoveWrap { definition, instance, group, index } => {
                let g = config.wraps.get_mut(*group).filter(|g| g.definition == *definition);
                let g = g.filter(|g| g.instances.get(*index) == Some(instance));
                let Some(g) = g else { return Err(format!("wrap {} does not stand there", printable(&instance.id))) };
                g.instances.remove(*index);
                if g.instances.is_empty() {
                    config.wraps.remove(*group);
                }
            }
        }
        Ok(())
    }
}

fn replace<T: Clone + PartialEq>(slot: &mut T, from: &T, to: &T, what: &str) -> Result<(), String> {
    if slot != from {
        return Err(format!("{what} was changed meanwhile"));
    }
    slot.clone_from(to);
    Ok(())
}

/// Sets an entry, adds one at the end, or removes one.
fn replace_entry<T: Clone + PartialEq>(map: &mut IndexMap<String, T>, name: &str, from: Option<&T>, to: Option<&T>) -> Result<(), String> {
    if map.get(name) != from {
        return Err(format!("`{}` was changed meanwhile", printable(name)));
    }
    match to {
        Some(to) => {
            map.insert(name.to_owned(), to.clone());
        }
        None => {
            map.shift_remove(name);
        }
    }
    Ok(())
}

fn reorder<T>(map: &mut IndexMap<String, T>, from: &[String], to: &[String]) -> Result<(), String> {
    let permutes = to.len() == map.len() && to.iter().all(|name| map.contains_key(name));
    if !map.keys().eq(from) || !permutes {
        return Err("the order of its entries was changed meanwhile".to_owned());
    }
    let mut entries = std::mem::take(map);
    map.extend(to.iter().filter_map(|name| entries.swap_remove_entry(name)));
    // A name that stands twice in `to` would lose another: such an order was no permutation.
    map.extend(entries);
    Ok(())
}
