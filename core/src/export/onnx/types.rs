//! Types of values: from the model's to `TypeProto`, and from the text of type attributes back to it.

use std::io;

use super::sink::Sink;
use crate::dtype::DType;
use crate::graph::{Graph, Value, ValueKind, ValueType};
use crate::shape::{Dim, Shape};

/// Whether everything that `TypeProto` has to say of this value is known. Of optionals and maps, and of lists of maps as
/// `ai.onnx.ml` makes them, the model keeps only the innermost element type.
pub(super) fn is_known(graph: &Graph, v: &Value) -> bool {
    let of_maps = || matches!(v.kind, ValueKind::Output { node, .. } if &*graph.node(node).op.domain == "ai.onnx.ml");
    v.dtype.is_some()
        && match v.ty {
            ValueType::Tensor | ValueType::Sparse | ValueType::Scalar => true,
            ValueType::Sequence => !of_maps(),
            ValueType::Optional | ValueType::Map | ValueType::Other => false,
        }
}

/// Name and type (field 2) of a value. A type that is not known is left out: readers infer it.
pub(super) fn value_info(s: &mut Sink<'_>, tag: u32, name: &str, graph: &Graph, v: &Value) -> io::Result<()> {
    s.message(tag, |s| {
        s.text(1, name)?;
        let Some(dtype) = v.dtype.filter(|_| is_known(graph, v)) else { return Ok(()) };
        s.message(2, |s| match v.ty {
            ValueType::Sparse => s.message(8, |s| tensor(s, dtype, &v.shape)),
            // A list of tensors, each of its own shape.
            ValueType::Sequence => s.message(4, |s| s.message(1, |s| s.message(1, |s| tensor(s, dtype, &Shape::UNKNOWN)))),
            ValueType::Scalar => s.message(1, |s| tensor(s, dtype, &Shape::known(&[]))),
            _ => s.message(1, |s| tensor(s, dtype, &v.shape)),
        })
    })
}

fn tensor(s: &mut Sink<'_>, dtype: DType, shape: &Shape) -> io::Result<()> {
    s.int(1, i64::from(dtype.to_onnx()))?;
    let Some(dims) = shape.dims() else { return Ok(()) };
    s.message(2, |s| dims.iter().try_for_each(|d| s.message(1, |s| dim(s, d))))
}

fn dim(s: &mut Sink<'_>, d: &Dim) -> io::Result<()> {
    match d {
        Dim::Known(n) => i64::try_from(*n).map_or(Ok(()), |n| s.int(1, n)),
        Dim::Sym(e) if !e.is_overflow() => s.text(2, &format!("{e:#}")),
        Dim::Sym(_) | Dim::Unknown => Ok(()),
    }
}

/// A type as text (`tensor(f32[2,n])`, `seq(tensor(i64))`), understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type<'t> {
    /// Element type, and the texts of the dimensions where the rank is known.
    Tensor(DType, Option<Vec<&'t str>>),
    Sparse(DType, Option<Vec<&'t str>>),
    Sequence(Box<Type<'t>>),
    Optional(Box<Type<'t>>),
    Map(DType, Box<Type<'t>>),
}

/// Types inside each other above which a text is no type.
const MAX_DEPTH: usize = 32;

impl<'t> Type<'t> {
    /// Reads the text that the importer makes of a `TypeProto`. `None` if it tells not all.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        Self::nested(text, 0)
    }

    fn nested(text: &'t str, depth: usize) -> Option<Self> {
        let (kind, rest) = text.split_once('(')?;
        let inner = rest.strip_suffix(')').filter(|_| depth < MAX_DEPTH)?;
        let boxed = |t| Self::nested(t, depth + 1).map(Box::new);
        Some(match kind {
            "tensor" => {
                let (d, dims) = element(inner)?;
                Self::Tensor(d, dims)
            }
            "sparse_tensor" => {
                let (d, dims) = element(inner)?;
                Self::Sparse(d, dims)
            }
            "seq" => Self::Sequence(boxed(inner)?),
            "optional" => Self::Optional(boxed(inner)?),
            "map" => {
                let (key, value) = inner.split_once(',')?;
                Self::Map(DType::parse(key)?, boxed(value)?)
            }
            _ => return None,
        })
    }

    /// Writes the fields of the `TypeProto`.
    pub(super) fn write(&self, s: &mut Sink<'_>) -> io::Result<()> {
        match self {
            Self::Tensor(d, dims) => s.message(1, |s| written(s, *d, dims.as_deref())),
            Self::Sparse(d, dims) => s.message(8, |s| written(s, *d, dims.as_deref())),
            Self::Sequence(t) => s.message(4, |s| s.message(1, |s| t.write(s))),
            Self::Optional(t) => s.message(9, |s| s.message(1, |s| t.write(s))),
            Self::Map(key, t) => s.message(5, |s| {
                s.int(1, i64::from(key.to_onnx()))?;
                s.message(2, |s| t.write(s))
            }),
        }
    }
}

/// `f32[2,n]`: element type and dimensions.
fn element(text: &str) -> Option<(DType, Option<Vec<&str>>)> {
    let Some((dtype, dims)) = text.split_once('[') else { return Some((DType::parse(text)?, None)) };
    let dims = dims.strip_suffix(']')?;
    let mut list = Vec::new();
    let (mut depth, mut begin) = (0usize, 0);
    for (i, c) in dims.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                list.push(&dims[begin..i]);
                begin = i + 1;
            }
            _ => {}
        }
    }
    if !dims.is_empty() {
        list.push(&dims[begin..]);
    }
    Some((DType::parse(dtype)?, Some(list)))
}

fn written(s: &mut Sink<'_>, dtype: DType, dims: Option<&[&str]>) -> io::Result<()> {
    s.int(1, i64::from(dtype.to_onnx()))?;
    let Some(dims) = dims else { return Ok(()) };
    s.message(2, |s| {
        dims.iter().try_for_each(|d| {
            s.message(1, |s| match d.parse::<i64>() {
                Ok(n) => s.int(1, n),
                Err(_) if *d == "?" => Ok(()),
                Err(_) => s.text(2, d),
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_types_are_understood() {
        let parse = |t| Type::parse(t);
        assert_eq!(parse("tensor(f32)"), Some(Type::Tensor(DType::F32, None)));
        assert_eq!(parse("tensor(i64[])"), Some(Type::Tensor(DType::I64, Some(vec![]))));
        assert_eq!(parse("sparse_tensor(u8[2,max(1,n),?])"), Some(Type::Sparse(DType::U8, Some(vec!["2", "max(1,n)", "?"]))));
        let seq = Type::Sequence(Box::new(Type::Tensor(DType::String, None)));
        assert_eq!(parse("optional(seq(tensor(string)))"), Some(Type::Optional(Box::new(seq.clone()))));
        assert_eq!(parse("map(i64,seq(tensor(string)))"), Some(Type::Map(DType::I64, Box::new(seq))));
        for bad in ["?", "tensor(type 99)", "opaque(a,b)", "seq(?)", "tensor(f32[2)", "tensor(f32", &"seq(".repeat(100)] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
