//! DeformConv: a 2-D convolution whose window reads at shifted positions.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::gemm::{Mat, Threads, gemm};
use super::window::{Window, WindowAttrs};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] = &[Entry::onnx("DeformConv", 19, prepare)];

struct DeformConv {
    window: WindowAttrs,
    groups: usize,
    offset_groups: usize,
}

fn prepare(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let op = DeformConv {
        window: WindowAttrs::new(attrs)?,
        groups: attrs.size("group", 1, 1)?,
        offset_groups: attrs.size("offset_group", 1, 1)?,
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

/// The four elements around a position, with weights that are 0 outside of the plane.
fn corners<T: Real>(y: f64, x: f64, [h, w]: [usize; 2], scale: f64) -> [(usize, T); 4] {
    let (top, left) = (y.floor(), x.floor());
    let (dy, dx) = (y - top, x - left);
    let inside = |v: f64, n: usize| if v >= 0.0 && v < n as f64 { Some(v as usize) } else { None };
    let corner = |r: f64, c: f64, weight: f64| match (inside(r, h), inside(c, w)) {
        (Some(r), Some(c)) => (r * w + c, T::of(weight * scale)),
        _ => (0, T::ZERO),
    };
    [
        corner(top, left, (1.0 - dy) * (1.0 - dx)),
        corner(top, left + 1.0, (1.0 - dy) * dx),
        corner(top + 1.0, left, dy * (1.0 - dx)),
        corner(top + 1.0, left + 1.0, dy * dx),
    ]
}

/// What shifts the window of one sample.
struct Shifts<'a, T> {
    offsets: &'a [T],
    mask: Option<&'a [T]>,
    w: Window,
}

impl<T: Real> Shifts<'_, T> {
    /// What kernel element `k` of an offset group reads for every output.
    fn reads(&self, group: usize, k: usize) -> Vec<[(usize, T); 4]> {
        let (w, [_, oh, ow]) = (&self.w, self.w.output);
        let (count, kernel) = (oh * ow, w.kernel[1] * w.kernel[2]);
        let row = group * kernel + k;
        let (dy, dx) = (&self.offsets[row * 2 * count..][..count], &self.offsets[(row * 2 + 1) * count..][..count]);
        (0..count)
            .map(|i| {
                let at = |d: usize, o: usize, k: usize| (o * w.stride[d] + k * w.dilation[d]) as f64 - w.begin[d] as f64;
                let (y, x) = (at(1, i / ow, k / w.kernel[2]) + dy[i].wide(), at(2, i % ow, k % w.kernel[2]) + dx[i].wide());
                corners(y, x, [w.input[1], w.input[2]], self.mask.map_or(1.0, |m| m[row * count + i].wide()))
            })
            .collect()
    }
}

impl DeformConv {
    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (x_dims, w_dims) = (args.get(0)?.dims(), args.get(1)?.dims());
        let (&[batch, channels, h, w], &[filters, per_group, kh, kw]) = (x_dims, w_dims) else {
            return unsupported!("deformable convolutions of inputs of shapes {x_dims:?} and {w_dims:?}");
        };
        let (g, og) = (self.groups, self.offset_groups);
        if per_group.checked_mul(g) != Some(channels) || filters % g != 0 || channels % og != 0 {
            return invalid!("inputs X and W have shapes {x_dims:?} and {w_dims:?}, which {g} groups and {og} offset groups do not fit");
        }
        let win = self.window.resolve(&[h, w], &[kh, kw], false)?;
        let [_, oh, ow] = win.output;
        let (count, kernel) = (win.output_len()?, win.kernel_len()?);
        let check = |i: usize, name: &str, parts: usize| match args.opt(i) {
            Some(t) if t.dims() != [batch, og * kernel * parts, oh, ow] => {
                invalid!("input {name} has shape {:?}, expected {:?}", t.dims(), [batch, og * kernel * parts, oh, ow])
            }
            _ => Ok(()),
        };
        check(2, "offset", 2)?;
        check(4, "mask", 1)?;
        let bias = args.opt_slice::<T>(3)?;
        if bias.is_some_and(|b| b.len() != filters) {
            return invalid!("input B must have {filters} elements");
        }
        let (x, weights, offsets, mask) = (args.slice::<T>(0)?, args.slice::<T>(1)?, args.slice::<T>(2)?, args.opt_slice::<T>(4)?);
        let mut y = alloc::<T>(ctx, &[batch, filters, oh, ow])?;
        let dst = elements_mut::<T>(&mut y)?;
        if dst.is_empty() {
            return Ok(out(y));
        }
        let mut columns = alloc::<T>(ctx, &[channels, kernel, count])?;
        let cols = elements_mut::<T>(&mut columns)?;
        let (per_offset, plane) = (channels / og, h * w);
        for n in 0..batch {
            let part = og * kernel * count;
            let shifts = Shifts { offsets: &offsets[n * part * 2..][..part * 2], mask: mask.map(|m| &m[n * part..][..part]), w: win };
            let x = &x[n * channels * plane..][..channels * plane];
            for group in 0..og {
                let reads: Vec<Vec<[(usize, T); 4]>> = (0..kernel).into_par_iter().map(|k| shifts.reads(group, k)).collect();
                let cols = &mut cols[group * per_offset * kernel * count..][..per_offset * kernel * count];
                cols.par_chunks_mut(count).enumerate().for_each(|(i, cols)| {
                    let x = &x[(group * per_offset + i / kernel) * plane..][..plane];
                    for (c, reads) in cols.iter_mut().zip(&reads[i % kernel]) {
                        *c = reads.iter().fold(T::ZERO, |s, &(at, w)| if w == T::ZERO { s } else { s + x[at] * w });
                    }
                });
            }
            let (rows, depth) = (filters / g, per_group * kernel);
            for group in 0..g {
                let dst = &mut dst[(n * filters + group * rows) * count..][..rows * count];
                let a = Mat::new(&weights[group * rows * depth..], rows, depth)?;
                let b = Mat::new(&cols[group * depth * count..], depth, count)?;
                gemm(dst, count, a, b, T::ZERO, T::ONE, Threads::Pool)?;
                if let Some(bias) = bias {
                    for (row, &b) in dst.chunks_mut(count).zip(&bias[group * rows..]) {
                        row.iter_mut().for_each(|v| *v += b);
                    }
                }
            }
        }
        if let Some(buffer) = columns.into_buffer() {
            ctx.pool.put(buffer);
        }
        Ok(out(y))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn without_shifts_it_is_a_convolution() {
        let rng = Rng::new(91);
        let (x, w) = (rng.floats(&[2, 4, 6, 5]), rng.floats(&[6, 2, 3, 2]));
        let case = |op| Case::new(op, 19).int("group", 2).ints("pads", &[1, 0, 1, 1]).ints("strides", &[2, 1]);
        let want = case("Conv").one(&[x.clone(), w.clone()]).unwrap();
        let offset = |v: f32, rows: usize| Tensor::from_slice(&[2, rows, 3, 5], &vec![v; 30 * rows]).unwrap();
        let run = |offset: Tensor| case("DeformConv").int("offset_group", 2).one(&[x.clone(), w.clone(), offset]);
        let y = run(offset(0.0, 24)).unwrap();
        assert_eq!(y.dims(), want.dims());
        close(&y, &vec_of(&want), "no shift");
        assert!(vec_of::<f32>(&run(offset(1e30, 24)).unwrap()).iter().all(|&v| v == 0.0));
        run(offset(f32::NAN, 24)).unwrap();
        assert!(run(offset(0.0, 12)).is_err());
    }
}
