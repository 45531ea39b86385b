//! Einsum: operands are contracted two at a time, each contraction as batched matrix products.

use std::borrow::Cow;
use std::collections::BTreeMap;

use recut_core::diagnostic::printable;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, float_kernel, out};
use super::gemm::{Mat, gemm_int};
use super::matmul::{Batches, multiply};
use super::{Entry, Kernel, KernelError, PrepareCtx};
use crate::invalid;
use crate::tensor::{Element, MAX_TENSOR_BYTES, Tensor, element_count};

pub(super) const TABLE: &[Entry] = &[Entry::onnx("Einsum", 12, einsum)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Letter(u8),
    Ellipsis,
}

/// An index of the sum: a letter, or above all letters a dimension of the ellipsis, counted from its end.
type Label = usize;
const ELLIPSIS: Label = 256;

struct Equation {
    inputs: Vec<Vec<Symbol>>,
    output: Option<Vec<Symbol>>,
}

fn term(text: &str) -> Result<Vec<Symbol>, KernelError> {
    let mut symbols = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&c, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"...") {
            if symbols.contains(&Symbol::Ellipsis) {
                return invalid!("attribute equation has two ellipses in one term");
            }
            symbols.push(Symbol::Ellipsis);
            rest = after;
            continue;
        }
        if !c.is_ascii_alphabetic() {
            return invalid!("attribute equation has the term {:?}, which is not of letters and an ellipsis", printable(text));
        }
        symbols.push(Symbol::Letter(c));
        rest = tail;
    }
    Ok(symbols)
}

impl Equation {
    fn parse(text: &str) -> Result<Self, KernelError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((l, r)) => (l, Some(r)),
            None => (text.as_str(), None),
        };
        let equation = Self { inputs: left.split(',').map(term).collect::<Result<_, _>>()?, output: right.map(term).transpose()? };
        if let Some(o) = &equation.output {
            for (i, s) in o.iter().enumerate() {
                let known = *s == Symbol::Ellipsis || equation.inputs.iter().any(|t| t.contains(s));
                if o[..i].contains(s) || !known {
                    return invalid!(
                        "attribute equation is {:?}: every index of the result must be there once and in an operand",
                        printable(&text)
                    );
                }
            }
        }
        Ok(equation)
    }

    /// Labels of an operand's dimensions.
    fn labels(term: &[Symbol], dims: &[usize], i: usize) -> Result<Vec<Label>, KernelError> {
        let letters = term.iter().filter(|s| **s != Symbol::Ellipsis).count();
        let spread = match dims.len().checked_sub(letters) {
            Some(n) if n == 0 || term.contains(&Symbol::Ellipsis) => n,
            _ => return invalid!("input {i} has shape {dims:?}, and its term in the equation has {letters} indices"),
        };
        Ok(Self::expand(term, spread))
    }

    fn expand(term: &[Symbol], spread: usize) -> Vec<Label> {
        let mut labels = Vec::new();
        for s in term {
            match s {
                Symbol::Letter(c) => labels.push(Label::from(*c)),
                Symbol::Ellipsis => labels.extend((0..spread).rev().map(|j| ELLIPSIS + j)),
            }
        }
        labels
    }

    /// Labels of the result; without an explicit one, the ellipsis and then in alphabetical order what is there once.
    fn output(&self, spread: usize) -> Vec<Label> {
        if let Some(o) = &self.output {
            return Self::expand(o, spread);
        }
        let all: Vec<Symbol> = self.inputs.iter().flatten().copied().collect();
        let mut letters: Vec<u8> = all
            .iter()
            .filter_map(|s| match s {
                Symbol::Letter(c) if all.iter().filter(|t| *t == s).count() == 1 => Some(*c),
                _ => None,
            })
            .collect();
        letters.sort_unstable();
        let mut labels: Vec<Label> = (0..spread).rev().map(|j| ELLIPSIS + j).collect();
        labels.extend(letters.into_iter().map(Label::from));
        labels
    }
}

type Sizes = BTreeMap<Label, usize>;

