//! Building one node: inputs, attributes, bodies.

use std::sync::Arc;

use super::build::{Builder, label};
use super::functions::domain;
use super::names::{FastMap, show, text};
use super::proto::{AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, attribute_type as ty};
use super::{functions, types};
use crate::diagnostic::Diagnostic;
use crate::graph::{Attr, AttrValue, Body, Dialect, Node, Op, ValueId};
use crate::import::ImportError;
use crate::modules::ModuleId;
use crate::weights::WeightRef;

/// Nested graphs of a node under construction.
#[derive(Default)]
struct Bodies {
    bodies: Vec<Body>,
    captures: Vec<ValueId>,
}

impl<'p> Builder<'p> {
    /// Builds nodes in file order. `ordinal` is that of the call, for the nodes of a function.
    pub(super) fn nodes(&mut self, frame: usize, nodes: &'p [NodeProto], ordinal: Option<u32>) -> Result<(), ImportError> {
        for (i, node) in (0u32..).zip(nodes) {
            let ordinal = ordinal.unwrap_or(i);
            if let Some(f) = self.functions.called(node) {
                let (proto, cost) = (f.proto, f.cost);
                if self.may_expand(node, proto, cost) {
                    self.expand(frame, node, proto, ordinal)?;
                    continue;
                }
            }
            self.node(frame, node, ordinal)?;
        }
        Ok(())
    }

    fn node(&mut self, frame: usize, node: &'p NodeProto, ordinal: u32) -> Result<(), ImportError> {
        self.nodes_made += 1;
        // Graphs that are passed to functions as attributes are not in the costs that were summed up before.
        if self.frames[frame].call.is_some() && self.nodes_made > 2 * functions::MAX_NODES {
            return Err(self.too_large(format!("expanding the functions makes too many nodes: more than {}", functions::MAX_NODES)));
        }
        let inputs = self.values_read(frame, node)?;
        let outputs = self.values_made(frame, node);
        let origin = self.hierarchy.of(node, &mut self.texts, &mut self.reports);
        let in_call = self.frames[frame].call;
        let module = match origin.module {
            Some(m) if m != ModuleId::ROOT && in_call.is_none() => m,
            _ => self.frames[frame].module,
        };
        let name = match in_call {
            Some(call) if !node.name.is_empty() => format!("{}/{}", self.calls[call].prefix, String::from_utf8_lossy(&node.name)).into(),
            _ => text(&node.name),
        };
        if std::str::from_utf8(&node.name).is_err() {
            let message = format!("the name of node `{}` is not UTF-8: bytes that are none were replaced", show(&node.name));
            self.reports.add(Diagnostic::warning("not_utf8", message).with_node(&name));
        }
        let op = self.op(node, in_call);
        let opset = in_call.and_then(|c| self.calls[c].opset(domain(&node.domain), self.opsets));
        let mut bodies = Bodies::default();
        let attrs = self.attributes(frame, node, module, &mut bodies)?;
        if bodies.bodies.len() > 1 {
            let mut seen = FastMap::default();
            bodies.captures.retain(|v| seen.insert(v.0, ()).is_none());
        }
        self.push(Node {
            name,
            op,
            inputs,
            outputs,
            attrs,
            bodies: bodies.bodies.into(),
            captures: bodies.captures.into(),
            module,
            call: origin.call,
            torch_op: origin.torch_op,
            fx_node: origin.fx_node,
            stack_trace: origin.stack_trace,
            ordinal,
            opset,
        });
        Ok(())
    }

