//! Element types of tensors.

use serde::{Deserialize, Serialize};

/// Element type of a tensor: the union of what ONNX (to IR 13), ATen and OpenVINO can store.
///
/// The serialized form and [`std::fmt::Display`] use the short names of the reports (`f32`, `i64`, `bf16`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// float8 e4m3fn (OCP OFP8: no infinities).
    F8e4m3fn,
    /// float8 e4m3fnuz (no infinities, no negative zero).
    F8e4m3fnuz,
    /// float8 e5m2 (OCP OFP8).
    F8e5m2,
    /// float8 e5m2fnuz.
    F8e5m2fnuz,
    /// float8 e8m0 (OCP MX scale: a power of two).
    F8e8m0,
    /// float4 e2m1 (OCP MX), two to a byte in files.
    F4e2m1,
    /// Signed 8-bit.
    I8,
    /// Signed 16-bit.
    I16,
    /// Signed 32-bit.
    I32,
    /// Signed 64-bit.
    I64,
    /// Unsigned 8-bit.
    U8,
    /// Unsigned 16-bit.
    U16,
    /// Unsigned 32-bit.
    U32,
    /// Unsigned 64-bit.
    U64,
    /// Signed 4-bit, two to a byte in files, the first in the low bits.
    I4,
    /// Unsigned 4-bit, packed like [`DType::I4`].
    U4,
    /// Signed 2-bit, four to a byte in files.
    I2,
    /// Unsigned 2-bit, packed like [`DType::I2`].
    U2,
    /// One byte, 0 or 1.
    Bool,
    /// Two f32.
    C64,
    /// Two f64.
    C128,
    /// Byte strings of any length.
    String,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 26] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::F8e4m3fn,
        Self::F8e4m3fnuz,
        Self::F8e5m2,
        Self::F8e5m2fnuz,
        Self::F8e8m0,
        Self::F4e2m1,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I4,
        Self::U4,
        Self::I2,
        Self::U2,
        Self::Bool,
        Self::C64,
        Self::C128,
        Self::String,
    ];

    /// Bits of one element as files store it; 0 for strings, whose size varies.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::C128 => 128,
            Self::F64 | Self::I64 | Self::U64 | Self::C64 => 64,
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 16,
            Self::I8 | Self::U8 | Self::Bool => 8,
            Self::F8e4m3fn | Self::F8e4m3fnuz | Self::F8e5m2 | Self::F8e5m2fnuz | Self::F8e8m0 => 8,
            Self::I4 | Self::U4 | Self::F4e2m1 => 4,
            Self::I2 | Self::U2 => 2,
            Self::String => 0,
        }
    }

    /// Bytes that `elements` of this type take in a file, rounded up to whole bytes; `None` on overflow and for strings.
    #[must_use]
    pub fn bytes_for(self, elements: u64) -> Option<u64> {
        match self {
            Self::String => None,
            _ => elements.checked_mul(u64::from(self.bits())).map(|b| b.div_ceil(8)),
        }
    }

    /// Whether the type is a floating-point one, of any width.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F32
                | Self::F64
                | Self::F16
                | Self::Bf16
                | Self::F8e4m3fn
                | Self::F8e4m3fnuz
                | Self::F8e5m2
                | Self::F8e5m2fnuz
                | Self::F8e8m0
                | Self::F4e2m1
        )
    }

    /// Whether the type is a signed or unsigned integer (not bool).
    #[must_use]
    pub const fn is_int(self) -> bool {
        matches!(
            self,
            Self::I8
                | Self::I16
                | Self::I32
                | Self::I64
                | Self::U8
                | Self::U16
                | Self::U32
                | Self::U64
                | Self::I4
                | Self::U4
                | Self::I2
                | Self::U2
        )
    }

    /// The short name used in reports and capability tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8e4m3fn => "f8e4m3fn",
            Self::F8e4m3fnuz => "f8e4m3fnuz",
            Self::F8e5m2 => "f8e5m2",
            Self::F8e5m2fnuz => "f8e5m2fnuz",
            Self::F8e8m0 => "f8e8m0",
            Self::F4e2m1 => "f4e2m1",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I4 => "i4",
            Self::U4 => "u4",
            Self::I2 => "i2",
            Self::U2 => "u2",
            Self::Bool => "bool",
            Self::C64 => "c64",
            Self::C128 => "c128",
            Self::String => "string",
        }
    }

    /// Number in `onnx.TensorProto.DataType`.
    #[must_use]
    pub const fn to_onnx(self) -> i32 {
        match self {
            Self::F32 => 1,
            Self::U8 => 2,
            Self::I8 => 3,
            Self::U16 => 4,
            Self::I16 => 5,
            Self::I32 => 6,
            Self::I64 => 7,
            Self::String => 8,
            Self::Bool => 9,
            Self::F16 => 10,
            Self::F64 => 11,
            Self::U32 => 12,
            Self::U64 => 13,
            Self::C64 => 14,
            Self::C128 => 15,
            Self::Bf16 => 16,
            Self::F8e4m3fn => 17,
            Self::F8e4m3fnuz => 18,
            Self::F8e5m2 => 19,
            Self::F8e5m2fnuz => 20,
            Self::U4 => 21,
            Self::I4 => 22,
            Self::F4e2m1 => 23,
            Self::F8e8m0 => 24,
            Self::U2 => 25,
            Self::I2 => 26,
        }
    }

    /// The type with this number in `onnx.TensorProto.DataType`; `None` for 0 (undefined) and unknown numbers.
    #[must_use]
    pub fn from_onnx(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.to_onnx() == number)
    }

    /// The type with this short name (`f32`), numpy/torch name (`float32`, `torch.float32`), or `None`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        Some(match name {
            "float32" | "float" => Self::F32,
            "float64" | "double" => Self::F64,
            "float16" | "half" => Self::F16,
            "bfloat16" => Self::Bf16,
            "int8" => Self::I8,
            "int16" | "short" => Self::I16,
            "int32" | "int" => Self::I32,
            "int64" | "long" => Self::I64,
            "uint8" => Self::U8,
            "uint16" => Self::U16,
            "uint32" => Self::U32,
            "uint64" => Self::U64,
            "complex64" => Self::C64,
            "complex128" => Self::C128,
            _ => return Self::ALL.into_iter().find(|d| d.name() == name),
        })
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn onnx_numbers_and_names_round_trip() {
        for d in DType::ALL {
            assert_eq!(DType::from_onnx(d.to_onnx()), Some(d));
            assert_eq!(DType::parse(d.name()), Some(d));
        }
        assert_eq!(DType::from_onnx(0), None);
        assert_eq!(DType::from_onnx(99), None);
    }

    #[test]
    fn packed_types_round_up_to_bytes() {
        assert_eq!(DType::I4.bytes_for(5), Some(3));
        assert_eq!(DType::U2.bytes_for(5), Some(2));
        assert_eq!(DType::F32.bytes_for(u64::MAX), None);
    }
}
