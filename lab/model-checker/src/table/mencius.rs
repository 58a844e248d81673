//! Mencius: owners of two lanes, one that is taken over, crashes. What is left out: the questions of replicas that
//! wait, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common.
const TWO_OWNERS: Scope = Scope {
    protocol: "mencius",
    params: &[("window", "2"), ("ahead", "1")],
    requests: &[write(0), write(1)],
    slots: 2,
    depth: 0,
    timers: &["Suspect"],
    fires: 0,
    lost: &["Ask", "Nack"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-owners",
        what: "two owners write, and nobody fails",
        quick: true,
        states: &[14_329],
        ..TWO_OWNERS
    },
    Scope {
        name: "n3-skip",
        what: "an owner writes behind a slot of another, which skips it",
        quick: true,
        requests: &[write(1)],
        states: &[67],
        ..TWO_OWNERS
    },
    Scope {
        name: "n3-skip-crash",
        what: "the same, and a crash anywhere",
        quick: true,
        requests: &[write(1)],
        crashes: 1,
        states: &[778],
        ..TWO_OWNERS
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        quick: true,
        requests: &[write(1), read(0)],
        states: &[2_767],
        ..TWO_OWNERS
    },
    Scope {
        name: "n3-taken",
        what: "an owner writes, and its lane is taken over",
        quick: true,
        requests: &[write(0)],
        slots: 1,
        depth: 1,
        fires: 1,
        states: &[162],
        ..TWO_OWNERS
    },
    Scope {
        name: "n3-taken-crash",
        what: "the same, and a crash anywhere",
        quick: true,
        requests: &[write(0)],
        slots: 1,
        depth: 1,
        fires: 1,
        crashes: 1,
        states: &[224_415],
        ..TWO_OWNERS
    },
];
