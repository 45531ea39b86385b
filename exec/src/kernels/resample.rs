//! Reading a tensor at other positions, axis by axis: copies of the nearest element, or weighted sums.

use rayon::prelude::*;

use super::float::{Real, alloc, elements_mut};
use super::{KernelError, RunCtx};
use crate::tensor::{Dims, Tensor};
use crate::{invalid, unsupported};

/// Outputs below this many are not worth other threads.
const PARALLEL_FROM: usize = 1 << 14;

/// For every position of an output axis the input positions it reads, with weights.
#[derive(Clone, Debug)]
pub(super) struct Taps<T> {
    input: usize,
    /// Where each position's taps end in the two lists below; one more than there are positions.
    ends: Vec<usize>,
    at: Vec<usize>,
    weights: Vec<T>,
}

impl<T: Real> Taps<T> {
    /// None yet, for an axis of `input` elements that becomes one of `output`.
    pub(super) fn new(input: usize, output: usize) -> Result<Self, KernelError> {
        if output > 1 << 40 {
            return invalid!("an axis of {output} elements is too large");
        }
        Ok(Self { input, ends: vec![0], at: Vec::new(), weights: Vec::new() })
    }

    /// The next position's taps.
    pub(super) fn push(&mut self, taps: impl Iterator<Item = (usize, T)>) {
        for (at, weight) in taps {
            self.at.push(at.min(self.input.saturating_sub(1)));
            self.weights.push(weight);
        }
        self.ends.push(self.at.len());
    }

    fn output(&self) -> usize {
        self.ends.len() - 1
    }

    fn row(&self, i: usize) -> (&[usize], &[T]) {
        let range = self.ends[i]..self.ends[i + 1];
        (&self.at[range.clone()], &self.weights[range])
    }

    fn is_identity(&self) -> bool {
        self.input == self.output() && (0..self.input).all(|i| self.row(i) == (&[i], &[T::ONE]))
    }

    /// Taps as exactly two a position, if none has more.
    fn pairs(&self) -> Option<Vec<([usize; 2], [T; 2])>> {
        let half = T::of(0.5);
        (0..self.output())
            .map(|i| match self.row(i) {
                // Halves add up exactly; a weight of zero would make NaN of an infinity.
                (&[a], &[w]) => Some(([a, a], [w * half, w * half])),
                (&[a, b], &[v, w]) => Some(([a, b], [v, w])),
                _ => None,
            })
            .collect()
    }
}

/// `x` with every axis resampled by its taps.
pub(super) fn linear_passes<T: Real>(ctx: &mut RunCtx<'_>, x: &Tensor, taps: &[Taps<T>]) -> Result<Tensor, KernelError> {
    let mut order: Vec<usize> = (0..taps.len()).filter(|&a| !taps[a].is_identity()).collect();
    // Axes that shrink come first, so that the others have less to do; the last ones before the first, where memory is contiguous.
    order.sort_by(|&a, &b| {
        let ratio = |i: usize| taps[i].output() as f64 / taps[i].input as f64;
        ratio(a).total_cmp(&ratio(b)).then(b.cmp(&a))
    });
    let mut current = x.clone();
    for axis in order {
        let mut dims: Dims = current.dims().into();
        dims[axis] = taps[axis].output();
        let mut y = alloc::<T>(ctx, &dims)?;
        let inner: usize = dims[axis + 1..].iter().product();
        let Some(from) = current.as_slice::<T>() else { return invalid!("input 0 (X) is {}, expected {}", current.dtype(), T::DTYPE) };
        if inner == 1 {
            along_rows(elements_mut(&mut y)?, from, &taps[axis]);
        } else {
            across_rows(elements_mut(&mut y)?, from, &taps[axis], inner);
        }
        if let Some(buffer) = std::mem::replace(&mut current, y).into_buffer() {
            ctx.pool.put(buffer);
        }
    }
    Ok(current)
}

fn along_rows<T: Real>(y: &mut [T], x: &[T], taps: &Taps<T>) {
    let (n, m) = (taps.input, taps.output());
    let rows = PARALLEL_FROM.div_ceil(m);
    let pairs = taps.pairs();
    y.par_chunks_mut(m * rows).zip(x.par_chunks(n * rows)).for_each(|(y, x)| {
        for (y, x) in y.chunks_exact_mut(m).zip(x.chunks_exact(n)) {
            match &pairs {
                Some(pairs) => y.iter_mut().zip(pairs).for_each(|(y, (at, w))| *y = x[at[0]] * w[0] + x[at[1]] * w[1]),
                None => {
                    for (i, y) in y.iter_mut().enumerate() {
                        let (at, weights) = taps.row(i);
                        *y = at.iter().zip(weights).map(|(&a, &w)| x[a] * w).sum();
                    }
                }
            }
        }
    });
}

