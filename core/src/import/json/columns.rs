//! Data columns from their JSON form.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Fault;
use super::schema::{self, ColumnKind, Map};
use crate::columns::{Column, ColumnData};
use crate::diagnostic::{Diagnostic, printable};
use crate::graph::{Graph, NodeId};
use crate::import::reports::Reports;

/// Most columns, and most entries of all columns with those that are empty.
const MAX_COLUMNS: usize = 1000;
const MAX_ENTRIES: usize = 1 << 26;

pub(super) fn read(columns: &Map<schema::Column>, graph: &Graph, reports: &mut Reports) -> Result<Vec<Column>, Fault> {
    if columns.0.is_empty() {
        return Ok(Vec::new());
    }
    if columns.0.len() > MAX_COLUMNS || columns.0.len().saturating_mul(graph.nodes().len()) > MAX_ENTRIES {
        let (n, nodes) = (columns.0.len(), graph.nodes().len());
        return Err(Fault::too_large(format!(
            "{n} columns of {nodes} nodes are too many: there may be {MAX_COLUMNS} columns, and {MAX_ENTRIES} entries in all"
        )));
    }
    let ids = graph.stable_id_map();
    columns.0.iter().map(|(name, c)| column(name, c, &ids, graph.nodes().len(), reports)).collect()
}

fn column(name: &str, c: &schema::Column, ids: &HashMap<&str, NodeId>, nodes: usize, reports: &mut Reports) -> Result<Column, Fault> {
    let is_number = |v: &Value| matches!(v, Value::Number(_) | Value::Null);
    let numbers = match c.kind {
        Some(kind) => kind == ColumnKind::Number,
        None => c.values.0.values().all(is_number),
    };
    let place = |id: &str| format!("columns.{}.values.{}", printable(name), printable(id));
    let (mut missing, mut first_missing) = (0usize, None);
    let mut find = |id: &'_ str| {
        let found = ids.get(id).map(|n| n.index());
        missing += usize::from(found.is_none());
        found
    };
    let data = if numbers {
        let mut entries: Box<[Option<f64>]> = vec![None; nodes].into();
        for (id, v) in &c.values.0 {
            let entry = match v {
                Value::Null => None,
                Value::Number(n) => n.as_f64().filter(|x| x.is_finite()),
                _ => {
                    return Err(Fault::new(
                        place(id),
                        format!("{} is no number, and the column is one of numbers", printable(&v.to_string())),
                    ));
                }
            };
            if let Some(slot) = find(id).and_then(|i| entries.get_mut(i)) {
                *slot = entry;
            } else {
                first_missing = first_missing.or(Some(id));
            }
        }
        ColumnData::Numbers(entries)
    } else {
        let mut texts: HashMap<&str, Arc<str>> = HashMap::new();
        let mut entries: Box<[Option<Arc<str>>]> = vec![None; nodes].into();
        for (id, v) in &c.values.0 {
            let entry: Option<Arc<str>> = match v {
                Value::Null => None,
                Value::String(s) => Some(texts.entry(s).or_insert_with(|| s.as_str().into()).clone()),
                Value::Bool(_) | Value::Number(_) => Some(v.to_string().into()),
                _ => return Err(Fault::new(place(id), "an entry of a column is a number or a text")),
            };
            if let Some(slot) = find(id).and_then(|i| entries.get_mut(i)) {
                *slot = entry;
            } else {
                first_missing = first_missing.or(Some(id));
            }
        }
        ColumnData::Texts(entries)
    };
    if let Some(id) = first_missing {
        let message = match missing {
            1 => format!("column `{}` has an entry for `{}`, which is the id of no node", printable(name), printable(id)),
            n => format!("column `{}` has {n} entries for ids that no node has, the first is `{}`", printable(name), printable(id)),
        };
        reports.add(Diagnostic::warning("column_without_node", message));
    }
    Ok(Column { name: name.to_owned(), unit: c.unit.clone(), data })
}
