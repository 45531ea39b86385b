//! Files and jobs: saving, reloading, recovery, and what jobs found.

use std::path::PathBuf;

use recut_core::config::PartitionConfig;
use recut_core::diagnostic::{Diagnostic, printable, printable_path};
use recut_core::document::{Edit, Reloaded};
use recut_core::select::NodeSet;

use super::super::config_file::{Content, same};
use super::super::layers::{Choice, Command, Item, Layer};
use super::super::msg::{Effect, JobEvent, JobId, JobKind, JobOutput, JobRequest, Replace, Watched};
use super::super::state::{Heat, Matches, State};
use super::super::text::{nanos, plural};
use super::super::user_files::Recovered;
use super::{marking, perform as perform_command};
use crate::theme::Role;

/// What the recovery file keeps: config and history.
pub(super) fn recovery_text(state: &State) -> Option<String> {
    serde_json::to_string(&state.document.recovery(Some(&state.config_path))).ok()
}

/// Asks whether what an earlier session left unsaved is to be put back.
#[must_use]
pub fn recovery_question(recovered: Recovered) -> Layer {
    let Recovered { path, config } = recovered;
    Layer::Choice(Choice {
        title: "Unsaved edits of an earlier session".to_owned(),
        body: vec!["recut ended without saving the config of this model. Its edits were kept.".to_owned()],
        items: vec![
            Item::new("Put them back", "as one edit; u takes it back", Command::Restore { path: path.clone(), config }).key('y'),
            Item::new("Drop them", "for good", Command::DropRecovered(path)).key('d'),
            Item::new("Later", "Esc; they stay kept", Command::KeepRecovered).key('l').on_close(),
        ],
        cursor: 0,
    })
}

pub(super) fn perform(state: &mut State, command: Command, effects: &mut Vec<Effect>) {
    match command {
        Command::Save { path, overwrite, quit } => {
            let path = path.unwrap_or_else(|| state.config_path.clone());
            let replace = match overwrite {
                true => Replace::Always,
                false if state.config_owned && path == state.config_path => Replace::IfUnchanged(state.config_seen.clone()),
                false => Replace::Never,
            };
            state.quit_after_save = quit;
            let text = state.document.config_for(&path).to_json_string();
            state.start(JobKind::Save, JobRequest::Save { path, text, replace, model: state.document.model().clone() }, effects);
        }
        Command::OpenConfig(path) => state.start(JobKind::Config, JobRequest::Config { path, changed: false }, effects),
        Command::UseConfig { path, config, content } => use_config(state, path, &config, content, effects),
        Command::Restore { path, config } => {
            // The file that holds them is the one of this session from now on: there is no moment without one.
            if let Some(own) = state.recovery_path.replace(path) {
                state.start(JobKind::Recovered, JobRequest::Recovery { path: own, text: None }, effects);
            }
            let edit = Edit::replace(state.document.config(), &config, "restored edits");
            marking::apply(state, edit, effects);
        }
        Command::KeepRecovered => {
            state.note(Role::Info, "the unsaved edits of the earlier session stay kept; the next start offers them again");
        }
        Command::DropRecovered(path) => {
            state.start(JobKind::Recovered, JobRequest::Recovery { path, text: None }, effects);
            state.note(Role::Info, "the unsaved edits of the earlier session are dropped");
        }
        Command::DropRecovery => {
            if let Some(path) = state.recovery_path.clone() {
                state.start(JobKind::Recovery, JobRequest::Recovery { path, text: None }, effects);
            }
        }
        Command::Theme(name) => state.start(JobKind::Theme, JobRequest::Theme { name }, effects),
        _ => {}
    }
}

