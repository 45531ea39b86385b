//! Moving, folding, jumping along edges and between matches.

use recut_core::graph::NodeId;
use recut_core::modules::ModuleId;
use recut_core::partition::PartitionId;

use super::super::action::Action;
use super::super::hit::Pane;
use super::super::lanes::RowKind;
use super::super::layers::{Choice, Command, Item, Layer};
use super::super::state::{MainView, State};
use crate::theme::Role;

pub(super) fn act(state: &mut State, action: Action) {
    let g = state.geometry();
    let page = match state.focus {
        Pane::Tree => g.tree_rows(),
        Pane::Main | Pane::Detail => g.lanes_rows(),
    }
    .saturating_sub(1)
    .max(1) as isize;
    match action {
        Action::Down => line(state, 1),
        Action::Up => line(state, -1),
        Action::PageDown => step(state, page),
        Action::PageUp => step(state, -page),
        Action::HalfPageDown => step(state, (page / 2).max(1)),
        Action::HalfPageUp => step(state, -(page / 2).max(1)),
        Action::First => step(state, isize::MIN),
        Action::Last => step(state, isize::MAX),
        Action::Left => fold(state),
        Action::Right => unfold(state),
        Action::Open => open(state),
        Action::CollapseAll => level(state, true),
        Action::ExpandAll => level(state, false),
        Action::Producer => hop(state, true),
        Action::Consumer => hop(state, false),
        Action::NextPartition => partition(state, true),
        Action::PreviousPartition => partition(state, false),
        Action::Back if state.trail_at > 0 => {
            if state.trail_at == state.trail.len()
                && let Some(here) = state.current_node()
            {
                state.trail.push(here);
            }
            state.trail_at -= 1;
            if let Some(&n) = state.trail.get(state.trail_at) {
                state.show(n);
            }
        }
        Action::Forward => {
            if let Some(&n) = state.trail.get(state.trail_at + 1) {
                state.trail_at += 1;
                state.show(n);
            }
        }
        Action::NextPane | Action::PreviousPane => {
            let order = [Pane::Tree, Pane::Main, Pane::Detail];
            let at = order.iter().position(|p| *p == state.focus).unwrap_or(1);
            let by = if action == Action::NextPane { 1 } else { 2 };
            state.focus = order.get((at + by) % 3).copied().unwrap_or(Pane::Main);
            if state.focus == Pane::Tree {
                // The tree opens where the eye is.
                if let Some(n) = state.current_node() {
                    let model = state.document.model().clone();
                    state.tree.go_to(&model.modules, ModuleId(state.wiring.module(n)));
                }
            }
        }
        Action::SearchNext => super::searching::next(state, true),
        Action::SearchPrevious => super::searching::next(state, false),
        _ => {}
    }
}

/// One row up or down. The borders of partitions are stepped over: nothing can be marked there, and they come and go with
/// every mark. `{` and `}` stop at them.
pub(super) fn line(state: &mut State, by: isize) {
    let before = state.cursor;
    step(state, by);
    if state.focus == Pane::Main && state.main == MainView::Lanes {
        let is_rule = |state: &State| matches!(state.lanes.rows().get(state.cursor).map(|r| r.kind), Some(RowKind::Rule(_)));
        if is_rule(state) {
            step(state, by);
            if is_rule(state) {
                state.cursor = before;
            }
        }
    }
}

/// Moves the cursor of the pane that takes the keys by `by` rows.
pub(super) fn step(state: &mut State, by: isize) {
    let pane = state.focus;
    scroll(state, pane, by);
}

/// Moves the cursor of a pane by `by` rows.
pub(super) fn scroll(state: &mut State, pane: Pane, by: isize) {
    let tree_rows = state.tree.rows().len();
    let (cursor, rows) = match (pane, state.main) {
        (Pane::Tree, _) => (&mut state.tree.cursor, tree_rows),
        (Pane::Main, MainView::Lanes) => (&mut state.cursor, state.lanes.rows().len()),
        (Pane::Main, MainView::Problems) => (&mut state.problem, state.problems.len()),
        (Pane::Detail, _) => (&mut state.detail_offset, state.detail.lines.len()),
    };
    *cursor = cursor.saturating_add_signed(by).min(rows.saturating_sub(1));
}

