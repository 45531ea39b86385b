//! From a plan to its report.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    Bottleneck, ConfigSummary, Fallback, MinBlockSizeRow, ModelSummary, NodeSupport, NonTensorEdge, PartitionInfo, PartitionReport, SCHEMA,
    Tensor, Totals, Verdict, kind_name,
};
use crate::config::PartitionConfig;
use crate::diagnostic::Diagnostic;
use crate::expr::Bindings;
use crate::graph::ValueId;
use crate::infer::cost;
use crate::partition::{Boundary, EntryText, Marks, PartitionId, Placement, Plan, PlanOptions, Rule, plan};
use crate::support::{Backend, Support};
use crate::trace;
use crate::view::{UNKNOWN_BYTES, Unit, UnitId, is_compute};

/// Values of `min_block_size` that the report tries.
const SIZES: [u32; 7] = [1, 2, 3, 5, 10, 20, 50];

/// What a report is made from.
#[derive(Clone, Copy)]
pub struct ReportInput<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The marks it was made with.
    pub marks: &'a Marks,
    /// The options it was made with.
    pub options: &'a PlanOptions,
    /// The config, for its summary.
    pub config: &'a PartitionConfig,
    /// The backend, where one was asked.
    pub backend: Option<&'a Backend>,
    /// Sizes of symbols.
    pub dims: &'a Bindings,
    /// What else was noticed; the plan's own problems are added.
    pub diagnostics: &'a [Diagnostic],
}

impl std::fmt::Debug for ReportInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReportInput").field("options", self.options).field("dims", self.dims).finish_non_exhaustive()
    }
}

/// Makes the report. Linear in the model; plans again for every row of the `min_block_size` table.
#[must_use]
pub fn partition_report(input: &ReportInput<'_>) -> PartitionReport {
    let report = Making { input, bytes: input.plan.view.value_bytes(input.dims) };
    let partitions = report.partitions();
    PartitionReport {
        schema: SCHEMA.to_owned(),
        model: report.model(),
        config: report.config(),
        totals: report.totals(&partitions),
        fallbacks: report.fallbacks(),
        node_support_preview: report.preview(),
        min_block_sizes: report.sizes(),
        non_tensor_edges: report.non_tensor_edges(),
        bottleneck: bottleneck(&partitions),
        diagnostics: report.diagnostics(),
        partitions,
    }
}

struct Making<'a> {
    input: &'a ReportInput<'a>,
    bytes: Arc<[u64]>,
}

