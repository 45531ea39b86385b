//! Rules of convolution, pooling, resizing and detection operators.

use super::Facts;
use super::fact::{Fact, int_to_dim};
use super::rules::{Found, axis, one, unknown_of_rank};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::Node;
use crate::shape::{Dim, Shape};

pub(super) fn outputs(f: &mut Facts<'_>, node: &Node, opset: i64) -> Option<Found> {
    match &*node.op.name {
        "Conv" | "ConvInteger" => {
            let x = f.input(node, 0)?.clone();
            let w = f.input(node, 1)?.clone();
            let dtype = if &*node.op.name == "ConvInteger" { Some(DType::I32) } else { x.dtype };
            conv(node, dtype, &x.shape, &w.shape)
        }
        "QLinearConv" => {
            let dtype = f.input(node, 7)?.dtype;
            let x = f.input(node, 0)?.clone();
            conv(node, dtype, &x.shape, &f.input(node, 3)?.shape)
        }
        "ConvTranspose" => conv_transpose(f, node),
        "DeformConv" => {
            let x = f.input(node, 0)?.clone();
            conv(node, x.dtype, &x.shape, &f.input(node, 1)?.shape)
        }
        "MaxPool" | "AveragePool" | "LpPool" => {
            let x = f.input(node, 0)?;
            let Some(dims) = x.dims().filter(|d| d.len() >= 2) else { return one(x.dtype, Shape::UNKNOWN) };
            let kernel: Vec<Dim> = node.ints("kernel_shape")?.iter().map(|&k| int_to_dim(&Some(Expr::constant(k)))).collect();
            let ceil = node.int("ceil_mode").unwrap_or(0) != 0;
            let mut out = dims[..2].to_vec();
            out.extend(windows(node, &dims[2..], &kernel, ceil)?);
            let y = Fact::new(x.dtype, Shape::new(out));
            let indices = Fact::new(Some(DType::I64), y.shape.clone());
            Some(vec![Some(y), Some(indices)])
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => {
            let x = f.input(node, 0)?;
            let shape = x
                .dims()
                .map(|d| Shape::new(d.iter().enumerate().map(|(i, d)| if i < 2 { d.clone() } else { Dim::Known(1) }).collect::<Vec<_>>()));
            one(x.dtype, shape.unwrap_or_default())
        }
        "Resize" | "Upsample" => resize(f, node, opset),
        "DepthToSpace" => blocks(f, node, |c, h, w, b| {
            let bb = b.clone() * b.clone();
            (c.floor_div(&bb), h * b.clone(), w * b)
        }),
        "SpaceToDepth" => blocks(f, node, |c, h, w, b| (c * b.clone() * b.clone(), h.floor_div(&b), w.floor_div(&b))),
        "NonMaxSuppression" => one(Some(DType::I64), Shape::new(vec![Dim::Unknown, Dim::Known(3)])),
        "RoiAlign" | "MaxRoiPool" => {
            let rois = f.input(node, 1).and_then(|r| r.dims()?.first().cloned()).unwrap_or(Dim::Unknown);
            let x = f.input(node, 0)?;
            let channels = x.dims().and_then(|d| d.get(1).cloned()).unwrap_or(Dim::Unknown);
            let size = |i: usize| match node.ints("pooled_shape") {
                Some(p) => p.get(i).copied(),
                None => Some(node.int(if i == 0 { "output_height" } else { "output_width" }).unwrap_or(1)),
            };
            let (h, w) = (size(0), size(1));
            one(x.dtype, Shape::new(vec![rois, channels, int_to_dim(&h.map(Expr::constant)), int_to_dim(&w.map(Expr::constant))]))
        }
        "GridSample" => {
            let grid = f.input(node, 1)?.clone();
            let x = f.input(node, 0)?;
            let shape = match (x.dims(), grid.dims()) {
                (Some(x), Some(g)) if x.len() == g.len() && x.len() >= 3 => {
                    let mut out = x[..2].to_vec();
                    out.extend_from_slice(&g[1..g.len() - 1]);
                    Shape::new(out)
                }
                _ => Shape::UNKNOWN,
            };
            one(x.dtype, shape)
        }
        _ => None,
    }
}

/// Begin and end padding of spatial axis `i`.
fn pads(node: &Node, i: usize, spatial: usize) -> Option<(i64, i64)> {
    match node.ints("pads") {
        Some(p) => Some((*p.get(i)?, *p.get(i + spatial)?)),
        None => Some((0, 0)),
    }
}

fn at(list: Option<&[i64]>, i: usize) -> Option<i64> {
    match list {
        Some(v) => v.get(i).copied(),
        None => Some(1),
    }
}

/// Sizes that sliding windows give (convolution and pooling).
fn windows(node: &Node, sizes: &[Dim], kernel: &[Dim], ceil: bool) -> Option<Vec<Dim>> {
    let auto = node.text("auto_pad").unwrap_or("NOTSET");
    let mut out = Vec::with_capacity(sizes.len());
    for (i, size) in sizes.iter().enumerate() {
        let stride = Expr::constant(at(node.ints("strides"), i)?);
        let dilation = Expr::constant(at(node.ints("dilations"), i)?);
        let (Some(size), Some(k)) = (size.to_expr(), kernel.get(i).and_then(Dim::to_expr)) else {
            out.push(Dim::Unknown);
            continue;
        };
        if stride.as_const().is_none_or(|s| s <= 0) {
            return None;
        }
        let extent = (k - Expr::constant(1)) * dilation + Expr::constant(1);
        let dim = match auto {
            "SAME_UPPER" | "SAME_LOWER" => size.ceil_div(&stride),
            "VALID" => (size - extent).floor_div(&stride) + Expr::constant(1),
            _ => {
                let (begin, end) = pads(node, i, sizes.len())?;
                let padded = size.clone() + Expr::constant(begin) + Expr::constant(end) - extent;
                if ceil {
                    let dim = padded.ceil_div(&stride) + Expr::constant(1);
                    // A last window that would start in the end padding does not count.
                    match (dim.as_const(), size.as_const(), stride.as_const()) {
                        (Some(d), Some(n), Some(s)) if (d - 1).saturating_mul(s) >= n.saturating_add(begin) => Expr::constant(d - 1),
                        _ => dim,
                    }
                } else {
                    padded.floor_div(&stride) + Expr::constant(1)
                }
            }
        };
        out.push(Dim::from_expr(dim));
    }
    Some(out)
}

fn conv(node: &Node, dtype: Option<DType>, x: &Shape, w: &Shape) -> Option<Found> {
    let Some(xd) = x.dims().filter(|d| d.len() >= 2) else { return one(dtype, Shape::UNKNOWN) };
    let kernel: Vec<Dim> = match (node.ints("kernel_shape"), w.dims()) {
        (Some(k), _) => k.iter().map(|&k| int_to_dim(&Some(Expr::constant(k)))).collect(),
        (None, Some(w)) => w.get(2..)?.to_vec(),
        _ => return one(dtype, unknown_of_rank(xd.len())),
    };
    let channels = w.dims().and_then(|w| w.first().cloned()).unwrap_or(Dim::Unknown);
    let mut out = vec![xd[0].clone(), channels];
    out.extend(windows(node, &xd[2..], &kernel, false)?);
    one(dtype, Shape::new(out))
}

fn conv_transpose(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let w = f.input(node, 1)?.clone();
    let x = f.input(node, 0)?;
    let Some(xd) = x.dims().filter(|d| d.len() >= 2) else { return one(x.dtype, Shape::UNKNOWN) };
    let Some(wd) = w.dims().filter(|d| d.len() == xd.len()) else { return one(x.dtype, unknown_of_rank(xd.len())) };
    let group = Expr::constant(node.int("group").unwrap_or(1));
    let channels = wd[1].to_expr().map_or(Dim::Unknown, |c| Dim::from_expr(c * group));
    let mut out = vec![xd[0].clone(), channels];
    let spatial = xd.len() - 2;
    for i in 0..spatial {
        if let Some(shape) = node.ints("output_shape") {
            out.push(int_to_dim(&shape.get(shape.len().checked_sub(spatial)? + i).map(|&s| Expr::constant(s))));
            continue;
        }
        let stride = at(node.ints("strides"), i)?;
        let dilation = at(node.ints("dilations"), i)?;
        let extra = node.ints("output_padding").map_or(Some(0), |p| p.get(i).copied())?;
        let same = matches!(node.text("auto_pad"), Some("SAME_UPPER" | "SAME_LOWER"));
        let (begin, end) = pads(node, i, spatial)?;
        out.push(match (xd[i + 2].to_expr(), wd[i + 2].to_expr()) {
            (Some(n), _) if same => Dim::from_expr(n * Expr::constant(stride)),
            (Some(n), Some(k)) => Dim::from_expr(
                (n - Expr::constant(1)) * Expr::constant(stride)
                    + (k - Expr::constant(1)) * Expr::constant(dilation)
                    + Expr::constant(extra.checked_add(1)?.checked_sub(begin)?.checked_sub(end)?),
            ),
            _ => Dim::Unknown,
        });
    }
    one(x.dtype, Shape::new(out))
}

fn resize(f: &mut Facts<'_>, node: &Node, opset: i64) -> Option<Found> {
    let (scales_at, sizes_at) = if &*node.op.name == "Upsample" || opset < 11 { (1, usize::MAX) } else { (2, 3) };
    let sizes = if sizes_at == usize::MAX { None } else { f.ints(node, sizes_at) };
    let scales: Option<Vec<f64>> = match node.attr("scales") {
        Some(crate::graph::AttrValue::Floats(s)) => Some(s.to_vec()),
        _ => node.input(scales_at).and_then(|v| stored_floats(f.graph.value(v).weight()?)),
    };
    let x = f.input(node, 0)?;
    let Some(dims) = x.dims() else { return one(x.dtype, Shape::UNKNOWN) };
    let axes: Vec<usize> = match node.ints("axes") {
        Some(a) => a.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
        None => (0..dims.len()).collect(),
    };
    let mut out = dims.to_vec();
    let stretch = node.text("keep_aspect_ratio_policy").is_none_or(|p| p == "stretch");
    match (sizes.filter(|s| !s.is_empty()), scales.filter(|s| !s.is_empty())) {
        (Some(s), _) if stretch && s.len() == axes.len() => {
            for (a, s) in axes.iter().zip(&s) {
                out[*a] = int_to_dim(s);
            }
        }
        (None, Some(s)) if s.len() == axes.len() => {
            for (&a, &s) in axes.iter().zip(&s) {
                out[a] = match &dims[a] {
                    d if s == 1.0 => d.clone(),
                    // Sizes stay below 2^53, so the product is exact enough to floor.
                    Dim::Known(n) => {
                        let scaled = (*n as f64 * s).floor();
                        if scaled.is_finite() && (0.0..9.0e15).contains(&scaled) { Dim::Known(scaled as u64) } else { Dim::Unknown }
                    }
                    d if s.fract() == 0.0 && s.abs() < 1e9 => {
                        d.to_expr().map_or(Dim::Unknown, |d| Dim::from_expr(d * Expr::constant(s as i64)))
                    }
                    _ => Dim::Unknown,
                };
            }
        }
        _ => {
            for a in axes {
                out[a] = Dim::Unknown;
            }
        }
    }
    one(x.dtype, Shape::new(out))
}

/// The elements of a small stored f32 vector (scales).
fn stored_floats(w: &crate::weights::WeightRef) -> Option<Vec<f64>> {
    if w.dtype != DType::F32 || w.elements() > 16 {
        return None;
    }
    let bytes = w.read().ok()?;
    Some(bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect())
}

fn blocks(f: &mut Facts<'_>, node: &Node, rule: impl Fn(Expr, Expr, Expr, Expr) -> (Expr, Expr, Expr)) -> Option<Found> {
    let b = node.int("blocksize").filter(|&b| b > 0)?;
    let x = f.input(node, 0)?;
    let Some([n, c, h, w]) = x.dims() else { return one(x.dtype, unknown_of_rank(4)) };
    let (Some(c), Some(h), Some(w)) = (c.to_expr(), h.to_expr(), w.to_expr()) else { return one(x.dtype, unknown_of_rank(4)) };
    let (c, h, w) = rule(c, h, w, Expr::constant(b));
    one(x.dtype, Shape::new(vec![n.clone(), Dim::from_expr(c), Dim::from_expr(h), Dim::from_expr(w)]))
}
