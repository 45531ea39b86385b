use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::PartitionerConfig;
use crate::diagnostic::Severity;
use crate::graph::ValueType;
use crate::model::Model;
use crate::select::NodeSet;
use crate::support::Support;
use crate::testing::{ModelBuilder, model};
use crate::view::{Unit, WrapRequest};

fn set(m: &Model, pick: impl Fn(&crate::graph::Node) -> bool) -> Arc<NodeSet> {
    let mut s = NodeSet::empty(m.graph.nodes().len());
    m.graph.node_ids().filter(|&n| pick(m.graph.node(n))).for_each(|n| {
        s.insert(n);
    });
    Arc::new(s)
}

fn ops(m: &Model, names: &[&str]) -> Arc<NodeSet> {
    set(m, |n| names.contains(&&*n.op.name))
}

fn named(m: &Model, names: &[&str]) -> Arc<NodeSet> {
    set(m, |n| names.contains(&&*n.name))
}

fn with_min(min_block_size: u32) -> PlanOptions {
    PlanOptions { partitioner: PartitionerConfig { min_block_size, ..Default::default() }, strict_support: false }
}

fn plan_of(m: Model, marks: impl FnOnce(&Model) -> Marks) -> Plan {
    let marks = marks(&m);
    plan(&Arc::new(View::new(Arc::new(m), &[]).unwrap()), &marks, None, &PlanOptions::default())
}

fn torch(op: &'static str) -> impl FnOnce(&Model) -> Marks {
    move |m| Marks { torch_executed_ops: vec![ops(m, &[op])], ..Marks::default() }
}

fn describe(p: &Plan) -> Vec<String> {
    (0..p.partitions.len())
        .map(|i| {
            let id = PartitionId::new(i);
            let names: Vec<&str> = p.units(id).iter().map(|&u| p.view.stable_id(u)).collect();
            format!("{}: {}", p.partitions[i].name(), names.join(" "))
        })
        .collect()
}

#[test]
fn a_skip_around_torch_needs_two_partitions() {
    let m = model(&[("a", "Relu", &["x"], &["va"]), ("t", "Erf", &["va"], &["vt"]), ("c", "Add", &["va", "vt"], &["y"])]);
    let p = plan_of(m, torch("Erf"));
    assert_eq!(describe(&p), ["run_on_acc_0: a", "run_on_torch_1: t", "run_on_acc_2: c"]);
    assert_eq!((p.lower_bound, p.rule[1]), (2, Rule::TorchOp(0)));
    let b = p.boundary(PartitionId(2));
    let name = |v: &ValueId| p.view.model.graph.value(*v).name.to_string();
    assert_eq!(b.inputs.iter().map(name).collect::<Vec<_>>(), ["va", "vt"]);
    // va (16 bytes) goes to two partitions, vt to one.
    assert_eq!(p.crossing_bytes(&crate::expr::Bindings::new()), Some(48));
}

#[test]
fn a_unit_with_slack_joins_its_reader() {
    // `c` is a constant of the second partition: put into the first it would only cross.
    let m = model(&[
        ("c", "Exp", &["k"], &["vc"]),
        ("a", "Relu", &["x"], &["va"]),
        ("t", "Erf", &["va"], &["vt"]),
        ("d", "Add", &["vt", "vc"], &["y"]),
    ]);
    assert_eq!(describe(&plan_of(m, torch("Erf"))), ["run_on_acc_0: a", "run_on_torch_1: t", "run_on_acc_2: c d"]);
}

