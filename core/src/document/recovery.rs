//! What is kept beside a document with unsaved edits, so that a crash loses none of them.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Document, DocumentError, DocumentOptions, Edit};
use crate::config::PartitionConfig;
use crate::diagnostic::printable_path;
use crate::files::write_durably;
use crate::import::Imported;

/// Version of the format.
const VERSION: u32 = 1;

/// Largest recovery file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Config and history of a document, by names only: they fit a reloaded model as well.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Recovery {
    version: u32,
    /// The model file.
    pub model: PathBuf,
    /// Hash of the model's structure.
    pub graph_sha256: String,
    /// The config file that is being edited, where there is one.
    pub config_path: Option<PathBuf>,
    /// The config as it was last saved or loaded.
    pub saved: PartitionConfig,
    /// The config as edited.
    pub config: PartitionConfig,
    /// Edits that were done, oldest first.
    pub done: Vec<Edit>,
    /// Edits that were taken back, the next to be done again last.
    pub undone: Vec<Edit>,
}

/// Why a recovery file cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[error("recovery file {}: {message}", printable_path(path))]
pub struct RecoveryError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

impl Recovery {
    /// A file name for the recovery of edits on a model: the same however the way to the file is spelled, through links,
    /// `..` or another folder. Of a file that is not there the absolute path counts.
    #[must_use]
    pub fn file_name(model: &Path) -> String {
        let path = std::fs::canonicalize(model).or_else(|_| std::path::absolute(model)).unwrap_or_else(|_| model.to_owned());
        let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
        hash.iter().take(16).map(|b| format!("{b:02x}")).chain([".recovery.json".to_owned()]).collect()
    }

    /// Writes the file, all or nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, path: &Path) -> Result<(), RecoveryError> {
        let error = |message: String| RecoveryError { path: path.to_owned(), message };
        let text = serde_json::to_vec(self).map_err(|e| error(format!("cannot be made: {e}")))?;
        write_durably(path, &text).map_err(|e| error(format!("cannot be written: {e}")))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or was written by another version of this program.
    pub fn load(path: &Path) -> Result<Self, RecoveryError> {
        let error = |message: String| RecoveryError { path: path.to_owned(), message };
        let length = std::fs::metadata(path).map_err(|e| error(format!("cannot be read: {e}")))?.len();
        if length > MAX_BYTES {
            return Err(error(format!("is larger than {MAX_BYTES} bytes: delete it")));
        }
        let bytes = std::fs::read(path).map_err(|e| error(format!("cannot be read: {e}")))?;
        let recovery: Self = serde_json::from_slice(&bytes).map_err(|e| error(format!("is damaged ({e}): delete it")))?;
        if recovery.version != VERSION {
            return Err(error(format!("is of version {}, this program reads version {VERSION}: delete it", recovery.version)));
        }
        Ok(recovery)
    }
}

impl Document {
    /// What has to be kept to get back here after a crash.
    #[must_use]
    pub fn recovery(&self, config_path: Option<&Path>) -> Recovery {
        Recovery {
            version: VERSION,
            model: self.model.path.clone(),
            graph_sha256: self.model_sha256().to_owned(),
            config_path: config_path.map(ToOwned::to_owned),
            saved: self.saved.clone(),
            config: self.config.clone(),
            done: self.done.clone(),
            undone: self.undone.clone(),
        }
    }

    /// The document as it was when `recovery` was made, over the model as it is now.
    ///
    /// # Errors
    /// If its config cannot be used on this model.
    pub fn restore(imported: Imported, recovery: Recovery, options: DocumentOptions) -> Result<Self, DocumentError> {
        let mut document = Self::new(imported, recovery.config, options)?;
        document.saved = recovery.saved;
        document.done = recovery.done;
        document.undone = recovery.undone;
        Ok(document)
    }
}
