//! Sliding windows: the geometry that convolutions and pools share, in up to three spatial dimensions.

use super::KernelError;
use super::attrs::Attrs;
use crate::{invalid, unsupported};

/// Where padding comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// The `pads` attribute.
    Explicit,
    /// None.
    Valid,
    /// As many outputs as inputs / stride; the odd element at the end.
    SameUpper,
    /// Same, the odd element at the beginning.
    SameLower,
}

/// Window attributes of a node, as they are written.
#[derive(Clone, Debug)]
pub(super) struct WindowAttrs {
    pub(super) auto_pad: AutoPad,
    pub(super) kernel: Option<Vec<i64>>,
    pub(super) strides: Option<Vec<i64>>,
    pub(super) dilations: Option<Vec<i64>>,
    pub(super) pads: Option<Vec<i64>>,
}

impl WindowAttrs {
    pub(super) fn new(attrs: Attrs<'_>) -> Result<Self, KernelError> {
        let list = |name| attrs.ints(name).map(|v| v.map(<[i64]>::to_vec));
        let choices = [
            ("NOTSET", AutoPad::Explicit),
            ("", AutoPad::Explicit),
            ("VALID", AutoPad::Valid),
            ("SAME_UPPER", AutoPad::SameUpper),
            ("SAME_LOWER", AutoPad::SameLower),
        ];
        Ok(Self {
            auto_pad: attrs.choice("auto_pad", "NOTSET", &choices)?,
            kernel: list("kernel_shape")?,
            strides: list("strides")?,
            dilations: list("dilations")?,
            pads: list("pads")?,
        })
    }

    /// The attribute `kernel_shape`.
    pub(super) fn kernel_sizes(&self) -> Result<Vec<usize>, KernelError> {
        let Some(kernel) = &self.kernel else { return invalid!("attribute kernel_shape is missing") };
        kernel.iter().map(|&k| size("kernel_shape", k, 1)).collect()
    }

    /// The geometry over `input` (spatial sizes) with a window of `kernel`. `ceil` rounds the number of outputs up.
    pub(super) fn resolve(&self, input: &[usize], kernel: &[usize], ceil: bool) -> Result<Window, KernelError> {
        let w = self.base(input, kernel)?;
        let mut w = w;
        let pads = self.pad_list(input.len())?;
        for i in 0..input.len() {
            let d = 3 - input.len() + i;
            let (n, s, extent) = (input[i], w.stride[d], w.extent(d));
            let same = matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
            if same {
                let out = n.div_ceil(s);
                let total = (out.saturating_sub(1) * s + extent).saturating_sub(n);
                let small = total / 2;
                (w.begin[d], w.end[d]) = if self.auto_pad == AutoPad::SameUpper { (small, total - small) } else { (total - small, small) };
                w.output[d] = out;
                continue;
            }
            if self.auto_pad == AutoPad::Explicit {
                (w.begin[d], w.end[d]) = (pads[i], pads[input.len() + i]);
            }
            let padded = n + w.begin[d] + w.end[d];
            if n == 0 {
                // An empty axis has no window, whatever the padding.
                w.output[d] = if padded < extent { 0 } else { (padded - extent) / s + 1 };
                continue;
            }
            if padded < extent {
                return invalid!(
                    "a window of {extent} (kernel {}, dilation {}) is larger than the padded input of {padded}",
                    w.kernel[d],
                    w.dilation[d]
                );
            }
            let room = padded - extent;
            let mut out = if ceil { room.div_ceil(s) } else { room / s } + 1;
            if ceil && (out - 1) * s >= n + w.begin[d] {
                // A window must start inside the input or its left padding.
                out -= 1;
            }
            w.output[d] = out;
        }
        Ok(w)
    }