impl Making<'_> {
    fn model(&self) -> ModelSummary {
        let model = &self.input.plan.view.model;
        ModelSummary {
            file: model.path.display().to_string(),
            format: model.format,
            nodes: model.graph.nodes().len(),
            opset: model.opset(""),
        }
    }

    fn config(&self) -> ConfigSummary {
        let (config, options) = (self.input.config, self.input.options);
        ConfigSummary {
            backend: self.input.backend.map(|b| b.name.to_string()),
            backend_source: self.input.backend.map(|b| b.source.to_string()),
            strategy: options.partitioner.strategy,
            min_block_size: options.partitioner.min_block_size,
            require_full_compilation: options.partitioner.require_full_compilation,
            strict_support: options.strict_support,
            torch_executed_ops: config.torch_executed_ops.clone(),
            torch_executed_modules: config.torch_executed_modules.clone(),
            torch_executed_nodes: config.torch_executed_nodes.clone(),
            accelerated_nodes: config.accelerated_nodes.clone(),
            leaf_modules: config.leaf_modules.clone(),
            wraps: self.input.plan.view.wraps().iter().map(|w| w.id.to_string()).collect(),
            dims: self.input.dims.clone(),
        }
    }

    fn totals(&self, partitions: &[PartitionInfo]) -> Totals {
        let p = self.input.plan;
        let graph = &p.view.model.graph;
        let (mut conditional, mut unsupported, mut excluded) = (0, 0, 0);
        for n in graph.node_ids() {
            let takes = match p.support.as_ref().and_then(|s| s.get(n.index())) {
                Some(Support::Unsupported(_)) => {
                    unsupported += 1;
                    false
                }
                Some(Support::Conditional(_)) => {
                    conditional += 1;
                    true
                }
                Some(Support::Supported) | None => true,
            };
            excluded += usize::from(takes && p.placement_of_node(n) != Placement::Accelerated && self.is_excluded(p.view.unit_of(n)));
        }
        let counts = p.counts();
        let nodes = graph.nodes().len();
        let accelerated = || partitions.iter().filter(|x| x.kind == Placement::Accelerated);
        let share = |part: usize, whole: usize| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        // Of equal ones the first.
        let largest = accelerated().reduce(|a, b| if b.ops > a.ops { b } else { a });
        Totals {
            nodes,
            supported: nodes - unsupported,
            conditional,
            unsupported,
            excluded,
            accelerated_nodes: counts.accelerated_nodes,
            torch_nodes: counts.torch_nodes,
            opaque_nodes: counts.opaque_nodes,
            coverage: share(counts.accelerated_nodes, nodes),
            accelerated_partitions: counts.accelerated,
            torch_partitions: counts.torch,
            opaque: counts.opaque,
            lower_bound: p.lower_bound,
            crossing_bytes: p.crossing_bytes(self.input.dims),
            flops: partitions.iter().try_fold(0u64, |n, x| n.checked_add(x.flops?)),
            average_partition: share(counts.accelerated_nodes, counts.accelerated),
            largest_partition: largest.map(|x| x.name.clone()),
        }
    }

    /// Whether a mark or an opaque node took the unit from the accelerator.
    fn is_excluded(&self, unit: UnitId) -> bool {
        matches!(
            self.input.plan.rule[unit.index()],
            Rule::PinTorch(_) | Rule::TorchModule(_) | Rule::TorchOp(_) | Rule::Wrap(_) | Rule::ForeignOp
        )
    }

    fn partitions(&self) -> Vec<PartitionInfo> {
        let p = self.input.plan;
        let model = &p.view.model;
        let boundaries = p.boundaries();
        let info = |(i, Boundary { inputs, outputs }): (usize, Boundary)| {
            let id = PartitionId::new(i);
            let nodes = p.nodes(id);
            let flops = nodes.iter().try_fold(0u64, |sum, &n| {
                let one = cost::node_cost(model, n).flops?.eval(self.input.dims)?;
                sum.checked_add(u64::try_from(one).ok()?)
            });
            let wrap = p.units(id).iter().find_map(|&u| match p.view.unit(u) {
                Unit::Wrap(w) => p.view.wraps().get(w as usize),
                Unit::Node(_) => None,
            });
            PartitionInfo {
                name: p.partitions[i].name(),
                kind: p.partitions[i].kind,
                wrap: wrap.map(|w| w.id.to_string()),
                wrap_name: wrap.map(|w| w.definition.to_string()),
                ops: nodes.len(),
                compute_ops: nodes.iter().filter(|&&n| is_compute(&model.graph.node(n).op)).count(),
                bytes_in: self.sum(&inputs),
                bytes_out: self.sum(&outputs),
                inputs: inputs.into_iter().map(|v| self.tensor(v)).collect(),
                outputs: outputs.into_iter().map(|v| self.tensor(v)).collect(),
                nodes: nodes.into_iter().map(|n| model.graph.stable_id(n).to_owned()).collect(),
                flops,
            }
        };
        boundaries.into_iter().enumerate().map(info).collect()
    }

    fn bytes(&self, value: ValueId) -> Option<u64> {
        self.bytes.get(value.index()).copied().filter(|&b| b != UNKNOWN_BYTES)
    }

    fn sum(&self, values: &[ValueId]) -> Option<u64> {
        values.iter().try_fold(0u64, |n, &v| n.checked_add(self.bytes(v)?))
    }

    fn tensor(&self, value: ValueId) -> Tensor {
        let v = self.input.plan.view.model.graph.value(value);
        let dtype = v.dtype.map_or_else(|| "?".to_owned(), |d| d.to_string());
        let shape = match v.shape.eval(self.input.dims) {
            Some(dims) => crate::shape::Shape::known(&dims),
            None => v.shape.clone(),
        };
        Tensor { name: v.name.to_string(), r#type: format!("{shape}@{dtype}"), bytes: self.bytes(value) }
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        let (p, config) = (self.input.plan, self.input.config);
        let model = &p.view.model;
        let entry = |list: crate::document::MarkList, n: usize| -> Option<String> {
            use crate::document::MarkList::{AcceleratedNodes, LeafModules, TorchModules, TorchNodes, TorchOps};
            let texts = match list {
                TorchOps => &config.torch_executed_ops,
                TorchModules => &config.torch_executed_modules,
                TorchNodes => &config.torch_executed_nodes,
                AcceleratedNodes => &config.accelerated_nodes,
                LeafModules => &config.leaf_modules,
            };
            texts.get(n).cloned()
        };
        let entry: EntryText<'_> = &entry;
        let fallback = |u: UnitId| {
            let Unit::Node(n) = p.view.unit(u) else { return None };
            let node = model.graph.node(n);
            Some(Fallback {
                node: model.graph.stable_id(n).to_owned(),
                op: node.op.to_string(),
                module: model.modules.module(node.module).path.to_string(),
                source: node.stack_trace.as_deref().and_then(trace::place),
                partition: p.partitions[p.partition_of[u.index()].index()].name(),
                step: p.rule[u.index()].step(),
                reason: p.reason_with(u, entry),
            })
        };
        p.fallbacks().into_iter().filter_map(fallback).collect()
    }

    fn preview(&self) -> Vec<NodeSupport> {
        let p = self.input.plan;
        let graph = &p.view.model.graph;
        let mut rows: Vec<NodeSupport> = Vec::new();
        /// Operator, dtype signature, verdict and reason.
        type Signature = (String, String, Verdict, Option<Arc<str>>);
        let mut seen: HashMap<Signature, usize> = HashMap::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            let types = |values: &[Option<ValueId>]| -> String {
                let name = |v: &Option<ValueId>| match v {
                    Some(v) => graph.value(*v).dtype.map_or_else(|| "?".to_owned(), |d| d.to_string()),
                    None => "-".to_owned(),
                };
                values.iter().map(name).collect::<Vec<_>>().join(", ")
            };
            let dtypes = match (types(&node.inputs), types(&node.outputs)) {
                (i, o) if i.is_empty() => format!("-> {o}"),
                (i, o) => format!("{i} -> {o}"),
            };
            let (support, reason) = match p.support.as_ref().and_then(|s| s.get(i)) {
                Some(Support::Unsupported(why)) => (Verdict::Unsupported, Some(why.clone())),
                Some(Support::Conditional(text)) => (Verdict::Conditional, Some(text.clone())),
                Some(Support::Supported) | None => (Verdict::Supported, None),
            };
            let op = node.op.to_string();
            let row = *seen.entry((op.clone(), dtypes.clone(), support, reason.clone())).or_insert_with(|| {
                rows.push(NodeSupport { op, dtypes, support, reason: reason.map(|r| r.to_string()), count: 0 });
                rows.len() - 1
            });
            rows[row].count += 1;
        }
        // Stable: equal rows stay in the order of the file.
        rows.sort_by_key(|r| (r.support, std::cmp::Reverse(r.count)));
        rows
    }

    fn sizes(&self) -> Vec<MinBlockSizeRow> {
        let p = self.input.plan;
        let row = |min_block_size: u32| {
            let mut options = self.input.options.clone();
            options.partitioner.min_block_size = min_block_size;
            let counts = plan(&p.view, self.input.marks, p.support.as_ref(), &options).counts();
            MinBlockSizeRow {
                min_block_size,
                accelerated: counts.accelerated,
                torch: counts.torch,
                accelerated_nodes: counts.accelerated_nodes,
            }
        };
        let mut sizes: Vec<u32> = SIZES.into_iter().chain([self.input.options.partitioner.min_block_size]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.into_iter().map(row).collect()
    }

    fn non_tensor_edges(&self) -> Vec<NonTensorEdge> {
        let view = &self.input.plan.view;
        let edge = |n: &crate::view::NonTensor| {
            let v = view.model.graph.value(n.value);
            NonTensorEdge {
                value: v.name.to_string(),
                kind: kind_name(v.ty).to_owned(),
                dtype: v.dtype,
                from: n.producer.map(|u| view.stable_id(u).to_owned()),
                to: n.consumers.iter().map(|&u| view.stable_id(u).to_owned()).collect(),
            }
        };
        view.facts.non_tensor.iter().map(edge).collect()
    }

    fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut all = self.input.diagnostics.to_vec();
        for problem in &self.input.plan.problems {
            if !all.contains(problem) {
                all.push(problem.clone());
            }
        }
        all
    }
}

/// By operations where all are known, else by bytes at the edges, else by the number of nodes.
fn bottleneck(partitions: &[PartitionInfo]) -> Option<Bottleneck> {
    if partitions.len() < 2 {
        return None;
    }
    type Weight = fn(&PartitionInfo) -> Option<u64>;
    let ways: [(&str, Weight); 3] =
        [("flops", |p| p.flops), ("bytes", |p| p.bytes_in?.checked_add(p.bytes_out?)), ("ops", |p| u64::try_from(p.ops).ok())];
    ways.into_iter().find_map(|(by, weight)| {
        let weights: Vec<u64> = partitions.iter().map(weight).collect::<Option<_>>()?;
        let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        let most = *weights.iter().max()?;
        if total == 0 {
            return None;
        }
        let heaviest = partitions.iter().zip(&weights).find(|(_, w)| **w == most)?.0;
        let percent = u32::try_from(u128::from(most) * 100 / total).unwrap_or(100);
        Some(Bottleneck { partition: heaviest.name.clone(), by: by.to_owned(), percent })
    })
}
