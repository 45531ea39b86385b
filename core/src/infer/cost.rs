//! Parameters, floating-point operations and bytes of a node, as expressions over symbolic dimensions.

mod torch;

use crate::expr::Expr;
use crate::graph::{Dialect, Graph, Node, NodeId, ValueId, ValueType};
use crate::model::Model;
use crate::shape::Dim;

/// Cost of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Stored elements the node reads (each initializer once).
    pub params: u64,
    /// Floating-point operations, a multiply-add counting as two; `None` if a needed shape is unknown.
    pub flops: Option<Expr>,
    /// Bytes read (inputs, weights) and written (outputs), each value once; `None` if a shape is unknown.
    pub bytes: Option<Expr>,
}

/// Cost of `node` of the main graph. Control flow counts its bodies once (`If`: the costlier branch where both are
/// numbers, else the first).
#[must_use]
pub fn node_cost(model: &Model, node: NodeId) -> Cost {
    cost(&model.graph, node)
}

/// Cost of a node of any level.
#[must_use]
pub fn cost(graph: &Graph, id: NodeId) -> Cost {
    let node = graph.node(id);
    let mut values: Vec<ValueId> = node.reads().chain(node.outputs.iter().flatten().copied()).collect();
    values.sort_unstable();
    values.dedup();
    let params = values.iter().filter_map(|&v| graph.value(v).weight()).fold(0u64, |n, w| n.saturating_add(w.elements()));
    let bytes = values.iter().try_fold(Expr::constant(0), |sum, &v| Some(sum + value_bytes(graph, v)?));
    if node.bodies.is_empty() {
        return Cost { params, flops: flops(graph, node), bytes };
    }
    let bodies: Vec<Cost> = node.bodies.iter().map(|b| total(&b.graph)).collect();
    let params = bodies.iter().fold(params, |n, b| n.saturating_add(b.params));
    let number = |c: &Cost| c.flops.as_ref().and_then(Expr::as_const);
    let costliest = bodies.iter().reduce(|a, b| if number(b) > number(a) { b } else { a });
    Cost { params, flops: costliest.and_then(|c| c.flops.clone()), bytes }
}

/// Sum over all nodes of a graph.
#[must_use]
pub fn total(graph: &Graph) -> Cost {
    let mut sum = Cost { params: 0, flops: Some(Expr::constant(0)), bytes: Some(Expr::constant(0)) };
    for id in graph.node_ids() {
        let c = cost(graph, id);
        sum.params = sum.params.saturating_add(c.params);
        sum.flops = sum.flops.zip(c.flops).map(|(a, b)| a + b);
        sum.bytes = sum.bytes.zip(c.bytes).map(|(a, b)| a + b);
    }
    sum
}

/// Bytes of a value, in its stored width; `None` if its shape or type is unknown. A number outside tensors has none.
#[must_use]
pub fn value_bytes(graph: &Graph, value: ValueId) -> Option<Expr> {
    let v = graph.value(value);
    if v.ty == ValueType::Scalar {
        return Some(Expr::constant(0));
    }
    let bits = i64::from(v.dtype?.bits());
    let elements = v.shape.elements()?;
    Some((elements * Expr::constant(bits)).ceil_div(&Expr::constant(8)))
}

/// Operations per output element of operators that are evaluated by a polynomial or a division: an estimate in the
/// order of what vector libraries take, so that element-wise nodes do not count as free.
const COSTLY: &[(&str, i64)] = &[
    ("Erf", 10),
    ("Exp", 10),
    ("Gelu", 14),
    ("Log", 10),
    ("Mish", 24),
    ("Pow", 20),
    ("Sigmoid", 12),
    ("Softplus", 20),
    ("Sqrt", 4),
    ("Swish", 13),
    ("Tanh", 12),
    ("Sin", 10),
    ("Cos", 10),
];

/// Operations per output element of all other operators.
const COSTLY_DEFAULT: i64 = 1;

/// Operators that move data and compute nothing.
const MOVES: &[&str] = &[
    "Cast",
    "CastLike",
    "Compress",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "DepthToSpace",
    "Dropout",
    "Expand",
    "EyeLike",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "NonZero",
    "OneHot",
    "Pad",
    "Range",
    "Reshape",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
];

