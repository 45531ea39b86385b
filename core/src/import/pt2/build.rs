//! From the program to a [`Graph`]: names become values, arguments become inputs and attributes, in-place operators
//! become new values.

use std::collections::HashSet;
use std::sync::Arc;

use super::aliases::{self, Aliases};
use indexmap::IndexMap;

use super::schema::{self, Argument, InputSpec, Named, OutputSpec, SymInt, Symbolic, TensorMeta};
use super::scopes::{Scope, Scopes};
use super::symbols;
use super::weights::{Weights, dtype};
use crate::diagnostic::{Diagnostic, printable};
use crate::dtype::DType;
use crate::graph::{Attr, AttrValue, Body, Dialect, Graph, Node, NodeId, Op, Taken, Value, ValueId, ValueKind, ValueType};
use crate::hash::{FastMap, Seeded};
use crate::modules::ModuleId;
use crate::shape::{Dim, Shape};
use crate::weights::WeightRef;

/// Most nodes, with those of nested graphs, that a program may have.
const MAX_NODES: usize = 20_000_000;

/// Arguments up to which a name is looked for one by one.
const FEW: usize = 32;

/// Higher-order operators that only set a mode around a graph: the graph is read as if it stood there itself.
const MODES: [&str; 2] = ["wrap_with_set_grad_enabled", "wrap_with_autocast"];

/// What one program's levels share.
pub(super) struct Builder {
    pub(super) scopes: Scopes,
    pub(super) diagnostics: Vec<Diagnostic>,
    ops: FastMap<Box<str>, Arc<Op>>,
    texts: FastMap<Box<str>, Arc<str>>,
    exprs: FastMap<Box<str>, Dim>,
    /// Sizes of symbols while the program was traced, in order of first use.
    pub(super) hints: IndexMap<String, i64>,
    nodes: usize,
    lost_writes: usize,
}

/// Nodes and values of the level that is being built.
pub(super) struct Level {
    pub(super) nodes: Vec<Node>,
    pub(super) values: Vec<Value>,
    /// A graph that was read into this one may repeat names, and so may what is made up.
    names: Taken,
    pub(super) aliases: Aliases,
}

/// Names of one stored graph, with the values they mean.
type Names<'p> = FastMap<&'p str, ValueId>;

impl Level {
    fn new() -> Self {
        Self { nodes: Vec::new(), values: Vec::new(), names: Taken::with_empty(), aliases: Aliases::default() }
    }

