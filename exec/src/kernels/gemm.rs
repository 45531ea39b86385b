//! Matrix products on strided row-major data, over the `gemm` crate, and exact ones of integers.

use gemm::Parallelism;
use rayon::prelude::*;

use super::KernelError;
use super::float::Real;
use crate::engine::is_cancelled;
use crate::invalid;
use crate::tensor::Element;

/// Products with fewer multiplications than this are not worth waking other threads for.
const PARALLEL_FROM: usize = 1 << 16;

/// Multiplications between two looks at whether the run is cancelled: a fraction of a second.
const MAX_PIECE: usize = 1 << 32;

/// Rows of a piece at least: packing the right operand is worth it then.
const MIN_ROWS: usize = 1 << 9;

/// A matrix in a slice: element `(r, c)` is at `r * row_stride + c * col_stride`.
#[derive(Clone, Copy)]
pub(super) struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, T> Mat<'a, T> {
    /// Row-major, rows next to each other.
    pub(super) fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Self, KernelError> {
        Self::strided(data, rows, cols, cols, 1)
    }

    /// With strides; the last element must lie in `data`.
    pub(super) fn strided(data: &'a [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self, KernelError> {
        check(data.len(), rows, cols, row_stride, col_stride)?;
        Ok(Self { data, rows, cols, row_stride, col_stride })
    }

    /// The transposed matrix, without moving anything.
    pub(super) fn t(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

fn check(len: usize, rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<(), KernelError> {
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let last = (rows - 1).checked_mul(row_stride).and_then(|r| (cols - 1).checked_mul(col_stride)?.checked_add(r));
    match last {
        Some(last) if last < len && len <= isize::MAX as usize => Ok(()),
        _ => invalid!("a matrix of {rows}x{cols} does not fit {len} elements"),
    }
}

/// Where threads may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// Only the calling one.
    One,
    /// The rayon pool that the caller runs in.
    Pool,
}

/// `dst = keep * dst + scale * a * b`, where `dst` is row-major with `row_stride` between rows. With `keep` zero, what `dst` held does not matter.
#[allow(clippy::too_many_arguments)]
pub(super) fn gemm<T: Real>(
    dst: &mut [T],
    row_stride: usize,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    keep: T,
    scale: T,
    threads: Threads,
) -> Result<(), KernelError> {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if b.rows != k {
        return invalid!("matrices of {m}x{k} and {}x{n} do not multiply", b.rows);
    }
    check(dst.len(), m, n, row_stride, 1)?;
    if m > 1 && row_stride < n {
        return invalid!("rows of {n} elements overlap at a stride of {row_stride}");
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    if is_cancelled() {
        return Err(KernelError::Cancelled);
    }
    let rows = (MAX_PIECE / n.saturating_mul(k).max(1)).max(MIN_ROWS);
    if m > rows {
        // Rows of the result one block after the other, so that a cancelled run ends soon.
        for first in (0..m).step_by(rows) {
            let count = rows.min(m - first);
            let part = Mat { data: &a.data[first * a.row_stride..], rows: count, ..a };
            gemm(&mut dst[first * row_stride..], row_stride, part, b, keep, scale, threads)?;
        }
        return Ok(());
    }
    if k == 0 {
        for row in dst.chunks_mut(row_stride.max(n)).take(m) {
            for x in &mut row[..n] {
                *x = if keep == T::ZERO { T::ZERO } else { keep * *x };
            }
        }
        return Ok(());
    }
    let parallel = threads == Threads::Pool && m.saturating_mul(n).saturating_mul(k) >= PARALLEL_FROM && rayon::current_num_threads() > 1;
    if parallel && m == 1 {
        // The crate runs vector times matrix on one thread, though it is bound by memory that all of them could pull.
        let chunk = n.div_ceil(rayon::current_num_threads()).next_multiple_of(16);
        return dst[..n].par_chunks_mut(chunk).enumerate().try_for_each(|(i, d)| {
            let start = i * chunk * b.col_stride;
            let part = Mat { data: &b.data[start..], cols: d.len(), ..b };
            multiply(d, d.len(), a, part, keep, scale, Parallelism::None);
            Ok(())
        });
    }
    multiply(dst, row_stride, a, b, keep, scale, if parallel { Parallelism::Rayon(0) } else { Parallelism::None });
    Ok(())
}

#[allow(unsafe_code)]
fn multiply<T: Real>(dst: &mut [T], row_stride: usize, a: Mat<'_, T>, b: Mat<'_, T>, keep: T, scale: T, threads: Parallelism) {
    // Checked again here, so that the safety of the block below rests on this function alone.
    let fits = |len, rows, cols, rs, cs| check(len, rows, cols, rs, cs).is_ok();
    assert!(fits(dst.len(), a.rows, b.cols, row_stride, 1) && (a.rows <= 1 || row_stride >= b.cols));
    assert!(fits(a.data.len(), a.rows, a.cols, a.row_stride, a.col_stride));
    assert!(fits(b.data.len(), a.cols, b.cols, b.row_stride, b.col_stride));
    // SAFETY: the asserts above hold every element that the three shapes and strides address inside its slice, rows of `dst` do not
    // overlap, `dst` is borrowed exclusively and so aliases neither operand, and offsets fit `isize` because slices do. `Real` is
    // implemented for f32 and f64 only, which the crate takes.
    unsafe {
        gemm::gemm(
            a.rows,
            b.cols,
            a.cols,
            dst.as_mut_ptr(),
            1,
            row_stride as isize,
            keep != T::ZERO,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            keep,
            scale,
            false,
            false,
            false,
            threads,
        );
    }
}

/// Largest depth at which sums of products of two integers in `-255..=255` stay below 2^24, so that `f32` holds them exactly.
pub(super) const EXACT_DEPTH: usize = 256;

/// `out = a * b` for integers in `-255..=255` that are stored as `f32`, exactly, wrapping at 32 bits: the products of 8-bit tensors
/// whose zero points are already subtracted. Runs on the floating-point units, in slices of the depth that cannot round.
pub(super) fn gemm_i8(out: &mut [i32], row_stride: usize, a: Mat<'_, f32>, b: Mat<'_, f32>, threads: Threads) -> Result<(), KernelError> {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if b.rows != k {
        return invalid!("matrices of {m}x{k} and {}x{n} do not multiply", b.rows);
    }
    check(out.len(), m, n, row_stride, 1)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    for row in out.chunks_mut(row_stride.max(n)).take(m) {
        row[..n].fill(0);
    }
    let mut partial = vec![0f32; m * n];
    for start in (0..k).step_by(EXACT_DEPTH) {
        let depth = EXACT_DEPTH.min(k - start);
        let a = Mat { data: &a.data[start * a.col_stride..], cols: depth, ..a };
        let b = Mat { data: &b.data[start * b.row_stride..], rows: depth, ..b };
        gemm(&mut partial, n, a, b, 0.0, 1.0, threads)?;
        let add = |(row, add): (&mut [i32], &[f32])| row.iter_mut().zip(add).for_each(|(o, &x)| *o = o.wrapping_add(x as i32));
        if threads == Threads::Pool && m.saturating_mul(n) >= PARALLEL_FROM {
            out.par_chunks_mut(row_stride.max(n)).zip(partial.par_chunks(n)).for_each(add);
        } else {
            out.chunks_mut(row_stride.max(n)).zip(partial.chunks(n)).for_each(add);
        }
    }
    Ok(())
}

/// An integer type with wrapping arithmetic.
pub(super) trait Integer: Element + Default {
    const ONE: Self;
    /// `self + a * b`, wrapping.
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty),*) => {$(impl Integer for $t {
        const ONE: Self = 1;
        #[inline]
        fn add_product(self, a: Self, b: Self) -> Self { self.wrapping_add(a.wrapping_mul(b)) }
    })*};
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64);

/// `out = a * b` in wrapping integers, `out` row-major and dense.
pub(super) fn gemm_int<T: Integer>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>) -> Result<(), KernelError> {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if b.rows != k {
        return invalid!("matrices of {m}x{k} and {}x{n} do not multiply", b.rows);
    }
    check(out.len(), m, n, n, 1)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let stride = b.col_stride;
    let one = |(r, row): (usize, &mut [T])| {
        row.fill(T::default());
        for i in 0..k {
            let x = a.data[r * a.row_stride + i * a.col_stride];
            for (o, y) in row.iter_mut().zip(b.data[i * b.row_stride..].iter().step_by(stride.max(1))) {
                *o = o.add_product(x, *y);
            }
        }
    };
    if m.saturating_mul(n).saturating_mul(k) >= PARALLEL_FROM {
        out[..m * n].par_chunks_mut(n).enumerate().for_each(one);
    } else {
        out[..m * n].chunks_mut(n).enumerate().for_each(one);
    }
    Ok(())
}
