//! Dialogs: one stack, of which the topmost takes the keys.

use std::path::PathBuf;

use recut_core::config::{PartitionConfig, Strategy};
use recut_core::document::Edit;
use recut_core::graph::NodeId;
use tui_input::{Input, InputRequest};

use super::action::Action;
use super::config_file::Content;
use super::key::Key;
use crate::theme::Role;
use crossterm::event::KeyCode;

/// Something that can be done later, when a person has chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// What a key does.
    Action(Action),
    /// An edit.
    Edit(Edit),
    /// Run what a selector matches in torch.
    Torch(String),
    /// Pin what a selector matches to the accelerator.
    Accelerate(String),
    /// Never split the modules that a selector matches.
    Leaf(String),
    /// Make what a selector matches one opaque op.
    Wrap {
        /// Name of the definition.
        name: String,
        /// The selector.
        select: String,
    },
    /// Take an opaque op apart.
    Unwrap(String),
    /// Set the backend.
    Backend(Option<String>),
    /// Set the strategy.
    Strategy(Strategy),
    /// Set the least number of nodes of an accelerated partition.
    MinBlockSize(u32),
    /// Set or clear the size of a dimension.
    Dim(String, Option<i64>),
    /// Write the config.
    Save {
        /// Where; `None` for the usual place.
        path: Option<PathBuf>,
        /// Whether a file that is there may be replaced.
        overwrite: bool,
        /// End afterwards.
        quit: bool,
    },
    /// End.
    Quit {
        /// Even with unsaved edits.
        force: bool,
    },
    /// Read a config.
    OpenConfig(PathBuf),
    /// Put a config that was read in the place of the current one.
    UseConfig {
        /// Where it is from.
        path: PathBuf,
        /// It.
        config: Box<PartitionConfig>,
        /// Its bytes.
        content: Option<Content>,
    },
    /// Put back what an earlier session left unsaved.
    Restore {
        /// The recovery file.
        path: PathBuf,
        /// The config as it was edited.
        config: Box<PartitionConfig>,
    },
    /// Leave what an earlier session left unsaved for later.
    KeepRecovered,
    /// Remove what an earlier session left unsaved.
    DropRecovered(PathBuf),
    /// Remove the recovery file of this session.
    DropRecovery,
    /// Show a data column of the model beside the nodes, or none.
    Column(Option<String>),
    /// Use another theme.
    Theme(String),
    /// Move to a node.
    GoTo(NodeId),
    /// Move to the first node that a selector matches.
    GoToSelector(String),
    /// Ask for a text first.
    Ask(Box<Ask>),
    /// Nothing.
    Nothing,
}

/// One line of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// A key that takes it at once.
    pub key: Option<char>,
    /// What it is.
    pub label: String,
    /// More about it.
    pub detail: String,
    /// What it does.
    pub then: Command,
    /// Whether closing the dialog means this.
    pub on_close: bool,
}

impl Item {
    /// An item without a key.
    #[must_use]
    pub fn new(label: impl Into<String>, detail: impl Into<String>, then: Command) -> Self {
        Self { key: None, label: label.into(), detail: detail.into(), then, on_close: false }
    }

    /// Closing the dialog without a choice means this item.
    #[must_use]
    pub fn on_close(mut self) -> Self {
        self.on_close = true;
        self
    }

    /// With a key.
    #[must_use]
    pub fn key(mut self, key: char) -> Self {
        self.key = Some(key);
        self
    }
}

/// A choice between items.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Title.
    pub title: String,
    /// Text above the items.
    pub body: Vec<String>,
    /// The items.
    pub items: Vec<Item>,
    /// The current one.
    pub cursor: usize,
}

/// What a typed text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskFor {
    /// A file to save to.
    SaveAs,
    /// A config to open.
    OpenConfig,
    /// `min_block_size`.
    MinBlockSize,
    /// Name of a new opaque op; the rest is the selector.
    Wrap,
}

/// A question that is answered by typing.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Title.
    pub title: String,
    /// Text above the line.
    pub body: Vec<String>,
    /// What it is for.
    pub what: AskFor,
    /// A selector that goes with it.
    pub context: String,
    /// What is typed, at first a proposal.
    pub text: String,
}

/// A line that is being typed.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// The text.
    pub input: Input,
    /// Remark under it.
    pub note: Option<(Role, String)>,
    /// What fits, best first: label, key or detail, command.
    pub candidates: Vec<Item>,
    /// The current candidate.
    pub cursor: usize,
}

impl Prompt {
    /// A line that starts with `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { input: Input::new(text.to_owned()), ..Self::default() }
    }

    /// What is typed.
    #[must_use]
    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// Edits the line; says whether the key was for it and whether the text changed.
    pub fn key(&mut self, key: Key) -> Option<bool> {
        let request = match (key.code, key.ctrl || key.alt) {
            (KeyCode::Char('a'), true) if key.ctrl => InputRequest::GoToStart,
            (KeyCode::Char('e'), true) if key.ctrl => InputRequest::GoToEnd,
            (KeyCode::Char('u'), true) if key.ctrl => InputRequest::DeleteLine,
            (KeyCode::Char('k'), true) if key.ctrl => InputRequest::DeleteTillEnd,
            (KeyCode::Char('w'), true) if key.ctrl => InputRequest::DeletePrevWord,
            (KeyCode::Char(c), false) => InputRequest::InsertChar(c),
            (KeyCode::Backspace, true) => InputRequest::DeletePrevWord,
            (KeyCode::Backspace, false) => InputRequest::DeletePrevChar,
            (KeyCode::Delete, _) => InputRequest::DeleteNextChar,
            (KeyCode::Left, true) => InputRequest::GoToPrevWord,
            (KeyCode::Left, false) => InputRequest::GoToPrevChar,
            (KeyCode::Right, true) => InputRequest::GoToNextWord,
            (KeyCode::Right, false) => InputRequest::GoToNextChar,
            (KeyCode::Home, _) => InputRequest::GoToStart,
            (KeyCode::End, _) => InputRequest::GoToEnd,
            _ => return None,
        };
        Some(self.input.handle(request).is_some_and(|c| c.value))
    }

    /// Inserts pasted text; line breaks become spaces.
    pub fn paste(&mut self, text: &str) {
        for c in text.trim_end().chars() {
            self.input.handle(InputRequest::InsertChar(if c.is_control() { ' ' } else { c }));
        }
    }
}

/// A dialog.
#[derive(Clone, Debug)]
pub enum Layer {
    /// All keys.
    Help {
        /// First line on the screen.
        offset: usize,
    },
    /// Lines to read, broken to the width of the screen.
    Text {
        /// Title.
        title: String,
        /// The lines.
        lines: Vec<(Role, String)>,
        /// First broken line on the screen.
        offset: usize,
    },
    /// Commands and selectors.
    Palette(Prompt),
    /// Search.
    Search(Prompt),
    /// A choice.
    Choice(Choice),
    /// A question.
    Ask(Ask, Prompt),
    /// Nodes inside an opaque op, or another list to look at and jump from.
    List(Choice),
}
