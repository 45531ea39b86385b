//! GridSample, AffineGrid and Col2Im.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::window::WindowAttrs;
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::tensor::Dims;
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] =
    &[Entry::onnx("GridSample", 16, grid_sample), Entry::onnx("AffineGrid", 20, affine_grid), Entry::onnx("Col2Im", 18, col2im)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy)]
struct GridSample {
    mode: Mode,
    padding: Padding,
    align_corners: bool,
}

/// Positions that are turned into weights at a time.
const BLOCK: usize = 2048;

fn grid_sample(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let modes = [
        ("linear", Mode::Linear),
        ("bilinear", Mode::Linear),
        ("nearest", Mode::Nearest),
        ("cubic", Mode::Cubic),
        ("bicubic", Mode::Cubic),
    ];
    let paddings = [("zeros", Padding::Zeros), ("border", Padding::Border), ("reflection", Padding::Reflection)];
    let op = GridSample {
        mode: attrs.choice("mode", "linear", &modes)?,
        padding: attrs.choice("padding_mode", "zeros", &paddings)?,
        align_corners: attrs.flag("align_corners", false)?,
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

/// What one sample reads along one axis: up to four positions and their weights.
#[derive(Clone, Copy, Debug)]
struct Taps {
    at: [usize; 4],
    weight: [f64; 4],
}

impl GridSample {
    /// Values that one sample reads along one axis.
    fn taps_per_axis(self) -> usize {
        match self.mode {
            Mode::Nearest => 1,
            Mode::Linear => 2,
            Mode::Cubic => 4,
        }
    }

    fn reflect(self, x: f64, size: usize) -> f64 {
        let (low, high) = if self.align_corners { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) };
        let range = high - low;
        if range <= 0.0 || !x.is_finite() {
            return low.max(0.0);
        }
        let beyond = if x < low {
            low - x
        } else if x > high {
            x - high
        } else {
            return x;
        };
        let rest = beyond % range;
        let odd = (beyond / range).floor() % 2.0 != 0.0;
        if (x < low) != odd { low + rest } else { high - rest }
    }

    /// Element that stands for position `i`, if any does.
    fn element(self, i: f64, size: usize) -> Option<usize> {
        let last = size - 1;
        match self.padding {
            Padding::Zeros => (i >= 0.0 && i <= last as f64).then_some(i as usize),
            Padding::Border => Some((i as usize).min(last)),
            Padding::Reflection => Some((self.reflect(i, size) as usize).min(last)),
        }
    }

    fn taps<T: Real>(self, coordinate: T, size: usize) -> Taps {
        // In the type of the data, so that ties and borders fall as they do for whoever made the grid.
        let (two, n) = (T::of(2.0), T::of(size as f64));
        let x = if self.align_corners { (coordinate + T::ONE) / two * (n - T::ONE) } else { ((coordinate + T::ONE) * n - T::ONE) / two };
        let mut x = x.wide();
        if self.mode == Mode::Nearest {
            x = x.round_ties_even();
        }
        let (low, high) = if self.align_corners { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) };
        if x < low || x > high {
            match self.padding {
                Padding::Zeros => {}
                Padding::Border => x = x.clamp(0.0, size as f64 - 1.0),
                Padding::Reflection => x = self.reflect(x, size),
            }
        }
        let mut taps = Taps { at: [0; 4], weight: [0.0; 4] };
        let base = x.floor();
        let t = x - base;
        let (first, weights) = match self.mode {
            Mode::Nearest => (x.trunc(), [1.0, 0.0, 0.0, 0.0]),
            Mode::Linear => (base, [1.0 - t, t, 0.0, 0.0]),
            Mode::Cubic => (base - 1.0, [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]),
        };
        for (i, &w) in weights.iter().enumerate().take(self.taps_per_axis()) {
            if let Some(at) = self.element(first + i as f64, size) {
                (taps.at[i], taps.weight[i]) = (at, w);
            }
        }
        taps
    }

    fn run<T: Real>(self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (x_dims, grid_dims) = (args.get(0)?.dims(), args.get(1)?.dims());
        let (&[batch, channels, ref input @ ..], &[grid_batch, ref output @ .., coordinates]) = (x_dims, grid_dims) else {
            return invalid!("inputs X and grid have shapes {x_dims:?} and {grid_dims:?}, expected [N, C, ...] and [N, ..., spatial rank]");
        };
        if batch != grid_batch || coordinates != input.len() || output.len() != input.len() || input.is_empty() {
            return invalid!("inputs X and grid have shapes {x_dims:?} and {grid_dims:?}, which do not go together");
        }
        if input.len() > 3 {
            return unsupported!("sampling in {} dimensions", input.len());
        }
        let (x, grid) = (args.slice::<T>(0)?, args.slice::<T>(1)?);
        let mut dims: Dims = smallvec::smallvec![batch, channels];
        dims.extend_from_slice(output);
        let mut y = alloc::<T>(ctx, &dims)?;
        let dst = elements_mut::<T>(&mut y)?;
        let (plane, positions): (usize, usize) = (input.iter().product(), output.iter().product());
        if dst.is_empty() {
            return Ok(out(y));
        }
        if plane == 0 {
            if self.padding != Padding::Zeros {
                return invalid!("input X has shape {x_dims:?}, there is nothing to sample");
            }
            dst.fill(T::ZERO);
            return Ok(out(y));
        }
        let per = self.taps_per_axis().pow(input.len() as u32);
        for n in 0..batch {
            let samples = &grid[n * positions * coordinates..][..positions * coordinates];
            let y = &mut dst[n * channels * positions..][..channels * positions];
            for (block, samples) in samples.chunks(BLOCK * coordinates).enumerate() {
                let reads: Vec<(usize, T)> =
                    samples.par_chunks(coordinates).with_min_len(256).flat_map_iter(|p| self.reads(p, input)).collect();
                y.par_chunks_mut(positions).enumerate().for_each(|(c, y)| {
                    let x = &x[(n * channels + c) * plane..][..plane];
                    for (y, reads) in y[block * BLOCK..].iter_mut().zip(reads.chunks_exact(per)) {
                        *y = reads.iter().fold(T::ZERO, |s, &(at, w)| if w == T::ZERO { s } else { s + x[at] * w });
                    }
                });
            }
        }
        Ok(out(y))
    }

    /// Elements of a plane that the sample at `p` reads, with weights. `p` names the last axis first.
    fn reads<T: Real>(self, p: &[T], input: &[usize]) -> impl Iterator<Item = (usize, T)> + use<T> {
        let per = self.taps_per_axis();
        let mut list = smallvec::SmallVec::<[(usize, f64); 64]>::new();
        list.push((0, 1.0));
        for (&size, &c) in input.iter().zip(p.iter().rev()) {
            let taps = self.taps(c, size);
            list = list.iter().flat_map(|&(at, w)| (0..per).map(move |i| (at * size + taps.at[i], w * taps.weight[i]))).collect();
        }
        list.into_iter().map(|(at, w)| (at, T::of(w)))
    }
}

