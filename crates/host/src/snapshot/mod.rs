//! Snapshots: so that the log does not grow for ever, and a replica that was away for long comes
//! back without replaying everything.
//!
//! `cut` takes one of the own state, a piece at a time; `release` gives up the part of the log that
//! two of them cover; `serve` hands one to a peer, `pull` fetches one from a peer, and `install`
//! puts it in the place of the own state. `format` knows the bytes, `load` reads them.

mod api;
mod cut;
mod format;
#[cfg(test)]
pub(crate) mod fuzz;
mod install;
mod load;
mod pull;
mod release;
mod serve;
mod whole;

pub use api::{Release, SNAPSHOT_UNWRITTEN_BYTES_MAX, SnapshotRead, SnapshotWrite};
pub(crate) use load::{Loaded, Stored, list, load, verify};
pub(crate) use whole::write_whole;

use crate::api::{HostEvent, SnapshotId};
use crate::catch_up::CatchUp;
use crate::context::Context;
use crate::divergence::{DigestOf, Divergence};
use crate::epochs::GroupState;
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::position::Position;
use crate::repair::Repair;
use bytes::Bytes;
use cut::Cutting;
use pull::Pull;
use quorate_core::{Application, ClusterId, Machine, Now, Peers, ReplicaId, Slot};
use serve::{InMemory, Reading};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A snapshot on the own disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) slot: Slot,
    pub(crate) bytes: u64,
    pub(crate) digest: u64,
    /// What is compared with peers' snapshots of the same slot; `None` for one of whose pieces that is not known.
    pub(crate) compared: Option<u64>,
    /// What the machine recorded about its slots and later ones, and their decisions, begins here.
    pub(crate) from: Position,
    /// When a peer last asked for a part of it.
    pub(crate) asked_ns: Option<u64>,
}

/// Everything about snapshots but the state itself.
pub(crate) struct Snapshots<M: Machine, A: Application> {
    cluster: ClusterId,
    /// What the group knew of itself when it began.
    first: GroupState,
    /// The one being taken.
    cutting: Option<Cutting<A>>,
    /// The one being fetched.
    pull: Option<Pull<M, A>>,
    /// No other is fetched before: storing the last one failed.
    pull_after_ns: u64,
    /// Own ones that the driver has all bytes of, and has not reported yet.
    storing: VecDeque<Kept>,
    /// Durable, ascending.
    kept: VecDeque<Kept>,
    /// The only one of a replica without a log, taken for a peer.
    memory: Option<InMemory>,
    writes: Vec<SnapshotWrite>,
    /// Bytes of pieces that the driver has not reported.
    unwritten: u64,
    reads: Vec<SnapshotRead>,
    reading: BTreeMap<u64, Reading>,
    next_token: u64,
    /// Segments whose first records are damaged. With none of those before them, it could not be told
    /// whether promises were among what they held.
    ragged: BTreeSet<u64>,
    /// What may be deleted once the log is durable up to there.
    release: Option<(Position, Release)>,
    /// The last snapshots of peers: slot and digest.
    seen: VecDeque<(ReplicaId, Slot, u64)>,
    taken_total: u64,
    installed_total: u64,
}

/// Snapshots of peers remembered until the own one of the same slot is there.
const SEEN_MAX: usize = 16;

impl<M: Machine, A: Application> Snapshots<M, A> {
    /// With these on the disk, ascending.
    pub(crate) fn new(cluster: ClusterId, first: GroupState, kept: VecDeque<Kept>) -> Self {
        Snapshots {
            cluster,
            first,
            cutting: None,
            pull: None,
            pull_after_ns: 0,
            storing: VecDeque::new(),
            kept,
            memory: None,
            writes: Vec::new(),
            unwritten: 0,
            reads: Vec::new(),
            reading: BTreeMap::new(),
            next_token: 1,
            ragged: BTreeSet::new(),
            release: None,
            seen: VecDeque::new(),
            taken_total: 0,
            installed_total: 0,
        }
    }

    /// The first records of these segments of the log are damaged.
    pub(crate) fn note_ragged(&mut self, ragged: BTreeSet<u64>) {
        self.ragged = ragged;
    }

