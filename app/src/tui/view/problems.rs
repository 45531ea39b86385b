//! The list of problems.

use ratatui::layout::Rect;
use recut_core::diagnostic::{Severity, printable};

use super::super::detail::severity_role;
use super::super::hit::{Pane, Target};
use super::super::state::State;
use super::paint::Painter;
use crate::theme::Role;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    if state.problems.is_empty() {
        p.put(area.x + 1, area.y, area.width.saturating_sub(1), "No problems.", Role::Success);
        return;
    }
    for (i, y) in (state.problem_offset..state.problems.len()).zip(area.top()..area.bottom()) {
        let Some(d) = state.problems.get(i) else { break };
        let line = Rect::new(area.x, y, area.width, 1);
        p.hits.add(line, Target::Problem(i));
        let name = match d.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        };
        let mut x = area.x + 1;
        let room = |x: u16| area.right().saturating_sub(x);
        p.put(x, y, room(x), name, severity_role(d.severity));
        x += 9;
        if let Some(n) = d.node.as_deref().filter(|_| area.width > 90) {
            p.put(x, y, 24.min(room(x)), &printable(n), Role::Module);
            x += 26;
        }
        let text: String = d.message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(usize::from(area.width)).collect();
        p.put(x, y, room(x), &text, Role::Text);
        if i == state.problem {
            p.tint(line, if state.focus == Pane::Main { Role::Cursor } else { Role::CursorUnfocused });
        }
    }
    p.scroll_bar(area, state.problem_offset, state.problems.len());
}
