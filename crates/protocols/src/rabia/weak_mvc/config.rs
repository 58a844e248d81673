//! Parameters and the quorum arithmetic.

use super::trail::Mode;
use crate::shared::admission::QueueLimits;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use quorate_core::{
    Boot, ENTRY_BYTES_MAX, MICROS, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat, Slot, majority,
};

pub(super) const WINDOW_MAX: usize = 256;

/// How many of something it takes. Every number is the smallest that is safe: with any of them
/// lowered by one there is a schedule in which two replicas decide differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members of the epoch.
    pub n: usize,
    /// Replicas that may fail at once.
    pub f: usize,
    /// `n - f`: values a replica waits for before a step that learns nothing decisive from them.
    pub wait: usize,
    /// `T = floor(n/2) + 1`: proposals that give a request the slot. Two requests cannot both
    /// have them.
    pub proposal: usize,
    /// `M = floor(n/2) + 1`: equal States that make a vote. Votes 0 and 1 of one phase exclude
    /// each other.
    pub state_majority: usize,
    /// `D = f + 1`: equal votes that decide. Any `n - f` votes of that phase include one of them,
    /// so everybody enters the next phase with that value.
    pub decide: usize,
    /// `F1 = M + f`: equal proposals that decide at once. Any `n - f` proposals include `T` of
    /// them, so everybody votes 1.
    pub fast_1: usize,
    /// `n - T + 1`: proposals other than any given request that decide NULL at once, since that
    /// request can no longer have `T`. This many must speak against every request.
    pub fast_0: usize,
    /// `FS = M + f`: equal States of one phase that decide. Any `n - f` States include `M` of
    /// them, so everybody votes that value.
    pub fast_state: usize,
    /// `R = n - T + 1`: marks that tell a read where it may be answered. Any `R` members include
    /// one of the `T` that proposed a decided request.
    pub read: usize,
    /// `T`: others that tell a replica which lost its promises how far it may have gone. Any `T`
    /// others include one of the `n - T` that had, with it, begun the last slot it delivered.
    pub rejoin: usize,
}

impl Thresholds {
    /// The numbers for `n` members of which `f` may fail; `n >= 2f + 1`.
    #[must_use]
    pub fn new(n: usize, f: usize) -> Thresholds {
        assert!(n > 2 * f, "n = {n} members cannot survive f = {f} failures");
        let m = majority(n);
        Thresholds {
            n,
            f,
            wait: n - f,
            proposal: m,
            state_majority: m,
            decide: f + 1,
            fast_1: m + f,
            fast_0: n - m + 1,
            fast_state: m + f,
            read: n - m + 1,
            rejoin: m,
        }
    }

    /// The numbers when so many proposals, a majority or more, give a request the slot.
    #[must_use]
    pub(crate) fn with_proposal(self, enough: usize) -> Thresholds {
        let Thresholds { n, f, .. } = self;
        assert!(
            enough >= majority(n) && enough <= n - f,
            "T = {enough}: two requests may have it, or f failures stop everything"
        );
        Thresholds {
            proposal: enough,
            fast_1: enough + f,
            fast_0: n - enough + 1,
            read: n - enough + 1,
            rejoin: enough,
            ..self
        }
    }

    /// Whether the one-delay path survives `f` crashes: then waiting for it costs nothing.
    #[must_use]
    pub fn is_fast_1_always_reachable(&self) -> bool {
        self.fast_1 <= self.wait
    }
}

