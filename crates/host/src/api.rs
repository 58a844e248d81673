//! What goes into a host and what comes out of it.

use bytes::Bytes;
use quorate_core::{
    Catalogue, ClusterId, Command, EntryId, Epoch, Event, Incarnation, Member, Payload, PayloadId,
    Peers, Principal, Refusal, ReplicaId, RequestId, Seat, Slot,
};

use crate::divergence::Comparison;
use crate::epochs::Order;
use crate::flaw::Flaw;
use crate::position::Position;
use crate::version::{SupportedVersions, WireVersion};

/// What the driver knows of a replica's past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The replica has never spoken: an empty log begins, and what the log source holds is
    /// ignored. The driver records that the replica has started after the first flush and before
    /// it sends any frame; from then on it says `Resume`.
    FirstBoot,
    /// The replica may have spoken before: its log is replayed; without one
    /// ([`quorate_core::Durability::Memory`]) its promises are lost.
    Resume,
    /// The replica may have spoken before, and its log is gone: an empty log begins, and what the
    /// log source holds is ignored. The driver says `Resume` after the first flush, as after
    /// `FirstBoot`, and this again if it restarts before.
    Lost,
}

/// Names a request to the driver; the host only hands it back.
pub type Token = u64;

/// What a host is started with.
#[derive(Clone, Debug)]
pub struct HostConfig<C> {
    /// The cluster every file and frame belongs to.
    pub cluster: ClusterId,
    /// The life of this replica's promises.
    pub incarnation: Incarnation,
    /// The life under which epochs list it, if they do: an earlier one where it lost its promises and
    /// makes up for that within the epoch.
    pub listed_as: Incarnation,
    /// The epoch that the group began with.
    pub genesis: Epoch,
    /// The protocols that an epoch may name.
    pub catalogue: &'static dyn Catalogue,
    /// This replica's place in the newest epoch that the driver knows.
    pub seat: Seat,
    /// The protocol's configuration for that seat.
    pub machine: C,
    /// The versions it speaks with its peers.
    pub supported: SupportedVersions,
    /// Sizes of everything.
    pub limits: Limits,
    /// Seed of the jitter drawn for timers; from the driver.
    pub jitter_seed: u64,
}

