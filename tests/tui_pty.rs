//! The real program in a pseudo-terminal that answers no query: first frame, keys, saving, resizing, leaving.

#[path = "pty_command.rs"]
mod pty_command;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, MasterPty, PtySize, native_pty_system};

/// Silence after which the app is nudged.
const NUDGE: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(60);

struct Session {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sample-graphs").join(name)
}

impl Session {
    /// Opens `model` in a terminal of this size, with `home` as the user's folder.
    fn open(model: &Path, home: &Path, cols: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(pty_command::recut(model, home)).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (tx, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0u8; 65536];
            while let Ok(n) = reader.read(&mut buffer) {
                if n == 0 || tx.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { child, master: pair.master, writer, output, screen: vt100::Parser::new(rows, cols, 0), raw: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Tells the app that it has the focus, which changes nothing. A key that arrives together with a signal can stay in the
    /// terminal's buffer until the next input: the event source is told of both at once and looks at one.
    fn nudge(&mut self) {
        let _ = self.writer.write_all(b"\x1b[I").and_then(|()| self.writer.flush());
    }

    /// Reads until the screen satisfies `wanted`.
    fn wait(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.screen.screen().contents();
            if wanted(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{what} does not show:\n{text}");
            match self.output.recv_timeout(NUDGE) {
                Ok(bytes) => {
                    self.screen.process(&bytes);
                    self.raw.extend(bytes);
                }
                Err(_) => self.nudge(),
            }
        }
    }

    /// Waits for the end; gives the exit code and all that was written.
    fn end(mut self) -> (u32, String) {
        let end = Instant::now() + PATIENCE;
        let mut quiet = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the program does not end:\n{}", self.screen.screen().contents());
            std::thread::sleep(Duration::from_millis(20));
            if quiet.elapsed() > NUDGE {
                self.nudge();
                quiet = Instant::now();
            }
        };
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(300)) {
            self.raw.extend(bytes);
        }
        (status.exit_code(), String::from_utf8_lossy(&self.raw).into_owned())
    }
}

/// The screen is left, the cursor shows, the mouse is free again.
fn restored(raw: &str) -> bool {
    let last = |on: &str, off: &str| raw.rfind(off) > raw.rfind(on);
    last("\x1b[?1049h", "\x1b[?1049l") && last("\x1b[?25l", "\x1b[?25h") && last("\x1b[?1000h", "\x1b[?1000l")
}

#[test]
fn a_person_marks_saves_resizes_and_leaves() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("tiny_cnn.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    let mut s = Session::open(&model, home.path(), 140, 40);
    let first = s.wait("the first frame", |t| t.contains("run_on_acc_0") && t.contains("Modules") && t.contains("output"));
    assert!(first.contains("tiny_cnn.onnx") && first.contains("22 nodes"), "{first}");
    s.press("jt");
    s.wait("the mark", |t| t.contains("run_on_torch_1") && t.contains("+1 torch partition"));
    s.press("s");
    s.wait("the saved config", |t| t.contains("saved"));
    let config = std::fs::read_to_string(home.path().join("tiny_cnn.recut.json")).unwrap();
    assert!(config.contains("\"torch_executed_nodes\": [\n    \""), "{config}");
    s.master.resize(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 }).unwrap();
    s.screen.screen_mut().set_size(24, 80);
    s.wait("the frame at the new size", |t| !t.contains("Modules"));
    s.press("?");
    s.wait("help at the new size", |t| t.contains("One row down"));
    s.press("\x1b");
    s.wait("the app without help", |t| !t.contains("One row down") && t.contains("torch_1"));
    s.press("q");
    let (code, raw) = s.end();
    assert_eq!(code, 0);
    assert!(restored(&raw));
}

#[test]
fn a_killed_session_restores_the_terminal_and_offers_its_edits_again() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("tiny_cnn.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the first frame", |t| t.contains("run_on_acc_0"));
    s.press("t");
    s.wait("the mark", |t| t.contains("+1 torch partition"));
    let pid = s.child.process_id().unwrap();
    let killed = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    let (_, raw) = s.end();
    assert!(restored(&raw));
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the question", |t| t.contains("Unsaved edits of an earlier session"));
    s.press("y");
    s.wait("the edits", |t| t.contains("run_on_torch"));
    s.press("q");
    s.wait("the question about unsaved edits", |t| t.contains("Quit without saving"));
    s.press("d");
    assert_eq!(s.end().0, 0);
}

