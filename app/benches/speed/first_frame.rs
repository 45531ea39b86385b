//! The real program in a pseudo-terminal that answers no query: from exec to the complete first frame, and the memory that
//! is resident then.

use std::io::Read;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use portable_pty::{PtySize, native_pty_system};

use super::pty_command;
use super::table::{Line, Spread, Table, Unit};

/// Columns and rows.
const SIZE: (u16, u16) = (200, 60);

/// Silence after which a frame counts as complete: longer than between two frames, and than the start of a job takes.
const SILENCE: Duration = Duration::from_millis(150);

const RUNS: usize = 9;

/// Measures `model`.
pub(crate) fn measure(model: &Path, nodes: usize, table: &mut Table) {
    let mut times = Vec::new();
    let mut memory = Vec::new();
    // The first one warms the file cache up.
    for run in 0..=RUNS {
        match first_frame(model) {
            Ok((time, bytes)) if run > 0 => {
                times.push(time);
                memory.push(bytes as f64 / 1e6);
            }
            Ok(_) => {}
            Err(e) => return table.remark(&format!("first frame: {e}")),
        }
    }
    let target = match nodes {
        0..=1_000 => 40.0,
        1_001..=10_000 => 80.0,
        _ => 500.0,
    };
    table.line(&Line {
        what: "exec to complete first frame",
        unit: Unit::Milliseconds,
        target: Some(target),
        target_p99: None,
        spread: Spread::of(&times),
    });
    table.line(&Line {
        what: "resident memory with the model open",
        unit: Unit::Megabytes,
        // What the graph itself takes is no waste; for models of some thousand nodes, however large, the target is one number.
        target: (nodes <= 10_000).then_some(60.0),
        target_p99: None,
        spread: Spread::of_numbers(memory),
    });
}

/// Time from exec to the last byte of the first frame, and resident bytes some time after it.
fn first_frame(model: &Path) -> Result<(Duration, u64), String> {
    let home = tempfile::tempdir().map_err(|e| e.to_string())?;
    let size = PtySize { rows: SIZE.1, cols: SIZE.0, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).map_err(|e| e.to_string())?;
    let command = pty_command::recut(model, home.path());
    let mut reader = pair.master.try_clone_reader().map_err(|e| e.to_string())?;
    let begin = Instant::now();
    let mut child = pair.slave.spawn_command(command).map_err(|e| e.to_string())?;
    drop(pair.slave);
    let (tx, output) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 65536];
        while let Ok(n) = reader.read(&mut buffer) {
            let sent = tx.send((Instant::now(), buffer.get(..n).unwrap_or(&[]).to_vec()));
            if n == 0 || sent.is_err() {
                return;
            }
        }
    });
    let mut screen = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    let mut complete: Option<Instant> = None;
    let result = loop {
        let patience = if complete.is_some() { SILENCE } else { Duration::from_secs(60) };
        match output.recv_timeout(patience) {
            Ok((at, bytes)) => {
                // What comes later (costs that a job computed) is another frame.
                screen.process(&bytes);
                if complete.is_none() && is_complete(&screen.screen().contents()) {
                    complete = Some(at);
                }
            }
            Err(_) => match complete {
                Some(at) => break Ok((at - begin, resident(child.process_id()).unwrap_or(0))),
                None => break Err(format!("no complete frame:\n{}", screen.screen().contents())),
            },
        }
    };
    // Ended by its own key, like a person would.
    let mut writer = pair.master.take_writer().map_err(|e| e.to_string())?;
    let asked = std::io::Write::write_all(&mut writer, b"q").and_then(|()| std::io::Write::flush(&mut writer));
    let patience = Instant::now() + Duration::from_secs(5);
    while asked.is_ok() && Instant::now() < patience && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    result
}

/// All panes are there down to the last line, which is drawn last and ends with the position of the cursor.
fn is_complete(screen: &str) -> bool {
    let last = screen.lines().last().unwrap_or("").trim_end();
    let position = last.rsplit(' ').next().and_then(|p| p.split_once('/'));
    let numbers = position.is_some_and(|(a, b)| a.parse::<u64>().is_ok() && b.parse::<u64>().is_ok());
    numbers && screen.contains("Modules") && screen.contains("Graph") && screen.contains("partition")
}

/// `VmRSS` of a process in bytes.
fn resident(process: Option<u32>) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process?)).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
