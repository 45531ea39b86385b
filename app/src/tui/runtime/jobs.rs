//! Background jobs: of each kind one runs and one waits, and a newer one takes the waiting place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use recut_core::diagnostic::printable_path;
use recut_core::files::write_durably;
use recut_core::import::OpenOptions;
use recut_core::model::Model;
use recut_exec::engine::CancelToken;

use super::super::costs::Costs;
use super::super::msg::{JobEvent, JobId, JobKind, JobOutput, JobRequest, Msg, Progress, Replace};
use super::super::user_files::UserFiles;
use super::super::{config_file, query, run_job};
use crate::theme::{ColorDepth, Theme};

/// Jobs that run and wait.
pub struct Jobs {
    tx: Sender<Msg>,
    running: HashMap<JobKind, (JobId, CancelToken)>,
    waiting: HashMap<JobKind, (JobId, JobRequest)>,
    progress: Arc<Mutex<Option<(JobId, Progress)>>>,
    wake: (Sender<()>, Receiver<()>),
    look: Look,
}

/// What theme jobs need to know of the terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Colours.
    pub depth: ColorDepth,
    /// Only ASCII.
    pub ascii: bool,
}

impl Jobs {
    /// No jobs; news go to `tx`.
    #[must_use]
    pub fn new(tx: Sender<Msg>, depth: ColorDepth, ascii: bool) -> Self {
        Self {
            tx,
            running: HashMap::new(),
            waiting: HashMap::new(),
            progress: Arc::default(),
            wake: bounded(1),
            look: Look { depth, ascii },
        }
    }

    /// Says when there is progress.
    #[must_use]
    pub fn wake(&self) -> &Receiver<()> {
        &self.wake.1
    }

    /// The newest progress.
    #[must_use]
    pub fn take_progress(&self) -> Option<Msg> {
        let (id, p) = self.progress.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Msg::Job(id, JobEvent::Progress(p)))
    }

    /// Starts a job, or lets it wait. A run, load or look-up that is superseded is cancelled; a write is not.
    pub fn start(&mut self, id: JobId, request: JobRequest) {
        if let Some((_, token)) = self.running.get(&id.kind) {
            if !matches!(id.kind, JobKind::Save | JobKind::Recovery | JobKind::Recovered) {
                token.cancel();
            }
            self.waiting.insert(id.kind, (id, request));
            return;
        }
        self.spawn(id, request);
    }

    /// Asks the job of a kind to stop.
    pub fn cancel(&mut self, kind: JobKind) {
        self.waiting.remove(&kind);
        if let Some((_, token)) = self.running.get(&kind) {
            token.cancel();
        }
    }

    /// Takes note that a job ended, and starts the one that waits.
    pub fn news(&mut self, id: JobId, event: &JobEvent) {
        if matches!(event, JobEvent::Progress(_)) {
            return;
        }
        if self.running.get(&id.kind).is_some_and(|(r, _)| *r == id) {
            self.running.remove(&id.kind);
            if let Some((id, request)) = self.waiting.remove(&id.kind) {
                self.spawn(id, request);
            }
        }
    }

    /// Waits until files are written, but not longer than `grace`.
    pub fn finish(mut self, grace: Duration, rx: &Receiver<Msg>) {
        let end = Instant::now() + grace;
        let writing = |jobs: &Self| [JobKind::Save, JobKind::Recovery, JobKind::Recovered].iter().any(|k| jobs.running.contains_key(k));
        while writing(&self) {
            match rx.recv_deadline(end) {
                Ok(Msg::Job(id, event)) => self.news(id, &event),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn spawn(&mut self, id: JobId, request: JobRequest) {
        let token = CancelToken::default();
        self.running.insert(id.kind, (id, token.clone()));
        let (tx, slot, wake, look) = (self.tx.clone(), self.progress.clone(), self.wake.0.clone(), self.look);
        let work = move || {
            let progress = |p: Progress| {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, p));
                // A wake-up that is waiting already is enough.
                let _ = wake.try_send(());
            };
            let run = std::panic::AssertUnwindSafe(|| execute(request, look, &token, &progress));
            let event = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
                let said = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                JobEvent::Failed(format!("internal error: {}", said.unwrap_or_default()))
            });
            // Nobody listens after the end of the app.
            let _ = tx.send(Msg::Job(id, event));
        };
        let name = format!("job {:?}", id.kind);
        if std::thread::Builder::new().name(name).stack_size(16 << 20).spawn(work).is_err() {
            self.running.remove(&id.kind);
            let _ = self.tx.try_send(Msg::Job(id, JobEvent::Failed("no thread for it".to_owned())));
        }
    }
}

