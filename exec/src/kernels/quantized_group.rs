//! What runs in place of an operator between DequantizeLinear and QuantizeLinear: integers in, integers out.
//!
//! Inputs stand as those of QLinearConv, whatever the operator: `x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero` and
//! for some `bias` (i32, in the scale of the products). Conv, MatMul and Gemm sum exactly in i32 and round once. Add and Mul
//! round once too, in the order of operations of ONNX Runtime's quantized kernels, so that ties fall alike.

use recut_core::dtype::DType;

use super::attrs::Attrs;
use super::broadcast::{self, Plan};
use super::float::{Args, Outs, out, tensor_kernel};
use super::gemm::{Mat, Threads, gemm_i8};
use super::integer::{Requantize, Spread, centered, qlinear_conv_limited, qlinear_matmul_limited, scales};
use super::{Kernel, KernelError, PrepareCtx, RunCtx, parallel};
use crate::invalid;
use crate::tensor::Tensor;

/// The range that an activation leaves, in real numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Nothing below it.
    pub(crate) low: f32,
    /// Nothing above it.
    pub(crate) high: f32,
}

impl Limits {
    /// No activation.
    pub(crate) const NONE: Self = Self { low: f32::NEG_INFINITY, high: f32::INFINITY };
}

/// Conv. The node has its attributes.
pub(crate) fn conv(ctx: &PrepareCtx<'_>, limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    qlinear_conv_limited(ctx, limits)
}

/// MatMul, and Gemm without scaling: `transB` counts, as `columns` says where the scales of `w` lie.
pub(crate) fn matmul(ctx: &PrepareCtx<'_>, limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    let trans = Attrs(ctx.node).flag("transB", false)?;
    let given = |i: usize| ctx.constants.get(i).and_then(Option::as_ref);
    let Some(w) = given(3).filter(|w| w.rank() == 2 && (given(5).is_some() || ctx.node.input(5).is_none())) else {
        if trans || ctx.node.input(8).is_some() {
            return crate::unsupported!("a quantized Gemm whose B is no constant");
        }
        return qlinear_matmul_limited(limits);
    };
    let (rows, cols) = (w.dims()[0], w.dims()[1]);
    let (k, n) = if trans { (cols, rows) } else { (rows, cols) };
    let ready = centered(w, given(5), Spread { inner: if trans { k } else { 1 }, count: n }, "w")?;
    tensor_kernel(move |ctx, args| {
        let w = Mat::new(&ready, rows, cols)?;
        dense(ctx, args, if trans { w.t() } else { w }, (k, n), limits)
    })
}

fn dense(ctx: &mut RunCtx<'_>, args: &Args, w: Mat<'_, f32>, (k, n): (usize, usize), limits: Limits) -> Result<Outs, KernelError> {
    let x = args.get(0)?;
    let Some((&depth, outer)) = x.dims().split_last().filter(|(d, _)| **d == k) else {
        return invalid!("matrices of shape {:?} and {k}x{n} do not multiply", x.dims());
    };
    let m = x.len().checked_div(depth).unwrap_or_else(|| outer.iter().product());
    let (sx, sw, sy) = (scales(args, 1, "x_scale")?, scales(args, 4, "w_scale")?, scales(args, 6, "y_scale")?);
    let bias = args.opt_slice::<i32>(8)?;
    if sx.len() != 1 || sy.len() != 1 || (sw.len() != 1 && sw.len() != n) || bias.is_some_and(|b| b.len() != n) {
        return invalid!("scales of {}, {} and {} elements do not fit {n} columns", sx.len(), sw.len(), sy.len());
    }
    let to = Requantize::new(args.opt(7), x.dtype())?.limited(limits, sy[0]);
    let scale: Vec<f32> = (0..n).map(|c| sx[0] * sw[if sw.len() == 1 { 0 } else { c }] / sy[0]).collect();
    let v = centered(x, args.opt(2), Spread { inner: 1, count: 1 }, "x")?;
    let mut acc = vec![0i32; m * n];
    gemm_i8(&mut acc, n, Mat::new(&v, m, k)?, w, Threads::Pool)?;
    let mut dims = crate::tensor::Dims::from_slice(outer);
    dims.push(n);
    let mut y = ctx.alloc(to.dtype, &dims)?;
    for (y, acc) in y.bytes_mut().chunks_mut(n.max(1)).zip(acc.chunks(n.max(1))) {
        for (c, (y, &a)) in y.iter_mut().zip(acc).enumerate() {
            *y = to.apply(a.wrapping_add(bias.map_or(0, |b| b[c])) as f32 * scale[c]);
        }
    }
    Ok(out(y))
}

