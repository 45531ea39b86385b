//! Strict reading: every error names field, line and column, and the nearest thing that would be right.

use std::collections::HashSet;
use std::path::Path;

use super::positions::{Positions, byte_at, line_and_column};
use super::{CONFIG_VERSION, PartitionConfig};
use crate::diagnostic::{Diagnostic, Severity, printable};
use crate::document::MarkList;
use crate::select::{Bare, Selector};

/// Largest config that is read, in bytes.
pub const MAX_BYTES: u64 = 16 << 20;

/// Most threads that a run may be given: far above what any machine has, and few enough for the system to start them.
pub const MAX_THREADS: u32 = 1024;

/// Why a config file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(self))]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: String,
    /// The kind of trouble.
    pub kind: ConfigErrorKind,
    /// Line and column, from 1; `None` if it is about the whole file.
    pub place: Option<(usize, usize)>,
    /// Path of the field (`wraps[0].instances[1].id`); empty for the whole file.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// Kinds of [`ConfigError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigErrorKind {
    /// It is not there, or the system refuses to read or write it.
    File,
    /// It is no JSON.
    Syntax,
    /// It is of another version of the format.
    Version,
    /// A field that no config has.
    UnknownField,
    /// A field has a value that it cannot have.
    Value,
}

fn describe(e: &ConfigError) -> String {
    let mut out = printable(&e.file).into_owned();
    if let Some((line, column)) = e.place {
        out.push_str(&format!(":{line}:{column}"));
    }
    out.push_str(": ");
    if !e.field.is_empty() {
        out.push_str(&format!("{}: ", printable(&e.field)));
    }
    out.push_str(&e.message);
    out
}

/// A field with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", printable(field))]
pub struct FieldError {
    /// Path of the field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl PartitionConfig {
    /// Reads a config. `file` is how messages call it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(text: &str, file: &str) -> Result<(Self, Vec<Diagnostic>), ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let error = |kind, at: Option<usize>, field: &str, message: String| ConfigError {
            file: file.to_owned(),
            kind,
            place: at.map(|at| line_and_column(text, at)),
            field: field.to_owned(),
            message,
        };
        if text.len() as u64 > MAX_BYTES {
            let message = format!("it is larger than {MAX_BYTES} bytes, which no partition config is");
            return Err(error(ConfigErrorKind::File, None, "", message));
        }
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| {
            let at = byte_at(text, e.line(), e.column().saturating_sub(1));
            error(ConfigErrorKind::Syntax, Some(at), "", format!("no valid JSON: {}", without_place(&e.to_string())))
        })?;
        let positions = Positions::scan(text);
        if let Some((field, at)) = &positions.repeated {
            return Err(error(ConfigErrorKind::Value, Some(*at), field, "the field stands twice: remove one".to_owned()));
        }
        check_version(&value).map_err(|message| {
            let (field, at) = if value.get("version").is_some() { ("version", positions.find("version")) } else { ("", 0) };
            error(ConfigErrorKind::Version, Some(at), field, message)
        })?;
        let config: Self = serde_json::from_str(text).map_err(|e| {
            let found = explain(text, &positions, &e);
            error(found.kind, Some(found.at), &found.field, found.message)
        })?;
        config.validate().map_err(|e| error(ConfigErrorKind::Value, Some(positions.find(&e.field)), &e.field, e.message))?;
        let notes = config.unused_definitions();
        Ok((config, notes))
    }

    /// Reads a config file.
    ///
    /// # Errors
    /// Those of [`PartitionConfig::read`] and [`PartitionConfig::load`].
    pub fn open(path: &Path) -> Result<(Self, Vec<Diagnostic>), ConfigError> {
        Self::load(&Self::read(path)?, &path.display().to_string())
    }

    /// The text of a config file.
    ///
    /// # Errors
    /// If the file cannot be read, is too large for a config or no text.
    pub fn read(path: &Path) -> Result<String, ConfigError> {
        let file = path.display().to_string();
        let error =
            |message: String| ConfigError { file: file.clone(), kind: ConfigErrorKind::File, place: None, field: String::new(), message };
        let length = std::fs::metadata(path).map_err(|e| error(format!("cannot be read: {e}")))?;
        if !length.is_file() {
            return Err(error("is no regular file".to_owned()));
        }
        if length.len() > MAX_BYTES {
            return Err(error(format!("is larger than {} MiB, which no partition config is", MAX_BYTES >> 20)));
        }
        let bytes = std::fs::read(path).map_err(|e| error(format!("cannot be read: {e}")))?;
        String::from_utf8(bytes)
            .map_err(|e| ConfigError { kind: ConfigErrorKind::Syntax, ..error(format!("no valid JSON: {}", e.utf8_error())) })
    }

    /// Checks what types cannot say: ranges, ids, references, the form of selectors.
    ///
    /// # Errors
    /// The first field that is wrong, in file order.
    pub fn validate(&self) -> Result<(), FieldError> {
        for list in MarkList::ALL {
            for (i, text) in list.entries(self).iter().enumerate() {
                check_selector(text, list.bare(), || format!("{}[{i}]", list.name()))?;
            }
        }
        self.validate_except_marks()
    }

    /// [`PartitionConfig::validate`] without the lists of marks, which may be long.
    pub(crate) fn validate_except_marks(&self) -> Result<(), FieldError> {
        self.validate_wraps()?;
        if self.partitioner.min_block_size == 0 {
            return refuse("partitioner.min_block_size", "is 0, but has to be at least 1");
        }
        if let Some(n) = self.run.threads
            && !(1..=MAX_THREADS).contains(&n)
        {
            return refuse("run.threads", &format!("is {n}, but has to be between 1 and {MAX_THREADS}; null takes all cores"));
        }
        for (i, entry) in self.run.overrides.iter().enumerate() {
            let field = || format!("run.overrides[{i}]");
            match entry.rsplit_once('=') {
                Some((select, engine)) if !engine.is_empty() => check_selector(select, Bare::ByForm, field)?,
                _ => return refuse(&field(), "has to be SELECTOR=ENGINE or SELECTOR=ENGINE:PRECISION"),
            }
        }
        for (name, size) in &self.dims {
            if *size < 0 {
                return refuse(&format!("dims.{name}"), &format!("is {size}, but a dimension has no negative size"));
            }
        }
        Ok(())
    }

    fn validate_wraps(&self) -> Result<(), FieldError> {
        let mut ids: HashSet<&str> = HashSet::new();
        for (g, group) in self.wraps.iter().enumerate() {
            if !self.definitions.contains_key(&group.definition) {
                let names = self.definitions.keys().map(String::as_str);
                let hint = match nearest(&group.definition, names) {
                    Some(name) => format!("did you mean `{}`?", printable(name)),
                    None => "add it there".to_owned(),
                };
                let message = format!("no `{}` stands in definitions; {hint}", printable(&group.definition));
                return refuse(&format!("wraps[{g}].definition"), &message);
            }
            for (i, instance) in group.instances.iter().enumerate() {
                let field = |name: &str| format!("wraps[{g}].instances[{i}].{name}");
                if instance.id.is_empty() {
                    return refuse(&field("id"), "is empty: every opaque node needs an id");
                }
                if !ids.insert(&instance.id) {
                    let message = format!("`{}` is the id of another instance too: ids have to be unique", printable(&instance.id));
                    return refuse(&field("id"), &message);
                }
                check_selector(&instance.select, Bare::ByForm, || field("select"))?;
            }
        }
        for (name, definition) in &self.definitions {
            if definition.op.is_empty() {
                return refuse(&format!("definitions.{name}.op"), "is empty: an opaque node needs an operator type");
            }
        }
        Ok(())
    }

    fn unused_definitions(&self) -> Vec<Diagnostic> {
        let used: HashSet<&str> = self.wraps.iter().map(|g| &*g.definition).collect();
        let unused = self.definitions.keys().filter(|name| !used.contains(&***name));
        unused
            .map(|name| {
                let message = format!("definition `{}` is used by no wrap", printable(name));
                Diagnostic::new(Severity::Info, "unused_definition", message)
            })
            .collect()
    }
}

