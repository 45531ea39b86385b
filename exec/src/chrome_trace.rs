//! Traces that Chrome and Perfetto show: the Trace Event Format, one complete event a node.

use std::io::{self, Write};

use recut_core::model::Model;
use serde_json::json;

use crate::names::NodeNames;
use crate::profile::RunEvents;

/// Writes the events of a run. `partitions` are the names of the session's partitions, each a row of its own, in order.
///
/// # Errors
/// What the writer says.
pub fn write_trace(to: &mut dyn Write, model: &Model, run: &RunEvents, partitions: &[String]) -> io::Result<()> {
    let micros = |ns: u64| ns as f64 / 1000.0;
    to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let name = json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": model.path.file_name().map(|n| n.to_string_lossy())}});
    serde_json::to_writer(&mut *to, &name)?;
    let mut event = |e: serde_json::Value| -> io::Result<()> {
        to.write_all(b",\n")?;
        Ok(serde_json::to_writer(&mut *to, &e)?)
    };
    for (i, name) in partitions.iter().enumerate() {
        event(json!({"ph": "M", "pid": 1, "tid": i + 1, "name": "thread_name", "args": {"name": name}}))?;
    }
    for p in &run.partitions {
        let name = partitions.get(p.partition).map_or("partition", String::as_str);
        event(json!({"ph": "X", "pid": 1, "tid": p.partition + 1, "name": name, "cat": "partition",
            "ts": micros(p.start_ns), "dur": micros(p.duration_ns)}))?;
    }
    let mut names = NodeNames::new(model);
    for (p, e) in &run.nodes {
        let (id, op) = (names.id(e.node), names.op(e.node));
        event(json!({"ph": "X", "pid": 1, "tid": p + 1, "name": id, "cat": op,
            "ts": micros(e.start_ns), "dur": micros(e.duration_ns), "args": {"op": op, "bytes": e.bytes}}))?;
    }
    to.write_all(b"\n]}\n")
}
