//! Rules of operators that work element by element or keep their input's shape.

use super::Facts;
use super::fact::{Fact, Int, broadcast};
use super::rules::{Found, axis, dtype_attr, one};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::Node;
use crate::shape::{Dim, Shape};

/// Shape and type of the first input.
const SAME: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumSum",
    "CumProd",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "LRN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "PRelu",
    "QuickGelu",
    "FastGelu",
    "BiasGelu",
    "RMSNormalization",
    "Reciprocal",
    "Relu",
    "RotaryEmbedding",
    "Round",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "TensorScatter",
    "ThresholdedRelu",
    "Trilu",
    "ReverseSequence",
    "BitwiseNot",
    "Bernoulli",
    "OptionalGetElement",
    "SimplifiedLayerNormalization",
];
/// Broadcast of the inputs, type of the first.
const BROADCAST: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Xor",
];
/// Broadcast of the inputs, boolean.
const COMPARE: &[&str] = &["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
/// Shape of the input, boolean.
const TEST: &[&str] = &["IsInf", "IsNaN", "Not"];

pub(super) fn outputs(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let op = &*node.op.name;
    if BROADCAST.binary_search(&op).is_ok() {
        let dtype = f.input(node, 0)?.dtype;
        let shape = broadcast_inputs(f, node, 0..node.inputs.len());
        let ints = arithmetic(f, node, op);
        return Some(vec![Some(Fact { dtype, shape, ints })]);
    }
    if SAME.contains(&op) {
        let mut fact = f.input(node, 0)?.clone();
        if op != "Identity" {
            fact.ints = None;
        }
        return Some(vec![Some(fact)]);
    }
    if COMPARE.contains(&op) {
        let shape = broadcast_inputs(f, node, 0..2);
        return one(Some(DType::Bool), shape);
    }
    if TEST.contains(&op) {
        return one(Some(DType::Bool), f.input(node, 0)?.shape.clone());
    }
    match op {
        "Where" => {
            let dtype = f.input(node, 1)?.dtype.or(f.input(node, 2).and_then(|x| x.dtype));
            let shape = broadcast_inputs(f, node, 0..3);
            one(dtype, shape)
        }
        "Cast" => {
            let dtype = dtype_attr(node, "to");
            let ints = f.ints(node, 0).filter(|_| matches!(dtype, Some(DType::I64 | DType::I32)));
            Some(vec![Some(Fact { dtype, shape: f.input(node, 0)?.shape.clone(), ints })])
        }
        "CastLike" => {
            let dtype = f.input(node, 1)?.dtype;
            one(dtype, f.input(node, 0)?.shape.clone())
        }
        "BitCast" => one(dtype_attr(node, "to"), f.input(node, 0)?.shape.clone()),
        "Dropout" => {
            let x = f.input(node, 0)?.clone();
            let mask = Fact::new(Some(DType::Bool), x.shape.clone());
            Some(vec![Some(x), Some(mask)])
        }
        "BatchNormalization" => Some(vec![Some(f.input(node, 0)?.clone())]),
        "LayerNormalization" | "SkipLayerNormalization" => {
            let x = f.input(node, 0)?.clone();
            let stats = x.dims().and_then(|d| {
                let from = axis(node.int("axis").unwrap_or(-1), d.len())?;
                Some(Shape::new(d.iter().enumerate().map(|(i, d)| if i >= from { Dim::Known(1) } else { d.clone() }).collect::<Vec<_>>()))
            });
            let stats = Fact::new(Some(DType::F32), stats.unwrap_or_default());
            Some(vec![Some(x), Some(stats.clone()), Some(stats)])
        }
        "QuantizeLinear" => {
            let zero_point = f.input(node, 2).and_then(|z| z.dtype);
            let dtype = zero_point.or_else(|| dtype_attr(node, "output_dtype")).or(Some(DType::U8));
            one(dtype, f.input(node, 0)?.shape.clone())
        }
        "DequantizeLinear" => {
            let dtype = dtype_attr(node, "output_dtype").or(f.input(node, 1)?.dtype);
            one(dtype, f.input(node, 0)?.shape.clone())
        }
        "DynamicQuantizeLinear" => {
            let shape = f.input(node, 0)?.shape.clone();
            let scalar = |d| Some(Fact::new(Some(d), Shape::known(&[])));
            Some(vec![Some(Fact::new(Some(DType::U8), shape)), scalar(DType::F32), scalar(DType::U8)])
        }
        "RandomNormalLike" | "RandomUniformLike" => {
            let x = f.input(node, 0)?.clone();
            one(dtype_attr(node, "dtype").or(x.dtype), x.shape)
        }
        "RandomNormal" | "RandomUniform" => {
            let dims: Option<Vec<u64>> = node.ints("shape")?.iter().map(|&d| u64::try_from(d).ok()).collect();
            one(dtype_attr(node, "dtype").or(Some(DType::F32)), Shape::known(&dims?))
        }
        _ => None,
    }
}

fn broadcast_inputs(f: &Facts<'_>, node: &Node, range: std::ops::Range<usize>) -> Shape {
    let shapes = range.filter_map(|i| node.input(i)).map(|v| &f.facts[v.index()].shape);
    // Shapes that cannot be broadcast are the run's error: there the sizes are real.
    broadcast(shapes).unwrap_or_default()
}

/// Integer arithmetic on followed elements, as shape computations do it.
fn arithmetic(f: &mut Facts<'_>, node: &Node, op: &str) -> Option<Vec<Int>> {
    if node.inputs.len() != 2 || !matches!(op, "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Mod") {
        return None;
    }
    // Both sides must be followed, else every float Add would look its weights up.
    let is_int = |f: &mut Facts<'_>, i| matches!(f.input(node, i).and_then(|x| x.dtype), Some(DType::I64 | DType::I32));
    if !is_int(f, 0) || !is_int(f, 1) {
        return None;
    }
    let (a, b) = (f.ints(node, 0)?, f.ints(node, 1)?);
    let len = if a.len() == b.len() || b.len() == 1 {
        a.len()
    } else if a.len() == 1 {
        b.len()
    } else {
        return None;
    };
    let pick = |v: &[Int], i: usize| if v.len() == 1 { v[0].clone() } else { v[i].clone() };
    Some(
        (0..len)
            .map(|i| {
                let (a, b) = (pick(&a, i)?, pick(&b, i)?);
                let positive = b.as_const().is_none_or(|b| b > 0);
                match op {
                    "Add" => Some(a + b),
                    "Sub" => Some(a - b),
                    "Mul" => Some(a * b),
                    "Min" => Some(a.minimum(&b)),
                    "Max" => Some(a.maximum(&b)),
                    // Sizes are not negative, so truncation is the floor.
                    "Div" if positive && a.as_const().is_none_or(|a| a >= 0) => Some(a.floor_div(&b)),
                    "Mod" if positive && a.as_const().is_none_or(|a| a >= 0) => Some(a.modulo(&b)),
                    _ => None,
                }
                .filter(|e: &Expr| !e.is_overflow())
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_are_sorted_where_they_are_searched() {
        assert!(super::BROADCAST.is_sorted());
    }
}
