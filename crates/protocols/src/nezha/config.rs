//! Parameters, and the quorums in force.

use super::digest::Footprint;
use super::prf::Prf;
use crate::shared::params::Params;
use quorate_core::{
    Boot, Class, Command, ENTRY_BYTES_MAX, Epoch, MICROS, MILLIS, ReplicaId, Seat, Slot, Touches,
    majority,
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

/// What keeps agreement besides the numbers. Everything holds; a mutant breaks one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Log modifications are taken in without gaps.
    pub waits_for_gaps: bool,
    /// An entry that is synced is nowhere else any more.
    pub forgets_other_versions: bool,
    /// The log of a view is made once.
    pub starts_once: bool,
    /// The log of a view that a replica is in already changes nothing.
    pub keeps_its_view: bool,
    /// A leader that starts again goes to the next view.
    pub leaves_its_view: bool,
    /// A leader places entries once it is durable that the view has begun.
    pub leads_durably: bool,
    /// What is unsynced stays until the leader's log says otherwise.
    pub keeps_unsynced: bool,
    /// Digests tell lives apart.
    pub counts_lives: bool,
    /// Digests cover deadlines.
    pub hashes_deadlines: bool,
    /// Reads are confirmed by `f` followers.
    pub confirms_reads: bool,
    /// Digests are of lists of sums, not of sums combined.
    pub lists_sums: bool,
    /// What survives has to be above what conflicts with it, not above everything.
    pub filters_by_bucket: bool,
    /// How far a follower is counts in the view in which it said so.
    pub tells_views_apart: bool,
    /// What was answered to a former life counts for nothing.
    pub binds_answers: bool,
    /// Reads are asked again when what they are to see may have changed places.
    pub relocates_reads: bool,
}

const RULES: Rules = Rules {
    waits_for_gaps: true,
    forgets_other_versions: true,
    starts_once: true,
    keeps_its_view: true,
    leaves_its_view: true,
    leads_durably: true,
    keeps_unsynced: true,
    counts_lives: true,
    hashes_deadlines: true,
    confirms_reads: true,
    lists_sums: true,
    filters_by_bucket: true,
    tells_views_apart: true,
    binds_answers: true,
    relocates_reads: true,
};

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members, ascending.
    pub members: Vec<ReplicaId>,
    /// Position of this replica among them; of a remote gateway, one that none of them has.
    pub me: usize,
    /// This start of the process.
    pub boot: Boot,
    /// First slot of the epoch.
    pub first_slot: Slot,
    /// The quorums.
    pub thresholds: Thresholds,
    /// The rules.
    pub rules: Rules,
    /// For digests.
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
    /// Commands waiting for an entry, at most (`queue`).
    pub queue_commands_max: usize,
    /// Bytes waiting for an entry, about at most.
    pub queue_bytes_max: usize,
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
    "window",
    "outstanding",
    "queue",
    "patience_ms",
    "batch_commands",
    "batch_bytes",
    "rtt_us",
    "election_ms",
];

impl Config {
    /// The configuration of one seat.
    pub fn new(seat: &Seat) -> Result<Config, String> {
        let me = seat.epoch.index_of(seat.me);
        let me = me.ok_or_else(|| format!("replica {} is not a member", seat.me))?;
        Config::at(me, seat)
    }

    /// The configuration of a remote gateway, which has no seat of its own.
    pub fn of_gateway(seat: &Seat) -> Result<Config, String> {
        Config::at(seat.epoch.n(), seat)
    }

    fn at(me: usize, seat: &Seat) -> Result<Config, String> {
        let epoch = &seat.epoch;
        let params = Params {
            epoch,
            known: KNOWN,
        };
        params.check_names()?;
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
            members: epoch.members.iter().map(|member| member.id).collect(),
            me,
            boot: seat.boot,
            first_slot: epoch.first_slot,
            thresholds: Thresholds::new(epoch.n()),
            rules: RULES,
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
            queue_commands_max: params.number("queue", 16_384, 1..=1 << 24)?,
            queue_bytes_max: 256 << 20,
            patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
            batch_commands_max: params.number("batch_commands", 1024, 1..=1 << 20)?,
            batch_bytes_max: params.number("batch_bytes", 1 << 20, 1..=ENTRY_BYTES_MAX)?,
            election_ns,
            rtx_min_ns: (4 * rtt_ns).max(3 * owd_max_ns).max(2 * MILLIS),
            rtx_max_ns: (election_ns / 2).max(4 * rtt_ns),
        })
    }

    /// How many members there are.
    pub(super) fn n(&self) -> usize {
        self.members.len()
    }

    /// Position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<usize> {
        self.members.iter().position(|member| *member == id)
    }

    /// Who leads a view.
    pub(super) fn leader_of(&self, view: u64) -> usize {
        (view % self.n() as u64) as usize
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

/// How many replicas may fail while the others still commit and change views.
pub(super) fn failures_survived(epoch: &Epoch) -> usize {
    epoch.n() - majority(epoch.n())
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
