//! Rabia: leaderless state machine replication with randomised consensus (Pan et al., SOSP'21).
//!
//! Its machine is in [`crate::weak_mvc`], for Racos orders its candidates with the same one; here is
//! what makes it Rabia: parameters, the paper's figures, and what breaks it. `README.md` beside this file
//! says which function embodies which line, where we depart from the paper, and why that is safe too.

mod config;
mod mutants;
mod paper;
#[cfg(test)]
mod tests;

pub use crate::done::Done;
pub use crate::weak_mvc::{
    Bits, Config, Message, Mode, Nulls, Record, Replica, SlotMessage, Step, TRAIL_VALUES_MAX,
    Thresholds, Timer, Trail, Value,
};

use crate::paper::Paper;
use crate::registry::{Layers, Mutant, Protocol};
use crate::weak_mvc;
use quorate_core::{Epoch, Seat};

/// The protocol, as registered.
pub struct Rabia;

impl Protocol for Rabia {
    const NAME: &'static str = "rabia";
    type Machine = Replica;

    fn config(seat: &Seat) -> Result<Config, String> {
        config::of(seat)
    }

    fn failures_survived(epoch: &Epoch) -> usize {
        config::failures_survived(epoch).unwrap_or(epoch.n().saturating_sub(1) / 2)
    }

    fn branches() -> &'static [&'static str] {
        weak_mvc::BRANCHES
    }

    fn layers() -> Option<Layers<Replica>> {
        Some(Layers {
            gist: weak_mvc::gist,
            value: weak_mvc::value_at,
        })
    }

    fn mutants() -> Vec<Mutant<Replica>> {
        mutants::all()
    }

    fn paper() -> Option<&'static Paper> {
        Some(&paper::PAPER)
    }

    fn message(message: &Message) -> String {
        weak_mvc::words::message(message)
    }

    fn record(record: &Record) -> String {
        weak_mvc::words::record(record)
    }

    fn state(machine: &Replica) -> Vec<String> {
        weak_mvc::words::state(machine)
    }
}
