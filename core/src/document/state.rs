//! The document itself: applying edits, history, and everything that follows from the config.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::backend::backend;
use super::resolve::{Resolver, sets_mut};
use super::{Change, DocumentError, DocumentOptions, Edit, MarkEntry, MarkList, Patch, ReasonStep};
use crate::config::{ConfigError, ModelRef, PartitionConfig, graph_sha256};
use crate::diagnostic::{Diagnostic, printable};
use crate::graph::NodeId;
use crate::import::Imported;
use crate::model::Model;
use crate::partition::{Marks, Placement, Plan, PlanOptions, Rule, plan};
use crate::select::{Bare, NodeSet, SelectorIndex};
use crate::support::{Backend, SupportMap, support_map};
use crate::view::{View, WrapError, WrapRequest};

/// A model with the config being edited.
#[derive(Debug)]
pub struct Document {
    pub(super) model: Arc<Model>,
    pub(super) import_diagnostics: Vec<Diagnostic>,
    pub(super) options: DocumentOptions,
    pub(super) config: PartitionConfig,
    pub(super) saved: PartitionConfig,
    pub(super) done: Vec<Edit>,
    pub(super) undone: Vec<Edit>,
    pub(super) resolver: Resolver,
    pub(super) derived: Derived,
    pub(super) model_sha256: OnceLock<String>,
    pub(super) problems: OnceLock<Vec<Diagnostic>>,
}

/// What follows from model, config and options.
#[derive(Debug)]
pub(super) struct Derived {
    pub(super) marks: Marks,
    pub(super) view: Arc<View>,
    pub(super) backend: Option<Arc<Backend>>,
    pub(super) support: Option<SupportMap>,
    pub(super) plan: Arc<Plan>,
    bytes_across: Option<u64>,
}

/// Which parts of [`Derived`] an edit makes new.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    lists: [bool; MarkList::ALL.len()],
    wraps: bool,
    backend: bool,
    dims: bool,
    partitioner: bool,
}

impl Touched {
    fn by(edit: &Edit) -> Self {
        let mut t = Self::default();
        for patch in &edit.patches {
            match patch {
                Patch::Insert { list, .. } | Patch::Remove { list, .. } => {
                    MarkList::ALL.iter().zip(&mut t.lists).filter(|(l, _)| *l == list).for_each(|(_, touched)| *touched = true);
                }
                Patch::AddWrap { .. } | Patch::RemoveWrap { .. } => t.wraps = true,
                Patch::Backend { .. } => t.backend = true,
                Patch::Dim { .. } => t.dims = true,
                Patch::Partitioner { .. } => t.partitioner = true,
                Patch::Run { .. } | Patch::Definition { .. } | Patch::Order { .. } => {}
            }
        }
        t
    }

    fn plan(self) -> bool {
        self.lists.contains(&true) || self.wraps || self.backend || self.dims || self.partitioner
    }
}

impl Document {
    /// A document over an imported model.
    ///
    /// # Errors
    /// If the config cannot be used on this model. Marks and wraps that match nothing are no errors unless
    /// [`DocumentOptions::strict`] says so: they are listed in [`Document::problems`].
    pub fn new(imported: Imported, config: PartitionConfig, options: DocumentOptions) -> Result<Self, DocumentError> {
        config.validate().map_err(|e| DocumentError::Config(e.to_string()))?;
        let model = Arc::new(imported.model);
        let mut resolver = Resolver::new(Arc::new(SelectorIndex::new(&model)));
        let derived = Derived::new(&model, &config, &options, &mut resolver)?;
        let document = Self {
            model,
            import_diagnostics: imported.diagnostics,
            options,
            saved: config.clone(),
            config,
            done: Vec::new(),
            undone: Vec::new(),
            resolver,
            derived,
            model_sha256: OnceLock::new(),
            problems: OnceLock::new(),
        };
        for list in MarkList::ALL {
            for (i, text) in list.entries(&document.config).iter().enumerate() {
                document.check_entry(text, list.bare(), || format!("{}[{i}]", list.name()))?;
            }
        }
        for instance in document.config.wraps.iter().flat_map(|g| &g.instances) {
            document.check_entry(&instance.select, Bare::ByForm, || format!("wrap {}", printable(&instance.id)))?;
        }
        Ok(document)
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The config as edited.
    #[must_use]
    pub fn config(&self) -> &PartitionConfig {
        &self.config
    }

    /// Options it was opened with.
    #[must_use]
    pub fn options(&self) -> &DocumentOptions {
        &self.options
    }

    /// Selector indices.
    #[must_use]
    pub fn index(&self) -> &Arc<SelectorIndex> {
        self.resolver.index()
    }

    /// Resolved marks.
    #[must_use]
    pub fn marks(&self) -> &Marks {
        &self.derived.marks
    }

    /// The effective graph.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.derived.view
    }

