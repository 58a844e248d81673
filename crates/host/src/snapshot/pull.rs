//! Fetching a snapshot from a peer: one chunk at a time, at a limited rate, and from another peer
//! that has the same one when the first falls silent. A lost message is likelier than that, and peers
//! that have no snapshot say nothing: so whoever is known to have it is asked more than once first.
//!
//! Every chunk goes to the disk, if there is one, and into a state that stands aside; so installing
//! is a swap. Nothing of the own state is touched before.

use super::format::Header;
use super::load::{Loaded, Loading};
use super::{SnapshotHandler, SnapshotWrite, Snapshots};
use crate::api::{HostEvent, SnapshotId};
use crate::frame::Body;
use crate::timers::Timer;
use bytes::Bytes;
use quorate_core::{Application, Machine, Now, Peers, ReplicaId, Slot};
use std::collections::BTreeSet;

/// How long after a failure to store a snapshot none is fetched, in ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// Questions to each peer without any answer after which nobody is thought to have a snapshot.
const HOPELESS: usize = 16;
/// Of so many questions without an answer, one goes to a peer that is not known to have the snapshot.
const OTHERS_EVERY: usize = 4;
/// How long to wait for the disk to take more, in ns.
const DISK_WAIT_NS: u64 = 1_000_000;

/// A snapshot that is being fetched.
pub(crate) struct Pull<M: Machine, A> {
    id: SnapshotId,
    /// Who is asked.
    peer: ReplicaId,
    /// Who offered it, or gave a piece of it last, and has not said since that it is gone.
    source: Option<ReplicaId>,
    /// The first byte that is missing.
    offset: u64,
    /// `None` once it is whole.
    loading: Option<Loading<M, A>>,
    /// Set once it is whole, while it becomes durable.
    pub(super) loaded: Option<Loaded<M, A>>,
    asked_ns: u64,
    is_asking: bool,
    /// Questions in a row that brought nothing.
    silent: usize,
    /// Peers that have another snapshot and not this one.
    denied: BTreeSet<ReplicaId>,
}

impl<M: Machine, A> Pull<M, A> {
    pub(super) fn slot(&self) -> Slot {
        self.id.slot
    }
}

impl<M: Machine, A: Application> Snapshots<M, A> {
    /// Whether the snapshot of this slot is the one that was fetched.
    pub(crate) fn is_pulled(&self, slot: Slot) -> bool {
        let pull = self.pull.as_ref();
        pull.is_some_and(|pull| pull.id.slot == slot && pull.loaded.is_some())
    }

