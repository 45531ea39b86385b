//! `cases.json` and `not-yet.txt`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// One model with the behaviour it must show. `README.md` explains the fields.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) open: Open,
    #[serde(default)]
    pub(crate) run: Option<Open>,
    #[serde(default)]
    pub(crate) exit: Option<String>,
    #[serde(default)]
    pub(crate) nodes: Option<usize>,
    #[serde(default)]
    pub(crate) err_any: Vec<String>,
    #[serde(default)]
    pub(crate) err_all: Vec<String>,
    #[serde(default)]
    pub(crate) warn_any: Vec<String>,
    #[serde(default)]
    pub(crate) must_not: Vec<String>,
    #[serde(default)]
    pub(crate) runs: Vec<Run>,
    #[serde(default)]
    pub(crate) rtol: f64,
    #[serde(default)]
    pub(crate) atol: f64,
    #[serde(default)]
    pub(crate) partition: Option<Partition>,
    #[serde(default)]
    pub(crate) limits: Option<Limits>,
}

/// What opening, or running, must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Open {
    Ok,
    Error,
    OkOrError,
}

/// Arrays to feed and what comes of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) npz: String,
    pub(crate) io: String,
    /// `equal` or `error`.
    pub(crate) expect: String,
    #[serde(default)]
    pub(crate) err_any: Vec<String>,
}

/// What partitioning must give.
#[derive(Debug, Deserialize)]
pub(crate) struct Partition {
    pub(crate) torch_ops: Vec<String>,
    pub(crate) k: usize,
    pub(crate) accel_nodes: usize,
    pub(crate) torch_nodes: usize,
}

/// What opening and partitioning may take.
#[derive(Debug, Deserialize)]
pub(crate) struct Limits {
    pub(crate) seconds: f64,
    pub(crate) rss_mb: f64,
}

/// What the arrays of a run are.
#[derive(Debug, Deserialize)]
pub(crate) struct Io {
    #[serde(default)]
    pub(crate) inputs: Vec<Array>,
    #[serde(default)]
    pub(crate) outputs: Vec<Array>,
}

/// One array, or `rows` of them stacked.
#[derive(Debug, Deserialize)]
pub(crate) struct Array {
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) index: usize,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    #[serde(default)]
    pub(crate) rows: Option<usize>,
    #[serde(default)]
    pub(crate) values: Option<Vec<String>>,
}

/// All cases.
pub(crate) fn load(dir: &Path) -> Result<Vec<Case>, String> {
    let text = std::fs::read_to_string(dir.join("cases.json")).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// Cases that do not hold yet, with the reason: lines of `id: reason`.
pub(crate) fn not_yet(path: &Path, cases: &[Case]) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut list = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (id, reason) = line.split_once(": ").ok_or_else(|| format!("`{line}` is not `id: reason`"))?;
        if !cases.iter().any(|c| c.id == id) {
            return Err(format!("there is no case `{id}`"));
        }
        if list.insert(id.to_owned(), reason.to_owned()).is_some() {
            return Err(format!("`{id}` stands there twice"));
        }
    }
    Ok(list)
}
