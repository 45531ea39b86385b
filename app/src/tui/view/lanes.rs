//! The lanes: for every row its lanes, its dot, its constants, what it is and what it makes.

use ratatui::layout::Rect;
use recut_core::diagnostic::printable;
use recut_core::graph::{Dialect, NodeId, Op, ValueId};
use recut_core::modules::ModuleId;
use recut_core::partition::Placement;
use recut_core::view::Unit;

use super::super::detail::{placement_role, shape_text};
use super::super::hit::{Pane, Target};
use super::super::lanes::{NONE, Row, RowKind};
use super::super::overlay;
use super::super::state::{Heat, State};
use super::super::text::{bytes, fit_end, plural, width};
use super::paint::Painter;
use crate::theme::Role;

/// Columns of the pane, from the left: marks, lanes, gutter, operator, name, module, shape, time.
struct Columns {
    lanes: u16,
    lanes_x: u16,
    gutter_x: u16,
    op_x: u16,
    op: u16,
    name_x: u16,
    name: u16,
    module_x: u16,
    module: u16,
    shape_x: u16,
    shape: u16,
    time_x: u16,
    time: u16,
}

/// Cells of the gutter.
const GUTTER: u16 = 5;

impl Columns {
    fn new(state: &State, area: Rect) -> Self {
        let w = area.width;
        let most = (w.saturating_sub(36) / 4).clamp(3, 40);
        let lanes = u16::try_from(state.lanes.width()).unwrap_or(u16::MAX).clamp(1, most);
        let lanes_x = area.x + 2;
        let gutter_x = lanes_x + 2 * lanes + 1;
        let op_x = gutter_x + GUTTER;
        let op = if w < 70 { 10 } else { 16 };
        let name_x = op_x + op + 1;
        let shown = state.profile.is_some() || state.heat != Heat::Placement;
        // The longest number is `1023.9 KiB`.
        let time = if shown && w >= 64 { 18 } else { 0 };
        let rest = (area.right()).saturating_sub(name_x).saturating_sub(time);
        let shape = if rest > 34 { (rest / 3).clamp(14, 26) } else { 0 };
        let rest = rest.saturating_sub(shape);
        let module = if rest > 34 { rest / 2 } else { 0 };
        let name = rest.saturating_sub(module + 1);
        Self {
            lanes,
            lanes_x,
            gutter_x,
            op_x,
            op,
            name_x,
            name,
            module_x: name_x + name + 1,
            module: module.saturating_sub(1),
            shape_x: area.right().saturating_sub(time + shape),
            shape: shape.saturating_sub(1),
            time_x: area.right().saturating_sub(time),
            time,
        }
    }
}

pub(super) fn draw(state: &State, p: &mut Painter<'_>, area: Rect) {
    let lanes = &state.lanes;
    let columns = Columns::new(state, area);
    let active: Vec<u32> = lanes.ports(state.cursor).iter().map(|q| q.value).collect();
    let mut replay = lanes.replay(state.offset);
    let mut module_above = None;
    for (i, y) in (state.offset..lanes.rows().len()).zip(area.top()..area.bottom()) {
        let Some(row) = lanes.rows().get(i) else { break };
        let line = Rect::new(area.x, y, area.width, 1);
        p.hits.add(line, Target::Lane(i));
        draw_lanes(state, p, &columns, i, row, replay.live(), &active, y);
        if i == state.cursor {
            p.tint(line, if state.focus == Pane::Main { Role::Cursor } else { Role::CursorUnfocused });
        }
        match row.kind {
            RowKind::Rule(part) => rule(state, p, &columns, area, part, y),
            _ => content(state, p, &columns, row, y, &mut module_above),
        }
        if i == state.cursor {
            p.tint(line, if state.focus == Pane::Main { Role::Cursor } else { Role::CursorUnfocused });
        }
        replay.advance();
    }
    p.scroll_bar(area, state.offset, lanes.rows().len());
}

/// Placement of a row of units.
fn placement(state: &State, row: &Row) -> Option<Placement> {
    let unit = *state.lanes.units(row).first()?;
    state.lanes.plan().placement.get(unit.index()).copied()
}

/// Colour of a row's dot: placement, or heat where that is shown.
fn dot_role(state: &State, row: &Row, placement: Placement) -> Role {
    if state.heat == Heat::Placement {
        return placement_role(placement);
    }
    // Long folded runs are sampled at their beginning: the frame must not cost more than its cells.
    let hottest = state.lanes.nodes(row).take(64).filter_map(|n| state.heat_of(n)).fold(0.0, f64::max);
    Role::heat(hottest)
}

