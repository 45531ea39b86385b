//! MatMul, Gemm and FusedMatMul.

use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::gemm::{Integer, Mat, Threads, gemm, gemm_int};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, broadcast_dims};
use crate::tensor::{Dims, Tensor, element_count};
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("MatMul", 1, matmul),
    Entry::onnx("Gemm", 1, gemm_op),
    Entry { domain: "com.microsoft", op: "FusedMatMul", since: 1, factory: fused_matmul },
];

/// How the batches of two operands of a matrix product meet.
pub(super) struct Batches {
    /// Rows, depth and columns of one product.
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    /// Sizes of the result.
    pub(super) dims: Dims,
    /// Number of each product's matrices in `a` and in `b`.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Every product reads the one matrix that `b` has, and those of `a` in order.
    one_b: bool,
}

impl Batches {
    /// From the operands' sizes; `trans_a` and `trans_b` swap the last two of theirs.
    pub(super) fn new(a: &[usize], b: &[usize], trans_a: bool, trans_b: bool) -> Result<Self, KernelError> {
        if a.is_empty() || b.is_empty() {
            return invalid!("a matrix product takes no scalars: the inputs have shapes {a:?} and {b:?}");
        }
        let (batch_a, m, ka) = split(a, trans_a, true);
        let (batch_b, kb, n) = split(b, trans_b, false);
        if ka != kb {
            return invalid!("inputs of shapes {a:?} and {b:?} do not multiply: {ka} columns meet {kb} rows");
        }
        let batch = broadcast_dims(&[batch_a, batch_b])?;
        let count = element_count(&batch).filter(|&n| n <= isize::MAX as usize);
        let Some(count) = count else { return invalid!("shapes {a:?} and {b:?} have too many batches") };
        let mut dims = batch.clone();
        if a.len() > 1 {
            dims.push(m);
        }
        if b.len() > 1 {
            dims.push(n);
        }
        let total = element_count(&dims).and_then(|n| n.checked_mul(4));
        if total.is_none_or(|n| n as u64 > crate::tensor::MAX_TENSOR_BYTES) {
            return invalid!("the product of shapes {a:?} and {b:?} is too large");
        }
        let pairs = if m == 0 || n == 0 { Vec::new() } else { pair(&batch, batch_a, batch_b, count) };
        let one_b = batch_b.iter().all(|&d| d == 1) && pairs.iter().enumerate().all(|(i, p)| *p == (i, 0));
        Ok(Self { m, k: ka, n, dims, pairs, one_b })
    }
}

fn split(dims: &[usize], transposed: bool, left: bool) -> (&[usize], usize, usize) {
    match *dims {
        [k] if left => (&[], 1, k),
        [k] => (&[], k, 1),
        [ref batch @ .., r, c] => {
            if transposed {
                (batch, c, r)
            } else {
                (batch, r, c)
            }
        }
        [] => (&[], 1, 1),
    }
}

fn pair(batch: &[usize], a: &[usize], b: &[usize], count: usize) -> Vec<(usize, usize)> {
    let strides = |own: &[usize]| {
        let mut strides = vec![0usize; batch.len()];
        let mut next = 1;
        for (i, &d) in own.iter().enumerate().rev() {
            if d != 1 {
                strides[batch.len() - own.len() + i] = next;
            }
            next *= d;
        }
        strides
    };
    let (sa, sb) = (strides(a), strides(b));
    (0..count)
        .map(|i| {
            let mut rest = i;
            let mut at = (0, 0);
            for d in (0..batch.len()).rev() {
                let c = rest % batch[d];
                rest /= batch[d];
                at.0 += c * sa[d];
                at.1 += c * sb[d];
            }
            at
        })
        .collect()
}

