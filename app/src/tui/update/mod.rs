//! What every message does to the state: pure, without clock, files or threads.

mod files;
mod keys;
mod marking;
mod mouse;
mod moving;
mod palette;
mod searching;

pub use files::recovery_question;
pub use palette::{commands, parse_command};

use super::action::Action;
use super::hit::Pane;
use super::layers::{Ask, AskFor, Choice, Command, Item, Layer, Prompt};
use super::msg::{Effect, JobKind, JobRequest, Msg};
use super::overlay;
use super::state::{MainView, Running, State};
use crate::theme::Role;

/// Takes in one message and says what is to be done outside.
pub fn update(state: &mut State, msg: Msg) -> Vec<Effect> {
    let mut effects = Vec::new();
    match msg {
        // What cannot be seen is not done.
        Msg::Key(key) if state.geometry().too_small => keys::key_unseen(state, key, &mut effects),
        Msg::Mouse(..) | Msg::Paste(_) if state.geometry().too_small => {}
        Msg::Key(key) => keys::key(state, key, &mut effects),
        Msg::Mouse(kind, target) => mouse::mouse(state, kind, target, &mut effects),
        Msg::Paste(text) => keys::paste(state, &text, &mut effects),
        // Without the last frame a place means nothing.
        Msg::Focus(_) | Msg::Pointer(..) => {}
        Msg::Resize(width, height) => state.size = (width, height),
        Msg::Changed(watched) => files::changed(state, watched, &mut effects),
        Msg::Job(id, event) => files::job(state, id, event, &mut effects),
        Msg::Terminate => effects.push(Effect::Quit),
    }
    state.settle();
    effects
}

/// Does what a key or palette entry asks for.
fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::Down
        | Action::Up
        | Action::Left
        | Action::Right
        | Action::PageDown
        | Action::PageUp
        | Action::HalfPageDown
        | Action::HalfPageUp
        | Action::First
        | Action::Last
        | Action::Producer
        | Action::Consumer
        | Action::NextPartition
        | Action::PreviousPartition
        | Action::Back
        | Action::Forward
        | Action::NextPane
        | Action::PreviousPane
        | Action::Open
        | Action::CollapseAll
        | Action::ExpandAll
        | Action::SearchNext
        | Action::SearchPrevious => moving::act(state, action),
        Action::Torch
        | Action::TorchChoose
        | Action::Accelerate
        | Action::Clear
        | Action::Leaf
        | Action::Wrap
        | Action::Unwrap
        | Action::Select
        | Action::Range
        | Action::Backend
        | Action::Partitioner
        | Action::Undo
        | Action::Redo => marking::act(state, action, effects),
        Action::ViewLanes => state.main = MainView::Lanes,
        Action::ViewProblems => {
            let on = state.main == MainView::Problems;
            state.main = if on { MainView::Lanes } else { MainView::Problems };
            state.focus = Pane::Main;
        }
        Action::Heat => overlay::next(state),
        Action::Search => {
            state.begin_search();
            state.layers.push(Layer::Search(Prompt::default()));
        }
        Action::Messages => {
            let lines: Vec<(Role, String)> = state.messages.iter().rev().map(|m| (m.role, m.text.clone())).collect();
            if lines.is_empty() {
                return state.note(Role::TextDim, "no message so far");
            }
            state.layers.push(Layer::Text { title: "Messages, the newest first".to_owned(), lines, offset: 0 });
        }
        Action::Palette => {
            let mut prompt = Prompt::default();
            palette::refresh(state, &mut prompt, effects);
            state.layers.push(Layer::Palette(prompt));
        }
        Action::Help => state.layers.push(Layer::Help { offset: 0 }),
        Action::Run => {
            let request = JobRequest::Run { plan: state.document.plan().clone(), config: state.document.config().clone().into() };
            state.start(JobKind::Run, request, effects);
            state.running = Some(Running::default());
            state.note(Role::Info, "running; Esc cancels");
        }
        Action::Cancel => cancel(state, effects),
        Action::Save => perform(state, Command::Save { path: None, overwrite: false, quit: false }, effects),
        Action::SaveAs => {
            let text = state.config_path.display().to_string();
            ask(
                state,
                "Save config as",
                AskFor::SaveAs,
                vec!["A path; relative ones start where recut was started.".to_owned()],
                &text,
                "",
            );
        }
        Action::OpenConfig => {
            let text = state.config_path.display().to_string();
            ask(state, "Open a config", AskFor::OpenConfig, vec!["A partition config for this model.".to_owned()], &text, "");
        }
        Action::Reload => files::changed(state, super::msg::Watched::Model, effects),
        Action::Copy => {
            let graph = &state.document.model().graph;
            let model = state.document.model();
            let name = match (state.current_wrap(), state.current_node(), state.current_value()) {
                _ if state.current_module().is_some() => state.current_module().map(|m| model.modules.module(m).path.to_string()),
                (Some(w), _, _) => state.document.view().wraps().get(w).map(|w| w.id.to_string()),
                (None, Some(n), _) => Some(graph.stable_id(n).to_owned()),
                (None, None, v) => v.map(|v| graph.value(v).name.to_string()),
            };
            if let Some(name) = name {
                state.note(Role::Info, format!("copied {}", recut_core::diagnostic::printable(&name)));
                effects.push(Effect::Copy(name));
            }
        }
        Action::Quit => perform(state, Command::Quit { force: false }, effects),
    }
}

