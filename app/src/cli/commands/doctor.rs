//! `recut doctor`: what is found on this machine. Says only what was looked at and seen.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etcetera::BaseStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cli::error::{CliError, Exit, Result, show};
use crate::cli::files;
use crate::cli::output::{Output, Tone};
use crate::cli::request::DoctorRequest;
use crate::cli::table::{Align, Table};

/// Name and version of the format.
pub const SCHEMA: &str = "recut.doctor/1";

/// A Python starts within this time, even from a cold disk; importing torch may take [`IMPORT_TIMEOUT`].
const START_TIMEOUT: Duration = Duration::from_secs(10);
const IMPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// What is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of this program.
    pub version: String,
    /// Engines.
    pub engines: Vec<EngineInfo>,
    /// Python that was asked, and where its name came from.
    pub python: Option<PythonInfo>,
    /// CPU.
    pub cpu: CpuInfo,
    /// Terminal.
    pub terminal: TerminalInfo,
    /// Where config and themes are looked for.
    pub files: Vec<FileInfo>,
}

/// An engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineInfo {
    /// Name for `--engine`.
    pub name: String,
    /// Whether it is there.
    pub found: bool,
    /// Whether this version runs partitions on it.
    pub used: bool,
    /// Version, where it is there.
    pub version: Option<String>,
    /// Anything else, e.g. why it is not there.
    pub note: String,
}

/// The Python that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PythonInfo {
    /// Program.
    pub program: String,
    /// `--python`, `$RECUT_PYTHON`, `$VIRTUAL_ENV` or `PATH`.
    pub from: String,
    /// Its version, if it could be started.
    pub version: Option<String>,
}

/// The CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuInfo {
    /// Architecture.
    pub arch: String,
    /// Instruction-set extensions that matter here and are there.
    pub features: Vec<String>,
    /// Threads that a run uses by default.
    pub threads: usize,
}

/// The terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalInfo {
    /// Whether the standard output is one.
    pub is_terminal: bool,
    /// `none`, `16`, `256` or `truecolor`.
    pub colors: String,
    /// `$TERM`.
    pub term: String,
    /// Columns and rows.
    pub size: Option<(u16, u16)>,
}

/// A file or directory that is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileInfo {
    /// What for.
    pub what: String,
    /// Where.
    pub path: String,
    /// Whether it is there.
    pub found: bool,
}

/// Looks around and reports.
///
/// # Errors
/// If the report cannot be written, or a Python that was asked for cannot be started.
pub fn doctor(request: &DoctorRequest, out: &Output) -> Result<()> {
    let (report, started) = look(request.python.as_deref(), out);
    match &request.json {
        Some(target) => files::write_json(target, &report, out)?,
        None => out.data(&text(&report, out))?,
    }
    match (&request.python, started) {
        (Some(asked), Err(why)) => Err(CliError::new(Exit::NotThere, format!("--python {}: {why}", show(asked)))),
        _ => Ok(()),
    }
}

/// The report, and the version of Python or why there is none.
fn look(python: Option<&Path>, out: &Output) -> (DoctorReport, std::result::Result<String, String>) {
    let (program, from) = find_python(python, |name| std::env::var_os(name).map(PathBuf::from));
    let progress = out.progress("asking Python for engines", 0);
    let started = probe(&program, "import sys; print(sys.version.split()[0])", START_TIMEOUT);
    let version = started.as_ref().ok().cloned();
    let mut engines = vec![
        EngineInfo {
            name: "cpu".into(),
            found: true,
            used: true,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            note: "built in: node by node, a time for every node".into(),
        },
        EngineInfo {
            name: "tract".into(),
            found: true,
            used: true,
            version: None,
            note: "built in: a whole partition at once, for comparison".into(),
        },
    ];
    for module in ["torch", "onnxruntime", "openvino"] {
        let answer = match version {
            Some(_) => probe(&program, &format!("import {module}; print({module}.__version__)"), IMPORT_TIMEOUT),
            None => Err("not looked for: no Python".to_owned()),
        };
        engines.push(match answer {
            Ok(v) => EngineInfo {
                name: module.into(),
                found: true,
                used: false,
                version: Some(v),
                note: "found, not used by this version yet".into(),
            },
            Err(why) => EngineInfo { name: module.into(), found: false, used: false, version: None, note: why },
        });
    }
    progress.finish_and_clear();
    let report = DoctorReport {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        engines,
        python: Some(PythonInfo { program: program.display().to_string(), from: from.into(), version }),
        cpu: cpu(),
        terminal: terminal(),
        files: looked_at(),
    };
    (report, started)
}

/// `--python`, `$RECUT_PYTHON`, `$VIRTUAL_ENV`, then `python3`.
fn find_python(flag: Option<&Path>, env: impl Fn(&str) -> Option<PathBuf>) -> (PathBuf, &'static str) {
    let set = |name| env(name).filter(|p| !p.as_os_str().is_empty());
    if let Some(p) = flag {
        (p.to_owned(), "--python")
    } else if let Some(p) = set("RECUT_PYTHON") {
        (p, "$RECUT_PYTHON")
    } else if let Some(p) = set("VIRTUAL_ENV") {
        (p.join("bin/python"), "$VIRTUAL_ENV")
    } else {
        ("python3".into(), "PATH")
    }
}

