//! Seeds that must pass, twice alike, and mutants that must not.

use quorate_sim::{Report, Simulator, Totals, parse};
use std::ops::Range;

/// Unless the line names another, the classic profile: its seeds mean what they meant when they
/// were written down here.
fn simulator(line: &str) -> Result<Simulator, String> {
    let classic = if line.contains("--profile") {
        ""
    } else {
        "--profile classic"
    };
    Simulator::new(&parse(&format!("{line} {classic}")).unwrap())
}

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    let simulator = simulator(line).unwrap();
    let reports: Vec<Report> = seeds.map(|seed| simulator.seed(seed)).collect();
    for report in &reports {
        assert_eq!(report.violation, None, "seed {}", report.seed);
        assert!(report.totals.ops >= 500, "{report:?}");
        assert!(report.totals.simulated_ns >= 5_000_000_000, "{report:?}");
    }
    reports
}

/// The first seed of the range in which a mutant is found.
fn caught(mutant: &str, seeds: Range<u64>) -> Option<Report> {
    caught_with("", mutant, seeds)
}

fn caught_with(line: &str, mutant: &str, seeds: Range<u64>) -> Option<Report> {
    let simulator = simulator(&format!("{line} --mutant {mutant}")).unwrap();
    seeds
        .map(|seed| simulator.seed(seed))
        .find(|report| report.violation.is_some())
}

#[test]
fn three_replicas_with_disks_pass() {
    let reports = pass("--replicas 3", 0..20);
    assert!(reports.iter().any(|report| report.totals.crashes > 0));
    assert!(reports.iter().any(|report| report.totals.dropped > 0));
}

#[test]
fn five_replicas_with_disks_pass() {
    pass("--replicas 5", 0..10);
}

#[test]
fn replicas_without_disks_pass() {
    let mut reports = pass("--replicas 3 --durability memory", 0..10);
    reports.extend(pass("--replicas 5 --durability memory", 0..5));
    assert!(reports.iter().any(|report| report.totals.crashes > 2));
    let rejoined = |report: &Report| report.totals.branches.contains_key("rejoined");
    assert!(reports.iter().any(rejoined));
}

#[test]
fn replicas_with_a_lane_each_pass() {
    pass("--replicas 3 --param lanes=3", 0..10);
    pass("--replicas 5 --param lanes=5 --durability memory", 0..5);
}

#[test]
fn reads_through_the_log_pass() {
    pass("--param reads=log", 0..5);
}

