//! Zip archives of numpy arrays.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{ArrayError, Arrays, npy};

/// Deflate cannot shrink data by more than this factor: an entry that claims more is hostile.
const MAX_RATIO: u64 = 1100;

/// Entries that are looked at.
const MAX_ENTRIES: usize = 1 << 20;

pub(super) fn read(path: &Path, file: BufReader<File>) -> Result<Arrays, ArrayError> {
    let mut archive = ZipArchive::new(file).map_err(|e| ArrayError::reading(path, None, e.to_string()))?;
    if archive.len() > MAX_ENTRIES {
        return Err(ArrayError::reading(path, None, format!("it claims {} entries", archive.len())));
    }
    let mut arrays = Arrays::new();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| ArrayError::reading(path, None, e.to_string()))?;
        let Some(name) = entry.name().strip_suffix(".npy").map(str::to_owned) else { continue };
        let size = entry.size().min(entry.compressed_size().saturating_mul(MAX_RATIO));
        let t = npy::read(&mut entry, size).map_err(|e| ArrayError::reading(path, Some(&name), e))?;
        // Reading on to the end makes the archive check its sum.
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|e| ArrayError::reading(path, Some(&name), e.to_string()))?;
        drop(entry);
        arrays.insert(name, t);
    }
    Ok(arrays)
}

pub(super) fn write(file: &mut File, arrays: &Arrays) -> std::io::Result<()> {
    let mut zip = ZipWriter::new(BufWriter::new(file));
    match entries(&mut zip, arrays) {
        Ok(()) => zip.finish().map_err(std::io::Error::other)?.flush(),
        Err(e) => {
            // Dropped, it would try to end the archive once more, fail for the same reason and print that.
            std::mem::forget(zip);
            Err(e)
        }
    }
}

fn entries(zip: &mut ZipWriter<BufWriter<&mut File>>, arrays: &Arrays) -> std::io::Result<()> {
    for (name, t) in arrays {
        let large = t.byte_len() as u64 > u64::from(u32::MAX) - (1 << 20);
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(large);
        zip.start_file(format!("{name}.npy"), options).map_err(std::io::Error::other)?;
        npy::write(zip, t)?;
    }
    Ok(())
}
