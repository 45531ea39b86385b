//! LSTM, GRU and RNN: one product for the inputs of all steps, then one small product a step.

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel};
use super::gemm::{Mat, Threads, gemm};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::invalid;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("LSTM", 1, |ctx| recurrent(ctx, Cell::Lstm)),
    Entry::onnx("GRU", 1, |ctx| recurrent(ctx, Cell::Gru)),
    Entry::onnx("RNN", 1, |ctx| recurrent(ctx, Cell::Rnn)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Lstm,
    Gru,
    Rnn,
}

impl Cell {
    /// Gates, each `hidden_size` rows of the weights.
    fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }

    fn default_activations(self) -> &'static [&'static str] {
        match self {
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Rnn => &["Tanh"],
        }
    }
}

/// An activation function with its parameters.
#[derive(Clone, Copy, Debug)]
struct Activation {
    kind: Kind,
    alpha: f64,
    beta: f64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Relu,
    Tanh,
    Sigmoid,
    Affine,
    LeakyRelu,
    ThresholdedRelu,
    ScaledTanh,
    HardSigmoid,
    Elu,
    Softsign,
    Softplus,
}

impl Activation {
    /// By name, which ONNX does not distinguish by case; takes what parameters it needs from the lists.
    fn new(name: &str, alphas: &mut std::slice::Iter<'_, f64>, betas: &mut std::slice::Iter<'_, f64>) -> Result<Self, KernelError> {
        let kinds = [
            ("Relu", Kind::Relu, None, None),
            ("Tanh", Kind::Tanh, None, None),
            ("Sigmoid", Kind::Sigmoid, None, None),
            ("Affine", Kind::Affine, Some(1.0), Some(0.0)),
            ("LeakyRelu", Kind::LeakyRelu, Some(0.01), None),
            ("ThresholdedRelu", Kind::ThresholdedRelu, Some(1.0), None),
            ("ScaledTanh", Kind::ScaledTanh, Some(1.0), Some(1.0)),
            ("HardSigmoid", Kind::HardSigmoid, Some(0.2), Some(0.5)),
            ("Elu", Kind::Elu, Some(1.0), None),
            ("Softsign", Kind::Softsign, None, None),
            ("Softplus", Kind::Softplus, None, None),
        ];
        let Some((_, kind, alpha, beta)) = kinds.into_iter().find(|k| k.0.eq_ignore_ascii_case(name)) else {
            return invalid!("attribute activations names {:?}, which is none", recut_core::diagnostic::printable(name));
        };
        let next = |default: Option<f64>, list: &mut std::slice::Iter<'_, f64>| default.map(|d| list.next().copied().unwrap_or(d));
        let (alpha, beta) = (next(alpha, alphas).unwrap_or(0.0), next(beta, betas).unwrap_or(0.0));
        Ok(Self { kind, alpha, beta })
    }

    #[inline]
    fn apply<T: Real>(self, x: T) -> T {
        let (a, b) = (T::of(self.alpha), T::of(self.beta));
        match self.kind {
            Kind::Relu => x.max(T::ZERO),
            Kind::Tanh => x.tanh(),
            Kind::Sigmoid => T::ONE / (T::ONE + (-x).exp()),
            Kind::Affine => a * x + b,
            Kind::LeakyRelu => {
                if x < T::ZERO {
                    a * x
                } else {
                    x
                }
            }
            Kind::ThresholdedRelu => {
                if x >= a {
                    x
                } else {
                    T::ZERO
                }
            }
            Kind::ScaledTanh => a * (b * x).tanh(),
            Kind::HardSigmoid => (a * x + b).max(T::ZERO).min(T::ONE),
            Kind::Elu => {
                if x < T::ZERO {
                    a * (x.exp() - T::ONE)
                } else {
                    x
                }
            }
            Kind::Softsign => x / (T::ONE + x.abs()),
            Kind::Softplus => T::of(x.wide().exp().ln_1p()),
        }
    }
}

struct Op {
    cell: Cell,
    hidden: usize,
    /// For each direction: whether it runs backwards, and its activations.
    directions: Vec<(bool, Vec<Activation>)>,
    clip: Option<f64>,
    input_forget: bool,
    linear_before_reset: bool,
    batch_first: bool,
}

