//! Where the user's own files are: themes and keys in the config folder, recovery files in the state folder.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use recut_core::document::Recovery;

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

    /// Recovery file of a model: named by the hash of the model's full path.
    #[must_use]
    pub fn recovery_path(&self, model: &Path) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("recovery").join(Recovery::file_name(model)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