    /// A new value. Names are unique in their graph, and none is empty.
    pub(super) fn value(&mut self, name: &str, kind: ValueKind, ty: ValueType, dtype: Option<DType>, shape: Shape) -> ValueId {
        let id = ValueId::new(self.values.len());
        let name = self.names.unique(name, '#');
        self.values.push(Value { name, kind, ty, dtype, shape });
        id
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            scopes: Scopes::default(),
            diagnostics: Vec::new(),
            ops: FastMap::default(),
            texts: FastMap::default(),
            exprs: FastMap::default(),
            hints: IndexMap::new(),
            nodes: 0,
            lost_writes: 0,
        }
    }

    /// The main graph of a program.
    pub(super) fn main(
        &mut self,
        module: &schema::GraphModule<'_>,
        weights: &Weights,
        user_inputs: &[Option<String>],
    ) -> Result<Graph, String> {
        let stored = &module.graph;
        let mut level = Level::new();
        let mut names = Names::default();
        let mut inputs = Vec::new();
        if module.signature.input_specs.len() != stored.inputs.len() {
            let (n, m) = (stored.inputs.len(), module.signature.input_specs.len());
            return Err(format!("the graph has {n} inputs and its signature describes {m}"));
        }
        let mut user = user_inputs.iter();
        let mut states = Vec::new();
        for (argument, spec) in stored.inputs.iter().zip(&module.signature.input_specs) {
            let (fx, stored_name) = match spec {
                InputSpec::Parameter(p) => (&p.arg.name, Some(&p.parameter_name)),
                InputSpec::Buffer(b) => (&b.arg.name, Some(&b.buffer_name)),
                InputSpec::TensorConstant(c) => (&c.arg.name, Some(&c.tensor_constant_name)),
                InputSpec::CustomObj(c) => {
                    let weight = weights.get(&c.custom_obj_name, None, &[]);
                    let id = level.value(&c.arg.name, ValueKind::Initializer(weight), ValueType::Other, None, Shape::UNKNOWN);
                    names.insert(&c.arg.name, id);
                    continue;
                }
                InputSpec::UserInput(_) => {
                    let path = user.next();
                    if let Some(name) = value_name(argument) {
                        let shown = path.and_then(Option::as_deref).unwrap_or(name);
                        let id = self.declare(&mut level, stored, name, shown, |_, _| ValueKind::Input { default: None });
                        names.insert(name, id);
                        inputs.push(id);
                    }
                    continue;
                }
                // A Python value that was baked in: nodes hold it themselves.
                InputSpec::ConstantInput(_) => {
                    user.next();
                    continue;
                }
                InputSpec::Token(_) => continue,
            };
            let name = stored_name.map_or(&**fx, |n| &**n);
            let id = self.declare(&mut level, stored, fx, name, |dtype, shape| {
                let dims: Vec<u64> = shape.dims().unwrap_or_default().iter().map(|d| d.known().unwrap_or(0)).collect();
                ValueKind::Initializer(weights.get(name, dtype, &dims))
            });
            names.insert(fx, id);
            states.push(id);
        }
        self.nodes_of(&mut level, &mut names, stored, Scope::default())?;

        let (mut outputs, mut mutated) = (Vec::new(), Vec::new());
        if module.signature.output_specs.len() != stored.outputs.len() {
            let (n, m) = (stored.outputs.len(), module.signature.output_specs.len());
            return Err(format!("the graph has {n} outputs and its signature describes {m}"));
        }
        for (i, (argument, spec)) in stored.outputs.iter().zip(&module.signature.output_specs).enumerate() {
            let into = match spec {
                OutputSpec::UserOutput(_) | OutputSpec::LossOutput(_) => &mut outputs,
                OutputSpec::BufferMutation(_) | OutputSpec::UserInputMutation(_) | OutputSpec::ParameterMutation(_) => &mut mutated,
                OutputSpec::GradientToParameter(_) | OutputSpec::GradientToUserInput(_) | OutputSpec::Token(_) => continue,
            };
            into.extend(self.output(&mut level, &names, argument, i)?);
        }
        // State that in-place operators changed is returned like that of functional programs.
        for state in states {
            let now = level.resolve(state);
            mutated.extend((now != state).then_some(now));
        }
        self.lost_writes += level.aliases.lost;
        outputs.append(&mut mutated);
        self.remarks();
        number_first_calls(&mut level.nodes);
        Ok(Graph::new("".into(), level.nodes, level.values, inputs, outputs))
    }

    fn remarks(&mut self) {
        if self.lost_writes > 0 {
            let n = self.lost_writes;
            let message = format!(
                "{n} in-place operators write through a view that cannot be followed to its tensor, so that later readers of that tensor do not see it here: export with .run_decompositions() to be sure"
            );
            self.diagnostics.push(Diagnostic::warning("in_place_view", message));
        }
    }

    /// A value that a name of `stored` declares; `shown` is what it is called here.
    fn declare(
        &mut self,
        level: &mut Level,
        stored: &schema::Graph<'_>,
        name: &str,
        shown: &str,
        kind: impl FnOnce(Option<DType>, &Shape) -> ValueKind,
    ) -> ValueId {
        let (ty, dtype, shape) = self.facts(stored, name);
        let kind = kind(dtype, &shape);
        level.value(shown, kind, ty, dtype, shape)
    }

    fn facts(&mut self, stored: &schema::Graph<'_>, name: &str) -> (ValueType, Option<DType>, Shape) {
        if let Some(meta) = stored.tensor_values.get(name) {
            let ty = if meta.layout.is_some_and(|l| (1..=5).contains(&l)) { ValueType::Sparse } else { ValueType::Tensor };
            return (ty, dtype(meta.dtype), self.shape(meta));
        }
        let dtype = stored.sym_int_values.as_ref().is_some_and(|v| v.contains_key(name)).then_some(DType::I64);
        (ValueType::Scalar, dtype, Shape::known(&[]))
    }

    fn shape(&mut self, meta: &TensorMeta<'_>) -> Shape {
        let dims: Vec<Dim> = meta.sizes.iter().map(|s| self.dim(s)).collect();
        Shape::new(dims)
    }

    fn dim(&mut self, size: &SymInt<'_>) -> Dim {
        match size {
            SymInt::AsInt(n) => u64::try_from(*n).map_or(Dim::Unknown, Dim::Known),
            SymInt::AsExpr(e) => match self.exprs.get(&*e.expr_str) {
                Some(dim) => dim.clone(),
                None => {
                    let dim = symbols::parse(&e.expr_str).map_or(Dim::Unknown, Dim::from_expr);
                    if let (Dim::Sym(symbol), Some(SymInt::AsInt(hint))) = (&dim, e.hint.as_deref())
                        && let Some(name) = symbol.as_var()
                    {
                        self.hints.insert(name.to_string(), *hint);
                    }
                    self.exprs.insert((*e.expr_str).into(), dim.clone());
                    dim
                }
            },
        }
    }

    fn output(&mut self, level: &mut Level, names: &Names<'_>, argument: &Argument<'_>, index: usize) -> Result<Option<ValueId>, String> {
        if let Some(name) = value_name(argument) {
            let value = names.get(name).ok_or_else(|| format!("output {index} is {}, which nothing makes", printable(name)))?;
            return Ok(Some(level.resolve(*value)));
        }
        let constant = match argument {
            Argument::AsInt(n) | Argument::AsSymInt(Symbolic::AsInt(n)) => WeightRef::inline(DType::I64, &[], n.to_le_bytes().to_vec()),
            Argument::AsFloat(x) | Argument::AsSymFloat(Symbolic::AsFloat(x)) => {
                WeightRef::inline(DType::F64, &[], x.0.to_le_bytes().to_vec())
            }
            Argument::AsBool(b) | Argument::AsSymBool(Symbolic::AsBool(b)) => WeightRef::inline(DType::Bool, &[], vec![u8::from(*b)]),
            // None, texts and the like are no data.
            _ => return Ok(None),
        };
        let dtype = Some(constant.dtype);
        let kind = ValueKind::Initializer(constant);
        Ok(Some(level.value(&format!("output_{index}"), kind, ValueType::Tensor, dtype, Shape::known(&[]))))
    }

    fn nodes_of<'p>(
        &mut self,
        level: &mut Level,
        names: &mut Names<'p>,
        stored: &'p schema::Graph<'_>,
        outer: Scope,
    ) -> Result<(), String> {
        for node in &stored.nodes {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                return Err(format!("the program has more than {MAX_NODES} nodes"));
            }
            let op = self.op(&node.target);
            if &*op.domain == "higher_order" && MODES.contains(&&*op.name) {
                self.inline(level, names, node, outer)?;
            } else {
                self.node(level, names, stored, node, op, outer)?;
            }
        }
        Ok(())
    }

    /// Reads the graph of a node that only sets a mode into the level itself.
    fn inline<'p>(&mut self, level: &mut Level, names: &mut Names<'p>, node: &'p schema::Node<'_>, outer: Scope) -> Result<(), String> {
        let at = node.inputs.iter().position(|i| matches!(i.arg, Argument::AsGraph(_)));
        let Some((at, Argument::AsGraph(nested))) = at.map(|at| (at, &node.inputs[at].arg)) else {
            return Err(format!("{} has no graph", describe(node)));
        };
        let operands: Vec<&str> = node.inputs[at + 1..].iter().flat_map(|i| value_names(&i.arg)).collect();
        if operands.len() != nested.graph.inputs.len() {
            let (n, m) = (operands.len(), nested.graph.inputs.len());
            return Err(format!("{} gives {n} operands to a graph of {m} inputs", describe(node)));
        }
        let mut inner = Names::default();
        for (operand, input) in operands.into_iter().zip(&nested.graph.inputs) {
            let value = *names.get(operand).ok_or_else(|| unknown(node, operand))?;
            if let Some(name) = value_name(input) {
                inner.insert(name, level.resolve(value));
            }
        }
        let scope = self.scope(node, outer);
        self.nodes_of(level, &mut inner, &nested.graph, scope)?;
        let results = nested.graph.outputs.iter().flat_map(value_names);
        for (name, result) in node.outputs.iter().flat_map(value_names).zip(results) {
            let value = *inner.get(result).ok_or_else(|| unknown(node, result))?;
            names.insert(name, level.resolve(value));
        }
        Ok(())
    }

    fn node<'p>(
        &mut self,
        level: &mut Level,
        names: &mut Names<'p>,
        stored: &'p schema::Graph<'_>,
        node: &'p schema::Node<'_>,
        op: Arc<Op>,
        outer: Scope,
    ) -> Result<(), String> {
        let scope = self.scope(node, outer);
        let mut call = Call { inputs: Vec::new(), bodies: Vec::new() };
        let mut attrs: Vec<Attr> = Vec::with_capacity(node.inputs.len());
        let mut taken: HashSet<Arc<str>, Seeded> = HashSet::default();
        for (i, input) in node.inputs.iter().enumerate() {
            let given = input.name.as_deref().unwrap_or("");
            let name = if given.is_empty() { self.text(&format!("arg{i}")) } else { self.text(given) };
            let twice = if node.inputs.len() > FEW { !taken.insert(name.clone()) } else { attrs.iter().any(|a| a.name == name) };
            if twice {
                return Err(format!("{} has the argument {} twice", describe(node), printable(&name)));
            }
            let value = self.argument(level, names, node, &name, &input.arg, scope, &mut call)?;
            attrs.push(Attr { name, value });
        }
        let id = NodeId::new(level.nodes.len());
        let mut outputs = Vec::new();
        let mut made: HashSet<&str, Seeded> = HashSet::default();
        for argument in &node.outputs {
            if matches!(argument, Argument::AsNone(_)) {
                outputs.push(None);
            }
            for name in value_names(argument) {
                if !made.insert(name) || names.contains_key(name) {
                    return Err(format!("{} makes {}, which exists already", describe(node), printable(name)));
                }
                let slot = u32::try_from(outputs.len()).map_err(|_| format!("{} has too many outputs", describe(node)))?;
                let value = self.declare(level, stored, name, name, |_, _| ValueKind::Output { node: id, slot });
                names.insert(name, value);
                outputs.push(Some(value));
            }
        }
        let name = node.name.as_deref().unwrap_or("").into();
        let ordinal = u32::try_from(self.nodes - 1).map_err(|_| "the program has too many nodes".to_owned())?;
        let trace = node.metadata.as_ref().and_then(|m| m.stack_trace.as_deref()).filter(|t| !t.is_empty());
        let torch_op = self.text(&op.to_string());
        let fx_node = (!node.outputs.is_empty()).then(|| node.name.as_deref().map(|n| self.text(n))).flatten();
        let (target, writes) = (call.inputs.first().copied(), aliases::writes(&op));
        let view = target.filter(|_| !writes && aliases::is_view(&op, || contiguous(stored, node), || same_type(level, target, &outputs)));
        let made = outputs.clone();
        level.nodes.push(Node {
            name,
            op,
            inputs: call.inputs.into_iter().map(Some).collect(),
            outputs: outputs.into(),
            attrs: attrs.into(),
            bodies: call.bodies.into(),
            captures: [].into(),
            module: scope.module.unwrap_or(ModuleId::ROOT),
            call: scope.call,
            torch_op: Some(torch_op),
            fx_node,
            stack_trace: trace.map(|t| self.text(t)),
            ordinal,
            opset: None,
        });
        if let (true, Some(target), Some(&Some(result))) = (writes, target, made.first()) {
            level.note_write(target, result, id);
        }
        if let Some(parent) = view {
            made.iter().enumerate().for_each(|(slot, v)| {
                if let Some(v) = v {
                    level.note_view(*v, parent, id, slot);
                }
            });
        }
        Ok(())
    }

    fn scope(&mut self, node: &schema::Node<'_>, outer: Scope) -> Scope {
        let stack = node.metadata.as_ref().and_then(|m| m.nn_module_stack.as_deref()).filter(|s| !s.is_empty());
        let own = stack.map_or_else(Scope::default, |s| self.scopes.scope(s));
        if own.module.is_some() { own } else { outer }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.into(), shared.clone());
        shared
    }

    fn op(&mut self, target: &str) -> Arc<Op> {
        if let Some(op) = self.ops.get(target) {
            return op.clone();
        }
        let op = Arc::new(parse_target(target));
        self.ops.insert(target.into(), op.clone());
        op
    }

    #[allow(clippy::too_many_arguments, reason = "what an argument may refer to is all there is at this place")]
    fn argument<'p>(
        &mut self,
        level: &mut Level,
        names: &Names<'p>,
        node: &schema::Node<'_>,
        name: &Arc<str>,
        argument: &'p Argument<'_>,
        scope: Scope,
        call: &mut Call,
    ) -> Result<AttrValue, String> {
        let mut read = |value: &str| -> Result<AttrValue, String> {
            let id = *names.get(value).ok_or_else(|| unknown(node, value))?;
            let now = level.resolve(id);
            call.inputs.push(now);
            Ok(AttrValue::Input(call.inputs.len() - 1))
        };
        let list = |items: Result<Vec<AttrValue>, String>| items.map(|v| AttrValue::List(v.into()));
        let mut symbolic = |s: &Symbolic<'_>| match s {
            Symbolic::AsName(n) => read(n),
            Symbolic::AsInt(n) => Ok(AttrValue::Int(*n)),
            Symbolic::AsFloat(x) => Ok(AttrValue::Float(x.0)),
            Symbolic::AsBool(b) => Ok(AttrValue::Bool(*b)),
        };
        Ok(match argument {
            Argument::AsNone(_) => AttrValue::None,
            Argument::AsTensor(t) => read(&t.name)?,
            Argument::AsTensors(ts) => list(ts.iter().map(|t| read(&t.name)).collect())?,
            Argument::AsNestedTensors(ls) => list(
                ls.iter()
                    .map(|ts| ts.iter().map(|t| read(&t.name)).collect::<Result<Vec<_>, _>>().map(|v| AttrValue::List(v.into())))
                    .collect(),
            )?,
            Argument::AsOptionalTensor(t) => match value_name(t) {
                Some(n) => read(n)?,
                None => AttrValue::None,
            },
            Argument::AsOptionalTensors(ts) => list(ts.iter().map(|t| value_name(t).map_or(Ok(AttrValue::None), &mut read)).collect())?,
            Argument::AsInt(n) => AttrValue::Int(*n),
            Argument::AsInts(v) => AttrValue::Ints(v.as_slice().into()),
            Argument::AsIntLists(ls) => AttrValue::List(ls.iter().map(|v| AttrValue::Ints(v.as_slice().into())).collect()),
            Argument::AsFloat(x) => AttrValue::Float(x.0),
            Argument::AsFloats(v) => AttrValue::Floats(v.iter().map(|x| x.0).collect()),
            Argument::AsFloatLists(ls) => AttrValue::List(ls.iter().map(|v| AttrValue::Floats(v.iter().map(|x| x.0).collect())).collect()),
            Argument::AsBool(b) => AttrValue::Bool(*b),
            Argument::AsBools(v) => AttrValue::List(v.iter().map(|&b| AttrValue::Bool(b)).collect()),
            Argument::AsString(s) | Argument::AsOperator(s) => AttrValue::Bytes(s.as_bytes().into()),
            Argument::AsStrings(v) => AttrValue::ByteStrings(v.iter().map(|s| s.as_bytes().into()).collect()),
            Argument::AsComplex(c) => AttrValue::List([AttrValue::Float(c.real.0), AttrValue::Float(c.imag.0)].into()),
            Argument::AsSymInt(s) | Argument::AsSymFloat(s) | Argument::AsSymBool(s) => symbolic(s)?,
            Argument::AsSymInts(v) | Argument::AsSymFloats(v) | Argument::AsSymBools(v) => list(v.iter().map(symbolic).collect())?,
            Argument::AsScalarType(n) => AttrValue::Type(dtype(*n).map_or_else(|| format!("scalar type {n}"), |d| d.to_string()).into()),
            Argument::AsMemoryFormat(n) => AttrValue::Type(memory_format(*n).into()),
            Argument::AsLayout(n) => AttrValue::Type(layout(*n).into()),
            Argument::AsDevice(d) => {
                let index = d.index.map(|i| format!(":{i}")).unwrap_or_default();
                AttrValue::Bytes(format!("{}{index}", &*d.kind).into_bytes().into())
            }
            Argument::AsCustomObj(c) => match names.get(&*c.name) {
                Some(_) => read(&c.name)?,
                None => AttrValue::Bytes(c.class_fqn.as_deref().unwrap_or("custom object").as_bytes().into()),
            },
            Argument::AsStringToArgument(map) => {
                let mut items = Vec::with_capacity(map.len());
                for (key, value) in map {
                    let value = self.argument(level, names, node, name, value, scope, call)?;
                    items.push(AttrValue::List([AttrValue::Bytes(key.as_bytes().into()), value].into()));
                }
                AttrValue::List(items.into())
            }
            Argument::AsGraph(nested) => {
                let graph = self.nested(&nested.name, &nested.graph, scope)?;
                call.bodies.push(Body { attr: name.clone(), graph });
                AttrValue::Body(call.bodies.len() - 1)
            }
        })
    }

    /// A graph inside a node. It captures nothing: what it reads comes in as its inputs.
    fn nested(&mut self, name: &str, stored: &schema::Graph<'_>, scope: Scope) -> Result<Graph, String> {
        let mut level = Level::new();
        let mut names = Names::default();
        let mut inputs = Vec::new();
        for input in &stored.inputs {
            let Some(n) = value_name(input) else { continue };
            let id = self.declare(&mut level, stored, n, n, |_, _| ValueKind::Input { default: None });
            names.insert(n, id);
            inputs.push(id);
        }
        self.nodes_of(&mut level, &mut names, stored, scope)?;
        let mut outputs = Vec::new();
        for (i, argument) in stored.outputs.iter().enumerate() {
            outputs.extend(self.output(&mut level, &names, argument, i)?);
        }
        Ok(Graph::new(name.into(), level.nodes, level.values, inputs, outputs))
    }
}

