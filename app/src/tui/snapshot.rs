//! One frame of the app without a terminal: for `recut snapshot`, docs and tests.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use recut_core::diagnostic::printable;
use recut_core::document::Document;
use recut_exec::engine::CancelToken;

use super::action::Action;
use super::key::Key;
use super::msg::{Effect, JobKind, Msg};
use super::runtime::jobs::{Look, execute};
use super::state::{MainView, Setup, State};
use super::update::update;
use super::view::render;
use crate::theme::{ColorDepth, Theme};

/// What to draw.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// Columns and rows.
    pub size: (u16, u16),
    /// Keys to press first.
    pub keys: Vec<Key>,
    /// `lanes` or `problems`.
    pub view: String,
    /// Theme.
    pub theme: String,
    /// Colours.
    pub colors: ColorDepth,
    /// Only ASCII characters.
    pub ascii: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            size: (160, 50),
            keys: Vec::new(),
            view: "lanes".to_owned(),
            theme: "dark".to_owned(),
            colors: ColorDepth::TrueColor,
            ascii: false,
        }
    }
}

/// A frame.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its cells.
    pub buffer: Buffer,
}

/// Draws `document` after `options.keys`. Background jobs are done at once; nothing is written to disk.
///
/// # Errors
/// If there is no such view or theme.
pub fn snapshot(document: Document, options: &SnapshotOptions) -> anyhow::Result<Snapshot> {
    if !Theme::built_in_names().contains(&&*options.theme) {
        let known = Theme::built_in_names().join(", ");
        anyhow::bail!("--theme: there is no theme `{}`; built in are {known}", printable(&options.theme));
    }
    let (theme, warnings) = Theme::load(&options.theme, options.colors, options.ascii, &|_| None);
    let setup = Setup { warnings, ..Setup::of(document, theme, options.size) };
    let (mut state, effects) = State::new(setup);
    state.main = match &*options.view {
        "lanes" => MainView::Lanes,
        "problems" => MainView::Problems,
        other => anyhow::bail!("--view: there is no view `{}`; there are lanes and problems", printable(other)),
    };
    let look = Look { depth: options.colors, ascii: options.ascii };
    settle(&mut state, effects, look);
    for &key in &options.keys {
        press(&mut state, key, look);
    }
    Ok(Snapshot { buffer: render(&state).0 })
}

/// Presses a key and does all jobs that follow from it.
pub fn press(state: &mut State, key: Key, look: Look) {
    let effects = update(state, Msg::Key(key));
    settle(state, effects, look);
}

/// Does jobs on this thread until there are none; those that write are left out.
pub fn settle(state: &mut State, effects: Vec<Effect>, look: Look) {
    let mut effects = std::collections::VecDeque::from(effects);
    while let Some(effect) = effects.pop_front() {
        if let Effect::Start(id, request) = effect
            && !matches!(id.kind, JobKind::Save | JobKind::Recovery | JobKind::Recovered)
        {
            let event = execute(request, look, &CancelToken::default(), &|_| {});
            effects.extend(update(state, Msg::Job(id, event)));
        }
    }
}

/// The frame of a state after some keys: the text form of keys as in `--keys`.
#[must_use]
pub fn render_snapshot(state: &mut State, width: u16, height: u16, keys: &[Key]) -> Buffer {
    update(state, Msg::Resize(width, height));
    for &key in keys {
        press(state, key, Look::default());
    }
    render(state).0
}

/// Names of the views that a snapshot can show.
pub const VIEWS: [(&str, Action); 2] = [("lanes", Action::ViewLanes), ("problems", Action::ViewProblems)];

impl Snapshot {
    fn rows(&self) -> impl Iterator<Item = &[ratatui::buffer::Cell]> {
        self.buffer.content().chunks(usize::from(self.buffer.area.width.max(1)))
    }

