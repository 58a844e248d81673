//! Segments and snapshots in memory, for hosts of any protocol.

use bytes::Bytes;
use quorate_core::Slot;
use quorate_host::{
    Completed, Flush, LogSource, Position, Release, SnapshotRead, SnapshotWrite, Write,
};
use std::collections::BTreeMap;
use std::io;

/// Segments and snapshots in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) files: BTreeMap<u64, Vec<u8>>,
    pub(crate) bulk: BTreeMap<u64, Vec<u8>>,
    pub(crate) snapshots: BTreeMap<Slot, Vec<u8>>,
    unfinished: Vec<u8>,
}

impl Disk {
    pub(crate) fn perform(&mut self, flush: &Flush) {
        for write in &flush.writes {
            put(&mut self.files, write);
        }
        for write in &flush.fragments {
            put(&mut self.bulk, write);
        }
    }

    /// A step in writing long fragments.
    pub(crate) fn perform_step(&mut self, step: &Write) {
        put(&mut self.bulk, step);
    }

    /// Does to snapshots what the host wants; says what is done.
    pub(crate) fn keep(&mut self, writes: Vec<SnapshotWrite>) -> Vec<Completed> {
        let mut done = Vec::new();
        for write in writes {
            match write {
                SnapshotWrite::Begin { .. } | SnapshotWrite::Abandon { .. } => {
                    self.unfinished.clear();
                }
                SnapshotWrite::Piece { offset, bytes } => {
                    assert_eq!(offset, self.unfinished.len() as u64, "without gaps");
                    self.unfinished.extend_from_slice(&bytes);
                    done.push(Completed::SnapshotPiece(bytes.len() as u64));
                }
                SnapshotWrite::End { slot, bytes } => {
                    assert_eq!(bytes, self.unfinished.len() as u64);
                    let file = std::mem::take(&mut self.unfinished);
                    self.snapshots.insert(slot, file);
                    let result = Ok(());
                    done.push(Completed::Snapshot { slot, result });
                }
            }
        }
        done
    }

    /// Deletes what is not needed any more.
    pub(crate) fn release(&mut self, release: Release) {
        self.files = self.files.split_off(&release.segments_before);
        self.snapshots = self.snapshots.split_off(&release.snapshots_before);
    }

    pub(crate) fn read_snapshot_at(&self, read: &SnapshotRead) -> Bytes {
        let file = self.snapshots.get(&read.slot).map_or(&[][..], |file| file);
        let rest = file.get(read.offset as usize..).unwrap_or_default();
        Bytes::copy_from_slice(&rest[..rest.len().min(read.len as usize)])
    }

    pub(crate) fn read_at(&self, at: Position, len: u32) -> Bytes {
        let from = at.offset as usize;
        Bytes::copy_from_slice(&self.files[&at.segment][from..from + len as usize])
    }
}

fn put(files: &mut BTreeMap<u64, Vec<u8>>, write: &Write) {
    let file = files.entry(write.segment).or_default();
    file.resize(write.segment_bytes as usize, 0);
    let bytes = write.chunks.concat();
    file[write.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
}

impl LogSource for Disk {
    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        let files = self.bulk.iter();
        Ok(files
            .map(|(number, file)| (*number, file.len() as u32))
            .collect())
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let rest = &self.bulk[&at.segment][at.offset as usize..];
        Ok(Bytes::copy_from_slice(&rest[..len as usize]))
    }

    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.files.keys().copied().collect())
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        Ok(Bytes::from(self.files[&segment].clone()))
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        let snapshots = self.snapshots.iter();
        Ok(snapshots
            .map(|(slot, file)| (*slot, file.len() as u64))
            .collect())
    }

    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        let rest = &self.snapshots[&slot][offset as usize..];
        Ok(Bytes::copy_from_slice(&rest[..rest.len().min(len)]))
    }
}