/// Every size a host keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body of one command, in bytes.
    pub command_bytes_max: usize,
    /// Requests that may wait for an answer at once.
    pub requests_max: usize,
    /// Bytes of the bodies of commands that may wait for an answer at once.
    pub request_bytes_max: usize,
    /// Size of a log segment, in bytes; a larger record gets a segment of its own size.
    pub segment_bytes: u32,
    /// Size of a segment of the fragment store, in bytes; a larger record gets a segment of its own size.
    pub fragment_segment_bytes: u32,
    /// Bytes of recently decided entries kept in memory for peers that lag.
    pub recent_bytes_max: usize,
    /// Bytes of entries in one answer to a peer that catches up (at least one entry is sent).
    pub catch_up_bytes_max: usize,
    /// How long a request for decided slots may take before another peer is asked, in ns.
    pub catch_up_timeout_ns: u64,
    /// How long to lag behind a peer without progress before decided slots are fetched, in ns.
    pub lag_delay_ns: u64,
    /// A checkpoint of the digest of what was applied every so many slots.
    pub checkpoint_slots: u64,
    /// Whether requests are reported at each station, to be followed one by one.
    pub follow: bool,
    /// Whether the machine's lemmas are asserted after every step.
    pub check_steps: bool,
    /// Sessions kept; opening more ends the one used least recently.
    pub sessions_max: usize,
    /// A snapshot is taken every so many slots, and less often where it is long, as by length; 0 for none by number.
    /// (A replica without a log takes them only when a peer needs one.)
    pub snapshot_slots: u64,
    /// A snapshot is taken when so many bytes of entries were applied since the last, and four times as many as that
    /// one is long, or 1 GiB if that is less, or at least as many; 0 for none by length.
    pub snapshot_bytes: u64,
    /// About how long a piece of a snapshot is, in bytes. Equal on all replicas, or their
    /// snapshots differ.
    pub snapshot_piece_bytes: usize,
    /// Bytes of a snapshot asked of a peer at a time.
    pub snapshot_chunk_bytes: u32,
    /// Bytes of a snapshot asked of peers in a second.
    pub snapshot_rate: u64,
    /// Bytes of payloads, whole, of which the own fragments are rebuilt or coded anew in a second.
    pub recode_rate: u64,
    /// Bytes of whole payloads kept in memory, beside those of entries under way.
    pub payload_cache_bytes_max: usize,
    /// Payloads of an entry, or fragments of them, are long from so many bytes on: others make the
    /// fragments, and they go to the disk behind everything else.
    pub long_bytes_min: usize,
    /// Long fragments go to the disk in steps of about so many bytes.
    pub long_step_bytes: usize,
    /// What to do wrong on purpose: for tests of the tests, and `None` everywhere else.
    pub flaw: Option<Flaw>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            command_bytes_max: 8 << 20,
            requests_max: 32 << 10,
            request_bytes_max: 256 << 20,
            segment_bytes: 16 << 20,
            fragment_segment_bytes: 64 << 20,
            recent_bytes_max: 16 << 20,
            catch_up_bytes_max: 1 << 20,
            catch_up_timeout_ns: 100_000_000,
            lag_delay_ns: 5_000_000,
            checkpoint_slots: 1024,
            follow: false,
            check_steps: false,
            sessions_max: 100_000,
            snapshot_slots: 100_000,
            snapshot_bytes: 128 << 20,
            snapshot_piece_bytes: 64 << 10,
            snapshot_chunk_bytes: 256 << 10,
            snapshot_rate: 64 << 20,
            recode_rate: u64::MAX,
            payload_cache_bytes_max: 256 << 20,
            long_bytes_min: 1 << 20,
            long_step_bytes: 2 << 20,
            flaw: None,
        }
    }
}

/// What a client asks of this replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<Q> {
    /// Apply a command under the host's own session, opened by the host itself.
    Write {
        /// The application's encoding.
        body: Bytes,
        /// What is kept apart from that.
        payloads: Vec<Payload>,
        /// Who asks.
        principal: Principal,
    },
    /// Read what completed before this request.
    Read(Q),
    /// Read this replica's applied state as it is, maybe stale.
    Peek(Q),
    /// Order a command of a client that has its own session and may have sent it elsewhere too.
    Command(Command),
    /// Get the bytes of a payload that an answer of this replica named. Another replica, or this one
    /// after a restart, may not have applied so much, and take it for dead.
    Payload(PayloadId, Payload),
    /// Have the group decide something about itself; the result is an [`crate::epochs::Effect`].
    Order(Order),
}

/// Something that a driver has a replica do, though no client and no peer asked for it.
#[derive(Clone, Debug)]
pub enum Directive {
    /// Whether the machine gets nothing for now. A driver says so while it reaches too few members: what cannot be
    /// decided would be offered all the same, and be decided long after whoever asked was told otherwise.
    HoldBack(bool),
    /// Order what a countdown has come to (see [`crate::Countdowns`]), if it can be ordered here and does not
    /// wait already. Nobody is told what becomes of it.
    OrderDue(Bytes),
    /// Have the next flush take everything there is: before an orderly end.
    WriteAll,
    /// The log cannot be written, and too much waits for it: from now on read and learn, and promise nothing.
    Stall,
    /// Have a member know that this replica is stalled: its own machine cannot order that the group is told.
    TellStalled,
    /// The log can be written again.
    Resume,
    /// Ask all members for their digests of what is applied here. What that comes to is an event.
    CompareStates,
    /// Ask everybody how far they are: where a leader hears all, others may know little of each other. The
    /// answers are notes, and every frame tells how far its sender is.
    AskAround,
    /// Ask one replica how far it is, which is a sign of life.
    AskProgress(ReplicaId),
    /// Offer to become a member, to one member after the other, once nearly everything is here. The
    /// driver repeats it now and then; whoever is a member, or has left, says nothing.
    Volunteer,
}

