//! Recurrent layers and cells.

use super::super::call::{Call, Res, Size};
use super::super::level::Fact;
use super::super::values::{AttrList, int, of_rank, text};
use super::super::walk::Lower;
use super::linear::affine;
use super::{Table, in_training, one};
use crate::dtype::DType;
use crate::graph::{AttrValue, ValueId};
use crate::shape::Shape;

pub(super) const TABLE: Table = &[
    ("gru", |l, c| layers(l, c, &GRU)),
    ("gru_cell", gru_cell),
    ("lstm", |l, c| layers(l, c, &LSTM)),
    ("lstm_cell", lstm_cell),
    ("rnn_relu", |l, c| layers(l, c, &RNN_RELU)),
    ("rnn_relu_cell", |l, c| rnn_cell(l, c, "Relu")),
    ("rnn_tanh", |l, c| layers(l, c, &RNN_TANH)),
    ("rnn_tanh_cell", |l, c| rnn_cell(l, c, "Tanh")),
];

/// A kind of layer.
struct Kind {
    op: &'static str,
    /// Torch's gates in the order that ONNX has: torch stores `i f g o` and `r z n`, ONNX `i o f c` and `z r h`.
    gates: &'static [usize],
    activation: Option<&'static str>,
    /// Whether there is a cell state beside the hidden one.
    cell: bool,
}

const LSTM: Kind = Kind { op: "LSTM", gates: &[0, 3, 1, 2], activation: None, cell: true };
const GRU: Kind = Kind { op: "GRU", gates: &[1, 0, 2], activation: None, cell: false };
const RNN_TANH: Kind = Kind { op: "RNN", gates: &[0], activation: Some("Tanh"), cell: false };
const RNN_RELU: Kind = Kind { op: "RNN", gates: &[0], activation: Some("Relu"), cell: false };

fn layers(l: &mut Lower<'_>, c: &Call<'_>, kind: &Kind) -> Res<Vec<Option<ValueId>>> {
    if c.node.op.overload.as_ref() == "data" {
        return Err("its sequences are packed".to_owned());
    }
    if c.flag("train")? && c.float("dropout")? > 0.0 {
        return in_training("drops elements at random");
    }
    let dtype = c.out_dtype()?;
    let input = c.tensor("input")?;
    let states = if kind.cell { c.tensors("hx")? } else { vec![c.tensor("hx")?] };
    let params = c.tensors("params")?;
    let (biases, both, batch_first) = (c.flag("has_biases")?, c.flag("bidirectional")?, c.flag("batch_first")?);
    let count = usize::try_from(c.int("num_layers")?).map_err(|_| "it has a negative number of layers")?;
    let directions = if both { 2 } else { 1 };
    let each = if biases { 4 } else { 2 };
    if params.len() != count.saturating_mul(directions * each) {
        return Err(format!("it has {} parameters for {count} layers (projections are not lowered)", params.len()));
    }
    if states.len() != if kind.cell { 2 } else { 1 } {
        return Err(format!("it has {} states", states.len()));
    }
    let hidden = params.get(1).and_then(|&r| l.static_dim(r, 1)).ok_or("the size of its state is not known")?;
    let single = l.rank(input)? == 2;
    let mut x = match (single, batch_first) {
        (true, _) => l.unsqueeze(input, &[1]),
        (false, true) => l.transpose(input, &[1, 0, 2]),
        (false, false) => input,
    };
    let states: Vec<ValueId> = states.iter().map(|&s| if single { l.unsqueeze(s, &[1]) } else { s }).collect();
    let mut last: Vec<Vec<ValueId>> = vec![Vec::new(); states.len()];
    for layer in 0..count {
        let at = layer * directions;
        let mut packed = Packed::default();
        for d in 0..directions {
            packed.direction(l, kind, &params[(at + d) * each..(at + d + 1) * each], biases)?;
        }
        let (w, r) = (l.concat(&packed.w, 0)?, l.concat(&packed.r, 0)?);
        let b = if biases { Some(l.concat(&packed.b, 0)?) } else { None };
        let mut start = Vec::new();
        for &s in &states {
            let whole = count == 1;
            let (from, to) = (Size::Known(at as i64), Size::Known((at + directions) as i64));
            start.push(Some(if whole { s } else { l.slice(s, 0, from, to, 1) }));
        }
        let mut list: AttrList = vec![("hidden_size", int(hidden)), ("direction", text(if both { "bidirectional" } else { "forward" }))];
        if kind.op == "GRU" {
            list.push(("linear_before_reset", int(1)));
        }
        if let Some(a) = kind.activation {
            list.push(("activations", AttrValue::ByteStrings(vec![a.as_bytes().into(); directions].into())));
        }
        let mut inputs = vec![Some(x), Some(w), Some(r), b, None];
        inputs.extend(start);
        let unknown = |n: usize| Some(Fact::of(Some(dtype), of_rank(n)));
        let mut facts = vec![unknown(4), unknown(3)];
        facts.extend(kind.cell.then(|| unknown(3)));
        let made = l.emit_all(kind.op, &inputs, &list, &facts);
        let Some(&Some(y)) = made.first() else { return Err("a layer gives nothing".to_owned()) };
        for (all, state) in last.iter_mut().zip(made.iter().skip(1).flatten()) {
            all.push(*state);
        }
        // Positions, directions, batch, state: the directions belong to the state.
        x = if both {
            let turned = l.transpose(y, &[0, 2, 1, 3]);
            let (steps, batch) = (l.size_of(x, 0), l.size_of(x, 1));
            l.reshape(turned, &[steps, batch, Size::Known(hidden * 2)])
        } else {
            l.squeeze(y, &[1])
        };
    }
    let y = match (single, batch_first) {
        (true, _) => l.squeeze(x, &[1]),
        (false, true) => l.transpose(x, &[1, 0, 2]),
        (false, false) => x,
    };
    let mut results = vec![Some(y)];
    for all in last {
        let state = l.concat(&all, 0)?;
        results.push(Some(if single { l.squeeze(state, &[1]) } else { state }));
    }
    Ok(results)
}

