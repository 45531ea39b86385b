//! Normalizations in inference.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{float, int};
use super::super::walk::Lower;
use super::{Table, in_training, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_native_batch_norm_legit_no_training", batch_norm),
    ("_native_batch_norm_legit", batch_norm),
    ("_fused_rms_norm", rms_norm),
    ("batch_norm", batch_norm),
    ("cudnn_batch_norm", batch_norm),
    ("group_norm", group_norm),
    ("instance_norm", instance_norm),
    ("layer_norm", layer_norm),
    ("native_batch_norm", batch_norm),
    ("native_group_norm", group_norm),
    ("native_layer_norm", layer_norm),
    ("rms_norm", rms_norm),
];

fn opt(c: &Call<'_>, name: &str) -> Res<Option<ValueId>> {
    if c.has(name) { c.opt_tensor(name) } else { Ok(None) }
}

/// A parameter, or where it is not given the same number for every channel.
fn parameter(l: &mut Lower<'_>, c: &Call<'_>, name: &str, dtype: DType, channels: i64, otherwise: f64) -> Res<ValueId> {
    match opt(c, name)? {
        Some(given) => Ok(given),
        None => per_channel(l, dtype, channels, otherwise),
    }
}

/// Scaled and shifted channel by channel, as far as the call says.
fn with_parameters(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId, rank: usize, dtype: DType) -> Res<ValueId> {
    let after: Vec<usize> = (1..rank.saturating_sub(1)).collect();
    let mut made = x;
    for (name, op) in [("weight", "Mul"), ("bias", "Add")] {
        if let Some(w) = opt(c, name)? {
            let w = l.cast(w, dtype);
            let w = l.unsqueeze(w, &after);
            made = l.zip(op, made, w, dtype);
        }
    }
    Ok(made)
}

/// The same number for every channel.
fn per_channel(l: &mut Lower<'_>, dtype: DType, channels: i64, x: f64) -> Res<ValueId> {
    let n = u64::try_from(channels).map_err(|_| "its channels have a negative number")?;
    l.filled(dtype, &[n], x)
}

/// By the statistics that were gathered in training.
fn batch_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor(if c.has("input") { "input" } else { "self" })?;
    let dtype = c.out_dtype()?;
    if &*c.node.op.overload == "no_stats" {
        return by_own_statistics(l, c, x, dtype);
    }
    if c.has("training") && c.flag("training")? || c.has("train") && c.flag("train")? {
        return in_training("gathers statistics");
    }
    let (Some(mean), Some(variance)) = (opt(c, "running_mean")?, opt(c, "running_var")?) else {
        return Err("it has no statistics from training".to_owned());
    };
    let channels = l.static_dim(mean, 0).ok_or("the number of its channels is not known")?;
    let of = l.dtype(mean)?;
    let scale = parameter(l, c, "weight", of, channels, 1.0)?;
    let shift = parameter(l, c, "bias", of, channels, 0.0)?;
    let list = [("epsilon", float(c.float("eps")?))];
    let fact = Fact::of(Some(dtype), l.shape(x));
    let made = l.emit_fact("BatchNormalization", &[Some(x), Some(scale), Some(shift), Some(mean), Some(variance)], &list, fact);
    // What else the operator gives is for training.
    one(made)
}

/// By mean and variance of the input itself: what is left of an instance norm.
fn by_own_statistics(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId, dtype: DType) -> Res<Vec<Option<ValueId>>> {
    let rank = l.rank(x)?;
    let axes: Vec<usize> = (0..rank).filter(|&a| a != 1).collect();
    let mean = l.reduce("ReduceMean", x, &axes, true, dtype);
    let distance = l.zip("Sub", x, mean, dtype);
    let square = l.zip("Mul", distance, distance, dtype);
    let variance = l.reduce("ReduceMean", square, &axes, true, dtype);
    let eps = l.number(dtype, c.float("eps")?)?;
    let sum = l.zip("Add", variance, eps, dtype);
    let root = l.map("Sqrt", sum, dtype);
    let normal = l.zip("Div", distance, root, dtype);
    one(with_parameters(l, c, normal, rank, dtype)?)
}

