//! Public torch names: functions with the aten operators they become, module classes with all their names.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;

/// The table in `data/torch_names.json`, which says where it is from.
#[derive(Debug, Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    functions: HashMap<&'a str, &'a str>,
    #[serde(borrow)]
    composites: HashMap<&'a str, &'a str>,
    #[serde(borrow)]
    modules: Vec<Class<'a>>,
}

/// A module class.
#[derive(Debug, Deserialize)]
pub(super) struct Class<'a> {
    /// The name that users write.
    pub(super) public: &'a str,
    /// The name under which it is defined, and which exporters write.
    pub(super) qualified: &'a str,
    /// Further names.
    #[serde(default, borrow)]
    pub(super) aliases: Vec<&'a str>,
    /// Operators of its exported graph, with overloads.
    #[serde(default, borrow)]
    ops: Vec<&'a str>,
}

impl<'a> Class<'a> {
    /// All its full names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        [self.public, self.qualified].into_iter().chain(self.aliases.iter().copied())
    }

    /// The operator it becomes (`aten.relu`), if that is one only.
    pub(super) fn single_op(&self) -> Option<&'a str> {
        match *self.ops {
            [op] => op.rsplit_once('.').map(|(name, _overload)| name),
            _ => None,
        }
    }
}

/// The torch names that are known.
#[derive(Debug)]
pub(super) struct TorchNames {
    file: File<'static>,
    class_by_name: HashMap<&'static str, usize>,
}

impl TorchNames {
    /// The aten operators that a function becomes, without namespace, and whether one call becomes all of them.
    pub(super) fn function(&self, name: &str) -> Option<(impl Iterator<Item = &'static str> + Clone + use<>, bool)> {
        let (ops, composite) = match self.file.functions.get(name) {
            Some(ops) => (*ops, false),
            None => (*self.file.composites.get(name)?, true),
        };
        Some((ops.split(' '), composite))
    }

    /// All functions that become one operator a call, with the aten operators they may become.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.file.functions.iter().map(|(name, ops)| (*name, *ops))
    }

    /// The class with this full name.
    pub(super) fn class(&self, name: &str) -> Option<&Class<'static>> {
        self.class_by_name.get(name).map(|&i| &self.file.modules[i])
    }

    /// All classes.
    pub(super) fn classes(&self) -> &[Class<'static>] {
        &self.file.modules
    }
}

/// The table, read at first use.
pub(super) fn table() -> &'static TorchNames {
    static TABLE: OnceLock<TorchNames> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: File<'static> =
            serde_json::from_str(include_str!("../../data/torch_names.json")).expect("the embedded table is well-formed: a test reads it");
        let class_by_name = file.modules.iter().enumerate().flat_map(|(i, c)| c.names().map(move |n| (n, i))).collect();
        TorchNames { file, class_by_name }
    })
}

/// The full name that a usual short form stands for (`nn.ReLU`, `F.relu`).
pub(super) fn expand(name: &str) -> std::borrow::Cow<'_, str> {
    for (short, full) in [("nn.", "torch.nn."), ("F.", "torch.nn.functional."), ("_operator.", "operator.")] {
        if let Some(rest) = name.strip_prefix(short) {
            return format!("{full}{rest}").into();
        }
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_knows_what_users_write() {
        let t = table();
        let ops = |f: &str| t.function(f).map(|(ops, _)| ops.collect::<Vec<_>>());
        assert_eq!(ops("torch.add"), Some(vec!["add"]));
        assert_eq!(ops("torch.Tensor.add"), Some(vec!["add"]));
        assert_eq!(ops("torch.nn.functional.relu"), Some(vec!["relu_", "relu"]));
        assert!(t.function("torch.svd_lowrank").is_some_and(|(_, composite)| composite));
        let relu = t.class("torch.nn.ReLU").unwrap();
        assert_eq!((relu.qualified, relu.single_op()), ("torch.nn.modules.activation.ReLU", Some("aten.relu")));
        assert_eq!(t.class("torch.nn.Linear").unwrap().single_op(), Some("aten.linear"));
        assert_eq!(t.class("torch.nn.Softmin").unwrap().single_op(), None);
        assert_eq!(expand("nn.ReLU"), "torch.nn.ReLU");
    }
}
