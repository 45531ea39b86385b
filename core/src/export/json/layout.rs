//! The text: one line per node, value, initializer and module, so that files are read and compared line by line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::import::json::schema::GraphFile;

/// Levels of brackets above which the reader gives up.
const MAX_DEPTH: usize = 127;
/// Levels of brackets whose content stands on lines of its own.
const OPEN: usize = 2;

/// Writes a file's text.
pub(super) fn write(file: &GraphFile, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(&mut *out, Lines::default());
    file.serialize(&mut serializer).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

#[derive(Default)]
struct Lines {
    depth: usize,
    /// Whether the innermost open bracket has content.
    any: bool,
}

impl Lines {
    fn open<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.any = false;
        if self.depth > MAX_DEPTH {
            let why = "the graphs inside of its nodes are nested too deeply for a recut graph, which has about 30 levels of them";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        w.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.any && self.depth < OPEN {
            self.line(w, self.depth)?;
        }
        // What is closed is content of what is around it.
        self.any = true;
        w.write_all(bracket)
    }

    fn line<W: ?Sized + Write>(&self, w: &mut W, depth: usize) -> io::Result<()> {
        w.write_all(b"\n")?;
        (0..depth).try_for_each(|_| w.write_all(b"  "))
    }

    fn item<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.any = true;
        match (first, self.depth <= OPEN) {
            (true, true) => self.line(w, self.depth),
            (true, false) => Ok(()),
            (false, true) => w.write_all(b",").and_then(|()| self.line(w, self.depth)),
            (false, false) => w.write_all(b", "),
        }
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open(w, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open(w, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}
