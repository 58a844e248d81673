//! Giving a snapshot to a peer, a chunk at a time, as it asks.

use super::{SnapshotHandler, SnapshotRead};
use crate::api::SnapshotId;
use crate::frame::Body;
use crate::timers::Timer;
use bytes::{Bytes, BytesMut};
use quorate_core::{Application, Machine, Now, Peers, ReplicaId, Slot};

/// How long a snapshot without a disk stays after a peer last asked for it, in ns.
const MEMORY_NS: u64 = 60_000_000_000;

/// A chunk that is being read for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    peer: ReplicaId,
    slot: Slot,
    offset: u64,
}

/// A snapshot that is on no disk.
#[derive(Debug)]
pub(super) struct InMemory {
    pub(super) id: SnapshotId,
    /// What is compared with peers' snapshots of the same slot.
    pub(super) compared: u64,
    chunks: Vec<Bytes>,
    /// Where each chunk begins.
    starts: Vec<u64>,
    asked_ns: u64,
}

impl InMemory {
    pub(super) fn new(id: SnapshotId, compared: u64, chunks: Vec<Bytes>) -> Self {
        let starts = chunks.iter().scan(0, |end, chunk| {
            let start = *end;
            *end += chunk.len() as u64;
            Some(start)
        });
        InMemory {
            id,
            compared,
            starts: starts.collect(),
            chunks,
            asked_ns: 0,
        }
    }

    /// Up to `len` bytes from `offset` on.
    fn read(&self, offset: u64, len: u32) -> Bytes {
        let mut out = BytesMut::new();
        let first = self.starts.partition_point(|start| *start <= offset);
        for index in first.saturating_sub(1)..self.chunks.len() {
            let chunk = &self.chunks[index];
            let skip = offset.saturating_sub(self.starts[index]) as usize;
            let part = chunk.get(skip..).unwrap_or_default();
            let room = len as usize - out.len();
            out.extend_from_slice(&part[..part.len().min(room)]);
            if out.len() == len as usize {
                break;
            }
        }
        out.freeze()
    }
}

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// A peer needs slots that are not kept: offers it a snapshot, or takes one for it.
    pub(crate) fn offer(&mut self, now: Now, peer: ReplicaId, from: Slot) {
        let id = match self.snapshots.memory.as_mut() {
            Some(memory) => {
                memory.asked_ns = now.mono_ns;
                Some(memory.id)
            }
            None => self.newest_kept(),
        };
        // It must reach up to what can be had without it.
        let id = id.filter(|id| id.slot > from && id.slot >= self.context.storage.decided.first());
        match id {
            Some(id) => self.context.post(Peers::One(peer), &Body::Offer(id)),
            None if self.context.storage.log.is_none() => {
                self.cut();
                self.context
                    .timers
                    .arm(Timer::Forget, now.mono_ns + MEMORY_NS);
            }
            None => {}
        }
    }

    fn newest_kept(&self) -> Option<SnapshotId> {
        let kept = self.snapshots.kept.back()?;
        Some(SnapshotId {
            slot: kept.slot,
            bytes: kept.bytes,
            digest: kept.digest,
        })
    }

    /// A peer asks for a chunk. One that is not here any more is answered by an offer.
    pub(crate) fn serve_piece(
        &mut self,
        now: Now,
        peer: ReplicaId,
        (slot, digest): (Slot, u64),
        offset: u64,
    ) {
        let len = self.context.limits.snapshot_chunk_bytes;
        if let Some(memory) = &mut self.snapshots.memory
            && (memory.id.slot, memory.id.digest) == (slot, digest)
        {
            memory.asked_ns = now.mono_ns;
            let bytes = memory.read(offset, len);
            return self.send_piece(peer, slot, offset, bytes);
        }
        let is_it = |kept: &&mut super::Kept| (kept.slot, kept.digest) == (slot, digest);
        let Some(kept) = self.snapshots.kept.iter_mut().find(is_it) else {
            return self.offer(now, peer, Slot(0));
        };
        kept.asked_ns = Some(now.mono_ns);
        let left = kept.bytes.saturating_sub(offset);
        if left > 0 {
            self.read_for(peer, slot, offset, u64::from(len).min(left) as u32);
        }
    }

    /// Has the driver read a chunk, unless it is reading one for this peer.
    fn read_for(&mut self, peer: ReplicaId, slot: Slot, offset: u64, len: u32) {
        let snapshots = &mut self.snapshots;
        if snapshots
            .reading
            .values()
            .any(|reading| reading.peer == peer)
        {
            return;
        }
        let token = snapshots.next_token;
        snapshots.next_token += 1;
        let reading = Reading { peer, slot, offset };
        snapshots.reading.insert(token, reading);
        snapshots.reads.push(SnapshotRead {
            token,
            slot,
            offset,
            len,
        });
    }

    /// A read of a stored snapshot is done. Fewer bytes than asked for are an error.
    pub(crate) fn read_done(&mut self, token: u64, bytes: Result<Bytes, String>) {
        let Some(reading) = self.snapshots.reading.remove(&token) else {
            return;
        };
        let Reading { peer, slot, offset } = reading;
        match bytes {
            Ok(bytes) => self.send_piece(peer, slot, offset, bytes),
            // Deleted meanwhile: the peer asks again, and learns of a newer one.
            Err(_) if self.snapshots.kept.iter().all(|kept| kept.slot != slot) => {}
            Err(why) => self.snapshot_failed(slot, format!("reading it for replica {peer}: {why}")),
        }
    }

    fn send_piece(&mut self, peer: ReplicaId, slot: Slot, offset: u64, bytes: Bytes) {
        let piece = Body::Piece {
            slot,
            offset,
            bytes,
        };
        self.context.post(Peers::One(peer), &piece);
    }

    /// Drops the snapshot in memory if nobody has asked for it for long.
    pub(crate) fn forget_snapshot(&mut self, now: Now) {
        let asked_ns = match (&self.snapshots.cutting, &self.snapshots.memory) {
            (Some(_), _) => Some(now.mono_ns),
            (None, memory) => memory.as_ref().map(|memory| memory.asked_ns),
        };
        let until_ns = asked_ns.map_or(0, |asked_ns| asked_ns + MEMORY_NS);
        if now.mono_ns < until_ns {
            return self.context.timers.arm(Timer::Forget, until_ns);
        }
        self.snapshots.memory = None;
        self.context.storage.decided.hold(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_in_memory_is_read_from_anywhere() {
        let id = SnapshotId {
            slot: Slot(1),
            bytes: 10,
            digest: 0,
        };
        let chunks = ["012", "", "3", "456789"].map(|text| Bytes::from_static(text.as_bytes()));
        let memory = InMemory::new(id, id.digest, chunks.into());
        for offset in 0..12usize {
            for len in 1..12usize {
                let expected = &b"0123456789"[offset.min(10)..(offset + len).min(10)];
                assert_eq!(memory.read(offset as u64, len as u32), expected);
            }
        }
    }
}