#[test]
fn opaque_nodes_split_torch_around_them() {
    let m = model(&[
        ("t1", "Erf", &["x"], &["v1"]),
        ("o1", "Sin", &["v1"], &["v2"]),
        ("t2", "Erf", &["v2"], &["v3"]),
        ("o2", "Sin", &["v1"], &["v4"]),
        ("a", "Add", &["v3", "v4"], &["y"]),
    ]);
    let marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], ..Marks::default() };
    let wrap =
        |id: &str, n: &str| WrapRequest { id: id.into(), definition: "d".into(), select: "s".into(), nodes: (*named(&m, &[n])).clone() };
    let wraps = [wrap("W1", "o1"), wrap("W2", "o2")];
    let view = Arc::new(View::new(Arc::new(m.clone()), &wraps).unwrap());
    let p = plan(&view, &marks, None, &PlanOptions::default());
    assert_eq!(describe(&p), ["run_on_torch_0: t1", "run_on_op_1: W1", "run_on_op_2: W2", "run_on_torch_3: t2", "run_on_acc_4: a"]);
    assert_eq!(p.counts(), Counts { accelerated: 1, torch: 2, opaque: 2, accelerated_nodes: 1, torch_nodes: 2, opaque_nodes: 2 });
}

#[test]
fn foreign_ops_are_opaque_unless_marked_or_listed() {
    let m = Arc::new(model(&[("a", "Relu", &["x"], &["va"]), ("f", "mylib::my_func", &["va"], &["vf"]), ("b", "Relu", &["vf"], &["y"])]));
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let p = plan(&view, &Marks::default(), None, &PlanOptions::default());
    assert_eq!((p.placement[1], p.rule[1], p.lower_bound), (Placement::Opaque, Rule::ForeignOp, 2));
    let marks = Marks { torch_executed_ops: vec![ops(&m, &["my_func"])], ..Marks::default() };
    assert_eq!(plan(&view, &marks, None, &PlanOptions::default()).placement[1], Placement::Torch);
    let lists: SupportMap = vec![Support::Supported; 3].into();
    assert_eq!(plan(&view, &Marks::default(), Some(&lists), &PlanOptions::default()).placement[1], Placement::Accelerated);
    let refuses: SupportMap = vec![Support::Supported, Support::Unsupported("no".into()), Support::Supported].into();
    assert_eq!(plan(&view, &Marks::default(), Some(&refuses), &PlanOptions::default()).placement[1], Placement::Opaque);
}

#[test]
fn the_first_rule_that_hits_places_a_node() {
    let m = Arc::new(model(&[("a", "Relu", &["x"], &["va"]), ("b", "Relu", &["va"], &["vb"]), ("c", "Relu", &["vb"], &["y"])]));
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let marks = Marks {
        accelerated_nodes: vec![named(&m, &["a"])],
        torch_executed_nodes: vec![named(&m, &["a", "b"])],
        torch_executed_modules: vec![named(&m, &["a", "b", "c"]), named(&m, &["b", "c"])],
        torch_executed_ops: vec![ops(&m, &["Relu"])],
        leaf_modules: vec![],
    };
    let support: SupportMap = vec![Support::Unsupported("no Relu here".into()); 3].into();
    let p = plan(&view, &marks, Some(&support), &PlanOptions::default());
    assert_eq!(p.rule, [Rule::PinAccelerated(0), Rule::PinTorch(0), Rule::TorchModule(1)]);
    assert_eq!(p.problems.iter().map(|d| d.code.as_str()).collect::<Vec<_>>(), ["conflicting_pins"]);
    assert!(p.reason(UnitId(0)).contains("forced: no Relu here"), "{}", p.reason(UnitId(0)));
    let steps = p.explain(UnitId(2));
    assert_eq!(steps.iter().filter(|s| s.decided).map(|s| s.step).collect::<Vec<_>>(), [3]);
    let p = plan(&view, &Marks::default(), Some(&support), &PlanOptions::default());
    assert_eq!((p.rule[1], p.reason(UnitId(1))), (Rule::Unsupported, "no Relu here".to_owned()));
}

