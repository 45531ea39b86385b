//! Splitting element-wise work over the engine's pool. Pieces that were not begun when a run is cancelled are left out: the
//! engine drops the result.

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
    let cancel = cancel_token();
    let one = |(d, s): (&mut [U], &[T])| {
        if !cancel.is_cancelled() {
            f(s, d);
        }
    };
    dst.par_chunks_mut(grain).zip(src.par_chunks(grain)).for_each(one);
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
    let cancel = cancel_token();
    let one = |(i, d): (usize, &mut [U])| {
        if !cancel.is_cancelled() {
            f(i * grain, d);
        }
    };
    dst.par_chunks_mut(grain).enumerate().for_each(one);
}
