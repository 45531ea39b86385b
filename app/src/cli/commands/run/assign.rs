//! Which engine each partition runs on: the config's engines, and `--engine-for` where it names a whole partition.

use recut_core::config::RunConfig;
use recut_core::diagnostic::printable;
use recut_core::document::Document;
use recut_core::partition::Placement;
use recut_core::select::{Bare, NodeSet, SelectContext, Selector};
use recut_exec::engines::{Assignment, Engines};
use recut_exec::runner::PartitionSpec;

use crate::cli::error::{CliError, Result};
use crate::cli::output::Output;

/// One entry of `run.overrides`.
struct Override<'a> {
    text: &'a str,
    nodes: NodeSet,
    run: RunConfig,
    used: bool,
}

/// An assignment for every partition, in order.
///
/// # Errors
/// If an engine or precision is not there, or an override is no good.
pub(super) fn assign(document: &Document, specs: &[PartitionSpec], engines: &Engines, out: &Output) -> Result<Vec<Assignment>> {
    let run = &document.config().run;
    let mut overrides = run.overrides.iter().map(|text| parse(document, text)).collect::<Result<Vec<_>>>()?;
    let mut assignments = Vec::with_capacity(specs.len());
    for spec in specs {
        // The last one that covers the partition decides, as the last of equal options does.
        let chosen = overrides.iter_mut().rev().find(|o| spec.nodes.iter().all(|&n| o.nodes.contains(n)));
        let run = match chosen {
            Some(o) => {
                o.used = true;
                &o.run
            }
            None => run,
        };
        assignments.push(engines.assign(spec.kind, run)?);
    }
    for o in overrides.iter().filter(|o| !o.used) {
        out.warning(&format!(
            "--engine-for `{}` covers no whole partition and changes nothing; select all nodes of one, e.g. partition:run_on_acc_0",
            printable(o.text)
        ));
    }
    Ok(assignments)
}

fn parse<'a>(document: &Document, text: &'a str) -> Result<Override<'a>> {
    let bad = || CliError::usage(format!("run.overrides `{}`: expected SEL=ENGINE[:PRECISION]", printable(text)));
    let (select, target) = text.rsplit_once('=').ok_or_else(bad)?;
    let (engine, precision) = target.split_once(':').map_or((target, None), |(e, p)| (e, Some(p)));
    if engine.is_empty() {
        return Err(bad());
    }
    let context = SelectContext { plan: Some(document.plan()) };
    let nodes = Selector::parse(select, Bare::ByForm)?.eval(document.index(), &context)?.nodes;
    let mut run = document.config().run.clone();
    run.engine = engine.to_owned();
    run.torch_engine = engine.to_owned();
    run.precision = precision.map_or(run.precision, str::to_owned);
    Ok(Override { text, nodes, run, used: false })
}

/// The embedded engine, which runs what nothing else is said about.
pub(super) fn fallback(engines: &Engines) -> Assignment {
    let run = RunConfig::default();
    // The default engine is built in, with the default precision.
    engines.assign(Placement::Accelerated, &run).unwrap_or_else(|e| unreachable!("{e}"))
}
