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

// ---- running

fn io(name: &str) -> (String, String) {
    (sample(&format!("{name}.onnx")), sample(&format!("{name}.npz")))
}

#[test]
fn a_run_that_agrees_is_exit_0_and_times_every_node() {
    let (model, arrays) = io("tiny_cnn");
    let r = json(&["--run", &model, "--inputs", &arrays, "--expect", &arrays, "--json", "-"]);
    assert_eq!(r["schema"], "recut.run/1");
    let inspected = json(&["inspect", &model, "--json"]);
    let ids = |v: &Value| v["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let (mut timed, mut all) = (ids(&r), ids(&inspected));
    timed.sort();
    all.sort();
    assert_eq!(timed, all, "a time for every node");
    assert!(r["nodes"].as_array().unwrap().iter().all(|n| n["median_ns"].is_u64() && n["calls"] == 5));
    assert_eq!(r["expect"][0]["ok"], true);
    assert_eq!((r["inputs"][0]["name"].as_str(), r["inputs"][0]["array"].as_str()), (Some("x"), Some("in_x")));
    for field in ["end_to_end", "sum_of_nodes_ns", "gap_ns", "boundary_ns", "peak_bytes"] {
        assert!(!r["totals"][field].is_null(), "no total {field}");
    }
    assert_eq!(r["outputs"][0]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_spoilt_expectation_is_exit_1_and_says_which_output() {
    let (model, arrays) = io("tiny_cnn");
    let dir = tempfile::tempdir().unwrap();
    let spoilt = dir.path().join("spoilt.npz");
    let mut stored = recut_exec::io::load_arrays(Path::new(&arrays)).unwrap();
    let out = stored.get_mut("out_0").unwrap();
    out.as_mut_slice::<f32>().unwrap()[3] += 1.0;
    recut_exec::io::save_npz(&spoilt, &stored).unwrap();
    let (out, err) = expect(1, &["--run", &model, "--inputs", &arrays, "--expect", spoilt.to_str().unwrap()]);
    assert!(out.contains("Expectation") && out.contains("differs"), "{out}");
    assert!(err.starts_with("error: 1 of 1 outputs differ from ") && err.contains("(--rtol, --atol): linear (1 of 20"), "{err}");
    assert!(err.contains("the largest difference is 1.000e0"), "{err}");
    // Under a tolerance that allows it, it holds.
    expect(0, &["--run", &model, "--inputs", &arrays, "--expect", spoilt.to_str().unwrap(), "--atol", "1.5"]);
}

#[test]
fn every_small_export_gives_what_pytorch_computed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let samples = ["cnn", "cnn_ts:cnn", "transformer", "lstm", "cond", "dynamic", "custom_op_fn:custom_op"];
    let models = ["bf16", "names", "names_ts:names", "qdq", "qdq_ort", "repeat", "scan", "while"];
    let in_folder = |folder: &'static str, names: &[&'static str]| names.iter().map(|n| (folder, *n)).collect::<Vec<_>>();
    for (folder, name) in [in_folder("sample-graphs", &samples), in_folder("tests/models", &models)].concat() {
        let (model, arrays) = name.split_once(':').unwrap_or((name, name));
        let path = |name: &str, ending: &str| root.join(folder).join(format!("tiny_{name}.{ending}")).display().to_string();
        let arrays = path(arrays, "npz");
        expect(0, &["--run", &path(model, "onnx"), "--inputs", &arrays, "--expect", &arrays]);
    }
}

#[test]
fn the_summary_reads_from_hottest_node_to_next_step() {
    let (model, arrays) = io("tiny_cnn");
    let (out, err) = expect(0, &["--run", &model, "--inputs", &arrays, "--top", "2", "--torch-executed-op", "Relu", "--threads", "1"]);
    for part in ["ms", "node", "Totals", "end to end", "sum of nodes", "gap", "peak memory", "Partitions", "run_on_acc_", "run_on_torch_"] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    assert!(out.contains("torch not found, ran on cpu"), "{out}");
    assert!(out.contains("this version has no torch engine"), "{out}");
    assert!(out.contains("--save-config"), "a hint what to do next: {out}");
    assert!(out.contains("more nodes (--top 0 lists all"), "{out}");
    assert!(err.is_empty(), "{err}");
}

#[test]
fn inputs_are_generated_from_seed_and_specification() {
    let (model, _) = io("tiny_cnn");
    let outputs = |seed: &str| json(&["run", &model, "--seed", seed, "--repeat", "1", "--json"])["outputs"].clone();
    assert_eq!(outputs("1"), outputs("1"));
    assert_ne!(outputs("1"), outputs("2"));
    let r = json(&["run", &model, "--input", "x:2x3x32x32:f32:0..1", "--repeat", "1", "--json"]);
    assert!(r["inputs"][0]["generated"].as_str().unwrap().contains("uniform in 0..1"), "{}", r["inputs"]);
    let (_, err) = expect(4, &["run", &model, "--input", "nope:2x3"]);
    assert!(err.contains("`nope`") && err.contains('x'), "{err}");
}

#[test]
fn files_of_a_run_are_whole_and_loadable() {
    let (model, arrays) = io("tiny_cnn");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (outputs, trace, dump) = (at("o.npz"), at("t.json"), at("values"));
    expect(0, &["run", &model, "--inputs", &arrays, "--outputs", &outputs, "--trace", &trace, "--dump", "op:Relu", "-o", &dump]);
    // What was written is what was expected.
    expect(0, &["run", &model, "--inputs", &arrays, "--expect", &outputs, "--rtol", "0", "--atol", "0"]);
    let events: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    assert!(events["traceEvents"].as_array().unwrap().iter().any(|e| e["cat"] == "Conv"));
    let index: Value = serde_json::from_slice(&std::fs::read(Path::new(&dump).join("index.json")).unwrap()).unwrap();
    let files = index.as_object().unwrap();
    assert!(!files.is_empty());
    for file in files.keys() {
        assert_eq!(recut_exec::io::load_arrays(&Path::new(&dump).join(file)).unwrap().len(), 1);
    }
    assert!(std::fs::read_dir(dir.path()).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().ends_with(".tmp")));
}

