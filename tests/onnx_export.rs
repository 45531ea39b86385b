//! What `recut export --to onnx` writes, as the onnx package and ONNX Runtime see it.
//!
//! They are looked for in the Python that `RECUT_TEST_PYTHON` names, else in `python3`; without them the test says that it
//! is skipped. If the variable is set, they have to be there.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use recut_core::export::onnx::{self, ExportError, Options};
use recut_core::import;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A Python that has all of `modules`; `None`, after saying so, if there is none and none was promised.
fn python(modules: &str) -> Option<PathBuf> {
    let named = std::env::var_os("RECUT_TEST_PYTHON");
    let python = PathBuf::from(named.clone().unwrap_or_else(|| "python3".into()));
    let found = Command::new(&python).args(["-c", &format!("import {modules}")]).stderr(Stdio::null()).status();
    if found.is_ok_and(|s| s.success()) {
        return Some(python);
    }
    assert!(named.is_none(), "RECUT_TEST_PYTHON ({}) cannot import {modules}", python.display());
    // Past the test harness, which keeps what passing tests print.
    let _ = writeln!(std::io::stderr(), "skipped: no Python with {modules}; name one in RECUT_TEST_PYTHON");
    None
}

/// Models with arrays to feed: name, model, arrays, and what the arrays mean where a file tells.
fn models() -> Vec<(String, PathBuf, PathBuf, Option<PathBuf>)> {
    let mut all = Vec::new();
    for folder in ["tests/models", "sample-graphs"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let npz = path.with_extension("npz");
            if path.extension().is_some_and(|e| e == "onnx") && npz.exists() {
                all.push((format!("{folder}/{}", path.file_name().unwrap().to_string_lossy()), path, npz, None));
            }
        }
    }
    all.sort();
    let folder = root().join("tests/cases");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    for case in cases {
        let file = case["file"].as_str().unwrap();
        let Some(run) = case["runs"].as_array().and_then(|r| r.iter().find(|r| r["expect"] == "equal")) else { continue };
        if file.to_lowercase().ends_with(".onnx") && case["open"] == "ok" {
            let arrays = |field: &str| folder.join(run[field].as_str().unwrap());
            all.push((case["id"].as_str().unwrap().to_owned(), folder.join(file), arrays("npz"), Some(arrays("io"))));
        }
    }
    all
}

/// The model's outputs by our own engine, written to a file; `false` if the model holds an operator that is only opaque.
fn outputs_of(model: &Path, npz: &Path, to: &Path) -> bool {
    let o = Command::new(env!("CARGO_BIN_EXE_recut"))
        .arg("run")
        .arg(model)
        .args(["--repeat", "1", "--warmup", "0", "--quiet", "--inputs"])
        .arg(npz)
        .arg("--outputs")
        .arg(to)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success() || error.contains("no kernel for mylib"), "{}: {error}", model.display());
    o.status.success()
}

/// Lets the script look at the jobs; its verdicts by name.
fn examine(python: &Path, jobs: &[Value]) -> HashMap<String, Value> {
    let mut child = Command::new(python)
        .arg(root().join("tests/onnx_runtime/check.py").canonicalize().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(jobs).unwrap()).unwrap();
    drop(stdin);
    let o = child.wait_with_output().unwrap();
    let text = String::from_utf8(o.stdout).unwrap();
    let verdicts = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let verdicts: HashMap<String, Value> = verdicts.map(|v| (v["name"].as_str().unwrap().to_owned(), v)).collect();
    assert!(o.status.success() && verdicts.len() == jobs.len(), "the script stopped after {} of {}", verdicts.len(), jobs.len());
    verdicts
}

#[test]
fn torch_programs_become_valid_models_that_run_alike() {
    let Some(python) = python("onnx, onnxruntime, numpy") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut jobs = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/models")).unwrap() {
        let model = entry.unwrap().path();
        if model.extension().is_none_or(|e| e != "pt2") {
            continue;
        }
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        let exported = dir.path().join(format!("{name}.onnx"));
        let program = match import::open(&model) {
            Ok(opened) => Arc::new(opened.model),
            Err(e) if e.to_string().contains("of schema 1") => continue,
            Err(e) => panic!("{name}: {e}"),
        };
        match onnx::write(&recut_core::lower::lower(&program), &exported, Options::default()) {
            Ok(_) => {}
            Err(ExportError::Refused(_)) if name == "tiny_custom_op.pt2" => continue,
            Err(e) => panic!("{name}: {e}"),
        }
        let mut job = json!({ "name": name, "exported": exported });
        let npz = model.with_extension("npz");
        if npz.exists() {
            let ours = dir.path().join(format!("{name}.npz"));
            assert!(outputs_of(&model, &npz, &ours), "{name}");
            (job["npz"], job["ours"]) = (json!(npz.canonicalize().unwrap()), json!(ours));
        }
        jobs.push(job);
    }
    assert!(jobs.iter().filter(|j| j.get("npz").is_some()).count() >= 2 && jobs.len() > 10, "{jobs:?}");
    let verdicts = examine(&python, &jobs);
    let faulty: Vec<&Value> = verdicts.values().filter(|v| v["faults"].as_array().is_none_or(|f| !f.is_empty())).collect();
    assert!(faulty.is_empty(), "{faulty:#?}");
}

#[test]
fn onnx_runtime_gives_the_same_for_what_is_exported() {
    let Some(python) = python("onnx, onnxruntime, numpy") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (mut jobs, mut refused) = (Vec::new(), Vec::new());
    for (i, (name, model, npz, io)) in models().into_iter().enumerate() {
        let exported = dir.path().join(format!("{i}.onnx"));
        let original = import::open(&model).unwrap_or_else(|e| panic!("{name}: {e}")).model;
        match onnx::write(&original, &exported, Options { external_data: i % 2 == 0 }) {
            Ok(_) => {}
            Err(ExportError::Refused(_)) => {
                refused.push(name);
                continue;
            }
            Err(e) => panic!("{name}: {e}"),
        }
        let mut job =
            json!({ "name": name, "original": model.canonicalize().unwrap(), "exported": exported, "npz": npz.canonicalize().unwrap() });
        match io {
            Some(io) => job["io"] = json!(io.canonicalize().unwrap()),
            None => {
                let ours = dir.path().join(format!("{i}.npz"));
                if outputs_of(&exported, &npz, &ours) {
                    job["ours"] = json!(ours);
                }
            }
        }
        jobs.push(job);
    }
    let verdicts = examine(&python, &jobs);
    let mut faults: Vec<String> = Vec::new();
    let mut skipped = 0;
    for (name, v) in &verdicts {
        skipped += usize::from(v.get("skipped").is_some());
        faults.extend(v["faults"].as_array().unwrap().iter().map(|f| format!("{name}: {}", f.as_str().unwrap())));
    }
    faults.sort();
    let _ = writeln!(
        std::io::stderr(),
        "{} exported models agree in ONNX Runtime, {skipped} it does not run either way, {} cannot be said in ONNX",
        jobs.len() - skipped,
        refused.len()
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(refused.len() < 10, "refused: {refused:?}");
    assert!(skipped < jobs.len() / 4, "skipped {skipped} of {}", jobs.len());
}
