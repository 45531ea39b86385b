//! Which nodes of a level do not run by themselves: constants that are computed now, and groups.

use recut_core::graph::{Graph, Node, NodeId, ValueId};

use super::fold;
use super::group_kernel;
use super::groups::{Group, Kind, Members, Search};
use super::prepare::{Binding, Preparation, Scope};
use super::program::{Action, Level, Operand};
use crate::engine::RunError;
use crate::kernels::quantized_group::{self, Limits};
use crate::kernels::{Kernel, PrepareCtx};
use crate::tensor::{Tensor, Value};

/// Drops constants that no step and no output reads any more: folded nodes and groups read them while they were prepared.
pub(super) fn drop_unread(main: &Level, constants: &mut [Value]) {
    let mut read = vec![false; constants.len()];
    let mut levels = vec![main];
    while let Some(level) = levels.pop() {
        let operands = level.steps.iter().flat_map(|s| s.inputs.iter()).chain(level.outputs.iter().map(|o| &o.from));
        for o in operands {
            if let Operand::Constant(c) = *o
                && let Some(read) = read.get_mut(c as usize)
            {
                *read = true;
            }
        }
        for step in &level.steps {
            match &step.action {
                Action::If { then_branch, else_branch } => levels.extend([then_branch, else_branch]),
                Action::Loop(body) | Action::Scan(body, _) | Action::SequenceMap(body) => levels.push(body),
                Action::Folded(_) | Action::InGroup | Action::Kernel(..) | Action::Tract(_) => {}
            }
        }
    }
    for (v, read) in constants.iter_mut().zip(read) {
        if !read {
            *v = Value::Optional(None);
        }
    }
}

/// What becomes of a node of a level.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// Runs by itself.
    Node,
    /// Was computed, in so many nanoseconds.
    Folded(u64),
    /// The operator of a group.
    Anchor(usize),
    /// Belongs to a group.
    Member(usize),
    /// The last of a group, in whose place it runs.
    Group(usize),
}

/// Groups of a level: operator, inputs and kernel of each, and who belongs to them.
#[derive(Default)]
pub(super) struct PreparedGroups {
    pub(super) anchors: Vec<NodeId>,
    pub(super) inputs: Vec<Vec<Option<ValueId>>>,
    pub(super) kernels: Vec<Option<Box<dyn Kernel>>>,
    pub(super) members: Members,
}

/// What is read at every place of a level.
pub(super) struct Reads {
    pub(super) values: Vec<ValueId>,
    /// Where the values of a place end.
    pub(super) ends: Vec<usize>,
}

impl Reads {
    pub(super) fn of(graph: &Graph, nodes: &[NodeId], parts: &[Part], groups: &[Vec<Option<ValueId>>]) -> Self {
        let (mut values, mut ends) = (Vec::new(), Vec::with_capacity(nodes.len()));
        for (&id, part) in nodes.iter().zip(parts) {
            match *part {
                Part::Node => values.extend(graph.node(id).reads()),
                Part::Group(g) => values.extend(groups[g].iter().flatten()),
                Part::Folded(_) | Part::Anchor(_) | Part::Member(_) => {}
            }
            ends.push(values.len());
        }
        Self { values, ends }
    }
}

