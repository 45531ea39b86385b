//! The 8- and 4-bit floating-point types, as codes of one byte.

use recut_core::dtype::DType;

/// Bits of a small type's exponent and mantissa, its bias, and what its top codes mean.
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    top: Top,
}

#[derive(PartialEq, Eq)]
enum Top {
    /// Infinities and NaN as in IEEE 754.
    Ieee,
    /// All ones is NaN, there is no infinity.
    OneNan,
    /// The code of negative zero is NaN, there is no infinity.
    NegativeZeroNan,
    /// Every code is a number.
    Finite,
}

fn format(d: DType) -> Option<Format> {
    let f = |exponent, mantissa, bias, top| Some(Format { exponent, mantissa, bias, top });
    match d {
        DType::F8e4m3fn => f(4, 3, 7, Top::OneNan),
        DType::F8e4m3fnuz => f(4, 3, 8, Top::NegativeZeroNan),
        DType::F8e5m2 => f(5, 2, 15, Top::Ieee),
        DType::F8e5m2fnuz => f(5, 2, 16, Top::NegativeZeroNan),
        DType::F4e2m1 => f(2, 1, 1, Top::Finite),
        _ => None,
    }
}

/// Whether a type is one of those that this module reads and writes.
pub(super) fn is_code(d: DType) -> bool {
    d == DType::F8e8m0 || format(d).is_some()
}

/// Value of every code of `d`; all NaN if it is another type.
pub(super) fn decode_table(d: DType) -> [f32; 256] {
    let mut table = [f32::NAN; 256];
    for (code, x) in (0u8..=255).zip(&mut table) {
        *x = decode(d, code);
    }
    table
}

fn decode(d: DType, code: u8) -> f32 {
    if d == DType::F8e8m0 {
        return if code == 255 { f32::NAN } else { 2f64.powi(i32::from(code) - 127) as f32 };
    }
    let Some(f) = format(d) else { return f32::NAN };
    let bits = f.exponent + f.mantissa;
    let magnitude = u32::from(code) & ((1 << bits) - 1);
    let sign = if u32::from(code) >> bits & 1 == 1 { -1.0 } else { 1.0 };
    let (e, m) = (magnitude >> f.mantissa, magnitude & ((1 << f.mantissa) - 1));
    match f.top {
        Top::Ieee if e == (1 << f.exponent) - 1 => return if m == 0 { sign * f32::INFINITY } else { f32::NAN },
        Top::OneNan if magnitude == (1 << bits) - 1 => return f32::NAN,
        Top::NegativeZeroNan if sign < 0.0 && magnitude == 0 => return f32::NAN,
        _ => {}
    }
    let steps = f64::from(m) + if e > 0 { f64::from(1 << f.mantissa) } else { 0.0 };
    let exponent = e.max(1) as i32 - f.bias - f.mantissa as i32;
    sign * (steps * 2f64.powi(exponent)) as f32
}

/// Code of `x` in `d`, rounded to nearest even. What is too large becomes the largest number if `saturate`, else infinity or NaN.
pub(super) fn encode(d: DType, x: f32, saturate: bool) -> u8 {
    if d == DType::F8e8m0 {
        return encode_power(x);
    }
    let Some(f) = format(d) else { return 0 };
    let bits = f.exponent + f.mantissa;
    let sign = u8::from(x.is_sign_negative()) << bits;
    let all = ((1u32 << bits) - 1) as u8;
    let nan = if f.top == Top::NegativeZeroNan { 0x80 } else { sign | all };
    let largest = match f.top {
        Top::Ieee => ((((1u32 << f.exponent) - 1) << f.mantissa) - 1) as u8,
        Top::OneNan => all - 1,
        Top::NegativeZeroNan | Top::Finite => all,
    };
    if x.is_nan() {
        return if f.top == Top::Finite { largest } else { nan };
    }
    let over = match f.top {
        _ if saturate || f.top == Top::Finite => sign | largest,
        Top::Ieee => sign | (largest + 1),
        _ => nan,
    };
    if x.is_infinite() {
        return over;
    }
    let a = f64::from(x.abs());
    if a == 0.0 {
        return if f.top == Top::NegativeZeroNan { 0 } else { sign };
    }
    // Exact: f64 has all f32 as normal numbers, and powers of two only shift.
    let e = ((a.to_bits() >> 52) as i32 - 1023).max(1 - f.bias);
    let steps = (a * 2f64.powi(f.mantissa as i32 - e)).round_ties_even();
    let code = (i64::from(e + f.bias - 1) << f.mantissa) + steps as i64;
    if code > i64::from(largest) {
        return over;
    }
    if code == 0 && f.top == Top::NegativeZeroNan { 0 } else { sign | code as u8 }
}

/// The power of two nearest to `x`, halves up.
fn encode_power(x: f32) -> u8 {
    if x.is_nan() || x < 0.0 {
        return 255;
    }
    if x.is_infinite() {
        return 254;
    }
    let bits = x.to_bits();
    let (e, m) = (bits >> 23, bits & 0x7f_ffff);
    if e == 0 {
        // Code 0 is 2^-127, which f32 holds as a subnormal number.
        return u8::from(m >= 0x60_0000);
    }
    (e + u32::from(m >= 0x40_0000)).min(254) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for d in [DType::F8e4m3fn, DType::F8e4m3fnuz, DType::F8e5m2, DType::F8e5m2fnuz, DType::F4e2m1, DType::F8e8m0] {
            let codes = if d == DType::F4e2m1 { 16 } else { 256 };
            for (code, x) in decode_table(d).into_iter().enumerate().take(codes) {
                let back = encode(d, x, false);
                assert!(x.is_nan() && decode(d, back).is_nan() || usize::from(back) == code, "{d} {code:#x} {x} {back:#x}");
            }
        }
    }

    #[test]
    fn known_codes() {
        assert_eq!(decode(DType::F8e4m3fn, 0x7e), 448.0);
        assert_eq!(decode(DType::F8e5m2, 0x7b), 57344.0);
        assert_eq!(decode(DType::F4e2m1, 0x7), 6.0);
        assert_eq!(encode(DType::F8e4m3fn, 1e9, true), 0x7e);
        assert_eq!(encode(DType::F8e4m3fn, 1e9, false), 0x7f);
        assert_eq!(encode(DType::F8e5m2, -1e9, false), 0xfc);
        // Halfway between 1.0 and 1.125 goes to the even one.
        assert_eq!(encode(DType::F8e4m3fn, 1.0625, true), encode(DType::F8e4m3fn, 1.0, true));
    }
}
