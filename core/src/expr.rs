//! Integer expressions over symbolic dimensions (`batch`, `seq*batch`, `floor(h/2)+1`).
//!
//! An expression is kept in a canonical sum-of-products form, so that equal ones compare equal: `a*b + 2` and
//! `2 + b*a` are the same value. What is no polynomial (floor division, min, max, mod) is an atom of that form.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Values given to symbols.
pub type Bindings = indexmap::IndexMap<String, i64>;

/// What a product may consist of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A symbol by name.
    Var(Arc<str>),
    /// `floor(a / b)`.
    FloorDiv(Arc<Expr>, Arc<Expr>),
    /// `ceil(a / b)`.
    CeilDiv(Arc<Expr>, Arc<Expr>),
    /// `a mod b`, with the sign of `b`.
    Mod(Arc<Expr>, Arc<Expr>),
    /// The smaller of two.
    Min(Arc<Expr>, Arc<Expr>),
    /// The larger of two.
    Max(Arc<Expr>, Arc<Expr>),
}

/// A product of atoms, each with its power; ordered, so that equal products compare equal.
type Monomial = Vec<(Atom, u32)>;

/// A sum of products with integer factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr {
    terms: BTreeMap<Monomial, i64>,
    /// Set when arithmetic on the factors left the range of `i64`, or it grew too large: such an expression has no value.
    overflowed: bool,
}

/// Terms above which an expression is given up as [`Expr::overflow`]: a hostile file could multiply long sums.
const MAX_TERMS: usize = 64;

/// Atoms inside of an atom above which it is given up like that. A value that is computed from two others, each of which
/// is computed from two others, would else be as large as two to the number of steps.
const MAX_ATOMS: usize = 256;

/// Different factors of a product above which it is given up like that.
const MAX_FACTORS: usize = 64;

impl Expr {
    /// A number.
    #[must_use]
    pub fn constant(n: i64) -> Self {
        let mut terms = BTreeMap::new();
        if n != 0 {
            terms.insert(Vec::new(), n);
        }
        Self { terms, overflowed: false }
    }

    /// A symbol.
    #[must_use]
    pub fn var(name: impl Into<Arc<str>>) -> Self {
        Self::atom(Atom::Var(name.into()))
    }

    /// The expression without a value: a factor left the range of `i64`.
    #[must_use]
    pub fn overflow() -> Self {
        Self { terms: BTreeMap::new(), overflowed: true }
    }

    fn atom(atom: Atom) -> Self {
        Self { terms: BTreeMap::from([(vec![(atom, 1)], 1)]), overflowed: false }
    }

    /// An atom over two expressions.
    fn over(make: impl Fn(Arc<Self>, Arc<Self>) -> Atom, a: &Self, b: &Self) -> Self {
        let mut left = MAX_ATOMS;
        if a.spend(&mut left) && b.spend(&mut left) { Self::atom(make(Arc::new(a.clone()), Arc::new(b.clone()))) } else { Self::overflow() }
    }

