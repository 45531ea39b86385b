//! Resize and Upsample: what each output position of an axis reads, and with which weights.

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, float_kernel, out, tensor_kernel};
use super::resample::{Taps, linear_passes, nearest};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, resolve_axis};
use crate::invalid;
use crate::tensor::{Dims, Tensor};
use recut_core::dtype::DType;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Resize", 10, |ctx| prepare(ctx, Form::Resize10)),
    Entry::onnx("Resize", 11, |ctx| prepare(ctx, Form::Resize11)),
    Entry::onnx("Upsample", 7, |ctx| prepare(ctx, Form::Upsample7)),
    Entry::onnx("Upsample", 9, |ctx| prepare(ctx, Form::Resize10)),
];

/// Which inputs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// X; scales are an attribute.
    Upsample7,
    /// X, scales.
    Resize10,
    /// X, roi, scales, sizes.
    Resize11,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// How a position of the result is turned into one of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// Which of two neighbours is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Floor when growing and ceil when shrinking: what Resize did before it had the attribute.
    BySize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    Stretch,
    NotLarger,
    NotSmaller,
}

struct Resize {
    form: Form,
    mode: Mode,
    coordinates: Coordinates,
    rounding: Rounding,
    aspect: Aspect,
    axes: Option<Vec<i64>>,
    scales: Option<Vec<f64>>,
    cubic: f64,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

/// How one axis is resized.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    output: usize,
    /// Output positions per input position.
    scale: f64,
    /// Size of the output before it was rounded down.
    width: f64,
    /// Part of the input that is read, as fractions of it.
    roi: (f64, f64),
}

fn prepare(ctx: &PrepareCtx<'_>, form: Form) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let modes = [("nearest", Mode::Nearest), ("linear", Mode::Linear), ("bilinear", Mode::Linear), ("cubic", Mode::Cubic)];
    let coordinates = [
        ("half_pixel", Coordinates::HalfPixel),
        ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
        ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
        ("align_corners", Coordinates::AlignCorners),
        ("asymmetric", Coordinates::Asymmetric),
        ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
        ("tf_crop_and_resize", Coordinates::TfCropAndResize),
    ];
    let roundings = [
        ("round_prefer_floor", Rounding::PreferFloor),
        ("round_prefer_ceil", Rounding::PreferCeil),
        ("floor", Rounding::Floor),
        ("ceil", Rounding::Ceil),
    ];
    let aspects = [("stretch", Aspect::Stretch), ("not_larger", Aspect::NotLarger), ("not_smaller", Aspect::NotSmaller)];
    let new = form == Form::Resize11;
    let op = Resize {
        form,
        mode: attrs.choice("mode", "nearest", &modes)?,
        coordinates: if new {
            attrs.choice("coordinate_transformation_mode", "half_pixel", &coordinates)?
        } else {
            Coordinates::Asymmetric
        },
        rounding: if new { attrs.choice("nearest_mode", "round_prefer_floor", &roundings)? } else { Rounding::BySize },
        aspect: attrs.choice("keep_aspect_ratio_policy", "stretch", &aspects)?,
        axes: attrs.ints("axes")?.map(<[i64]>::to_vec),
        scales: attrs.floats("scales")?.map(<[f64]>::to_vec),
        cubic: attrs.float("cubic_coeff_a", -0.75)?,
        exclude_outside: attrs.flag("exclude_outside", false)?,
        antialias: attrs.flag("antialias", false)?,
        extrapolation: attrs.float("extrapolation_value", 0.0)?,
    };
    if op.mode == Mode::Nearest {
        return tensor_kernel(move |ctx, args| op.nearest(ctx, args));
    }
    float_kernel(ctx, move |ctx, args| match args.get(0)?.dtype() {
        DType::F32 => op.weighted::<f32>(ctx, args.get(0)?, args),
        DType::F64 => op.weighted::<f64>(ctx, args.get(0)?, args),
        _ => op.integers(ctx, args),
    })
}

/// Numbers of a floating-point tensor; an empty one counts as left out.
fn numbers(args: &Args, i: usize) -> Result<Option<Vec<f64>>, KernelError> {
    let Some(t) = args.opt(i).filter(|t| !t.is_empty()) else { return Ok(None) };
    let t = super::half_float::widened(t)?;
    if let Some(v) = t.as_slice::<f32>() {
        return Ok(Some(v.iter().map(|&x| f64::from(x)).collect()));
    }
    match t.as_slice::<f64>() {
        Some(v) => Ok(Some(v.to_vec())),
        None => invalid!("input {i} is {}, expected a floating-point type", t.dtype()),
    }
}

