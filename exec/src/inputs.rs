//! Which array goes to which model input, and what sizes of symbolic dimensions follow.

use std::collections::HashMap;

use indexmap::IndexMap;
use recut_core::diagnostic::printable;
use recut_core::dtype::DType;
use recut_core::expr::{Bindings, Expr};
use recut_core::graph::{ValueId, ValueKind};
use recut_core::model::Model;
use recut_core::shape::Dim;

use crate::engine::RunError;
use crate::io::Arrays;
use crate::tensor::{Tensor, Value};

/// Values of model inputs.
pub type Feeds = IndexMap<ValueId, Value>;

/// What an input or output was matched to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchNote {
    /// Name of the model input or output.
    pub value: String,
    /// Name of the array.
    pub array: String,
}

/// Model inputs: what a caller may feed, in file order.
pub fn model_inputs(model: &Model) -> impl Iterator<Item = ValueId> + '_ {
    model.graph.inputs().iter().copied().filter(|&v| matches!(model.graph.value(v).kind, ValueKind::Input { .. }))
}

/// Finds the array of every model input: by name, then as `in_NAME`, then by position as `arr_0`. Where no name fits and
/// there are as many arrays `in_…` as inputs, they are taken in order: the two forms of one model may name their inputs
/// differently. Inputs without an array are left out. Arrays called `out_…`, or like a model output, are not looked at.
///
/// # Errors
/// If an array belongs to no input, or has the wrong element type.
pub fn match_inputs(model: &Model, arrays: &Arrays) -> Result<(Feeds, Vec<MatchNote>), RunError> {
    let graph = &model.graph;
    let mut feeds = Feeds::new();
    let mut notes = Vec::new();
    let mut used = vec![false; arrays.len()];
    let candidates = |i: usize, v: ValueId| {
        let name = &graph.value(v).name;
        [name.to_string(), format!("in_{name}"), format!("arr_{i}")]
    };
    let named = model_inputs(model).enumerate().any(|(i, v)| candidates(i, v).iter().any(|c| arrays.contains_key(c)));
    let in_order: Vec<&String> = arrays.keys().filter(|k| k.starts_with("in_")).collect();
    let by_order = !named && in_order.len() == model_inputs(model).count();
    for (i, v) in model_inputs(model).enumerate() {
        let value = graph.value(v);
        let key = if by_order { in_order.get(i).copied().cloned() } else { None };
        let keys = key.map_or_else(|| candidates(i, v).to_vec(), |k| vec![k]);
        let Some((at, key, t)) = keys.iter().find_map(|c| arrays.get_full(c)) else { continue };
        if std::mem::replace(&mut used[at], true) {
            continue;
        }
        let t = typed(t, value.dtype).map_err(|message| input_error(&value.name, format!("the array `{}` {message}", printable(key))))?;
        feeds.insert(v, t.into());
        notes.push(MatchNote { value: value.name.to_string(), array: key.clone() });
    }
    let outputs: std::collections::HashSet<&str> = graph.outputs().iter().map(|&v| &*graph.value(v).name).collect();
    let spare: Vec<String> = arrays
        .keys()
        .zip(&used)
        .filter(|(k, used)| !**used && !k.starts_with("out_") && !outputs.contains(k.as_str()))
        .map(|(k, _)| format!("`{}`", printable(k)))
        .collect();
    if spare.is_empty() {
        return Ok((feeds, notes));
    }
    let inputs: Vec<String> = model_inputs(model).map(|v| format!("`{}`", printable(&graph.value(v).name))).collect();
    let message = format!("no input of the model belongs to this array; the model's inputs are {}", list(&inputs));
    Err(RunError::Input { input: spare.join(", "), message })
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    match names.len() {
        0 => "none".to_owned(),
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

/// Finds the expected array of every model output: by name, then as `out_INDEX`, then by position as `arr_0`.
/// Arrays called `in_…`, or like a model input, are not looked at.
///
/// # Errors
/// If an array belongs to no output, or no output has an array.
pub fn match_outputs(model: &Model, arrays: &Arrays) -> Result<Vec<(usize, Tensor, MatchNote)>, RunError> {
    let graph = &model.graph;
    let mut matched = Vec::new();
    let mut used = vec![false; arrays.len()];
    for (i, &v) in graph.outputs().iter().enumerate() {
        let value = graph.value(v);
        let candidates = [value.name.to_string(), format!("out_{i}"), format!("arr_{i}")];
        let Some((at, key, t)) = candidates.iter().find_map(|c| arrays.get_full(c)) else { continue };
        used[at] = true;
        // A wrong type is a difference, which the comparison reports.
        let t = typed(t, value.dtype).unwrap_or_else(|_| t.clone());
        matched.push((i, t, MatchNote { value: value.name.to_string(), array: key.clone() }));
    }
    let inputs: std::collections::HashSet<&str> = graph.inputs().iter().map(|&v| &*graph.value(v).name).collect();
    let spare = arrays.keys().zip(&used).find(|(k, used)| !**used && !k.starts_with("in_") && !inputs.contains(k.as_str()));
    let outputs: Vec<String> = graph.outputs().iter().map(|&v| format!("`{}`", printable(&graph.value(v).name))).collect();
    if let Some((name, _)) = spare {
        let message = format!("no output of the model belongs to this array; the model's outputs are {}", list(&outputs));
        return Err(RunError::Expected { array: format!("`{}`", printable(name)), message });
    }
    if matched.is_empty() {
        let message = format!("none of the expected arrays is called like an output; the model's outputs are {}", list(&outputs));
        return Err(RunError::Expected { array: "all".to_owned(), message });
    }
    Ok(matched)
}

fn input_error(name: &str, message: String) -> RunError {
    RunError::Input { input: format!("`{}`", printable(name)), message }
}

/// The array under the declared type: types that numpy lacks are stored as integers of the same bits.
fn typed(t: &Tensor, declared: Option<DType>) -> Result<Tensor, String> {
    let Some(declared) = declared.filter(|&d| d != t.dtype()) else { return Ok(t.clone()) };
    let in_range = |lo: i16, hi: i16| match t.dtype() {
        DType::I8 => t.bytes().iter().all(|&b| (lo..=hi).contains(&i16::from(b as i8))),
        _ => t.bytes().iter().all(|&b| (lo..=hi).contains(&i16::from(b))),
    };
    let same_bits = match (declared, t.dtype()) {
        (DType::Bf16, DType::U16 | DType::I16) => true,
        (DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz | DType::F8e8m0, DType::U8) => true,
        (DType::F4e2m1 | DType::U4, DType::U8) => in_range(0, 15),
        (DType::U2, DType::U8) => in_range(0, 3),
        (DType::I4, DType::I8) => in_range(-8, 7),
        (DType::I2, DType::I8) => in_range(-2, 1),
        _ => false,
    };
    if same_bits { Ok(t.clone().retyped(declared)) } else { Err(format!("is {}, the model takes {declared}", t.dtype())) }
}

/// Checks ranks and sizes of what is fed against the declared shapes, and adds the symbols they fix to `dims`.
///
/// # Errors
/// If a rank or fixed size differs, or a symbol would have two values; both places are named.
pub fn bind_dims(model: &Model, feeds: &Feeds, dims: &mut Bindings) -> Result<(), RunError> {
    let mut bound_by: HashMap<String, String> = dims.keys().map(|k| (k.clone(), "the given sizes (--dim)".to_owned())).collect();
    let mut expressions: Vec<(ValueId, usize, &Expr, i64)> = Vec::new();
    for (&v, fed) in feeds {
        let value = model.graph.value(v);
        let (Some(t), Some(declared)) = (fed.as_tensor(), value.shape.dims()) else { continue };
        let shown = || format!("it has shape {:?}, the model takes {}", t.dims(), value.shape);
        if declared.len() != t.rank() {
            return Err(input_error(&value.name, format!("{}: the number of dimensions differs", shown())));
        }
        for (axis, (want, &got)) in declared.iter().zip(t.dims()).enumerate() {
            match want {
                Dim::Known(n) if *n != got as u64 => return Err(input_error(&value.name, format!("{}: axis {axis} differs", shown()))),
                Dim::Known(_) | Dim::Unknown => {}
                Dim::Sym(e) => {
                    let size = i64::try_from(got).unwrap_or(i64::MAX);
                    let Some(name) = symbol(e) else {
                        expressions.push((v, axis, e, size));
                        continue;
                    };
                    match dims.get(&name) {
                        Some(&other) if other != size => {
                            let by = bound_by.get(&name).map_or("another input", String::as_str);
                            let name = printable(&name);
                            return Err(input_error(&value.name, format!("axis {axis} makes `{name}` {size}, but {by} makes it {other}")));
                        }
                        Some(_) => {}
                        None => {
                            bound_by.insert(name.clone(), format!("input `{}` (axis {axis})", printable(&value.name)));
                            dims.insert(name, size);
                        }
                    }
                }
            }
        }
    }
    for (v, axis, e, size) in expressions {
        if let Some(want) = e.eval(dims)
            && want != size
        {
            return Err(input_error(&model.graph.value(v).name, format!("axis {axis} is {size}, but `{e}` is {want}")));
        }
    }
    Ok(())
}

/// The symbol that an expression consists of, if it is nothing else.
pub(crate) fn symbol(e: &Expr) -> Option<String> {
    e.as_var().map(|name| name.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use recut_core::shape::Shape;
    use recut_core::testing::ModelBuilder;

    use super::*;

    fn sym(name: &str) -> Dim {
        Dim::Sym(Arc::new(Expr::var(name)))
    }

    fn two_inputs() -> Model {
        ModelBuilder::new()
            .node("add", "Add", &["a", "b"], &["y"])
            .typed("a", Some(DType::F32), Shape::new([sym("n"), Dim::Known(2)]))
            .typed("b", Some(DType::Bf16), Shape::new([sym("n"), Dim::Unknown]))
            .build()
    }

    fn arrays(items: &[(&str, Tensor)]) -> Arrays {
        items.iter().map(|(k, t)| ((*k).to_owned(), t.clone())).collect()
    }

    fn zeros(dtype: DType, dims: &[usize]) -> Tensor {
        Tensor::zeros(dtype, dims).unwrap()
    }

    #[test]
    fn arrays_are_matched_by_name_prefix_and_position() {
        let m = two_inputs();
        let (a, b) = (zeros(DType::F32, &[3, 2]), zeros(DType::U16, &[3, 2]));
        for keys in [["a", "b"], ["in_a", "b"], ["arr_0", "arr_1"], ["a", "arr_1"]] {
            let (feeds, notes) = match_inputs(&m, &arrays(&[(keys[0], a.clone()), (keys[1], b.clone()), ("out_0", a.clone())])).unwrap();
            assert_eq!(notes.iter().map(|n| n.array.as_str()).collect::<Vec<_>>(), keys);
            assert_eq!(feeds.values().map(|v| v.as_tensor().unwrap().dtype()).collect::<Vec<_>>(), [DType::F32, DType::Bf16]);
            let mut dims = Bindings::new();
            bind_dims(&m, &feeds, &mut dims).unwrap();
            assert_eq!(dims.get("n"), Some(&3));
        }
    }

    #[test]
    fn arrays_of_other_names_are_taken_in_order_where_their_number_fits() {
        let m = two_inputs();
        let (a, b) = (zeros(DType::F32, &[3, 2]), zeros(DType::U16, &[3, 2]));
        let (feeds, notes) = match_inputs(&m, &arrays(&[("in_p", a.clone()), ("in_q", b.clone()), ("out_0", a.clone())])).unwrap();
        assert_eq!(notes.iter().map(|n| n.array.as_str()).collect::<Vec<_>>(), ["in_p", "in_q"]);
        assert_eq!(feeds.len(), 2);
        // A name that fits shows that names are meant.
        assert!(match_inputs(&m, &arrays(&[("in_a", a.clone()), ("in_q", b)])).is_err());
        assert!(match_inputs(&m, &arrays(&[("in_p", a)])).is_err());
    }

    #[test]
    fn spare_arrays_and_wrong_types_are_errors_that_say_which() {
        let m = two_inputs();
        let e = match_inputs(&m, &arrays(&[("c", zeros(DType::F32, &[1]))])).unwrap_err().to_string();
        assert!(e.contains("`c`") && e.contains("`a`, `b`"), "{e}");
        let e = match_inputs(&m, &arrays(&[("a", zeros(DType::F64, &[1, 2]))])).unwrap_err().to_string();
        assert!(e.contains("`a`") && e.contains("f64") && e.contains("f32"), "{e}");
    }

    #[test]
    fn sizes_that_contradict_name_both_places() {
        let m = two_inputs();
        let bind = |a: &[usize], b: &[usize], given: &[(&str, i64)]| {
            let (feeds, _) = match_inputs(&m, &arrays(&[("a", zeros(DType::F32, a)), ("b", zeros(DType::Bf16, b))])).unwrap();
            let mut dims: Bindings = given.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
            bind_dims(&m, &feeds, &mut dims).map_err(|e| e.to_string())
        };
        let e = bind(&[3, 2], &[4, 2], &[]).unwrap_err();
        assert!(e.contains("`b`") && e.contains("input `a`") && e.contains("`n`"), "{e}");
        assert!(bind(&[3, 2], &[3, 2], &[("n", 5)]).unwrap_err().contains("--dim"));
        assert!(bind(&[3, 7], &[3, 2], &[]).unwrap_err().contains("axis 1"));
        assert!(bind(&[3], &[3, 2], &[]).unwrap_err().contains("number of dimensions"));
        bind(&[3, 2], &[3, 9], &[("n", 3)]).unwrap();
    }
}
