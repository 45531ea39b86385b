//! The 8-bit and 4-bit floating-point types: decoding and encoding of their codes.
//!
//! Layouts are those of the OCP OFP8 and MX specifications and, for the `fnuz` types, of "8-bit Numerical Formats for
//! Deep Neural Networks" (Noune et al., 2022).

use recut_core::dtype::DType;

/// Shape of a type: mantissa bits, exponent bias, and what its top codes mean.
struct Layout {
    mantissa: u32,
    bias: i32,
    /// Code (without sign) of the largest finite number.
    largest: u8,
    /// Code (without sign) of infinity, where there is one.
    infinity: Option<u8>,
    /// Code of NaN, where there is one.
    nan: Option<u8>,
    sign: u8,
    /// The negative-zero code is NaN, so there is no negative zero.
    unsigned_zero: bool,
}

fn layout(dtype: DType) -> Option<Layout> {
    let l = |mantissa, bias, largest, infinity, nan, sign, unsigned_zero| {
        Some(Layout { mantissa, bias, largest, infinity, nan, sign, unsigned_zero })
    };
    match dtype {
        DType::F8e4m3fn => l(3, 7, 0x7e, None, Some(0x7f), 0x80, false),
        DType::F8e4m3fnuz => l(3, 8, 0x7f, None, Some(0x80), 0x80, true),
        DType::F8e5m2 => l(2, 15, 0x7b, Some(0x7c), Some(0x7e), 0x80, false),
        DType::F8e5m2fnuz => l(2, 16, 0x7f, None, Some(0x80), 0x80, true),
        DType::F4e2m1 => l(1, 1, 0x7, None, None, 0x8, false),
        _ => None,
    }
}

/// Whether this is one of the types whose codes this module reads and writes.
pub(super) fn is_small(dtype: DType) -> bool {
    dtype == DType::F8e8m0 || layout(dtype).is_some()
}

/// The number of every code of `dtype`; all NaN for other types.
pub(super) fn decode_table(dtype: DType) -> [f32; 256] {
    let mut table = [f32::NAN; 256];
    for (code, x) in (0u8..=255).zip(&mut table) {
        *x = decode(dtype, code);
    }
    table
}

/// The number that `code` stands for. Other types give NaN.
pub(super) fn decode(dtype: DType, code: u8) -> f32 {
    if dtype == DType::F8e8m0 {
        return if code == 0xff { f32::NAN } else { 2f64.powi(i32::from(code) - 127) as f32 };
    }
    let Some(l) = layout(dtype) else { return f32::NAN };
    if l.unsigned_zero && code == 0x80 {
        return f32::NAN;
    }
    let magnitude = code & (l.sign - 1);
    let value = if Some(magnitude) == l.infinity {
        f32::INFINITY
    } else if magnitude > l.largest {
        f32::NAN
    } else {
        let (e, m) = (i32::from(magnitude >> l.mantissa), i32::from(magnitude & ((1 << l.mantissa) - 1)));
        let (e, m) = if e == 0 { (1, m) } else { (e, m + (1 << l.mantissa)) };
        m as f32 * 2f32.powi(e - l.bias - l.mantissa as i32)
    };
    if code & l.sign != 0 { -value } else { value }
}

/// The code of `x`, rounded to nearest, ties to even. What is too large becomes the largest number if `saturate`, else
/// infinity or, without one, NaN; a type without NaN saturates always.
pub(super) fn encode(dtype: DType, x: f32, saturate: bool) -> u8 {
    if dtype == DType::F8e8m0 {
        return encode_e8m0(x, saturate, ScaleRounding::Nearest);
    }
    let Some(l) = layout(dtype) else { return 0 };
    let sign = if x.is_sign_negative() { l.sign } else { 0 };
    if x.is_nan() {
        return match l.nan {
            Some(n) if l.unsigned_zero => n,
            Some(n) => n | sign,
            // f4e2m1 has no NaN: the reference gives negative zero.
            None => l.sign,
        };
    }
    let a = f64::from(x.abs());
    let overflow = || match (saturate || l.nan.is_none(), l.infinity, l.nan) {
        (true, ..) => l.largest,
        (false, Some(inf), _) => inf,
        (false, None, Some(nan)) => nan,
        (false, None, None) => l.largest,
    };
    if a.is_infinite() {
        let code = overflow();
        return if l.unsigned_zero && code == 0x80 { code } else { code | sign };
    }
    // Exponent of the result: that of `a`, or the smallest one, whose codes are evenly spaced down to zero.
    let e = (((a.to_bits() >> 52) as i32) - 1023).max(1 - l.bias);
    let steps = (a / 2f64.powi(e - l.mantissa as i32)).round_ties_even();
    let code = f64::from((e + l.bias - 1) << l.mantissa) + steps;
    let code = if code > f64::from(l.largest) { overflow() } else { code as u8 };
    match (code, l.unsigned_zero) {
        (0, true) => 0,
        (0x80, true) => 0x80,
        _ => code | sign,
    }
}

