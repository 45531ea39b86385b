//! Names of opaque custom ops: the command line and the app take the same ones.

/// What a name has to be, for messages.
pub const RULE: &str = "letters, digits and _, not a digit first";

/// Whether `name` can name an opaque op: it becomes an identifier in generated code.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A valid name after a dotted path or any other text: its last part, with the part before it where it begins with a digit.
#[must_use]
pub fn suggest(text: &str) -> String {
    let plain = |part: &str| part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
    let mut name = String::new();
    for part in text.rsplit(['.', '/', ':']).filter(|p| !p.is_empty()) {
        name = if name.is_empty() { plain(part) } else { format!("{}_{name}", plain(part)) };
        if is_valid(&name) && name.contains(|c: char| c != '_') {
            return name;
        }
    }
    if name.contains(|c: char| c.is_ascii_digit()) { format!("op_{name}") } else { "region".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_valid_names() {
        for (text, name) in [
            ("model.transformer.h.4", "h_4"),
            ("layer1.0.downsample", "downsample"),
            ("layer1.0.1", "layer1_0_1"),
            ("head", "head"),
            ("4", "op_4"),
            ("", "region"),
            ("my \"block\"", "my__block_"),
            ("conv-2d", "conv_2d"),
            ("\u{e9}", "region"),
        ] {
            assert_eq!(suggest(text), name, "{text}");
            assert!(is_valid(&suggest(text)), "{text}");
        }
        for bad in ["", "4", "my \"block\"; \u{e9}/..", "a b", "a.b", "\u{e9}"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
