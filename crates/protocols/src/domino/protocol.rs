//! What the rest of the program knows of Domino.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Grade, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// Domino, as registered.
pub struct Domino;

impl Protocol for Domino {
    const NAME: &'static str = "domino";
    const GRADE: Grade = Grade::Measurement;
    const LEVEL: u32 = 8;

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: each way, beats that are rare, short reservations, and small windows.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("way", &["dm", "predict"]),
    ("heartbeat_ms", &["10"]),
    ("reserve_ms", &["1"]),
    ("outstanding", &["8"]),
    ("predict", &["all"]),
    ("collide_us", &["50", "20000"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "accept ahead",
    "adopted",
    "ballot outdone",
    "candidate behind",
    "collision",
    "committed at the gateway",
    "decided elsewhere",
    "decided twice",
    "installed",
    "lane taken over",
    "position lost",
    "position proposed again",
    "time of a slot learnt",
    "told too early",
    "votes late",
];
