//! Selector text to [`Expr`].

use super::SelectError;
use super::ast::{Expr, Pattern, Prefix, PrefixForm, Term, is_word_char};
use super::pattern::Matcher;

/// Parentheses, `not`s and function calls that may stand inside one another. Bounds the recursion of everything that
/// walks an expression.
const MAX_DEPTH: u32 = 64;

/// Longest selector: room for the longest name a file may hold, and far from any trouble.
const MAX_BYTES: usize = 1 << 20;

/// Most names in one selector.
const MAX_TERMS: u32 = 4096;

/// Parses a selector. `lenient_colons`: the list holds node names, so that `nodes:0` is a name and no slip of `node:`.
pub(super) fn parse(text: &str, lenient_colons: bool) -> Result<Expr, SelectError> {
    let mut parser = Parser { text, rest: text, depth: 0, terms: 0, lenient_colons };
    if text.len() > MAX_BYTES {
        return Err(parser.error(format!("it is longer than {MAX_BYTES} bytes")));
    }
    let expr = parser.disjunction()?;
    parser.skip_space();
    match parser.rest.chars().next() {
        None => Ok(expr),
        Some(')') => Err(parser.error("this `)` closes nothing; a name that holds parentheses stands in quotes")),
        Some(c) => Err(parser.error(format!("expected `and`, `or` or the end, found `{}`{}", shown(c), quote_hint(c)))),
    }
}

fn shown(c: char) -> String {
    if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() }
}

fn quote_hint(c: char) -> &'static str {
    if matches!(c, '(' | ',' | '"') { "; a name that holds spaces, commas, quotes or parentheses stands in quotes" } else { "" }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
    terms: u32,
    lenient_colons: bool,
}