    /// The backend, where there is one.
    #[must_use]
    pub fn backend(&self) -> Option<&Backend> {
        self.derived.backend.as_deref()
    }

    /// What the backend says of every node; without one, which nodes have no form that engines run, where there are any.
    #[must_use]
    pub fn support(&self) -> Option<&SupportMap> {
        self.derived.support.as_ref()
    }

    /// The current plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.derived.plan
    }

    /// Bytes that partitions of the current plan hand each other in one run; `None` where a size is open.
    #[must_use]
    pub fn bytes_across(&self) -> Option<u64> {
        self.derived.bytes_across
    }

    /// Hash of the model's structure, as configs hold it.
    #[must_use]
    pub fn model_sha256(&self) -> &str {
        self.model_sha256.get_or_init(|| graph_sha256(&self.model))
    }

    /// Applies an edit and plans again. An edit without patches changes nothing and leaves no trace in the history.
    ///
    /// # Errors
    /// If the result would be no valid config on this model; then nothing is changed.
    pub fn apply(&mut self, edit: Edit) -> Result<Change, DocumentError> {
        if edit.patches.is_empty() {
            return Ok(self.unchanged(edit.label));
        }
        let change = self.perform(&edit, true)?;
        self.done.push(edit);
        self.undone.clear();
        Ok(change)
    }

    /// Takes back the last edit; `None` if there is none. If the model was reloaded meanwhile and the former config is
    /// not possible on it any more, nothing happens and the label of the change says so.
    pub fn undo(&mut self) -> Option<Change> {
        let edit = self.done.pop()?;
        match self.perform(&edit.inverse(), false) {
            Ok(change) => {
                self.undone.push(edit);
                Some(change)
            }
            Err(e) => {
                let label = format!("{} cannot be taken back: {e}", edit.label);
                self.done.push(edit);
                Some(self.unchanged(label))
            }
        }
    }

    /// Does the last edit that was taken back again; `None` if there is none.
    pub fn redo(&mut self) -> Option<Change> {
        let edit = self.undone.pop()?;
        match self.perform(&edit, false) {
            Ok(change) => {
                self.done.push(edit);
                Some(change)
            }
            Err(e) => {
                let label = format!("{} cannot be done again: {e}", edit.label);
                self.undone.push(edit);
                Some(self.unchanged(label))
            }
        }
    }

    /// Label of the edit that [`Document::undo`] would take back.
    #[must_use]
    pub fn undo_label(&self) -> Option<&str> {
        self.done.last().map(|e| &*e.label)
    }

    /// Label of the edit that [`Document::redo`] would do again.
    #[must_use]
    pub fn redo_label(&self) -> Option<&str> {
        self.undone.last().map(|e| &*e.label)
    }

    /// Edits that were done, oldest first.
    #[must_use]
    pub fn history(&self) -> &[Edit] {
        &self.done
    }

    /// Whether the config differs from what was last saved or loaded.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.config != self.saved
    }

    /// Notes that the config as it is now was saved.
    pub fn mark_saved(&mut self) {
        self.saved = self.config.clone();
    }

    /// The config as it is to be saved at `path`: with the model it is for, named relative to that place.
    #[must_use]
    pub fn config_for(&self, path: &Path) -> PartitionConfig {
        let file = relative_to(&self.model.path, path.parent().unwrap_or(Path::new("")));
        let model = ModelRef { file, graph_sha256: self.model_sha256().to_owned() };
        PartitionConfig { model: Some(model), ..self.config.clone() }
    }

    /// Saves the config, and notes that.
    ///
    /// # Errors
    /// If it cannot be written; then an existing file is as it was.
    pub fn save(&mut self, path: &Path) -> Result<(), ConfigError> {
        let config = self.config_for(path);
        config.save(path)?;
        self.config = config;
        self.problems = OnceLock::new();
        self.mark_saved();
        Ok(())
    }

    /// Entries of lists that reach any of `nodes`, in the order of the config.
    #[must_use]
    pub fn marks_on(&self, nodes: &[NodeId]) -> Vec<MarkEntry> {
        let mut found = Vec::new();
        for list in MarkList::ALL {
            for (index, text) in list.entries(&self.config).iter().enumerate() {
                if let Some(r) = self.resolver.resolved(text, list.bare())
                    && nodes.iter().any(|n| r.nodes.contains(*n))
                {
                    found.push(MarkEntry { list, index, text: text.clone(), nodes: r.nodes.count() });
                }
            }
        }
        found
    }

    /// Why `node` is where it is: every step in order, the deciding one flagged, marks named by their text.
    #[must_use]
    pub fn explain(&self, node: NodeId) -> Vec<ReasonStep> {
        let plan = &self.derived.plan;
        let unit = plan.view.unit_of(node);
        let mut steps = plan.explain_with(unit, &|list, i| list.entries(&self.config).get(i).cloned());
        let mark = match plan.rule.get(unit.index()) {
            Some(Rule::TorchModule(i)) => Some((MarkList::TorchModules, *i)),
            Some(Rule::TorchOp(i)) => Some((MarkList::TorchOps, *i)),
            Some(Rule::PinTorch(i)) => Some((MarkList::TorchNodes, *i)),
            Some(Rule::PinAccelerated(i)) => Some((MarkList::AcceleratedNodes, *i)),
            _ => None,
        };
        let inner = mark.and_then(|(list, i)| {
            let text = list.entries(&self.config).get(i as usize)?;
            self.resolver.resolved(text, list.bare())?.contained(node)
        });
        if let (Some(inner), Some(step)) = (inner, steps.iter_mut().find(|s| s.decided)) {
            step.text.push_str(&format!("; contains({}): that node of its body is meant, and bodies are placed whole", printable(inner)));
        }
        steps
    }

    fn unchanged(&self, label: String) -> Change {
        compare(&self.derived, &self.derived, label)
    }

    /// Applies an edit to config and everything that follows; on failure all stays. `new`: what the edit brings has to
    /// be right; otherwise it was accepted before, and what a reloaded model does not hold any more is tolerated.
    fn perform(&mut self, edit: &Edit, new: bool) -> Result<Change, DocumentError> {
        edit.apply_to(&mut self.config).map_err(DocumentError::Config)?;
        match self.follow(edit, new) {
            Ok(derived) => {
                let change = compare(&self.derived, &derived, edit.label.clone());
                self.derived = derived;
                self.problems = OnceLock::new();
                self.resolver.prune(&self.config);
                Ok(change)
            }
            Err(e) => {
                let back = edit.inverse().apply_to(&mut self.config);
                debug_assert!(back.is_ok(), "what was applied can be taken back: {back:?}");
                Err(e)
            }
        }
    }

    /// What follows from the config after `edit`.
    fn follow(&mut self, edit: &Edit, new: bool) -> Result<Derived, DocumentError> {
        let touched = Touched::by(edit);
        self.config.validate_except_marks().map_err(|e| DocumentError::Config(e.to_string()))?;
        if new {
            for patch in &edit.patches {
                match patch {
                    Patch::Insert { list, text, .. } => {
                        self.resolver.resolve(text, list.bare());
                        self.check_entry(text, list.bare(), || list.name().to_owned())?;
                    }
                    Patch::AddWrap { instance, .. } => {
                        let nodes = self.resolver.resolve(&instance.select, Bare::ByForm).nodes.clone();
                        self.check_entry(&instance.select, Bare::ByForm, || format!("wrap {}", printable(&instance.id)))?;
                        if nodes.is_empty() {
                            let (id, select) = (instance.id.clone(), instance.select.clone());
                            return Err(WrapError::Empty { id, select }.into());
                        }
                    }
                    _ => {}
                }
            }
        }
        let old = &self.derived;
        let mut marks = old.marks.clone();
        for (list, _) in MarkList::ALL.into_iter().zip(touched.lists).filter(|(_, touched)| *touched) {
            *sets_mut(list, &mut marks) = self.resolver.list(list, &self.config);
        }
        let view = if touched.wraps { view(&self.model, &self.config, &mut self.resolver)? } else { old.view.clone() };
        if touched.dims {
            self.model.check_sizes(&self.config.dims).map_err(DocumentError::Config)?;
        }
        let (backend, support) = if touched.backend || touched.dims && old.backend.is_some() {
            let backend = if touched.backend { backend(&self.model, &self.config, &self.options)? } else { old.backend.clone() };
            let support = support(&self.model, backend.as_deref(), &self.config.dims);
            (backend, support)
        } else {
            (old.backend.clone(), old.support.clone())
        };
        if !touched.plan() {
            let (plan, bytes_across) = (old.plan.clone(), old.bytes_across);
            return Ok(Derived { marks, view, backend, support, plan, bytes_across });
        }
        Ok(Derived::planned(marks, view, backend, support, &self.config, &self.options))
    }

    /// Refuses a selector that cannot be evaluated, and under `strict` one that matches nothing.
    fn check_entry(&self, text: &str, bare: Bare, place: impl Fn() -> String) -> Result<(), DocumentError> {
        let Some(resolution) = self.resolver.resolved(text, bare) else { return Ok(()) };
        match &resolution.outcome {
            Err(source) => Err(DocumentError::Select { list: place(), source: source.clone() }),
            Ok(selected) if self.options.strict && resolution.nodes.is_empty() => {
                Err(DocumentError::NoMatch { list: place(), text: text.to_owned(), nearest: selected.nearest.clone() })
            }
            Ok(_) => Ok(()),
        }
    }
}

