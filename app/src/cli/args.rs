//! The command line as it is typed. [`super::request`] turns it into what is to be done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use recut_core::config::MAX_THREADS;

/// Shown below `recut --help`.
const AFTER_HELP: &str = "\
Examples:
  recut model.onnx                                     open the app
  recut --run model.onnx --top 5                       run on generated inputs, show the five slowest nodes
  recut --run model.onnx --inputs io.npz --expect io.npz
  recut partition model.onnx --torch-executed-op Relu --save-config model.recut.json
  recut model.onnx --config model.recut.json           go on in the app

A selector names nodes: op:Relu, module:layer1.*, class:torch.nn.ReLU, node:NAME, and, or, not, between(A, B).

Exit status: 0 done; 1 it ran, and what was asked to hold does not; 2 usage, selector or config error; 3 the model
cannot be opened; 4 running failed; 5 an engine or file that was asked for is not there; 130 interrupted.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "recut",
    version,
    about = "Open a converted neural-network graph, decide what runs where, run it and see where the time goes",
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do; without one, the terminal app opens MODEL.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Model to open in the terminal app.
    #[arg(value_hint = ValueHint::FilePath, required = true)]
    pub model: Option<PathBuf>,

    /// Run MODEL without the app: the same as `recut run MODEL`, and takes its options.
    #[arg(long)]
    pub run: bool,

    /// Partition config and marks.
    #[command(flatten)]
    pub marks: MarkArgs,

    /// Settings of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
}

/// Settings of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Settings of every command")]
pub struct GlobalArgs {
    /// When to use colour; otherwise NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and the terminal decide.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto, display_order = 900)]
    pub color: ColorWhen,

    /// Say only what went wrong.
    #[arg(long, short, global = true, display_order = 901)]
    pub quiet: bool,

    /// Python to look for engines with; else $RECUT_PYTHON, $VIRTUAL_ENV, then python3.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::ExecutablePath, display_order = 902)]
    pub python: Option<PathBuf>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal that has colours.
    Auto,
    /// Also into a pipe or file.
    Always,
    /// Never.
    Never,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a model, and show the time of every node.
    Run(Box<RunArgs>),
    /// Show what a model holds: operators, modules, values, costs.
    Inspect(InspectArgs),
    /// Show the partitions that marks and backend give; nothing is executed.
    Partition(Box<PartitionArgs>),
    /// Write a model in another format.
    Export(ExportArgs),
    /// Print one frame of the terminal app.
    Snapshot(Box<SnapshotArgs>),
    /// Show which engines, CPU features, threads, terminal colours and config files are found.
    Doctor(DoctorArgs),
    /// Print a JSON Schema.
    Schema(SchemaArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write one per command into a directory.
    Man(ManArgs),
}

/// Partition config and the marks that are added to it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Config and marks (marks are added to the config, in the order of their kinds)")]
pub struct MarkArgs {
    /// Program to open, of a torch.export archive that holds several.
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,

    /// Partition config to start from.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Backend whose capability table decides what runs accelerated: tensorrt, openvino or onnxruntime.
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,

    /// Capability table of your own, instead of a built-in one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub support: Option<PathBuf>,

    /// Operators to run in torch. Repeatable, like the other marks.
    #[arg(long = "torch-executed-op", value_name = "SEL")]
    pub torch_executed_ops: Vec<String>,

    /// Modules (paths or classes) to run in torch.
    #[arg(long = "torch-executed-module", value_name = "SEL")]
    pub torch_executed_modules: Vec<String>,

    /// Nodes pinned to torch.
    #[arg(long = "torch-executed-node", value_name = "SEL")]
    pub torch_executed_nodes: Vec<String>,

    /// Nodes pinned to the accelerator.
    #[arg(long = "accelerated-node", value_name = "SEL")]
    pub accelerated_nodes: Vec<String>,

    /// Modules that are never split.
    #[arg(long = "leaf", value_name = "SEL")]
    pub leaf_modules: Vec<String>,

    /// Turn the selected nodes into one opaque custom op called NAME.
    #[arg(long = "wrap", value_name = "NAME=SEL")]
    pub wraps: Vec<String>,

