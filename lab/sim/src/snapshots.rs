//! Snapshot files, written beside everything else and forgotten by crashes, and what replicas do
//! with them.

use crate::disk_io::disk_delay;
use crate::network::chance;
use crate::node::Inbound;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{MICROS, Machine, Slot};
use quorate_host::{Completed, SnapshotId, SnapshotRead, SnapshotWrite};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the disk says when a fault hits a snapshot.
pub(crate) const INJECTED: &str = "the simulated disk failed";

/// The snapshots of one replica.
#[derive(Clone, Default)]
pub(crate) struct SnapshotFiles {
    files: BTreeMap<Slot, Arc<Vec<u8>>>,
    /// The one being written; a crash leaves nothing of it.
    unfinished: Option<(Slot, Vec<u8>)>,
}

impl SnapshotFiles {
    /// Slots and lengths.
    pub(crate) fn list(&self) -> Vec<(Slot, u64)> {
        let files = self.files.iter();
        files
            .map(|(slot, file)| (*slot, file.len() as u64))
            .collect()
    }

    pub(crate) fn read(&self, slot: Slot, offset: u64, len: usize) -> Option<Bytes> {
        let rest = self.files.get(&slot)?.get(offset as usize..)?;
        Some(Bytes::copy_from_slice(&rest[..rest.len().min(len)]))
    }

    /// Power is lost, maybe while the file of `ending` got its name.
    pub(crate) fn crash(&mut self, rng: &mut Rng, ending: Option<Slot>) {
        if let Some((slot, file)) = self.unfinished.take()
            && ending == Some(slot)
            && rng.bool()
        {
            self.files.insert(slot, Arc::new(file));
        }
    }

    /// Whether both hold the same files: those that were only copied since.
    pub(crate) fn is_same(&self, other: &SnapshotFiles) -> bool {
        let mut pairs = self.files.iter().zip(&other.files);
        self.files.len() == other.files.len()
            && pairs.all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
    }

    /// Damages the newest of several.
    pub(crate) fn rot(&mut self, rng: &mut Rng) -> bool {
        let several = self.files.len() > 1;
        if let Some((_, file)) = self.files.iter_mut().next_back().filter(|_| several) {
            let at = rng.usize(..file.len());
            Arc::make_mut(file)[at] ^= 1 << rng.u8(..8);
        }
        several
    }

    /// Damages any; says whether there is one, and whether it is the newest.
    pub(crate) fn rot_any(&mut self, rng: &mut Rng) -> Option<bool> {
        let count = self.files.len();
        let index = (count > 0).then(|| rng.usize(..count))?;
        let file = self.files.values_mut().nth(index)?;
        let at = rng.usize(..file.len());
        Arc::make_mut(file)[at] ^= 1 << rng.u8(..8);
        Some(index + 1 == count)
    }

    pub(crate) fn release(&mut self, before: Slot) {
        self.files = self.files.split_off(&before);
    }

