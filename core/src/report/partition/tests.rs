use std::sync::Arc;

use super::*;
use crate::config::PartitionConfig;
use crate::expr::{Bindings, Expr};
use crate::partition::{Marks, PlanOptions, plan};
use crate::select::NodeSet;
use crate::shape::{Dim, Shape};
use crate::support::{Backend, support_map};
use crate::testing::ModelBuilder;
use crate::view::View;

fn report(dims: &Bindings) -> PartitionReport {
    let shape = || Shape::new([Dim::Sym(Arc::new(Expr::var("n")))]);
    let m = ModelBuilder::new()
        .node("conv\u{1b}[2J", "Relu", &["x"], &["va"])
        .with(|n| n.stack_trace = Some("File \"a.py\", line 1, in f\n    x()\nFile \"model.py\", line 7, in forward".into()))
        .module("layer1.0", "")
        .typed("x", Some(DType::F32), shape())
        .typed("va", Some(DType::F32), shape())
        .node("det", "Det", &["va"], &["vd"])
        .module("layer1.1", "")
        .typed("vd", Some(DType::F32), shape())
        .node("add", "Add", &["vd", "va"], &["y"])
        .typed("y", Some(DType::F32), shape())
        .build();
    let m = Arc::new(m);
    let backend = Backend::builtin("tensorrt", crate::graph::Dialect::Onnx).unwrap();
    let support = support_map(&m, &backend, dims);
    let view = Arc::new(View::new(m, &[]).unwrap());
    let mut set = NodeSet::empty(3);
    set.insert(crate::graph::NodeId(2));
    let marks = Marks { torch_executed_ops: vec![Arc::new(set)], ..Marks::default() };
    let options = PlanOptions::default();
    let plan = plan(&view, &marks, Some(&support), &options);
    let config = PartitionConfig { torch_executed_ops: vec!["torch.add".to_owned()], ..PartitionConfig::default() };
    partition_report(&ReportInput {
        plan: &plan,
        marks: &marks,
        options: &options,
        config: &config,
        backend: Some(&backend),
        dims,
        diagnostics: &[],
    })
}

#[test]
fn numbers_and_reasons_agree_with_the_plan() {
    let r = report(&Bindings::from([("n".to_owned(), 8)]));
    let t = &r.totals;
    assert_eq!((t.nodes, t.supported, t.unsupported, t.excluded), (3, 2, 1, 1));
    assert_eq!((t.accelerated_partitions, t.torch_partitions, t.lower_bound, t.crossing_bytes), (1, 1, 1, Some(32)));
    assert_eq!(r.fallbacks.len(), 2);
    assert_eq!((r.fallbacks[0].step, r.fallbacks[0].reason.as_str()), (4, "Det: tensorrt states that it does not take it"));
    assert_eq!((r.fallbacks[1].step, r.fallbacks[1].reason.as_str()), (3, "torch, by torch_executed_ops `torch.add`"));
    assert_eq!(r.fallbacks[0].module, "layer1.1");
    let acc = &r.partitions[0];
    assert_eq!((acc.inputs[0].r#type.as_str(), acc.bytes_in, acc.bytes_out), ("[8]@f32", Some(32), Some(32)));
    assert_eq!(r.node_support_preview[0].op, "Det");
    assert_eq!(r.node_support_preview.iter().map(|n| n.count).sum::<usize>(), 3);
    let sizes: Vec<_> = r.min_block_sizes.iter().map(|s| (s.min_block_size, s.accelerated)).collect();
    assert_eq!(sizes, [(1, 1), (2, 0), (3, 0), (5, 0), (10, 0), (20, 0), (50, 0)]);
}

#[test]
fn open_shapes_stay_open() {
    let r = report(&Bindings::new());
    assert_eq!((r.totals.crossing_bytes, r.partitions[0].bytes_in), (None, None));
    assert_eq!(r.partitions[0].inputs[0].r#type, "[n]@f32");
}

#[test]
fn json_starts_with_the_schema_and_reads_back() {
    let r = report(&Bindings::from([("n".to_owned(), 8)]));
    let json = serde_json::to_string(&r).unwrap();
    assert!(json.starts_with(r#"{"schema":"recut.partition/1","#), "{json}");
    assert_eq!(serde_json::from_str::<PartitionReport>(&json).unwrap(), r);
}

#[test]
fn text_fits_its_width_and_holds_no_escape() {
    let r = report(&Bindings::from([("n".to_owned(), 8)]));
    for width in [60, 100] {
        let text = render_text(&r, width);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert!(text.contains("IN TORCH, AND WHY (2 nodes)") && text.contains("run_on_acc_0"), "{text}");
    }
    assert!(render_text(&r, 100).contains("Det: tensorrt states that it does not take it"));
}
