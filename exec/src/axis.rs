//! Cutting tensors apart and joining them along one axis, for elements of any type.

use crate::kernels::KernelError;
use crate::tensor::{Dims, Tensor, element_bytes};
use crate::{invalid, kernels::resolve_axis};

/// Number of elements before, and after, an axis.
fn around(dims: &[usize], axis: usize) -> (usize, usize) {
    let product = |d: &[usize]| d.iter().product::<usize>();
    (product(&dims[..axis]), product(&dims[axis + 1..]))
}

/// Elements `start..start + len` along `axis`.
///
/// # Errors
/// If they are outside of the tensor.
pub fn slice(t: &Tensor, axis: usize, start: usize, len: usize) -> Result<Tensor, KernelError> {
    let Some(&size) = t.dims().get(axis) else { return invalid!("axis {axis} is outside of rank {}", t.rank()) };
    if start.checked_add(len).is_none_or(|end| end > size) {
        return invalid!(
            "elements {start}..{} along axis {axis} are outside of a tensor of shape {:?}",
            start.saturating_add(len),
            t.dims()
        );
    }
    let mut dims = Dims::from(t.dims());
    dims[axis] = len;
    if len == size {
        return Ok(t.clone());
    }
    let (outer, inner) = around(t.dims(), axis);
    if let Some(strings) = t.as_strings() {
        let rows = (0..outer).flat_map(|o| &strings[(o * size + start) * inner..(o * size + start + len) * inner]);
        return Ok(Tensor::from_strings(&dims, rows.cloned().collect())?);
    }
    let mut out = Tensor::zeros(t.dtype(), &dims)?;
    let row = inner * element_bytes(t.dtype());
    if row * len > 0 {
        let src = t.bytes();
        for (o, chunk) in out.bytes_mut().chunks_exact_mut(row * len).enumerate() {
            let at = (o * size + start) * row;
            chunk.copy_from_slice(&src[at..at + row * len]);
        }
    }
    Ok(out)
}

/// The part of `t` at `index` of `axis`, without that axis.
///
/// # Errors
/// If it is outside of the tensor.
pub fn index(t: &Tensor, axis: usize, index: usize) -> Result<Tensor, KernelError> {
    let part = slice(t, axis, index, 1)?;
    let mut dims = Dims::from(part.dims());
    dims.remove(axis);
    Ok(part.reshaped(&dims)?)
}

/// Tensors one after the other along `axis` (of `-rank..rank`).
///
/// # Errors
/// If there are none, or their types or other sizes differ.
pub fn concat(parts: &[Tensor], axis: i64) -> Result<Tensor, KernelError> {
    let Some(first) = parts.first() else { return invalid!("there is nothing to concatenate") };
    let axis = resolve_axis(axis, first.rank())?;
    if first.rank() == 0 {
        return invalid!("scalars cannot be concatenated");
    }
    let mut dims = Dims::from(first.dims());
    let mut total = 0usize;
    for p in parts {
        let fits = p.rank() == dims.len() && (0..dims.len()).all(|i| i == axis || p.dims()[i] == dims[i]);
        if !fits || p.dtype() != first.dtype() {
            let (d, t) = (first.dims(), first.dtype());
            return invalid!(
                "a tensor of shape {:?} and type {} cannot follow one of shape {d:?} and type {t} along axis {axis}",
                p.dims(),
                p.dtype()
            );
        }
        total = total.saturating_add(p.dims()[axis]);
    }
    dims[axis] = total;
    let (outer, inner) = around(&dims, axis);
    if first.as_strings().is_some() {
        let mut out = Vec::with_capacity(outer * inner * total);
        for o in 0..outer {
            for p in parts {
                let n = p.dims()[axis] * inner;
                out.extend_from_slice(&p.as_strings().unwrap_or_default()[o * n..(o + 1) * n]);
            }
        }
        return Ok(Tensor::from_strings(&dims, out)?);
    }
    let mut out = Tensor::zeros(first.dtype(), &dims)?;
    let width = inner * element_bytes(first.dtype());
    let bytes = out.bytes_mut();
    let mut at = 0;
    for o in 0..outer {
        for p in parts {
            let n = p.dims()[axis] * width;
            bytes[at..at + n].copy_from_slice(&p.bytes()[o * n..(o + 1) * n]);
            at += n;
        }
    }
    Ok(out)
}

/// Tensors of one shape along a new axis (of `-rank-1..=rank`).
///
/// # Errors
/// If there are none, or their types or shapes differ.
pub fn stack(parts: &[Tensor], axis: i64) -> Result<Tensor, KernelError> {
    let Some(first) = parts.first() else { return invalid!("there is nothing to stack") };
    let at = resolve_axis(axis, first.rank() + 1)?;
    let mut widened = Vec::with_capacity(parts.len());
    for p in parts {
        let mut dims = Dims::from(p.dims());
        if dims.len() < at {
            return invalid!("tensors of ranks {} and {} cannot be stacked", first.rank(), dims.len());
        }
        dims.insert(at, 1);
        widened.push(p.reshaped(&dims)?);
    }
    concat(&widened, at as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_join_to_what_was_cut() {
        let t = Tensor::from_slice(&[2, 3, 2], &(0..12i16).collect::<Vec<_>>()).unwrap();
        for axis in 0..3 {
            let n = t.dims()[axis];
            let parts: Vec<_> = (0..n).map(|i| slice(&t, axis, i, 1).unwrap()).collect();
            assert_eq!(concat(&parts, axis as i64).unwrap().bytes(), t.bytes());
            let rows: Vec<_> = (0..n).map(|i| index(&t, axis, i).unwrap()).collect();
            let back = stack(&rows, axis as i64).unwrap();
            assert_eq!((back.bytes(), back.dims()), (t.bytes(), t.dims()));
        }
        assert!(slice(&t, 1, 2, 2).is_err());
        assert!(concat(&[t.clone(), slice(&t, 1, 0, 2).unwrap()], 0).is_err());
    }

    #[test]
    fn strings_are_cut_and_joined() {
        let t = Tensor::from_strings(&[2, 2], ["a", "b", "c", "d"].map(|s| s.as_bytes().into()).to_vec()).unwrap();
        let col = index(&t, 1, 1).unwrap();
        assert_eq!(col.as_strings().unwrap(), ["b", "d"].map(|s| Box::from(s.as_bytes())));
        assert_eq!(stack(&[col.clone(), col], -1).unwrap().dims(), [2, 2]);
    }
}
