//! Dimensions as text: names, and the sums, products and calls that exporters and [`crate::expr::Expr`] write.

use crate::expr::Expr;
use crate::shape::Dim;

/// Longest dimension text that is parsed as an expression; longer ones are one symbol.
const MAX_EXPRESSION: usize = 256;

/// The dimension that a `dim_param` means. Exporters write names, but also sums, products and calls of them (sympy's
/// text form). What is no such expression is a symbol of that very name.
pub(super) fn parse_dim(text: &str) -> Dim {
    let text = text.trim();
    if text.is_empty() || text == "?" {
        return Dim::Unknown;
    }
    let parsed = (text.len() <= MAX_EXPRESSION).then(|| {
        let mut p = Parser { rest: text, depth: 0, fractions: 0 };
        p.sum().filter(|_| p.rest.trim_start().is_empty() && p.fractions == 0)
    });
    match parsed.flatten() {
        Some(e) if !e.is_overflow() => Dim::from_expr(e),
        _ => Dim::from_expr(Expr::var(text)),
    }
}

/// Recursive descent over a short text.
struct Parser<'t> {
    rest: &'t str,
    depth: u32,
    /// Divisions by `/` that stand outside `floor(…/…)`: such an expression is no integer one.
    fractions: u32,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(r) => {
                self.rest = r;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > 32 {
            return None;
        }
        let mut e = if self.eat("-") { Expr::constant(-1) * self.product()? } else { self.product()? };
        loop {
            if self.eat("+") {
                e = e + self.product()?;
            } else if self.rest.starts_with(" - ") || self.rest.starts_with("- ") || self.rest.starts_with('-') {
                self.eat("-");
                e = e + Expr::constant(-1) * self.product()?;
            } else {
                self.depth -= 1;
                return Some(e);
            }
        }
    }

    fn product(&mut self) -> Option<Expr> {
        let mut e = self.power()?;
        loop {
            if self.eat("//") {
                e = e.floor_div(&self.power()?);
            } else if self.eat("/") {
                self.fractions += 1;
                return Some(e.floor_div(&self.power()?));
            } else if self.eat("*") {
                e = e * self.power()?;
            } else if self.eat("%") {
                e = e.modulo(&self.power()?);
            } else {
                return Some(e);
            }
        }
    }

    fn power(&mut self) -> Option<Expr> {
        let base = self.atom()?;
        if !self.eat("**") && !self.eat("^") {
            return Some(base);
        }
        let exponent = u32::try_from(self.atom()?.as_const()?).ok().filter(|&n| n <= 16)?;
        Some((0..exponent).fold(Expr::constant(1), |e, _| e * base.clone()))
    }

    fn atom(&mut self) -> Option<Expr> {
        if self.eat("(") {
            let e = self.sum()?;
            return self.eat(")").then_some(e);
        }
        self.rest = self.rest.trim_start();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#' | '$' | '@');
        let mut end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        // `batch-size` is a name, `batch - 1` and `h-1` are differences.
        let numeric = self.rest.starts_with(|c: char| c.is_ascii_digit());
        while !numeric && self.rest[end..].starts_with('-') && self.rest[end + 1..].starts_with(char::is_alphabetic) {
            let after = &self.rest[end + 1..];
            end += 1 + after.find(|c| !is_name(c)).unwrap_or(after.len());
        }
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return None;
        }
        self.rest = rest;
        if numeric {
            return word.parse().ok().map(Expr::constant);
        }
        if !self.eat("(") {
            return Some(Expr::var(word));
        }
        if word.eq_ignore_ascii_case("floor") {
            // One quotient is floored as a whole; `floor(h/2 + 1/2)` and the like stay symbols.
            let before = self.fractions;
            let e = self.product()?;
            if self.fractions == before + 1 {
                self.fractions = before;
            }
            return self.eat(")").then_some(e);
        }
        if word.eq_ignore_ascii_case("ceil") {
            let a = self.power()?;
            if !self.eat("/") {
                return None;
            }
            let b = self.power()?;
            return self.eat(")").then(|| a.ceil_div(&b));
        }
        let mut args = vec![self.sum()?];
        while self.eat(",") {
            args.push(self.sum()?);
        }
        if !self.eat(")") {
            return None;
        }
        match (word.to_ascii_lowercase().as_str(), args.as_slice()) {
            ("max", [first, rest @ ..]) => Some(rest.iter().fold(first.clone(), |e, x| e.maximum(x))),
            ("min", [first, rest @ ..]) => Some(rest.iter().fold(first.clone(), |e, x| e.minimum(x))),
            ("floordiv", [a, b]) => Some(a.floor_div(b)),
            ("ceildiv", [a, b]) => Some(a.ceil_div(b)),
            ("mod", [a, b]) => Some(a.modulo(b)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse_dim(text).to_string()
    }

    #[test]
    fn names_and_expressions() {
        assert_eq!(parse_dim("batch"), Dim::Sym(Expr::var("batch").into()));
        assert_eq!(parse_dim("unk__17"), Dim::Sym(Expr::var("unk__17").into()));
        assert_eq!(parse_dim("batch-size"), Dim::Sym(Expr::var("batch-size").into()));
        assert_eq!(parse_dim("seq*batch"), parse_dim("batch * seq"));
        assert_eq!(parse_dim("2*s0 - s0"), parse_dim("s0"));
        assert_eq!(parse_dim("past + 1 - past + 3"), Dim::Known(4));
        assert_eq!(parse_dim("h-1"), parse_dim("h - 1"));
        assert_eq!(parse_dim("12"), Dim::Known(12));
        assert_eq!(parse_dim("-3"), Dim::Unknown);
        assert_eq!(parse_dim(""), Dim::Unknown);
        assert_eq!(parse_dim("floor(h/2) + 1"), parse_dim("1 + FloorDiv(h, 2)"));
        assert_eq!(parse_dim("Max(1, n)"), Dim::from_expr(Expr::constant(1).maximum(&Expr::var("n"))));
        assert_eq!(parse_dim("n**2"), parse_dim("n*n"));
    }

    #[test]
    fn what_does_not_parse_is_a_symbol() {
        for odd in ["floor(h/2 + 1/2)", "h/2", "a b", "(", "f(x)", "n +", "世界 1", "9999999999999999999999", "a*(b", &"(".repeat(200)] {
            assert_eq!(shown(odd), Dim::Sym(Expr::var(odd).into()).to_string(), "{odd}");
        }
    }

    #[test]
    fn what_expressions_print_is_read_back() {
        let (a, b) = (Expr::var("a"), Expr::var("b-c"));
        let two = Expr::constant(2);
        let all = [
            a.clone() - b.clone(),
            b.clone() * two.clone() - a.clone() + Expr::constant(-7),
            -a.clone(),
            a.clone() * a.clone() * b.clone() * Expr::constant(-3) + Expr::constant(-5),
            (a.clone() + Expr::constant(1)).floor_div(&two) + Expr::constant(4),
            (a.clone() - b.clone()).ceil_div(&Expr::constant(3)) * b.clone(),
            a.modulo(&b.floor_div(&two)),
            a.minimum(&b).maximum(&two),
        ];
        for e in all {
            assert_eq!(parse_dim(&format!("{e:#}")), Dim::from_expr(e.clone()), "{e:#}");
        }
    }
}