/// A type that Einsum sums in.
trait Scalar: Element + Default + std::ops::AddAssign {
    fn add(self, o: Self) -> Self;
    fn products(dst: &mut [Self], a: &[Self], b: &[Self], batches: &Batches, trans: (bool, bool)) -> Result<(), KernelError>;
}

macro_rules! float_scalar {
    ($($t:ty),*) => {$(impl Scalar for $t {
        fn add(self, o: Self) -> Self { self + o }
        fn products(dst: &mut [Self], a: &[Self], b: &[Self], batches: &Batches, trans: (bool, bool)) -> Result<(), KernelError> {
            multiply(dst, a, b, batches, trans.0, trans.1, 1.0)
        }
    })*};
}
float_scalar!(f32, f64);

macro_rules! int_scalar {
    ($($t:ty),*) => {$(impl Scalar for $t {
        fn add(self, o: Self) -> Self { self.wrapping_add(o) }
        fn products(dst: &mut [Self], a: &[Self], b: &[Self], batches: &Batches, trans: (bool, bool)) -> Result<(), KernelError> {
            let (m, k, n) = (batches.m, batches.k, batches.n);
            let mat = |data, rows, cols, t: bool| if t { Mat::new(data, cols, rows).map(Mat::t) } else { Mat::new(data, rows, cols) };
            for (d, &(ia, ib)) in dst.chunks_mut((m * n).max(1)).zip(&batches.pairs) {
                gemm_int(d, mat(&a[ia * m * k..], m, k, trans.0)?, mat(&b[ib * k * n..], k, n, trans.1)?)?;
            }
            Ok(())
        }
    })*};
}
int_scalar!(i8, i16, i32, i64, u8, u16, u32, u64);

/// An operand with one stride for each of its labels. Repeated labels (a diagonal) have added strides, broadcast ones 0.
struct View<'a, T: Clone> {
    data: Cow<'a, [T]>,
    labels: Vec<Label>,
    strides: Vec<usize>,
}

fn room<T>(labels: &[Label], sizes: &Sizes) -> Result<usize, KernelError> {
    let dims: Vec<usize> = labels.iter().map(|l| sizes[l]).collect();
    match element_count(&dims) {
        Some(n) if n.checked_mul(size_of::<T>()).is_some_and(|b| b as u64 <= MAX_TENSOR_BYTES) => Ok(n),
        _ => invalid!("an intermediate result of shape {dims:?} is too large"),
    }
}

impl<'a, T: Scalar> View<'a, T> {
    fn new(data: &'a [T], dims: &[usize], of_dims: &[Label], sizes: &Sizes) -> Self {
        let mut view = Self { data: Cow::Borrowed(data), labels: Vec::new(), strides: Vec::new() };
        let mut stride = 1usize;
        for (&d, &l) in dims.iter().zip(of_dims).rev() {
            let step = if d == 1 && sizes[&l] != 1 { 0 } else { stride };
            match view.labels.iter().position(|&x| x == l) {
                Some(i) => view.strides[i] += step,
                None => {
                    view.labels.push(l);
                    view.strides.push(step);
                }
            }
            stride = stride.saturating_mul(d);
        }
        view.labels.reverse();
        view.strides.reverse();
        view
    }

    fn dense(data: Vec<T>, labels: Vec<Label>, sizes: &Sizes) -> Self {
        let mut strides: Vec<usize> = Vec::with_capacity(labels.len());
        let mut next = 1usize;
        for l in labels.iter().rev() {
            strides.push(next);
            next = next.saturating_mul(sizes[l]);
        }
        strides.reverse();
        Self { data: Cow::Owned(data), labels, strides }
    }

    fn stride(&self, label: Label) -> usize {
        self.labels.iter().position(|&l| l == label).map_or(0, |i| self.strides[i])
    }

    fn is_dense_in(&self, order: &[Label], sizes: &Sizes) -> bool {
        let mut next = 1usize;
        order.iter().rev().all(|&l| {
            let fits = sizes[&l] == 1 || self.stride(l) == next;
            next = next.saturating_mul(sizes[&l]);
            fits
        })
    }

