//! What the rest of the program knows of Racos.

use super::config::{self, Config};
use super::messages;
use super::{Replica, describe, mutants};
use crate::rabia::weak_mvc::BRANCHES as WEAK_MVC;
use crate::registry::{Layers, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};
use quorate_core::Epoch;

/// Racos, as registered.
pub struct Racos;

impl Protocol for Racos {
    const NAME: &'static str = "racos";

    fn failures_survived(epoch: &Epoch) -> usize {
        config::failures_survived(epoch)
    }

    fn layers() -> Option<Layers<Replica>> {
        Some(Layers {
            gist: messages::gist,
            value: messages::value_at,
        })
    }

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: every value coded, both ways to propose, funerals of those that live, few and many values
/// under way, both orders of steps, windows that fill up.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("payload_min", &["1", "64"]),
    ("merged", &["true"]),
    ("adaptive", &["true"]),
    ("origin_gone_ms", &["50", "1000"]),
    ("spreading", &["1", "16"]),
    ("spread_timeout_ms", &["0", "20"]),
    ("mode", &["three_step"]),
    ("vote_hold_us", &["0"]),
    ("outstanding", &["1", "16"]),
    ("rtt_us", &["50", "20000"]),
];

/// The rare branches of the machine: those of Weak-MVC, then its own.
const BRANCHES: &[&str] = &{
    let mut all = [""; WEAK_MVC.len() + OWN_BRANCHES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = match at.checked_sub(WEAK_MVC.len()) {
            None => WEAK_MVC[at],
            Some(own) => OWN_BRANCHES[own],
        };
        at += 1;
    }
    all
};

const OWN_BRANCHES: &[&str] = &[
    "acknowledgement lost with its disk",
    "number of a loss was taken",
    "old roster refused",
    "own value spread again",
    "roster waits",
    "segment asked for again",
    "segment in a later life",
    "segment let go",
    "segment rebuilt",
    "spread quota full",
    "value cut anew",
    "value in fewer segments",
    "value made void",
    "void ordered",
];
