//! The serde types of the recut graph format: what [`crate::export::json`] writes and `read` takes.
//!
//! Everything beyond operators and wiring may be left out. Names are the wiring: a node reads a value by the name under
//! which an input, an initializer or another node's output makes it.

use indexmap::IndexMap;
use indexmap::map::Entry;
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::graph::{Dialect, ValueType};
use crate::hash::Seeded;
use crate::model::SymbolFacts;

/// What stands in `format`.
pub const FORMAT: &str = "recut.graph";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// A graph file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// `recut.graph`.
    #[schemars(extend("const" = FORMAT))]
    pub format: String,
    /// 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u64,
    /// Name of the main graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Program that the graph was made by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub producer: String,
    /// Operator set of nodes that do not say otherwise: `onnx`, `aten` or `json`. Left out: `onnx` where there are
    /// `opsets`, else `json` (operators that only their writer knows: they can be placed, but not run).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// ONNX operator-set versions by domain; `""` (or `ai.onnx`) is the standard one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opsets: Option<Map<i64>>,
    /// ONNX IR version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ir_version: Option<i64>,
    /// Which program of its file the graph was, where that held several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Nodes of the main graph before functions were expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_nodes: Option<usize>,
    /// Key-value texts about the model.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String>,
    /// What is known of symbolic sizes, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub symbols: Map<SymbolFacts>,
    /// Names of the values that a caller feeds.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Names of the values that a caller gets.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Nodes, in any order.
    pub nodes: Vec<Node>,
    /// Types and shapes of values by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<Value>,
    /// Stored tensors by the name of the value that they are. One that has the name of an input is its default.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub initializers: Map<Tensor>,
    /// Module instances by dotted path (`""` is the model itself). Modules that nodes name need not stand here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub modules: Map<Module>,
    /// Files that tensors refer to, by their path relative to the folder of this one.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub files: Map<File>,
    /// Data about the nodes of the main graph, by the column's name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub columns: Map<Column>,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name; marks and columns name it by that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The operator.
    pub op: Op,
    /// Operator set, where it is not that of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Version of the ONNX operator set, where it is not that of `opsets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opset: Option<i64>,
    /// Names of the values it reads; `null` or `""` where an optional one is left out.
    #[serde(default)]
    pub inputs: Vec<Option<String>>,
    /// Names of the values it makes; `null` or `""` where an optional one is left out.
    #[serde(default)]
    pub outputs: Vec<Option<String>>,
    /// Attributes, or the arguments of a torch call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "IndexMap<String, Attribute>")]
    pub attrs: Map<serde_json::Value>,
    /// Graphs inside of the node (`If`, `Loop`, `cond`). They may read values of the graphs around them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<Body>,
    /// Dotted path of the module that the node belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Which call of that module it belongs to, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// Torch operator that it was made from (`aten.relu.default`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch_op: Option<String>,
    /// FX node that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fx_node: Option<String>,
    /// Python stack trace, the outermost frame first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Position in the file that it came from; its position in this one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
}

/// An operator: `Conv`, `com.microsoft::Gelu`, `aten.relu.default`; as an object where such a text would be ambiguous.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "an operator is a text, or an object with `name` and maybe `domain` and `overload`")]
pub enum Op {
    /// As it is shown.
    Text(String),
    /// Part by part.
    Parts {
        /// ONNX domain or torch namespace.
        #[serde(default)]
        domain: String,
        /// Operator type.
        name: String,
        /// Overload.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        overload: String,
    },
}

/// A graph inside of a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The attribute that holds it (`then_branch`); it need not stand in the node's `attrs`.
    pub attr: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Names of the values that the node feeds.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Names of the values that the node gets.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Nodes, in any order.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Types and shapes of values by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<Value>,
    /// Stored tensors.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub initializers: Map<Tensor>,
    /// Values of the graph around it that have another name in here: name in here, name there.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub captures: Map<String>,
}

/// Type and shape of a value; what is left out is unknown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// What kind of thing it is.
    #[serde(default, rename = "type", skip_serializing_if = "is_tensor")]
    pub ty: ValueType,
    /// Element type: `f32`, also `float32` and `torch.float32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Sizes of the dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<Option<Dim>>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_tensor(ty: &ValueType) -> bool {
    *ty == ValueType::Tensor
}

/// A dimension: a size, a symbol or an expression (`batch`, `2*seq + 1`); `null` if nothing tells.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a dimension is a size from 0 on, a text or null")]
pub enum Dim {
    /// A size.
    Size(u64),
    /// An expression over symbols.
    Expression(String),
}