#[allow(clippy::too_many_arguments)]
fn draw_lanes(state: &State, p: &mut Painter<'_>, c: &Columns, index: usize, row: &Row, live: &[u32], active: &[u32], y: u16) {
    let glyphs = *p.glyphs();
    let ports = state.lanes.ports(index);
    let is_rule = matches!(row.kind, RowKind::Rule(_));
    let dot = state.lanes.dot(index);
    let (from, to) = if is_rule { (NONE, 0) } else { ports.iter().fold((dot, dot), |(a, b), q| (a.min(q.lane), b.max(q.lane))) };
    let bus_active = index == state.cursor;
    let bus = p.style(if bus_active { Role::LaneActive } else { Role::lane(dot) });
    let rule_style = match row.kind {
        RowKind::Rule(part) => state.lanes.plan().partitions.get(part.index()).map_or(bus, |q| p.style(placement_role(q.kind))),
        _ => bus,
    };
    let last = u32::from(c.lanes) - 1;
    for lane in 0..u32::from(c.lanes) {
        let x = c.lanes_x + 2 * lane as u16;
        let value = live.get(lane as usize).copied().unwrap_or(NONE);
        let style = |v: u32| if active.contains(&v) { Role::LaneActive } else { Role::lane(lane) };
        if is_rule {
            let symbol = if value == NONE { glyphs.rule } else { glyphs.crossing };
            let s = if value == NONE { rule_style } else { p.style(style(value)) };
            p.glyph(x, y, symbol, s);
            p.glyph(x + 1, y, glyphs.rule, rule_style);
            continue;
        }
        let within = from <= lane && lane <= to && from < to;
        let (mut up, mut down, mut touched) = (false, false, NONE);
        for q in ports.iter().filter(|q| q.lane == lane) {
            (up, down) = (up || q.up, down || q.down);
            touched = q.value;
        }
        let (symbol, s) = if lane == dot {
            dot_glyph(state, p, row)
        } else if touched != NONE {
            let bits = usize::from(up) | usize::from(down) << 1 | usize::from(from < lane) << 2 | usize::from(to > lane) << 3;
            let role = if bus_active { Role::LaneActive } else { style(touched) };
            (glyphs.joint.get(bits).copied().unwrap_or(" "), p.style(role))
        } else if value != NONE {
            (glyphs.bridge, p.style(style(value)))
        } else if within {
            (glyphs.joint[12], bus)
        } else {
            (" ", bus)
        };
        p.glyph(x, y, symbol, s);
        if within && lane < to && lane < last {
            p.glyph(x + 1, y, glyphs.joint[12], bus);
        }
    }
    // More lanes than fit: whatever goes on to the right is said, the dot stands at the edge.
    let beyond = live.len() > usize::from(c.lanes) || to > last && !is_rule;
    if beyond {
        let x = c.lanes_x + 2 * c.lanes;
        if dot > last && !is_rule {
            let (symbol, s) = dot_glyph(state, p, row);
            p.glyph(x - 1, y, glyphs.joint[12], bus);
            p.glyph(x, y, symbol, s);
        } else {
            p.glyph(x - 1, y, glyphs.ellipsis, p.style(Role::TextDim));
        }
    }
}

fn dot_glyph(state: &State, p: &Painter<'_>, row: &Row) -> (&'static str, ratatui::style::Style) {
    let glyphs = p.glyphs();
    match row.kind {
        RowKind::Input(_) => (glyphs.input, p.style(Role::Info)),
        RowKind::Output(_) => (glyphs.output, p.style(Role::Info)),
        RowKind::Folded(_) => {
            let placement = placement(state, row).unwrap_or(Placement::Accelerated);
            (glyphs.folded, p.style(dot_role(state, row, placement)))
        }
        RowKind::Unit(_) | RowKind::Rule(_) => {
            let placement = placement(state, row).unwrap_or(Placement::Accelerated);
            (glyphs.placement(placement), p.style(dot_role(state, row, placement)))
        }
    }
}

fn rule(state: &State, p: &mut Painter<'_>, c: &Columns, area: Rect, part: recut_core::partition::PartitionId, y: u16) {
    let plan = state.lanes.plan();
    let Some(partition) = plan.partitions.get(part.index()) else { return };
    let role = placement_role(partition.kind);
    let style = p.style(role);
    let glyph = p.glyphs().rule;
    for x in (area.x..c.lanes_x).chain(c.lanes_x + 2 * c.lanes..area.right()) {
        p.glyph(x, y, glyph, style);
    }
    let mut x = c.gutter_x + 1;
    let end = area.right().saturating_sub(1);
    let room = |x: u16| end.saturating_sub(x);
    let name = partition.name();
    let name = if area.width < 70 { name.strip_prefix("run_on_").unwrap_or(&name) } else { &name };
    let wrap = state.partition_wrap(part).map_or_else(String::new, |w| format!(" {w}"));
    let label = format!(" {} {name}{wrap} ", p.glyphs().placement(partition.kind));
    x += p.put(x, y, room(x), &label, role);
    let nodes = plural(plan.units(part).len(), "node");
    x += p.put(x, y, room(x), &format!("{nodes} "), Role::Text);
    let t = state.lanes.transfer(part);
    if t.tensors > 0 {
        let size = if t.open { format!("{}+", bytes(t.bytes)) } else { bytes(t.bytes) };
        let text = format!("{} {size} in {} ", p.glyphs().dot, plural(t.tensors as usize, "tensor"));
        p.put(x, y, room(x), &text, Role::TextStrong);
    }
}

