//! Keys and their text form (`j`, `ctrl-r`, `alt-left`, `space`), the same in key files, in `--keys` and in help.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key; letters as they are typed, so that `G` is a key of its own.
    pub code: KeyCode,
    /// With Ctrl.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// With Shift, for keys that type no character.
    pub shift: bool,
}

const NAMED: [(&str, KeyCode); 16] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("space", KeyCode::Char(' ')),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("del", KeyCode::Delete),
    ("ins", KeyCode::Insert),
];

impl Key {
    /// A key without modifiers.
    #[must_use]
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// A character key.
    #[must_use]
    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    /// The character it types, if it is no shortcut.
    #[must_use]
    pub const fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// One key from its text form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = Self::char(' ');
        let mut rest = text;
        loop {
            let mut chars = rest.chars();
            if let (Some(c), None) = (chars.next(), chars.next()) {
                key.code = KeyCode::Char(c);
                return Some(key);
            }
            if let Some(r) = rest.strip_prefix("ctrl-") {
                (key.ctrl, rest) = (true, r);
            } else if let Some(r) = rest.strip_prefix("alt-") {
                (key.alt, rest) = (true, r);
            } else if let Some(r) = rest.strip_prefix("shift-") {
                (key.shift, rest) = (true, r);
            } else {
                break;
            }
        }
        key.code = match NAMED.iter().find(|(n, _)| *n == rest) {
            Some((_, code)) => *code,
            None => KeyCode::F(rest.strip_prefix('f')?.parse().ok().filter(|n| (1..=24).contains(n))?),
        };
        if key.code == KeyCode::Tab && key.shift {
            key = Self { code: KeyCode::BackTab, shift: false, ..key };
        }
        Some(key)
    }

    /// Several keys, separated by spaces. A word that names no key is typed letter by letter (`/ conv1 enter`).
    #[must_use]
    pub fn parse_all(text: &str) -> Vec<Self> {
        let word = |w: &str| Self::parse(w).map_or_else(|| w.chars().map(Self::char).collect(), |k| vec![k]);
        text.split_whitespace().flat_map(word).collect()
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        let typed = matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab);
        Self {
            code: event.code,
            ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
            alt: event.modifiers.contains(KeyModifiers::ALT),
            shift: !typed && event.modifiers.contains(KeyModifiers::SHIFT),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (on, name) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if on {
                f.write_str(name)?;
            }
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, c)| *c == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            _ => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_text_form() {
        for text in ["j", "G", "-", "ctrl-r", "alt-left", "space", "backtab", "f5", "ctrl-alt-x", "shift-up", ":"] {
            assert_eq!(Key::parse(text).map(|k| k.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Key::parse("shift-tab"), Key::parse("backtab"));
        assert_eq!(Key::parse("hyper-x"), None);
        assert_eq!(Key::parse_all("/ conv enter").len(), 6);
    }
}
