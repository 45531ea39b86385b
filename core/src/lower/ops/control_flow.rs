//! Branches and loops. The graphs of a torch call take everything as inputs; bodies of ONNX read what is around them.

use super::super::call::{Arg, Call, Res, as_number};
use super::super::level::Fact;
use super::super::values::int;
use super::super::walk::Lower;
use super::Table;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId, ValueType};
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("higher_order.cond", cond),
    ("higher_order.map_impl", map_impl),
    ("higher_order.scan", scan),
    ("higher_order.while_loop", while_loop),
];

/// A nested graph, and the position of its first node among all nodes inside the call.
fn nested<'c>(c: &'c Call<'_>, arg: Option<&Arg>) -> Res<(&'c Graph, u32)> {
    let Some(&Arg::Body(at)) = arg else { return Err("an argument is no graph".to_owned()) };
    let body = c.node.bodies.get(at).ok_or("a graph is missing")?;
    let before: usize = c.node.bodies.iter().take(at).map(|b| b.graph.total_nodes()).sum();
    Ok((&body.graph, u32::try_from(before).map_err(|_| "it holds too many nodes")?))
}

/// A list of operands as values; numbers become constants.
fn operands(l: &mut Lower<'_>, arg: Option<&Arg>) -> Res<Vec<ValueId>> {
    let items = match arg {
        Some(Arg::List(items)) => items.as_slice(),
        None => &[],
        Some(_) => return Err("its operands are no list".to_owned()),
    };
    items.iter().map(|a| operand(l, a)).collect()
}

fn operand(l: &mut Lower<'_>, arg: &Arg) -> Res<ValueId> {
    let n = as_number(arg).ok_or("an operand is no value")?;
    let dtype = match n {
        super::super::call::Number::Value(v) => return Ok(v),
        super::super::call::Number::Bool(_) => DType::Bool,
        super::super::call::Number::Int(_) => DType::I64,
        super::super::call::Number::Float(_) => DType::F64,
    };
    l.scalar(dtype, n)
}

/// All captures of several bodies, each once.
fn joined(lists: &[Vec<ValueId>]) -> Vec<ValueId> {
    let mut all: Vec<ValueId> = Vec::new();
    for v in lists.iter().flatten() {
        if !all.contains(v) {
            all.push(*v);
        }
    }
    all
}

fn captured(l: &mut Lower<'_>, values: &[ValueId]) -> Res<Vec<ValueId>> {
    values.iter().map(|&v| l.capture(v)).collect()
}

fn cond(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let args: Vec<&Arg> = c.positional().collect();
    let condition = operand(l, args.first().ok_or("it has no condition")?)?;
    let condition = l.cast(condition, DType::Bool);
    let inputs = operands(l, args.get(3).copied())?;
    let mut bodies = Vec::new();
    let mut captures = Vec::new();
    for (attr, at) in [("then_branch", 1), ("else_branch", 2)] {
        let (graph, start) = nested(c, args.get(at).copied())?;
        let (body, reads) = l.body(attr, &mut |inner| {
            let inputs = captured(inner, &inputs)?;
            inner.read_in(graph, &inputs, start)
        })?;
        bodies.push(body);
        captures.push(reads);
    }
    Ok(l.emit_with("If", &[Some(condition)], &[], bodies, joined(&captures), c.outputs()))
}

/// Inputs of a body that stand for these values of the graph.
fn body_inputs(inner: &mut Lower<'_>, graph: &Graph, range: std::ops::Range<usize>) -> Vec<ValueId> {
    let values: Vec<(String, Fact)> = graph
        .inputs()
        .get(range)
        .unwrap_or_default()
        .iter()
        .map(|&v| {
            let v = graph.value(v);
            let dtype = v.dtype.or((v.ty == ValueType::Scalar).then_some(DType::I64));
            (v.name.to_string(), Fact::of(dtype, v.shape.clone()))
        })
        .collect();
    values.into_iter().map(|(name, fact)| inner.level.input(&name, ValueType::Tensor, fact, None)).collect()
}

/// ONNX asks for the condition before the loop and after each turn.
fn while_loop(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let args: Vec<&Arg> = c.positional().collect();
    let (test, test_at) = nested(c, args.first().copied())?;
    let (step, step_at) = nested(c, args.get(1).copied())?;
    let carried = operands(l, args.get(2).copied())?;
    let extra = operands(l, args.get(3).copied())?;
    let all: Vec<ValueId> = carried.iter().chain(&extra).copied().collect();
    let first = l.inline(test, &all)?;
    let &[condition] = &first[..] else { return Err("its condition is not one value".to_owned()) };
    let condition = l.cast(condition, DType::Bool);
    let count = carried.len();
    let (body, captures) = l.body("body", &mut |inner| {
        inner.level.input("iteration", ValueType::Tensor, Fact::of(Some(DType::I64), Shape::known(&[])), None);
        inner.level.input("condition", ValueType::Tensor, Fact::of(Some(DType::Bool), Shape::known(&[])), None);
        let mut inputs = body_inputs(inner, step, 0..count);
        let extra = captured(inner, &extra)?;
        inputs.extend(&extra);
        let mut next = inner.read_in(step, &inputs, step_at)?;
        if next.len() != count {
            return Err(format!("its body gives {} values for {count}", next.len()));
        }
        let again: Vec<ValueId> = next.iter().chain(&extra).copied().collect();
        let goes_on = inner.read_in(test, &again, test_at)?;
        let &[goes_on] = &goes_on[..] else { return Err("its condition is not one value".to_owned()) };
        let goes_on = inner.cast(goes_on, DType::Bool);
        next.insert(0, goes_on);
        Ok(next)
    })?;
    let mut inputs = vec![None, Some(condition)];
    inputs.extend(carried.into_iter().map(Some));
    Ok(l.emit_with("Loop", &inputs, &[], vec![body], captures, c.outputs()))
}

fn scan(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let args: Vec<&Arg> = c.positional().collect();
    let graph = args.first().copied();
    let states = operands(l, args.get(1).copied())?;
    let scanned = operands(l, args.get(2).copied())?;
    let extra = operands(l, args.get(3).copied())?;
    scanned_over(l, c, graph, states, scanned, &extra)
}

fn map_impl(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let args: Vec<&Arg> = c.positional().collect();
    let graph = args.first().copied();
    let scanned = operands(l, args.get(1).copied())?;
    let extra = operands(l, args.get(2).copied())?;
    scanned_over(l, c, graph, Vec::new(), scanned, &extra)
}

fn scanned_over(
    l: &mut Lower<'_>,
    c: &Call<'_>,
    graph: Option<&Arg>,
    states: Vec<ValueId>,
    scanned: Vec<ValueId>,
    extra: &[ValueId],
) -> Res<Vec<Option<ValueId>>> {
    let (step, start) = nested(c, graph)?;
    let own = states.len() + scanned.len();
    let (body, captures) = l.body("body", &mut |inner| {
        let mut inputs = body_inputs(inner, step, 0..own);
        inputs.extend(captured(inner, extra)?);
        inner.read_in(step, &inputs, start)
    })?;
    let count = scanned.len() as i64;
    let inputs: Vec<Option<ValueId>> = states.into_iter().chain(scanned).map(Some).collect();
    Ok(l.emit_with("Scan", &inputs, &[("num_scan_inputs", int(count))], vec![body], captures, c.outputs()))
}
