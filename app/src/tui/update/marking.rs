//! Marks, wraps and options: every one is an edit of the document, and the plan is new in the same frame.

use recut_core::config::Strategy;
use recut_core::diagnostic::printable;
use recut_core::document::{Clear, DocumentError, Edit, MarkList, Patch};
use recut_core::graph::NodeId;
use recut_core::modules::ModuleId;
use recut_core::select::{
    NodeSet, SelectContext, SelectError, Selector, closed_selector, selector_for_class, selector_for_module, selector_for_node,
    selector_for_op, selector_for_range,
};
use recut_core::view::WrapError;

use super::super::action::Action;
use super::super::hit::Pane;
use super::super::lanes::RowKind;
use super::super::layers::{Ask, AskFor, Choice, Command, Item, Layer};
use super::super::msg::{Effect, JobKind, JobRequest};
use super::super::state::State;
use super::super::text::plural;
use crate::theme::Role;

pub(super) fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::Torch => toggle(state, MarkList::TorchNodes, effects),
        Action::Accelerate => toggle(state, MarkList::AcceleratedNodes, effects),
        Action::TorchChoose => choose_torch(state),
        Action::Clear => clear(state, effects),
        Action::Leaf => leaf(state, effects),
        Action::Wrap => wrap(state),
        Action::Unwrap => match state.current_wrap().and_then(|w| state.document.view().wraps().get(w).map(|w| w.id.to_string())) {
            Some(id) => perform(state, Command::Unwrap(id), effects),
            None => state.note(Role::TextDim, "no opaque op under the cursor"),
        },
        Action::Select => select(state),
        Action::Range => range(state),
        Action::Backend => choose_backend(state),
        Action::Partitioner => choose_partitioner(state),
        Action::Undo => {
            let change = state.document.undo();
            told(state, change.map(|c| ("undone ", c)), "nothing to take back", effects);
        }
        Action::Redo => {
            let change = state.document.redo();
            told(state, change.map(|c| ("again ", c)), "nothing was taken back", effects);
        }
        _ => {}
    }
}

fn told(state: &mut State, change: Option<(&str, recut_core::document::Change)>, none: &str, effects: &mut Vec<Effect>) {
    match change {
        Some((verb, change)) => {
            changed(state, effects);
            let text = state.tell(&change);
            state.note(Role::Success, format!("{verb}{text}"));
        }
        None => state.note(Role::TextDim, none),
    }
}

/// Everything that follows from a new config.
fn changed(state: &mut State, effects: &mut Vec<Effect>) {
    state.replanned();
    if let Some(path) = state.recovery_path.clone() {
        let text = state.document.is_dirty().then(|| super::files::recovery_text(state)).flatten();
        state.start(JobKind::Recovery, JobRequest::Recovery { path, text }, effects);
    }
}

/// Applies an edit; says what it did or why it cannot be.
pub(super) fn apply(state: &mut State, edit: Edit, effects: &mut Vec<Effect>) -> bool {
    if edit.patches.is_empty() {
        state.note(Role::TextDim, "that is so already");
        return false;
    }
    let dims = edit.patches.iter().any(|p| matches!(p, Patch::Dim { .. }));
    match state.document.apply(edit) {
        Ok(change) => {
            if dims {
                let model = state.document.model().clone();
                state.wiring.set_dims(&model, &state.document.config().dims);
                state.start_costs(effects);
            }
            changed(state, effects);
            let text = state.tell(&change);
            state.note(Role::Success, text);
            true
        }
        Err(e) => {
            state.note(Role::Error, e.to_string());
            false
        }
    }
}

pub(super) fn perform(state: &mut State, command: Command, effects: &mut Vec<Effect>) {
    let config = state.document.config();
    let edit = match command {
        Command::Edit(edit) => Ok(edit),
        Command::Torch(text) => return mark_typed(state, selector_list(&text), &text, effects),
        Command::Accelerate(text) => return mark_typed(state, MarkList::AcceleratedNodes, &text, effects),
        Command::Leaf(text) => return mark_typed(state, MarkList::LeafModules, &text, effects),
        Command::Wrap { name, select } => return wrap_as(state, &name, &select, effects),
        Command::Unwrap(id) => match Edit::unwrap(config, &id) {
            Some(edit) => Ok(edit),
            None => return state.note(Role::Error, format!("there is no opaque op `{}`", printable(&id))),
        },
        Command::Backend(to) => Ok(Edit::set_backend(config, to.as_deref())),
        Command::Strategy(strategy) => {
            let mut to = config.partitioner.clone();
            to.strategy = strategy;
            Ok(Edit::set_partitioner(config, to))
        }
        Command::MinBlockSize(n) => {
            let mut to = config.partitioner.clone();
            to.min_block_size = n;
            Ok(Edit::set_partitioner(config, to))
        }
        Command::Dim(name, to) => Ok(Edit::set_dim(config, &name, to)),
        _ => return,
    };
    apply_or_say(state, edit, effects);
}

