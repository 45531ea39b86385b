//! The input is a partition config: read, written back, and put on a small model.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use recut_core::config::PartitionConfig;
use recut_core::document::{Document, DocumentOptions};
use recut_core::export::dot::dot;
use recut_core::import::{self, Imported};
use recut_fuzz::{exercise, mutate, scratch};

fn model() -> &'static Imported {
    static MODEL: OnceLock<Imported> = OnceLock::new();
    MODEL.get_or_init(|| import::open(scratch::file(include_bytes!("../../tests/models/tiny_names.onnx"))).expect("the model opens"))
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { mutate::json(data, size, max_size, seed) });

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (config, _) = match PartitionConfig::load(text, "config.json") {
        Ok(loaded) => loaded,
        Err(e) => return exercise::harmless(&e.to_string()),
    };
    let written = config.to_json_string();
    let (again, _) = PartitionConfig::load(&written, "config.json").unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(again.to_json_string(), written);
    assert_eq!(again, config);
    match Document::new(model().clone(), config, DocumentOptions::default()) {
        Ok(document) => {
            document.problems().iter().for_each(|d| exercise::harmless(&d.message));
            std::hint::black_box(dot(document.plan()));
        }
        Err(e) => exercise::harmless(&e.to_string()),
    }
});