/// A rule of the machine that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// What the log made void takes effect where it is decided later.
    IgnoreVoids,
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them.
    pub me: MemberIndex,
    /// This start of the process.
    pub boot: Boot,
    /// Number of the epoch, for the coin.
    pub epoch: u64,
    /// Seed of the coin.
    pub seed: u64,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// The quorum arithmetic.
    pub thresholds: Thresholds,
    /// The first step of the binary stage (`mode`).
    pub mode: Mode,
    /// Decide on proposals or States alone when enough of them agree (`fast_rules`).
    pub fast_rules: bool,
    /// An entry with payloads is proposed only by who was given it from outside, and not by who merely
    /// knows it (`held.rs`).
    pub(crate) holders_propose: bool,
    /// The fault of a mutant.
    pub(crate) faults: Faults<Fault>,
    /// Propose what a peer proposed in the same slot (`echo`).
    pub echo: bool,
    /// Answer reads from the members' marks instead of through the log (`reads`).
    pub quorum_reads: bool,
    /// Slot `s` is for requests of the members `i` with `i mod lanes = s mod lanes` (`lanes`).
    pub lanes: usize,
    /// Slots worked on at once (`window`).
    pub window: usize,
    /// Slots whose messages are kept, from the first one not delivered.
    pub recv_window: usize,
    /// Own batches offered and not yet delivered, at most (`outstanding`).
    pub outstanding: usize,
    /// What may wait for a batch.
    pub queue: QueueLimits,
    /// Commands in a batch, at most (`batch_commands`).
    pub batch_commands_max: usize,
    /// Bytes in a batch, at most unless one command is larger (`batch_bytes`).
    pub batch_bytes_max: usize,
    /// Undecided batches held of one origin, at most (`pool`); beyond, only those a slot needs.
    pub pool_entries_max: usize,
    /// Bytes of undecided batches held of one origin, at most; beyond, only those a slot needs.
    pub pool_bytes_max: usize,
    /// How long a first vote waits for the proposals that would make it unnecessary
    /// (`vote_hold_us`).
    pub vote_hold_ns: u64,
    /// How long a step that would learn nothing decisive from a full sample waits for members that
    /// may still speak (`grace_us`).
    pub grace_ns: u64,
    /// How old a batch must be before a slot is started for it, so that it has had the time to
    /// reach everybody (`freeze_us`).
    pub freeze_ns: u64,
    /// How long a proposal waits for a batch that peers proposed (ten round trips' worth of
    /// patience is too much, one is too little: four).
    pub adopt_wait_ns: u64,
    /// How long NULL waits for the owner of a lane that said it has more: two delays.
    pub more_hold_ns: u64,
    /// How long a batch may come from its origin before it is asked for: a round trip.
    pub need_delay_ns: u64,
    /// How long a peer must have been far ahead before the host is asked to catch up.
    pub learn_delay_ns: u64,
    /// First retransmission; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between retransmissions.
    pub rtx_max_ns: u64,
    /// Stamps further ahead of the own clock do not pull it (`hlc_max_skew_ms`).
    pub hlc_skew_max_ns: u64,
}

/// What every protocol with this machine lets its operators set.
pub(crate) const PARAMS: [&str; 11] = [
    "f",
    "mode",
    "fast_rules",
    "echo",
    "reads",
    "lanes",
    "pool",
    "vote_hold_us",
    "grace_us",
    "freeze_us",
    "hlc_max_skew_ms",
];

impl Config {
    /// The configuration of one seat, of which `f` may fail, and with so many lanes if the parameters do
    /// not say otherwise.
    pub(crate) fn new(
        seat: &Seat,
        params: &Params<'_>,
        f: usize,
        lanes: usize,
    ) -> Result<Config, String> {
        let epoch = &seat.epoch;
        params.check_names()?;
        let n = params.members()?;
        let me = epoch.index_of(seat.me).map(MemberIndex::new);
        let lanes = params.number("lanes", lanes, 1..=n)?;
        let window = params.number("window", lanes.max(2), lanes..=WINDOW_MAX)?;
        let rtt_ns = params.number("rtt_us", 400, 1..=10_000_000)? as u64 * MICROS;
        let hold_us = params.number("vote_hold_us", 1000, 0..=10_000_000)?;
        let grace_us = params.number("grace_us", 0, 0..=10_000_000)?;
        let freeze_us = params.number("freeze_us", 0, 0..=10_000_000)?;
        let skew_ms = params.number("hlc_max_skew_ms", 500, 0..=86_400_000)?;
        Ok(Config {
            members: epoch.member_ids().collect(),
            me: me.ok_or_else(|| format!("replica {} is not a member", seat.me))?,
            boot: seat.boot,
            epoch: epoch.number,
            seed: epoch.seed,
            first_slot: epoch.first_slot,
            thresholds: Thresholds::new(n, f),
            mode: mode(params)?,
            fast_rules: params.switch("fast_rules", true)?,
            holders_propose: false,
            faults: Faults::default(),
            echo: params.switch("echo", true)?,
            quorum_reads: quorum_reads(params)?,
            lanes,
            window,
            recv_window: 3 * window,
            outstanding: params.number("outstanding", 2, 1..=1024)?,
            queue: QueueLimits::of(params)?,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            pool_entries_max: params.number("pool", 1024, 1..=1 << 20)?,
            pool_bytes_max: 256 << 20,
            vote_hold_ns: hold_us as u64 * MICROS,
            grace_ns: grace_us as u64 * MICROS,
            freeze_ns: freeze_us as u64 * MICROS,
            adopt_wait_ns: 4 * rtt_ns,
            more_hold_ns: rtt_ns,
            need_delay_ns: rtt_ns,
            learn_delay_ns: rtt_ns,
            rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
            rtx_max_ns: (200 * MILLIS).max(4 * rtt_ns),
            hlc_skew_max_ns: skew_ms as u64 * MILLIS,
        })
    }

