//! What can be wrong with a backup.

use quorate_etcd_snapshot::FileError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done with a backup: the file or folder, and what is wrong there.
#[derive(Debug)]
pub struct BackupError {
    path: PathBuf,
    what: FileError,
}

impl BackupError {
    pub(crate) fn new(path: &Path, what: impl fmt::Display) -> BackupError {
        BackupError {
            path: path.to_owned(),
            what: FileError::Damaged(what.to_string()),
        }
    }

    /// What happened to a file, as something to pass to `map_err`.
    pub(crate) fn of<E: Into<FileError>>(path: &Path) -> impl FnOnce(E) -> BackupError + '_ {
        |what| BackupError {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Whether the file system has no room: it may have some later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(&self.what, FileError::Io(error) if full.contains(&error.kind()))
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for BackupError {}
