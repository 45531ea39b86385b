//! Reader of ONNX files.
//!
//! `read_buf` feeds the decoder with windows of the file, `decode` gives the messages of `proto`, `build` turns
//! names into values (`nodes`, `calls` for functions), `tensors` and `external` say where
//! weights lie, `hierarchy` finds the modules.

mod build;
mod calls;
mod decode;
mod external;
mod functions;
mod hierarchy;
mod names;
mod nodes;
mod opsets;
mod proto;
mod read_buf;
mod scopes;
mod tensor_proto;
mod tensors;
#[cfg(test)]
mod tests;
mod torchscript;
mod types;

use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::import::{ImportError, ImportErrorKind, Imported};
use crate::model::{Format, Model};
use crate::modules::ModuleId;

use crate::import::reports::Reports;
use build::Builder;
pub(super) use read_buf::FileBuf;

/// Reads a model from a file that was opened, and of which nothing was taken yet.
pub(super) fn read(path: &Path, buf: FileBuf) -> Result<Imported, ImportError> {
    let (model, stat) = decode::decode(path, buf)?;
    let Some(graph) = &model.graph else {
        let why = if model.ir_version.is_some() || !model.opset_import.is_empty() {
            "the ONNX model has no graph"
        } else {
            "this is not an ONNX model: it has neither a version nor a graph"
        };
        return Err(ImportError::new(path, ImportErrorKind::NotAModel, why));
    };
    let file = Arc::new(stat);
    let mut reports = Reports::default();
    let opsets = opsets::imported(&model, &mut reports);
    let mut builder = Builder::new(path, file.clone(), &model, &opsets, reports);
    let (main, _) = builder.graph(graph, None, ModuleId::ROOT, "the main graph")?;
    let modules = builder.hierarchy.tree.finish(main.nodes().iter().map(|n| n.module));
    let diagnostics: Vec<Diagnostic> = builder.reports.finish();
    let lossy = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let producer = [lossy(&model.producer_name), lossy(&model.producer_version)].join(" ").trim().to_owned();
    Ok(Imported {
        model: Model {
            format: Format::Onnx,
            path: path.to_owned(),
            file,
            graph: main,
            modules,
            program: None,
            symbols: indexmap::IndexMap::new(),
            lowering: None,
            stored_nodes: graph.node.len(),
            ir_version: model.ir_version,
            opsets: opsets.clone(),
            producer,
            metadata: model.metadata_props.iter().map(|p| (lossy(&p.key), lossy(&p.value))).collect(),
            columns: Vec::new(),
        },
        diagnostics,
    })
}
