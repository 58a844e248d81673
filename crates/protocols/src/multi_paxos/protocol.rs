//! What the rest of the program knows of Multi-Paxos.

use super::{config, mutants};
use crate::registry::{Mutant, Protocol};
use crate::rs_paxos::{BRANCHES, Config, Replica, describe};
use crate::shared::words::described_by;
use quorate_core::{Epoch, Seat};

/// Multi-Paxos, as registered.
pub struct MultiPaxos;

impl Protocol for MultiPaxos {
    const NAME: &'static str = "multi-paxos";
    type Machine = Replica;

    fn config(seat: &Seat) -> Result<Config, String> {
        config::of(seat)
    }

    fn failures_survived(epoch: &Epoch) -> usize {
        config::failures_survived(epoch)
    }

    fn branches() -> &'static [&'static str] {
        BRANCHES
    }

    fn mutants() -> Vec<Mutant<Replica>> {
        mutants::all()
    }

    described_by!(describe);
}
