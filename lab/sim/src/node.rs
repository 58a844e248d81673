//! One replica: its host while it lives, and what outlives a crash.

use crate::disk::Disk;
use crate::nemesis::{FolderCopy, OldCopy};
use bytes::Bytes;
use quorate_core::{Application, Incarnation, Machine, Now, ReplicaId, Slot};
use quorate_host::{
    Coding, Completed, Countdowns, Flush, Host, Request, SnapshotWrite, SupportedVersions, Token,
    WireVersion, Write,
};
use std::collections::VecDeque;

/// The synchronised clocks' idea of when a seed begins, ns since the Unix epoch.
const CLOCK_START_NS: i64 = 1_700_000_000_000_000_000;

/// A replica.
pub(crate) struct Node<M: Machine, A: Application> {
    /// `None` while it is down.
    pub(crate) host: Option<Host<M, A>>,
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
    pub(crate) incarnation: Incarnation,
    /// The life that its disk belongs to: a later one than epochs list, after its disk was wiped.
    pub(crate) disk_life: Incarnation,
    /// The versions that its program speaks.
    pub(crate) supported: SupportedVersions,
    /// It has spoken: recorded on stable storage, as the driver's meta file does.
    pub(crate) started: bool,
    /// Its disk is new, although it has spoken.
    pub(crate) wiped: bool,
    /// It restarted, or will, without a log or with one that began in the middle of a recovery:
    /// its promises are lost until it serves again.
    pub(crate) lost: bool,
    /// Its disk was damaged.
    pub(crate) damaged: bool,
    /// It was a member in this life.
    pub(crate) was_member: bool,
    /// The group needs it no longer.
    pub(crate) left: bool,
    /// There is no space on its disk for another segment or snapshot before.
    pub(crate) full_until_ns: u64,
    /// It stays down or cut off until everybody is healed.
    pub(crate) left_out: bool,
    /// A copy of its folder.
    pub(crate) copy: Option<FolderCopy>,
    /// It runs, or will, on an old copy, and has not noticed yet.
    pub(crate) old_copy: Option<OldCopy>,
    /// Counts crashes, so that what belongs to an earlier life is recognised.
    pub(crate) life: u32,
    /// What arrived since the last turn.
    pub(crate) inbox: Vec<Inbound<A::Query>>,
    /// When the next turn is due, if one is.
    pub(crate) turn_at_ns: Option<u64>,
    /// When the next timer is due, if an event for it is queued.
    pub(crate) wake_at_ns: Option<u64>,
    /// It waits for its disk, or is stopped: no turn before.
    pub(crate) busy_until_ns: u64,
    /// The flush its disk is performing.
    pub(crate) in_flight: Option<Flush>,
    /// The step in writing long fragments its disk is performing.
    pub(crate) fragment_step: Option<Write>,
    /// Payloads of which fragments are being made, in order.
    pub(crate) coding: VecDeque<Coding>,
    /// What is still to be done to snapshot files, in order; the first is being done.
    pub(crate) snapshot_writes: VecDeque<SnapshotWrite>,
    /// Power fails while the disk performs the next flush.
    pub(crate) crash_at_flush: bool,
    /// What its application wants to happen after a time.
    pub(crate) countdowns: Countdowns,
    /// The first revision its reader of all changes has not read, since there is one.
    pub(crate) told: Option<i64>,
    /// The first slot not compared with the other replicas yet.
    pub(crate) compared: Slot,
    /// The highest revision a stale read of this life has shown.
    pub(crate) peeked: i64,
    /// How often this life lost its session, and the history's stamp when it did last.
    pub(crate) session_losses: u32,
    pub(crate) session_lost: u64,
}

/// Something a turn takes in.
pub(crate) enum Inbound<Q> {
    Frame {
        from: ReplicaId,
        bytes: Bytes,
    },
    Request {
        token: Token,
        request: Box<Request<Q>>,
    },
    /// A connection came up, in this version, or went down.
    Link {
        peer: ReplicaId,
        version: Option<WireVersion>,
    },
    /// The flush under way is performed.
    Flushed,
    /// Anything else is done that the host wanted done.
    Completed(Completed),
}

