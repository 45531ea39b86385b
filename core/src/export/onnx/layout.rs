//! Where tensors lie in the file beside the model.

use std::io::{self, Write};
use std::path::Path;

use super::names::Level;
use super::payload::{Copier, zeros};
use crate::graph::ValueKind;
use crate::hash::FastMap;
use crate::weights::{Storage, WeightRef};

/// Bytes up to which a tensor stays in the model file, where shape inference finds it.
const SMALL: u64 = 1024;
/// Bytes from which a tensor begins on a page, so that runtimes can map it.
const LARGE: u64 = 1 << 20;
/// A page.
const PAGE: u64 = 4096;
/// Alignment of the others: a cache line.
const LINE: u64 = 64;

/// What a tensor's bytes are, to find those that are the same.
#[derive(PartialEq, Eq, Hash)]
enum Content<'m> {
    File {
        path: &'m Path,
        offset: u64,
        len: u64,
        view: Option<View<'m>>,
    },
    /// In the compressed part at `part`.
    Packed {
        path: &'m Path,
        part: u64,
        offset: u64,
        len: u64,
        view: Option<View<'m>>,
    },
    Memory {
        address: usize,
        len: usize,
        view: Option<View<'m>>,
    },
    Zeros(u64),
}

/// Element width in bits, shape and strides.
type View<'m> = (u32, &'m [u64], &'m [i64]);

/// The file of external data.
pub(super) struct Layout<'m> {
    /// Its name, as the model writes it.
    pub(super) location: String,
    places: FastMap<Content<'m>, u64>,
    /// Begin and tensor, in file order.
    order: Vec<(u64, &'m WeightRef)>,
    /// Bytes in all.
    pub(super) total: u64,
}

/// What is in a tensor; `None` if it stays in the model file.
fn content(w: &WeightRef) -> Option<Content<'_>> {
    if w.byte_len() <= SMALL {
        return None;
    }
    let view = w.strides.as_deref().map(|s| (w.dtype.bits(), &*w.shape, s));
    match &w.storage {
        Storage::File { file, offset, len } => Some(Content::File { path: &file.path, offset: *offset, len: *len, view }),
        Storage::Deflated { part, offset, len } => {
            Some(Content::Packed { path: &part.file.path, part: part.offset, offset: *offset, len: *len, view })
        }
        Storage::Inline(b) => Some(Content::Memory { address: b.as_ptr().addr(), len: b.len(), view }),
        Storage::Zeros => Some(Content::Zeros(w.byte_len())),
        Storage::Strings(_) | Storage::Missing(_) => None,
    }
}

impl<'m> Layout<'m> {
    /// Gives every large initializer a place; those with the same content share theirs. `None` if the sum of sizes
    /// leaves 64 bits.
    pub(super) fn new(location: String, names: &Level<'m>) -> Option<Self> {
        let mut layout = Self { location, places: FastMap::default(), order: Vec::new(), total: 0 };
        let mut work = vec![names.graph];
        while let Some(graph) = work.pop() {
            for v in graph.values() {
                if let ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } = &v.kind {
                    layout.add(w)?;
                }
            }
            work.extend(graph.nodes().iter().flat_map(|n| n.bodies.iter().map(|b| &b.graph)));
        }
        Some(layout)
    }

    fn add(&mut self, w: &'m WeightRef) -> Option<()> {
        let Some(content) = content(w) else { return Some(()) };
        if self.places.contains_key(&content) {
            return Some(());
        }
        let begin = self.total.checked_next_multiple_of(if w.byte_len() >= LARGE { PAGE } else { LINE })?;
        self.total = begin.checked_add(w.byte_len())?;
        self.places.insert(content, begin);
        self.order.push((begin, w));
        Some(())
    }

    /// Where the tensor begins; `None` if it is in the model file.
    pub(super) fn place(&self, w: &WeightRef) -> Option<u64> {
        self.places.get(&content(w)?).copied()
    }

    /// Writes all tensors.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut copier = Copier::default();
        let mut position = 0;
        for (begin, w) in &self.order {
            zeros(begin - position, out)?;
            copier.copy(w, out)?;
            position = begin + w.byte_len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::testing::ModelBuilder;

    #[test]
    fn equal_content_is_stored_once_and_large_tensors_begin_on_pages() {
        let big = WeightRef::inline(DType::F32, &[1 << 18], vec![1; 1 << 20]);
        let other = WeightRef::inline(DType::U8, &[2000], vec![2; 2000]);
        let small = WeightRef::inline(DType::U8, &[1024], vec![3; 1024]);
        let mut tied = big.clone();
        tied.shape = [1 << 9, 1 << 9].into();
        let mut view = big.clone();
        (view.shape, view.strides) = ([1 << 9, 1 << 9].into(), Some([1, 1 << 9].into()));
        let m = ModelBuilder::new()
            .node("n", "Sum", &["w.other", "w.big", "w.tied", "w.small", "w.view"], &["y"])
            .weight("w.other", other)
            .weight("w.big", big)
            .weight("w.tied", tied)
            .weight("w.small", small)
            .weight("w.view", view)
            .build();
        let layout = Layout::new("m.data".into(), &Level::main(&m.graph, 18)).unwrap();
        let place = |name: &str| layout.place(m.graph.value(m.graph.find_value(name).unwrap()).weight().unwrap());
        assert_eq!(place("w.other"), Some(0));
        assert_eq!(place("w.big"), Some(4096));
        assert_eq!(place("w.tied"), Some(4096));
        assert_eq!(place("w.small"), None);
        assert_eq!(place("w.view"), Some(4096 + (1 << 20)));
        let mut bytes = Vec::new();
        layout.write(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, layout.total);
        assert_eq!((bytes[1999], bytes[2000], bytes[4095], bytes[4096]), (2, 0, 0, 1));
    }
}
