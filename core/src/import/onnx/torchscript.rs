//! Module paths from the TorchScript exporter's node names (`/layer1/layer1.0/conv1/Conv`).
//!
//! A part of the name is what is left of the module's path after its last word that is no number: `layer1.0` for
//! `backbone.layer1.0`. A part that begins with the one before and a dot replaces that. Containers that are never
//! called are absent, and the parts of a scope that comes again get `_1`, `_2`, … - be it a second call of the same
//! module or another module. So the names of parameters, which are whole paths, correct what the parts say.

use super::names::FastMap;
use super::proto::{GraphProto, NodeProto};

/// Paths of scopes.
#[derive(Debug, Default)]
pub(super) struct SlashNames<'p> {
    /// Names of initializers that look like a parameter's.
    parameters: FastMap<&'p [u8], ()>,
    /// Module paths by scope, learned from parameters.
    learned: FastMap<String, String>,
    /// Module paths that parameters name, with all around them.
    known: FastMap<String, ()>,
    /// Those paths by their last word, in the order in which nodes use them.
    by_last: FastMap<String, Vec<String>>,
    /// The scopes of all nodes and those around them, made when a counted part asks for them.
    scopes: Option<FastMap<String, ()>>,
    graph: Option<&'p GraphProto>,
}

impl<'p> SlashNames<'p> {
    /// Learns from the nodes of a graph that read parameters.
    pub(super) fn new(graph: &'p GraphProto) -> Self {
        let mut names = Self { graph: Some(graph), ..Self::default() };
        for t in &graph.initializer {
            if module_of(&t.name).is_some() {
                names.parameters.insert(&t.name, ());
            }
        }
        if !names.parameters.is_empty() {
            names.learn(&graph.node);
        }
        names
    }

    fn learn(&mut self, nodes: &'p [NodeProto]) {
        for node in nodes {
            for g in node.attribute.iter().flat_map(super::functions::graphs) {
                self.learn(&g.node);
            }
            let Some(cut) = node.name.iter().rposition(|&b| b == b'/') else { continue };
            let Some(module) = self.by_parameter(node) else { continue };
            let scope = String::from_utf8_lossy(&node.name[..cut]);
            let parts = parts(&scope);
            self.note(&parts, module);
        }
    }

    /// Takes the path of the innermost part, and what follows from it for the parts around.
    fn note(&mut self, parts: &[&str], module: &str) {
        let mut module = module;
        for n in (1..=parts.len()).rev() {
            let part = parts[n - 1];
            let plain = strip_count(part).map_or(part, |(p, _)| p);
            // The part must be the end of the path, or the parameter belongs to another module (tied weights).
            let Some(end) = [part, plain].into_iter().find(|p| ends_with(module, p)) else { return };
            let scope = parts[..n].join("/");
            if self.learned.contains_key(&scope) {
                return;
            }
            self.learned.insert(scope, module.to_owned());
            let mut prefix = module;
            while !prefix.is_empty() && self.known.insert(prefix.to_owned(), ()).is_none() {
                let last = &prefix[parent(prefix).len()..];
                self.by_last.entry(last.trim_start_matches('.').to_owned()).or_default().push(prefix.to_owned());
                prefix = parent(prefix);
            }
            // `layer1`, `layer1.0`: the outer part is a beginning of the inner one. Else the rest of the path is the
            // outer module's, perhaps with a container that is never called.
            module = match n.checked_sub(2).map(|i| parts[i]) {
                Some(outer) if end.strip_prefix(outer).is_some_and(|r| r.starts_with('.')) => {
                    &module[..module.len() - (end.len() - outer.len())]
                }
                Some(_) => module[..module.len() - end.len()].trim_end_matches('.'),
                None => return,
            };
            while let Some(outer) = n.checked_sub(2).map(|i| parts[i]) {
                let plain = strip_count(outer).map_or(outer, |(p, _)| p);
                if module.is_empty() || ends_with(module, outer) || ends_with(module, plain) {
                    break;
                }
                module = parent(module);
            }
        }
    }

