//! The lanes view without a terminal: rows in the order of the plan, and a lane for every tensor that is live between
//! the row that makes it and the last that reads it.

mod layout;
mod rows;
mod wiring;

#[cfg(test)]
mod tests;

pub use layout::{Lanes, Port, Replay};
pub use rows::{Folds, Row, RowKind};
pub use wiring::Wiring;

/// Marks the absence of an id in compact arrays.
pub const NONE: u32 = u32::MAX;
