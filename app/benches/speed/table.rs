//! Lines of the table, printed as they are measured.

use std::io::Write;
use std::time::Duration;

/// What a line is measured in.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Milliseconds,
    Megabytes,
    Percent,
    Nanoseconds,
}

/// The table.
#[derive(Default)]
pub(crate) struct Table {
    lines: usize,
    missed: usize,
}

/// A measured line: what should hold, and what was found.
pub(crate) struct Line<'a> {
    pub(crate) what: &'a str,
    pub(crate) unit: Unit,
    /// Most that the median may be; none where the line only explains others.
    pub(crate) target: Option<f64>,
    /// Most that the 99th percentile may be.
    pub(crate) target_p99: Option<f64>,
    pub(crate) spread: Spread,
}

/// Median, 99th percentile and extremes.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of times, in milliseconds.
    pub(crate) fn of(times: &[Duration]) -> Self {
        Self::of_numbers(times.iter().map(|t| t.as_secs_f64() * 1e3).collect())
    }

    /// Of numbers.
    pub(crate) fn of_numbers(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1))).copied().unwrap_or(f64::NAN);
        Self { median: at(0.5), p99: at(0.99), least: at(0.0), most: at(1.0) }
    }
}

impl Table {
    /// A heading: the model, and what the machine is doing.
    pub(crate) fn model(&mut self, name: &str, nodes: usize) {
        if self.lines == 0 {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let load: Vec<&str> = load.split(' ').take(3).collect();
            put(&format!("load average {}", load.join(" ")));
        }
        put(&format!("\n{name}, {nodes} nodes"));
        put(&format!("  {:<44} {:>12} {:>10} {:>10} {:>10} {:>10}  {}", "", "target", "median", "p99", "least", "most", "holds"));
    }

    /// A line.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        self.lines += 1;
        let s = line.spread;
        let holds = line.target.is_none_or(|t| s.median <= t) && line.target_p99.is_none_or(|t| s.p99 <= t);
        self.missed += usize::from(!holds);
        let target = match (line.target, line.target_p99) {
            (None, _) => "-".to_owned(),
            (Some(t), None) => format!("{t}"),
            (Some(t), Some(p)) => format!("{t} / {p}"),
        };
        let unit = match line.unit {
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::Percent => "%",
            Unit::Nanoseconds => "ns",
        };
        let number = |n: f64| if n >= 100.0 { format!("{n:.0}") } else { format!("{n:.3}") };
        let holds = match (line.target, holds) {
            (None, _) => "",
            (_, true) => "yes",
            (_, false) => "NO",
        };
        put(&format!(
            "  {:<44} {:>12} {:>10} {:>10} {:>10} {:>10}  {holds}",
            format!("{} ({unit})", line.what),
            target,
            number(s.median),
            number(s.p99),
            number(s.least),
            number(s.most),
        ));
    }

    /// Something that has to be said.
    pub(crate) fn remark(&mut self, text: &str) {
        put(&format!("  {text}"));
    }

    /// The last line.
    pub(crate) fn end(&self) {
        put(&format!("\n{} lines, {} do not hold", self.lines, self.missed));
    }
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("standard output is open");
}
