//! Conversions between element types: Cast, CastLike, BitCast.

use half::{bf16, f16};
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::small_float::{self, ScaleRounding};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx, half_float, kernel, one, parallel};
use crate::tensor::{Element, Tensor, element_bytes};
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] =
    &[Entry::onnx("Cast", 1, cast), Entry::onnx("CastLike", 15, cast_like), Entry::onnx("BitCast", 26, bit_cast)];

/// The type that attribute `name` gives, as a number or (operator sets before 6) by name.
pub(super) fn dtype_attr(ctx: &PrepareCtx<'_>, name: &str) -> Result<Option<DType>, KernelError> {
    if let Some(text) = ctx.node.text(name) {
        return DType::parse(&text.to_ascii_lowercase())
            .map_or_else(|| invalid!("attribute {name} names no element type"), |d| Ok(Some(d)));
    }
    let Some(number) = Attrs(ctx.node).opt_int(name)? else { return Ok(None) };
    match i32::try_from(number).ok().and_then(DType::from_onnx) {
        Some(d) => Ok(Some(d)),
        None => invalid!("attribute {name} is {number}, which is no element type"),
    }
}

fn options(ctx: &PrepareCtx<'_>) -> Result<Options, KernelError> {
    let rounding = match Attrs(ctx.node).text("round_mode", "up")? {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        _ => return invalid!("attribute round_mode must be up, down or nearest"),
    };
    Ok(Options { saturate: Attrs(ctx.node).flag("saturate", true)?, rounding })
}

fn cast(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let Some(to) = dtype_attr(ctx, "to")? else { return invalid!("attribute to is missing") };
    let options = options(ctx)?;
    kernel(move |ctx, inputs| Ok(one(convert(ctx, inputs.tensor(0)?, to, options)?)))
}

fn cast_like(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let options = options(ctx)?;
    kernel(move |ctx, inputs| {
        let to = inputs.tensor(1)?.dtype();
        Ok(one(convert(ctx, inputs.tensor(0)?, to, options)?))
    })
}

fn bit_cast(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let Some(to) = dtype_attr(ctx, "to")? else { return invalid!("attribute to is missing") };
    kernel(move |_, inputs| {
        let x = inputs.tensor(0)?;
        if to.bits() != x.dtype().bits() || to == DType::String || x.dtype() == DType::String {
            return invalid!("BitCast from {} to {to}: the widths differ", x.dtype());
        }
        if to.bits() >= 8 {
            return Ok(one(x.clone().retyped(to)));
        }
        // Codes of sub-byte types are kept sign-extended or not: bring them into the form of the other type.
        let mut out = x.clone();
        out.bytes_mut().iter_mut().for_each(|b| *b = sub_byte(to, *b));
        Ok(one(out.retyped(to)))
    })
}

/// The low bits of `byte` in the memory form of a 4- or 2-bit type.
fn sub_byte(dtype: DType, byte: u8) -> u8 {
    match dtype {
        DType::I4 => (((byte << 4) as i8) >> 4) as u8,
        DType::I2 => (((byte << 6) as i8) >> 6) as u8,
        DType::U2 => byte & 3,
        _ => byte & 15,
    }
}

/// How what does not fit is converted to the 8-bit floats.
#[derive(Clone, Copy)]
struct Options {
    saturate: bool,
    rounding: ScaleRounding,
}

/// The elements as `dtype`; shares them if they are that already.
pub(super) fn to(ctx: &mut RunCtx<'_>, x: &Tensor, dtype: DType, saturate: bool) -> Result<Tensor, KernelError> {
    convert(ctx, x, dtype, Options { saturate, rounding: ScaleRounding::Up })
}

trait CastTo<U> {
    fn cast(self) -> U;
}

macro_rules! plain {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            // Between integers `as` discards the higher bits and to floats it rounds: what the specification asks for.
            #[inline(always)]
            fn cast(self) -> $to { self as $to }
        }
    )*)*};
}
plain! {
    i8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    f32 => f32, f64;
    f64 => f32, f64;
}