    /// Module path of a scope (a node's name without its last part), and which call of the module it is where the
    /// name tells. `None` for the root.
    pub(super) fn path(&mut self, scope: &[u8]) -> (Option<String>, Option<u32>) {
        let scope = String::from_utf8_lossy(scope);
        let parts = parts(&scope);
        let mut path = String::new();
        let mut call = None;
        let mut from = 0;
        for n in (1..=parts.len()).rev() {
            if let Some(known) = self.learned.get(&parts[..n].join("/")) {
                path.clone_from(known);
                from = n;
                let last = parts[n - 1];
                call = strip_count(last).filter(|(plain, _)| !ends_with(known, last) && ends_with(known, plain)).and_then(|(plain, k)| {
                    // `_1` tells a call apart only where the scope without it is the same module.
                    let mut first: Vec<&str> = parts[..n - 1].to_vec();
                    first.push(plain);
                    (self.learned.get(&first.join("/")) == Some(known)).then_some(k)
                });
                break;
            }
        }
        for (i, part) in parts.iter().enumerate().skip(from) {
            let before = if i > 0 { parts[i - 1] } else { "" };
            let (joined, k) = self.step(&path, &parts[..i], before, part);
            path = joined;
            call = k.or(call);
        }
        if path.is_empty() { (None, None) } else { (Some(path), call) }
    }

    /// Goes one part further from `path`, that of the parts `outer`, of which `before` is the last.
    fn step(&mut self, path: &str, outer: &[&str], before: &str, part: &str) -> (String, Option<u32>) {
        let join = |part: &str| match part.strip_prefix(before) {
            Some(rest) if !before.is_empty() && rest.starts_with('.') => format!("{path}{rest}"),
            _ if path.is_empty() => part.to_owned(),
            _ => format!("{path}.{part}"),
        };
        let whole = join(part);
        let Some((plain, k)) = strip_count(part).filter(|_| !self.known.contains_key(&whole)) else { return (whole, None) };
        // Modules of that name in this one, some perhaps in containers that are never called: the count tells which.
        let last = plain.rsplit('.').next().unwrap_or(plain);
        let inside = |m: &str| path.is_empty() || m.strip_prefix(path).is_some_and(|r| r.starts_with('.'));
        let same: Vec<&String> = self.by_last.get(last).into_iter().flatten().filter(|m| ends_with(m, plain) && inside(m)).collect();
        if let Some(counted) = same.get(k as usize) {
            return ((*counted).clone(), None);
        }
        let stripped = join(plain);
        let first = outer.iter().chain([&plain]).copied().collect::<Vec<_>>().join("/");
        if self.known.contains_key(&stripped) || self.scopes().contains_key(&first) {
            return (stripped, Some(k));
        }
        (whole, None)
    }

    fn scopes(&mut self) -> &FastMap<String, ()> {
        let graph = self.graph;
        self.scopes.get_or_insert_with(|| {
            let mut scopes = FastMap::default();
            graph.into_iter().for_each(|g| collect(g, &mut scopes));
            scopes
        })
    }

    /// Module path that the longest parameter name among a node's inputs gives.
    pub(super) fn by_parameter(&self, node: &'p NodeProto) -> Option<&'p str> {
        if self.parameters.is_empty() {
            return None;
        }
        let names = node.input.iter().filter(|i| self.parameters.contains_key(i.as_ref()));
        module_of(names.max_by_key(|n| n.len())?)
    }
}

/// Notes the scopes of a graph's nodes, with those around them.
fn collect(graph: &GraphProto, scopes: &mut FastMap<String, ()>) {
    for node in &graph.node {
        for g in node.attribute.iter().flat_map(super::functions::graphs) {
            collect(g, scopes);
        }
        let Some(cut) = node.name.iter().rposition(|&b| b == b'/') else { continue };
        let scope = String::from_utf8_lossy(&node.name[..cut]);
        let mut scope = parts(&scope).join("/");
        while !scope.is_empty() && !scopes.contains_key(&scope) {
            let outer = scope.rfind('/').unwrap_or(0);
            let around = scope[..outer].to_owned();
            scopes.insert(scope, ());
            scope = around;
        }
    }
}

/// The parts of a scope that can be module names.
fn parts(scope: &str) -> Vec<&str> {
    scope.split('/').filter(|p| p.contains(|c| c != '.')).collect()
}

/// `attn_1` as `attn` and 1.
fn strip_count(part: &str) -> Option<(&str, u32)> {
    let (plain, digits) = part.rsplit_once('_')?;
    let k = digits.parse().ok().filter(|_| !plain.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))?;
    Some((plain, k))
}

/// Whether a dotted path ends with whole atoms `end`.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(p, _)| p)
}

