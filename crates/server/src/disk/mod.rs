//! The log on disk: one file per segment, written in place and synced once per flush.

mod spare;

pub(crate) use spare::Pool;

use crate::snap::SnapFiles;
use crate::test_source::TestSource;
use bytes::Bytes;
use quorate_core::Slot;
use quorate_host::{Flush, LogSource, Position, Write};
use rustix::io::{Errno, pread, pwritev};
use spare::Spare;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files kept open: the one written to and those that peers catch up from.
const OPEN_FILES_MAX: usize = 16;
/// The kernel takes no more pieces in one call.
const PIECES_MAX: usize = 1024;

/// The segments of one replica's log.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    open: BTreeMap<u64, File>,
    /// Segments with bytes that are not known to be on stable storage.
    unsynced: BTreeSet<u64>,
    spare: Spare,
    /// The segments there are, with their sizes.
    segments: BTreeMap<u64, u64>,
    snapshots: SnapFiles,
    test: TestSource,
}

impl Disk {
    /// The log in the folder `dir`, and the snapshots beside it.
    pub(crate) fn open(dir: &Path, snapshots: &Path) -> Result<Self, DiskError> {
        let opened = Spare::open(dir);
        let spare = opened.map_err(|error| DiskError::new("tidy up", dir, &error))?;
        let opened = SnapFiles::open(snapshots);
        let snapshots = opened.map_err(|error| DiskError::new("open", snapshots, &error))?;
        let mut disk = Disk {
            dir: dir.into(),
            open: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            spare,
            segments: BTreeMap::new(),
            snapshots,
            test: TestSource::default(),
        };
        for segment in disk
            .list()
            .map_err(|error| DiskError::new("list", dir, &error))?
        {
            let path = disk.path(segment);
            let length = fs::metadata(&path).map_err(|e| DiskError::new("look at", &path, &e))?;
            disk.segments.insert(segment, length.len());
        }
        Ok(disk)
    }

    /// The same disk, as slow as a test says.
    pub(crate) fn slowed_by(self, test: TestSource) -> Self {
        Disk { test, ..self }
    }

    /// Removes all segments and snapshots: what a replica left that was bootstrapped and never spoke.
    pub(crate) fn clear(&mut self) -> Result<(), DiskError> {
        for segment in self
            .list()
            .map_err(|error| DiskError::new("list", &self.dir, &error))?
        {
            let path = self.path(segment);
            fs::remove_file(&path).map_err(|error| DiskError::new("remove", &path, &error))?;
        }
        self.segments.clear();
        let removed = self.snapshots.remove_before(Slot(u64::MAX));
        removed.map_err(|error| DiskError::new("clear", self.snapshots.dir(), &error))
    }

    /// Forgets the segments with lower numbers; whoever is given their files frees them.
    pub(crate) fn release(&mut self, before: u64) -> Vec<PathBuf> {
        let kept = self.segments.split_off(&before);
        let released = std::mem::replace(&mut self.segments, kept);
        for segment in released.keys() {
            self.open.remove(segment);
            self.unsynced.remove(segment);
        }
        released
            .into_keys()
            .map(|number| self.path(number))
            .collect()
    }

    /// Where released segments wait to be used again.
    pub(crate) fn pool(&self) -> Pool {
        self.spare.pool()
    }

