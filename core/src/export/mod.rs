//! Writing graphs and plans down for other programs.

pub mod dot;
pub mod json;
pub mod onnx;
