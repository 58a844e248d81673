//! Raft: the no-op of a leader and a write, and leaders that replace each other. What is left out: the questions
//! of replicas that wait, and what tells of later terms, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, write};

/// What they have in common.
const ONE_WRITE: Scope = Scope {
    protocol: "raft",
    params: &[("window", "1")],
    requests: &[write(0)],
    slots: 2,
    depth: 1,
    timers: &["Election"],
    fires: 1,
    lost: &["Ask", "Led", "Newer"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-leader",
        what: "a write, leaders of one term",
        quick: true,
        states: &[5_643],
        ..ONE_WRITE
    },
    Scope {
        name: "n3-crash",
        what: "a write, leaders of one term, a crash anywhere",
        quick: true,
        crashes: 1,
        states: &[389_018],
        ..ONE_WRITE
    },
    Scope {
        name: "n3-no-ops",
        what: "leaders of two terms and their no-ops",
        quick: true,
        slots: 1,
        depth: 2,
        states: &[162],
        ..ONE_WRITE
    },
    Scope {
        name: "n3-no-ops-crash",
        what: "the same, and a crash anywhere",
        quick: true,
        slots: 1,
        depth: 2,
        crashes: 1,
        states: &[221_051],
        ..ONE_WRITE
    },
];
