//! The app driven by keys, with the frame checked as glyphs and styles.

mod columns;
mod frames;
mod guards;
mod marking;
mod reading;
mod screens;

use ratatui::buffer::Buffer;
use recut_core::config::PartitionConfig;
use recut_core::document::{Document, DocumentOptions};
use recut_core::import::Imported;
use recut_core::testing::ModelBuilder;

use super::key::Key;
use super::runtime::jobs::Look;
use super::snapshot::{press, settle};
use super::state::{Setup, State};
use super::view::render;
use crate::theme::{Role, Theme};

/// Two residual blocks: `conv -> relu -> add`, and a head.
fn model() -> Imported {
    let mut b = ModelBuilder::new().node("stem", "Conv", &["x", "w.stem"], &["v_stem"]).module("stem", "torch.nn.modules.conv.Conv2d");
    let mut input = "v_stem".to_owned();
    for i in 0..2 {
        let (c, r, a) = (format!("v_conv{i}"), format!("v_relu{i}"), format!("v_add{i}"));
        b = b.node(&format!("conv{i}"), "Conv", &[&input, "w.c"], &[&c]).module(&format!("layer{i}.conv"), "torch.nn.modules.conv.Conv2d");
        b = b.node(&format!("relu{i}"), "Relu", &[&c], &[&r]).module(&format!("layer{i}.relu"), "torch.nn.modules.activation.ReLU");
        b = b.node(&format!("add{i}"), "Add", &[&r, &input], &[&a]).module(&format!("layer{i}"), "m.Block");
        input = a;
    }
    b = b.node("head", "Gemm", &[&input, "w.h"], &["y"]).module("head", "torch.nn.modules.linear.Linear");
    Imported { model: b.build(), diagnostics: Vec::new() }
}

/// The app on [`model`], at a size.
struct App {
    state: State,
}

impl App {
    fn new(width: u16, height: u16) -> Self {
        Self::with(model(), width, height)
    }

    fn with(imported: Imported, width: u16, height: u16) -> Self {
        Self::themed(imported, width, height, Theme::built_in("dark"))
    }

    fn themed(imported: Imported, width: u16, height: u16, theme: Theme) -> Self {
        let document = Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).unwrap();
        let (mut state, effects) = State::new(Setup::of(document, theme, (width, height)));
        settle(&mut state, effects, Look::default());
        Self { state }
    }

    fn keys(&mut self, keys: &str) -> &mut Self {
        for key in Key::parse_all(keys) {
            press(&mut self.state, key, Look::default());
        }
        self
    }

    fn buffer(&self) -> Buffer {
        render(&self.state).0
    }

    fn text(&self) -> String {
        let buffer = self.buffer();
        let width = usize::from(buffer.area.width.max(1));
        buffer.content().chunks(width).map(|row| row.iter().map(|c| c.symbol()).collect::<String>() + "\n").collect()
    }

    /// The row of the screen that holds `text`.
    fn line(&self, text: &str) -> String {
        let all = self.text();
        all.lines().find(|l| l.contains(text)).unwrap_or_else(|| panic!("no line holds `{text}`:\n{all}")).to_owned()
    }

    /// What the graph pane shows in its first row that holds `text`.
    fn row(&self, text: &str) -> String {
        let main = self.state.geometry().main;
        let all = self.text();
        let pane = |l: &str| l.chars().skip(usize::from(main.x)).take(usize::from(main.width)).collect::<String>();
        all.lines().skip(2).map(pane).find(|l| l.contains(text)).unwrap_or_else(|| panic!("no row holds `{text}`:\n{all}"))
    }

    /// Foreground of the first cell of `text`.
    fn color(&self, text: &str) -> ratatui::style::Color {
        let all = self.text();
        let (y, line) = all.lines().enumerate().find(|(_, l)| l.contains(text)).unwrap_or_else(|| panic!("no `{text}`:\n{all}"));
        let x = line[..line.find(text).unwrap()].chars().count();
        self.buffer().cell((x as u16, y as u16)).unwrap().fg
    }

    fn role(&self, role: Role) -> ratatui::style::Color {
        self.state.theme.fg(role)
    }

    fn notice(&self) -> &str {
        self.state.notice.as_ref().map_or("", |n| &n.text)
    }
}
