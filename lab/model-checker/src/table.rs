//! The configurations, and how many states each of them has.
//!
//! The counts are what a search found, put here so that a search that covers less is noticed. After
//! a change of a protocol they may differ for good reasons: `quorate-lab model` then prints the new
//! ones.

mod chora;
mod domino;
mod epaxos;
mod fast_paxos;
mod mencius;
mod nezha;
mod nopaxos;
mod paxos;
mod racos;
mod raft;

use crate::scope::{Disks, Request, Scope, read, write};

/// All configurations, of all protocols.
pub(crate) fn configurations() -> impl Iterator<Item = &'static Scope> {
    RABIA
        .iter()
        .chain(paxos::ALL)
        .chain(chora::ALL)
        .chain(nezha::ALL)
        .chain(racos::ALL)
        .chain(raft::ALL)
        .chain(mencius::ALL)
        .chain(fast_paxos::ALL)
        .chain(nopaxos::ALL)
        .chain(domino::ALL)
        .chain(epaxos::ALL)
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
        states: &[9_757],
        ..BASE
    },
    Scope {
        name: "n3-crash",
        what: "two writes, up to the first votes, a crash anywhere",
        quick: true,
        depth: 1,
        crashes: 1,
        states: &[59_446],
        ..BASE
    },
    Scope {
        name: "n3-crash-null",
        what: "the same, and proposals that wait no longer",
        quick: true,
        depth: 1,
        crashes: 1,
        fires: 1,
        states: &[103_783],
        ..BASE
    },
    Scope {
        name: "n3-crash-state",
        what: "two writes, up to the first States, a crash anywhere",
        depth: 2,
        crashes: 1,
        states: &[341_124],
        ..BASE
    },
    Scope {
        name: "n3-crash-phase",
        what: "a write, up to the second votes, a crash anywhere, proposals that wait no longer",
        requests: ONE_WRITE,
        depth: 3,
        crashes: 1,
        fires: 1,
        states: &[598_000],
        ..BASE
    },
    Scope {
        name: "n3-two-slots",
        what: "two writes in two slots at once, proposals only, a crash anywhere",
        quick: true,
        params: &[("window", "2"), ("vote_hold_us", "0")],
        slots: 2,
        depth: 0,
        crashes: 1,
        states: &[10_119],
        ..BASE
    },
    Scope {
        name: "n3-reads",
        what: "a write and a read, up to the first votes, a crash anywhere",
        quick: true,
        depth: 1,
        crashes: 1,
        requests: &[write(0), read(1)],
        states: &[125_752],
        ..BASE
    },
    Scope {
        name: "n3-phase",
        what: "two writes, up to the second votes, proposals that wait no longer",
        depth: 3,
        fires: 1,
        states: &[481_751],
        ..BASE
    },
    Scope {
        name: "n3-slow-disk",
        what: "a write, up to the first votes, disks that lag behind",
        quick: true,
        depth: 1,
        disks: Disks::Slow,
        requests: ONE_WRITE,
        states: &[1_842],
        ..BASE
    },
    Scope {
        name: "n3-lost-replica",
        what: "a write, up to the first votes, a replica that restarts with nothing",
        quick: true,
        depth: 1,
        losses: 1,
        requests: ONE_WRITE,
        states: &[15_385],
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
        states: &[17_225],
        ..BASE
    },
    Scope {
        name: "n3-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        quick: true,
        states: &[17, 86, 166, 307, 280, 348, 270, 314],
        ..LAYERS
    },
    Scope {
        name: "n3-layers-three-step",
        what: "the same in the paper's mode",
        quick: true,
        states: &[17, 86, 213, 258, 334, 268, 316],
        ..PAPER
    },
    Scope {
        name: "n4-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        quick: true,
        n: 4,
        states: &[31, 188, 357, 629, 340, 388, 236, 324],
        ..LAYERS
    },
    Scope {
        name: "n4-layers-three-step",
        what: "the same in the paper's mode",
        quick: true,
        n: 4,
        states: &[31, 188, 421, 340, 388, 236, 324],
        ..PAPER
    },
    Scope {
        name: "n5-layers-two-step",
        what: "one instance of three phases by layers, f = 2",
        n: 5,
        states: &[51, 788, 3_025, 6_275, 2_776, 3_628, 2_252, 3_316],
        ..LAYERS
    },
    Scope {
        name: "n5-layers-three-step",
        what: "the same in the paper's mode",
        n: 5,
        states: &[51, 788, 3_515, 2_738, 3_612, 2_252, 3_316],
        ..PAPER
    },
    Scope {
        name: "n5-f1-layers-two-step",
        what: "one instance of three phases by layers, f = 1",
        n: 5,
        params: &[("window", "1"), ("vote_hold_us", "0"), ("f", "1")],
        states: &[51, 639, 1_719, 4_654, 1_334, 1_526, 782, 1_122],
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
        states: &[51, 639, 4_593, 1_334, 1_526, 782, 1_122],
        ..PAPER
    },
];
