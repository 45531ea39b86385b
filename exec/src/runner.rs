//! Runs the partitions of a plan: prepared once, run many times.
//!
//! Engines run models in ONNX form. A torch model is lowered first, and everything that a session tells (times, errors,
//! outputs, dumped values) is about the nodes and values of the model that it was given.

mod source;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use recut_core::graph::{NodeId, ValueId, ValueKind};
use recut_core::model::Model;
use recut_core::partition::{PartitionId, Placement, Plan};

use crate::engine::{CancelToken, ExecContext, Merged, PrepareOptions, Prepared, RunError, Subgraph};
use crate::engines::Assignment;
use crate::inputs::Feeds;
use crate::io::Arrays;
use crate::io::weight::load_weight;
use crate::profile::{BoundaryRun, PartitionRun, Profile, Recorder, RunEvents, nanos};
use crate::tensor::Value;
use source::Source;

/// Nodes that run together.
#[derive(Clone, Debug)]
pub struct PartitionSpec {
    /// Name (`run_on_acc_0`).
    pub name: Arc<str>,
    /// What it is.
    pub kind: Placement,
    /// Its nodes, in topological order.
    pub nodes: Vec<NodeId>,
}

/// The partitions of a plan, in execution order.
#[must_use]
pub fn partitions_of(plan: &Plan) -> Vec<PartitionSpec> {
    let spec = |(i, p): (usize, &recut_core::partition::Partition)| PartitionSpec {
        name: p.name().into(),
        kind: p.kind,
        nodes: plan.nodes(PartitionId::new(i)),
    };
    plan.partitions.iter().enumerate().map(spec).collect()
}

/// The whole model as one partition.
#[must_use]
pub fn whole(model: &Model) -> Vec<PartitionSpec> {
    vec![PartitionSpec { name: "model".into(), kind: Placement::Accelerated, nodes: model.graph.node_ids().collect() }]
}

/// Whether partitions wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// One after the other: honest times.
    #[default]
    Sequential,
    /// Independent ones side by side: they slow each other down, and the times show it.
    Parallel,
}

/// How far a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A partition is being prepared.
    Preparing {
        /// Partitions that are ready.
        done: usize,
        /// All partitions.
        total: usize,
    },
    /// A run has come so far.
    Running {
        /// Number of the run, warm-up included, from 0.
        run: usize,
        /// All runs, warm-up included.
        runs: usize,
        /// Partitions that ran.
        done: usize,
        /// All partitions.
        total: usize,
    },
}

/// How to run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Runs that are not counted.
    pub warmup: usize,
    /// Runs that are; at least one is made.
    pub repeat: usize,
    /// Whether partitions wait for each other.
    pub schedule: Schedule,
    /// Longest time for all runs.
    pub timeout: Option<Duration>,
    /// Values to keep, of the last run.
    pub dump: HashSet<ValueId>,
}

impl Default for RunRequest {
    fn default() -> Self {
        Self { warmup: 0, repeat: 1, schedule: Schedule::Sequential, timeout: None, dump: HashSet::new() }
    }
}

/// What runs gave.
#[derive(Debug)]
pub struct RunOutcome {
    /// Name and value of every model output, of the last run.
    pub outputs: Vec<(String, Value)>,
    /// Values that were to be kept, by name.
    pub dumps: Arrays,
    /// Times.
    pub profile: Profile,
}

/// A partition that is ready to run.
pub struct SessionPartition {
    /// Its nodes.
    pub spec: PartitionSpec,
    /// The engine it runs on.
    pub assignment: Assignment,
    /// What it takes and gives.
    pub subgraph: Subgraph,
    prepared: Mutex<Box<dyn Prepared>>,
    /// Partitions that take what it gives.
    followers: Vec<usize>,
    /// Partitions whose values it takes.
    waits_for: usize,
}

