//! `TensorProto`, decoded by hand so that its bulk is not read.
//!
//! The derived decoder copies every field. Here long `raw_data`, `float_data` and `double_data` are stepped over, and
//! only where they lie is kept: those fields are dense little-endian arrays in the file already. The position is told
//! by how much of the input is left, which any buffer knows.

use prost::DecodeError;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{self, DecodeContext, WireType};

use super::proto::StringStringEntry;

/// Bytes up to this number are taken along when the graph is read: constants that shape inference asks for.
const SMALL: u64 = 1024;

/// A stretch of dense data.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Payload {
    /// The bytes.
    Here(Bytes),
    /// `len` bytes that begin `from_end` bytes before the end of the file.
    InFile { from_end: u64, len: u64 },
}

/// A tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TensorProto {
    pub(super) dims: Vec<i64>,
    pub(super) data_type: i32,
    /// The tensor is one segment of a larger one, which no released version of the format defines.
    pub(super) has_segment: bool,
    pub(super) name: Bytes,
    pub(super) raw_data: Option<Payload>,
    /// Pieces of `float_data`, little-endian.
    pub(super) float_data: Vec<Payload>,
    /// Pieces of `double_data`, little-endian.
    pub(super) double_data: Vec<Payload>,
    pub(super) int32_data: Vec<i32>,
    pub(super) int64_data: Vec<i64>,
    pub(super) uint64_data: Vec<u64>,
    pub(super) string_data: Vec<Bytes>,
    pub(super) external_data: Vec<StringStringEntry>,
    pub(super) data_location: i32,
}

/// Number of `TensorProto.DataLocation.EXTERNAL`.
pub(super) const EXTERNAL: i32 = 1;

/// Takes a length-delimited field: its bytes if they are few, else where they lie.
fn payload(buf: &mut impl Buf) -> Result<Payload, DecodeError> {
    let len = encoding::decode_varint(buf)?;
    let from_end = buf.remaining() as u64;
    if len > from_end {
        // The error's constructor is private: the derived decoder is asked for it by a field that is one byte short.
        let mut none = Bytes::new();
        encoding::bytes::merge(WireType::LengthDelimited, &mut none, &mut &[1u8][..], DecodeContext::default())?;
        return Ok(Payload::Here(none));
    }
    let n = usize::try_from(len).unwrap_or(usize::MAX);
    if len <= SMALL {
        return Ok(Payload::Here(buf.copy_to_bytes(n)));
    }
    buf.advance(n);
    Ok(Payload::InFile { from_end, len })
}

/// Adds a packed array, or one element of an unpacked one.
fn pieces(pieces: &mut Vec<Payload>, element: WireType, wire: WireType, buf: &mut impl Buf, ctx: DecodeContext) -> Result<(), DecodeError> {
    if wire == WireType::LengthDelimited {
        pieces.push(payload(buf)?);
        return Ok(());
    }
    let mut joined = match pieces.pop() {
        Some(Payload::Here(b)) => Vec::from(b),
        Some(other) => {
            pieces.push(other);
            Vec::new()
        }
        None => Vec::new(),
    };
    if element == WireType::ThirtyTwoBit {
        let mut x = 0f32;
        encoding::float::merge(wire, &mut x, buf, ctx)?;
        joined.extend(x.to_le_bytes());
    } else {
        let mut x = 0f64;
        encoding::double::merge(wire, &mut x, buf, ctx)?;
        joined.extend(x.to_le_bytes());
    }
    pieces.push(Payload::Here(joined.into()));
    Ok(())
}

impl prost::Message for TensorProto {
    fn merge_field(&mut self, tag: u32, wire: WireType, buf: &mut impl Buf, ctx: DecodeContext) -> Result<(), DecodeError>
    where
        Self: Sized,
    {
        let named = |field: &'static str| {
            move |mut e: DecodeError| {
                e.push("TensorProto", field);
                e
            }
        };
        match tag {
            1 => encoding::int64::merge_repeated(wire, &mut self.dims, buf, ctx).map_err(named("dims")),
            2 => encoding::int32::merge(wire, &mut self.data_type, buf, ctx).map_err(named("data_type")),
            3 => {
                self.has_segment = true;
                encoding::skip_field(wire, tag, buf, ctx).map_err(named("segment"))
            }
            4 => pieces(&mut self.float_data, WireType::ThirtyTwoBit, wire, buf, ctx).map_err(named("float_data")),
            5 => encoding::int32::merge_repeated(wire, &mut self.int32_data, buf, ctx).map_err(named("int32_data")),
            6 => encoding::bytes::merge_repeated(wire, &mut self.string_data, buf, ctx).map_err(named("string_data")),
            7 => encoding::int64::merge_repeated(wire, &mut self.int64_data, buf, ctx).map_err(named("int64_data")),
            8 => encoding::bytes::merge(wire, &mut self.name, buf, ctx).map_err(named("name")),
            9 => {
                encoding::check_wire_type(WireType::LengthDelimited, wire).map_err(named("raw_data"))?;
                self.raw_data = Some(payload(buf).map_err(named("raw_data"))?);
                Ok(())
            }
            10 => pieces(&mut self.double_data, WireType::SixtyFourBit, wire, buf, ctx).map_err(named("double_data")),
            11 => encoding::uint64::merge_repeated(wire, &mut self.uint64_data, buf, ctx).map_err(named("uint64_data")),
            13 => encoding::message::merge_repeated(wire, &mut self.external_data, buf, ctx).map_err(named("external_data")),
            14 => encoding::int32::merge(wire, &mut self.data_location, buf, ctx).map_err(named("data_location")),
            _ => encoding::skip_field(wire, tag, buf, ctx),
        }
    }

    fn encode_raw(&self, buf: &mut impl BufMut)
    where
        Self: Sized,
    {
        encoding::int64::encode_packed(1, &self.dims, buf);
        encoding::int32::encode(2, &self.data_type, buf);
        for (tag, pieces) in [(4, &self.float_data), (10, &self.double_data), (9, &self.raw_data.iter().cloned().collect())] {
            for p in pieces {
                if let Payload::Here(b) = p {
                    encoding::bytes::encode(tag, b, buf);
                }
            }
        }
        encoding::int32::encode_packed(5, &self.int32_data, buf);
        encoding::bytes::encode_repeated(6, &self.string_data, buf);
        encoding::int64::encode_packed(7, &self.int64_data, buf);
        encoding::bytes::encode(8, &self.name, buf);
        encoding::uint64::encode_packed(11, &self.uint64_data, buf);
        encoding::message::encode_repeated(13, &self.external_data, buf);
        encoding::int32::encode(14, &self.data_location, buf);
    }

    fn encoded_len(&self) -> usize {
        let mut out = Vec::new();
        self.encode_raw(&mut out);
        out.len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
