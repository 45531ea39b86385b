//! Where the values of a JSON text stand, for messages that name line, column and field.

use std::collections::HashSet;

/// A value of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Path from the root (`wraps[0].instances[1].id`); empty for the root.
    pub(super) path: String,
    /// First byte of the value.
    pub(super) start: usize,
    /// Byte after the value.
    pub(super) end: usize,
    /// Whether it is an object or array.
    pub(super) container: bool,
}

/// Places of all values of a text that is known to be valid JSON.
#[derive(Debug, Default)]
pub(super) struct Positions {
    places: Vec<Place>,
    /// The first key that stands twice in one object: its path, and where it stands again.
    pub(super) repeated: Option<(String, usize)>,
}

impl Positions {
    pub(super) fn scan(text: &str) -> Self {
        let mut scanner = Scanner { text, at: 0, positions: Self::default() };
        scanner.value("");
        scanner.positions
    }

    /// The value at this path, or the nearest one around it.
    pub(super) fn find(&self, path: &str) -> usize {
        let around = self.places.iter().filter(|p| {
            path.strip_prefix(&*p.path).is_some_and(|rest| rest.is_empty() || p.path.is_empty() || rest.starts_with(['.', '[']))
        });
        around.max_by_key(|p| p.path.len()).map_or(0, |p| p.start)
    }

    /// The innermost value that a reader stands in or has just finished at byte `at`.
    pub(super) fn innermost(&self, at: usize, container: bool) -> Option<&Place> {
        self.places.iter().filter(|p| p.start < at && at <= p.end && (p.container || !container)).max_by_key(|p| (p.start, p.end))
    }

    /// The value under `key` that stands closest to byte `at`.
    pub(super) fn under_key(&self, key: &str, at: usize) -> Option<&Place> {
        let is_under = |p: &&Place| p.path.strip_suffix(key).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        self.places.iter().filter(is_under).min_by_key(|p| p.start.abs_diff(at))
    }
}

/// Line and column (in characters), from 1, of byte `at`.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The byte that a reader which counts lines from 1 and bytes of a line from 0 has reached.
pub(super) fn byte_at(text: &str, line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(n) => text.match_indices('\n').nth(n).map_or(text.len(), |(i, _)| i + 1),
    };
    (start + column).min(text.len())
}

/// Walks over valid JSON. Its depth is bounded by the check that came before.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    positions: Positions,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn value(&mut self, path: &str) {
        let Some(first) = self.peek() else { return };
        let start = self.at;
        match first {
            b'{' => self.object(path),
            b'[' => self.array(path),
            b'"' => self.string(),
            _ => {
                let rest = &self.text[self.at..];
                self.at += rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
            }
        }
        let container = matches!(first, b'{' | b'[');
        self.positions.places.push(Place { path: path.to_owned(), start, end: self.at, container });
    }

    fn object(&mut self, path: &str) {
        let mut keys = HashSet::new();
        self.at += 1;
        while self.peek() == Some(b'"') {
            let start = self.at;
            self.string();
            let key: String = serde_json::from_str(&self.text[start..self.at]).unwrap_or_default();
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if !keys.insert(key) && self.positions.repeated.is_none() {
                self.positions.repeated = Some((inner.clone(), start));
            }
            if self.peek() == Some(b':') {
                self.at += 1;
            }
            self.value(&inner);
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.close(b'}');
    }

    fn array(&mut self, path: &str) {
        self.at += 1;
        let mut index = 0usize;
        while self.peek().is_some_and(|b| b != b']') {
            self.value(&format!("{path}[{index}]"));
            index += 1;
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.close(b']');
    }

    fn close(&mut self, bracket: u8) {
        if self.peek() == Some(bracket) {
            self.at += 1;
        }
    }

    fn string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(&b) = bytes.get(self.at) {
            self.at += match b {
                b'"' => break,
                b'\\' => 2,
                _ => 1,
            };
        }
        self.at = (self.at + 1).min(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_path_and_by_place() {
        let text = "{\n  \"a\": [1, {\"b\\n\": \"x\\\"y\"}],\n  \"c\": true\n}";
        let p = Positions::scan(text);
        assert_eq!(line_and_column(text, p.find("a[1].b\n")), (2, 20));
        assert_eq!(line_and_column(text, p.find("a[0]")), (2, 9));
        assert_eq!(line_and_column(text, p.find("c")), (3, 8));
        assert_eq!(p.find("nowhere"), 0);
        assert_eq!(p.innermost(text.find("true").unwrap() + 4, false).unwrap().path, "c");
        assert_eq!(p.innermost(text.len(), true).unwrap().path, "");
        assert_eq!(byte_at(text, 3, 3), text.find("\"c\"").unwrap() + 1);
        assert_eq!(p.repeated, None);
        assert_eq!(Positions::scan("{\"a\": {\"x\": 1, \"x\": 2}}").repeated, Some(("a.x".to_owned(), 15)));
    }
}