/// A partitioned model that is ready to run, again and again.
pub struct Session {
    model: Arc<Model>,
    source: Source,
    context: Arc<ExecContext>,
    partitions: Vec<SessionPartition>,
    /// How often each boundary value is taken in one run, by partitions and as an output.
    uses: HashMap<ValueId, usize>,
}

/// Values on their way between partitions.
struct InFlight {
    values: HashMap<ValueId, (Value, usize)>,
    /// Bytes of those values.
    held: usize,
    waiting: Vec<usize>,
    events: RunEvents,
    dumped: Vec<(ValueId, Value)>,
    done: usize,
    failure: Option<RunError>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Prepares every partition. `assign` says which engine a partition runs on, and in which precision, whatever `options` say.
    ///
    /// # Errors
    /// If a partition cannot be prepared. Nodes without a kernel are listed for all partitions at once.
    pub fn new(
        model: Arc<Model>,
        specs: Vec<PartitionSpec>,
        context: Arc<ExecContext>,
        options: &PrepareOptions,
        mut assign: impl FnMut(&PartitionSpec) -> Assignment,
        cancel: &CancelToken,
        progress: &dyn Fn(Progress),
    ) -> Result<Self, RunError> {
        let source = Source::new(&model);
        let graph = &source.model.graph;
        let run_nodes: Vec<Vec<NodeId>> = specs.iter().map(|spec| source.run_nodes(&spec.nodes)).collect();
        let mut owner = vec![usize::MAX; graph.nodes().len()];
        for (p, nodes) in run_nodes.iter().enumerate() {
            for &n in nodes {
                owner[n.index()] = p;
            }
        }
        let keep = options.keep.iter().filter_map(|&v| source.run_value(v)).collect();
        let options = PrepareOptions { keep: Arc::new(keep), ..options.clone() };
        let is_output: HashSet<ValueId> = graph.outputs().iter().copied().collect();
        let mut uses: HashMap<ValueId, usize> = HashMap::new();
        for &v in graph.outputs() {
            *uses.entry(v).or_default() += 1;
        }
        let mut partitions: Vec<SessionPartition> = Vec::with_capacity(specs.len());
        let mut edges: Vec<(usize, usize)> = Vec::new();
        let mut missing: Vec<(String, String)> = Vec::new();
        let mut missing_in: Vec<(String, String)> = Vec::new();
        let total = specs.len();
        for (p, (spec, nodes)) in specs.into_iter().zip(run_nodes).enumerate() {
            if cancel.is_cancelled() {
                return Err(RunError::Cancelled);
            }
            progress(Progress::Preparing { done: p, total });
            let subgraph = subgraph(&source.model, &spec.name, nodes, &owner, p, &is_output);
            for &v in subgraph.inputs.iter() {
                *uses.entry(v).or_default() += 1;
                if let Some(from) = graph.producer(v).map(|n| owner[n.index()]) {
                    edges.push((from, p));
                }
            }
            let assignment = assign(&spec);
            let options = PrepareOptions { precision: assignment.precision.clone(), ..options.clone() };
            let prepared = match assignment.engine.prepare(&subgraph, &options) {
                Ok(prepared) => prepared,
                Err(RunError::MissingKernels { engine, partition, nodes }) => {
                    missing.extend(nodes);
                    missing_in.push((engine, partition));
                    continue;
                }
                Err(e) => return Err(e),
            };
            let prepared = Mutex::new(prepared);
            partitions.push(SessionPartition { spec, assignment, subgraph, prepared, followers: Vec::new(), waits_for: 0 });
        }
        if let Some((engine, partition)) = missing_in.first().cloned() {
            let others = missing_in.len() - 1;
            let partition = if others == 0 { partition } else { format!("{partition} and {others} other partitions") };
            return Err(RunError::MissingKernels { engine, partition, nodes: missing });
        }
        edges.sort_unstable();
        edges.dedup();
        for (from, to) in edges {
            if let Some(f) = partitions.get_mut(from) {
                f.followers.push(to);
                partitions[to].waits_for += 1;
            }
        }
        progress(Progress::Preparing { done: total, total });
        Ok(Self { model, source, context, partitions, uses })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The operators that run for a node of the main graph, where the model was lowered.
    #[must_use]
    pub fn lowered_to(&self, node: NodeId) -> Option<Vec<String>> {
        self.source.lowered_to(node)
    }

    /// Partitions, in execution order.
    #[must_use]
    pub fn partitions(&self) -> &[SessionPartition] {
        &self.partitions
    }

    /// Nodes that do not run by themselves, in all partitions.
    #[must_use]
    pub fn merged(&self) -> Vec<Merged> {
        let merged = self.partitions.iter().flat_map(|p| lock(&p.prepared).merged()).collect();
        self.source.merged(merged)
    }

    /// Number of compute threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.context.threads()
    }

