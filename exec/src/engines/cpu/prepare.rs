//! From nodes to steps: kernels, slots, last uses.

use std::collections::HashMap;

use recut_core::diagnostic::printable;
use recut_core::graph::{AttrValue, Dialect, Graph, Node, NodeId, ValueId, ValueKind};

use super::merge::{Part, Reads, drop_unread};
use super::program::{Action, Level, LevelOutput, Operand, Program, ScanSpec, Step};
use super::tract_op::TractOp;
use super::weights::WeightStore;
use crate::engine::{Merged, MergedInto, NodeRef, PrepareOptions, RunError, Subgraph};
use crate::engines::tract;
use crate::kernels::{KernelError, PrepareCtx, opset, registry};
use crate::names::describe;
use crate::tensor::{Tensor, Value};

/// Makes a program of a subgraph.
///
/// # Errors
/// If nodes have no kernel (all of them are listed), one cannot be prepared, or a weight cannot be read.
pub(super) fn prepare(subgraph: &Subgraph, weights: &WeightStore, options: &PrepareOptions) -> Result<Program, RunError> {
    let mut p = Preparation { subgraph, weights, options, constants: Vec::new(), merged: Vec::new(), missing: Vec::new() };
    let graph = &subgraph.model.graph;
    let main = p.level(graph, &subgraph.nodes, &subgraph.inputs, &subgraph.outputs, None, None)?;
    if p.missing.is_empty() {
        drop_unread(&main, &mut p.constants);
        Ok(Program { main, constants: p.constants, merged: p.merged })
    } else {
        Err(RunError::MissingKernels { engine: "cpu".into(), partition: subgraph.name.to_string(), nodes: p.missing })
    }
}

/// Where a value of a level is.
#[derive(Clone, Copy)]
pub(super) enum Binding {
    Slot(u32),
    Constant(u32),
}

/// Values of a level that is being prepared.
pub(super) struct Scope<'a> {
    pub(super) graph: &'a Graph,
    pub(super) bindings: HashMap<ValueId, Binding>,
    parent: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    /// Whether a value is the same in every run.
    pub(super) fn is_constant(&self, v: ValueId) -> bool {
        let (mut scope, mut v) = (self, v);
        loop {
            match scope.bindings.get(&v) {
                Some(Binding::Constant(_)) => return true,
                Some(Binding::Slot(_)) => return false,
                None => {}
            }
            match (&scope.graph.value(v).kind, scope.parent) {
                (ValueKind::Captured { outer }, Some(parent)) => (scope, v) = (parent, *outer),
                (ValueKind::Initializer(_), _) => return true,
                _ => return false,
            }
        }
    }
}

pub(super) struct Preparation<'a> {
    subgraph: &'a Subgraph,
    weights: &'a WeightStore,
    pub(super) options: &'a PrepareOptions,
    pub(super) constants: Vec<Value>,
    merged: Vec<Merged>,
    missing: Vec<(String, String)>,
}

