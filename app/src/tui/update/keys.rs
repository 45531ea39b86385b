//! Keys: to the topmost dialog if there is one, else through the key map.

use crossterm::event::KeyCode;

use super::super::action::Action;
use super::super::key::Key;
use super::super::keymap::Lookup;
use super::super::layers::{Ask, AskFor, Choice, Command, Layer, Prompt};
use super::super::msg::Effect;
use super::super::state::State;
use super::{act, palette, perform, searching};
use crate::theme::Role;

/// Keys of views and functions that this version does not have, so that nobody looks for what they do.
const LATER: [(&str, &str); 11] = [
    ("2", "the canvas"),
    ("3", "the neighbourhood of a node"),
    ("4", "the table of partitions"),
    ("5", "the profile"),
    ("6", "the comparison of models"),
    ("7", "scenarios"),
    ("R", "run options"),
    ("e", "export"),
    ("g f", "opening the source line"),
    ("m", "the minimap"),
    ("z", "zoom"),
];

/// A key on a screen that is too small to show what it does: only leaving acts.
pub(super) fn key_unseen(state: &mut State, key: Key, effects: &mut Vec<Effect>) {
    state.notice = None;
    state.pending.clear();
    if state.keymap.lookup(&[key]) != Lookup::Action(Action::Quit) {
        return;
    }
    let dirty = state.document.is_dirty();
    let kept = state.recovery_path.is_some() && state.outside.iter().all(|d| d.code != super::files::UNKEPT);
    if dirty && !kept {
        return state.note(Role::Warning, "unsaved edits would be lost: make the terminal larger first");
    }
    if !dirty {
        return perform(state, Command::Quit { force: true }, effects);
    }
    // The question about unsaved edits cannot be shown: they stay in the recovery file and are offered at the next start.
    effects.push(Effect::Quit);
}

pub(super) fn key(state: &mut State, key: Key, effects: &mut Vec<Effect>) {
    state.notice = None;
    if let Some(layer) = state.layers.pop() {
        state.pending.clear();
        dialog(state, layer, key, effects);
        return;
    }
    state.pending.push(key);
    match state.keymap.lookup(&state.pending) {
        Lookup::Action(action) => {
            state.pending.clear();
            act(state, action, effects);
        }
        Lookup::Prefix => {}
        Lookup::Unbound => {
            let typed: Vec<String> = state.pending.drain(..).map(|k| k.to_string()).collect();
            let typed = typed.join(" ");
            let help = state.keymap.keys_of(Action::Help).into_iter().next().unwrap_or_default();
            let text = match LATER.iter().find(|(k, _)| *k == typed) {
                Some((_, what)) => format!("`{typed}`: this version does not have {what} yet; {help} lists all keys"),
                None => format!("`{typed}` does nothing here; {help} lists all keys"),
            };
            state.note(Role::TextDim, text);
        }
    }
}

pub(super) fn paste(state: &mut State, text: &str, effects: &mut Vec<Effect>) {
    match state.layers.pop() {
        Some(Layer::Palette(mut p)) => {
            p.paste(text);
            palette::refresh(state, &mut p, effects);
            state.layers.push(Layer::Palette(p));
        }
        Some(Layer::Search(mut p)) => {
            p.paste(text);
            palette::search(state, &p, effects);
            state.layers.push(Layer::Search(p));
        }
        Some(Layer::Ask(ask, mut p)) => {
            p.paste(text);
            state.layers.push(Layer::Ask(ask, p));
        }
        Some(other) => state.layers.push(other),
        // Outside of a line, pasted text would be a row of commands: it is taken as a search.
        None => {
            state.begin_search();
            let mut p = Prompt::default();
            p.paste(text);
            palette::search(state, &p, effects);
            state.layers.push(Layer::Search(p));
        }
    }
}

fn closes(key: Key) -> bool {
    key.code == KeyCode::Esc || (key.ctrl && matches!(key.code, KeyCode::Char('c' | 'g')))
}

/// Steps through `len` rows.
fn step(cursor: &mut usize, len: usize, key: Key, letters: bool) -> bool {
    let last = len.saturating_sub(1);
    let to = match (key.code, key.ctrl) {
        (KeyCode::Down, _) | (KeyCode::Char('n'), true) => *cursor + 1,
        (KeyCode::Up, _) | (KeyCode::Char('p'), true) => cursor.saturating_sub(1),
        (KeyCode::PageDown, _) => *cursor + 10,
        (KeyCode::PageUp, _) => cursor.saturating_sub(10),
        (KeyCode::Char('j'), false) if letters => *cursor + 1,
        (KeyCode::Char('k'), false) if letters => cursor.saturating_sub(1),
        (KeyCode::Home, _) if letters => 0,
        (KeyCode::End, _) if letters => last,
        _ => return false,
    };
    *cursor = to.min(last);
    true
}

