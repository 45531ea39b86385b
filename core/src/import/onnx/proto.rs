//! The messages of an ONNX file, to IR version 13: every field that this program shows or runs.
//!
//! Text is declared as bytes, since files hold names that are no UTF-8 and a name must not make a file unreadable.
//! Fields that nothing here reads (documentation, training information, device placement) are not declared: the decoder
//! skips them without copying. Field numbers are those of `onnx.proto`. [`super::tensor_proto`] holds `TensorProto`.

use prost::bytes::Bytes;

pub(super) use super::tensor_proto::TensorProto;

/// A pair of texts.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StringStringEntry {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// An imported operator set.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorSetId {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) domain: Bytes,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

/// A whole file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(super) ir_version: Option<i64>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetId>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) producer_name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) producer_version: Bytes,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "14")]
    pub(super) metadata_props: Vec<StringStringEntry>,
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<FunctionProto>,
}

/// A graph or a body.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) name: Bytes,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub(super) value_info: Vec<ValueInfoProto>,
}

/// A node.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeProto {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) input: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) output: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) op_type: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    pub(super) domain: Bytes,
    #[prost(bytes = "bytes", tag = "8")]
    pub(super) overload: Bytes,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
    #[prost(message, repeated, tag = "9")]
    pub(super) metadata_props: Vec<StringStringEntry>,
}

/// An attribute: `type` says which of the value fields counts.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AttributeProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "21")]
    pub(super) ref_attr_name: Bytes,
    #[prost(int32, tag = "20")]
    pub(super) r#type: i32,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) s: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(super) t: Option<Box<TensorProto>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub(super) g: Option<Box<GraphProto>>,
    #[prost(message, optional, boxed, tag = "22")]
    pub(super) sparse_tensor: Option<Box<SparseTensorProto>>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(super) tp: Option<Box<TypeProto>>,
    #[prost(float, repeated, tag = "7")]
    pub(super) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(super) strings: Vec<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub(super) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) graphs: Vec<GraphProto>,
    #[prost(message, repeated, tag = "23")]
    pub(super) sparse_tensors: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "15")]
    pub(super) type_protos: Vec<TypeProto>,
}

/// Numbers of `AttributeProto.AttributeType`.
pub(super) mod attribute_type {
    pub(crate) const UNDEFINED: i32 = 0;
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const INT: i32 = 2;
    pub(crate) const STRING: i32 = 3;
    pub(crate) const TENSOR: i32 = 4;
    pub(crate) const GRAPH: i32 = 5;
    pub(crate) const FLOATS: i32 = 6;
    pub(crate) const INTS: i32 = 7;
    pub(crate) const STRINGS: i32 = 8;
    pub(crate) const TENSORS: i32 = 9;
    pub(crate) const GRAPHS: i32 = 10;
    pub(crate) const SPARSE_TENSOR: i32 = 11;
    pub(crate) const SPARSE_TENSORS: i32 = 12;
    pub(crate) const TYPE_PROTO: i32 = 13;
    pub(crate) const TYPE_PROTOS: i32 = 14;
}

/// A function of the model: nodes under a name.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FunctionProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) input: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(super) output: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(super) attribute: Vec<Bytes>,
    #[prost(message, repeated, tag = "11")]
    pub(super) attribute_proto: Vec<AttributeProto>,
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub(super) opset_import: Vec<OperatorSetId>,
    #[prost(bytes = "bytes", tag = "10")]
    pub(super) domain: Bytes,
    #[prost(bytes = "bytes", tag = "13")]
    pub(super) overload: Bytes,
    #[prost(message, repeated, tag = "12")]
    pub(super) value_info: Vec<ValueInfoProto>,
}

/// Name and type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueInfoProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

/// A sparse tensor in coordinate form; its name is that of `values`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(super) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) indices: Option<TensorProto>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) dims: Vec<i64>,
}

/// The type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TypeProto {
    #[prost(oneof = "type_proto::Value", tags = "1, 4, 5, 7, 8, 9")]
    pub(super) value: Option<type_proto::Value>,
}

/// Parts of [`TypeProto`].
pub(super) mod type_proto {
    use super::{Bytes, TensorShapeProto, TypeProto};

    /// What kind of type it is.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Value {
        #[prost(message, tag = "1")]
        Tensor(Tensor),
        #[prost(message, tag = "4")]
        Sequence(Box<Sequence>),
        #[prost(message, tag = "5")]
        Map(Box<Map>),
        #[prost(message, tag = "9")]
        Optional(Box<Optional>),
        #[prost(message, tag = "8")]
        Sparse(Tensor),
        #[prost(message, tag = "7")]
        Opaque(Opaque),
    }

    /// A dense or sparse tensor.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Tensor {
        #[prost(int32, tag = "1")]
        pub(crate) elem_type: i32,
        #[prost(message, optional, tag = "2")]
        pub(crate) shape: Option<TensorShapeProto>,
    }

    /// A list of values of one type.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sequence {
        #[prost(message, optional, boxed, tag = "1")]
        pub(crate) elem_type: Option<Box<TypeProto>>,
    }

    /// A map from integers or strings.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Map {
        #[prost(int32, tag = "1")]
        pub(crate) key_type: i32,
        #[prost(message, optional, boxed, tag = "2")]
        pub(crate) value_type: Option<Box<TypeProto>>,
    }

    /// A value that may be missing.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Optional {
        #[prost(message, optional, boxed, tag = "1")]
        pub(crate) elem_type: Option<Box<TypeProto>>,
    }

    /// A type that only its maker knows.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Opaque {
        #[prost(bytes = "bytes", tag = "1")]
        pub(crate) domain: Bytes,
        #[prost(bytes = "bytes", tag = "2")]
        pub(crate) name: Bytes,
    }
}

/// A shape.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<Dimension>,
}

/// A dimension of a shape.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Dimension {
    #[prost(oneof = "dimension::Value", tags = "1, 2")]
    pub(super) value: Option<dimension::Value>,
}

/// Parts of [`Dimension`].
pub(super) mod dimension {
    use super::Bytes;

    /// A number or a symbol.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Value {
        #[prost(int64, tag = "1")]
        Number(i64),
        #[prost(bytes = "bytes", tag = "2")]
        Symbol(Bytes),
    }
}
