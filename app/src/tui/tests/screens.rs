//! Dialogs, search, folding, jobs and files.

use super::super::hit::Target;
use super::super::msg::{Effect, JobEvent, JobId, JobKind, JobOutput, JobRequest, MouseKind, Msg, Replace};
use super::super::run_job::RunResult;
use super::super::state::{Heat, MainView};
use super::super::update::update;
use super::*;

#[test]
fn help_lists_every_action_with_its_key() {
    let mut app = App::new(120, 110);
    app.keys("?");
    let text = app.text();
    for a in super::super::action::Action::ALL {
        assert!(text.contains(a.doc()), "{} is not in help:\n{text}", a.name());
    }
    app.keys("esc");
    assert!(app.state.layers.is_empty());
}

#[test]
fn search_finds_by_name_op_module_and_shape_and_n_steps_through() {
    let mut app = App::new(140, 30);
    app.keys("/ relu");
    assert_eq!(app.state.matches.as_ref().map(|m| m.count), Some(2));
    app.keys("enter n");
    assert!(app.notice().starts_with("match"), "{}", app.notice());
    app.keys("esc / layer1 enter");
    assert_eq!(app.state.matches.as_ref().map(|m| m.count), Some(3));
    app.keys("/ re:^add\\d$");
    assert_eq!(app.state.matches.as_ref().map(|m| m.count), Some(2));
    app.keys("esc");
    assert!(app.state.matches.is_none());
    app.keys("/ re:( enter");
    assert!(app.state.matches.is_none());
}

#[test]
fn folding_a_module_makes_it_one_row_and_unfolding_brings_the_cursor_back() {
    let mut app = App::new(140, 30);
    app.keys("j j j h");
    assert!(app.row("layer0  ").contains('▣'), "{}", app.text());
    assert!(app.row("layer0  ").contains("3 nodes"), "{}", app.text());
    app.keys("l");
    assert!(!app.text().contains('▣'));
    let rows = app.state.lanes.rows().len();
    app.keys("-");
    assert!(app.state.lanes.rows().len() < rows);
    app.keys("+");
    assert_eq!(app.state.lanes.rows().len(), rows);
}

#[test]
fn producer_and_consumer_jump_along_edges_and_back() {
    let mut app = App::new(140, 30);
    let at = |app: &App| app.state.current_node().map(|n| app.state.document.model().graph.stable_id(n).to_owned());
    app.keys("j j j");
    assert_eq!(at(&app).as_deref(), Some("add0"));
    app.keys("[");
    assert_eq!(at(&app).as_deref(), Some("relu0"));
    app.keys("alt-left [");
    assert_eq!(at(&app).as_deref(), Some("stem"), "the same key again takes the next producer");
    app.keys("]");
    assert_eq!(at(&app).as_deref(), Some("conv0"));
}

#[test]
fn unsaved_edits_are_asked_for_before_quitting() {
    let mut app = App::new(140, 30);
    let quits = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Quit));
    assert!(quits(&update(&mut app.state, Msg::Key(Key::char('q')))));
    app.keys("t");
    assert!(!quits(&update(&mut app.state, Msg::Key(Key::char('q')))));
    assert!(app.text().contains("Unsaved edits"), "{}", app.text());
    let effects = update(&mut app.state, Msg::Key(Key::char('s')));
    let Some(Effect::Start(id, JobRequest::Save { path, text, replace, .. })) = effects.into_iter().next() else { panic!("no save") };
    assert!(replace == Replace::Never && text.contains("torch_executed_nodes"));
    let content = text.as_bytes().into();
    let effects = update(&mut app.state, Msg::Job(id, JobEvent::Done(JobOutput::Saved { path, content })));
    assert!(quits(&effects));
    assert!(!app.state.document.is_dirty());
}

#[test]
fn saving_over_a_file_that_was_not_opened_asks() {
    let mut app = App::new(140, 30);
    app.keys("t");
    let effects = update(&mut app.state, Msg::Key(Key::char('s')));
    let Some(Effect::Start(id, JobRequest::Save { path, .. })) = effects.into_iter().next() else { panic!("no save") };
    update(&mut app.state, Msg::Job(id, JobEvent::Done(JobOutput::Exists(path))));
    assert!(app.text().contains("File exists"), "{}", app.text());
    let effects = update(&mut app.state, Msg::Key(Key::char('y')));
    assert!(matches!(effects.first(), Some(Effect::Start(_, JobRequest::Save { replace: Replace::Always, .. }))));
}

