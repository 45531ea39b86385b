//! The mouse: everything it does, a key does too.

use super::super::action::Action;
use super::super::hit::{Pane, Target};
use super::super::layers::{Command, Layer};
use super::super::msg::{Effect, MouseKind};
use super::super::state::{MainView, State};
use super::{act, moving, palette, perform};

/// Rows that a wheel notch moves.
const WHEEL: isize = 3;

pub(super) fn mouse(state: &mut State, kind: MouseKind, target: Option<Target>, effects: &mut Vec<Effect>) {
    let wheel = match kind {
        MouseKind::WheelUp => -WHEEL,
        MouseKind::WheelDown => WHEEL,
        MouseKind::Press | MouseKind::Drag => 0,
    };
    if wheel != 0 {
        return turn(state, target, wheel);
    }
    if !state.layers.is_empty() {
        if kind == MouseKind::Press {
            press_dialog(state, target, effects);
        }
        return;
    }
    match (kind, target) {
        (_, None) => {}
        (MouseKind::Press, Some(Target::Pane(p))) => state.focus = p,
        (MouseKind::Press, Some(Target::Tree(row))) => {
            let again = state.focus == Pane::Tree && state.tree.cursor == row;
            state.focus = Pane::Tree;
            state.tree.cursor = row;
            if again {
                act(state, Action::Open, effects);
            }
        }
        (MouseKind::Press, Some(Target::TreeToggle(row))) => {
            state.focus = Pane::Tree;
            state.tree.cursor = row;
            act(state, Action::Open, effects);
        }
        (MouseKind::Press, Some(Target::Lane(row))) => {
            let again = state.focus == Pane::Main && state.cursor == row;
            state.focus = Pane::Main;
            state.cursor = row;
            if again {
                act(state, Action::Open, effects);
            }
        }
        (MouseKind::Press, Some(Target::Problem(row))) => {
            state.focus = Pane::Main;
            state.problem = row;
        }
        (_, Some(Target::Partition(p))) => {
            if let Some(row) = state.lanes.row_of_partition(p) {
                state.cursor = row;
                state.main = MainView::Lanes;
                state.focus = Pane::Main;
            }
        }
        (MouseKind::Press, Some(Target::Node(n))) => perform(state, Command::GoTo(n), effects),
        (MouseKind::Press, Some(Target::Action(a))) => {
            state.notice = None;
            act(state, a, effects);
        }
        _ => {}
    }
}

fn turn(state: &mut State, target: Option<Target>, by: isize) {
    if let Some(layer) = state.layers.last_mut() {
        let (cursor, rows) = match layer {
            Layer::Help { offset } | Layer::Text { offset, .. } => (offset, usize::MAX),
            Layer::Choice(c) | Layer::List(c) => (&mut c.cursor, c.items.len()),
            Layer::Palette(p) | Layer::Search(p) | Layer::Ask(_, p) => (&mut p.cursor, p.candidates.len()),
        };
        *cursor = cursor.saturating_add_signed(by).min(rows.saturating_sub(1));
        let rows = match state.layers.last() {
            Some(Layer::Help { .. }) => super::super::view::help_lines(state),
            Some(Layer::Text { lines, .. }) => super::super::view::text_lines(state, lines),
            _ => usize::MAX,
        };
        if let Some(Layer::Help { offset } | Layer::Text { offset, .. }) = state.layers.last_mut() {
            *offset = (*offset).min(rows.saturating_sub(1));
        }
        return;
    }
    let pane = match target {
        Some(Target::Tree(_) | Target::TreeToggle(_) | Target::Pane(Pane::Tree)) => Pane::Tree,
        Some(Target::Node(_) | Target::Pane(Pane::Detail)) => Pane::Detail,
        _ => Pane::Main,
    };
    moving::scroll(state, pane, by);
}

fn press_dialog(state: &mut State, target: Option<Target>, effects: &mut Vec<Effect>) {
    match target {
        Some(Target::Item(row)) => match state.layers.pop() {
            Some(Layer::Choice(c) | Layer::List(c)) => {
                if let Some(item) = c.items.get(row) {
                    let then = item.then.clone();
                    perform(state, then, effects);
                }
            }
            Some(Layer::Palette(mut p)) => {
                p.cursor = row;
                palette::enter(state, p, effects);
            }
            Some(other) => state.layers.push(other),
            None => {}
        },
        Some(Target::Dialog) => {}
        _ => {
            if let Some(layer) = state.layers.pop() {
                super::keys::close(state, layer, effects);
            }
        }
    }
}