/// Cubic kernel with a = -0.75 within one element.
fn near(x: f64) -> f64 {
    (1.25 * x - 2.25) * x * x + 1.0
}

/// The same between one element and two.
fn far(x: f64) -> f64 {
    ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0
}

fn affine_grid(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let align = Attrs(ctx.node).flag("align_corners", false)?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (theta)", T => affine::<T>(ctx, args, align)))
}

fn affine<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, align: bool) -> Result<Outs, KernelError> {
    let theta_dims = args.get(0)?.dims();
    let theta = args.slice::<T>(0)?;
    let size = args.ints(1)?.unwrap_or_default();
    let sizes: Option<Dims> = size.iter().map(|&s| usize::try_from(s).ok()).collect();
    let Some(sizes) = sizes.filter(|s| matches!(s.len(), 4 | 5)) else {
        return invalid!("input size is {size:?}, expected [N, C, H, W] or [N, C, D, H, W]");
    };
    let (batch, spatial) = (sizes[0], &sizes[2..]);
    let rank = spatial.len();
    if theta_dims != [batch, rank, rank + 1] {
        return invalid!("input theta has shape {theta_dims:?}, expected [{batch}, {rank}, {}]", rank + 1);
    }
    let mut dims: Dims = smallvec::smallvec![batch];
    dims.extend_from_slice(spatial);
    dims.push(rank);
    let mut y = alloc::<T>(ctx, &dims)?;
    let dst = elements_mut::<T>(&mut y)?;
    let at = |i: usize, n: usize| {
        let (i, n) = (i as f64, n as f64);
        if !align {
            (2.0 * i + 1.0) / n - 1.0
        } else if n > 1.0 {
            2.0 * i / (n - 1.0) - 1.0
        } else {
            0.0
        }
    };
    let positions = crate::tensor::element_count(spatial).unwrap_or(0).max(1);
    dst.par_chunks_mut(rank).enumerate().with_min_len(1024).for_each(|(i, y)| {
        let theta = &theta[i / positions * rank * (rank + 1)..];
        let mut point = [0.0; 3];
        let mut rest = i % positions;
        for (p, &n) in point.iter_mut().zip(spatial.iter().rev()) {
            *p = at(rest % n, n);
            rest /= n;
        }
        for (y, row) in y.iter_mut().zip(theta.chunks(rank + 1)) {
            let turned: f64 = row.iter().zip(&point[..rank]).map(|(t, p)| t.wide() * p).sum();
            *y = T::of(turned + row[rank].wide());
        }
    });
    Ok(out(y))
}

fn col2im(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let window = WindowAttrs::new(Attrs(ctx.node))?;
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (input)", T => columns::<T>(ctx, args, &window)))
}