fn module_here(state: &State) -> Option<ModuleId> {
    match state.lanes.rows().get(state.cursor)?.kind {
        RowKind::Folded(m) => Some(m),
        _ => state.current_node().map(|n| ModuleId(state.wiring.module(n))),
    }
}

fn fold(state: &mut State) {
    let model = state.document.model().clone();
    if state.focus == Pane::Tree {
        let m = state.tree.current();
        if state.tree.is_open(m) && !model.modules.module(m).children.is_empty() {
            state.tree.open(&model.modules, m, false);
        } else {
            state.tree.go_to(&model.modules, model.modules.module(m).parent);
        }
        return;
    }
    let Some(here) = module_here(state) else { return };
    // The innermost module around the row that is not folded yet and would fold more than this row.
    let target = model
        .modules
        .ancestors(here)
        .find(|&m| m != ModuleId::ROOT && !state.folds.is_folded(m) && model.modules.module(m).total_nodes > 1);
    match target {
        Some(m) => {
            state.folds.set(m, true);
            state.refold();
        }
        None => state.note(Role::TextDim, "no module around this row to fold"),
    }
}

fn unfold(state: &mut State) {
    let model = state.document.model().clone();
    if state.focus == Pane::Tree {
        let m = state.tree.current();
        if state.tree.is_open(m) || model.modules.module(m).children.is_empty() {
            step(state, 1);
        } else {
            state.tree.open(&model.modules, m, true);
        }
        return;
    }
    if let Some(RowKind::Folded(m)) = state.lanes.rows().get(state.cursor).map(|r| r.kind) {
        state.folds.set(m, false);
        state.refold();
    }
}

fn open(state: &mut State) {
    let model = state.document.model().clone();
    match (state.focus, state.main) {
        (Pane::Tree, _) => {
            let m = state.tree.current();
            if model.modules.module(m).children.is_empty() {
                if let Some(&n) = model.modules.module(m).nodes.first() {
                    state.jump(n);
                    state.focus = Pane::Main;
                }
            } else {
                let open = state.tree.is_open(m);
                state.tree.open(&model.modules, m, !open);
            }
        }
        (Pane::Main, MainView::Problems) => {
            let node = state.problems.get(state.problem).and_then(|p| p.node.clone());
            match node.and_then(|id| model.graph.find_node(&id)) {
                Some(n) => state.jump(n),
                None => state.note(Role::TextDim, "this problem is not about one node"),
            }
        }
        (Pane::Detail, _) => {
            let node = state.detail.lines.get(state.detail_offset..).and_then(|l| l.iter().find_map(|l| l.node));
            if let Some(n) = node {
                state.jump(n);
            }
        }
        (Pane::Main, MainView::Lanes) => match state.current_wrap() {
            Some(w) => look_inside(state, w),
            None => match state.lanes.rows().get(state.cursor).map(|r| r.kind) {
                Some(RowKind::Folded(_)) => unfold(state),
                Some(RowKind::Unit(_)) => fold(state),
                _ => {}
            },
        },
    }
}

fn look_inside(state: &mut State, wrap: usize) {
    let view = state.document.view().clone();
    let Some(w) = view.wraps().get(wrap) else { return };
    let graph = &view.model.graph;
    let items = w.nodes.iter().map(|&n| {
        let name = recut_core::diagnostic::printable(graph.stable_id(n)).into_owned();
        Item::new(format!("{:<14} {name}", graph.node(n).op.to_string()), "", Command::Nothing)
    });
    state.layers.push(Layer::List(Choice {
        title: format!("Inside {}", recut_core::diagnostic::printable(&w.id)),
        body: vec![format!(
            "{} of definition {}",
            super::super::text::plural(w.nodes.len(), "node"),
            recut_core::diagnostic::printable(&w.definition)
        )],
        items: items.collect(),
        cursor: 0,
    }));
}

