//! Nodes without a kernel of ours: tract's operator, as a model of one node.
//!
//! A plan is made when the node first meets a combination of input types and shapes, outside of the node's time, and
//! kept in a small cache. Some operators can only be prepared when they know what their inputs hold (the target of a
//! `Reshape`): for those the values of small inputs are part of the key.

use std::sync::{Mutex, PoisonError};

use recut_core::dtype::DType;
use recut_core::graph::Graph;
use recut_core::graph::Node;
use tract_onnx::pb;

use crate::engines::tract::{Plan, compile, convert, proto, run};
use crate::kernels::{Outputs, Slot};
use crate::tensor::{Dims, Tensor, Value};

/// Plans kept for one node.
const CACHED_PLANS: usize = 8;

/// Inputs of at most so many elements can become constants of a plan.
const MAX_BAKED: usize = 64;

/// Which inputs become constants of the plan, beside those that are constant anyway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Baking {
    Nothing,
    SmallIntegers,
    Small,
}

/// An input as a plan knows it.
#[derive(Clone, PartialEq)]
enum Known {
    Absent,
    Shape(DType, Dims),
    Baked(DType, Dims, Vec<u8>),
}

struct Cache {
    baking: Baking,
    /// Most recently used last.
    plans: Vec<(Vec<Known>, Plan)>,
}

/// The fallback of one node.
pub(super) struct TractOp {
    op: String,
    opset: i64,
    attributes: Vec<pb::AttributeProto>,
    constants: Vec<Option<Tensor>>,
    /// Declared element type of every output; `None` where it is left out.
    outputs: Vec<Option<Option<DType>>>,
    cache: Mutex<Cache>,
}

/// A plan with the inputs it wants to be fed.
pub(super) struct Ready {
    plan: Plan,
    fed: Vec<usize>,
}

impl TractOp {
    /// The fallback for a node without bodies. `constants` by input position.
    pub(super) fn new(graph: &Graph, node: &Node, opset: i64, constants: Vec<Option<Tensor>>) -> Result<Self, String> {
        let mut no_body = |_: usize| Err("it has a body".to_owned());
        let attributes = proto::attributes(node, &mut no_body)?;
        let outputs = node.outputs.iter().map(|v| v.map(|v| graph.value(v).dtype)).collect();
        // These read sizes from inputs: without their values tract only finds symbolic shapes.
        let shaped = ["Reshape", "Expand", "Slice", "Tile", "ConstantOfShape", "Range", "Pad", "Resize", "Upsample", "TopK", "OneHot"];
        let more = ["Split", "Squeeze", "Unsqueeze", "CumSum", "Trilu", "NonMaxSuppression", "DFT", "BlackmanWindow", "HannWindow"];
        let reads_sizes = shaped.contains(&&*node.op.name) || more.contains(&&*node.op.name) || node.op.name.starts_with("Reduce");
        let baking = if reads_sizes { Baking::SmallIntegers } else { Baking::Nothing };
        let cache = Mutex::new(Cache { baking, plans: Vec::new() });
        Ok(Self { op: node.op.name.to_string(), opset, attributes, constants, outputs, cache })
    }