/// Every product of `batches`, `scale` times, into `dst`.
pub(super) fn multiply<T: Real>(
    dst: &mut [T],
    a: &[T],
    b: &[T],
    batches: &Batches,
    trans_a: bool,
    trans_b: bool,
    scale: T,
) -> Result<(), KernelError> {
    let &Batches { m, k, n, ref pairs, one_b, .. } = batches;
    if m == 0 || n == 0 || pairs.is_empty() {
        return Ok(());
    }
    let mat = |data, rows, cols, transposed: bool| {
        if transposed { Mat::new(data, cols, rows).map(Mat::t) } else { Mat::new(data, rows, cols) }
    };
    if one_b && !trans_a {
        // One tall product instead of many: the right side is packed once.
        let rows = m * pairs.len();
        return gemm(dst, n, Mat::new(a, rows, k)?, mat(b, k, n, trans_b)?, T::ZERO, scale, Threads::Pool);
    }
    let one = |dst: &mut [T], &(ia, ib): &(usize, usize), threads| {
        let a = mat(&a[ia * m * k..], m, k, trans_a)?;
        let b = mat(&b[ib * k * n..], k, n, trans_b)?;
        gemm(dst, n, a, b, T::ZERO, scale, threads)
    };
    if pairs.len() >= rayon::current_num_threads() && m * n * pairs.len() * k.max(1) > (1 << 15) {
        dst.par_chunks_mut(m * n).zip(pairs).try_for_each(|(d, p)| one(d, p, Threads::One))
    } else {
        dst.chunks_mut(m * n).zip(pairs).try_for_each(|(d, p)| one(d, p, Threads::Pool))
    }
}

fn float_matmul<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, trans: (bool, bool), scale: f64) -> Result<Outs, KernelError> {
    let (a, b) = (args.get(0)?, args.get(1)?);
    let batches = Batches::new(a.dims(), b.dims(), trans.0, trans.1)?;
    let mut y = alloc::<T>(ctx, &batches.dims)?;
    multiply(elements_mut(&mut y)?, args.slice(0)?, args.slice(1)?, &batches, trans.0, trans.1, T::of(scale))?;
    Ok(out(y))
}

fn int_matmul<T: Integer>(ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
    let (a, b): (&[T], &[T]) = (args.slice(0)?, args.slice(1)?);
    let batches = Batches::new(args.get(0)?.dims(), args.get(1)?.dims(), false, false)?;
    let (m, k, n) = (batches.m, batches.k, batches.n);
    let mut y = alloc::<T>(ctx, &batches.dims)?;
    for (d, &(ia, ib)) in elements_mut::<T>(&mut y)?.chunks_mut((m * n).max(1)).zip(&batches.pairs) {
        gemm_int(d, Mat::new(&a[ia * m * k..], m, k)?, Mat::new(&b[ib * k * n..], k, n)?)?;
    }
    Ok(out(y))
}

fn matmul(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    float_kernel(ctx, |ctx, args| match args.get(0)?.dtype() {
        DType::I32 => int_matmul::<i32>(ctx, args),
        DType::I64 => int_matmul::<i64>(ctx, args),
        DType::U32 => int_matmul::<u32>(ctx, args),
        DType::U64 => int_matmul::<u64>(ctx, args),
        d => by_float!(d, "input 0 (A)", T => float_matmul::<T>(ctx, args, (false, false), 1.0)),
    })
}

fn fused_matmul(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let trans = (attrs.flag("transA", false)?, attrs.flag("transB", false)?);
    let alpha = attrs.float("alpha", 1.0)?;
    if attrs.flag("transBatchA", false)? || attrs.flag("transBatchB", false)? {
        return unsupported!("attributes transBatchA and transBatchB of FusedMatMul");
    }
    float_kernel(ctx, move |ctx, args| {
        // A transposition means nothing for one dimension.
        let trans = (trans.0 && args.get(0)?.rank() > 1, trans.1 && args.get(1)?.rank() > 1);
        by_float!(args.get(0)?.dtype(), "input 0 (A)", T => float_matmul::<T>(ctx, args, trans, alpha))
    })
}

/// Rows, depth, columns, and strides of C in the result (0 where it is broadcast), if there is one.
type Plan = (usize, usize, usize, Option<(usize, usize)>);

struct GemmAttrs {
    trans: (bool, bool),
    alpha: f64,
    beta: f64,
}

impl GemmAttrs {
    fn plan(&self, args: &Args) -> Result<Plan, KernelError> {
        let (a, b) = (args.get(0)?.dims(), args.get(1)?.dims());
        if a.len() != 2 || b.len() != 2 {
            return invalid!("inputs A and B must have rank 2, they have shapes {a:?} and {b:?}");
        }
        let batches = Batches::new(a, b, self.trans.0, self.trans.1)?;
        let (m, n) = (batches.m, batches.n);
        let Some(c) = args.opt(2) else { return Ok((m, batches.k, n, None)) };
        let (rows, cols) = match *c.dims() {
            [] => (1, 1),
            [n] => (1, n),
            [r, c] => (r, c),
            _ => return invalid!("input C has shape {:?}, which does not broadcast to {m}x{n}", c.dims()),
        };
        if (rows != 1 && rows != m) || (cols != 1 && cols != n) {
            return invalid!("input C has shape {:?}, which does not broadcast to {m}x{n}", c.dims());
        }
        Ok((m, batches.k, n, Some((if rows == 1 { 0 } else { cols }, usize::from(cols != 1)))))
    }