    /// The elements in the order of these labels, copied only if they are not.
    fn arrange(&self, order: &[Label], sizes: &Sizes) -> Result<Cow<'_, [T]>, KernelError> {
        let n = room::<T>(order, sizes)?;
        if n == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        if self.is_dense_in(order, sizes) {
            return Ok(Cow::Borrowed(&self.data[..n]));
        }
        let (last, outer) = match order.split_last() {
            Some((l, outer)) => ((sizes[l], self.stride(*l)), outer),
            None => ((1, 1), order),
        };
        let axes: Vec<(usize, usize)> = outer.iter().map(|&l| (sizes[&l], self.stride(l))).collect();
        let mut index = vec![0usize; axes.len()];
        let mut copy = Vec::with_capacity(n);
        let mut at = 0;
        loop {
            match last.1 {
                1 => copy.extend_from_slice(&self.data[at..at + last.0]),
                s => copy.extend((0..last.0).map(|i| self.data[at + i * s])),
            }
            let Some(d) = (0..axes.len()).rev().find(|&d| {
                index[d] += 1;
                at += axes[d].1;
                if index[d] < axes[d].0 {
                    return true;
                }
                at -= axes[d].1 * axes[d].0;
                index[d] = 0;
                false
            }) else {
                break;
            };
            debug_assert!(index[d] < axes[d].0);
        }
        Ok(Cow::Owned(copy))
    }

    /// Sums over every label that is not in `keep`.
    fn reduced(self, keep: &dyn Fn(Label) -> bool, sizes: &Sizes) -> Result<Self, KernelError> {
        let (kept, gone): (Vec<Label>, Vec<Label>) = self.labels.iter().partition(|l| keep(**l));
        if gone.is_empty() {
            return Ok(self);
        }
        let (n, depth) = (room::<T>(&kept, sizes)?, room::<T>(&gone, sizes)?);
        let order: Vec<Label> = kept.iter().chain(&gone).copied().collect();
        let data = self.arrange(&order, sizes)?;
        let sums = if depth == 0 {
            vec![T::default(); n]
        } else {
            data.chunks(depth).map(|c| c.iter().fold(T::default(), |s, &x| s.add(x))).collect()
        };
        Ok(View::dense(sums, kept, sizes))
    }

    /// Both operands' product, summed over what they share and nobody needs.
    fn contract(self, o: View<'a, T>, needed: &dyn Fn(Label) -> bool, sizes: &Sizes) -> Result<View<'a, T>, KernelError> {
        let a = self.reduced(&|l| needed(l) || o.labels.contains(&l), sizes)?;
        let b = o.reduced(&|l| needed(l) || a.labels.contains(&l), sizes)?;
        let both = |l: &Label| a.labels.contains(l) && b.labels.contains(l);
        let batch: Vec<Label> = a.labels.iter().copied().filter(|l| both(l) && needed(*l)).collect();
        let inner: Vec<Label> = a.labels.iter().copied().filter(|l| both(l) && !needed(*l)).collect();
        let left: Vec<Label> = a.labels.iter().copied().filter(|l| !both(l)).collect();
        let right: Vec<Label> = b.labels.iter().copied().filter(|l| !both(l)).collect();
        let join = |parts: [&[Label]; 3]| parts.concat();
        let (ab, ab_t) = (join([&batch, &left, &inner]), join([&batch, &inner, &left]));
        let (bb, bb_t) = (join([&batch, &inner, &right]), join([&batch, &right, &inner]));
        // Transposed operands are read as they are.
        let trans_a = !a.is_dense_in(&ab, sizes) && a.is_dense_in(&ab_t, sizes);
        let trans_b = !b.is_dense_in(&bb, sizes) && b.is_dense_in(&bb_t, sizes);
        let labels = join([&batch, &left, &right]);
        let total = room::<T>(&labels, sizes)?;
        let [count, m, k, n] = [&batch, &left, &inner, &right].map(|l| room::<T>(l, sizes));
        let (count, m, k, n) = (count?, m?, k?, n?);
        let (x, y) = (a.arrange(if trans_a { &ab_t } else { &ab }, sizes)?, b.arrange(if trans_b { &bb_t } else { &bb }, sizes)?);
        let batches = Batches::new(
            &if trans_a { [count, k, m] } else { [count, m, k] },
            &if trans_b { [count, n, k] } else { [count, k, n] },
            trans_a,
            trans_b,
        )?;
        let mut dst = vec![T::default(); total];
        if total > 0 && k > 0 {
            T::products(&mut dst, &x, &y, &batches, (trans_a, trans_b))?;
        }
        Ok(View::dense(dst, labels, sizes))
    }
}

