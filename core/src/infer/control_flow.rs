//! Rules of nodes with bodies: `If`, `Loop`, `Scan`.

use super::fact::{Fact, join, refine};
use super::infer_graph;
use super::rules::{Found, axis};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::graph::{Graph, Node};
use crate::shape::{Dim, Shape};

/// Infers the bodies of node `n` and gives the facts of its outputs.
pub(super) fn outputs(graph: &mut Graph, n: usize, facts: &mut [Fact], opset: i64, diagnostics: &mut Vec<Diagnostic>) -> Found {
    let node = &graph.nodes()[n];
    let op = node.op.clone();
    let starts: Vec<Vec<Fact>> = node.bodies.iter().map(|b| body_inputs(node, &b.graph, facts)).collect();
    let node = &mut graph.nodes_mut()[n];
    let mut results: Vec<Vec<Fact>> = Vec::with_capacity(node.bodies.len());
    for (body, start) in node.bodies.iter_mut().zip(starts) {
        let inputs = body.graph.inputs().to_vec();
        for (v, fact) in inputs.into_iter().zip(start) {
            let value = &mut body.graph.values_mut()[v.index()];
            let stated = Fact::new(value.dtype, value.shape.clone());
            let fact = refine(&stated, &fact).unwrap_or(stated);
            value.dtype = fact.dtype;
            value.shape = fact.shape;
        }
        infer_graph(&mut body.graph, facts, opset, diagnostics);
        results.push(
            body.graph
                .outputs()
                .iter()
                .map(|&o| (body.graph.value(o).dtype, &body.graph.value(o).shape))
                .map(|(d, s)| Fact::new(d, s.clone()))
                .collect(),
        );
    }
    let node = &graph.nodes()[n];
    if op.is_onnx("If") {
        let mut branches = results.into_iter();
        let first = branches.next().unwrap_or_default();
        return branches.fold(first, |a, b| a.iter().zip(&b).map(|(a, b)| join(a, b)).collect()).into_iter().map(Some).collect();
    }
    let Some(result) = results.into_iter().next() else { return Vec::new() };
    if op.is_onnx("Loop") {
        return loop_outputs(node, facts, &result);
    }
    if op.is_onnx("Scan") {
        return scan_outputs(node, facts, &result);
    }
    Vec::new()
}

/// What a body is given: only types and ranks that hold in every trip.
fn body_inputs(node: &Node, body: &Graph, facts: &[Fact]) -> Vec<Fact> {
    let scalar = |d| Fact::new(Some(d), Shape::known(&[]));
    let outer = |i: usize| node.input(i).map(|v| facts[v.index()].clone()).unwrap_or_default();
    let carried = |i: usize| {
        let fact = outer(i);
        // A carried tensor may change its shape from trip to trip; most keep their rank, but nothing says so.
        Fact::new(fact.dtype, Shape::UNKNOWN)
    };
    if node.op.is_onnx("Loop") {
        let mut inputs = vec![scalar(DType::I64), scalar(DType::Bool)];
        inputs.extend((2..body.inputs().len()).map(carried));
        return inputs;
    }
    if node.op.is_onnx("Scan") {
        let scans = usize::try_from(node.int("num_scan_inputs").unwrap_or(0)).unwrap_or(0).min(body.inputs().len());
        let states = body.inputs().len() - scans;
        return (0..body.inputs().len())
            .map(|i| {
                let fact = outer(i);
                match fact.dims() {
                    _ if i < states => fact,
                    Some(dims) => {
                        let a = node.ints("scan_input_axes").and_then(|a| a.get(i - states).copied()).unwrap_or(0);
                        let shape = axis(a, dims.len()).map(|at| {
                            let mut rest = dims.to_vec();
                            rest.remove(at);
                            Shape::new(rest)
                        });
                        Fact::new(fact.dtype, shape.unwrap_or_default())
                    }
                    None => Fact::new(fact.dtype, Shape::UNKNOWN),
                }
            })
            .collect();
    }
    Vec::new()
}

/// Carried values, then one row a trip of every scan output.
fn loop_outputs(node: &Node, facts: &[Fact], result: &[Fact]) -> Found {
    let carried = node.inputs.len().saturating_sub(2);
    result
        .iter()
        .skip(1)
        .enumerate()
        .map(|(i, fact)| {
            if i < carried {
                // Zero trips give the initial value.
                let initial = node.input(i + 2).map(|v| &facts[v.index()]);
                return Some(initial.map_or_else(|| fact.clone(), |initial| join(initial, fact)));
            }
            let shape = fact.dims().map(|d| Shape::new([&[Dim::Unknown], d].concat()));
            Some(Fact::new(fact.dtype, shape.unwrap_or_default()))
        })
        .collect()
}

/// States, then the stacked scan outputs.
fn scan_outputs(node: &Node, facts: &[Fact], result: &[Fact]) -> Found {
    let scans = usize::try_from(node.int("num_scan_inputs").unwrap_or(0)).unwrap_or(0);
    let states = node.inputs.len().saturating_sub(scans);
    let length = node.input(states).and_then(|v| {
        let dims = facts[v.index()].dims()?;
        dims.get(axis(node.ints("scan_input_axes").and_then(|a| a.first().copied()).unwrap_or(0), dims.len())?).cloned()
    });
    result
        .iter()
        .enumerate()
        .map(|(i, fact)| {
            if i < states {
                return Some(fact.clone());
            }
            let a = node.ints("scan_output_axes").and_then(|a| a.get(i - states).copied()).unwrap_or(0);
            let shape = fact.dims().and_then(|d| {
                let mut out = d.to_vec();
                out.insert(axis(a, d.len() + 1)?, length.clone().unwrap_or(Dim::Unknown));
                Some(Shape::new(out))
            });
            Some(Fact::new(fact.dtype, shape.unwrap_or_default()))
        })
        .collect()
}
