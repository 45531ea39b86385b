//! Trouble that does not stop the work: collected, shown in the problems list, put into reports.

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Probably not what was meant.
    Warning,
    /// Something will fail, e.g. running a node whose weight is missing.
    Error,
}

/// One finding, about a file, node or value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable short name of the kind (`unsorted_nodes`, `missing_weight`), for scripts.
    pub code: String,
    /// One sentence: what, where, why, what to do. Without control characters.
    pub message: String,
    /// Stable id of the node it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the value it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Diagnostic {
    /// A finding about no node or value in particular.
    #[must_use]
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Self {
        Self { severity, code: code.to_owned(), message: harmless(message.into()), node: None, value: None }
    }

    /// A warning.
    #[must_use]
    pub fn warning(code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// An error that does not stop the work now.
    #[must_use]
    pub fn error(code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// About this node.
    #[must_use]
    pub fn with_node(mut self, stable_id: &str) -> Self {
        self.node = Some(stable_id.to_owned());
        self
    }

    /// About this value.
    #[must_use]
    pub fn with_value(mut self, name: &str) -> Self {
        self.value = Some(name.to_owned());
        self
    }
}

/// A whole message without what could drive a terminal: what other parsers say of a file quotes it as it is.
pub(crate) fn harmless(message: String) -> String {
    let bad = |c: char| c != '\n' && is_unprintable(c);
    if !message.contains(bad) {
        return message;
    }
    let mut out = String::with_capacity(message.len() + 8);
    for c in message.chars() {
        if bad(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Control characters, and those that change the direction of what follows.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Longest stretch of a name from a file that a message quotes.
const MAX_QUOTED: usize = 120;

/// A name from a file as messages and one-line views show it: control characters (also line feeds and escape
/// sequences) become `\u{..}` escapes, and the middle of a very long name is left out.
#[must_use]
pub fn printable(name: &str) -> std::borrow::Cow<'_, str> {
    let bad = is_unprintable;
    if name.len() <= MAX_QUOTED && !name.contains(bad) {
        return name.into();
    }
    let mut out = String::new();
    let chars = name.chars().count();
    for (i, c) in name.chars().enumerate() {
        if chars > MAX_QUOTED && i == MAX_QUOTED / 2 {
            out.push('…');
        }
        if chars > MAX_QUOTED && i >= MAX_QUOTED / 2 && i + MAX_QUOTED / 2 < chars {
            continue;
        }
        if bad(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out.into()
}

/// A path as messages show it.
#[must_use]
pub fn printable_path(path: &std::path::Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_reach_the_terminal_as_escapes() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("plain"), "plain");
        assert_eq!(Diagnostic::warning("code", "line\n\u{1b}[2J\u{202e}").message, "line\n\\u{1b}[2J\\u{202e}");
        assert!(printable(&"x".repeat(20_000)).chars().count() < 130);
    }
}
