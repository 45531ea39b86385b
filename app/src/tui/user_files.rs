//! Where the user's own files are: themes and keys in the config folder, recovery files in the state folder.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use recut_core::document::Recovery;

/// Folders of the user.
#[derive(Clone, Debug, Default)]
pub struct UserFiles {
    config: Option<PathBuf>,
    state: Option<PathBuf>,
}

/// What the user's `config.toml` may say about the app.
#[derive(Debug, Default, serde::Deserialize)]
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

    /// The theme that `config.toml` names.
    #[must_use]
    pub fn theme_name(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.config.as_ref()?.join("config.toml")).ok()?;
        toml::from_str::<AppConfig>(&text).ok()?.theme
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
