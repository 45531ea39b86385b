//! Reader of ONNX files.
