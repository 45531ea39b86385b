//! The input is a model file: opened, inspected, partitioned, reported.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recut_fuzz::{exercise, scratch};

fuzz_target!(|input: &[u8]| {
    exercise::file(scratch::file(input));
});
