//! Sequences and optionals.

use std::sync::Arc;

use recut_core::dtype::DType;

use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, RunCtx, kernel};
use crate::axis;
use crate::invalid;
use crate::tensor::{Dims, Tensor, Value};

/// Kernels of this file.
pub const TABLE: &[Entry] = &[
    Entry::onnx("SequenceEmpty", 11, |_| kernel(|_, _| Ok(one_value(Value::Sequence(Arc::default()))))),
    Entry::onnx("SequenceConstruct", 11, |_| kernel(construct)),
    Entry::onnx("SequenceAt", 11, |_| kernel(at)),
    Entry::onnx("SequenceInsert", 11, |_| kernel(insert)),
    Entry::onnx("SequenceErase", 11, |_| kernel(erase)),
    Entry::onnx("SequenceLength", 11, |_| kernel(length)),
    Entry::onnx("ConcatFromSequence", 11, concat),
    Entry::onnx("SplitToSequence", 11, split),
    Entry::onnx("Optional", 15, |_| kernel(optional)),
    Entry::onnx("OptionalHasElement", 15, |_| kernel(has_element)),
    Entry::onnx("OptionalGetElement", 15, |_| kernel(get_element)),
];

fn one_value(v: Value) -> Outputs {
    smallvec::smallvec![Some(v)]
}

fn sequence<'a>(inputs: &'a Inputs<'_>, i: usize) -> Result<&'a Arc<Vec<Value>>, KernelError> {
    match inputs.value(i) {
        Some(Value::Sequence(s)) => Ok(s),
        Some(_) => invalid!("input {i} must be a sequence"),
        None => invalid!("input {i} is missing"),
    }
}

/// Position of an element: in `-len..len`, or up to `len` itself where something is inserted.
fn position(inputs: &Inputs<'_>, i: usize, len: usize, insert: bool) -> Result<Option<usize>, KernelError> {
    let Some(given) = inputs.ints(i)? else { return Ok(None) };
    let &[p] = given.as_slice() else { return invalid!("the position (input {i}) must be one integer") };
    let n = len as i64;
    if (-n..n + i64::from(insert)).contains(&p) {
        Ok(Some(if p < 0 { (p + n) as usize } else { p as usize }))
    } else {
        invalid!("position {p} is outside of a sequence of {len}")
    }
}

fn construct(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let items = (0..inputs.len()).filter_map(|i| inputs.value(i).cloned()).collect();
    Ok(one_value(Value::Sequence(Arc::new(items))))
}

fn at(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let s = sequence(&inputs, 0)?;
    match position(&inputs, 1, s.len(), false)? {
        Some(p) => Ok(one_value(s[p].clone())),
        None => invalid!("the position (input 1) is missing"),
    }
}

fn insert(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let s = sequence(&inputs, 0)?;
    let Some(item) = inputs.value(1) else { return invalid!("the tensor to insert (input 1) is missing") };
    let p = position(&inputs, 2, s.len(), true)?.unwrap_or(s.len());
    let mut items = Vec::with_capacity(s.len() + 1);
    items.extend_from_slice(&s[..p]);
    items.push(item.clone());
    items.extend_from_slice(&s[p..]);
    Ok(one_value(Value::Sequence(Arc::new(items))))
}

fn erase(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    let s = sequence(&inputs, 0)?;
    if s.is_empty() {
        return invalid!("nothing can be erased from an empty sequence");
    }
    let p = position(&inputs, 1, s.len(), false)?.unwrap_or(s.len() - 1);
    let items = s.iter().enumerate().filter(|(i, _)| *i != p).map(|(_, v)| v.clone()).collect();
    Ok(one_value(Value::Sequence(Arc::new(items))))
}

fn length(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    Ok(one_value(Tensor::scalar(sequence(&inputs, 0)?.len() as i64).into()))
}

fn concat(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let Some(axis) = ctx.node.int("axis") else { return invalid!("the attribute `axis` is missing") };
    let new_axis = ctx.node.int("new_axis").unwrap_or(0) != 0;
    kernel(move |_, inputs| {
        let parts: Option<Vec<Tensor>> = sequence(&inputs, 0)?.iter().map(|v| v.as_tensor().cloned()).collect();
        let Some(parts) = parts else { return invalid!("the sequence (input 0) must hold tensors") };
        let joined = if new_axis { axis::stack(&parts, axis)? } else { axis::concat(&parts, axis)? };
        Ok(super::one(joined))
    })
}

fn split(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let (axis, keep) = (ctx.node.int("axis").unwrap_or(0), ctx.node.int("keepdims").unwrap_or(1) != 0);
    kernel(move |_, inputs| {
        let t = inputs.tensor(0)?;
        let axis = super::resolve_axis(axis, t.rank())?;
        let Some(&size) = t.dims().get(axis) else { return invalid!("a scalar cannot be split") };
        let scalar = inputs.optional(1)?.is_some_and(|s| s.rank() == 0);
        let given = inputs.ints(1)?;
        let lens: Vec<usize> = match &given {
            None => vec![1; size],
            Some(v) if scalar => {
                let Some(step) = v.first().and_then(|&n| usize::try_from(n).ok()).filter(|&n| n > 0) else {
                    return invalid!("the split size (input 1) must be positive");
                };
                (0..size.div_ceil(step)).map(|i| step.min(size - i * step)).collect()
            }
            Some(v) => {
                let lens: Option<Vec<usize>> = v.iter().map(|&n| usize::try_from(n).ok()).collect();
                let Some(lens) = lens.filter(|l| l.iter().try_fold(0usize, |a, &b| a.checked_add(b)) == Some(size)) else {
                    return invalid!("the split sizes {v:?} (input 1) do not add up to {size}");
                };
                lens
            }
        };
        let mut items = Vec::with_capacity(lens.len());
        let mut start = 0;
        for len in lens {
            let part = axis::slice(t, axis, start, len)?;
            start += len;
            // Without `split`, sizes of 1 can be dropped.
            items.push(Value::Tensor(if given.is_none() && !keep {
                let mut dims = Dims::from(part.dims());
                dims.remove(axis);
                part.reshaped(&dims)?
            } else {
                part
            }));
        }
        Ok(one_value(Value::Sequence(Arc::new(items))))
    })
}

fn optional(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    Ok(one_value(Value::Optional(inputs.value(0).cloned().map(Arc::new))))
}

fn has_element(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    // Since version 18 a tensor or sequence counts as an optional that holds it, and nothing as an empty one.
    let has = match inputs.value(0) {
        None | Some(Value::Optional(None)) => 0u8,
        Some(_) => 1,
    };
    Ok(one_value(Tensor::scalar(has).retyped(DType::Bool).into()))
}

fn get_element(_: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    match inputs.value(0) {
        Some(Value::Optional(Some(v))) => Ok(one_value((**v).clone())),
        Some(Value::Optional(None)) | None => invalid!("the optional (input 0) is empty"),
        Some(v) => Ok(one_value(v.clone())),
    }
}
