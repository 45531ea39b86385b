//! The program from outside: exit codes, what goes to which stream, reports, files.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

fn sample(name: &str) -> String {
    root().join("sample-graphs").join(name).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program, without what the environment of the tests might say.
fn recut() -> assert_cmd::Command {
    let mut c = assert_cmd::Command::new(env!("CARGO_BIN_EXE_recut"));
    for name in ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "RECUT_PYTHON", "VIRTUAL_ENV"] {
        c.env_remove(name);
    }
    c
}

fn run(args: &[&str]) -> Output {
    recut().args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs, checks the exit code, and gives both streams.
#[track_caller]
fn expect(code: i32, args: &[&str]) -> (String, String) {
    let o = run(args);
    let (out, err) = (text(&o.stdout).to_owned(), text(&o.stderr).to_owned());
    assert_eq!(o.status.code(), Some(code), "{args:?}\n--- stdout\n{out}\n--- stderr\n{err}");
    (out, err)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let (out, _) = expect(0, args);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{out}"))
}

// ---- usage

#[test]
fn help_is_data_and_usage_errors_are_not() {
    let (out, err) = expect(0, &["--help"]);
    assert!(out.contains("Exit status") && err.is_empty());
    assert!(!out.contains('\u{1b}'), "colour in a pipe");
    let (out, err) = expect(2, &["inspect", "--no-such-option"]);
    assert!(out.is_empty() && err.contains("--no-such-option"));
    expect(2, &[]);
    expect(2, &["run"]);
    expect(2, &["run", &sample("tiny_cnn.onnx"), "--repeat", "0"]);
    expect(2, &["run", &sample("tiny_cnn.onnx"), "--dump", "op:Relu"]);
}

#[test]
fn errors_say_what_failed_on_which_file_and_what_to_do() {
    let (out, err) = expect(2, &["run", "m.onnx", "--wrap", "9=x"]);
    assert!(out.is_empty());
    assert_eq!(err, "error: --wrap `9=x`: expected NAME=SEL with a name of letters, digits and _, e.g. --wrap 'my_head=module:head'\n");
    let (_, err) = expect(2, &["run", "m.onnx", "--strategy", "best"]);
    assert_eq!(err, "error: there is no strategy `best`; this version has min-partitions\n");
    let (_, err) = expect(5, &["run", "m.onnx", "--engine", "torch"]);
    assert!(err.starts_with("error: --engine torch: this version does not run torch yet; use one of cpu, tract"), "{err}");
    let (_, err) = expect(5, &["run", "m.onnx", "--precision", "bf16"]);
    assert!(err.contains("fp32 only"), "{err}");
}

#[test]
fn an_output_never_replaces_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("m.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    let model = model.display().to_string();
    let (_, err) = expect(2, &["inspect", &model, "--json", &model]);
    assert!(err.contains("would overwrite the model"), "{err}");
    assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(sample("tiny_cnn.onnx")).unwrap());
}

// ---- opening

#[test]
fn what_is_no_model_is_exit_3() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes\u{1b}[31m.txt");
    std::fs::write(&path, "just text, no model at all").unwrap();
    for command in ["inspect", "run", "partition"] {
        let (out, err) = expect(3, &[command, path.to_str().unwrap()]);
        assert!(out.is_empty() && err.starts_with("error: ") && !err.contains('\u{1b}'), "{err:?}");
        assert_eq!(err.lines().count(), 1, "one paragraph: {err}");
    }
    let (_, err) = expect(3, &["inspect", "/nonexistent/model.onnx"]);
    assert!(err.contains("/nonexistent/model.onnx"), "{err}");
}

#[test]
fn inspect_shows_every_table() {
    let model = sample("tiny_cnn.onnx");
    let (out, _) = expect(0, &["inspect", &model]);
    for part in ["ONNX", "Inputs", "Outputs", "Operators", "Modules", "Conv", "parameters", "FLOPs"] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    let (out, _) = expect(0, &["inspect", &model, "--ops"]);
    assert!(out.lines().any(|l| l.trim_start().starts_with("Relu")), "{out}");
    let (nodes, _) = expect(0, &["inspect", &model, "--nodes"]);
    let (relus, err) = expect(0, &["inspect", &model, "--select", "op:Relu"]);
    assert!(relus.lines().count() > 1 && relus.lines().count() < nodes.lines().count());
    assert!(err.contains(" of "), "{err}");
    expect(0, &["inspect", &model, "--modules"]);
    expect(0, &["inspect", &model, "--values"]);
    expect(2, &["inspect", &model, "--select", "op:("]);
}

