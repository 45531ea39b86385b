//! Inputs made up where none are given: the same seed gives the same values on every machine.

use std::collections::HashSet;

use recut_core::diagnostic::printable;
use recut_core::dtype::DType;
use recut_core::expr::Bindings;
use recut_core::graph::{AttrValue, Graph, ValueId, ValueKind, ValueType};
use recut_core::model::Model;
use recut_core::shape::Dim;

use crate::engine::RunError;
use crate::inputs::{Feeds, bind_dims, model_inputs};
use crate::io::weight::load_weight;
use crate::tensor::Tensor;

/// What a person asks of a generated input: `NAME:SHAPE[:DTYPE[:LO..HI]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSpec {
    /// Name of the model input.
    pub name: String,
    /// Sizes.
    pub shape: Vec<usize>,
    /// Element type, where it is not that of the model.
    pub dtype: Option<DType>,
    /// Smallest value and the bound above (excluded for integers).
    pub range: Option<(f64, f64)>,
}

impl std::str::FromStr for InputSpec {
    type Err = String;

    /// Names may hold colons (`input:0`): the shape is the first part after which everything makes sense.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        for at in 1..parts.len() {
            let Some(shape) = parse_shape(parts[at]) else { continue };
            let (dtype, range) = match &parts[at + 1..] {
                [] => (None, None),
                [d] => (DType::parse(d), None),
                [d, r] => (DType::parse(d), parse_range(r)),
                _ => continue,
            };
            let given = parts.len() - at - 1;
            if given >= 1 && dtype.is_none() || given == 2 && range.is_none() {
                continue;
            }
            return Ok(Self { name: parts[..at].join(":"), shape, dtype, range });
        }
        Err(format!("`{}` is not NAME:SHAPE[:DTYPE[:LO..HI]], like `x:1x3x224x224:f32:0..1`", printable(text)))
    }
}

fn parse_shape(text: &str) -> Option<Vec<usize>> {
    if text == "scalar" {
        return Some(Vec::new());
    }
    text.split(['x', ',']).map(|d| d.parse().ok()).collect()
}

fn parse_range(text: &str) -> Option<(f64, f64)> {
    let (lo, hi) = text.split_once("..")?;
    let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
    (lo <= hi).then_some((lo, hi))
}

/// What was made for an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Name of the model input.
    pub input: String,
    /// Type, shape and how the values were chosen, in words.
    pub how: String,
}

/// xoshiro256++ (Blackman and Vigna), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Self(std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// In `0..1`.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normally distributed, mean 0, deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Gives every model input that `feeds` lacks a value: its default where the file has one, else a generated one.
/// Symbolic dimensions without a size become the one they were traced with, where the file says it, else the smallest
/// that the model is made for, as the notes say, and are added to `dims`.
///
/// # Errors
/// If a specification fits no input, or an input cannot be generated (unknown rank, no tensor).
pub fn complete(model: &Model, feeds: &mut Feeds, dims: &mut Bindings, specs: &[InputSpec], seed: u64) -> Result<Vec<Generated>, RunError> {
    for s in specs {
        if !model_inputs(model).any(|v| *model.graph.value(v).name == *s.name) {
            let names: Vec<String> = model_inputs(model).map(|v| printable(&model.graph.value(v).name).into_owned()).collect();
            return Err(error(&s.name, format!("the model has no such input; it has {}", names.join(", "))));
        }
    }
    let mut notes = Vec::new();
    for (i, v) in model_inputs(model).enumerate() {
        if feeds.contains_key(&v) {
            continue;
        }
        let value = model.graph.value(v);
        let spec = specs.iter().find(|s| *s.name == *value.name);
        if let (ValueKind::Input { default: Some(w) }, None) = (&value.kind, spec) {
            let t = load_weight(w).map_err(|e| error(&value.name, format!("its default cannot be read: {e}")))?;
            feeds.insert(v, t.into());
            continue;
        }
        if value.ty != ValueType::Tensor {
            return Err(error(&value.name, "only tensors can be generated, and this is none".to_owned()));
        }
        let mut assumed = Vec::new();
        let shape = match spec {
            Some(s) => s.shape.clone(),
            None => sizes(model, v, dims, &mut assumed)?,
        };
        let dtype = spec.and_then(|s| s.dtype).or(value.dtype).unwrap_or(DType::F32);
        // Every input has its own stream, so that feeding one does not change the others.
        let mut random = Random::new(seed.wrapping_add((i as u64).wrapping_mul(0x632b_e59b_d9b4_e019)));
        let values = Values::choose(&model.graph, v, dtype, spec.and_then(|s| s.range));
        let t = fill(dtype, &shape, values, &mut random).map_err(|e| error(&value.name, e))?;
        feeds.insert(v, t.into());
        bind_dims(model, feeds, dims)?;
        let mut how = format!("{dtype} {shape:?}, {values}");
        if !assumed.is_empty() {
            how.push_str(&format!("; taken: {}", assumed.join(", ")));
        }
        notes.push(Generated { input: value.name.to_string(), how });
    }
    Ok(notes)
}