#[test]
fn small_partitions_go_to_torch_but_pinned_ones_stay() {
    let rows: &[crate::testing::Row<'_>] = &[
        ("a", "Relu", &["x"], &["va"]),
        ("t1", "Erf", &["va"], &["v1"]),
        ("b", "Relu", &["v1"], &["vb"]),
        ("r", "Reshape", &["vb", "w.s"], &["vr"]),
        ("t2", "Erf", &["vr"], &["v2"]),
        ("c", "Relu", &["v2"], &["vc"]),
        ("d", "Relu", &["vc"], &["y"]),
    ];
    let m = Arc::new(model(rows));
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let mut marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], ..Marks::default() };
    let p = plan(&view, &marks, None, &with_min(2));
    assert_eq!(describe(&p), ["run_on_torch_0: a t1 b r t2", "run_on_acc_1: c d"]);
    assert_eq!((p.rule[0], p.rule[3], p.lower_bound), (Rule::MinBlockSize, Rule::MinBlockSize, 3));
    marks.accelerated_nodes = vec![named(&m, &["r"])];
    let p = plan(&view, &marks, None, &with_min(2));
    assert_eq!(describe(&p), ["run_on_torch_0: a t1", "run_on_acc_1: b r", "run_on_torch_2: t2", "run_on_acc_3: c d"]);
}

#[test]
fn full_compilation_names_the_offenders() {
    let m = Arc::new(model(&[("a", "Relu", &["x"], &["va"]), ("t\u{1b}", "Erf", &["va"], &["y"])]));
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], ..Marks::default() };
    let mut options = PlanOptions::default();
    options.partitioner.require_full_compilation = true;
    let p = plan(&view, &marks, None, &options);
    assert_eq!(p.fallbacks(), [UnitId(1)]);
    assert_eq!((p.problems[0].severity, p.problems[0].message.contains("t\\u{1b}")), (Severity::Error, true));
    assert!(plan(&view, &Marks::default(), None, &options).problems.is_empty());
}

fn quantized() -> Model {
    model(&[
        ("dq", "DequantizeLinear", &["x", "w.s"], &["v1"]),
        ("dqw", "DequantizeLinear", &["w.k", "w.s"], &["v2"]),
        ("conv", "Conv", &["v1", "v2"], &["v3"]),
        ("q", "QuantizeLinear", &["v3", "w.s"], &["v4"]),
        ("dq2", "DequantizeLinear", &["v4", "w.s"], &["y"]),
    ])
}

#[test]
fn a_quantized_operator_is_whole_unless_the_user_takes_it_apart() {
    let m = Arc::new(quantized());
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let mut support = vec![Support::Supported; 5];
    support[2] = Support::Unsupported("no Conv".into());
    let p = plan(&view, &Marks::default(), Some(&support.into()), &PlanOptions::default());
    assert_eq!(describe(&p), ["run_on_torch_0: dq dqw conv q", "run_on_acc_1: dq2"]);
    assert_eq!((p.rule[0], p.rule[2]), (Rule::AtomicGroup(0), Rule::Unsupported));
    assert!(p.reason(UnitId(0)).contains("quantized operator around dq"), "{}", p.reason(UnitId(0)));

    let marks = Marks { torch_executed_ops: vec![ops(&m, &["QuantizeLinear", "DequantizeLinear"])], ..Marks::default() };
    let p = plan(&view, &marks, None, &PlanOptions::default());
    assert_eq!((p.counts().accelerated, p.counts().accelerated_nodes), (1, 1));
}

#[test]
fn a_leaf_module_is_never_split() {
    let m = Arc::new(model(&[("a", "Relu", &["x"], &["va"]), ("t", "Erf", &["va"], &["vt"]), ("c", "Add", &["va", "vt"], &["y"])]));
    let view = Arc::new(View::new(m.clone(), &[]).unwrap());
    let mut marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], leaf_modules: vec![named(&m, &["a", "c"])], ..Marks::default() };
    // The torch node between its parts would have to run inside it.
    let p = plan(&view, &marks, None, &PlanOptions::default());
    assert_eq!(describe(&p), ["run_on_torch_0: a t c"]);
    assert_eq!(p.rule[0], Rule::AtomicGroup(0));
    marks.accelerated_nodes = vec![named(&m, &["a"])];
    let p = plan(&view, &marks, None, &PlanOptions::default());
    assert_eq!(p.problems.iter().map(|d| d.code.as_str()).collect::<Vec<_>>(), ["pin_breaks_rule"]);
}

