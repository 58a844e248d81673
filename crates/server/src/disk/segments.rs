//! Segments on disk: one file each, written in place and synced once per flush.

use super::DiskError;
use super::pool::Pool;
use super::preallocate::Preallocator;
use bytes::Bytes;
use quorate_host::{Position, Write};
use rustix::io::{Errno, pwritev};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files kept open: the one written to and those that peers catch up from.
const OPEN_FILES_MAX: usize = 16;
/// A write of so many bytes takes about as long in blocks that are reserved as in those that were written before.
const LONG_WRITE_BYTES: u64 = 64 << 10;
/// The kernel takes no more pieces in one call.
const PIECES_MAX: usize = 1024;

/// The segments in one folder, which comes into being with the first of them.
#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    open: BTreeMap<u64, Arc<File>>,
    /// Segments with bytes that are not known to be on stable storage.
    unsynced: BTreeSet<u64>,
    pub(super) preallocator: Preallocator,
    /// The segments there are, with their sizes.
    sizes: BTreeMap<u64, u64>,
    /// What was written since the last segment began.
    strides: Strides,
}

/// Writes of one segment.
#[derive(Clone, Copy, Default, Debug)]
struct Strides {
    writes: u64,
    bytes: u64,
}

impl Strides {
    fn note(&mut self, write: &Write) {
        self.writes += 1;
        self.bytes += write
            .chunks
            .iter()
            .map(|chunk| chunk.len() as u64)
            .sum::<u64>();
    }

    /// Whether writes are so long that the next segment's blocks need not have been written before: to fill it with
    /// zeros would cost the disk as many bytes again, and gain less than a write takes.
    fn are_long(self) -> bool {
        self.bytes >= LONG_WRITE_BYTES * self.writes.max(1)
    }
}

/// Segments that are given up, and where they may wait to be used again.
#[derive(Debug)]
pub(crate) struct Freed {
    pool: Pool,
    pub(super) segments: Vec<PathBuf>,
}

impl Freed {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Recycles or removes them, in order.
    pub(crate) fn free(&self) {
        self.segments.iter().for_each(|path| self.pool.free(path));
    }
}

impl Segments {
    /// Opens the segments of a folder. At most `kept_max` released segments are kept to be used again.
    pub(super) fn open(dir: &Path, kept_max: usize) -> Result<Self, DiskError> {
        let opened = Preallocator::open(dir, kept_max);
        let preallocator = opened.map_err(|error| DiskError::new("tidy up", dir, &error))?;
        let mut segments = Segments {
            dir: dir.into(),
            open: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            preallocator,
            sizes: BTreeMap::new(),
            strides: Strides::default(),
        };
        for number in segments.listed()? {
            let path = segments.path(number);
            let length = fs::metadata(&path).map_err(|e| DiskError::new("look at", &path, &e))?;
            segments.sizes.insert(number, length.len());
        }
        Ok(segments)
    }