/// What can run accelerated: what the backend says; without one, everything that has a form that engines run.
fn support(model: &Arc<Model>, backend: Option<&Backend>, dims: &crate::expr::Bindings) -> Option<SupportMap> {
    match backend {
        Some(backend) => Some(support_map(model, backend, dims)),
        None => crate::lower::support(model),
    }
}

impl Derived {
    pub(super) fn new(
        model: &Arc<Model>,
        config: &PartitionConfig,
        options: &DocumentOptions,
        resolver: &mut Resolver,
    ) -> Result<Self, DocumentError> {
        model.check_sizes(&config.dims).map_err(DocumentError::Config)?;
        let marks = resolver.marks(config);
        let view = view(model, config, resolver)?;
        let backend = backend(model, config, options)?;
        let support = support(model, backend.as_deref(), &config.dims);
        Ok(Self::planned(marks, view, backend, support, config, options))
    }

    fn planned(
        marks: Marks,
        view: Arc<View>,
        backend: Option<Arc<Backend>>,
        support: Option<SupportMap>,
        config: &PartitionConfig,
        options: &DocumentOptions,
    ) -> Self {
        let asked = PlanOptions { partitioner: config.partitioner.clone(), strict_support: options.strict_support };
        let plan = Arc::new(plan(&view, &marks, support.as_ref(), &asked));
        let bytes_across = plan.crossing_bytes(&config.dims);
        Self { marks, view, backend, support, plan, bytes_across }
    }
}

