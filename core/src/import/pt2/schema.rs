//! The program's JSON, schema 5 to 8 (`torch._export.serde.schema` of torch 2.3 to 2.15). Unknown keys are skipped,
//! missing ones and nulls are the same. Texts borrow from the file's bytes where they have no escapes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use crate::hash::FastMap;

/// A text that borrows where it can. (`Cow` inside a container would always be owned.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Maps are looked up by plain texts.
impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, s: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(s)))
            }

            fn visit_str<E: Error>(self, s: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(s.to_owned())))
            }
        }
        d.deserialize_str(V)
    }
}

/// A number; torch writes those that JSON lacks as the texts `Infinity`, `-Infinity` and `NaN`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"Infinity\", \"-Infinity\" or \"NaN\"")
            }

            fn visit_f64<E: Error>(self, x: f64) -> Result<Number, E> {
                Ok(Number(x))
            }

            fn visit_i64<E: Error>(self, x: i64) -> Result<Number, E> {
                Ok(Number(x as f64))
            }

            fn visit_u64<E: Error>(self, x: u64) -> Result<Number, E> {
                Ok(Number(x as f64))
            }

            fn visit_str<E: Error>(self, s: &str) -> Result<Number, E> {
                match s {
                    "Infinity" => Ok(Number(f64::INFINITY)),
                    "-Infinity" => Ok(Number(f64::NEG_INFINITY)),
                    "NaN" => Ok(Number(f64::NAN)),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
        }
        d.deserialize_any(V)
    }
}

/// `models/NAME.json`, or `serialized_exported_program.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Program<'a> {
    pub(super) schema_version: Version,
    #[serde(borrow)]
    pub(super) graph_module: GraphModule<'a>,
    #[serde(default)]
    pub(super) range_constraints: Option<BTreeMap<Text<'a>, Range>>,
    #[serde(default)]
    pub(super) torch_version: Option<Text<'a>>,
    /// `TRAINING`, `ATEN`, `EDGE`.
    #[serde(default)]
    pub(super) verifiers: Option<Vec<Text<'a>>>,
    /// What stood for the verifiers up to 2.4.
    #[serde(default)]
    pub(super) dialect: Option<Text<'a>>,
}

/// The version alone, where the rest is not of a form that is understood.
#[derive(Debug, Deserialize)]
pub(super) struct Versions {
    pub(super) schema_version: Version,
}

/// Up to torch 2.2 a plain number.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Version {
    Pair {
        major: u64,
        #[serde(default)]
        minor: u64,
    },
    Plain(u64),
}

/// Bounds of a symbol; `None` is unbounded.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Range {
    #[serde(default)]
    pub(super) min_val: Option<Number>,
    #[serde(default)]
    pub(super) max_val: Option<Number>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphModule<'a> {
    #[serde(borrow)]
    pub(super) graph: Graph<'a>,
    #[serde(borrow)]
    pub(super) signature: Signature<'a>,
    #[serde(borrow, default)]
    pub(super) module_call_graph: Option<Vec<ModuleCall<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModuleCall<'a> {
    #[serde(borrow)]
    pub(super) fqn: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Option<CallSignature<'a>>,
}

/// Pytrees of the arguments and results, as texts.
#[derive(Debug, Deserialize)]
pub(super) struct CallSignature<'a> {
    #[serde(borrow, default)]
    pub(super) in_spec: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) forward_arg_names: Option<Vec<Text<'a>>>,
}

/// A graph or a nested one.
#[derive(Debug, Deserialize)]
pub(super) struct Graph<'a> {
    #[serde(borrow)]
    pub(super) inputs: Vec<Argument<'a>>,
    #[serde(borrow)]
    pub(super) outputs: Vec<Argument<'a>>,
    #[serde(borrow)]
    pub(super) nodes: Vec<Node<'a>>,
    #[serde(borrow)]
    pub(super) tensor_values: FastMap<Text<'a>, TensorMeta<'a>>,
    #[serde(borrow, default)]
    pub(super) sym_int_values: Option<FastMap<Text<'a>, SymInt<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node<'a> {
    /// FX name, from schema 8.20 on.
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) target: Text<'a>,
    #[serde(borrow)]
    pub(super) inputs: Vec<NamedArgument<'a>>,
    #[serde(borrow)]
    pub(super) outputs: Vec<Argument<'a>>,
    #[serde(borrow, default)]
    pub(super) metadata: Option<Metadata<'a>>,
}

/// What is read of a node's metadata.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) nn_module_stack: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stack_trace: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedArgument<'a> {
    /// Name in the operator's schema; empty for positional operands of higher-order operators.
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arg: Argument<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
}