/// Marks what a typed selector matches. One that matches nothing is a slip of the fingers: the nearest names are said.
fn mark_typed(state: &mut State, list: MarkList, text: &str, effects: &mut Vec<Effect>) {
    let selected = Selector::parse(text, list.bare()).and_then(|s| s.eval(state.document.index(), &SelectContext::default()));
    match selected {
        Ok(s) if s.nodes.is_empty() => {
            let near: Vec<String> = s.nearest.iter().map(|n| printable(n).into_owned()).collect();
            let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
            state.note(Role::Warning, format!("`{}` matches nothing, nothing was marked{near}", printable(text)));
        }
        _ => {
            let edit = Edit::mark(state.document.config(), list, &[text]);
            apply_or_say(state, edit, effects);
        }
    }
}

/// Applies an edit that could be made; says why it could not.
fn apply_or_say(state: &mut State, edit: Result<Edit, SelectError>, effects: &mut Vec<Effect>) -> bool {
    match edit {
        Ok(edit) => apply(state, edit, effects),
        Err(e) => {
            state.note(Role::Error, e.to_string());
            false
        }
    }
}

/// The list that a typed selector belongs into.
fn selector_list(text: &str) -> MarkList {
    match text.split_once(':').map(|(p, _)| p) {
        Some("module" | "class") => MarkList::TorchModules,
        Some("node" | "value") => MarkList::TorchNodes,
        _ => MarkList::TorchOps,
    }
}

fn selectors(state: &State, nodes: &[NodeId]) -> Vec<String> {
    let model = state.document.model();
    nodes.iter().map(|n| selector_for_node(model, *n)).collect()
}

fn toggled(state: &State, list: MarkList, texts: &[String]) -> Result<Edit, SelectError> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Edit::toggle(state.document.config(), list, &texts)
}

/// Selection, or what is under the cursor. Inputs and outputs of the model and borders are no nodes.
fn subjects(state: &State) -> Vec<NodeId> {
    if !state.selection.is_empty() {
        return state.selection.iter().collect();
    }
    match state.lanes.rows().get(state.cursor).map(|r| r.kind) {
        Some(RowKind::Rule(_)) => Vec::new(),
        _ => state.row_nodes(),
    }
}

fn toggle(state: &mut State, list: MarkList, effects: &mut Vec<Effect>) {
    // A module is marked as a module, so that the mark still holds when the model is exported again.
    if let Some(module) = state.current_module().filter(|m| *m != ModuleId::ROOT && state.selection.is_empty()) {
        let text = selector_for_module(state.document.model(), module);
        // Pins are a list of nodes: a module stands there with its prefix.
        let list = if list == MarkList::TorchNodes { MarkList::TorchModules } else { list };
        let edit = toggled(state, list, &[text]);
        apply_or_say(state, edit, effects);
        return;
    }
    let nodes = subjects(state);
    if nodes.is_empty() {
        return state.note(Role::TextDim, "inputs, outputs and borders are no nodes; move to one");
    }
    if state.current_wrap().is_some() && state.selection.is_empty() {
        return state.note(Role::TextDim, "an opaque op runs its own body; W takes it apart");
    }
    let edit = toggled(state, list, &selectors(state, &nodes));
    if apply_or_say(state, edit, effects) && !state.selection.is_empty() {
        state.selection = NodeSet::empty(state.selection.universe());
    }
}

/// The module that a key is about: that of the tree, of the folded row, or of the node.
fn module_here(state: &State) -> Option<ModuleId> {
    state.current_module().or_else(|| state.current_node().map(|n| ModuleId(state.wiring.module(n)))).filter(|m| *m != ModuleId::ROOT)
}