#[test]
fn non_tensors_keep_off_accelerated_edges() {
    let build = |op: &str| {
        ModelBuilder::new()
            .node("a", "Relu", &["x"], &["va"])
            .node("s", "SplitToSequence", &["va"], &["seq"])
            .kind("seq", ValueType::Sequence)
            .node("m", op, &["seq"], &["seq2"])
            .kind("seq2", ValueType::Sequence)
            .node("c", "ConcatFromSequence", &["seq2"], &["vc"])
            .node("b", "Relu", &["vc"], &["y"])
            .build()
    };
    let m = build("SequenceMap");
    let all = plan_of(m, |_| Marks::default());
    assert_eq!(describe(&all), ["run_on_acc_0: a s m c b"]);
    let p = plan_of(build("Erf"), torch("Erf"));
    assert_eq!(describe(&p), ["run_on_acc_0: a", "run_on_torch_1: s m c", "run_on_acc_2: b"]);
    assert_eq!((p.rule[1], p.rule[3]), (Rule::NonTensorOutput, Rule::NonTensorInput));
    let p = plan_of(build("Erf"), |m| Marks {
        torch_executed_ops: vec![ops(m, &["Erf"])],
        accelerated_nodes: vec![named(m, &["c"])],
        ..Marks::default()
    });
    assert_eq!(p.problems.iter().map(|d| (d.severity, d.node.as_deref())).collect::<Vec<_>>(), [(Severity::Error, Some("c"))]);
}

#[test]
fn deep_chains_and_alternations_are_linear() {
    let mut b = ModelBuilder::new();
    for i in 0..20_000 {
        b = b.node(&format!("n{i}"), if i % 2 == 0 { "Relu" } else { "Erf" }, &[&format!("v{i}")], &[&format!("v{}", i + 1)]);
    }
    let p = plan_of(b.build(), torch("Erf"));
    assert_eq!((p.lower_bound, p.partitions.len()), (10_000, 20_000));
}

/// Partition of every unit by two plain sweeps over all neighbours: the earliest slots, then backwards each unit to its latest
/// one where that keeps more bytes inside.
fn by_plain_sweeps(p: &Plan) -> Vec<PartitionId> {
    let n = p.placement.len();
    let unit = UnitId::new;
    let mut slot = vec![0u32; n];
    for u in 0..n {
        let after = p.view.preds(unit(u)).iter().map(|q| slot[q.index()]).max().unwrap_or(0);
        slot[u] = after + u32::from((after % 2 == 1) != (p.placement[u] == Placement::Accelerated));
    }
    for u in (0..n).rev() {
        let next = || p.view.succs(unit(u)).iter().map(|s| slot[s.index()]);
        let (Some(least), Some(most)) = (next().min(), next().max()) else { continue };
        let latest = least - (least + slot[u]) % 2;
        let beside = p.view.preds(unit(u)).iter().filter(|q| slot[q.index()] == slot[u]);
        let spent: u64 = beside.map(|q| u64::from(p.view.facts.out_bytes[q.index()])).sum();
        if latest > slot[u] && latest == most && u64::from(p.view.facts.out_bytes[u]) > spent {
            slot[u] = latest;
        }
    }
    let used: Vec<u32> = slot.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    slot.iter().map(|s| PartitionId::new(used.binary_search(s).unwrap())).collect()
}

#[test]
fn units_stand_where_plain_sweeps_put_them() {
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut below = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % n
    };
    let mut moved = 0;
    for nodes in (1..60).chain([63, 64, 65, 127, 128, 129, 200, 300, 500]) {
        let mut b = ModelBuilder::new();
        for i in 0..nodes {
            let inputs: Vec<String> = (0..below(5)).filter(|_| i > 0).map(|_| format!("v{}", i - 1 - below(i.min(30)))).collect();
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).chain(["x"]).collect();
            b = b.node(&format!("n{i}"), if below(3) == 0 { "Erf" } else { "Relu" }, &inputs, &[&format!("v{i}")]);
        }
        let m = Arc::new(b.build());
        let marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], ..Marks::default() };
        let view = Arc::new(View::new(m, &[]).unwrap());
        // Twice: the second plan stands in the memory of the first.
        drop(plan(&view, &Marks::default(), None, &PlanOptions::default()));
        let p = plan(&view, &marks, None, &PlanOptions::default());
        assert_eq!(p.partition_of, by_plain_sweeps(&p), "{nodes} nodes");
        moved += p.partition_of.windows(2).filter(|w| w[0] > w[1]).count();
    }
    assert!(moved > 100, "hardly any unit had slack");
}

