//! Rules: one function per torch operator, by family.

mod arithmetic;
mod attention;
mod bags;
mod compare;
mod composites;
mod control_flow;
mod convolution;
mod creation;
mod indexing;
mod joining;
mod linear;
mod norm;
mod pointwise;
mod pool;
mod quantized;
mod recurrent;
mod reduction;
mod resize;
mod scatter;
mod shape;
mod symbols;
mod types;
mod vision;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::call::{Call, Res};
use super::walk::Lower;
use crate::dtype::DType;
use crate::graph::{Dialect, Op, ValueId, out_of_place};

/// What an operator becomes: a value for each of its results, `None` for those that have no ONNX form.
pub(super) type Rule = fn(&mut Lower<'_>, &Call<'_>) -> Res<Vec<Option<ValueId>>>;

/// Rules by name: without a namespace those of `aten`, else `namespace.name`.
type Table = &'static [(&'static str, Rule)];

const TABLES: &[Table] = &[
    arithmetic::TABLE,
    attention::TABLE,
    bags::TABLE,
    compare::TABLE,
    composites::TABLE,
    control_flow::TABLE,
    convolution::TABLE,
    creation::TABLE,
    indexing::TABLE,
    joining::TABLE,
    linear::TABLE,
    norm::TABLE,
    pointwise::TABLE,
    pool::TABLE,
    quantized::TABLE,
    recurrent::TABLE,
    reduction::TABLE,
    resize::TABLE,
    scatter::TABLE,
    shape::TABLE,
    symbols::TABLE,
    types::TABLE,
    vision::TABLE,
];

static RULES: LazyLock<HashMap<&'static str, Rule>> = LazyLock::new(|| TABLES.iter().flat_map(|t| t.iter().copied()).collect());

/// The rule for an operator; an in-place form has that of the plain one, since graphs are functional here.
pub(super) fn rule(op: &Op) -> Option<Rule> {
    if op.dialect != Dialect::Aten {
        return None;
    }
    if &*op.domain == "aten" {
        return RULES.get(&*op.name).or_else(|| RULES.get(out_of_place(&op.name)?)).copied();
    }
    RULES.get(format!("{}.{}", op.domain, op.name).as_str()).copied()
}

/// One result.
fn one(v: ValueId) -> Res<Vec<Option<ValueId>>> {
    Ok(vec![Some(v)])
}

/// An operand in the type of the result (integers become floats where torch says so), and that type.
fn operand(l: &mut Lower<'_>, c: &Call<'_>, name: &str) -> Res<(ValueId, DType)> {
    let (x, dtype) = (c.tensor(name)?, c.out_dtype()?);
    Ok((l.cast(x, dtype), dtype))
}

/// The refusal of what only makes sense while a model learns.
fn in_training<T>(what: &str) -> Res<T> {
    Err(format!("it {what} (the model was exported in training mode)"))
}

/// Nothing is left to compute, and nothing is given.
fn dropped(_: &mut Lower<'_>, _: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_two_rules() {
        let mut seen = std::collections::HashSet::new();
        for (name, _) in TABLES.iter().flat_map(|t| t.iter()) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
