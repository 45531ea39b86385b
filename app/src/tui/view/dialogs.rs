//! Dialogs, drawn over everything else.

use ratatui::layout::{Position, Rect};
use recut_core::diagnostic::printable;

use super::super::action::Action;
use super::super::hit::Target;
use super::super::layers::{Choice, Layer, Prompt};
use super::super::state::State;
use super::super::text::{broken, width};
use super::paint::Painter;
use crate::theme::Role;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, layer: &Layer, screen: Rect) {
    match layer {
        Layer::Search(prompt) => line(p, screen, "/", prompt, "Enter keeps the matches, n and N step through them, Esc drops them"),
        Layer::Palette(prompt) => palette(p, screen, prompt),
        Layer::Choice(c) | Layer::List(c) => choice(p, screen, c),
        Layer::Ask(ask, prompt) => question(p, screen, &ask.title, &ask.body, prompt),
        Layer::Help { offset } => help(state, p, screen, *offset),
        Layer::Text { title, lines, offset } => read(p, screen, title, lines, *offset),
    }
}

fn popup(p: &mut Painter<'_>, screen: Rect, title: &str, w: u16, h: u16) -> Rect {
    let w = w.min(screen.width.saturating_sub(2));
    let h = h.min(screen.height.saturating_sub(2));
    let area = Rect::new((screen.width - w) / 2, (screen.height - h) / 3, w, h);
    open(p, area, title)
}

fn open(p: &mut Painter<'_>, area: Rect, title: &str) -> Rect {
    p.hits.clear();
    p.clear(area, Role::Popup);
    p.hits.add(area, Target::Dialog);
    p.frame_as(area, title, Role::PopupBorder)
}

/// A typed line with its cursor.
fn typed(p: &mut Painter<'_>, x: u16, y: u16, room: u16, prompt: &Prompt) {
    let scroll = prompt.input.visual_scroll(usize::from(room.saturating_sub(1)));
    let mut skipped = 0;
    let shown: String = prompt
        .text()
        .chars()
        .skip_while(|c| {
            let skip = skipped < scroll;
            skipped += unicode_width::UnicodeWidthChar::width(*c).unwrap_or(0);
            skip
        })
        .collect();
    p.put(x, y, room, &shown, Role::Input);
    let at = prompt.input.visual_cursor().saturating_sub(scroll).min(usize::from(room.saturating_sub(1)));
    p.hits.cursor = Some(Position { x: x + at as u16, y });
}

/// A prompt at the bottom of the screen, so that what it finds stays in sight.
fn line(p: &mut Painter<'_>, screen: Rect, sign: &str, prompt: &Prompt, hint: &str) {
    let y = screen.bottom().saturating_sub(1);
    let area = Rect::new(0, y, screen.width, 1);
    p.hits.clear();
    p.clear(area, Role::Popup);
    p.hits.add(area, Target::Dialog);
    let x = 1 + p.put(1, y, screen.width, sign, Role::Key);
    let (role, note) = prompt.note.as_ref().map_or((Role::TextDim, hint), |(r, n)| (*r, n.as_str()));
    let note: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let most = screen.width / 2;
    let left = p.put_right(screen.right().saturating_sub(1), y, most, &note, role);
    typed(p, x, y, left.saturating_sub(x + 2), prompt);
}

