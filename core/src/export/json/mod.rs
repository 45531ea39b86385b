//! Writing a model as a recut graph file, the format that [`crate::import::json`] reads.
//!
//! Weights stay where they are: the file refers to them if they lie in its own folder or below it, which is as far as
//! a graph may point when it is opened. Small ones that lie elsewhere are copied into it; larger ones are left out, and
//! the [`Summary`] tells how many.

mod attrs;
mod layout;
mod level;
mod tensors;

use std::io::{self, Write};
use std::path::Path;

use crate::columns::ColumnData;
use crate::graph::Dialect;
use crate::import::json::schema::{self, FORMAT, GraphFile, Map, VERSION};
use crate::model::Model;

use level::Writer;
use tensors::Tensors;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tensors whose data the file refers to.
    pub referred: usize,
    /// Tensors whose data is in the file.
    pub inside: usize,
    /// Tensors with data that is neither.
    pub left_out: usize,
    /// Bytes of those.
    pub left_out_bytes: u64,
}

/// Writes `model` as it was imported. `folder` is where the file will be: what is stored there is referred to.
///
/// # Errors
/// What writing says; [`io::ErrorKind::InvalidData`] for graphs inside each other that are too deep to be read again.
pub fn write(model: &Model, folder: &Path, out: &mut impl Write) -> io::Result<Summary> {
    let mut writer = Writer::new(main_dialect(model), Tensors::new(folder));
    let file = file(model, &mut writer);
    layout::write(&file, out)?;
    Ok(writer.tensors.summary)
}

/// The dialect of most nodes: the others name theirs.
fn main_dialect(model: &Model) -> Dialect {
    let nodes = model.graph.nodes();
    let count = |d: Dialect| nodes.iter().filter(|n| n.op.dialect == d).count();
    let all = [Dialect::Onnx, Dialect::Aten, Dialect::Json];
    all.into_iter().rev().max_by_key(|d| count(*d)).unwrap_or(Dialect::Onnx)
}

fn file<'m>(model: &'m Model, writer: &mut Writer<'m>) -> GraphFile {
    let main = writer.main(model);
    let graph = &model.graph;
    let columns = model.columns.iter().map(|c| {
        let ids = || graph.node_ids().map(|n| graph.stable_id(n).to_owned());
        let (kind, values) = match &c.data {
            ColumnData::Numbers(v) => {
                let number = |x: &Option<f64>| x.and_then(serde_json::Number::from_f64).map(serde_json::Value::Number);
                (schema::ColumnKind::Number, ids().zip(v).filter_map(|(id, x)| Some((id, number(x)?))).collect())
            }
            ColumnData::Texts(v) => {
                let text = |t: &Option<std::sync::Arc<str>>| t.as_deref().map(serde_json::Value::from);
                (schema::ColumnKind::Text, ids().zip(v).filter_map(|(id, t)| Some((id, text(t)?))).collect())
            }
        };
        (c.name.clone(), schema::Column { unit: c.unit.clone(), kind: Some(kind), values: Map(values) })
    });
    let modules = model.modules.modules().iter().filter(|m| m.depth > 0 || m.class.is_some()).map(|m| {
        let around = &model.modules.module(m.parent).path;
        let class = m.class.as_ref().map(ToString::to_string);
        let told = m.depth == 0 || **around == *m.path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let module = if told { schema::Module::Class(class) } else { schema::Module::Inside { parent: around.to_string(), class } };
        (m.path.to_string(), module)
    });
    GraphFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: graph.name().to_owned(),
        producer: model.producer.clone(),
        dialect: Some(writer.dialect),
        opsets: (!model.opsets.is_empty() || writer.dialect == Dialect::Onnx)
            .then(|| Map(model.opsets.iter().map(|(d, v)| (d.clone(), *v)).collect())),
        ir_version: model.ir_version,
        program: model.program.clone(),
        stored_nodes: (model.stored_nodes != graph.nodes().len()).then_some(model.stored_nodes),
        metadata: Map(model.metadata.iter().cloned().collect()),
        symbols: Map(model.symbols.iter().map(|(name, s)| (name.clone(), *s)).collect()),
        inputs: main.inputs,
        outputs: main.outputs,
        nodes: main.nodes,
        values: main.values,
        initializers: main.initializers,
        modules: Map(modules.collect()),
        files: Map(writer.tensors.files()),
        columns: Map(columns.collect()),
    }
}