/// `x` as a size, if it is one that memory could hold.
fn as_size(x: f64) -> Result<usize, KernelError> {
    if (0.0..9e15).contains(&x) { Ok(x as usize) } else { invalid!("an axis would be resized to {x}") }
}

impl Resize {
    fn axes_of(&self, dims: &[usize], args: &Args) -> Result<Vec<Axis>, KernelError> {
        let rank = dims.len();
        let chosen: Vec<usize> = match &self.axes {
            None => (0..rank).collect(),
            Some(v) => v.iter().map(|&a| resolve_axis(a, rank)).collect::<Result<_, _>>()?,
        };
        if (0..rank).any(|a| chosen.iter().filter(|&&c| c == a).count() > 1) {
            return invalid!("attribute axes names an axis twice");
        }
        let (roi, scales, sizes) = match self.form {
            Form::Upsample7 => (None, self.scales.clone(), None),
            Form::Resize10 => (None, numbers(args, 1)?, None),
            Form::Resize11 => (numbers(args, 1)?, numbers(args, 2)?, args.ints(3)?.filter(|v| !v.is_empty())),
        };
        let n = chosen.len();
        let mut axes: Vec<Axis> =
            dims.iter().map(|&d| Axis { input: d, output: d, scale: 1.0, width: d as f64, roi: (0.0, 1.0) }).collect();
        if let Some(roi) = roi.filter(|_| self.coordinates == Coordinates::TfCropAndResize) {
            if roi.len() != 2 * n || roi.iter().any(|x| !x.is_finite()) {
                return invalid!("input roi must hold {} finite numbers, it has {}", 2 * n, roi.len());
            }
            for (i, &a) in chosen.iter().enumerate() {
                axes[a].roi = (roi[i], roi[n + i]);
            }
        } else if self.coordinates == Coordinates::TfCropAndResize {
            return invalid!("input roi is missing, which tf_crop_and_resize needs");
        }
        match (scales, sizes) {
            (Some(scales), None) => {
                if scales.len() != n || scales.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
                    return invalid!("scales must be {n} positive numbers, they are {scales:?}");
                }
                for (&a, scale) in chosen.iter().zip(scales) {
                    let axis = &mut axes[a];
                    let part = axis.roi.1 - axis.roi.0;
                    axis.scale = scale;
                    axis.width = axis.input as f64 * part * scale;
                    // Single precision on purpose: 10 rows at a scale of 0.7 are 7, which the nearest f32 to 0.7 misses in f64.
                    axis.output = as_size(f64::from((axis.input as f32 * part as f32 * scale as f32).floor()))?;
                }
            }
            (None, Some(sizes)) => {
                if sizes.len() != n || sizes.iter().any(|&s| s < 0) {
                    return invalid!("sizes must be {n} numbers of at least 0, they are {sizes:?}");
                }
                let ratios = chosen.iter().zip(&sizes).map(|(&a, &s)| s as f64 / dims[a] as f64);
                let common = match self.aspect {
                    Aspect::Stretch => None,
                    Aspect::NotLarger => ratios.min_by(f64::total_cmp),
                    Aspect::NotSmaller => ratios.max_by(f64::total_cmp),
                };
                for (&a, &size) in chosen.iter().zip(&sizes) {
                    let axis = &mut axes[a];
                    axis.output = match common {
                        None => as_size(size as f64)?,
                        Some(r) => as_size((r * axis.input as f64 + 0.5).floor())?,
                    };
                    axis.scale = common.unwrap_or(axis.output as f64 / axis.input as f64);
                    axis.width = axis.output as f64;
                }
            }
            (None, None) => return invalid!("one of scales and sizes must be given, both are missing"),
            (Some(_), Some(_)) => return invalid!("scales and sizes are both given, only one may be"),
        }
        for a in &axes {
            if a.input == 0 && a.output != 0 {
                return invalid!("an empty axis cannot be resized to {}", a.output);
            }
        }
        Ok(axes)
    }

    /// Position in the input of position `i` of the result.
    fn source(&self, axis: &Axis, i: usize) -> f64 {
        let (x, last) = (i as f64, axis.input as f64 - 1.0);
        // Whole sizes divide exactly where the quotient of their ratio would not.
        let step = |x: f64| if axis.width == axis.output as f64 { x * axis.input as f64 / axis.width } else { x / axis.scale };
        let step = |x: f64| if self.aspect == Aspect::Stretch && axis.roi == (0.0, 1.0) { step(x) } else { x / axis.scale };
        match self.coordinates {
            Coordinates::HalfPixel => step(x + 0.5) - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = axis.output as f64 / axis.width;
                axis.input as f64 / 2.0 * (1.0 - adjustment) + step(x + 0.5) - 0.5
            }
            Coordinates::PytorchHalfPixel if axis.output <= 1 => 0.0,
            Coordinates::PytorchHalfPixel => step(x + 0.5) - 0.5,
            Coordinates::AlignCorners if axis.width == 1.0 || axis.output <= 1 => 0.0,
            Coordinates::AlignCorners => x * last / (axis.width - 1.0),
            Coordinates::Asymmetric => step(x),
            Coordinates::TfHalfPixelForNn => step(x + 0.5),
            Coordinates::TfCropAndResize => {
                let (start, end) = axis.roi;
                if axis.output <= 1 { 0.5 * (start + end) * last } else { start * last + x * (end - start) * last / (axis.width - 1.0) }
            }
        }
    }

    fn outside(&self, axis: &Axis, x: f64) -> bool {
        self.coordinates == Coordinates::TfCropAndResize && !(0.0..=axis.input as f64 - 1.0).contains(&x)
    }

    fn nearest_index(&self, axis: &Axis, x: f64) -> usize {
        let at = match self.rounding {
            Rounding::PreferFloor => (x - 0.5).ceil(),
            Rounding::PreferCeil => (x + 0.5).floor(),
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::BySize if axis.scale < 1.0 => x.ceil(),
            Rounding::BySize => x.floor(),
        };
        // Casts saturate, and NaN becomes 0.
        (at as usize).min(axis.input.saturating_sub(1))
    }

    /// The kernel at a distance of `x` pixels.
    fn filter(&self, x: f64) -> f64 {
        let (x, a) = (x.abs(), self.cubic);
        match self.mode {
            Mode::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Mode::Cubic => 0.0,
            _ => (1.0 - x).max(0.0),
        }
    }

    /// What every position of the axis reads.
    fn taps<T: Real>(&self, axis: &Axis) -> Result<Taps<T>, KernelError> {
        let squeeze = if self.antialias { axis.scale.min(1.0) } else { 1.0 };
        let support = if self.mode == Mode::Cubic { 2.0 } else { 1.0 } / squeeze;
        if support > 4.0 * axis.input as f64 + 8.0 {
            return invalid!("an axis of {} shrinks by {}, which leaves nothing of it", axis.input, axis.scale);
        }
        let mut taps = Taps::new(axis.input, axis.output)?;
        let mut row: Vec<(usize, f64)> = Vec::new();
        for i in 0..axis.output {
            row.clear();
            // Beyond twice the axis only the edge is seen; the limit keeps the positions in the range of integers.
            let far = 4.0 * axis.input as f64 + 16.0 + support;
            let x = self.source(axis, i).clamp(-far, far);
            let (low, high) = ((x - support).ceil() as i64, (x + support).floor() as i64);
            let mut sum = 0.0;
            for j in low..=high {
                let weight = self.filter((j as f64 - x) * squeeze);
                let inside = usize::try_from(j).ok().filter(|&j| j < axis.input);
                if weight == 0.0 || (self.exclude_outside && inside.is_none()) {
                    continue;
                }
                sum += weight;
                let at = inside.unwrap_or(if j < 0 { 0 } else { axis.input - 1 });
                match row.last_mut() {
                    Some((last, w)) if *last == at => *w += weight,
                    _ => row.push((at, weight)),
                }
            }
            if row.is_empty() || sum == 0.0 {
                row.clear();
                row.push((self.nearest_index(axis, x), 1.0));
                sum = 1.0;
            }
            let normal = if self.antialias || self.exclude_outside { sum } else { 1.0 };
            taps.push(row.iter().map(|&(at, w)| (at, T::of(w / normal))));
        }
        Ok(taps)
    }

    /// For every axis the positions that lie outside of the input, if any does.
    fn outsides(&self, axes: &[Axis]) -> Option<Vec<Vec<bool>>> {
        let of = |a: &Axis| (0..a.output).map(|i| self.outside(a, self.source(a, i))).collect();
        (self.coordinates == Coordinates::TfCropAndResize).then(|| axes.iter().map(of).collect())
    }

    fn output_dims(axes: &[Axis], dtype: DType) -> Result<Dims, KernelError> {
        let dims: Dims = axes.iter().map(|a| a.output).collect();
        let bytes = crate::tensor::element_count(&dims).and_then(|n| n.checked_mul(crate::tensor::element_bytes(dtype).max(1)));
        match bytes {
            Some(n) if n as u64 <= crate::tensor::MAX_TENSOR_BYTES => Ok(dims),
            _ => invalid!("the result of shape {dims:?} is too large"),
        }
    }

    fn nearest(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let x = args.get(0)?;
        let axes = self.axes_of(x.dims(), args)?;
        let dims = Self::output_dims(&axes, x.dtype())?;
        let tables: Vec<Vec<usize>> = if dims.contains(&0) {
            Vec::new()
        } else {
            axes.iter().map(|a| (0..a.output).map(|i| self.nearest_index(a, self.source(a, i))).collect()).collect()
        };
        let mut y = ctx.alloc(x.dtype(), &dims)?;
        if dims.contains(&0) {
            return Ok(out(y));
        }
        nearest(x, &mut y, &tables)?;
        if let Some(outside) = self.outsides(&axes) {
            fill_outside(&mut y, &outside, self.extrapolation)?;
        }
        Ok(out(y))
    }

    fn weighted<T: Real>(&self, ctx: &mut RunCtx<'_>, x: &Tensor, args: &Args) -> Result<Outs, KernelError> {
        let axes = self.axes_of(x.dims(), args)?;
        let dims = Self::output_dims(&axes, x.dtype())?;
        if dims.contains(&0) {
            return Ok(out(ctx.alloc(x.dtype(), &dims)?));
        }
        let taps = axes.iter().map(|a| self.taps::<T>(a)).collect::<Result<Vec<_>, _>>()?;
        let mut y = linear_passes(ctx, x, &taps)?;
        if let Some(outside) = self.outsides(&axes) {
            fill_outside(&mut y, &outside, self.extrapolation)?;
        }
        Ok(out(y))
    }

    /// Integer tensors are computed in `f64` and cut off.
    fn integers(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let x = args.get(0)?;
        let mut wide = Tensor::zeros(DType::F64, x.dims())?;
        let to = super::float::elements_mut::<f64>(&mut wide)?;
        macro_rules! through {
            ($($d:ident => $t:ty),*) => {
                match x.dtype() {
                    $(DType::$d => {
                        to.iter_mut().zip(args.slice::<$t>(0)?).for_each(|(o, &x)| *o = x as f64);
                        let Some(Some(y)) = self.weighted::<f64>(ctx, &wide, args)?.pop() else { return invalid!("resizing gave nothing") };
                        let narrow: Vec<$t> = y.as_slice::<f64>().unwrap_or(&[]).iter().map(|&x| x as $t).collect();
                        Ok(out(Tensor::from_slice(y.dims(), &narrow)?))
                    })*
                    d => invalid!("input 0 (X) is {d}, which can only be resized in mode nearest"),
                }
            };
        }
        through!(I8 => i8, U8 => u8, I16 => i16, U16 => u16, I32 => i32, U32 => u32, I64 => i64, U64 => u64)
    }
}