impl Preparation<'_> {
    /// One level. `inside` is the node of the main graph that holds it, with the number of inner nodes seen so far.
    fn level(
        &mut self,
        graph: &Graph,
        nodes: &[NodeId],
        inputs: &[ValueId],
        outputs: &[ValueId],
        parent: Option<&Scope<'_>>,
        mut inside: Option<(NodeId, &mut u32)>,
    ) -> Result<Level, RunError> {
        let mut scope = Scope { graph, bindings: HashMap::with_capacity(nodes.len() + inputs.len()), parent };
        let mut slots = 0u32;
        let mut slot = || {
            slots += 1;
            slots - 1
        };
        let input_slots: Vec<u32> = inputs.iter().map(|&v| *bind_slot(&mut scope, v, &mut slot)).collect();
        for &id in nodes {
            let node = graph.node(id);
            if let Some(t) = self.stored(graph, node)?
                && let Some(v) = node.outputs.first().copied().flatten()
            {
                let constant = self.constant(t.into());
                scope.bindings.insert(v, Binding::Constant(constant));
            }
        }
        let mut groups = self.groups(&scope, nodes)?;
        let mut parts: Vec<Part> = Vec::with_capacity(nodes.len());
        for &id in nodes {
            let node = graph.node(id);
            let part = match (groups.members.of.get(&id), groups.members.at.get(&id)) {
                (_, Some(&g)) => Part::Group(g),
                (Some(&g), None) if groups.anchors[g] == id => Part::Anchor(g),
                (Some(&g), None) => Part::Member(g),
                (None, None) => match self.folded(&mut scope, id)? {
                    Some(ns) => Part::Folded(ns),
                    None => Part::Node,
                },
            };
            if matches!(part, Part::Node | Part::Group(_)) {
                for &v in node.outputs.iter().flatten() {
                    bind_slot(&mut scope, v, &mut slot);
                }
            }
            parts.push(part);
        }
        let reads = Reads::of(graph, nodes, &parts, &groups.inputs);
        let read = self.resolve_all(&mut scope, reads.values.iter().chain(outputs).copied())?;
        let last = LastUses::of(&read, &reads, outputs, slots as usize);

        let mut steps = Vec::with_capacity(nodes.len());
        let mut anchors: Vec<Option<NodeRef>> = vec![None; groups.anchors.len()];
        let mut members: Vec<(NodeRef, usize)> = Vec::new();
        for (at, (&id, part)) in nodes.iter().zip(&parts).enumerate() {
            let node_ref = match &mut inside {
                None => NodeRef { node: id, inner: u32::MAX },
                Some((outer, count)) => {
                    let inner = **count;
                    **count += 1;
                    NodeRef { node: *outer, inner }
                }
            };
            let mut own_count = 0;
            let (main_node, count) = match &mut inside {
                None => (id, &mut own_count),
                Some((outer, count)) => (*outer, &mut **count),
            };
            match *part {
                Part::Node => steps.push(self.step(&scope, &read, &last, at, id, node_ref, (main_node, count))?),
                Part::Folded(prepare_ns) => {
                    // A `Constant` node is one anyway.
                    if !graph.node(id).op.is_onnx("Constant") {
                        self.merged.push(Merged { node: node_ref, into: MergedInto::Constant { prepare_ns } });
                    }
                    steps.push(self.folded_step(&scope, id, node_ref));
                }
                Part::Anchor(g) => anchors[g] = Some(node_ref),
                Part::Member(g) | Part::Group(g) => {
                    members.push((node_ref, g));
                    steps.push(Step::in_group(node_ref));
                }
            }
            if let Part::Group(g) = *part
                && let (Some(kernel), Some(node)) = (groups.kernels[g].take(), anchors[g])
            {
                let (inputs, _) = self.operands(&scope, &read, &last, at, &groups.inputs[g], &[]);
                let quantize = graph.node(id);
                let outputs = output_slots(&scope, &last, quantize);
                let values = if node.inner == u32::MAX { quantize.outputs.clone() } else { Box::default() };
                steps.push(Step {
                    node,
                    action: Action::Kernel(kernel, None),
                    inputs: inputs.into(),
                    outputs,
                    values,
                    dies: Box::default(),
                });
            }
        }
        for (node, g) in members {
            if let Some(anchor) = anchors[g] {
                self.merged.push(Merged { node, into: MergedInto::Group(anchor) });
            }
        }
        let mut taken = std::collections::HashSet::new();
        let mut level_outputs: Vec<LevelOutput> = Vec::with_capacity(outputs.len());
        for &v in outputs.iter().rev() {
            let from = match self.operand(&scope, &read, v) {
                Operand::Local { slot, .. } => {
                    let last = taken.insert(slot);
                    Operand::Local { slot, last }
                }
                other => other,
            };
            let value = graph.value(v);
            let dims = value.shape.dims().unwrap_or_default();
            let dims = dims.iter().map(|d| d.known().and_then(|d| usize::try_from(d).ok()).unwrap_or(0)).collect();
            level_outputs.push(LevelOutput { from, dtype: value.dtype, dims });
        }
        level_outputs.reverse();
        let inputs = input_slots.iter().map(|&s| last.is_read(s).then_some(s)).collect();
        Ok(Level { steps, slots: slots as usize, inputs, outputs: level_outputs })
    }

    /// Operands of everything that is read in a level and is no slot of it.
    fn resolve_all(&mut self, scope: &mut Scope<'_>, reads: impl Iterator<Item = ValueId>) -> Result<HashMap<ValueId, Operand>, RunError> {
        let mut found = HashMap::new();
        for v in reads {
            if let std::collections::hash_map::Entry::Vacant(e) = found.entry(v) {
                e.insert(self.resolve(scope, v)?);
            }
        }
        Ok(found)
    }

    pub(super) fn resolve(&mut self, scope: &Scope<'_>, v: ValueId) -> Result<Operand, RunError> {
        let (mut scope, mut v, mut up) = (scope, v, 0u32);
        loop {
            match scope.bindings.get(&v) {
                Some(&Binding::Slot(slot)) if up == 0 => return Ok(Operand::Local { slot, last: false }),
                Some(&Binding::Slot(slot)) => return Ok(Operand::Outer { up, slot }),
                Some(&Binding::Constant(c)) => return Ok(Operand::Constant(c)),
                None => {}
            }
            let value = scope.graph.value(v);
            match (&value.kind, scope.parent) {
                (ValueKind::Captured { outer }, Some(parent)) => (scope, v, up) = (parent, *outer, up + 1),
                (ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) }, _) => {
                    let t = self.weights.load(w).map_err(|e| self.weight_error(&value.name, &e.to_string()))?;
                    return Ok(Operand::Constant(self.constant(t.into())));
                }
                _ => return Err(self.weight_error(&value.name, "nothing gives it here; this is an error of the plan, please report it")),
            }
        }
    }

    fn operand(&self, scope: &Scope<'_>, read: &HashMap<ValueId, Operand>, v: ValueId) -> Operand {
        match scope.bindings.get(&v) {
            Some(&Binding::Slot(slot)) => Operand::Local { slot, last: false },
            Some(&Binding::Constant(c)) => Operand::Constant(c),
            None => read.get(&v).copied().unwrap_or(Operand::Absent),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, of one loop")]
    fn step(
        &mut self,
        scope: &Scope<'_>,
        read: &HashMap<ValueId, Operand>,
        last: &LastUses,
        at: usize,
        id: NodeId,
        node_ref: NodeRef,
        inside: (NodeId, &mut u32),
    ) -> Result<Step, RunError> {
        let node = scope.graph.node(id);
        let (inputs, dies) = self.operands(scope, read, last, at, &node.inputs, &node.captures);
        let outputs = output_slots(scope, last, node);
        let action = self.action(scope, node, node_ref, &inputs, inside)?;
        let values = if node_ref.inner == u32::MAX { node.outputs.clone() } else { Box::default() };
        Ok(Step { node: node_ref, action, inputs: inputs.into(), outputs, values, dies: dies.into() })
    }

    /// What a step reads, with the slots that only its bodies read and that die here.
    fn operands(
        &self,
        scope: &Scope<'_>,
        read: &HashMap<ValueId, Operand>,
        last: &LastUses,
        at: usize,
        values: &[Option<ValueId>],
        captures: &[ValueId],
    ) -> (Vec<Operand>, Vec<u32>) {
        let mut inputs: Vec<Operand> = values.iter().map(|v| v.map_or(Operand::Absent, |v| self.operand(scope, read, v))).collect();
        // Left-out trailing inputs need no operand.
        while inputs.last() == Some(&Operand::Absent) {
            inputs.pop();
        }
        let mut dies: Vec<u32> = Vec::new();
        for &v in captures {
            if let Operand::Local { slot, .. } = self.operand(scope, read, v)
                && last.at(slot) == Some(at)
                && !dies.contains(&slot)
            {
                dies.push(slot);
            }
        }
        let mut seen: Vec<u32> = Vec::new();
        for operand in inputs.iter_mut().rev() {
            if let Operand::Local { slot, last: is_last } = operand
                && last.at(*slot) == Some(at)
                && !dies.contains(slot)
                && !seen.contains(slot)
            {
                *is_last = true;
                seen.push(*slot);
            }
        }
        (inputs, dies)
    }

    fn folded_step(&self, scope: &Scope<'_>, id: NodeId, node: NodeRef) -> Step {
        let made = &scope.graph.node(id).outputs;
        let constants: Vec<Operand> = made
            .iter()
            .map(|v| match v.and_then(|v| scope.bindings.get(&v)) {
                Some(&Binding::Constant(c)) => Operand::Constant(c),
                _ => Operand::Absent,
            })
            .collect();
        let size = |o: &Operand| match o {
            Operand::Constant(c) => self.constants.get(*c as usize).map_or(0, Value::byte_len),
            _ => 0,
        };
        let bytes = constants.iter().map(size).sum();
        // Those that must be shown keep their value, see `drop_unread`.
        let shown = node.inner == u32::MAX && made.iter().flatten().any(|v| self.options.keep.contains(v));
        let (inputs, values) = if shown { (constants.into(), made.clone()) } else { Default::default() };
        Step { node, action: Action::Folded(bytes), inputs, outputs: Box::default(), values, dies: Box::default() }
    }

    fn action(
        &mut self,
        scope: &Scope<'_>,
        node: &Node,
        node_ref: NodeRef,
        inputs: &[Operand],
        inside: (NodeId, &mut u32),
    ) -> Result<Action, RunError> {
        if node.op.dialect == Dialect::Onnx && node.op.domain.is_empty() && !node.bodies.is_empty() {
            return self.control_flow(scope, node, node_ref, inside);
        }
        let version = self.version(node);
        let constants: Vec<Option<Tensor>> = inputs
            .iter()
            .map(|o| match o {
                Operand::Constant(c) => self.constants.get(*c as usize).and_then(Value::as_tensor).cloned(),
                _ => None,
            })
            .collect();
        if node.op.dialect == Dialect::Onnx
            && let Some(entry) = registry::lookup(&node.op.domain, &node.op.name, version)
        {
            let ctx = PrepareCtx { node, opset: version, constants: &constants };
            let made = crate::engine::catch(|| (entry.factory)(&ctx));
            match made.map_err(|e| self.node_error(node_ref, e))? {
                Ok(kernel) => return Ok(Action::Kernel(kernel, self.fallback(scope, node, version, constants).ok().flatten())),
                Err(KernelError::Unsupported(what)) => {
                    return match self.fallback(scope, node, version, constants).map_err(|e| self.node_error(node_ref, e))? {
                        Some(op) => Ok(Action::Tract(op)),
                        None => {
                            self.note_missing(node_ref, &format!("{} with {what}", node.op));
                            Ok(Action::Folded(0))
                        }
                    };
                }
                Err(e) => return Err(self.node_error(node_ref, e.to_string())),
            }
        }
        match self.fallback(scope, node, version, constants).map_err(|e| self.node_error(node_ref, e))? {
            Some(op) => Ok(Action::Tract(op)),
            None => {
                let text = self.why_missing(node, version);
                self.note_missing(node_ref, &text);
                // Never run: preparing goes on to find the other nodes without a kernel, and then fails.
                Ok(Action::Folded(0))
            }
        }
    }

    /// tract's operator for the node, where it has one that exists in this opset.
    pub(super) fn fallback(
        &self,
        scope: &Scope<'_>,
        node: &Node,
        version: i64,
        constants: Vec<Option<Tensor>>,
    ) -> Result<Option<TractOp>, String> {
        let op = &node.op;
        let standard = op.dialect == Dialect::Onnx && op.domain.is_empty();
        let exists = opset::since(&op.name).is_some_and(|since| since <= version);
        if !standard || !exists || !node.bodies.is_empty() || !tract::knows(&op.name) {
            return Ok(None);
        }
        TractOp::new(scope.graph, node, version, constants).map(Some)
    }

    fn why_missing(&self, node: &Node, version: i64) -> String {
        if node.op.dialect != Dialect::Onnx {
            let reason = self.subgraph.model.lowering.as_ref().and_then(|l| {
                let at = NodeId(node.ordinal);
                l.missing.iter().find(|(n, _)| *n == at).map(|(_, why)| why.to_string())
            });
            return reason.unwrap_or_else(|| format!("{}, which is no ONNX operator", node.op));
        }
        if !node.op.domain.is_empty() {
            return node.op.to_string();
        }
        match opset::since(&node.op.name) {
            Some(since) if since > version => format!("{}, which exists since opset {since} while the model imports {version}", node.op),
            Some(_) => node.op.to_string(),
            None => format!("{}, which is no standard ONNX operator", printable(&node.op.name)),
        }
    }

    fn note_missing(&mut self, node: NodeRef, op: &str) {
        self.missing.push((describe(&self.subgraph.model, node).0, op.to_owned()));
    }

    fn control_flow(&mut self, scope: &Scope<'_>, node: &Node, node_ref: NodeRef, inside: (NodeId, &mut u32)) -> Result<Action, RunError> {
        let (main, count) = inside;
        let mut levels: HashMap<&str, Level> = HashMap::new();
        // All bodies in order, whatever their names, so that inner nodes are counted as `inner_nodes` does.
        for body in &node.bodies {
            let nodes: Vec<NodeId> = body.graph.node_ids().collect();
            let level =
                self.level(&body.graph, &nodes, body.graph.inputs(), body.graph.outputs(), Some(scope), Some((main, &mut *count)))?;
            levels.insert(&body.attr, level);
        }
        let mut take =
            |attr: &str| levels.remove(attr).ok_or_else(|| self.node_error(node_ref, format!("the attribute `{attr}` is missing")));
        match &*node.op.name {
            "If" => Ok(Action::If { then_branch: take("then_branch")?, else_branch: take("else_branch")? }),
            "Loop" => Ok(Action::Loop(take("body")?)),
            "SequenceMap" => Ok(Action::SequenceMap(take("body")?)),
            "Scan" => {
                let body = take("body")?;
                let version = self.subgraph.model.opset_of(node).unwrap_or(opset::LATEST);
                let spec = scan_spec(node, &body, version).map_err(|e| self.node_error(node_ref, e))?;
                Ok(Action::Scan(body, spec))
            }
            _ => {
                self.note_missing(node_ref, &node.op.to_string());
                Ok(Action::Folded(0))
            }
        }
    }

    /// Version of the operator set that a node is of.
    pub(super) fn version(&self, node: &Node) -> i64 {
        self.subgraph.model.opset_of(node).unwrap_or(if node.op.domain.is_empty() { opset::LATEST } else { 1 })
    }

    /// The value of a `Constant` node.
    fn stored(&self, graph: &Graph, node: &Node) -> Result<Option<Tensor>, RunError> {
        if !node.op.is_onnx("Constant") {
            return Ok(None);
        }
        let made = |t: Result<Tensor, crate::tensor::TensorError>| {
            t.map(Some).map_err(|e| self.weight_error(output_name(graph, node), &e.to_string()))
        };
        for attr in &node.attrs {
            match (&*attr.name, &attr.value) {
                ("value", AttrValue::Tensor(w)) => {
                    let t = self.weights.load(w).map_err(|e| self.weight_error(output_name(graph, node), &e.to_string()))?;
                    return Ok(Some(t));
                }
                ("value_float", AttrValue::Float(x)) => return Ok(Some(Tensor::scalar(*x as f32))),
                ("value_int", AttrValue::Int(i)) => return Ok(Some(Tensor::scalar(*i))),
                ("value_string", AttrValue::Bytes(b)) => return made(Tensor::from_strings(&[], vec![b.clone()])),
                ("value_floats", AttrValue::Floats(v)) => {
                    let v: Vec<f32> = v.iter().map(|&x| x as f32).collect();
                    return made(Tensor::from_slice(&[v.len()], &v));
                }
                ("value_ints", AttrValue::Ints(v)) => return made(Tensor::from_slice(&[v.len()], v)),
                ("value_strings", AttrValue::ByteStrings(v)) => return made(Tensor::from_strings(&[v.len()], v.to_vec())),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(super) fn constant(&mut self, v: Value) -> u32 {
        self.constants.push(v);
        // One a value of the graph at most, and those are counted in u32.
        (self.constants.len() - 1) as u32
    }

    fn weight_error(&self, value: &str, message: &str) -> RunError {
        RunError::Weight { partition: self.subgraph.name.to_string(), value: printable(value).into_owned(), message: message.to_owned() }
    }

    fn node_error(&self, at: NodeRef, message: String) -> RunError {
        let (node, op) = describe(&self.subgraph.model, at);
        RunError::Node { engine: "cpu".into(), partition: self.subgraph.name.to_string(), node, op, message }
    }
}

fn bind_slot<'s>(scope: &'s mut Scope<'_>, v: ValueId, slot: &mut impl FnMut() -> u32) -> &'s u32 {
    let binding = scope.bindings.entry(v).or_insert_with(|| Binding::Slot(slot()));
    match binding {
        Binding::Slot(s) | Binding::Constant(s) => s,
    }
}

fn output_name<'g>(graph: &'g Graph, node: &Node) -> &'g str {
    node.outputs.first().copied().flatten().map_or("", |v| &*graph.value(v).name)
}

fn output_slots(scope: &Scope<'_>, last: &LastUses, node: &Node) -> Box<[Option<u32>]> {
    let slot = |v: &Option<ValueId>| match scope.bindings.get(&(*v)?) {
        Some(&Binding::Slot(s)) if last.is_read(s) => Some(s),
        _ => None,
    };
    node.outputs.iter().map(slot).collect()
}

/// When every slot is read last.
struct LastUses {
    /// Step, by slot; `u32::MAX` if it is an output of the level, `u32::MAX - 1` if nobody reads it.
    step: Vec<u32>,
}

impl LastUses {
    const OUTPUT: u32 = u32::MAX;
    const NEVER: u32 = u32::MAX - 1;

    fn of(read: &HashMap<ValueId, Operand>, reads: &Reads, outputs: &[ValueId], slots: usize) -> Self {
        let mut step = vec![Self::NEVER; slots];
        let mut note = |v: ValueId, at: u32| {
            if let Some(Operand::Local { slot, .. }) = read.get(&v) {
                step[*slot as usize] = at;
            }
        };
        for (at, range) in reads.ends.iter().scan(0, |start, &end| Some(std::mem::replace(start, end)..end)).enumerate() {
            reads.values[range].iter().for_each(|&v| note(v, at as u32));
        }
        outputs.iter().for_each(|&v| note(v, Self::OUTPUT));
        Self { step }
    }

    fn at(&self, slot: u32) -> Option<usize> {
        let at = self.step[slot as usize];
        (at < Self::NEVER).then_some(at as usize)
    }

    fn is_read(&self, slot: u32) -> bool {
        self.step[slot as usize] != Self::NEVER
    }
}

fn scan_spec(node: &Node, body: &Level, version: i64) -> Result<ScanSpec, String> {
    let scanned = node.int("num_scan_inputs").and_then(|n| usize::try_from(n).ok()).ok_or("the attribute `num_scan_inputs` is missing")?;
    let states = body.inputs.len().checked_sub(scanned).ok_or("`num_scan_inputs` exceeds the inputs of the body")?;
    let scan_outputs = body.outputs.len().checked_sub(states).ok_or("the body has fewer outputs than states")?;
    let axes = |name: &str, n: usize| match node.ints(name) {
        None => Ok(vec![0; n]),
        Some(v) if v.len() == n => Ok(v.to_vec()),
        Some(v) => Err(format!("`{name}` has {} entries for {n} scanned values", v.len())),
    };
    let batched = version < 9;
    let reversed = |name: &str, n: usize| axes(name, n).map(|v| v.iter().map(|&d| d == 1).collect::<Vec<bool>>());
    let input_directions = if batched { "directions" } else { "scan_input_directions" };
    Ok(ScanSpec {
        scanned,
        input_axes: axes("scan_input_axes", scanned)?,
        input_reverse: reversed(input_directions, scanned)?,
        output_axes: axes("scan_output_axes", scan_outputs)?,
        output_reverse: reversed("scan_output_directions", scan_outputs)?,
        batched,
    })
}
