//! Chora in view 0: entries under way, and reads beside them. What is left out: repairs, which bring
//! nothing but repeats about, and other views: a search of one did not end within minutes.

use super::BASE;
use crate::scope::{Disks, Scope, read, write};

/// What they have in common.
const ONE_VIEW: Scope = Scope {
    protocol: "chora",
    params: &[("window", "2"), ("mode", "responsive")],
    requests: &[write(0)],
    depth: 0,
    timers: &["Stall"],
    fires: 0,
    lost: &["Forward"],
    disks: Disks::Fast,
    ..BASE
};

pub(super) static ALL: &[Scope] = &[
    Scope {
        name: "n3-write",
        what: "a write, and no other view",
        quick: true,
        states: &[72],
        ..ONE_VIEW
    },
    Scope {
        name: "n3-read",
        what: "a write and a read elsewhere",
        quick: true,
        requests: &[write(0), read(1)],
        states: &[859],
        ..ONE_VIEW
    },
    Scope {
        name: "n3-proposers",
        what: "two proposers, two slots, and no other view",
        quick: true,
        requests: &[write(0), write(1)],
        slots: 2,
        states: &[38_827],
        ..ONE_VIEW
    },
];