fn recurrent(ctx: &PrepareCtx<'_>, cell: Cell) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let reverse: &[bool] = attrs.choice(
        "direction",
        "forward",
        &[("forward", &[false][..]), ("reverse", &[true][..]), ("bidirectional", &[false, true][..])],
    )?;
    let names: Option<Vec<&str>> = match ctx.node.attr("activations") {
        None => None,
        Some(recut_core::graph::AttrValue::ByteStrings(v)) => {
            let names: Option<Vec<&str>> = v.iter().map(|s| std::str::from_utf8(s).ok()).collect();
            if names.is_none() {
                return invalid!("attribute activations is not text");
            }
            names
        }
        Some(_) => return invalid!("attribute activations must be a list of texts"),
    };
    let each = cell.default_activations();
    let names = names.filter(|n| !n.is_empty()).unwrap_or_else(|| each.repeat(reverse.len()));
    if names.len() != each.len() * reverse.len() {
        return invalid!("attribute activations has {} names, expected {}", names.len(), each.len() * reverse.len());
    }
    let (alphas, betas) = (attrs.floats("activation_alpha")?.unwrap_or(&[]), attrs.floats("activation_beta")?.unwrap_or(&[]));
    let (mut alphas, mut betas) = (alphas.iter(), betas.iter());
    let mut directions = Vec::new();
    for (&reverse, names) in reverse.iter().zip(names.chunks(each.len())) {
        directions.push((reverse, names.iter().map(|n| Activation::new(n, &mut alphas, &mut betas)).collect::<Result<_, _>>()?));
    }
    let op = Op {
        cell,
        hidden: attrs.size("hidden_size", 0, 1)?,
        directions,
        clip: attrs.opt_float("clip")?.filter(|c| *c > 0.0),
        input_forget: attrs.flag("input_forget", false)?,
        linear_before_reset: attrs.flag("linear_before_reset", false)?,
        batch_first: attrs.flag("layout", false)?,
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (X)", T => op.run::<T>(ctx, args)))
}

/// Where the state of direction `d`, item `b` starts.
fn state_at(batch_first: bool, d: usize, b: usize, directions: usize, batch: usize, hidden: usize) -> usize {
    if batch_first { (b * directions + d) * hidden } else { (d * batch + b) * hidden }
}

