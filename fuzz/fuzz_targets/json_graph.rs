//! The input is a recut graph file: opened, inspected, lowered where it speaks torch, partitioned, reported, and written
//! as such a file again.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target};
use recut_fuzz::{exercise, mutate, scratch};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { mutate::json(data, size, max_size, seed) });

fuzz_target!(|input: &[u8]| -> Corpus {
    // Anything else is for the target `onnx`.
    if !input.trim_ascii_start().starts_with(b"{") {
        return Corpus::Reject;
    }
    exercise::file(scratch::file(input));
    Corpus::Keep
});
