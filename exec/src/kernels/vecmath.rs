//! Elementary functions on `f32` that the compiler turns into vector code: no branches, no table, no library call.
//!
//! Method: `exp` by range reduction `x = n ln 2 + r`, |r| <= ln 2 / 2, and a degree-6 minimax polynomial of `e^r` (the
//! one of the Cephes library); `tanh` and `erf` by an odd minimax polynomial near zero and by `exp` elsewhere (`erf`:
//! Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26). Rounding to an integer adds and subtracts
//! 1.5 * 2^23: the library's `round` would be a call for every element.

/// Above this magnitude of numbers an `f32` has no fraction bits: adding it rounds to an integer.
const ROUNDER: f32 = 12_582_912.0;

/// The integer of a number to which [`ROUNDER`] was added.
#[inline(always)]
fn bits_rounded(with_rounder: f32) -> i32 {
    (with_rounder.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32)
}

/// The nearest integer, ties to even, of a number below 2^22 in magnitude.
#[inline(always)]
pub(super) fn nearest(x: f32) -> i32 {
    bits_rounded(x + ROUNDER)
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `e^x`, within 2 units in the last place; subnormal results included.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Comparisons that are false for NaN, so that it gets through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.5 { -104.5 } else { x };
    let t = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = t - ROUNDER;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let p = p * r * r + r + 1.0;
    // 2^n in two factors: n = 128 and n < -126 have no f32 of their own.
    let n = bits_rounded(t);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    let z = x * x;
    let p = -5.704_988_7e-3;
    let p = p * z + 2.063_909e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    if a < 0.625 { near } else { far.copysign(x) }
}

/// Error function; absolute error below 4e-7.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let q = 1.061_405_4;
    let q = q * t - 1.453_152;
    let q = q * t + 1.421_413_8;
    let q = q * t - 0.284_496_72;
    let q = q * t + 0.254_829_6;
    let far = 1.0 - q * t * exp(-a * a);
    let z = x * x;
    let p = 7.853_861e-5;
    let p = p * z - 8.010_193_6e-4;
    let p = p * z + 5.188_327_6e-3;
    let p = p * z - 2.685_381_2e-2;
    let p = p * z + 1.128_358_5e-1;
    let p = p * z - 3.761_262_6e-1;
    let p = p * z + std::f32::consts::FRAC_2_SQRT_PI;
    if a < 1.0 { p * x } else { far.copysign(x) }
}

/// Error function in double precision: its Maclaurin series up to 3, then the continued fraction of `erfc`.
pub(super) fn erf64(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let y = if a < 3.0 {
        // e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!: all terms positive, so nothing cancels.
        let (mut term, mut sum) = (a, a);
        let mut n = 1.0;
        while term > sum * 1e-17 {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    } else if a > 6.0 {
        1.0
    } else {
        let mut f = a;
        for k in (1..=60).rev() {
            f = a + f64::from(k) / 2.0 / f;
        }
        1.0 - (-a * a).exp() / (f * std::f64::consts::PI.sqrt())
    };
    y.copysign(x)
}

/// Sum of `f(x)`: blocks of 128 in eight `f32` lanes, blocks in `f64`, so that the error does not grow with the length.
#[inline(always)]
pub(super) fn sum_by(row: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    let mut total = 0f64;
    let mut blocks = row.chunks_exact(128);
    for block in &mut blocks {
        let mut lanes = [0f32; 8];
        for eight in block.chunks_exact(8) {
            for (l, &x) in lanes.iter_mut().zip(eight) {
                *l += f(x);
            }
        }
        total += lanes.iter().map(|&l| f64::from(l)).sum::<f64>();
    }
    total + blocks.remainder().iter().map(|&x| f64::from(f(x))).sum::<f64>()
}

/// Largest element; NaN if there is one, minus infinity if there is none.
#[inline(always)]
pub(super) fn max(row: &[f32]) -> f32 {
    // The comparison that is true where neither is larger puts a NaN of `x` into the lane; one in the lane stays by the second.
    let pick = |a: f32, x: f32| if a > x || a.is_nan() { a } else { x };
    let mut lanes = [f32::NEG_INFINITY; 8];
    let mut eights = row.chunks_exact(8);
    for eight in &mut eights {
        for (l, &x) in lanes.iter_mut().zip(eight) {
            *l = pick(*l, x);
        }
    }
    eights.remainder().iter().chain(&lanes).fold(f32::NEG_INFINITY, |a, &x| pick(a, x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(lo: f32, hi: f32) -> impl Iterator<Item = f32> {
        (0..=200_000).map(move |i| lo + (hi - lo) * (i as f32 / 200_000.0))
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for x in sweep(-87.0, 88.7) {
            let want = f64::from(x).exp();
            let err = (f64::from(exp(x)) - want).abs() / want;
            assert!(err < 2.4e-7, "exp({x}): relative error {err:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(-100.0) > 0.0, "subnormal");
    }

    #[test]
    fn tanh_sigmoid_and_erf_are_close() {
        for x in sweep(-20.0, 20.0) {
            let d = f64::from(x);
            assert!((f64::from(tanh(x)) - d.tanh()).abs() < 3e-7, "tanh({x})");
            assert!((f64::from(sigmoid(x)) - 1.0 / (1.0 + (-d).exp())).abs() < 3e-7, "sigmoid({x})");
            assert!((f64::from(erf(x)) - erf64(d)).abs() < 5e-7, "erf({x})");
        }
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert!(tanh(f32::NAN).is_nan() && erf(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn erf64_agrees_with_known_values() {
        for (x, want) in
            [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (2.5, 0.999_593_047_982_555), (3.5, 0.999_999_256_901_627_7)]
        {
            assert!((erf64(x) - want).abs() < 1e-15, "erf({x}) = {}", erf64(x));
            assert_eq!(erf64(-x), -erf64(x));
        }
    }

    #[test]
    fn sums_stay_exact_over_long_rows_and_maxima_see_nan() {
        let row = vec![0.1f32; 1_000_003];
        assert!((sum_by(&row, |x| x) / (1_000_003.0 * f64::from(0.1f32)) - 1.0).abs() < 1e-6);
        let mut row = vec![1.0f32; 19];
        row[7] = f32::NAN;
        assert!(max(&row).is_nan());
        row[7] = 3.0;
        assert_eq!(max(&row), 3.0);
    }
}
