//! Runs a command so that Ctrl-C, a time-out and even a fault of our own end it cleanly.

use std::sync::Mutex;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, select};
use recut_exec::engine::CancelToken;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::error::{CliError, Exit, Result};

/// How long a command may take to stop by itself after it was asked.
const GRACE: Duration = Duration::from_secs(2);

/// Stack of the command's thread: what importers nest is capped, this only has to fit under it.
const STACK: usize = 16 << 20;

/// What the last panic said.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps what a panic says instead of printing it: a panic that an engine catches becomes an ordinary error, and for any
/// other the user gets one paragraph.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        *PANIC.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(format!("{what}{place}"));
    }));
}

fn internal_error() -> CliError {
    let said = PANIC.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take().unwrap_or_default();
    let said = recut_core::diagnostic::printable(&said).into_owned();
    CliError::new(
        Exit::Run,
        format!(
            "internal error: {said}. This is a fault of recut {} and not yours: please report it with the command and, if you can, \
             the model",
            env!("CARGO_PKG_VERSION")
        ),
    )
}

/// Runs `f` on this thread; a panic becomes an error.
///
/// # Errors
/// Those of `f`.
pub fn unwound(f: impl FnOnce() -> Result<()>) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|_| Err(internal_error()))
}

/// Runs `work` on a thread of its own and waits for it, for a signal, or for `timeout`. On the latter two the work is
/// asked to stop; if it does not within a moment it is left behind, and temporary files are removed.
///
/// # Errors
/// Those of `work`; [`Exit::Interrupted`] after a signal; [`Exit::Run`] after the time-out.
pub fn supervise(timeout: Option<Duration>, work: impl FnOnce(&CancelToken) -> Result<()> + Send + 'static) -> Result<()> {
    let cannot = |e: std::io::Error| CliError::new(Exit::Run, format!("cannot start: {e}"));
    let cancel = CancelToken::default();
    let (done_tx, done) = crossbeam_channel::bounded(1);
    let token = cancel.clone();
    std::thread::Builder::new()
        .name("recut-command".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            let result = unwound(|| work(&token));
            // The receiver is gone when the process is ending anyway.
            let _ = done_tx.send(result);
        })
        .map_err(cannot)?;
    let (signal_tx, signal) = crossbeam_channel::bounded(4);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    std::thread::Builder::new()
        .name("recut-signals".to_owned())
        .spawn(move || {
            for s in &mut signals {
                if signal_tx.try_send(s).is_err() {
                    break;
                }
            }
        })
        .map_err(cannot)?;
    let expired = timeout.map_or_else(crossbeam_channel::never, crossbeam_channel::after);
    select! {
        recv(done) -> result => result.unwrap_or_else(|_| Err(internal_error())),
        recv(signal) -> _ => {
            stop(&cancel, &done, &signal);
            Err(CliError::new(Exit::Interrupted, "interrupted; nothing half-written is left"))
        }
        recv(expired) -> _ => {
            stop(&cancel, &done, &signal);
            let seconds = timeout.unwrap_or_default().as_secs_f64();
            Err(CliError::new(Exit::Run, format!("stopped after {seconds} s, as --timeout asks; give it more time, or run a smaller input")))
        }
    }
}

/// Asks the work to stop and waits a moment; a second signal cuts the wait short.
fn stop(cancel: &CancelToken, done: &Receiver<Result<()>>, signal: &Receiver<i32>) {
    cancel.cancel();
    select! {
        recv(done) -> _ => {}
        recv(signal) -> _ => {}
        default(GRACE) => {}
    }
    if matches!(done.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout)) {
        recut_core::files::remove_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_paragraph_that_asks_to_be_reported() {
        record_panics();
        let e = unwound(|| panic!("index 3\nof 2")).unwrap_err();
        assert_eq!(e.exit.code(), 4);
        assert!(e.message.starts_with("internal error: index 3\\u{a}of 2 ("), "{e}");
        assert!(e.message.contains("please report"), "{e}");
        let _ = std::panic::take_hook();
    }

    #[test]
    fn a_time_out_cancels_and_says_so() {
        let e = supervise(Some(Duration::from_millis(20)), |cancel| {
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
        .unwrap_err();
        assert_eq!(e.exit.code(), 4);
        assert!(e.message.contains("--timeout"), "{e}");
    }
}
