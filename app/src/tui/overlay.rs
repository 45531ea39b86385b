//! What stands beside the nodes: measured times, costs, or a data column that came with the model; and the colours of it.

use recut_core::columns::{ColumnData, Entry, number_text};
use recut_core::diagnostic::printable;
use recut_core::graph::NodeId;

use super::state::{Heat, State};
use super::text::{bytes, count, nanos};
use crate::theme::Role;

/// The data column that is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownColumn {
    /// Its name: another model may have it elsewhere.
    pub name: String,
    /// Its largest number.
    pub largest: f64,
}

/// What is said of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// Its share of the largest, from 0 to 1; `None` for texts.
    pub share: Option<f64>,
}

impl State {
    /// Shows something beside the nodes.
    pub(super) fn show_beside(&mut self, heat: Heat) {
        self.heat = heat;
        self.column = None;
        if let Heat::Column(i) = heat {
            match self.document.model().columns.get(i) {
                Some(c) => self.column = Some(ShownColumn { name: c.name.clone(), largest: c.largest() }),
                None => self.heat = Heat::Placement,
            }
        }
    }

    /// Shows the data column called `name`; says whether there is one.
    pub(super) fn show_column(&mut self, name: &str) -> bool {
        let found = self.document.model().columns.iter().position(|c| c.name == name);
        if let Some(i) = found {
            self.show_beside(Heat::Column(i));
        }
        found.is_some()
    }

    /// What colours and numbers can mean now, in the order in which a key goes through them.
    pub(super) fn overlays(&self) -> Vec<Heat> {
        let mut all = vec![Heat::Placement];
        if self.profile.is_some() {
            all.push(Heat::Time);
        }
        if self.costs.is_some() {
            all.extend([Heat::Bytes, Heat::Flops]);
        }
        all.extend((0..self.document.model().columns.len()).map(Heat::Column));
        all
    }

    /// The name of what is shown, for the status line; empty for placement.
    #[must_use]
    pub fn overlay_name(&self) -> String {
        match self.heat {
            Heat::Placement => String::new(),
            Heat::Time => "time".to_owned(),
            Heat::Bytes => "bytes".to_owned(),
            Heat::Flops => "FLOPs".to_owned(),
            Heat::Column(i) => self.document.model().columns.get(i).map_or_else(String::new, |c| printable(&c.heading()).into_owned()),
        }
    }

    /// Heat of a node from 0 to 1 under the current colouring.
    #[must_use]
    pub fn heat_of(&self, node: NodeId) -> Option<f64> {
        match self.heat {
            Heat::Placement => None,
            Heat::Time => self.time(node).map(|t| share(t as f64, self.hottest as f64)),
            Heat::Bytes => self.costs.as_ref().and_then(|c| Some(share((*c.bytes.get(node.index())?)? as f64, c.max_bytes as f64))),
            Heat::Flops => self.costs.as_ref().and_then(|c| Some(share((*c.flops.get(node.index())?)? as f64, c.max_flops as f64))),
            Heat::Column(i) => {
                let number = self.document.model().columns.get(i)?.number(node)?;
                Some(share(number, self.column.as_ref()?.largest))
            }
        }
    }

    /// What stands beside a row of these nodes: sums, or the text that they have in common.
    pub(super) fn beside(&self, nodes: impl Iterator<Item = NodeId>) -> Option<Cell> {
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(None, |s: Option<u64>, n| Some(s.unwrap_or(0).saturating_add(n)));
        match self.heat {
            Heat::Placement | Heat::Time => {
                let profile = self.profile.as_ref()?;
                let sum = sum(&mut nodes.filter_map(|n| profile.time(n)))?;
                Some(Cell { text: nanos(sum), share: Some(share(sum as f64, self.hottest as f64)) })
            }
            Heat::Bytes | Heat::Flops => {
                let costs = self.costs.as_ref()?;
                let is_bytes = self.heat == Heat::Bytes;
                let (list, most) = if is_bytes { (&costs.bytes, costs.max_bytes) } else { (&costs.flops, costs.max_flops) };
                let sum = sum(&mut nodes.filter_map(|n| list.get(n.index()).copied().flatten())).unwrap_or(0);
                let text = if is_bytes { bytes(sum) } else { count(sum) };
                Some(Cell { text, share: Some(share(sum as f64, most as f64)) })
            }
            Heat::Column(i) => {
                let column = self.document.model().columns.get(i)?;
                match &column.data {
                    ColumnData::Numbers(_) => {
                        let sum = nodes.filter_map(|n| column.number(n)).fold(None, |s: Option<f64>, x| Some(s.unwrap_or(0.0) + x))?;
                        let largest = self.column.as_ref().map_or(0.0, |c| c.largest);
                        Some(Cell { text: number_text(sum), share: Some(share(sum, largest)) })
                    }
                    ColumnData::Texts(_) => {
                        let mut texts = nodes.filter_map(|n| match column.get(n) {
                            Some(Entry::Text(t)) => Some(t),
                            _ => None,
                        });
                        let first = texts.next()?;
                        let text = if texts.all(|t| t == first) { printable(first).into_owned() } else { "(several)".to_owned() };
                        Some(Cell { text, share: None })
                    }
                }
            }
        }
    }
}

/// A share from 0 to 1.
fn share(n: f64, most: f64) -> f64 {
    if most > 0.0 { (n / most).clamp(0.0, 1.0) } else { 0.0 }
}

/// Colour of a cell.
pub(super) fn role(state: &State, cell: &Cell) -> Role {
    match cell.share {
        None => Role::Text,
        Some(_) if state.profile_stale && state.heat == Heat::Time => Role::TextDim,
        Some(share) => Role::heat(share),
    }
}

/// A key goes on to the next thing that can be shown.
pub(super) fn next(state: &mut State) {
    let all = state.overlays();
    let at = all.iter().position(|h| *h == state.heat).unwrap_or(0);
    let next = all.get(at + 1).copied().unwrap_or(Heat::Placement);
    state.show_beside(next);
    let text = match next {
        Heat::Placement => "colours show where nodes run".to_owned(),
        Heat::Time => "colours show measured time".to_owned(),
        Heat::Bytes => "colours show bytes read and written".to_owned(),
        Heat::Flops => "colours show FLOPs".to_owned(),
        Heat::Column(_) => format!("the column {} of the file", state.overlay_name()),
    };
    state.note(Role::Info, text);
}

/// Shows a column by name, or none.
pub(super) fn choose(state: &mut State, name: Option<&str>) {
    let Some(name) = name else {
        state.show_beside(Heat::Placement);
        return state.note(Role::Info, "colours show where nodes run");
    };
    if state.show_column(name) {
        let text = format!("the column {} of the file", state.overlay_name());
        return state.note(Role::Info, text);
    }
    let names: Vec<String> = state.document.model().columns.iter().map(|c| printable(&c.name).into_owned()).collect();
    let there = if names.is_empty() { "the file has none".to_owned() } else { format!("there are {}", names.join(", ")) };
    state.note(Role::Warning, format!("no column `{}`: {there}", printable(name)));
}
