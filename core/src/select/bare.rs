//! How names without a prefix are read.

use super::Bare;
use super::ast::{Pattern, Prefix};
use super::torch_names::{self, expand};

/// What a bare name is beyond doubt, by its form alone.
pub(super) fn certain(pattern: &Pattern, bare: Bare) -> Option<Prefix> {
    let text = match (bare, pattern) {
        (Bare::Node, _) => return Some(Prefix::Node),
        (_, Pattern::Regex(_)) => return None,
        (_, Pattern::Literal(s) | Pattern::Glob(s)) => s,
    };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| text.starts_with(p));
    if text.contains('/') {
        return Some(Prefix::Node);
    }
    if text.contains("::") || starts(&["torch.ops.", "torch.Tensor.", "operator.", "_operator.", "aten.", "prim.", "prims."]) {
        return Some(Prefix::Op);
    }
    if starts(&["torch.", "nn.", "F."]) {
        let full = expand(text);
        let table = torch_names::table();
        if table.class(&full).is_some() {
            return Some(Prefix::Class);
        }
        if table.function(&full).is_some() {
            return Some(Prefix::Op);
        }
        if text.starts_with("torch.") {
            let in_nn = text.starts_with("torch.nn.") && !text.starts_with("torch.nn.functional.");
            return Some(if in_nn || names_class(text) { Prefix::Class } else { Prefix::Op });
        }
    }
    None
}

/// Whether the last part of a dotted name is written like a class.
fn names_class(text: &str) -> bool {
    text.rsplit('.').next().is_some_and(|last| last.starts_with(char::is_uppercase))
}

/// How many of the first [`readings`] are the list's own: the first of them that matches decides.
pub(super) fn own_readings(bare: Bare) -> usize {
    match bare {
        Bare::ByForm => 0,
        Bare::Module => 2,
        Bare::Op | Bare::Node => 1,
    }
}

/// What a bare name whose form leaves doubt may be, the list's own readings first.
pub(super) fn readings(pattern: &Pattern, bare: Bare) -> Vec<Prefix> {
    use Prefix::{Class, Module, Node, Op, Value};
    match bare {
        Bare::Op => vec![Op, Module, Class, Node],
        Bare::Module if names_class(pattern.text()) => vec![Class, Module, Op, Node],
        Bare::Module => vec![Module, Class, Op, Node],
        Bare::Node => vec![Node],
        Bare::ByForm => vec![Op, Module, Class, Node, Value],
    }
}
