//! Tensor data that a file holds compressed: archives that were packed again by another tool than torch.
//!
//! Such data cannot be read in place. A read unpacks the part from its beginning, keeps what was asked for, and throws the
//! rest away as it goes, so that memory is bounded by the tensor and never by what a file claims.

use std::io::Read;
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::{DataFile, WeightError};

/// Bytes that are unpacked at a time while looking for the first one.
const PIECE: usize = 64 << 10;
/// Room that is made on the word of a file; more comes as bytes do.
const ROOM: u64 = 16 << 20;

/// A part of a file that is compressed by deflate, without a header.
#[derive(Debug, PartialEq, Eq)]
pub struct Deflated {
    /// The file.
    pub file: Arc<DataFile>,
    /// First byte of the compressed data.
    pub offset: u64,
    /// Bytes of the compressed data.
    pub packed: u64,
    /// Bytes that it claims to unpack to.
    pub unpacked: u64,
    /// CRC-32 of the unpacked bytes as the file states it; compared where all of them are read.
    pub crc: u32,
}

impl Deflated {
    /// `len` bytes at `offset` of the unpacked data.
    ///
    /// # Errors
    /// If the file changed or cannot be read, or the part does not unpack to as many bytes as it claims, or to others.
    pub fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, WeightError> {
        let damaged = |why: String| WeightError::Damaged { path: self.file.path.clone(), why };
        if offset.checked_add(len).is_none_or(|end| end > self.unpacked) {
            return Err(damaged(format!("{len} bytes at {offset} of {} are asked for", self.unpacked)));
        }
        let packed = self.file.open_at(self.offset, self.packed)?.take(self.packed);
        let mut unpacked = DeflateDecoder::new(packed);
        let mut crc = Crc::new();
        let mut piece = vec![0; PIECE];
        let mut skipped = 0;
        while skipped < offset {
            let room = usize::try_from(offset - skipped).unwrap_or(PIECE).min(PIECE);
            let n = unpacked.read(&mut piece[..room]).map_err(|e| damaged(e.to_string()))?;
            if n == 0 {
                return Err(damaged(format!("it ends after {skipped} of {} bytes", self.unpacked)));
            }
            skipped += n as u64;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len.min(ROOM)).unwrap_or(0));
        unpacked.by_ref().take(len).read_to_end(&mut bytes).map_err(|e| damaged(e.to_string()))?;
        if bytes.len() as u64 != len {
            return Err(damaged(format!("it ends after {} of {} bytes", skipped + bytes.len() as u64, self.unpacked)));
        }
        if offset == 0 && len == self.unpacked {
            crc.update(&bytes);
            if crc.sum() != self.crc {
                return Err(damaged(format!("its checksum is {:08x} and not {:08x}", crc.sum(), self.crc)));
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A part with these bytes, behind 7 others, that claims to have `claimed` of them.
    fn part(dir: &std::path::Path, bytes: &[u8], claimed: u64) -> Deflated {
        let mut encoder = flate2::write::DeflateEncoder::new(b"before.".to_vec(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        let stored = encoder.finish().unwrap();
        let path = dir.join("parts");
        std::fs::write(&path, &stored).unwrap();
        let mut crc = Crc::new();
        crc.update(bytes);
        let packed = stored.len() as u64 - 7;
        Deflated { file: Arc::new(DataFile::stat(path).unwrap()), offset: 7, packed, unpacked: claimed, crc: crc.sum() }
    }

    #[test]
    fn any_range_of_the_unpacked_bytes_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        let p = part(dir.path(), &bytes, 800_000);
        for (at, len) in [(0, 800_000), (0, 4), (123_456, 77), (799_999, 1), (800_000, 0)] {
            assert_eq!(p.read_at(at as u64, len as u64).unwrap(), bytes[at..at + len], "{at} {len}");
        }
        assert!(p.read_at(799_999, 2).is_err() && p.read_at(u64::MAX, 2).is_err());
    }

    #[test]
    fn what_a_file_claims_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let error = |p: &Deflated, at, len| p.read_at(at, len).unwrap_err().to_string();
        let long = part(dir.path(), &[7; 1000], 1 << 50);
        assert!(error(&long, 0, 1 << 40).contains("ends after 1000"), "{}", error(&long, 0, 1 << 40));
        assert!(error(&long, 1 << 40, 4).contains("ends after 1000"));
        let other = Deflated { crc: 1, ..part(dir.path(), &[7; 1000], 1000) };
        assert!(error(&other, 0, 1000).contains("checksum"));
        let cut = Deflated { packed: 3, ..part(dir.path(), &[7; 1000], 1000) };
        assert!(matches!(cut.read_at(0, 1000), Err(WeightError::Damaged { .. })));
        let outside = Deflated { packed: 1 << 40, ..part(dir.path(), &[7; 1000], 1000) };
        assert!(matches!(outside.read_at(0, 1000), Err(WeightError::Changed(_))));
    }
}
