//! The input makes a call of a torch operator, with arguments that nobody would pass: lowered, and judged like any model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recut_core::testing::torch_call;
use recut_fuzz::exercise;

fuzz_target!(|input: &[u8]| {
    exercise::model(torch_call(input), Vec::new());
});
