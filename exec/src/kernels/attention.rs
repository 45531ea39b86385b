//! Attention: scaled products of queries and keys, masked, through softmax, times values.

use rayon::prelude::*;
use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::float::{Args, Outs, Real, alloc, by_float, elements_mut, float_kernel};
use super::gemm::{Mat, Threads, gemm};
use super::{Entry, Kernel, KernelError, PrepareCtx, RunCtx};
use crate::tensor::Tensor;
use crate::{invalid, unsupported};

pub(super) const TABLE: &[Entry] = &[Entry::onnx("Attention", 23, attention)];

/// Rows of scores that one thread holds at a time.
const BLOCK: usize = 128;

/// What the fourth output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scores {
    Raw,
    Capped,
    Biased,
    Softmax,
}

struct Attention {
    causal: bool,
    query_heads: Option<usize>,
    kv_heads: Option<usize>,
    scale: Option<f64>,
    softcap: f64,
    precision: Option<DType>,
    /// Positions that are seen before and after the own one.
    window: [Option<i64>; 2],
    scores: Scores,
    want_present: bool,
    want_scores: bool,
}

fn attention(ctx: &PrepareCtx<'_>) -> Result<Box<dyn Kernel>, KernelError> {
    let attrs = Attrs(ctx.node);
    let heads = |name| Ok::<_, KernelError>(if attrs.opt_int(name)?.is_some() { Some(attrs.size(name, 1, 1)?) } else { None });
    let window = |name| match attrs.int(name, -1)? {
        -1 => Ok(None),
        n if n >= 0 => Ok(Some(n)),
        n => invalid!("attribute {name} is {n}, expected at least -1"),
    };
    let output = |i: usize| ctx.node.outputs.get(i).is_some_and(Option::is_some);
    let op = Attention {
        causal: attrs.flag("is_causal", false)?,
        query_heads: heads("q_num_heads")?,
        kv_heads: heads("kv_num_heads")?,
        scale: attrs.opt_float("scale")?,
        softcap: attrs.float("softcap", 0.0)?,
        precision: match attrs.opt_int("softmax_precision")? {
            None | Some(1) => None,
            Some(10) => Some(DType::F16),
            Some(11) => Some(DType::F64),
            Some(16) => Some(DType::Bf16),
            Some(n) => return invalid!("attribute softmax_precision is {n}, expected 1, 10, 11 or 16"),
        },
        window: [window("left_window_size")?, window("right_window_size")?],
        scores: match attrs.int("qk_matmul_output_mode", 0)? {
            0 => Scores::Raw,
            1 => Scores::Capped,
            2 => Scores::Biased,
            3 => Scores::Softmax,
            n => return invalid!("attribute qk_matmul_output_mode is {n}, expected 0 to 3"),
        },
        want_present: output(1) || output(2),
        want_scores: output(3),
    };
    float_kernel(ctx, move |ctx, args| by_float!(args.get(0)?.dtype(), "input 0 (Q)", T => op.run::<T>(ctx, args)))
}

/// Where the vectors of one input are: element `i` of position `s` of head `h` of sample `b` is at `b * strides[0] + h * strides[1] + s * strides[2] + i`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) len: usize,
    pub(super) size: usize,
    strides: [usize; 3],
}

impl Heads {
    /// Of `[batch, heads, len, size]`, or of `[batch, len, heads * size]` with `heads` given.
    pub(super) fn new(name: &str, dims: &[usize], heads: Option<usize>) -> Result<Self, KernelError> {
        // An empty tensor may still have sizes whose product is too large for a stride.
        if dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1))).is_none() {
            return invalid!("input {name} has shape {dims:?}, which is too large");
        }
        match *dims {
            [batch, heads, len, size] => Ok(Self { batch, heads, len, size, strides: [heads * len * size, len * size, size] }),
            [batch, len, hidden] => {
                let Some(heads) = heads else {
                    return invalid!("input {name} has rank 3, which needs the number of heads as an attribute");
                };
                if heads == 0 || hidden % heads != 0 {
                    return invalid!("input {name} has {hidden} elements a position, which do not split into {heads} heads");
                }
                let size = hidden / heads;
                Ok(Self { batch, heads, len, size, strides: [len * hidden, size, hidden] })
            }
            _ => invalid!("input {name} has shape {dims:?}, expected rank 3 or 4"),
        }
    }

    fn mat<'a, T>(&self, data: &'a [T], b: usize, h: usize, rows: std::ops::Range<usize>) -> Result<Mat<'a, T>, KernelError> {
        let start = b * self.strides[0] + h * self.strides[1] + rows.start * self.strides[2];
        match data.get(start..) {
            Some(part) => Mat::strided(part, rows.len(), self.size, self.strides[2], 1),
            None => invalid!("an input is shorter than its shape"),
        }
    }

    fn row<'a, T>(&self, data: &'a [T], b: usize, h: usize, s: usize) -> &'a [T] {
        &data[b * self.strides[0] + h * self.strides[1] + s * self.strides[2]..][..self.size]
    }
}

