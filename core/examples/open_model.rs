//! Opens models and says what was found: nodes, time, diagnostics, and with `--modules` the module tree.

use std::io::Write;
use std::time::Instant;

use recut_core::modules::{ModuleId, ModuleTree};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let (flags, paths): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let has = |f: &str| flags.iter().any(|x| x == f);
    for path in &paths {
        let start = Instant::now();
        match recut_core::import::open(path.as_ref()) {
            Err(e) => writeln!(out, "{e}")?,
            Ok(imported) => {
                let took = start.elapsed();
                let m = &imported.model;
                writeln!(
                    out,
                    "{path}: {} nodes ({} stored), {} values, {} modules, opened in {:.1} ms, structure {}",
                    m.graph.nodes().len(),
                    m.stored_nodes,
                    m.graph.values().len(),
                    m.modules.modules().len(),
                    took.as_secs_f64() * 1e3,
                    &m.graph_sha256()[..12]
                )?;
                for d in imported.diagnostics.iter().take(10) {
                    writeln!(out, "  {:?} {}: {}", d.severity, d.code, d.message)?;
                }
                if has("--modules") {
                    tree(&mut out, &m.modules, ModuleId::ROOT)?;
                }
                if has("--nodes") {
                    for n in m.graph.node_ids() {
                        let node = m.graph.node(n);
                        let outputs: Vec<String> = node.outputs.iter().flatten().map(|v| m.graph.value(*v).shape.to_string()).collect();
                        let module = &m.modules.module(node.module).path;
                        writeln!(out, "  {} {} {module} {outputs:?} {:?} {:?}", m.graph.stable_id(n), node.op, node.torch_op, node.call)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn tree(out: &mut impl Write, tree: &ModuleTree, root: ModuleId) -> std::io::Result<()> {
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        let m = tree.module(id);
        let indent = "  ".repeat(m.depth as usize + 1);
        writeln!(out, "{indent}{} : {} [{} own, {} in all]", m.name(), m.class.as_deref().unwrap_or("-"), m.nodes.len(), m.total_nodes)?;
        stack.extend(m.children.iter().rev());
    }
    Ok(())
}
