//! ConvTranspose: a matrix product gives every input element's contribution, which is then added where it belongs.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::gemm::{Mat, Threads, gemm};
use super::window::{AutoPad, Window, WindowAttrs};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::{Dims, MAX_TENSOR_BYTES};

pub(super) const TABLE: &[Entry] = &[Entry::onnx("ConvTranspose", 1, conv_transpose)];

struct Op {
    window: WindowAttrs,
    groups: usize,
    output_padding: Option<Vec<i64>>,
    output_shape: Option<Vec<i64>>,
}

fn conv_transpose(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let op = Op {
        window: WindowAttrs::new(attrs)?,
        groups: attrs.size("group", 1, 1)?,
        output_padding: attrs.ints("output_padding")?.map(<[i64]>::to_vec),
        output_shape: attrs.ints("output_shape")?.map(<[i64]>::to_vec),
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

impl Op {
    /// The window as the forward convolution from Y to X would have it: `input` is Y, `output` is X.
    fn geometry(&self, x: &[usize], kernel: &[usize]) -> Result<Window, KernelError> {
        let rank = x.len();
        let mut w = self.window.base(x, kernel)?;
        let pads = self.window.pad_list(rank)?;
        let extra = match &self.output_padding {
            None => vec![0; rank],
            Some(p) if p.len() == rank => p.clone(),
            Some(p) => return invalid!("attribute output_padding has {} numbers, expected {rank}", p.len()),
        };
        let shape = match &self.output_shape {
            None => None,
            // The batch and channel may be written too.
            Some(s) if s.len() == rank || s.len() == rank + 2 => Some(&s[s.len() - rank..]),
            Some(s) => return invalid!("attribute output_shape has {} numbers, expected {rank}", s.len()),
        };
        for i in 0..rank {
            let d = 3 - rank + i;
            w.output[d] = x[i];
            let (s, extent) = (w.stride[d] as i64, w.extent(d) as i64);
            let extra = extra[i];
            if !(0..=i64::from(i32::MAX)).contains(&extra) {
                return invalid!("attribute output_padding holds {extra}, expected at least 0");
            }
            // Sizes and strides are below 2^31 each, see `WindowAttrs`.
            let full = s * (x[i] as i64 - 1).max(0) + extra + extent;
            let same = matches!(self.window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
            let want = match shape {
                Some(shape) => Some(shape[i]),
                None if same => Some(x[i] as i64 * s),
                None => None,
            };
            let n = match want {
                Some(n) => {
                    let total = full - n;
                    // A wanted size beyond what the windows reach is filled with the bias alone.
                    let total = total.max(0);
                    let small = total / 2;
                    let (b, e) = if self.window.auto_pad == AutoPad::SameUpper { (small, total - small) } else { (total - small, small) };
                    (w.begin[d], w.end[d]) = (b as usize, e as usize);
                    n
                }
                None => {
                    if self.window.auto_pad == AutoPad::Explicit {
                        (w.begin[d], w.end[d]) = (pads[i], pads[rank + i]);
                    }
                    full - w.begin[d] as i64 - w.end[d] as i64
                }
            };
            w.input[d] = match usize::try_from(n) {
                Ok(n) if n < 1 << 40 => n,
                _ => return invalid!("the output would have {n} elements in spatial dimension {i}"),
            };
        }
        Ok(w)
    }

    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (xd, wd) = (args.get(0)?.dims(), args.get(1)?.dims());
        if xd.len() < 3 || wd.len() != xd.len() {
            return invalid!("inputs X and W must have the same rank of at least 3, they have shapes {xd:?} and {wd:?}");
        }
        let groups = self.groups;
        let (channels, group_out) = (xd[1], wd[1]);
        if wd[0] != channels || channels % groups != 0 {
            return invalid!("input X has {channels} channels, W of shape {wd:?} takes {} in {groups} groups (attribute group)", wd[0]);
        }
        let group_in = channels / groups;
        let Some(maps) = group_out.checked_mul(groups) else { return invalid!("attribute group is too large") };
        let bias = args.opt_slice::<T>(2)?;
        if bias.is_some_and(|b| b.len() != maps) {
            return invalid!("input B has {} elements, expected {maps}", bias.unwrap_or_default().len());
        }
        let win = self.geometry(&xd[2..], &wd[2..])?;
        let mut dims = Dims::from_slice(&[xd[0], maps]);
        dims.extend_from_slice(&win.input[3 - (xd.len() - 2)..]);
        let mut y = alloc::<T>(ctx, &dims)?;
        let (x, w) = (args.slice::<T>(0)?, args.slice::<T>(1)?);
        let (plane_x, plane_y, kernel) = (win.output_len()?, win.input_len()?, win.kernel_len()?);
        let dst = elements_mut::<T>(&mut y)?;
        if dst.is_empty() {
            return Ok(out(y));
        }
        let rows = group_out * kernel;
        let Some(len) = rows.checked_mul(plane_x).filter(|&n| ((n * size_of::<T>()) as u64) < MAX_TENSOR_BYTES) else {
            return invalid!("the contributions of {plane_x} elements to {rows} outputs each are too large");
        };
        let mut parts = vec![T::ZERO; len];
        for (i, y) in dst.chunks_mut(group_out * plane_y).enumerate() {
            let g = i % groups;
            let x = &x[i * group_in * plane_x..][..group_in * plane_x];
            let w = &w[g * group_in * rows..][..group_in * rows];
            gemm(&mut parts, plane_x, Mat::new(w, group_in, rows)?.t(), Mat::new(x, group_in, plane_x)?, T::ZERO, T::ONE, Threads::Pool)?;
            y.par_chunks_mut(plane_y).enumerate().for_each(|(m, y)| {
                y.fill(bias.map_or(T::ZERO, |b| b[g * group_out + m]));
                scatter(y, &parts[m * kernel * plane_x..][..kernel * plane_x], &win);
            });
        }
        Ok(out(y))
    }
}

/// Adds `parts` (a plane of the window's outputs for every kernel element) to the plane of the window's inputs.
pub(super) fn scatter<T: Real>(y: &mut [T], parts: &[T], win: &Window) {
    let [od, oh, ow] = win.output;
    let [_, kh, kw] = win.kernel;
    if ow == 0 || parts.is_empty() {
        return;
    }
    for (k, part) in parts.chunks(od * oh * ow).enumerate() {
        let (kd, ky, kx) = (k / (kh * kw), k / kw % kh, k % kw);
        let valid = win.valid(2, kx);
        if valid.is_empty() {
            continue;
        }
        let first = valid.start * win.stride[2] + kx * win.dilation[2] - win.begin[2];
        for (r, part) in part.chunks(ow).enumerate() {
            let (Some(id), Some(iy)) = (win.source(0, r / oh, kd), win.source(1, r % oh, ky)) else { continue };
            let line = &mut y[(id * win.input[1] + iy) * win.input[2]..][..win.input[2]];
            let part = &part[valid.clone()];
            line[first..].iter_mut().step_by(win.stride[2]).zip(part).for_each(|(y, p)| *y += *p);
        }
    }
}