fn error(name: &str, message: String) -> RunError {
    RunError::Input { input: format!("`{}`", printable(name)), message }
}

fn sizes(model: &Model, v: ValueId, dims: &mut Bindings, assumed: &mut Vec<String>) -> Result<Vec<usize>, RunError> {
    let value = model.graph.value(v);
    let Some(declared) = value.shape.dims() else {
        return Err(error(&value.name, "its rank is not known: give `--input NAME:SHAPE`".to_owned()));
    };
    let mut shape = Vec::with_capacity(declared.len());
    for (axis, d) in declared.iter().enumerate() {
        if let Dim::Sym(e) = d {
            e.for_each_var(&mut |name| {
                if !dims.contains_key(&**name) {
                    let facts = model.symbols.get(&**name).copied().unwrap_or_default();
                    let hint = facts.hint.filter(|&size| size >= 0 && facts.allows(size));
                    let size = hint.unwrap_or_else(|| facts.min.unwrap_or(1).max(1));
                    dims.insert(name.to_string(), size);
                    let why = if hint.is_some() { " (as it was traced)" } else { "" };
                    assumed.push(format!("`{}` as {size}{why}", printable(name)));
                }
            });
        }
        let size = match d.eval(dims) {
            Some(n) => n,
            None => {
                assumed.push(format!("axis {axis} as 1"));
                1
            }
        };
        shape.push(usize::try_from(size).map_err(|_| error(&value.name, format!("axis {axis} is too large: {size}")))?);
    }
    Ok(shape)
}

/// How values are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    Ones,
    Normal,
    /// Integers of `lo..hi`.
    Ints(i64, i64, &'static str),
    Uniform(f64, f64),
}

impl std::fmt::Display for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ones => f.write_str("all ones, since it is called a mask"),
            Self::Normal => f.write_str("normally distributed"),
            Self::Ints(lo, hi, why) => write!(f, "integers of {lo}..{hi}{why}"),
            Self::Uniform(lo, hi) => write!(f, "uniform in {lo}..{hi}"),
        }
    }
}

impl Values {
    fn choose(graph: &Graph, v: ValueId, dtype: DType, range: Option<(f64, f64)>) -> Self {
        let discrete = dtype.is_int() || dtype == DType::Bool;
        match range {
            Some((lo, hi)) if discrete => return Self::Ints(lo as i64, (hi as i64).max(lo as i64 + 1), ""),
            Some((lo, hi)) => return Self::Uniform(lo, hi),
            None => {}
        }
        if discrete && graph.value(v).name.to_ascii_lowercase().contains("mask") {
            return Self::Ones;
        }
        if dtype.is_int()
            && let Some(rows) = table_rows(graph, v)
        {
            return Self::Ints(0, i64::try_from(rows).unwrap_or(i64::MAX).max(1), ", the rows of the table that it indexes");
        }
        match dtype {
            DType::Bool => Self::Ints(0, 2, ""),
            DType::U8 => Self::Ints(0, 256, ""),
            DType::I8 => Self::Ints(-128, 128, ""),
            DType::I4 => Self::Ints(-8, 8, ""),
            DType::I2 => Self::Ints(-2, 2, ""),
            DType::U2 => Self::Ints(0, 4, ""),
            d if d.is_int() => Self::Ints(0, 8, ""),
            _ => Self::Normal,
        }
    }
}