    /// Runs with these inputs: warm-up first, then as often as asked.
    ///
    /// # Errors
    /// If a node fails, the time is over, or it is cancelled.
    pub fn run(
        &self,
        feeds: &Feeds,
        request: &RunRequest,
        cancel: &CancelToken,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RunOutcome, RunError> {
        let token = cancel.child();
        let timed_out = Arc::new(AtomicBool::new(false));
        let (_finished, finish) = channel::<()>();
        if let Some(limit) = request.timeout {
            let (token, timed_out) = (token.clone(), timed_out.clone());
            std::thread::spawn(move || {
                if finish.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    timed_out.store(true, Ordering::Relaxed);
                    token.cancel();
                }
            });
        }
        let current = AtomicUsize::new(0);
        // On the pool at once, and not anew for each of what may be thousands of partitions.
        let result = self.context.install(|| self.run_all(feeds, request, &token, progress, &current));
        match result {
            Err(RunError::Cancelled) if timed_out.load(Ordering::Relaxed) && !cancel.is_cancelled() => {
                let partition = self.partitions.get(current.load(Ordering::Relaxed)).map_or("the model", |p| &*p.spec.name).to_owned();
                Err(RunError::TimedOut { partition, seconds: request.timeout.unwrap_or_default().as_secs_f64() })
            }
            other => other,
        }
    }

    fn run_all(
        &self,
        feeds: &Feeds,
        request: &RunRequest,
        cancel: &CancelToken,
        progress: &(dyn Fn(Progress) + Sync),
        current: &AtomicUsize,
    ) -> Result<RunOutcome, RunError> {
        let counted = request.repeat.max(1);
        let runs = request.warmup.saturating_add(counted);
        let mut events = Vec::new();
        let (mut outputs, mut dumped): (Vec<Value>, Vec<(ValueId, Value)>) = (Vec::new(), Vec::new());
        let nothing = HashSet::new();
        for run in 0..runs {
            let last = run + 1 == runs;
            let wanted = if last { &request.dump } else { &nothing };
            // The values of the run before are not needed any more, and would count as memory in use.
            self.context.recycle(outputs.drain(..));
            let report = |done: usize| progress(Progress::Running { run, runs, done, total: self.partitions.len() });
            let (made, run_events, values) = self.run_once(feeds, request.schedule, wanted, cancel, &report, current)?;
            (outputs, dumped) = (made, values);
            if run >= request.warmup {
                events.push(run_events);
            }
        }
        let graph = &self.model.graph;
        let names = graph.outputs().iter().map(|&v| graph.value(v).name.to_string());
        // Two values of the user's model may be one here, and both were asked for.
        let by_value: HashMap<ValueId, Value> = dumped.into_iter().collect();
        let dumps = graph.values().iter().enumerate().map(|(i, v)| (ValueId::new(i), v)).filter(|(v, _)| request.dump.contains(v));
        let dumps = dumps.filter_map(|(v, value)| {
            let t = by_value.get(&self.source.run_value(v)?)?.as_tensor()?;
            Some((value.name.to_string(), t.clone()))
        });
        Ok(RunOutcome {
            outputs: names.zip(outputs).collect(),
            dumps: dumps.collect(),
            profile: Profile::of(events, self.partitions.len()),
        })
    }