/// Writes `value` wherever any axis is outside.
fn fill_outside(y: &mut Tensor, outside: &[Vec<bool>], value: f64) -> Result<(), KernelError> {
    let dims: Dims = y.dims().into();
    let at = |i: usize| {
        let mut rest = i;
        dims.iter().zip(outside).rev().any(|(&d, o)| {
            let here = o[rest % d];
            rest /= d;
            here
        })
    };
    macro_rules! fill {
        ($($t:ty => $v:expr),*) => {$(
            if let Some(v) = y.as_mut_slice::<$t>() {
                v.iter_mut().enumerate().filter(|(i, _)| at(*i)).for_each(|(_, x)| *x = $v);
                return Ok(());
            }
        )*};
    }
    fill!(f32 => value as f32, f64 => value, half::f16 => half::f16::from_f64(value), half::bf16 => half::bf16::from_f64(value),
        i8 => value as i8, u8 => value as u8, i16 => value as i16, u16 => value as u16,
        i32 => value as i32, u32 => value as u32, i64 => value as i64, u64 => value as u64);
    invalid!("input 0 (X) is {}, which has no extrapolation value", y.dtype())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    fn resize(case: &Case, x: &Tensor, scales: Option<&[f32]>, sizes: Option<&[i64]>) -> Result<Tensor, super::KernelError> {
        let scales = scales.map(|s| Tensor::from_slice(&[s.len()], s).unwrap());
        let sizes = sizes.map(|s| Tensor::from_slice(&[s.len()], s).unwrap());
        Ok(case.run(&[Some(x.clone()), None, scales, sizes])?.remove(0).unwrap())
    }

    #[test]
    fn bilinear_matches_its_definition() {
        let rng = Rng::new(71);
        for corners in [false, true] {
            for _ in 0..20 {
                let [h, w, oh, ow] = std::array::from_fn(|_| rng.below(2, 9));
                let x = rng.floats(&[2, 3, h, w]);
                let v = vec_of::<f32>(&x);
                let source = |i: usize, n: usize, m: usize| {
                    let at =
                        if corners { i as f32 * (n - 1) as f32 / (m - 1) as f32 } else { (i as f32 + 0.5) * n as f32 / m as f32 - 0.5 };
                    let at = at.clamp(0.0, (n - 1) as f32);
                    (at as usize, (at as usize + 1).min(n - 1), at.fract())
                };
                let mut want = Vec::new();
                for i in 0..6 * oh * ow {
                    let (p, r, c) = (&v[i / (oh * ow) * h * w..], source(i / ow % oh, h, oh), source(i % ow, w, ow));
                    let line = |row: usize| p[row * w + c.0] * (1.0 - c.2) + p[row * w + c.1] * c.2;
                    want.push(line(r.0) * (1.0 - r.2) + line(r.1) * r.2);
                }
                let case = Case::new("Resize", 13).text("mode", "linear");
                let case = if corners { case.text("coordinate_transformation_mode", "align_corners") } else { case };
                let y = resize(&case, &x, None, Some(&[2, 3, oh as i64, ow as i64])).unwrap();
                close(&y, &want, &format!("{h}x{w} to {oh}x{ow}, corners {corners}"));
            }
        }
    }

    #[test]
    fn nearest_copies_any_type() {
        let x = Tensor::from_slice(&[1, 1, 2, 2], &[1i64, 2, 3, 4]).unwrap();
        let y = resize(&Case::new("Resize", 13), &x, Some(&[1.0, 1.0, 2.0, 2.0]), None).unwrap();
        assert_eq!(vec_of::<i64>(&y), [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
        let y = resize(&Case::new("Resize", 13).text("nearest_mode", "ceil"), &x, None, Some(&[1, 1, 2, 3])).unwrap();
        assert_eq!(vec_of::<i64>(&y), [1, 2, 2, 3, 4, 4]);
        let x = Tensor::from_slice(&[4], &[1u8, 2, 3, 4]).unwrap();
        let scales = Tensor::from_slice(&[1], &[0.6f32]).unwrap();
        assert_eq!(vec_of::<u8>(&Case::new("Resize", 10).one(&[x, scales]).unwrap()), [1, 3]);
    }

    #[test]
    fn antialiasing_averages_what_it_skips() {
        let x = Tensor::from_slice(&[8], &[0f32, 8.0, 0.0, 8.0, 0.0, 8.0, 0.0, 8.0]).unwrap();
        let y = resize(&Case::new("Resize", 18).text("mode", "linear").int("antialias", 1), &x, None, Some(&[2])).unwrap();
        vec_of::<f32>(&y).iter().for_each(|v| assert!((v - 4.0).abs() < 1.0, "{v}"));
    }

    #[test]
    fn absurd_requests_are_refused() {
        let x = Rng::new(5).floats(&[1, 1, 4, 4]);
        let case = Case::new("Resize", 18).text("mode", "cubic");
        for scales in [[1.0, 1.0, f32::NAN, 1.0], [1.0, 1.0, -1.0, 1.0], [1.0, 1.0, 0.0, 1.0], [1e18, 1e18, 1e18, 1.0]] {
            assert!(resize(&case, &x, Some(&scales), None).is_err(), "{scales:?}");
        }
        for sizes in [&[1i64, 1, -4, 4][..], &[1, 1, i64::MAX, 4], &[4, 4], &[1, 1, 1 << 40, 1 << 40]] {
            assert!(resize(&case, &x, None, Some(sizes)).is_err(), "{sizes:?}");
        }
        assert!(resize(&case, &x, None, None).is_err());
        assert!(resize(&case, &x, Some(&[1.0; 4]), Some(&[1; 4])).is_err());
        let empty = Tensor::from_slice::<f32>(&[1, 1, 0, 4], &[]).unwrap();
        assert!(resize(&case, &empty, None, Some(&[1, 1, 2, 2])).is_err());
        assert_eq!(resize(&case, &empty, Some(&[1.0, 1.0, 2.0, 2.0]), None).unwrap().dims(), [1, 1, 0, 8]);
    }
}