fn choose_torch(state: &mut State) {
    let model = state.document.model().clone();
    let mut items = Vec::new();
    let entry = |list: MarkList, text: &str, label: String, detail: String, key| {
        let edit = Edit::toggle(state.document.config(), list, &[text]).ok()?;
        let off = edit.patches.iter().all(|p| matches!(p, Patch::Remove { .. }));
        let label = if off { format!("no longer: {label}") } else { label };
        Some(Item::new(label, detail, Command::Edit(edit)).key(key))
    };
    // A folded row, or a border, is not about the first of its nodes.
    let node = state.single_node().filter(|_| state.current_wrap().is_none());
    if let Some(n) = node {
        let id = model.graph.stable_id(n);
        items.extend(entry(
            MarkList::TorchNodes,
            &selector_for_node(&model, n),
            format!("This node  {}", printable(id)),
            String::new(),
            'n',
        ));
    }
    if let Some(m) = module_here(state) {
        for (i, a) in model.modules.ancestors(m).filter(|a| *a != ModuleId::ROOT).take(4).enumerate() {
            let module = model.modules.module(a);
            let path = printable(&module.path).into_owned();
            let key = char::from_digit(i as u32 + 1, 10).unwrap_or('1');
            let key = if i == 0 { 'm' } else { key };
            let count = plural(module.total_nodes as usize, "node");
            items.extend(entry(MarkList::TorchModules, &selector_for_module(&model, a), format!("Module  {path}"), count, key));
        }
        if let Some(class) = &model.modules.module(m).class {
            let instances = model.modules.modules().iter().filter(|x| x.class.as_ref() == Some(class));
            let (n, nodes) = instances.fold((0, 0), |(n, t), x| (n + 1, t + x.total_nodes as usize));
            let name = printable(class).into_owned();
            let count = format!("{}, {}", plural(n, "instance"), plural(nodes, "node"));
            items.extend(entry(MarkList::TorchModules, &selector_for_class(class), format!("Every  {name}"), count, 'c'));
        }
    }
    if let Some(n) = node {
        let op = &model.graph.node(n).op;
        let count = model.graph.nodes().iter().filter(|x| x.op == *op).count();
        items.extend(entry(
            MarkList::TorchOps,
            &selector_for_op(op),
            format!("Every op  {}", printable(&op.to_string())),
            plural(count, "node"),
            'o',
        ));
    }
    if items.is_empty() {
        state.note(Role::TextDim, "nothing to mark under the cursor");
        return;
    }
    state.layers.push(Layer::Choice(Choice { title: "Run in torch".to_owned(), body: Vec::new(), items, cursor: 0 }));
}

fn clear(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(id) = state.current_wrap().and_then(|w| state.document.view().wraps().get(w).map(|w| w.id.to_string())) {
        return perform(state, Command::Unwrap(id), effects);
    }
    let nodes = match state.current_module().filter(|_| state.focus == Pane::Tree) {
        Some(m) => module_nodes(state, m),
        None => subjects(state),
    };
    if nodes.is_empty() {
        return state.note(Role::TextDim, "inputs, outputs and borders are no nodes; move to one");
    }
    let entries = match Edit::clear(&state.document, &nodes) {
        Clear::Nothing => return state.note(Role::TextDim, "no mark places this; Why here says what does"),
        Clear::Edit(edit) => {
            apply(state, edit, effects);
            state.selection = NodeSet::empty(state.selection.universe());
            return;
        }
        Clear::Choose(entries) => entries,
    };
    let config = state.document.config();
    let mut items: Vec<Item> = entries
        .iter()
        .map(|e| {
            let detail = format!("from {}; it matches {}", e.list.name(), plural(e.nodes, "node"));
            let edit = Edit::remove_entries(config, &[(e.list, e.index)]);
            Item::new(format!("Remove  {}", printable(&e.text)), detail, Command::Edit(edit))
        })
        .collect();
    let texts = selectors(state, &nodes);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    if let Ok(edit) = Edit::mark(config, MarkList::AcceleratedNodes, &texts) {
        items.push(Item::new("Keep the rule, pin to the accelerator", plural(nodes.len(), "node"), Command::Edit(edit)).key('a'));
    }
    state.layers.push(Layer::Choice(Choice {
        title: "Clear which mark?".to_owned(),
        body: vec!["The mark comes from a rule that reaches other nodes too.".to_owned()],
        items,
        cursor: 0,
    }));
}

