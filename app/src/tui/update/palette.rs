//! The palette: fuzzy over every command, and any selector with its matches as it is typed. And search.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};
use recut_core::config::Strategy;

use super::super::action::Action;
use super::super::layers::{Command, Item, Prompt};
use super::super::msg::{Effect, JobKind, JobRequest};
use super::super::state::State;
use super::perform;
use crate::theme::{BUILT_IN, Role};

/// Commands that take an argument: name, argument, what it does.
const TYPED: [(&str, &str, &str); 16] = [
    ("torch", "SEL", "Run what a selector matches in torch"),
    ("accelerate", "SEL", "Pin what a selector matches to the accelerator"),
    ("leaf", "SEL", "Never split the modules that a selector matches"),
    ("wrap", "NAME=SEL", "Make what a selector matches one opaque op"),
    ("unwrap", "ID", "Take an opaque op apart"),
    ("goto", "SEL", "Go to the first node that a selector matches"),
    ("backend", "NAME", "Set the backend; `none` for none"),
    ("strategy", "NAME", "Set the partitioning strategy"),
    ("min-block-size", "N", "Set the least number of nodes of an accelerated partition"),
    ("dim", "NAME=N", "Set the size of a symbolic dimension; `NAME=` opens it again"),
    ("column", "NAME", "Show a data column of the file beside the nodes; `none` for none"),
    ("w", "[FILE]", "Save the config"),
    ("wq", "[FILE]", "Save the config and quit"),
    ("q!", "", "Quit without saving"),
    ("open", "FILE", "Open another config for this model"),
    ("theme", "NAME", "Change the look"),
];

/// Everything the palette offers.
#[must_use]
pub fn commands(state: &State) -> Vec<Item> {
    let keys = |a: Action| state.keymap.keys_of(a).into_iter().next().unwrap_or_default();
    let actions = Action::ALL
        .iter()
        .filter(|a| !matches!(a, Action::Palette))
        .map(|&a| Item::new(format!("{}  {}", a.name(), a.doc()), keys(a), Command::Action(a)));
    let typed = TYPED.iter().map(|(name, arg, doc)| Item::new(format!("{name} {arg}  {doc}"), "", Command::Nothing));
    let themes = BUILT_IN.iter().map(|(n, _)| Item::new(format!("theme {n}"), "", Command::Theme((*n).to_owned())));
    let backends = recut_core::support::backend_names(recut_core::support::dialect_of(state.document.model()))
        .into_iter()
        .map(|n| Item::new(format!("backend {n}"), "", Command::Backend(Some(n.to_owned()))));
    let columns = state.document.model().columns.iter().map(|c| {
        let label = format!("column {}", recut_core::diagnostic::printable(&c.name));
        Item::new(label, "", Command::Column(Some(c.name.clone())))
    });
    actions.chain(typed).chain(themes).chain(backends).chain(columns).collect()
}

