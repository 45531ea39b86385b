//! Splitting element-wise work over the engine's pool. Pieces that were not begun when a run is cancelled are left out: the
//! engine drops the result.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::engine::cancel_token;

/// Elements of cheap work (an addition each) that are worth a task of their own.
pub(super) const GRAIN: usize = 32_768;

/// Calls `f` on matching pieces of `src` and `dst`, side by side when there are many elements. `weight` is the cost of
/// one element in additions.
///
/// The closure is called through a pointer, once a piece: the splitting code is then compiled once for a pair of types
/// and not once for every operation on it, which would take the compiler a quarter of an hour.
pub(super) fn map<T, U, F>(src: &[T], dst: &mut [U], weight: usize, f: F)
where
    T: Sync,
    U: Send,
    F: Fn(&[T], &mut [U]) + Sync,
{
    map_dyn(src, dst, weight, &f);
}

#[inline(never)]
fn map_dyn<T: Sync, U: Send>(src: &[T], dst: &mut [U], weight: usize, f: &(dyn Fn(&[T], &mut [U]) + Sync)) {
    let grain = (GRAIN / weight.max(1)).max(256);
    if dst.len() <= grain {
        return f(src, dst);
    }
    let parts = taken_once(dst, grain);
    side_by_side(parts.len(), &|i| {
        if let (Some(d), Some(s)) = (take(&parts, i), src.get(i * grain..)) {
            f(&s[..s.len().min(grain)], d);
        }
    });
}

/// Calls `f` on pieces of `dst` with their offsets. Pieces are multiples of `unit` elements (the last one may not be).
/// The closure is called through a pointer, for the reason given at [`map`].
pub(super) fn pieces<U, F>(dst: &mut [U], unit: usize, weight: usize, f: F)
where
    U: Send,
    F: Fn(usize, &mut [U]) + Sync,
{
    pieces_dyn(dst, unit, weight, &f);
}

#[inline(never)]
fn pieces_dyn<U: Send>(dst: &mut [U], unit: usize, weight: usize, f: &(dyn Fn(usize, &mut [U]) + Sync)) {
    let unit = unit.max(1);
    let grain = (GRAIN / weight.max(1)).div_ceil(unit).max(1).saturating_mul(unit);
    if dst.len() <= grain {
        return f(0, dst);
    }
    let parts = taken_once(dst, grain);
    side_by_side(parts.len(), &|i| {
        if let Some(d) = take(&parts, i) {
            f(i * grain, d);
        }
    });
}

/// Calls `f` with every number below `n` on the pool, unless the run is cancelled. Not generic: the pool's splitting code
/// is some 1,500 lines of intermediate code for each closure type, and there would be hundreds.
fn side_by_side(n: usize, f: &(dyn Fn(usize) + Sync)) {
    let cancel = cancel_token();
    (0..n).into_par_iter().for_each(|i| {
        if !cancel.is_cancelled() {
            f(i);
        }
    });
}

/// Parts of a slice that tasks take by their number. The locks are never waited for, and one costs nothing beside a
/// part's work.
type Parts<'a, U> = Vec<Mutex<Option<&'a mut [U]>>>;

fn taken_once<U>(slice: &mut [U], len: usize) -> Parts<'_, U> {
    slice.chunks_mut(len).map(|part| Mutex::new(Some(part))).collect()
}

fn take<'a, U>(parts: &Parts<'a, U>, i: usize) -> Option<&'a mut [U]> {
    parts[i].lock().unwrap_or_else(PoisonError::into_inner).take()
}
