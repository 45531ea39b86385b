//! The input is a selector: read in all four ways, written back, evaluated on a small model.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use recut_core::import;
use recut_core::select::{Bare, SelectContext, Selector, SelectorIndex};
use recut_fuzz::{exercise, scratch};

/// Models in both dialects, with modules and stack traces.
fn indexes() -> &'static [SelectorIndex; 2] {
    static INDEXES: OnceLock<[SelectorIndex; 2]> = OnceLock::new();
    INDEXES.get_or_init(|| {
        let files: [&[u8]; 2] = [include_bytes!("../../tests/models/tiny_names.onnx"), include_bytes!("../../tests/models/tiny_names.pt2")];
        files.map(|bytes| SelectorIndex::new(&Arc::new(import::open(scratch::file(bytes)).expect("the model opens").model)))
    })
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // To look for near names takes most of the time: one way and one model for each input.
    let turn = input.iter().fold(0usize, |sum, &b| sum + usize::from(b));
    for (i, bare) in [Bare::ByForm, Bare::Op, Bare::Module, Bare::Node].into_iter().enumerate() {
        let selector = match Selector::parse(text, bare) {
            Ok(selector) => selector,
            Err(e) => {
                exercise::harmless(&e.to_string());
                continue;
            }
        };
        let written = selector.to_string();
        let again = Selector::parse(&written, bare).unwrap_or_else(|e| panic!("{text:?} is written as {written:?}: {e}"));
        assert_eq!(again, selector, "{text:?} is written as {written:?}");
        if turn % 4 != i {
            continue;
        }
        let index = &indexes()[turn / 4 % 2];
        match selector.eval(index, &SelectContext::default()) {
            Ok(found) => found.nearest.iter().chain(&found.remarks).for_each(|t| exercise::harmless(t)),
            Err(e) => exercise::harmless(&e.to_string()),
        }
        let _ = selector.instances(index);
    }
});
