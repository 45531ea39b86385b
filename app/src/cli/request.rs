//! What is to be done: the typed arguments, checked and resolved once.

mod export;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::CommandFactory;
use recut_core::config::Strategy;
use recut_core::diagnostic::printable;
use recut_core::document::MarkList;
use recut_exec::generate::InputSpec;

use super::args::{self, Cli, Command, InspectArgs, MarkArgs, PartitionArgs, RunArgs, ScheduleArg, SchemaWhat, SnapshotArgs};
use super::error::{CliError, Exit, Result, show};
use super::files::{refuse_overwriting, refuse_sharing};
pub use export::ExportRequest;

/// A command, ready to be done.
#[derive(Debug)]
pub enum Request {
    /// Open the terminal app.
    App(Box<AppRequest>),
    /// Run a model.
    Run(Box<RunRequest>),
    /// Look at a model.
    Inspect(InspectRequest),
    /// Partition a model.
    Partition(Box<PartitionRequest>),
    /// Write a model in another format.
    Export(ExportRequest),
    /// One frame of the app.
    Snapshot(Box<SnapshotRequest>),
    /// What is found on this machine.
    Doctor(DoctorRequest),
    /// Print a schema.
    Schema(SchemaWhat),
    /// Print completions.
    Completions(clap_complete::Shell),
    /// Print the manual page, or write all into a directory.
    Man(Option<PathBuf>),
}

/// Config file and marks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MarkRequest {
    /// Program of an archive that holds several.
    pub model_name: Option<String>,
    /// Config to start from.
    pub config: Option<PathBuf>,
    /// Backend.
    pub backend: Option<String>,
    /// Capability table of the user.
    pub support: Option<PathBuf>,
    /// Entries to add, in order.
    pub entries: Vec<(MarkList, String)>,
    /// Wraps to add: definition and selector.
    pub wraps: Vec<(String, String)>,
    /// Strategy.
    pub strategy: Option<Strategy>,
    /// Size rule.
    pub min_block_size: Option<u32>,
    /// Fail when anything is left in torch.
    pub require_full_compilation: bool,
    /// A selector that matches nothing is an error.
    pub strict: bool,
    /// Conditional support counts as none.
    pub strict_support: bool,
    /// Sizes of dimensions.
    pub dims: Vec<(String, i64)>,
}

/// Open the app.
#[derive(Debug)]
pub struct AppRequest {
    /// Model.
    pub model: PathBuf,
    /// Marks to start with.
    pub marks: MarkRequest,
    /// `--color`, if it was `always` or `never`.
    pub color: Option<bool>,
}

/// Run a model.
#[derive(Debug)]
pub struct RunRequest {
    /// Model.
    pub model: PathBuf,
    /// Marks.
    pub marks: MarkRequest,
    /// Arrays to feed.
    pub inputs: Option<PathBuf>,
    /// Seed of generated inputs.
    pub seed: u64,
    /// How to generate inputs.
    pub input_specs: Vec<InputSpec>,
    /// Engine of accelerated partitions, where given.
    pub engine: Option<String>,
    /// Engine of torch partitions, where given.
    pub torch_engine: Option<String>,
    /// Engines of parts.
    pub engine_for: Vec<String>,
    /// Precision, where given.
    pub precision: Option<String>,
    /// Threads, where given.
    pub threads: Option<u32>,
    /// Independent parts side by side.
    pub parallel: bool,
    /// Every node by itself.
    pub no_fuse: bool,
    /// Runs before measuring.
    pub warmup: u32,
    /// Measured runs.
    pub repeat: u32,
    /// Longest time.
    pub timeout: Option<Duration>,
    /// File for outputs.
    pub outputs: Option<PathBuf>,
    /// Selector of intermediates and their directory.
    pub dump: Option<(String, PathBuf)>,
    /// Arrays to compare outputs with.
    pub expect: Option<PathBuf>,
    /// Relative tolerance; that of the output's element type if not given.
    pub rtol: Option<f64>,
    /// Absolute tolerance, likewise.
    pub atol: Option<f64>,
    /// File for the trace.
    pub trace: Option<PathBuf>,
    /// Rows of the table; `None` for all.
    pub top: Option<usize>,
    /// Target of the JSON report.
    pub json: Option<PathBuf>,
    /// File for the config.
    pub save_config: Option<PathBuf>,
}

