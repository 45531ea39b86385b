//! Times of the terminal app without a terminal, as a table: layout, a mark with all that follows from it, and frames at
//! 200x60. Models are made here, or given as arguments.

use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use recut::theme::Theme;
use recut::tui::keymap::Keymap;
use recut::tui::lanes::{Folds, Lanes, Wiring};
use recut::tui::snapshot::settle;
use recut::tui::update::update;
use recut::tui::view::view;
use recut::tui::{Key, Msg, Setup, State};
use recut_core::config::PartitionConfig;
use recut_core::document::{Document, DocumentOptions};
use recut_core::import::{Imported, open};
use recut_core::testing::ModelBuilder;

/// Residual blocks in nested modules.
fn made(nodes: usize) -> Imported {
    let mut b = ModelBuilder::new();
    let mut input = "x".to_owned();
    let mut skip = "x".to_owned();
    for i in 0..nodes {
        let out = format!("v{i}");
        let module = format!("stage{}.block{}.op{}", i / 1000, i / 20 % 50, i % 20 / 4);
        b = match i % 4 {
            0 => b.node(&format!("conv{i}"), "Conv", &[&input, "w.c"], &[&out]),
            3 => b.node(&format!("add{i}"), "Add", &[&input, &skip], &[&out]),
            _ => b.node(&format!("relu{i}"), "Relu", &[&input], &[&out]),
        }
        .module(&module, "m.Block");
        if i % 4 == 3 {
            skip.clone_from(&out);
        }
        input = out;
    }
    Imported { model: b.build(), diagnostics: Vec::new() }
}

fn times(runs: usize, mut f: impl FnMut()) -> (Duration, Duration) {
    let mut all: Vec<Duration> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            f();
            begin.elapsed()
        })
        .collect();
    all.sort_unstable();
    (all[runs / 2], all[runs * 99 / 100])
}

#[allow(clippy::print_stdout)]
fn measure(name: &str, imported: Imported) {
    let document = Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).expect("a plain config fits");
    let model = document.model().clone();
    let nodes = model.graph.nodes().len();
    let dims = document.config().dims.clone();
    let plan = document.plan().clone();
    let (wire, _) = times(5, || drop(Wiring::new(&model, &dims)));
    let wiring = Wiring::new(&model, &dims);
    let folds = Folds::none(model.modules.modules().len());
    let (layout, _) = times(21, || drop(Lanes::new(&wiring, plan.clone(), &folds)));
    let setup = Setup {
        document,
        config_path: None,
        config_content: None,
        outside: Vec::new(),
        greeting: None,
        recovery_path: None,
        recovered: Vec::new(),
        theme: Theme::built_in("dark"),
        keymap: Keymap::default(),
        warnings: Vec::new(),
        size: (200, 60),
    };
    let begin = Instant::now();
    let (mut state, effects) = State::new(setup);
    let start = begin.elapsed();
    settle(&mut state, effects, Default::default());
    state.cursor = state.lanes.rows().len() / 2;
    let (mark, _) = times(20, || drop(update(&mut state, Msg::Key(Key::char('t')))));
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    let rows = state.lanes.rows().len();
    let mut row = 0;
    let (frame, worst) = times(1000, || {
        row = (row + rows / 997 + 1) % rows;
        state.cursor = row;
        drop(update(&mut state, Msg::Focus(true)));
        buffer.reset();
        view(&state, &mut buffer);
    });
    println!("{name:<22} {nodes:>7}  {wire:>9.1?}  {start:>9.1?}  {layout:>9.1?}  {mark:>9.1?}  {frame:>9.1?}  {worst:>9.1?}");
}

#[allow(clippy::print_stdout)]
fn main() {
    println!("model                    nodes     wiring      state     layout       mark  frame p50  frame p99");
    let paths: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    for path in &paths {
        let name = std::path::Path::new(path).file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        match open(path.as_ref()) {
            Ok(imported) => measure(&name, imported),
            Err(e) => println!("{e}"),
        }
    }
    if paths.is_empty() {
        for nodes in [1_000, 10_000, 100_000] {
            measure(&format!("residual blocks {nodes}"), made(nodes));
        }
    }
}