fn content(state: &State, p: &mut Painter<'_>, c: &Columns, row: &Row, y: u16, module_above: &mut Option<u32>) {
    let model = state.document.model();
    let graph = &model.graph;
    let glyphs = *p.glyphs();
    match row.kind {
        RowKind::Input(i) => {
            if let Some(&v) = graph.inputs().get(i as usize) {
                p.put(c.op_x, y, c.op, "input", Role::TextDim);
                value_row(state, p, c, v, y);
            }
        }
        RowKind::Output(i) => {
            if let Some(&v) = graph.outputs().get(i as usize) {
                p.put(c.op_x, y, c.op, "output", Role::TextDim);
                value_row(state, p, c, v, y);
            }
        }
        RowKind::Unit(u) => match state.document.view().unit(u) {
            Unit::Node(n) => node_row(state, p, c, n, y, module_above),
            Unit::Wrap(w) => {
                let Some(region) = state.document.view().wraps().get(w as usize) else { return };
                p.put(c.op_x, y, c.op, &printable(&region.definition), Role::Opaque);
                let used = p.put(c.name_x, y, c.name, &printable(&region.id), Role::Opaque) + 1;
                let nodes = plural(region.nodes.len(), "node");
                p.put(c.name_x + used, y, c.name.saturating_sub(used), &nodes, Role::TextDim);
                if let Some(&v) = region.outputs.first() {
                    shape(state, p, c, v, region.outputs.len(), y);
                }
                time(state, p, c, region.nodes.iter().copied(), y);
                *module_above = None;
            }
        },
        RowKind::Folded(m) => {
            let module = model.modules.module(m);
            let class = module.class.as_deref().map_or("module", |c| c.rsplit('.').next().unwrap_or(c));
            let placement = placement(state, row).unwrap_or(Placement::Accelerated);
            let role = if placement == Placement::Accelerated { Role::Module } else { placement_role(placement) };
            p.put(c.op_x, y, c.op, &printable(class), role);
            let count = state.lanes.units(row).len();
            let tail = format!("  {}", plural(count, "node"));
            let whole = c.name + if c.module > 0 { c.module + 1 } else { 0 };
            let room = whole.saturating_sub(width(&tail) as u16);
            let name = printable(&module.path);
            let used = p.put(c.name_x, y, room, &fit_end(&name, usize::from(room), glyphs.ellipsis), Role::Text);
            p.put(c.name_x + used, y, whole.saturating_sub(used), &tail, Role::TextDim);
            if c.time > 0 && count <= 4096 {
                time(state, p, c, state.lanes.nodes(row), y);
            }
            *module_above = None;
        }
        RowKind::Rule(_) => {}
    }
    marks(state, p, c, row, y);
}

fn value_row(state: &State, p: &mut Painter<'_>, c: &Columns, v: ValueId, y: u16) {
    let name = printable(&state.document.model().graph.value(v).name).into_owned();
    p.put(c.name_x, y, c.name, &name, Role::Text);
    shape(state, p, c, v, 1, y);
    if state.wiring.is_hub(v.0) {
        p.put(c.gutter_x, y, GUTTER - 1, p.glyphs().hub, Role::LaneActive);
    }
}

fn shape(state: &State, p: &mut Painter<'_>, c: &Columns, v: ValueId, outputs: usize, y: u16) {
    if c.shape == 0 {
        return;
    }
    let text = shape_text(state, v);
    let text = if outputs > 1 { format!("{text} +{}", outputs - 1) } else { text };
    p.put(c.shape_x, y, c.shape, &text, Role::Shape);
}

fn time(state: &State, p: &mut Painter<'_>, c: &Columns, nodes: impl Iterator<Item = NodeId>, y: u16) {
    if c.time == 0 {
        return;
    }
    let Some(cell) = state.beside(nodes) else { return };
    let role = overlay::role(state, &cell);
    match cell.share {
        Some(share) => {
            p.put_right(c.time_x + 10, y, 10, &cell.text, role);
            p.bar(c.time_x + 11, y, c.time.saturating_sub(12), share, role);
        }
        None => {
            p.put(c.time_x + 1, y, c.time.saturating_sub(2), &cell.text, role);
        }
    }
}