#[test]
fn inspect_json_has_what_scripts_rely_on() {
    let r = json(&["inspect", &sample("tiny_cnn.onnx"), "--json"]);
    assert_eq!(r["schema"], "recut.inspect/1");
    let nodes = r["nodes"].as_array().unwrap();
    assert_eq!(r["stored_nodes"].as_u64().unwrap() as usize, nodes.len());
    for field in ["id", "name", "op", "module", "class", "inputs", "outputs", "attrs", "torch_op", "source"] {
        assert!(nodes.iter().all(|n| n.get(field).is_some()), "a node has no {field}");
    }
    assert!(nodes.iter().any(|n| n["op"] == "Conv" && n["attrs"]["kernel_shape"] == "[3, 3]"), "{nodes:?}");
    for list in ["values", "modules", "ops", "diagnostics", "inputs", "outputs"] {
        assert!(r[list].is_array(), "no list {list}");
    }
    assert_eq!(r["inputs"][0]["name"], "x");
    assert!(r["totals"]["params"].as_u64().unwrap() > 0);
    // The target may be a file; then nothing is on the standard output.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.json");
    let (out, _) = expect(0, &["inspect", &sample("tiny_cnn.onnx"), "--json", file.to_str().unwrap()]);
    assert!(out.is_empty());
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(file).unwrap()).unwrap(), r);
}

// ---- streams

#[test]
fn a_reader_that_goes_away_is_success() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_recut"))
        .args(["schema", "report"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn colour_follows_flag_and_environment() {
    let colored = |env: &[(&str, &str)], args: &[&str]| {
        let o = recut().envs(env.iter().copied()).args(args).args(["inspect", "/nonexistent"]).output().unwrap();
        text(&o.stderr).contains('\u{1b}')
    };
    assert!(!colored(&[], &[]));
    assert!(colored(&[], &["--color", "always"]));
    assert!(colored(&[("FORCE_COLOR", "1")], &[]));
    assert!(!colored(&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], &[]));
    assert!(!colored(&[("CLICOLOR_FORCE", "1")], &["--color=never"]));
}

// ---- generated

#[test]
fn schemas_completions_and_manual_pages_are_generated() {
    let config = json(&["schema", "config"]);
    assert!(config["properties"]["torch_executed_ops"].is_object());
    let report = json(&["schema", "report"]);
    for name in ["recut.inspect/1"] {
        assert_eq!(report[name]["properties"]["schema"]["const"], name);
    }
    for shell in ["bash", "zsh", "fish"] {
        let (out, _) = expect(0, &["completions", shell]);
        assert!(out.contains("torch-executed-op"), "{shell}");
    }
    let (page, _) = expect(0, &["man"]);
    assert!(page.starts_with(".ie") || page.contains(".TH recut 1"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    expect(0, &["man", "-o", dir.path().to_str().unwrap()]);
    let run = std::fs::read_to_string(dir.path().join("recut-run.1")).unwrap();
    assert!(run.contains("expect"), "{run}");
}

#[test]
fn doctor_reports_engines_and_says_which_are_used() {
    let o = recut().args(["doctor", "--json", "--python", "/nonexistent/python"]).output().unwrap();
    assert_eq!(o.status.code(), Some(0));
    let r: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(r["schema"], "recut.doctor/1");
    let engine = |name: &str| r["engines"].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap().clone();
    assert_eq!((&engine("cpu")["found"], &engine("cpu")["used"]), (&true.into(), &true.into()));
    assert_eq!((&engine("torch")["found"], &engine("torch")["used"]), (&false.into(), &false.into()));
    assert_eq!(engine("torch")["note"], "no Python");
    assert!(r["cpu"]["threads"].as_u64().unwrap() > 0);
}

#[test]
fn doctor_asks_the_python_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let python = dir.path().join("python");
    let mut f = std::fs::File::create(&python).unwrap();
    f.write_all(b"#!/bin/sh\ncase \"$2\" in *sys.version*) echo 3.12.1;; *torch*) echo noise; echo 2.9.0;; *) echo 'ModuleNotFoundError: x' >&2; exit 1;; esac\n")
        .unwrap();
    drop(f);
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (out, _) = expect(0, &["doctor", "--python", python.to_str().unwrap()]);
    assert!(out.lines().any(|l| l.contains("torch") && l.contains("2.9.0") && l.contains("found, not used by this version yet")), "{out}");
    assert!(out.lines().any(|l| l.contains("openvino") && l.contains("not installed in this Python")), "{out}");
}