fn across_rows<T: Real>(y: &mut [T], x: &[T], taps: &Taps<T>, inner: usize) {
    let (n, m) = (taps.input, taps.output());
    let rows = PARALLEL_FROM.div_ceil(inner);
    y.par_chunks_mut(inner * rows).enumerate().for_each(|(chunk, y)| {
        for (i, y) in y.chunks_exact_mut(inner).enumerate() {
            let row = chunk * rows + i;
            let plane = &x[row / m * n * inner..][..n * inner];
            let source = |at: usize| &plane[at * inner..][..inner];
            match taps.row(row % m) {
                (&[a], &[w]) => y.iter_mut().zip(source(a)).for_each(|(y, &x)| *y = x * w),
                (&[a, b], &[v, w]) => y.iter_mut().zip(source(a).iter().zip(source(b))).for_each(|(y, (&a, &b))| *y = a * v + b * w),
                (&[a, b, c, d], &[s, t, u, v]) => {
                    let (low, high) = (source(a).iter().zip(source(b)), source(c).iter().zip(source(d)));
                    y.iter_mut().zip(low.zip(high)).for_each(|(y, ((&a, &b), (&c, &d)))| *y = a * s + b * t + c * u + d * v);
                }
                (at, weights) => {
                    y.fill(T::ZERO);
                    for (&a, &w) in at.iter().zip(weights) {
                        y.iter_mut().zip(source(a)).for_each(|(y, &x)| *y += x * w);
                    }
                }
            }
        }
    });
}

/// `y[i, j, …] = x[tables[0][i], tables[1][j], …]`. No table is empty, and each holds positions inside of `x`.
pub(super) fn nearest(x: &Tensor, y: &mut Tensor, tables: &[Vec<usize>]) -> Result<(), KernelError> {
    let from: Dims = x.dims().into();
    let width = crate::tensor::element_bytes(x.dtype());
    let whole = |t: &mut Tensor| t.bytes_mut().len();
    if whole(y) == 0 {
        return unsupported!("resizing tensors of type {}", x.dtype());
    }
    macro_rules! by_width {
        ($($w:literal => $t:ty),*) => {
            match width {
                $($w => pick::<$t>(bytemuck::cast_slice(x.bytes()), bytemuck::cast_slice_mut(y.bytes_mut()), &from, tables),)*
                _ => return unsupported!("resizing tensors of type {}", x.dtype()),
            }
        };
    }
    by_width!(1 => u8, 2 => u16, 4 => u32, 8 => u64);
    Ok(())
}

fn pick<T: bytemuck::Pod + Send + Sync>(x: &[T], y: &mut [T], dims: &[usize], tables: &[Vec<usize>]) {
    let ([outer_dims @ .., n], [outer @ .., last]) = (dims, tables) else {
        y.copy_from_slice(x);
        return;
    };
    let m = last.len();
    let identity = *n == m && last.iter().enumerate().all(|(i, &a)| i == a);
    let repeat = m / n.max(&1);
    let repeats = repeat > 1 && m == n * repeat && last.iter().enumerate().all(|(i, &a)| a == i / repeat);
    // Which row of the input each row of the result is.
    let source = |row: usize| {
        let (mut rest, mut at, mut stride) = (row, 0, 1);
        for (&d, table) in outer_dims.iter().zip(outer).rev() {
            at += table[rest % table.len()] * stride;
            rest /= table.len();
            stride *= d;
        }
        at
    };
    let rows = PARALLEL_FROM.div_ceil(m);
    y.par_chunks_mut(m * rows).enumerate().for_each(|(chunk, y)| {
        let mut before = None;
        for i in 0..y.len() / m {
            let at = source(chunk * rows + i);
            if before == Some(at) {
                y.copy_within((i - 1) * m..i * m, i * m);
                continue;
            }
            before = Some(at);
            let (x, y) = (&x[at * n..][..*n], &mut y[i * m..][..m]);
            if identity {
                y.copy_from_slice(x);
            } else if repeats && repeat == 2 {
                y.chunks_exact_mut(2).zip(x).for_each(|(y, &x)| y.fill(x));
            } else if repeats {
                y.chunks_exact_mut(repeat).zip(x).for_each(|(y, &x)| y.fill(x));
            } else {
                y.iter_mut().zip(last).for_each(|(y, &a)| *y = x[a]);
            }
        }
    });
}
