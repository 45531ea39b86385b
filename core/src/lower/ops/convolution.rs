//! Convolutions.

use super::super::call::{Call, Res};
use super::super::level::Fact;
use super::super::values::{AttrList, int, ints, text};
use super::super::walk::Lower;
use super::{Table, one};
use crate::graph::ValueId;

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

/// What a convolution is told.
struct Spec {
    stride: Vec<i64>,
    /// Zeros on both sides of each axis; `None` for "same".
    padding: Option<Vec<i64>>,
    dilation: Vec<i64>,
    groups: i64,
    /// Of a transposed convolution.
    transposed: Option<Vec<i64>>,
}

fn inputs(c: &Call<'_>) -> Res<(ValueId, ValueId, Option<ValueId>)> {
    Ok((c.tensor("input")?, c.tensor("weight")?, c.opt_tensor("bias")?))
}

fn direct(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let n = l.rank(c.tensor("weight")?)?.saturating_sub(2);
    let padding = match c.text("padding") {
        Ok(Some(t)) if &*t == "valid" => Some(vec![0; n]),
        Ok(Some(t)) if &*t == "same" => None,
        Ok(Some(t)) => return Err(format!("its padding is `{t}`")),
        _ => Some(c.ints_of("padding", n)?),
    };
    let spec =
        Spec { stride: c.ints_of("stride", n)?, padding, dilation: c.ints_of("dilation", n)?, groups: c.int("groups")?, transposed: None };
    convolution(l, c, &spec)
}

fn transposed(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let n = l.rank(c.tensor("weight")?)?.saturating_sub(2);
    let spec = Spec {
        stride: c.ints_of("stride", n)?,
        padding: Some(c.ints_of("padding", n)?),
        dilation: c.ints_of("dilation", n)?,
        groups: c.int("groups")?,
        transposed: Some(c.ints_of("output_padding", n)?),
    };
    convolution(l, c, &spec)
}

fn general(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let n = l.rank(c.tensor("weight")?)?.saturating_sub(2);
    let spec = Spec {
        stride: c.ints_of("stride", n)?,
        padding: Some(c.ints_of("padding", n)?),
        dilation: c.ints_of("dilation", n)?,
        groups: c.int("groups")?,
        transposed: if c.flag("transposed")? { Some(c.ints_of("output_padding", n)?) } else { None },
    };
    convolution(l, c, &spec)
}

fn convolution(l: &mut Lower<'_>, c: &Call<'_>, spec: &Spec) -> Res<Vec<Option<ValueId>>> {
    let (mut x, weight, bias) = inputs(c)?;
    let dtype = c.out_dtype()?;
    let rank = l.rank(weight)?;
    // One example without a batch gets one for the time being.
    let single = l.rank(x)? + 1 == rank;
    if single {
        x = l.unsqueeze(x, &[0]);
    }
    let mut list: AttrList = vec![("dilations", ints(&spec.dilation)), ("group", int(spec.groups)), ("strides", ints(&spec.stride))];
    match &spec.padding {
        Some(p) => {
            let both: Vec<i64> = p.iter().chain(p).copied().collect();
            list.push(("pads", ints(&both)));
        }
        // Torch puts the odd zero behind.
        None => list.push(("auto_pad", text("SAME_UPPER"))),
    }
    if let Some(kernel) = l.static_dims(weight) {
        let sizes = kernel.get(2..).ok_or("its weight has no channels")?;
        list.push(("kernel_shape", ints(sizes)));
    }
    let op = match &spec.transposed {
        Some(extra) => {
            if extra.iter().any(|&e| e != 0) {
                list.push(("output_padding", ints(extra)));
            }
            "ConvTranspose"
        }
        None => "Conv",
    };
    let shape = if single { crate::shape::Shape::UNKNOWN } else { c.out(0).shape };
    let made = l.emit_fact(op, &[Some(x), Some(weight), bias], &list, Fact::of(Some(dtype), shape));
    one(if single { l.squeeze(made, &[0]) } else { made })
}
