//! The run report: what `--json` prints after a run, and what the app shows.

use std::collections::HashMap;

use recut_core::config::PartitionConfig;
use recut_core::diagnostic::Diagnostic;
use recut_core::expr::Bindings;
use recut_core::graph::ValueId;
use recut_core::infer::cost::node_cost;
use recut_core::model::{Format, Model};
use recut_core::partition::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::compare::Comparison;
use crate::engine::{MergedInto, NodeRef};
use crate::engines::Engines;
use crate::generate::Generated;
use crate::inputs::MatchNote;
use crate::names::NodeNames;
use crate::profile::{NodeProfile, Stats};
use crate::runner::{RunOutcome, Schedule, Session, SessionPartition};
use crate::tensor::Value;

/// Name of the schema.
pub const RUN_SCHEMA: &str = "recut.run/1";

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// `recut.run/1`.
    pub schema: String,
    /// The model.
    pub model: ModelReport,
    /// The config it was partitioned by.
    pub config: Option<PartitionConfig>,
    /// Where it ran.
    pub environment: Environment,
    /// Where the inputs are from.
    pub inputs: Vec<InputReport>,
    /// Sizes of symbolic dimensions.
    pub dims: Bindings,
    /// How it was run.
    pub schedule: String,
    /// Counted runs.
    pub repeat: u64,
    /// Runs before them.
    pub warmup: u64,
    /// Partitions, in execution order.
    pub partitions: Vec<PartitionReport>,
    /// Nodes, in the order in which they first ran.
    pub nodes: Vec<NodeReport>,
    /// Tensors that cross from partition to partition.
    pub boundaries: Vec<BoundaryReport>,
    /// Sums.
    pub totals: TotalsReport,
    /// Model outputs.
    pub outputs: Vec<OutputReport>,
    /// Comparison with what was expected.
    pub expect: Vec<ExpectReport>,
    /// What was noticed.
    pub diagnostics: Vec<Diagnostic>,
}

/// The model of a report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelReport {
    /// The file.
    pub path: String,
    /// Its format.
    pub format: Format,
    /// Nodes of the main graph.
    pub nodes: u64,
}

/// Where a run took place.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of recut.
    pub version: String,
    /// The processor, as the system names it.
    pub cpu: String,
    /// Compute threads.
    pub threads: u64,
    /// Engines that are found.
    pub engines: Vec<EngineReport>,
}

/// An engine that is found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EngineReport {
    /// Its name.
    pub name: String,
    /// Version of the library behind it.
    pub version: String,
    /// Precisions it computes in.
    pub precisions: Vec<String>,
}

/// A model input.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// The array it was matched to; `null` where it was generated or is a default of the file.
    pub array: Option<String>,
    /// How it was generated.
    pub generated: Option<String>,
}

/// Times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// The median.
    pub median_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl From<Stats> for Times {
    fn from(s: Stats) -> Self {
        Self { median_ns: s.median_ns, min_ns: s.min_ns, mean_ns: s.mean_ns, max_ns: s.max_ns }
    }
}

/// A partition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartitionReport {
    /// Its name.
    pub name: String,
    /// Where the plan wanted it.
    pub kind: Placement,
    /// The engine it ran on.
    pub engine: String,
    /// That another engine was meant.
    pub note: Option<String>,
    /// Precision.
    pub precision: String,
    /// Stable ids of its nodes.
    pub nodes: Vec<String>,
    /// Names of the values it takes.
    pub inputs: Vec<String>,
    /// Names of the values it gives.
    pub outputs: Vec<String>,
    /// Its times, boundary copies excluded.
    pub times: Times,
    /// Sum of its nodes' times, the median over runs.
    pub sum_of_nodes_ns: u64,
}

