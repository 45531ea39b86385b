//! The `cpu` engine's own kernels, one table of them, and what they are given.
//!
//! A kernel is prepared once per node (attributes parsed and checked, constant inputs seen, weights packed) and then
//! run with values. Every file here has a `TABLE`; [`registry`] joins them. What has no kernel falls back to tract.

#![allow(clippy::needless_pass_by_value, reason = "kernels are given their inputs by value, since some take them over")]

mod activation;
mod attention;
mod attrs;
mod binary;
mod broadcast;
mod cast;
mod constant;
mod conv;
mod conv_transpose;
mod deform_conv;
mod det;
mod detection;
mod einsum;
mod float;
mod fourier;
mod fused_activation;
mod gather;
mod gemm;
mod grid;
mod half_float;
mod integer;
mod logic;
mod loss;
mod matmul;
mod max_pool;
mod ml;
mod movement;
mod norm;
pub mod opset;
mod order;
mod parallel;
mod pool;
mod quantize;
pub(crate) mod quantized_group;
mod random;
mod reduce;
pub mod registry;
mod resample;
mod resize;
mod rnn;
mod rotary;
pub mod sequence;
mod shape;
mod slicing;
mod small_float;
mod softmax;
mod spectrum;
mod strided;
#[cfg(test)]
mod testing;
mod unary;
mod vecmath;
mod window;

use recut_core::dtype::DType;
use recut_core::graph::Node;

use crate::tensor::{Buffer, Dims, Tensor, TensorError, Value};

/// Why a kernel refused.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Inputs or attributes are not what the operator takes. The text names the input or attribute.
    #[error("{0}")]
    Invalid(String),
    /// The operator allows it, but this kernel does not do it (the registry may try another).
    #[error("not implemented: {0}")]
    Unsupported(String),
    /// A tensor cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// `Err(KernelError::Invalid(format!(…)))`.
#[macro_export]
macro_rules! invalid {
    ($($arg:tt)*) => { Err($crate::kernels::KernelError::Invalid(format!($($arg)*))) };
}

/// `Err(KernelError::Unsupported(format!(…)))`.
#[macro_export]
macro_rules! unsupported {
    ($($arg:tt)*) => { Err($crate::kernels::KernelError::Unsupported(format!($($arg)*))) };
}

/// What a kernel is prepared from.
pub struct PrepareCtx<'a> {
    /// The node.
    pub node: &'a Node,
    /// Version of its domain's operator set.
    pub opset: i64,
    /// Inputs that are the same in every run (initializers, folded constants), by position.
    pub constants: &'a [Option<Tensor>],
}

/// Recycled allocations, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct BufferPool {
    /// By size: class `c` holds buffers of `2^c..2^(c+1)` bytes. Classes are never taken away: small graphs of many nodes
    /// put and take all the time.
    classes: Vec<Vec<Buffer>>,
    held: usize,
}

impl BufferPool {
    /// Bytes kept for reuse at most.
    const MAX_HELD: usize = 512 << 20;

    /// Buffers of a class that are looked at for one that fits.
    const LOOKED_AT: usize = 8;

    /// Bytes that are kept for reuse.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    fn class(bytes: usize) -> usize {
        bytes.max(1).ilog2() as usize
    }

    /// A buffer of `len` bytes with unspecified contents.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        if len == 0 {
            return Buffer::default();
        }
        // A much larger buffer would hide the true peak and waste cache.
        let most = len.saturating_mul(2).max(4096);
        let first = Self::class(len);
        for class in self.classes.iter_mut().skip(first).take(Self::class(most) - first + 1) {
            // The latest one is likely to be in a cache.
            let fit = class.iter().rev().take(Self::LOOKED_AT).position(|b| (len..=most).contains(&b.capacity()));
            if let Some(back) = fit {
                let buffer = class.swap_remove(class.len() - 1 - back);
                self.held -= buffer.capacity();
                return buffer.with_len(len);
            }
        }
        Buffer::zeroed(len)
    }

    /// Gives a buffer back.
    pub fn put(&mut self, buffer: Buffer) {
        let capacity = buffer.capacity();
        if capacity > 0 && self.held + capacity <= Self::MAX_HELD {
            self.held += capacity;
            let class = Self::class(capacity);
            if self.classes.len() <= class {
                self.classes.resize_with(class + 1, Vec::new);
            }
            self.classes[class].push(buffer);
        }
    }
}

