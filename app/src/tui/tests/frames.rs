//! What a frame shows.

use super::*;
use crate::theme::ColorDepth;

#[test]
fn the_lanes_draw_a_residual_block_like_a_log() {
    let app = App::new(140, 30);
    let text = app.text();
    // The skip of a block runs beside it and comes back at its Add.
    assert!(app.line("conv0").contains("├─●"), "{text}");
    assert!(app.line(" relu0").contains("│ ●"), "{text}");
    assert!(app.line(" add0").contains("●─╯"), "{text}");
    assert!(app.line("run_on_acc_0").contains("8 nodes"), "{text}");
    assert!(app.line("input").contains("▽"), "{text}");
    assert!(app.line("output").contains("△"), "{text}");
    assert!(app.line("conv0").contains("·1"), "one constant in the gutter: {text}");
}

#[test]
fn every_size_draws_without_a_panic_and_small_ones_say_so() {
    let mut app = App::new(120, 30);
    app.keys("space j space t :");
    for (w, h) in [(0, 0), (1, 1), (20, 5), (59, 20), (60, 19), (60, 20), (80, 24), (100, 30), (160, 50), (400, 120)] {
        for layer in ["esc", ":", "esc ?", "esc T", "esc /"] {
            app.keys(layer);
            app.state.size = (w, h);
            let text = app.text();
            if w == 59 || h == 19 {
                assert!(text.contains("needs 60x20"), "{text}");
            }
        }
        app.keys("esc");
        for key in ["tab", "tab", "tab", "8", "1", "j", "G", "g g"] {
            app.keys(key);
            app.text();
        }
    }
}

#[test]
fn ascii_and_no_colour_say_all_that_colours_do() {
    let theme = Theme::load("dark", ColorDepth::None, true, &|_| None).0;
    let mut app = App::themed(model(), 120, 30, theme);
    app.keys("j t");
    let buffer = app.buffer();
    assert!(buffer.content().iter().all(|c| c.symbol().is_ascii()), "{}", app.text());
    assert!(buffer.content().iter().all(|c| c.fg == ratatui::style::Color::Reset && c.bg == ratatui::style::Color::Reset));
    // Placement is told by the dot: `*` accelerated, `o` torch.
    assert!(app.row(" stem  ").contains("|  *  "), "{}", app.text());
    assert!(app.row(" conv0  ").contains("t+-o"), "{}", app.text());
}

#[test]
fn names_from_the_file_cannot_break_the_screen() {
    let long = "層".repeat(300);
    let b = ModelBuilder::new().node("a\u{1b}[2J\nb", "Relu", &["x"], &["v"]).node(&long, "My\u{7}Op", &["v"], &["y"]);
    let app = App::with(Imported { model: b.build(), diagnostics: Vec::new() }, 100, 24);
    let buffer = app.buffer();
    assert!(buffer.content().iter().all(|c| !c.symbol().chars().any(char::is_control)));
    assert!(app.text().contains("\\u{1b}"), "{}", app.text());
}

#[test]
fn the_cursor_row_highlights_its_lanes_and_the_node_pane_follows() {
    let mut app = App::new(140, 30);
    app.keys("j j j");
    assert!(app.line("Why here").contains("Why here"));
    assert!(app.text().contains("add0"), "{}", app.text());
    assert_eq!(app.state.detail.title, "Node");
    let before = app.state.detail.clone();
    app.keys("k");
    assert_ne!(before, app.state.detail);
}

#[test]
fn frames_cost_cells_and_not_nodes() {
    let mut b = ModelBuilder::new();
    for i in 0..30_000usize {
        let input = i.checked_sub(1).map_or_else(|| "x".to_owned(), |p| format!("v{p}"));
        b = b.node(&format!("n{i}"), "Neg", &[&input], &[&format!("v{i}")]).module(&format!("m{}", i / 100), "");
    }
    let mut app = App::with(Imported { model: b.build(), diagnostics: Vec::new() }, 120, 40);
    app.keys("G");
    let (_, hits) = render(&app.state);
    // One target a visible row: what is visited is what is seen.
    assert!(hits.len() < 40 * 4, "{}", hits.len());
}
