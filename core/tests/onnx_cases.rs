//! Hostile and odd ONNX files: each opens or is refused as `cases.json` says, with the words it asks for.

use std::path::{Path, PathBuf};

use recut_core::import::{self, Imported};
use serde_json::Value as Json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases")
}

fn cases() -> Vec<Json> {
    let text = std::fs::read_to_string(folder().join("cases.json")).expect("tests/cases/cases.json");
    let all: Json = serde_json::from_str(&text).expect("cases.json is JSON");
    let list = all.as_array().or_else(|| all["cases"].as_array()).expect("a list of cases");
    list.iter().filter(|c| !matches!(c["group"].as_str(), Some(g) if g.starts_with("24-") || g.starts_with("25-"))).cloned().collect()
}

fn words<'a>(case: &'a Json, key: &str) -> Vec<&'a str> {
    case[key].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

fn has(text: &str, word: &str) -> bool {
    text.to_lowercase().contains(&word.to_lowercase())
}

/// Everything the importer says, one line each.
fn said(imported: &Imported) -> String {
    imported.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)).collect()
}

/// What is wrong with how a case was treated.
fn complaints(case: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    let path = folder().join(case["file"].as_str().expect("file"));
    let result = import::open(&path);
    let open = case["open"].as_str().expect("open");
    let text = match &result {
        Ok(imported) => said(imported),
        Err(e) => e.to_string(),
    };
    match &result {
        Ok(imported) => {
            if open == "error" {
                wrong.push(format!("opened, but must be refused; {text}"));
            }
            if let Some(nodes) = case["nodes"].as_u64()
                && imported.model.stored_nodes as u64 != nodes
            {
                wrong.push(format!("{} nodes instead of {nodes}", imported.model.stored_nodes));
            }
            let warn = words(case, "warn_any");
            if !warn.is_empty() && !warn.iter().any(|w| has(&text, w)) {
                wrong.push(format!("no warning with any of {warn:?}: {text}"));
            }
        }
        Err(e) => {
            if open == "ok" {
                wrong.push(format!("refused: {e}"));
            }
            let any = words(case, "err_any");
            // The file's name is no explanation.
            let message = &e.message;
            if !any.is_empty() && !any.iter().any(|w| has(message, w)) {
                wrong.push(format!("error without any of {any:?}: {message}"));
            }
            for w in words(case, "err_all") {
                if !has(message, w) {
                    wrong.push(format!("error without {w:?}: {message}"));
                }
            }
        }
    }
    for w in words(case, "must_not") {
        if text.contains(w) {
            wrong.push(format!("says {w:?}: {text}"));
        }
    }
    if text.chars().any(|c| c.is_control() && c != '\n') {
        wrong.push(format!("control characters in {text:?}"));
    }
    wrong
}

#[test]
fn every_case_is_treated_as_it_says() {
    let cases = cases();
    assert!(cases.len() > 250, "only {} cases found", cases.len());
    let mut failures = String::new();
    for case in &cases {
        for c in complaints(case) {
            failures.push_str(&format!("{}: {c}\n", case["id"].as_str().unwrap_or("?")));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Prefixes and single-byte changes of real files: any answer is right, a panic or a hang is not.
#[test]
fn damaged_files_never_panic() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("damaged.onnx");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("below a usize")
    };
    for name in
        ["func_nested_4", "loop_if_5", "ext_in_branch/model", "scopes_malformed", "ts_names", "bf16_in_int32_data", "val_sparse_oob"]
    {
        let bytes = std::fs::read(folder().join(format!("{name}.onnx"))).expect(name);
        for _ in 0..150 {
            let mut damaged = bytes.clone();
            for _ in 0..=random(4) {
                let at = random(damaged.len());
                damaged[at] = u8::try_from(random(256)).expect("a byte");
            }
            if random(3) == 0 {
                damaged.truncate(random(damaged.len()));
            }
            std::fs::write(&path, &damaged).expect("writing");
            if let Ok(imported) = import::open(&path) {
                assert_eq!(imported.model.graph_sha256().len(), 64);
            }
        }
    }
}

/// All that happens for one file fits into the stack of a small thread.
#[test]
fn deep_files_need_little_stack() {
    for name in ["chain_20000_reversed", "chain_20000_in_branch", "nested_if_200", "scopes_300_deep", "func_nested_4", "func_bomb_10e9"] {
        let path = folder().join(format!("{name}.onnx"));
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || drop(import::open(&path))).expect("a thread");
        assert!(thread.join().is_ok(), "{name}");
    }
}
