//! Expanding calls of functions that the model defines.
//!
//! The nodes of the function take the place of the call, in the graph that holds it. Their names begin with the call's
//! name, so that every call has its own, and the call becomes a module around them.

use indexmap::IndexMap;

use super::build::{Builder, Frame, Slot, label};
use super::functions::{Cost, MAX_NODES, domain};
use super::names::{FastMap, show, text};
use super::proto::{AttributeProto, FunctionProto, NodeProto};
use crate::diagnostic::Diagnostic;
use crate::graph::{Node, Op, ValueId};
use crate::import::ImportError;

/// Longest prefix of made-up names that is kept whole.
const MAX_PREFIX: usize = 1024;

/// A function's attribute as a call gives it: the attribute, and the frame in which graphs in it see names.
pub(super) type Given<'p> = (&'p AttributeProto, usize);

/// A call that is being expanded.
#[derive(Debug)]
pub(super) struct Call<'p> {
    /// Begins the names of nodes and values made for it.
    pub(super) prefix: Box<str>,
    function: &'p FunctionProto,
    /// Attributes of the function; `None` where the call leaves one out that has no default.
    attributes: FastMap<&'p [u8], Option<Given<'p>>>,
}

impl Call<'_> {
    /// Version of an operator set for the nodes of the function, where it differs from the model's.
    pub(super) fn opset(&self, of: &[u8], model: &IndexMap<String, i64>) -> Option<i64> {
        let version = self.function.opset_import.iter().find(|o| domain(&o.domain) == of)?.version;
        let models = std::str::from_utf8(of).ok().and_then(|d| model.get(d));
        (models != Some(&version)).then_some(version)
    }

    /// Whether the function imports an operator set.
    pub(super) fn imports(&self, of: &[u8]) -> bool {
        self.function.opset_import.iter().any(|o| domain(&o.domain) == of)
    }
}

impl<'p> Builder<'p> {
    /// Whether a call is expanded; if not, it stays one node and a diagnostic says why.
    pub(super) fn may_expand(&mut self, node: &NodeProto, f: &FunctionProto, cost: Cost) -> bool {
        let name = show(&f.name);
        let (code, why) = match cost {
            Cost::Recursive => ("function_recursive", "it is recursive: it calls itself, maybe through others".to_owned()),
            Cost::TooDeep => ("function_too_large", "too many calls are nested in each other to expand them".to_owned()),
            Cost::Nodes(n) if self.nodes_made.saturating_add(n) > MAX_NODES => {
                let n = if n == u64::MAX { "more than can be counted".to_owned() } else { n.to_string() };
                ("function_too_large", format!("too many nodes to expand ({n}, the limit for a model is {MAX_NODES})"))
            }
            Cost::Nodes(_) if node.input.len() > f.input.len() || node.output.len() > f.output.len() => (
                "bad_call",
                format!(
                    "the call has {} inputs and {} outputs, the function {} and {}",
                    node.input.len(),
                    node.output.len(),
                    f.input.len(),
                    f.output.len()
                ),
            ),
            Cost::Nodes(_) => return true,
        };
        let message = format!("{} calls function `{name}`, which is not expanded and cannot be run: {why}", label(node));
        self.reports.add(Diagnostic::error(code, message).with_node(&text(&node.name)));
        false
    }

