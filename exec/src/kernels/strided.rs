//! Copying a strided view of a dense tensor into a dense tensor: what Transpose, Slice, Expand, Tile and their like are.

use smallvec::SmallVec;

use super::parallel;
use crate::tensor::Dims;

/// How a dense output reads its source: element `i` of axis `a` lies `strides[a]` elements after element `i - 1`.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Position of the first element.
    pub(super) offset: usize,
    /// Sizes of the output.
    pub(super) dims: Dims,
    /// Steps in elements; 0 repeats, negative ones go backwards.
    pub(super) strides: SmallVec<[isize; 6]>,
}

/// Steps of a dense tensor.
pub(super) fn dense_strides(dims: &[usize]) -> SmallVec<[isize; 6]> {
    let mut strides = SmallVec::from_elem(0, dims.len());
    let mut step = 1usize;
    for (s, &d) in strides.iter_mut().zip(dims).rev() {
        *s = step as isize;
        step = step.saturating_mul(d);
    }
    strides
}

impl View {
    /// The whole of a dense tensor.
    pub(super) fn whole(dims: &[usize]) -> Self {
        Self { offset: 0, dims: dims.into(), strides: dense_strides(dims) }
    }

    /// The axes in another order.
    pub(super) fn permuted(&self, perm: &[usize]) -> Self {
        let dims = perm.iter().map(|&p| self.dims[p]).collect();
        let strides = perm.iter().map(|&p| self.strides[p]).collect();
        Self { offset: self.offset, dims, strides }
    }

    /// Without axes of size 1, and with axes merged that step on evenly.
    fn merged(&self) -> (Dims, SmallVec<[isize; 6]>) {
        let (mut dims, mut strides) = (Dims::new(), SmallVec::<[isize; 6]>::new());
        for (&d, &s) in self.dims.iter().zip(&self.strides) {
            if d == 1 {
                continue;
            }
            match (dims.last_mut(), strides.last_mut()) {
                (Some(size), Some(step)) if *step == s.saturating_mul(d as isize) => {
                    *size *= d;
                    *step = s;
                }
                _ => {
                    dims.push(d);
                    strides.push(s);
                }
            }
        }
        if dims.is_empty() {
            dims.push(1);
            strides.push(1);
        }
        (dims, strides)
    }
}

/// Offsets of the rows of some axes, counted through in order.
struct Odometer<'a> {
    dims: &'a [usize],
    strides: &'a [isize],
    index: SmallVec<[usize; 6]>,
    at: isize,
}

impl<'a> Odometer<'a> {
    fn new(dims: &'a [usize], strides: &'a [isize], offset: usize, mut row: usize) -> Self {
        let mut index = SmallVec::from_elem(0, dims.len());
        let mut at = offset as isize;
        for ((i, &d), &s) in index.iter_mut().zip(dims).zip(strides).rev() {
            *i = row % d;
            row /= d;
            at += *i as isize * s;
        }
        Self { dims, strides, index, at }
    }

    fn step(&mut self) {
        for ((i, &d), &s) in self.index.iter_mut().zip(self.dims).zip(self.strides).rev() {
            *i += 1;
            self.at += s;
            if *i < d {
                return;
            }
            self.at -= s * d as isize;
            *i = 0;
        }
    }
}

/// Side of the square that is transposed at once: a cache line of f32.
const TILE: usize = 16;

/// Copies. The view lies inside `src` and has as many elements as `dst`; the caller established both.
pub(super) fn copy<T: Copy + Send + Sync>(src: &[T], view: &View, dst: &mut [T]) {
    if dst.is_empty() {
        return;
    }
    let (dims, strides) = view.merged();
    let last = dims.len() - 1;
    let (n, step) = (dims[last], strides[last]);
    let near = (0..last).rev().find(|&a| strides[a] == 1 && dims[a] >= 4);
    if let (true, Some(p)) = (step > 1 && n >= 4, near) {
        return transpose(src, view.offset, &dims, &strides, p, dst);
    }
    if last == 0 && step == 1 {
        let src = &src[view.offset..view.offset + n];
        return parallel::map(src, dst, 1, |s, d| d.copy_from_slice(s));
    }
    parallel::pieces(dst, n, 1, |start, piece| {
        let mut rows = Odometer::new(&dims[..last], &strides[..last], view.offset, start / n);
        for row in piece.chunks_exact_mut(n) {
            let at = rows.at as usize;
            match step {
                1 => row.copy_from_slice(&src[at..at + n]),
                0 => row.fill(src[at]),
                _ => {
                    let mut at = rows.at;
                    for d in row {
                        *d = src[at as usize];
                        at += step;
                    }
                }
            }
            rows.step();
        }
    });
}