fn refuse(field: &str, message: &str) -> Result<(), FieldError> {
    Err(FieldError { field: field.to_owned(), message: message.to_owned() })
}

fn check_selector(text: &str, bare: Bare, field: impl FnOnce() -> String) -> Result<(), FieldError> {
    match Selector::parse(text, bare) {
        Ok(_) => Ok(()),
        Err(e) => Err(FieldError { field: field(), message: e.to_string() }),
    }
}

fn check_version(value: &serde_json::Value) -> Result<(), String> {
    let object = value.as_object().ok_or("a partition config is a JSON object")?;
    let version = object.get("version").ok_or(format!("the field `version` is missing: this program reads version {CONFIG_VERSION}"))?;
    match version.as_u64() {
        Some(v) if v == u64::from(CONFIG_VERSION) => Ok(()),
        Some(v) if v > u64::from(CONFIG_VERSION) => {
            Err(format!("version {v} was written by a newer recut; this one reads up to version {CONFIG_VERSION}: update recut"))
        }
        _ => Err(format!("{version} is no version of the config format: this program reads version {CONFIG_VERSION}")),
    }
}

/// The known name that comes nearest to `name`, if any is near.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|k| (strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase()), k)).filter(|(s, _)| *s > 0.75);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, k)| k)
}

struct Found {
    kind: ConfigErrorKind,
    at: usize,
    field: String,
    message: String,
}

/// Puts what serde says into terms of the file.
fn explain(text: &str, positions: &Positions, e: &serde_json::Error) -> Found {
    let reached = byte_at(text, e.line(), e.column());
    let message = e.to_string();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let around = |container| positions.innermost(reached, container).map_or((0, String::new()), |p| (p.start, p.path.clone()));
    let (name, known) = quoted.split_first().map_or(("", &[][..]), |(n, k)| (*n, k));
    let hint = nearest(name, known.iter().copied()).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
    if message.starts_with("unknown field") {
        let (at, field) = positions.under_key(name, reached).map_or_else(|| around(true), |p| (p.start, p.path.clone()));
        let message = format!("there is no such field{hint} (known here: {})", known.join(", "));
        return Found { kind: ConfigErrorKind::UnknownField, at, field, message };
    }
    if message.starts_with("unknown variant") {
        let (mut at, mut field) = around(false);
        if field.ends_with(".body") {
            field.push_str(".kind");
            at = positions.find(&field);
        }
        let message = format!("`{}` is not known{hint} (known: {})", printable(name), known.join(", "));
        return Found { kind: ConfigErrorKind::Value, at, field, message };
    }
    let (at, field) = around(message.starts_with("missing field"));
    let message = if message.starts_with("missing field") {
        format!("the field `{name}` is missing")
    } else {
        without_place(&message).replace("expected u32", "expected a whole number from 0 to 4294967295")
    };
    Found { kind: ConfigErrorKind::Value, at, field, message }
}

/// The message of a JSON error without its own line and column.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(m, _)| m)
}