/// `past` and then `new` along the positions, as `[batch, heads, len, size]`.
fn present<T: Real>(
    ctx: &mut RunCtx<'_>,
    name: &str,
    past: Option<&Tensor>,
    new: &Tensor,
    heads: Heads,
) -> Result<(Tensor, Heads), KernelError> {
    let old = match past {
        None => Heads { len: 0, ..heads },
        Some(t) => Heads::new(name, t.dims(), None)?,
    };
    if (old.batch, old.heads, old.size) != (heads.batch, heads.heads, heads.size) {
        return invalid!(
            "input {name} and its past have shapes {:?} and {:?}, which do not join",
            new.dims(),
            past.map_or(&[][..], Tensor::dims)
        );
    }
    let dims = [heads.batch, heads.heads, old.len + heads.len, heads.size];
    let mut y = alloc::<T>(ctx, &dims)?;
    let (was, now) = (past.and_then(Tensor::as_slice::<T>), new.as_slice::<T>());
    let Some(now) = now.filter(|_| was.is_some() == past.is_some()) else {
        return invalid!("input {name} or its past is not {}", T::DTYPE);
    };
    let total = dims[2];
    if total * heads.size > 0 {
        for (i, y) in elements_mut::<T>(&mut y)?.chunks_exact_mut(heads.size).enumerate() {
            let (b, h, s) = (i / total / heads.heads, i / total % heads.heads, i % total);
            y.copy_from_slice(match was {
                Some(was) if s < old.len => old.row(was, b, h, s),
                _ => heads.row(now, b, h, s - old.len),
            });
        }
    }
    Ok((y, Heads::new(name, &dims, None)?))
}

/// What is added to the scores.
struct Bias<'a, T> {
    mask: Option<Mask<'a, T>>,
    causal: bool,
    window: [Option<i64>; 2],
    /// Position of the first query among the keys, by sample.
    offsets: Vec<i64>,
    /// Keys that are no padding, by sample.
    valid: Option<Vec<i64>>,
}

/// An attention mask and its strides over samples, heads and queries.
struct Mask<'a, T> {
    values: MaskValues<'a, T>,
    strides: [usize; 3],
    len: usize,
}

