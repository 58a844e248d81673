//! The thread that writes and reads snapshots, and frees what is not needed any more.

use super::SnapshotFiles;
use crate::disk::Freed;
use crate::transient::retry_transient;
use bytes::Bytes;
use quorate_core::Slot;
use quorate_host::{SnapshotRead, SnapshotWrite};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// Written bytes are synced in steps: were a large file dirty as a whole, the log's own flushes
/// would queue behind it.
const SYNC_BYTES: u64 = 1 << 20;
/// Space that stays free for the log: its next segments must not fail for the sake of a snapshot.
const SPACE_KEPT_BYTES: u64 = 64 << 20;
/// Below everything else this replica does.
const NICENESS: i32 = 10;

/// What the thread does.
#[derive(Debug)]
pub(super) enum SnapshotJob {
    Write(SnapshotWrite),
    Read(SnapshotRead),
    /// Remove the snapshots of lower slots.
    RemoveBefore(Slot),
    /// Recycle or remove segments.
    Free(Freed),
}

/// A job that the thread has done.
#[derive(Debug)]
pub(crate) enum SnapshotJobDone {
    /// This many bytes of pieces are written, or never will be.
    Written(u64),
    /// A snapshot is durable, or could not be written.
    Stored(Slot, Result<(), String>),
    /// A read for a peer.
    Read(SnapshotRead, Result<Bytes, String>),
}

pub(super) fn start(
    files: SnapshotFiles,
) -> io::Result<(Sender<SnapshotJob>, UnboundedReceiver<SnapshotJobDone>)> {
    let (jobs, taken) = std::sync::mpsc::channel();
    let (report, done) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker {
        writer: SnapshotWriter {
            files,
            file: None,
            space_kept: SPACE_KEPT_BYTES,
        },
        report,
    };
    thread::Builder::new()
        .name("snapshots".into())
        .spawn(move || worker.run(&taken))?;
    Ok((jobs, done))
}

struct Worker {
    writer: SnapshotWriter,
    report: UnboundedSender<SnapshotJobDone>,
}

impl Worker {
    fn run(mut self, jobs: &Receiver<SnapshotJob>) {
        // Only a courtesy to other threads: refused, it changes nothing.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        while let Ok(job) = jobs.recv() {
            let done = match job {
                SnapshotJob::Write(write) => self.writer.write(write),
                SnapshotJob::Read(read) => vec![SnapshotJobDone::Read(
                    read,
                    read_exactly(&self.writer.files, read),
                )],
                SnapshotJob::RemoveBefore(slot) => {
                    if let Err(error) = self.writer.files.remove_before(slot) {
                        let dir = self.writer.files.dir().display();
                        tracing::warn!(%dir, "cannot remove old snapshots: {error}");
                    }
                    Vec::new()
                }
                SnapshotJob::Free(freed) => {
                    freed.free();
                    Vec::new()
                }
            };
            for done in done {
                // The core may have ended.
                let _ = self.report.send(done);
            }
        }
    }
}

/// Writes one snapshot at a time.
struct SnapshotWriter {
    files: SnapshotFiles,
    /// The unfinished one; `None` also after a failure, until the next begins.
    file: Option<Unfinished>,
    space_kept: u64,
}

struct Unfinished {
    slot: Slot,
    path: PathBuf,
    file: File,
    unsynced: u64,
    length: u64,
}

impl SnapshotWriter {
    fn write(&mut self, write: SnapshotWrite) -> Vec<SnapshotJobDone> {
        match write {
            SnapshotWrite::Begin { slot } => {
                self.abandon();
                self.begin(slot)
                    .err()
                    .into_iter()
                    .map(|error| self.failed(slot, &error))
                    .collect()
            }
            SnapshotWrite::Piece { offset, bytes } => {
                let mut done = vec![SnapshotJobDone::Written(bytes.len() as u64)];
                if let Some(slot) = self.file.as_ref().map(|file| file.slot)
                    && let Err(error) = self.piece(offset, &bytes)
                {
                    done.push(self.failed(slot, &error));
                }
                done
            }
            SnapshotWrite::End { slot, bytes } => match self.file.take() {
                Some(file) if file.slot == slot => match self.end(&file, bytes) {
                    Ok(()) => vec![SnapshotJobDone::Stored(slot, Ok(()))],
                    Err(error) => {
                        self.file = Some(file);
                        vec![self.failed(slot, &error)]
                    }
                },
                // Its failure was reported.
                _ => Vec::new(),
            },
            SnapshotWrite::Abandon { .. } => {
                self.abandon();
                Vec::new()
            }
        }
    }

    fn begin(&mut self, slot: Slot) -> io::Result<()> {
        self.check_space()?;
        let path = self.files.temporary(slot);
        let file = retry_transient(|| File::create(&path))?;
        self.file = Some(Unfinished {
            slot,
            path,
            file,
            unsynced: 0,
            length: 0,
        });
        Ok(())
    }

    fn piece(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.file else {
            return Ok(());
        };
        open.file.write_all_at(bytes, offset)?;
        open.length = open.length.max(offset + bytes.len() as u64);
        open.unsynced += bytes.len() as u64;
        if open.unsynced >= SYNC_BYTES {
            open.unsynced = 0;
            open.file.sync_data()?;
            self.check_space()?;
        }
        Ok(())
    }

