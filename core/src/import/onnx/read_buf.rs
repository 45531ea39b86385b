//! A file as a protobuf input: windows of it are read as the decoder advances, and what it steps over is not read.
//!
//! Nothing is mapped. A file that shrinks or fails while it is decoded ends the input early; [`FileBuf::finish`] then
//! tells why, so that the decoder's own complaint about the cut is not what a user sees.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use prost::bytes::{Buf, Bytes};

use crate::import::{ImportError, ImportErrorKind};
use crate::weights::DataFile;

/// First window after a jump. Behind a weight mostly lies its name and the head of the next one.
const MIN_WINDOW: u64 = 4 << 10;
/// Largest window.
const MAX_WINDOW: u64 = 256 << 10;
/// Longest single text: the format caps whole messages at this size.
const MAX_TEXT: usize = i32::MAX as usize;

/// What ended the input early.
#[derive(Debug)]
pub(in crate::import) enum Trouble {
    /// The system's error.
    Io(io::Error),
    /// The file became shorter, or was written to.
    Changed,
    /// A text longer than any message may be.
    TooLong(usize),
}

impl Trouble {
    /// What it means for opening the file.
    pub(in crate::import) fn error(self, path: &Path) -> ImportError {
        let (kind, why) = match self {
            Self::Io(e) => (ImportErrorKind::Unreadable, format!("reading failed: {e}")),
            Self::Changed => {
                let why = "the file was written to while it was being read: open it again once it is complete";
                (ImportErrorKind::Unreadable, why.to_owned())
            }
            Self::TooLong(n) => (ImportErrorKind::TooLarge, format!("a text of {n} bytes is longer than an ONNX file may hold")),
        };
        ImportError::new(path, kind, why)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::import) struct FileBuf {
    file: File,
    stat: DataFile,
    /// Offset of the first byte of `window`.
    position: u64,
    window: Bytes,
    /// Where the system's file cursor stands.
    cursor: u64,
    step: u64,
    trouble: Option<Trouble>,
}

impl FileBuf {
    /// Opens a file and reads its first window.
    pub(in crate::import) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let stat = DataFile { path: path.to_owned(), len: meta.len(), modified: meta.modified().ok() };
        let mut buf = Self { file, stat, position: 0, window: Bytes::new(), cursor: 0, step: MIN_WINDOW, trouble: None };
        buf.fill();
        Ok(buf)
    }

    /// The first bytes of the file, before anything was taken.
    pub(in crate::import) fn head(&self) -> &[u8] {
        &self.window
    }

    /// State of the file when it was opened.
    pub(in crate::import) fn stat(&self) -> &DataFile {
        &self.stat
    }

    /// Says whether all was read from one unchanged file.
    pub(in crate::import) fn finish(self) -> Result<DataFile, Trouble> {
        if let Some(t) = self.trouble {
            return Err(t);
        }
        let meta = self.file.metadata().map_err(Trouble::Io)?;
        if meta.len() != self.stat.len || meta.modified().ok() != self.stat.modified {
            return Err(Trouble::Changed);
        }
        Ok(self.stat)
    }

    fn left(&self) -> u64 {
        if self.trouble.is_some() { 0 } else { self.stat.len - self.position }
    }

    /// Reads `len` bytes from `at` on to the end of `out`.
    fn read(&mut self, at: u64, len: u64, out: &mut Vec<u8>) -> Result<(), Trouble> {
        if self.cursor != at {
            self.file.seek(SeekFrom::Start(at)).map_err(Trouble::Io)?;
        }
        let got = (&self.file).take(len).read_to_end(out).map_err(Trouble::Io)?;
        self.cursor = at + got as u64;
        if got as u64 == len { Ok(()) } else { Err(Trouble::Changed) }
    }

    /// Reads the next window once the last is used up.
    fn fill(&mut self) {
        let len = self.left().min(self.step);
        if len == 0 {
            return;
        }
        self.step = (self.step * 2).min(MAX_WINDOW);
        let mut bytes = Vec::with_capacity(len as usize);
        match self.read(self.position, len, &mut bytes) {
            Ok(()) => self.window = bytes.into(),
            Err(t) => self.fail(t),
        }
    }

    fn fail(&mut self, trouble: Trouble) {
        self.window = Bytes::new();
        self.trouble.get_or_insert(trouble);
    }
}

impl Buf for FileBuf {
    fn remaining(&self) -> usize {
        usize::try_from(self.left()).unwrap_or(usize::MAX)
    }

    fn chunk(&self) -> &[u8] {
        &self.window
    }

    fn advance(&mut self, count: usize) {
        if count < self.window.len() {
            self.window.advance(count);
            self.position += count as u64;
            return;
        }
        if count > self.window.len() {
            self.step = MIN_WINDOW;
        }
        self.position = self.position.saturating_add(count as u64).min(self.stat.len);
        self.window = Bytes::new();
        self.fill();
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        if len < self.window.len() {
            self.position += len as u64;
            return self.window.split_to(len);
        }
        if len > MAX_TEXT {
            self.fail(Trouble::TooLong(len));
            return Bytes::new();
        }
        let mut bytes = self.window.to_vec();
        let rest = len.saturating_sub(bytes.len()).min(self.remaining()) as u64;
        self.position += bytes.len() as u64;
        self.window = Bytes::new();
        if rest > 0 {
            if let Err(t) = self.read(self.position, rest, &mut bytes) {
                self.fail(t);
                return Bytes::new();
            }
            self.position += rest;
        }
        self.fill();
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(bytes).unwrap();
        f
    }

    #[test]
    fn windows_join_without_a_seam() {
        let bytes: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let f = file(&bytes);
        let mut buf = FileBuf::open(f.path()).unwrap();
        let mut at = 0;
        for (i, n) in (0..).map(|i| (i, (i * 7919) % 9000 + 1)).take_while(|(_, n)| *n > 0) {
            let n = n.min(bytes.len() - at);
            if n == 0 {
                break;
            }
            if i % 3 == 0 {
                buf.advance(n);
            } else {
                assert_eq!(buf.copy_to_bytes(n), bytes[at..at + n]);
            }
            at += n;
            assert_eq!(buf.remaining(), bytes.len() - at);
        }
        assert!(buf.finish().is_ok());
    }

    #[test]
    fn a_file_that_shrinks_ends_the_input() {
        let f = file(&vec![1; 3_000_000]);
        let mut buf = FileBuf::open(f.path()).unwrap();
        f.as_file().set_len(10_000).unwrap();
        buf.advance(1_000_000);
        assert_eq!(buf.remaining(), 0);
        assert!(matches!(buf.finish(), Err(Trouble::Changed)));
    }

    #[test]
    fn a_file_that_is_written_to_is_noticed() {
        let f = file(&[1; 100]);
        let buf = FileBuf::open(f.path()).unwrap();
        f.as_file().set_len(200).unwrap();
        assert!(matches!(buf.finish(), Err(Trouble::Changed)));
    }
}
