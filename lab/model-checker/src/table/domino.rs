//! Domino: members that write in the fast lane and their own, and one that crashes. What is left out: the questions of
//! replicas that wait, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common: clocks pass positions, and a lane may be taken over.
const LANES: Scope = Scope {
    protocol: "domino",
    params: &[("way", "dm")],
    requests: &[write(0), write(1)],
    slots: 2,
    depth: 1,
    timers: &["Election", "Collide", "Hold"],
    fires: 1,
    lost: &["Ask", "Nack"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-write",
        what: "a write in a lane of its own",
        requests: &[write(1)],
        slots: 1,
        states: &[5_094_788],
        ..LANES
    },
    Scope {
        name: "n3-fast",
        what: "a write in the fast lane",
        quick: true,
        params: &[],
        requests: &[write(1)],
        slots: 1,
        depth: 0,
        states: &[49_792],
        ..LANES
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        requests: &[write(1), read(0)],
        slots: 1,
        ..LANES
    },
    Scope {
        name: "n3-crash",
        what: "a write, and a crash anywhere",
        requests: &[write(1)],
        slots: 1,
        depth: 2,
        crashes: 1,
        ..LANES
    },
];
