//! Directed schedules: one hazard each, with what the protocol does about it.

use super::cluster::{Cluster, DELAY_NS, Packet, Weather};
use crate::rabia::{Config, Message, Rabia, Record, Timer};
use crate::registry::{Protocol, Sabotage};
use quorate_core::{Class, MILLIS, Outcome, SECONDS, Slot};

const NO_HOLD: (&str, &str) = ("vote_hold_us", "0");

/// A directed schedule, with the records its replicas forget.
type Schedule = fn(Option<fn(&Record) -> bool>) -> Cluster;

fn omission(name: &str) -> fn(&Record) -> bool {
    let mutant = Rabia::mutants()
        .into_iter()
        .find(|m| m.name == name)
        .unwrap();
    match mutant.sabotage {
        Sabotage::Forget(forget) => forget,
        Sabotage::Config(_) | Sabotage::Amnesia => panic!("{name} omits no record"),
    }
}

fn settle(cluster: &mut Cluster) {
    let is_silent = cluster.run_until_silent(10 * SECONDS);
    cluster.assert_sound();
    assert!(is_silent, "silence in the end");
}

fn settle_for(cluster: &mut Cluster, ns: u64) {
    cluster.run_for(ns);
    cluster.assert_sound();
}

#[test]
fn idle_replicas_say_nothing_and_wait_for_nothing() {
    let mut cluster = Cluster::new(3, &[]);
    assert!(cluster.run_until_silent(0));
    let request = cluster.write(1);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request));
    assert_eq!(cluster.chosen.len(), 1, "a lone batch takes one slot");
    let sent = cluster.sent.clone();
    cluster.run_for(60 * SECONDS);
    assert_eq!(cluster.sent, sent);
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

/// D15: a write is decided, and only its origin knows; it is cut off, and so is whoever proposed
/// the write too. The two others are no quorum of reads.
fn read_beside_the_only_decider(sabotage: fn(&mut Config)) -> Cluster {
    let mut cluster = Cluster::with(5, &[NO_HOLD], 1, sabotage);
    let apart = |cluster: &mut Cluster, some: &[usize], others: &[usize]| {
        for a in some {
            let pairs = others.iter().flat_map(|b| [(*a, *b), (*b, *a)]);
            cluster.blocked.extend(pairs);
        }
    };
    apart(&mut cluster, &[0, 1, 2], &[3, 4]);
    let write = cluster.write(0);
    for (from, to) in [(0, 1), (0, 2), (1, 2), (2, 1), (1, 0), (2, 0)] {
        cluster.pass(from, to);
    }
    assert_eq!(cluster.slot_of(0, write), Some(Slot(0)));
    assert!((1..5).all(|node| cluster.slot_of(node, write).is_none()));
    apart(&mut cluster, &[0], &[1, 2]);
    cluster.net.clear();
    cluster.submit(4, Class::Read);
    cluster.run_for(20 * DELAY_NS);
    cluster
}

#[test]
fn a_read_is_not_answered_beside_the_only_decider() {
    let mut cluster = read_beside_the_only_decider(|_| {});
    assert!(cluster.nodes[4].replies.is_empty());
    cluster.blocked.retain(|(a, b)| *a == 0 || *b == 0);
    settle_for(&mut cluster, 100 * MILLIS);
    let replies = &cluster.nodes[4].replies;
    assert!(
        matches!(replies[..], [(_, Outcome::ReadAt(Slot(1)))]),
        "{replies:?}"
    );
    assert_eq!(
        cluster.entries(4).len(),
        1,
        "and the slot it waits for ends"
    );
}

#[test]
fn one_mark_too_few_is_a_stale_read() {
    let cluster = read_beside_the_only_decider(|config| config.thresholds.read -= 1);
    let replies = &cluster.nodes[4].replies;
    assert!(
        matches!(replies[..], [(_, Outcome::ReadAt(Slot(0)))]),
        "{replies:?}"
    );
}

/// A mark counted a proposal that its proposer's disk never held: nobody else knows of the slot,
/// and who waits for it has it run.
#[test]
fn a_read_waits_for_no_proposal_that_is_lost() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.blocked = [(0, 1), (0, 2)].into();
    cluster.weather.flush_ns = (SECONDS, SECONDS);
    cluster.write(0);
    cluster.blocked = [(2, 1)].into();
    cluster.submit(2, Class::Read);
    cluster.run_for(4 * DELAY_NS);
    let at_one = |cluster: &Cluster| cluster.nodes[2].replies[0].1 == Outcome::ReadAt(Slot(1));
    assert!(at_one(&cluster));
    cluster.crash(0);
    cluster.weather.flush_ns = (0, 0);
    cluster.blocked.clear();
    settle(&mut cluster);
    assert_eq!(cluster.nodes[2].log, [None]);
}