    /// Whether a slot is for requests of a member.
    pub(super) fn is_for(&self, slot: Slot, member: MemberIndex) -> bool {
        self.lanes == 1 || self.lane(slot) == member.position() % self.lanes
    }

    /// The lane of a slot.
    pub(super) fn lane(&self, slot: Slot) -> usize {
        (slot.0 % self.lanes as u64) as usize
    }

    /// All members of the epoch.
    pub(crate) fn everybody(&self) -> MemberSet {
        MemberSet::first(self.members.len())
    }

    /// All members but this replica.
    pub(crate) fn others(&self) -> MemberSet {
        self.everybody() - MemberSet::only(self.me)
    }

    /// The position of a member.
    pub(crate) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        let position = self.members.iter().position(|member| *member == id);
        position.map(MemberIndex::new)
    }

    /// This replica's number.
    #[must_use]
    pub fn my_id(&self) -> ReplicaId {
        self.members[self.me]
    }
}

fn mode(params: &Params) -> Result<Mode, String> {
    match params.text("mode") {
        None | Some("two_step") => Ok(Mode::TwoStep),
        Some("three_step") => Ok(Mode::ThreeStep),
        Some(other) => Err(format!("mode = {other}: must be two_step or three_step")),
    }
}

fn quorum_reads(params: &Params) -> Result<bool, String> {
    match params.text("reads") {
        None | Some("quorum") => Ok(true),
        Some("log") => Ok(false),
        Some(other) => Err(format!("reads = {other}: must be quorum or log")),
    }
}

#[cfg(test)]
mod tests {
    use super::Thresholds;

    /// One row of the table: n, f, n-f, M, D, F1, fast-0, FS.
    #[test]
    fn the_thresholds_are_those_of_the_table() {
        let table = [
            (3, 1, 2, 2, 2, 3, 2, 3),
            (4, 1, 3, 3, 2, 4, 2, 4),
            (5, 1, 4, 3, 2, 4, 3, 4),
            (5, 2, 3, 3, 3, 5, 3, 5),
            (7, 1, 6, 4, 2, 5, 4, 5),
            (7, 2, 5, 4, 3, 6, 4, 6),
            (7, 3, 4, 4, 4, 7, 4, 7),
        ];
        for (n, f, wait, m, decide, fast_1, fast_0, fast_state) in table {
            let t = Thresholds::new(n, f);
            assert_eq!((t.wait, t.proposal, t.state_majority), (wait, m, m));
            assert_eq!(
                (t.decide, t.fast_1, t.fast_0, t.fast_state),
                (decide, fast_1, fast_0, fast_state)
            );
        }
    }

    #[test]
    fn every_intersection_the_proofs_use_is_not_empty_for_any_size() {
        for n in 1..=64 {
            for f in 0..=(n - 1) / 2 {
                let t = Thresholds::new(n, f);
                assert!(
                    t.proposal <= t.wait,
                    "a decisive value needs no more than n-f"
                );
                assert!(2 * t.proposal > n && t.proposal + t.state_majority > n);
                assert!(t.decide + t.wait > n);
                assert!(t.fast_state + t.wait >= n + t.state_majority);
                for t in (t.proposal..=t.wait).map(|enough| t.with_proposal(enough)) {
                    assert!(t.proposal + t.state_majority > n && t.fast_1 <= n);
                    assert!(t.fast_1 + t.wait >= n + t.proposal);
                    assert!(t.fast_0 + t.proposal > n && t.fast_0 <= t.wait);
                    assert!(t.read + t.proposal > n && t.read <= t.wait);
                    // Others that had begun the last slot decided, and others that are asked.
                    assert!(n - t.proposal + t.rejoin > n - 1 && (f == 0 || t.rejoin < n));
                }
            }
        }
    }
}
