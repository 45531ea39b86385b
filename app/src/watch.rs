//! Watches a few files: through their folders, so that a file that is replaced or not there yet is seen too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Sender, unbounded};
use notify::{RecursiveMode, Watcher as _};

/// A file has to rest this long before it counts as changed: writers write in pieces.
const QUIET: Duration = Duration::from_millis(200);

/// What tells two states of a file apart.
type Stamp = Option<(u64, Option<SystemTime>)>;

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.len(), meta.modified().ok()))
}

enum Event<K> {
    Watch(K, PathBuf),
    Touched,
}

/// Watches files, each under a key.
pub struct Watcher<K> {
    inner: notify::RecommendedWatcher,
    tx: Sender<Event<K>>,
    folders: Vec<PathBuf>,
}

impl<K> std::fmt::Debug for Watcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + std::hash::Hash + Send + 'static> Watcher<K> {
    /// A watcher without files; `changed` is called on a thread of its own.
    ///
    /// # Errors
    /// If the system cannot watch.
    pub fn new(changed: impl Fn(K) + Send + 'static) -> notify::Result<Self> {
        let (tx, rx) = unbounded::<Event<K>>();
        let touched = tx.clone();
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let reads = event.as_ref().is_ok_and(|e| matches!(e.kind, notify::EventKind::Access(_)));
            if !reads {
                // The thread below ends with the watcher.
                let _ = touched.send(Event::Touched);
            }
        })?;
        let watch = move || {
            let mut files: HashMap<K, (PathBuf, Stamp)> = HashMap::new();
            let mut restless = false;
            loop {
                let event = if restless { rx.recv_timeout(QUIET).map_err(|e| e.is_timeout()) } else { rx.recv().map_err(|_| false) };
                match event {
                    Ok(Event::Watch(key, path)) => {
                        let now = stamp(&path);
                        files.insert(key, (path, now));
                    }
                    Ok(Event::Touched) => restless = true,
                    Err(true) => {
                        restless = false;
                        for (key, (path, before)) in &mut files {
                            let now = stamp(path);
                            // A file that is gone is about to be replaced: its next state counts.
                            if now.is_some() && now != *before {
                                changed(*key);
                                *before = now;
                            }
                        }
                    }
                    Err(false) => return,
                }
            }
        };
        std::thread::Builder::new().name("watch".to_owned()).spawn(watch).map_err(notify::Error::io)?;
        Ok(Self { inner, tx, folders: Vec::new() })
    }

    /// Watches `path` under `key`, instead of what that key had before.
    pub fn add(&mut self, key: K, path: &Path) {
        let Ok(full) = std::path::absolute(path) else { return };
        if let Some(folder) = full.parent().map(Path::to_owned)
            && !self.folders.contains(&folder)
            && self.inner.watch(&folder, RecursiveMode::NonRecursive).is_ok()
        {
            self.folders.push(folder);
        }
        let _ = self.tx.send(Event::Watch(key, full));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_or_made_is_seen_once_per_change() {
        let dir = tempfile::tempdir().unwrap();
        let (model, config) = (dir.path().join("m.onnx"), dir.path().join("c.json"));
        std::fs::write(&model, "1").unwrap();
        let (tx, rx) = crossbeam_channel::unbounded();
        let mut watcher = Watcher::new(move |k: &'static str| {
            let _ = tx.send(k);
        })
        .unwrap();
        watcher.add("model", &model);
        watcher.add("config", &config);
        std::thread::sleep(Duration::from_millis(50));
        let next = dir.path().join("next");
        std::fs::write(&next, "22").unwrap();
        std::fs::rename(&next, &model).unwrap();
        assert_eq!(rx.recv_timeout(Duration::from_secs(10)), Ok("model"));
        std::fs::write(&config, "{}").unwrap();
        assert_eq!(rx.recv_timeout(Duration::from_secs(10)), Ok("config"));
        std::fs::write(dir.path().join("other"), "x").unwrap();
        assert!(rx.recv_timeout(Duration::from_millis(600)).is_err());
    }
}