/// Table that `inspect` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectTable {
    /// An overview.
    Summary,
    /// Every node.
    Nodes,
    /// The module tree.
    Modules,
    /// Every value.
    Values,
    /// Operators.
    Ops,
    /// Nodes of a selector.
    Select(String),
}

/// Look at a model.
#[derive(Debug)]
pub struct InspectRequest {
    /// Model.
    pub model: PathBuf,
    /// Program of an archive that holds several.
    pub model_name: Option<String>,
    /// What to list.
    pub table: InspectTable,
    /// Target of the JSON report.
    pub json: Option<PathBuf>,
    /// Sizes of dimensions.
    pub dims: Vec<(String, i64)>,
}

/// Partition a model.
#[derive(Debug)]
pub struct PartitionRequest {
    /// Model.
    pub model: PathBuf,
    /// Marks.
    pub marks: MarkRequest,
    /// Only what the backend takes.
    pub preview: bool,
    /// File for DOT.
    pub dot: Option<PathBuf>,
    /// Target of the JSON report.
    pub json: Option<PathBuf>,
    /// File for the config.
    pub save_config: Option<PathBuf>,
}

/// One frame of the app.
#[derive(Debug)]
pub struct SnapshotRequest {
    /// Model.
    pub model: PathBuf,
    /// Marks.
    pub marks: MarkRequest,
    /// Name of the view.
    pub view: Option<String>,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Keys to press first.
    pub keys: String,
    /// Theme.
    pub theme: Option<String>,
    /// File; the standard output if `None`.
    pub output: Option<PathBuf>,
}

/// What is found on this machine.
#[derive(Debug)]
pub struct DoctorRequest {
    /// Python that was named.
    pub python: Option<PathBuf>,
    /// Target of the JSON report.
    pub json: Option<PathBuf>,
}

/// Turns `recut --run MODEL …` (also `recut MODEL --run …`) into `recut run MODEL …`.
#[must_use]
pub fn expand_run_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    let end = args.iter().position(|a| a == "--").unwrap_or(args.len());
    let Some(at) = args[..end].iter().position(|a| a == "--run") else { return args };
    if args[1..at].iter().any(|a| commands().iter().any(|k| a == k.as_str())) {
        return args;
    }
    args.remove(at);
    args.insert(1, "run".into());
    args
}

impl Request {
    /// Checks the arguments that clap cannot check, and resolves them.
    ///
    /// # Errors
    /// Usage errors.
    pub fn resolve(cli: Cli) -> Result<Self> {
        let Some(command) = cli.command else {
            let model = needed(cli.model, "run")?;
            let color = match cli.global.color {
                args::ColorWhen::Auto => None,
                args::ColorWhen::Always => Some(true),
                args::ColorWhen::Never => Some(false),
            };
            return Ok(Self::App(Box::new(AppRequest { model, marks: MarkRequest::resolve(cli.marks)?, color })));
        };
        Ok(match command {
            Command::Run(a) => Self::Run(Box::new(RunRequest::resolve(*a)?)),
            Command::Inspect(a) => Self::Inspect(InspectRequest::resolve(a)?),
            Command::Partition(a) => Self::Partition(Box::new(PartitionRequest::resolve(*a)?)),
            Command::Export(a) => Self::Export(ExportRequest::resolve(a)?),
            Command::Snapshot(a) => Self::Snapshot(Box::new(SnapshotRequest::resolve(*a)?)),
            Command::Doctor(a) => Self::Doctor(DoctorRequest { python: cli.global.python, json: a.json }),
            Command::Schema(a) => Self::Schema(a.what),
            Command::Completions(a) => Self::Completions(a.shell),
            Command::Man(a) => Self::Man(a.output),
        })
    }

    /// Longest time that the command may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Run(r) => r.timeout,
            _ => None,
        }
    }
}

fn needed(model: Option<PathBuf>, command: &str) -> Result<PathBuf> {
    model.ok_or_else(|| CliError::usage(format!("no model was given; name a model file, e.g. `recut {command} model.onnx`")))
}

/// Words that clap takes for a command.
fn commands() -> Vec<String> {
    let defined = Cli::command();
    defined.get_subcommands().map(|c| c.get_name().to_owned()).chain(["help".to_owned()]).collect()
}

/// The words of a line that asks for the app.
fn words_for_the_app(args: &[OsString]) -> Option<Vec<&str>> {
    let words: Vec<&str> = args.iter().skip(1).take_while(|a| *a != "--").filter_map(|a| a.to_str()).collect();
    let commands = commands();
    let other = words.iter().any(|w| *w == "--run" || commands.iter().any(|c| c == w));
    (!other).then_some(words)
}

