//! Comparisons, boolean logic, and what chooses by them: Equal to LessOrEqual, And, Or, Xor, Where, Clip.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::binary::{aligned, legacy_axis};
use super::broadcast::{Plan, zip};
use super::{
    Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, broadcast_dims, cast, half_float, kernel, movement, one, parallel,
};
use crate::tensor::{Element, Tensor};
use crate::{invalid, unsupported};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Equal", 1, |ctx| compare(ctx, Relation::Equal)),
    Entry::onnx("Greater", 1, |ctx| compare(ctx, Relation::Greater)),
    Entry::onnx("GreaterOrEqual", 12, |ctx| compare(ctx, Relation::GreaterOrEqual)),
    Entry::onnx("Less", 1, |ctx| compare(ctx, Relation::Less)),
    Entry::onnx("LessOrEqual", 12, |ctx| compare(ctx, Relation::LessOrEqual)),
    Entry::onnx("And", 1, |ctx| boolean(ctx, |x, y| x & y)),
    Entry::onnx("Or", 1, |ctx| boolean(ctx, |x, y| x | y)),
    Entry::onnx("Xor", 1, |ctx| boolean(ctx, |x, y| x ^ y)),
    Entry::onnx("Where", 9, |_| kernel(select)),
    Entry::onnx("Clip", 1, clip_by_attributes),
    Entry::onnx("Clip", 11, |_| kernel(clip)),
];

