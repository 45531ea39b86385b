//! Runs a folder of conformance cases (`CASE/model.onnx`, `inputs.npz`, `outputs.npz`, `meta.json`) and prints what does
//! not agree: `conformance DIR [FILTER]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use recut_core::config::RunConfig;
use recut_core::expr::Bindings;
use recut_exec::compare::compare;
use recut_exec::engine::{CancelToken, ExecContext, PrepareOptions, RunError};
use recut_exec::engines::Engines;
use recut_exec::generate::complete;
use recut_exec::inputs::{bind_dims, match_inputs, match_outputs};
use recut_exec::io::load_arrays;
use recut_exec::runner::{RunRequest, Session, whole};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(dir) = args.first() else {
        eprintln!("conformance DIR [FILTER]");
        return ExitCode::from(2);
    };
    let filter = args.get(1).map_or("", String::as_str);
    let Ok(context) = ExecContext::new(None) else { return ExitCode::from(4) };
    let engines = Engines::new(context);
    let mut cases: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    cases.retain(|c| c.join("model.onnx").exists() && c.file_name().is_some_and(|n| n.to_string_lossy().contains(filter)));
    cases.sort();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases {
        let (verdict, text) = match run(&engines, case) {
            Ok(()) => ("pass", String::new()),
            Err(e) if matches!(e.downcast_ref::<RunError>(), Some(RunError::MissingKernels { .. })) => ("missing", e.to_string()),
            Err(e) => ("fail", e.to_string()),
        };
        *counts.entry(verdict).or_default() += 1;
        if verdict != "pass" {
            let name = case.file_name().unwrap_or_default().to_string_lossy();
            println!("{verdict} {name}: {}", text.chars().take(220).collect::<String>());
        }
    }
    println!("{counts:?} of {}", cases.len());
    ExitCode::SUCCESS
}

fn run(engines: &Engines, case: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(case.join("meta.json"))?)?;
    let number = |key: &str| meta[key].as_f64().unwrap_or(0.0);
    let model = Arc::new(recut_core::import::open(&case.join("model.onnx"))?.model);
    let arrays = load_arrays(&case.join("inputs.npz"))?;
    let (mut feeds, _) = match_inputs(&model, &arrays)?;
    let mut dims = Bindings::new();
    bind_dims(&model, &feeds, &mut dims)?;
    complete(&model, &mut feeds, &mut dims, &[], 0)?;
    let assignment = engines.assign(recut_core::partition::Placement::Accelerated, &RunConfig::default())?;
    let cancel = CancelToken::default();
    let options = PrepareOptions { dims: dims.clone(), ..PrepareOptions::default() };
    let session = Session::new(model.clone(), whole(&model), engines.context.clone(), &options, |_| assignment.clone(), &cancel, &|_| {})?;
    let outcome = session.run(&feeds, &RunRequest::default(), &cancel, &|_| {})?;
    for (i, want, note) in match_outputs(&model, &load_arrays(&case.join("outputs.npz"))?)? {
        let got = &outcome.outputs[i].1;
        if meta["random"].as_bool() == Some(true) {
            let agrees = got.as_tensor().is_some_and(|t| t.dtype() == want.dtype() && t.dims() == want.dims());
            if agrees { continue } else { return Err(format!("{}: type or shape differs", note.value).into()) }
        }
        let narrow = want.dtype() == recut_core::dtype::DType::Bf16;
        let rtol = if narrow { number("bfloat16_rtol") } else { number("rtol") };
        let c = compare(got, &want, rtol, number("atol"));
        if !c.ok {
            return Err(format!("output {}: {}", note.value, c.message).into());
        }
    }
    Ok(())
}