/// The command that was probably meant, where the first word is neither one nor a file.
#[must_use]
pub fn command_hint(args: &[OsString]) -> Option<String> {
    let words = words_for_the_app(args)?;
    let first = words.first().filter(|w| !w.starts_with('-') && !w.contains(['.', '/', '\\']) && !Path::new(w).exists())?;
    if words.len() < 2 {
        return None;
    }
    let commands = commands();
    let (distance, near) = commands.iter().map(|c| (strsim::damerau_levenshtein(first, c), c)).min()?;
    Some(match distance {
        0..=2 => format!("there is no command `{}`; did you mean `recut {near}`?", printable(first)),
        _ => format!("there is no command and no file `{}`; the commands are {}", printable(first), commands.join(", ")),
    })
}

/// That an option belongs to `recut run`, if it does and the app was asked for.
#[must_use]
pub fn run_option_hint(args: &[OsString]) -> Option<String> {
    let words = words_for_the_app(args)?;
    let app = Cli::command();
    let run = app.find_subcommand("run")?;
    let has = |c: &clap::Command, long: &str| c.get_arguments().any(|a| a.get_long() == Some(long));
    let long = |w: &&str| w.strip_prefix("--").map(|l| l.split('=').next().unwrap_or(l).to_owned());
    let option = words.iter().filter_map(long).find(|l| has(run, l) && !has(&app, l))?;
    Some(format!("--{option} is an option of running a model, and the app was asked for; write `recut --run MODEL --{option} …`"))
}

/// MODEL and the target of `--json`, whose value is optional: in `--json model.onnx` the value is the model.
fn model_and_json(command: &str, model: Option<PathBuf>, json: Option<PathBuf>) -> Result<(PathBuf, Option<PathBuf>)> {
    match (model, json) {
        (None, Some(value)) if value != Path::new("-") => Ok((value, Some("-".into()))),
        (model, json) => Ok((needed(model, command)?, json)),
    }
}

impl MarkRequest {
    fn resolve(a: MarkArgs) -> Result<Self> {
        let strategy = a.strategy.as_deref().map(strategy).transpose()?;
        let lists = [
            (MarkList::TorchOps, a.torch_executed_ops),
            (MarkList::TorchModules, a.torch_executed_modules),
            (MarkList::TorchNodes, a.torch_executed_nodes),
            (MarkList::AcceleratedNodes, a.accelerated_nodes),
            (MarkList::LeafModules, a.leaf_modules),
        ];
        let entries = lists.into_iter().flat_map(|(list, texts)| texts.into_iter().map(move |t| (list, t))).collect();
        let wraps = a.wraps.iter().map(|w| wrap(w)).collect::<Result<_>>()?;
        Ok(Self {
            model_name: a.model_name,
            config: a.config,
            backend: a.backend,
            support: a.support,
            entries,
            wraps,
            strategy,
            min_block_size: a.min_block_size,
            require_full_compilation: a.require_full_compilation,
            strict: a.strict,
            strict_support: a.strict_support,
            dims: dims(&a.dims)?,
        })
    }

    /// Files that the command reads, for the guard of output files.
    fn reads<'a>(&'a self, model: &'a Path) -> Vec<(&'static str, &'a Path)> {
        let mut reads = vec![("model", model)];
        reads.extend(self.support.as_deref().map(|p| ("capability table", p)));
        reads
    }
}

fn strategy(name: &str) -> Result<Strategy> {
    Strategy::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| {
        let known: Vec<_> = Strategy::ALL.iter().map(|s| s.name()).collect();
        CliError::usage(format!("there is no strategy `{}`; this version has {}", printable(name), known.join(", ")))
    })
}

fn wrap(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, select)) if is_identifier(name.trim()) && !select.trim().is_empty() => {
            Ok((name.trim().to_owned(), select.trim().to_owned()))
        }
        _ => Err(CliError::usage(format!(
            "--wrap `{}`: expected NAME=SEL with a name of letters, digits and _, e.g. --wrap 'my_head=module:head'",
            printable(text)
        ))),
    }
}

fn is_identifier(name: &str) -> bool {
    crate::wrap_name::is_valid(name)
}

