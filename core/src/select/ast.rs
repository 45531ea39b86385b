//! The parsed form of a selector, and its canonical text.

use std::fmt;

/// What a name is looked up among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Prefix {
    /// Operators, in any usual spelling.
    Op,
    /// Module instance paths, with everything below.
    Module,
    /// Module classes, by public, full or last name.
    Class,
    /// Stable ids (and names) of nodes.
    Node,
    /// Values, standing for the node that makes them.
    Value,
    /// Python source positions in the stack traces of nodes.
    Source,
    /// Partitions of the current plan.
    Partition,
}

impl Prefix {
    /// All of them, in the order of the grammar.
    pub const ALL: [Self; 7] = [Self::Op, Self::Module, Self::Class, Self::Node, Self::Value, Self::Source, Self::Partition];

    /// The word before the colon.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Op => "op",
            Self::Module => "module",
            Self::Class => "class",
            Self::Node => "node",
            Self::Value => "value",
            Self::Source => "source",
            Self::Partition => "partition",
        }
    }

    /// The prefix written as `word`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.word() == word)
    }
}

/// What a name must look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Exactly this text.
    Literal(String),
    /// Unquoted text with wildcards: `*` stops at a dot or slash, `**` crosses them. Also unquoted text with an `@`,
    /// which names one call of a module.
    Glob(String),
    /// A regular expression that must match somewhere in the name.
    Regex(String),
}

impl Pattern {
    /// The pattern that unquoted text stands for.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        if word.contains(['*', '@']) { Self::Glob(word.to_owned()) } else { Self::Literal(word.to_owned()) }
    }

    /// The text without quotes: of a name, a glob or a regular expression.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Literal(s) | Self::Glob(s) | Self::Regex(s) => s,
        }
    }
}

/// A name with what it is looked up among; without a prefix, its form or its list decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The prefix, if one is written.
    pub prefix: Option<Prefix>,
    /// The name.
    pub pattern: Pattern,
}

/// A selector expression. Build conjunctions and disjunctions with [`Expr::and`] and [`Expr::or`], which keep them flat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Nodes by name.
    Term(Term),
    /// All other nodes.
    Not(Box<Expr>),
    /// Nodes in all of at least two sets, none of which is itself an `And`.
    And(Vec<Expr>),
    /// Nodes in any of at least two sets, none of which is itself an `Or`.
    Or(Vec<Expr>),
    /// Nodes on paths from the first set to the second, ends included.
    Between(Box<Expr>, Box<Expr>),
    /// The set and what feeds it, up to so many edges away.
    Upstream(Box<Expr>, Option<u32>),
    /// The set and what it feeds, up to so many edges away.
    Downstream(Box<Expr>, Option<u32>),
}

impl Expr {
    /// The conjunction of `parts`, flat; of one part, that part.
    #[must_use]
    pub fn and(parts: Vec<Self>) -> Self {
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::And(inner) => all.extend(inner),
                part => all.push(part),
            }
        }
        if all.len() == 1 { all.remove(0) } else { Self::And(all) }
    }

    /// The disjunction of `parts`, flat; of one part, that part.
    #[must_use]
    pub fn or(parts: Vec<Self>) -> Self {
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Or(inner) => all.extend(inner),
                part => all.push(part),
            }
        }
        if all.len() == 1 { all.remove(0) } else { Self::Or(all) }
    }

    /// How tightly the expression binds: a part that binds less than its place needs stands in parentheses.
    const fn binding(&self) -> u8 {
        match self {
            Self::Or(_) => 0,
            Self::And(_) => 1,
            Self::Not(_) => 2,
            _ => 3,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, needed: u8) -> fmt::Result {
        if self.binding() < needed {
            f.write_str("(")?;
            self.write(f, 0)?;
            return f.write_str(")");
        }
        match self {
            Self::Term(t) => write!(f, "{t}"),
            Self::Not(e) => {
                f.write_str("not ")?;
                e.write(f, 2)
            }
            Self::And(parts) => write_joined(f, parts, " and ", 2),
            Self::Or(parts) => write_joined(f, parts, " or ", 1),
            Self::Between(a, b) => write!(f, "between({a}, {b})"),
            Self::Upstream(e, n) => write_reach(f, "upstream", e, *n),
            Self::Downstream(e, n) => write_reach(f, "downstream", e, *n),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, parts: &[Expr], word: &str, needed: u8) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(word)?;
        }
        part.write(f, needed)?;
    }
    Ok(())
}

fn write_reach(f: &mut fmt::Formatter<'_>, word: &str, e: &Expr, hops: Option<u32>) -> fmt::Result {
    match hops {
        Some(n) => write!(f, "{word}({e}, {n})"),
        None => write!(f, "{word}({e})"),
    }
}

impl fmt::Display for Expr {
    /// Canonical text: it parses back to an equal expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// Words that mean something of their own where a bare name could stand.
pub(super) const KEYWORDS: [&str; 6] = ["and", "or", "not", "between", "upstream", "downstream"];

/// Whether `c` may stand in unquoted text.
pub(super) fn is_word_char(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || matches!(c, '"' | '(' | ')' | ',') || is_invisible(c))
}

/// Characters that show nothing or reorder what is shown: only ever written as escapes.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(p) = self.prefix {
            write!(f, "{}:", p.word())?;
        }
        match &self.pattern {
            Pattern::Glob(s) => f.write_str(s),
            Pattern::Regex(s) => write!(f, "re:\"{s}\""),
            Pattern::Literal(s) if can_stand_unquoted(s, self.prefix.is_none()) => f.write_str(s),
            Pattern::Literal(s) => write_quoted(f, s),
        }
    }
}

fn can_stand_unquoted(s: &str, bare: bool) -> bool {
    let plain =
        !s.is_empty() && s.chars().all(is_word_char) && !s.contains(['*', '@', '\\']) && !s.starts_with("re:") && !s.starts_with(':');
    plain && !(bare && (KEYWORDS.contains(&s) || !matches!(PrefixForm::of(s), PrefixForm::None)))
}

/// What stands before the first colon of unquoted text.
pub(super) enum PrefixForm<'a> {
    /// A prefix, and what follows its colon.
    Known(Prefix, &'a str),
    /// Hardly anything but a slip of this prefix.
    Misspelt(Prefix),
    /// No prefix: a name, which may hold colons.
    None,
}

impl<'a> PrefixForm<'a> {
    pub(super) fn of(word: &'a str) -> Self {
        let Some((head, rest)) = word.split_once(':') else { return Self::None };
        if rest.starts_with(':') {
            return Self::None;
        }
        if let Some(p) = Prefix::from_word(head) {
            return Self::Known(p, rest);
        }
        let near = |p: &Prefix| head.len() <= 12 && strsim::osa_distance(head, p.word()) <= if p.word().len() < 5 { 1 } else { 2 };
        match Prefix::ALL.into_iter().find(|p| head.len() > 2 && head.chars().all(char::is_alphabetic) && near(p)) {
            Some(p) => Self::Misspelt(p),
            None => Self::None,
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, s: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() || is_invisible(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}
