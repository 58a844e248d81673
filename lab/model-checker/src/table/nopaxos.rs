//! NOPaxos: stamps that come or do not, gaps, logs that are compared, views. What is left out: what is said again.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common.
const TWO_WRITERS: Scope = Scope {
    protocol: "nopaxos",
    params: &[("window", "2")],
    requests: &[write(0), write(1)],
    slots: 2,
    depth: 0,
    timers: &["Sync"],
    fires: 1,
    lost: &["Ask"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-stamps",
        what: "two gateways write, stamps come out of turn, and nobody fails",
        quick: true,
        states: &[297_010],
        ..TWO_WRITERS
    },
    Scope {
        name: "n3-write",
        what: "a write, a crash anywhere",
        quick: true,
        requests: &[write(2)],
        slots: 1,
        crashes: 1,
        states: &[258],
        ..TWO_WRITERS
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        quick: true,
        requests: &[write(1), read(2)],
        slots: 1,
        states: &[446],
        ..TWO_WRITERS
    },
    Scope {
        name: "n3-view",
        what: "a write, and a leader that is suspected",
        quick: true,
        requests: &[write(2)],
        slots: 1,
        depth: 1,
        timers: &["Sync", "Leader"],
        states: &[1_119],
        ..TWO_WRITERS
    },
    Scope {
        name: "n3-session",
        what: "a write, a sequencer that is suspected, and a crash anywhere",
        quick: true,
        requests: &[write(2)],
        slots: 1,
        depth: 1,
        crashes: 1,
        timers: &["Sync", "Sequencer"],
        states: &[18_272],
        ..TWO_WRITERS
    },
];
