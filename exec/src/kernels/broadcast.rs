//! Walking broadcast operands: dimensions are merged until what is left is a few runs, each contiguous or constant.

use smallvec::SmallVec;

use super::{KernelError, broadcast_dims, parallel};
use crate::tensor::Dims;

/// How `N` dense operands are read for one dense output.
pub(super) struct Plan<const N: usize> {
    /// Sizes of the output.
    pub(super) dims: Dims,
    outer: SmallVec<[(usize, [usize; N]); 6]>,
    inner: usize,
    /// Step of each operand inside a run: 0 (one element for the whole run) or 1.
    pub(super) step: [usize; N],
}

impl<const N: usize> Plan<N> {
    /// The plan for operands of these shapes.
    pub(super) fn new(shapes: [&[usize]; N]) -> Result<Self, KernelError> {
        let dims = broadcast_dims(&shapes)?;
        Ok(Self::to_dims(dims, shapes))
    }

    /// The plan for operands that broadcast to `dims` (established by the caller).
    pub(super) fn to_dims(dims: Dims, shapes: [&[usize]; N]) -> Self {
        let mut axes: SmallVec<[(usize, [usize; N]); 6]> = SmallVec::new();
        let mut dense = [1usize; N];
        // From the innermost axis outwards; an axis is merged with the one inside it if every operand steps on evenly.
        for (back, &d) in dims.iter().rev().enumerate() {
            let mut strides = [0; N];
            for (k, shape) in shapes.iter().enumerate() {
                let own = if back < shape.len() { shape[shape.len() - 1 - back] } else { 1 };
                if own != 1 {
                    strides[k] = dense[k];
                    dense[k] = dense[k].saturating_mul(own);
                }
            }
            if d == 1 {
                continue;
            }
            match axes.last_mut() {
                Some((size, inner)) if (0..N).all(|k| strides[k] == inner[k].saturating_mul(*size)) => *size = size.saturating_mul(d),
                _ => axes.push((d, strides)),
            }
        }
        let (inner, step) = if axes.is_empty() { (1, [0; N]) } else { axes.remove(0) };
        Self { dims, outer: axes, inner, step }
    }

    /// Calls `f(offset in the piece, run length, operand offsets)` for the runs of output elements `start..start + len`.
    ///
    /// A run is long enough to pay for the call through a pointer, which spares the compiler a copy of this walk for
    /// every operation and type.
    pub(super) fn runs(&self, start: usize, len: usize, f: &mut dyn FnMut(usize, usize, [usize; N])) {
        if len == 0 {
            return;
        }
        let (mut row, mut col) = (start / self.inner, start % self.inner);
        let mut index: SmallVec<[usize; 6]> = SmallVec::new();
        let mut at = [0usize; N];
        for (d, strides) in &self.outer {
            let i = row % d;
            row /= d;
            index.push(i);
            for k in 0..N {
                at[k] += i * strides[k];
            }
        }
        let mut done = 0;
        while done < len {
            let n = (self.inner - col).min(len - done);
            let mut here = at;
            for (h, step) in here.iter_mut().zip(&self.step) {
                *h += col * step;
            }
            f(done, n, here);
            done += n;
            col = 0;
            for (i, (d, strides)) in index.iter_mut().zip(&self.outer) {
                *i += 1;
                if *i < *d {
                    for k in 0..N {
                        at[k] += strides[k];
                    }
                    break;
                }
                *i = 0;
                for k in 0..N {
                    at[k] -= strides[k] * (d - 1);
                }
            }
        }
    }
}

/// `out[i] = f(a[i], b[i])`, broadcast.
pub(super) fn zip<A, B, U, F>(plan: &Plan<2>, a: &[A], b: &[B], out: &mut [U], weight: usize, f: F)
where
    A: Copy + Sync,
    B: Copy + Sync,
    U: Send,
    F: Fn(A, B) -> U + Sync,
{
    parallel::pieces(out, 1, weight, |start, piece| {
        plan.runs(start, piece.len(), &mut |o, n, [i, j]| {
            let dst = &mut piece[o..o + n];
            match plan.step {
                [0, 0] => dst.fill_with(|| f(a[i], b[j])),
                [0, _] => {
                    let x = a[i];
                    dst.iter_mut().zip(&b[j..j + n]).for_each(|(d, &y)| *d = f(x, y));
                }
                [_, 0] => {
                    let y = b[j];
                    dst.iter_mut().zip(&a[i..i + n]).for_each(|(d, &x)| *d = f(x, y));
                }
                _ => dst.iter_mut().zip(a[i..i + n].iter().zip(&b[j..j + n])).for_each(|(d, (&x, &y))| *d = f(x, y)),
            }
        });
    });
}

/// `a[i] = f(a[i], b[i])`, `b` broadcast to `a`.
pub(super) fn zip_in_place<A, F>(plan: &Plan<2>, a: &mut [A], b: &[A], weight: usize, f: F)
where
    A: Copy + Sync + Send,
    F: Fn(A, A) -> A + Sync,
{
    parallel::pieces(a, 1, weight, |start, piece| {
        plan.runs(start, piece.len(), &mut |o, n, [_, j]| {
            let dst = &mut piece[o..o + n];
            if plan.step[1] == 0 {
                let y = b[j];
                dst.iter_mut().for_each(|d| *d = f(*d, y));
            } else {
                dst.iter_mut().zip(&b[j..j + n]).for_each(|(d, &y)| *d = f(*d, y));
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_merge_into_the_longest_runs() {
        let p = Plan::new([&[2, 3, 4, 5], &[3, 1, 1]]).unwrap();
        assert_eq!((p.inner, p.step), (20, [1, 0]));
        let p = Plan::new([&[2, 3, 4], &[2, 3, 4]]).unwrap();
        assert_eq!((p.inner, p.outer.len()), (24, 0));
        assert!(Plan::new([&[2], &[3]]).is_err());
    }

    #[test]
    fn any_piece_of_the_output_sees_the_right_operands() {
        let a: Vec<i32> = (0..6).collect();
        let b = [10, 20];
        // [2, 3, 1] + [2]
        let p = Plan::new([&[2, 3, 1], &[2]]).unwrap();
        let mut whole = vec![0; 12];
        zip(&p, &a, &b, &mut whole, 1, |x, y| x + y);
        assert_eq!(whole, [10, 20, 11, 21, 12, 22, 13, 23, 14, 24, 15, 25]);
        for start in 0..12 {
            let mut part = Vec::new();
            p.runs(start, 12 - start, &mut |_, n, [i, j]| (0..n).for_each(|k| part.push(a[i + k * p.step[0]] + b[j + k * p.step[1]])));
            assert_eq!(part, whole[start..]);
        }
    }
}