/// What a kernel has while it runs. Kernels run inside the engine's rayon pool: plain `rayon` calls use it.
pub struct RunCtx<'a> {
    /// Recycled allocations.
    pub pool: &'a mut BufferPool,
}

impl RunCtx<'_> {
    /// A tensor with unspecified contents: the kernel writes every element.
    ///
    /// # Errors
    /// If it is too large.
    pub fn alloc(&mut self, dtype: DType, dims: &[usize]) -> Result<Tensor, TensorError> {
        let bytes = crate::tensor::element_count(dims).and_then(|n| n.checked_mul(crate::tensor::element_bytes(dtype)));
        match bytes.filter(|&n| n as u64 <= crate::tensor::MAX_TENSOR_BYTES && dtype != DType::String) {
            Some(n) => Tensor::from_buffer(dtype, dims, self.pool.take(n)),
            None => Tensor::zeros(dtype, dims),
        }
    }
}

/// Inputs of one run. An input that nobody reads afterwards can be taken, so that its buffer is written in place.
pub struct Inputs<'a> {
    slots: &'a mut [Option<Slot>],
}

/// One input, with whether this is its last use.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The value.
    pub value: Value,
    /// Nobody reads it after this node.
    pub last_use: bool,
}

impl<'a> Inputs<'a> {
    /// Inputs by position; `None` where left out.
    pub fn new(slots: &'a mut [Option<Slot>]) -> Self {
        Self { slots }
    }

    /// Number of inputs, left-out ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Input `i` of any kind, where given.
    #[must_use]
    pub fn value(&self, i: usize) -> Option<&Value> {
        self.slots.get(i)?.as_ref().map(|s| &s.value)
    }

    /// Input `i` as a tensor.
    ///
    /// # Errors
    /// If it is left out or no tensor.
    pub fn tensor(&self, i: usize) -> Result<&Tensor, KernelError> {
        match self.value(i) {
            Some(Value::Tensor(t)) => Ok(t),
            Some(_) => invalid!("input {i} must be a tensor"),
            None => invalid!("input {i} is missing"),
        }
    }

    /// Input `i` as a tensor, `None` where left out.
    ///
    /// # Errors
    /// If it is given and no tensor.
    pub fn optional(&self, i: usize) -> Result<Option<&Tensor>, KernelError> {
        match self.value(i) {
            Some(Value::Tensor(t)) => Ok(Some(t)),
            Some(_) => invalid!("input {i} must be a tensor"),
            None => Ok(None),
        }
    }

    /// The elements of input `i`.
    ///
    /// # Errors
    /// If it is left out, no tensor or of another type.
    pub fn slice<T: crate::tensor::Element>(&self, i: usize) -> Result<&[T], KernelError> {
        let t = self.tensor(i)?;
        t.as_slice().ok_or_else(|| KernelError::Invalid(format!("input {i} is {}, expected {}", t.dtype(), T::DTYPE)))
    }

