//! The frame: a pure function of the state. Its cost depends on the cells of the screen, not on the model.

mod bar;
mod detail;
mod dialogs;
mod header;
mod lanes;
mod paint;
mod problems;
mod tree;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::geometry::SMALLEST;
use super::hit::{HitMap, Pane, Target};
use super::state::{MainView, State};
use crate::theme::Role;

pub use dialogs::{help_lines, text_lines};
pub use paint::Painter;

/// Draws the state and says what is where.
pub fn view(state: &State, buffer: &mut Buffer) -> HitMap {
    let mut p = Painter::new(buffer, &state.theme);
    let g = state.geometry();
    p.ground(p.area());
    if g.too_small {
        let (w, h) = SMALLEST;
        let quit = state.keymap.keys_of(super::action::Action::Quit).into_iter().next().unwrap_or_default();
        let kept = if state.document.is_dirty() { ", unsaved edits stay kept" } else { "" };
        let text = format!("recut needs {w}x{h} cells; this is {}x{}. Make it larger; {quit} quits{kept}", state.size.0, state.size.1);
        let mut lines = super::text::broken(&text, usize::from(g.screen.width));
        if let Some(n) = &state.notice {
            lines.extend(super::text::broken(&n.text, usize::from(g.screen.width)));
        }
        let top = usize::from(g.screen.height).saturating_sub(lines.len()) / 2;
        for (i, line) in lines.iter().enumerate() {
            p.put(0, u16::try_from(top + i).unwrap_or(u16::MAX), g.screen.width, line, Role::Warning);
        }
        return p.hits;
    }
    header::draw(state, &mut p, g.header);
    if let Some(area) = g.tree {
        let inner = p.frame(area, "Modules", state.focus == Pane::Tree);
        p.hits.add(area, Target::Pane(Pane::Tree));
        tree::draw(state, &mut p, inner);
    }
    if g.main.width > 0 {
        let title = match state.main {
            MainView::Lanes => "Graph".to_owned(),
            MainView::Problems => format!("Problems ({})", state.problems.len()),
        };
        let inner = p.frame(g.main, &title, state.focus == Pane::Main);
        p.hits.add(g.main, Target::Pane(Pane::Main));
        match state.main {
            MainView::Lanes => lanes::draw(state, &mut p, inner),
            MainView::Problems => problems::draw(state, &mut p, inner),
        }
    }
    if let Some(area) = g.detail {
        let inner = p.frame(area, &state.detail.title, state.focus == Pane::Detail);
        p.hits.add(area, Target::Pane(Pane::Detail));
        detail::draw(state, &mut p, inner);
    }
    bar::draw(state, &mut p, g.bar);
    header::status(state, &mut p, g.status);
    if let Some(layer) = state.layers.last() {
        dialogs::draw(state, &mut p, layer, g.screen);
    }
    p.hits
}

/// A buffer with the frame of `state`.
#[must_use]
pub fn render(state: &State) -> (Buffer, HitMap) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    let hits = view(state, &mut buffer);
    (buffer, hits)
}
