//! What the mouse can hit: made by the view together with the frame.

use ratatui::layout::{Position, Rect};
use recut_core::graph::NodeId;
use recut_core::partition::PartitionId;

use super::action::Action;

/// A pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pane {
    /// The module tree.
    Tree,
    /// Lanes or problems.
    Main,
    /// What is known of the current row.
    Detail,
}

/// Something on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A pane, beside its rows.
    Pane(Pane),
    /// A row of the tree.
    Tree(usize),
    /// The sign before a row of the tree.
    TreeToggle(usize),
    /// A row of the lanes.
    Lane(usize),
    /// A row of the problems.
    Problem(usize),
    /// A segment of the partition bar.
    Partition(PartitionId),
    /// A node that is named somewhere.
    Node(NodeId),
    /// A row of the topmost dialog.
    Item(usize),
    /// The topmost dialog beside its rows.
    Dialog,
    /// A hint.
    Action(Action),
}

/// Targets by place; later ones lie over earlier ones.
#[derive(Clone, Debug, Default)]
pub struct HitMap {
    areas: Vec<(Rect, Target)>,
    /// Where the text cursor is, if something is being typed.
    pub cursor: Option<Position>,
}

impl HitMap {
    /// Notes what is at `area`.
    pub fn add(&mut self, area: Rect, target: Target) {
        if area.width > 0 && area.height > 0 {
            self.areas.push((area, target));
        }
    }

    /// What is at a cell.
    #[must_use]
    pub fn at(&self, x: u16, y: u16) -> Option<Target> {
        self.areas.iter().rev().find(|(r, _)| r.contains(Position { x, y })).map(|(_, t)| *t)
    }

    /// Number of targets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Whether there is no target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Forgets everything below: a dialog takes the mouse alone.
    pub fn clear(&mut self) {
        self.areas.clear();
    }
}
