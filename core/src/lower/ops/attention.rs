//! Attention, as its products and softmax.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::int;
use super::super::walk::Lower;
use super::linear::matmul;
use super::shape::swapped;
use super::{Table, in_training, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_scaled_dot_product_cudnn_attention", |l, c| sdpa(l, c, "attn_bias")),
    ("_scaled_dot_product_efficient_attention", |l, c| sdpa(l, c, "attn_bias")),
    ("_scaled_dot_product_flash_attention", |l, c| sdpa(l, c, "attn_mask")),
    ("_scaled_dot_product_flash_attention_for_cpu", |l, c| sdpa(l, c, "attn_mask")),
    ("scaled_dot_product_attention", |l, c| sdpa(l, c, "attn_mask")),
];

/// `softmax(q · kᵀ · scale + mask) · v`, each of `[…, heads, positions, size]`.
fn sdpa(l: &mut Lower<'_>, c: &Call<'_>, mask_name: &str) -> Res<Vec<Option<ValueId>>> {
    if c.has("dropout_p") && c.float("dropout_p")? != 0.0 {
        return in_training("drops elements at random");
    }
    let (q, mut k, mut v) = (c.tensor("query")?, c.tensor("key")?, c.tensor("value")?);
    let dtype = c.out_dtype()?;
    let rank = l.rank(q)?;
    if rank < 2 {
        return Err("its query has no positions".to_owned());
    }
    if c.has("enable_gqa") && c.flag("enable_gqa")? {
        (k, v) = (repeat_heads(l, q, k)?, repeat_heads(l, q, v)?);
    }
    let size = l.static_dim(q, rank - 1).ok_or("the size of a head is not known")?;
    let scale = match if c.has("scale") { c.opt_float("scale")? } else { None } {
        Some(scale) => scale,
        None => 1.0 / (size as f64).sqrt(),
    };
    // Both factors are scaled by the root, as torch does: halves do not overflow.
    let root = l.number(dtype, scale.abs().sqrt())?;
    let mut q = l.zip("Mul", q, root, dtype);
    if scale < 0.0 {
        q = l.map("Neg", q, dtype);
    }
    let k = swapped(l, k, -1, -2)?;
    let k = l.zip("Mul", k, root, dtype);
    let mut scores = matmul(l, q, k, dtype);
    let mask = if c.has(mask_name) { c.opt_tensor(mask_name)? } else { None };
    let mut may_be_empty = false;
    if let Some(mask) = mask {
        may_be_empty = l.dtype(mask)? == DType::Bool;
        let bias = if may_be_empty { never_unless(l, mask, dtype)? } else { l.cast(mask, dtype) };
        scores = l.zip("Add", scores, bias, dtype);
    }
    if c.has("is_causal") && c.flag("is_causal")? {
        let (rows, columns) = (l.size_of(scores, rank - 2), l.size_of(scores, rank - 1));
        let yes = l.scalar(DType::Bool, super::super::call::Number::Bool(true))?;
        let all = l.expand(yes, &[rows, columns]);
        let lower = l.emit("Trilu", &[all], &[("upper", int(0))], DType::Bool);
        let bias = never_unless(l, lower, dtype)?;
        scores = l.zip("Add", scores, bias, dtype);
    }
    let shape = l.shape(scores);
    let mut weights = l.emit_fact("Softmax", &[Some(scores)], &[("axis", int(-1))], Fact::of(Some(dtype), shape));
    if may_be_empty {
        // A position that may look at nothing gets zeros.
        let nan = l.map("IsNaN", weights, DType::Bool);
        let zero = l.number(dtype, 0.0)?;
        weights = l.select(nan, zero, weights, dtype);
    }
    let made = matmul(l, weights, v, dtype);
    one(made)
}

/// Nothing to add where a mask holds, minus infinity elsewhere.
fn never_unless(l: &mut Lower<'_>, mask: ValueId, dtype: DType) -> Res<ValueId> {
    let (zero, never) = (l.number(dtype, 0.0)?, l.number(dtype, f64::NEG_INFINITY)?);
    Ok(l.select(mask, zero, never, dtype))
}

/// Fewer heads of keys and values than of queries: each serves several that follow each other.
fn repeat_heads(l: &mut Lower<'_>, q: ValueId, x: ValueId) -> Res<ValueId> {
    let rank = l.rank(q)?;
    let axis = rank.checked_sub(3).ok_or("its inputs have no heads")?;
    let (Some(wanted), Some(given)) = (l.static_dim(q, axis), l.static_dim(x, axis)) else {
        return Err("the number of its heads is not known".to_owned());
    };
    if wanted == given {
        return Ok(x);
    }
    if given == 0 || wanted % given != 0 {
        return Err(format!("{wanted} heads do not divide among {given}"));
    }
    let mut sizes = l.sizes_of(x)?;
    let wide = l.unsqueeze(x, &[axis + 1]);
    let mut to = sizes.clone();
    to.insert(axis + 1, Size::Known(wanted / given));
    let wide = l.expand(wide, &to);
    sizes[axis] = Size::Known(wanted);
    Ok(l.reshape(wide, &sizes))
}
