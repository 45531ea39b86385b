//! Everything the app knows between two messages.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recut_core::diagnostic::Diagnostic;
use recut_core::document::{Change, Document};
use recut_core::graph::{NodeId, ValueId};
use recut_core::modules::ModuleId;
use recut_core::partition::{PartitionId, Placement};
use recut_core::select::NodeSet;
use recut_core::view::Unit;

use super::config_file::Content;
use super::costs::{Costs, parameters};
use super::detail::{Detail, severity_role};
use super::geometry::Geometry;
use super::hit::Pane;
use super::key::Key;
use super::keymap::Keymap;
use super::lanes::{Folds, Lanes, RowKind, Wiring};
use super::layers::Layer;
use super::msg::{Effect, JOB_KINDS, JobId, JobKind, JobRequest, Progress};
use super::overlay::ShownColumn;
use super::run_job::RunResult;
use super::tree::Tree;
use super::user_files::Recovered;
use crate::theme::{ConfigWarning, Role, Theme};

/// What fills the main pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainView {
    /// Lanes.
    Lanes,
    /// Problems.
    Problems,
}

/// What colours mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// Where it runs.
    Placement,
    /// Measured time.
    Time,
    /// Bytes read and written.
    Bytes,
    /// Floating-point operations.
    Flops,
    /// A data column of the model, by its position.
    Column(usize),
}

/// Nodes that a search or selector matches.
#[derive(Clone, Debug)]
pub struct Matches {
    /// What was typed.
    pub text: String,
    /// The nodes.
    pub nodes: NodeSet,
    /// How many.
    pub count: usize,
}

/// A line for the person, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How it is meant.
    pub role: Role,
    /// It.
    pub text: String,
}

/// A run that is under way.
#[derive(Clone, Debug, Default)]
pub struct Running {
    /// How far it is.
    pub progress: Progress,
}

/// Numbers of the plan, for the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanNumbers {
    /// Accelerated, torch and opaque partitions.
    pub partitions: [usize; 3],
    /// Bytes that partitions give each other, as far as they are known.
    pub across: u64,
    /// Whether some size is not known.
    pub open: bool,
}

/// Where the cursor of the lanes is, in terms that outlive a new layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// On a node.
    Node(NodeId),
    /// On the rule above a partition: its first node.
    Rule(NodeId),
    /// On an input.
    Input(u32),
    /// On an output.
    Output(u32),
}

/// What is known from the outside when the app starts.
#[derive(Debug)]
pub struct Setup {
    /// The model with its config.
    pub document: Document,
    /// Where the config is from.
    pub config_path: Option<PathBuf>,
    /// What that file held.
    pub config_content: Option<Content>,
    /// Where the recovery file of this session goes.
    pub recovery_path: Option<PathBuf>,
    /// What earlier sessions left unsaved.
    pub recovered: Vec<Recovered>,
    /// Problems of files around the model.
    pub outside: Vec<Diagnostic>,
    /// The first message.
    pub greeting: Option<String>,
    /// Look.
    pub theme: Theme,
    /// Keys.
    pub keymap: Keymap,
    /// Faults of theme and key files.
    pub warnings: Vec<ConfigWarning>,
    /// Size of the screen.
    pub size: (u16, u16),
}

impl Setup {
    /// A document by itself: no files around it, the keys as they come.
    #[must_use]
    pub fn of(document: Document, theme: Theme, size: (u16, u16)) -> Self {
        Self {
            document,
            config_path: None,
            config_content: None,
            recovery_path: None,
            recovered: Vec::new(),
            outside: Vec::new(),
            greeting: None,
            theme,
            keymap: Keymap::default(),
            warnings: Vec::new(),
            size,
        }
    }
}

