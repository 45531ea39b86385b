//! Conditions of tables that can be checked on a node: a small language, and its answers.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::diagnostic::printable;
use crate::dtype::DType;
use crate::expr::Bindings;
use crate::graph::{AttrValue, Graph, Node, Value, ValueId, ValueKind, ValueType};
use crate::weights::{Storage, WeightRef};

/// Rules of all built-in tables.
const RULES: &str = include_str!("../../data/support/predicates.json");

/// Stored bytes above which a constant is not read to check it.
const MOST_BYTES: u64 = 4096;

/// One thing that must hold. Inputs that a node leaves out hold whatever is asked of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Check {
    /// The input has one of these ranks.
    Rank { input: usize, r#in: Vec<usize> },
    /// The input has none of these ranks.
    NotRank { input: usize, not: Vec<usize> },
    /// The inputs are stored in the file or made by `Constant`.
    Constant { inputs: Vec<usize> },
    /// All sizes of the input are known.
    StaticShape { input: usize },
    /// The attribute (or its default) has one of these values. With `open`, others need a look by a person.
    Attribute {
        name: String,
        r#in: Vec<serde_json::Value>,
        #[serde(default)]
        default: Option<serde_json::Value>,
        #[serde(default)]
        open: bool,
    },
    /// All numbers of the list attribute are this one.
    All { name: String, value: i64 },
    /// The torch call passes none of these as a value that is computed while the model runs.
    Plain { names: Vec<String> },
    /// The torch call passes these arguments.
    Given { names: Vec<String> },
    /// The integer argument (or its default) is at most this.
    AtMost { name: String, limit: i64 },
    /// The tensors of a list argument have one of these types; the types in `open` need a look by a person.
    ArgumentTypes { name: String, r#in: Vec<DType>, open: Vec<DType> },
    /// All tensors of the node have one of these types, where a type is known.
    Types { r#in: Vec<DType> },
    /// All input tensors have the same rank.
    SameRank,
    /// The result has at most this rank.
    ResultRank { limit: usize },
    /// The integer argument names the last dimension of the result.
    LastDim { name: String },
    /// The node has at least this many inputs.
    InputsAtLeast { count: usize },
    /// Query, key and value of an attention agree, and there is at most one kind of mask.
    Attention,
    /// The node has none of these attributes, or they are `None`.
    Without { names: Vec<String> },
    /// Outputs from this position on are not used.
    Outputs { used: usize },
    /// The node leaves these inputs out.
    Absent { inputs: Vec<usize> },
    /// The input has one of these types.
    Dtype { input: usize, r#in: Vec<DType> },
    /// The input is a constant of zeros.
    Zero { input: usize },
    /// The input is a constant integer below this.
    Below { input: usize, limit: i64 },
}

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Holds,
    /// Not, as one clause.
    Fails(String),
    /// The model does not tell.
    Open,
}

/// A node in its graph, with what the checks may ask.
pub(super) struct Context<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    pub(super) dims: &'a Bindings,
}

impl Check {
    pub(super) fn ask(&self, c: &Context<'_>) -> Answer {
        match self {
            Self::Rank { input, r#in } => c.over_rank(*input, |rank| {
                if r#in.contains(&rank) { Answer::Holds } else { Answer::Fails(format!("input {input} has rank {rank}")) }
            }),
            Self::NotRank { input, not } => c.over_rank(*input, |rank| {
                if not.contains(&rank) { Answer::Fails(format!("input {input} has rank {rank}")) } else { Answer::Holds }
            }),
            Self::Constant { inputs } => inputs.iter().map(|&i| c.constant(i)).fold(Answer::Holds, both),
            Self::StaticShape { input } => c.over(*input, |v| {
                if v.shape.eval(c.dims).is_some() { Answer::Holds } else { Answer::Fails(format!("input {input} has shape {}", v.shape)) }
            }),
            Self::Attribute { name, r#in, default, open } => {
                let given = c.node.attr(name);
                let ok = match given {
                    Some(value) => r#in.iter().any(|wanted| equal(value, wanted)),
                    None => default.as_ref().is_none_or(|d| r#in.contains(d)),
                };
                match (ok, open) {
                    (true, _) => Answer::Holds,
                    (false, true) => Answer::Open,
                    (false, false) => Answer::Fails(match given {
                        Some(value) => format!("{name} is {}", shown(value)),
                        None => format!("{name} is left at its default"),
                    }),
                }
            }
            Self::All { name, value } => match c.node.ints(name) {
                Some(list) if list.iter().any(|x| x != value) => Answer::Fails(format!("{name} is {list:?}")),
                _ => Answer::Holds,
            },
            Self::Plain { names } => match names.iter().find(|n| c.node.attr(n).is_some_and(is_computed)) {
                Some(name) => Answer::Fails(format!("{name} is computed while the model runs")),
                None => Answer::Holds,
            },
            Self::Given { names } => match names.iter().find(|n| !c.given(n)) {
                Some(name) => Answer::Fails(format!("{name} is not given")),
                None => Answer::Holds,
            },
            Self::AtMost { name, limit } => match c.node.attr(name) {
                Some(AttrValue::Int(n)) if n > limit => Answer::Fails(format!("{name} is {n}")),
                Some(v) if is_computed(v) => Answer::Fails(format!("{name} is computed while the model runs")),
                _ => Answer::Holds,
            },
            Self::ArgumentTypes { name, r#in, open } => c
                .argument(name)
                .into_iter()
                .map(|v| match v.dtype {
                    Some(d) if r#in.contains(&d) => Answer::Holds,
                    Some(d) if !open.contains(&d) => Answer::Fails(format!("{} of {name} is {d}", printable(&v.name))),
                    _ => Answer::Open,
                })
                .fold(Answer::Holds, both),
            Self::Types { r#in } => match c.tensors().find_map(|v| v.dtype.filter(|d| !r#in.contains(d)).map(|d| (v, d))) {
                Some((v, d)) => Answer::Fails(format!("{} is {d}", printable(&v.name))),
                None => Answer::Holds,
            },
            Self::SameRank => {
                let ranks: Vec<usize> = c.inputs().filter_map(|v| v.shape.rank()).collect();
                if ranks.windows(2).all(|w| w[0] == w[1]) {
                    Answer::Holds
                } else {
                    Answer::Fails(format!("its inputs have ranks {ranks:?}"))
                }
            }
            Self::ResultRank { limit } => match c.result_rank() {
                Some(rank) if rank > *limit => Answer::Fails(format!("its result has rank {rank}")),
                Some(_) => Answer::Holds,
                None => Answer::Open,
            },
            Self::LastDim { name } => match (c.node.int(name), c.result_rank()) {
                (Some(-1), _) => Answer::Holds,
                (Some(d), Some(rank)) if usize::try_from(d).is_ok_and(|d| d + 1 == rank) => Answer::Holds,
                (Some(d), Some(_)) => Answer::Fails(format!("{name} is {d}")),
                _ => Answer::Open,
            },
            Self::InputsAtLeast { count } => match c.inputs().count() {
                n if n < *count => Answer::Fails(format!("it has {n} inputs")),
                _ => Answer::Holds,
            },
            Self::Attention => c.attention(),
            Self::Without { names } => match names.iter().find(|n| c.given(n)) {
                Some(name) => Answer::Fails(format!("it has the attribute {name}")),
                None => Answer::Holds,
            },
            Self::Outputs { used } => {
                let outputs = c.node.outputs.iter().enumerate().skip(*used);
                let is_used = |v: ValueId| !c.graph.consumers(v).is_empty() || c.graph.outputs().contains(&v);
                match outputs.filter_map(|(i, v)| v.map(|v| (i, v))).find(|&(_, v)| is_used(v)) {
                    Some((i, _)) => Answer::Fails(format!("output {i} is used")),
                    None => Answer::Holds,
                }
            }
            Self::Absent { inputs } => match inputs.iter().find(|&&i| c.node.input(i).is_some()) {
                Some(i) => Answer::Fails(format!("input {i} is given")),
                None => Answer::Holds,
            },
            Self::Dtype { input, r#in } => c.over(*input, |v| match v.dtype {
                Some(d) if r#in.contains(&d) => Answer::Holds,
                Some(d) => Answer::Fails(format!("input {input} is {d}")),
                None => Answer::Open,
            }),
            Self::Zero { input } => c.over_constant(*input, |w| match c.bytes(w) {
                Some(bytes) if bytes.iter().all(|&b| b == 0) => Answer::Holds,
                Some(_) => Answer::Fails(format!("input {input} is not 0")),
                None => Answer::Open,
            }),
            Self::Below { input, limit } => c.over_constant(*input, |w| match c.bytes(w).as_deref().and_then(|b| first_int(w.dtype, b)) {
                Some(n) if n < *limit => Answer::Holds,
                Some(n) => Answer::Fails(format!("input {input} is {n}")),
                None => Answer::Open,
            }),
        }
    }
}

fn both(a: Answer, b: Answer) -> Answer {
    match (a, b) {
        (Answer::Fails(why), _) | (_, Answer::Fails(why)) => Answer::Fails(why),
        (Answer::Open, _) | (_, Answer::Open) => Answer::Open,
        (Answer::Holds, Answer::Holds) => Answer::Holds,
    }
}

/// Whether an argument is, or holds, a value that the node reads.
fn is_computed(value: &AttrValue) -> bool {
    match value {
        AttrValue::Input(_) => true,
        AttrValue::List(items) => items.iter().any(|v| matches!(v, AttrValue::Input(_))),
        _ => false,
    }
}

impl<'a> Context<'a> {
    /// Whether the attribute is there and not `None`.
    fn given(&self, name: &str) -> bool {
        self.node.attr(name).is_some_and(|v| *v != AttrValue::None)
    }

    /// The values of a torch argument, of a list all.
    fn argument(&self, name: &str) -> Vec<&'a Value> {
        let value = |v: &AttrValue| match v {
            AttrValue::Input(i) => self.node.input(*i).map(|v| self.graph.value(v)),
            _ => None,
        };
        match self.node.attr(name) {
            Some(AttrValue::List(items)) => items.iter().filter_map(value).collect(),
            Some(v) => value(v).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Input tensors.
    fn inputs(&self) -> impl Iterator<Item = &'a Value> {
        self.node.inputs.iter().flatten().map(|&v| self.graph.value(v)).filter(|v| v.ty == ValueType::Tensor)
    }

    /// Input and output tensors.
    fn tensors(&self) -> impl Iterator<Item = &'a Value> {
        let outputs = self.node.outputs.iter().flatten().map(|&v| self.graph.value(v)).filter(|v| v.ty == ValueType::Tensor);
        self.inputs().chain(outputs)
    }

    fn result_rank(&self) -> Option<usize> {
        self.graph.value(self.node.outputs.first().copied().flatten()?).shape.rank()
    }

    fn attention(&self) -> Answer {
        let dims = |name: &str| self.argument(name).first().and_then(|v| v.shape.dims());
        let (Some(q), Some(k), Some(v)) = (dims("query"), dims("key"), dims("value")) else { return Answer::Open };
        let fails = |why: &str| Answer::Fails(why.to_owned());
        if self.given("attn_mask") && self.node.attr("is_causal") == Some(&AttrValue::Bool(true)) {
            return fails("it has attn_mask and is_causal");
        }
        if q.len() != k.len() || k.len() != v.len() {
            return fails("query, key and value differ in rank");
        }
        if k != v {
            return fails("key and value differ in shape");
        }
        let (Some((q_head, q)), Some((k_head, k))) = (q.split_last(), k.split_last()) else { return fails("query has no dimensions") };
        if q_head != k_head || q.first() != k.first() {
            return fails("query and key differ in batch or head size");
        }
        let heads = |d: &[crate::shape::Dim]| d.get(1..d.len().saturating_sub(1)).map(<[_]>::to_vec).unwrap_or_default();
        if heads(q) == heads(k) {
            return Answer::Holds;
        }
        let grouped = self.node.attr("enable_gqa") == Some(&AttrValue::Bool(true));
        match (q.get(1).and_then(crate::shape::Dim::known), k.get(1).and_then(crate::shape::Dim::known)) {
            (Some(a), Some(b)) if grouped && b > 0 && a % b == 0 => Answer::Holds,
            _ if grouped => Answer::Open,
            _ => fails("query and key differ in the number of heads"),
        }
    }

    fn over(&self, input: usize, f: impl FnOnce(&Value) -> Answer) -> Answer {
        self.node.input(input).map_or(Answer::Holds, |v| f(self.graph.value(v)))
    }

    fn over_rank(&self, input: usize, f: impl FnOnce(usize) -> Answer) -> Answer {
        self.over(input, |v| v.shape.rank().map_or(Answer::Open, f))
    }

    fn constant(&self, input: usize) -> Answer {
        self.over(input, |v| match &v.kind {
            ValueKind::Initializer(_) => Answer::Holds,
            ValueKind::Output { node, .. } if self.graph.node(*node).op.is_onnx("Constant") => Answer::Holds,
            // A value of the enclosing graph may be a constant there.
            ValueKind::Captured { .. } => Answer::Open,
            _ => Answer::Fails(format!("input {input} ({}) is no constant", printable(&v.name))),
        })
    }

    fn over_constant(&self, input: usize, f: impl FnOnce(&WeightRef) -> Answer) -> Answer {
        match self.constant(input) {
            Answer::Holds => {}
            other => return other,
        }
        self.over(input, |v| match &v.kind {
            ValueKind::Initializer(w) => f(w),
            ValueKind::Output { node, .. } => match self.graph.node(*node).attr("value") {
                Some(AttrValue::Tensor(w)) => f(w),
                _ => Answer::Open,
            },
            _ => Answer::Open,
        })
    }

    /// Bytes of a small constant.
    fn bytes(&self, w: &WeightRef) -> Option<Vec<u8>> {
        match w.storage {
            Storage::Zeros => Some(vec![0]),
            _ if w.byte_len() <= MOST_BYTES => w.read().ok(),
            _ => None,
        }
    }
}