/// A snapshot that is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotId {
    /// The slot whose state before it the snapshot holds.
    pub slot: Slot,
    /// The snapshot's length in bytes.
    pub bytes: u64,
    /// A digest of all bytes. Where snapshots of a slot are compared, it is what the application compares in their
    /// place, if there is such a thing (`Application::cut_digest`).
    pub digest: u64,
}

/// Why there are no bytes of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadGone {
    /// The application of this replica has no name for it, any more.
    Dead,
    /// The replicas that can be reached do not have enough of it.
    Scattered {
        /// Fragments found.
        have: u8,
        /// Fragments needed; 0 if nobody had any.
        need: u8,
    },
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer<A> {
    /// Applied at this slot, now or by an earlier submission; the application's result.
    Applied(Slot, Bytes),
    /// The read's answer, and the slots it saw: every one before this.
    Read(Slot, A),
    /// The bytes of a payload.
    Payload(Result<Bytes, PayloadGone>),
    /// Not executed by this submission.
    Refused(Refusal),
}

/// Bytes for one or all peers; the transport adds its own length and checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// For whom.
    pub to: Peers,
    /// In which version; a connection on which an older one was agreed drops it.
    pub version: WireVersion,
    /// Whether it carries bulk: it takes a connection of its own, and may come late.
    pub bulk: bool,
    /// The frame, in pieces to be written one after the other.
    pub chunks: Vec<Bytes>,
}

impl Frame {
    /// Total length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whether it holds nothing (it never does).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Contiguous bytes for one place of one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The segment's number; the driver creates (or recycles) its file when offset is 0.
    pub segment: u64,
    /// Size the segment's file is to have, in bytes.
    pub segment_bytes: u32,
    /// Where in the file.
    pub offset: u32,
    /// The bytes, in pieces to be written one after the other.
    pub chunks: Vec<Bytes>,
}

/// Writes to perform, those of each store in order, and whether to sync the segments they touch
/// afterwards. A write without bytes touches its segment all the same: it still holds unsynced bytes.
/// The two stores may be written and synced in any order, or at once: the flush is done when all is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flush {
    /// What to write to the log.
    pub writes: Vec<Write>,
    /// What to write to the fragment store, whose segments have numbers of their own.
    pub fragments: Vec<Write>,
    /// Whether something waits for these bytes to be on stable storage.
    pub sync: bool,
    /// Hand this back in [`Completed::Flush`](crate::Completed::Flush) once done.
    pub through: Position,
}

/// What a replica's segments belong to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Store {
    /// The log: records in order.
    Log,
    /// The fragment store: fragments of payloads.
    Fragments,
}

/// A read of the log for a peer that catches up, or of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRead {
    /// Hand this back in [`Completed::Read`](crate::Completed::Read).
    pub token: u64,
    /// In whose segments.
    pub store: Store,
    /// Where.
    pub at: Position,
    /// How many bytes.
    pub len: u32,
}

/// The stations of a request inside a replica, each with a latency of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// From the host's queue to the machine.
    Ring,
    /// From the machine to a decision.
    Order,
    /// From a record to stable storage.
    Log,
    /// From submission to answer, as the host sees it.
    Total,
}