impl Op {
    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let &[first, second, features] = args.get(0)?.dims() else {
            return invalid!("input X must have rank 3, it has shape {:?}", args.get(0)?.dims());
        };
        let (steps, batch) = if self.batch_first { (second, first) } else { (first, second) };
        let (dirs, gates) = (self.directions.len(), self.cell.gates());
        let hidden = match (self.hidden, args.get(2)?.dims()) {
            (0, &[_, _, h]) => h,
            (h, _) => h,
        };
        let rows = gates.checked_mul(hidden).ok_or_else(|| KernelError::Invalid("attribute hidden_size is too large".into()))?;
        let expect = |i: usize, name: &str, dims: &[usize]| match args.opt(i) {
            Some(t) if t.dims() != dims => invalid!("input {name} has shape {:?}, expected {dims:?}", t.dims()),
            _ => Ok(()),
        };
        expect(1, "W", &[dirs, rows, features])?;
        expect(2, "R", &[dirs, rows, hidden])?;
        expect(3, "B", &[dirs, 2 * rows])?;
        expect(4, "sequence_lens", &[batch])?;
        let state = if self.batch_first { [batch, dirs, hidden] } else { [dirs, batch, hidden] };
        expect(5, "initial_h", &state)?;
        if self.cell == Cell::Lstm {
            expect(6, "initial_c", &state)?;
            expect(7, "P", &[dirs, 3 * hidden])?;
        }
        let lens: Vec<usize> = match args.ints(4)? {
            None => vec![steps; batch],
            Some(v) => match v.iter().map(|&n| usize::try_from(n).ok().filter(|&n| n <= steps)).collect() {
                Some(v) => v,
                None => return invalid!("input sequence_lens is {v:?}, expected lengths up to {steps}"),
            },
        };
        let y_dims = if self.batch_first { [batch, steps, dirs, hidden] } else { [steps, dirs, batch, hidden] };
        let mut y = alloc::<T>(ctx, &y_dims)?;
        let mut y_h = alloc::<T>(ctx, &state)?;
        let mut y_c = if self.cell == Cell::Lstm { Some(alloc::<T>(ctx, &state)?) } else { None };
        // Steps behind a sequence's end are zero.
        elements_mut::<T>(&mut y)?.fill(T::ZERO);
        for d in 0..dirs {
            let c = y_c.as_mut().map(elements_mut::<T>).transpose()?;
            let sizes = Sizes { steps, batch, features, hidden, dirs, lens: &lens };
            self.direction(args, d, &sizes, elements_mut(&mut y)?, elements_mut(&mut y_h)?, c)?;
        }
        let mut outs: Outs = smallvec::smallvec![Some(y), Some(y_h)];
        outs.extend(y_c.map(Some));
        Ok(outs)
    }

    fn direction<T: Real>(
        &self,
        args: &Args,
        d: usize,
        sizes: &Sizes<'_>,
        y: &mut [T],
        y_h: &mut [T],
        mut y_c: Option<&mut [T]>,
    ) -> Result<(), KernelError> {
        let &Sizes { steps, batch, features, hidden, dirs, lens } = sizes;
        let rows = self.cell.gates() * hidden;
        let (reverse, acts) = &self.directions[d];
        let x = args.slice::<T>(0)?;
        let w = Mat::new(&args.slice::<T>(1)?[d * rows * features..], rows, features)?.t();
        let r_all = &args.slice::<T>(2)?[d * rows * hidden..][..rows * hidden];
        let bias: Option<&[T]> = args.opt_slice::<T>(3)?.map(|b| &b[d * 2 * rows..][..2 * rows]);
        let peephole = if self.cell == Cell::Lstm { args.opt_slice::<T>(7)?.map(|p| &p[d * 3 * hidden..][..3 * hidden]) } else { None };
        // The recurrent bias of a GRU's hidden gate is inside of the reset when that comes after the product.
        let inner = self.cell == Cell::Gru && self.linear_before_reset;
        let len = steps * batch * rows;
        let mut inputs = vec![T::ZERO; len];
        if let Some(b) = bias
            && rows > 0
        {
            for row in inputs.chunks_mut(rows) {
                for (i, v) in row.iter_mut().enumerate() {
                    *v = b[i] + if inner && i >= 2 * hidden { T::ZERO } else { b[rows + i] };
                }
            }
        }
        gemm(&mut inputs, rows, Mat::new(x, steps * batch, features)?, w, T::ONE, T::ONE, Threads::Pool)?;

        let initial = |i: usize| -> Result<Vec<T>, KernelError> {
            let mut v = vec![T::ZERO; batch * hidden];
            if let Some(s) = args.opt_slice::<T>(i)? {
                for b in 0..batch {
                    v[b * hidden..][..hidden].copy_from_slice(&s[state_at(self.batch_first, d, b, dirs, batch, hidden)..][..hidden]);
                }
            }
            Ok(v)
        };
        let mut h = initial(5)?;
        let mut c = if self.cell == Cell::Lstm { initial(6)? } else { Vec::new() };
        let mut recurrent = vec![T::ZERO; batch * rows];
        let mut reset = vec![T::ZERO; batch * hidden];
        let mut late = vec![T::ZERO; batch * hidden];
        for step in 0..steps {
            let early = if self.cell == Cell::Gru && !self.linear_before_reset { 2 * hidden } else { rows };
            let r = Mat::new(&r_all[..early * hidden], early, hidden)?.t();
            gemm(&mut recurrent, rows, Mat::new(&h, batch, hidden)?, r, T::ZERO, T::ONE, Threads::Pool)?;
            let live = |b: usize| step < lens[b];
            // Every sequence is reversed within its own length.
            let place = |b: usize| if *reverse { lens[b] - 1 - step } else { step };
            let input_at = |b: usize| if self.batch_first { b * steps + place(b) } else { place(b) * batch + b } * rows;
            if early < rows {
                for b in (0..batch).filter(|&b| live(b)) {
                    let (pre, rec) = (&inputs[input_at(b)..][..rows], &recurrent[b * rows..][..rows]);
                    for i in 0..hidden {
                        let gate = acts[0].apply(self.clipped(pre[hidden + i] + rec[hidden + i]));
                        reset[b * hidden + i] = gate * h[b * hidden + i];
                    }
                }
                let r = Mat::new(&r_all[early * hidden..], hidden, hidden)?.t();
                gemm(&mut late, hidden, Mat::new(&reset, batch, hidden)?, r, T::ZERO, T::ONE, Threads::Pool)?;
            }
            for b in (0..batch).filter(|&b| live(b)) {
                let (pre, rec) = (&inputs[input_at(b)..][..rows], &recurrent[b * rows..][..rows]);
                let h = &mut h[b * hidden..][..hidden];
                match self.cell {
                    Cell::Rnn => {
                        for i in 0..hidden {
                            h[i] = acts[0].apply(self.clipped(pre[i] + rec[i]));
                        }
                    }
                    Cell::Gru => {
                        for i in 0..hidden {
                            let z = acts[0].apply(self.clipped(pre[i] + rec[i]));
                            let inside = if inner {
                                let gate = acts[0].apply(self.clipped(pre[hidden + i] + rec[hidden + i]));
                                gate * (rec[2 * hidden + i] + bias.map_or(T::ZERO, |b| b[rows + 2 * hidden + i]))
                            } else {
                                late[b * hidden + i]
                            };
                            let new = acts[1].apply(self.clipped(pre[2 * hidden + i] + inside));
                            h[i] = (T::ONE - z) * new + z * h[i];
                        }
                    }
                    Cell::Lstm => {
                        let c = &mut c[b * hidden..][..hidden];
                        for i in 0..hidden {
                            let p = |at: usize, c: T| peephole.map_or(T::ZERO, |p| p[at * hidden + i] * c);
                            let sum = |gate: usize| pre[gate * hidden + i] + rec[gate * hidden + i];
                            // Gates stand in the order input, output, forget, cell; so do the peepholes.
                            let input = acts[0].apply(self.clipped(sum(0) + p(0, c[i])));
                            let forget = if self.input_forget { T::ONE - input } else { acts[0].apply(self.clipped(sum(2) + p(2, c[i]))) };
                            let cell = acts[1].apply(self.clipped(sum(3)));
                            c[i] = forget * c[i] + input * cell;
                            let output = acts[0].apply(self.clipped(sum(1) + p(1, c[i])));
                            h[i] = output * acts[2].apply(c[i]);
                        }
                    }
                }
                let t = place(b);
                let at = if self.batch_first { ((b * steps + t) * dirs + d) * hidden } else { ((t * dirs + d) * batch + b) * hidden };
                y[at..][..hidden].copy_from_slice(h);
            }
        }
        for b in 0..batch {
            let at = state_at(self.batch_first, d, b, dirs, batch, hidden);
            y_h[at..][..hidden].copy_from_slice(&h[b * hidden..][..hidden]);
            if let Some(y_c) = y_c.as_deref_mut() {
                y_c[at..][..hidden].copy_from_slice(&c[b * hidden..][..hidden]);
            }
        }
        Ok(())
    }

    #[inline]
    fn clipped<T: Real>(&self, x: T) -> T {
        match self.clip {
            Some(c) => x.max(T::of(-c)).min(T::of(c)),
            None => x,
        }
    }
}

