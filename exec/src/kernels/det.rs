//! Det: determinants by elimination.

use rayon::prelude::*;

use super::KernelError;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::{Entry, RunCtx};
use crate::invalid;

pub(super) const TABLE: &[Entry] = &[Entry::onnx("Det", 11, |ctx| {
    float_kernel(ctx, |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => run::<T>(ctx, args)))
})];

fn run<T: Real>(ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
    let dims = args.get(0)?.dims();
    let (batch, n) = match *dims {
        [ref batch @ .., r, c] if r == c => (batch, r),
        _ => return invalid!("input 0 (X) has shape {dims:?}, expected square matrices"),
    };
    let x = args.slice::<T>(0)?;
    let mut y = alloc::<T>(ctx, batch)?;
    let dst = elements_mut::<T>(&mut y)?;
    if n == 0 {
        dst.fill(T::ONE);
    } else {
        dst.par_iter_mut().zip(x.par_chunks(n * n)).for_each(|(y, x)| *y = T::of(determinant(x.iter().map(|v| v.wide()).collect(), n)));
    }
    Ok(out(y))
}

/// Of the row-major `m`, which is used up: Gaussian elimination with the largest pivot of each column.
fn determinant(mut m: Vec<f64>, n: usize) -> f64 {
    let mut product = 1.0;
    for c in 0..n {
        let Some(pivot) = (c..n).max_by(|&a, &b| m[a * n + c].abs().total_cmp(&m[b * n + c].abs())) else { break };
        if m[pivot * n + c] == 0.0 {
            return 0.0;
        }
        if pivot != c {
            product = -product;
            (0..n).for_each(|i| m.swap(pivot * n + i, c * n + i));
        }
        let (above, below) = m.split_at_mut((c + 1) * n);
        let top = &above[c * n..];
        product *= top[c];
        for row in below.chunks_exact_mut(n) {
            let factor = row[c] / top[c];
            row.iter_mut().zip(top).skip(c).for_each(|(x, t)| *x -= factor * t);
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close};
    use crate::tensor::Tensor;

    #[test]
    fn determinants_are_signed_volumes() {
        let x = Tensor::from_slice(&[3, 2, 2], &[1f32, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 4.0]).unwrap();
        close(&Case::new("Det", 11).one(&[x]).unwrap(), &[-2.0, -1.0, 0.0], "2x2");
        let x = Tensor::from_slice(&[3, 3], &[2f32, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 4.0]).unwrap();
        close(&Case::new("Det", 11).one(&[x]).unwrap(), &[18.0], "3x3");
        close(&Case::new("Det", 11).one(&[Tensor::from_slice::<f32>(&[0, 0], &[]).unwrap()]).unwrap(), &[1.0], "empty");
        assert!(Case::new("Det", 11).one(&[Rng::new(1).floats(&[2, 3])]).is_err());
    }
}
