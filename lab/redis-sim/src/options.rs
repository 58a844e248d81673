//! What a run is made of, and what it came to.

use quorate_redis_effects::Mutant;

pub(crate) const MS: u64 = 1_000_000;

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// What chance begins with.
    pub seed: u64,
    /// Replicas of the group.
    pub replicas: usize,
    /// Clients, spread over the replicas.
    pub clients: usize,
    /// How long faults happen, in ms.
    pub duration_ms: u64,
    /// Whether replicas also claim without need, apply nothing for a while, and have clients that only read.
    pub has_races: bool,
    /// A rule that drivers break.
    pub mutant: Option<Mutant>,
}

impl Options {
    /// A run of the usual size.
    #[must_use]
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            replicas: 3,
            clients: 5,
            duration_ms: 12_000,
            has_races: false,
            mutant: None,
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Questions that were answered.
    pub answered: usize,
    /// Questions of unknown outcome.
    pub unknown: usize,
    /// Epochs that began.
    pub epochs: u64,
    /// Bytes of the stream.
    pub len: u64,
    /// Servers that followed again without a reload.
    pub continued: usize,
    /// Servers that were replaced because of a tail.
    pub tails: usize,
    /// RDBs that took the place of others.
    pub saved: usize,
    /// Snapshots that replicas took from each other.
    pub installed: usize,
}

/// Why servers die that nothing is wrong with.
pub(crate) const KILLED: &str = "killed by the simulator";

/// What can go wrong at present.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Results of commands that are lost, of 256.
    pub(crate) lost_of_256: u8,
    /// RDBs that are torn, of 256.
    pub(crate) torn_of_256: u8,
    /// Whether answers to probes are lost.
    pub(crate) are_probes_lost: bool,
    /// Whether nothing goes wrong any more, and clients ask no more.
    pub(crate) is_over: bool,
}

impl Faults {
    pub(crate) fn new(rng: &mut fastrand::Rng) -> Faults {
        Faults {
            lost_of_256: rng.u8(..20),
            torn_of_256: rng.u8(..60),
            are_probes_lost: false,
            is_over: false,
        }
    }
}
