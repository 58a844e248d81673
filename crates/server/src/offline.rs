//! The files of a replica that does not run. Nothing in its folder changes.

use crate::disk::Folders;
use crate::folder::Folder;
use crate::snapshots::SnapshotFiles;
use bytes::Bytes;
use quorate_core::Slot;
use quorate_host::{LogSource, Position};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Log, fragment store and snapshots, to be read.
pub(crate) struct OfflineFiles {
    folders: Folders,
    snapshots: SnapshotFiles,
}

impl OfflineFiles {
    pub(crate) fn new(folder: &Folder) -> OfflineFiles {
        let folders = folder.disk_folders();
        OfflineFiles {
            snapshots: SnapshotFiles::offline(&folders.snapshots),
            folders,
        }
    }
}

impl LogSource for OfflineFiles {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        crate::disk::segments(&self.folders.log)
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        fs::read(crate::disk::segment_path(&self.folders.log, segment)).map(Bytes::from)
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        match self.snapshots.dir().is_dir() {
            true => self.snapshots.list(),
            false => Ok(Vec::new()),
        }
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        self.snapshots.read(slot, offset, len)
    }

    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        let fragments = &self.folders.fragments;
        if !fragments.is_dir() {
            return Ok(Vec::new());
        }
        let sized = |segment| {
            let size = fs::metadata(crate::disk::segment_path(fragments, segment))?.len();
            Ok((segment, u32::try_from(size).unwrap_or(u32::MAX)))
        };
        crate::disk::segments(fragments)?
            .into_iter()
            .map(sized)
            .collect()
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let file = File::open(crate::disk::segment_path(
            &self.folders.fragments,
            at.segment,
        ))?;
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at.offset.into())?;
        Ok(bytes.into())
    }
}