/// The last line that Python prints for `code`, or why there is none. Killed after `limit`.
fn probe(program: &Path, code: &str, limit: Duration) -> std::result::Result<String, String> {
    let mut child = Command::new(program)
        .args(["-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What was read before an error still tells something.
            let _ = pipe.map(|p| p.take(1 << 20).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = read(child.stdout.take().map(|p| Box::new(p) as Box<dyn Read + Send>));
    let stderr = read(child.stderr.take().map(|p| Box::new(p) as Box<dyn Read + Send>));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                // It may have ended by itself just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", limit.as_secs()));
            }
            Err(e) => return Err(e.to_string()),
        }
    };
    let last = |t: std::thread::Result<String>| t.ok().and_then(|t| t.lines().rfind(|l| !l.trim().is_empty()).map(|l| l.trim().to_owned()));
    let (printed, said) = (last(stdout.join()), last(stderr.join()));
    match (status.success(), printed) {
        (true, Some(line)) => Ok(line),
        _ if said.as_deref().is_some_and(|s| s.starts_with("ModuleNotFoundError")) => Err("not installed in this Python".to_owned()),
        _ => Err(said.unwrap_or_else(|| format!("Python ended with {status}"))),
    }
}

fn cpu() -> CpuInfo {
    let mut features: Vec<String> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detect {
            ($($name:tt),*) => { $(if std::arch::is_x86_feature_detected!($name) { features.push($name.to_owned()); })* };
        }
        detect!("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16");
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! detect {
            ($($name:tt),*) => { $(if std::arch::is_aarch64_feature_detected!($name) { features.push($name.to_owned()); })* };
        }
        detect!("neon", "fp16", "dotprod", "bf16", "i8mm", "sve");
    }
    features.shrink_to_fit();
    CpuInfo {
        arch: std::env::consts::ARCH.to_owned(),
        features,
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

fn terminal() -> TerminalInfo {
    use std::io::IsTerminal;
    let colors = match supports_color::on_cached(supports_color::Stream::Stdout) {
        None => "none",
        Some(l) if l.has_16m => "truecolor",
        Some(l) if l.has_256 => "256",
        Some(_) => "16",
    };
    let is_terminal = std::io::stdout().is_terminal();
    TerminalInfo {
        is_terminal,
        colors: colors.to_owned(),
        term: std::env::var("TERM").unwrap_or_default(),
        size: is_terminal.then(crossterm::terminal::size).and_then(std::result::Result::ok),
    }
}

fn looked_at() -> Vec<FileInfo> {
    let Ok(dirs) = etcetera::choose_base_strategy() else { return Vec::new() };
    let config = dirs.config_dir().join("recut");
    [("settings", config.join("config.toml")), ("own themes", config.join("themes"))]
        .into_iter()
        .map(|(what, path)| FileInfo { what: what.into(), found: path.exists(), path: path.display().to_string() })
        .collect()
}

fn text(r: &DoctorReport, out: &Output) -> String {
    let title = |t: &str| out.paint(Tone::Title, t);
    let mut s = format!("{} {}\n\n{}\n", title("recut"), r.version, title("Engines"));
    let mut t = Table::new(&[("name", Align::Left), ("found", Align::Left), ("version", Align::Left), ("", Align::Left)]);
    for e in &r.engines {
        let tone = if e.used { Tone::Good } else { Tone::Dim };
        let found = if e.found { "yes" } else { "no" };
        let version = e.version.clone().unwrap_or_else(|| "-".into());
        t.toned([(e.name.clone(), None), (found.into(), Some(tone)), (version, None), (e.note.clone(), Some(Tone::Dim))]);
    }
    s.push_str(&t.render(out.colored(), 2));
    s.push_str("  This version runs models on cpu and tract; the others are only looked for.\n");
    if let Some(p) = &r.python {
        let state = p.version.as_deref().map_or_else(|| "cannot be started".to_owned(), |v| format!("version {v}"));
        s.push_str(&format!("  Python: {} (from {}), {state}\n", recut_core::diagnostic::printable(&p.program), p.from));
    }
    let features = if r.cpu.features.is_empty() { "none of those that matter here".to_owned() } else { r.cpu.features.join(" ") };
    s.push_str(&format!("\n{}\n  {}, {} threads, {features}\n", title("CPU"), r.cpu.arch, r.cpu.threads));
    let size = r.terminal.size.map_or_else(String::new, |(c, rows)| format!(", {c}x{rows}"));
    let is = if r.terminal.is_terminal { "a terminal" } else { "not a terminal" };
    s.push_str(&format!(
        "\n{}\n  {is}{size}, colours: {}, TERM={}\n",
        title("Output"),
        r.terminal.colors,
        recut_core::diagnostic::printable(&r.terminal.term)
    ));
    s.push_str(&format!("\n{}\n", title("Files")));
    for f in &r.files {
        let state = if f.found { "found" } else { "not there (optional)" };
        s.push_str(&format!("  {}: {}: {state}\n", f.what, recut_core::diagnostic::printable(&f.path)));
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_looked_for_in_the_documented_order() {
        let env = |name: &str| match name {
            "RECUT_PYTHON" => Some(PathBuf::from("")),
            "VIRTUAL_ENV" => Some(PathBuf::from("/venv")),
            _ => None,
        };
        assert_eq!(find_python(Some(Path::new("p")), env), ("p".into(), "--python"));
        assert_eq!(find_python(None, env), ("/venv/bin/python".into(), "$VIRTUAL_ENV"));
        assert_eq!(find_python(None, |_| None), ("python3".into(), "PATH"));
    }

    #[test]
    fn a_python_that_is_not_there_is_an_answer_and_no_failure() {
        let why = probe(Path::new("/nonexistent/python"), "pass", START_TIMEOUT).unwrap_err();
        assert!(why.starts_with("cannot start /nonexistent/python"), "{why}");
    }
}
