//! The terminal: entered once, and restored whatever happens.

use std::io::{BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange, EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::layout::Position;
use ratatui::{Frame, Terminal};

type Backend = ratatui::backend::CrosstermBackend<BufWriter<Stdout>>;

/// Whether the terminal is ours, so that it is restored once and only then.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The screen.
pub(super) struct Screen {
    terminal: Terminal<Backend>,
}

/// Says what to do where there is no terminal.
///
/// # Errors
/// If standard input or output is none.
pub(super) fn require() -> anyhow::Result<()> {
    for (is, name) in [(std::io::stdin().is_terminal(), "input"), (std::io::stdout().is_terminal(), "output")] {
        if !is {
            anyhow::bail!("the app needs a terminal, and standard {name} is none; `recut inspect` and `recut --run` work without one");
        }
    }
    Ok(())
}

impl Screen {
    /// Takes over the terminal. Nothing is asked of it: one that answers no query starts as fast as any.
    pub(super) fn enter() -> anyhow::Result<Self> {
        enable_raw_mode()?;
        ENTERED.store(true, Ordering::SeqCst);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Workers catch their own panics; only the thread that draws owns the terminal.
            if std::thread::current().name().is_none_or(|n| !n.starts_with("job ")) {
                restore();
            }
            before(info);
        }));
        let result =
            execute!(std::io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, EnableFocusChange, cursor::Hide);
        if let Err(e) = result {
            restore();
            return Err(e.into());
        }
        let writer = BufWriter::with_capacity(1 << 16, std::io::stdout());
        match Terminal::new(Backend::new(writer)) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(e) => {
                restore();
                Err(e.into())
            }
        }
    }

    /// Size in cells.
    pub(super) fn size(&self) -> anyhow::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws a frame; `f` says where the text cursor is.
    pub(super) fn draw(&mut self, f: impl FnOnce(&mut Frame<'_>) -> Option<Position>) -> anyhow::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            if let Some(at) = f(frame) {
                frame.set_cursor_position(at);
            }
        })?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        Ok(())
    }

    /// Puts text on the terminal's clipboard (OSC 52).
    pub(super) fn copy(&mut self, text: &str) -> anyhow::Result<()> {
        let backend = self.terminal.backend_mut();
        write!(backend, "\x1b]52;c;{}\x07", base64(text.as_bytes()))?;
        Write::flush(backend)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back. Errors are dropped: there is nobody left to tell.
fn restore() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(
        std::io::stdout(),
        EndSynchronizedUpdate,
        DisableFocusChange,
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS.get((word >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_known_texts() {
        for (text, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("conv1", "Y29udjE=")] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }
}
