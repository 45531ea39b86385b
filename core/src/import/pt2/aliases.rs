//! In-place operators and views: which value a name means at each place of a functional graph.
//!
//! A program of `torch.export` may write into a tensor, or into a view of one. Here every write makes a new value. A write
//! through a view is carried back to the tensor that it is a view of (by `slice_scatter` and its kind), and other views
//! of that tensor are taken again when something reads them. The nodes that this adds stand where they are needed, with
//! the module and stack trace of the node that caused them.

use std::collections::HashSet;
use std::sync::Arc;

use super::build::Level;
use crate::graph::{Attr, AttrValue, Dialect, Node, NodeId, Op, ValueId, ValueKind, ValueType, out_of_place};
use crate::hash::{FastMap, Seeded};

/// What a value that shares its elements with another one is.
#[derive(Clone, Copy)]
struct View {
    /// The value it was taken of, as it was then.
    parent: ValueId,
    /// The tensor that all views of it share.
    base: ValueId,
    /// The node that takes it, and which of that node's results it is.
    node: NodeId,
    slot: usize,
}

/// Which values are one tensor.
#[derive(Default)]
pub(super) struct Aliases {
    /// What a value has become by in-place operators.
    became: FastMap<ValueId, ValueId>,
    views: FastMap<ValueId, View>,
    /// Tensors that were written to after a view of them was taken: those views may be out of date.
    written: HashSet<ValueId, Seeded>,
    /// Nodes that were added.
    added: usize,
    /// In-place operators whose effect on other tensors could not be followed.
    pub(super) lost: usize,
}

/// Views of views that are followed; programs have a handful.
const MAX_DEPTH: usize = 64;
/// Nodes that are added at most: every write to a deep view of something adds as many as it is deep.
const MAX_ADDED: usize = 1_000_000;

/// The operator by which a written view gets back into what it is a view of.
struct Back {
    name: &'static str,
    overload: &'static str,
    takes: Takes,
    /// Further arguments.
    attrs: Vec<(&'static str, AttrValue)>,
}

/// What such an operator reads.
#[derive(Clone, Copy)]
enum Takes {
    /// The tensor as it was, and what was written.
    Both,
    /// What was written, and the tensor as it was for its shape.
    Shape,
    /// What was written.
    Written,
}

impl Aliases {
    /// What a value has become. The way there is kept short: a tensor may be written to thousands of times under one name.
    fn current(&mut self, value: ValueId) -> ValueId {
        let mut now = value;
        while let Some(&next) = self.became.get(&now) {
            now = next;
        }
        let mut at = value;
        while let Some(next) = self.became.get_mut(&at) {
            at = std::mem::replace(next, now);
        }
        now
    }

    /// From a view outwards to the tensor: the views in between, each with what it is now. `None` if there are too many.
    fn way_out(&mut self, value: ValueId) -> Option<(Vec<(ValueId, View)>, ValueId)> {
        let mut chain = Vec::new();
        let mut at = value;
        while let Some(&view) = self.views.get(&at) {
            if chain.len() == MAX_DEPTH || self.added > MAX_ADDED {
                return None;
            }
            chain.push((at, view));
            at = self.current(view.parent);
        }
        Some((chain, at))
    }

    fn base(&self, value: ValueId) -> ValueId {
        self.views.get(&value).map_or(value, |v| v.base)
    }
}

impl Level {
    /// The value that a name's first value is now: written to, and taken again where it is a view of something written.
    pub(super) fn resolve(&mut self, value: ValueId) -> ValueId {
        let now = self.aliases.current(value);
        match self.aliases.views.get(&now) {
            Some(view) if self.aliases.written.contains(&view.base) => self.retaken(now),
            _ => now,
        }
    }

