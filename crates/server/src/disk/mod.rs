//! What a replica keeps on disk beside its snapshots: the log and the fragment store, in segments.

mod blocks;
mod error;
mod pool;
mod preallocate;
mod segments;
mod space;
mod sync;
#[cfg(test)]
mod tests;
mod turnover;

pub use error::DiskError;
pub(crate) use segments::{Freed, list as segments, segment_path};
pub(crate) use turnover::Turnover;

use crate::snapshots::SnapshotFiles;
use crate::test_source::TestSource;
use crate::transient::retry_transient;
use bytes::Bytes;
use quorate_core::Slot;
use quorate_host::{Flush, LogRead, LogSource, Position, Release, Store, Write};
use segments::{Segments, read_range, write_pieces};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use sync::Syncer;

/// Released segments of the log that are kept: about half of what is needed before the next are released.
const LOG_KEPT_MAX: usize = 4;
/// Released segments of the fragment store that are kept to be used again: more than of the log, since a compaction
/// releases many at once.
const FRAGMENTS_KEPT_MAX: usize = 8;

/// The segments of one replica, and its snapshots.
#[derive(Debug)]
pub(crate) struct Disk {
    log: Segments,
    fragments: Segments,
    snapshots: SnapshotFiles,
    /// Whether there was no folder for the fragment store.
    lacks_fragments: bool,
    syncer: Syncer,
    test: TestSource,
}

/// The folders of log, fragment store and snapshots.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) log: PathBuf,
    pub(crate) fragments: PathBuf,
    pub(crate) snapshots: PathBuf,
}

impl Disk {
    /// What is in these folders.
    pub(crate) fn open(folders: &Folders) -> Result<Self, DiskError> {
        let lacks_fragments = !folders.fragments.exists();
        let opened = SnapshotFiles::open(&folders.snapshots);
        let failed = |error| DiskError::new("open", &folders.snapshots, &error);
        Ok(Disk {
            log: Segments::open(&folders.log, LOG_KEPT_MAX)?,
            fragments: Segments::open(&folders.fragments, FRAGMENTS_KEPT_MAX)?,
            snapshots: opened.map_err(failed)?,
            lacks_fragments,
            syncer: Syncer::default(),
            test: TestSource::default(),
        })
    }

    /// Makes the disk as slow as a test asks for.
    pub(crate) fn slowed_by(self, test: TestSource) -> Self {
        Disk { test, ..self }
    }

    /// Removes all segments and snapshots: what a replica left that was bootstrapped and never spoke.
    pub(crate) fn clear(&mut self) -> Result<(), DiskError> {
        self.log.clear()?;
        self.fragments.clear()?;
        let removed = self.snapshots.remove_before(Slot(u64::MAX));
        removed.map_err(|error| DiskError::new("clear", self.snapshots.dir(), &error))
    }

    /// Fragments will be stored: begins to prepare the first segment for them, of this size.
    pub(crate) fn expect_fragments(&mut self, segment_bytes: u32) -> Result<(), DiskError> {
        self.fragments.expect(segment_bytes)
    }

    /// Puts an empty fragment store in the place of one that is gone, which has been made up for.
    pub(crate) fn renew_fragments(&mut self) -> Result<(), DiskError> {
        self.fragments.begin_folder()
    }

    /// Forgets the segments of the log that are not needed any more.
    pub(crate) fn release(&mut self, release: Release) -> Freed {
        let numbers = self.log.before(release.segments_before);
        self.log.release(&numbers)
    }

    /// Forgets these segments of the fragment store.
    pub(crate) fn release_fragments(&mut self, segments: &[u64]) -> Freed {
        self.fragments.release(segments)
    }

    /// The snapshots beside the log.
    pub(crate) fn snapshots(&self) -> &SnapshotFiles {
        &self.snapshots
    }

    /// The number of the log's segments.
    pub(crate) fn segments(&self) -> usize {
        self.log.count()
    }

    /// Performs the writes and, if asked, syncs everything written so far.
    ///
    /// After an error nothing is known about what is on stable storage: the replica must stop. Only where the error
    /// says so ([`DiskError::may_succeed_later`]), the same flush may be tried again.
    pub(crate) fn flush(&mut self, flush: &Flush) -> Result<(), DiskError> {
        for write in &flush.fragments {
            self.fragments.write(write)?;
        }
        for write in &flush.writes {
            self.log.write(write)?;
        }
        if flush.sync {
            self.sync(!flush.fragments.is_empty())?;
        }
        Ok(())
    }

    /// A step in writing long fragments, to be performed elsewhere.
    pub(crate) fn step(&mut self, write: &Write) -> Result<Step, DiskError> {
        self.fragments.note(write);
        let (path, file) = self.fragments.file_of(write.segment)?;
        Ok(Step {
            path,
            file,
            write: write.clone(),
            test: self.test.clone(),
        })
    }