fn run<T: Scalar>(equation: &Equation, args: &Args) -> Result<Outs, KernelError> {
    let mut sizes = Sizes::new();
    let mut terms: Vec<Vec<Label>> = Vec::new();
    for (i, t) in equation.inputs.iter().enumerate() {
        let dims = args.get(i)?.dims();
        let labels = Equation::labels(t, dims, i)?;
        for (&l, &d) in labels.iter().zip(dims) {
            let size = sizes.entry(l).or_insert(d);
            if *size == 1 {
                *size = d;
            } else if d != 1 && d != *size {
                return invalid!("input {i} has shape {dims:?}, which has {d} elements where an earlier operand has {size}");
            }
        }
        terms.push(labels);
    }
    let spread = sizes.keys().filter(|l| **l >= ELLIPSIS).count();
    let output = equation.output(spread);
    let mut views = Vec::new();
    for (i, labels) in terms.iter().enumerate() {
        views.push(View::new(args.slice::<T>(i)?, args.get(i)?.dims(), labels, &sizes));
    }
    let mut rest = views.into_iter().enumerate();
    let Some((_, mut current)) = rest.next() else { return invalid!("Einsum has no operand") };
    for (i, next) in rest {
        let later = &terms[i + 1..];
        let needed = |l: Label| output.contains(&l) || later.iter().any(|t| t.contains(&l));
        current = current.contract(next, &needed, &sizes)?;
    }
    let current = current.reduced(&|l| output.contains(&l), &sizes)?;
    let dims: Vec<usize> = output.iter().map(|l| sizes[l]).collect();
    Ok(out(Tensor::from_slice(&dims, &current.arrange(&output, &sizes)?)?))
}

