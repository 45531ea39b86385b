//! Where nodes come from, in the metadata that PyTorch's exporter writes: module paths, classes, torch operators, FX
//! nodes and source lines.

use std::fmt::Write as _;

use super::fx;
use crate::graph::{Node, NodeId};
use crate::model::Model;
use crate::modules::ModuleId;

/// Key of the call of a module, which PyTorch has none for.
pub(crate) const CALL_KEY: &str = "recut.module_call";

/// The metadata of many nodes.
pub(super) struct Scopes<'m> {
    model: &'m Model,
    /// Texts of the module asked for last: neighbouring nodes mostly share theirs.
    last: Option<(ModuleId, Chain)>,
}

/// The modules around a node, outermost first, as texts without the node's own entry.
struct Chain {
    /// `['', 'layer1', `
    paths: String,
    /// `['net.Net', 'torch.nn.modules.conv.Conv2d', `
    classes: String,
    /// `: net.Net/layer1: torch.nn.modules.conv.Conv2d/`
    namespace: String,
}

impl<'m> Scopes<'m> {
    pub(super) fn new(model: &'m Model) -> Self {
        Self { model, last: None }
    }

    /// Calls `put` with every key and value for a node, which was made from `source` if that is known. Nothing is said of a
    /// node of which nothing is known.
    pub(super) fn each<E>(
        &mut self,
        node: &Node,
        source: Option<NodeId>,
        mut put: impl FnMut(&str, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        if has_metadata(self.model, node) {
            if self.last.as_ref().is_none_or(|(m, _)| *m != node.module) {
                self.last = Some((node.module, chain(self.model, node.module)));
            }
            let (op, fx) = (node.torch_op.as_deref().unwrap_or_default(), node.fx_node.as_deref().unwrap_or_default());
            if let Some((_, chain)) = &self.last {
                put("namespace", &format!("{}{fx}: {op}", chain.namespace))?;
                put("pkg.torch.onnx.class_hierarchy", &format!("{}{}]", chain.classes, quoted(op)))?;
                put("pkg.torch.onnx.name_scopes", &format!("{}{}]", chain.paths, quoted(fx)))?;
            }
            if let Some(lowering) = &self.model.lowering
                && let Some(source) = source
            {
                put("pkg.torch.onnx.fx_node", &fx::text(&lowering.source.graph, source))?;
            }
            if let Some(call) = node.call {
                put(CALL_KEY, &call.to_string())?;
            }
        }
        match &node.stack_trace {
            Some(trace) => put("pkg.torch.onnx.stack_trace", trace),
            None => Ok(()),
        }
    }
}

/// Whether anything is written of where this node comes from.
pub(super) fn has_metadata(model: &Model, node: &Node) -> bool {
    let root_class = || model.modules.module(ModuleId::ROOT).class.is_some();
    node.module != ModuleId::ROOT || node.torch_op.is_some() || node.fx_node.is_some() || root_class()
}

fn chain(model: &Model, module: ModuleId) -> Chain {
    let mut modules: Vec<ModuleId> = model.modules.ancestors(module).collect();
    modules.reverse();
    let mut chain = Chain { paths: "[".to_owned(), classes: "[".to_owned(), namespace: String::new() };
    for m in modules {
        let m = model.modules.module(m);
        let class = m.class.as_deref().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(chain.paths, "{}, ", quoted(&m.path));
        let _ = write!(chain.classes, "{}, ", quoted(class));
        let _ = write!(chain.namespace, "{}: {class}/", m.path);
    }
    chain
}

/// A text as Python's `repr` shows it.
pub(super) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            // Control characters all lie below 256.
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ModelBuilder;

    #[test]
    fn texts_are_quoted_as_python_does() {
        assert_eq!(quoted("layer1"), "'layer1'");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("'\""), "'\\'\"'");
        assert_eq!(quoted("a\\\n\t\u{1b}é"), "'a\\\\\\n\\t\\x1bé'");
    }

    #[test]
    fn modules_with_and_without_a_class() {
        let m =
            ModelBuilder::new().node("n", "Relu", &["x"], &["y"]).module("a.b", "nn.B").with(|n| n.fx_node = Some("relu".into())).build();
        let mut found = Vec::new();
        let put = |k: &str, v: &str| -> Result<(), ()> {
            found.push((k.to_owned(), v.to_owned()));
            Ok(())
        };
        Scopes::new(&m).each(&m.graph.nodes()[0], None, put).unwrap();
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let expected = [
            pair("namespace", ": /a: /a.b: nn.B/relu: "),
            pair("pkg.torch.onnx.class_hierarchy", "['', '', 'nn.B', '']"),
            pair("pkg.torch.onnx.name_scopes", "['', 'a', 'a.b', 'relu']"),
        ];
        assert_eq!(found, expected);
    }
}