    /// Takes the fetched snapshot, which is whole.
    pub(crate) fn take_pulled(&mut self) -> Option<(SnapshotId, Loaded<M, A>)> {
        let pull = self.pull.take()?;
        pull.loaded.map(|loaded| (pull.id, loaded))
    }
}

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// A peer no longer has the slots that are missing here, but a snapshot that covers them.
    pub(crate) fn offered(&mut self, now: Now, peer: ReplicaId, id: SnapshotId) {
        if self.catch_up.offered(peer) {
            self.context.timers.disarm(Timer::FetchTimeout);
        }
        if id.slot <= self.context.applied() || now.mono_ns < self.snapshots.pull_after_ns {
            return;
        }
        let peers = self.catch_up.count();
        let Some(pull) = &mut self.snapshots.pull else {
            return self.begin_pull(now, peer, id);
        };
        if pull.loaded.is_some() {
            return;
        }
        if pull.id == id {
            if pull.silent > 0 {
                pull.peer = peer;
                pull.source = Some(peer);
                self.ask_piece(now);
            }
            return;
        }
        pull.denied.insert(peer);
        pull.source = pull.source.filter(|source| *source != peer);
        let is_hopeless = pull.denied.len() >= peers || pull.silent >= HOPELESS * peers;
        if is_hopeless || pull.silent >= peers && id.slot > pull.id.slot {
            // Nobody has the other one any more. One that is older is taken only when that is certain,
            // for it may be all that damage has left.
            self.abandon_pull();
            self.begin_pull(now, peer, id);
        } else if pull.peer == peer {
            self.ask_elsewhere(now);
        }
    }

    fn begin_pull(&mut self, now: Now, peer: ReplicaId, id: SnapshotId) {
        self.abandon_cut();
        let slot = id.slot;
        if self.context.storage.log.is_some() {
            self.snapshots.writes.push(SnapshotWrite::Begin { slot });
        }
        let header = Header::new(self.snapshots.cluster, self.context.seat.group, slot);
        let (app, sessions_max) = (self.context.app().empty(), self.context.limits.sessions_max);
        let first = self.snapshots.first.clone();
        self.snapshots.pull = Some(Pull {
            id,
            peer,
            source: Some(peer),
            offset: 0,
            loading: Some(Loading::new(header, first, app, sessions_max)),
            loaded: None,
            asked_ns: 0,
            is_asking: false,
            silent: 0,
            denied: BTreeSet::new(),
        });
        let snapshot = id;
        self.context
            .effects
            .events
            .push(HostEvent::SnapshotWanted { peer, snapshot });
        self.ask_piece(now);
    }

    /// The pull's timer: time for the next chunk, or the last question was lost.
    pub(crate) fn pull_further(&mut self, now: Now) {
        if self.pull_is_late(now) {
            return;
        }
        match &self.snapshots.pull {
            Some(pull) if pull.is_asking => self.ask_elsewhere(now),
            Some(pull) if pull.loaded.is_none() => self.ask_piece(now),
            _ => {}
        }
    }

    /// The peer that was asked has nothing to say: asks its source again, or the next one. After as many
    /// questions as there are peers, asks for the slots again, too: somebody may offer a newer snapshot.
    /// Whoever was heard of is asked, for the one that has it need not be a member of the epoch that this
    /// replica is still in.
    fn ask_elsewhere(&mut self, now: Now) {
        let Some(pull) = &mut self.snapshots.pull else {
            return;
        };
        pull.silent += 1;
        let count = self.catch_up.count();
        let next = match pull.source {
            Some(_) if pull.silent.is_multiple_of(OTHERS_EVERY) => {
                let turn = pull.silent / OTHERS_EVERY - 1;
                self.catch_up.ids().nth(turn % count.max(1))
            }
            Some(source) => Some(source),
            None => self.catch_up.next_peer(Some(pull.peer)),
        };
        pull.peer = next.unwrap_or(pull.peer);
        let (peer, is_round) = (pull.peer, pull.silent >= count);
        if is_round {
            let from = self.context.applied();
            self.context.post(Peers::One(peer), &Body::Fetch { from });
        }
        self.ask_piece(now);
    }

    fn ask_piece(&mut self, now: Now) {
        let wait = self.snapshots.is_full();
        let timeout_ns = self.context.limits.catch_up_timeout_ns;
        let Some(pull) = &mut self.snapshots.pull else {
            return;
        };
        pull.is_asking = !wait;
        pull.asked_ns = now.mono_ns;
        if wait {
            return self
                .context
                .timers
                .arm(Timer::Pull, now.mono_ns + DISK_WAIT_NS);
        }
        let (peer, id, offset) = (pull.peer, pull.id, pull.offset);
        let (slot, digest) = (id.slot, id.digest);
        self.context
            .timers
            .arm(Timer::Pull, now.mono_ns + timeout_ns);
        let want = Body::WantPiece {
            slot,
            digest,
            offset,
        };
        self.context.post(Peers::One(peer), &want);
    }

    /// A chunk came. Says whether the snapshot is whole and as durable as it will ever be: it is to be installed.
    pub(crate) fn piece_came(
        &mut self,
        now: Now,
        peer: ReplicaId,
        slot: Slot,
        offset: u64,
        bytes: Bytes,
    ) -> bool {
        if self.pull_is_late(now) {
            return false;
        }
        let Some(pull) = &mut self.snapshots.pull else {
            return false;
        };
        let left = pull.id.bytes - pull.offset;
        let is_next = (slot, offset) == (pull.id.slot, pull.offset) && !bytes.is_empty();
        let Some(loading) = pull.loading.as_mut().filter(|_| is_next) else {
            return false;
        };
        let fed = if bytes.len() as u64 > left {
            Err("it is longer than it should be".into())
        } else {
            loading.feed(&bytes)
        };
        if let Err(why) = fed {
            self.pull_failed(now, format!("from replica {peer}: {why}"));
            return false;
        }
        let length = bytes.len() as u64;
        pull.offset += length;
        pull.silent = 0;
        pull.source = Some(peer);
        // It offered another one, and has this one too.
        pull.denied.remove(&peer);
        pull.is_asking = false;
        let due_ns =
            pull.asked_ns + length * 1_000_000_000 / self.context.limits.snapshot_rate.max(1);
        let is_whole = pull.offset == pull.id.bytes;
        if self.context.storage.log.is_some() {
            self.snapshots.write(offset, bytes);
        }
        if is_whole {
            return self.pulled(now);
        }
        if due_ns <= now.mono_ns {
            self.ask_piece(now);
        } else {
            self.context.timers.arm(Timer::Pull, due_ns);
        }
        false
    }

    /// Every byte came. Says whether the snapshot is to be installed now.
    fn pulled(&mut self, now: Now) -> bool {
        self.context.timers.disarm(Timer::Pull);
        let Some(pull) = &mut self.snapshots.pull else {
            return false;
        };
        let SnapshotId {
            slot,
            bytes,
            digest,
        } = pull.id;
        let failed = match pull.loading.take().map(Loading::finish) {
            Some(Ok(loaded)) if loaded.digest == digest => {
                pull.loaded = Some(loaded);
                None
            }
            Some(Ok(_)) => Some("its digest is another".into()),
            Some(Err(why)) => Some(why),
            None => return false,
        };
        if let Some(why) = failed {
            self.pull_failed(now, why);
            return false;
        }
        let has_log = self.context.storage.log.is_some();
        if has_log {
            // A replica that could lose it again would have a gap in its log.
            self.snapshots
                .writes
                .push(SnapshotWrite::End { slot, bytes });
        }
        !has_log
    }

    /// Whether this replica has got there by other means; then the pull ends.
    fn pull_is_late(&mut self, now: Now) -> bool {
        let next = self.context.applied();
        let is_late = |pull: &Pull<M, A>| pull.loaded.is_none() && pull.id.slot <= next;
        let late = self.snapshots.pull.as_ref().is_some_and(is_late);
        if late {
            self.abandon_pull();
            self.catch_up
                .with(self.context, self.snapshots.is_pulling())
                .watch_lag(now);
        }
        late
    }

    fn pull_failed(&mut self, now: Now, why: String) {
        let Some(pull) = &self.snapshots.pull else {
            return;
        };
        let slot = pull.id.slot;
        // Its copy may be damaged: the others are asked first.
        self.catch_up.avoid(pull.peer);
        self.abandon_pull();
        self.snapshot_failed(slot, why);
        self.pause_pulls(now);
    }

    /// Storing it failed; the driver has dropped the file.
    pub(super) fn give_up_pull(&mut self, now: Now) {
        self.snapshots.pull = None;
        self.context.timers.disarm(Timer::Pull);
        self.pause_pulls(now);
    }

    fn pause_pulls(&mut self, now: Now) {
        self.snapshots.pull_after_ns = now.mono_ns + PAUSE_NS;
        self.catch_up
            .with(self.context, self.snapshots.is_pulling())
            .watch_lag(now);
    }

    fn abandon_pull(&mut self) {
        self.context.timers.disarm(Timer::Pull);
        if let Some(pull) = self.snapshots.pull.take()
            && self.context.storage.log.is_some()
        {
            let slot = pull.id.slot;
            self.snapshots.writes.push(SnapshotWrite::Abandon { slot });
        }
    }

    pub(super) fn snapshot_failed(&mut self, slot: Slot, why: String) {
        self.context
            .effects
            .events
            .push(HostEvent::SnapshotFailed { slot, why });
    }
}
