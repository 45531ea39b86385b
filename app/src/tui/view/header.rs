//! The first and the last line.

use ratatui::layout::Rect;

use super::super::action::Action;
use super::super::hit::{Pane, Target};
use super::super::state::{Heat, MainView, State};
use super::super::text::{bytes, count, flops, width};
use super::paint::Painter;
use crate::theme::Role;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    p.tint(area, Role::Header);
    let y = area.y;
    let mut x = p.put(0, y, area.width, " recut ", Role::HeaderName);
    let model = state.document.model();
    let name = model.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let dirty = if state.document.is_dirty() { "*" } else { "" };
    let numbers = &state.numbers;
    let [acc, torch, opaque] = numbers.partitions;
    let dot = p.glyphs().dot;
    // Facts from left to right, each with its rank: where they do not all fit, the highest ranks go first.
    let mut facts: Vec<(u8, String, &str)> = vec![(0, format!("{}{dirty}", recut_core::diagnostic::printable(&name)), "")];
    facts.push((3, model.graph.nodes().len().to_string(), "nodes"));
    if state.params > 0 {
        facts.push((4, count(state.params), "params"));
    }
    if let Some(costs) = &state.costs
        && costs.total_flops > 0
    {
        let least = match (costs.open, p.glyphs().ascii) {
            (false, _) => "",
            (true, false) => "≥",
            (true, true) => ">=",
        };
        facts.push((5, format!("{least}{}", flops(costs.total_flops)), ""));
    }
    facts.push((2, state.document.config().backend.clone().unwrap_or_else(|| "no".to_owned()), "backend"));
    let mut split = format!("{acc} acc {dot} {torch} torch");
    if opaque > 0 {
        split.push_str(&format!(" {dot} {opaque} op"));
    }
    facts.push((0, split, ""));
    let across = if numbers.open { format!("{}+", bytes(numbers.across)) } else { bytes(numbers.across) };
    facts.push((1, across, "across"));
    let cells =
        |facts: &[(u8, String, &str)]| facts.iter().map(|(_, v, u)| width(v) + 2 + u.len() + usize::from(!u.is_empty())).sum::<usize>();
    while cells(&facts) + usize::from(x) > usize::from(area.width) {
        let Some(least) = facts.iter().map(|(rank, ..)| *rank).max().filter(|r| *r > 0) else { break };
        facts.retain(|(rank, ..)| *rank < least);
    }
    for (_, value, unit) in facts {
        x += 2;
        x += p.put(x, y, area.width.saturating_sub(x), &value, Role::HeaderValue);
        if !unit.is_empty() {
            x += 1;
            x += p.put(x, y, area.width.saturating_sub(x), unit, Role::Header);
        }
    }
    let problems = state.problems.iter().filter(|d| d.severity > recut_core::diagnostic::Severity::Info).count();
    if problems > 0 {
        let text = super::super::text::plural(problems, "problem");
        let cells = text.len() as u16 + 1;
        if area.width.saturating_sub(x) > cells + 2 {
            let at = p.put_right(area.right().saturating_sub(1), y, cells, &text, Role::Warning);
            p.hits.add(Rect::new(at, y, cells, 1), Target::Action(Action::ViewProblems));
        }
    }
}

/// Hints from the most to the least important: where they do not all fit, these stay.
const IMPORTANT: [Action; 14] = [
    Action::Help,
    Action::Quit,
    Action::NextPane,
    Action::Cancel,
    Action::Torch,
    Action::Save,
    Action::Run,
    Action::Open,
    Action::Search,
    Action::Accelerate,
    Action::Wrap,
    Action::Undo,
    Action::Palette,
    Action::Clear,
];

/// What the key to the next pane leads to: panes that do not show are named.
const fn panes(tree: bool, detail: bool) -> &'static str {
    match (tree, detail) {
        (true, true) => "pane",
        (false, true) => "modules",
        (true, false) => "node",
        (false, false) => "modules, node",
    }
}

