//! Racos: one slot and one write, whose value is spread before it is ordered. What is left out: the questions of
//! replicas that wait, which bring nothing but repeats about. How slots are decided is Weak-MVC, which is searched as Rabia.

use super::BASE;
use crate::scope::{Scope, write_long};

/// What they have in common.
const ONE_SLOT: Scope = Scope {
    protocol: "racos",
    params: &[("window", "1"), ("vote_hold_us", "0"), ("payload_min", "1")],
    requests: &[write_long(0)],
    depth: 1,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-whole",
        what: "a write of which every replica has the whole value",
        quick: true,
        ..ONE_SLOT
    },
    Scope {
        name: "n3-crash",
        what: "a write of which every replica has the whole value, a crash anywhere",
        crashes: 1,
        ..ONE_SLOT
    },
    Scope {
        name: "n4-coded",
        what: "a write of which any two fragments rebuild the value",
        n: 4,
        ..ONE_SLOT
    },
];