/// Folds or unfolds one more level of modules: folding starts with the deepest that show, unfolding with the outermost.
fn level(state: &mut State, fold: bool) {
    let model = state.document.model().clone();
    if state.focus == Pane::Tree {
        state.tree.level(&model.modules, !fold);
        return;
    }
    let modules = model.modules.modules();
    let shown = |i: usize| state.folds.outermost(&model.modules, modules.get(i).map_or(ModuleId::ROOT, |m| m.parent)).is_none();
    let candidates = modules
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(i, m)| m.total_nodes > 1 && shown(*i) && state.folds.is_folded(ModuleId::new(*i)) != fold);
    let depths = candidates.clone().map(|(_, m)| m.depth);
    let Some(depth) = (if fold { depths.max() } else { depths.min() }) else {
        state.note(Role::TextDim, if fold { "everything is folded" } else { "everything is unfolded" });
        return;
    };
    let chosen: Vec<ModuleId> = candidates.filter(|(_, m)| m.depth == depth).map(|(i, _)| ModuleId::new(i)).collect();
    for &m in &chosen {
        state.folds.set(m, fold);
    }
    state.refold();
    let what = if fold { "folded" } else { "unfolded" };
    state.note(Role::TextDim, format!("{what} {}", super::super::text::plural(chosen.len(), "module")));
}

/// Along an edge: to a producer of an input, or to a reader of an output. Again from where the last hop began: the next one.
fn hop(state: &mut State, up: bool) {
    let Some(here) = state.current_node() else { return };
    let graph = &state.document.model().graph;
    // Of a folded row all of its nodes count, and only what lies outside is a place to go to.
    let row: std::collections::HashSet<NodeId> = match state.lanes.rows().get(state.cursor).map(|r| r.kind) {
        Some(RowKind::Folded(_)) => state.row_nodes().into_iter().collect(),
        _ => std::iter::once(here).collect(),
    };
    let mut nodes: Vec<NodeId> = row.iter().copied().collect();
    nodes.sort_unstable();
    let mut targets: Vec<NodeId> = nodes
        .into_iter()
        .flat_map(|n| if up { graph.predecessors(n).collect::<Vec<_>>() } else { graph.successors(n).collect() })
        .collect();
    let mut seen = row;
    targets.retain(|n| seen.insert(*n));
    if targets.is_empty() {
        state.note(Role::TextDim, if up { "reads only inputs of the model and constants" } else { "nothing reads its outputs" });
        return;
    }
    let next = match state.hop {
        Some((from, was_up, i)) if from == here && was_up == up => (i + 1) % targets.len(),
        _ => 0,
    };
    state.hop = Some((here, up, next));
    let all = targets.len();
    if let Some(&n) = targets.get(next) {
        state.jump(n);
        if all > 1 {
            let what = if up { "producers" } else { "readers" };
            state.note(Role::TextDim, format!("{} of {all} {what}; alt-left goes back, the same key then takes the next", next + 1));
        }
    }
}

fn partition(state: &mut State, forward: bool) {
    let here = state.lanes.partition_of_row(state.cursor).map(PartitionId::index);
    let count = state.lanes.plan().partitions.len();
    let target = match (here, forward) {
        (None, true) if state.cursor < state.lanes.rows().len() / 2 => 0,
        (None, _) => count.saturating_sub(1),
        (Some(p), true) => p + 1,
        (Some(p), false) => {
            let rule = state.lanes.row_of_partition(PartitionId::new(p));
            if rule == Some(state.cursor) { p.saturating_sub(1) } else { p }
        }
    };
    if let Some(row) = (target < count).then(|| state.lanes.row_of_partition(PartitionId::new(target))).flatten() {
        state.cursor = row;
        state.main = MainView::Lanes;
    }
}
