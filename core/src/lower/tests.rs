//! What lowering gives for calls and whole programs.