#[test]
fn other_parameters_pass() {
    pass("--param mode=three_step --param fast_rules=false", 0..5);
    pass("--param window=8 --param outstanding=4", 0..5);
    pass("--param grace_us=500 --param freeze_us=300", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn mixtures_of_all_profiles_pass() {
    let mut reports = pass("--profile swarm", 0..20);
    reports.extend(pass("--profile swarm --replicas 5 --param lanes=5", 0..5));
    reports.extend(pass("--profile swarm --durability memory", 0..5));
    let hit = |fault| {
        reports
            .iter()
            .any(|report| report.totals.faults.contains_key(fault))
    };
    assert!(hit("crash") && hit("clock leap") && hit("quorum healed first"));
}

#[test]
fn every_profile_shows_what_it_says_and_passes() {
    let simulator = simulator("--profile swarm").unwrap();
    for name in simulator.profiles() {
        // Of the protocols, Nezha has gateways apart.
        let protocol = if name == "gateways" { "nezha" } else { "rabia" };
        let line = format!("--protocol {protocol} --profile {name}");
        let reports = pass(&line, 0..6);
        let mut totals = Totals::default();
        reports.iter().for_each(|report| totals.add(&report.totals));
        let unseen = self::simulator(&line).unwrap().unseen(&totals);
        assert!(
            unseen.is_empty(),
            "{name}: {unseen:?} of {:?}",
            totals.faults
        );
    }
}

/// A copy of a folder is put back before the others noted what was promised since: a difference is found by digests, and
/// those that are equal go on.
#[test]
fn a_copy_that_was_put_back_at_once_makes_no_difference_in_silence() {
    for (protocol, seed) in [("rabia", 117), ("multi-paxos", 147), ("nezha", 144)] {
        let line = format!("--protocol {protocol} --profile old-copies");
        let report = simulator(&line).unwrap().seed(seed);
        assert_eq!(report.violation, None, "{protocol}");
        let noticed = report.totals.faults.get("odd replica noticed");
        assert_eq!(noticed, Some(&1), "{protocol}: {:?}", report.totals.faults);
    }
}

/// A replica whose old copy knows that it lost its promises may start to recover.
#[test]
fn an_old_copy_without_promises_may_begin_to_recover() {
    let line = "--protocol multi-paxos --replicas 3 --profile swarm,old-copies";
    pass(line, 40_015..40_016);
}

#[test]
fn a_run_that_is_stuck_says_what_waits_for_what() {
    // In earlier seeds nothing but reads is stuck.
    let report = caught_with("--profile loss", "no-retransmission", 5..10).unwrap();
    let violation = report.violation.unwrap();
    assert_eq!(violation.kind, "liveness");
    for part in [
        "waits for",
        "replica 3: serving",
        "writes without a result",
        "first slot not delivered",
        "next: Wait",
    ] {
        assert!(violation.what.contains(part), "{part}: {violation}");
    }
}

/// A crash kept the record of a release that was not durable yet, behind a tail that was cut, beside
/// a gap among the segments: the release had not happened. And a gap at the tail is none at the
/// front.
#[test]
fn a_release_behind_a_cut_did_not_happen() {
    for seed in [187, 1162, 1659] {
        pass("--replicas 5 --param lanes=5", seed..seed + 1);
    }
    pass("--replicas 5", 69..70);
}

#[test]
fn leases_watches_and_compactions_are_part_of_the_load() {
    let reports = pass("--replicas 3", 20..30);
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    assert!(sum(|report| report.totals.granted) > 0);
    assert!(sum(|report| report.totals.expired) > 0);
    assert!(sum(|report| report.totals.watched) > 0);
    assert!(sum(|report| report.totals.overtaken) > 0);
    assert!(sum(|report| report.totals.compactions) > 0);
}

#[test]
fn a_seed_repeats_itself_traced_or_not() {
    let simulator = simulator("--replicas 3").unwrap();
    for seed in 0..3 {
        let first = simulator.seed(seed);
        assert_eq!(simulator.seed(seed), first);
        let (traced, lines) = simulator.traced(seed);
        assert_eq!(traced, first);
        assert!(lines.len() > 1_000);
    }
    assert_ne!(simulator.seed(0).digest, simulator.seed(1).digest);
}

#[test]
fn every_lowered_threshold_is_found() {
    for mutant in [
        "fast-1",
        "fast-0",
        "proposal-threshold",
        "state-majority",
        "decide-threshold",
        "wait-size",
        "fast-state",
    ] {
        let report = caught(mutant, 0..20);
        assert!(report.is_some(), "{mutant} was not found within 20 seeds");
    }
}

#[test]
fn a_persist_left_out_is_found() {
    // A crash must come between two particular steps of one slot. Those that take hundreds of seeds
    // have conversations.
    for (mutant, seeds) in [("no-vote-record", 0..50), ("no-proposal-record", 0..30)] {
        let report = caught_with("--profile swarm", mutant, seeds.clone());
        assert!(report.is_some(), "{mutant} was not found in {seeds:?}");
    }
}

#[test]
fn a_mark_too_few_is_found() {
    assert!(caught("read-quorum", 0..40).is_some());
}

#[test]
fn a_floor_ignored_or_guessed_is_found() {
    let line = "--durability memory --param lanes=3";
    assert!(caught_with(line, "no-floor", 10..40).is_some());
    assert!(caught_with(line, "early-recovery", 0..20).is_some());
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let message = |line: &str| simulator(line).err().unwrap();
    let protocol = message("--protocol paxos-raft");
    assert!(
        protocol.contains("paxos-raft") && protocol.contains("rabia"),
        "{protocol}"
    );
    let mutant = message("--mutant typo");
    assert!(
        mutant.contains("typo") && mutant.contains("fast-1"),
        "{mutant}"
    );
    let fault = message("--without typo");
    assert!(
        fault.contains("typo") && fault.contains("blackout"),
        "{fault}"
    );
    let profile = message("--profile typo");
    assert!(
        profile.contains("typo") && profile.contains("classic"),
        "{profile}"
    );
    let param = message("--param typo=1");
    assert!(
        param.contains("typo") && param.contains("window"),
        "{param}"
    );
    assert!(message("--replicas 0").contains("--replicas"));
}

/// Everything mixed: seeds in which something was found once, and what it was.
#[test]
fn seeds_that_failed_once_pass() {
    let found = [
        (
            3,
            1,
            1713,
            "a leftover segment that begins with damage cost promises",
        ),
        (
            3,
            3,
            835,
            "no snapshot could be stored for as long as faults struck",
        ),
        (3, 1, 2477, "damage took the last copy of an entry"),
        (
            3,
            1,
            1060,
            "two peers' snapshots were fetched by turns and neither to its end",
        ),
        (3, 1, 1013, "damage did no harm until power failed"),
        (
            3,
            3,
            1610,
            "damage and a power cut together looked like a torn tail",
        ),
        (
            3,
            3,
            1122,
            "peers that had only older snapshots were asked without a pause",
        ),
    ];
    for (replicas, lanes, seed, what) in found {
        let line = format!("--profile swarm --replicas {replicas} --param lanes={lanes}");
        let report = simulator(&line).unwrap().seed(seed);
        assert_eq!(report.violation, None, "seed {seed}: {what}");
    }
}

/// A replica that is started again is heard of before its end is: were it taken to be down from then on, others would
/// speak the oldest version to it, without what it must hear of their promises.
#[test]
fn nobody_hears_of_an_end_after_the_start_that_followed_it() {
    let line = "--protocol multi-paxos --profile swarm,switches,epochs,levels";
    let report = simulator(line).unwrap().seed(26);
    assert_eq!(report.violation, None);
}
