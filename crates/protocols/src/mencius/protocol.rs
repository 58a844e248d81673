//! What the rest of the program knows of Mencius.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Grade, Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// Mencius, as registered.
pub struct Mencius;

impl Protocol for Mencius {
    const NAME: &'static str = "mencius";
    const GRADE: Grade = Grade::Measurement;
    const LEVEL: u32 = 7;

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: windows that fill up, few no-ops ahead, and slots acknowledged one by one.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("window", &["1", "32"]),
    ("ahead", &["1", "16"]),
    ("ack", &["each"]),
];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "decided elsewhere",
    "decided twice",
    "entry proposed again",
    "installed",
    "lane lost",
    "lane taken over",
    "own lane taken back",
    "own slot lost",
    "skipped slots told to all",
    "told what is decided",
    "too far ahead",
];
