//! Argument defaults of torch operators: a program stores only the arguments that were passed.
//!
//! The facts stand in `core/data/aten_schemas.txt`, taken from torch 2.15's operator schemas: one overload a line, its
//! flags, then the arguments in order, each with its default in JSON where it has one. The flags: `k` core ATen, `v`
//! view, `m` mutates an argument, `c` composite implicit (always decomposable), `e` composite explicit, `p` pointwise,
//! `r` reduction, `d` data-dependent output, `y` output shape depends on data, `s` seeded random, `-` none.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::graph::{AttrValue, Op};

static TEXT: &str = include_str!("../../data/aten_schemas.txt");

static LINES: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| TEXT.lines().filter_map(|l| l.split_once(' ')).collect());

/// Full names of all overloads, sorted.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn names() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let mut names: Vec<_> = LINES.keys().copied().collect();
        names.sort_unstable();
        names
    });
    &NAMES
}

/// The schema of one overload.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    rest: &'static str,
}

impl Schema {
    /// The schema of `op`, where it is one of torch's own; the in-place form of an operator has its own.
    #[must_use]
    pub fn of(op: &Op) -> Option<Self> {
        let overload = if op.overload.is_empty() { "default" } else { &op.overload };
        Self::named(&format!("{}.{}.{overload}", op.domain, op.name))
    }

    /// The schema of an overload by its full name (`aten.add.Tensor`).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        LINES.get(name).map(|rest| Self { rest })
    }

    /// Whether the operator has the flag (see the module).
    #[must_use]
    pub fn has_flag(self, flag: char) -> bool {
        self.rest.split(' ').next().is_some_and(|flags| flags.contains(flag))
    }

    /// Names of the arguments, in order.
    pub fn arguments(self) -> impl Iterator<Item = &'static str> {
        self.rest.split(' ').skip(1).map(|a| a.split_once('=').map_or(a, |(name, _)| name))
    }

    /// Whether an argument may be left out.
    #[must_use]
    pub fn has_default(self, argument: &str) -> bool {
        self.default_text(argument).is_some()
    }

    /// The default of an argument; `None` if there is none, or no such argument.
    #[must_use]
    pub fn default(self, argument: &str) -> Option<AttrValue> {
        value(&serde_json::from_str(self.default_text(argument)?).ok()?)
    }

    fn default_text(self, argument: &str) -> Option<&'static str> {
        self.rest.split(' ').skip(1).find_map(|a| a.split_once('=').filter(|(name, _)| *name == argument)).map(|(_, text)| text)
    }
}

fn value(json: &serde_json::Value) -> Option<AttrValue> {
    use serde_json::Value as Json;
    Some(match json {
        Json::Null => AttrValue::None,
        Json::Bool(b) => AttrValue::Bool(*b),
        Json::Number(n) => n.as_i64().map(AttrValue::Int).or_else(|| n.as_f64().map(AttrValue::Float))?,
        Json::String(s) => AttrValue::Bytes(s.as_bytes().into()),
        Json::Array(items) => match items.iter().map(Json::as_i64).collect::<Option<Vec<i64>>>() {
            Some(ints) => AttrValue::Ints(ints.into()),
            None => AttrValue::Floats(items.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>()?.into()),
        },
        Json::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_understood() {
        let mut defaults = 0;
        for (name, rest) in LINES.iter() {
            let schema = Schema { rest };
            for argument in rest.split(' ').skip(1).filter_map(|a| a.split_once('=')) {
                defaults += 1;
                assert!(schema.default(argument.0).is_some(), "{name} {argument:?}");
            }
        }
        assert!(defaults > 1500, "{defaults}");
    }

    #[test]
    fn facts_of_some_operators() {
        let conv = Schema::named("aten.conv2d.default").unwrap();
        assert!(conv.has_flag('c') && !conv.has_flag('k'));
        assert_eq!(conv.arguments().collect::<Vec<_>>(), ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]);
        assert_eq!(conv.default("dilation"), Some(AttrValue::Ints([1, 1].into())));
        assert_eq!(conv.default("bias"), Some(AttrValue::None));
        assert_eq!(conv.default("weight"), None);
        assert_eq!(Schema::named("aten.layer_norm.default").unwrap().default("eps"), Some(AttrValue::Float(1e-5)));
        assert_eq!(Schema::named("aten.gelu.default").unwrap().default("approximate"), Some(AttrValue::Bytes(b"none"[..].into())));
    }
}