/// A value or a constant: an object with exactly one key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the format's own keys")]
pub(super) enum Argument<'a> {
    AsNone(IgnoredAny),
    #[serde(borrow)]
    AsTensor(Named<'a>),
    #[serde(borrow)]
    AsTensors(Vec<Named<'a>>),
    #[serde(borrow)]
    AsNestedTensors(Vec<Vec<Named<'a>>>),
    #[serde(borrow)]
    AsOptionalTensor(Box<Argument<'a>>),
    #[serde(borrow)]
    AsOptionalTensors(Vec<Argument<'a>>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsIntLists(Vec<Vec<i64>>),
    AsFloat(Number),
    AsFloats(Vec<Number>),
    AsFloatLists(Vec<Vec<Number>>),
    AsBool(bool),
    AsBools(Vec<bool>),
    #[serde(borrow)]
    AsString(Text<'a>),
    #[serde(borrow)]
    AsStrings(Vec<Text<'a>>),
    AsComplex(Complex),
    #[serde(borrow)]
    AsSymInt(Symbolic<'a>),
    #[serde(borrow)]
    AsSymInts(Vec<Symbolic<'a>>),
    #[serde(borrow)]
    AsSymFloat(Symbolic<'a>),
    #[serde(borrow)]
    AsSymFloats(Vec<Symbolic<'a>>),
    #[serde(borrow)]
    AsSymBool(Symbolic<'a>),
    #[serde(borrow)]
    AsSymBools(Vec<Symbolic<'a>>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    #[serde(borrow)]
    AsDevice(Device<'a>),
    #[serde(borrow)]
    AsGraph(Box<NestedGraph<'a>>),
    #[serde(borrow)]
    AsCustomObj(CustomObject<'a>),
    #[serde(borrow)]
    AsOperator(Text<'a>),
    #[serde(borrow)]
    AsStringToArgument(BTreeMap<Text<'a>, Argument<'a>>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Complex {
    pub(super) real: Number,
    pub(super) imag: Number,
}

/// A symbolic number by the name of the value that holds it, or a plain one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the format's own keys")]
pub(super) enum Symbolic<'a> {
    #[serde(borrow)]
    AsName(Text<'a>),
    AsInt(i64),
    AsFloat(Number),
    AsBool(bool),
}

#[derive(Debug, Deserialize)]
pub(super) struct Device<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NestedGraph<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) graph: Graph<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CustomObject<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) class_fqn: Option<Text<'a>>,
}

/// Type, shape and memory layout of a tensor.
#[derive(Debug, Deserialize)]
pub(super) struct TensorMeta<'a> {
    pub(super) dtype: i64,
    #[serde(borrow)]
    pub(super) sizes: Vec<SymInt<'a>>,
    #[serde(borrow, default)]
    pub(super) strides: Option<Vec<SymInt<'a>>>,
    #[serde(borrow, default)]
    pub(super) storage_offset: Option<SymInt<'a>>,
    #[serde(default)]
    pub(super) layout: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymInt<'a> {
    AsInt(i64),
    #[serde(borrow)]
    AsExpr(SymExpr<'a>),
}

#[derive(Debug, Deserialize)]
pub(super) struct SymExpr<'a> {
    #[serde(borrow)]
    pub(super) expr_str: Text<'a>,
    /// The size while the program was traced.
    #[serde(default, borrow)]
    pub(super) hint: Option<Box<SymInt<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Signature<'a> {
    #[serde(borrow)]
    pub(super) input_specs: Vec<InputSpec<'a>>,
    pub(super) output_specs: Vec<OutputSpec>,
}

/// What an input of the graph is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InputSpec<'a> {
    #[serde(borrow)]
    Parameter(ParameterSpec<'a>),
    #[serde(borrow)]
    Buffer(BufferSpec<'a>),
    #[serde(borrow)]
    TensorConstant(TensorConstantSpec<'a>),
    #[serde(borrow)]
    CustomObj(CustomObjSpec<'a>),
    /// The graph's own input says which value it is.
    UserInput(IgnoredAny),
    ConstantInput(IgnoredAny),
    Token(IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(super) struct ParameterSpec<'a> {
    #[serde(borrow)]
    pub(super) arg: Named<'a>,
    #[serde(borrow)]
    pub(super) parameter_name: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BufferSpec<'a> {
    #[serde(borrow)]
    pub(super) arg: Named<'a>,
    #[serde(borrow)]
    pub(super) buffer_name: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TensorConstantSpec<'a> {
    #[serde(borrow)]
    pub(super) arg: Named<'a>,
    #[serde(borrow)]
    pub(super) tensor_constant_name: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CustomObjSpec<'a> {
    #[serde(borrow)]
    pub(super) arg: Named<'a>,
    #[serde(borrow)]
    pub(super) custom_obj_name: Text<'a>,
}

/// What an output of the graph is. Its value is that of the graph's own output at this place.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputSpec {
    UserOutput(IgnoredAny),
    LossOutput(IgnoredAny),
    BufferMutation(IgnoredAny),
    GradientToParameter(IgnoredAny),
    GradientToUserInput(IgnoredAny),
    UserInputMutation(IgnoredAny),
    ParameterMutation(IgnoredAny),
    Token(IgnoredAny),
}

/// `*_weights_config.json` and `*_constants_config.json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PayloadConfig<'a> {
    #[serde(borrow, default)]
    pub(super) config: BTreeMap<Text<'a>, Payload<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Payload<'a> {
    #[serde(borrow)]
    pub(super) path_name: Text<'a>,
    #[serde(default)]
    pub(super) use_pickle: bool,
    #[serde(borrow, default)]
    pub(super) tensor_meta: Option<TensorMeta<'a>>,
}
