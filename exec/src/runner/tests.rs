//! Sessions over models built in code.

use recut_core::config::RunConfig;
use recut_core::testing::{ModelBuilder, model};

use super::*;
use crate::chrome_trace::write_trace;
use crate::engines::Engines;
use crate::inputs::model_inputs;
use crate::report::{RunFacts, RunReport};
use crate::tensor::Tensor;
use recut_core::expr::Bindings;

/// Two branches that meet: x -> a -> {b, c} -> d.
fn diamond() -> Arc<Model> {
    Arc::new(model(&[
        ("a", "Neg", &["x"], &["va"]),
        ("b", "Abs", &["va"], &["vb"]),
        ("c", "Exp", &["va"], &["vc"]),
        ("d", "Add", &["vb", "vc"], &["y"]),
    ]))
}

fn spec(name: &str, kind: Placement, nodes: &[u32]) -> PartitionSpec {
    PartitionSpec { name: name.into(), kind, nodes: nodes.iter().map(|&n| NodeId(n)).collect() }
}

fn four() -> Vec<PartitionSpec> {
    let acc = Placement::Accelerated;
    vec![spec("p0", acc, &[0]), spec("p1", Placement::Torch, &[1]), spec("p2", acc, &[2]), spec("p3", acc, &[3])]
}

fn session(model: &Arc<Model>, specs: Vec<PartitionSpec>, run: &RunConfig) -> (Engines, Result<Session, RunError>) {
    let engines = Engines::new(ExecContext::new(Some(2)).unwrap());
    let assign = |s: &PartitionSpec| engines.assign(s.kind, run).unwrap();
    let made =
        Session::new(model.clone(), specs, engines.context.clone(), &PrepareOptions::default(), assign, &CancelToken::default(), &|_| {});
    (engines, made)
}

fn feeds(model: &Model) -> Feeds {
    let x = Tensor::from_slice(&[4], &[0f32, 1.0, -2.0, 3.0]).unwrap();
    model_inputs(model).map(|v| (v, x.clone().into())).collect()
}

