//! Quantization: fake quantization of training and the decomposed operators of the export flow.

use super::super::call::{Call, Number, Res};
use super::super::level::Fact;
use super::super::values::int;
use super::super::walk::Lower;
use super::pointwise::clipped;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    // The mask of what was in range is for training, and its second result is read by nothing in inference.
    ("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake_per_tensor),
    ("fake_quantize_per_channel_affine", fake_per_channel),
    ("fake_quantize_per_channel_affine_cachemask", fake_per_channel),
    ("fake_quantize_per_tensor_affine", fake_per_tensor),
    ("fake_quantize_per_tensor_affine_cachemask", fake_per_tensor),
    ("quantized_decomposed.dequantize_per_channel", |l, c| dequantize(l, c, true)),
    ("quantized_decomposed.dequantize_per_tensor", |l, c| dequantize(l, c, false)),
    ("quantized_decomposed.quantize_per_channel", |l, c| quantize(l, c, true)),
    ("quantized_decomposed.quantize_per_tensor", |l, c| quantize(l, c, false)),
];

/// How numbers become small integers.
struct Grid {
    scale: ValueId,
    zero: ValueId,
    range: (i64, i64),
    axis: Option<usize>,
    dtype: DType,
}

/// The integer type that holds a range, where ONNX quantizes to it.
fn holder(range: (i64, i64)) -> Res<DType> {
    match range {
        (low, high) if low >= 0 && high <= 255 => Ok(DType::U8),
        (low, high) if low >= -128 && high <= 127 => Ok(DType::I8),
        (low, high) => Err(format!("its integers reach from {low} to {high}")),
    }
}

/// The whole range of a type.
fn range_of(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::U8 => Some((0, 255)),
        DType::I8 => Some((-128, 127)),
        DType::I16 => Some((-32768, 32767)),
        DType::U16 => Some((0, 65535)),
        DType::I32 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        _ => None,
    }
}

fn quantized(l: &mut Lower<'_>, x: ValueId, grid: &Grid) -> Res<ValueId> {
    let shape = l.shape(x);
    let axis = [("axis", int(grid.axis.unwrap_or(1) as i64))];
    let list: super::super::level::Attrs<'_> = if grid.axis.is_some() { &axis } else { &[] };
    let inputs = [Some(x), Some(grid.scale), Some(grid.zero)];
    let q = l.emit_fact("QuantizeLinear", &inputs, list, Fact::of(Some(grid.dtype), shape));
    if range_of(grid.dtype) == Some(grid.range) {
        return Ok(q);
    }
    clipped(l, q, Some(Number::Int(grid.range.0)), Some(Number::Int(grid.range.1)), grid.dtype)
}

fn dequantized(l: &mut Lower<'_>, q: ValueId, grid: &Grid, dtype: DType) -> ValueId {
    let shape = l.shape(q);
    let axis = [("axis", int(grid.axis.unwrap_or(1) as i64))];
    let list: super::super::level::Attrs<'_> = if grid.axis.is_some() { &axis } else { &[] };
    l.emit_fact("DequantizeLinear", &[Some(q), Some(grid.scale), Some(grid.zero)], list, Fact::of(Some(dtype), shape))
}

/// Scale and zero point as 0-d values.
fn point(l: &mut Lower<'_>, scale: Number, zero: Number, dtype: DType, of: DType) -> Res<(ValueId, ValueId)> {
    let mut scalar = |dtype: DType, n: Number| -> Res<ValueId> {
        let v = l.scalar(dtype, n)?;
        Ok(if l.rank(v)? == 0 { v } else { l.reshape_to(v, &[]) })
    };
    Ok((scalar(of, scale)?, scalar(dtype, zero)?))
}

fn fake_per_tensor(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let out = c.out_dtype()?;
    let range = (c.int("quant_min")?, c.int("quant_max")?);
    let dtype = holder(range)?;
    let (scale, zero) = point(l, c.number("scale")?, c.number("zero_point")?, dtype, out)?;
    let grid = Grid { scale, zero, range, axis: None, dtype };
    let q = quantized(l, x, &grid)?;
    one(dequantized(l, q, &grid, out))
}

fn fake_per_channel(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    let out = c.out_dtype()?;
    let range = (c.int("quant_min")?, c.int("quant_max")?);
    let dtype = holder(range)?;
    let axis = l.axis(x, c.int("axis")?)?;
    let (scale, zero) = (c.tensor("scale")?, c.tensor("zero_point")?);
    let (scale, zero) = (l.cast(scale, out), l.cast(zero, dtype));
    let grid = Grid { scale, zero, range, axis: Some(axis), dtype };
    let q = quantized(l, x, &grid)?;
    one(dequantized(l, q, &grid, out))
}

/// Scale, zero point and range of a decomposed operator.
fn grid(l: &mut Lower<'_>, c: &Call<'_>, x: ValueId, per_channel: bool, real: DType) -> Res<Grid> {
    let dtype = c.dtype("dtype")?.ok_or("it names no integer type")?;
    let whole = range_of(dtype).ok_or_else(|| format!("it quantizes to {dtype}"))?;
    let bound = |name: &str, otherwise: i64| match c.number(name)? {
        Number::Int(n) => Ok(n),
        _ => Ok::<i64, String>(otherwise),
    };
    let range = (bound("quant_min", whole.0)?, bound("quant_max", whole.1)?);
    if !per_channel {
        let (scale, zero) = point(l, c.number("scale")?, c.number("zero_point")?, dtype, real)?;
        return Ok(Grid { scale, zero, range, axis: None, dtype });
    }
    let axis = l.axis(x, c.int("axis")?)?;
    let scale = c.tensor("scales")?;
    let scale = l.cast(scale, real);
    let zero = match c.opt_tensor("zero_points")? {
        Some(z) => l.cast(z, dtype),
        None => {
            let n = l.static_dim(scale, 0).and_then(|n| u64::try_from(n).ok()).ok_or("the number of its channels is not known")?;
            l.filled(dtype, &[n], 0.0)?
        }
    };
    Ok(Grid { scale, zero, range, axis: Some(axis), dtype })
}

fn quantize(l: &mut Lower<'_>, c: &Call<'_>, per_channel: bool) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("input")?;
    let real = l.dtype(x)?;
    let grid = grid(l, c, x, per_channel, real)?;
    one(quantized(l, x, &grid)?)
}

fn dequantize(l: &mut Lower<'_>, c: &Call<'_>, per_channel: bool) -> Res<Vec<Option<ValueId>>> {
    let q = c.tensor("input")?;
    let out = c.out_dtype()?;
    let grid = grid(l, c, q, per_channel, out)?;
    one(dequantized(l, q, &grid, out))
}
