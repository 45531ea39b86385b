//! Operators that draw random numbers, and Dropout. A node with a `seed` gives the same numbers in every run; without one,
//! too: runs of an edited graph can then be compared.

use recut_core::dtype::DType;

use super::attrs::{Attrs, to_size};
use super::{Entry, Inputs, Kernel, KernelError, PrepareCtx, RunCtx, cast, kernel, movement, one};
use crate::invalid;
use crate::tensor::{Dims, Tensor};

type Made = Result<Box<dyn Kernel>, KernelError>;

pub(super) const TABLE: &[Entry] = &[
    Entry::onnx("Dropout", 1, dropout),
    Entry::onnx("Bernoulli", 15, bernoulli),
    Entry::onnx("RandomNormal", 1, |ctx| of_shape(ctx, Law::Normal)),
    Entry::onnx("RandomUniform", 1, |ctx| of_shape(ctx, Law::Uniform)),
    Entry::onnx("RandomNormalLike", 1, |ctx| like(ctx, Law::Normal)),
    Entry::onnx("RandomUniformLike", 1, |ctx| like(ctx, Law::Uniform)),
    Entry::onnx("Multinomial", 7, multinomial),
];

/// MT19937 (Matsumoto and Nishimura, 1998), seeded and read as numpy's legacy generator is: a seeded training Dropout drops
/// what the reference drops.
#[derive(Clone)]
struct Generator {
    state: Box<[u32]>,
    next: usize,
}

impl Generator {
    const N: usize = 624;
    const M: usize = 397;

    fn new(seed: u32) -> Self {
        let mut state = vec![seed; Self::N];
        for i in 1..Self::N {
            let last = state[i - 1];
            state[i] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state: state.into(), next: Self::N }
    }

    fn of(ctx: &PrepareCtx<'_>) -> Result<Self, KernelError> {
        // Dropout has an integer, the others a float.
        let seed = match ctx.node.int("seed") {
            Some(i) => Some(i as u32),
            None => Attrs(ctx.node).opt_float("seed")?.map(|x| if x.fract() == 0.0 { x as i64 as u32 } else { (x as f32).to_bits() }),
        };
        // Nodes without a seed differ from one another by their place in the file.
        Ok(Self::new(seed.unwrap_or(ctx.node.ordinal)))
    }