/// What the x86 conversion gives, and so numpy and the runtimes there: the smallest integer for all that does not fit.
#[inline(always)]
fn to_i32(x: f64) -> i32 {
    if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

#[inline(always)]
fn to_i64(x: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x) { x as i64 } else { i64::MIN }
}

#[inline(always)]
fn to_u64(x: f64) -> u64 {
    if x >= 9_223_372_036_854_775_808.0 { x as u64 } else { to_i64(x) as u64 }
}

macro_rules! from_float {
    ($($from:ty),*) => {$(
        impl CastTo<i8> for $from { #[inline(always)] fn cast(self) -> i8 { to_i32(f64::from(self)) as i8 } }
        impl CastTo<i16> for $from { #[inline(always)] fn cast(self) -> i16 { to_i32(f64::from(self)) as i16 } }
        impl CastTo<i32> for $from { #[inline(always)] fn cast(self) -> i32 { to_i32(f64::from(self)) } }
        impl CastTo<i64> for $from { #[inline(always)] fn cast(self) -> i64 { to_i64(f64::from(self)) } }
        impl CastTo<u8> for $from { #[inline(always)] fn cast(self) -> u8 { to_i32(f64::from(self)) as u8 } }
        impl CastTo<u16> for $from { #[inline(always)] fn cast(self) -> u16 { to_i32(f64::from(self)) as u16 } }
        impl CastTo<u32> for $from { #[inline(always)] fn cast(self) -> u32 { to_i64(f64::from(self)) as u32 } }
        impl CastTo<u64> for $from { #[inline(always)] fn cast(self) -> u64 { to_u64(f64::from(self)) } }
    )*};
}
from_float!(f32, f64);

fn each<T: Element, U: Element>(src: &[T], out: &mut Tensor, f: impl Fn(T) -> U + Sync) {
    if let Some(dst) = out.as_mut_slice::<U>() {
        parallel::map(src, dst, 1, |s, d| d.iter_mut().zip(s).for_each(|(d, &s)| *d = f(s)));
    }
}

/// From one of the plain number types to one of them, bool, a half, a small float or a sub-byte integer.
fn from_plain<T>(ctx: &mut RunCtx<'_>, src: &[T], dims: &[usize], to: DType, options: Options) -> Result<Tensor, KernelError>
where
    T: Element + Default + CastTo<f32> + CastTo<f64> + CastTo<i8> + CastTo<i16> + CastTo<i32> + CastTo<i64>,
    T: CastTo<u8> + CastTo<u16> + CastTo<u32> + CastTo<u64>,
{
    let mut out = ctx.alloc(to, dims)?;
    let o = &mut out;
    match to {
        DType::F32 => each(src, o, <T as CastTo<f32>>::cast),
        DType::F64 => each(src, o, <T as CastTo<f64>>::cast),
        DType::I8 => each(src, o, <T as CastTo<i8>>::cast),
        DType::I16 => each(src, o, <T as CastTo<i16>>::cast),
        DType::I32 => each(src, o, <T as CastTo<i32>>::cast),
        DType::I64 => each(src, o, <T as CastTo<i64>>::cast),
        DType::U8 => each(src, o, <T as CastTo<u8>>::cast),
        DType::U16 => each(src, o, <T as CastTo<u16>>::cast),
        DType::U32 => each(src, o, <T as CastTo<u32>>::cast),
        DType::U64 => each(src, o, <T as CastTo<u64>>::cast),
        DType::Bool => each(src, o, |x| u8::from(x != T::default())),
        DType::F16 => each(src, o, |x| f16::from_f64(x.cast())),
        DType::Bf16 => each(src, o, |x| bf16::from_f64(x.cast())),
        DType::I4 | DType::I2 => each(src, o, |x| sub_byte(to, <T as CastTo<i8>>::cast(x) as u8) as i8),
        DType::U4 | DType::U2 => each(src, o, |x| sub_byte(to, x.cast())),
        DType::F8e8m0 => each(src, o, |x| small_float::encode_e8m0(x.cast(), options.saturate, options.rounding)),
        d if d.is_float() => each(src, o, |x| small_float::encode(d, x.cast(), options.saturate)),
        _ => return unsupported!("conversion to {to}"),
    }
    Ok(out)
}

fn convert(ctx: &mut RunCtx<'_>, x: &Tensor, to: DType, options: Options) -> Result<Tensor, KernelError> {
    let from = x.dtype();
    if from == to {
        return Ok(x.clone());
    }
    if half_float::is_half(to) && from == DType::F32 {
        return half_float::narrow(ctx, x.clone(), to);
    }
    if to == DType::String {
        return to_strings(ctx, x);
    }
    let dims = x.dims();
    macro_rules! plain {
        ($T:ty) => {
            from_plain::<$T>(ctx, x.as_slice().unwrap_or_default(), dims, to, options)
        };
    }
    match from {
        DType::F32 => plain!(f32),
        DType::F64 => plain!(f64),
        DType::I8 | DType::I4 | DType::I2 => plain!(i8),
        DType::I16 => plain!(i16),
        DType::I32 => plain!(i32),
        DType::I64 => plain!(i64),
        DType::U8 | DType::U4 | DType::U2 | DType::Bool => plain!(u8),
        DType::U16 => plain!(u16),
        DType::U32 => plain!(u32),
        DType::U64 => plain!(u64),
        DType::F16 | DType::Bf16 => {
            let wide = half_float::widen(ctx, x)?;
            convert(ctx, &wide, to, options)
        }
        DType::String => from_strings(ctx, x, to, options),
        d if d.is_float() => {
            let mut wide = ctx.alloc(DType::F32, dims)?;
            let table = small_float::decode_table(d);
            each(x.as_slice::<u8>().unwrap_or_default(), &mut wide, |code| table[usize::from(code)]);
            convert(ctx, &wide, to, options)
        }
        _ => unsupported!("conversion from {from}"),
    }
}

fn float_text(x: f64, single: bool) -> String {
    if x.is_nan() {
        "NaN".into()
    } else if x.is_infinite() {
        if x > 0.0 { "INF".into() } else { "-INF".into() }
    } else if single {
        format!("{:?}", x as f32)
    } else {
        format!("{x:?}")
    }
}

fn to_strings(ctx: &mut RunCtx<'_>, x: &Tensor) -> Result<Tensor, KernelError> {
    let strings: Vec<Box<[u8]>> = match x.dtype() {
        DType::Bool => x.bytes().iter().map(|&b| if b == 0 { "False" } else { "True" }.as_bytes().into()).collect(),
        DType::U64 => x.as_slice::<u64>().unwrap_or_default().iter().map(|v| v.to_string().into_bytes().into()).collect(),
        d if d.is_int() => {
            let wide = to(ctx, x, DType::I64, true)?;
            wide.as_slice::<i64>().unwrap_or_default().iter().map(|v| v.to_string().into_bytes().into()).collect()
        }
        d if d.is_float() => {
            let wide = to(ctx, x, DType::F64, true)?;
            let single = d != DType::F64;
            wide.as_slice::<f64>().unwrap_or_default().iter().map(|&v| float_text(v, single).into_bytes().into()).collect()
        }
        other => return unsupported!("conversion from {other} to text"),
    };
    Ok(Tensor::from_strings(x.dims(), strings)?)
}

fn from_strings(ctx: &mut RunCtx<'_>, x: &Tensor, to: DType, options: Options) -> Result<Tensor, KernelError> {
    let texts = x.as_strings().unwrap_or_default().iter().map(|s| String::from_utf8_lossy(s));
    let bad = |s: &str| KernelError::Invalid(format!("\"{}\" is no number", recut_core::diagnostic::printable(s)));
    if to.is_int() && element_bytes(to) == 8 {
        // Beyond 2^53 not every integer is an f64.
        let whole: Option<Vec<i128>> = texts.clone().map(|s| s.trim().parse().ok()).collect();
        if let Some(whole) = whole {
            let low: Vec<u64> = whole.iter().map(|&v| v as u64).collect();
            return Ok(Tensor::from_bytes(to, x.dims(), bytemuck::cast_slice(&low))?);
        }
    }
    let mut numbers = Vec::with_capacity(x.len());
    for s in texts {
        let t = s.trim();
        let number = match t.parse::<f64>() {
            Ok(n) => n,
            Err(_) if t.eq_ignore_ascii_case("true") => 1.0,
            Err(_) if t.eq_ignore_ascii_case("false") => 0.0,
            Err(_) => return Err(bad(t)),
        };
        numbers.push(number);
    }
    let wide = Tensor::from_slice(x.dims(), &numbers)?;
    convert(ctx, &wide, to, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferPool;

    fn go(x: &Tensor, dtype: DType) -> Tensor {
        to(&mut RunCtx { pool: &mut BufferPool::default() }, x, dtype, true).unwrap()
    }

    #[test]
    fn integers_stay_exact_and_wrap() {
        let x = Tensor::from_slice(&[3], &[i64::MAX - 1, 200, -1]).unwrap();
        assert_eq!(go(&x, DType::U64).as_slice::<u64>().unwrap(), [9_223_372_036_854_775_806, 200, u64::MAX]);
        assert_eq!(go(&x, DType::I8).as_slice::<i8>().unwrap(), [-2, -56, -1]);
        assert_eq!(go(&x, DType::I4).as_slice::<i8>().unwrap(), [-2, -8, -1]);
        assert_eq!(go(&x, DType::U4).as_slice::<u8>().unwrap(), [14, 8, 15]);
    }

    #[test]
    fn floats_truncate_and_overflow_as_on_x86() {
        let x = Tensor::from_slice(&[4], &[-1.9f32, 3e10, f32::NAN, 255.0]).unwrap();
        assert_eq!(go(&x, DType::I32).as_slice::<i32>().unwrap(), [-1, i32::MIN, i32::MIN, 255]);
        assert_eq!(go(&x, DType::U8).as_slice::<u8>().unwrap(), [255, 0, 0, 255]);
        assert_eq!(go(&x, DType::Bool).as_slice::<u8>().unwrap(), [1, 1, 1, 1]);
    }

    #[test]
    fn text_is_read_and_written() {
        let strings = ["3.5", "-INF", "nan", "1e3"].map(|s| s.as_bytes().into()).to_vec();
        let x = Tensor::from_strings(&[4], strings).unwrap();
        let y = go(&x, DType::F32);
        let y = y.as_slice::<f32>().unwrap();
        assert_eq!((y[0], y[1], y[2].is_nan(), y[3]), (3.5, f32::NEG_INFINITY, true, 1000.0));
        let big = Tensor::from_strings(&[1], vec![b"9007199254740993".as_slice().into()]).unwrap();
        assert_eq!(go(&big, DType::I64).as_slice::<i64>().unwrap(), [9_007_199_254_740_993]);
        let words = Tensor::from_strings(&[1], vec![b"hello".as_slice().into()]).unwrap();
        assert!(to(&mut RunCtx { pool: &mut BufferPool::default() }, &words, DType::F32, true).is_err());
        let y = go(&Tensor::from_slice(&[2], &[1.0f32, 314.15926]).unwrap(), DType::String);
        assert_eq!(y.as_strings().unwrap().iter().map(|s| &**s).collect::<Vec<_>>(), [b"1.0".as_slice(), b"314.15927"]);
    }
}
