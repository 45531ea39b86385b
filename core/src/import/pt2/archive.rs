//! The container: which entries the zip has, where their bytes lie in the file, and which of the two layouts it is.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use crate::diagnostic::printable;
use crate::import::{ImportError, ImportErrorKind};
use crate::weights::{DataFile, Deflated, Storage};

/// Largest JSON text that is read, in bytes. Programs of 20,000 nodes have about 22 MB.
const MAX_JSON: u64 = 2 << 30;
/// A deflated entry that claims to hold more than this many times its size is not unpacked.
const MAX_RATIO: u64 = 1032;

/// The two ways in which torch lays out a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// torch 2.8 and newer: everything below one root folder (with its `/`), weights as raw entries.
    Archive { root: String },
    /// torch 2.1 to 2.7: a few entries without a root, weights in a nested zip.
    Legacy,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// An open archive.
pub(super) struct Archive {
    path: PathBuf,
    pub(super) file: Arc<DataFile>,
    pub(super) layout: Layout,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive {
    /// Opens the archive and tells its layout. Reads the central directory and nothing else.
    pub(super) fn open(path: &Path, file: Arc<DataFile>) -> Result<Self, ImportError> {
        let corrupt = |why: String| ImportError::new(path, ImportErrorKind::Corrupt, why);
        let reader = File::open(path).map_err(|e| ImportError::new(path, ImportErrorKind::Unreadable, format!("cannot be opened: {e}")))?;
        let zip = ZipArchive::new(BufReader::new(reader))
            .map_err(|e| corrupt(format!("the zip archive is damaged or cut short ({e}): save or copy the file again")))?;
        let layout = layout(&zip).map_err(|why| ImportError::new(path, ImportErrorKind::NotAModel, why))?;
        Ok(Self { path: path.to_owned(), file, layout, zip })
    }

    /// Names of the programs in the archive, sorted. Legacy archives have one without a name.
    pub(super) fn programs(&self) -> Vec<String> {
        let Layout::Archive { root } = &self.layout else { return vec!["model".to_owned()] };
        let mut names: Vec<String> = (self.zip.file_names())
            .filter_map(|n| n.strip_prefix(root.as_str())?.strip_prefix("models/")?.strip_suffix(".json").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// The full name of an entry below the root.
    pub(super) fn below_root(&self, name: &str) -> String {
        match &self.layout {
            Layout::Archive { root } => format!("{root}{name}"),
            Layout::Legacy => name.to_owned(),
        }
    }

    /// The bytes of a text entry; `None` if there is no such entry.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<Vec<u8>>, ImportError> {
        let Some(index) = self.zip.index_for_name(name) else { return Ok(None) };
        let path = self.path.clone();
        let corrupt = |why: String| ImportError::new(&path, ImportErrorKind::Corrupt, format!("the entry {}: {why}", printable(name)));
        let mut entry = self.zip.by_index(index).map_err(|e| corrupt(e.to_string()))?;
        let (size, packed) = (entry.size(), entry.compressed_size());
        if size > MAX_JSON || packed > self.file.len || size > packed.saturating_mul(MAX_RATIO).max(1024) {
            let why = format!("it claims to hold {size} bytes in {packed}, which cannot be");
            return Err(ImportError::new(&path, ImportErrorKind::TooLarge, format!("the entry {}: {why}", printable(name))));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 26));
        entry.by_ref().take(size + 1).read_to_end(&mut bytes).map_err(|e| corrupt(format!("cannot be read: {e}")))?;
        Ok(Some(bytes))
    }

    /// Where an entry's bytes lie; `None` if there is no such entry.
    ///
    /// # Errors
    /// If it is encrypted, claims to hold what cannot be in it, or would lie outside the file.
    pub(super) fn place(&mut self, name: &str) -> Option<Result<Place, String>> {
        let index = self.zip.index_for_name(name)?;
        let whole = Place::File(Extent { offset: 0, len: self.file.len });
        Some(self.zip.by_index_raw(index).map_err(|e| e.to_string()).and_then(|entry| within(&entry, &whole, &self.file)))
    }
}

/// Where the bytes of an entry lie, whose zip lies at `zip` of `file`.
///
/// # Errors
/// If they cannot be read from there.
pub(super) fn within<R: Read + ?Sized>(entry: &ZipFile<'_, R>, zip: &Place, file: &Arc<DataFile>) -> Result<Place, String> {
    let (size, packed) = (entry.size(), entry.compressed_size());
    let start = entry.data_start().filter(|at| at.checked_add(packed).is_some_and(|end| end <= zip.range().len));
    let Some(start) = start else { return Err("it lies outside of the file".to_owned()) };
    if entry.encrypted() {
        return Err("it is encrypted: save the model again with torch.export.save".to_owned());
    }
    match (entry.compression(), zip) {
        (CompressionMethod::Stored, _) if size == packed => Ok(zip.part(start, size)),
        (CompressionMethod::Deflated, Place::File(outer)) => {
            if size > packed.saturating_mul(MAX_RATIO) {
                return Err(format!("it claims to hold {size} bytes in {packed}, which cannot be"));
            }
            let offset = outer.offset + start;
            let part = Deflated { file: Arc::clone(file), offset, packed, unpacked: size, crc: entry.crc32() };
            Ok(Place::Deflated(Arc::new(part), Extent { offset: 0, len: size }))
        }
        _ => Err("it is compressed in a way that is not read: save the model again with torch.export.save".to_owned()),
    }
}

/// Where bytes of a file lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// As they are.
    File(Extent),
    /// In what a compressed entry unpacks to.
    Deflated(Arc<Deflated>, Extent),
}

