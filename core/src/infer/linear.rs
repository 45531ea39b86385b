//! Rules of products of matrices, recurrent layers and attention.

use super::Facts;
use super::fact::{Fact, broadcast};
use super::rules::{Found, dim_op, one};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::Node;
use crate::shape::{Dim, Shape};

pub(super) fn outputs(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    match &*node.op.name {
        "MatMul" => {
            let dtype = f.input(node, 0)?.dtype;
            let shape = matmul(&f.input(node, 0)?.shape.clone(), &f.input(node, 1)?.shape);
            one(dtype, shape?)
        }
        "MatMulInteger" => {
            let shape = matmul(&f.input(node, 0)?.shape.clone(), &f.input(node, 1)?.shape);
            one(Some(DType::I32), shape?)
        }
        "QLinearMatMul" => {
            let dtype = f.input(node, 7)?.dtype;
            let shape = matmul(&f.input(node, 0)?.shape.clone(), &f.input(node, 3)?.shape);
            one(dtype, shape?)
        }
        "FusedMatMul" => {
            let flip = |s: &Shape, by: bool| match s.dims() {
                Some(d) if by && d.len() >= 2 => {
                    let mut d = d.to_vec();
                    let n = d.len();
                    d.swap(n - 2, n - 1);
                    Shape::new(d)
                }
                _ => s.clone(),
            };
            let dtype = f.input(node, 0)?.dtype;
            let a = flip(&f.input(node, 0)?.shape, node.int("transA").unwrap_or(0) != 0);
            let b = flip(&f.input(node, 1)?.shape, node.int("transB").unwrap_or(0) != 0);
            one(dtype, matmul(&a, &b)?)
        }
        "Gemm" => {
            let (ta, tb) = (node.int("transA").unwrap_or(0) != 0, node.int("transB").unwrap_or(0) != 0);
            let dtype = f.input(node, 0)?.dtype;
            let pick = |x: Option<&Fact>, i: usize| x.and_then(|x| x.dims()?.get(i).cloned()).unwrap_or(Dim::Unknown);
            let m = pick(f.input(node, 0), usize::from(ta));
            let n = pick(f.input(node, 1), usize::from(!tb));
            one(dtype, Shape::new(vec![m, n]))
        }
        "Einsum" => einsum(f, node),
        "LSTM" => recurrent(f, node, 3),
        "GRU" | "RNN" => recurrent(f, node, 2),
        "Attention" => attention(f, node),
        _ => None,
    }
}

/// Shape of a product as `numpy.matmul` defines it; `None` if it cannot be.
pub(super) fn matmul(a: &Shape, b: &Shape) -> Option<Shape> {
    let (Some(a), Some(b)) = (a.dims(), b.dims()) else { return Some(Shape::UNKNOWN) };
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let batch = |d: &[Dim]| Shape::new(d[..d.len().saturating_sub(2)].to_vec());
    let mut out = broadcast([batch(a), batch(b)].iter())?.dims()?.to_vec();
    if a.len() >= 2 {
        out.push(a[a.len() - 2].clone());
    }
    if b.len() >= 2 {
        out.push(b[b.len() - 1].clone());
    }
    Some(Shape::new(out))
}

fn einsum(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let dtype = f.input(node, 0)?.dtype;
    let equation: String = node.text("equation")?.chars().filter(|c| !c.is_whitespace()).collect();
    if equation.contains("...") {
        return one(dtype, Shape::UNKNOWN);
    }
    let (left, right) = match equation.split_once("->") {
        Some((l, r)) => (l.to_owned(), r.to_owned()),
        None => {
            let mut letters: Vec<char> = equation.chars().filter(|c| c.is_alphabetic()).collect();
            letters.sort_unstable();
            let once = letters.iter().filter(|c| letters.iter().filter(|d| d == c).count() == 1).collect();
            (equation, once)
        }
    };
    let mut sizes: Vec<(char, Dim)> = Vec::new();
    for (i, term) in left.split(',').enumerate() {
        let Some(dims) = f.input(node, i)?.dims() else { return one(dtype, Shape::UNKNOWN) };
        for (c, d) in term.chars().zip(dims) {
            match sizes.iter_mut().find(|(x, _)| *x == c) {
                Some((_, known)) if matches!(known, Dim::Known(1) | Dim::Unknown) => *known = d.clone(),
                Some(_) => {}
                None => sizes.push((c, d.clone())),
            }
        }
    }
    let out: Option<Vec<Dim>> = right.chars().map(|c| sizes.iter().find(|(x, _)| *x == c).map(|(_, d)| d.clone())).collect();
    one(dtype, Shape::new(out?))
}

