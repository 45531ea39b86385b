//! Convolutions.

use super::super::call::{Call, Res};
use super::super::level::Fact;
use super::super::values::{AttrList, int, ints, text};
use super::super::walk::Lower;
use super::pool::{batched, unbatched};
use super::{Table, one};
use crate::graph::ValueId;
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("_convolution", general),
    ("conv1d", direct),
    ("conv2d", direct),
    ("conv3d", direct),
    ("conv_transpose1d", transposed),
    ("conv_transpose2d", transposed),
    ("conv_transpose3d", transposed),
    ("convolution", general),
];

/// Zeros around the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    None,
    /// As many as keep the size.
    Same,
    /// As the call says, on both sides of each axis.
    Given,
}

fn direct(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let padding = match c.text("padding") {
        Ok(Some(t)) if &*t == "valid" => Padding::None,
        Ok(Some(t)) if &*t == "same" => Padding::Same,
        Ok(Some(t)) => return Err(format!("its padding is `{t}`")),
        _ => Padding::Given,
    };
    convolution(l, c, padding, false)
}

fn transposed(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    convolution(l, c, Padding::Given, true)
}

fn general(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    convolution(l, c, Padding::Given, c.flag("transposed")?)
}

fn convolution(l: &mut Lower<'_>, c: &Call<'_>, padding: Padding, transposed: bool) -> Res<Vec<Option<ValueId>>> {
    let (x, weight, bias) = (c.tensor("input")?, c.tensor("weight")?, c.opt_tensor("bias")?);
    let dtype = c.out_dtype()?;
    let n = l.rank(weight)?.checked_sub(2).ok_or("its weight has no channels")?;
    let mut list: AttrList = vec![
        ("dilations", ints(&c.ints_of("dilation", n)?)),
        ("group", int(c.int("groups")?)),
        ("strides", ints(&c.ints_of("stride", n)?)),
    ];
    let pads = match padding {
        Padding::None => Some(vec![0; n]),
        Padding::Given => Some(c.ints_of("padding", n)?),
        Padding::Same => None,
    };
    match pads {
        Some(p) => list.push(("pads", ints(&[p.as_slice(), &p].concat()))),
        // Torch puts the odd zero behind.
        None => list.push(("auto_pad", text("SAME_UPPER"))),
    }
    if let Some(kernel) = l.static_dims(weight) {
        list.push(("kernel_shape", ints(&kernel[2..])));
    }
    if transposed {
        let extra = c.ints_of("output_padding", n)?;
        if extra.iter().any(|&e| e != 0) {
            list.push(("output_padding", ints(&extra)));
        }
    }
    let (x, single) = batched(l, x, n)?;
    let shape = if single { Shape::UNKNOWN } else { c.out(0).shape };
    let op = if transposed { "ConvTranspose" } else { "Conv" };
    let made = l.emit_fact(op, &[Some(x), Some(weight), bias], &list, Fact::of(Some(dtype), shape));
    one(unbatched(l, made, single))
}