/// The effective graph under the wraps of a config. A wrap that matches nothing has no place in it.
fn view(model: &Arc<Model>, config: &PartitionConfig, resolver: &mut Resolver) -> Result<Arc<View>, DocumentError> {
    let mut requests = Vec::new();
    for group in &config.wraps {
        for instance in &group.instances {
            let nodes: NodeSet = NodeSet::clone(&resolver.resolve(&instance.select, Bare::ByForm).nodes);
            if !nodes.is_empty() {
                let (id, definition, select) = (&*instance.id, &*group.definition, &*instance.select);
                requests.push(WrapRequest { id: id.into(), definition: definition.into(), select: select.into(), nodes });
            }
        }
    }
    Ok(Arc::new(View::new(model.clone(), &requests)?))
}

pub(super) fn compare(old: &Derived, new: &Derived, label: String) -> Change {
    let (a, b) = (&old.plan, &new.plan);
    let count = |p: &Plan, kind| p.partitions.iter().filter(|p| p.kind == kind).count();
    let nodes_replaced = if Arc::ptr_eq(a, b) {
        0
    } else if Arc::ptr_eq(&a.view, &b.view) {
        a.placement.iter().zip(&b.placement).filter(|(a, b)| a != b).count()
    } else {
        let nodes = a.view.model.graph.nodes().len().min(b.view.model.graph.nodes().len());
        (0..nodes).map(NodeId::new).filter(|&n| a.placement_of_node(n) != b.placement_of_node(n)).count()
    };
    let both = |kind| (count(a, kind), count(b, kind));
    Change {
        label,
        nodes_replaced,
        accelerated: both(Placement::Accelerated),
        torch: both(Placement::Torch),
        opaque: both(Placement::Opaque),
        bytes_across: (old.bytes_across, new.bytes_across),
    }
}

/// `file` as it is reached from `directory`; both as the process sees them. The bare name where the two have no common
/// root.
fn relative_to(file: &Path, directory: &Path) -> String {
    let absolute = |p: &Path| std::path::absolute(p).and_then(|p| p.canonicalize().or(Ok(p)));
    let name = || file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let (Ok(file), Ok(directory)) = (absolute(file), absolute(directory)) else { return name() };
    let common = file.components().zip(directory.components()).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return name();
    }
    let up = directory.components().skip(common).map(|_| "..".into());
    let down = file.components().skip(common).map(|c| c.as_os_str().to_string_lossy());
    // Forward slashes in the file, so that a config is the same on every system.
    up.chain(down).collect::<Vec<std::borrow::Cow<'_, str>>>().join("/")
}
