//! Directed schedules: one hazard each, with what the protocol does about it.

use super::cluster::{Cluster, DELAY_NS, Weather};
use crate::rabia::{Record, Timer};
use quorate_core::{Class, MILLIS, Outcome, SECONDS, Slot};

const NO_HOLD: (&str, &str) = ("vote_hold_us", "0");

fn settle(cluster: &mut Cluster) {
    let is_silent = cluster.run_until_silent(10 * SECONDS);
    cluster.assert_sound();
    assert!(is_silent, "silence in the end");
}

#[test]
fn idle_replicas_say_nothing_and_wait_for_nothing() {
    let mut cluster = Cluster::new(3, &[]);
    assert!(cluster.run_until_silent(0));
    let request = cluster.write(1);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request));
    assert_eq!(cluster.chosen.len(), 1, "a lone batch takes one slot");
    let sent = cluster.watch.sent.clone();
    cluster.run_for(60 * SECONDS);
    assert_eq!(cluster.watch.sent, sent);
    assert!(cluster.nodes.iter().all(|node| node.timers.is_empty()));
}

#[test]
fn batches_from_everywhere_each_take_effect_once() {
    for (n, window) in [(3, "1"), (3, "2"), (3, "5"), (5, "2"), (5, "4")] {
        let mut cluster = Cluster::new(n, &[("window", window)]);
        let requests = (0..60).map(|i| cluster.write(i % n)).collect::<Vec<_>>();
        settle(&mut cluster);
        assert!(
            requests
                .iter()
                .all(|request| cluster.has_everywhere(*request))
        );
    }
}

/// Under load a batch is what came while its predecessors were decided.
#[test]
fn commands_that_wait_share_a_batch() {
    let mut cluster = Cluster::new(3, &[("outstanding", "1")]);
    let requests = (0..100).map(|_| cluster.write(0)).collect::<Vec<_>>();
    settle(&mut cluster);
    assert!(
        requests
            .iter()
            .all(|request| cluster.has_everywhere(*request))
    );
    assert_eq!(cluster.entries(0).len(), 2);
}

#[test]
fn a_read_waits_for_every_write_completed_before_it() {
    for reads in ["quorum", "log"] {
        reads_after_a_write(&[("reads", reads)]);
    }
}

fn reads_after_a_write(params: &[(&str, &str)]) {
    let mut cluster = Cluster::new(3, params);
    let write = cluster.write(0);
    while cluster.slot_of(0, write).is_none() {
        cluster.run_for(DELAY_NS);
    }
    let slot = cluster.slot_of(0, write).unwrap();
    let reads = [
        cluster.submit(2, Class::Read),
        cluster.submit(2, Class::Read),
    ];
    settle(&mut cluster);
    for read in reads {
        let replies = &cluster.nodes[2].replies;
        let (_, outcome) = replies.iter().find(|(id, _)| *id == read).unwrap();
        assert!(
            matches!(outcome, Outcome::ReadAt(at) if *at > slot),
            "{outcome:?}"
        );
    }
}

/// A mark counted a proposal that its proposer's disk never held: nobody else knows of the slot,
/// and who waits for it has it run.
#[test]
fn a_read_waits_for_no_proposal_that_is_lost() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.watch.blocked = [(0, 1), (0, 2)].into();
    cluster.watch.weather.flush_ns = (SECONDS, SECONDS);
    cluster.write(0);
    cluster.watch.blocked = [(2, 1)].into();
    cluster.submit(2, Class::Read);
    cluster.run_for(4 * DELAY_NS);
    let at_one = |cluster: &Cluster| cluster.nodes[2].replies[0].1 == Outcome::ReadAt(Slot(1));
    assert!(at_one(&cluster));
    cluster.crash(0);
    cluster.watch.weather.flush_ns = (0, 0);
    cluster.watch.blocked.clear();
    settle(&mut cluster);
    assert_eq!(cluster.nodes[2].log, [None]);
}

#[test]
fn a_laggard_many_windows_behind_catches_up_through_the_host() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.watch.blocked = [(0, 2), (1, 2), (2, 0), (2, 1)].into();
    for _ in 0..50 {
        cluster.write(0);
        cluster.run_for(2 * MILLIS);
    }
    cluster.watch.blocked.clear();
    let request = cluster.write(1);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request));
    assert!(cluster.count("fetch") > 0);
}

