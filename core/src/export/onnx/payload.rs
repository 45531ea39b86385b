//! The bytes of stored tensors, piece by piece: what is copied is never in memory as a whole, but for a compressed tensor.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use crate::weights::{DataFile, Storage, WeightError, WeightRef};

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;
/// Bytes of the output that are gathered at a time from a view.
const GATHERED: usize = 1 << 20;
/// Longest stretch of a file that is read at a time for a view.
const STRETCH: u64 = 256 << 10;
/// Bytes that may be read in vain between two elements of a view, rather than reading twice.
const GAP: u64 = 4096;

/// Copies tensors to a writer, keeping the file that was read last open.
#[derive(Default)]
pub(super) struct Copier {
    open: Option<(Arc<DataFile>, File)>,
    buffer: Vec<u8>,
}

/// An error of reading, told from those of writing when it comes out at the other end.
fn unreadable(e: WeightError) -> io::Error {
    io::Error::other(e)
}

/// Why a tensor's bytes are not those that its shape asks for, if so.
pub(super) fn fault(w: &WeightRef) -> Option<String> {
    let stored = match &w.storage {
        Storage::Missing(why) => return Some(why.to_string()),
        Storage::Strings(s) if s.len() as u64 == w.elements() => return None,
        Storage::Strings(s) => return Some(format!("it holds {} strings, but {} are needed", s.len(), w.elements())),
        Storage::Zeros if w.byte_len() > MAX_ZEROS => {
            return Some(format!("nothing of it is stored, and {} bytes of zeros are too many to make up", w.byte_len()));
        }
        Storage::Zeros => return None,
        Storage::Inline(b) => b.len() as u64,
        Storage::File { len, .. } | Storage::Deflated { len, .. } => *len,
    };
    match &w.strides {
        None if stored == w.byte_len() => None,
        None => Some(format!("it holds {stored} bytes, but {} are needed", w.byte_len())),
        Some(_) if w.dtype.bits() < 8 => Some(format!("it is a strided view of {} elements, which is not supported", w.dtype)),
        Some(strides) => {
            let last = w
                .shape
                .iter()
                .zip(strides)
                .try_fold(0u64, |sum, (&d, &s)| sum.checked_add(u64::try_from(s).ok()?.checked_mul(d.saturating_sub(1))?));
            let end = last.and_then(|l| l.checked_add(1)?.checked_mul(u64::from(w.dtype.bits()) / 8));
            let inside = strides.len() == w.shape.len() && (w.elements() == 0 || end.is_some_and(|e| e <= stored));
            (!inside).then(|| format!("its strides reach outside of the {stored} bytes that are stored"))
        }
    }
}

/// Bytes of a tensor of zeros above which a file surely lies: archives without weights claim any size.
const MAX_ZEROS: u64 = 16 << 30;

impl Copier {
    /// Writes the tensor's bytes: dense, little-endian, sub-byte types packed. [`fault`] must have found nothing.
    pub(super) fn copy(&mut self, w: &WeightRef, out: &mut dyn Write) -> io::Result<()> {
        if let Storage::Deflated { part, offset, len } = &w.storage {
            // Archives that were packed again; nothing in them can be read but from the beginning.
            let unpacked = part.read_at(*offset, *len).map_err(unreadable)?;
            return self.copy(&WeightRef { storage: Storage::Inline(unpacked.into()), ..w.clone() }, out);
        }
        if w.strides.is_some() {
            return self.gather(w, out);
        }
        match &w.storage {
            Storage::Inline(bytes) => out.write_all(bytes),
            Storage::Zeros => zeros(w.byte_len(), out),
            Storage::File { file, offset, len } => self.stretch(file, *offset, *len, out),
            Storage::Missing(why) => Err(unreadable(WeightError::Missing(why.clone()))),
            Storage::Strings(_) | Storage::Deflated { .. } => Err(unreadable(WeightError::Missing("it has no dense bytes".into()))),
        }
    }