#[test]
fn an_operator_without_kernel_is_exit_4_and_names_the_node() {
    let (out, err) = expect(4, &["run", &sample("tiny_custom_op.onnx")]);
    assert!(out.is_empty(), "{out}");
    assert!(err.starts_with("error: the run failed: cpu cannot run ") && err.contains("no kernel for "), "{err}");
}

#[test]
fn arrays_and_configs_that_are_not_there_are_exit_5() {
    let (model, _) = io("tiny_cnn");
    for option in ["--inputs", "--expect", "--config", "--support"] {
        let (_, err) = expect(5, &["run", &model, option, "/nonexistent/file"]);
        assert!(err.contains("/nonexistent/file"), "{option}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    expect(5, &["run", &model, "--repeat", "1", "--json", "/nonexistent/dir/r.json"]);
}

#[test]
fn a_time_limit_is_exit_4_and_says_so() {
    let (model, _) = io("tiny_cnn");
    let (out, err) = expect(4, &["run", &model, "--repeat", "1000000", "--timeout", "0.3"]);
    assert!(out.is_empty() && err.contains("0.3 s"), "{err}");
}

#[test]
fn an_interrupted_run_is_exit_130_and_leaves_nothing_half_written() {
    let (model, _) = io("tiny_cnn");
    let dir = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_recut"))
        .args(["run", &model, "--repeat", "1000000", "--json", "r.json", "--outputs", "o.npz", "--trace", "t.json"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = child.wait().unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(status.code(), Some(130), "{err}");
    assert_eq!((out.as_str(), err.as_str()), ("", "error: interrupted; nothing half-written is left\n"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

// ---- marks and configs

#[test]
fn a_saved_config_gives_the_same_plan_and_the_same_bytes() {
    let (model, arrays) = io("tiny_cnn");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (a, b) = (at("a.json"), at("b.json"));
    let marks = ["--torch-executed-op", "Relu", "--min-block-size", "2", "--engine", "tract"];
    let partitions = |args: &[&str]| {
        let args: Vec<&str> = ["run", &model, "--inputs", &arrays, "--repeat", "1", "--json"].iter().chain(args).copied().collect();
        let r = json(&args);
        r["partitions"].as_array().unwrap().iter().map(|p| (p["name"].clone(), p["engine"].clone(), p["nodes"].clone())).collect::<Vec<_>>()
    };
    let marked = partitions(&[&marks[..], &["--save-config", &a]].concat());
    assert_eq!(partitions(&["--config", &a, "--save-config", &b]), marked);
    assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
    let saved: Value = serde_json::from_slice(&std::fs::read(&a).unwrap()).unwrap();
    assert_eq!(saved["torch_executed_ops"], serde_json::json!(["Relu"]));
    assert_eq!((&saved["partitioner"]["min_block_size"], &saved["run"]["engine"]), (&2.into(), &"tract".into()));
    assert_eq!(saved["model"]["graph_sha256"].as_str().unwrap().len(), 64);
    // Saving over the config that was loaded is what the option is for.
    partitions(&["--config", &a, "--save-config", &a]);
    assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
}

#[test]
fn config_and_selector_errors_are_exit_2_and_say_where() {
    let (model, _) = io("tiny_cnn");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.json");
    std::fs::write(&config, "{\n  \"version\": 1,\n  \"torch_executed_op\": []\n}\n").unwrap();
    let (_, err) = expect(2, &["run", &model, "--config", config.to_str().unwrap()]);
    assert!(err.contains("c.json:3:") && err.contains("torch_executed_ops"), "{err}");
    let (_, err) = expect(2, &["run", &model, "--torch-executed-op", "op:("]);
    assert!(err.starts_with("error: ") && err.contains("op:("), "{err}");
    let (_, err) = expect(2, &["run", &model, "--strict", "--torch-executed-op", "op:Rellu"]);
    assert!(err.contains("op:Rellu") || err.contains("Rellu"), "{err}");
    assert!(err.contains("Relu"), "the nearest name: {err}");
    let (_, err) = expect(0, &["run", &model, "--repeat", "1", "--torch-executed-op", "op:Rellu"]);
    assert!(err.starts_with("warning: ") && err.contains("Relu"), "{err}");
}

#[test]
fn partition_reports_and_draws_without_running() {
    let model = sample("tiny_cnn.onnx");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (dot, config) = (at("g.dot"), at("c.json"));
    let (out, _) = expect(0, &["partition", &model, "--torch-executed-op", "Relu", "--dot", &dot, "--save-config", &config]);
    assert!(out.contains("run_on_acc_0") && out.contains("Relu"), "{out}");
    assert!(std::fs::read_to_string(dot).unwrap().starts_with("digraph"));
    let r = json(&["partition", &model, "--config", &config, "--json"]);
    assert_eq!(r["schema"], "recut.partition/1");
    assert_eq!(r["config"]["torch_executed_ops"], serde_json::json!(["Relu"]));
    assert!(r["totals"]["torch_nodes"].as_u64().unwrap() > 0 && !r["fallbacks"].as_array().unwrap().is_empty());
    assert_eq!(r["totals"]["lower_bound"], r["totals"]["accelerated_partitions"]);
    // The same marks give the same config, whichever command saves it.
    let other = at("d.json");
    expect(0, &["run", &model, "--repeat", "1", "--torch-executed-op", "Relu", "--save-config", &other]);
    assert_eq!(std::fs::read(config).unwrap(), std::fs::read(other).unwrap());
    let (out, _) = expect(0, &["partition", &model, "--preview"]);
    assert!(out.contains("--backend") && out.contains("Conv"), "{out}");
    let torch = root().join("tests/models/tiny_dynamic.pt2").display().to_string();
    let (_, err) = expect(2, &["partition", &torch, "--backend", "onnxruntime-cpu"]);
    assert!(err.contains("`onnxruntime-cpu` takes ONNX operators, and this model has torch ones"), "{err}");
    let (_, err) = expect(2, &["partition", &model, "--backend", "executorch-xnnpack"]);
    assert!(err.contains("takes torch operators, and this model has ONNX ones"), "{err}");
    let (_, err) = expect(2, &["partition", &torch, "--dim", "s77=65"]);
    assert!(err.contains("`s77` cannot be 65: the model was exported for 1 to 64"), "{err}");
    let (out, _) = expect(0, &["inspect", &torch]);
    assert!(out.contains("s77 (traced as 3, 1 to 64)"), "{out}");
    let (_, err) = expect(2, &["partition", &model, "--backend", "tensorrtt"]);
    assert!(err.contains("tensorrtt"), "{err}");
}

#[test]
fn a_wrap_is_one_opaque_node_and_must_be_convex() {
    let model = sample("tiny_cnn.onnx");
    let nodes = json(&["inspect", &model, "--json"])["nodes"].clone();
    let relu = nodes.as_array().unwrap().iter().find(|n| n["op"] == "Relu").unwrap()["id"].as_str().unwrap().to_owned();
    let wrap = format!("my_relu=node:\"{relu}\"");
    let r = json(&["partition", &model, "--wrap", &wrap, "--json"]);
    assert_eq!((&r["totals"]["opaque"], &r["totals"]["opaque_nodes"]), (&1.into(), &1.into()), "{r}");
    assert_eq!(r["config"]["wraps"], serde_json::json!(["InlinedCustomOp_0"]));
    let (_, arrays) = io("tiny_cnn");
    expect(0, &["run", &model, "--wrap", &wrap, "--inputs", &arrays, "--expect", &arrays, "--repeat", "1"]);
    let (_, err) = expect(2, &["partition", &model, "--wrap", "all=op:Relu"]);
    assert!(err.contains("not convex") && err.contains("close it"), "{err}");
}

#[test]
fn full_compilation_that_is_not_reached_is_exit_1() {
    let (model, _) = io("tiny_cnn");
    let (_, err) = expect(1, &["run", &model, "--repeat", "1", "--require-full-compilation", "--torch-executed-op", "Relu"]);
    assert!(err.contains("require_full_compilation"), "{err}");
    expect(0, &["run", &model, "--repeat", "1", "--require-full-compilation"]);
}

#[test]
fn a_snapshot_is_one_frame_of_the_app() {
    let model = sample("tiny_cnn.onnx");
    let (out, _) = expect(0, &["snapshot", &model, "--size", "100x30"]);
    assert_eq!(out.lines().count(), 30);
    assert!(out.contains("Conv"), "{out}");
    let (_, err) = expect(2, &["snapshot", &model, "--keys", "NoSuchKey"]);
    assert!(err.contains("NoSuchKey"), "{err}");
}

// ---- generated

#[test]
fn schemas_completions_and_manual_pages_are_generated() {
    let config = json(&["schema", "config"]);
    assert!(config["properties"]["torch_executed_ops"].is_object());
    let report = json(&["schema", "report"]);
    for name in ["recut.run/1", "recut.inspect/1", "recut.partition/1"] {
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
    // The report is whole; the exit code says that what was asked for is not there.
    assert_eq!(o.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&o.stderr).contains("--python /nonexistent/python: cannot start"), "{o:?}");
    let r: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(r["schema"], "recut.doctor/1");
    let engine = |name: &str| r["engines"].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap().clone();
    assert_eq!((&engine("cpu")["found"], &engine("cpu")["used"]), (&true.into(), &true.into()));
    assert_eq!((&engine("torch")["found"], &engine("torch")["used"]), (&false.into(), &false.into()));
    assert_eq!(engine("torch")["note"], "not looked for: no Python");
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

// ---- groups

/// `qdq_block.npz` is what ONNX Runtime gives for the file with all its optimizations.
#[test]
fn quantized_operators_run_as_groups_on_integers() {
    let model = root().join("tests/models/qdq_block.onnx").display().to_string();
    let arrays = root().join("tests/models/qdq_block.npz").display().to_string();
    let base = ["--run", &model, "--inputs", &arrays, "--expect", &arrays, "--repeat", "1", "--json", "-"];
    let report = json(&base);
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 17, "one row a node");
    let group = |id: &str| nodes.iter().find(|n| n["id"] == id).unwrap_or_else(|| panic!("no row for {id}"))["fused_into"].clone();
    for (member, anchor) in [("dq_x", "conv"), ("dq_w", "conv"), ("dq_b", "conv"), ("relu", "conv"), ("q_c", "conv")] {
        assert_eq!(group(member), anchor, "{member}");
    }
    for (member, anchor) in [("q_s", "hs"), ("dq_s", "mul"), ("q_m", "mul"), ("dq_m", "add"), ("q_a", "add")] {
        assert_eq!(group(member), anchor, "{member}");
    }
    for alone in ["conv", "hs", "mul", "add", "q_x", "dq_a"] {
        assert!(group(alone).is_null(), "{alone}");
    }
    assert_eq!(group("dq_c"), "hs", "read by three groups, told with the first");
    assert!(report["expect"][0]["ok"].as_bool().unwrap());

    let apart = json(&[&base[..], &["--no-fuse"]].concat());
    assert!(apart["nodes"].as_array().unwrap().iter().all(|n| n["fused_into"].is_null() && n["median_ns"].is_u64()));

    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().display().to_string();
    let kept = json(&[&base[..], &["--dump", "node:relu", "-o", &to]].concat());
    let kept = kept["nodes"].as_array().unwrap().iter().find(|n| n["id"] == "conv").unwrap().clone();
    assert!(kept["median_ns"].is_u64());
    assert!(dir.path().join("0000_r.npy").is_file(), "the value inside of what would be a group is there");
}

#[test]
fn a_config_beside_the_model_is_hinted_at_and_never_taken_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("tiny_cnn.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    let config = dir.path().join("tiny_cnn.recut.json");
    std::fs::write(&config, "{\"version\": 1, \"torch_executed_ops\": [\"Relu\"]}").unwrap();
    let (model, config) = (model.display().to_string(), config.display().to_string());
    let torch = |out: &str| serde_json::from_str::<Value>(out).unwrap()["partitions"].as_array().map(Vec::len);
    let (out, err) = expect(0, &["partition", &model, "--json"]);
    assert_eq!(torch(&out), Some(1));
    assert!(err.contains("tiny_cnn.recut.json lies beside the model and is not used; --config"), "{err}");
    let (out, err) = expect(0, &["partition", &model, "--json", "--config", &config]);
    assert!(torch(&out) > Some(1), "{out}");
    assert!(!err.contains("lies beside"), "{err}");
    let (_, err) = expect(0, &["partition", &model, "-q"]);
    assert!(err.is_empty(), "{err}");
}

// ---- export

#[test]
fn an_exported_model_runs_like_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.onnx").display().to_string();
    let (out, err) = expect(0, &["export", &sample("tiny_cnn.onnx"), "--to", "onnx", "-o", &file]);
    assert!(out.is_empty() && err.contains("wrote the model to"), "{err}");
    let arrays = sample("tiny_cnn.npz");
    expect(0, &["run", &file, "--repeat", "1", "--inputs", &arrays, "--expect", &arrays]);
    let modules = |model: &str| expect(0, &["inspect", model, "--modules"]).0;
    assert_eq!(modules(&file), modules(&sample("tiny_cnn.onnx")));
    // The same as a stream.
    let streamed = run(&["export", &sample("tiny_cnn.onnx"), "--to", "onnx", "-o", "-"]);
    assert_eq!(streamed.status.code(), Some(0));
    assert_eq!(streamed.stdout, std::fs::read(&file).unwrap());
    // With the large tensors beside it; then that file is one of the model.
    let (_, err) = expect(0, &["export", &file, "--to", "onnx", "-o", &dir.path().join("b.onnx").display().to_string(), "--external-data"]);
    assert!(err.contains("b.onnx.data"), "{err}");
    let b = dir.path().join("b.onnx");
    expect(0, &["run", b.to_str().unwrap(), "--repeat", "1", "--inputs", &arrays, "--expect", &arrays]);
    let data = std::fs::read(dir.path().join("b.onnx.data")).unwrap();
    for target in ["b.onnx", "b.onnx.data"] {
        let target = dir.path().join(target).display().to_string();
        let (_, err) = expect(2, &["export", b.to_str().unwrap(), "--to", "onnx", "-o", &target]);
        assert!(err.contains("would overwrite the model"), "{err}");
    }
    assert_eq!(std::fs::read(dir.path().join("b.onnx.data")).unwrap(), data);
}

#[test]
fn what_cannot_be_exported_is_listed_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.onnx").display().to_string();
    let model = root().join("tests/cases/pt2_unknown_namespace.pt2").display().to_string();
    let (out, err) = expect(4, &["export", &model, "--to", "onnx", "-o", &file]);
    let last = err.lines().last().unwrap();
    assert!(out.is_empty() && last.starts_with("error: the export failed: the model cannot be written as ONNX: "), "{err}");
    assert!(last.contains("it has mystery.frob.default, an opaque op without a body (node `frob"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    expect(2, &["export", &sample("tiny_cnn.onnx"), "--to", "coreml", "-o", &file]);
    expect(2, &["export", &sample("tiny_cnn.onnx"), "--to", "onnx"]);
    expect(2, &["export", &sample("tiny_cnn.onnx"), "--to", "onnx", "-o", "-", "--external-data"]);
    let (_, err) = expect(5, &["export", &sample("tiny_cnn.onnx"), "--to", "onnx", "-o", "/nonexistent/out.onnx"]);
    assert!(err.contains("its directory does not exist"), "{err}");
}
