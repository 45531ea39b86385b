//! RotaryEmbedding: pairs of elements turned by an angle that depends on the position.

use super::attention::Heads;
use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use rayon::prelude::*;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("RotaryEmbedding", 23, |ctx| prepare(ctx, Order { cos: 1, sin: 2, positions: 3 })),
    Entry { domain: "com.microsoft", op: "RotaryEmbedding", since: 1, factory: |ctx| prepare(ctx, Order { cos: 2, sin: 3, positions: 1 }) },
];

/// Positions of the inputs after the first.
#[derive(Clone, Copy)]
struct Order {
    cos: usize,
    sin: usize,
    positions: usize,
}

struct Rotary {
    order: Order,
    interleaved: bool,
    heads: usize,
    part: usize,
}

fn prepare(ctx: &PrepareCtx<'_>, order: Order) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let op = Rotary {
        order,
        interleaved: attrs.flag("interleaved", false)?,
        heads: attrs.size("num_heads", 0, 0)?,
        part: attrs.size("rotary_embedding_dim", 0, 0)?,
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

impl Rotary {
    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let t = args.get(0)?;
        let x = args.slice::<T>(0)?;
        let (cos_dims, sin_dims) = (args.get(self.order.cos)?.dims(), args.get(self.order.sin)?.dims());
        let (cos, sin) = (args.slice::<T>(self.order.cos)?, args.slice::<T>(self.order.sin)?);
        let half_of = |dims: &[usize]| dims.last().copied().unwrap_or(0);
        let given = match (self.heads, t.dims()) {
            // The older operator finds the size of a head from the caches.
            (0, &[_, _, hidden]) if half_of(cos_dims) > 0 => Some(hidden / (2 * half_of(cos_dims))),
            (n, _) => Some(n),
        };
        let heads = Heads::new("X", t.dims(), given)?;
        let part = if self.part == 0 { heads.size } else { self.part };
        if part > heads.size || part % 2 != 0 {
            return invalid!("{part} elements of {} cannot be turned in pairs", heads.size);
        }
        let half = part / 2;
        if cos_dims != sin_dims || half_of(cos_dims) != half || half == 0 {
            return invalid!("inputs cos_cache and sin_cache have shapes {cos_dims:?} and {sin_dims:?}, expected rows of {half}");
        }
        let rows = cos.len() / half;
        let wanted = heads.batch * heads.len;
        let angles: Vec<usize> = match args.ints(self.order.positions)? {
            None if rows == wanted => (0..wanted).collect(),
            None => return invalid!("inputs cos_cache and sin_cache have {rows} rows, expected {wanted}"),
            Some(p) if p.len() == 1 && wanted != 1 => {
                (0..wanted).map(|i| usize::try_from(p[0]).unwrap_or(usize::MAX).saturating_add(i % heads.len)).collect()
            }
            Some(p) if p.len() == wanted => p.iter().map(|&p| usize::try_from(p).unwrap_or(usize::MAX)).collect(),
            Some(p) => return invalid!("input position_ids has {} elements, expected {wanted}", p.len()),
        };
        if angles.iter().any(|&a| a >= rows) {
            return invalid!("input position_ids names a row that the caches of {rows} rows do not have");
        }
        let mut y = alloc::<T>(ctx, t.dims())?;
        let four = t.rank() == 4;
        let dst = elements_mut::<T>(&mut y)?;
        dst.par_chunks_mut(heads.size.max(1)).zip(x.par_chunks(heads.size.max(1))).with_min_len(64).enumerate().for_each(|(i, (y, x))| {
            let position = if four { i / heads.len / heads.heads * heads.len + i % heads.len } else { i / heads.heads };
            let at = angles[position] * half;
            let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
            y[part..].copy_from_slice(&x[part..]);
            if self.interleaved {
                for ((y, x), (&c, &s)) in y[..part].chunks_exact_mut(2).zip(x.chunks_exact(2)).zip(cos.iter().zip(sin)) {
                    (y[0], y[1]) = (c * x[0] - s * x[1], s * x[0] + c * x[1]);
                }
            } else {
                let (low, high) = y[..part].split_at_mut(half);
                for i in 0..half {
                    (low[i], high[i]) = (cos[i] * x[i] - sin[i] * x[half + i], sin[i] * x[i] + cos[i] * x[half + i]);
                }
            }
        });
        Ok(out(y))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close};
    use crate::tensor::Tensor;

    #[test]
    fn pairs_turn_by_the_angle_of_their_position() {
        let x = Tensor::from_slice(&[1, 2, 1, 4], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        // Position 0 stays, position 1 turns by a quarter.
        let cos = Tensor::from_slice(&[2, 2], &[1f32, 1.0, 0.0, 0.0]).unwrap();
        let sin = Tensor::from_slice(&[2, 2], &[0f32, 0.0, 1.0, 1.0]).unwrap();
        let at = |p: i64| Tensor::from_slice(&[1, 1], &[p]).unwrap();
        let case = Case::new("RotaryEmbedding", 23);
        let run = |case: &Case, p| case.one(&[x.clone(), cos.clone(), sin.clone(), at(p)]);
        close(&run(&case, 1).unwrap(), &[-3.0, -4.0, 1.0, 2.0, -7.0, -8.0, 5.0, 6.0], "halves");
        close(&run(&case.int("interleaved", 1), 1).unwrap(), &[-2.0, 1.0, -4.0, 3.0, -6.0, 5.0, -8.0, 7.0], "interleaved");
        for p in [2, -1, i64::MAX] {
            assert!(run(&Case::new("RotaryEmbedding", 23), p).is_err(), "{p}");
        }
        let rng = Rng::new(3);
        assert!(Case::new("RotaryEmbedding", 23).one(&[rng.floats(&[2, 3, 4]), cos.clone(), sin.clone()]).is_err());
        assert!(
            Case::new("RotaryEmbedding", 23).int("rotary_embedding_dim", 6).one(&[x.clone(), cos.clone(), sin.clone(), at(0)]).is_err()
        );
    }
}
