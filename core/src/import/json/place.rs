//! Where in a JSON text something stands, for messages.

use crate::diagnostic::printable;

/// What the text before a place has opened.
enum Open {
    /// An object, with the last key.
    Object(Option<String>),
    /// An array, with the position in it.
    Array(usize),
}

/// The path (`nodes[12].inputs[0]`) of what stands at byte `at` of a JSON text, or just before it; empty at the top. The
/// text need be valid only up to there.
pub(super) fn path_at(text: &[u8], at: usize) -> String {
    let mut open: Vec<Open> = Vec::new();
    let end = at.min(text.len());
    let mut i = 0;
    while i < end {
        match text[i] {
            b'"' => {
                let start = i + 1;
                i = start;
                while i < end && text[i] != b'"' {
                    i += 1 + usize::from(text[i] == b'\\');
                }
                // A key is known before its colon comes: errors about keys stand there.
                if let Some(Open::Object(key @ None)) = open.last_mut() {
                    *key = text.get(start..i.min(end)).map(|k| String::from_utf8_lossy(k).into_owned());
                }
            }
            b'{' => open.push(Open::Object(None)),
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(Open::Array(n)) => *n += 1,
                Some(Open::Object(key)) => *key = None,
                None => {}
            },
            _ => {}
        }
        i += 1;
    }
    let mut path = String::new();
    for o in &open {
        match o {
            Open::Object(Some(key)) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&printable(key));
            }
            Open::Array(n) => path.push_str(&format!("[{n}]")),
            Open::Object(None) => {}
        }
    }
    path
}

/// The byte of a line and column that count from 1, columns in bytes.
pub(super) fn byte_of(text: &[u8], line: usize, column: usize) -> usize {
    let mut starts = std::iter::once(0).chain(text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1));
    starts.nth(line.saturating_sub(1)).unwrap_or(text.len()).saturating_add(column).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_places() {
        let text = br#"{"a": 1, "nodes": [{"op": "x"}, {"op": "y", "inputs": ["p", 5]}]}"#;
        let at = |needle: &str| {
            let found = text.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap();
            path_at(text, found + needle.len())
        };
        assert_eq!(at("1"), "a");
        assert_eq!(at("\"x\""), "nodes[0].op");
        assert_eq!(at("\"p\", 5"), "nodes[1].inputs[1]");
        assert_eq!(at("\"inputs"), "nodes[1].inputs");
        assert_eq!(path_at(text, 0), "");
        assert_eq!(path_at(br#"{"a\"]": {"b": "#, 99), "a\\\"].b");
        assert_eq!(byte_of(b"ab\ncd\nef", 2, 1), 4);
    }
}