impl<'a> Parser<'a> {
    fn error(&self, message: impl Into<String>) -> SelectError {
        let at = self.text[..self.text.len() - self.rest.len()].chars().count();
        SelectError::Syntax { text: self.text.to_owned(), at, message: message.into() }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// The word at the cursor, without consuming it; empty if there is none.
    fn peek_word(&self) -> &'a str {
        let end = self.rest.find(|c| !is_word_char(c)).unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    fn take(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn take_keyword(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.peek_word() == word && !self.rest[word.len()..].starts_with('"');
        if found {
            self.take(word.len());
        }
        found
    }

    fn take_char(&mut self, c: char) -> bool {
        self.skip_space();
        let found = self.rest.starts_with(c);
        if found {
            self.take(c.len_utf8());
        }
        found
    }

    fn deeper(&mut self) -> Result<(), SelectError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("more than {MAX_DEPTH} parentheses, `not`s or calls stand inside one another")));
        }
        Ok(())
    }

    fn disjunction(&mut self) -> Result<Expr, SelectError> {
        let mut parts = vec![self.conjunction()?];
        while self.take_keyword("or") {
            parts.push(self.conjunction()?);
        }
        Ok(Expr::or(parts))
    }

    fn conjunction(&mut self) -> Result<Expr, SelectError> {
        let mut parts = vec![self.factor()?];
        while self.take_keyword("and") {
            parts.push(self.factor()?);
        }
        Ok(Expr::and(parts))
    }

    fn factor(&mut self) -> Result<Expr, SelectError> {
        self.deeper()?;
        let expr = if self.take_keyword("not") {
            Expr::Not(Box::new(self.factor()?))
        } else if self.take_char('(') {
            let inner = self.disjunction()?;
            self.close()?;
            inner
        } else {
            self.call_or_term()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn close(&mut self) -> Result<(), SelectError> {
        if self.take_char(')') {
            return Ok(());
        }
        Err(self.error(match self.rest.chars().next() {
            None => "expected `)`, found the end".to_owned(),
            Some(c) => format!("expected `and`, `or` or `)`, found `{}`{}", shown(c), quote_hint(c)),
        }))
    }

    fn call_or_term(&mut self) -> Result<Expr, SelectError> {
        self.skip_space();
        let word = self.peek_word();
        let is_call = self.rest[word.len()..].trim_start().starts_with('(');
        match word {
            "between" if is_call => {
                self.open(word);
                let a = self.disjunction()?;
                if !self.take_char(',') {
                    return Err(self.error("expected `,` and the second end of the range: between(A, B)"));
                }
                let b = self.disjunction()?;
                self.close()?;
                Ok(Expr::Between(Box::new(a), Box::new(b)))
            }
            "upstream" | "downstream" if is_call => {
                self.open(word);
                let inner = Box::new(self.disjunction()?);
                let hops = if self.take_char(',') { Some(self.number()?) } else { None };
                self.close()?;
                Ok(if word == "upstream" { Expr::Upstream(inner, hops) } else { Expr::Downstream(inner, hops) })
            }
            "and" | "or" => Err(self.error(format!("expected a name before `{word}`; a thing called so stands in quotes: \"{word}\""))),
            "between" | "upstream" | "downstream" => {
                Err(self.error(format!("expected `(` after `{word}`; a thing called so stands in quotes: \"{word}\"")))
            }
            _ => self.term().map(Expr::Term),
        }
    }

    fn open(&mut self, word: &str) {
        self.take(word.len());
        self.take_char('(');
    }

    fn number(&mut self) -> Result<u32, SelectError> {
        self.skip_space();
        let word = self.peek_word();
        match word.parse::<u32>() {
            Ok(n) if word.bytes().all(|b| b.is_ascii_digit()) => {
                self.take(word.len());
                Ok(n)
            }
            _ => Err(self.error("expected how many edges to go, a whole number")),
        }
    }

    fn term(&mut self) -> Result<Term, SelectError> {
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(self.error(format!("it holds more than {MAX_TERMS} names")));
        }
        let word = self.peek_word();
        let (prefix, name) = match PrefixForm::of(word) {
            PrefixForm::Known(p, name) => (Some(p), name),
            PrefixForm::Misspelt(p) if !self.lenient_colons => {
                return Err(self.error(format!("unknown prefix; did you mean `{}:`? A name with a colon stands in quotes", p.word())));
            }
            _ => (None, word),
        };
        self.take(word.len() - name.len());
        let pattern = self.pattern(prefix, name)?;
        Matcher::new(&pattern).map_err(|message| self.error(message))?;
        Ok(Term { prefix, pattern })
    }

    fn pattern(&mut self, prefix: Option<Prefix>, name: &'a str) -> Result<Pattern, SelectError> {
        let after = &self.rest[name.len()..];
        if after.starts_with('"') {
            return match name {
                "" => {
                    self.take(1);
                    self.quoted().map(Pattern::Literal)
                }
                "re:" => {
                    self.take(4);
                    self.regex().map(Pattern::Regex)
                }
                _ => {
                    self.take(name.len());
                    Err(self.error("a quote in the middle of a name: put the whole name into quotes, or write re:\"…\""))
                }
            };
        }
        if name.is_empty() {
            let found = match self.rest.chars().next() {
                None => "the end".to_owned(),
                Some(c) => format!("`{}`{}", shown(c), quote_hint(c)),
            };
            return Err(self.error(match prefix {
                Some(p) => format!("expected a name right after `{}:`, found {found}", p.word()),
                None => format!("expected a name, `not` or `(`, found {found}"),
            }));
        }
        self.take(name.len());
        Ok(Pattern::from_word(name))
    }

    /// The text up to the closing quote, with its escapes resolved. The cursor stands after the opening quote.
    fn quoted(&mut self) -> Result<String, SelectError> {
        let mut out = String::new();
        loop {
            let Some(c) = self.rest.chars().next() else {
                return Err(self.error("expected a closing quote, found the end"));
            };
            self.take(c.len_utf8());
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SelectError> {
        let expected = "expected one of \\\" \\\\ \\n \\r \\t \\u{…} after the backslash";
        let Some(c) = self.rest.chars().next() else { return Err(self.error(expected)) };
        let plain = match c {
            '"' | '\\' => c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits = self.rest.strip_prefix("u{").and_then(|r| r.split_once('}')).map(|(d, _)| d);
                let code = digits.filter(|d| d.len() <= 6).and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
                return match (digits, code) {
                    (Some(d), Some(c)) => {
                        self.take(d.len() + 3);
                        Ok(c)
                    }
                    _ => Err(self.error("expected a character's number in hexadecimal: \\u{1b}")),
                };
            }
            _ => return Err(self.error(expected)),
        };
        self.take(c.len_utf8());
        Ok(plain)
    }

    /// The text up to the closing quote, as it stands: backslashes belong to the regular expression.
    fn regex(&mut self) -> Result<String, SelectError> {
        let mut escaped = false;
        for (i, c) in self.rest.char_indices() {
            match c {
                '"' if !escaped => {
                    let pattern = self.rest[..i].to_owned();
                    self.take(i + 1);
                    return Ok(pattern);
                }
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        self.take(self.rest.len());
        Err(self.error("expected a closing quote, found the end"))
    }
}
