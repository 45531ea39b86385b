//! Output files: written under a temporary name beside the target and renamed, so that nothing is ever half-written.

use std::io::{BufWriter, Write};
use std::path::Path;

use super::error::{CliError, Result, show};

/// Writes a file as a whole or not at all. `what` names it in messages (`report`).
///
/// # Errors
/// If it cannot be written; then an older file of that name is untouched.
pub fn write(what: &str, path: &Path, f: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let written = recut_core::files::replace(path, |file| {
        let mut w = BufWriter::new(file);
        f(&mut w)?;
        w.flush()
    });
    written.map_err(|e| CliError::write(what, path, &e))
}

/// Refuses to write over something that the same command reads.
///
/// # Errors
/// A usage error that names both.
pub fn refuse_overwriting(option: &str, output: &Path, inputs: &[(&str, &Path)]) -> Result<()> {
    let Ok(target) = std::fs::canonicalize(output) else { return Ok(()) };
    for (what, input) in inputs {
        if std::fs::canonicalize(input).is_ok_and(|i| i == target) {
            return Err(overwriting(option, output, what));
        }
    }
    Ok(())
}

/// What is said of an output that would replace `what`.
#[must_use]
pub fn overwriting(option: &str, output: &Path, what: &str) -> CliError {
    CliError::usage(format!("{option} {} would overwrite the {what} that this command reads; give another file name", show(output)))
}

/// Refuses two outputs of one command in one file: the later would replace the earlier.
///
/// # Errors
/// A usage error that names both options.
pub fn refuse_sharing(outputs: &[(&str, &Path)]) -> Result<()> {
    for (i, (option, path)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..i].iter().find(|(_, p)| same_target(p, path)) {
            return Err(CliError::usage(format!("{other} and {option} both write {}; give each a file of its own", show(path))));
        }
    }
    Ok(())
}

/// Whether two outputs are one file, also where it does not exist yet.
fn same_target(a: &Path, b: &Path) -> bool {
    let whole = |p: &Path| {
        let dir = p.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::canonicalize(p).or_else(|_| std::fs::canonicalize(dir).map(|d| d.join(p.file_name().unwrap_or_default())))
    };
    a == b || matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// A report to `target`: the standard output for `-`, else a file.
///
/// # Errors
/// If it cannot be written.
pub fn write_json<T: serde::Serialize>(target: &Path, report: &T, out: &super::output::Output) -> Result<()> {
    let emit = |w: &mut dyn Write| -> std::io::Result<()> {
        serde_json::to_writer_pretty(&mut *w, report)?;
        w.write_all(b"\n")
    };
    if target == Path::new("-") {
        return out.data_with(emit);
    }
    write("report", target, emit)?;
    out.note(&format!("wrote the report to {}", show(target)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write("report", &path, |w| w.write_all(b"old")).unwrap();
        let failed = write("report", &path, |w| {
            w.write_all(b"half")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(failed.unwrap_err().message.contains("disk full"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(refuse_overwriting("--json", &path, &[("config", &path)]).is_err());
        assert!(refuse_overwriting("--json", &dir.path().join("b"), &[("config", &path)]).is_ok());
        let (new, same) = (dir.path().join("new"), dir.path().join("./new"));
        assert!(refuse_sharing(&[("--json", &new), ("--trace", &path)]).is_ok());
        let e = refuse_sharing(&[("--json", &new), ("--trace", &same)]).unwrap_err();
        assert!(e.message.starts_with("--json and --trace both write"), "{e}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let e = write("report", &dir.path().join("no/a.json"), |_| Ok(())).unwrap_err();
        assert_eq!(e.exit.code(), 5);
        assert!(e.message.contains("its directory does not exist"), "{e}");
    }
}