    /// Own snapshots completed, and peers' installed.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.taken_total, self.installed_total)
    }

    /// Bytes on their way to the disk.
    pub(crate) fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// What to do to snapshot files, in order.
    pub(crate) fn take_writes(&mut self) -> Vec<SnapshotWrite> {
        std::mem::take(&mut self.writes)
    }

    /// So many bytes of [`SnapshotWrite::Piece`]s were written (not synced), or will never be.
    pub(crate) fn written(&mut self, bytes: u64) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// Reads of stored snapshots to perform.
    pub(crate) fn take_reads(&mut self) -> Vec<SnapshotRead> {
        std::mem::take(&mut self.reads)
    }

    /// Whether one is being fetched.
    pub(crate) fn is_pulling(&self) -> bool {
        self.pull.is_some()
    }

    /// Hands bytes to the driver; says where the next ones go.
    fn write(&mut self, offset: u64, bytes: Bytes) -> u64 {
        let end = offset + bytes.len() as u64;
        self.unwritten += bytes.len() as u64;
        self.writes.push(SnapshotWrite::Piece { offset, bytes });
        end
    }

    /// Whether the driver has all it should have before it has written some.
    fn is_full(&self) -> bool {
        self.unwritten >= SNAPSHOT_UNWRITTEN_BYTES_MAX
    }

    pub(crate) fn digest_of(&self, slot: Slot) -> Option<u64> {
        if let Some(memory) = self.memory.as_ref().filter(|memory| memory.id.slot == slot) {
            return Some(memory.compared);
        }
        let kept = self.kept.iter().find(|kept| kept.slot == slot);
        kept.and_then(|kept| kept.compared)
    }
}

/// What snapshots work on, beside themselves.
pub(crate) struct SnapshotHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    snapshots: &'a mut Snapshots<M, A>,
    catch_up: &'a mut CatchUp,
    divergence: &'a mut Divergence,
    repair: &'a Repair<M>,
}

impl<M: Machine, A: Application> Snapshots<M, A> {
    /// Lends what snapshots work on.
    pub(crate) fn with<'a>(
        &'a mut self,
        context: &'a mut Context<M, A>,
        catch_up: &'a mut CatchUp,
        divergence: &'a mut Divergence,
        repair: &'a Repair<M>,
    ) -> SnapshotHandler<'a, M, A> {
        SnapshotHandler {
            context,
            snapshots: self,
            catch_up,
            divergence,
            repair,
        }
    }
}

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// What may be deleted. To be asked for after every flush; each supersedes those before.
    pub(crate) fn take_release(&mut self) -> Option<Release> {
        let log = self.context.storage.log.as_ref()?;
        if let Some(kept) = self.snapshots.storing.front()
            && self.context.limits.flaw == Some(Flaw::ReleasesTooEarly)
        {
            return Some(Release {
                segments_before: kept.from.segment,
                snapshots_before: kept.slot,
            });
        }
        let due = self
            .snapshots
            .release
            .take_if(|(at, _)| log.is_durable(*at));
        due.map(|(_, release)| release)
    }

    /// Writing a snapshot failed, at whatever place; the driver has dropped the file.
    pub(crate) fn not_stored(&mut self, now: Now, slot: Slot, why: String) {
        self.snapshots.storing.retain(|kept| kept.slot != slot);
        if self
            .snapshots
            .cutting
            .as_ref()
            .is_some_and(|cutting| cutting.slot() == slot)
        {
            self.release_cut();
        }
        if self
            .snapshots
            .pull
            .as_ref()
            .is_some_and(|pull| pull.slot() == slot)
        {
            self.give_up_pull(now);
        }
        self.context
            .effects
            .events
            .push(HostEvent::SnapshotFailed { slot, why });
    }

    /// An own snapshot is durable under its name. Says from which segment on the log is to be kept, if more snapshots
    /// are here than are needed.
    pub(crate) fn own_stored(&mut self, now: Now, slot: Slot) -> Option<u64> {
        let storing = &mut self.snapshots.storing;
        let index = storing.iter().position(|kept| kept.slot == slot)?;
        let kept = storing.remove(index)?;
        self.snapshots.kept.push_back(kept);
        self.taken(SnapshotId {
            slot,
            bytes: kept.bytes,
            digest: kept.compared.unwrap_or(kept.digest),
        });
        self.drop_superfluous(now)
    }

    /// An own snapshot is complete: peers compare theirs of the same slot. Its digest is the one to compare.
    fn taken(&mut self, snapshot: SnapshotId) {
        self.snapshots.taken_total += 1;
        self.context
            .effects
            .events
            .push(HostEvent::SnapshotTaken(snapshot));
        self.context.post(Peers::All, &Body::Taken(snapshot));
        let seen = std::mem::take(&mut self.snapshots.seen);
        for (peer, slot, theirs) in &seen {
            self.compare(*peer, *slot, *theirs);
        }
        self.snapshots.seen = seen;
    }

    /// A peer took a snapshot.
    pub(crate) fn peer_took(&mut self, peer: ReplicaId, snapshot: SnapshotId) {
        self.compare(peer, snapshot.slot, snapshot.digest);
        let seen = &mut self.snapshots.seen;
        seen.push_back((peer, snapshot.slot, snapshot.digest));
        if seen.len() > SEEN_MAX {
            seen.pop_front();
        }
    }

    fn compare(&mut self, peer: ReplicaId, slot: Slot, theirs: u64) {
        let is_blind = self.context.limits.flaw == Some(Flaw::DigestsNotCompared);
        let mine = self.snapshots.digest_of(slot).filter(|_| !is_blind);
        let of = (DigestOf::Snapshot, slot);
        self.divergence.compare(of, mine, (peer, theirs));
    }
}
