//! Finds nodes that run as one: an operator between DequantizeLinear and QuantizeLinear, on the integers themselves.
//!
//! A group reads what its DequantizeLinear nodes read and gives what its QuantizeLinear gives. It is only made where
//! nothing else can see the values in between: they are no outputs, nobody asked to keep them, and only members read
//! them. A DequantizeLinear that others read too runs by itself for those, and the group does without it.
//!
//! | operator | becomes | needs |
//! | --- | --- | --- |
//! | Conv | QLinearConv | weights with one scale, or one an output channel; a bias of i32 in the scale of the products |
//! | MatMul, Gemm | QLinearMatMul, with a bias | one scale, or one a column of B |
//! | Add, Mul | one pass over the integers | one scale each |
//! | unary ones ([`UNARY`]) | a table of 256 entries | one scale |
//!
//! A Relu or Clip after Conv, MatMul, Gemm, Add or Mul only narrows the range of the result.

use std::collections::{HashMap, HashSet};

use recut_core::dtype::DType;
use recut_core::graph::{Graph, Node, NodeId, ValueId};

/// Operators on one element at a time without further inputs: for 8-bit values a table holds all their results.
pub(super) const UNARY: &[&str] = &[
    "Abs",
    "Ceil",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
];

/// What the operator of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Conv,
    MatMul,
    Gemm,
    Add,
    Mul,
    Unary,
}

/// A quantized operand: what a DequantizeLinear reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized {
    /// The node.
    pub(super) by: NodeId,
    pub(super) data: ValueId,
    pub(super) scale: ValueId,
    pub(super) zero: Option<ValueId>,
}

/// Nodes that run as one.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    /// The operator, at which the time is told.
    pub(super) anchor: NodeId,
    /// Relu or Clip after it.
    pub(super) activation: Option<NodeId>,
    /// The QuantizeLinear.
    pub(super) quantize: NodeId,
    /// Operands in the order of the operator: two, or one for unary ones.
    pub(super) operands: Vec<Quantized>,
    /// The bias, as i32.
    pub(super) bias: Option<Quantized>,
}

impl Group {
    /// What its kernel reads, in the order of QLinearConv; a unary one only what goes in.
    pub(super) fn inputs(&self, graph: &Graph) -> Vec<Option<ValueId>> {
        let q = graph.node(self.quantize);
        let mut inputs: Vec<Option<ValueId>> = self.operands.iter().flat_map(|o| [Some(o.data), Some(o.scale), o.zero]).collect();
        if self.kind == Kind::Unary {
            inputs.truncate(1);
            return inputs;
        }
        inputs.extend([q.input(1), q.input(2)]);
        inputs.extend(self.bias.map(|b| Some(b.data)));
        inputs
    }
}

/// Who belongs to which group.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Group of every node that does not run by itself.
    pub(super) of: HashMap<NodeId, usize>,
    /// Group by the node at whose place it runs: its QuantizeLinear.
    pub(super) at: HashMap<NodeId, usize>,
}

/// What the search needs to know of a level.
pub(super) struct Search<'a> {
    pub(super) graph: &'a Graph,
    /// Nodes that are prepared together.
    pub(super) nodes: &'a [NodeId],
    /// Values that must exist.
    pub(super) keep: &'a HashSet<ValueId>,
    /// Whether a value is the same in every run.
    pub(super) is_constant: &'a dyn Fn(ValueId) -> bool,
}