/// A random graph: for each node a mask of earlier nodes it reads, its colour, and whether its value is a sequence.
#[derive(Clone, Debug)]
struct Random {
    edges: Vec<u16>,
    torch: Vec<bool>,
    sequence: Vec<bool>,
    pinned: u16,
    leaf: u16,
    wrap: u16,
}

fn random(max: usize) -> impl Strategy<Value = Random> {
    (1..=max).prop_flat_map(|n| {
        let edges = prop::collection::vec((any::<u16>(), any::<u16>()).prop_map(|(a, b)| a & b), n);
        let torch = prop::collection::vec(prop::bool::weighted(0.4), n);
        let sequence = prop::collection::vec(prop::bool::weighted(0.1), n);
        let sparse = || (any::<u16>(), any::<u16>(), any::<u16>()).prop_map(|(a, b, c)| a & b & c);
        (edges, torch, sequence, sparse(), sparse(), sparse()).prop_map(|(edges, torch, sequence, pinned, leaf, wrap)| Random {
            edges,
            torch,
            sequence,
            pinned,
            leaf,
            wrap,
        })
    })
}

impl Random {
    fn model(&self) -> Model {
        let mut b = ModelBuilder::new();
        for (i, mask) in self.edges.iter().enumerate() {
            let inputs: Vec<String> = (0..i).filter(|p| mask >> p & 1 == 1).map(|p| format!("v{p}")).collect();
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).chain(["x"]).collect();
            b = b.node(&format!("n{i}"), if self.torch[i] { "Erf" } else { "Relu" }, &inputs, &[&format!("v{i}")]);
            if self.sequence[i] {
                b = b.kind(&format!("v{i}"), ValueType::Sequence);
            }
        }
        b.build()
    }

    fn nodes(&self, mask: u16) -> NodeSet {
        let mut s = NodeSet::empty(self.edges.len());
        (0..self.edges.len()).filter(|i| mask >> i & 1 == 1).for_each(|i| {
            s.insert(NodeId::new(i));
        });
        s
    }

    /// View and marks; a wrap that cannot be contracted is left out.
    fn view(&self, m: &Arc<Model>) -> Arc<View> {
        let request = WrapRequest { id: "W".into(), definition: "d".into(), select: "s".into(), nodes: self.nodes(self.wrap) };
        Arc::new(View::new(m.clone(), &[request]).or_else(|_| View::new(m.clone(), &[])).unwrap())
    }

    fn marks(&self, m: &Model) -> Marks {
        Marks {
            torch_executed_ops: vec![ops(m, &["Erf"])],
            accelerated_nodes: vec![Arc::new(self.nodes(self.pinned))],
            leaf_modules: vec![Arc::new(self.nodes(self.leaf))],
            ..Marks::default()
        }
    }
}