    fn float<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (m, k, n, c) = self.plan(args)?;
        let mut y = alloc::<T>(ctx, &[m, n])?;
        let dst = elements_mut::<T>(&mut y)?;
        let mut keep = T::ZERO;
        if let (Some((row_stride, col_stride)), Some(c), true) = (c, args.opt_slice::<T>(2)?, m > 0 && n > 0) {
            let beta = T::of(self.beta);
            keep = T::ONE;
            for (r, row) in dst.chunks_mut(n).enumerate() {
                let c = &c[r * row_stride..];
                if col_stride == 0 {
                    row.fill(beta * c[0]);
                } else {
                    row.iter_mut().zip(c).for_each(|(o, &c)| *o = beta * c);
                }
            }
        }
        let mat = |data, rows, cols, t: bool| if t { Mat::new(data, cols, rows).map(Mat::t) } else { Mat::new(data, rows, cols) };
        let (a, b) = (mat(args.slice(0)?, m, k, self.trans.0)?, mat(args.slice(1)?, k, n, self.trans.1)?);
        gemm(dst, n, a, b, keep, T::of(self.alpha), Threads::Pool)?;
        Ok(out(y))
    }

    fn int<T: Integer>(&self, ctx: &mut RunCtx<'_>, args: &Args, scale: fn(T, f64) -> T) -> Result<Outs, KernelError> {
        let (m, k, n, c) = self.plan(args)?;
        let mut y: Tensor = alloc::<T>(ctx, &[m, n])?;
        let dst = elements_mut::<T>(&mut y)?;
        let mat = |data, rows, cols, t: bool| if t { Mat::new(data, cols, rows).map(Mat::t) } else { Mat::new(data, rows, cols) };
        gemm_int(dst, mat(args.slice(0)?, m, k, self.trans.0)?, mat(args.slice(1)?, k, n, self.trans.1)?)?;
        if self.alpha != 1.0 {
            dst.iter_mut().for_each(|x| *x = scale(*x, self.alpha));
        }
        if let (Some((row_stride, col_stride)), Some(c), true) = (c, args.opt_slice::<T>(2)?, n > 0) {
            for (r, row) in dst.chunks_mut(n).enumerate() {
                for (i, o) in row.iter_mut().enumerate() {
                    let c = c[r * row_stride + i * col_stride];
                    *o = o.add_product(if self.beta == 1.0 { c } else { scale(c, self.beta) }, T::ONE);
                }
            }
        }
        Ok(out(y))
    }
}