/// Parameters of a layer in ONNX's form, a direction each.
#[derive(Default)]
struct Packed {
    w: Vec<ValueId>,
    r: Vec<ValueId>,
    b: Vec<ValueId>,
}

impl Packed {
    fn direction(&mut self, l: &mut Lower<'_>, kind: &Kind, params: &[ValueId], biases: bool) -> Res<()> {
        let &[w, r, ..] = params else { return Err("parameters are missing".to_owned()) };
        let (w, r) = (reordered(l, w, kind.gates)?, reordered(l, r, kind.gates)?);
        self.w.push(l.unsqueeze(w, &[0]));
        self.r.push(l.unsqueeze(r, &[0]));
        if let (true, &[_, _, wb, rb]) = (biases, params) {
            let (wb, rb) = (reordered(l, wb, kind.gates)?, reordered(l, rb, kind.gates)?);
            let b = l.concat(&[wb, rb], 0)?;
            self.b.push(l.unsqueeze(b, &[0]));
        }
        Ok(())
    }
}

/// The gates, which lie one after the other, in another order.
fn reordered(l: &mut Lower<'_>, w: ValueId, gates: &[usize]) -> Res<ValueId> {
    if gates.len() == 1 {
        return Ok(w);
    }
    let dtype = l.dtype(w)?;
    let rows = l.static_dim(w, 0).filter(|r| r % gates.len() as i64 == 0).ok_or("its gates have unequal sizes")?;
    let size = rows / gates.len() as i64;
    let sizes = l.i64s(&vec![size; gates.len()]);
    let rest: Vec<crate::shape::Dim> = l.shape(w).dims().map(|d| d[1..].to_vec()).unwrap_or_default();
    let mut dims = vec![crate::shape::Dim::Known(size as u64)];
    dims.extend(rest);
    let facts = vec![Some(Fact::of(Some(dtype), Shape::new(dims))); gates.len()];
    let parts = l.emit_all("Split", &[Some(w), Some(sizes)], &[("axis", int(0))], &facts);
    let ordered: Vec<ValueId> = gates.iter().filter_map(|&g| parts.get(g).copied().flatten()).collect();
    let shape = l.shape(w);
    let inputs: Vec<Option<ValueId>> = ordered.into_iter().map(Some).collect();
    Ok(l.emit_fact("Concat", &inputs, &[("axis", int(0))], Fact::of(Some(dtype), shape)))
}