/// Fewest rows of the tables that the value is used to index, through operators that keep its elements.
fn table_rows(graph: &Graph, start: ValueId) -> Option<u64> {
    const KEEPS: [&str; 9] = ["Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Expand", "Slice"];
    const TORCH_KEEPS: [&str; 12] =
        ["to", "_to_copy", "view", "reshape", "unsqueeze", "squeeze", "flatten", "transpose", "permute", "expand", "slice", "contiguous"];
    let mut fewest: Option<u64> = None;
    let mut seen = HashSet::from([start]);
    let mut open = vec![start];
    while let Some(v) = open.pop() {
        for &n in graph.consumers(v) {
            let node = graph.node(n);
            if !matches!(&*node.op.domain, "" | "aten") {
                continue;
            }
            let name = &*node.op.name;
            let is_argument = |argument: &str| matches!(node.attr(argument), Some(AttrValue::Input(i)) if node.input(*i) == Some(v));
            if name == "embedding" && is_argument("indices") {
                let table = node.input(0).and_then(|d| graph.value(d).shape.dims());
                let rows = table.and_then(|d| d.first()?.known());
                fewest = [fewest, rows].into_iter().flatten().min();
            } else if name.starts_with("Gather") && node.input(1) == Some(v) {
                let axis = node.int("axis").unwrap_or(0);
                let dims = node.input(0).and_then(|d| graph.value(d).shape.dims());
                let rows = dims.and_then(|d| d.get(usize::try_from(if axis < 0 { axis + d.len() as i64 } else { axis }).ok()?)?.known());
                fewest = match (fewest, rows) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            } else if (KEEPS.contains(&name) || TORCH_KEEPS.contains(&name)) && node.input(0) == Some(v) {
                open.extend(node.outputs.iter().flatten().copied().filter(|o| seen.insert(*o)));
            }
        }
    }
    fewest
}

fn fill(dtype: DType, shape: &[usize], values: Values, random: &mut Random) -> Result<Tensor, String> {
    let mut t = Tensor::zeros(dtype, shape).map_err(|e| e.to_string())?;
    let mut next = || match values {
        Values::Ones => 1.0,
        Values::Normal => random.normal(),
        Values::Ints(lo, hi, _) => lo as f64 + (random.uniform() * hi.saturating_sub(lo) as f64).floor(),
        Values::Uniform(lo, hi) => lo + random.uniform() * (hi - lo),
    };
    macro_rules! fill {
        ($($t:ty: $make:expr),*) => {$(
            if let Some(elements) = t.as_mut_slice::<$t>() {
                elements.iter_mut().for_each(|e| *e = $make(next()));
                return Ok(t);
            }
        )*};
    }
    if matches!(dtype, DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz | DType::F8e8m0 | DType::F4e2m1)
        || matches!(dtype, DType::C64 | DType::C128 | DType::String)
    {
        return Err(format!("values of type {dtype} are not generated: give them with --inputs"));
    }
    fill!(f32: |x| x as f32, f64: |x| x, half::f16: half::f16::from_f64, half::bf16: half::bf16::from_f64,
        i8: |x| x as i8, i16: |x| x as i16, i32: |x| x as i32, i64: |x| x as i64,
        u8: |x| x as u8, u16: |x| x as u16, u32: |x| x as u32, u64: |x| x as u64);
    Err(format!("values of type {dtype} are not generated"))
}