/// [`copy`] where axis `p` is the source's innermost: squares of it and of the last axis, so that neither side is read
/// or written with large steps.
fn transpose<T: Copy + Send + Sync>(src: &[T], offset: usize, dims: &[usize], strides: &[isize], p: usize, dst: &mut [T]) {
    let last = dims.len() - 1;
    let n = dims[last];
    let row: usize = dims[p + 1..].iter().product();
    let middle = row / n;
    // Whole blocks of axis p and what is inside it; where nothing is outside of it, some of its rows.
    let unit = if p == 0 { row * TILE } else { row * dims[p] };
    parallel::pieces(dst, unit, 2, |start, piece| {
        let block = if p == 0 { piece.len() } else { row * dims[p] };
        let first = if p == 0 { start / row } else { 0 };
        let outer = if p == 0 { 0 } else { start / block };
        let mut blocks = Odometer::new(&dims[..p], &strides[..p], offset + first, outer);
        for out in piece.chunks_exact_mut(block) {
            let rows = out.len() / row;
            let mut planes = Odometer::new(&dims[p + 1..last], &strides[p + 1..last], blocks.at as usize, 0);
            for m in 0..middle {
                plane(src, planes.at as usize, strides[last] as usize, out, m * n, row, rows, n);
                planes.step();
            }
            blocks.step();
        }
    });
}

/// `out[base + i * row + j] = src[at + i + j * step]` for `rows` of `i` and `n` of `j`.
#[expect(clippy::too_many_arguments, reason = "an inner loop's coordinates")]
#[inline]
fn plane<T: Copy>(src: &[T], at: usize, step: usize, out: &mut [T], base: usize, row: usize, rows: usize, n: usize) {
    for i0 in (0..rows).step_by(TILE) {
        let i1 = (i0 + TILE).min(rows);
        for j0 in (0..n).step_by(TILE) {
            let width = TILE.min(n - j0);
            for i in i0..i1 {
                let to = base + i * row + j0;
                let from = &src[at + i + j0 * step..];
                for (d, s) in out[to..to + width].iter_mut().zip(from.iter().step_by(step)) {
                    *d = *s;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(src: &[u32], view: &View) -> Vec<u32> {
        let n: usize = view.dims.iter().product();
        (0..n)
            .map(|mut k| {
                let mut at = view.offset as isize;
                for (&d, &s) in view.dims.iter().zip(&view.strides).rev() {
                    at += (k % d) as isize * s;
                    k /= d;
                }
                src[at as usize]
            })
            .collect()
    }

    #[test]
    fn every_path_agrees_with_the_definition() {
        let src: Vec<u32> = (0..2 * 3 * 40 * 70 * 5).collect();
        let whole = View::whole(&[2, 3, 40, 70, 5]);
        let perms: [[usize; 5]; 6] = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 2, 1, 3, 4], [3, 4, 0, 1, 2], [0, 1, 3, 2, 4], [1, 4, 3, 0, 2]];
        let mut views: Vec<View> = perms.iter().map(|p| whole.permuted(p)).collect();
        views.push(View::whole(&[240, 350]).permuted(&[1, 0]));
        views.push(View { offset: 10, dims: [7, 3].as_slice().into(), strides: SmallVec::from_slice(&[0, 2]) });
        views.push(View { offset: 40, dims: [4, 9].as_slice().into(), strides: SmallVec::from_slice(&[1, -2]) });
        views.push(View { offset: 0, dims: [3, 4].as_slice().into(), strides: SmallVec::from_slice(&[1, 0]) });
        for view in views {
            let want = slow(&src, &view);
            let mut got = vec![0; want.len()];
            copy(&src, &view, &mut got);
            assert!(got == want, "{view:?}");
        }
    }
}
