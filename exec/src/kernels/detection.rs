//! NonMaxSuppression and RoiAlign: what detectors end in.

use rayon::prelude::*;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel, out};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;
use crate::tensor::Tensor;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("NonMaxSuppression", 10, suppression),
    Entry::onnx("RoiAlign", 10, |ctx| roi_align(ctx, 10)),
    Entry::onnx("RoiAlign", 16, |ctx| roi_align(ctx, 16)),
];

fn suppression(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let centers = match Attrs(ctx.node).int("center_point_box", 0)? {
        0 => false,
        1 => true,
        other => return invalid!("attribute center_point_box is {other}, expected 0 or 1"),
    };
    float_kernel(ctx, move |_, args| {
        let (&[batch, count, 4], &[score_batch, classes, score_count]) = (args.get(0)?.dims(), args.get(1)?.dims()) else {
            return invalid!(
                "inputs boxes and scores must have shapes [batch, boxes, 4] and [batch, classes, boxes], they have {:?} and {:?}",
                args.get(0)?.dims(),
                args.get(1)?.dims()
            );
        };
        if batch != score_batch || count != score_count {
            return invalid!(
                "inputs boxes and scores have shapes {:?} and {:?}, which do not go together",
                args.get(0)?.dims(),
                args.get(1)?.dims()
            );
        }
        let scalar = |i: usize| -> Result<Option<f32>, KernelError> {
            match args.opt_slice::<f32>(i)? {
                None | Some([]) => Ok(None),
                Some(&[x]) => Ok(Some(x)),
                Some(v) => invalid!("input {i} must be one number, it has {}", v.len()),
            }
        };
        let most = match args.ints(2)?.as_deref() {
            None | Some([]) => 0,
            Some(&[n]) => usize::try_from(n).unwrap_or(0),
            Some(v) => return invalid!("input max_output_boxes_per_class must be one number, it has {}", v.len()),
        };
        let iou = scalar(3)?.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&iou) {
            return invalid!("input iou_threshold is {iou}, expected 0 to 1");
        }
        let least = scalar(4)?;
        let (boxes, scores) = (args.slice::<f32>(0)?, args.slice::<f32>(1)?);
        let corners: Vec<Corners> = boxes.chunks_exact(4).map(|b| Corners::new(b, centers)).collect();
        let picked: Vec<Vec<usize>> = (0..batch * classes)
            .into_par_iter()
            .map(|i| pick(&corners[i / classes * count..][..count], &scores[i * count..][..count], most, iou, least))
            .collect();
        let rows: Vec<i64> = picked
            .iter()
            .enumerate()
            .flat_map(|(i, boxes)| boxes.iter().flat_map(move |&b| [(i / classes) as i64, (i % classes) as i64, b as i64]))
            .collect();
        Ok(out(Tensor::from_slice(&[rows.len() / 3, 3], &rows)?))
    })
}

/// A box by its lowest and highest corner.
#[derive(Clone, Copy)]
struct Corners {
    low: [f32; 2],
    high: [f32; 2],
    area: f32,
}

impl Corners {
    fn new(b: &[f32], centers: bool) -> Self {
        let (low, high) = if centers {
            ([b[0] - b[2] / 2.0, b[1] - b[3] / 2.0], [b[0] + b[2] / 2.0, b[1] + b[3] / 2.0])
        } else {
            ([b[0].min(b[2]), b[1].min(b[3])], [b[0].max(b[2]), b[1].max(b[3])])
        };
        Self { low, high, area: (high[0] - low[0]) * (high[1] - low[1]) }
    }

    fn overlaps(&self, o: &Self, iou: f32) -> bool {
        let side = |d: usize| self.high[d].min(o.high[d]) - self.low[d].max(o.low[d]);
        let (a, b) = (side(0), side(1));
        if a <= 0.0 || b <= 0.0 || self.area <= 0.0 || o.area <= 0.0 {
            return false;
        }
        let common = a * b;
        common > iou * (self.area + o.area - common)
    }
}

/// Boxes that stay, best first.
fn pick(boxes: &[Corners], scores: &[f32], most: usize, iou: f32, least: Option<f32>) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    if most == 0 {
        return kept;
    }
    let mut order: Vec<usize> = (0..boxes.len()).filter(|&i| least.is_none_or(|t| scores[i] > t)).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    for i in order {
        if kept.iter().all(|&k| !boxes[k].overlaps(&boxes[i], iou)) {
            kept.push(i);
            if kept.len() == most {
                break;
            }
        }
    }
    kept
}