fn dims(texts: &[String]) -> Result<Vec<(String, i64)>> {
    let bad =
        |t: &str| CliError::usage(format!("--dim `{}`: expected NAME=SIZE with a size of 0 or more, e.g. --dim batch=4", printable(t)));
    texts
        .iter()
        .map(|t| {
            let (name, size) = t.rsplit_once('=').ok_or_else(|| bad(t))?;
            match size.trim().parse::<i64>() {
                Ok(n) if n >= 0 && !name.trim().is_empty() => Ok((name.trim().to_owned(), n)),
                _ => Err(bad(t)),
            }
        })
        .collect()
}

impl RunRequest {
    fn resolve(a: RunArgs) -> Result<Self> {
        let (model, json) = model_and_json("run", a.model, a.json)?;
        let marks = MarkRequest::resolve(a.marks)?;
        let mut reads = marks.reads(&model);
        reads.extend(a.inputs.as_deref().map(|p| ("array file", p)));
        reads.extend(a.expect.as_deref().map(|p| ("array file", p)));
        reads.extend(marks.config.as_deref().map(|p| ("config", p)));
        for (option, path) in [("--outputs", &a.outputs), ("--trace", &a.trace), ("--json", &json)] {
            if let Some(path) = path {
                refuse_overwriting(option, path, &reads)?;
            }
        }
        if let Some(path) = &a.save_config {
            // To save over the config that was loaded is what the option is for.
            reads.retain(|(what, _)| *what != "config");
            refuse_overwriting("--save-config", path, &reads)?;
        }
        save_config_is_a_file(a.save_config.as_deref())?;
        if let Some(p) = &a.precision {
            precision(p)?;
        }
        a.engine.as_deref().map(|e| engine("--engine", e, &["cpu", "tract"])).transpose()?;
        a.torch_engine.as_deref().map(|e| engine("--torch-engine", e, &["auto", "cpu", "tract"])).transpose()?;
        for text in &a.engine_for {
            engine_for(text)?;
        }
        for (option, x) in [("--rtol", a.rtol), ("--atol", a.atol)] {
            if let Some(x) = x
                && !(x >= 0.0 && x.is_finite())
            {
                return Err(CliError::usage(format!("{option} {x}: a tolerance is a number of 0 or more")));
            }
        }
        let timeout = match a.timeout {
            None => None,
            Some(s) => Some(Duration::try_from_secs_f64(s).ok().filter(|d| !d.is_zero()).ok_or_else(|| {
                CliError::usage("--timeout: expected a number of seconds above 0 that a clock can count, e.g. --timeout 60")
            })?),
        };
        let request = Self {
            model,
            inputs: a.inputs,
            seed: a.seed,
            input_specs: a.input_specs.iter().map(|t| input_spec(t)).collect::<Result<_>>()?,
            engine: a.engine,
            torch_engine: a.torch_engine,
            engine_for: a.engine_for,
            precision: a.precision,
            threads: a.threads,
            parallel: a.schedule == ScheduleArg::Parallel,
            no_fuse: a.no_fuse,
            warmup: a.warmup,
            repeat: a.repeat,
            timeout,
            outputs: a.outputs,
            dump: a.dump.zip(a.dump_dir),
            expect: a.expect,
            rtol: a.rtol,
            atol: a.atol,
            trace: a.trace,
            top: (a.top > 0).then_some(a.top),
            json,
            save_config: a.save_config,
            marks,
        };
        refuse_sharing(&request.output_files())?;
        Ok(request)
    }

    /// Files that the command writes, each with the option that names it.
    pub fn output_files(&self) -> Vec<(&'static str, &Path)> {
        output_files(&[
            ("--outputs", &self.outputs),
            ("--trace", &self.trace),
            ("--json", &self.json),
            ("--save-config", &self.save_config),
        ])
    }
}

fn output_files<'a>(options: &[(&'static str, &'a Option<PathBuf>)]) -> Vec<(&'static str, &'a Path)> {
    let file = |(option, path): &(&'static str, &'a Option<PathBuf>)| Some((*option, path.as_deref().filter(|p| *p != Path::new("-"))?));
    options.iter().filter_map(file).collect()
}

fn save_config_is_a_file(path: Option<&Path>) -> Result<()> {
    match path {
        Some(p) if p == Path::new("-") => {
            Err(CliError::usage("--save-config -: a config names its model relative to itself, so it needs a file; give a file name"))
        }
        _ => Ok(()),
    }
}