enum MaskValues<'a, T> {
    Seen(&'a [u8]),
    Added(&'a [T]),
}

impl<'a, T: Real> Mask<'a, T> {
    fn new(t: &'a Tensor, shape: [usize; 4]) -> Result<Self, KernelError> {
        let dims = t.dims();
        let wrong = || KernelError::Invalid(format!("input attn_mask has shape {dims:?}, which does not broadcast to {shape:?}"));
        let (&len, outer) = dims.split_last().ok_or_else(wrong)?;
        if outer.len() > 3 || len > shape[3] {
            return Err(wrong());
        }
        let mut strides = [0; 3];
        let mut next = len;
        for (i, &d) in outer.iter().enumerate().rev() {
            let to = 3 - outer.len() + i;
            if d != 1 {
                if d != shape[to] {
                    return Err(wrong());
                }
                strides[to] = next;
            }
            next *= d;
        }
        let values = match (t.dtype(), t.as_slice::<u8>(), t.as_slice::<T>()) {
            (DType::Bool, Some(v), _) => MaskValues::Seen(v),
            (_, _, Some(v)) => MaskValues::Added(v),
            (d, ..) => return invalid!("input attn_mask is {d}, expected bool or {}", T::DTYPE),
        };
        Ok(Self { values, strides, len })
    }

    fn write(&self, row: &mut [T], b: usize, h: usize, q: usize) {
        let at = b * self.strides[0] + h * self.strides[1] + q * self.strides[2];
        let (given, rest) = row.split_at_mut(self.len);
        match self.values {
            MaskValues::Seen(v) => given.iter_mut().zip(&v[at..]).for_each(|(o, &s)| *o = if s != 0 { T::ZERO } else { -T::INFINITY }),
            MaskValues::Added(v) => given.copy_from_slice(&v[at..at + self.len]),
        }
        rest.fill(-T::INFINITY);
    }
}

impl<T: Real> Bias<'_, T> {
    fn is_none(&self) -> bool {
        self.mask.is_none() && !self.causal && self.window == [None, None] && self.valid.is_none()
    }

    /// The bias of query `q`, and whether it lets anything through.
    fn write(&self, row: &mut [T], b: usize, h: usize, q: usize) -> bool {
        match &self.mask {
            Some(m) => m.write(row, b, h, q),
            None => row.fill(T::ZERO),
        }
        let at = (q as i64).saturating_add(self.offsets[b]);
        let mut low = 0;
        let mut high = i64::MAX;
        if self.causal {
            high = at.saturating_add(1);
        }
        if let Some(left) = self.window[0] {
            low = at.saturating_sub(left);
        }
        if let Some(right) = self.window[1] {
            high = high.min(at.saturating_add(right).saturating_add(1));
        }
        if let Some(valid) = &self.valid {
            high = high.min(valid[b]);
        }
        let n = row.len();
        let high = usize::try_from(high.max(0)).unwrap_or(n).min(n);
        let low = usize::try_from(low.max(0)).unwrap_or(n).min(n);
        row[high..].fill(-T::INFINITY);
        row[..low].fill(-T::INFINITY);
        row.iter().any(|&x| x != -T::INFINITY)
    }
}

/// Softmax in place; a row of nothing but negative infinities becomes zeros.
fn softmax<T: Real>(row: &mut [T]) {
    let top = row.iter().fold(-T::INFINITY, |m, &x| m.max(x));
    if top == -T::INFINITY {
        row.fill(T::ZERO);
        return;
    }
    let mut sum = T::ZERO;
    for x in row.iter_mut() {
        *x = (*x - top).exp();
        sum += *x;
    }
    let scale = T::ONE / sum;
    row.iter_mut().for_each(|x| *x *= scale);
}

fn softmax_in<T: Real>(row: &mut [T], precision: Option<DType>) {
    match precision {
        Some(DType::F64) if T::DTYPE != DType::F64 => {
            let mut wide: Vec<f64> = row.iter().map(|x| x.wide()).collect();
            softmax(&mut wide);
            row.iter_mut().zip(wide).for_each(|(x, w)| *x = T::of(w));
        }
        Some(DType::F16) => {
            row.iter_mut().for_each(|x| *x = T::of(half::f16::from_f64(x.wide()).to_f64()));
            softmax(row);
        }
        Some(DType::Bf16) => {
            row.iter_mut().for_each(|x| *x = T::of(half::bf16::from_f64(x.wide()).to_f64()));
            softmax(row);
        }
        _ => softmax(row),
    }
}

