//! Colours as the terminal can show them.

use ratatui::style::{Color, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ColorDepth {
    /// None (`NO_COLOR`): only bold, dim, underline and reverse.
    None,
    /// The sixteen named ones.
    Ansi16,
    /// 256.
    Ansi256,
    /// 24 bits.
    #[default]
    TrueColor,
}

/// The sixteen colours as most terminals show them.
const ANSI16: [(u8, u8, u8, Color); 16] = [
    (0, 0, 0, Color::Black),
    (170, 0, 0, Color::Red),
    (0, 150, 0, Color::Green),
    (170, 110, 0, Color::Yellow),
    (40, 60, 200, Color::Blue),
    (170, 0, 170, Color::Magenta),
    (0, 150, 170, Color::Cyan),
    (170, 170, 170, Color::Gray),
    (95, 95, 95, Color::DarkGray),
    (255, 95, 95, Color::LightRed),
    (95, 230, 95, Color::LightGreen),
    (245, 235, 95, Color::LightYellow),
    (110, 150, 255, Color::LightBlue),
    (255, 120, 255, Color::LightMagenta),
    (95, 235, 235, Color::LightCyan),
    (255, 255, 255, Color::White),
];

impl ColorDepth {
    /// What the environment says: `NO_COLOR`, then `COLORTERM` and `TERM`.
    #[must_use]
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Self {
        if var("NO_COLOR").is_some_and(|v| !v.is_empty()) {
            return Self::None;
        }
        let term = var("TERM").unwrap_or_default();
        if matches!(var("COLORTERM").as_deref(), Some("truecolor" | "24bit")) || term.contains("direct") {
            return Self::TrueColor;
        }
        match &*term {
            "dumb" => Self::None,
            t if t.contains("256color") || t.contains("kitty") || t.contains("alacritty") => Self::Ansi256,
            _ => Self::Ansi16,
        }
    }

    /// `style` with colours that the terminal has.
    #[must_use]
    pub fn reduce(self, mut style: Style) -> Style {
        if self == Self::None {
            return Style { fg: None, bg: None, ..style };
        }
        style.fg = style.fg.map(|c| self.color(c));
        style.bg = style.bg.map(|c| self.color(c));
        style
    }

    fn color(self, color: Color) -> Color {
        let Color::Rgb(r, g, b) = color else { return color };
        match self {
            Self::TrueColor | Self::None => color,
            Self::Ansi256 => Color::Indexed(nearest_256(r, g, b)),
            Self::Ansi16 => ANSI16.iter().min_by_key(|c| distance((r, g, b), (c.0, c.1, c.2))).map_or(color, |c| c.3),
        }
    }
}

/// Squared distance, weighted as the eye weighs the channels.
fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> u32 {
    let d = |x: u8, y: u8| u32::from(x.abs_diff(y)).pow(2);
    3 * d(a.0, b.0) + 4 * d(a.1, b.1) + 2 * d(a.2, b.2)
}

/// The nearest of the 6x6x6 cube and the grey ramp.
fn nearest_256(r: u8, g: u8, b: u8) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |c: u8| (0u8..6).min_by_key(|&i| STEPS[usize::from(i)].abs_diff(c)).unwrap_or(0);
    let (i, j, k) = (step(r), step(g), step(b));
    let cube = (STEPS[usize::from(i)], STEPS[usize::from(j)], STEPS[usize::from(k)]);
    let grey_index = (0u8..24).min_by_key(|&n| distance((8 + 10 * n, 8 + 10 * n, 8 + 10 * n), (r, g, b))).unwrap_or(0);
    let grey = 8 + 10 * grey_index;
    if distance((grey, grey, grey), (r, g, b)) < distance(cube, (r, g, b)) { 232 + grey_index } else { 16 + 36 * i + 6 * j + k }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn the_environment_decides() {
        assert_eq!(ColorDepth::from_env(env(&[("TERM", "xterm-256color")])), ColorDepth::Ansi256);
        assert_eq!(ColorDepth::from_env(env(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")])), ColorDepth::TrueColor);
        assert_eq!(ColorDepth::from_env(env(&[("TERM", "linux")])), ColorDepth::Ansi16);
        assert_eq!(ColorDepth::from_env(env(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")])), ColorDepth::None);
    }

    #[test]
    fn colours_are_reduced_to_near_ones() {
        let red = Style::new().fg(Color::Rgb(255, 90, 90));
        assert_eq!(ColorDepth::Ansi16.reduce(red).fg, Some(Color::LightRed));
        assert_eq!(ColorDepth::Ansi256.reduce(Style::new().fg(Color::Rgb(255, 255, 255))).fg, Some(Color::Indexed(231)));
        assert_eq!(ColorDepth::Ansi256.reduce(Style::new().fg(Color::Rgb(30, 30, 30))).fg, Some(Color::Indexed(234)));
        assert_eq!(ColorDepth::None.reduce(red).fg, None);
    }
}