impl Preparation<'_> {
    /// Groups of a level, with their kernels. One whose kernel refuses is none.
    pub(super) fn groups(&mut self, scope: &Scope<'_>, nodes: &[NodeId]) -> Result<PreparedGroups, RunError> {
        let mut prepared = PreparedGroups::default();
        if self.options.node_by_node {
            return Ok(prepared);
        }
        let is_constant = |v: ValueId| scope.is_constant(v);
        let search = Search { graph: scope.graph, nodes, keep: &self.options.keep, is_constant: &is_constant };
        let mut kept = Vec::new();
        for group in search.groups() {
            let inputs = group.inputs(scope.graph);
            if let Some(kernel) = self.group_kernel(scope, &group, &inputs)? {
                prepared.anchors.push(group.anchor);
                prepared.inputs.push(inputs);
                prepared.kernels.push(Some(kernel));
                kept.push(group);
            }
        }
        prepared.members = search.members(&kept.iter().collect::<Vec<_>>());
        Ok(prepared)
    }

    /// The tensor of a constant.
    fn constant_tensor(&mut self, scope: &Scope<'_>, v: ValueId) -> Result<Option<Tensor>, RunError> {
        if !scope.is_constant(v) {
            return Ok(None);
        }
        match self.resolve(scope, v)? {
            Operand::Constant(c) => Ok(self.constants.get(c as usize).and_then(Value::as_tensor).cloned()),
            _ => Ok(None),
        }
    }

    fn constant_tensors(&mut self, scope: &Scope<'_>, values: &[Option<ValueId>]) -> Result<Vec<Option<Tensor>>, RunError> {
        values.iter().map(|v| v.map_or(Ok(None), |v| self.constant_tensor(scope, v))).collect()
    }

    fn group_kernel(&mut self, scope: &Scope<'_>, group: &Group, inputs: &[Option<ValueId>]) -> Result<Option<Box<dyn Kernel>>, RunError> {
        let graph = scope.graph;
        if group.kind == Kind::Unary {
            return self.group_table(scope, group);
        }
        let constants = self.constant_tensors(scope, inputs)?;
        if let Some(bias) = group.bias {
            let scale = self.constant_tensor(scope, bias.scale)?;
            let zero = bias.zero.map_or(Ok(None), |z| self.constant_tensor(scope, z))?;
            if !group_kernel::bias_fits(&constants, scale.as_ref(), zero.as_ref()) {
                return Ok(None);
            }
        }
        let limits = match group.activation {
            None => Limits::NONE,
            Some(a) => {
                let node = graph.node(a);
                let given = self.constant_tensors(scope, &node.inputs)?;
                group_kernel::limits(node, &given)
            }
        };
        let anchor = graph.node(group.anchor);
        let node = Node { inputs: inputs.into(), ..anchor.clone() };
        let ctx = PrepareCtx { node: &node, opset: self.version(anchor), constants: &constants };
        let made = crate::engine::catch(|| group_kernel::make(group.kind, &ctx, limits));
        Ok(made.ok().and_then(Result::ok))
    }

    /// A unary operator on 8 bits: all 256 results, from the nodes' own kernels.
    fn group_table(&mut self, scope: &Scope<'_>, group: &Group) -> Result<Option<Box<dyn Kernel>>, RunError> {
        let graph = scope.graph;
        let Some(operand) = group.operands.first() else { return Ok(None) };
        let bytes: Vec<u8> = (0..=255).collect();
        let Some(dtype) = graph.value(operand.data).dtype else { return Ok(None) };
        let Ok(all) = Tensor::from_bytes(dtype, &[256], &bytes) else { return Ok(None) };
        let mut x = all;
        for n in [operand.by, group.anchor, group.quantize] {
            let node = graph.node(n);
            let mut inputs = self.constant_tensors(scope, &node.inputs)?;
            if let Some(first) = inputs.first_mut() {
                *first = Some(x);
            }
            let version = self.version(node);
            let fallback = || self.fallback(scope, node, version, Vec::new()).ok().flatten();
            match fold::compute(node, version, &inputs, fallback).map(|c| c.outputs).as_deref() {
                Some([Some(y)]) if y.dims() == [256] => x = y.clone(),
                _ => return Ok(None),
            }
        }
        Ok(<[u8; 256]>::try_from(x.bytes()).ok().and_then(|table| quantized_group::lookup(table, x.dtype()).ok()))
    }

    /// Computes a node of which all inputs are constant, and binds its outputs; gives the nanoseconds it took.
    pub(super) fn folded(&mut self, scope: &mut Scope<'_>, id: NodeId) -> Result<Option<u64>, RunError> {
        let graph = scope.graph;
        let node = graph.node(id);
        let bound = |v: &ValueId| matches!(scope.bindings.get(v), Some(Binding::Constant(_)));
        if node.op.is_onnx("Constant") && node.outputs.iter().flatten().all(bound) {
            return Ok(Some(0));
        }
        let wanted = |v: &ValueId| self.options.keep.contains(v);
        let candidate = !self.options.node_by_node
            && fold::is_pure(node)
            && node.inputs.iter().flatten().all(|&v| scope.is_constant(v))
            && !node.outputs.iter().flatten().any(wanted);
        if !candidate {
            return Ok(None);
        }
        let inputs = self.constant_tensors(scope, &node.inputs)?;
        if inputs.iter().zip(&node.inputs).any(|(t, v)| t.is_none() && v.is_some()) {
            return Ok(None);
        }
        let cap = fold::cap(inputs.iter().flatten().map(|t| t.byte_len() as u64).sum());
        if fold::declared_bytes(graph, node).is_some_and(|n| n > cap) {
            return Ok(None);
        }
        let version = self.version(node);
        let fallback = || self.fallback(scope, node, version, inputs.clone()).ok().flatten();
        let Some(computed) = fold::compute(node, version, &inputs, fallback) else { return Ok(None) };
        let made = |i: usize| computed.outputs.get(i).and_then(Option::as_ref);
        let complete = node.outputs.iter().enumerate().all(|(i, v)| v.is_none() || made(i).is_some());
        if !complete || computed.outputs.iter().flatten().map(|t| t.byte_len() as u64).sum::<u64>() > cap {
            return Ok(None);
        }
        for (v, t) in node.outputs.iter().zip(computed.outputs) {
            if let (Some(v), Some(t)) = (*v, t) {
                let constant = self.constant(t.into());
                scope.bindings.insert(v, Binding::Constant(constant));
            }
        }
        Ok(Some(computed.ns))
    }
}