/// D16: a clock that is wrong makes its origin wait as long as the skew allows, never longer.
#[test]
fn an_origin_with_a_wrong_clock_is_served_under_load() {
    for offset_ns in [10 * SECONDS as i64, -10 * (SECONDS as i64)] {
        let mut cluster = Cluster::new(3, &[("hlc_max_skew_ms", "50")]);
        cluster.nodes[2].clock_ns = offset_ns;
        let load = |cluster: &mut Cluster| {
            cluster.write(0);
            cluster.write(1);
            cluster.run_for(DELAY_NS);
        };
        (0..100).for_each(|_| load(&mut cluster));
        let start_ns = cluster.now_ns;
        let request = cluster.write(2);
        while cluster.slot_of(2, request).is_none() {
            load(&mut cluster);
            let waited_ns = cluster.now_ns - start_ns;
            assert!(waited_ns < 60 * MILLIS, "clock off by {offset_ns} ns");
        }
        cluster.assert_sound();
    }
}

#[test]
fn a_replica_that_is_not_in_time_is_waited_for_once() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.crash(2);
    for _ in 0..5 {
        cluster.write(0);
        settle(&mut cluster);
    }
    assert_eq!(
        cluster.branch("vote hold expired"),
        2,
        "once at each of the two"
    );
    cluster.restart(2);
    for _ in 0..2 {
        cluster.write(0);
        settle(&mut cluster);
    }
    cluster.watch.sent.clear();
    cluster.write(0);
    settle(&mut cluster);
    assert_eq!(cluster.count("slot"), 6, "no votes again");
}

/// A replica that lost everything says nothing in any slot until it has learnt what its former
/// self may have done, and then takes part again.
#[test]
fn a_replica_that_lost_everything_comes_back() {
    for (n, lanes) in [(3, "1"), (3, "3"), (5, "1"), (5, "5")] {
        let mut cluster = Cluster::new(n, &[("lanes", lanes)]);
        for i in 0..10 {
            cluster.write(i % n);
        }
        settle(&mut cluster);
        cluster.crash(2);
        cluster.restart_lost(2);
        let refused = cluster.write(2);
        assert_eq!(cluster.nodes[2].replies[0].0, refused);
        assert!(!cluster.is_serving(2));
        settle(&mut cluster);
        assert!(cluster.is_serving(2), "with nobody else at work");
        cluster.crash(1);
        let request = cluster.write(2);
        settle(&mut cluster);
        assert!(cluster.slot_of(0, request).is_some(), "its vote counts");
    }
}

/// A recovery survives a crash at every point of it, and so does its floor.
#[test]
fn a_recovery_that_is_interrupted_is_a_recovery() {
    for cut in 0..40 {
        let mut cluster = Cluster::new(3, &[]);
        cluster.watch.weather.flush_ns = (DELAY_NS / 2, DELAY_NS);
        cluster.write(0);
        cluster.run_for(3 * DELAY_NS);
        cluster.crash(2);
        cluster.restart_lost(2);
        cluster.run_for(2 * DELAY_NS + cut * DELAY_NS / 4);
        let is_marked = |(_, record): &(_, Record)| matches!(record, Record::Floor { .. });
        cluster.crash(2);
        assert!(cluster.nodes[2].disk.iter().any(is_marked));
        cluster.restart(2);
        let request = cluster.write(0);
        settle(&mut cluster);
        assert!(cluster.is_serving(2) && cluster.has_everywhere(request));
    }
}

/// Rolling losses of everything, one replica at a time, lose nothing that was decided.
#[test]
fn rolling_losses_lose_nothing() {
    for n in [3, 5] {
        let mut cluster = Cluster::new(n, &[]);
        let mut requests = Vec::new();
        for round in 0..3 * n {
            requests.push(cluster.write((round + 1) % n));
            cluster.run_for(10 * DELAY_NS);
            cluster.crash(round % n);
            cluster.restart_lost(round % n);
            settle(&mut cluster);
            assert!(cluster.is_serving(round % n));
        }
        assert!(requests.iter().all(|id| cluster.has_everywhere(*id)));
    }
}

/// D20: who can never end its recovery does not have the others run slots for ever.
#[test]
fn a_recovery_that_cannot_end_does_not_keep_the_others_busy() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.write(0);
    settle(&mut cluster);
    cluster.crash(2);
    cluster.restart_lost(2);
    while cluster.nodes[2].machine.as_ref().unwrap().floor == Slot(0) {
        cluster.run_for(DELAY_NS / 2);
    }
    cluster.watch.blocked = [(0, 2), (1, 2)].into();
    cluster.run_for(SECONDS);
    let slots = cluster.chosen.len();
    assert!(slots <= 4, "up to the floor and no further: {slots}");
    cluster.run_for(10 * SECONDS);
    assert_eq!(cluster.chosen.len(), slots);
    cluster.watch.blocked.clear();
    settle(&mut cluster);
    assert!(cluster.is_serving(2));
}