    fn end(&self, open: &Unfinished, bytes: u64) -> io::Result<()> {
        if open.length != bytes {
            let length = open.length;
            return Err(io::Error::other(format!(
                "{length} of {bytes} bytes were written"
            )));
        }
        open.file.sync_all()?;
        fs::rename(&open.path, self.files.path(open.slot))?;
        retry_transient(|| File::open(self.files.dir()))?.sync_all()
    }

    /// Gives the space of an unfinished snapshot back.
    fn abandon(&mut self) {
        if let Some(open) = self.file.take() {
            // What stays behind is removed at the next start.
            let _ = fs::remove_file(open.path);
        }
    }

    fn failed(&mut self, slot: Slot, error: &io::Error) -> SnapshotJobDone {
        self.abandon();
        let path = self.files.path(slot);
        SnapshotJobDone::Stored(slot, Err(format!("{}: {error}", path.display())))
    }

    fn check_space(&self) -> io::Result<()> {
        let free = free_bytes(self.files.dir())?;
        if free < self.space_kept {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "only {} MiB are free on this disk, and the log needs them: free some space",
                    free >> 20
                ),
            ));
        }
        Ok(())
    }
}

fn free_bytes(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn read_exactly(files: &SnapshotFiles, read: SnapshotRead) -> Result<Bytes, String> {
    let path = files.path(read.slot);
    match retry_transient(|| files.read(read.slot, read.offset, read.len as usize)) {
        Ok(bytes) if bytes.len() == read.len as usize => Ok(bytes),
        Ok(bytes) => Err(format!(
            "{} ends {} bytes after {}",
            path.display(),
            bytes.len(),
            read.offset
        )),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(dir: &Path, space_kept: u64) -> SnapshotWriter {
        SnapshotWriter {
            files: SnapshotFiles::open(dir).unwrap(),
            file: None,
            space_kept,
        }
    }

    fn stored(done: Vec<SnapshotJobDone>) -> Vec<(u64, Result<(), String>)> {
        done.into_iter()
            .filter_map(|done| match done {
                SnapshotJobDone::Stored(slot, result) => Some((slot.0, result)),
                _ => None,
            })
            .collect()
    }

    fn piece(offset: u64, bytes: &'static [u8]) -> SnapshotWrite {
        let bytes = Bytes::from_static(bytes);
        SnapshotWrite::Piece { offset, bytes }
    }

    #[test]
    fn a_snapshot_has_its_name_once_it_is_whole_and_older_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), 0);
        for slot in [Slot(5), Slot(9)] {
            assert!(stored(writer.write(SnapshotWrite::Begin { slot })).is_empty());
            assert!(stored(writer.write(piece(0, b"one"))).is_empty());
            assert!(!writer.files.path(slot).exists());
            let done = writer.write(piece(3, b"two"));
            assert!(matches!(done[..], [SnapshotJobDone::Written(3)]));
            let done = writer.write(SnapshotWrite::End { slot, bytes: 6 });
            assert_eq!(stored(done), [(slot.0, Ok(()))]);
        }
        assert_eq!(writer.files.list().unwrap(), [(Slot(5), 6), (Slot(9), 6)]);
        writer.files.remove_before(Slot(9)).unwrap();
        assert_eq!(writer.files.list().unwrap(), [(Slot(9), 6)]);

        let read = |offset, len| {
            let (token, slot) = (0, Slot(9));
            read_exactly(
                &writer.files,
                SnapshotRead {
                    token,
                    slot,
                    offset,
                    len,
                },
            )
        };
        assert_eq!(read(2, 3).unwrap(), "etw");
        let refused = read(4, u32::MAX).unwrap_err();
        assert!(refused.contains("ends 2 bytes after 4"), "{refused}");
        assert_eq!(writer.files.read(Slot(9), 4, 100).unwrap(), "wo");
    }

    #[test]
    fn an_unfinished_snapshot_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = writer(dir.path(), 0);
        let slot = Slot(5);
        files.write(SnapshotWrite::Begin { slot });
        files.write(piece(0, b"one"));
        files.write(SnapshotWrite::Abandon { slot });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        files.write(SnapshotWrite::Begin { slot });
        files.write(piece(0, b"one"));
        drop(files);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a crash");
        let files = writer(dir.path(), 0);
        assert_eq!(files.files.list().unwrap(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn with_the_disk_nearly_full_a_snapshot_is_given_up_once_and_tried_again_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), u64::MAX);
        let slot = Slot(5);
        let failures = stored(writer.write(SnapshotWrite::Begin { slot }));
        let [(5, Err(why))] = &failures[..] else {
            panic!("{failures:?}");
        };
        assert!(why.contains("free some space"), "{why}");
        let done = writer.write(piece(0, b"one"));
        assert!(
            matches!(done[..], [SnapshotJobDone::Written(3)]),
            "{done:?}"
        );
        assert!(stored(writer.write(SnapshotWrite::End { slot, bytes: 3 })).is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        writer.space_kept = 0;
        writer.write(SnapshotWrite::Begin { slot });
        writer.write(piece(0, b"one"));
        let done = writer.write(SnapshotWrite::End { slot, bytes: 3 });
        assert_eq!(stored(done), [(5, Ok(()))]);
    }
}