fn floats(v: &Value) -> Vec<f32> {
    v.as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn every_split_schedule_and_engine_gives_the_same() {
    let m = diamond();
    let want = [1.0f32, 1.0 + (-1f32).exp(), 2.0 + 2f32.exp(), 3.0 + (-3f32).exp()];
    for specs in [whole(&m), four(), vec![spec("p0", Placement::Accelerated, &[0, 1]), spec("p1", Placement::Accelerated, &[2, 3])]] {
        for engine in ["cpu", "tract"] {
            let run = RunConfig { engine: engine.to_owned(), ..RunConfig::default() };
            let session = session(&m, specs.clone(), &run).1.unwrap();
            for schedule in [Schedule::Sequential, Schedule::Parallel] {
                let request = RunRequest { repeat: 3, schedule, ..RunRequest::default() };
                let outcome = session.run(&feeds(&m), &request, &CancelToken::default(), &|_| {}).unwrap();
                let got = floats(&outcome.outputs[0].1);
                assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{engine} {schedule:?}: {got:?}");
                assert_eq!(outcome.profile.totals.end_to_end.count, 3);
            }
        }
    }
}

#[test]
fn the_report_tells_who_ran_what_and_adds_up() {
    let m = diamond();
    let (engines, session) = session(&m, four(), &RunConfig::default());
    let session = session.unwrap();
    let dump = HashSet::from([m.graph.find_value("vb").unwrap(), m.graph.find_value("x").unwrap()]);
    let request = RunRequest { warmup: 1, repeat: 2, dump, ..RunRequest::default() };
    let outcome = session.run(&feeds(&m), &request, &CancelToken::default(), &|_| {}).unwrap();
    assert_eq!(outcome.dumps["vb"].as_slice::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert!(outcome.dumps.contains_key("x"));
    let report = RunReport::new(RunFacts {
        session: &session,
        engines: &engines,
        outcome: &outcome,
        config: None,
        dims: &Bindings::new(),
        matched: &[],
        generated: &[],
        expect: &[],
        schedule: Schedule::Sequential,
        repeat: 2,
        warmup: 1,
        diagnostics: Vec::new(),
    });
    assert_eq!(report.partitions[1].note.as_deref(), Some(crate::engines::NO_TORCH));
    assert_eq!(report.nodes.iter().map(|n| (n.id.as_str(), n.calls)).collect::<Vec<_>>(), [("a", 2), ("b", 2), ("c", 2), ("d", 2)]);
    let crossing: Vec<_> = report.boundaries.iter().map(|b| (b.tensor.as_str(), b.from.as_str(), b.to.as_str(), b.bytes)).collect();
    assert_eq!(crossing, [("va", "p0", "p1", 16), ("va", "p0", "p2", 16), ("vb", "p1", "p3", 16), ("vc", "p2", "p3", 16)]);
    let percent: f64 = report.nodes.iter().filter_map(|n| n.percent).sum();
    assert!((percent - 100.0).abs() < 1e-6);
    assert!(report.totals.end_to_end.median_ns >= report.totals.sum_of_nodes_ns);
    assert!(report.totals.peak_bytes >= 32);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "recut.run/1");
    assert!(json["outputs"][0]["sha256"].as_str().is_some_and(|h| h.len() == 64));
    let back: RunReport = serde_json::from_value(json).unwrap();
    assert_eq!(back.nodes.len(), 4);

    let mut trace = Vec::new();
    let names: Vec<String> = session.partitions().iter().map(|p| p.spec.name.to_string()).collect();
    write_trace(&mut trace, &m, &outcome.profile.last, &names).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    let complete = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").count();
    assert_eq!(complete, 8, "four partitions and four nodes");
}

#[test]
fn missing_kernels_of_all_partitions_are_one_error() {
    let m = Arc::new(model(&[("a", "NoSuch", &["x"], &["y"]), ("b", "Neg", &["y"], &["z"]), ("c", "Nor::This", &["z"], &["u"])]));
    let acc = Placement::Accelerated;
    let e = session(&m, vec![spec("p0", acc, &[0]), spec("p1", acc, &[1]), spec("p2", acc, &[2])], &RunConfig::default()).1;
    let Err(RunError::MissingKernels { nodes, .. }) = e else { panic!("expected missing kernels") };
    assert_eq!(nodes.iter().map(|n| n.0.as_str()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn the_time_limit_and_cancelling_stop_a_run() {
    let mut b = ModelBuilder::new();
    let names: Vec<String> = (0..=3000).map(|i| format!("v{i}")).collect();
    for i in 0..3000 {
        b = b.node(&format!("n{i}"), "Neg", &[&names[i]], &[&names[i + 1]]);
    }
    let m = Arc::new(b.build());
    let session = session(&m, whole(&m), &RunConfig::default()).1.unwrap();
    let request = RunRequest { repeat: usize::MAX / 2, timeout: Some(Duration::from_millis(50)), ..RunRequest::default() };
    // The memory of that many runs must not be taken beforehand.
    let e = session.run(&feeds(&m), &request, &CancelToken::default(), &|_| {}).unwrap_err();
    assert!(matches!(&e, RunError::TimedOut { partition, .. } if partition == "model"), "{e}");
    let cancel = CancelToken::default();
    cancel.cancel();
    let e = session.run(&feeds(&m), &RunRequest::default(), &cancel, &|_| {}).unwrap_err();
    assert!(matches!(e, RunError::Cancelled));
}

#[test]
fn an_input_without_a_value_is_named() {
    let m = diamond();
    let session = session(&m, four(), &RunConfig::default()).1.unwrap();
    let e = session.run(&Feeds::new(), &RunRequest::default(), &CancelToken::default(), &|_| {}).unwrap_err().to_string();
    assert!(e.contains("`x`"), "{e}");
}

#[test]
fn engines_that_are_not_there_are_errors_unless_nobody_insists() {
    let engines = Engines::new(ExecContext::new(Some(1)).unwrap());
    let run = |engine: &str, torch: &str, precision: &str| RunConfig {
        engine: engine.to_owned(),
        torch_engine: torch.to_owned(),
        precision: precision.to_owned(),
        ..RunConfig::default()
    };
    assert!(engines.assign(Placement::Accelerated, &run("openvino", "auto", "fp32")).is_err());
    assert!(engines.assign(Placement::Accelerated, &run("cpu", "auto", "int8")).is_err());
    assert!(engines.assign(Placement::Torch, &run("cpu", "torch", "fp32")).is_err());
    assert!(engines.assign(Placement::Torch, &run("cpu", "cpu", "fp32")).unwrap().note.is_none());
}
