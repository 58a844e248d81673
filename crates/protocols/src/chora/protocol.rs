//! Chora as a [`Protocol`].

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::flags::{Flag, FlagKind};
use crate::registry::{Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// Chora, as it is registered.
pub struct Chora;

impl Protocol for Chora {
    const NAME: &'static str = "chora";

    fn flags() -> &'static [Flag] {
        FLAGS
    }

    plain_protocol!();
    described_by!(describe);
}

/// Who proposes, and how long a round lasts.
const FLAGS: &[Flag] = &[
    Flag {
        name: "proposers",
        env: "QUORATE_PROPOSERS",
        param: "proposers",
        value_name: "N",
        help: "How many replicas propose, or auto: one alone while all clients are at it",
        default: "all",
        kind: FlagKind::Replicas,
    },
    Flag {
        name: "round",
        env: "QUORATE_ROUND",
        param: "round_us",
        value_name: "TIME",
        help: "Length of a round, as in 50us, or auto: as the delays between replicas ask for",
        default: "auto",
        kind: FlagKind::Micros,
    },
];

/// What seeds try: both modes and their mixture, rounds from shorter to much longer than the network asks for,
/// one proposer to all, windows that fill up, and views that are given up soon.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("mode", &["responsive", "pulsing", "random"]),
    ("proposers", &["1", "2", "4", "auto"]),
    ("round_us", &["20", "500", "5000"]),
    ("window", &["1", "4", "64"]),
    ("outstanding", &["1", "32"]),
    ("batch_commands", &["1", "4"]),
    ("stall_ms", &["20", "500"]),
    ("idle_ms", &["0", "1000"]),
    ("rejoin_ms", &["30", "5000"]),
    ("rtt_us", &["50", "20000"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "began a view",
    "candidate behind",
    "committed elsewhere",
    "double commit skipped",
    "installed",
    "joined a view",
    "life outnumbered",
    "one proposer asked for",
    "passed on",
    "proposal too far ahead",
    "proposers asked for",
    "proposers taken back",
    "pulse of a former life",
    "pulses begun",
    "pulses ended",
    "recovered",
    "rejoined",
    "tail cut",
    "too much to propose",
    "view begins too far ahead",
    "view given up",
    "vote of a former life",
];
