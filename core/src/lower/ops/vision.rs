//! Operators of torchvision.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{AttrList, float, int, ints, text};
use super::super::walk::Lower;
use super::shape::picked;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table =
    &[("torchvision.deform_conv2d", deform_conv2d), ("torchvision.nms", nms), ("torchvision.roi_align", roi_align)];

/// Indices of the boxes that are kept, the best first.
fn nms(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (boxes, scores) = (c.tensor("dets")?, c.tensor("scores")?);
    let (boxes, scores) = (l.cast(boxes, DType::F32), l.cast(scores, DType::F32));
    let (boxes, scores) = (l.unsqueeze(boxes, &[0]), l.unsqueeze(scores, &[0, 1]));
    let most = l.i64s(&[i64::MAX]);
    let limit = c.float("iou_threshold")? as f32;
    let limit = l.level.constant(DType::F32, &[1], limit.to_le_bytes().to_vec());
    let shape = crate::shape::Shape::new(vec![crate::shape::Dim::Unknown, crate::shape::Dim::Known(3)]);
    let inputs = [Some(boxes), Some(scores), Some(most), Some(limit)];
    let kept = l.emit_fact("NonMaxSuppression", &inputs, &[], Fact::of(Some(DType::I64), shape));
    one(picked(l, kept, 1, Size::Known(2))?)
}

/// `rois` are rows of batch index and corners.
fn roi_align(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, rois) = (c.tensor("input")?, c.tensor("rois")?);
    let dtype = c.out_dtype()?;
    let batch = picked(l, rois, 1, Size::Known(0))?;
    let batch = l.cast(batch, DType::I64);
    let corners = l.slice(rois, 1, Size::Known(1), Size::Known(5), 1);
    let aligned = c.has("aligned") && c.flag("aligned")?;
    let list = [
        ("coordinate_transformation_mode", text(if aligned { "half_pixel" } else { "output_half_pixel" })),
        ("mode", text("avg")),
        ("output_height", int(c.int("pooled_height")?)),
        ("output_width", int(c.int("pooled_width")?)),
        ("sampling_ratio", int(c.int("sampling_ratio")?.max(0))),
        ("spatial_scale", float(c.float("spatial_scale")?)),
    ];
    one(l.emit_fact("RoiAlign", &[Some(x), Some(corners), Some(batch)], &list, Fact::of(Some(dtype), c.out(0).shape)))
}

fn deform_conv2d(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, weight, offset, mask, bias) =
        (c.tensor("input")?, c.tensor("weight")?, c.tensor("offset")?, c.tensor("mask")?, c.opt_tensor("bias")?);
    let (ph, pw) = (c.int("pad_h")?, c.int("pad_w")?);
    let mut list: AttrList = vec![
        ("dilations", ints(&[c.int("dilation_h")?, c.int("dilation_w")?])),
        ("group", int(c.int("groups")?)),
        ("offset_group", int(c.int("offset_groups")?)),
        ("pads", ints(&[ph, pw, ph, pw])),
        ("strides", ints(&[c.int("stride_h")?, c.int("stride_w")?])),
    ];
    if let Some(kernel) = l.static_dims(weight) {
        let sizes = kernel.get(2..).ok_or("its weight has no channels")?;
        list.push(("kernel_shape", ints(sizes)));
    }
    let mask = c.flag("use_mask")?.then_some(mask);
    let inputs = [Some(x), Some(weight), Some(offset), bias, mask];
    one(l.emit_fact("DeformConv", &inputs, &list, Fact::of(Some(c.out_dtype()?), c.out(0).shape)))
}
