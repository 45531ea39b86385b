//! Every case file that states a smallest number of accelerated partitions gets it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recut_core::import;
use recut_core::partition::{Marks, PlanOptions, plan};
use recut_core::select::NodeSet;
use recut_core::view::View;

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    file: PathBuf,
    #[serde(default)]
    partition: Option<Expected>,
}

#[derive(serde::Deserialize)]
struct Expected {
    torch_ops: Vec<String>,
    k: usize,
    accel_nodes: usize,
    torch_nodes: usize,
}

#[test]
fn stated_partition_counts_are_met() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases");
    let text = std::fs::read_to_string(root.join("cases.json")).expect("the cases lie in the repository");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("cases.json is a list of cases");
    let mut checked = 0;
    let mut wrong = Vec::new();
    for case in cases {
        let Some(expected) = case.partition else { continue };
        let model = match import::open(&root.join(&case.file)) {
            Ok(imported) => Arc::new(imported.model),
            Err(e) => {
                wrong.push(format!("{}: {e}", case.id));
                continue;
            }
        };
        let mut set = NodeSet::empty(model.graph.nodes().len());
        for n in model.graph.node_ids() {
            if expected.torch_ops.iter().any(|op| **op == *model.graph.node(n).op.name) {
                set.insert(n);
            }
        }
        let marks = Marks { torch_executed_ops: vec![Arc::new(set)], ..Marks::default() };
        let view = Arc::new(View::new(model, &[]).expect("no wrap, no error"));
        let p = plan(&view, &marks, None, &PlanOptions::default());
        let c = p.counts();
        let got = (p.lower_bound as usize, c.accelerated, c.accelerated_nodes, c.torch_nodes);
        let want = (expected.k, expected.k, expected.accel_nodes, expected.torch_nodes);
        if got != want {
            wrong.push(format!("{}: k, partitions, accelerated, torch are {got:?} and should be {want:?}", case.id));
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 30, "only {checked} cases were found");
}
