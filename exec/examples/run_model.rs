//! Runs a model on arrays and prints how far its outputs are from the expected ones: `run_model MODEL NPZ [REPEAT]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use recut_core::config::RunConfig;
use recut_core::expr::Bindings;
use recut_exec::compare::{compare, default_tolerance};
use recut_exec::engine::{CancelToken, ExecContext, NodeRef, PrepareOptions};
use recut_exec::engines::Engines;
use recut_exec::generate::complete;
use recut_exec::inputs::{bind_dims, match_inputs, match_outputs};
use recut_exec::io::load_arrays;
use recut_exec::names::NodeNames;
use recut_exec::runner::{RunRequest, Session, whole};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(4)
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, npz, ..] = args.as_slice() else { return Err("run_model MODEL NPZ [REPEAT [ENGINE]]".into()) };
    let repeat = args.get(2).map_or(Ok(1), |r| r.parse())?;
    let run_config = RunConfig { engine: args.get(3).cloned().unwrap_or_else(|| "cpu".to_owned()), ..RunConfig::default() };
    let start = std::time::Instant::now();
    let model = Arc::new(recut_core::import::open(Path::new(file))?.model);
    let opened = start.elapsed();
    let mut arrays = load_arrays(Path::new(npz))?;
    // Test suites keep what is expected beside the inputs.
    let beside = Path::new(npz).with_file_name("outputs.npz");
    let mut expected = if beside.exists() { load_arrays(&beside)? } else { arrays.clone() };
    if beside.exists() {
        expected.retain(|k, _| !arrays.contains_key(k));
        arrays.retain(|k, _| !expected.contains_key(k));
    }
    let (mut feeds, _) = match_inputs(&model, &arrays)?;
    let mut dims = Bindings::new();
    bind_dims(&model, &feeds, &mut dims)?;
    for g in complete(&model, &mut feeds, &mut dims, &[], 0)? {
        println!("generated {}: {}", g.input, g.how);
    }
    let engines = Engines::new(ExecContext::new(None)?);
    let cancel = CancelToken::default();
    let start = std::time::Instant::now();
    let assignment = engines.assign(recut_core::partition::Placement::Accelerated, &run_config)?;
    let specs = whole(&model);
    let options = PrepareOptions { dims: dims.clone(), ..PrepareOptions::default() };
    let session = Session::new(model.clone(), specs, engines.context, &options, |_| assignment.clone(), &cancel, &|_| {})?;
    let prepared = start.elapsed();
    let request = RunRequest { warmup: usize::from(repeat > 1), repeat, ..RunRequest::default() };
    let outcome = session.run(&feeds, &request, &cancel, &|_| {})?;
    let totals = &outcome.profile.totals;
    println!(
        "{} nodes, opened in {opened:.1?}, prepared in {prepared:.1?}, ran in {:.3} ms (nodes {:.3}, gap {:.3}), peak {} KiB",
        model.graph.nodes().len(),
        totals.end_to_end.median_ns as f64 / 1e6,
        totals.sum_of_nodes_ns as f64 / 1e6,
        totals.gap_ns as f64 / 1e6,
        totals.peak_bytes / 1024
    );
    let mut names = NodeNames::new(&model);
    let mut by_op: std::collections::BTreeMap<String, (u64, u64)> = std::collections::BTreeMap::new();
    for n in outcome.profile.nodes.iter().filter(|n| n.node.inner == u32::MAX) {
        let entry = by_op.entry(names.op(NodeRef { ..n.node })).or_default();
        *entry = (entry.0 + 1, entry.1 + n.stats.median_ns);
    }
    let mut by_op: Vec<_> = by_op.into_iter().collect();
    by_op.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    for (op, (count, ns)) in by_op.iter().take(8) {
        println!("  {op} x{count}: {:.3} ms", *ns as f64 / 1e6);
    }
    let mut ok = true;
    for (i, want, note) in match_outputs(&model, &expected)? {
        let (rtol, atol) = default_tolerance(want.dtype());
        let c = compare(&outcome.outputs[i].1, &want, rtol, atol);
        ok &= c.ok;
        println!("{} {}: max abs {:?} rel {:?} {}", if c.ok { "ok" } else { "DIFFERS" }, note.value, c.max_abs, c.max_rel, c.message);
    }
    Ok(ok)
}
