//! Value types: `TypeProto` to element type and shape, and dimension texts to expressions.

use super::names::FastMap;
use super::proto::type_proto::{Tensor, Value as Kind};
use super::proto::{Dimension, TypeProto, dimension};
use crate::dtype::DType;
use crate::graph::ValueType;
use crate::import::dims::parse_dim;
use crate::shape::{Dim, Shape};

/// Reads types, remembering the symbols it parsed.
#[derive(Debug, Default)]
pub(super) struct Types<'p> {
    dims: FastMap<&'p [u8], Dim>,
}

impl<'p> Types<'p> {
    /// Kind, element type and shape. A list or optional has the element type of what it holds, and no shape.
    pub(super) fn read(&mut self, t: &'p TypeProto) -> (ValueType, Option<DType>, Shape) {
        match &t.value {
            None => (ValueType::Tensor, None, Shape::UNKNOWN),
            Some(Kind::Tensor(t)) => (ValueType::Tensor, DType::from_onnx(t.elem_type), self.shape(t)),
            Some(Kind::Sparse(t)) => (ValueType::Sparse, DType::from_onnx(t.elem_type), self.shape(t)),
            Some(Kind::Sequence(s)) => (ValueType::Sequence, s.elem_type.as_deref().and_then(element), Shape::UNKNOWN),
            Some(Kind::Optional(o)) => (ValueType::Optional, o.elem_type.as_deref().and_then(element), Shape::UNKNOWN),
            Some(Kind::Map(m)) => (ValueType::Map, m.value_type.as_deref().and_then(element), Shape::UNKNOWN),
            Some(Kind::Opaque(_)) => (ValueType::Other, None, Shape::UNKNOWN),
        }
    }

    fn shape(&mut self, t: &'p Tensor) -> Shape {
        t.shape.as_ref().map_or(Shape::UNKNOWN, |s| Shape::new(s.dim.iter().map(|d| self.dim(d)).collect::<Box<[_]>>()))
    }

    fn dim(&mut self, d: &'p Dimension) -> Dim {
        match &d.value {
            None => Dim::Unknown,
            Some(dimension::Value::Number(n)) => u64::try_from(*n).map_or(Dim::Unknown, Dim::Known),
            Some(dimension::Value::Symbol(s)) => self.dims.entry(s).or_insert_with(|| parse_dim(&String::from_utf8_lossy(s))).clone(),
        }
    }
}

/// The element type inside nested lists and optionals. Depth is capped by the decoder.
fn element(t: &TypeProto) -> Option<DType> {
    match t.value.as_ref()? {
        Kind::Tensor(t) | Kind::Sparse(t) => DType::from_onnx(t.elem_type),
        Kind::Sequence(s) => element(s.elem_type.as_deref()?),
        Kind::Optional(o) => element(o.elem_type.as_deref()?),
        Kind::Map(m) => element(m.value_type.as_deref()?),
        Kind::Opaque(_) => None,
    }
}

/// A type as text: `tensor(f32[2,n])`, `seq(tensor(i64))`.
pub(super) fn describe(t: &TypeProto) -> String {
    let inner = |t: &Option<Box<TypeProto>>| t.as_deref().map_or_else(|| "?".to_owned(), describe);
    let dtype = |n: i32| DType::from_onnx(n).map_or_else(|| format!("type {n}"), |d| d.to_string());
    let tensor = |t: &Tensor| {
        let shape = Types::default().shape(t);
        if shape.rank().is_some() { format!("{}{shape}", dtype(t.elem_type)) } else { dtype(t.elem_type) }
    };
    match &t.value {
        None => "?".to_owned(),
        Some(Kind::Tensor(t)) => format!("tensor({})", tensor(t)),
        Some(Kind::Sparse(t)) => format!("sparse_tensor({})", tensor(t)),
        Some(Kind::Sequence(s)) => format!("seq({})", inner(&s.elem_type)),
        Some(Kind::Optional(o)) => format!("optional({})", inner(&o.elem_type)),
        Some(Kind::Map(m)) => format!("map({},{})", dtype(m.key_type), inner(&m.value_type)),
        Some(Kind::Opaque(o)) => format!("opaque({},{})", super::names::show(&o.domain), super::names::show(&o.name)),
    }
}
