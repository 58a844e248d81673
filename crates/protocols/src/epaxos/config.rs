//! Parameters, and the quorums in force.

use super::mutants::Fault;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use crate::shared::seating::{Batches, Seating};
use quorate_core::{MICROS, MILLIS, Seat, Touches};

/// Instances under way that a replica keeps, at most (`window`).
const WINDOW_MAX: usize = 1 << 16;

/// How many members it takes (EPaxos\*, where `n >= max(2e + f - 1, 2f + 1)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members that may fail at once: `f`.
    pub failures: usize,
    /// Members that may fail while entries are committed on the fast path: `e`.
    pub fast_failures: usize,
    /// Members that keep an entry with its initial dependencies when it is committed on the fast path: `n - e`. With
    /// `toq_us` the coordinator names them, and they keep it with the same dependencies.
    pub fast: usize,
    /// Members that accept a value when it is committed, or join a ballot before anything is proposed at it:
    /// `n - f`.
    pub slow: usize,
}

impl Thresholds {
    /// The quorums of so many members.
    #[must_use]
    pub fn of(members: usize) -> Self {
        let failures = members.saturating_sub(1) / 2;
        let fast_failures = ((members + 1 - failures) / 2).min(failures);
        Thresholds::tolerating(members, failures, fast_failures)
    }

    /// The quorums of so many members where entries are held until a time (`toq_us`): any two fast quorums and whoever
    /// is heard when an instance is recovered share a member, so `n >= 2e + f + 1`.
    #[must_use]
    pub fn of_held(members: usize) -> Self {
        let failures = members.saturating_sub(1) / 2;
        let fast_failures = members.saturating_sub(failures + 1) / 2;
        Thresholds::tolerating(members, failures, fast_failures)
    }

    fn tolerating(members: usize, failures: usize, fast_failures: usize) -> Self {
        Thresholds {
            failures,
            fast_failures,
            fast: members - fast_failures,
            slow: members - failures,
        }
    }
}

/// How long things take, in ns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// An instance of which nothing was heard for this long to twice as long is recovered (`recover_ms`).
    pub recover_ns: u64,
    /// As long, where the connection to the coordinator is down.
    pub hurried_ns: u64,
    /// Committed entries wait for a root for this long, before a replica proposes a mark (`mark_us`).
    pub mark_ns: u64,
    /// How much longer each further member waits, so that not all propose one.
    pub mark_step_ns: u64,
    /// How long answers may take that the fast path lacks (`fast_wait_us`).
    pub fast_wait_ns: u64,
    /// How long a request waits before it is refused, at least (`patience_ms`).
    pub patience_ns: u64,
    /// How long what is decided elsewhere may take to come by itself.
    pub learn_ns: u64,
    /// First retransmission; doubles up to `rtx_max_ns`.
    pub rtx_min_ns: u64,
    /// Longest time between retransmissions.
    pub rtx_max_ns: u64,
}

/// How long entries are held before a member keeps them (`toq_us`), in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queueing {
    /// What is added to the time that messages are thought to take to a fast quorum.
    pub added_ns: u64,
    /// The time that messages are thought to take to a member that has not answered yet.
    pub one_way_ns: u64,
    /// Nothing is held for longer, whatever clocks show (`far_us`).
    pub far_ns: u64,
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members, and the seat of this replica.
    pub seating: Seating,
    /// The quorums in force.
    pub thresholds: Thresholds,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// What an application's command touches; without it all touch everything.
    pub touches: Option<Touches>,
    /// Timestamp-ordered queueing, if entries are held (`toq_us` above 0).
    pub queueing: Option<Queueing>,
    /// Whether a new entry goes to a fast quorum alone at first (`thrifty`).
    pub is_thrifty: bool,
    /// Instances under way beyond which no more are begun (`window`).
    pub window: usize,
    /// Instances kept: what honest replicas have under way, and as much again.
    pub instances_max: usize,
    /// What waits for an entry, and what is in one.
    pub batches: Batches,
    /// How long things take.
    pub waits: Waits,
}

