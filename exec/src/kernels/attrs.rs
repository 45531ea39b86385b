//! Attributes with their defaults; one of the wrong type is an error that names it.

use recut_core::graph::{AttrValue, Node};

use super::KernelError;
use crate::invalid;

/// The attributes of a node.
#[derive(Clone, Copy)]
pub(super) struct Attrs<'a>(pub(super) &'a Node);

impl<'a> Attrs<'a> {
    fn wrong<T>(name: &str, want: &str) -> Result<T, KernelError> {
        invalid!("attribute {name} must be {want}")
    }

    pub(super) fn opt_int(self, name: &str) -> Result<Option<i64>, KernelError> {
        match self.0.attr(name) {
            None => Ok(None),
            Some(AttrValue::Int(i)) => Ok(Some(*i)),
            Some(_) => Self::wrong(name, "an integer"),
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
        match self.0.attr(name) {
            None => Ok(None),
            Some(AttrValue::Float(x)) => Ok(Some(*x)),
            Some(_) => Self::wrong(name, "a number"),
        }
    }

    pub(super) fn float(self, name: &str, default: f64) -> Result<f64, KernelError> {
        Ok(self.opt_float(name)?.unwrap_or(default))
    }

    pub(super) fn ints(self, name: &str) -> Result<Option<&'a [i64]>, KernelError> {
        match self.0.attr(name) {
            None => Ok(None),
            Some(AttrValue::Ints(v)) => Ok(Some(v)),
            Some(_) => Self::wrong(name, "a list of integers"),
        }
    }

    pub(super) fn floats(self, name: &str) -> Result<Option<&'a [f64]>, KernelError> {
        match self.0.attr(name) {
            None => Ok(None),
            Some(AttrValue::Floats(v)) => Ok(Some(v)),
            Some(_) => Self::wrong(name, "a list of numbers"),
        }
    }

    pub(super) fn opt_text(self, name: &str) -> Result<Option<&'a str>, KernelError> {
        match self.0.attr(name) {
            None => Ok(None),
            Some(v) => match v.as_str() {
                Some(s) => Ok(Some(s)),
                None => Self::wrong(name, "text"),
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
