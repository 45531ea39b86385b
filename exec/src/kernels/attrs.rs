//! Attributes with their defaults; one of the wrong type is an error that names it.

use recut_core::graph::{AttrValue, Node};

use super::KernelError;
use crate::invalid;

/// The attributes of a node.
#[derive(Clone, Copy)]
pub(super) struct Attrs<'a>(pub(super) &'a Node);

impl<'a> Attrs<'a> {
    fn wrong<T>(self, name: &str, want: &str) -> Result<T, KernelError> {
        invalid!("attribute {name} of {} must be {want}", self.0.op)
    }

    /// The attribute `name`; `None` where absent.
    fn get(self, name: &str) -> Option<&'a AttrValue> {
        self.0.attr(name).filter(|v| !matches!(v, AttrValue::None))
    }

    pub(super) fn opt_int(self, name: &str) -> Result<Option<i64>, KernelError> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Int(i)) => Ok(Some(*i)),
            Some(AttrValue::Bool(b)) => Ok(Some(i64::from(*b))),
            Some(_) => self.wrong(name, "an integer"),
        }
    }

    pub(super) fn int(self, name: &str, default: i64) -> Result<i64, KernelError> {
        Ok(self.opt_int(name)?.unwrap_or(default))
    }

    /// A boolean stored as 0 or another integer.
    pub(super) fn flag(self, name: &str, default: bool) -> Result<bool, KernelError> {
        Ok(self.opt_int(name)?.map_or(default, |i| i != 0))
    }

    /// An integer of at least `min`.
    pub(super) fn size(self, name: &str, default: usize, min: usize) -> Result<usize, KernelError> {
        match self.opt_int(name)? {
            None => Ok(default),
            Some(i) => match usize::try_from(i) {
                Ok(n) if n >= min && n <= i32::MAX as usize => Ok(n),
                _ => invalid!("attribute {name} is {i}, expected at least {min}"),
            },
        }
    }

    pub(super) fn opt_float(self, name: &str) -> Result<Option<f64>, KernelError> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Float(x)) => Ok(Some(*x)),
            Some(_) => self.wrong(name, "a number"),
        }
    }

    pub(super) fn float(self, name: &str, default: f64) -> Result<f64, KernelError> {
        Ok(self.opt_float(name)?.unwrap_or(default))
    }

    pub(super) fn ints(self, name: &str) -> Result<Option<&'a [i64]>, KernelError> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Ints(v)) => Ok(Some(v)),
            // An empty list has no element that would tell its type.
            Some(AttrValue::Floats(v)) if v.is_empty() => Ok(Some(&[])),
            Some(AttrValue::List(v)) if v.is_empty() => Ok(Some(&[])),
            Some(_) => self.wrong(name, "a list of integers"),
        }
    }

    pub(super) fn floats(self, name: &str) -> Result<Option<&'a [f64]>, KernelError> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Floats(v)) => Ok(Some(v)),
            Some(AttrValue::Ints(v)) if v.is_empty() => Ok(Some(&[])),
            Some(_) => self.wrong(name, "a list of numbers"),
        }
    }

    pub(super) fn opt_text(self, name: &str) -> Result<Option<&'a str>, KernelError> {
        match self.get(name) {
            None => Ok(None),
            Some(v) => match v.as_str() {
                Some(s) => Ok(Some(s)),
                None => self.wrong(name, "text"),
            },
        }
    }

    pub(super) fn text(self, name: &str, default: &'a str) -> Result<&'a str, KernelError> {
        Ok(self.opt_text(name)?.unwrap_or(default))
    }

    /// One of `choices`, by position.
    pub(super) fn choice<T: Copy>(self, name: &str, default: &'a str, choices: &[(&str, T)]) -> Result<T, KernelError> {
        let text = self.text(name, default)?;
        match choices.iter().find(|(c, _)| c.eq_ignore_ascii_case(text)) {
            Some((_, v)) => Ok(*v),
            None => {
                let names: Vec<&str> = choices.iter().map(|c| c.0).collect();
                invalid!("attribute {name} is {:?}, expected one of {}", recut_core::diagnostic::printable(text), names.join(", "))
            }
        }
    }
}

/// A size from a file or an input: not negative, and one that this machine can count to.
pub(super) fn to_size(what: &str, n: i64) -> Result<usize, KernelError> {
    usize::try_from(n).map_err(|_| KernelError::Invalid(format!("{what} is {n}, which is no size")))
}
