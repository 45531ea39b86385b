//! Comparison of a value with what it should be.

use recut_core::dtype::DType;

use crate::tensor::{Tensor, Value};

/// How two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether they agree within the tolerance.
    pub ok: bool,
    /// Largest absolute difference; `None` if types or shapes differ.
    pub max_abs: Option<f64>,
    /// Largest difference relative to the expected value, over expected values that are not 0.
    pub max_rel: Option<f64>,
    /// Power of the expected values over that of the differences, in decibels; infinite where nothing differs.
    pub sqnr_db: Option<f64>,
    /// Elements outside of the tolerance.
    pub mismatches: u64,
    /// Why they do not agree, in words; empty where they do.
    pub message: String,
}

/// Relative and absolute tolerance that suit results of this type, where nobody says otherwise: what differences in the
/// order of sums leave, some units in the last place of the narrow types.
#[must_use]
pub fn default_tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Bf16 => (2f64.powi(-6), 1e-2),
        DType::F16 => (1e-2, 1e-3),
        _ => (1e-3, 1e-4),
    }
}

/// Compares: floats by `|got - want| <= atol + rtol * |want|` with NaN equal to NaN, everything else exactly.
#[must_use]
pub fn compare(got: &Value, want: &Tensor, rtol: f64, atol: f64) -> Comparison {
    let fail = |message: String| Comparison { ok: false, max_abs: None, max_rel: None, sqnr_db: None, mismatches: 0, message };
    let Some(got) = got.as_tensor() else { return fail("it is no tensor".to_owned()) };
    if got.dtype() != want.dtype() {
        return fail(format!("it is {}, expected {}", got.dtype(), want.dtype()));
    }
    if got.dims() != want.dims() {
        return fail(format!("its shape is {:?}, expected {:?}", got.dims(), want.dims()));
    }
    if let (Some(a), Some(b)) = (got.as_strings(), want.as_strings()) {
        let mismatches = a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        return finish(0.0, 0.0, 0.0, 0.0, mismatches, want.len());
    }
    let exact = !want.dtype().is_float() && !matches!(want.dtype(), DType::C64 | DType::C128);
    let (rtol, atol) = if exact { (0.0, 0.0) } else { (rtol, atol) };
    let (Some(a), Some(b)) = (numbers(got), numbers(want)) else {
        let width = crate::tensor::element_bytes(want.dtype()).max(1);
        let mismatches = got.bytes().chunks(width).zip(want.bytes().chunks(width)).filter(|(a, b)| a != b).count() as u64;
        return finish(0.0, 0.0, 0.0, 0.0, mismatches, want.len());
    };
    let (mut max_abs, mut max_rel, mut signal, mut noise, mut mismatches) = (0f64, 0f64, 0f64, 0f64, 0u64);
    let wide = matches!(want.dtype(), DType::I64 | DType::U64);
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        // 64-bit integers are compared as such: f64 cannot tell large ones apart.
        if wide && got.bytes()[i * 8..i * 8 + 8] != want.bytes()[i * 8..i * 8 + 8] {
            mismatches += 1;
        }
        if a == b || a.is_nan() && b.is_nan() {
            signal += if b.is_finite() { b * b } else { 0.0 };
            continue;
        }
        let d = (a - b).abs();
        if d.is_nan() || d.is_infinite() {
            max_abs = f64::INFINITY;
            noise = f64::INFINITY;
            mismatches += 1;
            continue;
        }
        max_abs = max_abs.max(d);
        if b != 0.0 {
            max_rel = max_rel.max(d / b.abs());
        }
        signal += b * b;
        noise += d * d;
        if !wide && d > atol + rtol * b.abs() {
            mismatches += 1;
        }
    }
    finish(max_abs, max_rel, signal, noise, mismatches, want.len())
}

fn finish(max_abs: f64, max_rel: f64, signal: f64, noise: f64, mismatches: u64, elements: usize) -> Comparison {
    let sqnr = if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() };
    let message = match mismatches {
        0 => String::new(),
        n => format!("{n} of {elements} elements differ by more than the tolerance; the largest difference is {max_abs:.3e}"),
    };
    Comparison { ok: mismatches == 0, max_abs: Some(max_abs), max_rel: Some(max_rel), sqnr_db: Some(sqnr), mismatches, message }
}

/// Elements as numbers; `None` for types that have no plain form here.
fn numbers(t: &Tensor) -> Option<Vec<f64>> {
    macro_rules! read {
        ($($t:ty: $to:expr),*) => {$(
            if let Some(v) = t.as_slice::<$t>() { return Some(v.iter().map(|&x| $to(x)).collect()); }
        )*};
    }
    match t.dtype() {
        DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz | DType::F8e8m0 | DType::F4e2m1 => return None,
        DType::C64 => return Some(bytemuck::pod_collect_to_vec::<u8, f32>(t.bytes()).into_iter().map(f64::from).collect()),
        DType::C128 => return Some(bytemuck::pod_collect_to_vec::<u8, f64>(t.bytes())),
        _ => {}
    }
    read!(f32: f64::from, f64: |x| x, half::f16: half::f16::to_f64, half::bf16: half::bf16::to_f64,
        i8: f64::from, i16: f64::from, i32: f64::from, i64: |x| x as f64,
        u8: f64::from, u16: f64::from, u32: f64::from, u64: |x| x as f64);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(v: &[f32]) -> Tensor {
        Tensor::from_slice(&[v.len()], v).unwrap()
    }

    #[test]
    fn tolerance_is_relative_to_the_expected_value() {
        let c = |a: &[f32], b: &[f32]| compare(&t(a).into(), &t(b), 0.1, 0.01);
        assert!(c(&[109.0, f32::NAN, f32::INFINITY], &[100.0, f32::NAN, f32::INFINITY]).ok);
        let bad = c(&[112.0, 1.0], &[100.0, 1.0]);
        assert!(!bad.ok && bad.mismatches == 1 && bad.max_abs == Some(12.0));
        assert!((bad.max_rel.unwrap() - 0.12).abs() < 1e-9);
        assert!((bad.sqnr_db.unwrap() - 10.0 * (10001f64 / 144.0).log10()).abs() < 1e-9);
        assert!(!c(&[f32::NAN], &[1.0]).ok && !c(&[f32::INFINITY], &[1.0]).ok);
        assert_eq!(c(&[1.0], &[1.0]).sqnr_db, Some(f64::INFINITY));
    }

    #[test]
    fn integers_are_exact_and_shapes_and_types_must_agree() {
        let big = |x: i64| Tensor::scalar(x);
        assert!(!compare(&big(i64::MAX).into(), &big(i64::MAX - 1), 1.0, 10.0).ok);
        assert!(compare(&big(5).into(), &big(5), 0.0, 0.0).ok);
        assert!(compare(&t(&[1.0]).into(), &big(1), 0.0, 0.0).message.contains("f32"));
        assert!(compare(&t(&[1.0]).into(), &t(&[1.0, 2.0]), 0.0, 0.0).message.contains("[2]"));
    }
}
