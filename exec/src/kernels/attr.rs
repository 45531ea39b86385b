//! Attributes of a node, with the error that a wrong type deserves.

use recut_core::graph::{AttrValue, Node};

use super::KernelError;

fn wrong(node: &Node, name: &str, want: &str) -> KernelError {
    KernelError::Invalid(format!("attribute {name} of {} must be {want}", node.op))
}

/// The integer `name`; `None` where absent.
pub(super) fn int_opt(node: &Node, name: &str) -> Result<Option<i64>, KernelError> {
    match node.attr(name) {
        None | Some(AttrValue::None) => Ok(None),
        Some(AttrValue::Int(i)) => Ok(Some(*i)),
        Some(AttrValue::Bool(b)) => Ok(Some(i64::from(*b))),
        Some(_) => Err(wrong(node, name, "an integer")),
    }
}

/// The integer `name`, or its default.
pub(super) fn int(node: &Node, name: &str, default: i64) -> Result<i64, KernelError> {
    Ok(int_opt(node, name)?.unwrap_or(default))
}

/// The flag `name`, stored as an integer.
pub(super) fn flag(node: &Node, name: &str, default: bool) -> Result<bool, KernelError> {
    Ok(int(node, name, i64::from(default))? != 0)
}

/// The number `name`; `None` where absent.
pub(super) fn float_opt(node: &Node, name: &str) -> Result<Option<f64>, KernelError> {
    match node.attr(name) {
        None | Some(AttrValue::None) => Ok(None),
        Some(AttrValue::Float(x)) => Ok(Some(*x)),
        Some(_) => Err(wrong(node, name, "a float")),
    }
}

/// The number `name`, or its default.
pub(super) fn float(node: &Node, name: &str, default: f64) -> Result<f64, KernelError> {
    Ok(float_opt(node, name)?.unwrap_or(default))
}

/// The integers `name`; `None` where absent.
pub(super) fn ints(node: &Node, name: &str) -> Result<Option<Vec<i64>>, KernelError> {
    match node.attr(name) {
        None | Some(AttrValue::None) => Ok(None),
        Some(AttrValue::Ints(v)) => Ok(Some(v.to_vec())),
        // An empty list has no element that would tell its type.
        Some(AttrValue::Floats(v)) if v.is_empty() => Ok(Some(Vec::new())),
        Some(AttrValue::List(v)) if v.is_empty() => Ok(Some(Vec::new())),
        Some(_) => Err(wrong(node, name, "a list of integers")),
    }
}

/// The numbers `name`; `None` where absent.
pub(super) fn floats(node: &Node, name: &str) -> Result<Option<Vec<f64>>, KernelError> {
    match node.attr(name) {
        None | Some(AttrValue::None) => Ok(None),
        Some(AttrValue::Floats(v)) => Ok(Some(v.to_vec())),
        Some(AttrValue::Ints(v)) if v.is_empty() => Ok(Some(Vec::new())),
        Some(_) => Err(wrong(node, name, "a list of floats")),
    }
}

/// The text `name`, or its default.
pub(super) fn text<'a>(node: &'a Node, name: &str, default: &'a str) -> Result<&'a str, KernelError> {
    match node.attr(name) {
        None | Some(AttrValue::None) => Ok(default),
        Some(AttrValue::Bytes(b)) => std::str::from_utf8(b).map_err(|_| wrong(node, name, "text in UTF-8")),
        Some(_) => Err(wrong(node, name, "text")),
    }
}

/// A size from a file or an input: not negative, and one that this machine can count to.
pub(super) fn size(what: &str, n: i64) -> Result<usize, KernelError> {
    usize::try_from(n).map_err(|_| KernelError::Invalid(format!("{what} is {n}, which is no size")))
}
