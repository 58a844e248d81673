//! The private folder of a server: its socket, its settings, its users, the file it loads and the one it logs to.

use crate::error::ProcessError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that a server prints to.
const LOG: &str = "server.log";
/// How much of the end of a log is read, in bytes.
const LOG_TAIL_BYTES: u64 = 4096;
/// The longest line of a log that people are shown, in characters.
const LINE_CHARS_MAX: usize = 300;

/// A folder that is gone once this is dropped.
#[derive(Debug)]
pub(crate) struct ServerFolder {
    path: PathBuf,
}

impl ServerFolder {
    /// Makes an empty folder for nobody but this user, whatever was there before.
    pub(crate) fn create(path: PathBuf) -> Result<ServerFolder, ProcessError> {
        let make = || {
            remove(&path)?;
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            // The server shows this folder without links in its path.
            made.and_then(|()| path.canonicalize())
        };
        match make() {
            Ok(path) => Ok(ServerFolder { path }),
            Err(error) => Err(ProcessError::Folder { path, error }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that nobody else may read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, ProcessError> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(path),
            Err(error) => Err(ProcessError::Folder { path, error }),
        }
    }

    /// Has a file in the folder under another name, without its bytes being copied where that can be.
    pub(crate) fn adopt(&self, from: &Path, name: &str) -> Result<(), ProcessError> {
        let path = self.path.join(name);
        let linked = fs::hard_link(from, &path);
        let copied = linked.or_else(|_| fs::copy(from, &path).map(drop));
        copied.map_err(|error| ProcessError::Folder { path, error })
    }

    /// The file for what the server prints.
    pub(crate) fn log(&self) -> Result<File, ProcessError> {
        let path = self.path.join(LOG);
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).mode(0o600).open(&path);
        opened.map_err(|error| ProcessError::Folder { path, error })
    }

    /// The last line that the server printed, without the time before it.
    pub(crate) fn last_line(&self) -> Option<String> {
        let mut file = File::open(self.path.join(LOG)).ok()?;
        let len = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))
            .ok()?;
        let mut text = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        let line = [" # ", " * ", " - "]
            .iter()
            .find_map(|mark| line.split_once(mark).map(|(_, said)| said))
            .unwrap_or(line);
        Some(line.chars().take(LINE_CHARS_MAX).collect())
    }
}

impl Drop for ServerFolder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), "a server's folder stays: {error}");
        }
    }
}

/// Removes a folder that may not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_with_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("1");
        fs::create_dir_all(path.join("left")).unwrap();
        let folder = ServerFolder::create(path.clone()).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        let file = folder.write("users.acl", "user a").unwrap();
        assert_eq!(mode(&file), 0o600);
        folder.adopt(&file, "dump.rdb").unwrap();
        assert_eq!(fs::read(path.join("dump.rdb")).unwrap(), b"user a");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_end_of_a_log_is_told_without_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ServerFolder::create(dir.path().join("1")).unwrap();
        assert_eq!(folder.last_line(), None);
        let mut log = folder.log().unwrap();
        writeln!(log, "12:M 27 Nov 2026 01:02:03.456 * Ready\n").unwrap();
        assert_eq!(folder.last_line().as_deref(), Some("Ready"));
        writeln!(log, ">>> 'x'\nBad directive").unwrap();
        assert_eq!(folder.last_line().as_deref(), Some("Bad directive"));
    }
}
