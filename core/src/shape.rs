//! Shapes whose dimensions may be known, symbolic or unknown.

use std::sync::Arc;

use crate::expr::{Bindings, Expr};

/// One dimension of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A fixed size.
    Known(u64),
    /// A size given by symbols (`batch`, `seq*batch`); never a constant expression, which is [`Dim::Known`].
    Sym(Arc<Expr>),
    /// A size that nothing tells.
    Unknown,
}

impl Dim {
    /// The dimension that `expr` stands for: constants become [`Dim::Known`], negative ones [`Dim::Unknown`].
    #[must_use]
    pub fn from_expr(expr: Expr) -> Self {
        match expr.as_const() {
            Some(n) => u64::try_from(n).map_or(Self::Unknown, Self::Known),
            None => Self::Sym(Arc::new(expr)),
        }
    }

    /// The size, where it is known without bindings.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        match self {
            Self::Known(n) => Some(*n),
            _ => None,
        }
    }

    /// The size under `dims`; `None` where a symbol has no binding or the expression is negative or overflows.
    #[must_use]
    pub fn eval(&self, dims: &Bindings) -> Option<u64> {
        match self {
            Self::Known(n) => Some(*n),
            Self::Sym(e) => e.eval(dims).and_then(|n| u64::try_from(n).ok()),
            Self::Unknown => None,
        }
    }

    /// The dimension as an expression; `None` if unknown.
    #[must_use]
    pub fn to_expr(&self) -> Option<Expr> {
        match self {
            Self::Known(n) => i64::try_from(*n).ok().map(Expr::constant),
            Self::Sym(e) => Some((**e).clone()),
            Self::Unknown => None,
        }
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(n) => write!(f, "{n}"),
            Self::Sym(e) => write!(f, "{e}"),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// Shape of a value: its dimensions where the rank is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(Option<Box<[Dim]>>);

impl Shape {
    /// A shape of unknown rank.
    pub const UNKNOWN: Self = Self(None);

    /// A shape of known rank.
    #[must_use]
    pub fn new(dims: impl Into<Box<[Dim]>>) -> Self {
        Self(Some(dims.into()))
    }

    /// A shape whose dimensions are all known.
    #[must_use]
    pub fn known(dims: &[u64]) -> Self {
        Self(Some(dims.iter().map(|&d| Dim::Known(d)).collect()))
    }

    /// The dimensions, where the rank is known.
    #[must_use]
    pub fn dims(&self) -> Option<&[Dim]> {
        self.0.as_deref()
    }

    /// Number of dimensions, where known.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        self.0.as_deref().map(<[Dim]>::len)
    }

    /// Whether every dimension is a fixed number.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.dims().is_some_and(|d| d.iter().all(|d| matches!(d, Dim::Known(_))))
    }

    /// All sizes under `dims`, or `None` if one of them stays open.
    #[must_use]
    pub fn eval(&self, dims: &Bindings) -> Option<Vec<u64>> {
        self.dims()?.iter().map(|d| d.eval(dims)).collect()
    }

    /// Number of elements as an expression; `None` where a dimension is unknown.
    #[must_use]
    pub fn elements(&self) -> Option<Expr> {
        let mut product = Expr::constant(1);
        for dim in self.dims()? {
            product = product * dim.to_expr()?;
        }
        Some(product)
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(dims) = self.dims() else { return f.write_str("[…]") };
        f.write_str("[")?;
        for (i, d) in dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}
