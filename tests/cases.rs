//! Every awkward, hostile and tricky model of `tests/cases/cases.json`, checked for the behaviour it must show.
//!
//! `cargo test --test cases` checks all; `cargo test --test cases -- NAME` those whose id contains NAME. Every case runs
//! in a thread that catches panics; one with limits runs in a process of its own, whose CPU time and peak memory are
//! looked at. `tests/cases/not-yet.txt` names the cases that do not hold yet; one that holds and is listed there is a
//! failure as well, so that the list only shrinks.

#![allow(clippy::print_stdout, reason = "this is a test program; its table is what it is for")]

#[path = "cases/arrays.rs"]
mod arrays;
#[path = "cases/check.rs"]
mod check;
#[path = "cases/spec.rs"]
mod spec;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use spec::Case;

/// Stack of a case's thread: that of the program's own command thread.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases");
    let cases = match spec::load(&dir) {
        Ok(cases) => cases,
        Err(e) => {
            println!("cannot read the cases: {e}");
            return ExitCode::FAILURE;
        }
    };
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, id] = args.as_slice()
        && flag == "--one"
    {
        return child(&dir, &cases, id);
    }
    if args.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().find(|a| !a.starts_with('-'));
    let chosen: Vec<&Case> = cases.iter().filter(|c| filter.is_none_or(|f| c.id.contains(f.as_str()))).collect();
    let not_yet = match spec::not_yet(&dir.join("not-yet.txt"), &cases) {
        Ok(list) => list,
        Err(e) => {
            println!("not-yet.txt: {e}");
            return ExitCode::FAILURE;
        }
    };
    report(&chosen, &not_yet, |case| if case.limits.is_some() { in_process(case) } else { in_thread(&dir, case) })
}

/// Checks all, prints a table of what fails, and says whether anything did.
fn report(cases: &[&Case], not_yet: &BTreeMap<String, String>, check: impl Fn(&Case) -> Vec<String>) -> ExitCode {
    let (mut held, mut waiting, mut failures) = (0, 0, Vec::new());
    for case in cases {
        let faults = check(case);
        match (faults.is_empty(), not_yet.get(&case.id)) {
            (true, None) => held += 1,
            (true, Some(_)) => failures.push((case, vec!["it holds: take it off not-yet.txt".to_owned()])),
            (false, Some(_)) => waiting += 1,
            (false, None) => failures.push((case, faults)),
        }
    }
    for (case, faults) in &failures {
        println!("{:<32} {}", case.id, faults.join("; "));
    }
    println!("cases: {held} hold, {} fail, {waiting} not yet, of {}", failures.len(), cases.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is wrong with a case; a panic is.
fn in_thread(dir: &Path, case: &Case) -> Vec<String> {
    let check = || {
        std::thread::scope(|s| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(s, || check::check(dir, case));
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(faults)) => faults,
                Ok(Err(payload)) => {
                    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
                    vec![format!("panicked: {}", text.unwrap_or("no message"))]
                }
                Err(e) => vec![format!("no thread: {e}")],
            }
        })
    };
    check()
}

/// Checks one case in a process of its own, which may crash, hang or take too much.
fn in_process(case: &Case) -> Vec<String> {
    let Some(limits) = &case.limits else { return vec!["it has no limits".to_owned()] };
    let run = || -> std::io::Result<Vec<String>> {
        let mut child =
            Command::new(std::env::current_exe()?).args(["--one", &case.id]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        // Time is measured as CPU time by the child; the wall only stops what hangs.
        let end = Instant::now() + Duration::from_secs_f64(limits.seconds * 10.0);
        while child.try_wait()?.is_none() {
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                return Ok(vec![format!("hangs: killed after {} s", limits.seconds * 10.0)]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut faults: Vec<String> = text.lines().filter_map(|l| l.strip_prefix("fault ")).map(ToOwned::to_owned).collect();
        if !text.lines().any(|l| l == "done") {
            faults.push(format!("crashed: {}", output.status));
        }
        Ok(faults)
    };
    run().unwrap_or_else(|e| vec![format!("cannot be run: {e}")])
}

/// The process of one case: prints a line for every fault.
fn child(dir: &Path, cases: &[Case], id: &str) -> ExitCode {
    let Some(case) = cases.iter().find(|c| c.id == id) else { return ExitCode::FAILURE };
    for fault in in_thread(dir, case) {
        println!("fault {}", fault.replace('\n', " "));
    }
    println!("done");
    ExitCode::SUCCESS
}