    fn bits(&mut self) -> u32 {
        if self.next == Self::N {
            let s = &mut self.state;
            for i in 0..Self::N {
                let y = (s[i] & 0x8000_0000) | (s[(i + 1) % Self::N] & 0x7fff_ffff);
                s[i] = s[(i + Self::M) % Self::N] ^ (y >> 1) ^ if y & 1 == 1 { 0x9908_b0df } else { 0 };
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// In `0..1`, with 53 bits.
    fn unit(&mut self) -> f64 {
        let (high, low) = (self.bits() >> 5, self.bits() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A mask in which everything is kept.
fn all_true(dims: &[usize]) -> Result<Tensor, KernelError> {
    let mut mask = Tensor::zeros(DType::Bool, dims)?;
    mask.bytes_mut().fill(1);
    Ok(mask)
}

fn dropout(ctx: &PrepareCtx<'_>) -> Made {
    let bool_mask = ctx.opset >= 10;
    let ratio_attr = Attrs(ctx.node).float("ratio", 0.5)?;
    let wants_mask = ctx.node.outputs.get(1).is_some_and(Option::is_some);
    let generator = Generator::of(ctx)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?.clone();
        let scalar = |ctx: &mut RunCtx<'_>, t: Option<&Tensor>, default: f64| -> Result<f64, KernelError> {
            let Some(t) = t else { return Ok(default) };
            let t = cast::to(ctx, t, DType::F64, true)?;
            Ok(t.as_slice::<f64>().and_then(|v| v.first().copied()).unwrap_or(default))
        };
        let ratio = scalar(ctx, inputs.optional(1)?, ratio_attr)?;
        let training = scalar(ctx, inputs.optional(2)?, 0.0)? != 0.0;
        if !training || ratio == 0.0 {
            let mask = if wants_mask {
                Some(cast::to(ctx, &all_true(x.dims())?, if bool_mask { DType::Bool } else { x.dtype() }, true)?)
            } else {
                None
            };
            return Ok(movement::many(std::iter::once(x).chain(mask)));
        }
        if !(0.0..1.0).contains(&ratio) {
            return invalid!("the ratio (input 1) of Dropout is {ratio}, expected 0 to below 1");
        }
        let mut draw = generator.clone();
        let mut mask = Tensor::zeros(DType::Bool, x.dims())?;
        mask.bytes_mut().iter_mut().for_each(|m| *m = u8::from(draw.unit() >= ratio));
        let mut wide = cast::to(ctx, &x, DType::F64, true)?;
        let kept = mask.bytes().iter();
        wide.as_mut_slice::<f64>().unwrap_or_default().iter_mut().zip(kept).for_each(|(x, m)| *x = *x * f64::from(*m) / (1.0 - ratio));
        Ok(movement::many([cast::to(ctx, &wide, x.dtype(), true)?, mask]))
    })
}

#[derive(Clone, Copy)]
enum Law {
    Normal,
    Uniform,
}

/// Parameters of a law, by their attributes.
fn law(ctx: &PrepareCtx<'_>, law: Law) -> Result<impl Fn(&mut Generator) -> f64 + Send + Sync + 'static, KernelError> {
    let (a, b) = match law {
        Law::Normal => (Attrs(ctx.node).float("mean", 0.0)?, Attrs(ctx.node).float("scale", 1.0)?),
        Law::Uniform => (Attrs(ctx.node).float("low", 0.0)?, Attrs(ctx.node).float("high", 1.0)?),
    };
    Ok(move |g: &mut Generator| match law {
        Law::Normal => a + b * g.normal(),
        Law::Uniform => a + (b - a) * g.unit(),
    })
}

fn fill(ctx: &mut RunCtx<'_>, dims: &[usize], dtype: DType, mut f: impl FnMut() -> f64) -> Result<Tensor, KernelError> {
    let mut out = ctx.alloc(DType::F64, dims)?;
    out.as_mut_slice::<f64>().unwrap_or_default().iter_mut().for_each(|x| *x = f());
    cast::to(ctx, &out, dtype, true)
}

fn of_shape(ctx: &PrepareCtx<'_>, kind: Law) -> Made {
    let dtype = cast::dtype_attr(ctx, "dtype")?.unwrap_or(DType::F32);
    let Some(shape) = Attrs(ctx.node).ints("shape")?.map(<[i64]>::to_vec) else { return invalid!("attribute shape is missing") };
    let dims: Dims = shape.iter().map(|&d| to_size("a size of attribute shape", d)).collect::<Result<_, _>>()?;
    let (generator, law) = (Generator::of(ctx)?, law(ctx, kind)?);
    kernel(move |ctx, _| {
        let mut g = generator.clone();
        Ok(one(fill(ctx, &dims, dtype, || law(&mut g))?))
    })
}

fn like(ctx: &PrepareCtx<'_>, kind: Law) -> Made {
    let dtype = cast::dtype_attr(ctx, "dtype")?;
    let (generator, law) = (Generator::of(ctx)?, law(ctx, kind)?);
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let mut g = generator.clone();
        Ok(one(fill(ctx, x.dims(), dtype.unwrap_or(x.dtype()), || law(&mut g))?))
    })
}

fn bernoulli(ctx: &PrepareCtx<'_>) -> Made {
    let dtype = cast::dtype_attr(ctx, "dtype")?;
    let generator = Generator::of(ctx)?;
    kernel(move |ctx, inputs: Inputs<'_>| {
        let x = inputs.tensor(0)?;
        let mut g = generator.clone();
        let mut wide = cast::to(ctx, x, DType::F64, true)?;
        wide.as_mut_slice::<f64>().unwrap_or_default().iter_mut().for_each(|p| *p = f64::from(u8::from(g.unit() < *p)));
        Ok(one(cast::to(ctx, &wide, dtype.unwrap_or(x.dtype()), true)?))
    })
}

fn multinomial(ctx: &PrepareCtx<'_>) -> Made {
    let dtype = cast::dtype_attr(ctx, "dtype")?.unwrap_or(DType::I32);
    let samples = to_size("attribute sample_size", Attrs(ctx.node).int("sample_size", 1)?)?;
    let generator = Generator::of(ctx)?;
    kernel(move |ctx, inputs| {
        let x = inputs.tensor(0)?;
        let &[batch, classes] = x.dims() else { return invalid!("the input has the shape {:?}, expected rank 2", x.dims()) };
        if classes == 0 {
            return invalid!("there are no classes to draw from");
        }
        let logits = cast::to(ctx, x, DType::F64, true)?;
        let logits = logits.as_slice::<f64>().unwrap_or_default();
        let mut g = generator.clone();
        let mut out = ctx.alloc(DType::I64, &[batch, samples])?;
        let drawn = out.as_mut_slice::<i64>().unwrap_or_default();
        for (row, drawn) in logits.chunks_exact(classes).zip(drawn.chunks_exact_mut(samples.max(1))) {
            // Unnormalized log-probabilities.
            let max = row.iter().fold(f64::NEG_INFINITY, |a, &x| a.max(x));
            let weights: Vec<f64> = row.iter().map(|x| (x - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in drawn {
                let mut left = g.unit() * total;
                let hit = weights.iter().position(|w| {
                    left -= w;
                    left < 0.0
                });
                *d = hit.unwrap_or(classes - 1) as i64;
            }
        }
        Ok(one(cast::to(ctx, &out, dtype, true)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs for the reference implementation's default seed.
        let mut g = Generator::new(5489);
        assert_eq!([g.bits(), g.bits(), g.bits()], [3_499_211_612, 581_869_302, 3_890_346_734]);
    }

    #[test]
    fn moments_are_those_of_the_laws() {
        let mut g = Generator::new(7);
        let n = 100_000;
        let uniform: f64 = (0..n).map(|_| g.unit()).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.01);
        let draws: Vec<f64> = (0..n).map(|_| g.normal()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02);
    }
}
