//! The input is the pickle of a `torch.save` dict: read by itself, and where it holds tensors, as the weights of a program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recut_core::testing::unpickled_names;
use recut_fuzz::{archive, exercise, scratch};

fuzz_target!(|input: &[u8]| {
    match unpickled_names(input) {
        Ok(names) if !names.is_empty() => {
            exercise::file(scratch::file(&archive::with_pickle(input)));
        }
        Ok(_) => {}
        Err(why) => exercise::harmless(&why),
    }
});
