//! Values while lowering: what is known of them, constants, and the small steps that most rules are made of.

use super::call::{Number, Res, Size};
use super::level::Fact;
use super::walk::Lower;
use crate::dtype::DType;
use crate::graph::{AttrValue, ValueId};
use crate::shape::{Dim, Shape};

/// Attributes that are put together on the way.
pub(super) type AttrList = Vec<(&'static str, AttrValue)>;

/// An integer attribute.
pub(super) fn int(n: i64) -> AttrValue {
    AttrValue::Int(n)
}

/// An integer-list attribute.
pub(super) fn ints(v: &[i64]) -> AttrValue {
    AttrValue::Ints(v.into())
}

/// A number attribute.
pub(super) fn float(x: f64) -> AttrValue {
    AttrValue::Float(x)
}

/// A text attribute.
pub(super) fn text(t: &str) -> AttrValue {
    AttrValue::Bytes(t.as_bytes().into())
}

/// The `to` attribute of a cast.
pub(super) fn type_number(dtype: DType) -> AttrValue {
    AttrValue::Int(i64::from(dtype.to_onnx()))
}

/// The bytes of one number as an element of type `dtype`; `None` for types that lowering makes no constants of.
fn element(dtype: DType, x: Number) -> Option<Vec<u8>> {
    let (as_f, as_i) = match x {
        Number::Bool(b) => (f64::from(u8::from(b)), i64::from(b)),
        Number::Int(n) => (n as f64, n),
        Number::Float(x) => (x, x as i64),
        Number::Value(_) => return None,
    };
    Some(match dtype {
        DType::F64 => as_f.to_le_bytes().to_vec(),
        DType::F32 => (as_f as f32).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(as_f).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(as_f).to_le_bytes().to_vec(),
        DType::I64 => as_i.to_le_bytes().to_vec(),
        DType::I32 => (as_i as i32).to_le_bytes().to_vec(),
        DType::I16 => (as_i as i16).to_le_bytes().to_vec(),
        DType::I8 => (as_i as i8).to_le_bytes().to_vec(),
        DType::U8 => (as_i as u8).to_le_bytes().to_vec(),
        DType::U16 => (as_i as u16).to_le_bytes().to_vec(),
        DType::U32 => (as_i as u32).to_le_bytes().to_vec(),
        DType::U64 => (as_i as u64).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(as_f != 0.0)],
        _ => return None,
    })
}

