//! Search and stepping through matches, in the order of display whether modules are folded or not.

use recut_core::graph::NodeId;
use recut_core::partition::PartitionId;

use super::super::lanes::RowKind;
use super::super::state::State;
use crate::theme::Role;

/// Places of matches in the order of display: position among all nodes, and the node. Of an opaque op only the first counts:
/// its nodes are one row.
fn places(state: &State) -> Vec<(usize, NodeId)> {
    let Some(m) = &state.matches else { return Vec::new() };
    let plan = state.lanes.plan();
    let mut out = Vec::with_capacity(m.count);
    let mut at = 0;
    for p in (0..plan.partitions.len()).map(PartitionId::new) {
        for &unit in plan.units(p) {
            let mut found = false;
            for n in plan.view.nodes(unit) {
                if !found && m.nodes.contains(n) {
                    out.push((at, n));
                    found = true;
                }
                at += 1;
            }
        }
    }
    out
}

/// Position of the row under the cursor among all nodes: of its first node, and of the node after it. A row that hides its
/// nodes, or has none, comes before them.
fn here(state: &State) -> (usize, usize) {
    let plan = state.lanes.plan();
    let rows = state.lanes.rows();
    let Some(row) = rows.get(state.cursor) else { return (0, 0) };
    let first = match row.kind {
        RowKind::Input(_) => return (0, 0),
        RowKind::Output(_) => return (usize::MAX, usize::MAX),
        _ => row.start as usize,
    };
    // Units before the row, counted in nodes.
    let mut at = 0;
    let mut units = 0;
    for p in (0..plan.partitions.len()).map(PartitionId::new) {
        for &unit in plan.units(p) {
            let nodes = plan.view.nodes(unit).count();
            if units == first {
                let own = if matches!(row.kind, RowKind::Unit(_)) { nodes } else { 0 };
                return (at, at + own);
            }
            units += 1;
            at += nodes;
        }
    }
    (at, at)
}

/// Goes to a match: what hides it is unfolded, and the cursor stands on it.
fn go(state: &mut State, index: usize, places: &[(usize, NodeId)]) {
    let Some(&(_, node)) = places.get(index) else { return };
    state.jump(node);
    let text = state.matches.as_ref().map_or_else(String::new, |m| recut_core::diagnostic::printable(&m.text).into_owned());
    state.note(Role::TextDim, format!("match {} of {} for {text}", index + 1, places.len()));
}

/// The first match at the row under the cursor or after it, from the beginning again where there is none.
fn at_or_after(state: &State, places: &[(usize, NodeId)]) -> usize {
    let (from, _) = here(state);
    let i = places.partition_point(|(at, _)| *at < from);
    if i < places.len() { i } else { 0 }
}

/// While the text is typed the cursor shows where Enter would go; nothing is unfolded yet.
pub(super) fn preview(state: &mut State) {
    if let Some(origin) = &state.search {
        (state.cursor, state.offset) = (origin.cursor, origin.offset);
    }
    let places = places(state);
    let Some(&(_, node)) = places.get(at_or_after(state, &places)) else { return };
    if let Some(row) = state.lanes.row_of_node(node) {
        state.cursor = row;
    }
}

/// Enter: to the first match from where the search began.
pub(super) fn enter(state: &mut State, text: &str) {
    let known = state.matches.as_ref().is_some_and(|m| m.text == text);
    if !known && !text.is_empty() {
        // What was typed last is still being looked for.
        if let Some(origin) = &mut state.search {
            origin.entered = Some(text.to_owned());
        }
        return;
    }
    let places = places(state);
    if places.is_empty() {
        state.leave_search();
        if !text.is_empty() {
            state.note(Role::Warning, format!("nothing matches {}", recut_core::diagnostic::printable(text)));
        }
        return;
    }
    state.leave_search();
    state.main = super::super::state::MainView::Lanes;
    state.focus = super::super::hit::Pane::Main;
    let index = at_or_after(state, &places);
    go(state, index, &places);
}

/// What a search found after Enter was pressed already.
pub(super) fn found(state: &mut State) {
    let Some(text) = state.search.as_ref().and_then(|s| s.entered.clone()) else { return };
    if state.matches.as_ref().is_some_and(|m| m.text == text) {
        enter(state, &text);
    }
}

/// To the next or the previous match.
pub(super) fn next(state: &mut State, forward: bool) {
    let places = places(state);
    if places.is_empty() {
        return state.note(Role::TextDim, "no matches; / searches");
    }
    let (from, after) = here(state);
    let index = if forward {
        let i = places.partition_point(|(at, _)| *at < after);
        if i < places.len() { i } else { 0 }
    } else {
        places.partition_point(|(at, _)| *at < from).checked_sub(1).unwrap_or(places.len().saturating_sub(1))
    };
    go(state, index, &places);
}
