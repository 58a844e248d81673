//! Nezha, as registered.

use super::config::{self, Config};
use super::messages::{Message, Record};
use super::{Replica, mutants, words};
use crate::registry::{Mutant, Protocol};
use quorate_core::{Epoch, Seat};

/// Nezha, as registered.
pub struct Nezha;

impl Protocol for Nezha {
    const NAME: &'static str = "nezha";
    type Machine = Replica;

    fn config(seat: &Seat) -> Result<Config, String> {
        Config::new(seat)
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

    fn message(message: &Message) -> String {
        words::message(message)
    }

    fn record(record: &Record) -> String {
        words::record(record)
    }

    fn state(machine: &Replica) -> Vec<String> {
        words::state(machine)
    }
}

const BRANCHES: &[&str] = &[
    "behind the view",
    "behind those who left",
    "committed fast",
    "committed slowly",
    "far deadline",
    "late at a follower",
    "late at the leader",
    "leader overtaken",
    "leader suspected",
    "overtaken while unsynced",
    "read confirmed",
    "rejoined",
    "view change",
    "view started",
    "word of a former life",
];
