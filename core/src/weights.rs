//! References to stored tensors: where the bytes lie, never the bytes themselves (small inline data aside).
//!
//! Opening a model reads no weight. A tensor is read later by positioned reads that verify that the file still has the
//! length and modification time it had when the graph was decoded, so that a rewritten file gives an error and not
//! garbage. Nothing is ever memory-mapped: a file that shrinks while mapped kills the process.

mod deflated;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::dtype::DType;

pub use deflated::Deflated;

/// A file that weights are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Where it is.
    pub path: PathBuf,
    /// Length in bytes when the graph was decoded.
    pub len: u64,
    /// Modification time when the graph was decoded, where the file system tells.
    pub modified: Option<SystemTime>,
}

/// Where a stored tensor's bytes lie.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// `len` bytes at `offset` of a file: elements little-endian and dense, sub-byte types packed low bits first.
    File {
        /// The file.
        file: Arc<DataFile>,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// `len` bytes at `offset` of what a compressed part of a file unpacks to, in the same form.
    Deflated {
        /// The compressed part.
        part: Arc<Deflated>,
        /// First byte, after unpacking.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Bytes in memory, in the same form. Small, or decoded from fields that have no dense form in the file.
    Inline(Arc<[u8]>),
    /// Strings in memory.
    Strings(Arc<[Box<[u8]>]>),
    /// All zeros (stored as nothing).
    Zeros,
    /// There is no data to read, and this is why. The graph opens; running fails with this text.
    Missing(Arc<str>),
}

impl Storage {
    /// The file that holds the bytes, if one does.
    #[must_use]
    pub fn file(&self) -> Option<&Arc<DataFile>> {
        match self {
            Self::File { file, .. } => Some(file),
            Self::Deflated { part, .. } => Some(&part.file),
            Self::Inline(_) | Self::Strings(_) | Self::Zeros | Self::Missing(_) => None,
        }
    }
}

/// A stored tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightRef {
    /// Element type.
    pub dtype: DType,
    /// Sizes; their product does not overflow (otherwise [`Storage::Missing`]).
    pub shape: Box<[u64]>,
    /// Strides in elements where the tensor is a view of its storage (`.pt2`); dense row-major if `None`.
    pub strides: Option<Box<[i64]>>,
    /// Where the bytes are.
    pub storage: Storage,
}

/// Why a stored tensor could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    /// The file says nothing usable.
    #[error("{0}")]
    Missing(Arc<str>),
    /// The file changed since the graph was decoded.
    #[error("{path} changed since the model was opened: open the model again", path = .0.display())]
    Changed(PathBuf),
    /// Reading failed.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A compressed part does not unpack to what its file says of it.
    #[error("the compressed tensor data in {path} is damaged ({why}): save or copy the file again", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl WeightRef {
    /// A tensor held in memory: `bytes` little-endian and dense.
    #[must_use]
    pub fn inline(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Self {
        Self { dtype, shape: shape.into(), strides: None, storage: Storage::Inline(bytes.into()) }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d))
    }

    /// Bytes of the tensor as a file stores it; 0 for strings.
    #[must_use]
    pub fn byte_len(&self) -> u64 {
        self.dtype.bytes_for(self.elements()).unwrap_or(0)
    }

    /// Reads the stored bytes, dense and little-endian (sub-byte types packed). A view ([`WeightRef::strides`]) is
    /// gathered.
    ///
    /// # Errors
    /// If there is no data, the file changed since it was opened, or reading fails.
    pub fn read(&self) -> Result<Vec<u8>, WeightError> {
        match &self.storage {
            Storage::Inline(b) => Ok(b.to_vec()),
            Storage::Zeros => {
                let len = usize::try_from(self.byte_len())
                    .map_err(|_| WeightError::Missing("the tensor is too large for this machine".into()))?;
                Ok(vec![0; len])
            }
            Storage::Missing(why) => Err(WeightError::Missing(why.clone())),
            Storage::Strings(_) => Err(WeightError::Missing("string tensors have no dense bytes".into())),
            Storage::File { file, offset, len } => file.read_at(*offset, *len),
            Storage::Deflated { part, offset, len } => part.read_at(*offset, *len),
        }
    }
}

impl DataFile {
    /// Takes note of the file's length and modification time.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn stat(path: impl Into<PathBuf>) -> std::io::Result<Self> {
        let path = path.into();
        let meta = std::fs::metadata(&path)?;
        Ok(Self { path, len: meta.len(), modified: meta.modified().ok() })
    }

    /// Reads `len` bytes at `offset` after checking that the file is still the one that was opened.
    ///
    /// # Errors
    /// [`WeightError::Changed`] if length or modification time differ or the range lies outside, else what the system says.
    pub fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, WeightError> {
        use std::io::Read;
        let mut f = self.open_at(offset, len)?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| WeightError::Changed(self.path.clone()))?];
        f.read_exact(&mut bytes).map_err(|source| WeightError::Io { path: self.path.clone(), source })?;
        Ok(bytes)
    }

    /// The file, standing at `offset`, after checking that it is still the one that was opened and has `len` bytes there.
    fn open_at(&self, offset: u64, len: u64) -> Result<std::fs::File, WeightError> {
        use std::io::{Seek, SeekFrom};
        let io = |source| WeightError::Io { path: self.path.clone(), source };
        let mut f = std::fs::File::open(&self.path).map_err(io)?;
        let meta = f.metadata().map_err(io)?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if meta.len() != self.len || meta.modified().ok() != self.modified || !inside {
            return Err(WeightError::Changed(self.path.clone()));
        }
        f.seek(SeekFrom::Start(offset)).map_err(io)?;
        Ok(f)
    }
}
