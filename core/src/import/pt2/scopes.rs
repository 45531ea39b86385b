//! Modules: `nn_module_stack` texts and `module_call_graph`.

use std::sync::Arc;

use crate::modules::{ModuleId, ModuleTreeBuilder};

/// What torch writes three times on shape nodes that belong to no module.
const EMPTY: &str = "_empty_nn_module_stack_from_metadata_hook";

/// Owner of a node: its module, and which call of it this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) module: Option<ModuleId>,
    pub(super) call: Option<u32>,
}

/// Reads scopes; equal texts, which are common, are read once.
#[derive(Default)]
pub(super) struct Scopes {
    pub(super) tree: ModuleTreeBuilder,
    known: crate::hash::FastMap<Box<str>, Scope>,
    classes: crate::hash::FastMap<Box<str>, Arc<str>>,
}

impl Scopes {
    /// The owner that an `nn_module_stack` names: `key,path,class` items, outermost first, separated by `;`.
    pub(super) fn scope(&mut self, stack: &str) -> Scope {
        if let Some(scope) = self.known.get(stack) {
            return *scope;
        }
        let mut scope = Scope::default();
        for item in split(stack, ';') {
            let parts = split(item, ',');
            let [key, path, class] = parts.as_slice() else { continue };
            if key.contains(EMPTY) || path.contains(EMPTY) {
                continue;
            }
            let class = self.class(class.trim());
            let module = if path.is_empty() { self.root(class.as_ref()) } else { self.tree.module(path, class.as_ref()) };
            let call = key.rsplit_once('@').and_then(|(_, k)| k.parse().ok());
            scope = Scope { module: Some(module), call };
        }
        self.known.insert(stack.into(), scope);
        scope
    }

    fn root(&mut self, class: Option<&Arc<str>>) -> ModuleId {
        self.tree.module("", class)
    }

    fn class(&mut self, name: &str) -> Option<Arc<str>> {
        if name.is_empty() {
            return None;
        }
        if let Some(known) = self.classes.get(name) {
            return Some(known.clone());
        }
        let class: Arc<str> = name.into();
        self.classes.insert(name.into(), class.clone());
        Some(class)
    }
}

/// Splits at `at` outside of parentheses and brackets: class names and keys may hold both.
fn split(text: &str, at: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut begin) = (0i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            c if c == at && depth <= 0 => {
                parts.push(&text[begin..i]);
                begin = i + c.len_utf8();
            }
            _ => {}
        }
    }
    if begin < text.len() || at == ',' {
        parts.push(&text[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_name_module_class_and_call() {
        let mut s = Scopes::default();
        let stack = "L__self__,,__main__.Tiny;L__self__layers.0.attn,layers.0.attn,__main__.Tiny.__init__.<locals>.Attn";
        let attn = s.scope(stack);
        assert_eq!(attn, s.scope(stack));
        let again = s.scope("L__self__,,__main__.Tiny;L__self__shared@1,shared,torch.nn.modules.linear.Linear");
        assert_eq!(again.call, Some(1));
        let dummy = s.scope(&format!("{EMPTY},{EMPTY},{EMPTY}"));
        assert_eq!(dummy.module, None);
        let odd = s.scope("key[a,b],path.(x,y).z,cls[int, str]");
        let tree = s.tree.finish(std::iter::empty());
        let module = |scope: Scope| tree.module(scope.module.unwrap());
        assert_eq!(&*module(attn).path, "layers.0.attn");
        assert_eq!(module(attn).class.as_deref(), Some("__main__.Tiny.__init__.<locals>.Attn"));
        assert_eq!(tree.module(ModuleId::ROOT).class.as_deref(), Some("__main__.Tiny"));
        assert_eq!(tree.module(tree.find("layers").unwrap()).class, None, "a container that is never called");
        assert_eq!(&*module(odd).path, "path.(x,y).z");
    }
}