#[test]
fn a_model_that_changes_on_disk_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("m.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    let mut s = Session::open(&model, home.path(), 140, 40);
    s.wait("the first frame", |t| t.contains("22 nodes"));
    let next = home.path().join("next");
    std::fs::copy(sample("tiny_lstm.onnx"), &next).unwrap();
    std::fs::rename(&next, &model).unwrap();
    s.wait("the new model", |t| t.contains("model reloaded") && !t.contains("22 nodes"));
    s.press("q");
    assert_eq!(s.end().0, 0);
}

#[test]
fn a_file_that_is_no_model_is_an_error_and_the_terminal_is_as_before() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("no.onnx");
    std::fs::write(&model, "no model at all").unwrap();
    let s = Session::open(&model, home.path(), 100, 30);
    let (code, raw) = s.end();
    assert_eq!(code, 3, "{raw}");
    assert!(raw.contains("no.onnx"), "{raw}");
    assert!(!raw.contains("\x1b[?1049h") || restored(&raw));
}

#[test]
fn edits_of_a_killed_session_stay_until_somebody_decides_and_are_found_by_any_path() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("tiny_cnn.onnx");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    std::fs::create_dir(home.path().join("sub")).unwrap();
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the first frame", |t| t.contains("run_on_acc_0"));
    s.press("t");
    s.wait("the mark", |t| t.contains("+1 torch partition"));
    let pid = s.child.process_id().unwrap();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap().success());
    s.end();
    let other = home.path().join("sub/../tiny_cnn.onnx");
    for _ in 0..2 {
        let mut s = Session::open(&other, home.path(), 140, 30);
        s.wait("the question", |t| t.contains("Unsaved edits of an earlier session") && t.contains("they stay kept"));
        s.press("l");
        s.wait("that they are kept", |t| t.contains("stay kept; the next start offers them again"));
        s.press("q");
        assert_eq!(s.end().0, 0);
    }
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the question again", |t| t.contains("Unsaved edits of an earlier session"));
    s.press("d");
    s.wait("that they are dropped", |t| t.contains("are dropped"));
    s.press("q");
    s.end();
    let mut s = Session::open(&model, home.path(), 140, 30);
    let text = s.wait("the first frame", |t| t.contains("run_on_acc_0"));
    assert!(!text.contains("Unsaved edits"), "{text}");
    s.press("q");
    s.end();
}

#[test]
fn a_config_beside_the_model_is_opened_and_never_replaced_unasked() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("tiny_cnn.onnx");
    let config = home.path().join("tiny_cnn.recut.json");
    std::fs::copy(sample("tiny_cnn.onnx"), &model).unwrap();
    std::fs::write(&config, "{\"version\": 1, \"torch_executed_ops\": [\"Relu\"]}").unwrap();
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the loaded config", |t| t.contains("config tiny_cnn.recut.json loaded") && t.contains("run_on_torch_1"));
    std::fs::write(&config, "{broken my notes").unwrap();
    s.wait("the broken config", |t| t.contains("no valid JSON") && t.contains("1 problem"));
    s.press("jjt");
    s.wait("the mark", |t| t.contains("torch") && t.contains("tiny_cnn.onnx*"));
    s.press("s");
    s.wait("the question", |t| t.contains("Config changed on disk"));
    s.press("n");
    s.wait("the app", |t| !t.contains("Config changed on disk"));
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "{broken my notes");
    s.press("q");
    s.wait("the question about unsaved edits", |t| t.contains("Quit without saving"));
    s.press("d");
    s.end();
    // A broken one beside the model stops nothing.
    let mut s = Session::open(&model, home.path(), 140, 30);
    s.wait("the first frame", |t| t.contains("run_on_acc_0") && t.contains("was not loaded") && t.contains("1 problem"));
    s.press("q");
    assert_eq!(s.end().0, 0);
}