/// A node that ran.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Stable id; inside a body after that of the control-flow node and a slash.
    pub id: String,
    /// Its name, may be empty.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Path of the module that owns it.
    pub module: String,
    /// Its partition.
    pub partition: String,
    /// Stable id of the control-flow node that it is inside of; its time is part of that one's.
    pub inside: Option<String>,
    /// Counted calls, of all runs.
    pub calls: u64,
    /// Times of a call; `null` where it has none of its own.
    pub median_ns: Option<u64>,
    /// The shortest.
    pub min_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Share of all nodes' time; of a node inside control flow, too.
    pub percent: Option<f64>,
    /// Bytes of its outputs.
    pub bytes: u64,
    /// Floating-point operations of a call, where the shapes tell.
    pub flops: Option<u64>,
    /// The node that holds its time: both run in one group.
    pub fused_into: Option<String>,
    /// ONNX operators that ran for it, where the model is of another kind; none where nothing was left to compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowered_to: Option<Vec<String>>,
    /// Nanoseconds that computing it took while preparing, where all it reads is constant; it takes none in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded_ns: Option<u64>,
}

/// A tensor that crosses.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BoundaryReport {
    /// Name of the value.
    pub tensor: String,
    /// The partition that makes it.
    pub from: String,
    /// The partition that takes it.
    pub to: String,
    /// Its size.
    pub bytes: u64,
    /// What handing it over took.
    pub time_ns: u64,
}

/// Sums: medians over runs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TotalsReport {
    /// From the first input to the last output.
    pub end_to_end: Times,
    /// All nodes.
    pub sum_of_nodes_ns: u64,
    /// What nodes and boundaries do not account for.
    pub gap_ns: u64,
    /// What the gap consists of, in words.
    pub gap_reason: String,
    /// Handing tensors over.
    pub boundary_ns: u64,
    /// Most bytes of values that were live at once, weights excluded.
    pub peak_bytes: u64,
}

/// A model output.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputReport {
    /// Its name.
    pub name: String,
    /// Sizes; `null` where it is no tensor.
    pub shape: Option<Vec<u64>>,
    /// Element type; `null` where it is no tensor.
    pub dtype: Option<String>,
    /// Hash of the elements in memory form, little-endian; `null` where it is no tensor.
    pub sha256: Option<String>,
}

/// An output compared with what was expected.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExpectReport {
    /// Name of the output.
    pub name: String,
    /// Name of the array it was compared with.
    pub array: String,
    /// Largest absolute difference; `null` where it is infinite or types or shapes differ.
    pub max_abs: Option<f64>,
    /// Largest relative difference.
    pub max_rel: Option<f64>,
    /// Signal to quantization noise, in decibels; `null` where nothing differs.
    pub sqnr_db: Option<f64>,
    /// Whether it is within the tolerance.
    pub ok: bool,
    /// Why not, in words.
    pub message: String,
}

/// What a report is made from.
pub struct RunFacts<'a> {
    /// The session.
    pub session: &'a Session,
    /// Engines that are found.
    pub engines: &'a Engines,
    /// What the runs gave.
    pub outcome: &'a RunOutcome,
    /// The config it was partitioned by.
    pub config: Option<&'a PartitionConfig>,
    /// Sizes of symbolic dimensions.
    pub dims: &'a Bindings,
    /// What was fed.
    pub matched: &'a [MatchNote],
    /// What was generated.
    pub generated: &'a [Generated],
    /// Comparisons with what was expected.
    pub expect: &'a [(MatchNote, Comparison)],
    /// How it was scheduled.
    pub schedule: Schedule,
    /// Counted runs.
    pub repeat: usize,
    /// Runs before them.
    pub warmup: usize,
    /// What was noticed.
    pub diagnostics: Vec<Diagnostic>,
}