/// D12: a lane whose owner is dead holds nobody up, and one next to busy ones neither.
#[test]
fn lanes_of_the_idle_and_the_dead_hold_nobody_up() {
    for (n, lanes) in [(3, "3"), (5, "5"), (5, "2")] {
        let mut cluster = Cluster::new(n, &[("lanes", lanes)]);
        cluster.crash(1);
        let mut requests = Vec::new();
        for round in 0..60 {
            requests.push(cluster.write([0, 2][round % 2]));
            cluster.run_for(DELAY_NS * (round as u64 % 5));
        }
        let start_ns = cluster.now_ns;
        settle(&mut cluster);
        assert!(cluster.now_ns - start_ns < 10 * SECONDS);
        cluster.restart(1);
        requests.push(cluster.write(1));
        settle(&mut cluster);
        assert!(requests.iter().all(|id| cluster.has_everywhere(*id)));
        assert_eq!(cluster.branch("double decision skipped"), 0);
    }
}

/// D23: with f down, a peer one slot ahead is heard at once, not after a retransmission.
#[test]
fn a_peer_one_slot_ahead_is_not_asked_to_say_it_again() {
    let mut cluster = Cluster::new(5, &[("f", "1"), ("lanes", "5"), ("rtt_us", "100000")]);
    cluster.crash(4);
    cluster.watch.weather.delay_ns = (DELAY_NS / 2, 3 * DELAY_NS);
    let start_ns = cluster.now_ns;
    let mut requests = Vec::new();
    for round in 0..100 {
        requests.push(cluster.write(round % 4));
        cluster.run_for(DELAY_NS);
    }
    let is_everywhere = |cluster: &Cluster, id| (0..4).all(|n| cluster.slot_of(n, id).is_some());
    while !requests.iter().all(|id| is_everywhere(&cluster, *id)) {
        cluster.run_for(DELAY_NS);
        assert!(
            cluster.now_ns < start_ns + 300 * MILLIS,
            "no retransmission is due before 400 ms"
        );
    }
    cluster.assert_sound();
}

/// All replicas lose power at once, in the middle of everything.
#[test]
fn simultaneous_restarts_lose_nothing_that_was_said() {
    for cut in 0..40 {
        let mut cluster = Cluster::new(3, &[NO_HOLD]);
        cluster.watch.weather = Weather {
            delay_ns: (DELAY_NS / 2, 2 * DELAY_NS),
            flush_ns: (DELAY_NS / 2, 2 * DELAY_NS),
            ..Weather::default()
        };
        for node in 0..3 {
            cluster.write(node);
        }
        cluster.run_for(cut * DELAY_NS / 4);
        (0..3).for_each(|node| cluster.crash(node));
        cluster.wire.clear();
        (0..3).for_each(|node| cluster.restart(node));
        cluster.run_for(10 * MILLIS);
        let requests = (0..3).map(|node| cluster.write(node)).collect::<Vec<_>>();
        settle(&mut cluster);
        assert!(
            requests
                .iter()
                .all(|request| cluster.has_everywhere(*request))
        );
    }
}

#[test]
fn the_same_disk_makes_the_decision_once_it_has_written() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.watch.weather.flush_ns = (SECONDS, SECONDS);
    let request = cluster.write(0);
    for peer in [1, 2] {
        cluster.pass(0, peer);
        cluster.flush(peer);
        cluster.pass(peer, 0);
    }
    assert_eq!(cluster.slot_of(0, request), None);
    let written = cluster.nodes[0].disk.len();
    cluster.flush(0);
    assert_eq!(cluster.slot_of(0, request), Some(Slot(0)));
    assert_eq!(
        cluster.nodes[0].disk.len(),
        written,
        "and no vote was wasted on it"
    );
}

#[test]
fn a_held_vote_is_taken_when_the_link_that_was_waited_for_goes_down() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.watch.blocked = [(0, 2)].into();
    let request = cluster.write(0);
    cluster.pass(0, 1);
    cluster.watch.blocked.insert((1, 2));
    assert!(cluster.nodes[1].timers.contains_key(&Timer::Hold(Slot(0))));
    for node in [0, 1] {
        let peer = super::cluster::id(2);
        cluster.step(node, quorate_core::Input::Link { peer, up: false });
    }
    cluster.pass(1, 0);
    assert_eq!(
        cluster.slot_of(0, request),
        Some(Slot(0)),
        "decided without the hold's end"
    );
    assert_eq!(cluster.branch("vote hold expired"), 0);
}