    /// Reads a part of the log for a peer that catches up, or a fragment.
    pub(crate) fn read(&mut self, read: &LogRead) -> Result<Bytes, DiskError> {
        match read.store {
            Store::Log => self.log.read_at(read.at, read.len),
            Store::Fragments => self.fragments.read_at(read.at, read.len),
        }
    }

    /// A read of a long fragment, to be performed elsewhere. What is written over it meanwhile is found
    /// by its checksum.
    pub(crate) fn long_read(&mut self, read: &LogRead) -> Option<LongRead> {
        let is_long = read.store == Store::Fragments && read.len >= LONG_READ_BYTES_MIN;
        let (path, file) = self
            .fragments
            .file_of(read.at.segment)
            .ok()
            .filter(|_| is_long)?;
        Some(LongRead {
            path,
            file,
            read: *read,
        })
    }

    /// Size of the log's segments.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Size of the fragment store's segments.
    #[must_use]
    pub(crate) fn fragment_bytes(&self) -> u64 {
        self.fragments.bytes()
    }

    /// What became of the segments of the log, and of those of the fragment store.
    pub(crate) fn turnover(&self) -> [&Turnover; 2] {
        [&self.log, &self.fragments].map(|segments| segments.preallocator.turnover())
    }

    /// Why a next segment could not be prepared, while that is so. What is left of the present one
    /// still takes writes, but no new ones should be accepted from clients.
    #[must_use]
    pub(crate) fn trouble(&self) -> Option<String> {
        let log = self.log.preallocator.trouble();
        log.or_else(|| self.fragments.preallocator.trouble())
    }

    /// Whether a next segment is being prepared: whether there is space for it is not known yet.
    #[must_use]
    pub(crate) fn is_preparing(&self) -> bool {
        self.log.preallocator.is_preparing() || self.fragments.preallocator.is_preparing()
    }

    /// Bytes that are free for this process on the disk that the log is on.
    #[must_use]
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        space::free_bytes(self.log.dir())
    }

    /// Tries again to prepare the next segments, if that failed a while ago.
    pub(crate) fn retry_preallocation(&mut self) {
        self.log.preallocator.retry();
        self.fragments.preallocator.retry();
    }

    /// Both stores at once, if both are concerned: a request waits for the disk one time.
    fn sync(&mut self, with_fragments: bool) -> Result<(), DiskError> {
        self.test.delay_sync();
        let log = self.log.unsynced()?;
        let fragments = match with_fragments {
            true => self.fragments.unsynced()?,
            false => Vec::new(),
        };
        // From here on an error is final.
        self.log.forget_unsynced();
        if with_fragments {
            self.fragments.forget_unsynced();
        }
        self.syncer.sync(log, fragments)
    }
}

/// Reads of so many bytes do not hold up the core.
const LONG_READ_BYTES_MIN: u32 = 256 << 10;

/// A read of a long fragment.
#[derive(Debug)]
pub(crate) struct LongRead {
    path: PathBuf,
    file: Arc<File>,
    read: LogRead,
}

impl LongRead {
    /// Reads it; says what that was.
    pub(crate) fn perform(self) -> (LogRead, Result<Bytes, DiskError>) {
        let LogRead { at, len, .. } = self.read;
        let bytes = read_range(&self.path, &self.file, at.offset, len);
        (self.read, bytes)
    }
}

/// A write to one segment, and its sync.
#[derive(Debug)]
pub(crate) struct Step {
    path: PathBuf,
    file: Arc<File>,
    write: Write,
    test: TestSource,
}

impl Step {
    /// Writes and syncs it. After an error nothing is known about what is on stable storage: the
    /// replica must stop.
    pub(crate) fn perform(self) -> Result<(), DiskError> {
        let Write { offset, chunks, .. } = &self.write;
        self.test.delay_sync();
        retry_transient(|| write_pieces(&self.file, u64::from(*offset), chunks))
            .and_then(|()| self.file.sync_data())
            .map_err(|error| DiskError::new("write to", &self.path, &error))
    }
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        self.log.list()
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        self.log.read(segment)
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        self.snapshots.list()
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        self.snapshots.read(slot, offset, len)
    }

    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        // No segment is written that is longer than positions reach.
        let sizes = self.fragments.sizes();
        Ok(sizes
            .map(|(number, size)| (number, size.min(u32::MAX.into()) as u32))
            .collect())
    }

    fn lacks_fragment_store(&self) -> bool {
        self.lacks_fragments
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let bytes = self.fragments.read_at(at, len);
        bytes.map_err(|error| io::Error::other(error.what()))
    }
}