    /// Partitioning strategy: min-partitions.
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,

    /// Accelerated partitions with fewer compute nodes go to torch.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_block_size: Option<u32>,

    /// Fail (exit 1) when anything is left in torch.
    #[arg(long)]
    pub require_full_compilation: bool,

    /// A selector that matches nothing is an error.
    #[arg(long)]
    pub strict: bool,

    /// Operators that the backend takes under a condition that cannot be checked go to torch.
    #[arg(long)]
    pub strict_support: bool,

    /// Size of a symbolic dimension.
    #[arg(long = "dim", value_name = "NAME=SIZE")]
    pub dims: Vec<String>,
}

/// `recut run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Model to run.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,

    /// Config and marks.
    #[command(flatten)]
    pub marks: MarkArgs,

    /// Arrays to feed: .npz, .safetensors, .npy, or a directory of .npy and .pb files. Missing inputs are generated.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Inputs")]
    pub inputs: Option<PathBuf>,

    /// Seed of generated inputs.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 0, help_heading = "Inputs")]
    pub seed: u64,

    /// Shape, type and range of a generated input, e.g. x:1x3x224x224:f32:0..1.
    #[arg(long = "input", value_name = "NAME:SHAPE[:DTYPE[:LOW..HIGH]]", help_heading = "Inputs")]
    pub input_specs: Vec<String>,

    /// Engine of accelerated partitions: cpu or tract.
    #[arg(long, value_name = "NAME", help_heading = "Execution")]
    pub engine: Option<String>,

    /// Engine of torch partitions: auto, cpu or tract; this version has no torch engine, so auto is cpu.
    #[arg(long, value_name = "NAME", help_heading = "Execution")]
    pub torch_engine: Option<String>,

    /// Engine (and precision) of the selected part.
    #[arg(long, value_name = "SEL=ENGINE[:PRECISION]", help_heading = "Execution")]
    pub engine_for: Vec<String>,

    /// Precision of accelerated partitions; this version runs fp32.
    #[arg(long, value_name = "NAME", help_heading = "Execution")]
    pub precision: Option<String>,

    /// Threads; the machine's cores if not given.
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)), help_heading = "Execution")]
    pub threads: Option<u32>,

    /// Run nodes one after the other (times one can trust) or independent ones side by side.
    #[arg(long, value_enum, default_value_t = ScheduleArg::Sequential, help_heading = "Execution")]
    pub schedule: ScheduleArg,

    /// Run every node by itself: fold no constants, make no groups (quantized operators then run in floating point).
    #[arg(long, help_heading = "Execution")]
    pub no_fuse: bool,

    /// Runs before measuring.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000_000), help_heading = "Execution")]
    pub warmup: u32,

    /// Measured runs.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Execution")]
    pub repeat: u32,

    /// Stop with an error (exit 4) after so many seconds.
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", help_heading = "Execution")]
    pub timeout: Option<f64>,

    /// Write the outputs.
    #[arg(long, value_name = "FILE.npz", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub outputs: Option<PathBuf>,

    /// Write the values that the selected nodes make, as .npy files into the directory given by -o.
    #[arg(long, value_name = "SEL", requires = "dump_dir", help_heading = "Results")]
    pub dump: Option<String>,

    /// Directory for --dump.
    #[arg(long = "output-dir", short = 'o', id = "dump_dir", value_name = "DIR", value_hint = ValueHint::DirPath, requires = "dump", help_heading = "Results")]
    pub dump_dir: Option<PathBuf>,

    /// Compare the outputs with these arrays; exit 1 if they differ by more than the tolerances.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Results")]
    pub expect: Option<PathBuf>,

    /// Relative tolerance of --expect [default: 0.001; 0.01 for f16, 0.015625 for bf16].
    #[arg(long, allow_negative_numbers = true, value_name = "X", help_heading = "Results")]
    pub rtol: Option<f64>,

    /// Absolute tolerance of --expect [default: 0.0001; 0.001 for f16, 0.01 for bf16].
    #[arg(long, allow_negative_numbers = true, value_name = "X", help_heading = "Results")]
    pub atol: Option<f64>,

    /// Write a trace for chrome://tracing or Perfetto.
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub trace: Option<PathBuf>,

    /// Rows in the table of the slowest nodes; 0 for all.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 10, help_heading = "Results")]
    pub top: usize,

    /// The report as JSON, to FILE or to the standard output.
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub json: Option<PathBuf>,

    /// Save the config with the marks added.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub save_config: Option<PathBuf>,
}

/// Schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleArg {
    /// One node after the other, parallel inside kernels.
    Sequential,
    /// Independent partitions and nodes side by side.
    Parallel,
}

/// `recut inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// Model to look at.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,

    /// What to list.
    #[command(flatten)]
    pub what: InspectWhat,

    /// Everything as JSON, to FILE or to the standard output.
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Program to open, of a torch.export archive that holds several.
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,

    /// Size of a symbolic dimension, for FLOPs and bytes.
    #[arg(long = "dim", value_name = "NAME=SIZE")]
    pub dims: Vec<String>,
}

/// Tables of `recut inspect`.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct InspectWhat {
    /// Every node.
    #[arg(long)]
    pub nodes: bool,
    /// The module tree.
    #[arg(long)]
    pub modules: bool,
    /// Every value with its shape and type.
    #[arg(long)]
    pub values: bool,
    /// Operators with counts.
    #[arg(long)]
    pub ops: bool,
    /// The nodes that a selector matches.
    #[arg(long, value_name = "SEL")]
    pub select: Option<String>,
}

/// `recut partition`.
#[derive(Clone, Debug, Args)]
pub struct PartitionArgs {
    /// Model to partition.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,

    /// Config and marks.
    #[command(flatten)]
    pub marks: MarkArgs,

    /// Show only which node types the backend takes, with the reasons.
    #[arg(long, help_heading = "Results")]
    pub preview: bool,

    /// Write the partitioned graph for Graphviz.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub dot: Option<PathBuf>,

    /// The report as JSON, to FILE or to the standard output.
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub json: Option<PathBuf>,

    /// Save the config with the marks added.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub save_config: Option<PathBuf>,
}

/// `recut export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Model to write.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,

    /// Format to write.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: ExportFormat,

    /// File to write, or - for the standard output. An older file of that name is replaced.
    #[arg(short, long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Program to open, of a torch.export archive that holds several.
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,

    /// onnx: put large tensors into FILE.data, also where they would fit into one file (2 GiB).
    #[arg(long)]
    pub external_data: bool,
}

/// Formats of `recut export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// ONNX, with the weights; torch operators are translated.
    Onnx,
    /// Recut graph: JSON that refers to the weights where they lie.
    Json,
}

/// `recut snapshot`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotArgs {
    /// Model to show.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,

    /// Config and marks.
    #[command(flatten)]
    pub marks: MarkArgs,

    /// View to show: lanes or problems.
    #[arg(long, value_name = "NAME", help_heading = "Frame")]
    pub view: Option<String>,

    /// Columns and rows of the frame.
    #[arg(long, value_name = "COLSxROWS", default_value = "120x40", help_heading = "Frame")]
    pub size: String,

    /// Keys to press first, separated by spaces, e.g. "j j t".
    #[arg(long, value_name = "KEYS", default_value = "", allow_hyphen_values = true, help_heading = "Frame")]
    pub keys: String,

    /// Colour theme: dark, light, high-contrast or colour-blind.
    #[arg(long, value_name = "NAME", help_heading = "Frame")]
    pub theme: Option<String>,

    /// File to write, .txt, .ansi or .svg; the standard output if not given.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Frame")]
    pub output: Option<PathBuf>,
}

/// `recut doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// As JSON, to FILE or to the standard output.
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// `recut schema`.
#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {
    /// Which one.
    #[arg(value_enum)]
    pub what: SchemaWhat,
}

/// Published schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaWhat {
    /// The partition config.
    Config,
    /// The objects that `--json` prints.
    Report,
    /// Recut graph files: graphs as JSON.
    Graph,
}

/// `recut completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `recut man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Directory to write `recut.1`, `recut-run.1`, … into.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}