fn layer_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("input")?;
    let dtype = c.out_dtype()?;
    let sizes = c.sizes("normalized_shape")?;
    let rank = l.rank(x)?;
    let axis = rank.checked_sub(sizes.len()).ok_or("it normalizes more axes than there are")?;
    let scale = match opt(c, "weight")? {
        Some(w) => w,
        None => {
            let unit = l.number(dtype, 1.0)?;
            l.expand(unit, &sizes)
        }
    };
    let bias = opt(c, "bias")?;
    let list = [("axis", int(axis as i64)), ("epsilon", float(c.float("eps")?))];
    let fact = Fact::of(Some(dtype), l.shape(x));
    if c.outputs().len() < 3 {
        return one(l.emit_fact("LayerNormalization", &[Some(x), Some(scale), bias], &list, fact));
    }
    // Mean and inverse deviation, for those who ask.
    let facts = [Some(fact), Some(c.out(1)), Some(c.out(2))];
    Ok(l.emit_all("LayerNormalization", &[Some(x), Some(scale), bias], &list, &facts))
}

/// `x / sqrt(mean(x²) + eps) * weight`, in f32 for half types as torch computes it.
fn rms_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("input")?;
    let out = c.out_dtype()?;
    let sizes = c.sizes("normalized_shape")?;
    let rank = l.rank(x)?;
    let axes: Vec<usize> = (rank.saturating_sub(sizes.len())..rank).collect();
    let work = if out == DType::F64 { out } else { DType::F32 };
    let eps = c.opt_float("eps")?.unwrap_or(match out {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::Bf16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    });
    let wide = l.cast(x, work);
    let square = l.zip("Mul", wide, wide, work);
    let mean = l.reduce("ReduceMean", square, &axes, true, work);
    let eps = l.number(work, eps)?;
    let sum = l.zip("Add", mean, eps, work);
    let root = l.map("Sqrt", sum, work);
    let mut made = l.zip("Div", wide, root, work);
    if let Some(weight) = opt(c, "weight")? {
        let weight = l.cast(weight, work);
        made = l.zip("Mul", made, weight, work);
    }
    one(l.cast(made, out))
}

/// Over groups of channels: each group is a channel of an instance norm for the time being.
fn group_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("input")?;
    let dtype = c.out_dtype()?;
    let groups = c.int(if c.has("num_groups") { "num_groups" } else { "group" })?;
    let rank = l.rank(x)?;
    let sizes = l.sizes_of(x)?;
    let Some(&batch) = sizes.first() else { return Err("its input is a scalar".to_owned()) };
    let flat = l.reshape(x, &[batch, Size::Known(groups), Size::Known(-1)]);
    let (scale, shift) = (per_channel(l, dtype, groups, 1.0)?, per_channel(l, dtype, groups, 0.0)?);
    let list = [("epsilon", float(c.float("eps")?))];
    let normal = l.emit("InstanceNormalization", &[flat, scale, shift], &list, dtype);
    let normal = l.reshape(normal, &sizes);
    one(with_parameters(l, c, normal, rank, dtype)?)
}

fn instance_norm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if !c.flag("use_input_stats")? {
        return batch_norm(l, c);
    }
    let x = c.tensor("input")?;
    let dtype = c.out_dtype()?;
    let channels = l.static_dim(x, 1).ok_or("the number of its channels is not known")?;
    let scale = parameter(l, c, "weight", dtype, channels, 1.0)?;
    let shift = parameter(l, c, "bias", dtype, channels, 0.0)?;
    let fact = Fact::of(Some(dtype), l.shape(x));
    one(l.emit_fact("InstanceNormalization", &[Some(x), Some(scale), Some(shift)], &[("epsilon", float(c.float("eps")?))], fact))
}