    /// Performs a write; what follows a failure is ignored up to the next beginning. Says what to
    /// report of the whole file, if anything.
    fn perform(
        &mut self,
        write: &SnapshotWrite,
        fails: bool,
    ) -> Option<(Slot, Result<(), String>)> {
        match write {
            SnapshotWrite::Begin { slot } => self.unfinished = Some((*slot, Vec::new())),
            SnapshotWrite::Abandon { .. } => self.unfinished = None,
            _ if fails => {
                let (slot, _) = self.unfinished.take()?;
                return Some((slot, Err(INJECTED.into())));
            }
            SnapshotWrite::Piece { offset, bytes } => {
                let (_, file) = self.unfinished.as_mut()?;
                assert_eq!(file.len() as u64, *offset, "pieces come without gaps");
                file.extend_from_slice(bytes);
            }
            SnapshotWrite::End { slot, bytes } => {
                let (_, file) = self.unfinished.take()?;
                assert_eq!(file.len() as u64, *bytes, "it is as long as it should be");
                self.files.insert(*slot, Arc::new(file));
                return Some((*slot, Ok(())));
            }
        }
        None
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Takes on what a host wants done to its snapshots.
    pub(crate) fn perform_snapshots(
        &mut self,
        index: usize,
        writes: Vec<SnapshotWrite>,
        reads: Vec<SnapshotRead>,
    ) {
        let life = self.nodes[index].life;
        if !writes.is_empty() {
            let waiting = &mut self.nodes[index].snapshot_writes;
            let was_idle = waiting.is_empty();
            waiting.extend(writes);
            if was_idle {
                self.next_snapshot_write(index);
            }
        }
        for read in reads {
            let delay = self.rng.u64(20 * MICROS..200 * MICROS);
            let node = index;
            self.queue
                .after(delay, Event::SnapshotRead { node, life, read });
        }
    }

    fn next_snapshot_write(&mut self, node: usize) {
        let disk = &self.plan.disk;
        let life = self.nodes[node].life;
        let delay = match self.nodes[node].snapshot_writes.front() {
            None => return,
            Some(SnapshotWrite::End { .. }) => {
                disk_delay(&mut self.rng, disk.slow, disk.slow_max_ns)
            }
            Some(_) => self.rng.u64(MICROS..50 * MICROS),
        };
        self.queue.after(delay, Event::SnapshotWrite { node, life });
    }

    /// The first waiting write is done, or has failed.
    pub(crate) fn snapshot_write_done(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life {
            return;
        }
        let is_full = self.nodes[node].full_until_ns > self.queue.now_ns();
        // A snapshot of many pieces would never be stored, were the disk not well in the end.
        let is_bad = chance(&mut self.rng, self.plan.disk.snapshot_failure) && !self.nemesis.tired;
        let fails = is_bad || is_full;
        if fails {
            self.totals.hit("snapshot write failed");
        }
        let target = &mut self.nodes[node];
        let Some(write) = target.snapshot_writes.pop_front() else {
            return;
        };
        let stored = target.disk.snapshots.perform(&write, fails);
        if let SnapshotWrite::Piece { bytes, .. } = &write {
            let written = Completed::SnapshotPiece(bytes.len() as u64);
            self.arrive(node, Inbound::Completed(written));
        }
        if let Some((slot, result)) = stored {
            let stored = Completed::Snapshot { slot, result };
            self.arrive(node, Inbound::Completed(stored));
        }
        self.next_snapshot_write(node);
    }

    /// The disk has read what a peer wants of a snapshot.
    pub(crate) fn snapshot_read_done(&mut self, node: usize, life: u32, read: &SnapshotRead) {
        if self.nodes[node].life == life {
            let files = &self.nodes[node].disk.snapshots;
            let bytes = files.read(read.slot, read.offset, read.len as usize);
            let bytes = bytes.ok_or_else(|| "there is no such snapshot".to_owned());
            let bytes = self.misread(bytes);
            let token = read.token;
            let done = Completed::SnapshotRead { token, bytes };
            self.arrive(node, Inbound::Completed(done));
        }
    }

    /// A replica has a snapshot of its own state: equal to those of others at the same slot.
    pub(crate) fn snapshot_taken(
        &mut self,
        node: usize,
        snapshot: SnapshotId,
    ) -> Result<(), Violation> {
        self.totals.snapshots += 1;
        let host = self.nodes[node].host.as_ref();
        let has_own_bytes = host.is_some_and(|host| host.look().app().has_cut_digests());
        // Where the application says what is compared, the bytes of replicas differ.
        let snapshot = match has_own_bytes {
            true => SnapshotId {
                bytes: 0,
                ..snapshot
            },
            false => snapshot,
        };
        self.agreement
            .snapshot(node, snapshot)
            .map_err(|why| Violation::new("agreement", why))
    }
}
