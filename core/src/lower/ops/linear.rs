//! Matrix products.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::Fact;
use super::super::values::{float, int, text};
use super::super::walk::Lower;
use super::shape::swapped;
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::shape::{Dim, Shape};

pub(super) const TABLE: Table = &[
    ("addbmm", addbmm),
    ("addmm", addmm),
    ("addmv", addmv),
    ("baddbmm", baddbmm),
    ("bilinear", bilinear),
    ("bmm", |l, c| product(l, c, "self", "mat2")),
    ("dot", dot),
    ("einsum", einsum),
    ("inner", inner),
    ("linear", linear),
    ("matmul", |l, c| product(l, c, "self", "other")),
    ("mm", |l, c| product(l, c, "self", "mat2")),
    ("mv", |l, c| product(l, c, "self", "vec")),
    ("outer", outer),
    ("ger", outer),
    ("vdot", dot),
];

/// A matrix product with torch's rules for vectors and batches, which are ONNX's.
pub(super) fn matmul(l: &mut Lower<'_>, a: ValueId, b: ValueId, dtype: DType) -> ValueId {
    let shape = match (l.shape(a).dims(), l.shape(b).dims()) {
        (Some(x), Some(y)) if x.len() >= 2 && y.len() >= 2 => {
            let batch = super::super::values::broadcast(&Shape::new(x[..x.len() - 2].to_vec()), &Shape::new(y[..y.len() - 2].to_vec()));
            batch.dims().map(|d| {
                let mut d: Vec<Dim> = d.to_vec();
                d.extend([x[x.len() - 2].clone(), y[y.len() - 1].clone()]);
                Shape::new(d)
            })
        }
        _ => None,
    };
    l.emit_fact("MatMul", &[Some(a), Some(b)], &[], Fact::of(Some(dtype), shape.unwrap_or_default()))
}

fn product(l: &mut Lower<'_>, c: &Call<'_>, a: &str, b: &str) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (a, b) = (c.tensor(a)?, c.tensor(b)?);
    let (a, b) = (l.cast(a, dtype), l.cast(b, dtype));
    one(matmul(l, a, b, dtype))
}

/// `x · weightᵀ + bias`. Two axes are a `Gemm`, which takes the weight as it lies.
fn linear(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, weight, bias) = (c.tensor("input")?, c.tensor("weight")?, c.opt_tensor("bias")?);
    let dtype = c.out_dtype()?;
    one(affine(l, x, weight, bias, dtype)?)
}

/// `x · weightᵀ + bias`.
pub(super) fn affine(l: &mut Lower<'_>, x: ValueId, weight: ValueId, bias: Option<ValueId>, dtype: DType) -> Res<ValueId> {
    if l.rank(x)? == 2 && l.rank(weight)? == 2 {
        let shape = match (l.shape(x).dims(), l.shape(weight).dims()) {
            (Some([n, _]), Some([m, _])) => Shape::new(vec![n.clone(), m.clone()]),
            _ => Shape::UNKNOWN,
        };
        return Ok(l.emit_fact("Gemm", &[Some(x), Some(weight), bias], &[("transB", int(1))], Fact::of(Some(dtype), shape)));
    }
    let weight = if l.rank(weight)? < 2 { weight } else { swapped(l, weight, -1, -2)? };
    let made = matmul(l, x, weight, dtype);
    Ok(match bias {
        Some(bias) => l.zip("Add", made, bias, dtype),
        None => made,
    })
}

/// A factor that is a constant number.
fn factor(c: &Call<'_>, name: &str) -> Res<f64> {
    if c.has(name) { c.float(name) } else { Ok(1.0) }
}

fn addmm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, a, b) = (c.tensor("self")?, c.tensor("mat1")?, c.tensor("mat2")?);
    let dtype = c.out_dtype()?;
    let (alpha, beta) = (factor(c, "alpha")?, factor(c, "beta")?);
    if dtype.is_float() {
        let list = [("alpha", float(alpha)), ("beta", float(beta))];
        return one(l.emit("Gemm", &[a, b, x], &list, dtype));
    }
    let made = matmul(l, a, b, dtype);
    one(weighted(l, made, alpha, x, beta, dtype)?)
}

