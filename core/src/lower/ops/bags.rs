//! Positions that depend on data: sorted search, repetition by counts, bags of embeddings.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::{of_rank, text};
use super::super::walk::Lower;
use super::compare::promoted;
use super::indexing::gathered;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_embedding_bag", embedding_bag),
    ("_embedding_bag_forward_only", embedding_bag),
    ("bucketize", |l, c| {
        let (bounds, x) = (c.number("boundaries")?, c.number("self")?);
        one(search(l, bounds, x, c.flag("right")?, c.out_dtype()?)?)
    }),
    ("embedding_bag", embedding_bag),
    ("searchsorted", |l, c| {
        if c.opt_tensor("sorter")?.is_some() {
            return Err("it is given an order to sort by".to_owned());
        }
        let right = c.flag("right")? || c.text("side")?.as_deref() == Some("right");
        let (bounds, x) = (c.number("sorted_sequence")?, c.number("self")?);
        one(search(l, bounds, x, right, c.out_dtype()?)?)
    }),
];

/// How many bounds lie before each element: of equal ones, all if `right`.
fn search(l: &mut Lower<'_>, bounds: Number, x: Number, right: bool, out: DType) -> Res<ValueId> {
    let dtype = promoted(l, bounds, x)?;
    let (bounds, x) = (l.scalar(dtype, bounds)?, l.scalar(dtype, x)?);
    let rank = l.rank(x)?;
    let of = l.rank(bounds)?;
    if of > 1 && of != rank {
        return Err("its bounds have other axes than its input".to_owned());
    }
    let wide = l.unsqueeze(x, &[rank]);
    let bounds = if of > 1 { l.unsqueeze(bounds, &[of - 1]) } else { bounds };
    let before = l.zip(if right { "LessOrEqual" } else { "Less" }, bounds, wide, DType::Bool);
    let number = l.cast(before, DType::I64);
    let count = l.reduce("ReduceSum", number, &[rank], false, DType::I64);
    Ok(l.cast(count, out))
}

/// For each place of the result the element it repeats: places are counted off against running totals.
pub(super) fn repeated(l: &mut Lower<'_>, repeats: ValueId, size: Option<Size>) -> Res<ValueId> {
    let repeats = l.cast(repeats, DType::I64);
    let totals = l.running_sum(repeats, 0);
    let size = size.unwrap_or_else(|| Size::Value(l.reduce("ReduceSum", repeats, &[0], false, DType::I64)));
    let places = l.counted(size);
    search(l, Number::Value(totals), Number::Value(places), true, DType::I64)
}

/// Sums, means or maxima of embeddings that belong together: bags lie one after the other and begin at the offsets.
fn embedding_bag(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (weight, indices, offsets) = (c.tensor("weight")?, c.tensor("indices")?, c.tensor("offsets")?);
    let dtype = c.out_dtype()?;
    let padding = c.opt_int("padding_idx")?.filter(|&p| p >= 0);
    if padding.is_some() {
        return Err("it leaves out a padding index".to_owned());
    }
    let offsets = l.cast(offsets, DType::I64);
    let mut bags = l.size_of(offsets, 0);
    if c.flag("include_last_offset")? {
        bags = super::shape::sum(l, bags, Size::Known(-1));
    }
    let mut rows = gathered(l, weight, indices, 0)?;
    if let Some(w) = c.opt_tensor("per_sample_weights")? {
        let w = l.unsqueeze(w, &[1]);
        rows = l.zip("Mul", rows, w, dtype);
    }
    let count = l.size_of(indices, 0);
    let places = l.counted(count);
    let (zero, unit) = (l.size_value(Size::Known(0)), l.size_value(Size::Known(1)));
    let begun = search(l, Number::Value(offsets), Number::Value(places), true, DType::I64)?;
    let bag = l.zip("Sub", begun, unit, DType::I64);
    let at = l.unsqueeze(bag, &[1]);
    let width = l.size_of(weight, 1);
    let mode = c.int("mode")?;
    let start = l.number(dtype, if mode == 2 { f64::NEG_INFINITY } else { 0.0 })?;
    let empty = l.expand(start, &[bags, width]);
    let list = [("reduction", text(if mode == 2 { "max" } else { "add" }))];
    let out = Fact::of(Some(dtype), c.out(0).shape);
    let mut made = l.emit_fact("ScatterND", &[Some(empty), Some(at), Some(rows)], &list, out.clone());
    let sizes = l.emit("Shape", &[bag], &[], DType::I64);
    let ones = l.emit("Expand", &[unit, sizes], &[], DType::I64);
    let none = l.expand(zero, &[bags]);
    let counts = l.emit("ScatterND", &[none, at, ones], &[("reduction", text("add"))], DType::I64);
    let counts = l.emit_fact("Max", &[Some(counts), Some(unit)], &[], Fact::of(Some(DType::I64), of_rank(1)));
    if mode == 1 {
        let by = l.cast(counts, dtype);
        let by = l.unsqueeze(by, &[1]);
        made = l.emit_fact("Div", &[Some(made), Some(by)], &[], out);
    } else if mode == 2 {
        // Bags without an element are zeros.
        let zero = l.number(dtype, 0.0)?;
        let nothing = l.zip("Equal", made, start, DType::Bool);
        made = l.select(nothing, zero, made, dtype);
    }
    Ok(vec![Some(made), Some(bag)])
}
