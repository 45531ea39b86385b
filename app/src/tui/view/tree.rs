//! The module tree pane.

use ratatui::layout::Rect;
use recut_core::diagnostic::printable;
use recut_core::modules::ModuleId;

use super::super::detail::placement_role;
use super::super::hit::{Pane, Target};
use super::super::state::State;
use super::paint::Painter;
use crate::theme::Role;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    let modules = &state.document.model().modules;
    let rows = state.tree.rows();
    let glyphs = *p.glyphs();
    let here = state.current_node().map(|n| ModuleId(state.wiring.module(n)));
    for (i, y) in (state.tree.offset..rows.len()).zip(area.top()..area.bottom()) {
        let Some(row) = rows.get(i) else { break };
        let module = modules.module(row.module);
        let line = Rect::new(area.x, y, area.width, 1);
        p.hits.add(line, Target::Tree(i));
        // What is measured stands at the right: time where there is one, else the number of nodes.
        let mut right = area.right();
        match state.tree.time(row.module) {
            Some((_, share)) => {
                right = p.put_right(right, y, 6, &format!("{:.0} %", 100.0 * share), Role::heat(share)).saturating_sub(1);
                if area.width > 30 && share > 0.0 {
                    right = right.saturating_sub(4);
                    p.bar(right, y, 4, share, Role::heat(share));
                    right = right.saturating_sub(1);
                }
            }
            None => right = p.put_right(right, y, 8, &module.total_nodes.to_string(), Role::TextDim).saturating_sub(1),
        }
        let indent = u16::try_from(row.depth).unwrap_or(u16::MAX).min(area.width / 2 / 2) * 2;
        let mut x = area.x + indent.min(area.width);
        let room = |x: u16| right.saturating_sub(x);
        let sign = if module.children.is_empty() { glyphs.tree[2] } else { glyphs.tree[usize::from(!state.tree.is_open(row.module))] };
        if !module.children.is_empty() {
            p.hits.add(Rect::new(x, y, 2, 1), Target::TreeToggle(i));
        }
        p.put(x, y, room(x), sign, Role::TextDim);
        x += 2;
        let share = state.tree.share(row.module);
        let uniform = share.uniform();
        let role =
            uniform.map_or(Role::Text, |u| if u == recut_core::partition::Placement::Accelerated { Role::Text } else { placement_role(u) });
        let sign = uniform.map_or(glyphs.dot, |u| glyphs.placement(u));
        x += p.put(x, y, room(x), sign, uniform.map_or(Role::Torch, placement_role)) + 1;
        let name = if row.module == ModuleId::ROOT {
            module.class.as_deref().map_or("model", |c| c.rsplit('.').next().unwrap_or(c))
        } else {
            module.name()
        };
        let role = if here == Some(row.module) && role == Role::Text { Role::TextStrong } else { role };
        x += p.put(x, y, room(x), &printable(name), role) + 1;
        if let Some(class) = module.class.as_deref().filter(|_| row.module != ModuleId::ROOT) {
            let short = class.rsplit('.').next().unwrap_or(class);
            if room(x) > 4 {
                p.put(x, y, room(x), &printable(short), Role::Module);
            }
        }
        if i == state.tree.cursor {
            p.tint(line, if state.focus == Pane::Tree { Role::Cursor } else { Role::CursorUnfocused });
        }
    }
    p.scroll_bar(area, state.tree.offset, rows.len());
}