impl<M: Machine, A: Application> Node<M, A> {
    /// The application, while nobody can see more in it than is decided, and would be after a power
    /// failure.
    pub(crate) fn decided_app(&self) -> Option<&A> {
        let host = self.host.as_ref();
        let host = host.filter(|host| !host.look().is_ahead() && !host.look().is_silent());
        host.map(|host| host.look().app())
    }

    pub(crate) fn new(disk: Disk, clock: Clock, incarnation: Incarnation) -> Self {
        Node {
            host: None,
            disk,
            clock,
            incarnation,
            disk_life: incarnation,
            copy: None,
            old_copy: None,
            supported: SupportedVersions::SHIPPED,
            started: false,
            wiped: false,
            lost: false,
            damaged: false,
            was_member: true,
            left: false,
            full_until_ns: 0,
            left_out: false,
            life: 0,
            inbox: Vec::new(),
            turn_at_ns: None,
            wake_at_ns: None,
            busy_until_ns: 0,
            in_flight: None,
            fragment_step: None,
            coding: VecDeque::new(),
            snapshot_writes: VecDeque::new(),
            crash_at_flush: false,
            countdowns: Countdowns::default(),
            told: None,
            compared: Slot(0),
            peeked: 0,
            session_losses: 0,
            session_lost: 0,
        }
    }

    /// Ends this life; what only memory held is gone.
    pub(crate) fn fall(&mut self, rng: &mut fastrand::Rng, power: Power) {
        self.host = None;
        let ending = match self.snapshot_writes.front() {
            Some(SnapshotWrite::End { slot, .. }) => Some(*slot),
            _ => None,
        };
        if power == Power::Fails {
            self.disk.crash(rng);
        }
        self.disk.snapshots.crash(rng, ending);
        self.snapshot_writes.clear();
        self.life += 1;
        self.inbox.clear();
        self.turn_at_ns = None;
        self.wake_at_ns = None;
        self.busy_until_ns = 0;
        self.in_flight = None;
        self.fragment_step = None;
        self.coding.clear();
        self.crash_at_flush = false;
        self.countdowns = Countdowns::default();
        self.told = None;
        self.peeked = 0;
        self.session_losses = 0;
        self.session_lost = 0;
    }

    /// The first slot not applied; 0 while down.
    pub(crate) fn applied(&self) -> Slot {
        self.host
            .as_ref()
            .map_or(Slot(0), |host| host.look().applied())
    }
}

/// What a life ends by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    /// What was not synced may be lost.
    Fails,
    /// Only the process ends: what was written stays written, synced or not.
    Stays,
}

/// The clocks of one machine. The monotonic one runs on whatever happens, maybe too fast or too slow.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) offset_ns: i64,
    pub(crate) drift_ppm: i64,
    /// The error bound it claims.
    pub(crate) claimed_error_ns: u64,
    /// Since when it stands still.
    pub(crate) stopped_ns: Option<u64>,
    /// How much too fast the monotonic one runs, parts per million.
    pub(crate) mono_ppm: i64,
}

impl Clock {
    pub(crate) fn now(&self, now_ns: u64) -> Now {
        let since = self.stopped_ns.unwrap_or(now_ns) as i64;
        let clock = CLOCK_START_NS + self.offset_ns + since + since / 1_000_000 * self.drift_ppm;
        Now {
            mono_ns: now_ns.saturating_add_signed(self.gained_ns(now_ns)),
            clock_ns: clock as u64,
            clock_error_ns: self.claimed_error_ns,
        }
    }

    /// When the monotonic clock will have reached this, in true ns: then or a moment later.
    pub(crate) fn time_of(&self, mono_ns: u64) -> u64 {
        let about_ns = mono_ns.saturating_add_signed(-self.gained_ns(mono_ns));
        let short_ns = mono_ns.saturating_sub(self.now(about_ns).mono_ns);
        about_ns + 2 * short_ns
    }

    /// How far the monotonic clock is ahead.
    fn gained_ns(&self, now_ns: u64) -> i64 {
        (i128::from(now_ns) * i128::from(self.mono_ppm) / 1_000_000) as i64
    }

    /// It stands still from now on.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.stopped_ns.get_or_insert(now_ns);
    }

    /// It goes on from where it stood.
    pub(crate) fn start(&mut self, now_ns: u64) {
        if let Some(stopped_ns) = self.stopped_ns.take() {
            self.offset_ns -= (now_ns - stopped_ns) as i64;
        }
    }
}
