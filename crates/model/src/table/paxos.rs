//! Multi-Paxos and RS-Paxos: one slot, and leaders that replace each other. What is left out:
//! the questions of replicas that wait, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, write, write_long};

/// What they have in common.
const ONE_SLOT: Scope = Scope {
    protocol: "multi-paxos",
    params: &[("window", "1")],
    requests: &[write(0)],
    depth: 1,
    timers: &["Election"],
    fires: 1,
    lost: &["Ask", "Forward", "Nack", "Commit"],
    disks: Disks::Fast,
    ..BASE
};

const CODED: Scope = Scope {
    protocol: "rs-paxos",
    requests: &[write_long(0)],
    ..ONE_SLOT
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-leader",
        what: "a write, one leader",
        quick: true,
        ..ONE_SLOT
    },
    Scope {
        name: "n3-leaders",
        what: "two writes, leaders of two rounds",
        requests: &[write(0), write(1)],
        depth: 2,
        ..ONE_SLOT
    },
    Scope {
        name: "n3-crash",
        what: "two writes, leaders of two rounds, a crash anywhere",
        requests: &[write(0), write(1)],
        depth: 2,
        crashes: 1,
        ..ONE_SLOT
    },
    Scope {
        name: "n4-leader",
        what: "a coded write, one leader",
        quick: true,
        n: 4,
        ..CODED
    },
    Scope {
        name: "n4-leaders",
        what: "a coded write and a small one, leaders of two rounds",
        n: 4,
        requests: &[write_long(0), write(1)],
        depth: 2,
        ..CODED
    },
    Scope {
        name: "n5-leader",
        what: "a coded write, one leader",
        n: 5,
        ..CODED
    },
];
