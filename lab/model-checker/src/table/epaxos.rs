//! EPaxos: entries that conflict, a member that recovers them, a crash. What is left out: what is said again, and
//! questions that bring nothing but that about.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common: everything conflicts.
const CONFLICTING: Scope = Scope {
    protocol: "epaxos",
    params: &[],
    requests: &[write(0), write(1)],
    slots: 2,
    depth: 1,
    timers: &["Recover"],
    fires: 1,
    lost: &["Ask", "Nack"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-write",
        what: "a write, and nobody recovers it",
        quick: true,
        requests: &[write(1)],
        slots: 1,
        timers: &[],
        fires: 0,
        depth: 0,
        ..CONFLICTING
    },
    Scope {
        name: "n3-recovered",
        what: "a write, and whoever may recover it",
        requests: &[write(1)],
        slots: 1,
        ..CONFLICTING
    },
    Scope {
        name: "n3-conflict",
        what: "two writes that conflict, and nobody recovers them",
        timers: &[],
        fires: 0,
        depth: 0,
        ..CONFLICTING
    },
    Scope {
        name: "n3-recover",
        what: "two writes that conflict, and whoever may recover them",
        ..CONFLICTING
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        requests: &[write(1), read(0)],
        timers: &[],
        fires: 0,
        depth: 0,
        ..CONFLICTING
    },
    Scope {
        name: "n3-crash",
        what: "a write, and a crash anywhere",
        requests: &[write(1)],
        slots: 1,
        depth: 2,
        crashes: 1,
        ..CONFLICTING
    },
];