    /// Takes one from `left` for every atom, at every depth; false once nothing is left.
    fn spend(&self, left: &mut usize) -> bool {
        self.terms.keys().flatten().all(|(atom, _)| match left.checked_sub(1) {
            None => false,
            Some(n) => {
                *left = n;
                match atom {
                    Atom::Var(_) => true,
                    Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                        a.spend(left) && b.spend(left)
                    }
                }
            }
        })
    }

    /// The number this is, if it holds no symbol.
    #[must_use]
    pub fn as_const(&self) -> Option<i64> {
        if self.overflowed {
            return None;
        }
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// Whether the arithmetic overflowed, so that no binding gives a value.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.overflowed
    }

    /// `floor(self / by)`; folded where both are numbers or `by` divides every factor.
    #[must_use]
    pub fn floor_div(&self, by: &Self) -> Self {
        self.divide(by, i64::div_euclid, Atom::FloorDiv)
    }

    /// `ceil(self / by)`; folded like [`Expr::floor_div`].
    #[must_use]
    pub fn ceil_div(&self, by: &Self) -> Self {
        self.divide(by, |a, b| -((-a).div_euclid(b)), Atom::CeilDiv)
    }

    fn divide(&self, by: &Self, fold: impl Fn(i64, i64) -> i64, atom: impl Fn(Arc<Self>, Arc<Self>) -> Atom) -> Self {
        if self.overflowed || by.overflowed || by.as_const() == Some(0) {
            return Self::overflow();
        }
        if let Some(b) = by.as_const().filter(|&b| b > 0) {
            if let Some(a) = self.as_const().filter(|&a| a > i64::MIN) {
                return Self::constant(fold(a, b));
            }
            if self.terms.values().all(|c| c % b == 0) {
                return Self { terms: self.terms.iter().map(|(m, c)| (m.clone(), c / b)).collect(), overflowed: false };
            }
        }
        if self == by {
            return Self::constant(1);
        }
        Self::over(atom, self, by)
    }

    /// `self / by` where `by` is one product that divides every term: symbols cancel (`a*b*4 / (2*a) = 2*b`).
    #[must_use]
    pub fn exact_div(&self, by: &Self) -> Option<Self> {
        if self.overflowed || by.overflowed || by.terms.len() != 1 {
            return None;
        }
        let (divisor, factor) = by.terms.first_key_value()?;
        let mut terms = BTreeMap::new();
        for (monomial, c) in &self.terms {
            if *factor == 0 || c.checked_rem(*factor)? != 0 {
                return None;
            }
            let mut rest = monomial.clone();
            for (atom, power) in divisor {
                let at = rest.iter().position(|(a, _)| a == atom)?;
                match rest[at].1.checked_sub(*power)? {
                    0 => {
                        rest.remove(at);
                    }
                    left => rest[at].1 = left,
                }
            }
            terms.insert(rest, c.checked_div(*factor)?);
        }
        Some(Self { terms, overflowed: false })
    }

    /// `self mod by`.
    #[must_use]
    pub fn modulo(&self, by: &Self) -> Self {
        match (self.as_const(), by.as_const()) {
            _ if self.overflowed || by.overflowed => Self::overflow(),
            (_, Some(0)) => Self::overflow(),
            (Some(a), Some(b)) if b > 0 => Self::constant(a.rem_euclid(b)),
            _ => Self::over(Atom::Mod, self, by),
        }
    }

    /// The smaller of the two.
    #[must_use]
    pub fn minimum(&self, other: &Self) -> Self {
        self.pick(other, i64::min, Atom::Min)
    }

    /// The larger of the two.
    #[must_use]
    pub fn maximum(&self, other: &Self) -> Self {
        self.pick(other, i64::max, Atom::Max)
    }

    fn pick(&self, other: &Self, fold: fn(i64, i64) -> i64, atom: fn(Arc<Self>, Arc<Self>) -> Atom) -> Self {
        if self.overflowed || other.overflowed {
            return Self::overflow();
        }
        if self == other {
            return self.clone();
        }
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => Self::constant(fold(a, b)),
            _ => {
                let (a, b) = if self <= other { (self, other) } else { (other, self) };
                Self::over(atom, a, b)
            }
        }
    }

    /// The value under `dims`; `None` where a symbol is not bound, on overflow and on division by zero.
    #[must_use]
    pub fn eval(&self, dims: &Bindings) -> Option<i64> {
        if self.overflowed {
            return None;
        }
        let mut sum = 0i64;
        for (monomial, factor) in &self.terms {
            let mut product = *factor;
            for (atom, power) in monomial {
                product = product.checked_mul(atom.eval(dims)?.checked_pow(*power)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// The symbol's name, if the expression is a symbol alone.
    #[must_use]
    pub fn as_var(&self) -> Option<Arc<str>> {
        let mut first = None;
        self.for_each_var(&mut |name| {
            first.get_or_insert_with(|| name.clone());
        });
        first.filter(|name| *self == Self::var(name.clone()))
    }

    /// Calls `f` with every symbol, with repetitions.
    pub fn for_each_var(&self, f: &mut dyn FnMut(&Arc<str>)) {
        for (atom, _) in self.terms.keys().flatten() {
            match atom {
                Atom::Var(name) => f(name),
                Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.for_each_var(f);
                    b.for_each_var(f);
                }
            }
        }
    }

    fn add_term(&mut self, monomial: Monomial, factor: i64) {
        let sum = self.terms.get(&monomial).copied().unwrap_or(0).checked_add(factor);
        match sum {
            None => *self = Self::overflow(),
            Some(0) => {
                self.terms.remove(&monomial);
            }
            Some(n) => {
                self.terms.insert(monomial, n);
                if self.terms.len() > MAX_TERMS {
                    *self = Self::overflow();
                }
            }
        }
    }
}

impl Atom {
    fn eval(&self, dims: &Bindings) -> Option<i64> {
        let both = |a: &Expr, b: &Expr| Some((a.eval(dims)?, b.eval(dims)?));
        match self {
            Self::Var(name) => dims.get(&**name).copied(),
            Self::FloorDiv(a, b) => both(a, b).and_then(|(a, b)| floor_div(a, b)),
            Self::CeilDiv(a, b) => both(a, b).and_then(|(a, b)| floor_div(a.checked_neg()?, b)?.checked_neg()),
            Self::Mod(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b.checked_mul(floor_div(a, b)?)?)),
            Self::Min(a, b) => both(a, b).map(|(a, b)| a.min(b)),
            Self::Max(a, b) => both(a, b).map(|(a, b)| a.max(b)),
        }
    }
}

/// Division rounding towards minus infinity; `None` for a zero divisor and on overflow.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && ((a < 0) != (b < 0)) { q - 1 } else { q })
}