    /// The values that a node's inputs name.
    pub(super) fn values_read(&mut self, frame: usize, node: &'p NodeProto) -> Result<Box<[Option<ValueId>]>, ImportError> {
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(if name.is_empty() {
                None
            } else {
                match self.resolve(frame, name) {
                    Some(v) => v,
                    None => return Err(self.dangling(node, name)),
                }
            });
        }
        Ok(inputs.into())
    }

    /// The values of a node's outputs, as declared. To be asked once for each node, in file order.
    pub(super) fn values_made(&mut self, frame: usize, node: &NodeProto) -> Box<[Option<ValueId>]> {
        let frame = &mut self.frames[frame];
        let mut next = || {
            let id = frame.declared.get(frame.taken).copied();
            frame.taken += 1;
            id
        };
        node.output.iter().map(|name| if name.is_empty() { None } else { next() }).collect()
    }

    fn dangling(&self, node: &NodeProto, name: &[u8]) -> ImportError {
        self.invalid(format!(
            "{} reads value `{}`, which no node makes and which is no input or initializer that can be seen from there",
            label(node),
            show(name)
        ))
    }

    fn op(&mut self, node: &'p NodeProto, in_call: Option<usize>) -> Arc<Op> {
        let key = (domain(&node.domain), node.op_type.as_ref(), node.overload.as_ref());
        if let Some(op) = self.ops.get(&key) {
            return op.clone();
        }
        let op = Op { dialect: Dialect::Onnx, domain: text(key.0), name: text(key.1), overload: text(key.2) };
        if op.name.is_empty() {
            let message = format!("{} has no op type: it cannot be run", label(node));
            self.reports.add(Diagnostic::error("no_op_type", message).with_node(&text(&node.name)));
        }
        let imported = self.opsets.contains_key(&*op.domain) || in_call.is_some_and(|c| self.calls[c].imports(key.0));
        if !imported && self.functions.called(node).is_none() {
            let message = format!(
                "{} is of domain `{}`, for which the model imports no opset: nothing says which version of the operator is meant",
                label(node),
                show(key.0)
            );
            self.reports.add(Diagnostic::warning("missing_opset", message).with_node(&text(&node.name)));
        }
        let op = Arc::new(op);
        self.ops.insert(key, op.clone());
        op
    }

    fn attributes(&mut self, frame: usize, node: &'p NodeProto, module: ModuleId, bodies: &mut Bodies) -> Result<Box<[Attr]>, ImportError> {
        let mut attrs: Vec<Attr> = Vec::with_capacity(node.attribute.len());
        for a in &node.attribute {
            let name = self.texts.get(&a.name);
            let Some(value) = self.attribute(frame, a, node, module, bodies)? else { continue };
            match attrs.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.value = value;
                    let message = format!("attribute `{}` of {} is given twice: the last one counts", show(&a.name), label(node));
                    self.reports.add(Diagnostic::warning("duplicate_attribute", message).with_node(&text(&node.name)));
                }
                None => attrs.push(Attr { name, value }),
            }
        }
        Ok(attrs.into())
    }

    /// An attribute's value; `None` for a reference to one that the call leaves out.
    fn attribute(
        &mut self,
        frame: usize,
        a: &'p AttributeProto,
        node: &'p NodeProto,
        module: ModuleId,
        bodies: &mut Bodies,
    ) -> Result<Option<AttrValue>, ImportError> {
        let (mut source, mut seen_from) = (a, frame);
        if !a.ref_attr_name.is_empty() {
            match self.referenced(frame, &a.ref_attr_name) {
                Some(Some((proto, caller))) => (source, seen_from) = (proto, caller),
                Some(None) => return Ok(None),
                None => {
                    let message = format!(
                        "attribute `{}` of {} is a reference to attribute `{}` of a function, which there is none: the node cannot be run",
                        show(&a.name),
                        label(node),
                        show(&a.ref_attr_name)
                    );
                    self.reports.add(Diagnostic::warning("unresolved_reference", message).with_node(&text(&node.name)));
                    return Ok(Some(AttrValue::Reference(text(&a.ref_attr_name))));
                }
            }
        }
        self.value(seen_from, &a.name, source, node, module, bodies).map(Some)
    }

    fn value(
        &mut self,
        frame: usize,
        name: &'p [u8],
        a: &'p AttributeProto,
        node: &'p NodeProto,
        module: ModuleId,
        bodies: &mut Bodies,
    ) -> Result<AttrValue, ImportError> {
        let kind = if a.r#type == ty::UNDEFINED { guess(a) } else { a.r#type };
        Ok(match kind {
            ty::FLOAT => AttrValue::Float(f64::from(a.f.unwrap_or(0.0))),
            ty::INT => AttrValue::Int(a.i.unwrap_or(0)),
            ty::STRING => AttrValue::Bytes(a.s.as_deref().unwrap_or(b"").into()),
            ty::FLOATS => AttrValue::Floats(a.floats.iter().map(|&x| f64::from(x)).collect()),
            ty::INTS => AttrValue::Ints(a.ints.as_slice().into()),
            ty::STRINGS => AttrValue::ByteStrings(a.strings.iter().map(|s| s.as_ref().into()).collect()),
            ty::TENSOR => match &a.t {
                Some(t) => AttrValue::Tensor(self.tensor(t, name, node)),
                None => AttrValue::None,
            },
            ty::TENSORS => AttrValue::Tensors(a.tensors.iter().map(|t| self.tensor(t, name, node)).collect()),
            ty::SPARSE_TENSOR => match &a.sparse_tensor {
                Some(t) => AttrValue::Tensor(self.sparse_tensor(t, name, node)),
                None => AttrValue::None,
            },
            ty::SPARSE_TENSORS => AttrValue::Tensors(a.sparse_tensors.iter().map(|t| self.sparse_tensor(t, name, node)).collect()),
            ty::GRAPH => match &a.g {
                Some(g) => AttrValue::Body(self.body(frame, name, g, node, module, bodies)?),
                None => AttrValue::None,
            },
            ty::GRAPHS => {
                let mut all = Vec::with_capacity(a.graphs.len());
                for g in &a.graphs {
                    all.push(self.body(frame, name, g, node, module, bodies)?);
                }
                AttrValue::Bodies(all.into())
            }
            ty::TYPE_PROTO => AttrValue::Type(a.tp.as_deref().map_or_else(|| "?".into(), |t| types::describe(t).into())),
            ty::TYPE_PROTOS => AttrValue::List(a.type_protos.iter().map(|t| AttrValue::Type(types::describe(t).into())).collect()),
            _ => {
                let message = format!("attribute `{}` of {} has no usable type (number {kind}): it is left empty", show(name), label(node));
                self.reports.add(Diagnostic::warning("bad_attribute", message).with_node(&text(&node.name)));
                AttrValue::None
            }
        })
    }

    fn body(
        &mut self,
        frame: usize,
        name: &'p [u8],
        g: &'p GraphProto,
        node: &'p NodeProto,
        module: ModuleId,
        bodies: &mut Bodies,
    ) -> Result<usize, ImportError> {
        let place = format!("the graph `{}` of {}", show(name), label(node));
        let (graph, captures) = self.graph(g, Some(frame), module, &place)?;
        bodies.captures.extend(captures);
        bodies.bodies.push(Body { attr: self.texts.get(name), graph });
        Ok(bodies.bodies.len() - 1)
    }

    fn tensor(&mut self, t: &'p TensorProto, name: &[u8], node: &NodeProto) -> WeightRef {
        let key = std::ptr::from_ref(t).addr();
        self.shared_tensor(key, |b| {
            let reports = &mut b.reports;
            b.tensors.dense(t, &tensor_label(&t.name, name, node), &mut |d| reports.add(d.with_node(&text(&node.name))))
        })
    }

    fn sparse_tensor(&mut self, t: &'p SparseTensorProto, name: &[u8], node: &NodeProto) -> WeightRef {
        let key = std::ptr::from_ref(t).addr();
        self.shared_tensor(key, |b| {
            let reports = &mut b.reports;
            b.tensors.sparse(t, &tensor_label(b"", name, node), &mut |d| reports.add(d.with_node(&text(&node.name))))
        })
    }

    /// Inside functions, one tensor serves all calls.
    fn shared_tensor(&mut self, key: usize, read: impl FnOnce(&mut Self) -> WeightRef) -> WeightRef {
        if self.calls.is_empty() {
            return read(self);
        }
        if let Some(known) = self.shared.get(&key) {
            return known.clone();
        }
        let tensor = read(self);
        self.shared.insert(key, tensor.clone());
        tensor
    }
}

