//! Patterns made ready for matching. Every match is linear in the length of the name.

use regex::{Regex, RegexBuilder};

use super::ast::Pattern;

/// Largest compiled pattern, and largest cache of its automaton, in bytes.
const REGEX_SIZE_LIMIT: usize = 1 << 20;

/// A compiled [`Pattern`].
#[derive(Debug)]
pub(super) enum Matcher {
    Exact(String),
    Regex(Regex),
}

impl Matcher {
    /// Compiles a pattern; the error says what is wrong with it.
    pub(super) fn new(pattern: &Pattern) -> Result<Self, String> {
        match pattern {
            Pattern::Literal(s) => Ok(Self::Exact(s.clone())),
            Pattern::Glob(s) if !s.contains('*') => Ok(Self::Exact(s.clone())),
            Pattern::Glob(s) => build(&glob_to_regex(s)).map(Self::Regex).map_err(|e| match e {
                regex::Error::CompiledTooBig(_) => "the pattern is too large: use fewer wildcards".to_owned(),
                e => last_line(&e),
            }),
            Pattern::Regex(s) => build(s).map(Self::Regex).map_err(|e| match e {
                regex::Error::CompiledTooBig(_) => format!("the regular expression is too large (over {REGEX_SIZE_LIMIT} bytes compiled)"),
                e => format!("no valid regular expression: {}", last_line(&e)),
            }),
        }
    }

    pub(super) fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Exact(s) => s == name,
            Self::Regex(r) => r.is_match(name),
        }
    }
}

/// The crate's messages draw the pattern over several lines; the last one holds the reason.
fn last_line(e: &regex::Error) -> String {
    let text = e.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error:").trim().to_owned()
}

fn build(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(REGEX_SIZE_LIMIT).dfa_size_limit(REGEX_SIZE_LIMIT).nest_limit(50).build()
}

/// `*` becomes anything but dots and slashes, three or more stars are two.
fn glob_to_regex(glob: &str) -> String {
    let mut out = String::from("^(?s:");
    let mut rest = glob;
    while let Some(i) = rest.find('*') {
        out.push_str(&regex::escape(&rest[..i]));
        let after = rest[i..].trim_start_matches('*');
        let stars = rest.len() - i - after.len();
        out.push_str(if stars == 1 { "[^./]*" } else { ".*" });
        rest = after;
    }
    out.push_str(&regex::escape(rest));
    out.push_str(")$");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(g: &str, name: &str) -> bool {
        Matcher::new(&Pattern::Glob(g.to_owned())).unwrap().is_match(name)
    }

    #[test]
    fn one_star_stops_at_dots_and_slashes_and_two_cross_them() {
        assert!(glob("layers.*.attn", "layers.0.attn"));
        assert!(!glob("layers.*.attn", "layers.0.1.attn"));
        assert!(glob("layers.**.attn", "layers.0.1.attn"));
        assert!(glob("/a/*/Add", "/a/b/Add") && !glob("/a/*/Add", "/a/b/c/Add") && glob("**/Add", "/a/b/c/Add"));
        assert!(glob("a[0]*", "a[0]x") && !glob("a[0]*", "a0x"), "brackets are plain text");
        assert!(glob("**", "line\nfeed"));
    }

    #[test]
    fn large_patterns_are_refused_and_long_names_are_matched_in_linear_time() {
        assert!(Matcher::new(&Pattern::Regex("(a{1000}){1000}".into())).unwrap_err().contains("too large"));
        let hostile = format!("{}b", "*a".repeat(40));
        assert!(!glob(&hostile, &"a".repeat(100_000)));
    }
}
