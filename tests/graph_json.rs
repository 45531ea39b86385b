//! Graphs as JSON from outside: read, marked and shown like any model.

use serde_json::Value;

/// Runs, checks the exit code, and gives both streams.
#[track_caller]
fn expect(code: i32, args: &[&str]) -> (String, String) {
    let o = assert_cmd::Command::new(env!("CARGO_BIN_EXE_recut")).args(args).output().unwrap();
    let (out, err) = (String::from_utf8(o.stdout).unwrap(), String::from_utf8(o.stderr).unwrap());
    assert_eq!(o.status.code(), Some(code), "{args:?}\n--- stdout\n{out}\n--- stderr\n{err}");
    (out, err)
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

/// What another tool would write, with marks to be made and data columns.
const DUMP: &str = r#"{
  "format": "recut.graph", "version": 1, "producer": "some compiler", "inputs": ["a"], "outputs": ["d"],
  "nodes": [
    {"name": "conv", "op": "npu::fused_conv", "inputs": ["a", "w"], "outputs": ["b"], "module": "net.stem"},
    {"name": "act", "op": "gelu", "inputs": ["b"], "outputs": ["c"], "module": "net.stem"},
    {"name": "fc", "op": "npu::linear", "inputs": ["c"], "outputs": ["d"], "module": "net.head"}
  ],
  "initializers": {"w": {"dtype": "i8", "shape": [16, 3, 3, 3]}},
  "modules": {"net.stem": "m.Stem"},
  "columns": {
    "latency": {"unit": "us", "values": {"conv": 120.25, "act": 4, "fc": 31}},
    "device": {"values": {"conv": "npu", "act": "cpu"}}
  }
}"#;

fn dump() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let graph = path(&dir, "dump.json");
    std::fs::write(&graph, DUMP).unwrap();
    (dir, graph)
}

#[test]
fn columns_stand_in_inspect_and_in_the_app() {
    let (_dir, graph) = dump();
    let (out, _) = expect(0, &["inspect", &graph, "--nodes"]);
    let line = |what: &str| out.lines().find(|l| l.starts_with(what)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert!(line("node").ends_with(&["latency", "(us)", "device"]), "{out}");
    assert!(line("conv").ends_with(&["120.25", "npu"]) && line("fc").ends_with(&["31"]), "{out}");
    let (out, _) = expect(0, &["inspect", &graph, "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["columns"][0], serde_json::json!({"name": "latency", "unit": "us", "kind": "number"}));
    assert_eq!(report["nodes"][0]["columns"], serde_json::json!({"latency": 120.25, "device": "npu"}));
    let (out, _) = expect(0, &["snapshot", &graph, "--size", "160x30", "--keys", ": column space latency enter"]);
    assert!(out.contains("120.25 us") && out.contains("latency (us)"), "{out}");
}

#[test]
fn marks_configs_selectors_and_fingerprints_work_on_it() {
    let (dir, graph) = dump();
    let (out, _) = expect(0, &["inspect", &graph, "--select", "class:m.Stem"]);
    assert!(out.contains("conv") && out.contains("act") && !out.contains("linear"), "{out}");
    let config = path(&dir, "marks.json");
    let marks = ["partition", &graph, "--torch-executed-op", "gelu", "--wrap", "head=module:net.head", "--save-config", &config];
    expect(0, &marks);
    let saved: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    assert_eq!(saved["model"]["file"], "dump.json");
    let (out, err) = expect(0, &["partition", &graph, "--config", &config, "--json"]);
    assert!(!err.contains("another"), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["partitions"].as_array().unwrap().len(), 3, "{report}");
    // A config is no model, and says which option takes it.
    let (_, err) = expect(3, &["inspect", &config]);
    assert!(err.contains("--config"), "{err}");
    // Another graph under the same name is noticed.
    std::fs::write(&graph, DUMP.replace("\"gelu\"", "\"relu\"")).unwrap();
    let (_, err) = expect(0, &["partition", &graph, "--config", &config]);
    assert!(err.contains("warning"), "{err}");
    // Nobody knows how to run it, and every such operator is named.
    let (_, err) = expect(4, &["--run", &graph, "--input", "a:1x3x8x8:f32", "--repeat", "1"]);
    assert!(err.contains("npu::fused_conv"), "{err}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let (_dir, graph) = dump();
    std::fs::write(&graph, DUMP.replace("[\"b\"], \"outputs\": [\"c\"]", "[\"q\"], \"outputs\": [\"c\"]")).unwrap();
    let (_, err) = expect(3, &["inspect", &graph]);
    assert!(err.contains("nodes[1].inputs[0]: node `act` reads value `q`"), "{err}");
}
