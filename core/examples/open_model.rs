//! Opens models and says what was found: nodes, time, diagnostics, and with `--modules` the module tree, with `--costs`
//! the operations by operator.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use recut_core::expr::{Bindings, Expr};
use recut_core::infer::cost::node_cost;
use recut_core::model::Model;
use recut_core::modules::{ModuleId, ModuleTree};
use recut_core::report::inspect::totals;

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
                if has("--costs") {
                    costs(&mut out, m)?;
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

fn costs(out: &mut impl Write, m: &Model) -> std::io::Result<()> {
    let dims = Bindings::new();
    let t = totals(m, &dims);
    let shown = |e: Option<Expr>| e.map_or_else(|| "not known".to_owned(), |e| e.to_string());
    writeln!(out, "  {} parameters, {:?} operations, {} nodes without", t.params, t.flops, t.nodes_without_flops)?;
    let mut by_op: BTreeMap<String, Option<Expr>> = BTreeMap::new();
    for n in m.graph.node_ids() {
        let flops = node_cost(m, n).flops;
        let sum = by_op.entry(m.graph.node(n).op.to_string()).or_insert_with(|| Some(Expr::constant(0)));
        *sum = sum.take().zip(flops).map(|(a, b)| a + b);
    }
    by_op.into_iter().try_for_each(|(op, flops)| writeln!(out, "    {op}: {}", shown(flops)))
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