    /// Characters alone, without spaces at the ends of lines.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for row in self.rows() {
            let mut line = String::new();
            let mut skip = 0;
            for cell in row {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                line.push_str(cell.symbol());
                skip = super::text::width(cell.symbol()).saturating_sub(1);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// With escape sequences, as a terminal shows it.
    #[must_use]
    pub fn to_ansi(&self) -> String {
        let mut out = String::new();
        for row in self.rows() {
            let mut last: Option<Style> = None;
            let mut skip = 0;
            for cell in row {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                if last != Some(cell.style()) {
                    last = Some(cell.style());
                    sgr(&mut out, cell.style());
                }
                out.push_str(cell.symbol());
                skip = super::text::width(cell.symbol()).saturating_sub(1);
            }
            out.push_str("\x1b[0m\n");
        }
        out
    }

    /// As a picture.
    #[must_use]
    pub fn to_svg(&self) -> String {
        const CELL: (u32, u32) = (9, 18);
        let area = self.buffer.area;
        let (w, h) = (u32::from(area.width) * CELL.0, u32::from(area.height) * CELL.1);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"15\" xml:space=\"preserve\">\n"
        );
        for (y, row) in self.rows().enumerate() {
            let y = y as u32 * CELL.1;
            let mut x = 0;
            while x < row.len() {
                let Some(first) = row.get(x) else { break };
                let style = first.style();
                // Cells of one style are one run, so that the file stays small.
                let len = row.iter().skip(x).take_while(|c| c.style() == style).count();
                let text: String = row.iter().skip(x).take(len).map(ratatui::buffer::Cell::symbol).collect();
                let (mut fg, mut bg) = (hex(style.fg, "#d0d0d0"), hex(style.bg, "#101010"));
                if style.add_modifier.contains(Modifier::REVERSED) {
                    std::mem::swap(&mut fg, &mut bg);
                }
                let (px, pw) = (x as u32 * CELL.0, len as u32 * CELL.0);
                // Writing to a string does not fail.
                let _ = writeln!(out, "<rect x=\"{px}\" y=\"{y}\" width=\"{pw}\" height=\"{}\" fill=\"{bg}\"/>", CELL.1);
                if !text.trim().is_empty() {
                    let bold = if style.add_modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
                    let under = if style.add_modifier.contains(Modifier::UNDERLINED) { " text-decoration=\"underline\"" } else { "" };
                    let _ = writeln!(
                        out,
                        "<text x=\"{px}\" y=\"{}\" textLength=\"{pw}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{fg}\"{bold}{under}>{}</text>",
                        y + 14,
                        escape(&text)
                    );
                }
                x += len.max(1);
            }
        }
        out.push_str("</svg>\n");
        out
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const NAMED: [(Color, u8, &str); 16] = [
    (Color::Black, 0, "#000000"),
    (Color::Red, 1, "#cc3333"),
    (Color::Green, 2, "#339933"),
    (Color::Yellow, 3, "#b58900"),
    (Color::Blue, 4, "#3355cc"),
    (Color::Magenta, 5, "#aa44aa"),
    (Color::Cyan, 6, "#2299aa"),
    (Color::Gray, 7, "#bbbbbb"),
    (Color::DarkGray, 8, "#666666"),
    (Color::LightRed, 9, "#ff6666"),
    (Color::LightGreen, 10, "#66dd66"),
    (Color::LightYellow, 11, "#f0e060"),
    (Color::LightBlue, 12, "#7799ff"),
    (Color::LightMagenta, 13, "#ff88ff"),
    (Color::LightCyan, 14, "#66e0e0"),
    (Color::White, 15, "#ffffff"),
];

fn hex(color: Option<Color>, default: &str) -> String {
    match color {
        Some(Color::Rgb(r, g, b)) => format!("#{r:02x}{g:02x}{b:02x}"),
        Some(Color::Indexed(n @ 16..=231)) => {
            let step = |i: u8| if i == 0 { 0 } else { 55 + 40 * u32::from(i) };
            let n = n - 16;
            format!("#{:02x}{:02x}{:02x}", step(n / 36), step(n / 6 % 6), step(n % 6))
        }
        Some(Color::Indexed(n @ 232..)) => {
            let grey = 8 + 10 * u32::from(n - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        Some(c) => NAMED.iter().find(|(n, i, _)| *n == c || c == Color::Indexed(*i)).map_or(default, |(_, _, h)| h).to_owned(),
        None => default.to_owned(),
    }
}

fn sgr(out: &mut String, style: Style) {
    out.push_str("\x1b[0");
    for (m, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::ITALIC, 3), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)] {
        if style.add_modifier.contains(m) {
            let _ = write!(out, ";{code}");
        }
    }
    for (color, base) in [(style.fg, 30u32), (style.bg, 40)] {
        let _ = match color {
            None | Some(Color::Reset) => Ok(()),
            Some(Color::Rgb(r, g, b)) => write!(out, ";{};2;{r};{g};{b}", base + 8),
            Some(Color::Indexed(n)) => write!(out, ";{};5;{n}", base + 8),
            Some(c) => match NAMED.iter().find(|(n, _, _)| *n == c) {
                Some((_, i, _)) if *i < 8 => write!(out, ";{}", base + u32::from(*i)),
                Some((_, i, _)) => write!(out, ";{}", base + 52 + u32::from(*i)),
                None => Ok(()),
            },
        };
    }
    out.push('m');
}