/// Only the second and later calls of a module are numbered in the file.
fn number_first_calls(nodes: &mut [Node]) {
    let repeated: HashSet<ModuleId> = nodes.iter().filter(|n| n.call.is_some()).map(|n| n.module).collect();
    for node in nodes.iter_mut().filter(|n| n.call.is_none() && repeated.contains(&n.module)) {
        node.call = Some(0);
    }
}

/// What the arguments of a node add up to.
struct Call {
    inputs: Vec<ValueId>,
    bodies: Vec<Body>,
}

fn unknown(node: &schema::Node<'_>, name: &str) -> String {
    format!("{} reads {}, which nothing before it makes", describe(node), printable(name))
}

fn describe(node: &schema::Node<'_>) -> String {
    match &node.name {
        Some(name) => format!("the node {} ({})", printable(name), printable(&node.target)),
        None => format!("a node {}", printable(&node.target)),
    }
}

/// The name of the one value that an argument means.
fn value_name<'p>(argument: &'p Argument<'_>) -> Option<&'p str> {
    match argument {
        Argument::AsTensor(Named { name }) => Some(name),
        Argument::AsOptionalTensor(inner) => match &**inner {
            Argument::AsTensor(Named { name }) => Some(name),
            _ => None,
        },
        Argument::AsSymInt(Symbolic::AsName(name))
        | Argument::AsSymFloat(Symbolic::AsName(name))
        | Argument::AsSymBool(Symbolic::AsName(name)) => Some(name),
        Argument::AsCustomObj(c) => Some(&c.name),
        _ => None,
    }
}