    /// The snapshots beside the log.
    pub(crate) fn snapshots(&self) -> &SnapFiles {
        &self.snapshots
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Performs the writes and, if asked, syncs everything written so far.
    ///
    /// After an error nothing is known about what is on stable storage: the replica must stop. Only
    /// where there was no space for the writes, the same flush may be tried again.
    pub(crate) fn flush(&mut self, flush: &Flush) -> Result<(), DiskError> {
        for write in &flush.writes {
            self.write(write)?;
        }
        if flush.sync {
            self.sync()?;
        }
        Ok(())
    }

    /// Reads a range for a peer that catches up.
    pub(crate) fn read_at(&mut self, at: Position, len: u32) -> Result<Bytes, String> {
        let path = self.path(at.segment);
        let file = self.file(at.segment).map_err(|error| error.to_string())?;
        // The range may come from a peer's wish: the file bounds what is allocated.
        let size = file.metadata().map_err(|error| error.to_string())?.len();
        if u64::from(at.offset) + u64::from(len) > size {
            return Err(format!("{} has only {size} bytes", path.display()));
        }
        let mut bytes = vec![0; len as usize];
        let mut done = 0;
        while done < bytes.len() {
            let offset = u64::from(at.offset) + done as u64;
            match pread(file, &mut bytes[done..], offset) {
                Ok(0) => return Err(format!("{} ended early", path.display())),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
            }
        }
        Ok(bytes.into())
    }

    /// Size of all segments.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Why the next segment could not be prepared, while that is so. What is left of the present
    /// one still takes writes, but no new ones should be accepted from clients.
    #[must_use]
    pub(crate) fn trouble(&self) -> Option<String> {
        self.spare.trouble()
    }

    /// Tries again to prepare the next segment, if that failed a while ago.
    pub(crate) fn retry_spare(&mut self) {
        self.spare.retry();
    }

    fn write(&mut self, write: &Write) -> Result<(), DiskError> {
        if write.offset == 0 && !write.chunks.is_empty() {
            self.begin_segment(write.segment, write.segment_bytes)?;
        }
        self.unsynced.insert(write.segment);
        let path = self.path(write.segment);
        let file = self.file(write.segment)?;
        write_pieces(file, u64::from(write.offset), &write.chunks)
            .map_err(|error| DiskError::new("write to", &path, &error))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        let delay = self.test.sync_delay();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        while let Some(segment) = self.unsynced.pop_first() {
            let path = self.path(segment);
            self.file(segment)?
                .sync_data()
                .map_err(|error| DiskError::new("sync", &path, &error))?;
        }
        Ok(())
    }

    /// Makes sure the segment's file exists with its blocks written, so that flushes only ever
    /// overwrite.
    fn begin_segment(&mut self, segment: u64, size: u32) -> Result<(), DiskError> {
        let path = self.path(segment);
        let there = fs::metadata(&path).map(|file| file.len()).ok();
        if there == Some(u64::from(size)) {
            self.segments.insert(segment, u64::from(size));
            return Ok(());
        }
        self.open.remove(&segment);
        self.spare
            .take(&path, u64::from(size))
            .and_then(|()| File::open(&self.dir)?.sync_all())
            .map_err(|error| DiskError::new("create", &path, &error))?;
        self.segments.insert(segment, u64::from(size));
        Ok(())
    }

    fn file(&mut self, segment: u64) -> Result<&File, DiskError> {
        if !self.open.contains_key(&segment) {
            if self.open.len() >= OPEN_FILES_MAX {
                // The lowest is the least likely to be written again; it can be opened again.
                self.open.pop_first();
            }
            let path = self.path(segment);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(|error| DiskError::new("open", &path, &error))?;
            self.open.insert(segment, file);
        }
        Ok(&self.open[&segment])
    }

    fn path(&self, segment: u64) -> PathBuf {
        segment_path(&self.dir, segment)
    }
}

/// The file of a segment.
pub(crate) fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("{segment:010}.seg"))
}

/// The numbers of the segments in a folder, ascending.
pub(crate) fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        segments.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    segments.sort_unstable();
    Ok(segments)
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        segments(&self.dir)
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        fs::read(self.path(segment)).map(Bytes::from)
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        self.snapshots.list()
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        self.snapshots.read(slot, offset, len)
    }
}

/// Writes the pieces one after the other from `offset` on, many per system call.
fn write_pieces(file: &File, mut offset: u64, chunks: &[Bytes]) -> io::Result<()> {
    for chunks in chunks.chunks(PIECES_MAX) {
        let pieces: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
        let length: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let mut written = 0;
        while written == 0 && length > 0 {
            written = match pwritev(file, &pieces, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => count as u64,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
        }
        write_rest(file, offset, written, chunks)?;
        offset += length;
    }
    Ok(())
}

/// What a short write left over: rare, so simple.
fn write_rest(file: &File, mut offset: u64, mut written: u64, chunks: &[Bytes]) -> io::Result<()> {
    for chunk in chunks {
        let length = chunk.len() as u64;
        if written < length {
            let from = usize::try_from(written).unwrap_or(usize::MAX);
            file.write_all_at(&chunk[from..], offset + written)?;
        }
        written = written.saturating_sub(length);
        offset += length;
    }
    Ok(())
}

/// A failed operation on the log. The replica stops: what the disk holds is no longer known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    verb: &'static str,
    path: PathBuf,
    why: String,
    full: bool,
}

impl DiskError {
    fn new(verb: &'static str, path: &Path, error: &io::Error) -> Self {
        let full = is_full(error);
        DiskError {
            verb,
            path: path.into(),
            why: error.to_string(),
            full,
        }
    }