impl RunReport {
    /// Puts a report together.
    #[must_use]
    pub fn new(facts: RunFacts<'_>) -> Self {
        let (session, outcome) = (facts.session, facts.outcome);
        let model = session.model();
        let graph = &model.graph;
        let profile = &outcome.profile;
        let value_name = |v: ValueId| graph.value(v).name.to_string();
        let partition_name = |i: usize| session.partitions().get(i).map_or_else(String::new, |p| p.spec.name.to_string());
        let partitions = session.partitions().iter().enumerate().map(|(i, p)| {
            let times = profile.partitions.get(i).copied().unwrap_or_default();
            PartitionReport {
                name: p.spec.name.to_string(),
                kind: p.spec.kind,
                engine: p.assignment.engine.name().to_owned(),
                note: p.assignment.note.clone(),
                precision: p.assignment.precision.clone(),
                nodes: p.spec.nodes.iter().map(|&n| graph.stable_id(n).to_owned()).collect(),
                inputs: boundary_names(p, &p.subgraph.inputs),
                outputs: boundary_names(p, &p.subgraph.outputs),
                times: times.stats.into(),
                sum_of_nodes_ns: times.sum_of_nodes_ns,
            }
        });
        let owner = owners(session);
        let boundaries = profile.boundaries.iter().map(|b| BoundaryReport {
            tensor: value_name(b.value),
            from: graph.producer(b.value).and_then(|n| owner.get(n.index())).map_or_else(String::new, |&p| partition_name(p)),
            to: partition_name(b.to),
            bytes: b.bytes,
            time_ns: b.stats.median_ns,
        });
        Self {
            schema: RUN_SCHEMA.to_owned(),
            model: ModelReport { path: model.path.display().to_string(), format: model.format, nodes: graph.nodes().len() as u64 },
            config: facts.config.cloned(),
            environment: environment(session.threads(), facts.engines),
            inputs: inputs(&facts),
            dims: facts.dims.clone(),
            schedule: if facts.schedule == Schedule::Parallel { "parallel" } else { "sequential" }.to_owned(),
            repeat: facts.repeat as u64,
            warmup: facts.warmup as u64,
            partitions: partitions.collect(),
            nodes: nodes(session, &profile.nodes, facts.dims, &partition_name),
            boundaries: boundaries.collect(),
            totals: TotalsReport {
                end_to_end: profile.totals.end_to_end.into(),
                sum_of_nodes_ns: profile.totals.sum_of_nodes_ns,
                gap_ns: profile.totals.gap_ns,
                gap_reason: gap_reason(session, facts.schedule),
                boundary_ns: profile.totals.boundary_ns,
                peak_bytes: profile.totals.peak_bytes,
            },
            outputs: outcome.outputs.iter().map(|(name, v)| output(name, v)).collect(),
            expect: facts.expect.iter().map(|(note, c)| expectation(note, c)).collect(),
            diagnostics: facts.diagnostics,
        }
    }
}

/// Names of values that a partition takes or gives; lowering keeps them.
fn boundary_names(p: &SessionPartition, values: &[ValueId]) -> Vec<String> {
    values.iter().map(|&v| p.subgraph.model.graph.value(v).name.to_string()).collect()
}

fn owners(session: &Session) -> Vec<usize> {
    let mut owner = vec![usize::MAX; session.model().graph.nodes().len()];
    for (i, p) in session.partitions().iter().enumerate() {
        for n in &p.spec.nodes {
            owner[n.index()] = i;
        }
    }
    owner
}

fn inputs(facts: &RunFacts<'_>) -> Vec<InputReport> {
    let graph = &facts.session.model().graph;
    crate::inputs::model_inputs(facts.session.model())
        .map(|v| {
            let name = graph.value(v).name.to_string();
            let array = facts.matched.iter().find(|n| n.value == name).map(|n| n.array.clone());
            let generated = facts.generated.iter().find(|g| g.input == name).map(|g| g.how.clone());
            InputReport { name, array, generated }
        })
        .collect()
}

fn gap_reason(session: &Session, schedule: Schedule) -> String {
    let blind: Vec<String> = session
        .partitions()
        .iter()
        .filter(|p| !p.assignment.engine.capabilities().per_node_times)
        .map(|p| format!("{} on {}", p.spec.name, p.assignment.engine.name()))
        .collect();
    if schedule == Schedule::Parallel {
        return "partitions overlapped, so that node times add up to more than the run took".to_owned();
    }
    if blind.is_empty() {
        return "bookkeeping between nodes and partitions, and preparation for new shapes".to_owned();
    }
    format!("partitions whose engine gives no node times ({}), and bookkeeping between partitions", blind.join(", "))
}

