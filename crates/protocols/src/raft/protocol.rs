//! What the rest of the program knows of Raft.

use super::config::Config;
use super::{Replica, describe, mutants};
use crate::registry::{Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};

/// Raft, as registered.
pub struct Raft;

impl Protocol for Raft {
    const NAME: &'static str = "raft";
    const LEVEL: u32 = 7;

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: windows that fill up, logs in many messages.
const VARIATIONS: &[(&str, &[&str])] = &[("window", &["1", "32"]), ("append_bytes", &["1"])];

/// The rare branches of the machine.
const BRANCHES: &[&str] = &[
    "candidate behind",
    "decided elsewhere",
    "elected",
    "leader gave up",
    "leader overtaken",
    "life outnumbered",
    "log cut",
    "rejoined",
    "slot ended for a peer",
    "too much pending",
    "vote of a former life",
];