fn columns<T: Real>(ctx: &mut RunCtx<'_>, args: &Args, window: &WindowAttrs) -> Result<Outs, KernelError> {
    let &[batch, rows, count] = args.get(0)?.dims() else {
        return invalid!("input 0 has shape {:?}, expected [N, C * block, blocks]", args.get(0)?.dims());
    };
    let sizes = |i: usize, name: &str| -> Result<Dims, KernelError> {
        let v = args.ints(i)?.unwrap_or_default();
        match v.iter().map(|&s| usize::try_from(s).ok().filter(|&s| s > 0)).collect::<Option<Dims>>() {
            Some(d) => Ok(d),
            None => invalid!("input {name} is {v:?}, expected positive sizes"),
        }
    };
    let (image, block) = (sizes(1, "image_shape")?, sizes(2, "block_shape")?);
    let w = window.resolve(&image, &block, false)?;
    let (plane, kernel) = (w.input_len()?, w.kernel_len()?);
    if w.output_len()? != count || rows % kernel != 0 {
        return invalid!("input 0 has {rows} rows and {count} columns, the image {image:?} has {} blocks of {kernel}", w.output_len()?);
    }
    let channels = rows / kernel;
    let mut dims: Dims = smallvec::smallvec![batch, channels];
    dims.extend_from_slice(&image);
    let mut y = alloc::<T>(ctx, &dims)?;
    let x = args.slice::<T>(0)?;
    let [_, kh, kw] = w.kernel;
    let [_, oh, ow] = w.output;
    elements_mut::<T>(&mut y)?.par_chunks_mut(plane).enumerate().for_each(|(i, y)| {
        y.fill(T::ZERO);
        for (k, x) in x[i * kernel * count..][..kernel * count].chunks(count.max(1)).enumerate() {
            let at = [k / kw / kh, k / kw % kh, k % kw];
            for z in w.valid(0, at[0]) {
                for r in w.valid(1, at[1]) {
                    let (Some(iz), Some(ir)) = (w.source(0, z, at[0]), w.source(1, r, at[1])) else { continue };
                    let line = &mut y[(iz * w.input[1] + ir) * w.input[2]..][..w.input[2]];
                    for c in w.valid(2, at[2]) {
                        if let Some(ic) = w.source(2, c, at[2]) {
                            line[ic] += x[(z * oh + r) * ow + c];
                        }
                    }
                }
            }
        }
    });
    Ok(out(y))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    #[test]
    fn the_identity_transform_samples_what_is_there() {
        let x = Rng::new(9).floats(&[2, 3, 4, 5]);
        let theta = Tensor::from_slice(&[2, 2, 3], &[1f32, 0.0, 0.0, 0.0, 1.0, 0.0].repeat(2)).unwrap();
        let size = Tensor::from_slice(&[4], &[2i64, 3, 4, 5]).unwrap();
        for align in [0, 1] {
            let grid = Case::new("AffineGrid", 20).int("align_corners", align).one(&[theta.clone(), size.clone()]).unwrap();
            assert_eq!(grid.dims(), [2, 4, 5, 2]);
            for mode in ["linear", "nearest", "cubic"] {
                for padding in ["zeros", "border", "reflection"] {
                    let case = Case::new("GridSample", 20).int("align_corners", align).text("mode", mode).text("padding_mode", padding);
                    close(&case.one(&[x.clone(), grid.clone()]).unwrap(), &vec_of(&x), &format!("{mode} {padding} {align}"));
                }
            }
        }
    }

    #[test]
    fn samples_outside_follow_the_padding() {
        let x = Tensor::from_slice(&[1, 1, 1, 4], &[1f32, 2.0, 3.0, 4.0]).unwrap();
        let grid = Tensor::from_slice(&[1, 1, 3, 2], &[-1.5f32, 0.0, 1.5, 0.0, f32::NAN, f32::INFINITY]).unwrap();
        for (padding, want) in [("zeros", [0.0, 0.0]), ("border", [1.0, 4.0]), ("reflection", [1.5, 3.5])] {
            let y =
                Case::new("GridSample", 16).text("mode", "bilinear").text("padding_mode", padding).one(&[x.clone(), grid.clone()]).unwrap();
            assert_eq!(vec_of::<f32>(&y)[..2], want, "{padding}");
        }
        assert!(Case::new("GridSample", 16).one(&[x.clone(), Rng::new(1).floats(&[1, 1, 3, 3])]).is_err());
        assert!(Case::new("GridSample", 16).one(&[x, Rng::new(1).floats(&[2, 1, 3, 2])]).is_err());
    }

    #[test]
    fn overlapping_blocks_add_up() {
        let ones = |dims: &[usize]| Tensor::from_slice(dims, &vec![1f32; dims.iter().product()]).unwrap();
        let two = |a: i64, b: i64| Tensor::from_slice(&[2], &[a, b]).unwrap();
        let y = Case::new("Col2Im", 18).one(&[ones(&[1, 4, 4]), two(3, 3), two(2, 2)]).unwrap();
        assert_eq!(vec_of::<f32>(&y), [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
        assert!(Case::new("Col2Im", 18).one(&[ones(&[1, 4, 4]), two(-3, 3), two(2, 2)]).is_err());
        assert!(Case::new("Col2Im", 18).one(&[ones(&[1, 4, 4]), two(4, 4), two(2, 2)]).is_err());
        assert!(Case::new("Col2Im", 18).one(&[ones(&[1, 4, 4]), two(1, 1), two(2, 2)]).is_err());
    }
}
