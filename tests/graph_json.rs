//! Graphs as JSON from outside: written, read, run, marked and shown like any model.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs, checks the exit code, and gives both streams.
#[track_caller]
fn expect(code: i32, args: &[&str]) -> (String, String) {
    let o = assert_cmd::Command::new(env!("CARGO_BIN_EXE_recut")).args(args).output().unwrap();
    let (out, err) = (String::from_utf8(o.stdout).unwrap(), String::from_utf8(o.stderr).unwrap());
    assert_eq!(o.status.code(), Some(code), "{args:?}\n--- stdout\n{out}\n--- stderr\n{err}");
    (out, err)
}

/// A folder with copies of these sample graphs.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let from = ["sample-graphs", "tests/models"].iter().map(|d| root().join(d).join(name)).find(|p| p.exists()).unwrap();
        std::fs::copy(from, dir.path().join(name)).unwrap();
    }
    dir
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

#[test]
fn an_exported_graph_runs_as_the_model_does() {
    for name in ["tiny_cnn", "tiny_cond", "tiny_lstm", "tiny_transformer"] {
        let (onnx, npz) = (format!("{name}.onnx"), format!("{name}.npz"));
        let dir = folder(&[&onnx, &npz]);
        let (model, graph, io) = (path(&dir, &onnx), path(&dir, "g.json"), path(&dir, &npz));
        let (_, err) = expect(0, &["export", &model, "--to", "json", "-o", &graph]);
        assert!(err.contains("wrote the graph to") && !err.contains("left out"), "{err}");
        expect(0, &["--run", &graph, "--inputs", &io, "--expect", &io, "--repeat", "1"]);
    }
}

#[test]
fn a_torch_graph_is_lowered_and_runs() {
    let dir = folder(&["tiny_cnn.pt2", "tiny_cnn.npz"]);
    let (model, graph, io) = (path(&dir, "tiny_cnn.pt2"), path(&dir, "g.json"), path(&dir, "tiny_cnn.npz"));
    expect(0, &["export", &model, "--to", "json", "-o", &graph]);
    expect(0, &["--run", &graph, "--inputs", &io, "--expect", &io, "--repeat", "1"]);
}

#[test]
fn weights_outside_of_the_folder_are_left_out_and_that_is_said() {
    let dir = folder(&["tiny_cnn.onnx"]);
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let graph = sub.join("g.json").display().to_string();
    let (_, err) = expect(0, &["export", &path(&dir, "tiny_cnn.onnx"), "--to", "json", "-o", &graph]);
    assert!(err.contains("left out") && err.contains("folder"), "{err}");
    let (out, _) = expect(0, &["inspect", &graph]);
    assert!(out.contains("recut graph") && out.contains("without data"), "{out}");
    let (_, err) = expect(4, &["--run", &graph, "--repeat", "1"]);
    assert!(err.contains("holds no data of initializer"), "{err}");
    // Partitions need no weights.
    expect(0, &["partition", &graph, "--backend", "tensorrt"]);
}

#[test]
fn the_graph_goes_to_the_standard_output_and_never_over_the_model() {
    let dir = folder(&["tiny_cnn.onnx"]);
    let model = path(&dir, "tiny_cnn.onnx");
    let (out, _) = expect(0, &["export", &model, "--to", "json", "-o", "-"]);
    let graph: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&graph["format"], &graph["dialect"]), (&"recut.graph".into(), &"onnx".into()));
    let before = std::fs::read(&model).unwrap();
    let (_, err) = expect(2, &["export", &model, "--to", "json", "-o", &model]);
    assert!(err.contains("overwrite"), "{err}");
    assert_eq!(std::fs::read(&model).unwrap(), before);
    expect(2, &["export", &model, "--to", "json", "-o", "-", "--external-data"]);
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
    let (out, _) = expect(0, &["snapshot", &graph, "--size", "160x30", "--keys", ": c o l u m n space l a t e n c y enter"]);
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
    let (out, _) = expect(0, &["partition", &graph, "--config", &config]);
    assert!(out.contains("made for another graph"), "{out}");
    // Nobody knows how to run it, and every such operator is named.
    std::fs::write(&graph, DUMP.replace("3, 3, 3]}", "3, 3, 3], \"zeros\": true}")).unwrap();
    let (_, err) = expect(4, &["--run", &graph, "--input", "a:1x3x8x8:f32", "--repeat", "1"]);
    assert!(["npu::fused_conv", "gelu", "npu::linear"].iter().all(|op| err.contains(op)), "{err}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let (_dir, graph) = dump();
    std::fs::write(&graph, DUMP.replace("[\"b\"], \"outputs\": [\"c\"]", "[\"q\"], \"outputs\": [\"c\"]")).unwrap();
    let (_, err) = expect(3, &["inspect", &graph]);
    assert!(err.contains("nodes[1].inputs[0]: node `act` reads value `q`"), "{err}");
}

#[test]
fn the_schema_describes_what_is_written() {
    let (out, _) = expect(0, &["schema", "graph"]);
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(schema["properties"]["format"]["const"], "recut.graph");
    let dir = folder(&["tiny_cnn.pt2"]);
    let (out, _) = expect(0, &["export", &path(&dir, "tiny_cnn.pt2"), "--to", "json", "-o", "-"]);
    let graph: Value = serde_json::from_str(&out).unwrap();
    for (of, fields) in [("/properties", &graph), ("/$defs/Node/properties", &graph["nodes"][0])] {
        let known = schema.pointer(of).unwrap().as_object().unwrap();
        for field in fields.as_object().unwrap().keys() {
            assert!(known.get(field).is_some_and(|f| f.get("description").is_some()), "{of}: {field}");
        }
    }
}
