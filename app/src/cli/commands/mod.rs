//! What the commands do.

pub mod doctor;
pub mod export;
pub mod generate;
pub mod inspect;
pub mod open;
pub mod partition;
pub mod run;
pub mod snapshot;