#[derive(Clone, Copy, PartialEq)]
enum Relation {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

fn compare(ctx: &PrepareCtx<'_>, relation: Relation) -> Made {
    let axis = legacy_axis(ctx)?;
    kernel(move |ctx, inputs| {
        let a = inputs.tensor(0)?;
        let b = aligned(a, inputs.tensor(1)?, axis)?;
        if a.dtype() != b.dtype() {
            return invalid!("the operands are {} and {}: their types must be the same", a.dtype(), b.dtype());
        }
        match a.dtype() {
            DType::F32 => relate::<f32>(ctx, a, &b, relation),
            DType::F64 => relate::<f64>(ctx, a, &b, relation),
            DType::I8 | DType::I4 | DType::I2 => relate::<i8>(ctx, a, &b, relation),
            DType::I16 => relate::<i16>(ctx, a, &b, relation),
            DType::I32 => relate::<i32>(ctx, a, &b, relation),
            DType::I64 => relate::<i64>(ctx, a, &b, relation),
            DType::U8 | DType::Bool | DType::U4 | DType::U2 => relate::<u8>(ctx, a, &b, relation),
            DType::U16 => relate::<u16>(ctx, a, &b, relation),
            DType::U32 => relate::<u32>(ctx, a, &b, relation),
            DType::U64 => relate::<u64>(ctx, a, &b, relation),
            DType::String if relation == Relation::Equal => equal_strings(ctx, a, &b),
            d if d.is_float() => {
                let (a, b) = (cast::to(ctx, a, DType::F32, true)?, cast::to(ctx, &b, DType::F32, true)?);
                relate::<f32>(ctx, &a, &b, relation)
            }
            other => unsupported!("operands of type {other}"),
        }
    })
}

fn relate<T: Element + PartialOrd>(ctx: &mut RunCtx<'_>, a: &Tensor, b: &Tensor, relation: Relation) -> Result<Outputs, KernelError> {
    let plan = Plan::new([a.dims(), b.dims()])?;
    let mut out = ctx.alloc(DType::Bool, &plan.dims)?;
    let (Some(x), Some(y), Some(dst)) = (a.as_slice::<T>(), b.as_slice::<T>(), out.as_mut_slice::<u8>()) else {
        return invalid!("the operands are {} and {}", a.dtype(), b.dtype());
    };
    match relation {
        Relation::Equal => zip(&plan, x, y, dst, 1, |x, y| u8::from(x == y)),
        Relation::Greater => zip(&plan, x, y, dst, 1, |x, y| u8::from(x > y)),
        Relation::GreaterOrEqual => zip(&plan, x, y, dst, 1, |x, y| u8::from(x >= y)),
        Relation::Less => zip(&plan, x, y, dst, 1, |x, y| u8::from(x < y)),
        Relation::LessOrEqual => zip(&plan, x, y, dst, 1, |x, y| u8::from(x <= y)),
    }
    Ok(one(out))
}

fn equal_strings(ctx: &mut RunCtx<'_>, a: &Tensor, b: &Tensor) -> Result<Outputs, KernelError> {
    let plan = Plan::new([a.dims(), b.dims()])?;
    let mut out = ctx.alloc(DType::Bool, &plan.dims)?;
    let refs = |t: &Tensor| -> Vec<usize> { (0..t.len()).collect() };
    let (x, y) = (a.as_strings().unwrap_or_default(), b.as_strings().unwrap_or_default());
    if let Some(dst) = out.as_mut_slice::<u8>() {
        zip(&plan, &refs(a), &refs(b), dst, 4, |i, j| u8::from(x[i] == y[j]));
    }
    Ok(one(out))
}

fn boolean(ctx: &PrepareCtx<'_>, f: fn(u8, u8) -> u8) -> Made {
    let axis = legacy_axis(ctx)?;
    kernel(move |ctx, inputs| {
        let a = inputs.tensor(0)?;
        let b = aligned(a, inputs.tensor(1)?, axis)?;
        if a.dtype() != DType::Bool || b.dtype() != DType::Bool {
            return invalid!("the operands are {} and {}, expected bool", a.dtype(), b.dtype());
        }
        let plan = Plan::new([a.dims(), b.dims()])?;
        let mut out = ctx.alloc(DType::Bool, &plan.dims)?;
        if let (Some(x), Some(y), Some(dst)) = (a.as_slice::<u8>(), b.as_slice::<u8>(), out.as_mut_slice::<u8>()) {
            zip(&plan, x, y, dst, 1, |x, y| f(u8::from(x != 0), u8::from(y != 0)));
        }
        Ok(one(out))
    })
}

fn choose<T: bytemuck::Pod + Send + Sync>(plan: &Plan<3>, c: &[u8], x: &[T], y: &[T], out: &mut [T]) {
    parallel::pieces(out, 1, 2, |start, piece| {
        plan.runs(start, piece.len(), &mut |o, n, [i, j, k]| {
            let dst = &mut piece[o..o + n];
            match plan.step {
                [1, 1, 1] => {
                    let both = x[j..j + n].iter().zip(&y[k..k + n]);
                    dst.iter_mut().zip(c[i..i + n].iter().zip(both)).for_each(|(d, (&c, (&x, &y)))| *d = if c != 0 { x } else { y });
                }
                [1, 0, 1] => {
                    let x = x[j];
                    dst.iter_mut().zip(c[i..i + n].iter().zip(&y[k..k + n])).for_each(|(d, (&c, &y))| *d = if c != 0 { x } else { y });
                }
                [1, 1, 0] => {
                    let y = y[k];
                    dst.iter_mut().zip(c[i..i + n].iter().zip(&x[j..j + n])).for_each(|(d, (&c, &x))| *d = if c != 0 { x } else { y });
                }
                [a, b, e] => {
                    for (m, d) in dst.iter_mut().enumerate() {
                        *d = if c[i + m * a] != 0 { x[j + m * b] } else { y[k + m * e] };
                    }
                }
            }
        });
    });
}

fn select(ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let (c, x, y) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    if c.dtype() != DType::Bool {
        return invalid!("the condition (input 0) is {}, expected bool", c.dtype());
    }
    if x.dtype() != y.dtype() {
        return invalid!("inputs 1 and 2 are {} and {}: their types must be the same", x.dtype(), y.dtype());
    }
    let dims = broadcast_dims(&[c.dims(), x.dims(), y.dims()])?;
    let plan = Plan::to_dims(dims, [c.dims(), x.dims(), y.dims()]);
    let condition = c.bytes();
    if let (Some(xs), Some(ys)) = (x.as_strings(), y.as_strings()) {
        let places = |from: usize, n: usize| -> Vec<u64> { (from..from + n).map(|i| i as u64).collect() };
        let mut picked = Tensor::zeros(DType::U64, &plan.dims)?;
        let (a, b) = (places(0, xs.len()), places(xs.len(), ys.len()));
        choose(&plan, condition, &a, &b, picked.as_mut_slice().unwrap_or_default());
        return Ok(one(movement::strings_at(&picked, &[xs, ys])?));
    }
    let mut out = ctx.alloc(x.dtype(), &plan.dims)?;
    movement::by_width!(x.dtype(), T => {
        choose::<T>(&plan, condition, bytemuck::cast_slice(x.bytes()), bytemuck::cast_slice(y.bytes()), bytemuck::cast_slice_mut(out.bytes_mut()));
    });
    Ok(one(out))
}

fn limit<T: Element + PartialOrd>(
    ctx: &mut RunCtx<'_>,
    inputs: &mut Inputs<'_>,
    lo: Option<T>,
    hi: Option<T>,
) -> Result<Tensor, KernelError> {
    // Comparisons false for NaN: NaN stays. The upper limit wins where they cross, as in numpy.
    let clip = |x: T| {
        let x = match lo {
            Some(lo) if x < lo => lo,
            _ => x,
        };
        match hi {
            Some(hi) if x > hi => hi,
            _ => x,
        }
    };
    if let Some(mut t) = inputs.take_unique(0) {
        parallel::pieces(t.as_mut_slice::<T>().unwrap_or_default(), 1, 1, |_, p| p.iter_mut().for_each(|x| *x = clip(*x)));
        return Ok(t);
    }
    let x = inputs.tensor(0)?;
    let mut out = ctx.alloc(x.dtype(), x.dims())?;
    if let (Some(src), Some(dst)) = (x.as_slice::<T>(), out.as_mut_slice::<T>()) {
        parallel::map(src, dst, 1, |s, d| d.iter_mut().zip(s).for_each(|(d, &s)| *d = clip(s)));
    }
    Ok(out)
}

fn bound<T: Element>(inputs: &Inputs<'_>, i: usize) -> Result<Option<T>, KernelError> {
    if inputs.value(i).is_none() {
        return Ok(None);
    }
    match inputs.slice::<T>(i)? {
        [x] => Ok(Some(*x)),
        more => invalid!("the limit (input {i}) has {} elements, expected one", more.len()),
    }
}

fn clip(ctx: &mut RunCtx<'_>, mut inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    macro_rules! typed {
        ($T:ty) => {{
            let (lo, hi) = (bound::<$T>(&inputs, 1)?, bound::<$T>(&inputs, 2)?);
            Ok(one(limit(ctx, &mut inputs, lo, hi)?))
        }};
    }
    match inputs.tensor(0)?.dtype() {
        DType::F32 => typed!(f32),
        DType::F64 => typed!(f64),
        DType::F16 => typed!(half::f16),
        DType::Bf16 => typed!(half::bf16),
        DType::I8 => typed!(i8),
        DType::I16 => typed!(i16),
        DType::I32 => typed!(i32),
        DType::I64 => typed!(i64),
        DType::U8 => typed!(u8),
        DType::U16 => typed!(u16),
        DType::U32 => typed!(u32),
        DType::U64 => typed!(u64),
        other => unsupported!("elements of type {other}"),
    }
}

fn clip_by_attributes(ctx: &PrepareCtx<'_>) -> Made {
    let (lo, hi) = (Attrs(ctx.node).opt_float("min")?, Attrs(ctx.node).opt_float("max")?);
    kernel(move |ctx, mut inputs| {
        let dtype = inputs.tensor(0)?.dtype();
        Ok(one(match dtype {
            DType::F32 => limit(ctx, &mut inputs, lo.map(|x| x as f32), hi.map(|x| x as f32))?,
            DType::F64 => limit(ctx, &mut inputs, lo, hi)?,
            DType::F16 | DType::Bf16 => {
                let wide = half_float::widen(ctx, inputs.tensor(0)?)?;
                let mut slots = [Some(super::Slot { value: wide.into(), last_use: true })];
                let out = limit(ctx, &mut Inputs::new(&mut slots), lo.map(|x| x as f32), hi.map(|x| x as f32))?;
                half_float::narrow(ctx, out, dtype)?
            }
            other => return unsupported!("elements of type {other}"),
        }))
    })
}
