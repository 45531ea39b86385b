//! Layout properties: every edge is drawn from its producer to its last reader, lanes never overlap, and folding and
//! replaying agree with a full walk.

use std::sync::Arc;

use recut_core::config::PartitionConfig;
use recut_core::document::{Document, DocumentOptions, Edit, MarkList};
use recut_core::graph::ValueId;
use recut_core::import::Imported;
use recut_core::modules::ModuleId;
use recut_core::partition::PartitionId;
use recut_core::testing::ModelBuilder;

use super::{Folds, Lanes, NONE, Port, RowKind, Wiring};

/// A generator that is the same everywhere (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }
}

/// A random DAG in three levels of modules, with constants and, sometimes, a hub.
fn document(seed: u64, nodes: usize) -> Document {
    let mut r = Random(seed | 1);
    let mut b = ModelBuilder::new();
    for i in 0..nodes {
        let mut inputs: Vec<String> = Vec::new();
        for _ in 0..=r.below(3) {
            inputs.push(match r.below(8) {
                0 => format!("x{}", r.below(3)),
                1 => format!("w.{}", r.below(5)),
                2 if i > 0 => "v0".to_owned(),
                _ if i > 0 => format!("v{}", i - 1 - r.below(i.min(12))),
                _ => "x0".to_owned(),
            });
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        b = b.node(&format!("n{i}"), "Relu", &inputs, &[&format!("v{i}")]).module(&format!("a{}.b{}", i / 10, i / 4), "m.Block");
    }
    let imported = Imported { model: b.build(), diagnostics: Vec::new() };
    let mut document = Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).unwrap();
    let marks: Vec<String> = (0..nodes).filter(|_| r.below(6) == 0).map(|i| format!("node:n{i}")).collect();
    let marks: Vec<&str> = marks.iter().map(String::as_str).collect();
    let edit = Edit::mark(document.config(), MarkList::TorchNodes, &marks).unwrap();
    document.apply(edit).unwrap();
    document
}

fn layout(document: &Document, folds: &Folds) -> (Wiring, Lanes) {
    let wiring = Wiring::new(document.model(), &document.config().dims);
    let lanes = Lanes::new(&wiring, document.plan().clone(), folds);
    (wiring, lanes)
}

/// Walks the rows from the top with lanes as they are drawn, and checks each row against the graph.
fn check(document: &Document, wiring: &Wiring, lanes: &Lanes) {
    let graph = &document.model().graph;
    let mut live: Vec<u32> = Vec::new();
    for (i, row) in lanes.rows().iter().enumerate() {
        let ports = lanes.ports(i);
        for (k, p) in ports.iter().enumerate() {
            let at = live.get(p.lane as usize).copied().unwrap_or(NONE);
            if p.up {
                assert_eq!(at, p.value, "row {i}: lane {} holds another tensor than the row reads", p.lane);
            } else {
                let freed = ports.iter().any(|q| q.lane == p.lane && q.up && !q.down);
                assert!(at == NONE || freed, "row {i}: lane {} is given away while it is live", p.lane);
            }
            assert!(!ports[k + 1..].iter().any(|q| q.value == p.value), "row {i}: a tensor touches the row twice");
        }
        let nodes: Vec<_> = lanes.nodes(row).collect();
        let mut wanted: Vec<u32> = match row.kind {
            RowKind::Output(o) => vec![graph.outputs()[o as usize].0],
            _ => nodes.iter().flat_map(|n| wiring.reads(*n).iter().copied()).collect(),
        };
        wanted.retain(|v| wiring.has_lane(*v) && wiring.producer(*v).is_none_or(|p| !nodes.contains(&p)));
        wanted.sort_unstable();
        wanted.dedup();
        let mut drawn: Vec<u32> = ports.iter().filter(|p| p.up).map(|p| p.value).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, wanted, "row {i}: edges drawn and edges there are differ");
        super::layout::apply(&mut live, ports);
        let mut values: Vec<u32> = live.iter().copied().filter(|v| *v != NONE).collect();
        values.sort_unstable();
        let all = values.len();
        values.dedup();
        assert_eq!(all, values.len(), "row {i}: a tensor has two lanes");
        assert!(live.len() <= lanes.width() as usize);
    }
    assert!(live.is_empty(), "lanes go on below the last row: {live:?}");
}

