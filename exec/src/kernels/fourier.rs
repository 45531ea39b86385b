//! The discrete Fourier transform of any length in `n log n` steps.

use std::f64::consts::{PI, TAU};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    fn turn(angle: f64) -> Self {
        Self { re: angle.cos(), im: angle.sin() }
    }

    fn times(self, o: Self) -> Self {
        Self { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }

    fn plus(self, o: Self) -> Self {
        Self { re: self.re + o.re, im: self.im + o.im }
    }

    fn minus(self, o: Self) -> Self {
        Self { re: self.re - o.re, im: self.im - o.im }
    }

    fn swapped(self) -> Self {
        Self { re: self.im, im: self.re }
    }

    fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }
}

/// What transforms of one length share.
pub(super) struct Plan {
    len: usize,
    /// Roots of unity of the power of two that is transformed.
    roots: Vec<Complex>,
    /// For other lengths: the chirp, and the transform of its inverse (Bluestein's convolution).
    chirp: Option<(Vec<Complex>, Vec<Complex>)>,
}

impl Plan {
    pub(super) fn new(len: usize) -> Self {
        let size = if len.is_power_of_two() { len } else { (2 * len).next_power_of_two() };
        let roots: Vec<Complex> = (0..size / 2).map(|k| Complex::turn(-TAU * k as f64 / size as f64)).collect();
        let mut plan = Self { len, roots, chirp: None };
        if size != len {
            // The square is reduced first, so that the angle keeps its digits.
            let chirp: Vec<Complex> =
                (0..len).map(|k| Complex::turn(-PI * ((k as u128 * k as u128) % (2 * len as u128)) as f64 / len as f64)).collect();
            let mut filter = vec![Complex::default(); size];
            for (k, c) in chirp.iter().enumerate() {
                filter[k] = c.conjugate();
                filter[(size - k) % size] = c.conjugate();
            }
            plan.radix2(&mut filter);
            plan.chirp = Some((chirp, filter));
        }
        plan
    }

    /// Transforms `line`, which has the plan's length, in place; the inverse is divided by it.
    pub(super) fn run(&self, line: &mut [Complex], inverse: bool) {
        if inverse {
            line.iter_mut().for_each(|c| *c = c.swapped());
        }
        self.forward(line);
        if inverse {
            let scale = 1.0 / self.len.max(1) as f64;
            line.iter_mut().for_each(|c| *c = Complex { re: c.im * scale, im: c.re * scale });
        }
    }

    fn forward(&self, line: &mut [Complex]) {
        let Some((chirp, filter)) = &self.chirp else {
            self.radix2(line);
            return;
        };
        let size = filter.len();
        let mut work = vec![Complex::default(); size];
        work.iter_mut().zip(line.iter().zip(chirp)).for_each(|(w, (x, c))| *w = x.times(*c));
        self.radix2(&mut work);
        work.iter_mut().zip(filter).for_each(|(w, f)| *w = w.times(*f).swapped());
        self.radix2(&mut work);
        let scale = 1.0 / size as f64;
        for (x, (w, c)) in line.iter_mut().zip(work.iter().zip(chirp)) {
            *x = Complex { re: w.im * scale, im: w.re * scale }.times(*c);
        }
    }

    fn radix2(&self, line: &mut [Complex]) {
        let n = line.len();
        if n < 2 {
            return;
        }
        let shift = usize::BITS - n.trailing_zeros();
        for i in 0..n {
            let j = i.reverse_bits() >> shift;
            if i < j {
                line.swap(i, j);
            }
        }
        let mut half = 1;
        while half < n {
            let step = n / (2 * half);
            for block in line.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), w) in low.iter_mut().zip(high).zip(self.roots.iter().step_by(step)) {
                    let turned = b.times(*w);
                    (*a, *b) = (a.plus(turned), a.minus(turned));
                }
            }
            half *= 2;
        }
    }
}