/// Samples of all regions at most; more is no picture.
const MAX_SAMPLES: f64 = 1e9;

struct RoiAlign {
    max: bool,
    half_pixel: bool,
    size: [usize; 2],
    ratio: usize,
    scale: f64,
}

fn roi_align(ctx: &PrepareCtx<'_>, version: i64) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let default = if version >= 16 { "half_pixel" } else { "output_half_pixel" };
    let op = RoiAlign {
        max: attrs.choice("mode", "avg", &[("avg", false), ("max", true)])?,
        half_pixel: attrs.choice("coordinate_transformation_mode", default, &[("half_pixel", true), ("output_half_pixel", false)])?,
        size: [attrs.size("output_height", 1, 1)?, attrs.size("output_width", 1, 1)?],
        ratio: attrs.size("sampling_ratio", 0, 0)?,
        scale: attrs.float("spatial_scale", 1.0)?,
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

/// A sample between two positions of an axis.
#[derive(Clone, Copy)]
struct Sample<T> {
    at: [usize; 2],
    weight: [T; 2],
}

/// Samples of one axis: `per` for each output position.
struct Samples<T> {
    per: usize,
    list: Vec<Sample<T>>,
}

impl RoiAlign {
    /// Samples between `start` and `end` along axis `d` of `size` elements.
    fn samples<T: Real>(&self, d: usize, start: f64, end: f64, size: usize) -> Result<Samples<T>, KernelError> {
        let offset = if self.half_pixel { 0.5 } else { 0.0 };
        let (start, end) = (start * self.scale - offset, end * self.scale - offset);
        let extent = if self.half_pixel { end - start } else { (end - start).max(1.0) };
        let bins = self.size[d];
        let bin = extent / bins as f64;
        let per = if self.ratio > 0 { self.ratio as f64 } else { bin.ceil().max(0.0) };
        let total = per * bins as f64;
        if !(total.is_finite() && total < MAX_SAMPLES && start.is_finite() && end.is_finite()) {
            return invalid!("input rois holds a region from {start} to {end}, which is too large or no number");
        }
        let per = per as usize;
        let mut list = Vec::with_capacity(per * bins);
        for i in 0..bins * per {
            let x = start + (i / per) as f64 * bin + ((i % per) as f64 + 0.5) * bin / per as f64;
            if x < -1.0 || x > size as f64 || size == 0 {
                list.push(Sample { at: [0, 0], weight: [T::ZERO, T::ZERO] });
                continue;
            }
            let x = x.max(0.0).min((size - 1) as f64);
            let low = x.floor();
            let at = low as usize;
            list.push(Sample { at: [at, (at + 1).min(size - 1)], weight: [T::of(1.0 - (x - low)), T::of(x - low)] });
        }
        Ok(Samples { per, list })
    }

    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (&[batch, channels, h, w], &[count, 4]) = (args.get(0)?.dims(), args.get(1)?.dims()) else {
            return invalid!(
                "inputs X and rois must have shapes [N, C, H, W] and [count, 4], they have {:?} and {:?}",
                args.get(0)?.dims(),
                args.get(1)?.dims()
            );
        };
        let (x, rois) = (args.slice::<T>(0)?, args.slice::<T>(1)?);
        let images = args.ints(2)?.unwrap_or_default();
        if images.len() != count {
            return invalid!("inputs rois and batch_indices have {count} and {} rows", images.len());
        }
        let [ph, pw] = self.size;
        let mut y = alloc::<T>(ctx, &[count, channels, ph, pw])?;
        let dst = elements_mut::<T>(&mut y)?;
        if dst.is_empty() {
            return Ok(out(y));
        }
        dst.par_chunks_mut(channels * ph * pw).enumerate().try_for_each(|(r, y)| {
            let n = match usize::try_from(images[r]) {
                Ok(n) if n < batch => n,
                _ => return invalid!("input batch_indices names image {} in row {r}, there are {batch}", images[r]),
            };
            let roi = &rois[r * 4..][..4];
            let rows = self.samples::<T>(0, roi[1].wide(), roi[3].wide(), h)?;
            let cols = self.samples::<T>(1, roi[0].wide(), roi[2].wide(), w)?;
            if (rows.list.len() as f64) * (cols.list.len() as f64) * channels as f64 > 1e3 * MAX_SAMPLES {
                return invalid!("input rois holds a region of too many samples in row {r}");
            }
            for (c, y) in y.chunks_mut(ph * pw).enumerate() {
                let plane = &x[(n * channels + c) * h * w..][..h * w];
                for (i, y) in y.iter_mut().enumerate() {
                    *y = self.bin(plane, w, &rows.list[i / pw * rows.per..][..rows.per], &cols.list[i % pw * cols.per..][..cols.per]);
                }
            }
            Ok(())
        })?;
        Ok(out(y))
    }

    fn bin<T: Real>(&self, plane: &[T], w: usize, rows: &[Sample<T>], cols: &[Sample<T>]) -> T {
        if rows.is_empty() || cols.is_empty() || plane.is_empty() {
            return T::ZERO;
        }
        let (mut sum, mut best) = (T::ZERO, None);
        for r in rows {
            let (top, bottom) = (&plane[r.at[0] * w..][..w], &plane[r.at[1] * w..][..w]);
            for c in cols {
                let parts = [
                    r.weight[0] * c.weight[0] * top[c.at[0]],
                    r.weight[0] * c.weight[1] * top[c.at[1]],
                    r.weight[1] * c.weight[0] * bottom[c.at[0]],
                    r.weight[1] * c.weight[1] * bottom[c.at[1]],
                ];
                if self.max {
                    // The operator is defined by the largest weighted corner, not by the largest interpolated value.
                    best = parts.iter().fold(best, |b: Option<T>, &p| Some(b.map_or(p, |b| b.max(p))));
                } else {
                    sum += parts[0] + parts[1] + parts[2] + parts[3];
                }
            }
        }
        if self.max { best.unwrap_or(T::ZERO) } else { sum / T::of((rows.len() * cols.len()) as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, vec_of};
    use crate::tensor::Tensor;

    fn suppress(scores: [f32; 4]) -> Vec<i64> {
        let boxes = [0.0, 0.0, 1.0, 1.0, 1.0, 1.1, 0.0, 0.1, 0.0, 5.0, 1.0, 6.0, 0.0, 5.0, 1.0, 5.9f32];
        let inputs = [
            Tensor::from_slice(&[1, 4, 4], &boxes).unwrap(),
            Tensor::from_slice(&[1, 1, 4], &scores).unwrap(),
            Tensor::scalar(3i64),
            Tensor::scalar(0.5f32),
            Tensor::scalar(0.1f32),
        ];
        vec_of(&Case::new("NonMaxSuppression", 11).one(&inputs).unwrap())
    }

    #[test]
    fn overlapping_boxes_lose_to_better_ones() {
        assert_eq!(suppress([0.5, 0.9, 0.6, 0.6]), [0, 0, 1, 0, 0, 2]);
        assert_eq!(suppress([0.05, 0.0, 0.3, 0.2]), [0, 0, 2]);
        assert_eq!(suppress([f32::NAN; 4]), [0i64; 0]);
    }

    #[test]
    fn a_region_of_a_constant_plane_is_constant() {
        let x = Tensor::from_slice(&[1, 2, 6, 6], &[3f32; 72]).unwrap();
        let rois = Tensor::from_slice(&[1, 4], &[0.5f32, 0.5, 4.0, 5.0]).unwrap();
        let case = Case::new("RoiAlign", 16).int("output_height", 3).int("output_width", 2);
        let run = |rois: &Tensor, image: i64| case.one(&[x.clone(), rois.clone(), Tensor::from_slice(&[1], &[image]).unwrap()]);
        let y = run(&rois, 0).unwrap();
        assert_eq!(y.dims(), [1, 2, 3, 2]);
        assert!(vec_of::<f32>(&y).iter().all(|v| (v - 3.0).abs() < 1e-5));
        assert!(run(&rois, 1).is_err() && run(&rois, -1).is_err());
        for bad in [f32::NAN, f32::INFINITY, 1e30] {
            assert!(run(&Tensor::from_slice(&[1, 4], &[0.0, 0.0, bad, 1.0]).unwrap(), 0).is_err(), "{bad}");
        }
        assert!(case.one(&[Rng::new(1).floats(&[2, 2]), rois, Tensor::scalar(0i64)]).is_err());
    }
}
