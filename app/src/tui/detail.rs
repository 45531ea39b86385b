//! What the detail pane says of the row under the cursor: made once when that row changes, not in every frame.

use recut_core::columns::{Entry, number_text};
use recut_core::diagnostic::printable;
use recut_core::graph::{NodeId, ValueId, ValueKind};
use recut_core::modules::ModuleId;
use recut_core::partition::{PartitionId, Placement};
use recut_core::report::inspect::attr_text;
use recut_core::trace::Frame;

use super::hit::Pane;
use super::lanes::RowKind;
use super::state::State;
use super::text::{bytes, count, flops, nanos, plural};
use crate::theme::Role;

/// What the pane is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A node.
    Node(NodeId),
    /// An opaque op.
    Wrap(usize),
    /// A module.
    Module(ModuleId),
    /// A partition.
    Partition(PartitionId),
    /// An input or output of the model.
    Value(ValueId),
    /// A problem.
    Problem(usize),
}

/// One line; long ones are broken when they are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Text with its meaning.
    pub spans: Vec<(Role, String)>,
    /// Cells by which its continuation is indented.
    pub indent: u16,
    /// A node that it names.
    pub node: Option<NodeId>,
}

/// Content of the pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// What it is about.
    pub subject: Option<Subject>,
    /// Title of the pane.
    pub title: String,
    /// Lines.
    pub lines: Vec<Line>,
    revision: u64,
}

/// Most inputs, outputs, attributes or nodes that are listed of one thing.
const MOST: usize = 24;

impl Detail {
    /// The content for `state`; `None` if what there is still holds.
    #[must_use]
    pub fn of(state: &State) -> Option<Self> {
        let subject = subject(state);
        let revision = state.revision << 3 | u64::from(state.profile.is_some()) << 1 | u64::from(state.costs.is_some());
        if state.detail.subject == subject && state.detail.revision == revision && subject.is_some() {
            return None;
        }
        let mut w = Writer { state, lines: Vec::new() };
        let title = match subject {
            Some(Subject::Node(n)) => w.node(n),
            Some(Subject::Wrap(i)) => w.wrap(i),
            Some(Subject::Module(m)) => w.module(m),
            Some(Subject::Partition(p)) => w.partition(p),
            Some(Subject::Value(v)) => w.value(v),
            Some(Subject::Problem(i)) => w.problem(i),
            None => "Node",
        };
        Some(Self { subject, title: title.to_owned(), lines: w.lines, revision })
    }
}

fn subject(state: &State) -> Option<Subject> {
    if state.main == super::state::MainView::Problems && state.focus != Pane::Tree {
        return Some(Subject::Problem(state.problem)).filter(|_| !state.problems.is_empty());
    }
    if state.focus == Pane::Tree {
        return Some(Subject::Module(state.tree.current()));
    }
    if let Some(w) = state.current_wrap() {
        return Some(Subject::Wrap(w));
    }
    match state.lanes.rows().get(state.cursor)?.kind {
        RowKind::Folded(m) => Some(Subject::Module(m)),
        RowKind::Rule(p) => Some(Subject::Partition(p)),
        RowKind::Unit(_) => state.current_node().map(Subject::Node),
        RowKind::Input(_) | RowKind::Output(_) => state.current_value().map(Subject::Value),
    }
}

/// Role of a placement.
#[must_use]
pub const fn placement_role(placement: Placement) -> Role {
    match placement {
        Placement::Accelerated => Role::Accelerated,
        Placement::Torch => Role::Torch,
        Placement::Opaque => Role::Opaque,
    }
}

/// Name of a placement.
#[must_use]
pub const fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::Accelerated => "accelerated",
        Placement::Torch => "torch",
        Placement::Opaque => "opaque",
    }
}

/// `f32[1,64,112,112]`.
#[must_use]
pub fn shape_text(state: &State, value: ValueId) -> String {
    let v = state.document.model().graph.value(value);
    let dtype = v.dtype.map_or_else(|| "?".to_owned(), |d| d.to_string());
    format!("{dtype}{}", v.shape)
}

struct Writer<'a> {
    state: &'a State,
    lines: Vec<Line>,
}

