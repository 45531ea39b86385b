//! Tensors and the other values that flow at run time.

use std::sync::Arc;

use half::{bf16, f16};
use recut_core::dtype::DType;
use smallvec::SmallVec;

/// Sizes of a tensor, outermost first.
pub type Dims = SmallVec<[usize; 6]>;

/// Largest tensor that is allocated, in bytes: a model that asks for more gets an error and not the system's killer.
pub const MAX_TENSOR_BYTES: u64 = 16 << 30;

/// One cache line; the unit of allocation, so that every tensor starts at a multiple of 64 bytes.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes at a multiple of 64.
#[derive(Clone, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes (fresh pages are zeroed by the system, so this is cheap for large ones).
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self { lines: bytemuck::zeroed_vec(len.div_ceil(64)), len }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    /// The bytes, to write.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }

    /// Bytes that fit without a new allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.lines.len() * 64
    }

    /// The same allocation with another length, at most [`Buffer::capacity`]; contents are whatever they were.
    #[must_use]
    pub fn with_len(mut self, len: usize) -> Self {
        assert!(len <= self.capacity());
        self.len = len;
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// What the elements are stored as.
#[derive(Clone, Debug)]
enum Data {
    Bytes(Arc<Buffer>),
    Strings(Arc<[Box<[u8]>]>),
}

/// A dense row-major tensor. Cloning and reshaping share the elements; writing copies them if they are shared.
///
/// In memory every element takes whole bytes: the 4- and 2-bit types take one byte an element, sign-extended
/// (`i4`, `i2`) or not (`u4`, `u2`, `f4e2m1` as its code); files pack them.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: DType,
    dims: Dims,
    data: Data,
}

/// Why a tensor could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// Too many bytes.
    #[error("a tensor of shape {dims:?} and type {dtype} is too large (the limit is {} GiB)", MAX_TENSOR_BYTES >> 30)]
    TooLarge {
        /// Sizes asked for.
        dims: Vec<usize>,
        /// Element type.
        dtype: DType,
    },
    /// Data and shape do not agree.
    #[error("{got} bytes for a tensor of shape {dims:?} and type {dtype}, which takes {want}")]
    WrongLength {
        /// Sizes.
        dims: Vec<usize>,
        /// Element type.
        dtype: DType,
        /// Bytes it takes.
        want: usize,
        /// Bytes there are.
        got: usize,
    },
}

/// Bytes of one element in memory.
#[must_use]
pub const fn element_bytes(dtype: DType) -> usize {
    let bits = dtype.bits() as usize;
    if bits == 0 { 0 } else { bits.div_ceil(8) }
}

/// A Rust type that elements can be read as.
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// Whether a tensor of this type holds such elements.
    fn matches(dtype: DType) -> bool;
    /// The type that a tensor of such elements gets.
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty => $d:ident $(| $also:ident)*),* $(,)?) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn matches(dtype: DType) -> bool { matches!(dtype, DType::$d $(| DType::$also)*) }
        }
    )*};
}
element! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16,
    i8 => I8 | I4 | I2, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8 | U4 | U2 | Bool | F8e4m3fn | F8e4m3fnuz | F8e5m2 | F8e5m2fnuz | F8e8m0 | F4e2m1,
    u16 => U16, u32 => U32, u64 => U64,
}