    /// The plan for these inputs. Not part of the node's time.
    pub(super) fn ready(&self, slots: &[Option<Slot>]) -> Result<Ready, String> {
        let inputs = slots
            .iter()
            .map(|s| match s {
                None => Ok(None),
                Some(Slot { value: Value::Tensor(t), .. }) => Ok(Some(t)),
                Some(_) => Err("tract has no sequences and optionals".to_owned()),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failure = None;
        for baking in [Baking::Nothing, Baking::SmallIntegers, Baking::Small].into_iter().filter(|&b| b >= cache.baking) {
            let key: Vec<Known> = inputs.iter().enumerate().map(|(i, t)| self.known(i, *t, baking)).collect();
            let fed = key.iter().enumerate().filter(|(i, k)| matches!(k, Known::Shape(..)) && self.constant(*i).is_none()).map(|(i, _)| i);
            let fed: Vec<usize> = fed.collect();
            if let Some(at) = cache.plans.iter().position(|(k, _)| *k == key) {
                let hit = cache.plans.remove(at);
                let plan = hit.1.clone();
                cache.plans.push(hit);
                return Ok(Ready { plan, fed });
            }
            match self.compile(&inputs, &key) {
                Ok(plan) => {
                    if cache.plans.len() >= CACHED_PLANS {
                        cache.plans.remove(0);
                    }
                    cache.plans.push((key, plan.clone()));
                    cache.baking = baking;
                    return Ok(Ready { plan, fed });
                }
                // Later attempts only differ in what they know; the first message is about the node as it is.
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        Err(failure.unwrap_or_default())
    }

    fn constant(&self, i: usize) -> Option<&Tensor> {
        self.constants.get(i).and_then(Option::as_ref)
    }

    fn known(&self, i: usize, t: Option<&Tensor>, baking: Baking) -> Known {
        let Some(t) = t else { return Known::Absent };
        let wanted = match baking {
            Baking::Nothing => false,
            Baking::SmallIntegers => t.dtype().is_int(),
            Baking::Small => t.dtype() != DType::String,
        };
        if wanted && t.len() <= MAX_BAKED && self.constant(i).is_none() {
            return Known::Baked(t.dtype(), t.dims().into(), t.bytes().to_vec());
        }
        Known::Shape(t.dtype(), t.dims().into())
    }

    fn compile(&self, inputs: &[Option<&Tensor>], key: &[Known]) -> Result<Plan, String> {
        let mut graph = pb::GraphProto { name: "node".to_owned(), ..Default::default() };
        let mut node =
            pb::NodeProto { name: "node".to_owned(), op_type: self.op.clone(), attribute: self.attributes.clone(), ..Default::default() };
        for (i, (t, known)) in inputs.iter().zip(key).enumerate() {
            let name = format!("i{i}");
            match (known, t) {
                (Known::Absent, _) | (_, None) => {
                    node.input.push(String::new());
                    continue;
                }
                (Known::Baked(..), Some(t)) => graph.initializer.push(proto::tensor(&name, t)?),
                (Known::Shape(..), Some(t)) => match self.constant(i) {
                    Some(c) => graph.initializer.push(proto::tensor(&name, c)?),
                    None => graph.input.push(proto::input(&name, t.dtype(), t.dims())?),
                },
            }
            node.input.push(name);
        }
        while node.input.last().is_some_and(String::is_empty) {
            node.input.pop();
        }
        for (i, o) in self.outputs.iter().enumerate() {
            let name = o.map_or_else(String::new, |_| format!("o{i}"));
            if !name.is_empty() {
                graph.output.push(proto::output(&name));
            }
            node.output.push(name);
        }
        graph.node.push(node);
        compile(&proto::model(graph, self.opset))
    }

    /// Computes the node.
    pub(super) fn run(&self, ready: &Ready, slots: &[Option<Slot>]) -> Result<Outputs, String> {
        let feeds = ready.fed.iter().map(|&i| match slots.get(i).and_then(Option::as_ref).and_then(|s| s.value.as_tensor()) {
            Some(t) => convert::to_tract(t),
            None => Err(format!("input {i} is missing")),
        });
        let made = run(&ready.plan, feeds)?;
        let mut made = made.iter();
        let mut outputs = Outputs::new();
        for declared in &self.outputs {
            let Some(declared) = declared else {
                outputs.push(None);
                continue;
            };
            let Some(t) = made.next() else { return Err("tract gave too few outputs".to_owned()) };
            let t = convert::from_tract(t)?;
            let narrow = *declared == Some(DType::Bf16) && t.dtype() == DType::F32;
            outputs.push(Some(Value::Tensor(if narrow { convert::narrowed(&t)? } else { t })));
        }
        Ok(outputs)
    }
}