fn use_config(state: &mut State, path: PathBuf, config: &PartitionConfig, content: Option<Content>, effects: &mut Vec<Effect>) {
    let shown = printable_path(&path);
    if !same(config, state.document.config()) {
        let edit = Edit::replace(state.document.config(), config, &format!("load {shown}"));
        if !marking::apply(state, edit, effects) {
            return;
        }
    }
    state.document.mark_saved();
    state.config_owned = true;
    state.config_seen = content;
    state.set_outside(BROKEN, Vec::new());
    if path != state.config_path {
        effects.push(Effect::WatchConfig(path.clone()));
        state.config_path = path;
    }
    perform(state, Command::DropRecovery, effects);
    state.note(Role::Success, format!("config {shown} loaded"));
}

/// A watched file changed on disk.
pub(super) fn changed(state: &mut State, watched: Watched, effects: &mut Vec<Effect>) {
    match watched {
        Watched::Model => {
            let path = state.document.model().path.clone();
            let program = state.document.model().program.clone();
            state.start(JobKind::Model, JobRequest::Model { path, program }, effects);
        }
        Watched::Config => {
            let path = state.config_path.clone();
            state.start(JobKind::Config, JobRequest::Config { path, changed: true }, effects);
        }
        Watched::Theme => {
            let name = state.theme.name.clone();
            state.start(JobKind::Theme, JobRequest::Theme { name }, effects);
        }
    }
}

/// News of a job.
pub(super) fn job(state: &mut State, id: JobId, event: JobEvent, effects: &mut Vec<Effect>) {
    if !state.is_current(id) {
        return;
    }
    match event {
        JobEvent::Progress(p) => {
            if let (JobKind::Run, Some(r)) = (id.kind, &mut state.running) {
                r.progress = p;
            }
        }
        JobEvent::Cancelled => {
            if id.kind == JobKind::Run {
                state.running = None;
                state.note(Role::Info, "run cancelled");
            }
        }
        JobEvent::Failed(message) => failed(state, id.kind, &message),
        JobEvent::Done(output) => {
            if id.kind == JobKind::Recovery && state.outside.iter().any(|d| d.code == UNKEPT) {
                state.set_outside(UNKEPT, Vec::new());
            }
            done(state, output, effects);
        }
    }
}

fn failed(state: &mut State, kind: JobKind, message: &str) {
    let what = match kind {
        JobKind::Recovery => {
            // It would fail after every edit: said once, and kept among the problems.
            if !state.outside.iter().any(|d| d.code == UNKEPT) {
                state.set_outside(UNKEPT, vec![Diagnostic::warning(UNKEPT, message)]);
                state.note(Role::Error, message);
            }
            return;
        }
        JobKind::Recovered => return state.note(Role::Error, message),
        JobKind::Run => {
            state.running = None;
            "run"
        }
        JobKind::Save => {
            state.quit_after_save = false;
            "saving"
        }
        JobKind::Model => "reloading",
        JobKind::Config => "config",
        JobKind::Theme => "theme",
        JobKind::Costs => "costs",
        JobKind::Select => {
            state.matches = None;
            if let Some(Layer::Palette(p) | Layer::Search(p)) = state.layers.last_mut() {
                // A half-typed selector is no fault: it is said quietly, and not at all where commands begin like it.
                p.note = p.candidates.is_empty().then(|| (Role::TextDim, message.to_owned()));
            }
            return;
        }
    };
    state.note(Role::Error, format!("{what}: {message}"));
}

