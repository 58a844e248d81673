//! What the rest of the program knows of Rabia.

use super::weak_mvc;
use super::{Config, Replica, config, mutants, paper};
use crate::registry::paper::Paper;
use crate::registry::{Layers, Mutant, Protocol};
use crate::shared::words::described_by;
use quorate_core::{Epoch, Seat};

/// Rabia, as registered.
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

    described_by!(weak_mvc::describe);
}