fn palette(p: &mut Painter<'_>, screen: Rect, prompt: &Prompt) {
    let w = 78.min(screen.width.saturating_sub(4));
    // At the top and no taller than needed, so that highlighted rows below stay visible.
    let h = u16::try_from(prompt.candidates.len()).unwrap_or(u16::MAX).saturating_add(4).min((screen.height / 2).max(10));
    let area = Rect::new((screen.width - w) / 2, 1, w, h.min(screen.height.saturating_sub(2)));
    let inner = open(p, area, "Command or selector");
    let x = inner.x + 1 + p.put(inner.x + 1, inner.y, 2, ":", Role::Key);
    typed(p, x, inner.y, inner.right().saturating_sub(x + 1), prompt);
    let (role, note) = prompt
        .note
        .clone()
        .unwrap_or((Role::TextDim, "op:Conv, module:layer1.*, upstream(node:x), … or a command; Tab completes".to_owned()));
    let note: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    p.put(inner.x + 1, inner.y + 1, inner.width.saturating_sub(2), &note, role);
    let rows = usize::from(inner.height.saturating_sub(2));
    let offset = prompt.cursor.saturating_sub(rows.saturating_sub(1));
    for (i, y) in (offset..prompt.candidates.len()).zip(inner.y + 2..inner.bottom()) {
        let Some(item) = prompt.candidates.get(i) else { break };
        let row = Rect::new(inner.x, y, inner.width, 1);
        let right = p.put_right(inner.right().saturating_sub(1), y, 14, &item.detail, Role::Key);
        let (name, doc) = item.label.split_once("  ").unwrap_or((&item.label, ""));
        let x = inner.x + 1;
        let used = p.put(x, y, right.saturating_sub(x + 1), name, Role::TextStrong) + 2;
        p.put(x + used, y, right.saturating_sub(x + used + 1), doc, Role::TextDim);
        if i == prompt.cursor {
            p.tint(row, Role::Cursor);
        }
        p.hits.add(row, Target::Item(i));
    }
}

fn choice(p: &mut Painter<'_>, screen: Rect, c: &Choice) {
    let widest = c.items.iter().map(|i| width(&i.label) + width(&i.detail) + 8).max().unwrap_or(0);
    let widest = widest.max(width(&c.title) + 6).max(c.body.iter().map(|b| width(b) + 4).max().unwrap_or(0).min(90));
    let w = u16::try_from(widest).unwrap_or(u16::MAX).clamp(40, screen.width.saturating_sub(4).max(40));
    let body: Vec<String> = c.body.iter().flat_map(|b| broken(b, usize::from(w.saturating_sub(4)))).take(8).collect();
    let gap = u16::from(!body.is_empty());
    let h = u16::try_from(body.len() + c.items.len()).unwrap_or(u16::MAX).saturating_add(2 + gap);
    let inner = popup(p, screen, &c.title, w, h);
    let mut y = inner.y;
    for b in &body {
        p.put(inner.x + 1, y, inner.width.saturating_sub(2), b, Role::Text);
        y += 1;
    }
    y += gap;
    let rows = usize::from(inner.bottom().saturating_sub(y));
    let offset = c.cursor.saturating_sub(rows.saturating_sub(1));
    for (i, y) in (offset..c.items.len()).zip(y..inner.bottom()) {
        let Some(item) = c.items.get(i) else { break };
        let row = Rect::new(inner.x, y, inner.width, 1);
        let mut x = inner.x + 1;
        if c.items.iter().any(|i| i.key.is_some()) {
            if let Some(k) = item.key {
                p.put(x, y, 1, &k.to_string(), Role::Key);
            }
            x += 3;
        }
        let room = |x: u16| inner.right().saturating_sub(x + 1);
        let detail = width(&item.detail) as u16;
        x += p.put(x, y, room(x).saturating_sub(if detail > 0 { detail.min(room(x) / 3) + 2 } else { 0 }), &item.label, Role::Text) + 2;
        p.put(x, y, room(x), &item.detail, Role::TextDim);
        if i == c.cursor {
            p.tint(row, Role::Cursor);
        }
        p.hits.add(row, Target::Item(i));
    }
}

fn question(p: &mut Painter<'_>, screen: Rect, title: &str, body: &[String], prompt: &Prompt) {
    let w = 72.min(screen.width.saturating_sub(4));
    let body: Vec<String> = body.iter().flat_map(|b| broken(b, usize::from(w.saturating_sub(4)))).collect();
    let inner = popup(p, screen, title, w, body.len() as u16 + 5);
    let mut y = inner.y;
    for b in &body {
        p.put(inner.x + 1, y, inner.width.saturating_sub(2), b, Role::TextDim);
        y += 1;
    }
    y += 1;
    let x = inner.x + 1 + p.put(inner.x + 1, y, 2, "> ", Role::Key);
    typed(p, x, y, inner.right().saturating_sub(x + 1), prompt);
    p.put(inner.x + 1, y + 1, inner.width.saturating_sub(2), "Enter takes it, Esc does nothing", Role::TextDim);
}

/// Widest help, and widest text to read.
const HELP: u16 = 100;

