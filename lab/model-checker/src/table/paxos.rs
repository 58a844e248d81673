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
        what: "a write, leaders of one round",
        quick: true,
        states: &[1_107],
        ..ONE_SLOT
    },
    Scope {
        name: "n3-leaders",
        what: "two writes, leaders of two rounds",
        quick: true,
        requests: &[write(0), write(1)],
        depth: 2,
        states: &[270_864],
        ..ONE_SLOT
    },
    Scope {
        name: "n3-crash",
        what: "a write, leaders of one round, a crash anywhere",
        quick: true,
        crashes: 1,
        states: &[33_566],
        ..ONE_SLOT
    },
    Scope {
        name: "n3-apart",
        what: "two writes, one with its payload stored apart, leaders of two rounds",
        quick: true,
        requests: &[write_long(0), write(1)],
        depth: 2,
        states: &[302_304],
        ..ONE_SLOT
    },
    Scope {
        name: "n4-leader",
        what: "a coded write, leaders of one round",
        quick: true,
        n: 4,
        states: &[16_378],
        ..CODED
    },
    Scope {
        name: "n4-crash",
        what: "a coded write, leaders of one round, a crash anywhere",
        n: 4,
        crashes: 1,
        states: &[866_279],
        ..CODED
    },
    Scope {
        name: "n5-leader",
        what: "a coded write of which any three fragments rebuild the value, leaders of one round",
        quick: true,
        n: 5,
        states: &[220_523],
        ..CODED
    },
];
