//! Without a terminal: a mark to a new plan, the layout, a mark with all that follows from it, and frames at 200x60.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use recut::theme::Theme;
use recut::tui::lanes::{Folds, Lanes, Wiring};
use recut::tui::snapshot::settle;
use recut::tui::update::update;
use recut::tui::view::view;
use recut::tui::{Key, Msg, Setup, State};
use recut_core::document::{Document, Edit, MarkList};
use recut_core::graph::NodeId;
use recut_core::partition::{Marks, PlanOptions, plan};
use recut_core::select::{NodeSet, selector_for_node, selector_for_op};
use recut_core::view::View;

use super::table::{Line, Spread, Table, Unit};

/// Measures the model of `document`.
pub(crate) fn measure(mut document: Document, table: &mut Table) {
    let model = document.model().clone();
    let nodes = model.graph.nodes().len();
    let line = |what, spread| Line { what, unit: Unit::Milliseconds, target: Some(1.0), target_p99: None, spread };
    let own = |what, target, spread| Line { what, unit: Unit::Milliseconds, target, target_p99: None, spread };

    let begin = Instant::now();
    let fresh = Arc::new(View::new(model.clone(), &[]).expect("no wrap, no error"));
    let view_time = begin.elapsed();
    table.line(&own("effective graph, once", None, Spread::of(&[view_time])));

    // A mark on one node, each time another one, with nothing else marked and on top of a marked operator type.
    let mut of_type = NodeSet::empty(nodes);
    let op = marked_type(&document);
    model.graph.node_ids().filter(|&n| Some(&*model.graph.node(n).op) == op.as_ref()).for_each(|n| {
        of_type.insert(n);
    });
    let of_type = Arc::new(of_type);
    table.line(&line("one mark to a new plan, nothing else marked", plans(&fresh, nodes, None)));
    table.line(&line("one mark to a new plan, an op type marked", plans(&fresh, nodes, Some(&of_type))));
    if let Some(op) = op {
        let edit = Edit::mark(document.config(), MarkList::TorchOps, &[&selector_for_op(&op)]).expect("a selector of our own");
        document.apply(edit).expect("a mark that can be");
    }
    table.line(&own("the same as an edit: config, selector, plan, bytes", None, edits(&mut document, nodes)));

    let wiring = Wiring::new(&model, &document.config().dims);
    let folds = Folds::none(model.modules.modules().len());
    let plan = document.plan().clone();
    let mut lanes = Lanes::new(&wiring, plan.clone(), &folds);
    let layout = times(51, || lanes.renew(&wiring, plan.clone(), &folds));
    table.line(&own("lane layout, nothing folded", Some(5.0), layout));
    drop(lanes);

    let (mut state, effects) = State::new(Setup::of(document, Theme::built_in("dark"), (200, 60)));
    settle(&mut state, effects, Default::default());
    state.cursor = state.lanes.rows().len() / 2;
    let mark = times(20, || drop(update(&mut state, Msg::Key(Key::char('t')))));
    table.line(&own("key t: plan, layout, tree, node pane", None, mark));
    // Everything unfolded: the most rows that there can be.
    drop(update(&mut state, Msg::Key(Key::char('+'))));
    let rows = state.lanes.rows().len();
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    let mut row = 0;
    let mut frame = |state: &mut State, row: usize| {
        state.cursor = row;
        drop(update(state, Msg::Focus(true)));
        buffer.reset();
        view(state, &mut buffer);
    };
    let jumps = times(2000, || {
        row = (row + rows / 997 + 1) % rows;
        frame(&mut state, row);
    });
    let two = |what, spread| Line { what, unit: Unit::Milliseconds, target: Some(0.5), target_p99: Some(2.0), spread };
    table.line(&two("one frame at 200x60, jumping all over", jumps));
    row = rows / 3;
    let steps = times(2000, || {
        row = (row + 1) % rows;
        frame(&mut state, row);
    });
    table.line(&two("one frame at 200x60, row by row", steps));
}

fn times(runs: usize, mut f: impl FnMut()) -> Spread {
    let all: Vec<Duration> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            f();
            begin.elapsed()
        })
        .collect();
    Spread::of(&all)
}

/// The operator type of which there are the most without being half of all: what a person might exclude.
fn marked_type(document: &Document) -> Option<recut_core::graph::Op> {
    let graph = &document.model().graph;
    let mut count: HashMap<&recut_core::graph::Op, usize> = HashMap::new();
    graph.nodes().iter().for_each(|n| *count.entry(&n.op).or_default() += 1);
    let mut ops: Vec<_> = count.into_iter().filter(|(_, n)| 2 * n <= graph.nodes().len()).collect();
    ops.sort();
    ops.into_iter().max_by_key(|(_, n)| *n).map(|(op, _)| op.clone())
}

/// Nodes that are marked, spread over the graph.
fn marked(nodes: usize) -> impl Iterator<Item = NodeId> {
    (0..201).map(move |i| NodeId::new((i * 7919 + 13) * nodes.div_ceil(97) % nodes.max(1)))
}

fn plans(view: &Arc<View>, nodes: usize, also: Option<&Arc<NodeSet>>) -> Spread {
    let options = PlanOptions::default();
    let mut last = plan(view, &Marks::default(), None, &options);
    let mut all = Vec::new();
    for n in marked(nodes) {
        let mut one = NodeSet::empty(nodes);
        one.insert(n);
        let marks = Marks {
            torch_executed_ops: also.into_iter().cloned().collect(),
            torch_executed_nodes: vec![Arc::new(one)],
            ..Marks::default()
        };
        let begin = Instant::now();
        let new = plan(view, &marks, None, &options);
        all.push(begin.elapsed());
        // The plan before is shown until the new one is there.
        last = new;
    }
    drop(last);
    Spread::of(&all)
}

fn edits(document: &mut Document, nodes: usize) -> Spread {
    let mut all = Vec::new();
    for n in marked(nodes) {
        let text = selector_for_node(document.model(), n);
        let begin = Instant::now();
        let edit = Edit::toggle(document.config(), MarkList::TorchNodes, &[&text]).expect("a selector of our own");
        document.apply(edit).expect("a mark that can be");
        all.push(begin.elapsed());
        document.undo();
    }
    Spread::of(&all)
}
