//! The input is the JSON inside of a torch.export archive (see `archive::program`), so that the schema, the builder and the
//! lowering are reached: opened, lowered, partitioned, reported.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use recut_fuzz::{archive, exercise, mutate, scratch};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { mutate::json(data, size, max_size, seed) });

fuzz_target!(|input: &[u8]| {
    exercise::file(scratch::file(&archive::program(input)));
});