/// A stored tensor: with its data inside (`data`), in another file (`file`, `offset`, `length`), or without.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Element type.
    pub dtype: String,
    /// Sizes; left out, those of the `data`: no dimension for one number, one for a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// The elements in row-major order as a list (`"NaN"`, `"Infinity"` and `"-Infinity"` for those), one element by
    /// itself, or their little-endian bytes as base64. Types below one byte are packed into bytes, the first element in
    /// the low bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Data>")]
    pub data: Option<serde_json::Value>,
    /// File with the bytes, relative to the folder of this one and inside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// First byte in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Number of bytes, if it is not what type and shape ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Strides in elements, where the bytes are not dense in row-major order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<i64>>,
    /// All elements are zero.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zeros: bool,
    /// Why there is no data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Elements of a tensor: base64, a list, or one element.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used: elements are read by the tensor's type")]
enum Data {
    Base64(String),
    Elements(Vec<Element>),
    Element(Element),
}

/// One element.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum Element {
    Bool(bool),
    Number(f64),
    Text(String),
}

/// A module: its class by itself, or with more about it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "a module is its class, null, or an object with `parent` and maybe `class`")]
pub enum Module {
    /// Class (`torch.nn.modules.conv.Conv2d`); `null` if unknown.
    Class(Option<String>),
    /// A module that is not inside the one that its path says.
    Inside {
        /// Path of the module around it, which stands before it.
        parent: String,
        /// Class.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<String>,
    },
}

/// A file that tensors refer to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its length: a file of another length is not read, since it is not the one that was meant.
    pub bytes: u64,
}

/// Data about nodes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Unit of the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether its entries are numbers or texts; left out, numbers if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ColumnKind>,
    /// Entries by the id of the node: its name; without one, the name of its first output.
    #[schemars(with = "IndexMap<String, Element>")]
    pub values: Map<serde_json::Value>,
}

/// What the entries of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// Texts.
    Text,
}

/// An attribute. What JSON has by itself stands for itself: `null`, booleans, numbers (an integer unless it has a
/// decimal point), texts, lists of integers, of numbers, of texts, and of anything. All else is an object with one field.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "only its schema is used: attributes are read by their form")]
enum Attribute {
    Null(Option<()>),
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Attribute>),
    Tagged(Tagged),
}

/// An attribute that JSON has no form for.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code, clippy::large_enum_variant, reason = "only its schema is used")]
enum Tagged {
    /// A floating-point number, also as text: `NaN`, `Infinity`, `-Infinity`.
    Float(Element),
    /// Integers; for an empty list.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<Element>),
    /// Texts; for an empty list. Bytes that are no text as `{"bytes": …}`.
    Strings(Vec<BytesOrText>),
    /// A list of mixed values; for lists that would else be taken for one of those above.
    List(Vec<Attribute>),
    /// Bytes as base64.
    Bytes(String),
    /// A tensor.
    Tensor(Tensor),
    /// Several tensors.
    Tensors(Vec<Tensor>),
    /// A graph: position in the node's `bodies`.
    Body(usize),
    /// Several graphs.
    Bodies(Vec<usize>),
    /// A type (`f32`, `channels_last`).
    Type(String),
    /// A value that the node reads: position in its `inputs`. Torch calls have their arguments this way.
    Input(usize),
    /// An attribute of an enclosing function that nothing resolves.
    Reference(String),
}

/// A text, or bytes that are none.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum BytesOrText {
    Text(String),
    Bytes {
        /// Base64.
        bytes: String,
    },
}

/// An object whose keys are names: in the order of the file, and none twice.
#[derive(Clone, Debug)]
pub struct Map<T>(pub(crate) IndexMap<String, T, Seeded>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(IndexMap::default())
    }
}

impl<T> Map<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map<T>, A::Error> {
                let mut map = IndexMap::default();
                while let Some(key) = access.next_key::<String>()? {
                    match map.entry(key) {
                        Entry::Occupied(_) => return Err(A::Error::custom("the key stands there twice")),
                        Entry::Vacant(slot) => {
                            slot.insert(access.next_value()?);
                        }
                    }
                }
                Ok(Map(map))
            }
        }
        deserializer.deserialize_map(Unique(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Map<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Map_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        IndexMap::<String, T>::json_schema(generator)
    }
}

/// The JSON Schema of the format.
#[must_use]
pub fn graph_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(GraphFile).to_value();
    if let Some(dialects) = schema.pointer_mut("/$defs/Dialect") {
        *dialects = serde_json::json!({ "enum": ["onnx", "aten", "json"], "description": "Operator sets." });
    }
    schema
}