impl Attention {
    fn run<T: Real>(&self, ctx: &mut RunCtx<'_>, args: &Args) -> Result<Outs, KernelError> {
        let (q, k, v) = (args.get(0)?, args.get(1)?, args.get(2)?);
        let qh = Heads::new("Q", q.dims(), self.query_heads)?;
        let mut kh = Heads::new("K", k.dims(), self.kv_heads)?;
        let mut vh = Heads::new("V", v.dims(), self.kv_heads)?;
        let (past_k, past_v) = (args.opt(4), args.opt(5));
        if past_k.is_some() != past_v.is_some() {
            return invalid!("inputs past_key and past_value must be given together");
        }
        let past = past_k.map_or(0, |t| t.dims().get(2).copied().unwrap_or(0));
        let (mut keys, mut values) = (k.clone(), v.clone());
        if past_k.is_some() || self.want_present {
            (keys, kh) = present::<T>(ctx, "K", past_k, k, kh)?;
            (values, vh) = present::<T>(ctx, "V", past_v, v, vh)?;
        }
        if kh.batch != qh.batch || vh.batch != qh.batch || kh.size != qh.size || vh.len != kh.len || vh.heads != kh.heads {
            return invalid!("inputs Q, K and V have shapes {:?}, {:?} and {:?}, which do not go together", q.dims(), k.dims(), v.dims());
        }
        if kh.heads == 0 || qh.heads % kh.heads != 0 {
            return invalid!("{} heads of queries cannot share {} heads of keys", qh.heads, kh.heads);
        }
        let shape = [qh.batch, qh.heads, qh.len, kh.len];
        let valid = args.ints(6)?;
        if valid.as_ref().is_some_and(|v| v.len() != qh.batch) {
            return invalid!("input nonpad_kv_seqlen must have {} elements", qh.batch);
        }
        let offsets = match &valid {
            Some(v) if past_k.is_none() => v.iter().map(|n| n.saturating_sub(qh.len as i64)).collect(),
            _ => vec![past as i64; qh.batch],
        };
        let mask = args.opt(3).map(|t| Mask::<T>::new(t, shape)).transpose()?;
        let bias = Bias { mask, causal: self.causal, window: self.window, offsets, valid };
        let mut y = alloc::<T>(ctx, &[qh.batch, qh.heads, qh.len, vh.size])?;
        let mut scores = if self.want_scores { Some(alloc::<T>(ctx, &shape)?) } else { None };
        let data = (slice(q)?, slice(&keys)?, slice(&values)?);
        self.heads(elements_mut(&mut y)?, scores.as_mut().map(elements_mut).transpose()?, data, (qh, kh, vh), &bias)?;
        if q.rank() == 3 {
            y = merge_heads::<T>(ctx, &y, [qh.batch, qh.heads, qh.len, vh.size])?;
        }
        Ok(smallvec::smallvec![Some(y), Some(keys).filter(|_| self.want_present), Some(values).filter(|_| self.want_present), scores])
    }

    /// Every head of every sample into `y`, and its scores into `out`.
    fn heads<T: Real>(
        &self,
        y: &mut [T],
        out: Option<&mut [T]>,
        data: (&[T], &[T], &[T]),
        (qh, kh, vh): (Heads, Heads, Heads),
        bias: &Bias<'_, T>,
    ) -> Result<(), KernelError> {
        let (count, rows, keys) = (qh.batch * qh.heads, qh.len, kh.len);
        if count == 0 || rows == 0 {
            return Ok(());
        }
        if keys == 0 {
            y.fill(T::ZERO);
            return Ok(());
        }
        let outs: Vec<Option<&mut [T]>> = match out {
            Some(out) => out.chunks_mut(rows * keys).map(Some).collect(),
            None => (0..count).map(|_| None).collect(),
        };
        // Without elements a value, `y` has no part for a head.
        let parts: Vec<&mut [T]> =
            if vh.size == 0 { (0..count).map(|_| &mut [][..]).collect() } else { y.chunks_mut(rows * vh.size).collect() };
        let group = qh.heads / kh.heads;
        let scale = T::of(self.scale.unwrap_or_else(|| 1.0 / (qh.size.max(1) as f64).sqrt()));
        let threads = if count < rayon::current_num_threads() { Threads::Pool } else { Threads::One };
        parts.into_par_iter().zip(outs).enumerate().try_for_each(|(i, (y, mut out))| {
            let (b, h) = (i / qh.heads, i % qh.heads);
            let (k, v) = (kh.mat(data.1, b, h / group, 0..keys)?, vh.mat(data.2, b, h / group, 0..keys)?);
            let mut block = vec![T::ZERO; BLOCK.min(rows) * keys];
            let mut added = vec![T::ZERO; keys];
            for start in (0..rows).step_by(BLOCK) {
                let n = BLOCK.min(rows - start);
                let block = &mut block[..n * keys];
                gemm(block, keys, qh.mat(data.0, b, h, start..start + n)?, k.t(), T::ZERO, scale, threads)?;
                for (r, row) in block.chunks_exact_mut(keys).enumerate() {
                    let shown = out.as_mut().map(|o| &mut o[(start + r) * keys..][..keys]);
                    self.weigh(row, shown, &mut added, bias, (b, h, start + r));
                }
                if vh.size > 0 {
                    gemm(&mut y[start * vh.size..][..n * vh.size], vh.size, Mat::new(block, n, keys)?, v, T::ZERO, T::ONE, threads)?;
                }
            }
            Ok(())
        })
    }

