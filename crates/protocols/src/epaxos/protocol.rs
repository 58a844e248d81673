//! What the rest of the program knows of EPaxos.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Grade, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};
use quorate_core::Touches;

/// EPaxos, as registered.
pub struct EPaxos;

impl Protocol for EPaxos {
    const NAME: &'static str = "epaxos";
    const GRADE: Grade = Grade::Measurement;
    const LEVEL: u32 = 8;
    // What conflicts with a command is known by then; of other commands, some may come before it, too.
    const ANSWERS_NAME_SLOTS: bool = false;

    plain_protocol!();
    described_by!(describe);

    fn commute(config: &mut Config, touches: Touches) {
        config.touches = Some(touches);
    }
}

/// What seeds try: several own entries under way, and marks that come soon or late.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("outstanding", &["1", "8"]),
    ("mark_us", &["500", "50000"]),
    ("recover_ms", &["50"]),
    ("toq_us", &["200", "5000"]),
    ("far_us", &["50", "20000"]),
    ("thrifty", &["true"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "accepted value goes on",
    "decided elsewhere",
    "entry kept late",
    "installed",
    "instance made void",
    "instance recovered",
    "mark proposed",
    "recovery lost",
    "recovery waits",
    "table lacking",
    "too many instances",
    "value validated",
];