/// D10: both others decided, one of them is gone, and the laggard still learns the outcome.
#[test]
fn a_laggard_learns_what_both_others_decided_from_the_one_that_lives() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.blocked = [(0, 2), (1, 2), (2, 0), (2, 1)].into();
    let late = cluster.write(2);
    let request = cluster.write(0);
    cluster.run_for(10 * MILLIS);
    assert!(cluster.slot_of(1, request).is_some() && cluster.slot_of(2, request).is_none());
    cluster.crash(1);
    cluster.blocked.clear();
    settle(&mut cluster);
    assert_eq!(cluster.entries(0), cluster.entries(2));
    assert!(cluster.slot_of(0, late).is_some() && cluster.slot_of(2, request).is_some());
}

#[test]
fn a_laggard_many_windows_behind_catches_up_through_the_host() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.blocked = [(0, 2), (1, 2), (2, 0), (2, 1)].into();
    for _ in 0..50 {
        cluster.write(0);
        cluster.run_for(2 * MILLIS);
    }
    cluster.blocked.clear();
    let request = cluster.write(1);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request));
    assert!(cluster.count("fetch") > 0);
}

/// D11: the origin dies after one replica got its batch.
#[test]
fn a_batch_that_reached_one_idle_replica_reaches_all() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.blocked = [(0, 2)].into();
    let request = cluster.write(0);
    cluster.crash(0);
    settle(&mut cluster);
    assert!(cluster.slot_of(1, request).is_some() && cluster.slot_of(2, request).is_some());
    assert!(cluster.branch("need sent") > 0);
}

/// D18: a proposal left, its batch did not, and the origin is gone. The slot is forfeited; the
/// batch comes back with its origin's disk.
#[test]
fn a_slot_named_for_a_lost_batch_is_forfeited() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.blocked = [(0, 1), (0, 2)].into();
    let request = cluster.write(0);
    cluster.blocked.clear();
    // Everything is said again after a while; only the proposal arrives, then the origin dies.
    while cluster.net.is_empty() {
        cluster.run_for(DELAY_NS / 2);
    }
    let is_slot = |packet: &Packet| matches!(packet, Packet::Message(Message::Slot(_)));
    cluster.net.retain(|packet| is_slot(&packet.packet));
    cluster.crash(0);
    settle(&mut cluster);
    assert!(cluster.branch("adopt wait expired") > 0);
    assert_eq!(cluster.nodes[1].log, [None]);
    cluster.restart(0);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request));
}