#[cfg(test)]
mod tests {
    use recut_core::shape::Shape;
    use recut_core::testing::ModelBuilder;
    use recut_core::weights::WeightRef;

    use super::*;

    #[test]
    fn specifications_are_read_from_the_right() {
        let spec = |s: &str| s.parse::<InputSpec>();
        let s = spec("input:0:1x3:i64:0..9").unwrap();
        assert_eq!((s.name.as_str(), s.shape, s.dtype, s.range), ("input:0", vec![1, 3], Some(DType::I64), Some((0.0, 9.0))));
        assert_eq!(spec("x:4").unwrap().shape, [4]);
        assert_eq!(spec("x:scalar:f32").unwrap().shape, [0usize; 0]);
        for bad in ["x", "x:", "x:axb", "x:4:nope", "x:4:f32:9..1", ""] {
            assert!(spec(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_generator_gives_the_published_values() {
        // SplitMix64 of seed 0, as in its reference implementation.
        assert_eq!(Random::new(0).0[0], 0xe220_a839_7b1d_cdaf);
        let mut r = Random::new(1);
        let n = 20_000;
        let xs: Vec<f64> = (0..n).map(|_| r.normal()).collect();
        let mean = xs.iter().sum::<f64>() / f64::from(n);
        let var = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.03 && (var - 1.0).abs() < 0.05, "{mean} {var}");
    }

    #[test]
    fn token_ids_stay_in_the_table_and_masks_are_ones() {
        let ints = |b: ModelBuilder, v: &str| b.typed(v, Some(DType::I64), Shape::new([Dim::Unknown, Dim::Known(50)]));
        let b = ModelBuilder::new()
            .weight("table", WeightRef::inline(DType::F32, &[7, 2], vec![0; 56]))
            .node("cast", "Cast", &["ids"], &["ids32"])
            .node("look", "Gather", &["table", "ids32"], &["e"])
            .node("m", "Cast", &["attention_mask"], &["m"]);
        let m = ints(ints(b, "ids"), "attention_mask").build();
        let (mut feeds, mut dims) = (Feeds::new(), Bindings::new());
        let notes = complete(&m, &mut feeds, &mut dims, &[], 1).unwrap();
        let get = |i: usize| feeds[i].as_tensor().unwrap().as_slice::<i64>().unwrap().to_vec();
        assert!(get(0).iter().all(|i| (0..7).contains(i)) && get(0).iter().any(|&i| i > 2));
        assert_eq!(get(1), [1; 50]);
        assert!(notes[0].how.contains("taken: axis 0 as 1"), "{}", notes[0].how);
        let mut again = Feeds::new();
        complete(&m, &mut again, &mut Bindings::new(), &[], 1).unwrap();
        assert_eq!(again[0].as_tensor().unwrap().bytes(), feeds[0].as_tensor().unwrap().bytes());
    }

    #[test]
    fn open_sizes_are_those_that_the_program_was_traced_with() {
        let shape = || Shape::new(["a", "b", "c"].map(|n| Dim::Sym(std::sync::Arc::new(recut_core::expr::Expr::var(n)))));
        let mut m = ModelBuilder::new().node("r", "Relu", &["x"], &["y"]).typed("x", Some(DType::F32), shape()).build();
        let facts = |hint, min| recut_core::model::SymbolFacts { hint, min: Some(min), max: Some(9) };
        m.symbols.extend([("a".to_owned(), facts(Some(5), 1)), ("b".to_owned(), facts(Some(99), 2))]);
        let (mut feeds, mut dims) = (Feeds::new(), Bindings::new());
        let notes = complete(&m, &mut feeds, &mut dims, &[], 1).unwrap();
        assert_eq!(feeds.values().next().unwrap().as_tensor().unwrap().dims(), [5, 2, 1]);
        assert!(notes[0].how.ends_with("taken: `a` as 5 (as it was traced), `b` as 2, `c` as 1"), "{}", notes[0].how);
    }
}
