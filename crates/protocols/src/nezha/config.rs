//! Parameters, and the quorums in force.

use super::digest::Footprint;
use super::mutants::Fault;
use super::prf::Prf;
use crate::shared::admission::QueueLimits;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use quorate_core::{
    Boot, Class, Command, ENTRY_BYTES_MAX, MICROS, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat,
    Slot, Touches, majority,
};

/// How many of something it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// `f + 1`: synced logs, the leader's among them, that commit; promises that start a view.
    pub slow: usize,
    /// `f + ceil(f/2) + 1`: equal digests, the leader's among them, that commit at once.
    pub fast: usize,
    /// `ceil(f/2) + 1`: promises of an unsynced entry, of `f + 1`, with which it survives: any `f + 1`
    /// have so many of those who answered fast, and fewer have what contradicts it.
    pub survive: usize,
    /// `f + 1`: answers that make up for lost promises, all of others.
    pub rejoin: usize,
}

impl Thresholds {
    /// Of so many members, `n = 2f + 1` or one more.
    #[must_use]
    pub fn new(n: usize) -> Thresholds {
        let slow = majority(n);
        // Fast quorums meet any `slow` in more than what is outside of them.
        let fast = (2 * n - slow + 1).div_ceil(2);
        Thresholds {
            slow,
            fast,
            survive: fast + slow - n,
            rejoin: n - slow + 1,
        }
    }
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// The position of this replica among them. A remote gateway, which is no member, does not use it.
    pub me: MemberIndex,
    /// This start of the process.
    pub boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// How many members each decision takes.
    pub thresholds: Thresholds,
    /// The rule that a mutant breaks; none without a mutant.
    pub faults: Faults<Fault>,
    /// The function of digests.
    pub prf: Prf,
    /// Whether what touches nothing in common may go unordered (`commute`).
    pub commutes: bool,
    /// The leader counts for all gateways, which take its word (`count`): what the paper's ablation compares with.
    pub leader_counts: bool,
    /// What an application's command touches; without it all touch everything.
    pub touches: Option<Touches>,
    /// `D`: no one-way delay is taken for longer (`owd_us`).
    pub owd_max_ns: u64,
    /// Nothing is held for longer than this (`far_us`).
    pub far_ns: u64,
    /// How long a follower waits to write where the leader placed what it has promised, for something else
    /// that is to be written (`sync_us`); 0 for not at all.
    pub lazy_ns: u64,
    /// Of what requests are thought to take, how much deadlines allow for, percent; `None`: what answers come
    /// soonest with (`hold`).
    pub hold: Option<u64>,
    /// Deadlines wait for the leader and the nearest of a fast quorum, not for all (`wan`).
    pub wan: bool,
    /// The share of requests that are to come before their deadline, percent (`percentile`).
    pub percentile: usize,
    /// Entries in the log and not committed, at most (`window`).
    pub window: usize,
    /// Own requests under way, at most (`outstanding`, and this member's share of the window).
    pub outstanding: usize,
    /// What may wait for an entry.
    pub queue: QueueLimits,
    /// How long a command waits for an entry before it is refused (`patience_ms`).
    pub patience_ns: u64,
    /// Commands in an entry, at most (`batch_commands`).
    pub batch_commands_max: usize,
    /// Bytes in an entry, at most unless one command is larger (`batch_bytes`).
    pub batch_bytes_max: usize,
    /// A leader not heard for this long to twice as long is given up (`election_ms`).
    pub election_ns: u64,
    /// First repetition; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between repetitions.
    pub rtx_max_ns: u64,
}

const KNOWN: &[&str] = &[
    "owd_us",
    "far_us",
    "hold",
    "sync_us",
    "wan",
    "percentile",
    "commute",
    "count",
    "patience_ms",
    "election_ms",
];

impl Config {
    /// The configuration of one seat.
    pub fn new(seat: &Seat) -> Result<Config, String> {
        let me = seat.epoch.index_of(seat.me);
        let me = me.ok_or_else(|| format!("replica {} is not a member", seat.me))?;
        Config::at(MemberIndex::new(me), seat)
    }

    /// The configuration of a remote gateway, which has no seat of its own.
    pub fn of_gateway(seat: &Seat) -> Result<Config, String> {
        Config::at(MemberIndex::default(), seat)
    }