    /// Scores of one query into weights.
    fn weigh<T: Real>(
        &self,
        row: &mut [T],
        mut shown: Option<&mut [T]>,
        added: &mut [T],
        bias: &Bias<'_, T>,
        (b, h, q): (usize, usize, usize),
    ) {
        let mut show = |stage: Scores, row: &[T]| {
            if let Some(shown) = shown.as_mut().filter(|_| self.scores == stage) {
                shown.copy_from_slice(row);
            }
        };
        show(Scores::Raw, row);
        if self.softcap > 0.0 {
            let cap = T::of(self.softcap);
            row.iter_mut().for_each(|x| *x = (*x / cap).tanh() * cap);
        }
        show(Scores::Capped, row);
        let mut open = true;
        if !bias.is_none() {
            open = bias.write(added, b, h, q);
            row.iter_mut().zip(&*added).for_each(|(x, &a)| *x += a);
        }
        show(Scores::Biased, row);
        if open {
            softmax_in(row, self.precision);
        } else {
            row.fill(T::ZERO);
        }
        show(Scores::Softmax, row);
    }
}

fn slice<T: Real>(t: &Tensor) -> Result<&[T], KernelError> {
    match t.as_slice() {
        Some(v) => Ok(v),
        None => invalid!("inputs Q, K and V must be of one type, one is {} and another {}", t.dtype(), T::DTYPE),
    }
}

