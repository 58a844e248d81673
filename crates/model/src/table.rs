//! The configurations, and how many states each of them has.
//!
//! The counts are what a search found, put here so that a search that covers less is noticed. After
//! a change of a protocol they may differ for good reasons: `quorate model` then prints the new
//! ones.

use crate::scope::{Disks, Request, Scope, read, write};

/// All configurations, of all protocols.
pub(crate) fn configurations() -> impl Iterator<Item = &'static Scope> {
    RABIA.iter()
}

const TWO_STEP: &[(&str, &str)] = &[("window", "1"), ("vote_hold_us", "0")];
const THREE_STEP: &[(&str, &str)] = &[
    ("window", "1"),
    ("vote_hold_us", "0"),
    ("mode", "three_step"),
];
const TWO_WRITES: &[Request] = &[write(0), write(1)];
const ONE_WRITE: &[Request] = &[write(0)];

/// What the configurations of Rabia have in common.
const BASE: Scope = Scope {
    name: "",
    protocol: "rabia",
    what: "",
    quick: false,
    by_layers: false,
    n: 3,
    params: TWO_STEP,
    requests: TWO_WRITES,
    slots: 1,
    depth: 7,
    coins: 0,
    crashes: 0,
    losses: 0,
    timers: &["Adopt"],
    fires: 0,
    lost: &["Have", "Need"],
    clocks: &[1_000],
    disks: Disks::Fast,
    states: &[],
};

/// One instance of three phases by layers, in the two-step mode.
const LAYERS: Scope = Scope {
    by_layers: true,
    depth: 7,
    coins: 3,
    lost: &[],
    ..BASE
};

/// The same in the paper's mode.
const PAPER: Scope = Scope {
    params: THREE_STEP,
    depth: 6,
    ..LAYERS
};

static RABIA: &[Scope] = &[
    Scope {
        name: "n3-clocks",
        what: "two writes, up to the first votes, clocks that jump by seconds",
        quick: true,
        depth: 1,
        clocks: &[1_000, 2_000_000_000],
        states: &[14_531],
        ..BASE
    },
    Scope {
        name: "n3-crash",
        what: "two writes, up to the first votes, a crash anywhere",
        quick: true,
        depth: 1,
        crashes: 1,
        states: &[339_546],
        ..BASE
    },
    Scope {
        name: "n3-reads",
        what: "a write and a read, up to the first votes, a crash anywhere",
        quick: true,
        depth: 1,
        crashes: 1,
        requests: &[write(0), read(1)],
        states: &[628_862],
        ..BASE
    },
    Scope {
        name: "n3-phase",
        what: "two writes, up to the second votes, proposals that wait no longer",
        depth: 3,
        fires: 1,
        states: &[568_400],
        ..BASE
    },
    Scope {
        name: "n3-slow-disk",
        what: "a write, up to the first votes, disks that lag behind",
        quick: true,
        depth: 1,
        disks: Disks::Slow,
        requests: ONE_WRITE,
        states: &[1_284],
        ..BASE
    },
    Scope {
        name: "n3-lost-replica",
        what: "a write, up to the first votes, a replica that restarts with nothing",
        quick: true,
        depth: 1,
        losses: 1,
        requests: ONE_WRITE,
        states: &[176_562],
        ..BASE
    },
    Scope {
        name: "n3-diskless",
        what: "the same without disks",
        quick: true,
        depth: 1,
        losses: 1,
        disks: Disks::None,
        requests: ONE_WRITE,
        states: &[17_998],
        ..BASE
    },
    Scope {
        name: "n3-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        quick: true,
        states: &[17, 86, 166, 280, 246, 310, 244, 298],
        ..LAYERS
    },
    Scope {
        name: "n3-layers-three-step",
        what: "the same in the paper's mode",
        quick: true,
        states: &[17, 86, 203, 234, 306, 254, 301],
        ..PAPER
    },
    Scope {
        name: "n4-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        quick: true,
        n: 4,
        states: &[31, 188, 350, 622, 304, 358, 222, 310],
        ..LAYERS
    },
    Scope {
        name: "n4-layers-three-step",
        what: "the same in the paper's mode",
        quick: true,
        n: 4,
        states: &[31, 188, 414, 304, 358, 222, 310],
        ..PAPER
    },
    Scope {
        name: "n5-layers-two-step",
        what: "one instance of three phases by layers, f = 2",
        n: 5,
        ..LAYERS
    },
    Scope {
        name: "n5-layers-three-step",
        what: "the same in the paper's mode",
        n: 5,
        ..PAPER
    },
    Scope {
        name: "n5-f1-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        n: 5,
        params: &[("window", "1"), ("vote_hold_us", "0"), ("f", "1")],
        ..LAYERS
    },
    Scope {
        name: "n5-f1-layers-three-step",
        what: "the same in the paper's mode",
        n: 5,
        params: &[
            ("window", "1"),
            ("vote_hold_us", "0"),
            ("mode", "three_step"),
            ("f", "1"),
        ],
        ..PAPER
    },
];