impl std::ops::Add for Expr {
    type Output = Self;
    fn add(mut self, rhs: Self) -> Self {
        if self.overflowed || rhs.overflowed {
            return Self::overflow();
        }
        for (m, c) in rhs.terms {
            self.add_term(m, c);
            if self.overflowed {
                break;
            }
        }
        self
    }
}

impl std::ops::Neg for Expr {
    type Output = Self;
    fn neg(self) -> Self {
        self * Self::constant(-1)
    }
}

impl std::ops::Sub for Expr {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self + (-rhs)
    }
}

impl std::ops::Mul for Expr {
    type Output = Self;
    fn mul(self, rhs: Self) -> Self {
        if self.overflowed || rhs.overflowed {
            return Self::overflow();
        }
        let mut product = Self::default();
        for (ma, ca) in &self.terms {
            for (mb, cb) in &rhs.terms {
                let Some(factor) = ca.checked_mul(*cb) else { return Self::overflow() };
                let mut powers: BTreeMap<&Atom, u32> = BTreeMap::new();
                for (atom, power) in ma.iter().chain(mb) {
                    let p = powers.entry(atom).or_default();
                    *p = p.saturating_add(*power);
                }
                if powers.len() > MAX_FACTORS {
                    return Self::overflow();
                }
                product.add_term(powers.into_iter().map(|(a, p)| (a.clone(), p)).collect(), factor);
                if product.overflowed {
                    return product;
                }
            }
        }
        product
    }
}

impl std::fmt::Display for Atom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spaced = f.alternate();
        match self {
            Self::Var(name) => f.write_str(name),
            Self::FloorDiv(a, b) if spaced => write!(f, "floor(({a:#})/({b:#}))"),
            Self::CeilDiv(a, b) if spaced => write!(f, "ceil(({a:#})/({b:#}))"),
            Self::Mod(a, b) if spaced => write!(f, "mod({a:#},{b:#})"),
            Self::Min(a, b) if spaced => write!(f, "min({a:#},{b:#})"),
            Self::Max(a, b) if spaced => write!(f, "max({a:#},{b:#})"),
            Self::FloorDiv(a, b) => write!(f, "floor(({a})/({b}))"),
            Self::CeilDiv(a, b) => write!(f, "ceil(({a})/({b}))"),
            Self::Mod(a, b) => write!(f, "mod({a},{b})"),
            Self::Min(a, b) => write!(f, "min({a},{b})"),
            Self::Max(a, b) => write!(f, "max({a},{b})"),
        }
    }
}

