//! Segments that were released, to be written over.

use super::turnover::Turnover;
use crate::transient::retry_transient;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Where a segment says whose it is. A former one must not: what a segment holds behind its header
/// is never taken for something new, but a wrong header would be.
const HEADER_BYTES: usize = 4096;

/// A file goes so many bytes at a time, with a pause between: where the file system discards blocks as they
/// are freed, the disk serves nobody else meanwhile (a file of 64 MiB held up all flushes for 50 ms).
const SHRUNK_BYTES: u64 = 4 << 20;
const SHRINK_PAUSE: Duration = Duration::from_millis(10);

/// Released segments that may be used again. Cheap to clone, for the thread that frees them.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    dir: PathBuf,
    max: usize,
    ready: Arc<Mutex<Vec<(PathBuf, u64)>>>,
    turnover: Arc<Turnover>,
}

impl Pool {
    pub(super) fn new(dir: &Path, max: usize, turnover: Arc<Turnover>) -> Self {
        Pool {
            dir: dir.into(),
            max,
            ready: Arc::default(),
            turnover,
        }
    }

    /// Keeps a released segment for later, or removes it; for good when this returns. The oldest goes
    /// first, so that a crash leaves no gap among those that are still there.
    pub(crate) fn free(&self, segment: &Path) {
        let result = if self.ready().len() < self.max {
            self.keep(segment)
        } else {
            self.remove(segment)
        };
        if let Err(error) = result {
            tracing::warn!(
                path = %segment.display(),
                "cannot free a segment of the log that is not needed any more: {error}"
            );
        }
    }

    fn remove(&self, segment: &Path) -> io::Result<()> {
        let path = self.rename(segment)?;
        let file = retry_transient(|| File::options().write(true).open(&path))?;
        let mut left = file.metadata()?.len();
        while left > SHRUNK_BYTES {
            left -= SHRUNK_BYTES;
            file.set_len(left)?;
            thread::sleep(SHRINK_PAUSE);
        }
        fs::remove_file(&path)?;
        self.turnover.removed();
        retry_transient(|| File::open(&self.dir))?.sync_all()
    }

    fn keep(&self, segment: &Path) -> io::Result<()> {
        let path = self.rename(segment)?;
        self.clear(path)
    }

    /// Takes a segment's name from it. Its content goes once it is certain that its name went.
    fn rename(&self, segment: &Path) -> io::Result<PathBuf> {
        let path = segment.with_extension("tmp");
        fs::rename(segment, &path)?;
        retry_transient(|| File::open(&self.dir))?.sync_all()?;
        Ok(path)
    }

    /// Has a file ready that says of nobody's that it is its.
    fn clear(&self, path: PathBuf) -> io::Result<()> {
        let file = retry_transient(|| File::options().write(true).open(&path))?;
        file.write_all_at(&[0; HEADER_BYTES], 0)?;
        file.sync_data()?;
        let size = file.metadata()?.len();
        self.ready().push((path, size));
        Ok(())
    }

    /// Keeps what a former process left, if there is place for it and none of its blocks is missing; says
    /// whether it did.
    pub(super) fn adopt(&self, left: &Path) -> io::Result<bool> {
        let about = fs::metadata(left)?;
        let is_whole = about.len() >= HEADER_BYTES as u64 && about.blocks() * 512 >= about.len();
        if !is_whole || self.ready().len() >= self.max {
            return Ok(false);
        }
        // Another name, for that of the spare is wanted for the next one.
        let mut names = (1..).map(|n| self.dir.join(format!("former-{n}.tmp")));
        let path = names.find(|path| path == left || !path.exists());
        let path = path.expect("there are more numbers than files");
        fs::rename(left, &path)?;
        self.clear(path)?;
        Ok(true)
    }

    /// Takes a released segment of this size, if there is one.
    pub(super) fn take(&self, size: u64) -> Option<PathBuf> {
        let mut ready = self.ready();
        let place = ready.iter().position(|(_, found)| *found == size)?;
        Some(ready.swap_remove(place).0)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.ready().is_empty()
    }

    fn ready(&self) -> MutexGuard<'_, Vec<(PathBuf, u64)>> {
        // A thread that panicked while holding it left a value all the same.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
