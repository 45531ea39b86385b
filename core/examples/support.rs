//! What a backend says of the nodes of models: a line for every operator and verdict. `support BACKEND MODEL…`

use std::collections::BTreeMap;
use std::io::Write;

use recut_core::expr::Bindings;
use recut_core::support::{Backend, Support, dialect_of, support_map};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else { return writeln!(out, "support BACKEND MODEL…") };
    for path in args {
        let model = match recut_core::import::open(path.as_ref()) {
            Ok(imported) => imported.model,
            Err(e) => {
                writeln!(out, "{e}")?;
                continue;
            }
        };
        let Some(backend) = Backend::builtin(&name, dialect_of(&model)) else {
            writeln!(out, "{path}: {name} has no table for it")?;
            continue;
        };
        let start = std::time::Instant::now();
        let verdicts = support_map(&model, &backend, &Bindings::new());
        let took = start.elapsed();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut sums = [0; 3];
        for (node, verdict) in model.graph.nodes().iter().zip(verdicts.iter()) {
            let (kind, text) = match verdict {
                Support::Supported => (0, String::new()),
                Support::Conditional(text) => (1, format!("if: {text}")),
                Support::Unsupported(why) => (2, format!("NO: {why}")),
            };
            sums[kind] += 1;
            if kind > 0 {
                *counts.entry(format!("{}  {text}", node.op)).or_default() += 1;
            }
        }
        writeln!(out, "{path}: {} taken, {} under a condition, {} not, {:.1} ms", sums[0], sums[1], sums[2], took.as_secs_f64() * 1e3)?;
        for (line, n) in counts {
            writeln!(out, "  {n:5} {line}")?;
        }
    }
    Ok(())
}
