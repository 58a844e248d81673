//! RDBs in files of a private folder.

use bytes::Bytes;
use quorate_redis_effects::{Files, Rdb, RdbWriter};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of RDBs, empty at first.
#[derive(Debug)]
pub struct RdbFiles {
    folder: PathBuf,
    next: AtomicU64,
}

impl RdbFiles {
    /// Makes the folder, for nobody but this user, and empties it: RDBs of an earlier start are in the log's snapshots.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(folder: &Path) -> io::Result<Arc<RdbFiles>> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        Ok(Arc::new(RdbFiles {
            folder: folder.to_owned(),
            next: AtomicU64::new(1),
        }))
    }

    fn fresh(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{number}.rdb"))
    }

    /// Takes a file that a server has written, so that nobody changes it any more.
    pub(crate) fn take(&self, from: &Path) -> io::Result<Arc<dyn Rdb>> {
        let path = self.fresh();
        fs::rename(from, &path)?;
        RdbFile::open(path)
    }

    /// The place of an RDB in this folder, or nearby; one that is in memory is written.
    pub(crate) fn placed(&self, rdb: &dyn Rdb) -> io::Result<Placed> {
        if let Some(path) = rdb.place() {
            return Ok(Placed {
                path,
                is_temporary: false,
            });
        }
        let path = self.fresh();
        let mut file = create(&path)?;
        let mut offset = 0;
        while offset < rdb.len() {
            let bytes = rdb.read(offset, COPY_BYTES).map_err(io::Error::other)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all(&bytes)?;
            offset += bytes.len() as u64;
        }
        Ok(Placed {
            path,
            is_temporary: true,
        })
    }
}

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Where an RDB is, for as long as this is kept.
pub(crate) struct Placed {
    pub(crate) path: PathBuf,
    is_temporary: bool,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.is_temporary {
            // What stays is removed at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

impl Files for RdbFiles {
    fn create(&self) -> Result<Box<dyn RdbWriter>, String> {
        let path = self.fresh();
        match create(&path) {
            Ok(file) => Ok(Box::new(Writing {
                file: Some(file),
                path,
            })),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

/// A file that is being written.
struct Writing {
    /// The file, until it is complete.
    file: Option<File>,
    path: PathBuf,
}

impl RdbWriter for Writing {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    fn finish(mut self: Box<Self>) -> Result<Arc<dyn Rdb>, String> {
        let opened = RdbFile::open(self.path.clone());
        let opened = opened.map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.file = None;
        Ok(opened)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A complete file; it is removed when nobody holds it.
struct RdbFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl RdbFile {
    fn open(path: PathBuf) -> io::Result<Arc<dyn Rdb>> {
        let file = File::open(&path)?;
        let len = file.metadata()?.len();
        Ok(Arc::new(RdbFile { file, path, len }))
    }
}

impl Rdb for RdbFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Bytes, String> {
        let left = self.len.saturating_sub(offset);
        let bytes = usize::try_from(left).map_or(bytes, |left| left.min(bytes));
        let mut read = vec![0; bytes];
        let done = self.file.read_exact_at(&mut read, offset);
        done.map_err(|error| format!("{}: {error}", self.path.display()))?;
        Ok(read.into())
    }

    fn place(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }
}

impl Drop for RdbFile {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_redis_effects::MemoryRdb;

    #[test]
    fn a_file_goes_when_nobody_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("rdb");
        let files = RdbFiles::open(&folder).unwrap();
        let count = || fs::read_dir(&folder).unwrap().count();
        let mut writer = files.create().unwrap();
        writer.write(b"REDIS").unwrap();
        writer.write(b"0009").unwrap();
        let rdb = writer.finish().unwrap();
        assert_eq!(
            (rdb.len(), &rdb.read(5, 100).unwrap()[..]),
            (9, &b"0009"[..])
        );
        assert_eq!(files.placed(&*rdb).unwrap().path, rdb.place().unwrap());
        assert_eq!(count(), 1);
        drop(rdb);
        drop(files.create().unwrap());
        assert_eq!(count(), 0);
        let placed = files.placed(&MemoryRdb(Bytes::from("abc"))).unwrap();
        assert_eq!(fs::read(&placed.path).unwrap(), b"abc");
        drop(placed);
        assert_eq!(count(), 0);
    }
}