/// The inputs of a cell's gates: `x · w_ihᵀ + b_ih` and `h · w_hhᵀ + b_hh`.
fn gates(l: &mut Lower<'_>, c: &Call<'_>, h: ValueId, dtype: DType) -> Res<(ValueId, ValueId)> {
    let bias = |name: &str| if c.has(name) { c.opt_tensor(name) } else { Ok(None) };
    let x = affine(l, c.tensor("input")?, c.tensor("w_ih")?, bias("b_ih")?, dtype)?;
    let h = affine(l, h, c.tensor("w_hh")?, bias("b_hh")?, dtype)?;
    Ok((x, h))
}

/// Equal parts of the last axis.
fn parts(l: &mut Lower<'_>, v: ValueId, n: usize, size: i64) -> Res<Vec<ValueId>> {
    let axis = l.rank(v)?.checked_sub(1).ok_or("its gates are a scalar")?;
    Ok((0..n as i64).map(|i| l.slice(v, axis, Size::Known(i * size), Size::Known((i + 1) * size), 1)).collect())
}

fn state_size(l: &Lower<'_>, c: &Call<'_>) -> Res<i64> {
    l.static_dim(c.tensor("w_hh")?, 1).ok_or_else(|| "the size of its state is not known".to_owned())
}

fn lstm_cell(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let [h, cell] = c.tensors("hx")?[..] else { return Err("it has not two states".to_owned()) };
    let size = state_size(l, c)?;
    let (x, h) = gates(l, c, h, dtype)?;
    let sum = l.zip("Add", x, h, dtype);
    let [i, f, g, o] = parts(l, sum, 4, size)?[..] else { return Err("it has not four gates".to_owned()) };
    let (i, f, g, o) = (l.map("Sigmoid", i, dtype), l.map("Sigmoid", f, dtype), l.map("Tanh", g, dtype), l.map("Sigmoid", o, dtype));
    let (kept, new) = (l.zip("Mul", f, cell, dtype), l.zip("Mul", i, g, dtype));
    let cell = l.zip("Add", kept, new, dtype);
    let shown = l.map("Tanh", cell, dtype);
    let hidden = l.zip("Mul", o, shown, dtype);
    Ok(vec![Some(hidden), Some(cell)])
}

fn gru_cell(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let before = c.tensor("hx")?;
    let size = state_size(l, c)?;
    let (x, h) = gates(l, c, before, dtype)?;
    let [xr, xz, xn] = parts(l, x, 3, size)?[..] else { return Err("it has not three gates".to_owned()) };
    let [hr, hz, hn] = parts(l, h, 3, size)?[..] else { return Err("it has not three gates".to_owned()) };
    let (r, z) = (l.zip("Add", xr, hr, dtype), l.zip("Add", xz, hz, dtype));
    let (r, z) = (l.map("Sigmoid", r, dtype), l.map("Sigmoid", z, dtype));
    let reset = l.zip("Mul", r, hn, dtype);
    let sum = l.zip("Add", xn, reset, dtype);
    let n = l.map("Tanh", sum, dtype);
    let way = l.zip("Sub", before, n, dtype);
    let part = l.zip("Mul", z, way, dtype);
    one(l.zip("Add", n, part, dtype))
}

fn rnn_cell(l: &mut Lower<'_>, c: &Call<'_>, activation: &'static str) -> Res<Vec<Option<ValueId>>> {
    let dtype = c.out_dtype()?;
    let (x, h) = gates(l, c, c.tensor("hx")?, dtype)?;
    let sum = l.zip("Add", x, h, dtype);
    one(l.map(activation, sum, dtype))
}
