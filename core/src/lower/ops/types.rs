//! Element types and copies; what does nothing in inference.

use super::super::call::{Arg, Call, Number, Res};
use super::super::walk::Lower;
use super::{Table, dropped, in_training, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_assert_async", dropped),
    ("_assert_scalar", dropped),
    ("_assert_tensor_metadata", dropped),
    ("_autocast_to_full_precision", |_, c| one(c.tensor("self")?)),
    ("_autocast_to_reduced_precision", convert),
    ("_conj", |_, c| one(c.tensor("self")?)),
    ("_functional_assert_async", |_, c| one(c.tensor("dep_token")?)),
    ("_functional_assert_scalar", |_, c| one(c.tensor("dep_token")?)),
    ("_make_dep_token", |l, _| one(l.i64s(&[0]))),
    ("_to_copy", convert),
    ("_unsafe_masked_index", |_, _| Err("masked indexing has no ONNX form".to_owned())),
    ("alias", same),
    ("alias_copy", same),
    ("alpha_dropout", dropout),
    ("clone", same),
    ("conj", same),
    ("contiguous", same),
    ("copy", copy),
    ("detach", same),
    ("detach_copy", same),
    ("dropout", dropout),
    ("feature_alpha_dropout", dropout),
    ("feature_dropout", dropout),
    ("lift", same),
    ("lift_fresh", same),
    ("lift_fresh_copy", same),
    ("native_dropout", native_dropout),
    ("resolve_conj", same),
    ("resolve_neg", same),
    ("sym_constrain_range", dropped),
    ("sym_constrain_range_for_size", dropped),
    ("to", convert),
    ("type_as", convert),
];

/// The value as it is: copies and memory formats mean nothing to a functional graph.
fn same(_: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    one(c.tensor("self")?)
}

/// The input in the type of the result. Floats become integers by truncation in both worlds, booleans by comparison with 0.
fn convert(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let x = c.tensor("self")?;
    one(l.cast(x, c.out_dtype()?))
}

fn copy(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (to, from) = (c.tensor("self")?, c.tensor("src")?);
    let from = l.cast(from, c.out_dtype()?);
    if l.shape(to) == l.shape(from) && l.shape(to).is_static() {
        return one(from);
    }
    let sizes = l.sizes_of(to)?;
    one(l.expand(from, &sizes))
}

fn dropout(_: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if c.flag("train")? && c.float("p")? > 0.0 {
        return in_training("drops elements at random");
    }
    // The in-place form calls its input otherwise.
    one(c.tensor(if c.has("input") { "input" } else { "self" })?)
}

fn native_dropout(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let trains = !matches!(c.arg("train")?, Arg::None) && c.flag("train")?;
    if trains && c.float("p")? > 0.0 {
        return in_training("drops elements at random");
    }
    let x = c.tensor("input")?;
    let sizes = l.sizes_of(x)?;
    let yes = l.scalar(DType::Bool, Number::Bool(true))?;
    let mask = l.expand(yes, &sizes);
    Ok(vec![Some(x), Some(mask)])
}