/// Does a job, on the thread that calls.
#[must_use]
pub fn execute(request: JobRequest, look: Look, token: &CancelToken, progress: &(dyn Fn(Progress) + Sync)) -> JobEvent {
    let stop = || token.is_cancelled();
    let done = |result: Result<JobOutput, String>| match result {
        _ if stop() => JobEvent::Cancelled,
        Ok(output) => JobEvent::Done(output),
        Err(message) => JobEvent::Failed(message),
    };
    match request {
        JobRequest::Run { plan, config } => done(run_job::run(&plan, &config, token, progress).map(|r| JobOutput::Run(Box::new(r)))),
        JobRequest::Costs { model, dims } => match Costs::new(&model, &dims, &stop) {
            Some(costs) => JobEvent::Done(JobOutput::Costs(Arc::new(costs))),
            None => JobEvent::Cancelled,
        },
        JobRequest::Search { model, text } => {
            done(query::search(&model, &text, &stop).map(|nodes| JobOutput::Matches { text, nodes, remark: None }))
        }
        JobRequest::Select { plan, index, text } => {
            done(query::select(&plan, &index, &text).map(|(nodes, remark)| JobOutput::Matches { text, nodes, remark }))
        }
        JobRequest::Save { path, text, replace, model } => save(path, &text, &replace, &model),
        JobRequest::Model { path, program } => {
            let options = OpenOptions { model_name: program };
            done(recut_core::import::open_with(&path, &options).map(|m| JobOutput::Model(Box::new(m))).map_err(|e| e.to_string()))
        }
        JobRequest::Config { path, changed } => {
            if changed && !path.exists() {
                return JobEvent::Done(JobOutput::Nothing);
            }
            done(match config_file::read(&path) {
                Ok((c, content)) => Ok(JobOutput::Config { path, config: Box::new(c), content: Some(content), changed }),
                Err(message) if changed => Ok(JobOutput::BadConfig { path, message }),
                Err(message) => Err(message),
            })
        }
        JobRequest::Recovery { path, text } => match recovery(&path, text.as_deref()) {
            Ok(()) => JobEvent::Done(JobOutput::Nothing),
            Err(e) => JobEvent::Failed(e),
        },
        JobRequest::Theme { name } => {
            let user = UserFiles::find();
            let (theme, warnings) = Theme::load(&name, look.depth, look.ascii, &|n| user.theme(n));
            JobEvent::Done(JobOutput::Theme(Box::new(theme), warnings))
        }
    }
}

/// Writes a config, unless that would replace what it may not.
fn save(path: PathBuf, text: &str, replace: &Replace, model: &Model) -> JobEvent {
    if let Some(file) = config_file::part_of(&path, model) {
        return JobEvent::Failed(file);
    }
    // A folder is refused by the write itself, which says so: there is nothing to ask.
    if path.exists() && !path.is_dir() {
        match replace {
            Replace::Never => return JobEvent::Done(JobOutput::Exists(path)),
            Replace::IfUnchanged(known) if config_file::content(&path) != *known => {
                return JobEvent::Done(JobOutput::ChangedOnDisk(path));
            }
            Replace::IfUnchanged(_) | Replace::Always => {}
        }
    }
    match config_file::write(&path, text) {
        Ok(()) => JobEvent::Done(JobOutput::Saved { path, content: text.as_bytes().into() }),
        Err(e) => JobEvent::Failed(e),
    }
}

fn recovery(path: &Path, text: Option<&str>) -> Result<(), String> {
    let shown = printable_path(path);
    let made = |path: &Path| path.parent().map_or(Ok(()), std::fs::create_dir_all);
    match text {
        Some(text) => {
            let written = made(path).and_then(|()| write_durably(path, text.as_bytes()));
            written.map_err(|e| {
                let why = config_file::reason(&e);
                format!("unsaved edits cannot be kept in {shown} ({why}): a crash would lose them, so save them with s")
            })
        }
        None => match std::fs::remove_file(path) {
            Err(e) if !matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                let why = config_file::reason(&e);
                Err(format!("{shown} with earlier edits cannot be removed ({why}): they will be offered again, delete it by hand"))
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(path: &Path, replace: &Replace) -> JobEvent {
        save(path.to_owned(), "new", replace, &recut_core::testing::model(&[("a", "Relu", &["x"], &["y"])]))
    }

    #[test]
    fn saving_replaces_only_what_was_read_or_written_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.recut.json");
        std::fs::write(&path, "read").unwrap();
        let known = config_file::content(&path);
        std::fs::write(&path, "{broken my notes").unwrap();
        for replace in [Replace::IfUnchanged(known.clone()), Replace::IfUnchanged(None)] {
            assert!(matches!(saved(&path, &replace), JobEvent::Done(JobOutput::ChangedOnDisk(_))));
        }
        assert!(matches!(saved(&path, &Replace::Never), JobEvent::Done(JobOutput::Exists(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{broken my notes");
        std::fs::write(&path, "read").unwrap();
        let JobEvent::Done(JobOutput::Saved { content, .. }) = saved(&path, &Replace::IfUnchanged(known)) else { panic!("not saved") };
        assert_eq!(&*content, b"new");
        assert!(matches!(saved(&path, &Replace::IfUnchanged(Some(content))), JobEvent::Done(JobOutput::Saved { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(saved(&path, &Replace::IfUnchanged(None)), JobEvent::Done(JobOutput::Saved { .. })));
        // A folder is no file to replace.
        let JobEvent::Failed(e) = saved(dir.path(), &Replace::Never) else { panic!("saved as a folder") };
        assert!(e.contains("name a file in it"), "{e}");
    }

    #[test]
    fn a_recovery_file_that_cannot_be_written_names_file_consequence_and_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let e = recovery(&file.join("recovery/x.json"), Some("{}")).unwrap_err();
        assert!(e.contains("recovery/x.json") && e.contains("a crash would lose them") && e.contains("save them with s"), "{e}");
        assert!(!e.contains("os error"), "{e}");
        assert!(recovery(&file.join("x.json"), None).is_ok(), "what is not there need not be removed");
    }
}
