//! What the rest of the program knows of Fast Paxos.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Grade, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// Fast Paxos, as registered.
pub struct FastPaxos;

impl Protocol for FastPaxos {
    const NAME: &'static str = "fast-paxos";
    const GRADE: Grade = Grade::Measurement;
    const LEVEL: u32 = 8;

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: windows that fill up, and entries that collide.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("window", &["1", "4"]),
    ("outstanding", &["8"]),
    ("collide_us", &["50", "20000"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "ballot outdone",
    "candidate behind",
    "collision",
    "decided elsewhere",
    "decided twice",
    "installed",
    "leader deposed",
    "slot proposed again",
    "slots skipped",
    "too far ahead",
    "vote replaced",
    "votes late",
];