struct Sizes<'a> {
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    dirs: usize,
    lens: &'a [usize],
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};

    fn sigmoid(x: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }

    #[test]
    fn lstm_matches_its_equations_both_ways() {
        let rng = Rng::new(11);
        let (steps, batch, n, h) = (4, 2, 3, 5);
        let (x, w, r) = (rng.floats(&[steps, batch, n]), rng.floats(&[2, 4 * h, n]), rng.floats(&[2, 4 * h, h]));
        let b = rng.floats(&[2, 8 * h]);
        let case = Case::new("LSTM", 14).text("direction", "bidirectional").int("hidden_size", h as i64).outputs(3);
        let outs = case.run(&[Some(x.clone()), Some(w.clone()), Some(r.clone()), Some(b.clone())]).unwrap();
        let (x, w, r, b) = (vec_of::<f32>(&x), vec_of::<f32>(&w), vec_of::<f32>(&r), vec_of::<f32>(&b));
        let mut want = vec![0.0; steps * 2 * batch * h];
        for (d, item) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (mut hs, mut cs) = (vec![0f32; h], vec![0f32; h]);
            for s in 0..steps {
                let t = if d == 1 { steps - 1 - s } else { s };
                let gate = |g: usize, i: usize| {
                    let row = d * 4 * h + g * h + i;
                    let xs: f32 = (0..n).map(|j| x[(t * batch + item) * n + j] * w[row * n + j]).sum();
                    let rs: f32 = (0..h).map(|j| hs[j] * r[row * h + j]).sum();
                    xs + rs + b[d * 8 * h + g * h + i] + b[d * 8 * h + 4 * h + g * h + i]
                };
                let gates: Vec<[f32; 4]> = (0..h).map(|i| [gate(0, i), gate(1, i), gate(2, i), gate(3, i)]).collect();
                for (i, g) in gates.iter().enumerate() {
                    cs[i] = sigmoid(g[2]) * cs[i] + sigmoid(g[0]) * g[3].tanh();
                    hs[i] = sigmoid(g[1]) * cs[i].tanh();
                    want[((t * 2 + d) * batch + item) * h + i] = hs[i];
                }
            }
        }
        close(outs[0].as_ref().unwrap(), &want, "Y");
    }

    #[test]
    fn wrong_shapes_are_named() {
        let rng = Rng::new(12);
        let ins = [rng.floats(&[2, 1, 3]), rng.floats(&[1, 9, 3]), rng.floats(&[1, 9, 4])];
        let e = Case::new("GRU", 14).int("hidden_size", 3).one(&ins).unwrap_err().to_string();
        assert!(e.contains("input R"), "{e}");
        assert!(Case::new("GRU", 14).int("hidden_size", i64::MAX).one(&ins).is_err());
    }
}