/// `alpha * a + beta * b`.
fn weighted(l: &mut Lower<'_>, a: ValueId, alpha: f64, b: ValueId, beta: f64, dtype: DType) -> Res<ValueId> {
    let mut scaled = |v: ValueId, by: f64| -> Res<ValueId> {
        if by == 1.0 {
            return Ok(v);
        }
        let by = l.scalar(dtype, Number::Float(by))?;
        Ok(l.zip("Mul", v, by, dtype))
    };
    let (a, b) = (scaled(a, alpha)?, scaled(b, beta)?);
    Ok(l.zip("Add", a, b, dtype))
}

fn addmv(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, a, b) = (c.tensor("self")?, c.tensor("mat")?, c.tensor("vec")?);
    let dtype = c.out_dtype()?;
    let made = matmul(l, a, b, dtype);
    one(weighted(l, made, factor(c, "alpha")?, x, factor(c, "beta")?, dtype)?)
}

fn baddbmm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, a, b) = (c.tensor("self")?, c.tensor("batch1")?, c.tensor("batch2")?);
    let dtype = c.out_dtype()?;
    let made = matmul(l, a, b, dtype);
    let (alpha, beta) = (factor(c, "alpha")?, factor(c, "beta")?);
    // With beta 0 what stands there counts for nothing, NaN included.
    if beta == 0.0 {
        let by = l.scalar(dtype, Number::Float(alpha))?;
        return one(if alpha == 1.0 { made } else { l.zip("Mul", made, by, dtype) });
    }
    one(weighted(l, made, alpha, x, beta, dtype)?)
}

fn addbmm(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, a, b) = (c.tensor("self")?, c.tensor("batch1")?, c.tensor("batch2")?);
    let dtype = c.out_dtype()?;
    let each = matmul(l, a, b, dtype);
    let made = l.reduce("ReduceSum", each, &[0], false, dtype);
    one(weighted(l, made, factor(c, "alpha")?, x, factor(c, "beta")?, dtype)?)
}

fn bilinear(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b, w) = (c.tensor("input1")?, c.tensor("input2")?, c.tensor("weight")?);
    let dtype = c.out_dtype()?;
    let made = l.emit("Einsum", &[a, w, b], &[("equation", text("...i,oij,...j->...o"))], dtype);
    one(match c.opt_tensor("bias")? {
        Some(bias) => l.emit("Add", &[made, bias], &[], dtype),
        None => made,
    })
}

/// Products over the last axes of both; a scalar scales.
fn inner(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let dtype = c.out_dtype()?;
    let (ra, rb) = (l.rank(a)?, l.rank(b)?);
    if ra == 0 || rb == 0 {
        return one(l.zip("Mul", a, b, dtype));
    }
    let letters = |n: usize, from: u8| (0..n as u8).map(|i| char::from(from + i)).collect::<String>();
    if ra > 12 || rb > 12 {
        return Err("it has too many axes".to_owned());
    }
    let (x, y) = (letters(ra - 1, b'a'), letters(rb - 1, b'n'));
    let equation = format!("{x}z,{y}z->{x}{y}");
    one(l.emit("Einsum", &[a, b], &[("equation", text(&equation))], dtype))
}

fn dot(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (a, b) = (c.tensor("self")?, c.tensor(if c.has("tensor") { "tensor" } else { "other" })?);
    one(matmul(l, a, b, c.out_dtype()?))
}

fn outer(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (a, b) = (c.tensor("self")?, c.tensor("vec2")?);
    let (a, b) = (l.cast(a, dtype), l.cast(b, dtype));
    let column = l.reshape(a, &[Size::Known(-1), Size::Known(1)]);
    let row = l.unsqueeze(b, &[0]);
    one(l.zip("Mul", column, row, dtype))
}

fn einsum(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (equation, parts) = (c.text("equation")?.ok_or("it has no equation")?, c.tensors("tensors")?);
    let dtype = c.out_dtype()?;
    let parts: Vec<ValueId> = parts.into_iter().map(|p| l.cast(p, dtype)).collect();
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    one(l.emit("Einsum", &parts, &[("equation", text(&equation))], dtype))
}