/// Cells of the keys in help.
const KEYS: u16 = 18;

/// Number of lines of the help on this screen.
#[must_use]
pub fn help_lines(state: &State) -> usize {
    let w = HELP.min(state.size.0.saturating_sub(2));
    lines_of_help(state, w.saturating_sub(2)).len()
}

/// Number of lines of a text to read on this screen.
#[must_use]
pub fn text_lines(state: &State, lines: &[(Role, String)]) -> usize {
    let w = HELP.min(state.size.0.saturating_sub(2));
    broken_lines(lines, w.saturating_sub(2)).len()
}

/// Lines to read, broken to `cells` cells, with a mark at the beginning of each.
fn broken_lines(lines: &[(Role, String)], cells: u16) -> Vec<(Role, String)> {
    let room = usize::from(cells.saturating_sub(4));
    let mut out = Vec::new();
    for (role, text) in lines {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        for (i, part) in broken(&text, room).into_iter().enumerate() {
            out.push((*role, format!("{}{part}", if i == 0 { "\u{b7} " } else { "  " })));
        }
    }
    out
}

fn read(p: &mut Painter<'_>, screen: Rect, title: &str, lines: &[(Role, String)], offset: usize) {
    let w = HELP.min(screen.width.saturating_sub(2));
    let lines = broken_lines(lines, w.saturating_sub(2));
    let h = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inner = popup(p, screen, title, w, h);
    let offset = offset.min(lines.len().saturating_sub(usize::from(inner.height)));
    for ((role, text), y) in lines.iter().skip(offset).zip(inner.y..inner.bottom()) {
        p.put(inner.x + 1, y, inner.width.saturating_sub(2), text, *role);
    }
    p.scroll_bar(inner, offset, lines.len());
}

/// What signs on the screen mean.
const SIGNS: [&str; 7] = [
    "t a  before a row: pinned to torch or to the accelerator",
    "m o  before a row: in torch because of its module or operator",
    "!    before a row: the backend does not take it",
    "-    before a row: moved to torch by the partitioner; Why here says why",
    "·n   after the lanes: the row reads n constants",
    "◌    after the lanes: reads or makes a tensor with very many readers",
    "▣    a folded module",
];

/// All of help, broken to `cells` cells: role, keys, text.
fn lines_of_help(state: &State, cells: u16) -> Vec<(Role, String, String)> {
    let room = usize::from(cells.saturating_sub(KEYS + 2));
    let mut lines: Vec<(Role, String, String)> = Vec::new();
    let mut add = |role: Role, keys: &str, doc: &str| {
        let keys = broken(&printable(keys), usize::from(KEYS - 1));
        let doc = broken(doc, room);
        for i in 0..keys.len().max(doc.len()) {
            lines.push((role, keys.get(i).cloned().unwrap_or_default(), doc.get(i).cloned().unwrap_or_default()));
        }
    };
    let mut group = "";
    for &a in Action::ALL {
        if a.group() != group {
            if !group.is_empty() {
                add(Role::Text, "", "");
            }
            group = a.group();
            add(Role::Title, group, "");
        }
        add(Role::Key, &state.keymap.keys_of(a).join(", "), a.doc());
    }
    add(Role::Text, "", "");
    add(Role::Title, "Signs", "");
    for s in SIGNS {
        add(Role::Text, s.chars().take(5).collect::<String>().trim_end(), &s.chars().skip(5).collect::<String>());
    }
    lines
}

fn help(state: &State, p: &mut Painter<'_>, screen: Rect, offset: usize) {
    let w = HELP.min(screen.width.saturating_sub(2));
    let inner = popup(p, screen, "Keys", w, screen.height.saturating_sub(2));
    let lines = lines_of_help(state, inner.width);
    let offset = offset.min(lines.len().saturating_sub(usize::from(inner.height)));
    for ((role, keys, doc), y) in lines.iter().skip(offset).zip(inner.y..inner.bottom()) {
        let x = inner.x + 1;
        p.put(x, y, inner.width.saturating_sub(2), keys, *role);
        p.put(x + KEYS, y, inner.width.saturating_sub(KEYS + 2), doc, Role::Text);
    }
    p.scroll_bar(inner, offset, lines.len());
}