/// Only what this version runs; the names that are coming get an answer of their own.
fn precision(name: &str) -> Result<()> {
    match name {
        "fp32" => Ok(()),
        "bf16" | "int8" => Err(CliError::new(
            Exit::NotThere,
            format!(
                "--precision {name}: this version runs models in fp32 only (stored {name} weights and QDQ nodes are computed as the model says); leave the option out"
            ),
        )),
        _ => Err(CliError::usage(format!("there is no precision `{}`; this version has fp32", printable(name)))),
    }
}

/// Engines that are known by name; those of other programs are not used by this version.
fn engine(option: &str, name: &str, here: &[&str]) -> Result<()> {
    match name {
        n if here.contains(&n) => Ok(()),
        "torch" | "onnxruntime" | "openvino" => Err(CliError::new(
            Exit::NotThere,
            format!(
                "{option} {name}: this version does not run {name} yet; use one of {} (`recut doctor` shows what is found)",
                here.join(", ")
            ),
        )),
        _ => Err(CliError::usage(format!("{option}: there is no engine `{}`; this version has {}", printable(name), here.join(", ")))),
    }
}

fn engine_for(text: &str) -> Result<()> {
    let bad = || {
        CliError::usage(format!(
            "--engine-for `{}`: expected SEL=ENGINE[:PRECISION], e.g. --engine-for 'module:head=tract'",
            printable(text)
        ))
    };
    // Selectors hold `=` only in quoted names, engines never.
    let (select, target) = text.rsplit_once('=').ok_or_else(bad)?;
    if select.trim().is_empty() || target.is_empty() {
        return Err(bad());
    }
    let (name, p) = target.split_once(':').map_or((target, None), |(e, p)| (e, Some(p)));
    engine("--engine-for", name, &["cpu", "tract"])?;
    p.map_or(Ok(()), precision)
}

fn input_spec(text: &str) -> Result<InputSpec> {
    text.parse().map_err(|e| CliError::usage(format!("--input {e}")))
}

impl InspectRequest {
    fn resolve(a: InspectArgs) -> Result<Self> {
        let (model, json) = model_and_json("inspect", a.model, a.json)?;
        if let Some(path) = &json {
            refuse_overwriting("--json", path, &[("model", &model)])?;
        }
        let w = a.what;
        let table = match w {
            _ if w.nodes => InspectTable::Nodes,
            _ if w.modules => InspectTable::Modules,
            _ if w.values => InspectTable::Values,
            _ if w.ops => InspectTable::Ops,
            args::InspectWhat { select: Some(s), .. } => InspectTable::Select(s),
            _ => InspectTable::Summary,
        };
        Ok(Self { model, model_name: a.model_name, table, json, dims: dims(&a.dims)? })
    }
}

impl PartitionRequest {
    fn resolve(a: PartitionArgs) -> Result<Self> {
        let (model, json) = model_and_json("partition", a.model, a.json)?;
        let marks = MarkRequest::resolve(a.marks)?;
        let mut reads = marks.reads(&model);
        if let Some(path) = &a.save_config {
            refuse_overwriting("--save-config", path, &reads)?;
        }
        reads.extend(marks.config.as_deref().map(|p| ("config", p)));
        for (option, path) in [("--dot", &a.dot), ("--json", &json)] {
            if let Some(path) = path {
                refuse_overwriting(option, path, &reads)?;
            }
        }
        save_config_is_a_file(a.save_config.as_deref())?;
        let request = Self { model, preview: a.preview, dot: a.dot, json, save_config: a.save_config, marks };
        refuse_sharing(&request.output_files())?;
        Ok(request)
    }

    /// Files that the command writes, each with the option that names it.
    pub fn output_files(&self) -> Vec<(&'static str, &Path)> {
        output_files(&[("--dot", &self.dot), ("--json", &self.json), ("--save-config", &self.save_config)])
    }
}