/// What a typed line asks for: `None` if it is no command, an error if it is one with a wrong argument.
#[must_use]
pub fn parse_command(text: &str) -> Option<Result<Command, String>> {
    let text = text.trim();
    let (word, arg) = text.split_once(char::is_whitespace).map_or((text, ""), |(w, a)| (w, a.trim()));
    let path = || (!arg.is_empty()).then(|| arg.into());
    let command = match (word, arg) {
        ("q", "") => Command::Quit { force: false },
        ("q!", "") => Command::Quit { force: true },
        ("w", _) => Command::Save { path: path(), overwrite: false, quit: false },
        ("w!", _) => Command::Save { path: path(), overwrite: true, quit: false },
        ("wq" | "x", _) => Command::Save { path: path(), overwrite: false, quit: true },
        (
            "torch" | "accelerate" | "leaf" | "unwrap" | "goto" | "wrap" | "open" | "theme" | "backend" | "strategy" | "min-block-size"
            | "dim" | "column",
            "",
        ) => {
            return None;
        }
        ("torch", sel) => Command::Torch(sel.to_owned()),
        ("accelerate", sel) => Command::Accelerate(sel.to_owned()),
        ("leaf", sel) => Command::Leaf(sel.to_owned()),
        ("goto", sel) => Command::GoToSelector(sel.to_owned()),
        ("unwrap", id) => Command::Unwrap(id.to_owned()),
        ("wrap", rest) => match rest.split_once('=') {
            Some((name, select)) if !name.trim().is_empty() && !select.trim().is_empty() => {
                if !crate::wrap_name::is_valid(name.trim()) {
                    return Some(Err(super::marking::bad_name(name.trim())));
                }
                Command::Wrap { name: name.trim().to_owned(), select: select.trim().to_owned() }
            }
            _ => return Some(Err("write `wrap NAME=SELECTOR`".to_owned())),
        },
        ("open", file) => Command::OpenConfig(file.into()),
        ("column", "none") => Command::Column(None),
        ("column", name) => Command::Column(Some(name.to_owned())),
        ("theme", name) => Command::Theme(name.to_owned()),
        ("backend", "none") => Command::Backend(None),
        ("backend", name) => Command::Backend(Some(name.to_owned())),
        ("strategy", name) => match Strategy::ALL.into_iter().find(|s| s.name() == name) {
            Some(s) => Command::Strategy(s),
            None => return Some(Err(format!("no strategy `{name}`; there are {}", Strategy::ALL.map(Strategy::name).join(", ")))),
        },
        ("min-block-size", n) => match n.parse() {
            Ok(n) => Command::MinBlockSize(n),
            Err(_) => return Some(Err(format!("`{n}` is no number of nodes"))),
        },
        ("dim", rest) => match rest.split_once('=') {
            Some((name, "")) => Command::Dim(name.trim().to_owned(), None),
            Some((name, n)) => match n.trim().parse() {
                Ok(n) if n >= 0 => Command::Dim(name.trim().to_owned(), Some(n)),
                _ => return Some(Err(format!("`{}` is no size", n.trim()))),
            },
            None => return Some(Err("write `dim NAME=N`".to_owned())),
        },
        _ => return None,
    };
    Some(Ok(command))
}

/// The selector in a typed line: the argument of a command that takes one, or the line itself.
fn selector_in(text: &str) -> Option<&str> {
    let text = text.trim();
    for word in ["torch ", "accelerate ", "leaf ", "goto "] {
        if let Some(rest) = text.strip_prefix(word) {
            return Some(rest.trim()).filter(|r| !r.is_empty());
        }
    }
    if let Some(rest) = text.strip_prefix("wrap ") {
        return rest.split_once('=').map(|(_, s)| s.trim()).filter(|s| !s.is_empty());
    }
    let commands = TYPED.iter().any(|(n, _, _)| text == *n || text.strip_prefix(n).is_some_and(|r| r.starts_with(' ')));
    (!commands && !text.is_empty()).then_some(text)
}

const PREFIXES: [&str; 12] =
    ["op:", "module:", "class:", "node:", "value:", "source:", "partition:", "between(", "upstream(", "downstream(", "not ", "("];

fn looks_like_selector(text: &str) -> bool {
    PREFIXES.iter().any(|p| text.trim_start().starts_with(p))
}

