//! Tensor files: npz, npy, safetensors, ONNX `.pb`.