fn recurrent(f: &mut Facts<'_>, node: &Node, outputs: usize) -> Option<Found> {
    let x = f.input(node, 0)?.clone();
    let hidden = match node.int("hidden_size") {
        Some(h) => u64::try_from(h).map_or(Dim::Unknown, Dim::Known),
        None => f.input(node, 2).and_then(|r| r.dims()?.get(2).cloned()).unwrap_or(Dim::Unknown),
    };
    let directions = Dim::Known(if node.text("direction") == Some("bidirectional") { 2 } else { 1 });
    let batch_first = node.int("layout").unwrap_or(0) == 1;
    let pick = |i: usize| x.dims().and_then(|d| d.get(i).cloned()).unwrap_or(Dim::Unknown);
    let (seq, batch) = if batch_first { (pick(1), pick(0)) } else { (pick(0), pick(1)) };
    let (y, last) = if batch_first {
        (vec![batch.clone(), seq, directions.clone(), hidden.clone()], vec![batch, directions, hidden])
    } else {
        (vec![seq, directions.clone(), batch.clone(), hidden.clone()], vec![directions, batch, hidden])
    };
    let mut found = vec![Some(Fact::new(x.dtype, Shape::new(y)))];
    found.resize(outputs, Some(Fact::new(x.dtype, Shape::new(last))));
    Some(found)
}

fn attention(f: &mut Facts<'_>, node: &Node) -> Option<Found> {
    let q = f.input(node, 0)?.clone();
    let v = f.input(node, 2)?.clone();
    let shape = match (q.dims(), v.dims()) {
        (Some(q), Some(v)) if q.len() == 4 && v.len() == 4 => Shape::new(vec![q[0].clone(), q[1].clone(), q[2].clone(), v[3].clone()]),
        (Some(q), Some(v)) if q.len() == 3 && v.len() == 3 => {
            let heads = |name| node.int(name).map(Expr::constant);
            let width = match (heads("q_num_heads"), heads("kv_num_heads"), v[2].to_expr()) {
                (Some(qh), Some(kvh), Some(width)) => (width * qh).exact_div(&kvh).map_or(Dim::Unknown, Dim::from_expr),
                _ => Dim::Unknown,
            };
            Shape::new(vec![q[0].clone(), q[1].clone(), width])
        }
        _ => Shape::UNKNOWN,
    };
    // The caches grow by the new positions along the sequence axis.
    let grown = |f: &mut Facts<'_>, past: usize, new: usize| -> Option<Fact> {
        let (p, n) = (f.input(node, past)?.clone(), f.input(node, new)?.clone());
        let (pd, nd) = (p.dims()?, n.dims()?);
        let mut out = pd.to_vec();
        let seq = if nd.len() == 4 { nd.get(2)? } else { nd.get(1)? };
        *out.get_mut(2)? = dim_op(pd.get(2)?, seq, |a, b| a + b);
        Some(Fact::new(p.dtype, Shape::new(out)))
    };
    let (k, v) = (grown(f, 4, 1), grown(f, 5, 2));
    Some(vec![Some(Fact::new(q.dtype, shape)), k, v])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_follow_numpy() {
        let s = |d: &[u64]| Shape::known(d);
        assert_eq!(matmul(&s(&[5, 2, 3]), &s(&[3, 4])), Some(s(&[5, 2, 4])));
        assert_eq!(matmul(&s(&[3]), &s(&[3])), Some(s(&[])));
        assert_eq!(matmul(&s(&[3]), &s(&[7, 3, 4])), Some(s(&[7, 4])));
        assert_eq!(matmul(&s(&[]), &s(&[3])), None);
    }
}