/// Number of elements; `None` on overflow.
#[must_use]
pub fn element_count(dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

fn byte_count(dtype: DType, dims: &[usize]) -> Result<usize, TensorError> {
    element_count(dims)
        .and_then(|n| n.checked_mul(element_bytes(dtype)))
        .filter(|&n| n as u64 <= MAX_TENSOR_BYTES)
        .ok_or_else(|| TensorError::TooLarge { dims: dims.to_vec(), dtype })
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// If it would be larger than [`MAX_TENSOR_BYTES`].
    pub fn zeros(dtype: DType, dims: &[usize]) -> Result<Self, TensorError> {
        let len = byte_count(dtype, dims)?;
        if dtype == DType::String {
            let n = element_count(dims).filter(|&n| n as u64 <= MAX_TENSOR_BYTES / 64);
            let n = n.ok_or_else(|| TensorError::TooLarge { dims: dims.to_vec(), dtype })?;
            return Ok(Self { dtype, dims: dims.into(), data: Data::Strings(vec![Box::default(); n].into()) });
        }
        Ok(Self { dtype, dims: dims.into(), data: Data::Bytes(Arc::new(Buffer::zeroed(len))) })
    }

    /// A tensor over a buffer of exactly the right length, e.g. one taken from a pool.
    ///
    /// # Errors
    /// If the length does not fit the shape.
    pub fn from_buffer(dtype: DType, dims: &[usize], buffer: Buffer) -> Result<Self, TensorError> {
        let want = byte_count(dtype, dims)?;
        if buffer.len != want {
            return Err(TensorError::WrongLength { dims: dims.to_vec(), dtype, want, got: buffer.len });
        }
        Ok(Self { dtype, dims: dims.into(), data: Data::Bytes(Arc::new(buffer)) })
    }

    /// A tensor of these elements, row-major.
    ///
    /// # Errors
    /// If their number does not fit the shape.
    pub fn from_slice<T: Element>(dims: &[usize], elements: &[T]) -> Result<Self, TensorError> {
        Self::from_bytes(T::DTYPE, dims, bytemuck::cast_slice(elements))
    }

    /// A tensor from its bytes in memory form (see [`Tensor`]), in the machine's byte order.
    ///
    /// # Errors
    /// If their number does not fit the shape.
    pub fn from_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Self, TensorError> {
        let want = byte_count(dtype, dims)?;
        if bytes.len() != want {
            return Err(TensorError::WrongLength { dims: dims.to_vec(), dtype, want, got: bytes.len() });
        }
        let mut buffer = Buffer::zeroed(want);
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(Self { dtype, dims: dims.into(), data: Data::Bytes(Arc::new(buffer)) })
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// If their number does not fit the shape.
    pub fn from_strings(dims: &[usize], strings: Vec<Box<[u8]>>) -> Result<Self, TensorError> {
        let want = element_count(dims).unwrap_or(usize::MAX);
        if strings.len() != want {
            return Err(TensorError::WrongLength { dims: dims.to_vec(), dtype: DType::String, want, got: strings.len() });
        }
        Ok(Self { dtype: DType::String, dims: dims.into(), data: Data::Strings(strings.into()) })
    }

    /// A rank-0 tensor.
    #[must_use]
    pub fn scalar<T: Element>(element: T) -> Self {
        Self::from_slice(&[], &[element]).expect("one element fits a scalar")
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        element_count(&self.dims).unwrap_or(0)
    }

    /// Whether it has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the elements take in memory.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match &self.data {
            Data::Bytes(b) => b.len,
            Data::Strings(s) => s.iter().map(|s| s.len()).sum(),
        }
    }

    /// The elements in memory form, in the machine's byte order; empty for strings.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(b) => b.bytes(),
            Data::Strings(_) => &[],
        }
    }

    /// The elements' bytes, to write; copies them first if they are shared. Empty for strings.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Bytes(b) => Arc::make_mut(b).bytes_mut(),
            Data::Strings(_) => &mut [],
        }
    }

    /// The elements as `T`; `None` if they are of another type.
    #[must_use]
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        T::matches(self.dtype).then(|| bytemuck::cast_slice(self.bytes()))
    }

    /// The elements as `T`, to write; `None` if they are of another type. Copies them first if they are shared.
    #[must_use]
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        if T::matches(self.dtype) { Some(bytemuck::cast_slice_mut(self.bytes_mut())) } else { None }
    }

    /// The strings; `None` for other types.
    #[must_use]
    pub fn as_strings(&self) -> Option<&[Box<[u8]>]> {
        match &self.data {
            Data::Strings(s) => Some(s),
            Data::Bytes(_) => None,
        }
    }

    /// The same elements under other sizes.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshaped(&self, dims: &[usize]) -> Result<Self, TensorError> {
        let want = element_count(dims).unwrap_or(usize::MAX);
        if want != self.len() {
            return Err(TensorError::WrongLength { dims: dims.to_vec(), dtype: self.dtype, want, got: self.len() });
        }
        Ok(Self { dtype: self.dtype, dims: dims.into(), data: self.data.clone() })
    }

    /// The same bits under another type of the same width (e.g. `u8` as `bool`).
    ///
    /// # Panics
    /// If the widths differ.
    #[must_use]
    pub fn retyped(mut self, dtype: DType) -> Self {
        assert_eq!(element_bytes(dtype), element_bytes(self.dtype), "{dtype} and {} differ in width", self.dtype);
        self.dtype = dtype;
        self
    }

    /// Whether writing would not have to copy.
    #[must_use]
    pub fn is_unique(&mut self) -> bool {
        match &mut self.data {
            Data::Bytes(b) => Arc::get_mut(b).is_some(),
            Data::Strings(s) => Arc::get_mut(s).is_some(),
        }
    }

    /// The buffer, for reuse, if nothing else shares it.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self.data {
            Data::Bytes(b) => Arc::try_unwrap(b).ok(),
            Data::Strings(_) => None,
        }
    }
}

/// What an edge carries at run time.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A sequence; its elements may be sequences.
    Sequence(Arc<Vec<Value>>),
    /// An optional.
    Optional(Option<Arc<Value>>),
}

impl Value {
    /// The tensor; `None` for other values.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Tensor(t) => t.byte_len(),
            Self::Sequence(s) => s.iter().map(Self::byte_len).sum(),
            Self::Optional(o) => o.as_deref().map_or(0, Self::byte_len),
        }
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Self {
        Self::Tensor(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_aligned_and_copy_on_write() {
        let mut a = Tensor::from_slice(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(a.bytes().as_ptr() as usize % 64, 0);
        let b = a.clone();
        a.as_mut_slice::<f32>().unwrap()[0] = 9.0;
        assert_eq!(b.as_slice::<f32>().unwrap()[0], 1.0);
        assert_eq!(a.reshaped(&[4]).unwrap().dims(), [4]);
        assert!(a.reshaped(&[5]).is_err());
    }

    #[test]
    fn absurd_shapes_are_refused_not_allocated() {
        assert!(Tensor::zeros(DType::F32, &[1 << 31, 1 << 31]).is_err());
        assert!(Tensor::zeros(DType::F32, &[usize::MAX, 2]).is_err());
        assert_eq!(Tensor::zeros(DType::F32, &[usize::MAX, 0]).unwrap().len(), 0);
    }
}
