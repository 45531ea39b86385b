//! Runs one operator in tests.

use std::sync::Arc;

use recut_core::dtype::DType;
use recut_core::graph::{Attr, AttrValue, Node, Op, ValueId};
use recut_core::modules::ModuleId;

use super::{BufferPool, Inputs, KernelError, PrepareCtx, RunCtx, Slot, registry};
use crate::tensor::{Element, Tensor, Value};

/// A fixed sequence of numbers (xorshift).
pub(super) struct Rng(std::cell::Cell<u64>);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(std::cell::Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub(super) fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        x
    }

    /// In `lo..hi`.
    pub(super) fn below(&self, lo: usize, hi: usize) -> usize {
        lo + (self.next() >> 20) as usize % (hi - lo)
    }

    /// In `-1..1`.
    pub(super) fn unit(&self) -> f32 {
        ((self.next() >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }

    pub(super) fn floats(&self, dims: &[usize]) -> Tensor {
        let v: Vec<f32> = (0..dims.iter().product()).map(|_| self.unit()).collect();
        Tensor::from_slice(dims, &v).unwrap()
    }

    pub(super) fn bytes(&self, dims: &[usize], signed: bool) -> Tensor {
        let v: Vec<u8> = (0..dims.iter().product()).map(|_| self.next() as u8).collect();
        let t = Tensor::from_slice(dims, &v).unwrap();
        if signed { t.retyped(DType::I8) } else { t }
    }
}

/// A node to run.
pub(super) struct Case {
    domain: &'static str,
    op: &'static str,
    opset: i64,
    attrs: Vec<Attr>,
    outputs: usize,
    constant: bool,
}

impl Case {
    pub(super) fn new(op: &'static str, opset: i64) -> Self {
        Self { domain: "", op, opset, attrs: Vec::new(), outputs: 1, constant: false }
    }

    pub(super) fn outputs(mut self, n: usize) -> Self {
        self.outputs = n;
        self
    }

    /// Whether inputs after the first are constants.
    pub(super) fn constant(mut self, yes: bool) -> Self {
        self.constant = yes;
        self
    }

    fn attr(mut self, name: &str, value: AttrValue) -> Self {
        self.attrs.push(Attr { name: name.into(), value });
        self
    }

    pub(super) fn int(self, name: &str, i: i64) -> Self {
        self.attr(name, AttrValue::Int(i))
    }

    pub(super) fn float(self, name: &str, x: f64) -> Self {
        self.attr(name, AttrValue::Float(x))
    }

    pub(super) fn ints(self, name: &str, v: &[i64]) -> Self {
        self.attr(name, AttrValue::Ints(v.into()))
    }

    pub(super) fn text(self, name: &str, s: &str) -> Self {
        self.attr(name, AttrValue::Bytes(s.as_bytes().into()))
    }

    pub(super) fn run(&self, inputs: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>, KernelError> {
        let ids = |n: usize| (0..n).map(|i| Some(ValueId::new(i))).collect::<Box<[_]>>();
        let node = Node {
            name: "node".into(),
            op: Arc::new(Op { domain: self.domain.into(), ..Op::onnx(self.op) }),
            inputs: inputs.iter().enumerate().map(|(i, t)| t.as_ref().map(|_| ValueId::new(i))).collect(),
            outputs: ids(self.outputs),
            attrs: self.attrs.clone().into(),
            bodies: Box::default(),
            captures: Box::default(),
            module: ModuleId::ROOT,
            call: None,
            torch_op: None,
            fx_node: None,
            stack_trace: None,
            ordinal: 0,
            opset: None,
        };
        let constants: Vec<Option<Tensor>> =
            inputs.iter().enumerate().map(|(i, t)| if self.constant && i > 0 { t.clone() } else { None }).collect();
        let entry = registry::lookup(self.domain, self.op, self.opset).expect("the operator has a kernel");
        let kernel = (entry.factory)(&PrepareCtx { node: &node, opset: self.opset, constants: &constants })?;
        let mut slots: Vec<Option<Slot>> =
            inputs.iter().map(|t| t.clone().map(|t| Slot { value: Value::Tensor(t), last_use: false })).collect();
        let outs = kernel.run(&mut RunCtx { pool: &mut BufferPool::default() }, Inputs::new(&mut slots))?;
        Ok(outs.into_iter().map(|o| o.and_then(|v| v.as_tensor().cloned())).collect())
    }

    /// The first output.
    pub(super) fn one(&self, inputs: &[Tensor]) -> Result<Tensor, KernelError> {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        Ok(self.run(&inputs)?.into_iter().next().flatten().expect("an output"))
    }
}

pub(super) fn vec_of<T: Element>(t: &Tensor) -> Vec<T> {
    t.as_slice::<T>().unwrap_or_else(|| panic!("a tensor is {}", t.dtype())).to_vec()
}

pub(super) fn close(got: &Tensor, want: &[f32], what: &str) {
    let got = vec_of::<f32>(got);
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-4 + 1e-4 * w.abs(), "{what}: element {i} is {g}, expected {w}");
    }
}
