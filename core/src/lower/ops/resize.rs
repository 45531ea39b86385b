//! Sampling at other places: resizing and grids.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{AttrList, float, int, ints, text};
use super::super::walk::Lower;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_upsample_bicubic2d_aa", |l, c| resize(l, c, "cubic", true)),
    ("_upsample_bilinear2d_aa", |l, c| resize(l, c, "linear", true)),
    ("_upsample_nearest_exact1d", |l, c| resize(l, c, "nearest_exact", false)),
    ("_upsample_nearest_exact2d", |l, c| resize(l, c, "nearest_exact", false)),
    ("_upsample_nearest_exact3d", |l, c| resize(l, c, "nearest_exact", false)),
    ("affine_grid_generator", affine_grid),
    ("grid_sampler", grid_sampler),
    ("grid_sampler_2d", grid_sampler),
    ("grid_sampler_3d", grid_sampler),
    ("upsample_bicubic2d", |l, c| resize(l, c, "cubic", false)),
    ("upsample_bilinear2d", |l, c| resize(l, c, "linear", false)),
    ("upsample_linear1d", |l, c| resize(l, c, "linear", false)),
    ("upsample_nearest1d", |l, c| resize(l, c, "nearest", false)),
    ("upsample_nearest2d", |l, c| resize(l, c, "nearest", false)),
    ("upsample_nearest3d", |l, c| resize(l, c, "nearest", false)),
    ("upsample_trilinear3d", |l, c| resize(l, c, "linear", false)),
];

/// Rows and columns (what stands behind batch and channels) to another size, or by factors.
fn resize(l: &mut Lower<'_>, c: &Call<'_>, mode: &str, antialias: bool) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor(if c.has("input") { "input" } else { "self" })?;
    let dtype = c.out_dtype()?;
    let n = l.rank(x)?.checked_sub(2).ok_or("its input has no rows")?;
    let corners = c.has("align_corners") && c.flag("align_corners")?;
    let sizes = c.opt_sizes("output_size")?;
    let mut factors = None;
    if c.has("scale_factors") {
        factors = c.opt_floats("scale_factors")?;
    } else {
        let names: &[&str] = match n {
            1 => &["scales"],
            2 => &["scales_h", "scales_w"],
            _ => &["scales_d", "scales_h", "scales_w"],
        };
        let each: Vec<Option<f64>> =
            names.iter().map(|&name| if c.has(name) { c.opt_float(name) } else { Ok(None) }).collect::<Res<_>>()?;
        if let Some(all) = each.into_iter().collect::<Option<Vec<f64>>>() {
            factors = Some(all);
        }
    }
    let mut list: AttrList = Vec::new();
    match mode {
        "nearest" => list.extend([("mode", text("nearest")), ("nearest_mode", text("floor"))]),
        "nearest_exact" => list.extend([("mode", text("nearest")), ("nearest_mode", text("round_prefer_ceil"))]),
        "cubic" => list.extend([("mode", text("cubic")), ("cubic_coeff_a", float(if antialias { -0.5 } else { -0.75 }))]),
        _ => list.push(("mode", text("linear"))),
    }
    if antialias {
        // Torch weighs only places that exist.
        list.extend([("antialias", int(1)), ("exclude_outside", int(1))]);
    }
    let how = match (mode, corners) {
        ("nearest", _) => "asymmetric",
        (_, true) => "align_corners",
        ("nearest_exact", _) => "half_pixel",
        _ => "pytorch_half_pixel",
    };
    // A window of one: torch looks at the middle, too, when it filters.
    let how = if antialias && how == "pytorch_half_pixel" { "half_pixel" } else { how };
    list.push(("coordinate_transformation_mode", text(how)));
    let axes: Vec<i64> = (2..n as i64 + 2).collect();
    list.push(("axes", ints(&axes)));
    let fact = Fact::of(Some(dtype), c.out(0).shape);
    // Torch computes places by the factors, where they are given, and with aligned corners by the sizes. A runtime computes
    // sizes in single precision: where that gives other sizes than torch has, the sizes are said.
    let out = c.out(0).shape;
    let known: Option<Vec<i64>> = out.dims().and_then(|d| d.iter().skip(2).map(|d| i64::try_from(d.known()?).ok()).collect());
    let gives_these_sizes = |f: &[f64]| {
        known.as_ref().is_none_or(|k| {
            f.len() == n
                && (0..n).all(|i| l.static_dim(x, i + 2).zip(k.get(i)).is_some_and(|(s, &k)| (s as f32 * f[i] as f32).floor() as i64 == k))
        })
    };
    if let (Some(f), "nearest", Some(k)) = (&factors, mode, &known)
        && f.iter().any(|&f| f64::from(f as f32) != f)
    {
        return nearest(l, x, f, k, n);
    }
    let by_factors = factors.as_ref().is_some_and(|f| !corners && gives_these_sizes(f));
    if let Some(f) = factors.as_ref().filter(|_| by_factors || sizes.is_none() && known.is_none()) {
        let bytes = f.iter().flat_map(|&f| (f as f32).to_le_bytes()).collect();
        let scales = l.level.constant(DType::F32, &[f.len() as u64], bytes);
        return one(l.emit_fact("Resize", &[Some(x), None, Some(scales)], &list, fact));
    }
    let sizes = match (known, sizes) {
        (Some(k), _) => k.into_iter().map(Size::Known).collect(),
        (None, Some(s)) => s,
        (None, None) => return Err("its sizes are not known".to_owned()),
    };
    let sizes = l.sizes(&sizes);
    one(l.emit_fact("Resize", &[Some(x), None, None, Some(sizes)], &list, fact))
}