fn flops(graph: &Graph, node: &Node) -> Option<Expr> {
    let shape = |v: Option<ValueId>| v.and_then(|v| graph.value(v).shape.elements());
    let dims = |i: usize| node.input(i).and_then(|v| graph.value(v).shape.dims());
    let output = || shape(node.outputs.first().copied().flatten());
    if node.op.dialect == Dialect::Aten {
        return torch::flops(graph, node);
    }
    if !node.op.domain.is_empty() {
        return None;
    }
    match &*node.op.name {
        op if MOVES.binary_search(&op).is_ok() => Some(Expr::constant(0)),
        "Conv" | "ConvInteger" => Some(two(output()? * pairs(dims(1)?)?)),
        "QLinearConv" => Some(two(output()? * pairs(dims(3)?)?)),
        // Every input element meets every weight of its group once.
        "ConvTranspose" => Some(two(shape(node.input(0))? * pairs(dims(1)?)?)),
        "MatMul" | "MatMulInteger" => Some(two(output()? * dims(0)?.last()?.to_expr()?)),
        "QLinearMatMul" => Some(two(output()? * dims(0)?.last()?.to_expr()?)),
        "Gemm" => {
            let k = dims(0)?.get(usize::from(node.int("transA").unwrap_or(0) == 0))?.to_expr()?;
            Some(two(output()? * k))
        }
        "LSTM" | "GRU" | "RNN" => {
            // Each position and batch entry meets all of W and R.
            let steps = dims(0)?.first()?.to_expr()? * dims(0)?.get(1)?.to_expr()?;
            Some(two(steps * (shape(node.input(1))? + shape(node.input(2))?)))
        }
        "AveragePool" | "MaxPool" | "LpPool" => {
            let window: i64 = node.ints("kernel_shape")?.iter().try_fold(1i64, |a, &k| a.checked_mul(k))?;
            Some(output()? * Expr::constant(window))
        }
        "Softmax" | "LogSoftmax" => Some(output()? * Expr::constant(13)),
        "LayerNormalization" | "BatchNormalization" | "InstanceNormalization" | "GroupNormalization" | "RMSNormalization" => {
            Some(output()? * Expr::constant(if &*node.op.name == "BatchNormalization" { 2 } else { 8 }))
        }
        op if op.starts_with("Reduce") || op.starts_with("Global") || op.starts_with("Arg") => shape(node.input(0)),
        "Sum" | "Max" | "Min" | "Mean" => Some(output()? * Expr::constant(i64::try_from(node.inputs.len()).ok()?.max(2) - 1)),
        "Attention" => {
            // Two products over all pairs of positions.
            let (q, k, v) = (dims(0)?, dims(1)?, dims(2)?);
            let positions = |d: &[Dim]| d.get(d.len().checked_sub(2)?)?.to_expr();
            Some(two(shape(node.input(0))? * positions(k)? + output()? * positions(v)?)).filter(|_| q.len() >= 3)
        }
        "Einsum" => {
            let operands: Option<Vec<&[Dim]>> = (0..node.inputs.len()).map(dims).collect();
            einsum(node.text("equation")?, &operands?)
        }
        op => {
            let factor = COSTLY.iter().find(|(o, _)| *o == op).map_or(COSTLY_DEFAULT, |(_, n)| *n);
            Some(output()? * Expr::constant(factor))
        }
    }
}

/// A multiplication and an addition for each of these.
fn two(e: Expr) -> Expr {
    e * Expr::constant(2)
}

/// Operations of a sum of products over all letters of the equation; of one operand each element is looked at once.
/// `None` where an ellipsis hides axes, or equation and operands do not agree.
fn einsum(equation: &str, operands: &[&[Dim]]) -> Option<Expr> {
    let left: String = equation.split("->").next()?.chars().filter(|c| !c.is_whitespace()).collect();
    let mut sizes: Vec<(char, Expr)> = Vec::new();
    let mut terms = left.split(',');
    for dims in operands {
        let letters = terms.next().filter(|t| t.chars().count() == dims.len() && !t.contains('.'))?;
        for (letter, dim) in letters.chars().zip(*dims) {
            if !sizes.iter().any(|(l, _)| *l == letter) {
                sizes.push((letter, dim.to_expr()?));
            }
        }
    }
    let all = sizes.into_iter().fold(Expr::constant(1), |p, (_, size)| p * size);
    Some(all * Expr::constant(i64::try_from(operands.len()).ok()?))
}

/// Multiply-adds of a convolution with this weight for one output element, of a transposed one for one input element:
/// all axes but the first.
fn pairs(weight: &[Dim]) -> Option<Expr> {
    weight.iter().skip(1).try_fold(Expr::constant(1), |p, d| Some(p * d.to_expr()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn searched_tables_are_sorted() {
        assert!(MOVES.is_sorted());
    }

    #[test]
    fn a_sum_of_products_counts_its_letters() {
        let (a, b) = (Shape::known(&[2, 3, 4]), Shape::known(&[2, 4, 5]));
        let count = |equation: &str, shapes: &[&Shape]| {
            let dims: Vec<&[Dim]> = shapes.iter().map(|s| s.dims().unwrap()).collect();
            einsum(equation, &dims).and_then(|e| e.as_const())
        };
        assert_eq!(count("bik, bkj -> bij", &[&a, &b]), Some(2 * 2 * 3 * 4 * 5));
        assert_eq!(count("bik->bki", &[&a]), Some(24));
        assert_eq!(count("...k,bkj->...j", &[&a, &b]), None);
        assert_eq!(count("bik,bkj->bij", &[&a, &a, &b]), None);
    }
}
