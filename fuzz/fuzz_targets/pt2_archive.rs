//! The input is a torch.export archive as it lies on disk: opened, lowered, partitioned, reported.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use recut_fuzz::{exercise, scratch};

fuzz_target!(|input: &[u8]| -> Corpus {
    // Anything else is for the target `onnx`.
    if !input.starts_with(b"PK") {
        return Corpus::Reject;
    }
    exercise::file(scratch::file(input));
    Corpus::Keep
});
