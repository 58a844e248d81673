//! Files that are there whole or not at all.

use crate::error::BackupError;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Only the owner reads keys and values.
const MODE: u32 = 0o600;

/// The path of a file while it is being written.
pub(crate) fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

/// Begins a file, which others see once it is published ([`publish`]).
pub(crate) fn begin(partial: &Path) -> Result<File, BackupError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(MODE).open(partial);
    file.map_err(BackupError::of(partial))
}

/// Gives a file that is whole its name, for good.
pub(crate) fn publish(file: &File, partial: &Path, path: &Path) -> Result<(), BackupError> {
    file.sync_all().map_err(BackupError::of(partial))?;
    fs::rename(partial, path).map_err(BackupError::of(path))?;
    sync_folder_of(path)
}

/// Has the names in a file's folder survive a crash.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), BackupError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(BackupError::of(dir))
}
