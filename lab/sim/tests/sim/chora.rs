//! Chora: seeds that must pass.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol chora {line}"), seeds)
}

#[test]
fn three_proposers_pass() {
    let reports = pass("--replicas 3", 0..15);
    assert!(hits(&reports, "began a view") > 15, "views change");
    assert!(hits(&reports, "recovered") > 0, "losses are made up for");
}

#[test]
fn other_sizes_and_numbers_of_proposers_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 7 --param proposers=4", 0..3);
    pass("--replicas 4", 0..3);
    pass("--replicas 1", 0..3);
    pass("--replicas 3 --param proposers=1", 0..5);
    pass("--replicas 5 --param proposers=2 --param window=4", 0..3);
}

/// Seed 1: pulses that only repeated themselves filled the network of a slow replica, which fell behind
/// for good.
#[test]
fn rounds_pass() {
    let mut reports = pass("--replicas 3 --param mode=pulsing", 0..10);
    reports.extend(pass(
        "--replicas 5 --param mode=pulsing --param round_us=500",
        0..3,
    ));
    assert!(hits(&reports, "pulses ended") > 0, "there are pauses");
}

/// What seeds found that draw parameters. A window with fewer slots than proposers, in which the last of them
/// never has one; views given up sooner than one can begin, each of which makes the log longer (39); a
/// log that was replaced by state, of which slots came to count as durable with what had been there (36); pulses
/// that began for what had no slot, ended at once and began again, until narrow links were eight seconds behind
/// (3000062 with three); repairs and requests for a view that did the same (with five).
#[test]
fn settings_that_once_failed_pass() {
    pass("--replicas 3 --param window=1", 0..2);
    for seed in [39, 3_000_062] {
        pass("--replicas 3 --profile swarm,settings", seed..seed + 1);
    }
    for seed in [36, 3_000_062] {
        pass("--replicas 5 --profile swarm,settings", seed..seed + 1);
    }
}

/// Two members so far behind that they cannot propose: each view left out the one that had blocked the last, dealt slots
/// to the other again, and came no further than these.
#[test]
fn who_is_left_behind_is_dealt_no_slots() {
    pass("--replicas 7 --param mode=random", 3_000_026..3_000_027);
}

/// Views began one after the other, each of which made the log longer, until the next one began too far ahead.
#[test]
fn views_that_begin_in_vain_have_room() {
    pass("--replicas 7 --param mode=random", 3_000_064..3_000_065);
}

#[test]
fn replicas_without_disks_pass() {
    let reports = pass("--replicas 3 --durability memory", 0..8);
    assert!(hits(&reports, "rejoined") > 0);
}

#[test]
fn members_and_protocols_change() {
    pass("--replicas 3 --profile swarm,epochs,switches", 0..8);
    pass("--replicas 5 --profile swarm,epochs", 0..4);
}