/// The state.
#[derive(Debug)]
pub struct State {
    /// The model with its config.
    pub document: Document,
    /// Compact edges.
    pub wiring: Wiring,
    /// Layout of the lanes.
    pub lanes: Lanes,
    /// Folded modules.
    pub folds: Folds,
    /// The tree pane.
    pub tree: Tree,
    /// Row of the lanes under the cursor.
    pub cursor: usize,
    /// First row of the lanes on the screen.
    pub offset: usize,
    /// Pane that takes the keys.
    pub focus: Pane,
    /// What fills the main pane.
    pub main: MainView,
    /// Selected nodes.
    pub selection: NodeSet,
    /// Where a range began.
    pub range: Option<NodeId>,
    /// Matches of the last search or of a selector being typed.
    pub matches: Option<Matches>,
    /// Dialogs.
    pub layers: Vec<Layer>,
    /// Keys of a sequence that is not complete.
    pub pending: Vec<Key>,
    /// Keys.
    pub keymap: Keymap,
    /// Look.
    pub theme: Theme,
    /// Size of the screen.
    pub size: (u16, u16),
    /// Line for the person.
    pub notice: Option<Notice>,
    /// What the detail pane shows.
    pub detail: Detail,
    /// Lines scrolled in the detail pane.
    pub detail_offset: usize,
    /// Problems.
    pub problems: Vec<Diagnostic>,
    /// Problem under the cursor.
    pub problem: usize,
    /// First problem on the screen.
    pub problem_offset: usize,
    /// Costs, once they are computed.
    pub costs: Option<Arc<Costs>>,
    /// Stored elements of the model.
    pub params: u64,
    /// Numbers of the plan.
    pub numbers: PlanNumbers,
    /// What colours mean.
    pub heat: Heat,
    /// The data column that they mean, if they mean one.
    pub column: Option<ShownColumn>,
    /// Times of the last run.
    pub profile: Option<Box<RunResult>>,
    /// Longest time of a node in it.
    pub hottest: u64,
    /// Whether the plan changed since then.
    pub profile_stale: bool,
    /// A run that is under way.
    pub running: Option<Running>,
    /// Where the config is saved.
    pub config_path: PathBuf,
    /// Whether that file is the one that was opened or saved, so that saving may replace it.
    pub config_owned: bool,
    /// Ends after the next save.
    pub quit_after_save: bool,
    /// What the config file held when it was last read or written.
    pub config_seen: Option<Content>,
    /// Recovery file of this session.
    pub recovery_path: Option<PathBuf>,
    /// Problems of files around the model: they stay until they are gone.
    pub outside: Vec<Diagnostic>,
    /// Messages so far, the newest last.
    pub messages: VecDeque<Notice>,
    /// Where a search that is being typed began.
    pub search: Option<Box<SearchOrigin>>,
    /// Nodes that were left by a jump, and the place in them.
    pub trail: Vec<NodeId>,
    /// Position in the trail.
    pub trail_at: usize,
    /// The last jump along an edge, so that another goes to the next one.
    pub hop: Option<(NodeId, bool, usize)>,
    /// Counts changes of plan, layout and measurements, so that caches know.
    pub revision: u64,
    /// Faults of theme and key files.
    pub warnings: Vec<ConfigWarning>,
    generations: [u64; JOB_KINDS],
}

/// Rows that a large model starts with.
const INITIAL_ROWS: u32 = 4000;