#[test]
fn every_edge_is_drawn_and_lanes_never_overlap() {
    for seed in 1..40u64 {
        let document = document(seed * 7919, 8 + (seed as usize * 5) % 120);
        let modules = document.model().modules.modules().len();
        let mut folds = Folds::none(modules);
        let (wiring, lanes) = layout(&document, &folds);
        check(&document, &wiring, &lanes);
        let mut r = Random(seed);
        for _ in 0..modules / 3 {
            folds.set(ModuleId::new(1 + r.below(modules - 1)), true);
        }
        let (wiring, lanes) = layout(&document, &folds);
        check(&document, &wiring, &lanes);
    }
}

/// Ports and dots of every row the plain way: readers looked up, free lanes searched for.
fn by_the_book(document: &Document, wiring: &Wiring, lanes: &Lanes) -> Vec<(Vec<Port>, u32)> {
    let graph = &document.model().graph;
    let reads: Vec<Vec<u32>> = lanes
        .rows()
        .iter()
        .map(|row| match row.kind {
            RowKind::Output(o) => vec![graph.outputs()[o as usize].0],
            _ => lanes.nodes(row).flat_map(|n| wiring.reads(n).to_vec()).collect(),
        })
        .collect();
    let goes_on = |v: u32, row: usize| reads.iter().skip(row + 1).any(|r| r.contains(&v));
    let mut on: Vec<Option<u32>> = Vec::new();
    let mut out = Vec::new();
    for (i, row) in lanes.rows().iter().enumerate() {
        let mut ports: Vec<Port> = Vec::new();
        for &v in &reads[i] {
            if let Some(lane) = on.iter().position(|l| *l == Some(v))
                && ports.iter().all(|p| p.value != v)
            {
                ports.push(Port { lane: lane as u32, value: v, up: true, down: goes_on(v, i) });
            }
        }
        ports.iter().filter(|p| !p.down).for_each(|p| on[p.lane as usize] = None);
        let made: Vec<u32> = match row.kind {
            RowKind::Input(n) => vec![graph.inputs()[n as usize].0],
            _ => lanes.nodes(row).flat_map(|n| wiring.writes(n).to_vec()).collect(),
        };
        let mut dot = None;
        for v in made.into_iter().filter(|&v| wiring.has_lane(v) && goes_on(v, i)) {
            let lane = on.iter().position(Option::is_none).unwrap_or_else(|| {
                on.push(None);
                on.len() - 1
            });
            on[lane] = Some(v);
            dot = dot.or(Some(lane as u32));
            ports.push(Port { lane: lane as u32, value: v, up: false, down: true });
        }
        let gap = || on.iter().position(Option::is_none).unwrap_or(on.len()) as u32;
        let dot = dot.or_else(|| ports.first().map(|p| p.lane)).unwrap_or_else(gap);
        out.push((ports, dot));
    }
    out
}

#[test]
fn a_layout_equals_the_plain_one_also_in_the_memory_of_another() {
    let mut kept: Option<Lanes> = None;
    for seed in 1..60u64 {
        let document = document(seed * 104_729, 3 + (seed as usize * 7) % 90);
        let modules = document.model().modules.modules().len();
        let wiring = Wiring::new(document.model(), &document.config().dims);
        let mut folds = Folds::none(modules);
        let mut r = Random(seed);
        for fold in [false, true] {
            for _ in 0..if fold { modules / 3 } else { 0 } {
                folds.set(ModuleId::new(1 + r.below(modules - 1)), true);
            }
            let mut lanes = kept.take().unwrap_or_else(|| Lanes::new(&wiring, document.plan().clone(), &folds));
            lanes.renew(&wiring, document.plan().clone(), &folds);
            let drawn: Vec<(Vec<Port>, u32)> = (0..lanes.rows().len()).map(|i| (lanes.ports(i).to_vec(), lanes.dot(i))).collect();
            assert_eq!(drawn, by_the_book(&document, &wiring, &lanes), "seed {seed}");
            check(&document, &wiring, &lanes);
            for p in (0..document.plan().partitions.len()).map(PartitionId::new) {
                let border = document.plan().boundary(p);
                let given = |v: &ValueId| !wiring.is_constant(v.0);
                let inputs: Vec<u32> = border.inputs.iter().filter(|v| given(v)).map(|v| v.0).collect();
                assert_eq!(lanes.given(p), inputs, "seed {seed}");
                let made = document.plan().nodes(p).into_iter().flat_map(|n| wiring.writes(n).to_vec());
                let left: Vec<u32> = made.filter(|&v| lanes.leaves(v)).collect();
                assert_eq!(left, border.outputs.iter().map(|v| v.0).collect::<Vec<_>>(), "seed {seed}");
            }
            kept = Some(lanes);
        }
    }
}