    /// Puts the nodes of a function in place of a call.
    pub(super) fn expand(&mut self, frame: usize, node: &'p NodeProto, f: &'p FunctionProto, ordinal: u32) -> Result<(), ImportError> {
        let actual_inputs = self.values_read(frame, node)?;
        let actual_outputs = self.values_made(frame, node);
        let call_name = call_name(node, ordinal);
        let prefix = self.prefix(frame, &call_name);
        let module = self.call_module(frame, node, f, &call_name);
        let attributes = self.given(frame, node, f);
        let level = self.frames[frame].level;
        let call = self.calls.len();
        self.calls.push(Call { prefix: prefix.clone().into(), function: f, attributes });
        let mut names = FastMap::default();
        for (i, formal) in f.input.iter().enumerate() {
            names.insert(formal.as_ref(), Slot { value: actual_inputs.get(i).copied().flatten(), made: true });
        }
        // Results that are parameters, or the same as another result, need a node of their own.
        let mut passed: Vec<(&'p [u8], ValueId)> = Vec::new();
        for (formal, actual) in f.output.iter().zip(&actual_outputs) {
            let Some(actual) = *actual else { continue };
            if names.contains_key(formal.as_ref()) {
                passed.push((formal, actual));
            } else {
                names.insert(formal, Slot { value: Some(actual), made: false });
            }
        }
        let inner = self.frames.len();
        self.frames.push(Frame { names, level, parent: None, call: Some(call), module, declared: Vec::new(), taken: 0 });
        self.declare(inner, &f.node, &prefix)?;
        self.declared_types(inner, f.value_info.iter());
        if let Some(missing) = f.output.iter().find(|o| self.frames[inner].names.get(o.as_ref()).is_some_and(|s| !s.made)) {
            return Err(self.invalid(format!(
                "function `{}`, which {} calls, says that it gives `{}`, but no node in it makes that",
                show(&f.name),
                label(node),
                show(missing)
            )));
        }
        self.nodes(inner, &f.node, Some(ordinal))?;
        for (formal, actual) in passed {
            let source = self.resolve(inner, formal).flatten();
            self.nodes_made += 1;
            self.push(Node {
                name: format!("{prefix}/Identity").into(),
                op: Op::onnx("Identity").into(),
                inputs: [source].into(),
                outputs: [Some(actual)].into(),
                attrs: [].into(),
                bodies: [].into(),
                captures: [].into(),
                module,
                call: None,
                torch_op: None,
                fx_node: None,
                stack_trace: None,
                ordinal,
                opset: None,
            });
        }
        self.frames.truncate(inner);
        self.calls.truncate(call);
        Ok(())
    }

    /// What a call gives for the attributes of its function, by the function's names.
    fn given(&self, frame: usize, node: &'p NodeProto, f: &'p FunctionProto) -> FastMap<&'p [u8], Option<Given<'p>>> {
        let mut given: FastMap<&'p [u8], Option<Given<'p>>> = FastMap::default();
        for name in &f.attribute {
            given.insert(name, None);
        }
        for default in &f.attribute_proto {
            given.insert(&default.name, Some((default, frame)));
        }
        for a in &node.attribute {
            let value = if a.ref_attr_name.is_empty() {
                Some((a, frame))
            } else {
                match self.referenced(frame, &a.ref_attr_name) {
                    Some(Some(found)) => Some(found),
                    // Left out by the outer call as well: the default, if there is one, stands.
                    _ => continue,
                }
            };
            given.insert(&a.name, value);
        }
        given
    }

    /// What the function around `frame` was given for its attribute `name`: `Some(None)` if nothing, `None` if it has no
    /// such attribute, or there is no function.
    #[allow(clippy::option_option)]
    pub(super) fn referenced(&self, frame: usize, name: &[u8]) -> Option<Option<Given<'p>>> {
        let call = self.frames[frame].call?;
        self.calls[call].attributes.get(name).copied()
    }

    /// A prefix for the names of a call that no other call in this graph has.
    fn prefix(&mut self, frame: usize, call_name: &str) -> String {
        let mut prefix = match self.frames[frame].call {
            Some(outer) => format!("{}/{call_name}", self.calls[outer].prefix),
            None => call_name.to_owned(),
        };
        if prefix.len() > MAX_PREFIX {
            let cut = (0..=MAX_PREFIX / 2).rev().find(|&i| prefix.is_char_boundary(i)).unwrap_or(0);
            prefix.truncate(cut);
            prefix.push('…');
        }
        let made_up = &mut self.levels[self.frames[frame].level].made_up;
        let mut unique = prefix.clone();
        while made_up.contains_key(unique.as_str()) {
            let count = made_up.entry(prefix.as_str().into()).or_default();
            *count += 1;
            unique = format!("{prefix}_{count}");
        }
        made_up.insert(unique.as_str().into(), 0);
        unique
    }

    /// A name for a value inside a call that no other value in this graph has.
    pub(super) fn made_up_name(&mut self, frame: usize, prefix: &str, name: &[u8]) -> Box<str> {
        let level = self.frames[frame].level;
        let mut full = format!("{prefix}/{}", String::from_utf8_lossy(name));
        let graph = self.levels[level].frame;
        while self.frames[graph].names.contains_key(full.as_bytes()) || self.levels[level].made_up.contains_key(full.as_str()) {
            full.push('\'');
        }
        let full: Box<str> = full.into();
        self.levels[level].made_up.insert(full.clone(), 0);
        full
    }

    fn call_module(&mut self, frame: usize, node: &'p NodeProto, f: &FunctionProto, call_name: &str) -> crate::modules::ModuleId {
        let mut around = self.frames[frame].module;
        if self.frames[frame].level > 0 {
            return around;
        }
        if self.frames[frame].call.is_none()
            && let Some(m) = self.hierarchy.of(node, &mut self.texts, &mut self.reports).module
        {
            around = m;
        }
        let domain = String::from_utf8_lossy(&f.domain);
        let class = if domain.is_empty() {
            String::from_utf8_lossy(&f.name).into_owned()
        } else {
            format!("{domain}::{}", String::from_utf8_lossy(&f.name))
        };
        let last = call_name.rsplit('/').find(|s| !s.is_empty()).unwrap_or(call_name);
        self.hierarchy.tree.new_child(around, last, Some(&class.into()))
    }
}

/// What a call is called: its name, its first result, or what it calls and where.
fn call_name(node: &NodeProto, ordinal: u32) -> String {
    let named = std::iter::once(&node.name).chain(&node.output).find(|n| !n.is_empty());
    match named {
        Some(n) => String::from_utf8_lossy(n).into_owned(),
        None => format!("{}_{ordinal}", String::from_utf8_lossy(&node.op_type)),
    }
}