/// D16: a clock that is wrong makes its origin wait as long as the skew allows, never longer.
#[test]
fn an_origin_with_a_wrong_clock_is_served_under_load() {
    for offset_ns in [10 * SECONDS as i64, -10 * (SECONDS as i64)] {
        let mut cluster = Cluster::new(3, &[("hlc_max_skew_ms", "50")]);
        cluster.nodes[2].clock_offset_ns = offset_ns;
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
    cluster.sent.clear();
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
        cluster.weather.flush_ns = (DELAY_NS / 2, DELAY_NS);
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

/// D6 and D7. Replica 2 is the second of the proposals by which 0 decides its request; then it
/// loses them. 1 has heard nothing of the request, and proposes its own.
fn loss_after_a_proposal(amnesia: bool, sabotage: fn(&mut Config)) -> Cluster {
    let mut cluster = Cluster::with(3, &[NO_HOLD, ("window", "1")], 1, sabotage);
    cluster.amnesia = amnesia;
    for _ in 0..3 {
        cluster.write(0);
        settle(&mut cluster);
    }
    cluster.blocked = [(0, 1), (1, 0), (2, 1)].into();
    let request = cluster.write(0);
    cluster.pass(0, 2);
    cluster.pass(2, 0);
    cluster.pass(0, 2);
    cluster.pass(2, 0);
    assert_eq!(cluster.slot_of(0, request), Some(Slot(3)));
    cluster.crash(2);
    cluster.blocked = [(0, 1), (0, 2), (1, 0), (2, 0)].into();
    cluster.net.clear();
    cluster.write(1);
    cluster.restart_lost(2);
    cluster.run_for(100 * MILLIS);
    cluster
}

#[test]
fn what_was_lost_is_not_promised_otherwise() {
    let mut cluster = loss_after_a_proposal(false, |_| {});
    assert!(cluster.nodes[1].log.len() == 3 && !cluster.is_serving(2));
    cluster.blocked.clear();
    settle(&mut cluster);
    assert!(cluster.is_serving(2));
    assert_eq!(cluster.entries(2).len(), 5);
    let broken = loss_after_a_proposal(true, |_| {});
    assert!(broken.violation.is_some(), "no floor");
    let hasty = loss_after_a_proposal(false, |config| config.thresholds.rejoin = 0);
    assert!(
        hasty.violation.is_some(),
        "a floor that nobody was asked for"
    );
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
    cluster.blocked = [(0, 2), (1, 2)].into();
    cluster.run_for(SECONDS);
    let slots = cluster.chosen.len();
    assert!(slots <= 4, "up to the floor and no further: {slots}");
    cluster.run_for(10 * SECONDS);
    assert_eq!(cluster.chosen.len(), slots);
    cluster.blocked.clear();
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

/// D21: replica 0 says NULL in slot 0 because slot 1, of the next lane, needs it. It restarts
/// knowing of neither, and gets a request for slot 0.
fn restart_inside_an_idle_run(forget: Option<fn(&Record) -> bool>) -> Cluster {
    let mut cluster = Cluster::new(3, &[NO_HOLD, ("lanes", "3")]);
    cluster.forget = forget;
    cluster.write(1);
    let is_batch = |packet: &Packet| matches!(packet, Packet::Message(Message::Batch { .. }));
    cluster.net.retain(|packet| !is_batch(&packet.packet));
    cluster.pass(1, 0);
    cluster.crash(0);
    cluster.restart(0);
    cluster.write(0);
    cluster
}

#[test]
fn what_was_null_is_null_after_a_restart() {
    let mut cluster = restart_inside_an_idle_run(None);
    settle(&mut cluster);
    assert_eq!(cluster.entries(0).len(), 2);
    assert_eq!(cluster.nodes[0].log[0], None);
    let broken = restart_inside_an_idle_run(Some(omission("no-forced-null")));
    assert!(broken.violation.is_some_and(|what| what.contains("(I1)")));
}

/// D22: what a peer says in one slot says nothing of the slots before it, whose messages may be
/// lost.
#[test]
fn a_slot_that_was_not_named_is_not_null() {
    let mut cluster = Cluster::new(3, &[("lanes", "3")]);
    cluster.write(0);
    cluster.lose(0, 1);
    cluster.write(2);
    cluster.pass(0, 1);
    cluster.pass(2, 1);
    let slot = &cluster.nodes[1].machine.as_ref().unwrap().slots[0];
    assert_eq!(slot.voices[0].prop, None);
    settle(&mut cluster);
    assert_eq!(cluster.entries(1).len(), 2);
}

/// D23: with f down, a peer one slot ahead is heard at once, not after a retransmission.
#[test]
fn a_peer_one_slot_ahead_is_not_asked_to_say_it_again() {
    let mut cluster = Cluster::new(5, &[("f", "1"), ("lanes", "5"), ("rtt_us", "100000")]);
    cluster.crash(4);
    cluster.weather.delay_ns = (DELAY_NS / 2, 3 * DELAY_NS);
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
        cluster.weather = Weather {
            delay_ns: (DELAY_NS / 2, 2 * DELAY_NS),
            flush_ns: (DELAY_NS / 2, 2 * DELAY_NS),
            ..Weather::default()
        };
        for node in 0..3 {
            cluster.write(node);
        }
        cluster.run_for(cut * DELAY_NS / 4);
        (0..3).for_each(|node| cluster.crash(node));
        cluster.net.clear();
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

/// D3. Replica 0 proposes the newer batch in slot 0 and the older, come later, in slot 1. If it
/// forgets, it proposes them the other way round.
fn restart_between_proposals(forget: Option<fn(&Record) -> bool>) -> Cluster {
    let mut cluster = Cluster::new(3, &[NO_HOLD]);
    cluster.forget = forget;
    cluster.write(1);
    cluster.now_ns += 10;
    cluster.write(2);
    let is_batch = |packet: &Packet| matches!(packet, Packet::Message(Message::Batch { .. }));
    cluster.net.retain(|packet| is_batch(&packet.packet));
    cluster.pass(2, 0);
    cluster.pass(1, 0);
    cluster.crash(0);
    cluster.restart(0);
    cluster
}

/// D4 and D5 begin alike: 0 proposes a, 1 and 2 propose b. 2 has heard 1 and votes 1; 1 has heard
/// 0 and votes ?; 0 has heard 1, votes ?, and goes on with State 0.
fn three_opinions(forget: Option<fn(&Record) -> bool>) -> Cluster {
    let mut cluster = Cluster::new(3, &[NO_HOLD, ("window", "1")]);
    cluster.forget = forget;
    cluster.write(0);
    cluster.write(1);
    cluster.pass(1, 2);
    cluster.pass(0, 1);
    cluster.pass(1, 0);
    let trails = |cluster: &Cluster| -> Vec<String> {
        let slots = cluster
            .nodes
            .iter()
            .map(|node| &node.machine.as_ref().unwrap().slots[0]);
        slots
            .map(|slot| format!("{:?}", slot.own().trail))
            .collect()
    };
    assert_eq!(trails(&cluster), ["[V0=? S1=0]", "[V0=?]", "[V0=1]"]);
    cluster
}

/// D4. Replica 0 restarts behind its State, and hears the vote 1 it had not heard.
fn restart_after_state(forget: Option<fn(&Record) -> bool>) -> Cluster {
    let mut cluster = three_opinions(forget);
    cluster.crash(0);
    cluster.restart(0);
    cluster.lose(1, 0);
    cluster.pass(2, 0);
    cluster
}

/// D5. Replica 2 restarts behind its vote, and hears of a before it hears of b again.
fn restart_after_vote(forget: Option<fn(&Record) -> bool>) -> Cluster {
    let mut cluster = three_opinions(forget);
    cluster.crash(2);
    cluster.restart(2);
    cluster.lose(1, 2);
    cluster.pass(0, 2);
    cluster
}

#[test]
fn what_was_said_is_said_again_after_a_restart() {
    for schedule in [
        restart_between_proposals,
        restart_after_state,
        restart_after_vote,
    ] {
        let mut cluster = schedule(None);
        settle(&mut cluster);
        assert_eq!(cluster.entries(0), cluster.entries(1));
    }
}

#[test]
fn each_record_left_out_lets_a_replica_contradict_itself() {
    let schedules: [(&str, Schedule); 3] = [
        ("no-proposal-record", restart_between_proposals),
        ("no-state-record", restart_after_state),
        ("no-vote-record", restart_after_vote),
    ];
    for (name, schedule) in schedules {
        let violation = schedule(Some(omission(name))).violation;
        assert!(
            violation.is_some_and(|what| what.contains("(I1)")),
            "{name}"
        );
    }
}

/// Two of three proposals agree, one of them the decider's own and not yet on disk; the third
/// replica proposes something else. Were the own one counted, a crash now would leave one
/// proposal for each request, and the decision already acted upon could not be found again.
#[test]
fn a_decision_does_not_count_what_the_own_disk_may_still_forget() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.weather.flush_ns = (SECONDS, SECONDS);
    let request = cluster.write(0);
    cluster.pass(0, 1);
    cluster.pass(0, 2);
    cluster.flush(1);
    cluster.flush(2);
    cluster.pass(1, 0);
    cluster.pass(2, 0);
    assert_eq!(
        cluster.slot_of(0, request),
        None,
        "three equal proposals, one not durable"
    );
    cluster.crash(0);
    cluster.restart(0);
    assert!(cluster.nodes[0].disk.is_empty());
    cluster.weather.flush_ns = (0, 0);
    let other = cluster.write(0);
    settle(&mut cluster);
    assert!(cluster.has_everywhere(request) && cluster.has_everywhere(other));
}

#[test]
fn the_same_disk_makes_the_decision_once_it_has_written() {
    let mut cluster = Cluster::new(3, &[]);
    cluster.weather.flush_ns = (SECONDS, SECONDS);
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
    cluster.blocked = [(0, 2)].into();
    let request = cluster.write(0);
    cluster.pass(0, 1);
    cluster.blocked.insert((1, 2));
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
