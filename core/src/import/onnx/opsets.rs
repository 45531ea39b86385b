//! The operator sets that a model imports, and what is assumed where it does not say.

use indexmap::IndexMap;

use super::functions::domain;
use super::proto::ModelProto;
use crate::diagnostic::Diagnostic;
use crate::import::reports::Reports;

/// Newest version of the standard operator set that this program knows.
const NEWEST: i64 = 28;
/// Newest IR version that this program knows.
const NEWEST_IR: i64 = 14;

/// Versions by domain, `""` being the standard one.
pub(super) fn imported(model: &ModelProto, reports: &mut Reports) -> IndexMap<String, i64> {
    match model.ir_version {
        None | Some(..=0) => reports.add(Diagnostic::warning(
            "bad_ir_version",
            format!("ir_version is {}, which is no IR version: the file is read as a current one", model.ir_version.unwrap_or(0)),
        )),
        Some(v) if v > NEWEST_IR => reports.add(Diagnostic::warning(
            "new_ir_version",
            format!("the file has IR version {v}; the newest this program knows is {NEWEST_IR}, so parts of it may be overlooked"),
        )),
        Some(_) => {}
    }
    let mut opsets: IndexMap<String, i64> = IndexMap::new();
    for o in &model.opset_import {
        let name = String::from_utf8_lossy(domain(&o.domain)).into_owned();
        let shown =
            if name.is_empty() { "the standard domain".to_owned() } else { format!("domain `{}`", super::names::show(name.as_bytes())) };
        match opsets.get_mut(&name) {
            Some(known) if *known != o.version => {
                let (low, high) = (o.version.min(*known), o.version.max(*known));
                *known = high;
                reports.add(Diagnostic::warning(
                    "duplicate_opset",
                    format!("the opset of {shown} is imported twice, in versions {low} and {high}: the higher one is used"),
                ));
            }
            Some(_) => {}
            None => {
                opsets.insert(name, o.version);
            }
        }
    }
    if let Some(&v) = opsets.get("")
        && !(1..=NEWEST).contains(&v)
    {
        reports.add(Diagnostic::warning(
            "unknown_opset",
            format!(
                "the model imports opset {v} of the standard domain; known are 1 to {NEWEST}: its operators may mean something else there"
            ),
        ));
    }
    let uses_standard = model.graph.iter().any(|g| g.node.iter().any(|n| domain(&n.domain).is_empty()));
    if !opsets.contains_key("") && uses_standard {
        let assumed = assumed(model.ir_version.unwrap_or(0));
        reports.add(Diagnostic::warning(
            "missing_opset",
            format!("the model imports no opset of the standard domain: {assumed} is assumed, the newest when its IR version was"),
        ));
        opsets.insert(String::new(), assumed);
    }
    opsets
}

/// The standard operator set that was current when an IR version was. Models below IR 3 could not say.
fn assumed(ir_version: i64) -> i64 {
    match ir_version {
        1 | 2 => 1,
        3 => 8,
        4 => 9,
        5 => 10,
        6 => 11,
        7 => 14,
        8 => 18,
        9 => 20,
        10 => 22,
        11 => 23,
        12 => 24,
        13 => 25,
        _ => 21,
    }
}
