//! Files and jobs: saving, reloading, recovery, and what jobs found.

use std::path::PathBuf;

use recut_core::config::PartitionConfig;
use recut_core::diagnostic::printable;
use recut_core::document::Edit;
use recut_core::select::NodeSet;

use super::super::config_file::same;
use super::super::layers::{Choice, Command, Item, Layer};
use super::super::msg::{Effect, JobEvent, JobId, JobKind, JobOutput, JobRequest, Watched};
use super::super::state::{Heat, Matches, State};
use super::super::text::{nanos, plural};
use super::{marking, perform as perform_command};
use crate::theme::Role;

/// What the recovery file keeps: config and history.
pub(super) fn recovery_text(state: &State) -> Option<String> {
    serde_json::to_string(&state.document.recovery(Some(&state.config_path))).ok()
}

/// Asks whether what an earlier session left unsaved is to be put back.
#[must_use]
pub fn recovery_question(config: Box<PartitionConfig>) -> Layer {
    Layer::Choice(Choice {
        title: "Unsaved edits of an earlier session".to_owned(),
        body: vec!["recut ended without saving the config of this model. Its edits were kept.".to_owned()],
        items: vec![
            Item::new("Put them back", "as one edit; u takes it back", Command::Restore(config)).key('y'),
            Item::new("Drop them", "", Command::DropRecovery).key('d'),
        ],
        cursor: 0,
    })
}

pub(super) fn perform(state: &mut State, command: Command, effects: &mut Vec<Effect>) {
    match command {
        Command::Save { path, overwrite, quit } => {
            let path = path.unwrap_or_else(|| state.config_path.clone());
            let overwrite = overwrite || state.config_owned && path == state.config_path;
            state.quit_after_save = quit;
            let text = state.document.config_for(&path).to_json_string();
            state.start(JobKind::Save, JobRequest::Save { path, text, overwrite, model: state.document.model().clone() }, effects);
        }
        Command::OpenConfig(path) => state.start(JobKind::Config, JobRequest::Config { path, changed: false }, effects),
        Command::UseConfig { path, config } => use_config(state, path, &config, effects),
        Command::Restore(config) => {
            let edit = Edit::replace(state.document.config(), &config, "restored edits");
            marking::apply(state, edit, effects);
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

fn use_config(state: &mut State, path: PathBuf, config: &PartitionConfig, effects: &mut Vec<Effect>) {
    let shown = printable(&path.display().to_string()).into_owned();
    if !same(config, state.document.config()) {
        let edit = Edit::replace(state.document.config(), config, &format!("load {shown}"));
        if !marking::apply(state, edit, effects) {
            return;
        }
    }
    state.document.mark_saved();
    state.config_owned = true;
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
            state.start(JobKind::Model, JobRequest::Model { path }, effects);
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
        JobEvent::Done(output) => done(state, output, effects),
    }
}

fn failed(state: &mut State, kind: JobKind, message: &str) {
    let what = match kind {
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
        JobKind::Recovery => "recovery file",
        JobKind::Theme => "theme",
        JobKind::Costs => "costs",
        JobKind::Select => {
            state.matches = None;
            if let Some(Layer::Palette(p) | Layer::Search(p)) = state.layers.last_mut() {
                // A half-typed selector is no fault: it is said quietly.
                p.note = Some((Role::TextDim, message.to_owned()));
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
            let mut text =
                format!("ran in {}: nodes {}, gap {}", nanos(result.end_to_end_ns), nanos(result.nodes_ns), nanos(result.gap_ns()));
            for r in &result.remarks {
                text.push_str(&format!("; {}", printable(r)));
            }
            state.profile = Some(result);
            state.profile_stale = false;
            state.heat = Heat::Time;
            state.revision += 1;
            state.note(Role::Success, text);
        }
        JobOutput::Costs(costs) => {
            state.costs = Some(costs);
            state.revision += 1;
        }
        JobOutput::Matches { text, nodes, remark } => matched(state, text, nodes, remark),
        JobOutput::Saved(path) => {
            state.document.mark_saved();
            let shown = printable(&path.display().to_string()).into_owned();
            state.config_owned = true;
            state.config_path.clone_from(&path);
            effects.push(Effect::WatchConfig(path));
            perform(state, Command::DropRecovery, effects);
            state.note(Role::Success, format!("saved {shown}"));
            if std::mem::take(&mut state.quit_after_save) {
                effects.push(Effect::Quit);
            }
        }
        JobOutput::Exists(path) => {
            let quit = std::mem::take(&mut state.quit_after_save);
            let shown = printable(&path.display().to_string()).into_owned();
            state.layers.push(Layer::Choice(Choice {
                title: "File exists".to_owned(),
                body: vec![format!("{shown} is there already and was not opened by this session.")],
                items: vec![
                    Item::new("Replace it", "", Command::Save { path: Some(path), overwrite: true, quit }).key('y'),
                    Item::new("Save under another name", "", Command::Action(super::super::action::Action::SaveAs)).key('o'),
                    Item::new("Do not save", "", Command::Nothing).key('n'),
                ],
                cursor: 2,
            }));
        }
        JobOutput::Model(imported) => {
            let here = state.current_node().map(|n| state.document.model().graph.stable_id(n).to_owned());
            match state.document.reload(*imported) {
                Ok(change) => {
                    state.remodelled(here, effects);
                    let lost = state.problems.iter().filter(|p| p.code.contains("match")).count();
                    let lost = if lost > 0 { format!("; {} match nothing now, see problems", plural(lost, "mark")) } else { String::new() };
                    let text = state.tell(&change);
                    state.note(Role::Info, format!("model reloaded: {text}{lost}"));
                }
                Err(e) => state.note(Role::Error, format!("the model changed and cannot be used: {e}. The old one stays.")),
            }
        }
        JobOutput::Config { path, config, changed } => {
            if changed && same(&config, state.document.config()) {
                state.document.mark_saved();
            } else if state.document.is_dirty() {
                let why = if changed { "changed on disk" } else { "would replace unsaved edits" };
                let shown = printable(&path.display().to_string()).into_owned();
                state.layers.push(Layer::Choice(Choice {
                    title: "Config and unsaved edits".to_owned(),
                    body: vec![format!("{shown} {why}, and there are edits that are not saved.")],
                    items: vec![
                        Item::new("Take the file", "as one edit; u brings the unsaved edits back", Command::UseConfig { path, config })
                            .key('y'),
                        Item::new("Keep the edits", "", Command::Nothing).key('n'),
                    ],
                    cursor: 1,
                }));
            } else {
                perform_command(state, Command::UseConfig { path, config }, effects);
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
        p.note = Some(note);
    }
    state.matches = Some(Matches { text, nodes, count });
    if follow && matches!(state.layers.last(), Some(Layer::Search(_))) {
        super::moving::search_from_here(state);
        state.notice = None;
    }
}
