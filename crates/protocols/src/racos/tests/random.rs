//! Random schedules: crashes, lost disks, lost and repeated messages; C1, C2, C5, C9 and C10 as the net and
//! the end of each run check them.

use super::net::{Dice, Net};
use crate::racos::{Racos, Replica};
use crate::registry::{Protocol, Sabotage};
use quorate_core::MILLIS;
use std::collections::BTreeSet;
use std::panic::catch_unwind;

type Code = (usize, &'static [(&'static str, &'static str)]);

const FIVE: Code = (5, &[("k", "3"), HOLD]);
/// Values are cut anew when two of five are away, at the first timer.
const ADAPTIVE: Code = (
    5,
    &[
        ("k", "3"),
        ("f", "2"),
        ("adaptive", "true"),
        ("spread_timeout_ms", "0"),
        HOLD,
    ],
);
const MERGED: Code = (5, &[("k", "3"), ("merged", "true"), HOLD]);
/// Whoever was not heard of since the last timer is taken for gone.
const FUNERALS: Code = (
    5,
    &[
        ("k", "3"),
        ("merged", "true"),
        ("origin_gone_ms", "0"),
        HOLD,
    ],
);
const CODES: [Code; 12] = [
    FIVE,
    ADAPTIVE,
    MERGED,
    FUNERALS,
    (4, &[("k", "2"), ("merged", "true"), HOLD]),
    (5, &[("k", "2"), ("merged", "true"), HOLD]),
    (7, &[("k", "3"), ("merged", "true"), HOLD]),
    (7, &[("k", "4"), ("merged", "true"), HOLD]),
    (3, &[("k", "1"), HOLD]),
    (4, &[("k", "2"), HOLD]),
    (7, &[("k", "3"), HOLD]),
    (7, &[("k", "4"), HOLD]),
];
const HOLD: (&str, &str) = ("vote_hold_us", "0");

/// One run: some hundred steps under faults, then all come back and everything comes to an end.
fn run(
    (n, params): Code,
    seed: u64,
    sabotage: Option<Sabotage<Replica>>,
) -> BTreeSet<&'static str> {
    let dice = &mut Dice::new(seed);
    let mut net = Net::new(n, params, sabotage);
    // As the longest between retransmissions, so that segments are given up.
    net.watch.fired_ns = 200 * MILLIS;
    let (loses_disks, loss) = (dice.below(2) == 0, dice.below(8));
    for _ in 0..300 + dice.below(900) {
        disturb(&mut net, dice, loses_disks, loss);
    }
    for me in 0..n {
        if net.nodes[me].machine.is_none() {
            net.restart(me);
        }
    }
    // One more command has who fell behind notice it.
    (0..n).for_each(|me| net.submit(me, false));
    for round in 0.. {
        if settle(&mut net, dice) {
            break;
        }
        assert!(
            round < 400,
            "C10: it does not come to an end: {}",
            net.describe()
        );
    }
    for me in 0..n {
        let left = net.undecided(me);
        assert_eq!(left, [], "C9: {} keeps segments of nothing", me + 1);
    }
    net.branches.keys().copied().collect()
}

fn disturb(net: &mut Net, dice: &mut Dice, loses_disks: bool, loss: usize) {
    let n = net.nodes.len();
    let me = dice.below(n);
    let is_up = net.nodes[me].machine.is_some();
    match dice.below(100) {
        0..4 => net.submit(me, dice.below(4) > 0),
        4..20 => net.flush(me),
        20..24 => net.fire(me, dice.below(8)),
        24..30 => net.rebuild(me),
        30..32 if is_up => net.crash(me, dice),
        30..34 if !is_up => net.restart(me),
        34 if loses_disks => {
            let f = (n - 1) / 2;
            let lost = net.nodes.iter().filter(|node| node.is_lost).count();
            if lost < f.min(1) {
                net.crash(me, dice);
                net.lose(me);
            }
        }
        _ if !net.wire.is_empty() => {
            let which = dice.below(net.wire.len());
            match dice.below(100) {
                chance if chance < loss => drop(net.wire.swap_remove_back(which)),
                chance => net.take(which, chance > 95),
            }
        }
        _ => {}
    }
}

/// Everything that can happen does, once; says whether nothing is left.
pub(super) fn settle(net: &mut Net, dice: &mut Dice) -> bool {
    for me in 0..net.nodes.len() {
        net.flush(me);
        net.rebuild(me);
    }
    let flying = net.wire.len();
    for _ in 0..flying {
        let which = dice.below(net.wire.len());
        net.take(which, false);
    }
    if net.wire.is_empty() {
        for me in 0..net.nodes.len() {
            (0..4).for_each(|which| net.fire(me, which));
        }
    }
    net.wire.is_empty() && net.timers() == 0 && net.is_level()
}

#[test]
fn values_are_kept_and_decided_whatever_happens() {
    let mut branches = BTreeSet::new();
    for code in CODES {
        for seed in 0..300 {
            branches.extend(run(code, seed, None));
        }
    }
    for name in [
        "acknowledgement lost with its disk",
        "own value spread again",
        "roster waits",
        "segment asked for again",
        "segment let go",
        "segment rebuilt",
        "value cut anew",
        "value in fewer segments",
        "value made void",
        "void ordered",
    ] {
        assert!(branches.contains(name), "no run came to: {name}");
    }
}

/// Whether a check finds a mutant within so many runs.
fn is_found_by((name, code, check): (&str, Code, &str), seeds: u64) -> bool {
    let mutants = Racos::mutants();
    let mutant = mutants.iter().find(|mutant| mutant.name == name);
    let sabotage = mutant.expect("it is registered").sabotage;
    (0..seeds).any(|seed| {
        let caught = catch_unwind(|| run(code, seed, Some(sabotage))).err();
        let text = caught.and_then(|caught| caught.downcast_ref::<String>().cloned());
        text.is_some_and(|text| text.contains(check))
    })
}

/// What `mutants.rs` says is found here, and by which check.
#[test]
fn every_mutant_of_the_spreader_is_found() {
    let by = [
        ("holders", FIVE, "C1"),
        ("early-ack", FIVE, "C1"),
        ("no-candidate-bit", FIVE, "C1"),
        ("announced-forgotten", FIVE, "C1"),
        ("early-candidate", FIVE, "C1"),
        ("early-roster", FIVE, "C5"),
        ("no-roster", FIVE, "C10"),
        ("no-rebuild", FIVE, "C1"),
        ("undying-ack", FIVE, "C1"),
        ("untold", ADAPTIVE, "C9"),
        ("orphans-cut", ADAPTIVE, "C5"),
        ("merged-foreign", MERGED, "C1"),
        ("merged-no-void", MERGED, "C10"),
        ("merged-void-ignored", FUNERALS, "C5"),
    ];
    let is_missed = |one: &&(&str, Code, &str)| !is_found_by(**one, 8_000);
    let missed: Vec<_> = by.iter().filter(is_missed).map(|one| one.0).collect();
    assert!(missed.is_empty(), "not found as they should be: {missed:?}");
}