/// `[batch, heads, len, size]` as `[batch, len, heads * size]`.
fn merge_heads<T: Real>(ctx: &mut RunCtx<'_>, t: &Tensor, [batch, heads, len, size]: [usize; 4]) -> Result<Tensor, KernelError> {
    let mut y = alloc::<T>(ctx, &[batch, len, heads * size])?;
    let Some(from) = t.as_slice::<T>() else { return unsupported!("merging heads of type {}", t.dtype()) };
    if !from.is_empty() {
        for (i, y) in elements_mut::<T>(&mut y)?.chunks_exact_mut(size).enumerate() {
            let (b, s, h) = (i / heads / len, i / heads % len, i % heads);
            y.copy_from_slice(&from[((b * heads + h) * len + s) * size..][..size]);
        }
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Rng, close, vec_of};
    use crate::tensor::Tensor;

    const HEADS: usize = 4;
    const KV_HEADS: usize = 2;
    const SIZE: usize = 8;

    /// `[1, heads, len, size]` as `[1, len, heads * size]`.
    fn flat(t: &Tensor) -> Tensor {
        let &[_, heads, len, size] = t.dims() else { panic!() };
        let v = vec_of::<f32>(t);
        let out: Vec<f32> = (0..v.len()).map(|i| v[(i / size % heads * len + i / size / heads) * size + i % size]).collect();
        Tensor::from_slice(&[1, len, heads * size], &out).unwrap()
    }

    /// One head of each at a time, with `seen` telling which key a query may read.
    fn naive(q: &Tensor, k: &Tensor, v: &Tensor, seen: &dyn Fn(usize, usize) -> bool) -> Vec<f32> {
        let (rows, keys) = (q.dims()[2], k.dims()[2]);
        let (q, k, v) = (vec_of::<f32>(q), vec_of::<f32>(k), vec_of::<f32>(v));
        let mut y = vec![0f32; q.len()];
        for h in 0..HEADS {
            let kv = h / (HEADS / KV_HEADS) * keys;
            for r in 0..rows {
                let q = &q[(h * rows + r) * SIZE..][..SIZE];
                let dot = |j: usize| q.iter().zip(&k[(kv + j) * SIZE..]).map(|(a, b)| a * b).sum::<f32>() / (SIZE as f32).sqrt();
                let weights: Vec<f32> = (0..keys).map(|j| if seen(r, j) { dot(j).exp() } else { 0.0 }).collect();
                let sum: f32 = weights.iter().sum();
                for i in 0..SIZE {
                    let value: f32 = (0..keys).map(|j| weights[j] * v[(kv + j) * SIZE + i]).sum();
                    y[(h * rows + r) * SIZE + i] = if sum == 0.0 { 0.0 } else { value / sum };
                }
            }
        }
        y
    }

    #[test]
    fn matches_its_definition_in_both_layouts() {
        let rng = Rng::new(61);
        // More rows than are computed at a time.
        for (rows, keys) in [(1, 7), (5, 5), (150, 9), (3, 1)] {
            let q = rng.floats(&[1, HEADS, rows, SIZE]);
            let (k, v) = (rng.floats(&[1, KV_HEADS, keys, SIZE]), rng.floats(&[1, KV_HEADS, keys, SIZE]));
            let want = naive(&q, &k, &v, &|_, _| true);
            close(&Case::new("Attention", 23).one(&[q.clone(), k.clone(), v.clone()]).unwrap(), &want, "open");
            let causal = naive(&q, &k, &v, &|r, j| j <= r);
            let case = Case::new("Attention", 23).int("is_causal", 1);
            close(&case.one(&[q.clone(), k.clone(), v.clone()]).unwrap(), &causal, "causal");
            let case = Case::new("Attention", 23).int("q_num_heads", HEADS as i64).int("kv_num_heads", KV_HEADS as i64);
            let want = Tensor::from_slice(q.dims(), &want).unwrap();
            close(&case.one(&[flat(&q), flat(&k), flat(&v)]).unwrap(), &vec_of(&flat(&want)), "rank 3");
        }
    }

    #[test]
    fn the_past_counts_as_keys_and_masks_close() {
        let rng = Rng::new(62);
        let q = rng.floats(&[1, HEADS, 2, SIZE]);
        let (k, v) = (rng.floats(&[1, KV_HEADS, 5, SIZE]), rng.floats(&[1, KV_HEADS, 5, SIZE]));
        let part = |t: &Tensor, range: std::ops::Range<usize>| {
            let v = vec_of::<f32>(t);
            let rows: Vec<f32> = (0..KV_HEADS).flat_map(|h| v[(h * 5 + range.start) * SIZE..(h * 5 + range.end) * SIZE].to_vec()).collect();
            Tensor::from_slice(&[1, KV_HEADS, range.len(), SIZE], &rows).unwrap()
        };
        let mask = Tensor::from_slice(&[2, 5], &[1u8, 0, 1, 1, 1, 0, 0, 0, 0, 0]).unwrap().retyped(super::DType::Bool);
        let inputs = [Some(q.clone()), Some(part(&k, 3..5)), Some(part(&v, 3..5)), Some(mask), Some(part(&k, 0..3)), Some(part(&v, 0..3))];
        let outs = Case::new("Attention", 23).int("is_causal", 1).outputs(3).run(&inputs).unwrap();
        close(outs[0].as_ref().unwrap(), &naive(&q, &k, &v, &|r, j| r == 0 && j != 1 && j <= 3), "past and mask");
        close(outs[1].as_ref().unwrap(), &vec_of(&k), "keys");
        close(outs[2].as_ref().unwrap(), &vec_of(&v), "values");
    }

    #[test]
    fn shapes_that_do_not_go_together_are_refused() {
        let rng = Rng::new(63);
        let q = rng.floats(&[1, 4, 2, 8]);
        for (k, v) in [
            ([1, 3, 2, 8], [1, 3, 2, 8]),
            ([1, 4, 2, 4], [1, 4, 2, 8]),
            ([2, 4, 2, 8], [2, 4, 2, 8]),
            ([1, 4, 2, 8], [1, 4, 3, 8]),
            ([1, 0, 2, 8], [1, 0, 2, 8]),
        ] {
            assert!(Case::new("Attention", 23).one(&[q.clone(), rng.floats(&k), rng.floats(&v)]).is_err(), "{k:?} {v:?}");
        }
        let same = [q.clone(), q.clone(), q];
        let with = |mask: &[usize]| [&same[..], &[rng.floats(mask)]].concat();
        for mask in [&[3][..], &[3, 2], &[1, 3, 2, 2], &[]] {
            assert!(Case::new("Attention", 23).one(&with(mask)).is_err(), "{mask:?}");
        }
        assert!(Case::new("Attention", 23).one(&[rng.floats(&[1, 2, 8]), rng.floats(&[1, 2, 8]), rng.floats(&[1, 2, 8])]).is_err());
    }
}