fn nodes(session: &Session, profiles: &[NodeProfile], dims: &Bindings, partition: &dyn Fn(usize) -> String) -> Vec<NodeReport> {
    let model: &Model = session.model();
    let merged: HashMap<NodeRef, MergedInto> = session.merged().into_iter().map(|m| (m.node, m.into)).collect();
    // Medians, so that one slow call does not make a node look hot.
    let typical = |n: &NodeProfile| n.stats.median_ns as f64 * n.stats.count as f64;
    let all: f64 = profiles.iter().filter(|n| n.node.inner == u32::MAX).map(typical).sum();
    let mut names = NodeNames::new(model);
    profiles
        .iter()
        .map(|p| {
            let main = p.node.inner == u32::MAX;
            let owner = model.graph.node(p.node.node);
            let (fused_into, folded_ns) = match merged.get(&p.node) {
                Some(MergedInto::Group(anchor)) => (Some(names.id(*anchor)), None),
                Some(MergedInto::Constant { prepare_ns }) => (None, Some(*prepare_ns)),
                None => (None, None),
            };
            // The time of a group is all at its anchor.
            let own = fused_into.is_none();
            let (graph, id) = names.node(p.node);
            let node = graph.node(id);
            let flops = if main { node_cost(model, id).flops } else { recut_core::infer::cost::cost(graph, id).flops };
            NodeReport {
                id: names.id(p.node),
                name: node.name.to_string(),
                op: node.op.to_string(),
                module: model.modules.module(if main { node.module } else { owner.module }).path.to_string(),
                partition: partition(p.partition),
                inside: (!main).then(|| names.id(NodeRef { inner: u32::MAX, ..p.node })),
                calls: p.stats.count,
                median_ns: own.then_some(p.stats.median_ns),
                min_ns: own.then_some(p.stats.min_ns),
                mean_ns: own.then_some(p.stats.mean_ns),
                max_ns: own.then_some(p.stats.max_ns),
                percent: (own && all > 0.0).then(|| typical(p) * 100.0 / all),
                bytes: p.bytes,
                flops: flops.and_then(|f| f.eval(dims)).and_then(|n| u64::try_from(n).ok()),
                fused_into,
                lowered_to: (main).then(|| session.lowered_to(id)).flatten(),
                folded_ns,
            }
        })
        .collect()
}

fn output(name: &str, v: &Value) -> OutputReport {
    let t = v.as_tensor();
    let hash = t.map(|t| {
        let mut hasher = Sha256::new();
        match t.as_strings() {
            Some(strings) => strings.iter().for_each(|s| {
                hasher.update((s.len() as u64).to_le_bytes());
                hasher.update(s);
            }),
            None => hasher.update(t.bytes()),
        }
        hasher.finalize().iter().map(|b| format!("{b:02x}")).collect()
    });
    OutputReport {
        name: name.to_owned(),
        shape: t.map(|t| t.dims().iter().map(|&d| d as u64).collect()),
        dtype: t.map(|t| t.dtype().to_string()),
        sha256: hash,
    }
}

fn expectation(note: &MatchNote, c: &Comparison) -> ExpectReport {
    let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
    ExpectReport {
        name: note.value.clone(),
        array: note.array.clone(),
        max_abs: finite(c.max_abs),
        max_rel: finite(c.max_rel),
        sqnr_db: finite(c.sqnr_db),
        ok: c.ok,
        message: c.message.clone(),
    }
}

/// The machine and what is found on it.
#[must_use]
pub fn environment(threads: usize, engines: &Engines) -> Environment {
    let found = engines.found().into_iter().map(|e| {
        let c = e.capabilities();
        EngineReport { name: e.name().to_owned(), version: c.version, precisions: c.precisions }
    });
    let engines = found.collect();
    Environment { version: env!("CARGO_PKG_VERSION").to_owned(), cpu: cpu_name(), threads: threads as u64, engines }
}

/// Name of the processor; its architecture where the system does not tell.
fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, n)| n.trim().to_owned()));
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
