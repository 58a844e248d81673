//! Nezha: one slot, gateways and replicas whose clocks may jump past any deadline, and leaders that
//! replace each other. What is left out: repairs, which bring nothing but repeats about.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common.
const ONE_VIEW: Scope = Scope {
    protocol: "nezha",
    params: &[("window", "1"), ("outstanding", "1")],
    requests: &[write(0)],
    depth: 0,
    timers: &["Release"],
    fires: 1,
    lost: &[],
    clocks: &[1_000, 3_000_000],
    disks: Disks::Fast,
    ..BASE
};

const TWO_VIEWS: Scope = Scope {
    depth: 1,
    timers: &["Release", "Suspect"],
    ..ONE_VIEW
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-writes",
        what: "two writes, and no other view",
        quick: true,
        requests: &[write(0), write(1)],
        states: &[34_433],
        ..ONE_VIEW
    },
    Scope {
        name: "n3-clocks",
        what: "the same, with clocks that show three times",
        quick: true,
        requests: &[write(0), write(1)],
        clocks: &[1_000, 1_500_000, 3_000_000],
        states: &[101_187],
        ..ONE_VIEW
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere, and no other view",
        quick: true,
        requests: &[write(0), read(1)],
        states: &[10_726],
        ..ONE_VIEW
    },
    Scope {
        name: "n3-view",
        what: "a write, and another view",
        quick: true,
        states: &[90_232],
        ..TWO_VIEWS
    },
];