    #[expect(clippy::type_complexity, reason = "private, and taken apart at once")]
    fn run_once(
        &self,
        feeds: &Feeds,
        schedule: Schedule,
        wanted: &HashSet<ValueId>,
        cancel: &CancelToken,
        report: &(dyn Fn(usize) + Sync),
        current: &AtomicUsize,
    ) -> Result<(Vec<Value>, RunEvents, Vec<(ValueId, Value)>), RunError> {
        let base = Instant::now();
        let run_value = |v: ValueId| self.source.run_value(v);
        let wanted: &HashSet<ValueId> = &wanted.iter().filter_map(|&v| run_value(v)).collect();
        let fed = feeds.iter().filter_map(|(v, x)| {
            let v = run_value(*v)?;
            Some((v, (x.clone(), *self.uses.get(&v)?)))
        });
        let values: HashMap<_, _> = fed.collect();
        let state = Mutex::new(InFlight {
            held: values.values().map(|(x, _)| x.byte_len()).sum(),
            values,
            waiting: self.partitions.iter().map(|p| p.waits_for).collect(),
            events: RunEvents::default(),
            dumped: feeds.iter().filter_map(|(v, x)| Some((run_value(*v)?, x.clone()))).filter(|(v, _)| wanted.contains(v)).collect(),
            done: 0,
            failure: None,
        });
        match schedule {
            Schedule::Sequential => {
                for i in 0..self.partitions.len() {
                    current.store(i, Ordering::Relaxed);
                    self.run_partition(i, &state, base, wanted, cancel)?;
                    report(i + 1);
                }
            }
            Schedule::Parallel => {
                let ready: Vec<usize> = (0..self.partitions.len()).filter(|&i| self.partitions[i].waits_for == 0).collect();
                let side_by_side = SideBySide { session: self, state: &state, base, wanted, cancel, report, current };
                self.context.install(|| rayon::scope(|scope| ready.into_iter().for_each(|i| side_by_side.spawn(scope, i))));
            }
        }
        let mut state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(e) = state.failure {
            return Err(e);
        }
        let mut outputs = Vec::new();
        for &v in self.source.model.graph.outputs() {
            outputs.push(self.output(v, &state.values)?);
        }
        state.events.wall_ns = nanos(base.elapsed());
        self.source.translate(&mut state.events, self.partitions.iter().map(|p| &*p.spec.nodes));
        Ok((outputs, state.events, state.dumped))
    }

    fn output(&self, v: ValueId, values: &HashMap<ValueId, (Value, usize)>) -> Result<Value, RunError> {
        let value = self.source.model.graph.value(v);
        if let Some((x, _)) = values.get(&v) {
            return Ok(x.clone());
        }
        let fail = |message: String| RunError::Weight { partition: "the outputs".to_owned(), value: value.name.to_string(), message };
        match &value.kind {
            ValueKind::Initializer(w) | ValueKind::Input { default: Some(w) } => {
                load_weight(w).map(Value::Tensor).map_err(|e| fail(e.to_string()))
            }
            _ => Err(fail("nothing gave it".to_owned())),
        }
    }