impl std::fmt::Display for Expr {
    /// As people write it (`2*batch+1`). The alternate form (`{:#}`) sets spaces around sums and differences, so that it
    /// can be told from a symbol whose name has a hyphen: for files that are read again.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.overflowed {
            return f.write_str("?");
        }
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Constants last, as people write them: `2*batch+1`.
        let constants_last = self.terms.iter().filter(|(m, _)| !m.is_empty()).chain(self.terms.iter().filter(|(m, _)| m.is_empty()));
        for (i, (monomial, factor)) in constants_last.enumerate() {
            match (i > 0, *factor >= 0, f.alternate()) {
                (true, true, true) => f.write_str(" + ")?,
                (true, false, true) => f.write_str(" ")?,
                (true, true, false) => f.write_str("+")?,
                _ => {}
            }
            match (factor, monomial.is_empty()) {
                (c, true) if i > 0 && *c < 0 && f.alternate() => write!(f, "- {}", c.unsigned_abs())?,
                (c, true) => write!(f, "{c}")?,
                (1, false) => {}
                (-1, false) => f.write_str(if i > 0 && f.alternate() { "- " } else { "-" })?,
                (c, _) if i > 0 && *c < 0 && f.alternate() => write!(f, "- {}*", c.unsigned_abs())?,
                (c, false) => write!(f, "{c}*")?,
            }
            for (j, (atom, power)) in monomial.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                if f.alternate() {
                    write!(f, "{atom:#}")?;
                } else {
                    write!(f, "{atom}")?;
                }
                if *power > 1 {
                    write!(f, "^{power}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_compare_equal() {
        let (a, b) = (Expr::var("a"), Expr::var("b"));
        let x = a.clone() * b.clone() + Expr::constant(2);
        let y = Expr::constant(2) + b * a.clone();
        assert_eq!(x, y);
        assert_eq!(x.to_string(), "a*b+2");
        assert_eq!((a.clone() - a).as_const(), Some(0));
    }

    #[test]
    fn division_folds_where_exact_and_rounds_as_named() {
        let n = Expr::var("n");
        let four_n = n.clone() * Expr::constant(4);
        assert_eq!(four_n.floor_div(&Expr::constant(2)), n.clone() * Expr::constant(2));
        let half = n.floor_div(&Expr::constant(2));
        let up = n.ceil_div(&Expr::constant(2));
        let dims = Bindings::from([("n".to_owned(), 5)]);
        assert_eq!((half.eval(&dims), up.eval(&dims)), (Some(2), Some(3)));
        assert_eq!(n.floor_div(&Expr::constant(0)).eval(&dims), None);
    }

    #[test]
    fn symbols_cancel_in_exact_divisions() {
        let (a, b) = (Expr::var("a"), Expr::var("b"));
        let total = a.clone() * b.clone() * Expr::constant(4);
        assert_eq!(total.exact_div(&(a * Expr::constant(2))), Some(b.clone() * Expr::constant(2)));
        assert_eq!((b.clone() + Expr::constant(1)).exact_div(&b), None);
    }

    #[test]
    fn expressions_that_double_at_every_step_are_given_up() {
        let mut larger = Expr::var("n");
        let mut mixed = Expr::var("n");
        for _ in 0..60 {
            larger = larger.maximum(&(larger.clone() + Expr::constant(1)));
            mixed = mixed.floor_div(&Expr::constant(2)) + mixed.modulo(&Expr::constant(3));
        }
        assert!(larger.is_overflow() && mixed.is_overflow());
        // A hundred layers that halve a size are a hundred divisions inside each other, and stay what they are.
        let halved = (0..100).fold(Expr::var("n"), |h, _| (h + Expr::constant(1)).floor_div(&Expr::constant(2)));
        assert_eq!(halved.eval(&Bindings::from([("n".to_owned(), 1 << 40)])), Some(1));
        let product = (0..100).fold(Expr::constant(1), |p, i| p * Expr::var(format!("n{i}")));
        assert!(product.is_overflow());
    }

    #[test]
    fn overflow_has_no_value() {
        let big = Expr::constant(i64::MAX);
        assert!((big.clone() * big.clone()).is_overflow());
        assert!((big + Expr::constant(1)).is_overflow());
    }
}
