//! What must not be lost: files that others wrote, edits of earlier sessions, and what a screen does not show.

use super::super::msg::{Effect, JobEvent, JobId, JobKind, JobOutput, JobRequest, Msg, Replace, Watched};
use super::super::update::update;
use super::super::user_files::Recovered;
use super::*;

fn key(app: &mut App, key: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for k in Key::parse_all(key) {
        effects = update(&mut app.state, Msg::Key(k));
    }
    effects
}

fn job(app: &mut App, kind: JobKind, output: JobOutput) -> Vec<Effect> {
    let id = app.state.job(kind);
    update(&mut app.state, Msg::Job(id, JobEvent::Done(output)))
}

fn removed(effects: &[Effect]) -> Vec<&std::path::Path> {
    effects
        .iter()
        .filter_map(|e| match e {
            Effect::Start(_, JobRequest::Recovery { path, text: None }) => Some(path.as_path()),
            _ => None,
        })
        .collect()
}

fn quits(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Quit))
}

/// The app with edits of an earlier session in `old`, and `own` as the place for its own.
fn recovered(width: u16, height: u16) -> App {
    let mut app = App::new(width, height);
    let config = PartitionConfig { torch_executed_nodes: vec!["conv0".to_owned()], ..PartitionConfig::default() };
    app.state.recovery_path = Some("own".into());
    app.state.layers.push(super::super::update::recovery_question(Recovered { path: "old".into(), config: Box::new(config) }));
    app
}

#[test]
fn esc_on_the_recovery_dialog_keeps_the_file_and_quitting_does_too() {
    for close in ["esc", "q", "l", "ctrl-c"] {
        let mut app = recovered(120, 30);
        assert!(app.text().contains("Esc; they stay kept"), "{}", app.text());
        assert!(removed(&key(&mut app, close)).is_empty());
        assert!(app.notice().contains("stay kept"), "{close}: {}", app.notice());
        let effects = key(&mut app, "q");
        assert!(quits(&effects));
        assert_eq!(removed(&effects), [std::path::Path::new("own")], "{close}");
    }
}

#[test]
fn new_edits_never_write_over_those_of_an_earlier_session() {
    let mut app = recovered(120, 30);
    key(&mut app, "esc");
    let effects = key(&mut app, "j t");
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Start(_, JobRequest::Recovery { path, text: Some(_) }) if path.as_os_str() == "own")),
        "{effects:?}"
    );
}

#[test]
fn restored_edits_go_on_in_their_file_and_dropped_ones_go() {
    let mut app = recovered(120, 30);
    let effects = key(&mut app, "y");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["conv0"]);
    assert_eq!(removed(&effects), [std::path::Path::new("own")]);
    assert_eq!(app.state.recovery_path.as_deref(), Some(std::path::Path::new("old")));
    let mut app = recovered(120, 30);
    assert_eq!(removed(&key(&mut app, "d")), [std::path::Path::new("old")]);
    assert!(app.state.document.config().torch_executed_nodes.is_empty());
}

#[test]
fn a_config_that_others_changed_is_not_replaced_without_a_question() {
    let mut app = App::new(140, 30);
    app.state.config_owned = true;
    app.state.config_seen = Some(b"as read".as_slice().into());
    app.keys("j t");
    let effects = key(&mut app, "s");
    let Some(Effect::Start(id, JobRequest::Save { path, replace, .. })) = effects.into_iter().next() else { panic!("no save") };
    assert_eq!(replace, Replace::IfUnchanged(Some(b"as read".as_slice().into())));
    update(&mut app.state, Msg::Job(id, JobEvent::Done(JobOutput::ChangedOnDisk(path))));
    assert!(app.text().contains("Config changed on disk"), "{}", app.text());
    assert!(key(&mut app, "enter").is_empty(), "the first choice is to leave it");
    assert!(app.state.document.is_dirty());
    let path = app.state.config_path.clone();
    job(&mut app, JobKind::Save, JobOutput::ChangedOnDisk(path));
    assert!(matches!(key(&mut app, "y").first(), Some(Effect::Start(_, JobRequest::Save { replace: Replace::Always, .. }))));
}