fn einsum(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let Some(text) = Attrs(ctx.node).opt_text("equation")? else { return invalid!("attribute equation is missing") };
    let equation = Equation::parse(text)?;
    let given = ctx.node.inputs.len();
    if equation.inputs.len() != given {
        return invalid!("attribute equation has {} operands, the node has {given} inputs", equation.inputs.len());
    }
    float_kernel(ctx, move |_, args| match args.get(0)?.dtype() {
        DType::F32 => run::<f32>(&equation, args),
        DType::F64 => run::<f64>(&equation, args),
        DType::I8 => run::<i8>(&equation, args),
        DType::I16 => run::<i16>(&equation, args),
        DType::I32 => run::<i32>(&equation, args),
        DType::I64 => run::<i64>(&equation, args),
        DType::U8 => run::<u8>(&equation, args),
        DType::U16 => run::<u16>(&equation, args),
        DType::U32 => run::<u32>(&equation, args),
        DType::U64 => run::<u64>(&equation, args),
        d => invalid!("input 0 is {d}, expected numbers"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    fn einsum(equation: &str, inputs: &[Tensor]) -> Result<Tensor, super::KernelError> {
        Case::new("Einsum", 12).text("equation", equation).one(inputs)
    }

    /// The sum over all values of all letters, for one or two operands without ellipsis.
    fn naive(equation: &str, inputs: &[Tensor]) -> Vec<f32> {
        let (left, output) = equation.split_once("->").unwrap();
        let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
        let mut sizes: Vec<(char, usize)> = Vec::new();
        for (t, x) in terms.iter().zip(inputs) {
            for (&c, &d) in t.iter().zip(x.dims()) {
                if !sizes.iter().any(|s| s.0 == c) {
                    sizes.push((c, d));
                }
            }
        }
        let size = |c: char| sizes.iter().find(|s| s.0 == c).unwrap().1;
        let at = |term: &[char], index: &dyn Fn(char) -> usize| term.iter().fold(0, |a, &c| a * size(c) + index(c));
        let target: Vec<char> = output.chars().collect();
        let mut sums = vec![0f32; target.iter().map(|&c| size(c)).product()];
        for i in 0..sizes.iter().map(|s| s.1).product::<usize>() {
            let index = |c: char| sizes.iter().take_while(|s| s.0 != c).fold(i, |r, s| r / s.1) % size(c);
            sums[at(&target, &index)] += terms.iter().zip(inputs).map(|(t, x)| vec_of::<f32>(x)[at(t, &index)]).product::<f32>();
        }
        sums
    }

    #[test]
    fn matches_the_sum_it_stands_for() {
        let rng = Rng::new(41);
        let size = |c: char| 2 + (c as usize - 'a' as usize) % 4;
        for equation in [
            "ij->ji",
            "ij->",
            "ii->i",
            "iij->ji",
            "ij,jk->ik",
            "ij,kj->ik",
            "ji,jk->ki",
            "bij,bjk->bik",
            "bhid,bhjd->bhij",
            "bhij,bhjd->bihd",
            "i,j->ji",
            "ij,ij->",
            "ij,ij->ij",
            "abc,cd->abd",
            "ij,jk,kl->il",
            "ij,jk,ki->",
            "abc,bad->cd",
            "ab,cd->abcd",
        ] {
            let left = equation.split_once("->").unwrap().0;
            let inputs: Vec<Tensor> = left.split(',').map(|t| rng.floats(&t.chars().map(size).collect::<Vec<_>>())).collect();
            close(&einsum(equation, &inputs).unwrap(), &naive(equation, &inputs), equation);
        }
    }

    #[test]
    fn ellipses_broadcast_and_results_may_be_implied() {
        let rng = Rng::new(42);
        let (a, b) = (rng.floats(&[2, 1, 3, 4]), rng.floats(&[5, 4, 6]));
        let want = Case::new("MatMul", 13).one(&[a.clone(), b.clone()]).unwrap();
        let y = einsum("...ij,...jk", &[a.clone(), b]).unwrap();
        assert_eq!(y.dims(), [2, 5, 3, 6]);
        close(&y, &vec_of(&want), "batched");
        assert_eq!(einsum("ba", &[rng.floats(&[2, 3])]).unwrap().dims(), [3, 2]);
        assert_eq!(einsum("...i->i...", &[a]).unwrap().dims(), [4, 2, 1, 3]);
        let ints = Tensor::from_slice(&[2], &[3i64, i64::MAX]).unwrap();
        assert_eq!(
            vec_of::<i64>(&einsum("i,i->", &[ints, Tensor::from_slice(&[2], &[2i64, 1]).unwrap()]).unwrap()),
            [6i64.wrapping_add(i64::MAX)]
        );
        assert_eq!(vec_of::<f32>(&einsum("ij,jk->ik", &[rng.floats(&[2, 0]), rng.floats(&[0, 2])]).unwrap()), [0.0; 4]);
    }

    #[test]
    fn equations_that_do_not_fit_are_refused() {
        let x = Rng::new(1).floats(&[2, 3]);
        for e in ["ij->ik", "ij->ii", "i->i", "ijk->i", "i.j->i", "......->", "i1->i", "ii->i", "ij,jk->ik"] {
            assert!(einsum(e, std::slice::from_ref(&x)).is_err(), "{e}");
        }
        assert!(einsum("ij,jk->ik", &[x.clone(), x]).is_err());
        let long = Tensor::from_slice(&[1 << 17], &vec![0u8; 1 << 17]).unwrap();
        assert!(einsum("a,b->ab", &[long.clone(), long]).is_err());
    }
}
