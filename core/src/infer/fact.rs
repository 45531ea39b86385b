//! What inference knows of a value, and how facts combine.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::shape::{Dim, Shape};

/// What is known of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fact {
    pub dtype: Option<DType>,
    pub shape: Shape,
    /// Elements of a small integer tensor of rank 0 or 1: how shapes are computed inside graphs. Sizes may be symbolic.
    pub ints: Option<Vec<Int>>,
}

/// An integer element: an expression over the symbols, or unknown.
pub(super) type Int = Option<Expr>;

/// Elements up to which integer tensors are followed: no shape is longer.
pub(super) const MAX_INTS: usize = 64;

impl Fact {
    pub(super) fn new(dtype: Option<DType>, shape: Shape) -> Self {
        Self { dtype, shape, ints: None }
    }

    pub(super) fn dims(&self) -> Option<&[Dim]> {
        self.shape.dims()
    }
}

/// The dimension that an integer element stands for.
pub(super) fn int_to_dim(int: &Int) -> Dim {
    int.clone().map_or(Dim::Unknown, Dim::from_expr)
}

/// Dimension of two broadcast against each other; `None` if they cannot be.
pub(super) fn broadcast_dim(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(1), d) | (d, Dim::Known(1)) => Some(d.clone()),
        (Dim::Known(x), Dim::Known(y)) => (x == y).then_some(Dim::Known(*x)),
        // A fixed size above 1 wins: the other side must be it, or 1.
        (Dim::Known(n), _) | (_, Dim::Known(n)) => Some(Dim::Known(*n)),
        (a, b) if a == b => Some(a.clone()),
        _ => Some(Dim::Unknown),
    }
}

/// Shape of several broadcast against each other; unknown if a rank is, `None` if they cannot be.
pub(super) fn broadcast<'a>(shapes: impl Iterator<Item = &'a Shape>) -> Option<Shape> {
    let mut out: Option<Vec<Dim>> = None;
    for shape in shapes {
        let Some(dims) = shape.dims() else { return Some(Shape::UNKNOWN) };
        match &mut out {
            None => out = Some(dims.to_vec()),
            Some(acc) if **acc == *dims => {}
            Some(acc) => {
                if acc.len() < dims.len() {
                    let missing = dims.len() - acc.len();
                    acc.splice(0..0, std::iter::repeat_n(Dim::Known(1), missing));
                }
                let at = acc.len() - dims.len();
                for (a, d) in acc[at..].iter_mut().zip(dims) {
                    *a = broadcast_dim(a, d)?;
                }
            }
        }
    }
    Some(out.map_or(Shape::UNKNOWN, Shape::new))
}

/// What two sources agree on (branches of an `If`): the rest becomes unknown.
pub(super) fn join(a: &Fact, b: &Fact) -> Fact {
    let dtype = if a.dtype == b.dtype { a.dtype } else { None };
    let shape = match (a.dims(), b.dims()) {
        (Some(x), Some(y)) if x.len() == y.len() => {
            Shape::new(x.iter().zip(y).map(|(x, y)| if x == y { x.clone() } else { Dim::Unknown }).collect::<Vec<_>>())
        }
        _ => Shape::UNKNOWN,
    };
    Fact::new(dtype, shape)
}

/// Refines `stated` (what the file says) with `found` (what the operator gives). `Err` says how they contradict.
pub(super) fn refine(stated: &Fact, found: &Fact) -> Result<Fact, String> {
    let dtype = match (stated.dtype, found.dtype) {
        (Some(a), Some(b)) if a != b => return Err(format!("the file says {a}, its operator gives {b}")),
        (a, b) => a.or(b),
    };
    let contradiction = || format!("the file says {}, its operator gives {}", stated.shape, found.shape);
    let shape = match (stated.dims(), found.dims()) {
        (None, _) => found.shape.clone(),
        (Some(_), None) => stated.shape.clone(),
        (Some(a), Some(b)) if a == b => stated.shape.clone(),
        (Some(a), Some(b)) if a.len() != b.len() => return Err(contradiction()),
        (Some(a), Some(b)) => {
            let mut dims = Vec::with_capacity(a.len());
            for (a, b) in a.iter().zip(b) {
                dims.push(match (a, b) {
                    (Dim::Known(x), Dim::Known(y)) if x != y => return Err(contradiction()),
                    (Dim::Unknown, d) | (Dim::Sym(_), d @ Dim::Known(_)) => d.clone(),
                    (d, _) => d.clone(),
                });
            }
            Shape::new(dims)
        }
    };
    Ok(Fact { dtype, shape, ints: found.ints.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_sizes_win_over_symbols_in_broadcasts() {
        let n = Dim::from_expr(Expr::var("n"));
        assert_eq!(broadcast_dim(&n, &Dim::Known(4)), Some(Dim::Known(4)));
        assert_eq!(broadcast_dim(&n, &Dim::Known(1)), Some(n.clone()));
        assert_eq!(broadcast_dim(&Dim::Known(2), &Dim::Known(3)), None);
        let s = [Shape::known(&[3, 1]), Shape::known(&[2, 1, 4])];
        assert_eq!(broadcast(s.iter()), Some(Shape::known(&[2, 3, 4])));
    }

    #[test]
    fn contradictions_between_file_and_operator_are_found() {
        let f = |d, s: &[u64]| Fact::new(Some(d), Shape::known(s));
        assert!(refine(&f(DType::F32, &[2]), &f(DType::F32, &[3])).is_err());
        assert!(refine(&f(DType::I64, &[2]), &f(DType::F32, &[2])).is_err());
        let open = Fact::new(None, Shape::new(vec![Dim::Unknown]));
        assert_eq!(refine(&open, &f(DType::F32, &[3])).unwrap(), f(DType::F32, &[3]));
    }
}