#[test]
fn every_unit_has_one_row_and_rows_follow_the_plan() {
    let document = document(77, 150);
    let (_, lanes) = layout(&document, &Folds::none(document.model().modules.modules().len()));
    let mut seen = vec![0; document.model().graph.nodes().len()];
    let mut last = None;
    for (i, row) in lanes.rows().iter().enumerate() {
        for n in lanes.nodes(row) {
            seen[n.index()] += 1;
            assert_eq!(lanes.row_of_node(n), Some(i));
        }
        if let Some(p) = lanes.partition_of_row(i) {
            assert!(last.is_none_or(|l| l <= p), "partitions stand in execution order");
            last = Some(p);
        }
    }
    assert!(seen.iter().all(|&n| n == 1));
}

#[test]
fn replaying_from_a_checkpoint_equals_walking_from_the_top() {
    let document = document(5, 600);
    let (_, lanes) = layout(&document, &Folds::none(document.model().modules.modules().len()));
    let mut walk = lanes.replay(0);
    for row in 0..lanes.rows().len() {
        assert_eq!(lanes.replay(row).live(), walk.live(), "row {row}");
        walk.advance();
    }
}

#[test]
fn transfers_equal_what_the_document_counts() {
    for seed in [3u64, 99, 1234] {
        let document = document(seed, 90);
        let (_, lanes) = layout(&document, &Folds::none(document.model().modules.modules().len()));
        let sum: u64 =
            (0..document.plan().partitions.len()).map(|p| lanes.transfer(recut_core::partition::PartitionId::new(p)).bytes).sum();
        assert_eq!(Some(sum), document.bytes_across());
    }
}

#[test]
fn a_tensor_with_very_many_readers_gets_no_lane() {
    let mut b = ModelBuilder::new().node("hub", "Relu", &["x"], &["h"]);
    for i in 0..40 {
        b = b.node(&format!("n{i}"), "Relu", &["h"], &[&format!("v{i}")]);
    }
    let imported = Imported { model: b.build(), diagnostics: Vec::new() };
    let document = Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).unwrap();
    let (wiring, lanes) = layout(&document, &Folds::default());
    let hub = document.model().graph.find_value("h").unwrap();
    assert!(wiring.is_hub(hub.0));
    assert!((0..lanes.rows().len()).all(|r| lanes.ports(r).iter().all(|p| p.value != hub.0)));
    check(&document, &wiring, &lanes);
}

#[test]
fn a_deep_chain_takes_one_lane_and_no_stack() {
    let mut b = ModelBuilder::new();
    for i in 0..20_000usize {
        let input = i.checked_sub(1).map_or_else(|| "x".to_owned(), |p| format!("v{p}"));
        b = b.node(&format!("n{i}"), "Neg", &[&input], &[&format!("v{i}")]);
    }
    let imported = Imported { model: b.build(), diagnostics: Vec::new() };
    let document = Document::new(imported, PartitionConfig::default(), DocumentOptions::default()).unwrap();
    let (_, lanes) = layout(&document, &Folds::default());
    assert_eq!(lanes.width(), 1);
    assert!(Arc::ptr_eq(lanes.plan(), document.plan()));
}