/// By factors that single precision does not hold exactly: which places torch reads is worked out here, since a runtime
/// that divides by the rounded factor may read the ones beside them.
fn nearest(l: &mut Lower<'_>, x: ValueId, factors: &[f64], sizes: &[i64], n: usize) -> Res<Vec<Option<ValueId>>> {
    let mut now = x;
    for i in 0..n {
        let (Some(&f), Some(&size)) = (factors.get(i), sizes.get(i)) else { return Err("a factor is missing".to_owned()) };
        let given = l.static_dim(x, i + 2).filter(|&g| g > 0 && size <= 1 << 16).ok_or("its sizes are not known")?;
        let step = (1.0 / f) as f32;
        let places: Vec<i64> = (0..size).map(|k| ((k as f32 * step).floor() as i64).min(given - 1)).collect();
        let at = l.i64s(&places);
        now = super::indexing::gathered(l, now, at, i + 2)?;
    }
    one(now)
}

fn grid_sampler(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, grid) = (c.tensor("input")?, c.tensor("grid")?);
    let dtype = c.out_dtype()?;
    let mode = match c.int("interpolation_mode")? {
        0 => "linear",
        1 => "nearest",
        2 => "cubic",
        n => return Err(format!("its interpolation mode is {n}")),
    };
    let padding = match c.int("padding_mode")? {
        0 => "zeros",
        1 => "border",
        2 => "reflection",
        n => return Err(format!("its padding mode is {n}")),
    };
    let list = [("mode", text(mode)), ("padding_mode", text(padding)), ("align_corners", int(i64::from(c.flag("align_corners")?)))];
    one(l.emit_fact("GridSample", &[Some(x), Some(grid)], &list, Fact::of(Some(dtype), c.out(0).shape)))
}

fn affine_grid(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let theta = c.tensor("theta")?;
    let sizes = c.sizes("size")?;
    let sizes = l.sizes(&sizes);
    let list = [("align_corners", int(i64::from(c.flag("align_corners")?)))];
    one(l.emit_fact("AffineGrid", &[Some(theta), Some(sizes)], &list, Fact::of(Some(c.out_dtype()?), c.out(0).shape)))
}