    fn stretch(&mut self, file: &Arc<DataFile>, offset: u64, len: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(PIECE as u64);
            // At most PIECE, which fits.
            buffer.resize(piece as usize, 0);
            self.read(file, offset + done, &mut buffer)?;
            out.write_all(&buffer)?;
            done += piece;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Reads at `offset`, after checking that the file is still the one that was opened as a model.
    fn read(&mut self, file: &Arc<DataFile>, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let failed = |source| unreadable(WeightError::Io { path: file.path.clone(), source });
        let known = self.open.as_ref().is_some_and(|(open, _)| Arc::ptr_eq(open, file) || open == file);
        if !known {
            self.open = Some((file.clone(), File::open(&file.path).map_err(failed)?));
        }
        let Some((_, handle)) = &mut self.open else { return Ok(()) };
        let meta = handle.metadata().map_err(failed)?;
        let inside = offset.checked_add(to.len() as u64).is_some_and(|end| end <= file.len);
        if meta.len() != file.len || meta.modified().ok() != file.modified || !inside {
            return Err(unreadable(WeightError::Changed(file.path.clone())));
        }
        handle.seek(SeekFrom::Start(offset)).map_err(failed)?;
        handle.read_exact(to).map_err(failed)
    }

    /// A view, made dense: the places of some elements at a time, in the order in which they lie in the storage.
    fn gather(&mut self, w: &WeightRef, out: &mut dyn Write) -> io::Result<()> {
        let strides = w.strides.as_deref().unwrap_or_default();
        let width = u64::from(w.dtype.bits()) / 8;
        // A few bytes, by the element types there are.
        let bytes = width as usize;
        let mut index = vec![0u64; w.shape.len()];
        let mut left = w.elements();
        let mut places: Vec<(u64, u32)> = Vec::new();
        let mut dense = Vec::new();
        while left > 0 {
            let count = left.min(GATHERED as u64 / width);
            left -= count;
            places.clear();
            for i in 0..count as u32 {
                let at = index.iter().zip(strides).try_fold(0u64, |sum, (&i, &s)| sum.checked_add(u64::try_from(s).ok()?.checked_mul(i)?));
                let at = at.and_then(|a| a.checked_mul(width));
                places.push((at.ok_or_else(|| io::Error::other("the strides of a tensor overflow"))?, i));
                advance(&mut index, &w.shape);
            }
            places.sort_unstable();
            dense.clear();
            dense.resize(count as usize * bytes, 0);
            self.scatter(w, &places, bytes, &mut dense)?;
            out.write_all(&dense)?;
        }
        Ok(())
    }

    /// Puts the elements at `places` (in storage order; byte offset and position) where they belong in `dense`.
    fn scatter(&mut self, w: &WeightRef, places: &[(u64, u32)], width: usize, dense: &mut [u8]) -> io::Result<()> {
        let outside = || unreadable(WeightError::Missing("the strides of a tensor reach outside of what is stored".into()));
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rest = places;
        while let Some(&(begin, _)) = rest.first() {
            let mut end = begin;
            let near = rest.iter().take_while(|(at, _)| {
                let taken = at.saturating_sub(end) <= GAP && at - begin < STRETCH;
                if taken {
                    end = at + width as u64;
                }
                taken
            });
            let (now, later) = rest.split_at(near.count());
            rest = later;
            let stretch: &[u8] = match &w.storage {
                Storage::File { file, offset, len } => {
                    if end > *len {
                        return Err(outside());
                    }
                    // Less than STRETCH, GAP and an element, which fits.
                    buffer.resize((end - begin) as usize, 0);
                    self.read(file, offset + begin, &mut buffer)?;
                    &buffer
                }
                Storage::Inline(b) => {
                    let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
                    range.and_then(|(from, to)| b.get(from..to)).ok_or_else(outside)?
                }
                _ => return Err(outside()),
            };
            for &(at, position) in now {
                let from = (at - begin) as usize;
                let to = position as usize * width;
                match (dense.get_mut(to..to + width), stretch.get(from..from + width)) {
                    (Some(d), Some(s)) => d.copy_from_slice(s),
                    _ => return Err(outside()),
                }
            }
        }
        self.buffer = buffer;
        Ok(())
    }
}

/// The next index in row-major order.
fn advance(index: &mut [u64], shape: &[u64]) {
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

/// Writes so many zeros.
pub(super) fn zeros(mut len: u64, out: &mut dyn Write) -> io::Result<()> {
    const BLOCK: [u8; 4096] = [0; 4096];
    while len > 0 {
        let n = len.min(BLOCK.len() as u64);
        out.write_all(&BLOCK[..n as usize])?;
        len -= n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn on_disk(bytes: &[u8]) -> (tempfile::TempDir, Storage) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        let mut file = vec![9u8; 3];
        file.extend(bytes);
        std::fs::write(&path, file).unwrap();
        let file = Arc::new(DataFile::stat(path).unwrap());
        (dir, Storage::File { file, offset: 3, len: bytes.len() as u64 })
    }

    fn copied(w: &WeightRef) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Copier::default().copy(w, &mut out).map(|()| out)
    }

    #[test]
    fn a_transposed_matrix_becomes_dense_whatever_its_size() {
        // Larger than what is gathered at a time, and with rows longer than the gap that is read over.
        let (rows, columns) = (700u64, 1111u64);
        let stored: Vec<u8> = (0..rows * columns).flat_map(|i| (i as u32).to_le_bytes()).collect();
        let expected: Vec<u8> =
            (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).flat_map(|i| (i as u32).to_le_bytes()).collect();
        let (_dir, storage) = on_disk(&stored);
        let strides = Some([1, columns as i64].into());
        for storage in [storage, Storage::Inline(stored.into())] {
            let w = WeightRef { dtype: DType::U32, shape: [columns, rows].into(), strides: strides.clone(), storage };
            assert_eq!(fault(&w), None);
            assert!(copied(&w).unwrap() == expected);
        }
    }

    #[test]
    fn an_expanded_view_repeats_and_one_that_leaves_its_storage_is_refused() {
        let mut w = WeightRef::inline(DType::U16, &[2, 3], vec![1, 0, 2, 0]);
        w.strides = Some([1, 0].into());
        assert_eq!(copied(&w).unwrap(), [1, 0, 1, 0, 1, 0, 2, 0, 2, 0, 2, 0]);
        w.strides = Some([2, 0].into());
        assert!(fault(&w).unwrap().contains("outside"));
        assert!(copied(&w).is_err());
    }

    #[test]
    fn a_file_that_changed_is_an_error_of_the_weight() {
        let (dir, storage) = on_disk(&[1, 2, 3, 4]);
        let w = WeightRef { dtype: DType::U8, shape: [4].into(), strides: None, storage };
        assert_eq!(copied(&w).unwrap(), [1, 2, 3, 4]);
        std::fs::write(dir.path().join("w"), [0; 9]).unwrap();
        let e = copied(&w).unwrap_err().downcast::<WeightError>().unwrap();
        assert!(matches!(e, WeightError::Changed(_)), "{e}");
    }

    #[test]
    fn faults_are_found_before_anything_is_written() {
        let short = WeightRef::inline(DType::F32, &[2], vec![0; 7]);
        assert_eq!(fault(&short).unwrap(), "it holds 7 bytes, but 8 are needed");
        let zeros = |n| WeightRef { dtype: DType::F32, shape: [n].into(), strides: None, storage: Storage::Zeros };
        assert_eq!(fault(&zeros(5)), None);
        assert_eq!(copied(&zeros(3000)).unwrap(), vec![0; 12_000]);
        assert!(fault(&zeros(1 << 40)).unwrap().contains("zeros"));
    }
}
