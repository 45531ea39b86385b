//! Symbolic sizes: sympy's `srepr` text to [`Expr`].
//!
//! `Mul(Symbol('s27', positive=True, integer=True), Integer(2))` becomes `s27*2`. What has no integer meaning here
//! (floats, bitwise operators) is no expression, and the dimension is unknown.

use crate::expr::Expr;

/// Nested calls above which a text is given up: hostile files nest without end.
const MAX_DEPTH: u32 = 64;
/// Largest exponent that is multiplied out.
const MAX_POWER: i64 = 16;

/// The expression of an `srepr` text; `None` if it is none, or holds what [`Expr`] does not.
pub(super) fn parse(text: &str) -> Option<Expr> {
    let mut p = Parser { rest: text.trim(), depth: 0 };
    let parsed = p.term()?;
    p.rest.trim().is_empty().then_some(parsed).and_then(Term::into_expr)
}

/// A part of the text.
enum Term {
    Expr(Expr),
    Text(String),
}

impl Term {
    fn into_expr(self) -> Option<Expr> {
        match self {
            Self::Expr(e) => Some(e),
            Self::Text(_) => None,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Option<i64> {
        self.skip();
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let end = self.rest.len() - digits.len() + len;
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number.parse().ok()
    }

    fn term(&mut self) -> Option<Term> {
        self.skip();
        match self.rest.chars().next()? {
            quote @ ('\'' | '"') => {
                let body = &self.rest[1..];
                let end = body.find(quote)?;
                let text = body[..end].to_owned();
                self.rest = &body[end + 1..];
                Some(Term::Text(text))
            }
            '-' | '0'..='9' => Some(Term::Expr(Expr::constant(self.number()?))),
            _ => self.call(),
        }
    }

    /// `Name(argument, …, keyword=value)`.
    fn call(&mut self) -> Option<Term> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let name = self.word();
        if name.is_empty() || !self.eat('(') {
            return None;
        }
        let mut args = Vec::new();
        if !self.eat(')') {
            loop {
                // Assumptions of symbols (`integer=True`) say nothing that is used here.
                let before = self.rest;
                let key = self.word();
                if !key.is_empty() && self.eat('=') {
                    self.word();
                } else {
                    self.rest = before;
                    args.push(self.term()?);
                }
                if self.eat(')') {
                    break;
                }
                if !self.eat(',') {
                    return None;
                }
            }
        }
        self.depth -= 1;
        apply(name, args).map(Term::Expr)
    }
}

fn apply(name: &str, args: Vec<Term>) -> Option<Expr> {
    if name == "Symbol" {
        return match args.into_iter().next()? {
            Term::Text(name) if !name.is_empty() => Some(Expr::var(name)),
            _ => None,
        };
    }
    let args: Vec<Expr> = args.into_iter().map(Term::into_expr).collect::<Option<_>>()?;
    let fold = |f: fn(Expr, Expr) -> Expr| args.iter().cloned().reduce(f);
    let two = || match args.as_slice() {
        [a, b] => Some((a, b)),
        _ => None,
    };
    match name {
        "Integer" => args.first().cloned(),
        "Add" => fold(|a, b| a + b),
        "Mul" => fold(|a, b| a * b),
        "Max" => fold(|a, b| a.maximum(&b)),
        "Min" => fold(|a, b| a.minimum(&b)),
        "Mod" | "PythonMod" => two().map(|(a, b)| a.modulo(b)),
        "FloorDiv" | "CleanDiv" => two().map(|(a, b)| a.floor_div(b)),
        "CeilDiv" => two().map(|(a, b)| a.ceil_div(b)),
        "Pow" | "PowByNatural" => {
            let (base, exponent) = two()?;
            let n = exponent.as_const().filter(|n| (0..=MAX_POWER).contains(n))?;
            Some((0..n).fold(Expr::constant(1), |product, _| product * base.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        parse(text).map(|e| e.to_string())
    }

    #[test]
    fn sympy_texts_become_expressions() {
        assert_eq!(shown("Symbol('s77', positive=True, integer=True)").as_deref(), Some("s77"));
        let a = parse("Mul(Integer(2), Symbol('s27', positive=True, integer=True))").unwrap();
        assert_eq!(a, Expr::constant(2) * Expr::var("s27"));
        let b = parse("Add(FloorDiv(Symbol('h', integer=True), Integer(2)), Integer(-1))").unwrap();
        assert_eq!(b, Expr::var("h").floor_div(&Expr::constant(2)) + Expr::constant(-1));
        assert_eq!(parse("Pow(Symbol('n'), Integer(2))").unwrap(), Expr::var("n") * Expr::var("n"));
        assert_eq!(parse("Max(Integer(1), Symbol('u0', integer=True))").unwrap(), Expr::constant(1).maximum(&Expr::var("u0")));
    }

    #[test]
    fn what_is_no_size_is_none() {
        for text in [
            "",
            "Symbol(",
            "Symbol('a'",
            "Float('2.0', precision=53)",
            "Nonsense(Integer(1))",
            "Integer(99999999999999999999)",
            "Symbol('a') x",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(shown(&("Add(".repeat(100_000) + "Integer(1)")), None);
    }
}
