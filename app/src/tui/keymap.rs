//! Which key does what: the defaults of the action table, overridden by the user's `keys.toml`.

use toml::de::{DeTable, DeValue};

use crate::theme::{ConfigWarning, edit_distance, line_of};

use super::action::Action;
use super::key::Key;

/// Keys and sequences with what they do.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<(Vec<Key>, Action)>,
}

/// What keys typed so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// An action.
    Action(Action),
    /// The beginning of a sequence.
    Prefix,
    /// Nothing.
    Unbound,
}

impl Default for Keymap {
    fn default() -> Self {
        let all = Action::ALL.iter().flat_map(|&a| a.default_keys().iter().map(move |k| (Key::parse_all(k), a)));
        Self { bindings: all.collect() }
    }
}

impl Keymap {
    /// The defaults with the bindings of a user's file: `action = "key"`, `action = ["key", "g k"]` or `action = []`.
    /// The keys of an action that is named replace all its defaults, and take them from other actions.
    #[must_use]
    pub fn with_user_file(file: &str, text: &str) -> (Self, Vec<ConfigWarning>) {
        let mut warnings = Vec::new();
        let mut map = Self::default();
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut warn = |span, key: &str, message| {
            warnings.push(ConfigWarning { file: file.to_owned(), line: line_of(text, span), key: key.to_owned(), message });
        };
        for e in errors {
            warn(e.span().unwrap_or(0..0), "", format!("not TOML: {}", e.message()));
        }
        for (name, value) in table.get_ref() {
            let text = &**name.get_ref();
            let Some(action) = Action::from_name(text) else {
                let near = Action::ALL.iter().map(|a| a.name()).min_by_key(|n| edit_distance(n, text)).unwrap_or_default();
                warn(name.span(), text, format!("unknown action; the nearest is `{near}`"));
                continue;
            };
            let texts: Vec<&str> = match value.get_ref() {
                DeValue::String(s) => vec![s],
                DeValue::Array(a) => a.iter().filter_map(|v| v.get_ref().as_str()).collect(),
                _ => {
                    warn(value.span(), text, "a key is text (\"ctrl-t\") or a list of texts".to_owned());
                    continue;
                }
            };
            let mut sequences = Vec::new();
            for sequence in texts {
                let keys: Option<Vec<Key>> = sequence.split_whitespace().map(Key::parse).collect();
                match keys.filter(|k| !k.is_empty()) {
                    Some(keys) => sequences.push(keys),
                    None => {
                        warn(value.span(), text, format!("`{sequence}` is no key; write e.g. \"x\", \"ctrl-x\", \"g x\", \"alt-left\""));
                    }
                }
            }
            map.bindings.retain(|(keys, a)| *a != action && !sequences.iter().any(|s| s.starts_with(keys) || keys.starts_with(s)));
            map.bindings.extend(sequences.into_iter().map(|k| (k, action)));
        }
        warnings.sort_by_key(|w| w.line);
        (map, warnings)
    }

    /// What `keys`, typed one after the other, mean.
    #[must_use]
    pub fn lookup(&self, keys: &[Key]) -> Lookup {
        let mut result = Lookup::Unbound;
        for (bound, action) in &self.bindings {
            if bound == keys {
                return Lookup::Action(*action);
            }
            if bound.starts_with(keys) {
                result = Lookup::Prefix;
            }
        }
        result
    }

    /// Keys of an action as help shows them.
    #[must_use]
    pub fn keys_of(&self, action: Action) -> Vec<String> {
        let text = |keys: &[Key]| keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        self.bindings.iter().filter(|(_, a)| *a == action).map(|(k, _)| text(k)).collect()
    }
}

/// The key table of the docs, in Markdown.
#[must_use]
pub fn key_table_markdown() -> String {
    let map = Keymap::default();
    let mut out = String::new();
    let mut group = "";
    for &action in Action::ALL {
        if action.group() != group {
            group = action.group();
            out.push_str(&format!(
                "{}## {group}\n\n| Keys | Action | What it does |\n| --- | --- | --- |\n",
                if out.is_empty() { "" } else { "\n" }
            ));
        }
        let keys: Vec<String> = map.keys_of(action).iter().map(|k| format!("`{k}`")).collect();
        out.push_str(&format!("| {} | `{}` | {} |\n", keys.join(", "), action.name(), action.doc()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_default_key_is_bound_twice_or_hidden_by_a_shorter_one() {
        let map = Keymap::default();
        for (i, (a, x)) in map.bindings.iter().enumerate() {
            for (b, y) in &map.bindings[i + 1..] {
                assert!(!a.starts_with(b) && !b.starts_with(a), "{x:?} and {y:?} share {a:?}");
            }
        }
        for &action in Action::ALL {
            assert!(!map.keys_of(action).is_empty(), "{action:?} has no key");
            assert_eq!(Action::from_name(action.name()), Some(action));
        }
    }

    #[test]
    fn a_users_file_rebinds_and_is_told_what_is_wrong() {
        let (map, warnings) =
            Keymap::with_user_file("keys.toml", "torch = [\"m\", \"ctrl-t\"]\nrnu = \"x\"\nundo = \"hyper-z\"\nheat = \"g\"\n");
        assert_eq!(map.lookup(&[Key::char('m')]), Lookup::Action(Action::Torch));
        assert_eq!(map.lookup(&[Key::char('t')]), Lookup::Unbound);
        assert_eq!(map.lookup(&[Key::char('g')]), Lookup::Action(Action::Heat));
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(shown[0].starts_with("keys.toml:2: `rnu`: unknown action; the nearest is `run`"), "{shown:?}");
        assert!(shown[1].starts_with("keys.toml:3: `undo`: `hyper-z` is no key"), "{shown:?}");
    }

    #[test]
    fn sequences_wait_for_their_end() {
        let map = Keymap::default();
        assert_eq!(map.lookup(&[Key::char('g')]), Lookup::Prefix);
        assert_eq!(map.lookup(&Key::parse_all("g g")), Lookup::Action(Action::First));
        assert_eq!(map.lookup(&Key::parse_all("g x")), Lookup::Unbound);
    }

    #[test]
    fn the_key_table_names_every_action() {
        let table = key_table_markdown();
        assert!(Action::ALL.iter().all(|a| table.contains(&format!("`{}`", a.name()))));
    }
}
