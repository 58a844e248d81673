//! Racos: coded values that are spread, announced and ordered. By default a replica has a lane of its own, so
//! that values of different origins never compete; with one lane they do, as in Rabia. What is left out: the
//! questions of replicas that wait, which bring nothing but repeats about, and lost disks without `merged`: a search of
//! one did not end within minutes.

use super::BASE;
use crate::scope::{Disks, Scope, read, write, write_long};

/// What they have in common.
const LANES: Scope = Scope {
    protocol: "racos",
    params: &[("window", "3"), ("vote_hold_us", "0")],
    requests: &[write_long(0)],
    depth: 0,
    disks: Disks::Fast,
    ..BASE
};

/// Values compete for the slot.
const ONE_LANE: Scope = Scope {
    params: &[("window", "1"), ("lanes", "1"), ("vote_hold_us", "0")],
    ..LANES
};

/// With `merged`, replicas that hold a value propose it.
const MERGED: Scope = Scope {
    params: &[
        ("window", "1"),
        ("lanes", "1"),
        ("vote_hold_us", "0"),
        ("merged", "true"),
    ],
    ..LANES
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-lanes",
        what: "a coded write and a small one in another lane, proposals only",
        quick: true,
        requests: &[write_long(0), write(1)],
        states: &[25_169],
        ..LANES
    },
    Scope {
        name: "n3-read",
        what: "a coded write and a read elsewhere, up to the first votes",
        quick: true,
        requests: &[write_long(0), read(1)],
        depth: 1,
        states: &[47_043],
        ..LANES
    },
    Scope {
        name: "n3-read-crash",
        what: "the same, proposals only, a crash anywhere",
        quick: true,
        requests: &[write_long(0), read(1)],
        crashes: 1,
        states: &[184_524],
        ..LANES
    },
    Scope {
        name: "n3-spread-again",
        what: "a coded write, proposals only, a crash anywhere, segments that are asked for again",
        quick: true,
        crashes: 1,
        timers: &["Spread"],
        fires: 1,
        states: &[10_170],
        ..LANES
    },
    Scope {
        name: "n3-vote-crash",
        what: "a coded write, up to the first votes, a crash anywhere",
        depth: 1,
        crashes: 1,
        states: &[608_827],
        ..LANES
    },
    Scope {
        name: "n3-two-crashes",
        what: "a coded write, proposals only, two crashes anywhere",
        crashes: 2,
        states: &[908_638],
        ..LANES
    },
    Scope {
        name: "n3-crash",
        what: "a coded write and a small one in one lane, proposals only, a crash anywhere",
        quick: true,
        requests: &[write_long(0), write(1)],
        crashes: 1,
        states: &[266_148],
        ..ONE_LANE
    },
    Scope {
        name: "n3-votes",
        what: "the same without a crash, up to the first votes",
        quick: true,
        requests: &[write_long(0), write(1)],
        depth: 1,
        states: &[209_923],
        ..ONE_LANE
    },
    Scope {
        name: "n4-write",
        what: "a coded write of which two fragments rebuild the value, proposals only",
        quick: true,
        n: 4,
        states: &[2_685],
        ..ONE_LANE
    },
    Scope {
        name: "n4-votes",
        what: "the same, up to the first votes",
        n: 4,
        depth: 1,
        states: &[388_087],
        ..ONE_LANE
    },
    Scope {
        name: "n4-writes",
        what: "the same and a small write, proposals only",
        n: 4,
        requests: &[write_long(0), write(1)],
        states: &[907_341],
        ..ONE_LANE
    },
    Scope {
        name: "n4-read",
        what: "a coded write and a read elsewhere, proposals only",
        quick: true,
        n: 4,
        requests: &[write_long(0), read(1)],
        states: &[137_933],
        ..ONE_LANE
    },
    Scope {
        name: "n3-merged-crash",
        what: "a coded write that its holders propose, proposals only, a crash anywhere",
        quick: true,
        crashes: 1,
        states: &[4_467],
        ..MERGED
    },
    Scope {
        name: "n3-merged-votes",
        what: "two of them, up to the first votes",
        quick: true,
        requests: &[write_long(0), write_long(1)],
        depth: 1,
        states: &[46_744],
        ..MERGED
    },
    Scope {
        name: "n3-merged-writes",
        what: "two of them, proposals only, a crash anywhere",
        requests: &[write_long(0), write_long(1)],
        crashes: 1,
        states: &[123_560],
        ..MERGED
    },
    Scope {
        name: "n3-merged-lost",
        what: "one of them, proposals only, a replica that restarts with nothing",
        losses: 1,
        states: &[355_915],
        ..MERGED
    },
    Scope {
        name: "n4-merged",
        what: "one of which two fragments rebuild the value, and a small write, proposals only",
        quick: true,
        n: 4,
        requests: &[write_long(0), write(1)],
        states: &[208_047],
        ..MERGED
    },
];
