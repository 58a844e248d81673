//! Segments that were released, to be written over.

use super::turnover::Turnover;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a segment says whose it is. A former one must not: what a segment holds behind its header
/// is never taken for something new, but a wrong header would be.
const HEADER_BYTES: usize = 4096;

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
        fs::remove_file(segment)?;
        self.turnover.removed();
        File::open(&self.dir)?.sync_all()
    }

    fn keep(&self, segment: &Path) -> io::Result<()> {
        let path = segment.with_extension("tmp");
        fs::rename(segment, &path)?;
        // Its content goes once it is certain that its name went.
        File::open(&self.dir)?.sync_all()?;
        let file = File::options().write(true).open(&path)?;
        file.write_all_at(&[0; HEADER_BYTES], 0)?;
        file.sync_data()?;
        let size = file.metadata()?.len();
        self.ready().push((path, size));
        Ok(())
    }

    /// One of this size, if there is one.
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