/// Esc: the first of dialog (handled before), run, range, selection, matches, message that there is.
fn cancel(state: &mut State, effects: &mut Vec<Effect>) {
    if state.running.is_some() {
        effects.push(Effect::Cancel(JobKind::Run));
        state.note(Role::Info, "cancelling the run");
    } else if state.range.take().is_some() {
        state.note(Role::Info, "range dropped");
    } else if !state.selection.is_empty() {
        state.selection = recut_core::select::NodeSet::empty(state.selection.universe());
        state.note(Role::Info, "selection dropped");
    } else if state.matches.take().is_some() {
        state.note(Role::Info, "matches dropped");
    } else if state.main == MainView::Problems {
        state.main = MainView::Lanes;
    }
}

fn ask(state: &mut State, title: &str, what: AskFor, body: Vec<String>, text: &str, context: &str) {
    let ask = Ask { title: title.to_owned(), body, what, context: context.to_owned(), text: text.to_owned() };
    let prompt = Prompt::new(&ask.text);
    state.layers.push(Layer::Ask(ask, prompt));
}

/// Does what a person chose.
fn perform(state: &mut State, command: Command, effects: &mut Vec<Effect>) {
    match command {
        Command::Nothing => {}
        Command::Action(action) => act(state, action, effects),
        Command::Ask(ask) => {
            let prompt = Prompt::new(&ask.text);
            state.layers.push(Layer::Ask(*ask, prompt));
        }
        Command::GoTo(node) => {
            state.focus = Pane::Main;
            state.jump(node);
        }
        Command::GoToSelector(text) => {
            if let Some(n) = state.matches.as_ref().filter(|m| m.text == text).and_then(|m| m.nodes.iter().next()) {
                state.focus = Pane::Main;
                state.jump(n);
            }
        }
        Command::Column(name) => overlay::choose(state, name.as_deref()),
        Command::Edit(_)
        | Command::Torch(_)
        | Command::Accelerate(_)
        | Command::Leaf(_)
        | Command::Wrap { .. }
        | Command::Unwrap(_)
        | Command::Backend(_)
        | Command::Strategy(_)
        | Command::MinBlockSize(_)
        | Command::Dim(..) => marking::perform(state, command, effects),
        Command::Save { .. }
        | Command::OpenConfig(_)
        | Command::UseConfig { .. }
        | Command::Restore { .. }
        | Command::KeepRecovered
        | Command::DropRecovered(_)
        | Command::DropRecovery
        | Command::Theme(_) => files::perform(state, command, effects),
        Command::Quit { force } => {
            if !force && state.document.is_dirty() {
                let path = state.config_path.display().to_string();
                state.layers.push(Layer::Choice(Choice {
                    title: "Unsaved edits".to_owned(),
                    body: vec![format!("The config has edits that are not saved to {}.", recut_core::diagnostic::printable(&path))],
                    items: vec![
                        Item::new("Save and quit", "", Command::Save { path: None, overwrite: false, quit: true }).key('s'),
                        Item::new("Quit without saving", "the edits are lost", Command::Quit { force: true }).key('d'),
                        Item::new("Stay", "", Command::Nothing).key('n'),
                    ],
                    cursor: 0,
                }));
                return;
            }
            if let Some(path) = state.recovery_path.clone() {
                state.start(JobKind::Recovery, JobRequest::Recovery { path, text: None }, effects);
            }
            effects.push(Effect::Quit);
        }
    }
}