/// How a power-of-two scale is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleRounding {
    /// To the next power up.
    Up,
    /// To the next power down.
    Down,
    /// To the nearest.
    Nearest,
}

/// The f8e8m0 code of `x` (its magnitude; the type has no sign).
pub(super) fn encode_e8m0(x: f32, saturate: bool, rounding: ScaleRounding) -> u8 {
    if x.is_nan() {
        return 0xff;
    }
    if x.is_infinite() {
        return if saturate { 0xfe } else { 0xff };
    }
    let bits = x.abs().to_bits();
    // Below 2^-127, the smallest scale.
    if !saturate && bits < 0x40_0000 {
        return 0xff;
    }
    let (exponent, fraction) = ((bits >> 23) as u8, bits & 0x7f_ffff);
    // 2^-127, code 0, is subnormal in f32: half of the smallest normal number.
    let up = match rounding {
        ScaleRounding::Down => false,
        ScaleRounding::Up if exponent == 0 => fraction > 0x40_0000,
        ScaleRounding::Up => fraction > 0,
        ScaleRounding::Nearest if exponent == 0 => fraction > 0x60_0000,
        ScaleRounding::Nearest => fraction >= 0x40_0000,
    };
    let code = exponent.saturating_add(u8::from(up));
    if code == 0xff && saturate { 0xfe } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for d in [DType::F8e4m3fn, DType::F8e4m3fnuz, DType::F8e5m2, DType::F8e5m2fnuz] {
            for code in 0..=255u8 {
                let x = decode(d, code);
                if x.is_nan() {
                    assert!(decode(d, encode(d, x, true)).is_nan(), "{d} {code:#x}");
                } else {
                    assert_eq!(encode(d, x, false), code, "{d} {code:#x} = {x}");
                }
            }
        }
        for code in 0..16 {
            assert_eq!(encode(DType::F4e2m1, decode(DType::F4e2m1, code), true), code);
        }
        for code in 0..=254 {
            assert_eq!(encode_e8m0(decode(DType::F8e8m0, code), true, ScaleRounding::Nearest), code);
        }
    }

    #[test]
    fn limits_are_those_of_the_formats() {
        assert_eq!(decode(DType::F8e4m3fn, 0x7e), 448.0);
        assert_eq!(decode(DType::F8e4m3fnuz, 0x7f), 240.0);
        assert_eq!(decode(DType::F8e5m2, 0x7b), 57344.0);
        assert_eq!(decode(DType::F8e5m2fnuz, 0x7f), 57344.0);
        assert_eq!(decode(DType::F4e2m1, 0x7), 6.0);
        assert_eq!(encode(DType::F8e4m3fn, 1e6, true), 0x7e);
        assert_eq!(encode(DType::F8e4m3fn, 1e6, false), 0x7f);
        assert_eq!(encode(DType::F8e5m2, -1e6, false), 0xfc);
        assert_eq!(encode(DType::F8e4m3fnuz, -0.0, true), 0);
        assert_eq!(encode(DType::F4e2m1, 2.5, true), 0x4, "a tie goes to the even code");
        assert_eq!(encode(DType::F8e4m3fn, 1.0625, true), encode(DType::F8e4m3fn, 1.0, true), "and so does this one");
    }
}