    /// The folder that they are in.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn listed(&self) -> Result<Vec<u64>, DiskError> {
        self.list()
            .map_err(|error| DiskError::new("list", &self.dir, &error))
    }

    /// The numbers of the segments that exist, ascending.
    pub(super) fn list(&self) -> io::Result<Vec<u64>> {
        list(&self.dir)
    }

    /// Begins to prepare the first segment, of this size.
    pub(super) fn expect(&mut self, size: u32) -> Result<(), DiskError> {
        self.begin_folder()?;
        self.preallocator.expect(u64::from(size));
        Ok(())
    }

    /// Removes all of them.
    pub(super) fn clear(&mut self) -> Result<(), DiskError> {
        for segment in self.listed()? {
            let path = self.path(segment);
            fs::remove_file(&path).map_err(|error| DiskError::new("remove", &path, &error))?;
        }
        self.sizes.clear();
        Ok(())
    }

    /// Forgets these segments; whoever is given their files frees them.
    pub(super) fn release(&mut self, numbers: &[u64]) -> Freed {
        let mut segments = Vec::new();
        for number in numbers {
            self.open.remove(number);
            self.unsynced.remove(number);
            if self.sizes.remove(number).is_some() {
                segments.push(self.path(*number));
            }
        }
        let pool = self.preallocator.pool();
        Freed { pool, segments }
    }

    /// The numbers before this one, ascending.
    pub(super) fn before(&self, number: u64) -> Vec<u64> {
        self.sizes
            .range(..number)
            .map(|(found, _)| *found)
            .collect()
    }

    /// The number of segments.
    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Size of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// The numbers of the segments with their sizes in bytes, in order.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sizes.iter().map(|(number, size)| (*number, *size))
    }

    /// The whole content of one.
    pub(super) fn read(&self, segment: u64) -> io::Result<Bytes> {
        fs::read(self.path(segment)).map(Bytes::from)
    }

    /// Reads a range.
    pub(super) fn read_at(&mut self, at: Position, len: u32) -> Result<Bytes, DiskError> {
        let (path, file) = self.file_of(at.segment)?;
        read_range(&path, &file, at.offset, len)
    }

    pub(super) fn write(&mut self, write: &Write) -> Result<(), DiskError> {
        if write.offset == 0 && !write.chunks.is_empty() {
            self.begin_segment(write.segment, write.segment_bytes)?;
        }
        self.note(write);
        self.unsynced.insert(write.segment);
        let path = self.path(write.segment);
        let file = self.file(write.segment)?;
        write_pieces(&file, u64::from(write.offset), &write.chunks)
            .map_err(|error| DiskError::new("write to", &path, &error))
    }

    /// Something is written, here or elsewhere.
    pub(super) fn note(&mut self, write: &Write) {
        self.strides.note(write);
    }

    /// The file of a segment that has begun, with its path.
    pub(super) fn file_of(&mut self, segment: u64) -> Result<(PathBuf, Arc<File>), DiskError> {
        Ok((self.path(segment), self.file(segment)?))
    }

    /// The files that have to be synced, with their paths.
    pub(super) fn unsynced(&mut self) -> Result<Vec<(PathBuf, Arc<File>)>, DiskError> {
        let numbers: Vec<u64> = self.unsynced.iter().copied().collect();
        let files = numbers.into_iter().map(|segment| self.file_of(segment));
        files.collect()
    }

    /// Notes that all segments are about to be synced: none counts as unsynced any more.
    pub(super) fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    /// Makes sure the segment's file exists with its blocks written, so that flushes only ever
    /// overwrite.
    pub(super) fn begin_segment(&mut self, segment: u64, size: u32) -> Result<(), DiskError> {
        let path = self.path(segment);
        let there = fs::metadata(&path).map(|file| file.len()).ok();
        if there != Some(u64::from(size)) {
            self.open.remove(&segment);
            self.begin_folder()?;
            let strides = std::mem::take(&mut self.strides);
            self.preallocator
                .take(&path, u64::from(size), strides.are_long())
                .map_err(|error| DiskError::new("create", &path, &error))?;
        }
        // Also where an attempt before created it and could not open the folder.
        let dir =
            File::open(&self.dir).map_err(|error| DiskError::new("open", &self.dir, &error))?;
        dir.sync_all()
            .map_err(|error| DiskError::new("sync", &self.dir, &error))?;
        self.sizes.insert(segment, u64::from(size));
        Ok(())
    }

    /// Creates the folder, if it is not there.
    pub(super) fn begin_folder(&self) -> Result<(), DiskError> {
        if self.dir.exists() {
            return Ok(());
        }
        let parent = self.dir.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(&self.dir)
            .and_then(|()| File::open(parent)?.sync_all())
            .map_err(|error| DiskError::new("create", &self.dir, &error))
    }

    fn file(&mut self, segment: u64) -> Result<Arc<File>, DiskError> {
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
            self.open.insert(segment, Arc::new(file));
        }
        Ok(Arc::clone(&self.open[&segment]))
    }

    pub(super) fn path(&self, segment: u64) -> PathBuf {
        segment_path(&self.dir, segment)
    }
}

/// The file of a segment.
pub(crate) fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("{segment:010}.seg"))
}

/// The numbers of the segments in a folder, ascending; none if there is no such folder.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let mut segments = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(segments),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        segments.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Reads a range of a file, which may come from a peer's wish: the file bounds what is allocated.
pub(super) fn read_range(
    path: &Path,
    file: &File,
    offset: u32,
    len: u32,
) -> Result<Bytes, DiskError> {
    let failed = |error: io::Error| DiskError::new("read", path, &error);
    let size = file.metadata().map_err(failed)?.len();
    if u64::from(offset) + u64::from(len) > size {
        return Err(failed(io::Error::other(format!(
            "it has only {size} bytes"
        ))));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, u64::from(offset))
        .map_err(failed)?;
    Ok(bytes.into())
}

/// Writes the pieces one after the other from `offset` on, many per system call.
pub(super) fn write_pieces(file: &File, mut offset: u64, chunks: &[Bytes]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
