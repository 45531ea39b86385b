//! Calls of torch operators with arguments that nobody would pass, made from bytes.

use std::sync::{Arc, LazyLock};

use super::ModelBuilder;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Attr, AttrValue, Dialect, Op, ValueType};
use crate::lower::is_lowered;
use crate::lower::schemas::{Schema, names};
use crate::model::Model;
use crate::shape::{Dim, Shape};
use crate::weights::WeightRef;

/// Numbers that programs stumble over, and common ones.
const NUMBERS: [i64; 20] =
    [0, 1, 2, 3, 4, -1, -2, 5, 6, 8, 16, 33, 64, 1 << 16, 1 << 31, 1 << 40, i64::MAX, i64::MIN, i64::MAX - 1, -(1 << 62)];

/// Takes numbers from bytes; zeros once there are no more.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first)
    }

    /// Small numbers more often than large ones.
    fn number(&mut self) -> i64 {
        let at = self.byte();
        NUMBERS[if at < 160 { at % 8 } else { at % NUMBERS.len() }]
    }

    fn numbers(&mut self) -> Box<[i64]> {
        (0..self.byte() % 5).map(|_| self.number()).collect()
    }

    fn dtype(&mut self) -> Option<DType> {
        let of = [DType::F32, DType::I64, DType::Bool, DType::F16, DType::U8, DType::C64];
        of.get(self.byte() % 7).copied()
    }

    fn shape(&mut self) -> Shape {
        let rank = self.byte() % 8;
        if rank == 7 {
            return Shape::UNKNOWN;
        }
        let dims: Vec<Dim> = (0..rank.min(5))
            .map(|_| match self.number() {
                -1 => Dim::Unknown,
                -2 => Dim::from_expr(Expr::var("s0")),
                n => u64::try_from(n).map_or(Dim::Unknown, Dim::Known),
            })
            .collect();
        Shape::new(dims)
    }
}

/// A tensor that the call reads.
struct Tensor {
    dtype: Option<DType>,
    shape: Shape,
    ty: ValueType,
    /// Its elements, where it is a constant.
    stored: Option<WeightRef>,
}

impl Tensor {
    fn new(s: &mut Source<'_>) -> Self {
        let kind = s.byte() % 8;
        if kind == 0 {
            let data: Vec<u8> = s.numbers().iter().flat_map(|n| n.to_le_bytes()).collect();
            let shape = [data.len() as u64 / 8];
            let stored = WeightRef::inline(DType::I64, &shape, data);
            return Self { dtype: Some(DType::I64), shape: Shape::known(&shape), ty: ValueType::Tensor, stored: Some(stored) };
        }
        if kind == 1 {
            return Self { dtype: s.dtype(), shape: Shape::known(&[]), ty: ValueType::Scalar, stored: None };
        }
        Self { dtype: s.dtype(), shape: s.shape(), ty: ValueType::Tensor, stored: None }
    }
}

fn op(name: &str) -> Op {
    let mut parts = name.splitn(3, '.');
    let mut part = || parts.next().unwrap_or_default().into();
    Op { dialect: Dialect::Aten, domain: part(), name: part(), overload: part() }
}

/// A model of one torch operator, which the first two bytes choose; the others choose its arguments and results.
#[must_use]
pub fn torch_call(bytes: &[u8]) -> Model {
    let mut s = Source(bytes);
    static LOWERED: LazyLock<Vec<&str>> = LazyLock::new(|| names().iter().copied().filter(|n| is_lowered(&op(n))).collect());
    let all = &*LOWERED;
    let name = all[(s.byte() << 8 | s.byte()) % all.len()];
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut attrs: Vec<Attr> = Vec::new();
    let read = |s: &mut Source<'_>, tensors: &mut Vec<Tensor>| {
        if tensors.is_empty() || !s.byte().is_multiple_of(4) {
            tensors.push(Tensor::new(s));
            return AttrValue::Input(tensors.len() - 1);
        }
        AttrValue::Input(s.byte() % tensors.len())
    };
    let schema = Schema::named(name).expect("the name is that of a schema");
    for (i, argument) in schema.arguments().enumerate() {
        // First arguments are tensors most of the time.
        let kind = s.byte();
        let kind = match (i, schema.default(argument)) {
            (0, _) if kind < 220 => 1,
            (_, Some(_)) if kind < 160 => continue,
            _ => kind % 13,
        };
        let value = match kind {
            0 => continue,
            1..=3 => read(&mut s, &mut tensors),
            4 => AttrValue::List((0..s.byte() % 4).map(|_| read(&mut s, &mut tensors)).collect()),
            5 | 6 => AttrValue::Int(s.number()),
            7 | 8 => AttrValue::Ints(s.numbers()),
            9 => AttrValue::Float([0.0, 1.0, -1.5, f64::NAN, f64::INFINITY, 1e300][s.byte() % 6]),
            10 => AttrValue::Bool(s.byte().is_multiple_of(2)),
            11 => {
                let texts: [&[u8]; 8] = [b"", b"none", b"same", b"valid", b"bilinear", b"ij,jk->ik", b"...,i->", b"xy"];
                AttrValue::Bytes(texts[s.byte() % texts.len()].into())
            }
            _ => AttrValue::None,
        };
        attrs.push(Attr { name: argument.into(), value });
    }
    let label = |i: usize, t: &Tensor| if t.stored.is_some() { format!("w.{i}") } else { format!("t{i}") };
    let inputs: Vec<String> = tensors.iter().enumerate().map(|(i, t)| label(i, t)).collect();
    let outputs: Vec<String> = (0..(s.byte() % 8).clamp(1, 4)).map(|i| format!("o{i}")).collect();
    let (inputs, outputs): (Vec<&str>, Vec<&str>) =
        (inputs.iter().map(String::as_str).collect(), outputs.iter().map(String::as_str).collect());
    let mut b = ModelBuilder::new().node("call", "Call", &inputs, &outputs).with(|n| {
        n.op = Arc::new(op(name));
        n.attrs = attrs.into();
    });
    for (name, t) in inputs.iter().zip(tensors) {
        b = match t.stored {
            Some(stored) => b.weight(name, stored),
            None => b.typed(name, t.dtype, t.shape).kind(name, t.ty),
        };
    }
    for name in outputs {
        b = b.typed(name, s.dtype(), s.shape());
    }
    b.build()
}