impl Place {
    /// The range in the file, or in what the entry unpacks to.
    pub(super) fn range(&self) -> Extent {
        match self {
            Self::File(range) | Self::Deflated(_, range) => *range,
        }
    }

    /// A range of this one, which the caller has found to lie within.
    fn part(&self, start: u64, len: u64) -> Self {
        let range = Extent { offset: self.range().offset + start, len };
        match self {
            Self::File(_) => Self::File(range),
            Self::Deflated(part, _) => Self::Deflated(Arc::clone(part), range),
        }
    }

    /// `len` bytes at `start` as a tensor's storage; the caller has found them to lie within.
    pub(super) fn storage(&self, file: &Arc<DataFile>, start: u64, len: u64) -> Storage {
        let offset = self.range().offset + start;
        match self {
            Self::File(_) => Storage::File { file: Arc::clone(file), offset, len },
            Self::Deflated(part, _) => Storage::Deflated { part: Arc::clone(part), offset, len },
        }
    }
}

fn layout(zip: &ZipArchive<BufReader<File>>) -> Result<Layout, String> {
    if zip.index_for_name("serialized_exported_program.json").is_some() {
        return Ok(Layout::Legacy);
    }
    let mark = "archive_format";
    let root = zip.file_names().find_map(|n| {
        let root = n.strip_suffix(mark)?;
        (root.is_empty() || root.ends_with('/') && root.matches('/').count() == 1).then(|| root.to_owned())
    });
    let has = |part: &str| zip.file_names().any(|n| n.contains(part));
    match root {
        Some(root) => Ok(Layout::Archive { root }),
        None if has("/constants.pkl") || has("/code/") => {
            Err("this is a TorchScript archive, not a torch.export one: export the model with torch.export.save or to ONNX".to_owned())
        }
        None if has("data.pkl") => Err(
            "this is a torch.save file (weights or a pickled module), not a torch.export archive: export the model with torch.export.save"
                .to_owned(),
        ),
        None if has(".npy") => Err("this is a NumPy archive (.npz), not a model".to_owned()),
        None => Err("this is a zip archive, but no torch.export one (.pt2): it has no archive_format entry".to_owned()),
    }
}

/// A part of a file as a reader of its own: a zip inside the zip.
pub(super) struct Window {
    file: BufReader<File>,
    extent: Extent,
    at: u64,
}

impl Window {
    /// Opens `extent` of the file at `path`.
    pub(super) fn open(path: &Path, extent: Extent) -> std::io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        file.seek(SeekFrom::Start(extent.offset))?;
        Ok(Self { file, extent, at: 0 })
    }
}

impl Read for Window {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.extent.len - self.at).unwrap_or(usize::MAX).min(buf.len());
        let n = self.file.read(&mut buf[..left])?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let target = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(d) => self.extent.len.checked_add_signed(d),
            SeekFrom::Current(d) => self.at.checked_add_signed(d),
        };
        let Some(target) = target.filter(|&t| t <= self.extent.len) else {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "outside of the entry"));
        };
        // Short steps stay inside the buffer.
        let step = i64::try_from(i128::from(target) - i128::from(self.at)).unwrap_or(i64::MAX);
        self.file.seek_relative(step)?;
        self.at = target;
        Ok(target)
    }
}
