//! Memory of plans that are gone, for the next one: at a mark for every keystroke, getting fresh pages from the system
//! would cost more than the plan itself.

use std::sync::{Mutex, PoisonError};

use super::{Partition, Placement, Plan, Rule};

/// Vectors of any content, to be filled again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(super) slot: Vec<u32>,
    pub(super) count: Vec<u32>,
    pub(super) tight: Vec<u32>,
    pub(super) placement: Vec<Placement>,
    pub(super) rule: Vec<Rule>,
    pub(super) partitions: Vec<Partition>,
    pub(super) starts: Vec<u32>,
    pub(super) items: Vec<u32>,
}

/// What plannings and plans of one view left.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    count: Vec<u32>,
    tight: Vec<u32>,
    /// At most two: one plan is made while the one before is still shown.
    plans: Vec<Buffers>,
}

impl Pool {
    pub(super) fn take(&self) -> Buffers {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = shelf.plans.pop().unwrap_or_default();
        (buffers.count, buffers.tight) = (std::mem::take(&mut shelf.count), std::mem::take(&mut shelf.tight));
        buffers
    }

    /// Keeps what a planning used and its plan did not take with it.
    pub(super) fn give_back(&self, buffers: Buffers) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (shelf.count, shelf.tight) = (buffers.count, buffers.tight);
    }

    fn recycle(&self, plan: &mut Plan) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.plans.len() < 2 {
            let (starts, items) = std::mem::take(&mut plan.members).into_parts();
            shelf.plans.push(Buffers {
                placement: std::mem::take(&mut plan.placement),
                rule: std::mem::take(&mut plan.rule),
                slot: bytemuck::TransparentWrapperAlloc::peel_vec(std::mem::take(&mut plan.partition_of)),
                partitions: std::mem::take(&mut plan.partitions),
                starts,
                items,
                ..Buffers::default()
            });
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let view = self.view.clone();
        view.facts.pool.recycle(self);
    }
}