impl Lower<'_> {
    /// Element type of a value.
    pub(super) fn dtype(&self, v: ValueId) -> Res<DType> {
        self.level.get(v).dtype.ok_or_else(|| "the element type of an input is not known".to_owned())
    }

    /// Shape of a value.
    pub(super) fn shape(&self, v: ValueId) -> Shape {
        self.level.get(v).shape.clone()
    }

    /// Number of axes of a value.
    pub(super) fn rank(&self, v: ValueId) -> Res<usize> {
        self.level.get(v).shape.rank().ok_or_else(|| "the number of axes of an input is not known".to_owned())
    }

    /// Sizes of a value, where all are known.
    pub(super) fn static_dims(&self, v: ValueId) -> Option<Vec<i64>> {
        self.level.get(v).shape.dims()?.iter().map(static_size).collect()
    }

    /// Size of an axis, where it is known.
    pub(super) fn static_dim(&self, v: ValueId, axis: usize) -> Option<i64> {
        static_size(self.level.get(v).shape.dims()?.get(axis)?)
    }

    /// What is known of a value.
    pub(super) fn fact(&self, v: ValueId) -> Fact {
        Fact::of_value(self.level.get(v))
    }

    /// [`Lower::axis`] of what is no scalar.
    pub(super) fn own_axis(&self, v: ValueId, axis: i64) -> Res<usize> {
        if self.rank(v)? == 0 { Err("its input is a scalar".to_owned()) } else { self.axis(v, axis) }
    }

    /// An axis counted from 0; negative ones count from behind. A scalar has one axis to torch.
    pub(super) fn axis(&self, v: ValueId, axis: i64) -> Res<usize> {
        axis_of(axis, self.rank(v)?)
    }

    /// Constant integers on one axis.
    pub(super) fn i64s(&mut self, v: &[i64]) -> ValueId {
        self.level.constant(DType::I64, &[v.len() as u64], v.iter().flat_map(|n| n.to_le_bytes()).collect())
    }

    /// A constant 0-d tensor.
    pub(super) fn scalar(&mut self, dtype: DType, x: Number) -> Res<ValueId> {
        if let Number::Value(v) = x {
            return Ok(self.cast(v, dtype));
        }
        let bytes = element(dtype, x).ok_or_else(|| format!("no constant of type {dtype} can be made"))?;
        Ok(self.level.constant(dtype, &[], bytes))
    }

    /// A constant 0-d number of a floating-point type.
    pub(super) fn number(&mut self, dtype: DType, x: f64) -> Res<ValueId> {
        self.scalar(dtype, Number::Float(x))
    }

    /// A constant of the same number along axes of these sizes.
    pub(super) fn filled(&mut self, dtype: DType, dims: &[u64], x: f64) -> Res<ValueId> {
        let count = dims.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        if count > 1 << 16 {
            return Err(format!("a constant of {count} elements would be needed"));
        }
        let one = element(dtype, Number::Float(x)).ok_or_else(|| format!("no constant of type {dtype} can be made"))?;
        Ok(self.level.constant(dtype, dims, one.repeat(count as usize)))
    }

    /// Another element type; the value itself where it has that type.
    pub(super) fn cast(&mut self, v: ValueId, dtype: DType) -> ValueId {
        if self.level.get(v).dtype == Some(dtype) {
            return v;
        }
        let shape = self.shape(v);
        self.emit_fact("Cast", &[Some(v)], &[("to", type_number(dtype))], Fact::of(Some(dtype), shape))
    }

    /// An element-wise node over one value.
    pub(super) fn map(&mut self, op: &'static str, v: ValueId, dtype: DType) -> ValueId {
        let shape = self.shape(v);
        self.emit_fact(op, &[Some(v)], &[], Fact::of(Some(dtype), shape))
    }

    /// An element-wise node over two values that broadcast.
    pub(super) fn zip(&mut self, op: &'static str, a: ValueId, b: ValueId, dtype: DType) -> ValueId {
        let shape = broadcast(&self.shape(a), &self.shape(b));
        self.emit_fact(op, &[Some(a), Some(b)], &[], Fact::of(Some(dtype), shape))
    }

    /// Sizes as one value: constants and values joined.
    pub(super) fn sizes(&mut self, sizes: &[Size]) -> ValueId {
        if let Some(known) = all_known(sizes) {
            return self.i64s(&known);
        }
        let parts: Vec<ValueId> = sizes
            .iter()
            .map(|s| match *s {
                Size::Known(n) => self.i64s(&[n]),
                Size::Value(v) => self.one_axis(v),
            })
            .collect();
        if let [one] = parts[..] {
            return one;
        }
        self.emit("Concat", &parts, &[("axis", int(0))], DType::I64)
    }

    /// A 0-d integer as a tensor of one element on one axis.
    fn one_axis(&mut self, v: ValueId) -> ValueId {
        let v = self.cast(v, DType::I64);
        let shape = self.i64s(&[1]);
        self.emit_fact("Reshape", &[Some(v), Some(shape)], &[], Fact::of(Some(DType::I64), Shape::known(&[1])))
    }

    /// A size as a 0-d value.
    pub(super) fn size_value(&mut self, s: Size) -> ValueId {
        match s {
            Size::Known(n) => self.level.constant(DType::I64, &[], n.to_le_bytes().to_vec()),
            Size::Value(v) => v,
        }
    }

    /// Size of an axis: a number where it is known.
    pub(super) fn size_of(&mut self, v: ValueId, axis: usize) -> Size {
        if let Some(n) = self.static_dim(v, axis) {
            return Size::Known(n);
        }
        let axis = axis as i64;
        let list = [("start", int(axis)), ("end", int(axis + 1))];
        let one = self.emit_fact("Shape", &[Some(v)], &list, Fact::of(Some(DType::I64), Shape::known(&[1])));
        let zero = self.i64s(&[0]);
        Size::Value(self.emit_fact("Squeeze", &[Some(one), Some(zero)], &[], Fact::of(Some(DType::I64), Shape::known(&[]))))
    }

    /// The sizes of a value.
    pub(super) fn sizes_of(&mut self, v: ValueId) -> Res<Vec<Size>> {
        Ok((0..self.rank(v)?).map(|i| self.size_of(v, i)).collect())
    }

    /// Product of sizes.
    pub(super) fn size_product(&mut self, sizes: &[Size]) -> Size {
        sizes.iter().copied().fold(Size::Known(1), |a, b| match (a, b) {
            (Size::Known(a), Size::Known(b)) => Size::Known(a.saturating_mul(b)),
            (Size::Known(1), other) | (other, Size::Known(1)) => other,
            (a, b) => {
                let (a, b) = (self.size_value(a), self.size_value(b));
                Size::Value(self.zip("Mul", a, b, DType::I64))
            }
        })
    }

    /// Another shape. `-1` is filled in.
    pub(super) fn reshape(&mut self, v: ValueId, to: &[Size]) -> ValueId {
        let shape: Vec<Dim> = to
            .iter()
            .map(|s| match *s {
                Size::Known(n) => u64::try_from(n).map_or(Dim::Unknown, Dim::Known),
                Size::Value(_) => Dim::Unknown,
            })
            .collect();
        let dtype = self.level.get(v).dtype;
        // 0 is a size here, and does not mean "as it was".
        let zero = all_known(to).is_some_and(|sizes| sizes.contains(&0));
        let to = self.sizes(to);
        let list: &[(&'static str, AttrValue)] = if zero { &[("allowzero", int(1))] } else { &[] };
        self.emit_fact("Reshape", &[Some(v), Some(to)], list, Fact::of(dtype, Shape::new(shape)))
    }

    /// Another shape of known sizes; `-1` is filled in.
    pub(super) fn reshape_to(&mut self, v: ValueId, to: &[i64]) -> ValueId {
        let to: Vec<Size> = to.iter().map(|&n| Size::Known(n)).collect();
        self.reshape(v, &to)
    }

    /// Axes of size 1 put in at these positions of the result.
    pub(super) fn unsqueeze(&mut self, v: ValueId, axes: &[usize]) -> ValueId {
        if axes.is_empty() {
            return v;
        }
        let fact = self.fact(v);
        let shape = fact.shape.dims().map(|dims| {
            let mut dims = dims.iter().cloned();
            let rank = dims.len() + axes.len();
            let out: Vec<Dim> =
                (0..rank).map(|i| if axes.contains(&i) { Dim::Known(1) } else { dims.next().unwrap_or(Dim::Unknown) }).collect();
            Shape::new(out)
        });
        let list = self.axes(axes);
        self.emit_fact("Unsqueeze", &[Some(v), Some(list)], &[], Fact::of(fact.dtype, shape.unwrap_or_default()))
    }

    /// Axes of size 1 taken out.
    pub(super) fn squeeze(&mut self, v: ValueId, axes: &[usize]) -> ValueId {
        if axes.is_empty() {
            return v;
        }
        let fact = self.fact(v);
        let shape = fact
            .shape
            .dims()
            .map(|dims| Shape::new(dims.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d.clone()).collect::<Vec<_>>()));
        let list = self.axes(axes);
        self.emit_fact("Squeeze", &[Some(v), Some(list)], &[], Fact::of(fact.dtype, shape.unwrap_or_default()))
    }

    /// Positions of axes as a constant.
    pub(super) fn axes(&mut self, axes: &[usize]) -> ValueId {
        let axes: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
        self.i64s(&axes)
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]`.
    pub(super) fn transpose(&mut self, v: ValueId, order: &[usize]) -> ValueId {
        if order.iter().enumerate().all(|(i, &o)| i == o) {
            return v;
        }
        let fact = self.fact(v);
        let shape =
            fact.shape.dims().map(|d| Shape::new(order.iter().map(|&o| d.get(o).cloned().unwrap_or(Dim::Unknown)).collect::<Vec<_>>()));
        let perm: Vec<i64> = order.iter().map(|&o| o as i64).collect();
        self.emit_fact("Transpose", &[Some(v)], &[("perm", ints(&perm))], Fact::of(fact.dtype, shape.unwrap_or_default()))
    }

    /// Elements `start..end` in steps of one axis.
    pub(super) fn slice(&mut self, v: ValueId, axis: usize, start: Size, end: Size, step: i64) -> ValueId {
        let (start, end) = (self.sizes(&[start]), self.sizes(&[end]));
        let (axes, steps) = (self.axes(&[axis]), self.i64s(&[step]));
        let fact = self.fact(v);
        let shape = fact.shape.dims().map(|d| {
            let mut dims = d.to_vec();
            if let Some(d) = dims.get_mut(axis) {
                *d = Dim::Unknown;
            }
            Shape::new(dims)
        });
        let inputs = [Some(v), Some(start), Some(end), Some(axes), Some(steps)];
        self.emit_fact("Slice", &inputs, &[], Fact::of(fact.dtype, shape.unwrap_or_default()))
    }

    /// Values joined along an axis; one value is itself.
    pub(super) fn concat(&mut self, parts: &[ValueId], axis: usize) -> Res<ValueId> {
        let Some(&first) = parts.first() else { return Err("there is nothing to join".to_owned()) };
        if parts.len() == 1 {
            return Ok(first);
        }
        let dtype = self.dtype(first)?;
        Ok(self.emit("Concat", parts, &[("axis", int(axis as i64))], dtype))
    }

    /// The value along more axes; `-1` and sizes of 1 in `to` leave an axis as it is.
    pub(super) fn expand(&mut self, v: ValueId, to: &[Size]) -> ValueId {
        let kept: Vec<Size> = to.iter().map(|&s| if s == Size::Known(-1) { Size::Known(1) } else { s }).collect();
        let dtype = self.level.get(v).dtype;
        let target = self.sizes(&kept);
        self.emit_fact("Expand", &[Some(v), Some(target)], &[], Fact { dtype, ..Fact::default() })
    }

    /// Some axes turned around.
    pub(super) fn reversed(&mut self, v: ValueId, axes: &[usize]) -> ValueId {
        let n = axes.len();
        let (starts, ends, steps) = (self.i64s(&vec![-1; n]), self.i64s(&vec![i64::MIN; n]), self.i64s(&vec![-1; n]));
        let list = self.axes(axes);
        let fact = self.fact(v);
        self.emit_fact("Slice", &[Some(v), Some(starts), Some(ends), Some(list), Some(steps)], &[], fact)
    }

    /// Sums of all elements of an axis up to each place.
    pub(super) fn running_sum(&mut self, v: ValueId, axis: usize) -> ValueId {
        let axis = self.size_value(Size::Known(axis as i64));
        let fact = self.fact(v);
        self.emit_fact("CumSum", &[Some(v), Some(axis)], &[], fact)
    }

    /// The integers from 0 up to a size.
    pub(super) fn counted(&mut self, n: Size) -> ValueId {
        let shape = match n {
            Size::Known(n) => u64::try_from(n).map_or_else(|_| of_rank(1), |n| Shape::known(&[n])),
            Size::Value(_) => of_rank(1),
        };
        let (from, to, by) = (self.size_value(Size::Known(0)), self.size_value(n), self.size_value(Size::Known(1)));
        self.emit_fact("Range", &[Some(from), Some(to), Some(by)], &[], Fact::of(Some(DType::I64), shape))
    }

    /// Ones on a diagonal of a matrix (`k` above the main one), zeros elsewhere; its sizes are those of `v`.
    pub(super) fn unit_like(&mut self, v: ValueId, k: i64, dtype: DType) -> ValueId {
        let shape = self.shape(v);
        let list = [("dtype", type_number(dtype)), ("k", int(k))];
        self.emit_fact("EyeLike", &[Some(v)], &list, Fact::of(Some(dtype), shape))
    }

    /// A reduction over some axes (over none: of each element alone).
    pub(super) fn reduce(&mut self, op: &'static str, v: ValueId, axes: &[usize], keep: bool, dtype: DType) -> ValueId {
        let list = self.axes(axes);
        let fact = self.fact(v);
        let shape = fact.shape.dims().map(|d| {
            let dims = d.iter().enumerate().filter_map(|(i, d)| match axes.contains(&i) {
                true => keep.then_some(Dim::Known(1)),
                false => Some(d.clone()),
            });
            Shape::new(dims.collect::<Vec<_>>())
        });
        let noop = [("keepdims", int(i64::from(keep))), ("noop_with_empty_axes", int(1))];
        self.emit_fact(op, &[Some(v), Some(list)], &noop, Fact::of(Some(dtype), shape.unwrap_or_default()))
    }

    /// Elements where a condition holds, else others; all three broadcast.
    pub(super) fn select(&mut self, condition: ValueId, yes: ValueId, no: ValueId, dtype: DType) -> ValueId {
        let shape = broadcast(&broadcast(&self.shape(condition), &self.shape(yes)), &self.shape(no));
        self.emit_fact("Where", &[Some(condition), Some(yes), Some(no)], &[], Fact::of(Some(dtype), shape))
    }
}

/// The sizes as numbers, where all are.
pub(super) fn all_known(sizes: &[Size]) -> Option<Vec<i64>> {
    sizes.iter().map(|s| if let Size::Known(n) = s { Some(*n) } else { None }).collect()
}

/// Largest size that counts as known: two of them have a product that 64 bits hold. No tensor that can be run has more
/// elements along one axis.
const MAX_SIZE: u64 = i32::MAX as u64;

fn static_size(dim: &Dim) -> Option<i64> {
    i64::try_from(dim.known().filter(|&n| n <= MAX_SIZE)?).ok()
}

/// A shape of so many axes, of sizes that are not known.
pub(super) fn of_rank(rank: usize) -> Shape {
    Shape::new(vec![Dim::Unknown; rank])
}

/// The order of axes that takes another one back.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &o)| inverse[o] = i);
    inverse
}

/// An axis counted from 0, of so many.
pub(super) fn axis_of(axis: i64, rank: usize) -> Res<usize> {
    let n = rank.max(1) as i64;
    let at = if axis < 0 { axis + n } else { axis };
    usize::try_from(at).ok().filter(|&a| a < n as usize).ok_or_else(|| format!("there is no axis {axis} among {rank}"))
}

/// Axes counted from 0, sorted, of so many; none given means all.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Res<Vec<usize>> {
    if axes.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut axes = axes.iter().map(|&a| axis_of(a, rank)).collect::<Res<Vec<_>>>()?;
    axes.sort_unstable();
    axes.dedup();
    // A scalar's one axis is none to ONNX.
    axes.retain(|&a| a < rank);
    Ok(axes)
}

/// The shape that two broadcast shapes have, as far as it is known.
pub(super) fn broadcast(a: &Shape, b: &Shape) -> Shape {
    let (Some(a), Some(b)) = (a.dims(), b.dims()) else { return Shape::UNKNOWN };
    let rank = a.len().max(b.len());
    let from = |d: &[Dim], i: usize| if i + d.len() < rank { Dim::Known(1) } else { d[i + d.len() - rank].clone() };
    let one = |i: usize| match (from(a, i), from(b, i)) {
        (Dim::Known(1), other) | (other, Dim::Known(1)) => other,
        (a, b) if a == b => a,
        (Dim::Known(n), _) | (_, Dim::Known(n)) => Dim::Known(n),
        _ => Dim::Unknown,
    };
    Shape::new((0..rank).map(one).collect::<Vec<_>>())
}