/// The names of all values that an argument means.
fn value_names<'p>(argument: &'p Argument<'_>) -> Vec<&'p str> {
    match argument {
        Argument::AsTensors(ts) => ts.iter().map(|t| &*t.name).collect(),
        Argument::AsNestedTensors(ls) => ls.iter().flatten().map(|t| &*t.name).collect(),
        Argument::AsOptionalTensors(ts) => ts.iter().filter_map(value_name).collect(),
        Argument::AsSymInts(v) | Argument::AsSymFloats(v) | Argument::AsSymBools(v) => {
            v.iter().filter_map(|s| if let Symbolic::AsName(n) = s { Some(&**n) } else { None }).collect()
        }
        other => value_name(other).into_iter().collect(),
    }
}

/// `torch.ops.aten.add.Tensor`, `torch.ops.higher_order.cond`, `_operator.mul`, `#namespace:op`.
fn parse_target(target: &str) -> Op {
    let op = |domain: &str, name: &str, overload: &str| Op {
        dialect: Dialect::Aten,
        domain: domain.into(),
        name: name.into(),
        overload: overload.into(),
    };
    if let Some(rest) = target.strip_prefix("torch.ops.") {
        return match rest.split_once('.') {
            Some(("higher_order", name)) => op("higher_order", name, ""),
            Some((namespace, rest)) => match rest.rsplit_once('.') {
                Some((name, overload)) => op(namespace, name, overload),
                None => op(namespace, rest, ""),
            },
            None => op("", rest, ""),
        };
    }
    if let Some((namespace, name)) = target.strip_prefix('#').and_then(|t| t.split_once(':')) {
        return op(namespace, name, "");
    }
    match target.rsplit_once('.') {
        Some((module, name)) => op(module, name, ""),
        None => op("", target, ""),
    }
}