    /// Hands a partition its inputs, runs it and keeps what it gives.
    fn run_partition(
        &self,
        i: usize,
        state: &Mutex<InFlight>,
        base: Instant,
        wanted: &HashSet<ValueId>,
        cancel: &CancelToken,
    ) -> Result<(), RunError> {
        let p = &self.partitions[i];
        let graph = &self.source.model.graph;
        let mut inputs = Vec::with_capacity(p.subgraph.inputs.len());
        let held = {
            let mut state = lock(state);
            for &v in p.subgraph.inputs.iter() {
                let start = Instant::now();
                let Some(entry) = state.values.get_mut(&v) else {
                    let message = "it has no value: feed it, or let it be generated".to_owned();
                    return Err(RunError::Input { input: format!("`{}`", graph.value(v).name), message });
                };
                // Engines of this process share tensors; the last one to take a value gets it alone, to write over.
                entry.1 -= 1;
                let taken = entry.1 == 0;
                let x = if taken { state.values.remove(&v).map(|e| e.0) } else { Some(entry.0.clone()) };
                let Some(x) = x else { continue };
                if taken {
                    state.held = state.held.saturating_sub(x.byte_len());
                }
                let boundary = BoundaryRun { value: v, to: i, bytes: x.byte_len() as u64, duration_ns: nanos(start.elapsed()) };
                if graph.producer(v).is_some() {
                    state.events.boundaries.push(boundary);
                }
                inputs.push(x);
            }
            state.held
        };
        let mut recorder = Recorder::new(base, p.subgraph.nodes.len(), wanted.clone());
        let start = Instant::now();
        let outputs = lock(&p.prepared).run(inputs, &mut recorder, cancel)?;
        let duration_ns = nanos(start.elapsed());
        let mut state = lock(state);
        let start_ns = nanos(start.saturating_duration_since(base));
        state.events.partitions.push(PartitionRun { partition: i, start_ns, duration_ns });
        state.events.nodes.extend(recorder.events.iter().map(|&e| (i, e)));
        state.events.peak_bytes = state.events.peak_bytes.max((held + recorder.peak_bytes) as u64);
        state.dumped.append(&mut recorder.values);
        for (&v, x) in p.subgraph.outputs.iter().zip(outputs) {
            if let Some(&uses) = self.uses.get(&v) {
                state.held += x.byte_len();
                state.values.insert(v, (x, uses));
            }
        }
        state.done += 1;
        Ok(())
    }
}

/// The parallel schedule of one run.
struct SideBySide<'s> {
    session: &'s Session,
    state: &'s Mutex<InFlight>,
    base: Instant,
    wanted: &'s HashSet<ValueId>,
    cancel: &'s CancelToken,
    report: &'s (dyn Fn(usize) + Sync),
    current: &'s AtomicUsize,
}

impl<'s> SideBySide<'s> {
    fn spawn<'scope>(&'scope self, scope: &rayon::Scope<'scope>, i: usize)
    where
        's: 'scope,
    {
        scope.spawn(move |scope| {
            if lock(self.state).failure.is_some() {
                return;
            }
            self.current.store(i, Ordering::Relaxed);
            match self.session.run_partition(i, self.state, self.base, self.wanted, self.cancel) {
                Ok(()) => {}
                Err(e) => {
                    lock(self.state).failure.get_or_insert(e);
                    return;
                }
            }
            let mut ready = Vec::new();
            let done = {
                let mut state = lock(self.state);
                for &f in &self.session.partitions[i].followers {
                    state.waiting[f] -= 1;
                    if state.waiting[f] == 0 {
                        ready.push(f);
                    }
                }
                state.done
            };
            (self.report)(done);
            ready.into_iter().for_each(|f| self.spawn(scope, f));
        });
    }
}

fn subgraph(model: &Arc<Model>, name: &Arc<str>, nodes: Vec<NodeId>, owner: &[usize], p: usize, is_output: &HashSet<ValueId>) -> Subgraph {
    let graph = &model.graph;
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for &n in &nodes {
        let node = graph.node(n);
        for v in node.reads() {
            let outside = match graph.value(v).kind {
                ValueKind::Output { node, .. } => owner[node.index()] != p,
                ValueKind::Input { .. } => true,
                ValueKind::Initializer(_) | ValueKind::Captured { .. } => false,
            };
            if outside && seen.insert(v) {
                inputs.push(v);
            }
        }
        for &v in node.outputs.iter().flatten() {
            if is_output.contains(&v) || graph.consumers(v).iter().any(|c| owner[c.index()] != p) {
                outputs.push(v);
            }
        }
    }
    Subgraph { name: name.clone(), model: model.clone(), nodes: nodes.into(), inputs: inputs.into(), outputs: outputs.into() }
}

#[cfg(test)]
mod tests;