fn gemm_op(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let op = GemmAttrs {
        trans: (attrs.flag("transA", false)?, attrs.flag("transB", false)?),
        alpha: attrs.float("alpha", 1.0)?,
        beta: attrs.float("beta", 1.0)?,
    };
    float_kernel(ctx, move |ctx, args| match args.get(0)?.dtype() {
        DType::I32 => op.int::<i32>(ctx, args, |x, s| (f64::from(x) * s) as i32),
        DType::U32 => op.int::<u32>(ctx, args, |x, s| (f64::from(x) * s) as u32),
        DType::I64 => op.int::<i64>(ctx, args, |x, s| (x as f64 * s) as i64),
        DType::U64 => op.int::<u64>(ctx, args, |x, s| (x as f64 * s) as u64),
        d => by_float!(d, "input 0 (A)", T => op.float::<T>(ctx, args)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    fn naive(a: &[f32], b: &[f32], m: usize, k: usize, n: usize) -> Vec<f32> {
        (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect()
    }

    #[test]
    fn matches_loops_on_odd_sizes() {
        let rng = Rng::new(1);
        for _ in 0..40 {
            let (m, k, n) = (rng.below(1, 40), rng.below(0, 40), rng.below(1, 90));
            let (a, b) = (rng.floats(&[m, k]), rng.floats(&[k, n]));
            let want = naive(&vec_of(&a), &vec_of(&b), m, k, n);
            close(&Case::new("MatMul", 13).one(&[a, b]).unwrap(), &want, &format!("{m}x{k}x{n}"));
        }
        let (a, b) = (rng.floats(&[1, 300]), rng.floats(&[300, 1001]));
        close(&Case::new("MatMul", 13).one(&[a.clone(), b.clone()]).unwrap(), &naive(&vec_of(&a), &vec_of(&b), 1, 300, 1001), "a row");
    }

    #[test]
    fn batches_broadcast_and_vectors_lose_their_dimension() {
        let rng = Rng::new(2);
        let (a, b) = (rng.floats(&[2, 1, 3, 4]), rng.floats(&[5, 4, 6]));
        let y = Case::new("MatMul", 9).one(&[a.clone(), b.clone()]).unwrap();
        assert_eq!(y.dims(), [2, 5, 3, 6]);
        let (va, vb) = (vec_of::<f32>(&a), vec_of::<f32>(&b));
        let want: Vec<f32> = (0..10).flat_map(|i| naive(&va[i / 5 * 12..], &vb[i % 5 * 24..], 3, 4, 6)).collect();
        close(&y, &want, "batches");
        assert_eq!(Case::new("MatMul", 9).one(&[rng.floats(&[4]), b.clone()]).unwrap().dims(), [5, 6]);
        assert_eq!(Case::new("MatMul", 9).one(&[a.clone(), rng.floats(&[4])]).unwrap().dims(), [2, 1, 3]);
        assert_eq!(Case::new("MatMul", 9).one(&[rng.floats(&[4]), rng.floats(&[4])]).unwrap().dims(), [0usize; 0]);
        assert_eq!(Case::new("MatMul", 9).one(&[rng.floats(&[0, 4]), rng.floats(&[4, 2])]).unwrap().dims(), [0, 2]);
        assert!(Case::new("MatMul", 9).one(&[a, rng.floats(&[5, 2])]).is_err());
        assert!(Case::new("MatMul", 9).one(&[Tensor::scalar(1f32), b]).is_err());
    }

    #[test]
    fn integers_do_not_round() {
        let a = Tensor::from_slice(&[1, 2], &[i64::MAX / 3, 1]).unwrap();
        let b = Tensor::from_slice(&[2, 1], &[3i64, 1]).unwrap();
        assert_eq!(vec_of::<i64>(&Case::new("MatMul", 9).one(&[a, b]).unwrap()), [i64::MAX / 3 * 3 + 1]);
    }

    #[test]
    fn gemm_transposes_scales_and_adds() {
        let rng = Rng::new(3);
        for (c_dims, trans) in [(vec![], 0), (vec![7], 1), (vec![5, 1], 2), (vec![1, 7], 3), (vec![5, 7], 0)] {
            let (ta, tb) = (trans & 1, trans >> 1);
            let a = if ta == 1 { rng.floats(&[6, 5]) } else { rng.floats(&[5, 6]) };
            let b = if tb == 1 { rng.floats(&[7, 6]) } else { rng.floats(&[6, 7]) };
            let c = rng.floats(&c_dims);
            let (va, vb, vc) = (vec_of::<f32>(&a), vec_of::<f32>(&b), vec_of::<f32>(&c));
            let want: Vec<f32> = (0..35)
                .map(|i| {
                    let (r, col) = (i / 7, i % 7);
                    let ab: f32 = (0..6)
                        .map(|k| {
                            (if ta == 1 { va[k * 5 + r] } else { va[r * 6 + k] }) * if tb == 1 { vb[col * 6 + k] } else { vb[k * 7 + col] }
                        })
                        .sum();
                    let c = match c_dims.len() {
                        0 => vc[0],
                        1 => vc[col],
                        _ => vc[if c_dims[0] == 1 { 0 } else { r } * c_dims[1] + if c_dims[1] == 1 { 0 } else { col }],
                    };
                    0.5 * ab + 2.0 * c
                })
                .collect();
            let case = Case::new("Gemm", 13).int("transA", ta).int("transB", tb).float("alpha", 0.5).float("beta", 2.0);
            close(&case.one(&[a, b, c]).unwrap(), &want, &format!("{c_dims:?} {trans}"));
        }
    }
}