    /// Input `i` to be written over, if this is its last use and nothing shares it; else `None`, and it stays.
    #[must_use]
    pub fn take_unique(&mut self, i: usize) -> Option<Tensor> {
        let slot = self.slots.get_mut(i)?;
        let Some(Slot { value: Value::Tensor(t), last_use: true }) = slot else { return None };
        if !t.is_unique() {
            return None;
        }
        match slot.take()?.value {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The integers of input `i`, of type i32 or i64 (axes, shapes, sizes); `None` where left out.
    ///
    /// # Errors
    /// If it is of another type.
    pub fn ints(&self, i: usize) -> Result<Option<Vec<i64>>, KernelError> {
        let Some(t) = self.optional(i)? else { return Ok(None) };
        if let Some(v) = t.as_slice::<i64>() {
            return Ok(Some(v.to_vec()));
        }
        match t.as_slice::<i32>() {
            Some(v) => Ok(Some(v.iter().map(|&x| i64::from(x)).collect())),
            None => invalid!("input {i} is {}, expected i64", t.dtype()),
        }
    }
}

/// Outputs by position; `None` for ones the node leaves out (a kernel may give them anyway).
pub type Outputs = SmallOutputs;
/// Storage of [`Outputs`].
pub type SmallOutputs = smallvec::SmallVec<[Option<Value>; 2]>;

/// One output.
#[must_use]
pub fn one(t: Tensor) -> Outputs {
    smallvec::smallvec![Some(t.into())]
}

/// A node's computation, prepared.
pub trait Kernel: Send + Sync {
    /// Computes the outputs.
    ///
    /// # Errors
    /// If inputs do not fit the operator. Never panics, whatever the inputs.
    fn run(&self, ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError>;
}

/// Makes a kernel for a node.
pub type Factory = fn(&PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError>;

/// A row of a kernel table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Operator domain; `""` is the standard one.
    pub domain: &'static str,
    /// Operator type.
    pub op: &'static str,
    /// First operator-set version it is right for; the entry with the largest one that is not newer than the model's wins.
    pub since: i64,
    /// Makes the kernel.
    pub factory: Factory,
}

impl Entry {
    /// A row of the standard domain.
    #[must_use]
    pub const fn onnx(op: &'static str, since: i64, factory: Factory) -> Self {
        Self { domain: "", op, since, factory }
    }
}

/// A kernel from a closure.
pub struct FnKernel<F>(pub F);

impl<F> Kernel for FnKernel<F>
where
    F: Fn(&mut RunCtx<'_>, Inputs<'_>) -> Result<Outputs, KernelError> + Send + Sync,
{
    fn run(&self, ctx: &mut RunCtx<'_>, inputs: Inputs<'_>) -> Result<Outputs, KernelError> {
        (self.0)(ctx, inputs)
    }
}

/// A boxed kernel from a closure.
pub fn kernel<F>(f: F) -> Result<Box<dyn Kernel>, KernelError>
where
    F: Fn(&mut RunCtx<'_>, Inputs<'_>) -> Result<Outputs, KernelError> + Send + Sync + 'static,
{
    Ok(Box::new(FnKernel(f)))
}

/// `axis` in `-rank..rank` as an index.
///
/// # Errors
/// If it is outside.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize, KernelError> {
    let r = rank as i64;
    if (-r..r).contains(&axis) { Ok(axis.rem_euclid(r.max(1)) as usize) } else { invalid!("axis {axis} is outside of rank {rank}") }
}

/// Shape that `shapes` broadcast to (ONNX multidirectional broadcasting).
///
/// # Errors
/// If two sizes differ and neither is 1.
pub fn broadcast_dims(shapes: &[&[usize]]) -> Result<Dims, KernelError> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = Dims::from_elem(1, rank);
    for s in shapes {
        for (o, &d) in out[rank - s.len()..].iter_mut().zip(*s) {
            if *o == 1 {
                *o = d;
            } else if d != 1 && d != *o {
                return invalid!("shapes {shapes:?} do not broadcast");
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_where_they_fit() {
        let mut pool = BufferPool::default();
        pool.put(Buffer::zeroed(10_000));
        pool.put(Buffer::zeroed(64));
        assert_eq!(pool.take(100_000).capacity(), 100_032, "a new one");
        assert_eq!(pool.take(4_000).capacity(), 4_032, "one more than twice as large is not given");
        assert_eq!(pool.take(9_000).capacity(), 10_048);
        assert_eq!(pool.take(16).capacity(), 64);
        assert_eq!(pool.held, 0);
    }
}