const KNOWN: [&str; 7] = [
    "recover_ms",
    "mark_us",
    "fast_wait_us",
    "toq_us",
    "far_us",
    "thrifty",
    "patience_ms",
];

impl Config {
    /// The configuration of one seat, where everything conflicts.
    pub(super) fn new(seat: &Seat) -> Result<Config, String> {
        let params = Params::of(&seat.epoch, &KNOWN)?;
        let members = params.members()?;
        let window = params.number("window", 4096, 1..=WINDOW_MAX)?;
        let queueing = queueing(&params)?;
        let thresholds = match queueing {
            Some(_) => Thresholds::of_held(members),
            None => Thresholds::of(members),
        };
        Ok(Config {
            seating: Seating::of(seat)?,
            thresholds,
            faults: Faults::default(),
            touches: None,
            queueing,
            is_thrifty: params.switch("thrifty", false)?,
            window,
            instances_max: 2 * window * (members + 1),
            batches: Batches::of(&params)?,
            waits: waits(&params)?,
        })
    }
}

fn rtt_us(params: &Params<'_>) -> Result<usize, String> {
    params.number("rtt_us", 400, 1..=10_000_000)
}

fn queueing(params: &Params<'_>) -> Result<Option<Queueing>, String> {
    let rtt_us = rtt_us(params)?;
    let toq_us = params.number("toq_us", 0, 0..=10_000_000)?;
    // Clocks may be apart, and messages take longer than usual.
    let far_us = params.number("far_us", 2 * (rtt_us + toq_us), 1..=40_000_000)?;
    Ok((toq_us > 0).then(|| Queueing {
        added_ns: toq_us as u64 * MICROS,
        one_way_ns: rtt_us as u64 * MICROS / 2,
        far_ns: far_us as u64 * MICROS,
    }))
}

fn waits(params: &Params<'_>) -> Result<Waits, String> {
    let micros = |name, default| params.number(name, default, 1..=10_000_000);
    let rtt_us = rtt_us(params)?;
    let rtt_ns = rtt_us as u64 * MICROS;
    let recover_ns = params.number("recover_ms", 300, 1..=600_000)? as u64 * MILLIS;
    Ok(Waits {
        recover_ns,
        hurried_ns: recover_ns.min((20 * MILLIS).max(8 * rtt_ns)),
        mark_ns: micros("mark_us", 5_000)? as u64 * MICROS,
        mark_step_ns: 2 * rtt_ns,
        fast_wait_ns: micros("fast_wait_us", rtt_us)? as u64 * MICROS,
        patience_ns: params.number("patience_ms", 5000, 1..=86_400_000)? as u64 * MILLIS,
        learn_ns: 2 * rtt_ns,
        rtx_min_ns: (4 * rtt_ns).max(2 * MILLIS),
        rtx_max_ns: (recover_ns / 2).max(4 * rtt_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_are_those_of_the_paper() {
        let of = |n| {
            let it = Thresholds::of(n);
            (it.failures, it.fast_failures, it.slow, it.fast)
        };
        let expected = [(0, 0, 1, 1), (1, 1, 2, 2), (2, 2, 3, 3), (3, 2, 4, 5)];
        assert_eq!([1, 3, 5, 7].map(of), expected);
        for n in 1..=64 {
            let (f, e, slow, fast) = of(n);
            assert!(n > 2 * f && n + 1 >= 2 * e + f, "{n} members");
            assert!(slow + slow > n && fast + slow > n && e <= f, "{n} members");
        }
    }
    #[test]
    fn two_fast_quorums_of_held_entries_and_who_is_heard_share_a_member() {
        let fast = |n| Thresholds::of_held(n).fast;
        assert_eq!([1, 3, 5, 7].map(fast), [1, 3, 4, 6]);
        for n in 1..=64 {
            let it = Thresholds::of_held(n);
            assert!(n > 2 * it.fast_failures + it.failures, "{n} members");
            assert!(it.slow == Thresholds::of(n).slow && it.fast >= it.slow);
        }
    }
}
