//! Where commands write: data to the standard output, messages and progress to the standard error.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::ColorWhen;
use super::error::{CliError, Result};

/// Whether each stream gets colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colors {
    /// The standard output.
    pub stdout: bool,
    /// The standard error.
    pub stderr: bool,
}

impl Colors {
    /// What `--color` and the environment say. Looks for the flag itself, since usage errors are coloured too.
    #[must_use]
    pub fn before_parsing(args: &[OsString]) -> Self {
        let mut when = ColorWhen::Auto;
        let mut args = args.iter().take_while(|a| *a != "--");
        while let Some(a) = args.next().and_then(|a| a.to_str()) {
            let value = match a.strip_prefix("--color") {
                Some("") => args.next().and_then(|a| a.to_str()),
                Some(rest) => rest.strip_prefix('='),
                None => continue,
            };
            when = match value {
                Some("always") => ColorWhen::Always,
                Some("never") => ColorWhen::Never,
                _ => ColorWhen::Auto,
            };
        }
        let env = |name: &str| std::env::var_os(name);
        Self { stdout: decide(when, env, std::io::stdout().is_terminal()), stderr: decide(when, env, std::io::stderr().is_terminal()) }
    }

    /// For clap, which has one choice for both streams: its errors and most help are read on the standard error's terminal.
    #[must_use]
    pub fn for_clap(self) -> clap::ColorChoice {
        if self.stdout && self.stderr { clap::ColorChoice::Always } else { clap::ColorChoice::Never }
    }
}

/// The order of the contract: flag, `NO_COLOR`, `FORCE_COLOR` and `CLICOLOR_FORCE`, then the terminal.
fn decide(when: ColorWhen, env: impl Fn(&str) -> Option<OsString>, terminal: bool) -> bool {
    let forced = |name| env(name).is_some_and(|v| !v.is_empty() && v != "0" && v != "false");
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto if env("NO_COLOR").is_some_and(|v| !v.is_empty()) => false,
        ColorWhen::Auto if forced("FORCE_COLOR") || forced("CLICOLOR_FORCE") => true,
        ColorWhen::Auto => terminal && env("TERM").is_none_or(|t| t != "dumb"),
    }
}

/// The streams of a command.
#[derive(Clone, Debug)]
pub struct Output {
    colors: Colors,
    quiet: bool,
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Headings.
    Title,
    /// Less important.
    Dim,
    /// It holds.
    Good,
    /// It may not be what was meant.
    Warn,
    /// It does not hold.
    Bad,
    /// Accelerated.
    Accelerated,
    /// Torch.
    Torch,
    /// Opaque.
    Opaque,
}

impl Tone {
    fn style(self) -> Style {
        let color = |c: AnsiColor| Style::new().fg_color(Some(c.into()));
        match self {
            Self::Title => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good | Self::Accelerated => color(AnsiColor::Green),
            Self::Warn | Self::Torch => color(AnsiColor::Yellow),
            Self::Bad => color(AnsiColor::Red).bold(),
            Self::Opaque => color(AnsiColor::Magenta),
        }
    }
}

/// `text` in this tone if `on`.
#[must_use]
pub fn paint(on: bool, tone: Tone, text: &str) -> String {
    if !on || text.is_empty() {
        return text.to_owned();
    }
    let style = tone.style();
    format!("{style}{text}{style:#}")
}

impl Output {
    /// Streams with these colours; `quiet` drops all messages but errors.
    #[must_use]
    pub fn new(colors: Colors, quiet: bool) -> Self {
        Self { colors, quiet }
    }

    /// `text` in this tone, for the standard output.
    #[must_use]
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        paint(self.colors.stdout, tone, text)
    }

    /// Whether the standard output gets colours.
    #[must_use]
    pub fn colored(&self) -> bool {
        self.colors.stdout
    }

    /// Writes data to the standard output.
    ///
    /// # Errors
    /// If it cannot be written; a reader that went away is [`CliError::closed_pipe`].
    pub fn data(&self, text: &str) -> Result<()> {
        self.data_with(|w| w.write_all(text.as_bytes()))
    }

    /// Writes data to the standard output piece by piece.
    ///
    /// # Errors
    /// As [`Output::data`].
    pub fn data_with(&self, f: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let mut w = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
        let written = f(&mut w).and_then(|()| w.flush());
        // What is left in the buffer after an error would be written again on drop.
        let (_, _) = w.into_parts();
        written.map_err(|e| CliError::stdout(&e))
    }

    /// Says what was done.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.message(&paint(self.colors.stderr, Tone::Dim, text));
        }
    }

    /// Says what may not be as meant.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            self.message(&format!("{} {text}", paint(self.colors.stderr, Tone::Warn, "warning:")));
        }
    }

    /// Says why the command failed.
    pub fn error(&self, text: &str) {
        self.message(&format!("{} {text}", paint(self.colors.stderr, Tone::Bad, "error:")));
    }

    fn message(&self, line: &str) {
        // Nobody is left to be told when the standard error is closed.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    /// Progress of long work; invisible unless the standard error is a terminal. `total` 0 makes it a spinner.
    #[must_use]
    pub fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let visible = !self.quiet && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = if total == 0 { ProgressBar::with_draw_target(None, target) } else { ProgressBar::with_draw_target(Some(total), target) };
        let template = if total == 0 { "{spinner} {msg} {elapsed}" } else { "{msg} [{bar:30}] {pos}/{len} {eta}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        if visible && total == 0 {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_follows_flag_then_environment_then_terminal() {
        let env = |set: &'static [(&'static str, &'static str)]| {
            move |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        assert!(decide(ColorWhen::Always, env(&[("NO_COLOR", "1")]), false));
        assert!(!decide(ColorWhen::Never, env(&[("FORCE_COLOR", "1")]), true));
        assert!(!decide(ColorWhen::Auto, env(&[("NO_COLOR", "1"), ("FORCE_COLOR", "1")]), true));
        assert!(decide(ColorWhen::Auto, env(&[("NO_COLOR", ""), ("CLICOLOR_FORCE", "1")]), false));
        assert!(!decide(ColorWhen::Auto, env(&[("FORCE_COLOR", "0")]), false));
        assert!(decide(ColorWhen::Auto, env(&[("TERM", "xterm")]), true));
        assert!(!decide(ColorWhen::Auto, env(&[("TERM", "dumb")]), true));
    }

    #[test]
    fn the_color_flag_is_found_before_parsing() {
        let args = |a: &[&str]| a.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(Colors::before_parsing(&args(&["recut", "--color", "always", "x"])), Colors { stdout: true, stderr: true });
        assert_eq!(Colors::before_parsing(&args(&["recut", "--color=never"])), Colors { stdout: false, stderr: false });
    }
}