    /// A view of a tensor that was written to.
    fn retaken(&mut self, value: ValueId) -> ValueId {
        let Some((chain, mut parent)) = self.aliases.way_out(value) else {
            self.aliases.lost += 1;
            return value;
        };
        for (old, view) in chain.into_iter().rev() {
            let old = self.aliases.current(old);
            if view.parent == parent {
                parent = old;
                continue;
            }
            let taken = self.name_of(view.node);
            let name = format!("{}_again", taken.strip_suffix("_again").unwrap_or(taken));
            let made = self.again(view, parent, &name);
            self.aliases.became.insert(old, made);
            parent = made;
        }
        self.aliases.current(value)
    }

    fn name_of(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// The node of a view once more, over another value; gives the result that the view is.
    fn again(&mut self, view: View, parent: ValueId, name: &str) -> ValueId {
        let mut node = self.nodes[view.node.index()].clone();
        let id = NodeId::new(self.nodes.len());
        let mut result = parent;
        for (slot, out) in node.outputs.iter_mut().enumerate() {
            let Some(old) = *out else { continue };
            let v = &self.values[old.index()];
            let (ty, dtype, shape) = (v.ty, v.dtype, v.shape.clone());
            // Slots are counted in u32 when the node is first made.
            let new = self.value(name, ValueKind::Output { node: id, slot: slot as u32 }, ty, dtype, shape);
            *out = Some(new);
            let taken = View { parent, base: view.base, node: id, slot };
            self.aliases.views.insert(new, taken);
            if slot == view.slot {
                result = new;
            }
        }
        if let Some(first) = node.inputs.first_mut() {
            *first = Some(parent);
        }
        node.name = name.into();
        node.fx_node = None;
        self.aliases.added += 1;
        self.nodes.push(node);
        result
    }

    /// Takes note that `result`, slot `slot` of `node`, shares its elements with `parent`.
    pub(super) fn note_view(&mut self, result: ValueId, parent: ValueId, node: NodeId, slot: usize) {
        let base = self.aliases.base(parent);
        self.aliases.views.insert(result, View { parent, base, node, slot });
    }

    /// Takes note that an in-place operator (the last node) has made `result` of `target`.
    pub(super) fn note_write(&mut self, target: ValueId, result: ValueId, cause: NodeId) {
        let base = self.aliases.base(target);
        self.aliases.became.insert(target, result);
        self.aliases.written.insert(base);
        let Some((chain, _)) = self.aliases.way_out(target) else {
            self.aliases.lost += 1;
            return;
        };
        let mut new = result;
        for (_, view) in chain {
            let parent = self.aliases.current(view.parent);
            let Some(back) = self.way_back(view) else {
                self.aliases.lost += 1;
                return;
            };
            let whole = self.write_back(&back, parent, new, cause);
            self.aliases.became.insert(parent, whole);
            // What was written is the view of the new tensor, and need not be taken again.
            self.aliases.views.insert(new, View { parent: whole, ..view });
            new = whole;
        }
    }

    /// The node that puts a written view into its tensor.
    fn write_back(&mut self, back: &Back, parent: ValueId, written: ValueId, cause: NodeId) -> ValueId {
        let id = NodeId::new(self.nodes.len());
        let source = &self.nodes[cause.index()];
        // What was written before is not named again.
        let whole = self.values[parent.index()].name.rsplit("_into_").next().unwrap_or_default();
        let label = format!("{}_into_{whole}", source.name);
        let (module, call, trace, ordinal) = (source.module, source.call, source.stack_trace.clone(), source.ordinal);
        let v = &self.values[parent.index()];
        let (dtype, shape) = (v.dtype, v.shape.clone());
        let made = self.value(&label, ValueKind::Output { node: id, slot: 0 }, ValueType::Tensor, dtype, shape);
        let argument = |name: &str, value: AttrValue| Attr { name: name.into(), value };
        let (inputs, names): (Vec<ValueId>, &[&str]) = match back.takes {
            Takes::Both => (vec![parent, written], &["self", "src"]),
            Takes::Shape => (vec![written, parent], &["self", "other"]),
            Takes::Written => (vec![written], &["self"]),
        };
        let mut list: Vec<Attr> = names.iter().enumerate().map(|(i, name)| argument(name, AttrValue::Input(i))).collect();
        let mut inputs: Vec<Option<ValueId>> = inputs.into_iter().map(Some).collect();
        for (name, value) in &back.attrs {
            // Sizes that are values come from the node that takes the view.
            let value = match value {
                AttrValue::Input(v) => {
                    inputs.push(Some(ValueId::new(*v)));
                    AttrValue::Input(inputs.len() - 1)
                }
                other => other.clone(),
            };
            list.push(argument(name, value));
        }
        let op = Op { dialect: Dialect::Aten, domain: "aten".into(), name: back.name.into(), overload: back.overload.into() };
        let torch_op: Arc<str> = op.to_string().into();
        self.aliases.added += 1;
        self.nodes.push(Node {
            name: label.into(),
            op: Arc::new(op),
            inputs: inputs.into(),
            outputs: [Some(made)].into(),
            attrs: list.into(),
            bodies: [].into(),
            captures: [].into(),
            module,
            call,
            torch_op: Some(torch_op),
            fx_node: None,
            stack_trace: trace,
            ordinal,
            opset: None,
        });
        made
    }

    /// How a view gets back into its tensor; `None` where that is not known. In the attributes, `Input` holds the id of a
    /// value here, and not a position.
    fn way_back(&self, view: View) -> Option<Back> {
        let node = &self.nodes[view.node.index()];
        let argument = |name: &str, otherwise: AttrValue| match node.attr(name) {
            Some(AttrValue::Input(i)) => node.input(*i).map_or(AttrValue::None, |v| AttrValue::Input(v.index())),
            Some(value) => value.clone(),
            None => otherwise,
        };
        let int = |name: &str, otherwise: i64| match argument(name, AttrValue::Int(otherwise)) {
            AttrValue::Int(n) => Some(n),
            _ => None,
        };
        let call = |name, overload, takes, attrs| Some(Back { name, overload, takes, attrs });
        let piece = |start: i64, end: i64| {
            let attrs = vec![("dim", argument("dim", AttrValue::Int(0))), ("start", AttrValue::Int(start)), ("end", AttrValue::Int(end))];
            call("slice_scatter", "default", Takes::Both, attrs)
        };
        let size_along = |dim: i64| -> Option<i64> {
            let dims = self.values[view.parent.index()].shape.dims()?;
            let axis = if dim < 0 { dim + dims.len() as i64 } else { dim };
            i64::try_from(dims.get(usize::try_from(axis).ok()?)?.known()?).ok()
        };
        let slot = view.slot as i64;
        match &*node.op.name {
            "alias" | "detach" | "contiguous" | "to" | "lift_fresh" => call("alias", "default", Takes::Written, Vec::new()),
            "view" if node.op.overload.starts_with("dtype") => None,
            "view" | "reshape" | "_unsafe_view" | "flatten" | "unflatten" | "ravel" | "squeeze" | "unsqueeze" | "view_as"
            | "reshape_as" => call("reshape_as", "default", Takes::Shape, Vec::new()),
            "t" | "numpy_T" => call("numpy_T", "default", Takes::Written, Vec::new()),
            "mT" | "adjoint" => call("mT", "default", Takes::Written, Vec::new()),
            "transpose" => {
                let attrs = vec![("dim0", AttrValue::Int(int("dim0", 0)?)), ("dim1", AttrValue::Int(int("dim1", 1)?))];
                call("transpose", "int", Takes::Written, attrs)
            }
            "swapaxes" => {
                let attrs = vec![("dim0", AttrValue::Int(int("axis0", 0)?)), ("dim1", AttrValue::Int(int("axis1", 1)?))];
                call("transpose", "int", Takes::Written, attrs)
            }
            "permute" => {
                let AttrValue::Ints(order) = node.attr("dims")? else { return None };
                let rank = order.len() as i64;
                let mut inverse = vec![0i64; order.len()];
                for (i, &axis) in order.iter().enumerate() {
                    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
                    *inverse.get_mut(axis)? = i as i64;
                }
                call("permute", "default", Takes::Written, vec![("dims", AttrValue::Ints(inverse.into()))])
            }
            "select" => {
                let attrs = vec![("dim", argument("dim", AttrValue::Int(0))), ("index", argument("index", AttrValue::Int(0)))];
                call("select_scatter", "default", Takes::Both, attrs)
            }
            "slice" => {
                let attrs = vec![
                    ("dim", argument("dim", AttrValue::Int(0))),
                    ("start", argument("start", AttrValue::None)),
                    ("end", argument("end", AttrValue::None)),
                    ("step", argument("step", AttrValue::Int(1))),
                ];
                call("slice_scatter", "default", Takes::Both, attrs)
            }
            "narrow" => {
                let (start, length) = (int("start", 0)?, int("length", 0)?);
                piece(start, start.checked_add(length)?)
            }
            "diagonal" => {
                let attrs = vec![
                    ("offset", argument("offset", AttrValue::Int(0))),
                    ("dim1", argument("dim1", AttrValue::Int(0))),
                    ("dim2", argument("dim2", AttrValue::Int(1))),
                ];
                call("diagonal_scatter", "default", Takes::Both, attrs)
            }
            "unbind" => {
                let attrs = vec![("dim", argument("dim", AttrValue::Int(0))), ("index", AttrValue::Int(slot))];
                call("select_scatter", "default", Takes::Both, attrs)
            }
            "split" if node.attr("split_size").is_some_and(|a| matches!(a, AttrValue::Int(_))) => {
                let size = int("split_size", 1)?;
                piece(size.checked_mul(slot)?, size.checked_mul(slot + 1)?)
            }
            "split_with_sizes" => {
                let AttrValue::Ints(sizes) = node.attr("split_sizes")? else { return None };
                let start: i64 = sizes.iter().take(view.slot).try_fold(0i64, |a, &b| a.checked_add(b))?;
                piece(start, start.checked_add(*sizes.get(view.slot)?)?)
            }
            "chunk" => {
                let (n, chunks) = (size_along(int("dim", 0)?)?, int("chunks", 1)?);
                let size = n.checked_add(chunks)?.checked_sub(1)?.checked_div(chunks)?;
                piece(size.checked_mul(slot)?, size.checked_mul(slot + 1)?)
            }
            _ => None,
        }
    }
}

/// Whether an operator's results share the elements of its first argument. What depends on how a tensor lies in memory
/// is told by `contiguous`: whether the argument lies in order, and `same_type`: whether result and argument are of one
/// element type.
pub(super) fn is_view(op: &Op, contiguous: impl FnOnce() -> bool, same_type: impl FnOnce() -> bool) -> bool {
    if &*op.domain != "aten" {
        return false;
    }
    match &*op.name {
        "view" | "select" | "slice" | "transpose" | "t" | "permute" | "squeeze" | "unsqueeze" | "expand" | "narrow" | "alias"
        | "detach" | "diagonal" | "unfold" | "split" | "split_with_sizes" | "chunk" | "unbind" | "unflatten" | "view_as" | "expand_as"
        | "as_strided" | "movedim" | "moveaxis" | "swapaxes" | "swapdims" | "real" | "imag" | "view_as_real" | "view_as_complex"
        | "numpy_T" | "mT" | "adjoint" | "lift_fresh" | "tensor_split" => true,
        "reshape" | "flatten" | "ravel" | "reshape_as" | "contiguous" => contiguous(),
        "to" => contiguous() && same_type(),
        _ => false,
    }
}

/// Whether an operator writes into its first argument.
pub(super) fn writes(op: &Op) -> bool {
    &*op.domain == "aten" && out_of_place(&op.name).is_some() && &*op.name != "detach_"
}
