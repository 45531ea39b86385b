//! Which rule an operator has, and what the rules share.

use super::fact::{Fact, Int, MAX_INTS};
use super::{Facts, data_movement, elementwise, linear, spatial};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{AttrValue, Dialect, Node};
use crate::shape::{Dim, Shape};
use crate::weights::WeightRef;

/// What a node gives, by output position; `None` where nothing is known.
pub(super) type Found = Vec<Option<Fact>>;

/// Facts of all outputs of a node without bodies.
pub(super) fn outputs(f: &mut Facts<'_>, node: &Node, opset: i64) -> Found {
    let standard = node.op.domain.is_empty() || &*node.op.domain == "com.microsoft";
    if node.op.dialect != Dialect::Onnx || !standard {
        return Vec::new();
    }
    elementwise::outputs(f, node)
        .or_else(|| data_movement::outputs(f, node, opset))
        .or_else(|| linear::outputs(f, node))
        .or_else(|| spatial::outputs(f, node, opset))
        .unwrap_or_default()
}

/// One output.
pub(super) fn one(dtype: Option<DType>, shape: Shape) -> Option<Found> {
    Some(vec![Some(Fact::new(dtype, shape))])
}

/// `axis` in `-rank..rank` as an index.
pub(super) fn axis(axis: i64, rank: usize) -> Option<usize> {
    let r = i64::try_from(rank).ok()?;
    let a = if axis < 0 { axis.checked_add(r)? } else { axis };
    (0..r).contains(&a).then_some(a as usize)
}

/// The elements of a small stored integer tensor of rank 0 or 1.
pub(super) fn stored_ints(w: &WeightRef) -> Option<Vec<Int>> {
    if w.shape.len() > 1 || w.elements() > MAX_INTS as u64 || !matches!(w.dtype, DType::I64 | DType::I32) {
        return None;
    }
    let bytes = w.read().ok()?;
    let ints: Vec<i64> = match w.dtype {
        DType::I64 => bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect(),
    };
    (ints.len() as u64 == w.elements()).then(|| ints.into_iter().map(|i| Some(Expr::constant(i))).collect())
}

/// The fact of a `Constant` node.
pub(super) fn constant(node: &Node) -> Option<Fact> {
    let vector = |n: usize| Shape::known(&[n as u64]);
    for a in &node.attrs {
        return Some(match (&*a.name, &a.value) {
            ("value", AttrValue::Tensor(w)) => Fact { dtype: Some(w.dtype), shape: Shape::known(&w.shape), ints: stored_ints(w) },
            ("sparse_value", AttrValue::Tensor(w)) => Fact::new(Some(w.dtype), Shape::known(&w.shape)),
            ("value_float", _) => Fact::new(Some(DType::F32), Shape::known(&[])),
            ("value_floats", AttrValue::Floats(v)) => Fact::new(Some(DType::F32), vector(v.len())),
            ("value_int", AttrValue::Int(i)) => {
                Fact { dtype: Some(DType::I64), shape: Shape::known(&[]), ints: Some(vec![Some(Expr::constant(*i))]) }
            }
            ("value_ints", AttrValue::Ints(v)) => Fact {
                dtype: Some(DType::I64),
                shape: vector(v.len()),
                ints: (v.len() <= MAX_INTS).then(|| v.iter().map(|&i| Some(Expr::constant(i))).collect()),
            },
            ("value_string", _) => Fact::new(Some(DType::String), Shape::known(&[])),
            ("value_strings", AttrValue::ByteStrings(v)) => Fact::new(Some(DType::String), vector(v.len())),
            _ => continue,
        });
    }
    None
}

/// Element type that an attribute names by its ONNX number.
pub(super) fn dtype_attr(node: &Node, name: &str) -> Option<DType> {
    DType::from_onnx(i32::try_from(node.int(name)?).ok()?)
}

/// Shape that a list of integers stands for, as an operator's shape input.
pub(super) fn shape_of(ints: &[Int]) -> Shape {
    Shape::new(ints.iter().map(super::fact::int_to_dim).collect::<Vec<_>>())
}

/// A shape of `rank` unknown dimensions.
pub(super) fn unknown_of_rank(rank: usize) -> Shape {
    Shape::new(vec![Dim::Unknown; rank])
}

/// `a op b` on dimensions; unknown if one is.
pub(super) fn dim_op(a: &Dim, b: &Dim, op: impl Fn(Expr, Expr) -> Expr) -> Dim {
    match (a.to_expr(), b.to_expr()) {
        (Some(a), Some(b)) => Dim::from_expr(op(a, b)),
        _ => Dim::Unknown,
    }
}