/// The first element of an integer tensor.
fn first_int(dtype: DType, bytes: &[u8]) -> Option<i64> {
    match dtype {
        DType::I64 => bytes.first_chunk().map(|b| i64::from_le_bytes(*b)),
        DType::I32 => bytes.first_chunk().map(|b| i64::from(i32::from_le_bytes(*b))),
        _ => None,
    }
}

fn equal(value: &AttrValue, wanted: &serde_json::Value) -> bool {
    match value {
        AttrValue::Int(i) => wanted.as_i64() == Some(*i),
        AttrValue::Bool(b) => wanted.as_bool() == Some(*b),
        AttrValue::Float(x) => wanted.as_f64() == Some(*x),
        AttrValue::Bytes(_) => value.as_str().is_some_and(|s| wanted.as_str() == Some(s)),
        AttrValue::Type(t) => wanted.as_str() == Some(t),
        AttrValue::None => wanted.is_null(),
        _ => false,
    }
}

fn shown(value: &AttrValue) -> String {
    match value {
        AttrValue::Int(i) => i.to_string(),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Float(x) => x.to_string(),
        other => other.as_str().map_or_else(|| "another value".to_owned(), |s| printable(s).into_owned()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    op: String,
    #[serde(default)]
    domain: String,
    checks: Vec<Check>,
    complete: bool,
}

/// Checks of one table, by domain and operator.
pub(super) struct Rules<'a>(Option<&'a RulesOfTable>);

/// Checks by domain and operator, and whether they are the whole condition.
type RulesOfTable = HashMap<(String, String), (Arc<[Check]>, bool)>;

impl Rules<'static> {
    pub(super) fn of(backend: &str) -> Self {
        static ALL: OnceLock<HashMap<String, RulesOfTable>> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            // That the file parses is a test of this module.
            let tables: HashMap<String, Vec<Rule>> = serde_json::from_str(RULES).unwrap_or_default();
            let keyed = |r: Rule| ((r.domain, r.op), (r.checks.into(), r.complete));
            tables.into_iter().map(|(name, rules)| (name, rules.into_iter().map(keyed).collect())).collect()
        });
        Self(all.get(backend))
    }

    /// Checks of an operator's condition, and whether they are all of it.
    pub(super) fn get(&self, domain: &str, op: &str) -> (Arc<[Check]>, bool) {
        self.find(domain, op).unwrap_or_else(|| (Arc::from([]), false))
    }

    /// The same, where there is a rule.
    pub(super) fn find(&self, domain: &str, op: &str) -> Option<(Arc<[Check]>, bool)> {
        self.0.and_then(|rules| rules.get(&(domain.to_owned(), op.to_owned()))).cloned()
    }

    /// How many rules there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.map_or(0, HashMap::len)
    }
}
