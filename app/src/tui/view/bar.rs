//! The partition bar: every partition in execution order, as wide as it has nodes.

use ratatui::layout::Rect;
use recut_core::partition::PartitionId;

use super::super::detail::placement_role;
use super::super::hit::Target;
use super::super::state::State;
use super::super::text::{nanos, plural, width};
use super::paint::Painter;
use crate::theme::Role;

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    let y = area.y;
    let mut right = area.right().saturating_sub(1);
    let plan = state.lanes.plan();
    let text = match &state.profile {
        Some(r) => {
            let stale = if state.profile_stale { " (earlier plan)" } else { "" };
            format!("end to end {}  nodes {}  gap {}{stale}", nanos(r.end_to_end_ns), nanos(r.nodes_ns), nanos(r.gap_ns()))
        }
        None => plural(plan.partitions.len(), "partition"),
    };
    let role = if state.profile_stale { Role::TextDim } else { Role::Time };
    if width(&text) + 20 < usize::from(area.width) {
        right = p.put_right(right, y, area.width, &text, role).saturating_sub(2);
    }
    let left = area.x + 1;
    let cells = usize::from(right.saturating_sub(left));
    let count = plan.partitions.len();
    if cells == 0 || count == 0 {
        return;
    }
    let here = state.lanes.partition_of_row(state.cursor);
    if count <= cells / 2 {
        segments(state, p, y, left, cells, here);
        return;
    }
    // More partitions than fit: every cell stands for several, and shows the first that is not accelerated.
    for cell in 0..cells {
        let range = cell * count / cells..((cell + 1) * count / cells).max(cell * count / cells + 1);
        let Some(parts) = plan.partitions.get(range.clone()) else { continue };
        let special = parts.iter().position(|q| q.kind != recut_core::partition::Placement::Accelerated).unwrap_or(0);
        let Some(kind) = parts.get(special).map(|q| q.kind) else { continue };
        let x = left + u16::try_from(cell).unwrap_or(0);
        let style = p.style(placement_role(kind));
        p.glyph(x, y, p.glyphs().fill(kind), style);
        if here.is_some_and(|h| range.contains(&h.index())) {
            p.glyph(x, y, p.glyphs().here, p.style(Role::TextStrong));
        }
        p.hits.add(Rect::new(x, y, 1, 1), Target::Partition(PartitionId::new(range.start + special)));
    }
}

fn segments(state: &State, p: &mut Painter<'_>, y: u16, left: u16, cells: usize, here: Option<PartitionId>) {
    let plan = state.lanes.plan();
    let count = plan.partitions.len();
    // One cell and a gap for each; what is left is shared out by units.
    let spare = cells.saturating_sub(2 * count);
    let all: usize = plan.view.units().len().max(1);
    let mut before = 0usize;
    let mut x = left;
    for (i, part) in plan.partitions.iter().enumerate() {
        let id = PartitionId::new(i);
        let from = before * spare / all;
        before += plan.units(id).len();
        let size = u16::try_from(1 + before * spare / all - from).unwrap_or(1);
        let role = placement_role(part.kind);
        let style = p.style(role);
        let fill = p.glyphs().fill(part.kind);
        for c in 0..size {
            p.glyph(x + c, y, fill, style);
        }
        let label = format!(" {} ", state.partition_label(id));
        let cells = width(&label);
        if usize::from(size) >= cells + 2 {
            let at = x + (size - cells as u16) / 2;
            p.put(at, y, size, &label, if here == Some(id) { Role::TextStrong } else { role });
        }
        if here == Some(id) {
            p.glyph(x, y, p.glyphs().here, p.style(Role::TextStrong));
        }
        p.hits.add(Rect::new(x, y, size, 1), Target::Partition(id));
        x += size + 1;
    }
}