/// What every plan must hold.
fn check(p: &Plan) -> Result<(), TestCaseError> {
    let units = p.view.units().len();
    let mut seen = vec![false; units];
    for i in 0..p.partitions.len() {
        let id = PartitionId::new(i);
        prop_assert!(!p.units(id).is_empty());
        prop_assert!(p.partitions[i].kind != Placement::Opaque || p.units(id).len() == 1);
        for u in p.units(id) {
            prop_assert!(!std::mem::replace(&mut seen[u.index()], true));
            prop_assert_eq!((p.partition_of[u.index()], p.placement[u.index()]), (id, p.partitions[i].kind));
        }
    }
    prop_assert!(seen.into_iter().all(|s| s));
    for u in (0..units).map(UnitId::new) {
        for &pred in p.view.preds(u) {
            // Partitions run in this order, so their graph has no cycle.
            prop_assert!(p.partition_of[pred.index()] <= p.partition_of[u.index()]);
        }
        if let Unit::Wrap(_) = p.view.unit(u) {
            prop_assert_eq!(p.placement[u.index()], Placement::Opaque);
        }
    }
    for (i, partition) in p.partitions.iter().enumerate().filter(|(_, x)| x.kind == Placement::Accelerated) {
        let b = p.boundary(PartitionId::new(i));
        for v in b.inputs.iter().chain(&b.outputs) {
            prop_assert_eq!(p.view.model.graph.value(*v).ty, ValueType::Tensor, "{}", partition.name());
        }
    }
    for g in p.groups.iter().filter(|g| g.bound) {
        let homes: BTreeSet<_> = g.units.iter().map(|u| p.partition_of[u.index()]).collect();
        prop_assert!(homes.len() == 1, "{:?}", g);
    }
    Ok(())
}

/// Whether the graph over `blocks` is acyclic: every unit belongs to the block of its number.
fn acyclic(view: &View, block: &[usize]) -> bool {
    let n = block.iter().max().map_or(0, |m| m + 1);
    let mut reach = vec![0u32; n];
    for u in 0..block.len() {
        for s in view.succs(UnitId::new(u)) {
            if block[s.index()] != block[u] {
                reach[block[u]] |= 1 << block[s.index()];
            }
        }
    }
    // Takes away blocks that nothing left points from.
    let mut left: u32 = (1 << n) - 1;
    loop {
        let free = (0..n).filter(|&b| left >> b & 1 == 1 && reach[b] & left == 0).fold(0, |m, b| m | 1 << b);
        if free == 0 {
            return left == 0;
        }
        left &= !free;
    }
}