fn module_nodes(state: &State, module: ModuleId) -> Vec<NodeId> {
    let modules = &state.document.model().modules;
    let mut stack = vec![module];
    let mut nodes = Vec::new();
    while let Some(m) = stack.pop() {
        let m = modules.module(m);
        nodes.extend_from_slice(&m.nodes);
        stack.extend(&m.children);
    }
    nodes
}

fn leaf(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(m) = module_here(state) else {
        state.note(Role::TextDim, "no module under the cursor");
        return;
    };
    let edit = toggled(state, MarkList::LeafModules, &[selector_for_module(state.document.model(), m)]);
    apply_or_say(state, edit, effects);
}

fn wrap(state: &mut State) {
    let model = state.document.model().clone();
    let graph = &model.graph;
    let (select, what, name) = if !state.selection.is_empty() {
        let nodes: Vec<NodeId> = state.selection.iter().collect();
        let select = selectors(state, &nodes).join(" or ");
        (select, plural(nodes.len(), "selected node"), "region".to_owned())
    } else if let (Some(a), Some(b)) = (state.range, state.single_node()) {
        let select = selector_for_range(&model, a.min(b), a.max(b));
        (select, "everything between the two nodes".to_owned(), "region".to_owned())
    } else if let Some(m) = state.current_module().filter(|m| *m != ModuleId::ROOT) {
        let module = model.modules.module(m);
        (selector_for_module(&model, m), format!("module {}", module.path), crate::wrap_name::suggest(&module.path))
    } else if let Some(n) = state.current_node().filter(|_| state.current_wrap().is_none() && state.focus != Pane::Tree) {
        if matches!(state.lanes.rows().get(state.cursor).map(|r| r.kind), Some(RowKind::Rule(_))) {
            return state.note(Role::TextDim, "select nodes or a module to wrap");
        }
        let id = graph.stable_id(n);
        (selector_for_node(&model, n), format!("node {id}"), crate::wrap_name::suggest(&graph.node(n).op.name.to_lowercase()))
    } else {
        return state.note(Role::TextDim, "select nodes or a module to wrap");
    };
    let body = vec![
        format!("Makes {} one opaque op with several inputs and outputs.", printable(&what)),
        format!("Its name ({}); ops of the same name share a definition.", crate::wrap_name::RULE),
    ];
    super::ask(state, "Wrap as custom op", AskFor::Wrap, body, &name, &select);
}

/// Why a name cannot name an opaque op, and one that can.
pub(super) fn bad_name(name: &str) -> String {
    format!("`{}` cannot name an op: it has to be {}, e.g. {}", printable(name), crate::wrap_name::RULE, crate::wrap_name::suggest(name))
}

fn wrap_as(state: &mut State, name: &str, select: &str, effects: &mut Vec<Effect>) {
    if !crate::wrap_name::is_valid(name) {
        return state.note(Role::Error, bad_name(name));
    }
    let edit = match Edit::wrap(state.document.config(), Some(name), &[select]) {
        Ok(edit) => edit,
        Err(e) => return state.note(Role::Error, e.to_string()),
    };
    let label = edit.label.clone();
    match state.document.apply(edit) {
        Ok(change) => {
            changed(state, effects);
            state.selection = NodeSet::empty(state.selection.universe());
            state.range = None;
            let text = state.tell(&change);
            state.note(Role::Success, text);
        }
        Err(DocumentError::Wrap(WrapError::NotConvex { path, closing, .. })) => {
            let shown: Vec<String> = path.iter().map(|p| printable(p).into_owned()).collect();
            let Ok(wider) = closed_selector(select, &closing) else { return };
            state.layers.push(Layer::Choice(Choice {
                title: format!("{label}: the region is not convex"),
                body: vec![
                    "This path leaves the region and comes back, so it cannot be one node:".to_owned(),
                    shown.join(&format!(" {} ", state.theme.glyphs.arrow)),
                    format!("Adding {} closes it.", plural(closing.len(), "node")),
                ],
                items: vec![
                    Item::new(
                        "Close the region and wrap",
                        plural(closing.len(), "more node"),
                        Command::Wrap { name: name.to_owned(), select: wider },
                    )
                    .key('y'),
                    Item::new("Leave it", "", Command::Nothing).key('n'),
                ],
                cursor: 0,
            }));
        }
        Err(e) => state.note(Role::Error, e.to_string()),
    }
}