impl SnapshotRequest {
    fn resolve(a: SnapshotArgs) -> Result<Self> {
        let bad = || {
            CliError::usage(format!("--size `{}`: expected COLSxROWS between 20x5 and 1000x500, e.g. --size 160x50", printable(&a.size)))
        };
        let (cols, rows) = a.size.split_once('x').ok_or_else(bad)?;
        let size = match (cols.parse::<u16>(), rows.parse::<u16>()) {
            (Ok(c @ 20..=1000), Ok(r @ 5..=500)) => (c, r),
            _ => return Err(bad()),
        };
        if let Some(path) = &a.output {
            match path.extension().and_then(|e| e.to_str()) {
                Some("txt" | "ansi" | "svg") => {}
                _ => return Err(CliError::usage(format!("-o {}: the file's name must end in .txt, .ansi or .svg", show(path)))),
            }
        }
        let marks = MarkRequest::resolve(a.marks)?;
        Ok(Self { model: a.model, marks, view: a.view, size, keys: a.keys, theme: a.theme, output: a.output })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn resolve(line: &str) -> Result<Request> {
        let args = expand_run_flag(line.split_whitespace().map(OsString::from).collect());
        Request::resolve(Cli::try_parse_from(args).map_err(|e| CliError::usage(e.to_string()))?)
    }

    fn run(line: &str) -> RunRequest {
        match resolve(line).unwrap() {
            Request::Run(r) => *r,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clap_finds_no_fault_in_the_definition() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_run_flag_is_the_run_command_wherever_it_stands() {
        for line in ["recut run m.onnx --top 3", "recut --run m.onnx --top 3", "recut m.onnx --run --top 3", "recut --top 3 m.onnx --run"] {
            let r = run(line);
            assert_eq!((r.model.to_str(), r.top), (Some("m.onnx"), Some(3)), "{line}");
        }
        assert!(matches!(resolve("recut m.onnx").unwrap(), Request::App(_)));
        assert!(resolve("recut inspect m.onnx --run").is_err());
    }

    #[test]
    fn clap_errors_get_the_hint_that_helps() {
        let args = |line: &str| -> Vec<OsString> { line.split_whitespace().map(OsString::from).collect() };
        assert!(command_hint(&args("recut inpsect m.onnx")).unwrap().contains("did you mean `recut inspect`"));
        assert!(command_hint(&args("recut frobnicate m.onnx")).unwrap().contains("the commands are run, inspect"));
        assert_eq!(command_hint(&args("recut m.onnx --config c.json")), None);
        assert!(run_option_hint(&args("recut m.onnx --repeat 5")).unwrap().contains("`recut --run MODEL --repeat …`"));
        assert_eq!(run_option_hint(&args("recut m.onnx --config c.json")), None);
        assert_eq!(run_option_hint(&args("recut --run m.onnx --repeat x")), None);
    }

    #[test]
    fn json_takes_an_optional_target_and_never_the_model() {
        assert_eq!(run("recut run m.onnx --json").json.unwrap(), Path::new("-"));
        assert_eq!(run("recut run m.onnx --json -").json.unwrap(), Path::new("-"));
        assert_eq!(run("recut run m.onnx --json r.json").json.unwrap(), Path::new("r.json"));
        let r = run("recut run --json m.onnx");
        assert_eq!((r.model.as_path(), r.json.as_deref()), (Path::new("m.onnx"), Some(Path::new("-"))));
    }

    #[test]
    fn marks_keep_their_order_and_kind() {
        let r = run("recut --run m.onnx --torch-executed-op B --torch-executed-op A --leaf l.* --wrap head=module:head --dim n=2");
        assert_eq!(
            r.marks.entries,
            [(MarkList::TorchOps, "B".to_owned()), (MarkList::TorchOps, "A".to_owned()), (MarkList::LeafModules, "l.*".to_owned())]
        );
        assert_eq!(r.marks.wraps, [("head".to_owned(), "module:head".to_owned())]);
        assert_eq!(r.marks.dims, [("n".to_owned(), 2)]);
    }

    #[test]
    fn input_specs_are_checked_before_anything_is_opened() {
        let r = run("recut run m --input a:b:2x3:i64:0..9");
        assert_eq!((r.input_specs[0].name.as_str(), r.input_specs[0].shape.as_slice()), ("a:b", [2, 3].as_slice()));
        assert_eq!(resolve("recut run m --input x").unwrap_err().exit.code(), 2);
    }

    #[test]
    fn what_is_asked_for_and_not_here_is_told_from_a_typing_error() {
        let exit = |line: &str| resolve(line).unwrap_err().exit.code();
        assert_eq!(exit("recut run m --engine torch"), 5);
        assert_eq!(exit("recut run m --engine tortch"), 2);
        assert_eq!(exit("recut run m --precision int8"), 5);
        assert_eq!(exit("recut run m --precision fp23"), 2);
        assert_eq!(exit("recut run m --engine-for op:Relu=openvino"), 5);
        assert_eq!(exit("recut run m --timeout 0"), 2);
        assert_eq!(exit("recut run m --wrap head"), 2);
        assert_eq!(exit("recut run m --dim n=-1"), 2);
        assert_eq!(exit("recut run m --strategy best"), 2);
        assert_eq!(exit("recut snapshot m --size 9"), 2);
    }
}
