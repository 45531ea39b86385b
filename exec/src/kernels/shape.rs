//! Operators that look at or change the shape and leave the elements where they are.

use smallvec::SmallVec;

use super::attrs::{Attrs, to_size};
use super::{Entry, Inputs, Kernel, KernelError, Outputs, PrepareCtx, kernel, one, resolve_axis};
use crate::invalid;
use crate::tensor::{Dims, Tensor, element_count};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Reshape", 1, reshape),
    Entry::onnx("Flatten", 1, flatten),
    Entry::onnx("Squeeze", 1, squeeze),
    Entry::onnx("Unsqueeze", 1, unsqueeze),
    Entry::onnx("Shape", 1, shape),
    Entry::onnx("Size", 1, |_| kernel(|_, inputs| Ok(one(Tensor::scalar(inputs.tensor(0)?.len() as i64))))),
    Entry::onnx("Identity", 1, |_| kernel(identity)),
];

/// Sizes that Reshape gives: -1 once for what is left over, 0 for the input's own size unless `allow_zero`.
fn resolve(input: &[usize], wanted: &[i64], allow_zero: bool) -> Result<Dims, KernelError> {
    let total = element_count(input).unwrap_or(usize::MAX);
    let mut dims = Dims::new();
    let mut open = None;
    for (i, &w) in wanted.iter().enumerate() {
        dims.push(match w {
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            -1 => return invalid!("the shape {wanted:?} has more than one -1"),
            0 if !allow_zero => match input.get(i) {
                Some(&d) => d,
                None => return invalid!("the shape {wanted:?} copies dimension {i}, which the input {input:?} does not have"),
            },
            w => to_size("a size of the shape (input 1)", w)?,
        });
    }
    if let Some(i) = open {
        let known = element_count(&dims).unwrap_or(usize::MAX);
        if known == 0 || !total.is_multiple_of(known) {
            return invalid!("cannot reshape {input:?} to the shape {wanted:?}: {total} elements do not divide by {known}");
        }
        dims[i] = total / known;
    }
    if element_count(&dims) != Some(total) {
        return invalid!("cannot reshape {input:?} to the shape {wanted:?}: the number of elements differs");
    }
    Ok(dims)
}

fn reshape(ctx: &PrepareCtx<'_>) -> Made {
    let shape_attr = Attrs(ctx.node).ints("shape")?.map(<[i64]>::to_vec);
    let allow_zero = Attrs(ctx.node).flag("allowzero", false)?;
    kernel(move |_, inputs| {
        let wanted = match (inputs.ints(1)?, &shape_attr) {
            (Some(s), _) => s,
            (None, Some(s)) => s.clone(),
            (None, None) => return invalid!("the shape (input 1) is missing"),
        };
        let x = inputs.tensor(0)?;
        Ok(one(x.reshaped(&resolve(x.dims(), &wanted, allow_zero)?)?))
    })
}

fn flatten(ctx: &PrepareCtx<'_>) -> Made {
    let axis = Attrs(ctx.node).int("axis", 1)?;
    kernel(move |_, inputs| {
        let x = inputs.tensor(0)?;
        let rank = x.rank() as i64;
        if !(-rank..=rank).contains(&axis) {
            return invalid!("axis {axis} is outside of rank {rank}");
        }
        let at = if axis < 0 { axis + rank } else { axis } as usize;
        let count = |dims: &[usize]| element_count(dims).unwrap_or(usize::MAX);
        Ok(one(x.reshaped(&[count(&x.dims()[..at]), count(&x.dims()[at..])])?))
    })
}

fn squeeze(ctx: &PrepareCtx<'_>) -> Made {
    let axes_attr = Attrs(ctx.node).ints("axes")?.map(<[i64]>::to_vec);
    kernel(move |_, inputs| {
        let x = inputs.tensor(0)?;
        let given = inputs.ints(1)?.or_else(|| axes_attr.clone());
        let dims: Dims = match given {
            None => x.dims().iter().copied().filter(|&d| d != 1).collect(),
            Some(axes) => {
                let axes: SmallVec<[usize; 6]> = axes.iter().map(|&a| resolve_axis(a, x.rank())).collect::<Result<_, _>>()?;
                if let Some(&a) = axes.iter().find(|&&a| x.dims()[a] != 1) {
                    return invalid!("cannot squeeze axis {a} of the shape {:?}: its size is {}, not 1", x.dims(), x.dims()[a]);
                }
                x.dims().iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
            }
        };
        Ok(one(x.reshaped(&dims)?))
    })
}

fn unsqueeze(ctx: &PrepareCtx<'_>) -> Made {
    let axes_attr = Attrs(ctx.node).ints("axes")?.map(<[i64]>::to_vec);
    kernel(move |_, inputs| {
        let x = inputs.tensor(0)?;
        let Some(axes) = inputs.ints(1)?.or_else(|| axes_attr.clone()) else { return invalid!("the axes (input 1) are missing") };
        let rank = x.rank() + axes.len();
        let mut new: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
        for &a in &axes {
            let a = resolve_axis(a, rank)?;
            if std::mem::replace(&mut new[a], true) {
                return invalid!("the axes {axes:?} name axis {a} twice");
            }
        }
        let mut own = x.dims().iter();
        let dims: Dims = new.iter().map(|&n| if n { 1 } else { own.next().copied().unwrap_or(1) }).collect();
        Ok(one(x.reshaped(&dims)?))
    })
}

fn shape(ctx: &PrepareCtx<'_>) -> Made {
    let (start, end) = (Attrs(ctx.node).int("start", 0)?, Attrs(ctx.node).opt_int("end")?);
    kernel(move |_, inputs| {
        let x = inputs.tensor(0)?;
        let rank = x.rank() as i64;
        let clamp = |i: i64| (if i < 0 { i.saturating_add(rank) } else { i }).clamp(0, rank) as usize;
        let (from, to) = (clamp(start), clamp(end.unwrap_or(rank)));
        let dims: Vec<i64> = x.dims().get(from..to).unwrap_or_default().iter().map(|&d| d as i64).collect();
        Ok(one(Tensor::from_slice(&[dims.len()], &dims)?))
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of every kernel")]
fn identity(_: &mut super::RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
    match inputs.value(0) {
        Some(v) => Ok(smallvec::smallvec![Some(v.clone())]),
        None => invalid!("input 0 is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_resolves_minus_one_and_zero() {
        assert_eq!(&*resolve(&[2, 3, 4], &[0, -1], false).unwrap(), [2, 12]);
        assert_eq!(&*resolve(&[0, 3], &[3, 0], true).unwrap(), [3, 0]);
        for bad in [[-1i64, -1].as_slice(), &[5, -1], &[7], &[-2, 12], &[1, 1, 1, 0]] {
            let e = resolve(&[2, 3, 4], bad, false).unwrap_err().to_string();
            assert!(e.contains("shape"), "{e}");
        }
        assert!(resolve(&[2], &[i64::MAX, i64::MAX, 4], false).is_err());
    }
}
