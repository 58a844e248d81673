//! What the rest of the program knows of NOPaxos.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Grade, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// NOPaxos, as registered.
pub struct NoPaxos;

impl Protocol for NoPaxos {
    const LEVEL: u32 = 7;
    const GRADE: Grade = Grade::Measurement;
    const NAME: &'static str = "nopaxos";

    described_by!(describe);
    plain_protocol!();
}

/// What seeds try: stamps that may be late, logs compared seldom, and windows that fill up.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("gap_us", &["50", "1000"]),
    ("sync_us", &["50", "5000"]),
    ("window", &["1", "16"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "behind the view",
    "behind those who left",
    "committed before it is delivered",
    "decided elsewhere",
    "decided twice",
    "entry given up",
    "gap",
    "installed",
    "leader overtaken",
    "leader suspected",
    "sequencer suspected",
    "stamp of an old session",
    "too far ahead",
    "view change",
    "view given up",
    "view started",
    "window full",
];
