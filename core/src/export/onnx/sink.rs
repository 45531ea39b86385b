//! Protobuf by hand, in two passes over the same code: the first measures, the second writes.
//!
//! A message is preceded by its length, so that whoever streams has to know the lengths of all messages first. The first
//! pass notes them in the order in which messages begin; the second meets the same messages in the same order.

use std::io::{self, Write};

use super::payload::Copier;
use crate::weights::WeightRef;

/// Wire type of numbers.
const VARINT: u32 = 0;
/// Wire type of what has a length.
const DELIMITED: u32 = 2;
/// Wire type of f32.
const FIXED32: u32 = 5;

/// Lengths of all messages, in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    all: Vec<u64>,
    /// Bytes in all.
    pub(super) total: u64,
}

/// Where messages go.
pub(super) struct Sink<'w> {
    lengths: Lengths,
    /// The message that begins next, while writing.
    next: usize,
    position: u64,
    out: Option<(&'w mut dyn Write, Copier)>,
}

impl<'w> Sink<'w> {
    /// The first pass.
    pub(super) fn measuring() -> Self {
        Self { lengths: Lengths::default(), next: 0, position: 0, out: None }
    }

    /// The second pass.
    pub(super) fn writing(lengths: Lengths, out: &'w mut dyn Write) -> Self {
        Self { lengths, next: 0, position: 0, out: Some((out, Copier::default())) }
    }

    /// What the first pass found.
    pub(super) fn finish(mut self) -> Lengths {
        self.lengths.total = self.position;
        self.lengths
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A sum that leaves 64 bits is far above every limit that is compared with.
        self.position = self.position.saturating_add(bytes.len() as u64);
        match &mut self.out {
            Some((out, _)) => out.write_all(bytes),
            None => Ok(()),
        }
    }

    fn varint(&mut self, mut n: u64) -> io::Result<()> {
        let mut bytes = [0u8; 10];
        for (i, b) in bytes.iter_mut().enumerate() {
            let low = (n & 0x7f) as u8;
            n >>= 7;
            if n == 0 {
                *b = low;
                return self.put(&bytes[..=i]);
            }
            *b = low | 0x80;
        }
        Ok(())
    }

    fn key(&mut self, tag: u32, wire: u32) -> io::Result<()> {
        self.varint(u64::from(tag << 3 | wire))
    }

    /// A number; also where it is 0.
    pub(super) fn int(&mut self, tag: u32, n: i64) -> io::Result<()> {
        self.key(tag, VARINT)?;
        self.varint(n.cast_unsigned())
    }

    /// An f32.
    pub(super) fn float(&mut self, tag: u32, x: f32) -> io::Result<()> {
        self.key(tag, FIXED32)?;
        self.put(&x.to_le_bytes())
    }

    /// Bytes or text.
    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) -> io::Result<()> {
        self.key(tag, DELIMITED)?;
        self.varint(bytes.len() as u64)?;
        self.put(bytes)
    }

    /// Text, left out where it is empty.
    pub(super) fn text(&mut self, tag: u32, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.bytes(tag, text.as_bytes()) }
    }

    /// A packed array of numbers.
    pub(super) fn packed(&mut self, tag: u32, numbers: impl Iterator<Item = i64>) -> io::Result<()> {
        self.message(tag, |s| {
            for n in numbers {
                s.varint(n.cast_unsigned())?;
            }
            Ok(())
        })
    }

    /// A packed array of f32.
    pub(super) fn packed_floats(&mut self, tag: u32, numbers: impl Iterator<Item = f32>) -> io::Result<()> {
        self.message(tag, |s| {
            for x in numbers {
                s.put(&x.to_le_bytes())?;
            }
            Ok(())
        })
    }

    /// A message whose fields `fields` adds. It is called in both passes and has to add the same.
    pub(super) fn message(&mut self, tag: u32, fields: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        if self.out.is_none() {
            let slot = self.lengths.all.len();
            self.lengths.all.push(0);
            let before = self.position;
            fields(self)?;
            let len = self.position - before;
            if let Some(slot) = self.lengths.all.get_mut(slot) {
                *slot = len;
            }
            self.key(tag, DELIMITED)?;
            return self.varint(len);
        }
        let len = self.lengths.all.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        self.key(tag, DELIMITED)?;
        self.varint(len)?;
        let before = self.position;
        fields(self)?;
        if self.position - before == len { Ok(()) } else { Err(io::Error::other("the two passes of the ONNX writer differ")) }
    }

    /// The bytes of a stored tensor, as a field.
    pub(super) fn payload(&mut self, tag: u32, weight: &WeightRef) -> io::Result<()> {
        let len = weight.byte_len();
        self.key(tag, DELIMITED)?;
        self.varint(len)?;
        self.position = self.position.saturating_add(len);
        match &mut self.out {
            Some((out, copier)) => copier.copy(weight, *out),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(fields: impl Fn(&mut Sink<'_>) -> io::Result<()>) -> Vec<u8> {
        let mut measure = Sink::measuring();
        fields(&mut measure).unwrap();
        let lengths = measure.finish();
        let (total, mut out) = (lengths.total, Vec::new());
        fields(&mut Sink::writing(lengths, &mut out)).unwrap();
        assert_eq!(total, out.len() as u64);
        out
    }

    #[test]
    fn messages_have_their_lengths_in_front() {
        let out = both(|s| {
            s.message(1, |s| {
                s.int(1, 300)?;
                s.message(2, |s| s.text(1, "ab"))?;
                s.message(3, |_| Ok(()))
            })?;
            s.int(2, -1)
        });
        let inner = [0x08, 0xac, 0x02, 0x12, 4, 0x0a, 2, b'a', b'b', 0x1a, 0];
        let mut expected = vec![0x0a, 11];
        expected.extend(inner);
        expected.extend([0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(out, expected);
    }

    #[test]
    fn long_messages_have_long_lengths() {
        let long = vec![7u8; 300];
        let out = both(|s| s.message(1, |s| s.bytes(2, &long)));
        assert_eq!(out[..6], [0x0a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        assert_eq!(out.len(), 306);
    }
}