    /// Whether nothing failed but a write for want of space.
    pub(crate) fn is_want_of_space(&self) -> bool {
        self.full && self.verb != "sync"
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.verb,
            self.path.display(),
            self.why
        )?;
        if self.full {
            f.write_str("; free some space on this disk and start the replica again")
        } else {
            f.write_str(
                "; the replica stops, for what this disk holds is no longer known: check the disk \
                 before starting it again",
            )
        }
    }
}

impl std::error::Error for DiskError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(segment: u64, offset: u32, chunks: &[&'static [u8]]) -> Write {
        let chunks = chunks
            .iter()
            .map(|chunk| Bytes::from_static(chunk))
            .collect();
        Write {
            segment,
            segment_bytes: 8192,
            offset,
            chunks,
        }
    }

    fn open(dir: &Path) -> Disk {
        Disk::open(dir, &dir.join("snap")).unwrap()
    }

    fn flush(writes: Vec<Write>, sync: bool) -> Flush {
        Flush {
            writes,
            sync,
            through: Position::default(),
        }
    }

    #[test]
    fn what_was_flushed_is_read_back_by_range_and_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = open(dir.path());
        disk.flush(&flush(vec![write(1, 0, &[b"head", b"", b"er"])], true))
            .unwrap();
        disk.flush(&flush(vec![write(1, 6, &[b"more"])], false))
            .unwrap();
        disk.flush(&flush(
            vec![write(2, 0, &[b"next"]), write(1, 10, &[])],
            true,
        ))
        .unwrap();
        assert_eq!(
            disk.read_at(
                Position {
                    segment: 1,
                    offset: 2
                },
                6
            )
            .unwrap(),
            "adermo"
        );
        assert!(disk.unsynced.is_empty());
        drop(disk);

        let mut disk = open(dir.path());
        assert_eq!(disk.list().unwrap(), [1, 2]);
        assert_eq!(disk.bytes(), 2 * 8192);
        let content = disk.read(1).unwrap();
        assert_eq!(content.len(), 8192);
        assert!(content.starts_with(b"headermore\0"));
        assert!(disk.read(2).unwrap().starts_with(b"next\0"));
    }

    #[test]
    fn a_released_segment_is_written_over_and_nothing_of_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = open(dir.path());
        disk.flush(&flush(vec![write(1, 0, &[b"header of one"])], true))
            .unwrap();
        disk.flush(&flush(vec![write(2, 0, &[b"two"])], true))
            .unwrap();
        assert_eq!(disk.release(1), [] as [PathBuf; 0]);
        let released = disk.release(2);
        assert_eq!(released, [disk.path(1)]);
        assert_eq!((disk.segments(), disk.bytes()), (1, 8192));
        disk.pool().free(&released[0]);
        assert_eq!(disk.list().unwrap(), [2]);

        disk.begin_segment(3, 8192).unwrap();
        let content = disk.read(3).unwrap();
        assert!(content.iter().all(|byte| *byte == 0), "its header is gone");
        assert_eq!(disk.list().unwrap(), [2, 3]);
    }

    #[test]
    fn a_read_beyond_a_segment_is_an_error_and_allocates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = open(dir.path());
        disk.flush(&flush(vec![write(1, 0, &[b"x"])], true))
            .unwrap();
        let error = disk
            .read_at(
                Position {
                    segment: 1,
                    offset: 8000,
                },
                u32::MAX,
            )
            .unwrap_err();
        assert!(error.contains("has only 8192 bytes"), "{error}");
        assert!(
            disk.read_at(
                Position {
                    segment: 9,
                    offset: 0
                },
                1
            )
            .is_err()
        );
    }

    #[test]
    fn more_pieces_than_one_call_takes_are_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(dir.path().join("f"))
            .unwrap();
        let pieces: Vec<Bytes> = (0..3000u32)
            .map(|i| Bytes::copy_from_slice(&i.to_le_bytes()))
            .collect();
        write_pieces(&file, 5, &pieces).unwrap();
        write_rest(&file, 5, 6, &pieces).unwrap();
        let content = fs::read(dir.path().join("f")).unwrap();
        assert_eq!(content[5..], pieces.concat());
    }

    #[test]
    fn a_full_disk_and_a_broken_one_are_told_apart() {
        let path = Path::new("/data/1/log/0000000001.seg");
        let full = DiskError::new("write to", path, &Errno::NOSPC.into()).to_string();
        assert!(
            full.contains("0000000001.seg") && full.contains("free some space"),
            "{full}"
        );
        let broken = DiskError::new("sync", path, &Errno::IO.into()).to_string();
        assert!(broken.contains("check the disk"), "{broken}");
    }
}