fn tensor_label(tensor: &[u8], attribute: &[u8], node: &NodeProto) -> String {
    let place = format!("in attribute `{}` of {}", show(attribute), label(node));
    if tensor.is_empty() { format!("the tensor {place}") } else { format!("tensor `{}` {place}", show(tensor)) }
}

/// The type of an attribute whose producer did not set it: that of the field which holds something.
fn guess(a: &AttributeProto) -> i32 {
    let fields = [
        (a.f.is_some(), ty::FLOAT),
        (a.i.is_some(), ty::INT),
        (a.s.is_some(), ty::STRING),
        (a.t.is_some(), ty::TENSOR),
        (a.g.is_some(), ty::GRAPH),
        (a.sparse_tensor.is_some(), ty::SPARSE_TENSOR),
        (a.tp.is_some(), ty::TYPE_PROTO),
        (!a.floats.is_empty(), ty::FLOATS),
        (!a.ints.is_empty(), ty::INTS),
        (!a.strings.is_empty(), ty::STRINGS),
        (!a.tensors.is_empty(), ty::TENSORS),
        (!a.graphs.is_empty(), ty::GRAPHS),
        (!a.sparse_tensors.is_empty(), ty::SPARSE_TENSORS),
        (!a.type_protos.is_empty(), ty::TYPE_PROTOS),
    ];
    fields.into_iter().find(|(set, _)| *set).map_or(ty::UNDEFINED, |(_, t)| t)
}