fn select(state: &mut State) {
    let nodes = match state.current_module().filter(|_| state.focus == Pane::Tree) {
        Some(m) => module_nodes(state, m),
        None => state.row_nodes(),
    };
    let all = nodes.iter().all(|n| state.selection.contains(*n));
    for n in nodes {
        if all {
            state.selection.remove(n);
        } else {
            state.selection.insert(n);
        }
    }
    let count = state.selection.count();
    super::moving::line(state, 1);
    if count > 0 {
        state.note(Role::Info, format!("{} selected: t torch, a accelerate, w wrap, Esc drops", plural(count, "node")));
    }
}

fn range(state: &mut State) {
    let Some(here) = state.single_node() else {
        return state.note(Role::TextDim, "a range begins and ends at a node; l unfolds a module, space selects all of it");
    };
    let Some(from) = state.range.take() else {
        state.range = Some(here);
        state.note(Role::Info, "range begins here; v at its other end selects everything between, w wraps it");
        return;
    };
    let (a, b) = (from.min(here), from.max(here));
    let between = between(state, a, b);
    let count = between.count();
    if count == 0 {
        state.note(Role::Warning, "no path leads from one end to the other");
        return;
    }
    state.selection.union_with(&between);
    state.note(Role::Info, format!("{} between the ends selected", plural(count, "node")));
}

/// Nodes on paths from `a` to `b`. Nodes are in topological order, so one sweep each way is enough.
fn between(state: &State, a: NodeId, b: NodeId) -> NodeSet {
    let graph = &state.document.model().graph;
    let nodes = graph.nodes().len();
    let mut down = NodeSet::empty(nodes);
    down.insert(a);
    for i in a.index() + 1..=b.index() {
        let n = NodeId::new(i);
        if graph.predecessors(n).any(|p| down.contains(p)) {
            down.insert(n);
        }
    }
    let mut up = NodeSet::empty(nodes);
    if down.contains(b) {
        up.insert(b);
    }
    for i in (a.index()..=b.index()).rev() {
        let n = NodeId::new(i);
        if up.contains(n) {
            for p in graph.predecessors(n).filter(|p| down.contains(*p)) {
                up.insert(p);
            }
        }
    }
    up
}

fn choose_backend(state: &mut State) {
    let current = state.document.config().backend.clone();
    let mark = |on: bool| if on { "now" } else { "" };
    let mut items = vec![Item::new(
        "none",
        if current.is_none() { "now: every op counts as supported" } else { "every op counts as supported" },
        Command::Backend(None),
    )];
    for name in recut_core::support::backend_names(recut_core::support::dialect_of(state.document.model())) {
        items.push(Item::new(name, mark(current.as_deref() == Some(name)), Command::Backend(Some(name.to_owned()))));
    }
    let cursor = items.iter().position(|i| current.as_deref() == Some(&*i.label)).unwrap_or(0);
    state.layers.push(Layer::Choice(Choice {
        title: "Backend".to_owned(),
        body: vec!["Its capability table says which nodes can be accelerated.".to_owned()],
        items,
        cursor,
    }));
}

fn choose_partitioner(state: &mut State) {
    let p = state.document.config().partitioner.clone();
    let mut items: Vec<Item> = Strategy::ALL
        .into_iter()
        .map(|s| Item::new(format!("strategy {}", s.name()), if s == p.strategy { "now" } else { "" }, Command::Strategy(s)))
        .collect();
    for n in [1u32, 2, 3, 5, 10, 20] {
        items.push(Item::new(format!("min_block_size {n}"), if n == p.min_block_size { "now" } else { "" }, Command::MinBlockSize(n)));
    }
    items.push(Item::new(
        "min_block_size …",
        "another number",
        Command::Ask(Box::new(Ask {
            title: "min_block_size".to_owned(),
            body: vec!["Accelerated partitions with fewer compute nodes run in torch.".to_owned()],
            what: AskFor::MinBlockSize,
            context: String::new(),
            text: p.min_block_size.to_string(),
        })),
    ));
    let now = format!("strategy {}, min_block_size {}", p.strategy.name(), p.min_block_size);
    state.layers.push(Layer::Choice(Choice { title: "Partitioner".to_owned(), body: vec![now], items, cursor: 0 }));
}