/// The fewest accelerated partitions by trying all set partitions, in ascending number of blocks; torch and opaque
/// units stand alone, except in groups.
fn fewest(p: &Plan) -> usize {
    let units = p.placement.len();
    let mut tied: Vec<usize> = (0..units).collect();
    for g in p.groups.iter().filter(|g| g.bound) {
        for pair in g.units.windows(2) {
            let (a, b) = (tied[pair[0].index()], tied[pair[1].index()]);
            tied.iter_mut().filter(|t| **t == b).for_each(|t| *t = a);
        }
    }
    // What lies on a path between members of a group cannot run apart from it.
    let mut reach = vec![0u32; units];
    for u in (0..units).rev() {
        reach[u] = p.view.succs(UnitId::new(u)).iter().fold(0, |m, s| m | 1 << s.index() | reach[s.index()]);
    }
    loop {
        let before = tied.clone();
        for u in 0..units {
            let reaches = |a: usize, b: usize| {
                (0..units).any(|x| before[x] == before[a] && (0..units).any(|y| before[y] == before[b] && reach[x] >> y & 1 == 1))
            };
            if let Some(t) = (0..units).find(|&t| before[t] != before[u] && reaches(t, u) && reaches(u, t)) {
                let (a, b) = (tied[t].min(tied[u]), tied[t].max(tied[u]));
                tied.iter_mut().filter(|t| **t == b).for_each(|t| *t = a);
            }
        }
        if tied == before {
            break;
        }
    }
    let tied: Vec<usize> = (0..units).map(|u| (0..units).find(|&x| tied[x] == tied[u]).unwrap_or(u)).collect();
    let accelerated: Vec<usize> = (0..units).filter(|&u| tied[u] == u && p.placement[u] == Placement::Accelerated).collect();
    let mut best = usize::MAX;
    let mut choice = vec![0usize; accelerated.len()];
    fn search(at: usize, used: usize, choice: &mut Vec<usize>, best: &mut usize, fits: &dyn Fn(&[usize]) -> bool) {
        if used >= *best {
            return;
        }
        if at == choice.len() {
            if fits(choice) {
                *best = used;
            }
            return;
        }
        for block in 0..=used {
            choice[at] = block;
            search(at + 1, used.max(block + 1), choice, best, fits);
        }
    }
    search(0, 0, &mut choice, &mut best, &|choice| {
        let mut block = vec![usize::MAX; units];
        for (&u, &b) in accelerated.iter().zip(choice) {
            block[u] = b;
        }
        let mut next = choice.iter().max().map_or(0, |m| m + 1);
        for u in (0..units).filter(|&u| tied[u] == u) {
            if block[u] == usize::MAX {
                block[u] = next;
                next += 1;
            }
        }
        let block: Vec<usize> = (0..units).map(|u| block[tied[u]]).collect();
        acyclic(&p.view, &block)
    });
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn plans_hold_their_rules_and_are_minimal(r in random(9)) {
        let m = Arc::new(r.model());
        let p = plan(&r.view(&m), &r.marks(&m), None, &PlanOptions::default());
        check(&p)?;
        prop_assert_eq!(p.counts().accelerated, fewest(&p));
        prop_assert_eq!(p.lower_bound as usize, p.counts().accelerated);
    }

    #[test]
    fn the_minimum_holds_on_plain_graphs_up_to_ten(r in random(10)) {
        let m = Arc::new(r.model());
        let marks = Marks { torch_executed_ops: vec![ops(&m, &["Erf"])], ..Marks::default() };
        let p = plan(&Arc::new(View::new(m, &[]).unwrap()), &marks, None, &PlanOptions::default());
        prop_assert_eq!(p.counts().accelerated, fewest(&p));
    }

    #[test]
    fn min_block_size_is_a_fixpoint(r in random(16), min in 2u32..5) {
        let m = Arc::new(r.model());
        let view = r.view(&m);
        let marks = r.marks(&m);
        let p = plan(&view, &marks, None, &with_min(min));
        check(&p)?;
        for (i, _) in p.partitions.iter().enumerate().filter(|(_, x)| x.kind == Placement::Accelerated) {
            let units = p.units(PartitionId::new(i));
            let pinned = units.iter().any(|u| matches!(p.rule[u.index()], Rule::PinAccelerated(_)));
            prop_assert!(pinned || units.len() >= min as usize);
        }
        // With what was demoted in torch from the start, the same number is the minimum (under the same groups).
        prop_assume!(p.problems.iter().all(|d| d.code != "group_not_kept"));
        let mut again = marks;
        let demoted = set_of(&view, |u| p.placement[u.index()] == Placement::Torch);
        again.torch_executed_nodes.push(Arc::new(demoted));
        again.accelerated_nodes = vec![Arc::new(set_of(&view, |u| matches!(p.rule[u.index()], Rule::PinAccelerated(_))))];
        let free = plan(&view, &again, None, &PlanOptions::default());
        prop_assert_eq!(free.lower_bound as usize, p.counts().accelerated);
    }

    #[test]
    fn the_order_of_marks_does_not_matter(r in random(12), masks in prop::collection::vec(any::<u16>(), 4)) {
        let m = Arc::new(r.model());
        let view = r.view(&m);
        let sets: Vec<Arc<NodeSet>> = masks.iter().map(|&k| Arc::new(r.nodes(k & k.rotate_left(3)))).collect();
        let marks = |order: [usize; 4]| Marks {
            torch_executed_ops: order.iter().map(|&i| sets[i].clone()).collect(),
            torch_executed_modules: order.iter().take(2).map(|&i| sets[i ^ 1].clone()).collect(),
            accelerated_nodes: vec![Arc::new(r.nodes(r.pinned))],
            ..Marks::default()
        };
        let a = plan(&view, &marks([0, 1, 2, 3]), None, &with_min(2));
        let b = plan(&view, &marks([1, 0, 3, 2]), None, &with_min(2));
        prop_assert_eq!((&a.placement, &a.partition_of), (&b.placement, &b.partition_of));
    }
}

fn set_of(view: &View, pick: impl Fn(UnitId) -> bool) -> NodeSet {
    let mut s = NodeSet::empty(view.model.graph.nodes().len());
    for u in (0..view.units().len()).map(UnitId::new).filter(|&u| pick(u)) {
        view.nodes(u).for_each(|n| {
            s.insert(n);
        });
    }
    s
}