fn node_row(state: &State, p: &mut Painter<'_>, c: &Columns, n: NodeId, y: u16, module_above: &mut Option<u32>) {
    let model = state.document.model();
    let node = model.graph.node(n);
    let glyphs = *p.glyphs();
    let placement = state.lanes.plan().placement_of_node(n);
    // Gutter: hubs that are read, then the number of constants.
    let hubs = state.wiring.reads(n).iter().filter(|&&v| state.wiring.is_hub(v) && !state.wiring.is_constant(v)).count();
    let mut x = c.gutter_x;
    if hubs > 0 {
        x += p.put(x, y, 1, glyphs.hub, Role::LaneActive);
    }
    let constants = state.wiring.constants(n);
    if constants > 0 {
        p.put(x, y, GUTTER.saturating_sub(1 + u16::from(hubs > 0)), &format!("{}{constants}", glyphs.dot), Role::Gutter);
    }
    let matched = state.matches.as_ref().is_some_and(|m| m.nodes.contains(n));
    let op_role = match (matched, placement) {
        (true, _) => Role::Match,
        (false, Placement::Accelerated) => Role::Op,
        (false, other) => placement_role(other),
    };
    p.put(c.op_x, y, c.op, &op_label(&node.op, usize::from(c.op), glyphs.ellipsis), op_role);
    let name = printable(model.graph.stable_id(n));
    let selected = state.selection.contains(n);
    let role = if selected {
        Role::Selected
    } else if matched {
        Role::Match
    } else {
        Role::Text
    };
    p.put(c.name_x, y, c.name, &fit_end(&name, usize::from(c.name), glyphs.ellipsis), role);
    // The module is said where it changes: that is how blocks show.
    if *module_above != Some(node.module.0) {
        *module_above = Some(node.module.0);
        if c.module > 0 && node.module != ModuleId::ROOT {
            let path = printable(&model.modules.module(node.module).path);
            p.put(c.module_x, y, c.module, &fit_end(&path, usize::from(c.module), glyphs.ellipsis), Role::Module);
        }
    }
    let outputs = node.outputs.iter().flatten().count();
    if let Some(&v) = node.outputs.iter().flatten().next() {
        shape(state, p, c, v, outputs, y);
        if state.wiring.is_hub(v.0) && hubs == 0 {
            p.put(c.gutter_x, y, 1, glyphs.hub, Role::LaneActive);
        }
    }
    time(state, p, c, std::iter::once(n), y);
}

/// The two cells at the left: selected or range begin, and a pin.
fn marks(state: &State, p: &mut Painter<'_>, c: &Columns, row: &Row, y: u16) {
    let Some(n) = state.lanes.nodes(row).next() else { return };
    let x = c.lanes_x.saturating_sub(2);
    if state.selection.contains(n) {
        p.put(x, y, 1, p.glyphs().selected, Role::Selected);
    } else if state.range == Some(n) {
        p.put(x, y, 1, p.glyphs().arrow, Role::Selected);
    }
    let unit = state.document.view().unit_of(n);
    use recut_core::partition::Rule;
    let pin = match state.lanes.plan().rule.get(unit.index()) {
        Some(Rule::PinTorch(_)) => ("t", Role::Torch),
        Some(Rule::PinAccelerated(_)) => ("a", Role::Accelerated),
        Some(Rule::TorchModule(_)) => ("m", Role::Torch),
        Some(Rule::TorchOp(_)) => ("o", Role::Torch),
        Some(Rule::Unsupported | Rule::ConditionalStrict) => ("!", Role::Torch),
        Some(Rule::NonTensorInput | Rule::NonTensorOutput | Rule::MinBlockSize | Rule::AtomicGroup(_)) => ("-", Role::Torch),
        Some(Rule::Default | Rule::Wrap(_) | Rule::ForeignOp) | None => return,
    };
    p.put(x + 1, y, 1, pin.0, pin.1);
}

/// An operator in a narrow column: torch's own without what they all have in common (`conv2d`, `add.Tensor`); of a foreign
/// one the end tells more than its domain.
fn op_label(op: &Op, width: usize, ellipsis: &str) -> String {
    if op.domain.is_empty() {
        return printable(&op.name).into_owned();
    }
    if op.dialect == Dialect::Aten && &*op.domain == "aten" {
        let name = printable(&op.name).into_owned();
        let plain = op.overload.is_empty() || &*op.overload == "default";
        return if plain { name } else { format!("{name}.{}", printable(&op.overload)) };
    }
    fit_end(&printable(&op.to_string()), width, ellipsis).into_owned()
}