fn done(state: &mut State, output: JobOutput, effects: &mut Vec<Effect>) {
    match output {
        JobOutput::Nothing => {}
        JobOutput::Run(result) => {
            state.running = None;
            let model = state.document.model().clone();
            if result.node_ns.len() != model.graph.nodes().len() {
                return;
            }
            state.tree.measure(&state.wiring, &model.modules, &result.node_ns);
            state.hottest = result.node_ns.iter().flatten().copied().max().unwrap_or(0);
            let mut text = format!(
                "ran on generated inputs in {}: nodes {}, gap {}",
                nanos(result.end_to_end_ns),
                nanos(result.nodes_ns),
                nanos(result.gap_ns())
            );
            for r in &result.remarks {
                text.push_str(&format!("; {}", printable(r)));
            }
            state.profile = Some(result);
            state.profile_stale = false;
            state.show_beside(Heat::Time);
            state.revision += 1;
            state.note(Role::Success, text);
        }
        JobOutput::Costs(costs) => {
            state.costs = Some(costs);
            state.revision += 1;
        }
        JobOutput::Matches { text, nodes, remark } => matched(state, text, nodes, remark),
        JobOutput::Saved { path, content } => {
            state.document.mark_saved();
            let shown = printable_path(&path);
            state.config_owned = true;
            state.config_seen = Some(content);
            state.set_outside(BROKEN, Vec::new());
            state.config_path.clone_from(&path);
            effects.push(Effect::WatchConfig(path));
            perform(state, Command::DropRecovery, effects);
            state.note(Role::Success, format!("saved {shown}"));
            if std::mem::take(&mut state.quit_after_save) {
                effects.push(Effect::Quit);
            }
        }
        JobOutput::Exists(path) => {
            let body = format!("{} is there already and was not opened by this session.", printable_path(&path));
            ask_to_replace(state, "File exists", body, path);
        }
        JobOutput::ChangedOnDisk(path) => {
            let body =
                format!("Somebody else changed {} since this session read or wrote it. Saving replaces that.", printable_path(&path));
            ask_to_replace(state, "Config changed on disk", body, path);
        }
        JobOutput::BadConfig { path, message } => {
            let text = format!(
                "the config on disk cannot be used: {message}. The marks here are as before; saving asks before it replaces the file"
            );
            if path == state.config_path && state.config_owned {
                state.set_outside(BROKEN, vec![Diagnostic::error(BROKEN, text.clone())]);
            }
            state.note(Role::Error, text);
        }
        JobOutput::Model(imported) => {
            let here = state.current_node().map(|n| state.document.model().graph.stable_id(n).to_owned());
            match state.document.reload(*imported) {
                Ok(reloaded) => {
                    state.remodelled(here, effects);
                    let moved = reloaded.moved.iter().map(|text| {
                        let text = printable(text);
                        let message = format!("`{text}` marks other nodes than before the model was reloaded: of other names, or with another operator, module or other inputs");
                        Diagnostic::warning(MOVED, message)
                    });
                    state.set_outside(MOVED, moved.collect());
                    let text = told(state, &reloaded);
                    state.note(if reloaded.lost.is_empty() && reloaded.moved.is_empty() { Role::Info } else { Role::Warning }, text);
                }
                Err(e) => state.note(Role::Error, format!("the model changed and cannot be used: {e}. The old one stays.")),
            }
        }
        JobOutput::Config { path, content, .. }
            if state.config_owned && path == state.config_path && content.is_some() && content == state.config_seen =>
        {
            // Touched, or written by this session: nothing is new.
            state.set_outside(BROKEN, Vec::new());
        }
        JobOutput::Config { path, config, content, changed } if changed && !state.config_owned => {
            if same(&config, state.document.config()) {
                return;
            }
            let body = format!("{} was written beside the model. It is not the config of this session.", printable_path(&path));
            state.layers.push(Layer::Choice(Choice {
                title: "A config appeared".to_owned(),
                body: vec![body],
                items: vec![
                    Item::new("Open it", "as one edit; u takes it back", Command::UseConfig { path, config, content }).key('y'),
                    Item::new("Leave it", "saving asks before it replaces it", Command::Nothing).key('n'),
                ],
                cursor: 1,
            }));
        }
        JobOutput::Config { path, config, content, changed } => {
            if changed && same(&config, state.document.config()) {
                state.document.mark_saved();
                state.config_seen = content;
                state.set_outside(BROKEN, Vec::new());
            } else if state.document.is_dirty() {
                let why = if changed { "changed on disk" } else { "would replace unsaved edits" };
                let shown = printable_path(&path);
                state.layers.push(Layer::Choice(Choice {
                    title: "Config and unsaved edits".to_owned(),
                    body: vec![format!("{shown} {why}, and there are edits that are not saved.")],
                    items: vec![
                        Item::new(
                            "Take the file",
                            "as one edit; u brings the unsaved edits back",
                            Command::UseConfig { path, config, content },
                        )
                        .key('y'),
                        Item::new("Keep the edits", "", Command::Nothing).key('n'),
                    ],
                    cursor: 1,
                }));
            } else {
                perform_command(state, Command::UseConfig { path, config, content }, effects);
            }
        }
        JobOutput::Theme(theme, warnings) => {
            let name = theme.name.clone();
            state.theme = *theme;
            match warnings.first() {
                Some(w) => state.note(Role::Warning, w.to_string()),
                None => state.note(Role::Info, format!("theme {}", printable(&name))),
            }
            state.warnings = warnings;
            state.revision += 1;
        }
    }
}

