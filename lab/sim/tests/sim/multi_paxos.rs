//! Multi-Paxos: seeds that must pass, and mutants that must not.

use crate::runs;
use quorate_sim::{Report, Simulator};
use std::ops::Range;

fn simulator(line: &str) -> Simulator {
    runs::simulator(&format!("--protocol multi-paxos {line}"))
}

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol multi-paxos {line}"), seeds)
}

#[test]
fn three_replicas_pass() {
    let reports = pass("--replicas 3", 0..20);
    let elected = |report: &Report| report.totals.branches.get("elected").copied();
    let elections = reports.iter().filter_map(elected).sum::<u64>();
    assert!(elections > 20, "leaders change: {elections}");
}

#[test]
fn other_sizes_pass() {
    pass("--replicas 5", 0..8);
    pass("--replicas 7", 0..4);
    pass("--replicas 4", 0..4);
    pass("--replicas 1", 0..3);
}

#[test]
fn replicas_without_disks_pass() {
    let mut reports = pass("--replicas 3 --durability memory", 0..10);
    reports.extend(pass("--replicas 5 --durability memory", 0..5));
    let rejoined = |report: &Report| report.totals.branches.contains_key("rejoined");
    assert!(reports.iter().any(rejoined));
}

/// Once: the news that a replica's connection was down came when the next one was up, its version was
/// forgotten, and it could read no broadcast of the others any more.
#[test]
fn a_replica_with_an_older_version_is_spoken_to() {
    pass("--replicas 5", 91_517..91_518);
}

#[test]
fn small_windows_and_promises_in_many_parts_pass() {
    pass("--param window=1 --param outstanding=1", 0..5);
    pass(
        "--param window=32 --param outstanding=8 --param promise_bytes=1",
        0..5,
    );
}

/// A few here, all of them in `scripts/mutants.sh`.
#[test]
fn mutants_are_found() {
    for mutant in ["read-quorum", "write-quorum", "no-accept-record"] {
        let simulator = simulator(&format!("--mutant {mutant}"));
        let found = (0..80).any(|seed| simulator.seed(seed).violation.is_some());
        assert!(found, "{mutant} was not found within 80 seeds");
    }
}

/// Servers of Redis beside the replicas. 1037: who caught up asked the dead peer between any two answers of the live
/// one, and got 20 slots a second. 2000: a server that followed again ended a key by itself when asked for another.
/// 10213: nobody executed any more where members came and went.
#[test]
fn seeds_with_servers_that_once_failed() {
    let epochs = "swarm,epochs,switches,levels";
    for (profile, seed) in [("swarm", 1037), ("swarm", 2000), (epochs, 10213)] {
        let simulator = simulator(&format!("--store effects --profile {profile}"));
        assert_eq!(simulator.seed(seed).violation, None, "seed {seed}");
    }
}

/// A lease was ended whose keys had gone by a request without an answer: the judge took the end for what they went by.
#[test]
fn seeds_with_users_that_once_failed() {
    let simulator = simulator("--replicas 5 --profile swarm,users");
    assert_eq!(simulator.seed(140).violation, None, "seed 140");
}
