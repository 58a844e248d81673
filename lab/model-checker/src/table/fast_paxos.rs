//! Fast Paxos: members that write and collide, a leader that crashes. What is left out: the questions of replicas that
//! wait, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common: who leads is found out first.
const COLLIDING: Scope = Scope {
    protocol: "fast-paxos",
    params: &[("window", "2")],
    requests: &[write(0), write(1)],
    slots: 2,
    depth: 1,
    timers: &["Election", "Collide"],
    fires: 1,
    lost: &["Ask", "Nack"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-write",
        what: "a write, and whoever may lead",
        quick: true,
        requests: &[write(1)],
        slots: 1,
        states: &[267_659],
        ..COLLIDING
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        requests: &[write(1), read(0)],
        slots: 1,
        ..COLLIDING
    },
    Scope {
        name: "n3-collide",
        what: "two writes that may collide",
        ..COLLIDING
    },
    Scope {
        name: "n3-crash",
        what: "a write, and a crash anywhere",
        requests: &[write(1)],
        slots: 1,
        depth: 2,
        crashes: 1,
        ..COLLIDING
    },
];
