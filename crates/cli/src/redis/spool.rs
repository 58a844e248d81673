//! The stream of the other server on the disk, between the thread that receives it and the one that has it ordered.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait on the disk: as much as a server writes in hours while its data is being brought over.
const BYTES_MAX: u64 = 64 << 30;

/// Bytes in the order in which they came. Those that were taken need no space once all were.
#[derive(Debug)]
pub(super) struct Spool {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    file: File,
    written: u64,
    taken: u64,
    /// Why nothing more comes.
    end: Option<String>,
    is_unwanted: bool,
    /// The offset of the other stream up to which everything is safe here.
    safe: u64,
}

impl Spool {
    /// An empty one, in a file that is nobody else's.
    pub(super) fn create(path: &Path) -> io::Result<Spool> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let inner = Inner {
            file: options.mode(0o600).open(path)?,
            written: 0,
            taken: 0,
            end: None,
            is_unwanted: false,
            safe: 0,
        };
        Ok(Spool {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under the lock can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes of the stream.
    pub(super) fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        let written = inner.written + bytes.len() as u64;
        if written - inner.taken > BYTES_MAX {
            return Err(io::Error::other(
                "the other server writes faster than its data is brought over",
            ));
        }
        inner.file.write_all_at(bytes, inner.written)?;
        inner.written = written;
        drop(inner);
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing more comes.
    pub(super) fn end(&self, why: String) {
        self.lock().end.get_or_insert(why);
        self.changed.notify_all();
    }

    /// The next bytes, up to so many; none if none came within a time.
    ///
    /// # Errors
    /// Why none come any more.
    pub(super) fn take(&self, bytes_max: usize, within: Duration) -> Result<Vec<u8>, String> {
        let mut inner = self.lock();
        if inner.taken == inner.written && inner.end.is_none() {
            let waited = self.changed.wait_timeout(inner, within);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = inner.written - inner.taken;
        if left == 0 {
            return match &inner.end {
                Some(why) => Err(why.clone()),
                None => Ok(Vec::new()),
            };
        }
        let mut bytes =
            vec![0; usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max))];
        let read = inner.file.read_exact_at(&mut bytes, inner.taken);
        read.map_err(|error| error.to_string())?;
        inner.taken += bytes.len() as u64;
        if inner.taken == inner.written {
            (inner.taken, inner.written) = (0, 0);
            inner.file.set_len(0).map_err(|error| error.to_string())?;
        }
        Ok(bytes)
    }

    /// Bytes that were not taken yet.
    pub(super) fn left(&self) -> u64 {
        let inner = self.lock();
        inner.written - inner.taken
    }

    /// Nobody takes anything any more.
    pub(super) fn leave(&self) {
        self.lock().is_unwanted = true;
    }

    pub(super) fn is_unwanted(&self) -> bool {
        self.lock().is_unwanted
    }

    /// Everything up to this offset of the other stream is safe here.
    pub(super) fn note_safe(&self, offset: u64) {
        self.lock().safe = offset;
    }

    pub(super) fn safe(&self) -> u64 {
        self.lock().safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_taken_in_order_and_needs_no_space_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stream");
        let spool = Spool::create(&path).unwrap();
        let take = |most| spool.take(most, Duration::ZERO);
        assert_eq!(take(10), Ok(Vec::new()));
        spool.push(b"one").unwrap();
        spool.push(b"two").unwrap();
        assert_eq!(take(4).as_deref(), Ok(&b"onet"[..]));
        assert_eq!(
            (spool.left(), std::fs::metadata(&path).unwrap().len()),
            (2, 6)
        );
        spool.end("gone".to_owned());
        assert_eq!(take(4).as_deref(), Ok(&b"wo"[..]));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(take(4), Err("gone".to_owned()));
    }
}
