//! Keys: to the topmost dialog if there is one, else through the key map.

use crossterm::event::KeyCode;

use super::super::action::Action;
use super::super::key::Key;
use super::super::keymap::Lookup;
use super::super::layers::{AskFor, Choice, Command, Layer, Prompt};
use super::super::msg::Effect;
use super::super::state::State;
use super::{act, moving, palette, perform};
use crate::theme::Role;

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
            let help = state.keymap.keys_of(Action::Help).into_iter().next().unwrap_or_default();
            state.note(Role::TextDim, format!("`{}` does nothing here; {help} lists all keys", typed.join(" ")));
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
        if matches!(layer, Layer::Palette(_) | Layer::Search(_)) {
            state.matches = None;
        }
        return;
    }
    match layer {
        Layer::Help { mut offset } => {
            if matches!(key.typed(), Some('q' | '?')) {
                return;
            }
            step(&mut offset, super::super::view::help_lines(state), key, true);
            state.layers.push(Layer::Help { offset });
        }
        Layer::Choice(choice) => choose(state, choice, key, Layer::Choice, effects),
        Layer::List(choice) => choose(state, choice, key, Layer::List, effects),
        Layer::Ask(ask, mut prompt) => {
            if key.code == KeyCode::Enter {
                answer(state, ask.what, &ask.context, prompt.text().trim(), effects);
                return;
            }
            prompt.key(key);
            state.layers.push(Layer::Ask(ask, prompt));
        }
        Layer::Search(mut prompt) => {
            if key.code == KeyCode::Enter {
                moving::search_from_here(state);
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

fn choose(state: &mut State, mut choice: Choice, key: Key, layer: fn(Choice) -> Layer, effects: &mut Vec<Effect>) {
    let by_key = key.typed().and_then(|c| choice.items.iter().position(|i| i.key == Some(c)));
    let taken = if key.code == KeyCode::Enter { Some(choice.cursor) } else { by_key };
    if let Some(item) = taken.and_then(|i| choice.items.get(i)) {
        let then = item.then.clone();
        perform(state, then, effects);
        return;
    }
    if key.typed() == Some('q') {
        return;
    }
    step(&mut choice.cursor, choice.items.len(), key, true);
    state.layers.push(layer(choice));
}

pub(super) fn answer(state: &mut State, what: AskFor, context: &str, text: &str, effects: &mut Vec<Effect>) {
    if text.is_empty() {
        state.note(Role::Info, "nothing typed, nothing done");
        return;
    }
    let command = match what {
        AskFor::SaveAs => {
            let path = std::path::PathBuf::from(text);
            let overwrite = state.config_owned && path == state.config_path;
            Command::Save { path: Some(path), overwrite, quit: false }
        }
        AskFor::OpenConfig => Command::OpenConfig(text.into()),
        AskFor::Wrap => Command::Wrap { name: text.to_owned(), select: context.to_owned() },
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
