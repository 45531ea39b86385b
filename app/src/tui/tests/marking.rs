//! Marks by keys: plan, config, colours and the status line in the same frame.

use super::*;

#[test]
fn t_moves_a_node_to_torch_in_the_same_frame_and_u_takes_it_back() {
    let mut app = App::new(140, 30);
    app.keys("j j");
    assert_eq!(app.color("● accelerated in"), app.role(Role::Accelerated));
    app.keys("t");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["relu0"]);
    assert!(app.notice().contains("+1 torch partition"), "{}", app.notice());
    assert!(app.notice().contains("across"), "{}", app.notice());
    assert!(app.row(" relu0  ").contains('○'), "{}", app.text());
    // The operator of the row takes the colour of torch too.
    assert_eq!(app.color("Relu             relu0"), app.role(Role::Torch));
    assert_eq!(app.color("○ torch in"), app.role(Role::Torch));
    assert!(app.row("run_on_torch_1").contains("16 B in 1 tensor"), "{}", app.text());
    let dirty = app.line(" recut ");
    app.keys("u");
    assert!(app.state.document.config().torch_executed_nodes.is_empty());
    assert!(app.notice().starts_with("undone"), "{}", app.notice());
    assert_ne!(app.line(" recut "), dirty);
    app.keys("ctrl-r");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["relu0"]);
    app.keys("t");
    assert!(app.state.document.config().torch_executed_nodes.is_empty());
}

#[test]
fn marking_row_after_row_never_marks_a_whole_partition() {
    let mut app = App::new(140, 30);
    app.keys("j t j t");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["conv0", "relu0"]);
    app.keys("{ t");
    assert_eq!(app.state.document.config().torch_executed_nodes.len(), 2, "{}", app.notice());
    assert!(app.notice().contains("no nodes"), "{}", app.notice());
}

#[test]
fn the_cursor_stays_on_its_node_when_rows_move() {
    let mut app = App::new(140, 30);
    app.keys("j j j t");
    let node = app.state.current_node();
    app.keys("k k t");
    app.keys("u u");
    app.keys("ctrl-r ctrl-r");
    assert!(node.is_some());
    app.keys("/ add1 enter t");
    let add1 = app.state.document.model().graph.find_node("add1");
    assert_eq!(app.state.current_node(), add1);
}

#[test]
fn a_module_in_the_tree_is_marked_as_a_module() {
    let mut app = App::new(140, 30);
    app.keys("tab tab tab tab");
    app.state.focus = super::super::hit::Pane::Tree;
    app.keys("g g j j t");
    assert_eq!(app.state.document.config().torch_executed_modules.len(), 1, "{:?}", app.state.document.config());
    assert!(app.state.numbers.partitions[1] >= 1);
    app.keys("t");
    assert!(app.state.document.config().torch_executed_modules.is_empty());
}

#[test]
fn choosing_every_op_of_the_type_marks_the_op() {
    let mut app = App::new(140, 30);
    app.keys("j j T");
    assert!(app.text().contains("Every op  Relu"), "{}", app.text());
    app.keys("o");
    assert_eq!(app.state.document.config().torch_executed_ops.len(), 1);
    assert_eq!(app.state.numbers.partitions[1], 2, "both Relus: {}", app.text());
    // A mark that reaches other nodes is not cleared without a question.
    app.keys("x");
    assert!(app.text().contains("Clear which mark?"), "{}", app.text());
    app.keys("enter");
    assert!(app.state.document.config().torch_executed_ops.is_empty());
}

#[test]
fn a_selection_is_marked_as_one_edit() {
    let mut app = App::new(140, 30);
    app.keys("space space t");
    assert_eq!(app.state.document.config().torch_executed_nodes.len(), 2);
    assert!(app.state.selection.is_empty());
    app.keys("u");
    assert!(app.state.document.config().torch_executed_nodes.is_empty());
}

#[test]
fn a_region_that_is_not_convex_shows_the_path_and_can_be_closed() {
    let mut app = App::new(140, 40);
    // conv0 and add0 without the relu0 between them.
    app.keys("j space j space");
    assert_eq!(app.state.selection.count(), 2, "{}", app.notice());
    app.keys("w enter");
    let text = app.text();
    assert!(text.contains("not convex") && text.contains("conv0") && text.contains("relu0"), "{text}");
    app.keys("y");
    assert_eq!(app.state.document.view().wraps().len(), 1, "{}", app.notice());
    assert_eq!(app.state.document.view().wraps()[0].nodes.len(), 3);
    assert!(app.text().contains('◆'), "{}", app.text());
    assert!(app.text().contains("InlinedCustomOp_0"), "{}", app.text());
    app.keys("/ conv0 enter");
    app.keys("W");
    assert!(app.state.document.view().wraps().is_empty(), "{}", app.notice());
}

#[test]
fn the_palette_marks_what_a_selector_matches_and_shows_how_many() {
    let mut app = App::new(140, 30);
    app.keys(": op:Conv");
    assert!(app.text().contains("3 nodes"), "{}", app.text());
    app.keys("esc");
    app.keys(": torch space op:Conv enter");
    assert_eq!(app.state.document.config().torch_executed_ops.len(), 1);
    assert!(app.state.layers.is_empty());
    app.keys(": min-block-size space 3 enter");
    assert_eq!(app.state.document.config().partitioner.min_block_size, 3);
}

#[test]
fn a_pin_to_the_accelerator_takes_the_torch_pin_away() {
    let mut app = App::new(140, 30);
    app.keys("j t a");
    let c = app.state.document.config();
    assert!(c.torch_executed_nodes.is_empty());
    assert_eq!(c.accelerated_nodes.len(), 1);
}