/// Something for metrics, logs or the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// From the protocol.
    Machine(Event),
    /// A request or record spent this long at a place, in ns.
    Spent(Place, u64),
    /// A request was given to the protocol ([`Limits::follow`]).
    Ordered {
        /// The driver's name for it.
        token: Token,
        /// Its id in the log.
        id: RequestId,
    },
    /// A request was applied ([`Limits::follow`]).
    Applied {
        /// The driver's name for it.
        token: Token,
        /// Its id in the log.
        id: RequestId,
        /// Where.
        slot: Slot,
        /// In which entry.
        entry: Option<EntryId>,
    },
    /// A frame could not be used and was dropped.
    BadFrame {
        /// From whom.
        peer: quorate_core::ReplicaId,
        /// Why.
        why: String,
    },
    /// Started catching up from a peer.
    CatchUp {
        /// Own first unapplied slot.
        from: Slot,
        /// The peer's.
        peer_applied: Slot,
    },
    /// A snapshot of this replica's state is durable (or complete, without a log).
    SnapshotTaken(SnapshotId),
    /// This replica is so far behind that it fetches a snapshot.
    SnapshotWanted {
        /// The peer that is asked first.
        peer: quorate_core::ReplicaId,
        /// The snapshot that is fetched.
        snapshot: SnapshotId,
    },
    /// A snapshot could not be taken, stored or used. This replica goes on without it.
    SnapshotFailed {
        /// The slot of the snapshot.
        slot: Slot,
        /// What happened.
        why: String,
    },
    /// The state is now a peer's: everything before this slot was skipped. The countdowns that
    /// ran belong to the former state; what comes next of
    /// [`crate::Effects::countdowns`] starts those of
    /// this one.
    Installed {
        /// The first slot not covered.
        slot: Slot,
    },
    /// Bytes of the own log that a peer needs are damaged, or cannot be read. They are fetched from
    /// another peer.
    Damaged {
        /// Where they are.
        at: Position,
        /// The slot whose entry they carry.
        slot: Slot,
        /// What is wrong.
        why: String,
    },
    /// Bytes of a payload's fragment are damaged, or cannot be read. It is rebuilt from others.
    FragmentDamaged {
        /// Of which payload.
        payload: PayloadId,
        /// What is wrong.
        why: String,
    },
    /// A decided slot that damage had taken was fetched from a peer and is in the log again.
    Mended {
        /// Which.
        slot: Slot,
    },
    /// Everything is here again that was decided when this replica ran last: it takes part.
    Repaired {
        /// The first slot not applied.
        next: Slot,
        /// How many slots came from peers.
        slots: u64,
    },
    /// The epoch ended; the machine of the next one is yet to begin.
    Sealed {
        /// The first slot of the next epoch.
        next: Slot,
        /// Its number.
        epoch: u64,
    },
    /// The machine of an epoch was started.
    Began {
        /// The epoch.
        epoch: u64,
    },
    /// A replica that is no member has nearly all of the state, and would like to be one.
    Volunteered {
        /// Which, in which life.
        member: Member,
    },
    /// An epoch that does not list this replica needs it no longer: it may be switched off.
    Left,
    /// The log is an older one than this replica once had: a peer remembers promises that are not in it. The replica
    /// goes on as one that lost its promises.
    RolledBack {
        /// The peer that remembers more.
        peer: quorate_core::ReplicaId,
        /// Where the last promise ended that it remembers.
        remembered: Position,
        /// The end of the own log.
        found: Position,
    },
    /// The states of members were compared, for some differ or the driver asked for it. Said again every few seconds
    /// for as long as they differ.
    Compared(Comparison),
    /// A peer says that it cannot write its log and has no part in decisions. Said again for as long as that lasts.
    Stalled(ReplicaId),
}

/// Totals since the host was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Slots applied.
    pub slots: u64,
    /// Of those, slots without an entry.
    pub noops: u64,
    /// Commands applied, duplicates included.
    pub commands: u64,
    /// Commands whose saved result was returned instead of a second execution.
    pub duplicates: u64,
    /// Flushes that asked for a sync.
    pub syncs: u64,
    /// Bytes handed out to be written to the log.
    pub log_bytes: u64,
    /// Bytes handed out to be written to the fragment store.
    pub fragment_bytes: u64,
    /// Bytes of fragments among them that were moved out of segments that held little else.
    pub fragment_moved_bytes: u64,
    /// Frames handed out, a broadcast counted once.
    pub frames: u64,
    /// Slots learned from peers' logs.
    pub caught_up: u64,
    /// Snapshots taken of the own state.
    pub snapshots: u64,
    /// Snapshots of peers that took the place of the own state.
    pub installed: u64,
    /// Payloads put together from fragments: for readers, for a new leader, or to rebuild the own.
    pub gathered: u64,
    /// Fragments of payloads that were made anew here.
    pub rebuilt: u64,
}
