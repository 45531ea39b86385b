//! Background jobs: of each kind one runs and one waits, and a newer one takes the waiting place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use recut_exec::engine::CancelToken;

use super::super::costs::Costs;
use super::super::msg::{JobEvent, JobId, JobKind, JobOutput, JobRequest, Msg, Progress};
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
            if !matches!(id.kind, JobKind::Save | JobKind::Recovery) {
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
        let writing = |jobs: &Self| [JobKind::Save, JobKind::Recovery].iter().any(|k| jobs.running.contains_key(k));
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
        JobRequest::Save { path, text, overwrite, model } => {
            if let Some(file) = config_file::part_of(&path, &model) {
                return JobEvent::Failed(file);
            }
            if !overwrite && path.exists() {
                return JobEvent::Done(JobOutput::Exists(path));
            }
            match config_file::write(&path, &text) {
                Ok(()) => JobEvent::Done(JobOutput::Saved(path)),
                Err(e) => JobEvent::Failed(e),
            }
        }
        JobRequest::Model { path } => {
            done(recut_core::import::open(&path).map(|m| JobOutput::Model(Box::new(m))).map_err(|e| e.to_string()))
        }
        JobRequest::Config { path, changed } => {
            if changed && !path.exists() {
                return JobEvent::Done(JobOutput::Nothing);
            }
            done(config_file::read(&path).map(|c| JobOutput::Config { path, config: Box::new(c), changed }))
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

fn recovery(path: &std::path::Path, text: Option<&str>) -> Result<(), String> {
    match text {
        Some(text) => {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
            }
            config_file::write(path, text)
        }
        None => match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.to_string()),
            _ => Ok(()),
        },
    }
}