impl Search<'_> {
    fn visible(&self) -> impl Fn(ValueId) -> bool {
        let outputs: HashSet<ValueId> = self.graph.outputs().iter().copied().collect();
        move |v| outputs.contains(&v) || self.keep.contains(&v)
    }

    /// Every group there may be.
    pub(super) fn groups(&self) -> Vec<Group> {
        if !self.nodes.iter().any(|&n| self.graph.node(n).op.is_onnx("QuantizeLinear")) {
            return Vec::new();
        }
        let here: HashSet<NodeId> = self.nodes.iter().copied().collect();
        let visible = self.visible();
        self.nodes.iter().filter_map(|&quantize| self.ending_at(quantize, &here, &visible)).collect()
    }

    /// Who belongs to which of these groups.
    pub(super) fn members(&self, groups: &[&Group]) -> Members {
        let mut found = Members::default();
        for (i, group) in groups.iter().enumerate() {
            found.at.insert(group.quantize, i);
            for n in [Some(group.anchor), group.activation, Some(group.quantize)].into_iter().flatten() {
                found.of.insert(n, i);
            }
        }
        let visible = self.visible();
        // A DequantizeLinear goes with the first group that reads it, if nothing but groups read it.
        for (i, group) in groups.iter().enumerate() {
            for d in group.operands.iter().chain(&group.bias).map(|q| q.by) {
                let Some(v) = self.output(d) else { continue };
                let anchors = |c: &NodeId| found.of.get(c).is_some_and(|&g| groups[g].anchor == *c);
                if !visible(v) && self.graph.consumers(v).iter().all(anchors) {
                    found.of.entry(d).or_insert(i);
                }
            }
        }
        found
    }

    fn output(&self, n: NodeId) -> Option<ValueId> {
        match *self.graph.node(n).outputs {
            [Some(v)] => Some(v),
            _ => None,
        }
    }

    fn ending_at(&self, quantize: NodeId, here: &HashSet<NodeId>, visible: &dyn Fn(ValueId) -> bool) -> Option<Group> {
        let graph = self.graph;
        let q = graph.node(quantize);
        if !q.op.is_onnx("QuantizeLinear") || !self.is_plain(q, quantize) {
            return None;
        }
        // The value that the node at `n` alone reads, with the node that makes it.
        let hidden = |v: ValueId, n: NodeId| {
            let from = graph.producer(v).filter(|p| here.contains(p))?;
            (!visible(v) && *graph.consumers(v) == [n] && self.output(from) == Some(v)).then_some(from)
        };
        let before = hidden(q.input(0)?, quantize)?;
        let (mut anchor, mut activation) = (before, None);
        if ["Relu", "Clip"].iter().any(|op| graph.node(before).op.is_onnx(op)) && self.has_constant_limits(graph.node(before)) {
            // Alone it is a unary operator; after one of the others it is a part of it.
            let input = graph.node(before).input(0)?;
            let inner = hidden(input, before).filter(|&n| self.kind(n).is_some_and(|k| k != Kind::Unary));
            if let Some(n) = inner {
                (anchor, activation) = (n, Some(before));
            }
        }
        let kind = self.kind(anchor)?;
        let node = graph.node(anchor);
        let operand = |i: usize, axis: Option<i64>| self.quantized(node.input(i)?, here, axis);
        let (operands, bias) = match kind {
            Kind::Unary => (vec![operand(0, None)?], None),
            Kind::Add | Kind::Mul => (vec![operand(0, None)?, operand(1, None)?], None),
            Kind::MatMul => {
                let rank = i64::try_from(graph.value(node.input(1)?).shape.rank()?).ok()?;
                (vec![operand(0, None)?, operand(1, (rank >= 2).then_some(rank - 1))?], None)
            }
            Kind::Conv => (vec![operand(0, None)?, operand(1, Some(0))?], self.bias(node, here)?),
            Kind::Gemm => {
                let plain = node.float("alpha").is_none_or(|a| a == 1.0)
                    && node.float("beta").is_none_or(|b| b == 1.0)
                    && node.int("transA").unwrap_or(0) == 0;
                let columns = i64::from(node.int("transB").unwrap_or(0) == 0);
                if !plain {
                    return None;
                }
                (vec![operand(0, None)?, operand(1, Some(columns))?], self.bias(node, here)?)
            }
        };
        Some(Group { kind, anchor, activation, quantize, operands, bias })
    }

    fn kind(&self, n: NodeId) -> Option<Kind> {
        let node = self.graph.node(n);
        let is = |op: &str| node.op.is_onnx(op);
        Some(match () {
            () if is("Conv") => Kind::Conv,
            () if is("MatMul") => Kind::MatMul,
            () if is("Gemm") => Kind::Gemm,
            () if is("Add") => Kind::Add,
            () if is("Mul") => Kind::Mul,
            () if node.inputs.len() == 1 && UNARY.iter().any(|op| is(op)) => Kind::Unary,
            () => return None,
        })
    }

    /// Whether a QuantizeLinear has one constant scale and an 8-bit zero point.
    fn is_plain(&self, node: &Node, id: NodeId) -> bool {
        let (Some(scale), Some(zero)) = (node.input(1), node.input(2)) else { return false };
        let eight = |v: ValueId| matches!(self.graph.value(v).dtype, Some(DType::I8 | DType::U8));
        self.is_constant_f32(scale)
            && self.elements(scale) == Some(1)
            && (self.is_constant)(zero)
            && eight(zero)
            && self.output(id).is_some()
            && node.int("block_size").unwrap_or(0) == 0
            && node.int("precision").unwrap_or(0) == 0
    }

    fn is_constant_f32(&self, v: ValueId) -> bool {
        (self.is_constant)(v) && self.graph.value(v).dtype == Some(DType::F32)
    }

    fn elements(&self, v: ValueId) -> Option<u64> {
        self.graph.value(v).shape.dims()?.iter().try_fold(1u64, |n, d| n.checked_mul(d.known()?))
    }

    /// Relu has none; those of Clip are attributes or constants.
    fn has_constant_limits(&self, node: &Node) -> bool {
        node.inputs.iter().skip(1).flatten().all(|&v| self.is_constant_f32(v) && self.elements(v) == Some(1))
    }

    /// The 8-bit tensor behind `v`, with one scale or, where `axis` is given, one an index of that axis.
    fn quantized(&self, v: ValueId, here: &HashSet<NodeId>, axis: Option<i64>) -> Option<Quantized> {
        let q = self.dequantized(v, here)?;
        let node = self.graph.node(q.by);
        let along = self.elements(q.scale) == Some(1) || {
            let rank = i64::try_from(self.graph.value(v).shape.rank()?).ok()?;
            let own = node.int("axis").unwrap_or(1);
            axis.is_some_and(|a| a == if own < 0 { own + rank } else { own })
        };
        let eight = matches!(self.graph.value(q.data).dtype, Some(DType::I8 | DType::U8));
        (along && eight).then_some(q)
    }

    /// `Some(None)` if there is none, `None` if it does not fit.
    #[expect(clippy::option_option, reason = "absent, and unfit")]
    fn bias(&self, node: &Node, here: &HashSet<NodeId>) -> Option<Option<Quantized>> {
        let Some(v) = node.input(2) else { return Some(None) };
        let q = self.dequantized(v, here)?;
        // A zero point would have to be subtracted; nobody writes one.
        let whole = self.graph.value(q.data).dtype == Some(DType::I32)
            && (self.is_constant)(q.data)
            && q.zero.is_none_or(|z| (self.is_constant)(z));
        let vector = self.graph.value(q.data).shape.rank() == Some(1);
        (whole && vector).then_some(Some(q))
    }

    fn dequantized(&self, v: ValueId, here: &HashSet<NodeId>) -> Option<Quantized> {
        let by = self.graph.producer(v).filter(|p| here.contains(p))?;
        let node = self.graph.node(by);
        if !node.op.is_onnx("DequantizeLinear") || node.int("block_size").unwrap_or(0) != 0 || self.output(by) != Some(v) {
            return None;
        }
        let (data, scale, zero) = (node.input(0)?, node.input(1)?, node.input(2));
        let fixed = self.is_constant_f32(scale) && zero.is_none_or(|z| (self.is_constant)(z));
        fixed.then_some(Quantized { by, data, scale, zero })
    }
}