impl State {
    /// The state at start, and what is to be done first.
    #[must_use]
    pub fn new(setup: Setup) -> (Self, Vec<Effect>) {
        let Setup { document, config_path, config_content, recovery_path, recovered, outside, greeting, theme, keymap, warnings, size } =
            setup;
        let model = document.model().clone();
        let wiring = Wiring::new(&model, &document.config().dims);
        let folds = Folds::initial(&model.modules, INITIAL_ROWS);
        let lanes = Lanes::new(&wiring, document.plan().clone(), &folds);
        let tree = Tree::new(&model.modules);
        let owned = config_path.is_some();
        let mut state = Self {
            selection: NodeSet::empty(model.graph.nodes().len()),
            params: parameters(&model),
            config_path: config_path.unwrap_or_else(|| default_config_path(&model.path)),
            config_owned: owned,
            document,
            wiring,
            lanes,
            folds,
            tree,
            cursor: 0,
            offset: 0,
            focus: Pane::Main,
            main: MainView::Lanes,
            range: None,
            matches: None,
            layers: Vec::new(),
            pending: Vec::new(),
            keymap,
            theme,
            size,
            notice: None,
            detail: Detail::default(),
            detail_offset: 0,
            problems: Vec::new(),
            problem: 0,
            problem_offset: 0,
            costs: None,
            numbers: PlanNumbers::default(),
            heat: Heat::Placement,
            column: None,
            profile: None,
            hottest: 0,
            profile_stale: false,
            running: None,
            quit_after_save: false,
            config_seen: config_content,
            recovery_path,
            outside,
            messages: VecDeque::new(),
            search: None,
            trail: Vec::new(),
            trail_at: 0,
            hop: None,
            revision: 0,
            warnings,
            generations: [0; JOB_KINDS],
        };
        state.laid_out();
        state.cursor = state.lanes.rows().iter().position(|r| matches!(r.kind, RowKind::Unit(_) | RowKind::Folded(_))).unwrap_or(0);
        if let Some(text) = greeting {
            state.note(Role::Info, text);
        }
        if let Some(d) = state.outside.first().cloned() {
            state.note(severity_role(d.severity), d.message);
        }
        if let Some(w) = state.warnings.first().map(ToString::to_string) {
            state.note(Role::Warning, w);
        }
        for r in recovered {
            state.layers.push(super::update::recovery_question(r));
        }
        let mut effects = Vec::new();
        state.start_costs(&mut effects);
        state.settle();
        (state, effects)
    }