#[test]
fn a_run_fills_in_times_and_an_older_one_is_dropped() {
    let mut app = App::new(160, 30);
    let effects = update(&mut app.state, Msg::Key(Key::char('r')));
    let Some(Effect::Start(id, JobRequest::Run { .. })) = effects.into_iter().next() else { panic!("no run") };
    assert!(app.text().contains("running"), "{}", app.text());
    let nodes = app.state.document.model().graph.nodes().len();
    let result = |ns: u64| {
        let node_ns = (0..nodes).map(|i| Some(ns * (i as u64 + 1))).collect();
        JobEvent::Done(JobOutput::Run(Box::new(RunResult {
            node_ns,
            end_to_end_ns: 50_000_000,
            nodes_ns: 45_000_000,
            remarks: Vec::new(),
        })))
    };
    let old = JobId { kind: JobKind::Run, generation: id.generation - 1 };
    update(&mut app.state, Msg::Job(old, result(7)));
    assert!(app.state.profile.is_none());
    update(&mut app.state, Msg::Job(id, result(1_000_000)));
    assert_eq!(app.state.heat, Heat::Time);
    assert!(app.notice().starts_with("ran on generated inputs in 50.0 ms"), "{}", app.notice());
    assert!(app.text().contains("end to end 50.0 ms  nodes 45.0 ms  gap 5.0 ms"), "{}", app.text());
    assert!(app.row(" head  ").contains("8.0 ms"), "{}", app.text());
    app.keys("t");
    assert!(app.text().contains("(earlier plan)"), "{}", app.text());
}

#[test]
fn a_reloaded_model_keeps_marks_by_name_and_lists_what_is_lost() {
    let mut app = App::new(160, 30);
    app.keys("j t j t");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["conv0", "relu0"]);
    let b = ModelBuilder::new().node("new", "Neg", &["x"], &["n"]).node("relu0", "Relu", &["n"], &["y"]);
    let imported = Imported { model: b.build(), diagnostics: Vec::new() };
    let effects = update(&mut app.state, Msg::Changed(super::super::msg::Watched::Model));
    let Some(Effect::Start(id, JobRequest::Model { .. })) = effects.into_iter().next() else { panic!("no reload") };
    update(&mut app.state, Msg::Job(id, JobEvent::Done(JobOutput::Model(Box::new(imported)))));
    assert_eq!(app.state.document.config().torch_executed_nodes, ["conv0", "relu0"]);
    let nodes = "model reloaded: 7 nodes gone, 1 new; 1 mark matches nothing now; 1 mark matches other nodes";
    assert!(app.notice().starts_with(nodes) && !app.notice().contains("reloaded: reloaded"), "{}", app.notice());
    assert!(app.state.problems.iter().any(|p| p.code == "mark_moved" && p.message.contains("relu0")), "{:?}", app.state.problems);
    assert!(app.row(" relu0  ").contains('○'), "{}", app.text());
    app.keys("8");
    assert_eq!(app.state.main, MainView::Problems);
    assert!(app.text().contains("conv0"), "{}", app.text());
}

#[test]
fn the_mouse_selects_rows_panes_and_partitions() {
    let mut app = App::new(140, 30);
    app.keys("j j t");
    let find = |app: &App, wanted: &dyn Fn(Target) -> bool| {
        let (_, hits) = render(&app.state);
        (0..30).flat_map(|y| (0..140).map(move |x| (x, y))).find_map(|(x, y)| hits.at(x, y).filter(|t| wanted(*t)))
    };
    let lane = find(&app, &|t| matches!(t, Target::Lane(1)));
    update(&mut app.state, Msg::Mouse(MouseKind::Press, lane));
    assert_eq!(app.state.cursor, 1);
    let last = recut_core::partition::PartitionId::new(2);
    let segment = find(&app, &|t| t == Target::Partition(last));
    update(&mut app.state, Msg::Mouse(MouseKind::Press, segment));
    assert_eq!(app.state.lanes.partition_of_row(app.state.cursor), Some(last));
    update(&mut app.state, Msg::Mouse(MouseKind::WheelUp, lane));
    assert!(app.state.lanes.partition_of_row(app.state.cursor) < Some(last));
    let tree = find(&app, &|t| matches!(t, Target::Tree(2)));
    update(&mut app.state, Msg::Mouse(MouseKind::Press, tree));
    assert_eq!(app.state.focus, super::super::hit::Pane::Tree);
}

#[test]
fn pasted_text_is_never_taken_as_keys() {
    let mut app = App::new(140, 30);
    update(&mut app.state, Msg::Paste("q\nt".to_owned()));
    assert!(!app.state.document.is_dirty());
    assert_eq!(app.state.layers.len(), 1);
}

#[test]
fn an_unbound_key_says_where_the_keys_are() {
    let mut app = App::new(140, 30);
    app.keys("Z");
    assert!(app.notice().contains('?'), "{}", app.notice());
    for (key, what) in [("2", "canvas"), ("7", "scenarios"), ("g f", "source line"), ("z", "zoom")] {
        app.keys(key);
        assert!(app.notice().contains("does not have") && app.notice().contains(what), "{}", app.notice());
    }
}
