//! What the rest of the program knows of RS-Paxos.

use super::config::{self, Config};
use super::{Replica, describe, mutants};
use crate::registry::{Mutant, Protocol};
use crate::shared::words::described_by;
use quorate_core::{Epoch, Seat};

/// RS-Paxos, as registered.
pub struct RsPaxos;

impl Protocol for RsPaxos {
    const NAME: &'static str = "rs-paxos";
    type Machine = Replica;

    fn config(seat: &Seat) -> Result<Config, String> {
        Config::coded(seat)
    }

    fn failures_survived(epoch: &Epoch) -> usize {
        config::failures_survived(config::coded(epoch))
    }

    fn branches() -> &'static [&'static str] {
        BRANCHES
    }

    fn mutants() -> Vec<Mutant<Replica>> {
        mutants::all()
    }

    described_by!(describe);
}

/// The rare branches of the machine; those about fragments only values with payloads come to.
pub(crate) const BRANCHES: &[&str] = &[
    "candidate behind",
    "chosen by name",
    "decided elsewhere",
    "double decision skipped",
    "elected",
    "fragment missing",
    "fragments lost",
    "fragments out of reach",
    "gap filled",
    "leader gave up",
    "leader overtaken",
    "lease kept",
    "life outnumbered",
    "payloads gathered",
    "promise of a former life",
    "rejoined",
    "slot ended for a peer",
    "smaller code",
    "too much pending",
];
