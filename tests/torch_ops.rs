//! Torch operators as they are lowered and run, against what torch itself gives: the programs of `tests/models/ops`
//! (see `make.py` there) and the small models beside them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recut_core::expr::Bindings;
use recut_core::import;
use recut_core::model::Model;
use recut_core::partition::Placement;
use recut_exec::compare::{compare, default_tolerance};
use recut_exec::engine::{CancelToken, ExecContext, PrepareOptions};
use recut_exec::engines::Engines;
use recut_exec::inputs::{Feeds, bind_dims, match_inputs, match_outputs};
use recut_exec::io::{Arrays, load_arrays};
use recut_exec::runner::{PartitionSpec, RunRequest, Session, whole};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models")
}

/// Programs of a directory that have arrays beside them.
fn programs(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the directory is there")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "pt2") && p.with_extension("npz").exists())
        .collect();
    found.sort();
    found
}

/// Every third node the border of a partition, so that values cross in many places.
fn pieces(model: &Model) -> Vec<PartitionSpec> {
    let nodes: Vec<_> = model.graph.node_ids().collect();
    nodes
        .chunks(3)
        .enumerate()
        .map(|(i, nodes)| PartitionSpec {
            name: format!("piece_{i}").into(),
            kind: if i % 2 == 0 { Placement::Accelerated } else { Placement::Torch },
            nodes: nodes.to_vec(),
        })
        .collect()
}

/// What differs from what is expected; the outputs that were compared are counted.
fn differences(model: &Arc<Model>, arrays: &Arrays, specs: Vec<PartitionSpec>, node_by_node: bool) -> Result<(usize, Vec<String>), String> {
    let (feeds, _): (Feeds, _) = match_inputs(model, arrays).map_err(|e| e.to_string())?;
    let mut dims = Bindings::new();
    bind_dims(model, &feeds, &mut dims).map_err(|e| e.to_string())?;
    let engines = Engines::new(ExecContext::new(None).map_err(|e| e.to_string())?);
    let run = recut_core::config::PartitionConfig::default().run;
    let cancel = CancelToken::default();
    let options = PrepareOptions { dims, node_by_node, ..PrepareOptions::default() };
    let assign = |spec: &PartitionSpec| engines.assign(spec.kind, &run).expect("the embedded engine is there");
    let session =
        Session::new(model.clone(), specs, engines.context.clone(), &options, assign, &cancel, &|_| {}).map_err(|e| e.to_string())?;
    let outcome = session.run(&feeds, &RunRequest::default(), &cancel, &|_| {}).map_err(|e| e.to_string())?;
    // Every node of the user's model has a time, and no other.
    let mut told: Vec<_> = outcome.profile.nodes.iter().filter(|n| n.node.inner == u32::MAX).map(|n| n.node.node).collect();
    told.sort_unstable();
    if told != model.graph.node_ids().collect::<Vec<_>>() {
        return Err(format!("times of {} nodes for {}", told.len(), model.graph.nodes().len()));
    }
    let expected = match_outputs(model, arrays).map_err(|e| e.to_string())?;
    let mut faults = Vec::new();
    let count = expected.len();
    for (i, want, note) in expected {
        let (rtol, atol) = default_tolerance(want.dtype());
        let got = &outcome.outputs[i].1;
        let c = compare(got, &want, rtol, atol);
        if !c.ok || c.max_abs.is_none_or(f64::is_nan) {
            faults.push(format!("output {i} ({}): {}", note.value, c.message));
        }
    }
    Ok((count, faults))
}

fn check(dir: &Path, at_least: usize) {
    let mut compared = 0;
    let mut faults = Vec::new();
    for path in programs(dir) {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        let model = Arc::new(import::open(&path).unwrap_or_else(|e| panic!("{name}: {e}")).model);
        let arrays = load_arrays(&path.with_extension("npz")).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (how, specs, node_by_node) in [("whole", whole(&model), false), ("in pieces", pieces(&model), true)] {
            match differences(&model, &arrays, specs, node_by_node) {
                Ok((count, wrong)) => {
                    compared += count;
                    faults.extend(wrong.into_iter().map(|w| format!("{name}, {how}: {w}")));
                }
                Err(e) => faults.push(format!("{name}, {how}: {e}")),
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(compared >= 2 * at_least, "only {compared} outputs were compared");
}

#[test]
fn every_operator_gives_what_torch_gives() {
    check(&models().join("ops"), 450);
}

#[test]
fn small_models_give_what_torch_gives() {
    check(&models(), 12);
}