fn dialog(state: &mut State, layer: Layer, key: Key, effects: &mut Vec<Effect>) {
    if closes(key) {
        return close(state, layer, effects);
    }
    match layer {
        Layer::Help { mut offset } => {
            if matches!(key.typed(), Some('q' | '?')) {
                return;
            }
            step(&mut offset, super::super::view::help_lines(state), key, true);
            state.layers.push(Layer::Help { offset });
        }
        Layer::Text { title, lines, mut offset } => {
            if matches!(key.typed(), Some('q')) || key.code == KeyCode::Enter {
                return;
            }
            step(&mut offset, super::super::view::text_lines(state, &lines), key, true);
            state.layers.push(Layer::Text { title, lines, offset });
        }
        Layer::Choice(choice) => choose(state, choice, key, Layer::Choice, effects),
        Layer::List(choice) => choose(state, choice, key, Layer::List, effects),
        Layer::Ask(ask, mut prompt) => {
            if key.code == KeyCode::Enter {
                answer(state, &ask, &prompt, effects);
                return;
            }
            prompt.key(key);
            state.layers.push(Layer::Ask(ask, prompt));
        }
        Layer::Search(mut prompt) => {
            if key.code == KeyCode::Enter {
                searching::enter(state, prompt.text());
                return;
            }
            if prompt.key(key) == Some(true) {
                palette::search(state, &prompt, effects);
            }
            state.layers.push(Layer::Search(prompt));
        }
        Layer::Palette(mut prompt) => {
            let len = prompt.candidates.len();
            if key.code == KeyCode::Enter {
                palette::enter(state, prompt, effects);
                return;
            }
            if key.code == KeyCode::Tab {
                if let Some(item) = prompt.candidates.get(prompt.cursor) {
                    prompt = Prompt::new(&format!("{} ", item.label.split(' ').next().unwrap_or_default()));
                    palette::refresh(state, &mut prompt, effects);
                }
            } else if !step(&mut prompt.cursor, len, key, false) && prompt.key(key) == Some(true) {
                palette::refresh(state, &mut prompt, effects);
            }
            state.layers.push(Layer::Palette(prompt));
        }
    }
}

/// A dialog is closed without a choice.
pub(super) fn close(state: &mut State, layer: Layer, effects: &mut Vec<Effect>) {
    match layer {
        Layer::Search(_) => {
            state.matches = None;
            // What is still being looked for does not count any more.
            state.job(super::super::msg::JobKind::Select);
            state.leave_search();
        }
        Layer::Palette(_) => state.matches = None,
        Layer::Choice(c) | Layer::List(c) => {
            if let Some(item) = c.items.into_iter().find(|i| i.on_close) {
                perform(state, item.then, effects);
            }
        }
        Layer::Help { .. } | Layer::Text { .. } | Layer::Ask(..) => {}
    }
}

fn choose(state: &mut State, mut choice: Choice, key: Key, layer: fn(Choice) -> Layer, effects: &mut Vec<Effect>) {
    let by_key = key.typed().and_then(|c| choice.items.iter().position(|i| i.key == Some(c)));
    let taken = if key.code == KeyCode::Enter { Some(choice.cursor) } else { by_key };
    if let Some(item) = taken.and_then(|i| choice.items.get(i)) {
        let then = item.then.clone();
        perform(state, then, effects);
        return;
    }
    if key.typed() == Some('q') {
        return close(state, layer(choice), effects);
    }
    step(&mut choice.cursor, choice.items.len(), key, true);
    state.layers.push(layer(choice));
}

fn answer(state: &mut State, ask: &Ask, prompt: &Prompt, effects: &mut Vec<Effect>) {
    let text = prompt.text().trim();
    if text.is_empty() {
        state.note(Role::Info, "nothing typed, nothing done");
        return;
    }
    let command = match ask.what {
        AskFor::SaveAs => Command::Save { path: Some(text.into()), overwrite: false, quit: false },
        AskFor::OpenConfig => Command::OpenConfig(text.into()),
        AskFor::Wrap if !crate::wrap_name::is_valid(text) => {
            state.note(Role::Error, super::marking::bad_name(text));
            state.layers.push(Layer::Ask(ask.clone(), prompt.clone()));
            return;
        }
        AskFor::Wrap => Command::Wrap { name: text.to_owned(), select: ask.context.clone() },
        AskFor::MinBlockSize => match text.parse() {
            Ok(n) => Command::MinBlockSize(n),
            Err(_) => {
                state.note(Role::Error, format!("min_block_size is a number of nodes, not `{}`", recut_core::diagnostic::printable(text)));
                return;
            }
        },
    };
    perform(state, command, effects);
}
