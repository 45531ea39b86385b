//! Time from a mark to a new plan, as a table.
//!
//! `cargo bench -p recut-core --features testing --bench plan`; `RECUT_BENCH_MODEL=FILE` adds a row for a model file.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recut_core::config::PartitionerConfig;
use recut_core::model::Model;
use recut_core::partition::{Marks, PlanOptions, plan};
use recut_core::select::NodeSet;
use recut_core::testing::ModelBuilder;
use recut_core::view::View;

/// Deterministic noise (xorshift).
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n.max(1) as u64).unwrap_or(0)
    }
}

/// A graph like an exported network: mostly chains, some skips, one node in `every` of the marked type.
fn synthetic(nodes: usize, every: usize) -> Model {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut b = ModelBuilder::new();
    for i in 0..nodes {
        let recent = format!("v{}", i.saturating_sub(1 + noise.below(3)));
        let far = format!("v{}", noise.below(i.max(1)));
        let near = format!("v{}", i.saturating_sub(1 + noise.below(40)));
        let mut inputs = vec![if i == 0 { "x" } else { recent.as_str() }, "w.0"];
        if i > 0 && noise.below(2) == 0 {
            inputs.push(if noise.below(20) == 0 { &far } else { &near });
        }
        let op = if noise.below(every) == 0 { "Relu" } else { "Conv" };
        b = b.node(&format!("n{i}"), op, &inputs, &[&format!("v{i}")]);
    }
    b.build()
}

/// Median and least.
fn middle(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [times[times.len() / 2], times[0]].map(|t| t.as_secs_f64() * 1e3)
}

fn row(table: &mut String, name: &str, model: Model) {
    let model = Arc::new(model);
    let relu = |n: &recut_core::graph::NodeId| model.graph.node(*n).op.is_onnx("Relu");
    let mut set = NodeSet::empty(model.graph.nodes().len());
    model.graph.node_ids().filter(relu).for_each(|n| {
        set.insert(n);
    });
    let marked = set.count();
    let marks = Marks { torch_executed_ops: vec![Arc::new(set)], ..Marks::default() };
    let started = Instant::now();
    let view = Arc::new(View::new(model.clone(), &[]).expect("no wrap, no error"));
    let view_time = started.elapsed();
    let time = |min_block_size: u32| {
        let options = PlanOptions { partitioner: PartitionerConfig { min_block_size, ..Default::default() }, strict_support: false };
        let mut last = plan(&view, &marks, None, &options);
        let times = (0..201).map(|_| {
            let started = Instant::now();
            let p = plan(&view, &marks, None, &options);
            let took = started.elapsed();
            last = p;
            took
        });
        let times = times.collect();
        (middle(times), last)
    };
    let (free, p) = time(1);
    let (sized, _) = time(5);
    let counts = p.counts();
    writeln!(
        table,
        "{name:<24} {:>8} {marked:>8} {:>6} {:>6} {:>9.2} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
        model.graph.nodes().len(),
        counts.accelerated,
        counts.torch,
        view_time.as_secs_f64() * 1e3,
        free[0],
        free[1],
        sized[0],
        sized[1],
    )
    .expect("writing to a string");
}

fn main() {
    let mut table = format!(
        "{:<24} {:>8} {:>8} {:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "graph", "nodes", "marked", "acc", "torch", "view ms", "plan ms", "least", "min5 ms", "least"
    );
    for nodes in [1_000, 10_000, 100_000] {
        row(&mut table, &format!("synthetic {nodes}"), synthetic(nodes, 10));
    }
    row(&mut table, "synthetic few marks", synthetic(100_000, 2_000));
    if let Some(path) = std::env::var_os("RECUT_BENCH_MODEL") {
        match recut_core::import::open(std::path::Path::new(&path)) {
            Ok(imported) => row(&mut table, &std::path::Path::new(&path).file_name().unwrap_or(&path).to_string_lossy(), imported.model),
            Err(e) => writeln!(table, "{e}").expect("writing to a string"),
        }
    }
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(table.as_bytes()).and_then(|()| out.flush()).expect("standard output is open");
}