    /// The geometry of the screen.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.size, self.focus)
    }

    /// Next generation of a kind of job.
    pub(super) fn job(&mut self, kind: JobKind) -> JobId {
        let generation = self.generations.get_mut(kind as usize).map_or(0, |g| {
            *g += 1;
            *g
        });
        JobId { kind, generation }
    }

    /// Whether news of a job still count.
    #[must_use]
    pub fn is_current(&self, id: JobId) -> bool {
        self.generations.get(id.kind as usize) == Some(&id.generation)
    }

    pub(super) fn start(&mut self, kind: JobKind, request: JobRequest, effects: &mut Vec<Effect>) {
        let id = self.job(kind);
        effects.push(Effect::Start(id, request));
    }

    pub(super) fn start_costs(&mut self, effects: &mut Vec<Effect>) {
        let request = JobRequest::Costs { model: self.document.model().clone(), dims: self.document.config().dims.clone() };
        self.start(JobKind::Costs, request, effects);
    }

    pub(super) fn note(&mut self, role: Role, text: impl Into<String>) {
        let notice = Notice { role, text: text.into() };
        if self.messages.len() >= MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back(notice.clone());
        self.notice = Some(notice);
    }

    /// Problems of the document and of the files around it.
    pub(super) fn refresh_problems(&mut self) {
        self.problems = self.outside.iter().cloned().chain(self.document.problems()).collect();
        self.problem = self.problem.min(self.problems.len().saturating_sub(1));
        self.revision += 1;
    }

    /// Replaces all problems of files with this code.
    pub(super) fn set_outside(&mut self, code: &str, new: Vec<Diagnostic>) {
        self.outside.retain(|d| d.code != code);
        self.outside.extend(new);
        self.refresh_problems();
    }

    /// Takes over a plan that changed: layout, tree, numbers, problems.
    pub(super) fn replanned(&mut self) {
        let anchor = self.anchor();
        self.lanes.renew(&self.wiring, self.document.plan().clone(), &self.folds);
        self.laid_out();
        self.restore(anchor);
    }

    /// What follows from a layout of another plan.
    fn laid_out(&mut self) {
        self.revision += 1;
        let plan = self.document.plan().clone();
        self.tree.count(&self.wiring, &plan);
        let mut numbers = PlanNumbers::default();
        for (i, p) in plan.partitions.iter().enumerate() {
            let [acc, torch, opaque] = &mut numbers.partitions;
            *match p.kind {
                Placement::Accelerated => acc,
                Placement::Torch => torch,
                Placement::Opaque => opaque,
            } += 1;
            let t = self.lanes.transfer(PartitionId::new(i));
            numbers.across = numbers.across.saturating_add(t.bytes);
            numbers.open |= t.open;
        }
        self.numbers = numbers;
        self.refresh_problems();
        self.profile_stale = self.profile.is_some();
    }

    /// Lays the same plan out again, after folding.
    pub(super) fn refold(&mut self) {
        let anchor = self.anchor();
        self.lanes.renew(&self.wiring, self.document.plan().clone(), &self.folds);
        self.restore(anchor);
        self.revision += 1;
    }

    /// The model is another one: everything that holds ids starts again, what holds names stays.
    pub(super) fn remodelled(&mut self, here: Option<String>, effects: &mut Vec<Effect>) {
        let model = self.document.model().clone();
        // The same column stays on the screen, wherever it stands now.
        if let Some(column) = self.column.take()
            && !self.show_column(&column.name)
        {
            self.show_beside(Heat::Placement);
        }
        self.wiring = Wiring::new(&model, &self.document.config().dims);
        self.folds = Folds::initial(&model.modules, INITIAL_ROWS);
        self.tree = Tree::new(&model.modules);
        self.lanes = Lanes::new(&self.wiring, self.document.plan().clone(), &self.folds);
        self.selection = NodeSet::empty(model.graph.nodes().len());
        self.params = parameters(&model);
        (self.range, self.matches, self.costs, self.profile, self.hop) = (None, None, None, None, None);
        self.search = None;
        (self.trail, self.trail_at, self.cursor, self.offset) = (Vec::new(), 0, 0, 0);
        self.laid_out();
        if let Some(node) = here.and_then(|id| model.graph.find_node(&id)) {
            self.show(node);
        }
        self.start_costs(effects);
    }

    fn anchor(&self) -> Option<Anchor> {
        let row = self.lanes.rows().get(self.cursor)?;
        Some(match row.kind {
            RowKind::Input(i) => Anchor::Input(i),
            RowKind::Output(i) => Anchor::Output(i),
            RowKind::Rule(p) => {
                let plan = self.lanes.plan();
                Anchor::Rule(plan.view.nodes(*plan.units(p).first()?).next()?)
            }
            RowKind::Unit(_) | RowKind::Folded(_) => Anchor::Node(self.lanes.nodes(row).next()?),
        })
    }

    fn restore(&mut self, anchor: Option<Anchor>) {
        let on_screen = self.cursor.saturating_sub(self.offset);
        let rows = self.lanes.rows();
        let row = match anchor {
            Some(Anchor::Node(n)) => self.lanes.row_of_node(n),
            Some(Anchor::Rule(n)) => self.lanes.row_of_partition(self.lanes.plan().partition_of_node(n)),
            Some(Anchor::Input(i)) => Some(i as usize),
            Some(Anchor::Output(i)) => rows.iter().rposition(|r| r.kind == RowKind::Output(i)),
            None => None,
        };
        self.cursor = row.unwrap_or(self.cursor).min(rows.len().saturating_sub(1));
        // The row stays where the eye is.
        self.offset = self.cursor.saturating_sub(on_screen);
    }

    /// Nodes of the row under the cursor of the lanes.
    #[must_use]
    pub fn row_nodes(&self) -> Vec<NodeId> {
        match self.lanes.rows().get(self.cursor) {
            Some(row) => match row.kind {
                RowKind::Rule(p) => self.lanes.plan().nodes(p),
                _ => self.lanes.nodes(row).collect(),
            },
            None => Vec::new(),
        }
    }

    /// The first node of the row under the cursor of the lanes.
    #[must_use]
    pub fn current_node(&self) -> Option<NodeId> {
        match self.anchor()? {
            Anchor::Node(n) | Anchor::Rule(n) => Some(n),
            Anchor::Input(_) | Anchor::Output(_) => None,
        }
    }

    /// The value of the row under the cursor, where that is an input or output of the model.
    #[must_use]
    pub fn current_value(&self) -> Option<ValueId> {
        let graph = &self.document.model().graph;
        match self.anchor()? {
            Anchor::Input(i) => graph.inputs().get(i as usize).copied(),
            Anchor::Output(i) => graph.outputs().get(i as usize).copied(),
            _ => None,
        }
    }

    /// The module under the cursor: of the tree if it takes the keys, else that of the row where it is a folded one.
    #[must_use]
    pub fn current_module(&self) -> Option<ModuleId> {
        if self.focus == Pane::Tree {
            return Some(self.tree.current());
        }
        match self.lanes.rows().get(self.cursor)?.kind {
            RowKind::Folded(m) => Some(m),
            _ => None,
        }
    }

    /// The opaque op under the cursor: index into the view's wraps.
    #[must_use]
    pub fn current_wrap(&self) -> Option<usize> {
        let RowKind::Unit(u) = self.lanes.rows().get(self.cursor)?.kind else { return None };
        match self.document.view().unit(u) {
            Unit::Wrap(w) => Some(w as usize),
            Unit::Node(_) => None,
        }
    }

    /// Moves the cursor of the lanes to a node; a folded module around it is unfolded.
    pub(super) fn show(&mut self, node: NodeId) {
        let model = self.document.model().clone();
        let module = ModuleId(self.wiring.module(node));
        if self.folds.outermost(&model.modules, module).is_some() {
            self.folds.reveal(&model.modules, module);
            self.refold();
        }
        if let Some(row) = self.lanes.row_of_node(node) {
            self.cursor = row;
        }
        self.main = MainView::Lanes;
    }

    /// Moves to a node and remembers where the jump began.
    pub(super) fn jump(&mut self, node: NodeId) {
        if let Some(here) = self.current_node().filter(|h| *h != node) {
            self.trail.truncate(self.trail_at);
            self.trail.push(here);
            self.trail_at = self.trail.len();
        }
        self.show(node);
    }

    /// Whether there is a measured time of this plan or an earlier one.
    #[must_use]
    pub fn time(&self, node: NodeId) -> Option<u64> {
        self.profile.as_ref()?.time(node)
    }

    /// Keeps cursors on the screen and what is cached true. Called after every message.
    pub(super) fn settle(&mut self) {
        let g = self.geometry();
        scroll(&mut self.offset, self.cursor, self.lanes.rows().len(), g.lanes_rows(), 3);
        let tree_rows = self.tree.rows().len();
        scroll(&mut self.tree.offset, self.tree.cursor, tree_rows, g.tree_rows(), 2);
        scroll(&mut self.problem_offset, self.problem, self.problems.len(), g.lanes_rows(), 1);
        let detail = Detail::of(self);
        if let Some(detail) = detail {
            if detail.subject != self.detail.subject {
                self.detail_offset = 0;
            }
            self.detail = detail;
        }
        self.detail_offset = self.detail_offset.min(self.detail.lines.len().saturating_sub(1));
    }

    /// What a change says on the status line.
    #[must_use]
    pub fn tell(&self, change: &Change) -> String {
        format!("{}: {}", recut_core::diagnostic::printable(&change.label), self.effect(change))
    }

    /// What a change did to the plan.
    #[must_use]
    pub fn effect(&self, change: &Change) -> String {
        let minus = self.theme.glyphs.minus;
        let mut parts = Vec::new();
        let delta = |(a, b): (usize, usize), what: &str| {
            let n = a.abs_diff(b);
            let sign = if b < a { minus } else { "+" };
            (n > 0).then(|| format!("{sign}{n} {what} partition{}", if n == 1 { "" } else { "s" }))
        };
        parts.extend(delta(change.accelerated, "accelerated"));
        parts.extend(delta(change.torch, "torch"));
        parts.extend(delta(change.opaque, "opaque"));
        if let (Some(a), Some(b)) = change.bytes_across
            && a != b
        {
            parts.push(format!("{} across", super::text::bytes_difference(a, b, minus)));
        }
        if parts.is_empty() {
            parts.push(match change.nodes_replaced {
                0 => "no node moved".to_owned(),
                n => format!("{} moved, same partitions", super::text::plural(n, "node")),
            });
        }
        parts.join(", ")
    }

    /// The node of the row under the cursor, where that is the row of one node.
    #[must_use]
    pub fn single_node(&self) -> Option<NodeId> {
        let row = self.lanes.rows().get(self.cursor).filter(|_| self.focus != Pane::Tree)?;
        matches!(row.kind, RowKind::Unit(_)).then(|| self.current_node()).flatten()
    }

    /// What a partition is called where there is room for a word: an opaque one by the name a person gave it.
    #[must_use]
    pub fn partition_label(&self, id: PartitionId) -> String {
        let plan = self.lanes.plan();
        let Some(p) = plan.partitions.get(id.index()) else { return String::new() };
        if let Some(name) = self.partition_wrap(id) {
            return name;
        }
        let name = p.name();
        name.strip_prefix("run_on_").unwrap_or(&name).to_owned()
    }

    /// The name of the opaque op that a partition is.
    #[must_use]
    pub fn partition_wrap(&self, id: PartitionId) -> Option<String> {
        let plan = self.lanes.plan();
        match plan.view.unit(*plan.units(id).first()?) {
            Unit::Wrap(w) => plan.view.wraps().get(w as usize).map(|w| recut_core::diagnostic::printable(&w.definition).into_owned()),
            Unit::Node(_) => None,
        }
    }

    /// Goes back to where a search began: cursor, scroll and folds.
    pub(super) fn leave_search(&mut self) {
        let Some(origin) = self.search.take() else { return };
        if origin.folds != self.folds {
            self.folds = origin.folds;
            self.refold();
        }
        (self.cursor, self.offset, self.main, self.focus) = (origin.cursor, origin.offset, origin.main, origin.focus);
    }

    /// Remembers where a search begins.
    pub(super) fn begin_search(&mut self) {
        let (cursor, offset, main, focus) = (self.cursor, self.offset, self.main, self.focus);
        self.search = Some(Box::new(SearchOrigin { cursor, offset, main, focus, folds: self.folds.clone(), entered: None }));
    }
}

