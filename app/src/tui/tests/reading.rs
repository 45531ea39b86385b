//! Search in folded graphs, choices on folded rows, names of opaque ops, and what small screens show.

use super::super::hit::Pane;
use super::*;

fn at(app: &App) -> String {
    app.state.single_node().map_or_else(String::new, |n| app.state.document.model().graph.stable_id(n).to_owned())
}

#[test]
fn search_in_a_folded_graph_goes_to_the_first_match_and_shows_it() {
    for fold in ["", "-", "- -"] {
        let mut app = App::new(140, 30);
        app.keys(fold).keys("/ relu enter");
        assert!(app.notice().starts_with("match 1 of 2"), "{fold}: {}", app.notice());
        assert_eq!(at(&app), "relu0", "{fold}");
        assert!(app.row(" relu0  ").contains("Relu"), "{}", app.text());
        app.keys("n");
        assert!(app.notice().starts_with("match 2 of 2"), "{fold}: {}", app.notice());
        assert_eq!(at(&app), "relu1", "{fold}");
        app.keys("n");
        assert_eq!(at(&app), "relu0", "{fold}");
        app.keys("N");
        assert_eq!(at(&app), "relu1", "{fold}");
    }
}

#[test]
fn search_begins_where_the_cursor_is() {
    let mut app = App::new(140, 30);
    app.keys("/ add0 enter esc / relu enter");
    assert_eq!(at(&app), "relu1");
    assert!(app.notice().starts_with("match 2 of 2"), "{}", app.notice());
}

#[test]
fn esc_in_search_brings_cursor_scroll_and_folds_back() {
    let mut app = App::new(140, 20);
    app.keys("- j");
    let before = (app.state.cursor, app.state.offset, app.state.folds.clone(), app.text());
    app.keys("/ relu1");
    assert_ne!(app.state.cursor, before.0, "the cursor follows what is typed");
    app.keys("esc");
    assert_eq!((app.state.cursor, app.state.offset, app.state.folds.clone()), (before.0, before.1, before.2));
    assert_eq!(app.text(), before.3);
    app.keys("/ nothinglikethis enter");
    assert_eq!(app.state.cursor, before.0);
    assert!(app.notice().contains("nothing matches"), "{}", app.notice());
}

#[test]
fn a_folded_row_offers_its_module_and_no_hidden_node() {
    let mut app = App::new(140, 30);
    app.keys("j j j h T");
    let text = app.text();
    assert!(text.contains("Module  layer0"), "{text}");
    assert!(!text.contains("This node") && !text.contains("Every op"), "{text}");
    app.keys("n o");
    assert!(app.state.document.history().is_empty());
    app.keys("m");
    assert_eq!(app.state.document.config().torch_executed_modules.len(), 1);
    // The neighbours of a folded row lie outside of it, and a range has no end in it.
    app.keys("u ]");
    assert_eq!(at(&app), "conv1");
    let mut app = App::new(140, 30);
    app.keys("j j j h v");
    assert!(app.state.range.is_none() && app.notice().contains("unfolds"), "{}", app.notice());
}

#[test]
fn names_of_opaque_ops_are_those_of_the_command_line() {
    let mut app = App::new(140, 30);
    app.keys("j j j h w");
    assert!(app.text().contains("> layer0"), "{}", app.text());
    app.keys("ctrl-u m y space b enter");
    assert!(app.notice().contains("letters, digits and _") && app.notice().contains("my_b"), "{}", app.notice());
    assert!(app.state.document.config().wraps.is_empty());
    app.keys("ctrl-u b l o c k enter");
    assert_eq!(app.state.document.config().wraps[0].definition, "block");
    app.keys(": wrap space a.b=module:layer1 enter");
    assert!(app.text().contains("cannot name an op"), "{}", app.text());
    app.keys("esc");
    assert_eq!(app.state.document.config().wraps.len(), 1);
    // Rule and bar show the name.
    assert!(app.row("run_on_op_1").contains("run_on_op_1 block"), "{}", app.text());
    assert_eq!(app.state.partition_label(recut_core::partition::PartitionId::new(1)), "block");
}

#[test]
fn the_smallest_screen_shows_help_quit_and_the_way_to_hidden_panes() {
    for (w, hidden) in [(60, "tab modules, node"), (90, "tab modules"), (140, "tab pane")] {
        for keys in ["", "t t", "space"] {
            let mut app = App::new(w, 20);
            app.keys("j").keys(keys);
            app.state.notice = None;
            let last = app.text().lines().last().unwrap_or_default().to_owned();
            assert!(last.contains("? help") && last.contains("q quit"), "{w}: {last}");
            if keys != "space" {
                assert!(last.contains(hidden), "{w}: {last}");
            }
        }
        let mut app = App::new(w, 20);
        for focus in [Pane::Tree, Pane::Detail] {
            app.state.focus = focus;
            app.state.notice = None;
            let last = app.text().lines().last().unwrap_or_default().to_owned();
            assert!(last.contains("? help") && last.contains("q quit"), "{w}: {last}");
        }
    }
}

#[test]
fn a_message_that_is_cut_can_be_read_in_full() {
    let mut app = App::new(60, 20);
    let text = format!("saving: cannot write {}/m.recut.json: the disk is full: free some space", "/a/long/path".repeat(6));
    app.state.note(Role::Error, text.clone());
    let last = app.text().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("M all"), "{last}");
    app.keys("M");
    let shown: String = app.text().chars().filter(|c| !c.is_whitespace() && !"│▐┃".contains(*c)).collect();
    let wanted: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(shown.contains(&wanted), "{}", app.text());
    app.keys("esc");
    app.state.note(Role::Info, "short");
    assert!(!app.text().contains("M all"), "{}", app.text());
}

#[test]
fn help_can_be_read_in_full_on_the_smallest_screen() {
    let mut app = App::new(60, 20);
    app.keys("?");
    let mut words = String::new();
    for _ in 0..super::super::view::help_lines(&app.state) {
        words.push_str(&app.text());
        app.keys("j");
    }
    assert!(!words.contains('…'), "{words}");
    let last = super::super::action::Action::ALL.iter().flat_map(|a| a.doc().split(' '));
    for word in last {
        assert!(words.contains(word), "{word} is cut");
    }
}

#[test]
fn a_valid_command_is_not_contradicted_and_a_near_class_is_named() {
    let mut app = App::new(140, 30);
    app.keys(": d o w n");
    assert!(!app.text().contains("matches nothing"), "{}", app.text());
    app.keys("esc");
    let b = ModelBuilder::new()
        .node("t", "Tanh", &["x"], &["y"])
        .module("h.0.mlp.act", "transformers.activations.NewGELUActivation")
        .node("u", "Mul", &["y", "y"], &["z"])
        .module("h.0.mlp", "transformers.models.gpt2.modeling_gpt2.GPT2MLP");
    let mut app = App::with(Imported { model: b.build(), diagnostics: Vec::new() }, 140, 30);
    app.keys(": torch space GELU");
    assert!(app.text().contains("near: class:transformers.activations.NewGELUActivation"), "{}", app.text());
    app.keys("enter");
    assert!(app.notice().contains("nothing was marked") && app.notice().contains("NewGELUActivation"), "{}", app.notice());
    assert!(app.state.document.history().is_empty());
}

#[test]
fn sizes_are_in_the_units_of_the_command_line() {
    let mut app = App::new(160, 30);
    app.keys("j j t H H");
    let text = app.text();
    assert!(!text.contains(" kB") && !text.contains(" MB"), "{text}");
    assert_eq!(super::super::text::bytes(86_016), crate::cli::format::bytes(86_016));
}
