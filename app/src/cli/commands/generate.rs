//! `recut schema`, `completions` and `man`: what is generated from the program itself.

use std::path::Path;

use clap::CommandFactory;

use crate::cli::args::{Cli, SchemaWhat};
use crate::cli::error::{CliError, Result, show};
use crate::cli::files;
use crate::cli::output::Output;

/// Prints a JSON Schema.
///
/// # Errors
/// If it cannot be written.
pub fn schema(what: SchemaWhat, out: &Output) -> Result<()> {
    let text = match what {
        SchemaWhat::Config => serde_json::to_string_pretty(&recut_core::config::config_schema()),
        SchemaWhat::Graph => serde_json::to_string_pretty(&recut_core::import::json::schema::graph_schema()),
        SchemaWhat::Report => serde_json::to_string_pretty(&report_schema()),
    };
    let text = text.map_err(|e| CliError::stdout(&e.into()))?;
    out.data(&format!("{text}\n"))
}

/// JSON Schemas of all reports, by the name that stands in their `schema` field.
#[must_use]
pub fn report_schema() -> serde_json::Value {
    let mut defs = serde_json::Map::new();
    let mut add = |name: &str, schema: schemars::Schema| {
        let mut schema = schema.to_value();
        // The name is a constant of the format; the Rust type only knows that it is text.
        if let Some(field) = schema.pointer_mut("/properties/schema") {
            *field = serde_json::json!({ "const": name });
        }
        defs.insert(name.to_owned(), schema);
    };
    add(recut_exec::report::RUN_SCHEMA, schemars::schema_for!(recut_exec::report::RunReport));
    add(recut_core::report::inspect::SCHEMA, schemars::schema_for!(recut_core::report::inspect::InspectReport));
    add(recut_core::report::partition::SCHEMA, schemars::schema_for!(recut_core::report::partition::PartitionReport));
    add(super::doctor::SCHEMA, schemars::schema_for!(super::doctor::DoctorReport));
    serde_json::Value::Object(defs)
}

/// Prints completions.
///
/// # Errors
/// If they cannot be written.
pub fn completions(shell: clap_complete::Shell, out: &Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "recut", &mut script);
    out.data_with(|w| w.write_all(&script))
}

/// Prints the manual page, or writes one per command into `dir`.
///
/// # Errors
/// If they cannot be written.
pub fn man(dir: Option<&Path>, out: &Output) -> Result<()> {
    // `recut help` has no page of its own.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = dir else {
        let page = page(&command)?;
        return out.data_with(|w| w.write_all(&page));
    };
    std::fs::create_dir_all(dir).map_err(|e| CliError::write("directory", dir, &e))?;
    let mut written = 0;
    for sub in std::iter::once(&command).chain(command.get_subcommands()) {
        let name = if sub.get_name() == "recut" { "recut".to_owned() } else { format!("recut-{}", sub.get_name()) };
        let page = page(sub)?;
        files::write("manual page", &dir.join(format!("{name}.1")), |w| w.write_all(&page))?;
        written += 1;
    }
    out.note(&format!("wrote {written} manual pages to {}", show(dir)));
    Ok(())
}

fn page(command: &clap::Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(|e| CliError::stdout(&e))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_has_a_schema_with_its_name() {
        let all = report_schema();
        for (name, schema) in all.as_object().unwrap() {
            assert_eq!(schema.pointer("/properties/schema/const").unwrap(), name);
        }
        assert!(all.get("recut.inspect/1").is_some());
    }
}