/// Whether the node's first argument lies in order in memory, as far as the program tells.
fn contiguous(stored: &schema::Graph<'_>, node: &schema::Node<'_>) -> bool {
    let meta = node.inputs.first().and_then(|i| value_name(&i.arg)).and_then(|n| stored.tensor_values.get(n));
    let Some((sizes, strides)) = meta.and_then(|m| Some((&m.sizes, m.strides.as_ref()?))) else { return true };
    let number = |s: &SymInt<'_>| if let SymInt::AsInt(n) = s { Some(*n) } else { None };
    let mut dense = Some(1i64);
    sizes.iter().zip(strides).rev().all(|(size, stride)| {
        let (size, stride) = (number(size), number(stride));
        // What is not known counts as in order.
        let fits = size == Some(1) || dense.is_none() || stride.is_none() || stride == dense;
        dense = dense.zip(size).and_then(|(d, s)| d.checked_mul(s));
        fits
    })
}

/// Whether a node's first result has the element type of a value.
fn same_type(level: &Level, value: Option<ValueId>, outputs: &[Option<ValueId>]) -> bool {
    let dtype = |v: ValueId| level.values[v.index()].dtype;
    value.map(dtype) == outputs.first().copied().flatten().map(dtype)
}

fn memory_format(n: i64) -> String {
    match n {
        1 => "contiguous_format".to_owned(),
        2 => "channels_last".to_owned(),
        3 => "channels_last_3d".to_owned(),
        4 => "preserve_format".to_owned(),
        n => format!("memory format {n}"),
    }
}

fn layout(n: i64) -> String {
    match n {
        1 => "sparse_coo".to_owned(),
        2 => "sparse_csr".to_owned(),
        3 => "sparse_csc".to_owned(),
        4 => "sparse_bsr".to_owned(),
        5 => "sparse_bsc".to_owned(),
        6 => "mkldnn".to_owned(),
        7 => "strided".to_owned(),
        n => format!("layout {n}"),
    }
}