#[test]
fn a_config_broken_on_disk_is_a_problem_until_it_is_mended() {
    let mut app = App::new(140, 30);
    app.state.config_owned = true;
    let path = app.state.config_path.clone();
    job(&mut app, JobKind::Config, JobOutput::BadConfig { path: path.clone(), message: "m.recut.json:1:2: no valid JSON".to_owned() });
    assert!(app.notice().contains("no valid JSON") && app.notice().contains("saving asks"), "{}", app.notice());
    app.keys("j 8");
    assert!(app.text().contains("Problems (1)") && app.line("error").contains("cannot be used"), "{}", app.text());
    app.keys("1 t u");
    assert_eq!(app.state.problems.len(), 1, "it stays through edits");
    let config = Box::new(PartitionConfig::default());
    job(&mut app, JobKind::Config, JobOutput::Config { path, config, content: Some(b"{}".as_slice().into()), changed: true });
    assert!(app.state.problems.is_empty());
    assert_eq!(app.state.config_seen.as_deref(), Some(b"{}".as_slice()));
}

#[test]
fn a_config_that_appears_beside_the_model_is_asked_about() {
    let mut app = App::new(140, 30);
    let config = PartitionConfig { torch_executed_nodes: vec!["conv0".to_owned()], ..PartitionConfig::default() };
    let path = app.state.config_path.clone();
    let appears = || JobOutput::Config { path: path.clone(), config: Box::new(config.clone()), content: None, changed: true };
    job(&mut app, JobKind::Config, appears());
    assert!(app.state.document.config().torch_executed_nodes.is_empty(), "nothing is loaded unasked");
    assert!(app.text().contains("A config appeared"), "{}", app.text());
    app.keys("esc");
    assert!(!app.state.config_owned);
    job(&mut app, JobKind::Config, appears());
    app.keys("y");
    assert_eq!(app.state.document.config().torch_executed_nodes, ["conv0"]);
    assert!(app.state.config_owned);
}

#[test]
fn a_touched_config_is_no_news() {
    let mut app = App::new(140, 30);
    app.state.config_owned = true;
    app.state.config_seen = Some(b"same".as_slice().into());
    app.keys("j t");
    let path = app.state.config_path.clone();
    let content = Some(b"same".as_slice().into());
    job(&mut app, JobKind::Config, JobOutput::Config { path, config: Box::default(), content, changed: true });
    assert!(app.state.layers.is_empty() && app.state.document.is_dirty());
}

#[test]
fn edits_that_cannot_be_kept_are_said_once_and_stay_among_the_problems() {
    let mut app = App::new(140, 30);
    app.state.recovery_path = Some("r".into());
    for edit in ["j t", "j t"] {
        let effects = key(&mut app, edit);
        let id = effects.iter().find_map(|e| match e {
            Effect::Start(id, JobRequest::Recovery { .. }) => Some(*id),
            _ => None,
        });
        let failed = JobEvent::Failed("unsaved edits cannot be kept in r".to_owned());
        update(&mut app.state, Msg::Job(id.unwrap(), failed));
    }
    assert!(app.notice().contains("partition"), "the second time the edit is what the line says: {}", app.notice());
    assert_eq!(app.state.problems.iter().filter(|p| p.code == "edits_not_kept").count(), 1);
    job(&mut app, JobKind::Recovery, JobOutput::Nothing);
    assert!(app.state.problems.is_empty());
}

#[test]
fn below_the_smallest_size_only_leaving_acts() {
    let mut app = App::new(40, 10);
    app.state.recovery_path = Some("own".into());
    app.keys("j j t a x L space : q");
    assert!(app.state.document.history().is_empty() && app.state.layers.is_empty());
    assert!(app.text().contains("q quits"), "{}", app.text());
    assert!(quits(&key(&mut app, "q")));
    // Unsaved edits: the question cannot be shown, so they are kept.
    update(&mut app.state, Msg::Resize(120, 30));
    app.keys("j t");
    update(&mut app.state, Msg::Resize(40, 10));
    let effects = key(&mut app, "q");
    assert!(quits(&effects) && removed(&effects).is_empty());
    app.state.recovery_path = None;
    assert!(!quits(&key(&mut app, "q")));
    assert!(app.text().contains("unsaved edits would be"), "{}", app.text());
}

#[test]
fn jobs_of_files_never_share_a_place_that_the_newer_takes() {
    // Removing what was dropped and keeping new edits are different kinds: neither replaces the other while it waits.
    let mut app = recovered(120, 30);
    let drop = key(&mut app, "d");
    let edit = key(&mut app, "j t");
    let kind = |effects: &[Effect]| {
        effects.iter().find_map(|e| match e {
            Effect::Start(JobId { kind, .. }, JobRequest::Recovery { .. }) => Some(*kind),
            _ => None,
        })
    };
    assert_eq!((kind(&drop), kind(&edit)), (Some(JobKind::Recovered), Some(JobKind::Recovery)));
    assert!(matches!(update(&mut app.state, Msg::Changed(Watched::Config)).first(), Some(Effect::Start(..))));
}