/// One operand of Add or Mul: what turns its bytes into numbers.
struct Operand<'a> {
    bytes: &'a [u8],
    scale: f32,
    /// Turns signed bytes into unsigned ones, shifted by 128.
    flip: u8,
    shift: i32,
    zero: f32,
}

impl<'a> Operand<'a> {
    fn new(args: &'a Args, at: usize, name: &str) -> Result<Self, KernelError> {
        let t = args.get(at)?;
        let scale = scales(args, at + 1, name)?;
        let [scale] = *scale else { return invalid!("input {name} has {} scales, expected 1", scale.len()) };
        let (flip, shift) = match t.dtype() {
            DType::U8 => (0, 0),
            DType::I8 => (0x80, 128),
            d => return invalid!("input {name} is {d}, expected i8 or u8"),
        };
        let zero = match args.opt(at + 2) {
            None => 0.0,
            Some(z) if z.dtype() == t.dtype() && z.len() == 1 => f32::from(z.bytes()[0] ^ flip) - shift as f32,
            Some(z) => return invalid!("the zero point of input {name} is {} with {} elements", z.dtype(), z.len()),
        };
        Ok(Self { bytes: t.bytes(), scale, flip, shift, zero })
    }
}

/// Add (`product` false) or Mul of two 8-bit tensors, broadcast.
pub(crate) fn pointwise(product: bool, limits: Limits) -> Result<Box<dyn Kernel>, KernelError> {
    tensor_kernel(move |ctx, args| {
        let (a, b) = (Operand::new(args, 0, "a")?, Operand::new(args, 3, "b")?);
        let sy = scales(args, 6, "y_scale")?;
        let [sy] = *sy else { return invalid!("the result has {} scales, expected 1", sy.len()) };
        let to = Requantize::new(args.opt(7), args.get(0)?.dtype())?.limited(limits, sy);
        let plan = Plan::new([args.get(0)?.dims(), args.get(3)?.dims()])?;
        let mut y = ctx.alloc(to.dtype, &plan.dims)?;
        let (fa, fb) = (a.flip, b.flip);
        if product {
            let ratio = a.scale * b.scale / sy;
            let (za, zb) = (a.zero as i32 + a.shift, b.zero as i32 + b.shift);
            let f = move |p: u8, q: u8| {
                let (p, q) = (i32::from(p ^ fa) - za, i32::from(q ^ fb) - zb);
                to.apply_shifted(p as f32 * q as f32 * ratio + to.zero)
            };
            broadcast::zip(&plan, a.bytes, b.bytes, y.bytes_mut(), 4, f);
        } else {
            let (ra, rb) = (a.scale / sy, b.scale / sy);
            let fixed = f64::from(to.zero - (ra * a.zero + rb * b.zero));
            let (sa, sb) = (a.shift, b.shift);
            let (ra, rb) = (f64::from(ra), f64::from(rb));
            // Two fused multiply-adds: exact in f64, then rounded.
            let f = move |p: u8, q: u8| {
                let (p, q) = (f64::from(i32::from(p ^ fa) - sa), f64::from(i32::from(q ^ fb) - sb));
                to.apply_shifted((p * ra + f64::from((q * rb + fixed) as f32)) as f32)
            };
            broadcast::zip(&plan, a.bytes, b.bytes, y.bytes_mut(), 8, f);
        }
        Ok(out(y))
    })
}

/// A unary operator on 8-bit values: `table` by their bytes, its results of type `dtype`.
pub(crate) fn lookup(table: [u8; 256], dtype: DType) -> Result<Box<dyn Kernel>, KernelError> {
    tensor_kernel(move |ctx, args| {
        let x: &Tensor = args.get(0)?;
        if !matches!(x.dtype(), DType::I8 | DType::U8) {
            return invalid!("input 0 is {}, expected i8 or u8", x.dtype());
        }
        let mut y = ctx.alloc(dtype, x.dims())?;
        parallel::map(x.bytes(), y.bytes_mut(), 2, |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]));
        Ok(out(y))
    })
}