    fn at(me: MemberIndex, seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params::of(epoch, KNOWN)?;
        let wan = params.switch("wan", false)?;
        let rtt_us = params.number("rtt_us", if wan { 300_000 } else { 400 }, 1..=10_000_000)?;
        let rtt_ns = rtt_us as u64 * MICROS;
        let owd_us = if wan { 3 * rtt_us / 2 } else { 1000 };
        let owd_max_ns = params.number("owd_us", owd_us.max(1), 1..=10_000_000)? as u64 * MICROS;
        // Clocks may be apart, too.
        let far_us = (2 * owd_max_ns / MICROS) as usize;
        // Signs of life take a way, too.
        let election_ms = if wan { 4 * rtt_us / 1000 } else { 0 };
        let window = params.number("window", 4096, 1..=1 << 16)?;
        let outstanding: usize = params.number("outstanding", 64, 1..=4096)?;
        let election_ns =
            params.number("election_ms", election_ms.max(100), 1..=600_000)? as u64 * MILLIS;
        Ok(Config {
            members: epoch.member_ids().collect(),
            me,
            boot: seat.boot,
            first_slot: epoch.first_slot,
            thresholds: Thresholds::new(epoch.n()),
            faults: Faults::default(),
            prf: Prf::new(epoch.seed, u64::from_le_bytes(*b"  nezha ")),
            commutes: params.switch("commute", true)?,
            leader_counts: match params.text("count") {
                None | Some("gateway") => false,
                Some("leader") => true,
                Some(other) => {
                    return Err(format!("count={other}: who counts is gateway or leader"));
                }
            },
            touches: None,
            owd_max_ns,
            far_ns: params.number("far_us", far_us, 1..=20_000_000)? as u64 * MICROS,
            lazy_ns: params.number("sync_us", 0, 0..=10_000_000)? as u64 * MICROS,
            hold: hold(&params)?,
            wan,
            percentile: params.number("percentile", 75, 1..=100)?,
            window,
            // What does not fit into the log waits at its gateway, where more and more share an entry.
            outstanding: outstanding.min((window / epoch.n()).max(1)),
            queue: QueueLimits::of(&params)?,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            election_ns,
            rtx_min_ns: (4 * rtt_ns).max(3 * owd_max_ns).max(2 * MILLIS),
            rtx_max_ns: (election_ns / 2).max(4 * rtt_ns),
        })
    }

    /// The set of all members.
    pub(super) fn all(&self) -> MemberSet {
        MemberSet::first(self.n())
    }

    /// How many members there are.
    pub(super) fn n(&self) -> usize {
        self.members.len()
    }

    /// The position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        let position = self.members.iter().position(|member| *member == id);
        position.map(MemberIndex::new)
    }

    /// Who leads a view.
    pub(super) fn leader_of(&self, view: u64) -> MemberIndex {
        MemberIndex::new((view % self.n() as u64) as usize)
    }

    /// What an entry touches.
    pub(super) fn footprint(&self, commands: &[Command]) -> Footprint {
        let mut all = Vec::new();
        for command in commands {
            // Sessions and orders change what becomes of any command.
            let is_plain = command.class == Class::Write && command.payloads.is_empty();
            let touches = self.touches.filter(|_| is_plain);
            match touches.and_then(|touches| touches(&command.body)) {
                Some(buckets) => all.extend(buckets),
                None => return Footprint::All,
            }
        }
        Footprint::of(all)
    }
}

fn hold(params: &Params<'_>) -> Result<Option<u64>, String> {
    match params.text("hold") {
        None | Some("auto") => Ok(None),
        Some(_) => {
            let percent = params.number("hold", 100, 0..=1000);
            let percent = percent.map_err(|why| format!("{why}, or auto"))?;
            Ok(Some(percent as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers for small groups.
    #[test]
    fn quorums_are_those_of_the_paper() {
        for (n, slow, fast, survive) in [(3, 2, 3, 2), (5, 3, 4, 2), (7, 4, 6, 3), (9, 5, 7, 3)] {
            let got = Thresholds::new(n);
            assert_eq!((got.slow, got.fast, got.survive), (slow, fast, survive));
        }
    }

    #[test]
    fn what_was_committed_fast_survives_and_what_contradicts_it_does_not() {
        for n in 1..=64 {
            let Thresholds {
                slow,
                fast,
                survive,
                rejoin,
            } = Thresholds::new(n);
            assert!(fast >= slow && fast <= n);
            assert!(
                fast + slow >= n + survive,
                "any view change sees enough of a fast quorum"
            );
            assert!(n - fast < survive, "what a fast quorum lacks is too few");
            assert!(
                2 * rejoin > n - 1 && rejoin + slow > n,
                "answers meet earlier lives and views"
            );
        }
    }
}