/// Hints of the pane that takes the keys.
fn hints(state: &State) -> &'static [(Action, &'static str)] {
    if !state.selection.is_empty() {
        return &[
            (Action::Torch, "torch"),
            (Action::Accelerate, "accelerate"),
            (Action::Wrap, "wrap"),
            (Action::Cancel, "drop selection"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
        ];
    }
    match (state.focus, state.main) {
        (Pane::Main, MainView::Problems) => &[
            (Action::Open, "to the node"),
            (Action::ViewLanes, "lanes"),
            (Action::NextPane, "pane"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
        ],
        (Pane::Detail, _) => &[
            (Action::Down, "scroll"),
            (Action::Open, "follow"),
            (Action::NextPane, "pane"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
        ],
        _ => &[
            (Action::Torch, "torch"),
            (Action::Accelerate, "accelerate"),
            (Action::Wrap, "wrap"),
            (Action::Clear, "clear"),
            (Action::Undo, "undo"),
            (Action::Search, "find"),
            (Action::Run, "run"),
            (Action::Save, "save"),
            (Action::Palette, "commands"),
            (Action::Help, "help"),
            (Action::NextPane, "pane"),
            (Action::Heat, "heat"),
            (Action::Quit, "quit"),
        ],
    }
}

pub(super) fn status(state: &State, p: &mut Painter<'_>, area: Rect) {
    p.tint(area, Role::Status);
    let y = area.y;
    let mut right = area.right().saturating_sub(1);
    let rows = state.lanes.rows().len();
    let position = format!("{}/{rows}", state.cursor + 1);
    right = p.put_right(right, y, area.width / 2, &position, Role::TextDim).saturating_sub(2);
    if state.heat != Heat::Placement {
        right = p.put_right(right, y, area.width / 2, &state.overlay_name(), Role::Heat3).saturating_sub(2);
    }
    if !state.pending.is_empty() {
        let keys: Vec<String> = state.pending.iter().map(ToString::to_string).collect();
        right = p.put_right(right, y, area.width / 2, &keys.join(" "), Role::Key).saturating_sub(2);
    }
    if let Some(running) = &state.running {
        let share = running.progress.share.map_or_else(String::new, |s| format!(" {:.0} %", 100.0 * s));
        let text = format!("running{share} {}", recut_core::diagnostic::printable(&running.progress.text));
        right = p.put_right(right, y, area.width / 2, text.trim_end(), Role::Progress).saturating_sub(2);
    }
    let mut x = 1;
    if let Some(n) = &state.notice {
        let text: String = n.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if width(&text) > usize::from(right.saturating_sub(x)) {
            // What is cut can be read in full, and the line says where.
            let key = state.keymap.keys_of(Action::Messages).into_iter().next().unwrap_or_default();
            let hint = format!("{key} all");
            let cells = width(&hint) as u16;
            right = p.put_right(right, y, cells, &hint, Role::Key);
            p.hits.add(Rect::new(right, y, cells, 1), Target::Action(Action::Messages));
            right = right.saturating_sub(1);
        }
        p.put(x, y, right.saturating_sub(x), &text, n.role);
        return;
    }
    let room = |x: u16| right.saturating_sub(x);
    let g = state.geometry();
    let hints: Vec<(Action, String, &str)> = hints(state)
        .iter()
        .filter_map(|(a, text)| {
            let text = if *a == Action::NextPane { panes(g.tree.is_some(), g.detail.is_some()) } else { text };
            Some((*a, state.keymap.keys_of(*a).into_iter().next()?, text))
        })
        .collect();
    let rank = |a: Action| IMPORTANT.iter().position(|i| *i == a).unwrap_or(IMPORTANT.len());
    let mut order: Vec<usize> = (0..hints.len()).collect();
    order.sort_by_key(|i| hints.get(*i).map(|(a, ..)| rank(*a)));
    let mut left = usize::from(room(x));
    let mut shown = vec![false; hints.len()];
    for i in order {
        let Some((_, key, text)) = hints.get(i) else { continue };
        let cells = width(key) + 1 + width(text);
        if cells > left {
            break;
        }
        left = left.saturating_sub(cells + 2);
        if let Some(s) = shown.get_mut(i) {
            *s = true;
        }
    }
    for (action, key, text) in hints.iter().zip(&shown).filter(|(_, s)| **s).map(|(h, _)| h) {
        let cells = (width(key) + 1 + width(text)) as u16;
        p.hits.add(Rect::new(x, y, cells, 1), Target::Action(*action));
        x += p.put(x, y, room(x), key, Role::Key) + 1;
        x += p.put(x, y, room(x), text, Role::Status) + 2;
    }
}
