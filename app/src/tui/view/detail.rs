//! The detail pane: lines broken to its width.

use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation;

use super::super::detail::Line;
use super::super::hit::Target;
use super::super::state::State;
use super::super::text::{is_plain, width};
use super::paint::Painter;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let mut y = area.top();
    for line in state.detail.lines.iter().skip(state.detail_offset) {
        if y >= area.bottom() {
            break;
        }
        let begin = y;
        y = wrapped(p, area, y, line);
        if let Some(n) = line.node {
            p.hits.add(Rect::new(area.x, begin, area.width, y - begin), Target::Node(n));
        }
    }
    let shown = state.detail.lines.len() > usize::from(area.height);
    if shown {
        p.scroll_bar(Rect { width: area.width + 1, ..area }, state.detail_offset, state.detail.lines.len() + usize::from(area.height) / 2);
    }
}

/// Bytes of the beginning of `word` that fit into `room` cells, and the cells they take.
fn fitting(word: &str, room: u16) -> (usize, u16) {
    if is_plain(word) {
        let cells = u16::try_from(word.len()).unwrap_or(u16::MAX).min(room);
        return (usize::from(cells), cells);
    }
    let (mut taken, mut used) = (0, 0u16);
    for g in word.graphemes(true) {
        let w = u16::try_from(width(g)).unwrap_or(u16::MAX);
        if used.saturating_add(w) > room {
            break;
        }
        used += w;
        taken += g.len();
    }
    (taken, used)
}

/// Draws one line from row `y` on, broken at words; gives the row after it.
fn wrapped(p: &mut Painter<'_>, area: Rect, mut y: u16, line: &Line) -> u16 {
    let indent = line.indent.min(area.width / 3);
    let mut x = area.x;
    for (role, text) in &line.spans {
        for word in text.split_inclusive([' ', '.', '/', ',', '_', ':']) {
            let mut word = word;
            let cells = u16::try_from(width(word)).unwrap_or(u16::MAX);
            let fresh = area.x + indent;
            if x.saturating_add(cells) > area.right() && x > fresh && !word.trim().is_empty() && cells <= area.width - indent {
                y += 1;
                x = fresh;
            }
            // A word longer than a row is cut wherever the row ends.
            loop {
                if y >= area.bottom() {
                    return y;
                }
                let room = area.right().saturating_sub(x);
                let (taken, used) = fitting(word, room);
                let (now, rest) = word.split_at(taken);
                p.put(x, y, room, now, *role);
                x += used;
                if rest.is_empty() || rest.trim().is_empty() || (taken == 0 && x <= fresh) {
                    break;
                }
                word = rest;
                y += 1;
                x = fresh;
            }
        }
    }
    y + 1
}