    /// Everything but padding and output sizes.
    pub(super) fn base(&self, input: &[usize], kernel: &[usize]) -> Result<Window, KernelError> {
        let rank = input.len();
        if rank == 0 || kernel.len() != rank {
            return invalid!("the window has {} spatial dimensions and the input {rank}", kernel.len());
        }
        if rank > 3 {
            return unsupported!("windows over {rank} spatial dimensions");
        }
        let mut w = Window::default();
        for i in 0..rank {
            let d = 3 - rank + i;
            if input[i] > i32::MAX as usize || kernel[i] > i32::MAX as usize {
                return invalid!("spatial sizes {input:?} with a window of {kernel:?} are too large");
            }
            w.input[d] = input[i];
            w.kernel[d] = kernel[i];
            w.stride[d] = item("strides", self.strides.as_deref(), rank, i, 1)?;
            w.dilation[d] = item("dilations", self.dilations.as_deref(), rank, i, 1)?;
            if kernel[i] == 0 {
                return invalid!("a window of {kernel:?} is empty");
            }
            match (kernel[i] - 1).checked_mul(w.dilation[d]) {
                Some(e) if e < 1 << 40 => {}
                _ => return invalid!("attribute dilations spreads a window of {kernel:?} too far"),
            }
        }
        Ok(w)
    }

    /// `pads` as begins and then ends.
    pub(super) fn pad_list(&self, rank: usize) -> Result<Vec<usize>, KernelError> {
        match &self.pads {
            None => Ok(vec![0; 2 * rank]),
            Some(p) if p.len() == 2 * rank => p.iter().map(|&p| size("pads", p, 0)).collect(),
            Some(p) => invalid!("attribute pads has {} numbers, expected {}", p.len(), 2 * rank),
        }
    }
}

fn size(name: &str, x: i64, min: i64) -> Result<usize, KernelError> {
    match usize::try_from(x) {
        Ok(n) if x >= min && n <= i32::MAX as usize => Ok(n),
        _ => invalid!("attribute {name} holds {x}, expected at least {min}"),
    }
}

fn item(name: &str, list: Option<&[i64]>, rank: usize, i: usize, min: i64) -> Result<usize, KernelError> {
    match list {
        None => Ok(1),
        Some(v) if v.len() == rank => size(name, v[i], min),
        Some(v) => invalid!("attribute {name} has {} numbers, expected {rank}", v.len()),
    }
}

/// Geometry of a window, always over three spatial dimensions; missing ones have size 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) input: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) dilation: [usize; 3],
    pub(super) begin: [usize; 3],
    pub(super) end: [usize; 3],
    pub(super) output: [usize; 3],
}

impl Default for Window {
    fn default() -> Self {
        let one = [1; 3];
        Self { input: one, kernel: one, stride: one, dilation: one, begin: [0; 3], end: [0; 3], output: one }
    }
}

/// Product, `None` on overflow.
pub(super) fn product(v: &[usize]) -> Option<usize> {
    crate::tensor::element_count(v)
}

impl Window {
    /// Elements that a window spans in dimension `d`, gaps included.
    pub(super) fn extent(&self, d: usize) -> usize {
        (self.kernel[d] - 1) * self.dilation[d] + 1
    }

    pub(super) fn input_len(&self) -> Result<usize, KernelError> {
        Self::len("input", self.input)
    }

    pub(super) fn output_len(&self) -> Result<usize, KernelError> {
        Self::len("output", self.output)
    }

    pub(super) fn kernel_len(&self) -> Result<usize, KernelError> {
        Self::len("window", self.kernel)
    }

    fn len(what: &str, v: [usize; 3]) -> Result<usize, KernelError> {
        match product(&v) {
            Some(n) if n < 1 << 40 => Ok(n),
            _ => invalid!("spatial sizes {v:?} of the {what} are too large"),
        }
    }

    /// Whether every window is a single element and they cover the input one to one.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.begin == [0; 3] && self.end == [0; 3]
    }

    /// Input position of kernel element `k` for output `o` in dimension `d`; `None` in the padding.
    #[inline]
    pub(super) fn source(&self, d: usize, o: usize, k: usize) -> Option<usize> {
        (o * self.stride[d] + k * self.dilation[d]).checked_sub(self.begin[d]).filter(|&i| i < self.input[d])
    }

    /// Outputs of dimension `d` for which kernel element `k` lies in the input: a range.
    #[inline]
    pub(super) fn valid(&self, d: usize, k: usize) -> std::ops::Range<usize> {
        let at = k * self.dilation[d];
        let lo = self.begin[d].saturating_sub(at).div_ceil(self.stride[d]);
        let hi = (self.input[d] + self.begin[d]).saturating_sub(at).div_ceil(self.stride[d]);
        let hi = hi.min(self.output[d]);
        lo.min(hi)..hi
    }
}