/// Messages that are kept.
const MESSAGES: usize = 100;

/// Where a search began.
#[derive(Clone, Debug)]
pub struct SearchOrigin {
    /// Row under the cursor.
    pub cursor: usize,
    /// First row on the screen.
    pub offset: usize,
    /// What filled the main pane.
    pub main: MainView,
    /// The pane that took the keys.
    pub focus: Pane,
    /// Folded modules.
    pub folds: Folds,
    /// What was searched for, if Enter was pressed before it was found.
    pub entered: Option<String>,
}

/// Scrolls as little as needed so that `cursor` shows with `margin` rows around it.
fn scroll(offset: &mut usize, cursor: usize, rows: usize, height: usize, margin: usize) {
    let margin = margin.min(height.saturating_sub(1) / 2);
    let lowest = (cursor + margin + 1).saturating_sub(height);
    let highest = cursor.saturating_sub(margin);
    *offset = (*offset).clamp(lowest.min(highest), highest).min(rows.saturating_sub(height));
}

/// `MODEL-stem.recut.json` beside the model.
#[must_use]
pub fn default_config_path(model: &Path) -> PathBuf {
    let stem = model.file_stem().map_or_else(|| "model".into(), |s| s.to_string_lossy().into_owned());
    model.with_file_name(format!("{stem}.recut.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_keeps_the_cursor_in_view_and_moves_little() {
        for rows in [0usize, 1, 5, 40, 1000] {
            for height in [0usize, 1, 5, 30] {
                let mut offset = 17;
                for cursor in (0..rows).chain((0..rows).rev()) {
                    scroll(&mut offset, cursor, rows, height, 3);
                    assert!(offset <= cursor && (height == 0 || cursor < offset + height), "{rows} {height} {cursor} {offset}");
                }
            }
        }
    }
}
