//! Where nodes come from: modules, torch operators and source lines, as the exporter noted them.
//!
//! Three sources, the best first: the metadata of the dynamo exporter, the slashes in node names of the TorchScript
//! exporter, and the dotted names of parameters.

use std::sync::Arc;

use super::names::{FastMap, Interner, text};
use super::proto::{GraphProto, NodeProto};
use super::scopes::{self, Scopes};
use super::torchscript::SlashNames;
use crate::diagnostic::Diagnostic;
use crate::import::reports::Reports;
use crate::modules::{ModuleId, ModuleTreeBuilder};

/// What the file tells of one node's origin.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The module, where the node itself tells.
    pub(super) module: Option<ModuleId>,
    /// Which call of the module, where the names tell calls apart.
    pub(super) call: Option<u32>,
    pub(super) torch_op: Option<Arc<str>>,
    pub(super) fx_node: Option<Arc<str>>,
    pub(super) stack_trace: Option<Arc<str>>,
}

/// A module, if it is not the root, and which call of it.
type Owner = (Option<ModuleId>, Option<u32>);

/// Finds origins and collects modules.
#[derive(Debug)]
pub(super) struct Hierarchy<'p> {
    pub(super) tree: ModuleTreeBuilder,
    slashes: SlashNames<'p>,
    scopes: Scopes<'p>,
    /// Modules by the part of a node's name before the last slash.
    by_scope: FastMap<&'p [u8], Owner>,
    /// The scope asked for last: neighbouring nodes mostly share theirs.
    last_scope: Option<(&'p [u8], Owner)>,
    /// Modules by the path in the metadata.
    by_path: FastMap<&'p [u8], Option<ModuleId>>,
    malformed: bool,
}

impl<'p> Hierarchy<'p> {
    pub(super) fn new(graph: Option<&'p GraphProto>) -> Self {
        Self {
            tree: ModuleTreeBuilder::default(),
            slashes: graph.map(SlashNames::new).unwrap_or_default(),
            scopes: Scopes::default(),
            by_scope: FastMap::default(),
            last_scope: None,
            by_path: FastMap::default(),
            malformed: false,
        }
    }

    /// What is known of a node's origin.
    pub(super) fn of(&mut self, node: &'p NodeProto, texts: &mut Interner<'p>, reports: &mut Reports) -> Origin {
        let mut origin = Origin::default();
        if !node.metadata_props.is_empty() {
            self.metadata(node, &mut origin, texts, reports);
        }
        if origin.module.is_none() {
            (origin.module, origin.call) = self.names(node);
        }
        origin
    }

    fn metadata(&mut self, node: &'p NodeProto, origin: &mut Origin, texts: &mut Interner<'p>, reports: &mut Reports) {
        let found = self.scopes.read(node);
        if found.malformed && !self.malformed {
            self.malformed = true;
            let message = format!(
                "the module path in the metadata of node `{}` is malformed and was ignored; it may not be the only one",
                super::names::show(&node.name)
            );
            reports.add(Diagnostic::warning("bad_scope", message).with_node(&text(&node.name)));
        }
        origin.stack_trace = found.stack_trace.filter(|s| !s.is_empty()).map(|s| texts.get(s));
        origin.torch_op = found.op.map(|s| self.scopes.shared(s));
        origin.fx_node = found.fx_node.map(|s| self.scopes.shared(s));
        if let Some(key) = found.key {
            let module = match self.by_path.get(key) {
                Some(&m) => m,
                None => {
                    let m = self.insert(&found.modules);
                    self.by_path.insert(key, m);
                    m
                }
            };
            origin.module = module;
            origin.call = found.call;
        }
    }

    /// Puts a chain of modules, outermost first, into the tree. The root counts as none.
    fn insert(&mut self, modules: &[scopes::Scope]) -> Option<ModuleId> {
        let mut last = None;
        for m in modules {
            let class = m.class.as_deref().map(|c| self.scopes.shared(c.to_owned()));
            last = Some(self.tree.module(&m.path, class.as_ref()));
        }
        last
    }

    fn names(&mut self, node: &'p NodeProto) -> Owner {
        let Some(cut) = node.name.iter().rposition(|&b| b == b'/') else {
            return (self.slashes.by_parameter(node).map(|path| self.tree.module(path, None)), None);
        };
        let scope = &node.name[..cut];
        if let Some((last, found)) = self.last_scope
            && last == scope
        {
            return found;
        }
        let found = match self.by_scope.get(scope) {
            Some(&known) => known,
            None => {
                let (path, call) = self.slashes.path(scope);
                let found = (path.map(|p| self.tree.module(&p, None)), call);
                self.by_scope.insert(scope, found);
                found
            }
        };
        self.last_scope = Some((scope, found));
        found
    }
}