/// Codes of problems of files around the model.
const BROKEN: &str = "config_broken";
pub(super) const UNKEPT: &str = "edits_not_kept";
const MOVED: &str = "mark_moved";

/// Asks whether a file may be replaced by the config.
fn ask_to_replace(state: &mut State, title: &str, body: String, path: PathBuf) {
    let quit = std::mem::take(&mut state.quit_after_save);
    state.layers.push(Layer::Choice(Choice {
        title: title.to_owned(),
        body: vec![body],
        items: vec![
            Item::new("Replace it", "", Command::Save { path: Some(path), overwrite: true, quit }).key('y'),
            Item::new("Save under another name", "", Command::Action(super::super::action::Action::SaveAs)).key('o'),
            Item::new("Do not save", "", Command::Nothing).key('n'),
        ],
        cursor: 2,
    }));
}

/// What a reload says: nodes that came and went, marks that do not hold any more, and what it did to the plan.
fn told(state: &State, reloaded: &Reloaded) -> String {
    let mut text = match (reloaded.gone, reloaded.added) {
        (0, 0) => "model reloaded: the same nodes".to_owned(),
        (gone, added) => format!("model reloaded: {} gone, {added} new", plural(gone, "node")),
    };
    let marks = |n: usize, one: &str, many: &str| format!("; {} {}", plural(n, "mark"), if n == 1 { one } else { many });
    if !reloaded.lost.is_empty() {
        text.push_str(&marks(reloaded.lost.len(), "matches nothing now", "match nothing now"));
    }
    if !reloaded.moved.is_empty() {
        text.push_str(&marks(reloaded.moved.len(), "matches other nodes", "match other nodes"));
    }
    let effect = state.effect(&reloaded.change);
    if effect != "no node moved" {
        text.push_str(&format!("; {effect}"));
    }
    text
}

fn matched(state: &mut State, text: String, nodes: NodeSet, remark: Option<String>) {
    let count = nodes.count();
    let note = match (count, remark) {
        (0, Some(r)) => (Role::Warning, r),
        (0, None) => (Role::Warning, "no match".to_owned()),
        (n, Some(r)) => (Role::Info, format!("{} ({})", plural(n, "node"), printable(&r))),
        (n, None) => (Role::Info, plural(n, "node")),
    };
    let follow = matches!(state.layers.last(), Some(Layer::Search(_) | Layer::Palette(_)));
    if let Some(Layer::Palette(p) | Layer::Search(p)) = state.layers.last_mut() {
        // A line that is the beginning of a command is not contradicted because it is no selector.
        let command = count == 0 && !p.candidates.is_empty() && p.text().trim() == text;
        p.note = Some(note).filter(|_| !command);
    }
    state.matches = Some(Matches { text, nodes, count });
    if follow && matches!(state.layers.last(), Some(Layer::Search(_))) {
        super::searching::preview(state);
    } else if !follow {
        super::searching::found(state);
    }
}