impl Writer<'_> {
    fn line(&mut self, spans: Vec<(Role, String)>) -> &mut Line {
        self.lines.push(Line { spans, indent: 2, node: None });
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    fn head(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.line(Vec::new());
        }
        self.line(vec![(Role::Title, text.to_owned())]);
    }

    fn fact(&mut self, name: &str, role: Role, text: impl Into<String>) {
        let indent = 10;
        let line = self.line(vec![(Role::TextDim, format!("{name:<9} ")), (role, text.into())]);
        line.indent = indent;
    }

    fn placement(&mut self, placement: Placement, partition: PartitionId) {
        let plan = self.state.lanes.plan();
        let name = plan.partitions.get(partition.index()).map_or_else(String::new, |p| p.name());
        let glyph = self.state.theme.glyphs.placement(placement);
        let role = placement_role(placement);
        self.line(vec![(role, format!("{glyph} {}", placement_name(placement))), (Role::TextDim, " in ".to_owned()), (Role::Text, name)]);
    }

    fn value_line(&mut self, label: &str, value: ValueId, node: Option<NodeId>) {
        let graph = &self.state.document.model().graph;
        let v = graph.value(value);
        let name = printable(&v.name).into_owned();
        let mut spans = vec![
            (Role::TextDim, format!("{label:<3} ")),
            (Role::Text, name),
            (Role::Shape, format!("  {}", shape_text(self.state, value))),
        ];
        if v.dtype.is_none() || v.shape.rank().is_none() {
            if let Some(why) = recut_core::infer::why_unknown(self.state.document.model(), value) {
                spans.push((Role::TextDim, format!("  {}", printable(&why))));
            }
        } else if let Some(b) = self.state.wiring.bytes(value) {
            spans.push((Role::TextDim, format!("  {}", bytes(b))));
        }
        if matches!(v.kind, ValueKind::Initializer(_)) {
            spans.push((Role::Gutter, "  stored".to_owned()));
        }
        let line = self.line(spans);
        line.node = node;
        line.indent = 4;
    }

    fn more(&mut self, all: usize) {
        if all > MOST {
            self.line(vec![(Role::TextDim, format!("    and {} more", all - MOST))]);
        }
    }

    fn node(&mut self, id: NodeId) -> &'static str {
        let model = self.state.document.model().clone();
        let graph = &model.graph;
        let node = graph.node(id);
        self.line(vec![
            (Role::Op, node.op.to_string()),
            (Role::TextDim, "  ".to_owned()),
            (Role::TextStrong, printable(graph.stable_id(id)).into_owned()),
        ]);
        let plan = self.state.lanes.plan().clone();
        self.placement(plan.placement_of_node(id), plan.partition_of_node(id));
        let module = model.modules.module(node.module);
        if node.module != ModuleId::ROOT {
            let call = node.call.filter(|&c| c > 0).map_or_else(String::new, |c| format!(" (call {c})"));
            self.fact("module", Role::Module, format!("{}{call}", printable(&module.path)));
        }
        if let Some(class) = &module.class {
            self.fact("class", Role::Module, printable(class));
        }
        if let Some(op) = &node.torch_op {
            self.fact("torch op", Role::Text, printable(op));
        }
        if let Some(trace) = &node.stack_trace {
            let Frame { place, code } = recut_core::trace::innermost(trace);
            self.fact("source", Role::Text, printable(&place));
            if let Some(code) = code {
                self.fact("", Role::TextDim, printable(&code));
            }
        }
        self.cost(id);
        self.columns(id);
        self.head("Why here");
        for step in self.state.document.explain(id) {
            let role = if step.decided { Role::Text } else { Role::TextDim };
            let sign = if step.decided { self.state.theme.glyphs.arrow } else { " " };
            self.line(vec![(Role::Key, format!("{sign} ")), (Role::TextDim, format!("{} ", step.step)), (role, step.text.clone())])
                .indent = 4;
        }
        self.head("Inputs");
        for (i, v) in node.inputs.iter().enumerate().take(MOST) {
            match v {
                Some(v) => self.value_line(&i.to_string(), *v, graph.producer(*v)),
                None => {
                    self.line(vec![(Role::TextDim, format!("{i:<3} left out"))]);
                }
            }
        }
        self.more(node.inputs.len());
        for &v in node.captures.iter().take(MOST) {
            self.value_line("in", v, graph.producer(v));
        }
        self.head("Outputs");
        for (i, v) in node.outputs.iter().enumerate().take(MOST) {
            if let Some(v) = v {
                let reader = graph.consumers(*v).first().copied();
                self.value_line(&i.to_string(), *v, reader);
            }
        }
        self.more(node.outputs.len());
        if !node.attrs.is_empty() {
            self.head("Attributes");
            for a in node.attrs.iter().take(MOST) {
                let value = printable(&attr_text(a)).into_owned();
                self.line(vec![(Role::TextDim, format!("{} ", printable(&a.name))), (Role::Text, value)]).indent = 4;
            }
            self.more(node.attrs.len());
        }
        for body in node.bodies.iter().take(MOST) {
            self.head(&format!("Body {}", printable(&body.attr)));
            self.line(vec![(Role::Text, plural(body.graph.nodes().len(), "node"))]);
            for n in body.graph.node_ids().take(MOST) {
                let name = printable(body.graph.stable_id(n)).into_owned();
                self.line(vec![(Role::Op, format!("  {} ", body.graph.node(n).op)), (Role::TextDim, name)]).indent = 4;
            }
            self.more(body.graph.nodes().len());
        }
        "Node"
    }

    fn cost(&mut self, id: NodeId) {
        if let Some(t) = self.state.time(id) {
            let all = self.state.profile.as_ref().map_or(0, |p| p.nodes_ns);
            let share = if all == 0 { 0.0 } else { 100.0 * t as f64 / all as f64 };
            let stale = if self.state.profile_stale { ", under an earlier plan" } else { "" };
            self.fact("time", Role::Time, format!("{}  {share:.1} %{stale}", nanos(t)));
        }
        let Some(costs) = self.state.costs.clone() else { return };
        if let Some(Some(f)) = costs.flops.get(id.index()) {
            self.fact("FLOPs", Role::Text, flops(*f));
        }
        if let Some(Some(b)) = costs.bytes.get(id.index()) {
            self.fact("bytes", Role::Text, bytes(*b));
        }
        if let Some(p) = costs.params.get(id.index()).filter(|p| **p > 0) {
            self.fact("params", Role::Text, count(*p));
        }
    }

    /// What the file's data columns say of a node.
    fn columns(&mut self, id: NodeId) {
        let model = self.state.document.model().clone();
        let mut entries = model.columns.iter().filter_map(|c| Some((c, c.get(id)?))).peekable();
        if entries.peek().is_none() {
            return;
        }
        self.head("Data");
        for (column, entry) in entries.by_ref().take(MOST) {
            let text = match entry {
                Entry::Number(x) => match &column.unit {
                    Some(unit) => format!("{} {}", number_text(x), printable(unit)),
                    None => number_text(x),
                },
                Entry::Text(t) => printable(t).into_owned(),
            };
            self.line(vec![(Role::TextDim, format!("{}  ", printable(&column.name))), (Role::Text, text)]).indent = 4;
        }
        let rest = entries.count();
        self.more(MOST + rest);
    }

    fn module(&mut self, id: ModuleId) -> &'static str {
        let model = self.state.document.model().clone();
        let module = model.modules.module(id);
        let name = if id == ModuleId::ROOT { "the whole model".to_owned() } else { printable(&module.path).into_owned() };
        self.line(vec![(Role::TextStrong, name)]);
        if let Some(class) = &module.class {
            self.fact("class", Role::Module, printable(class));
        }
        self.fact("nodes", Role::Text, format!("{} ({} of its own)", module.total_nodes, module.nodes.len()));
        if let Some((t, share)) = self.state.tree.time(id) {
            self.fact("time", Role::Time, format!("{}  {:.1} %", nanos(t), 100.0 * share));
        }
        self.head("Where it runs");
        let share = self.state.tree.share(id);
        for (n, p) in share.nodes.into_iter().zip([Placement::Accelerated, Placement::Torch, Placement::Opaque]) {
            if n > 0 {
                let glyph = self.state.theme.glyphs.placement(p);
                self.line(vec![
                    (placement_role(p), format!("{glyph} {:<12}", placement_name(p))),
                    (Role::Text, plural(n as usize, "node")),
                ]);
            }
        }
        let marks = self.state.document.config();
        let path = format!("module:{}", module.path);
        let named = |t: &String| **t == *module.path || **t == *path;
        if id != ModuleId::ROOT && marks.torch_executed_modules.iter().any(named) {
            self.line(vec![(Role::Torch, "marked: runs in torch".to_owned())]);
        }
        if id != ModuleId::ROOT && marks.leaf_modules.iter().any(named) {
            self.line(vec![(Role::Info, "marked: leaf, never split".to_owned())]);
        }
        if !module.children.is_empty() {
            self.head("Inside");
            for &c in module.children.iter().take(MOST) {
                let child = model.modules.module(c);
                let class = child.class.as_deref().map_or("", |c| c.rsplit('.').next().unwrap_or(c));
                self.line(vec![
                    (Role::Text, printable(child.name()).into_owned()),
                    (Role::Module, format!("  {}", printable(class))),
                    (Role::TextDim, format!("  {}", child.total_nodes)),
                ]);
            }
            self.more(module.children.len());
        }
        "Module"
    }

    fn partition(&mut self, id: PartitionId) -> &'static str {
        let plan = self.state.lanes.plan().clone();
        let Some(p) = plan.partitions.get(id.index()) else { return "Partition" };
        self.placement(p.kind, id);
        // Some partitions hold nearly the whole graph: nothing here may cost more than a glance at each node.
        let nodes = || plan.units(id).iter().flat_map(|&u| plan.view.nodes(u));
        self.fact("nodes", Role::Text, nodes().count().to_string());
        if let Some(profile) = &self.state.profile {
            let sum: u64 = nodes().filter_map(|n| profile.time(n)).fold(0, u64::saturating_add);
            self.fact("time", Role::Time, nanos(sum));
        }
        if let Some(costs) = self.state.costs.clone() {
            let sum = nodes().filter_map(|n| costs.flops.get(n.index()).copied().flatten()).fold(0, u64::saturating_add);
            self.fact("FLOPs", Role::Text, flops(sum));
        }
        let (lanes, wiring) = (&self.state.lanes, &self.state.wiring);
        let graph = &self.state.document.model().graph;
        let inputs = lanes.given(id);
        let outputs: Vec<u32> = nodes().flat_map(|n| wiring.writes(n)).copied().filter(|&v| lanes.leaves(v)).collect();
        self.head(&format!("In ({})", inputs.len()));
        for v in inputs.iter().take(MOST).map(|&v| ValueId(v)) {
            self.value_line("", v, graph.producer(v));
        }
        self.more(inputs.len());
        self.head(&format!("Out ({})", outputs.len()));
        for v in outputs.iter().take(MOST).map(|&v| ValueId(v)) {
            self.value_line("", v, graph.producer(v));
        }
        self.more(outputs.len());
        "Partition"
    }

    fn wrap(&mut self, index: usize) -> &'static str {
        let view = self.state.document.view().clone();
        let Some(w) = view.wraps().get(index) else { return "Opaque op" };
        self.line(vec![
            (Role::Opaque, printable(&w.definition).into_owned()),
            (Role::TextDim, "  ".to_owned()),
            (Role::TextStrong, printable(&w.id).into_owned()),
        ]);
        if let Some(&n) = w.nodes.first() {
            let plan = self.state.lanes.plan().clone();
            self.placement(plan.placement_of_node(n), plan.partition_of_node(n));
        }
        self.fact("nodes", Role::Text, format!("{} inside; Enter looks at them", w.nodes.len()));
        if let Some(profile) = &self.state.profile {
            self.fact("time", Role::Time, nanos(w.nodes.iter().filter_map(|n| profile.time(*n)).fold(0, u64::saturating_add)));
        }
        let graph = &view.model.graph;
        self.head("Inputs");
        for &v in w.inputs.iter().take(MOST) {
            self.value_line("", v, graph.producer(v));
        }
        self.more(w.inputs.len());
        self.head("Outputs");
        for &v in w.outputs.iter().take(MOST) {
            self.value_line("", v, graph.consumers(v).first().copied());
        }
        self.more(w.outputs.len());
        if !w.shared_weights.is_empty() {
            self.head("Weights that others use too (copied)");
            for &v in w.shared_weights.iter().take(MOST) {
                self.value_line("", v, None);
            }
            self.more(w.shared_weights.len());
        }
        "Opaque op"
    }

    fn value(&mut self, id: ValueId) -> &'static str {
        let graph = &self.state.document.model().graph;
        self.line(vec![(Role::TextStrong, printable(&graph.value(id).name).into_owned())]);
        self.fact("type", Role::Shape, shape_text(self.state, id));
        if let Some(b) = self.state.wiring.bytes(id) {
            self.fact("bytes", Role::Text, bytes(b));
        }
        if let Some(p) = graph.producer(id) {
            self.fact("made by", Role::Text, printable(graph.stable_id(p)));
        }
        let readers = graph.consumers(id);
        self.head(&format!("Readers ({})", readers.len()));
        for &n in readers.iter().take(MOST) {
            let op = graph.node(n).op.to_string();
            let name = printable(graph.stable_id(n)).into_owned();
            self.line(vec![(Role::Op, format!("{op} ")), (Role::Text, name)]).node = Some(n);
        }
        self.more(readers.len());
        if graph.inputs().contains(&id) { "Model input" } else { "Model output" }
    }

    fn problem(&mut self, index: usize) -> &'static str {
        let Some(p) = self.state.problems.get(index).cloned() else { return "Problem" };
        self.line(vec![(severity_role(p.severity), p.code.clone())]);
        self.line(vec![(Role::Text, printable_long(&p.message))]).indent = 0;
        if let Some(n) = &p.node {
            self.fact("node", Role::Text, printable(n));
        }
        if let Some(v) = &p.value {
            self.fact("value", Role::Text, printable(v));
        }
        "Problem"
    }
}

/// Role of a severity.
#[must_use]
pub const fn severity_role(severity: recut_core::diagnostic::Severity) -> Role {
    use recut_core::diagnostic::Severity;
    match severity {
        Severity::Info => Role::Info,
        Severity::Warning => Role::Warning,
        Severity::Error => Role::Error,
    }
}

fn printable_long(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { vec![' '] } else { vec![c] }).collect()
}
