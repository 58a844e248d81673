//! What can happen to a cluster, and what happens in a round.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A replica is killed (SIGKILL) and started again later
    Kill,
    /// All replicas are killed at once
    KillAll,
    /// A replica is stopped (SIGSTOP) and goes on later
    Pause,
    /// A replica is cut off from its peers, in a namespace from its clients too
    Partition,
    /// A replica's words do not reach its peers, or theirs do not reach it
    OneWay,
    /// A replica's connections to its peers are slow and narrow
    SlowLink,
    /// A replica's connections to its peers stall, break off within a frame, and are reset
    BrokenLink,
    /// A replica's clock jumps by up to an hour, and later back
    Clock,
    /// A replica's log takes long to sync
    SlowDisk,
    /// A replica's disk has no room left for a while
    DiskFull,
    /// A replica is killed and finds a disk that cannot be written when it starts again
    ReadOnly,
    /// A replica is killed, and one byte of its log, before the durable mark, is another one
    Corrupt,
    /// A replica is killed and its data folder deleted
    Wipe,
}

impl Fault {
    /// Whether it takes a disk of the replica's own.
    pub(super) fn needs_own_disk(self) -> bool {
        matches!(self, Fault::DiskFull | Fault::ReadOnly)
    }

    /// Whether it takes data that a replica has acknowledged: no more than one replica may lose any
    /// before it has it back.
    fn loses_data(self) -> bool {
        matches!(self, Fault::Corrupt | Fault::Wipe)
    }

    /// Whether it begins with the death of the victim.
    pub(super) fn kills(self) -> bool {
        matches!(
            self,
            Fault::Kill | Fault::KillAll | Fault::ReadOnly | Fault::Corrupt | Fault::Wipe
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        out.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A fault of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Planned {
    pub(super) fault: Fault,
    /// The replica that is hurt, from 0; the first where all are.
    pub(super) victim: usize,
    /// When the fault begins, since the beginning of the load.
    #[serde(skip)]
    pub(super) from: Duration,
    #[serde(skip)]
    pub(super) to: Duration,
    /// The seed of what else is drawn about the fault.
    #[serde(skip)]
    pub(super) seed: u64,
}

impl Planned {
    /// The replicas it hurts.
    pub(super) fn victims(&self, replicas: usize) -> Vec<usize> {
        match self.fault {
            Fault::KillAll => (0..replicas).collect(),
            _ => vec![self.victim],
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::KillAll => write!(out, "{}", self.fault),
            fault => write!(out, "{fault} {}", self.victim + 1),
        }
    }
}

/// Draws the faults of round after round.
#[derive(Debug)]
pub(super) struct Plan {
    allowed: Vec<Fault>,
    /// The faults whose turn has not come: each comes before any comes again.
    deck: Vec<Fault>,
    replicas: usize,
    load: Duration,
    random: fastrand::Rng,
}

impl Plan {
    pub(super) fn new(allowed: Vec<Fault>, replicas: usize, load: Duration, seed: u64) -> Plan {
        Plan {
            allowed,
            deck: Vec::new(),
            replicas,
            load,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// One or two faults, of different replicas.
    pub(super) fn draw(&mut self) -> Vec<Planned> {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.allowed);
            self.random.shuffle(&mut self.deck);
        }
        let first = self.deck.pop().unwrap_or(Fault::Kill);
        let victim = self.random.usize(..self.replicas);
        let mut planned = vec![self.moment(first, victim)];
        let second = self.allowed[self.random.usize(..self.allowed.len())];
        let clashes = first.loses_data() && second.loses_data()
            || [first, second].contains(&Fault::KillAll) && first.kills() && second.kills();
        if self.random.bool() && !clashes {
            let other = (victim + 1 + self.random.usize(..self.replicas - 1)) % self.replicas;
            planned.push(self.moment(second, other));
        }
        planned
    }

    fn moment(&mut self, fault: Fault, victim: usize) -> Planned {
        let mut share = |from: f64, to: f64| from + (to - from) * self.random.f64();
        let (from, to) = (share(0.1, 0.4), share(0.5, 0.8));
        Planned {
            fault,
            victim,
            from: self.load.mul_f64(from),
            to: self.load.mul_f64(to),
            seed: self.random.u64(..),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_before_any_comes_first_again_and_the_same_seed_draws_the_same() {
        let load = Duration::from_secs(6);
        let mut plan = Plan::new(Fault::value_variants().to_vec(), 3, load, 7);
        let mut again = Plan::new(Fault::value_variants().to_vec(), 3, load, 7);
        let rounds: Vec<_> = (0..Fault::value_variants().len())
            .map(|_| plan.draw())
            .collect();
        assert!(rounds.iter().all(|round| *round == again.draw()));
        let mut firsts: Vec<_> = rounds.iter().map(|round| round[0].fault).collect();
        firsts.sort_unstable();
        assert_eq!(firsts, Fault::value_variants());
    }

    #[test]
    fn no_round_takes_data_from_two_replicas() {
        let mut plan = Plan::new(
            Fault::value_variants().to_vec(),
            3,
            Duration::from_secs(6),
            1,
        );
        for _ in 0..500 {
            let round = plan.draw();
            let losses = round.iter().filter(|one| one.fault.loses_data()).count();
            assert!(losses <= 1, "{round:?}");
            if let [one, other] = &round[..] {
                assert_ne!(one.victim, other.victim);
            }
        }
    }
}
