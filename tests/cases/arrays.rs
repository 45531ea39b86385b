//! The arrays of a case: what is fed, and what must come out.

use std::path::Path;

use recut_core::dtype::DType;
use recut_exec::io::{Arrays, load_arrays};
use recut_exec::tensor::{Element, Tensor};

use super::spec::{Array, Io, Run};

/// What one output must be.
pub(crate) struct Expected {
    /// Position among the model's outputs.
    pub(crate) index: usize,
    /// Elements.
    pub(crate) tensor: Tensor,
}

/// Inputs by name, and expected outputs.
pub(crate) fn load(dir: &Path, run: &Run) -> Result<(Arrays, Vec<Expected>), String> {
    let stored = load_arrays(&dir.join(&run.npz)).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(dir.join(&run.io)).map_err(|e| e.to_string())?;
    let io: Io = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let mut feeds = Arrays::new();
    for a in &io.inputs {
        for (i, tensor) in tensors(a, &stored)?.into_iter().enumerate() {
            let name = a.name.as_deref().ok_or("an input has no name")?;
            feeds.insert(if a.rows.is_some() { name.replace("%d", &i.to_string()) } else { name.to_owned() }, tensor);
        }
    }
    let mut expected = Vec::new();
    for a in &io.outputs {
        expected.extend(tensors(a, &stored)?.into_iter().enumerate().map(|(i, tensor)| Expected { index: a.index + i, tensor }));
    }
    Ok((feeds, expected))
}

/// The tensors of an entry: one, or as many as it has rows.
fn tensors(a: &Array, stored: &Arrays) -> Result<Vec<Tensor>, String> {
    let dtype = DType::parse(&a.dtype).ok_or_else(|| format!("unknown dtype {}", a.dtype))?;
    if let Some(values) = &a.values {
        let strings = values.iter().map(|s| s.as_bytes().into()).collect();
        return Ok(vec![Tensor::from_strings(&a.shape, strings).map_err(|e| e.to_string())?]);
    }
    let key = a.key.as_deref().ok_or("an array has no key")?;
    let all = stored.get(key).ok_or_else(|| format!("the file has no array {key}"))?;
    let rows = a.rows.unwrap_or(1).max(1);
    let size = all.byte_len() / rows;
    // What numpy has no type for is stored as integers of the same width.
    (0..rows).map(|i| Tensor::from_bytes(dtype, &a.shape, &all.bytes()[i * size..(i + 1) * size]).map_err(|e| e.to_string())).collect()
}

/// Why `got` is not `want` within the tolerances; NaN equals NaN.
pub(crate) fn difference(want: &Tensor, got: &Tensor, rtol: f64, atol: f64) -> Option<String> {
    if (want.dtype(), want.dims()) != (got.dtype(), got.dims()) {
        return Some(format!("is {}{:?} instead of {}{:?}", got.dtype(), got.dims(), want.dtype(), want.dims()));
    }
    if let (Some(w), Some(g)) = (want.as_strings(), got.as_strings()) {
        return (w != g).then(|| "has other strings".to_owned());
    }
    let (Some(w), Some(g)) = (numbers(want), numbers(got)) else {
        return (want.bytes() != got.bytes()).then(|| "has other bytes".to_owned());
    };
    let same = |w: f64, g: f64| w == g || w.is_nan() && g.is_nan() || (w - g).abs() <= atol + rtol * w.abs();
    let at = w.iter().zip(&g).position(|(&w, &g)| !same(w, g))?;
    Some(format!("is {} instead of {} at element {at}", g[at], w[at]))
}

fn numbers(t: &Tensor) -> Option<Vec<f64>> {
    fn all<T: Element>(t: &Tensor, f: impl Fn(&T) -> f64) -> Option<Vec<f64>> {
        t.as_slice::<T>().map(|v| v.iter().map(f).collect())
    }
    match t.dtype() {
        DType::F32 => all::<f32>(t, |&x| x.into()),
        DType::F64 => all::<f64>(t, |&x| x),
        DType::I8 | DType::I4 | DType::I2 => all::<i8>(t, |&x| x.into()),
        DType::I16 => all::<i16>(t, |&x| x.into()),
        DType::I32 => all::<i32>(t, |&x| x.into()),
        DType::U8 | DType::U4 | DType::U2 | DType::Bool => all::<u8>(t, |&x| x.into()),
        DType::U16 => all::<u16>(t, |&x| x.into()),
        DType::U32 => all::<u32>(t, |&x| x.into()),
        // 64-bit integers are compared exactly.
        _ => None,
    }
}
