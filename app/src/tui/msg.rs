//! What can happen to the app, and what it can ask of the outside.

use std::path::PathBuf;
use std::sync::Arc;

use recut_core::config::PartitionConfig;
use recut_core::expr::Bindings;
use recut_core::import::Imported;
use recut_core::model::Model;
use recut_core::partition::Plan;
use recut_core::select::{NodeSet, SelectorIndex};

use super::config_file::Content;
use super::costs::Costs;
use super::hit::Target;
use super::key::Key;
use super::run_job::RunResult;
use crate::theme::{ConfigWarning, Theme};

/// What a mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// Left button down.
    Press,
    /// Left button held and moved.
    Drag,
    /// Wheel towards the top.
    WheelUp,
    /// Wheel towards the bottom.
    WheelDown,
}

/// What happened.
#[derive(Debug)]
pub enum Msg {
    /// A key.
    Key(Key),
    /// The mouse, at a cell: the runtime looks up what the last frame shows there.
    Pointer(MouseKind, u16, u16),
    /// The mouse, at what the last frame shows there.
    Mouse(MouseKind, Option<Target>),
    /// Text was pasted.
    Paste(String),
    /// The terminal got or lost the focus.
    Focus(bool),
    /// The terminal has another size.
    Resize(u16, u16),
    /// A watched file changed.
    Changed(Watched),
    /// A job has news.
    Job(JobId, JobEvent),
    /// The system asks the program to end.
    Terminate,
}

/// Files that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Watched {
    /// The model.
    Model,
    /// The config.
    Config,
    /// The user's theme.
    Theme,
}

/// Kinds of jobs. Of each one runs and one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum JobKind {
    /// Running the model.
    Run,
    /// Parameters, FLOPs and bytes of every node.
    Costs,
    /// Search or selector.
    Select,
    /// Writing the config.
    Save,
    /// Reading the model again.
    Model,
    /// Reading a config.
    Config,
    /// Writing or removing the recovery file.
    Recovery,
    /// Reading a theme.
    Theme,
    /// Removing what an earlier session left, once a person decided.
    Recovered,
}

/// Number of [`JobKind`]s.
pub const JOB_KINDS: usize = 9;

/// A job: results of an older generation are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    /// What it does.
    pub kind: JobKind,
    /// Counts the jobs of the kind.
    pub generation: u64,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Done, from 0 to 1, where that is known.
    pub share: Option<f32>,
    /// What it is at.
    pub text: String,
}

/// News of a job.
#[derive(Debug)]
pub enum JobEvent {
    /// It goes on.
    Progress(Progress),
    /// It is done.
    Done(JobOutput),
    /// It failed, and this is why.
    Failed(String),
    /// It stopped because it was asked to.
    Cancelled,
}

/// Whether saving may replace a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replace {
    /// No: a person is asked first.
    Never,
    /// Only if it holds these bytes, which were read or written before; else a person is asked first.
    IfUnchanged(Option<Content>),
    /// A person said so.
    Always,
}

/// What a job is to do.
#[derive(Clone, Debug)]
pub enum JobRequest {
    /// Run under a plan.
    Run {
        /// The plan.
        plan: Arc<Plan>,
        /// The config it came from.
        config: Arc<PartitionConfig>,
    },
    /// Cost of every node.
    Costs {
        /// The model.
        model: Arc<Model>,
        /// Sizes of its symbols.
        dims: Bindings,
    },
    /// Nodes that a search text matches.
    Search {
        /// The model.
        model: Arc<Model>,
        /// What was typed.
        text: String,
    },
    /// Nodes that a selector matches.
    Select {
        /// The plan, for `partition:`.
        plan: Arc<Plan>,
        /// Indices.
        index: Arc<SelectorIndex>,
        /// What was typed.
        text: String,
    },
    /// Write a file through a temporary one.
    Save {
        /// Where.
        path: PathBuf,
        /// What.
        text: String,
        /// Whether a file that is there may be replaced.
        replace: Replace,
        /// The opened model, none of whose files may be replaced.
        model: Arc<Model>,
    },
    /// Read the model.
    Model {
        /// Where.
        path: PathBuf,
        /// Which program of the file.
        program: Option<String>,
    },
    /// Read a config.
    Config {
        /// Where.
        path: PathBuf,
        /// Only because it changed on disk: asks before it replaces unsaved edits.
        changed: bool,
    },
    /// Write the recovery file, or remove it.
    Recovery {
        /// Where.
        path: PathBuf,
        /// Its text; `None` to remove it.
        text: Option<String>,
    },
    /// Read a theme.
    Theme {
        /// Its name.
        name: String,
    },
}

/// What a job found.
#[derive(Debug)]
pub enum JobOutput {
    /// Times.
    Run(Box<RunResult>),
    /// Costs.
    Costs(Arc<Costs>),
    /// Matches of a search or selector.
    Matches {
        /// What was typed.
        text: String,
        /// The nodes.
        nodes: NodeSet,
        /// Remarks, or nearest names where nothing matches.
        remark: Option<String>,
    },
    /// The file is written.
    Saved {
        /// Where.
        path: PathBuf,
        /// What it holds now.
        content: Content,
    },
    /// Somebody else wrote the file since it was read or written; it was left alone.
    ChangedOnDisk(PathBuf),
    /// The watched config changed on disk and cannot be used.
    BadConfig {
        /// Where.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// There is such a file already.
    Exists(PathBuf),
    /// The model.
    Model(Box<Imported>),
    /// The config as read.
    Config {
        /// Where it is from.
        path: PathBuf,
        /// Its content.
        config: Box<PartitionConfig>,
        /// Its bytes.
        content: Option<Content>,
        /// See [`JobRequest::Config`].
        changed: bool,
    },
    /// Nothing to tell.
    Nothing,
    /// A theme with the faults of its file.
    Theme(Box<Theme>, Vec<ConfigWarning>),
}

/// What the app asks of the outside.
#[derive(Debug)]
pub enum Effect {
    /// Start a job, or let it wait for the one of its kind that runs.
    Start(JobId, JobRequest),
    /// Cancel the job of this kind.
    Cancel(JobKind),
    /// Put text on the clipboard of the terminal.
    Copy(String),
    /// Watch the config at this path from now on.
    WatchConfig(PathBuf),
    /// End.
    Quit,
}