/// The module that a parameter of this name belongs to; `None` if it is no parameter's name.
fn module_of(parameter: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(parameter).ok()?;
    if name.contains(|c: char| matches!(c, '/' | ':' | '\\') || c.is_whitespace() || c.is_control()) {
        return None;
    }
    let (module, last) = name.rsplit_once('.')?;
    (!module.is_empty() && !last.is_empty() && !module.starts_with('.') && !module.contains("..")).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::onnx::proto::TensorProto;

    fn graph(nodes: &[(&'static str, &'static str)]) -> GraphProto {
        GraphProto {
            node: nodes
                .iter()
                .map(|&(name, p)| NodeProto { name: name.into(), input: vec!["x".into(), p.into()], ..NodeProto::default() })
                .collect(),
            initializer: nodes.iter().map(|&(_, p)| TensorProto { name: p.into(), ..TensorProto::default() }).collect(),
            ..GraphProto::default()
        }
    }

    fn path(g: &GraphProto, scope: &str) -> (String, Option<u32>) {
        let (p, call) = SlashNames::new(g).path(scope.as_bytes());
        (p.unwrap_or_default(), call)
    }

    #[test]
    fn parts_alone() {
        let g = GraphProto::default();
        assert_eq!(path(&g, "/layer1/layer1.0/conv1"), ("layer1.0.conv1".into(), None));
        assert_eq!(path(&g, "/seq/seq.0/seq.0.0"), ("seq.0.0".into(), None));
        assert_eq!(path(&g, ""), (String::new(), None));
        assert_eq!(path(&g, "/./../x"), ("x".into(), None));
        assert_eq!(path(&g, "//"), (String::new(), None));
        assert_eq!(path(&g, "layer1.0"), ("layer1.0".into(), None));
    }

    #[test]
    fn parameters_fill_in_containers_that_are_never_called() {
        let g = graph(&[("/experts.1/fc_1/Gemm", "layers.0.experts.1.fc.weight"), ("/experts.1/fc/Gemm", "layers.0.experts.1.fc.bias")]);
        assert_eq!(path(&g, "/experts.1/fc_1").0, "layers.0.experts.1.fc");
        assert_eq!(path(&g, "/experts.1").0, "layers.0.experts.1");
        assert_eq!(path(&g, "/experts.1/act").0, "layers.0.experts.1.act");
    }

    #[test]
    fn the_same_scope_again_is_a_call_or_another_module() {
        let g = graph(&[("/shared/Gemm", "shared.weight"), ("/shared_1/Gemm", "shared.weight")]);
        assert_eq!(path(&g, "/shared_1"), ("shared".into(), Some(1)));
        let g = graph(&[("/attn/q/MatMul", "layers.0.attn.q.weight"), ("/attn_1/q/MatMul", "layers.1.attn.q.weight")]);
        assert_eq!(path(&g, "/attn"), ("layers.0.attn".into(), None));
        assert_eq!(path(&g, "/attn_1"), ("layers.1.attn".into(), None));
        assert_eq!(path(&g, "/attn_1/norm"), ("layers.1.attn.norm".into(), None));
        // A module whose own name ends like a count.
        let g = graph(&[("/conv_1/Conv", "conv_1.weight"), ("/conv/Conv", "conv.weight")]);
        assert_eq!(path(&g, "/conv_1"), ("conv_1".into(), None));
    }

    #[test]
    fn modules_without_parameters_are_counted_too() {
        let g = graph(&[("/block/relu/Relu", "x"), ("/block/relu_1/Relu", "x")]);
        assert_eq!(path(&g, "/block/relu_1"), ("block.relu".into(), Some(1)));
        assert_eq!(path(&g, "/block/relu"), ("block.relu".into(), None));
        // Nothing is called like this less its number.
        assert_eq!(path(&g, "/block/drop_1"), ("block.drop_1".into(), None));
        // The second expert 0 is that of the second layer.
        let g = graph(&[
            ("/experts.0/fc/Gemm", "layers.0.experts.0.fc.weight"),
            ("/experts.0/Relu", "x"),
            ("/experts.0/fc_1/Gemm", "layers.1.experts.0.fc.weight"),
            ("/experts.0_1/Relu", "x"),
        ]);
        assert_eq!(path(&g, "/experts.0_1"), ("layers.1.experts.0".into(), None));
    }

    #[test]
    fn tied_weights_do_not_move_a_node() {
        let g = graph(&[("/lm_head/MatMul", "transformer.wte.weight")]);
        assert_eq!(path(&g, "/lm_head").0, "lm_head");
    }
}