/// The line changed: candidates are sorted again, and its selector is looked up.
pub(super) fn refresh(state: &mut State, prompt: &mut Prompt, effects: &mut Vec<Effect>) {
    let text = prompt.text().trim().to_owned();
    let all = commands(state);
    prompt.cursor = 0;
    prompt.candidates = if text.is_empty() {
        all
    } else if looks_like_selector(&text) {
        Vec::new()
    } else {
        let pattern = Pattern::parse(&text, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut buffer = Vec::new();
        let mut scored: Vec<(u32, usize, Item)> = all
            .into_iter()
            .enumerate()
            .filter_map(|(i, item)| {
                let haystack = nucleo_matcher::Utf32Str::new(&item.label, &mut buffer);
                let score = pattern.score(haystack, &mut matcher)?;
                // A name that begins with what is typed beats a word in the middle of a description.
                let bonus = if item.label.starts_with(&text) { 10_000 } else { 0 };
                Some((score + bonus, i, item))
            })
            .collect();
        scored.sort_by_key(|(score, i, _)| (std::cmp::Reverse(*score), *i));
        scored.into_iter().map(|(_, _, item)| item).collect()
    };
    prompt.note = None;
    match selector_in(&text) {
        Some(selector) => {
            let request = JobRequest::Select {
                plan: state.document.plan().clone(),
                index: state.document.index().clone(),
                text: selector.to_owned(),
            };
            state.start(JobKind::Select, request, effects);
        }
        None => {
            state.job(JobKind::Select);
            state.matches = None;
        }
    }
}

/// Enter in the palette.
pub(super) fn enter(state: &mut State, mut prompt: Prompt, effects: &mut Vec<Effect>) {
    let text = prompt.text().trim().to_owned();
    match parse_command(&text) {
        Some(Ok(command)) => {
            let jump = matches!(command, Command::GoToSelector(_));
            perform(state, command, effects);
            if !jump {
                state.matches = None;
            }
            return;
        }
        Some(Err(message)) => {
            prompt.note = Some((Role::Error, message));
            state.layers.push(super::super::layers::Layer::Palette(prompt));
            return;
        }
        None => {}
    }
    if let Some(item) = prompt.candidates.get(prompt.cursor).cloned() {
        if item.then == Command::Nothing {
            let mut next = Prompt::new(&format!("{} ", item.label.split(' ').next().unwrap_or_default()));
            refresh(state, &mut next, effects);
            state.layers.push(super::super::layers::Layer::Palette(next));
            return;
        }
        state.matches = None;
        perform(state, item.then, effects);
        return;
    }
    match state.matches.as_ref().filter(|m| m.text == text && m.count > 0) {
        Some(m) => {
            let (count, first) = (m.count, m.nodes.iter().next());
            if let Some(first) = first {
                state.jump(first);
            }
            let n = super::super::text::plural(count, "node");
            state.note(
                Role::Info,
                format!("{n} match; n and N step through them, `:torch {}` marks them", recut_core::diagnostic::printable(&text)),
            );
        }
        None if text.is_empty() => {}
        None => state.note(Role::Warning, format!("no command, and nothing matches `{}`", recut_core::diagnostic::printable(&text))),
    }
}

/// The search line changed.
pub(super) fn search(state: &mut State, prompt: &Prompt, effects: &mut Vec<Effect>) {
    let text = prompt.text().to_owned();
    if text.is_empty() {
        state.job(JobKind::Select);
        state.matches = None;
        return;
    }
    let request = JobRequest::Search { model: state.document.model().clone(), text };
    state.start(JobKind::Select, request, effects);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_selectors() {
        let ok = |t: &str| parse_command(t).and_then(Result::ok);
        assert_eq!(ok("q"), Some(Command::Quit { force: false }));
        assert_eq!(ok("w a.json"), Some(Command::Save { path: Some("a.json".into()), overwrite: false, quit: false }));
        assert_eq!(ok("wrap head = module:head"), Some(Command::Wrap { name: "head".into(), select: "module:head".into() }));
        assert_eq!(ok("dim batch=4"), Some(Command::Dim("batch".into(), Some(4))));
        assert_eq!(ok("dim batch="), Some(Command::Dim("batch".into(), None)));
        assert!(matches!(parse_command("wrap my op=op:Conv"), Some(Err(e)) if e.contains("e.g. my_op")));
        assert!(matches!(parse_command("dim batch"), Some(Err(_))));
        assert!(matches!(parse_command("strategy best"), Some(Err(_))));
        assert_eq!(parse_command("op:Conv").map(|r| r.is_ok()), None);
        assert_eq!(selector_in("torch op:Conv and module:a"), Some("op:Conv and module:a"));
        assert_eq!(selector_in("wrap x=op:Conv"), Some("op:Conv"));
        assert_eq!(selector_in("theme light"), None);
        assert_eq!(selector_in("layer1.*"), Some("layer1.*"));
    }
}
