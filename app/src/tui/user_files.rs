//! Where the user's own files are: themes and keys in the config folder, recovery files in the state folder.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use recut_core::config::PartitionConfig;
use recut_core::diagnostic::Diagnostic;
use recut_core::document::{Document, Recovery};

use super::config_file::same;

use crate::theme::ConfigWarning;

/// Folders of the user.
#[derive(Clone, Debug, Default)]
pub struct UserFiles {
    config: Option<PathBuf>,
    state: Option<PathBuf>,
}

/// What the user's `config.toml` may say about the app.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AppConfig {
    theme: Option<String>,
}

impl UserFiles {
    /// Finds them; without a home folder there are none.
    #[must_use]
    pub fn find() -> Self {
        let Ok(base) = etcetera::choose_base_strategy() else { return Self::default() };
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Self { config: Some(base.config_dir().join("recut")), state: Some(state.join("recut")) }
    }

    /// Folder of `keys.toml`, `config.toml` and `themes`.
    #[must_use]
    pub fn config_dir(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The theme that `config.toml` names, and what is wrong with that file.
    #[must_use]
    pub fn theme_name(&self) -> (Option<String>, Option<ConfigWarning>) {
        let Some(path) = self.config.as_ref().map(|c| c.join("config.toml")) else { return (None, None) };
        let Ok(text) = std::fs::read_to_string(&path) else { return (None, None) };
        match toml::from_str::<AppConfig>(&text) {
            Ok(config) => (config.theme, None),
            Err(e) => {
                let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or("");
                let warning = ConfigWarning {
                    file: path.display().to_string(),
                    line: before.matches('\n').count() + 1,
                    key: String::new(),
                    message: format!("{}; the file is not used (it may hold: theme = \"NAME\")", e.message()),
                };
                (None, Some(warning))
            }
        }
    }

    /// File of a user's theme, whether it exists or not.
    #[must_use]
    pub fn theme_path(&self, name: &str) -> Option<PathBuf> {
        // A name is no path: themes stay in their folder.
        let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
        Some(self.config.as_ref().filter(|_| plain)?.join("themes").join(format!("{name}.toml")))
    }

    /// Text of a user's theme.
    #[must_use]
    pub fn theme(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.theme_path(name)?).ok()
    }

    /// The user's keys: file name and text.
    #[must_use]
    pub fn keys(&self) -> Option<(String, String)> {
        let path = self.config.as_ref()?.join("keys.toml");
        Some((path.display().to_string(), std::fs::read_to_string(&path).ok()?))
    }

    /// Places for the recovery files of a model, named by the hash of its full path: a session never writes over what an
    /// earlier one left as long as nobody decided about that.
    #[must_use]
    pub fn recovery_slots(&self, model: &Path) -> Vec<PathBuf> {
        let Some(state) = &self.state else { return Vec::new() };
        let (folder, name) = (state.join("recovery"), Recovery::file_name(model));
        let numbered = (1..SLOTS).map(|i| folder.join(format!("{i}-{name}")));
        std::iter::once(folder.join(&name)).chain(numbered).collect()
    }

    /// What earlier sessions left unsaved of `document`, oldest place first, and a free place for this session.
    #[must_use]
    pub fn recovered(&self, model: &Path, document: &Document) -> Found {
        let mut found = Found::default();
        for path in self.recovery_slots(model) {
            let exists = path.exists();
            match exists.then(|| Recovery::load(&path)) {
                Some(Ok(r)) if !same(&r.config, document.config()) => {
                    found.recovered.push(Recovered { path, config: Box::new(r.config) });
                }
                Some(Err(e)) => {
                    let message = format!("{e}. It is left as it is, what it keeps cannot be offered");
                    found.problems.push(Diagnostic::warning("recovery_unreadable", message));
                }
                // Nothing is kept there, or nothing but what the document says already.
                Some(Ok(_)) | None => {
                    found.own.get_or_insert(path);
                    if !exists {
                        break;
                    }
                }
            }
        }
        if found.own.is_none() && self.state.is_some() {
            let message = format!(
                "{SLOTS} earlier sessions left unsaved edits of this model: those of this one are not kept until some are put back or dropped"
            );
            found.problems.push(Diagnostic::warning("recovery_full", message));
        }
        found
    }
}

/// Recovery files that one model can have.
const SLOTS: usize = 10;

/// Unsaved edits of an earlier session.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The recovery file.
    pub path: PathBuf,
    /// The config as it was edited.
    pub config: Box<PartitionConfig>,
}

/// What is found in the places for recovery files.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What earlier sessions left.
    pub recovered: Vec<Recovered>,
    /// A free place.
    pub own: Option<PathBuf>,
    /// Files that cannot be used.
    pub problems: Vec<Diagnostic>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use recut_core::document::{DocumentOptions, Edit, MarkList};
    use recut_core::import::Imported;

    #[test]
    fn a_session_never_writes_where_an_earlier_one_left_edits() {
        let dir = tempfile::tempdir().unwrap();
        let user = UserFiles { config: None, state: Some(dir.path().to_owned()) };
        let model = dir.path().join("m.onnx");
        let open = || {
            let model = recut_core::testing::model(&[("a", "Relu", &["x"], &["y"])]);
            Document::new(Imported { model, diagnostics: Vec::new() }, PartitionConfig::default(), DocumentOptions::default()).unwrap()
        };
        std::fs::create_dir_all(dir.path().join("recovery")).unwrap();
        let slots = user.recovery_slots(&model);
        assert_eq!(user.recovered(&model, &open()).own.as_ref(), slots.first());
        let mut edited = open();
        edited.apply(Edit::mark(edited.config(), MarkList::TorchNodes, &["a"]).unwrap()).unwrap();
        edited.recovery(None).write(&slots[0]).unwrap();
        let found = user.recovered(&model, &open());
        assert_eq!(found.recovered.iter().map(|r| &r.path).collect::<Vec<_>>(), [&slots[0]]);
        assert_eq!(found.recovered[0].config.torch_executed_nodes, ["a"]);
        assert_eq!(found.own.as_ref(), slots.get(1));
        std::fs::write(&slots[1], "{").unwrap();
        let found = user.recovered(&model, &open());
        assert_eq!(found.own.as_ref(), slots.get(2), "a damaged file is left as it is");
        assert!(found.problems[0].message.contains("damaged"), "{:?}", found.problems);
        // What the document says already is nothing to recover.
        assert!(user.recovered(&model, &edited).recovered.is_empty());
    }

    #[test]
    fn a_config_that_cannot_be_used_is_said_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let user = UserFiles { config: Some(dir.path().to_owned()), state: None };
        assert_eq!(user.theme_name(), (None, None));
        std::fs::write(dir.path().join("config.toml"), "theme = \"light\"\n").unwrap();
        assert_eq!(user.theme_name(), (Some("light".to_owned()), None));
        for (text, line) in [("# mine\ntheme = 3\n", 2), ("theme = \"light\"\n\ncolour = 1\n", 3)] {
            std::fs::write(dir.path().join("config.toml"), text).unwrap();
            let (theme, warning) = user.theme_name();
            assert_eq!((theme, warning.map(|w| w.line)), (None, Some(line)), "{text}");
        }
    }
}
