//! Nasty schedules, by name. Those that show a broken rule take what breaks it.

use super::net::{A, B, C, Net};
use crate::domino::{Ask, Config, Mark, Message, Record, Stamp, Timer};
use quorate_core::{Outcome, RequestId};
use quorate_testkit::{Body, Packet};

const D: usize = 3;
const E: usize = 4;
const MILLIS: u64 = 1_000_000;

/// D-S1. An entry of B reaches nobody else in time: the fast lane holds nothing at its stamp, and what A writes behind
/// it is the first in the log. Members start again, and then hear of the entry.
pub(super) fn late_proposals(
    unwritten: Option<fn(&Record) -> bool>,
    restarts: bool,
    breaks: impl Fn(&mut Config),
) {
    let mut net = Net::broken(5, &[], breaks);
    net.watch.unwritten = unwritten;
    let late = net.write(B);
    let held: Vec<_> = [C, D].map(|to| net.hold("propose", B, to)).into();
    net.wire.clear();
    net.now_ns += MILLIS;
    let first = net.write(A);
    let held_beats = |net: &mut Net| {
        net.take_packets(|packet| packet.from == A && kind_is(packet.message(), "beat"));
    };
    for _ in 0..40 {
        held_beats(&mut net);
        if let Some(packet) = net.wire.pop_front() {
            net.receive(packet);
        }
        for me in 0..5 {
            net.0.fire(me, Timer::Hold);
        }
    }
    assert_eq!(net.times(A, first), 1, "{:#?}", net.explained());
    net.crash(A);
    net.wire.clear();
    if restarts {
        [C, D].into_iter().for_each(|me| net.crash(me));
        [C, D].into_iter().for_each(|me| net.return_of(me));
    }
    held.into_iter().for_each(|packets| net.give(packets));
    net.flow();
    net.crash(E);
    net.come_to_rest(&[late, first]);
    [A, E].into_iter().for_each(|me| net.return_of(me));
    net.come_to_rest(&[late, first]);
}

fn kind_is(message: Option<&Message>, what: &str) -> bool {
    message.is_some_and(|message| super::net::kind(message) == what)
}

#[test]
fn whoever_starts_again_votes_for_nothing_it_had_given_up() {
    late_proposals(None, true, |_| {});
    late_proposals(None, false, |_| {});
}

#[test]
fn clocks_that_step_back_an_hour_cost_no_entry() {
    for params in [&[][..], &[("way", "dm")]] {
        let mut net = Net::new(3, params);
        let mut all = vec![net.write(A), net.write(B)];
        net.come_to_rest(&all);
        net.nodes[A].clock_ns = -3_600_000 * MILLIS as i64;
        all.extend([net.write(A), net.write(C)]);
        net.come_to_rest(&all);
        net.nodes[A].clock_ns = 3_600_000 * MILLIS as i64;
        all.extend([net.write(A), net.write(C)]);
        net.come_to_rest(&all);
        net.nodes[A].clock_ns = 0;
        all.extend([net.write(A), net.write(B)]);
        net.come_to_rest(&all);
    }
}

/// D-S3. Stamps are equal where clocks and delays are.
#[test]
fn of_two_entries_at_one_stamp_one_goes_to_a_lane_of_its_own() {
    let mut net = Net::new(3, &[]);
    let both = [net.write(B), net.write(C)];
    net.come_to_rest(&both);
    assert!(net.branch("collision") > 0 && net.sent("accept") > 0);
}

/// D-S4. C has promised another ballot before it hears of the entry.
#[test]
fn whoever_promised_another_leader_votes_no_more_by_the_last_one() {
    let mut net = Net::new(3, &[]);
    let lost = net.write(A);
    let late = net.hold("propose", A, C);
    net.wire.clear();
    net.crash(A);
    net.now_ns += MILLIS;
    let written = net.write(B);
    net.hold("propose", B, C);
    for _ in 0..3 {
        net.0.fire(B, Timer::Election);
        net.take_packets(|packet| kind_is(packet.message(), "accept"));
        net.flow();
    }
    net.give(late);
    let votes = net.hold("vote", C, A);
    let is_for = |message: &Message| matches!(message, Message::Vote(vote) if vote.is_for);
    let mut votes = votes.iter().filter_map(|packet| packet.message());
    assert!(!votes.any(is_for), "{:#?}", net.explained());
    net.come_to_rest(&[written]);
    net.return_of(A);
    net.come_to_rest(&[written]);
    assert!([A, B, C].iter().all(|me| net.times(*me, lost) <= 1));
}

/// D-S5. While the owner of a lane is gone nobody delivers, until its lane is taken over.
#[test]
fn a_lane_whose_owner_is_gone_is_taken_over_whole() {
    for params in [&[][..], &[("way", "dm")]] {
        let mut net = Net::new(3, params);
        let first = net.write(A);
        net.come_to_rest(&[first]);
        net.crash(C);
        let second = net.write(A);
        net.pass(50 * MILLIS);
        assert_eq!(net.times(A, second), 0);
        net.pass(1_000 * MILLIS);
        assert_eq!([A, B].map(|me| net.times(me, second)), [1, 1]);
        // Its lane is led now: what follows waits for nobody's silence, and no phase 1.
        net.watch.kinds.clear();
        for _ in 0..10 {
            let more = net.write(B);
            net.pass(50 * MILLIS);
            assert_eq!(net.times(B, more), 1, "{:#?}", net.explained());
        }
        assert_eq!(net.sent("prepare"), 0);
        net.return_of(C);
        let own = net.write(C);
        net.come_to_rest(&[first, second, own]);
    }
}

/// D-S6. An entry is late in the fast lane, goes to its gateway's lane too, and is chosen in both.
#[test]
fn an_entry_that_is_chosen_twice_takes_effect_once() {
    let mut net = Net::new(3, &[]);
    let first = net.write(C);
    net.come_to_rest(&[first]);
    let twice = net.write(B);
    // C's clock and beat decide nothing: it hears the proposal, and nobody hears it.
    for _ in 0..6 {
        net.take_packets(|packet| kind_is(packet.message(), "beat"));
        net.take_packets(|packet| kind_is(packet.message(), "accepted"));
        while let Some(packet) = net.wire.pop_front() {
            if !kind_is(packet.message(), "beat") && !kind_is(packet.message(), "accepted") {
                net.receive(packet);
            }
        }
        net.0.fire(B, Timer::Retransmit);
    }
    assert!(net.sent("accept") > 0, "it stands in B's own lane, too");
    net.come_to_rest(&[first, twice]);
    assert!(net.branch("decided twice") > 0, "it is chosen in both");
    let end = net.nodes[B].log.len();
    assert_eq!(
        end, 2,
        "a position that is the second of an entry gets no slot"
    );
}

/// Of five, a fast quorum chose an entry; two of it are gone, and one promise shows another entry at that stamp.
pub(super) fn a_minority_beside_what_was_chosen(breaks: impl Fn(&mut Config)) {
    let mut net = Net::broken(5, &[], breaks);
    let lone = net.write(B);
    net.wire.clear();
    let chosen = net.write(D);
    for _ in 0..60 {
        // Nobody hears what A has counted.
        net.take_packets(|packet| packet.from == A);
        if let Some(packet) = net.wire.pop_front() {
            net.receive(packet);
        }
        for me in 0..5 {
            net.0.fire(me, Timer::Hold);
        }
    }
    assert_eq!(net.times(A, chosen), 1, "{:#?}", net.explained());
    [A, D].into_iter().for_each(|me| net.crash(me));
    net.wire.clear();
    net.come_to_rest(&[lone, chosen]);
    [A, D].into_iter().for_each(|me| net.return_of(me));
    net.come_to_rest(&[lone, chosen]);
}

#[test]
fn what_a_fast_quorum_chose_outlives_its_leader() {
    a_minority_beside_what_was_chosen(|_| {});
}

/// A leader of a lane that counts itself before its disk is done, and loses power.
pub(super) fn an_owner_that_loses_power(is_hasty: bool) {
    let mut net = Net::new(3, &[("way", "dm"), ("reserve_ms", "60000")]);
    let first = net.write(A);
    net.come_to_rest(&[first]);
    net.nodes[A].is_stuck = true;
    let lost = net.write(A);
    net.hold("accept", A, C);
    if is_hasty {
        let written = net.nodes[A].out.persisted();
        net.step(A, quorate_core::Input::Durable(written));
    }
    // C reads, and says that there is nothing in its lane.
    net.read(C);
    net.flow();
    assert_eq!(net.times(A, lost) > 0, is_hasty, "{:#?}", net.explained());
    net.crash(A);
    net.crash(B);
    net.wire.clear();
    net.return_of(A);
    let second = net.write(C);
    net.come_to_rest(&[first, second]);
    net.return_of(B);
    net.come_to_rest(&[first, second]);
    assert!(net.times(A, lost) <= 1);
}

#[test]
fn what_is_not_durable_at_its_owner_does_not_count() {
    an_owner_that_loses_power(false);
}

/// A read at a replica that heard nothing of a write that completed. Says what it was answered.
pub(super) fn a_read_that_is_cut_off(breaks: impl Fn(&mut Config)) -> Option<Outcome> {
    let mut net = Net::broken(3, &[("way", "dm")], breaks);
    let first = net.write(A);
    net.come_to_rest(&[first]);
    net.isolate(C);
    let second: RequestId = net.write(A);
    net.pass(2_000 * MILLIS);
    assert_eq!(net.times(A, second), 1, "{:#?}", net.explained());
    let read = net.read(C);
    net.flow();
    let answer = net.answer(C, read).cloned();
    if answer.is_none() {
        net.come_to_rest(&[first, second]);
        assert!(matches!(net.answer(C, read), Some(Outcome::ReadAt(_))));
    }
    answer
}

#[test]
fn a_read_hears_from_a_majority_first() {
    assert_eq!(a_read_that_is_cut_off(|_| {}), None);
}

/// What A writes is accepted by B, and delivered by both; C hears nothing of it, and waits.
fn delivered_by_two(net: &mut Net) -> RequestId {
    net.cut.insert((A, C));
    let written = net.write(A);
    net.flow();
    // C reads, and says that there is nothing in its lane.
    net.read(C);
    net.flow();
    let times = [A, B, C].map(|me| net.times(me, written));
    assert_eq!(times, [1, 1, 0], "{:#?}", net.explained());
    net.crash(A);
    net.wire.clear();
    net.cut.clear();
    written
}

/// B has delivered an entry, and forgot that it had accepted it; A is gone, C never heard of it. B takes A's lane.
pub(super) fn a_member_that_forgot_what_it_delivered(breaks: impl Fn(&mut Config)) {
    let mut net = Net::broken(3, &[("way", "dm")], breaks);
    let written = delivered_by_two(&mut net);
    net.flush(B);
    net.crash(B);
    net.return_of(B);
    net.wire.clear();
    let next = net.write(B);
    for _ in 0..12 {
        for timer in [Timer::Election, Timer::Retransmit] {
            net.0.fire(B, timer);
            // C does not ask what it missed.
            net.run_losing(|packet| {
                let message = packet.message();
                kind_is(message, "ask") || kind_is(message, "mark")
            });
        }
    }
    net.come_to_rest(&[written, next]);
    net.return_of(A);
    net.come_to_rest(&[written, next]);
}

#[test]
fn what_is_told_by_one_that_forgot_counts_for_those_that_have_it() {
    a_member_that_forgot_what_it_delivered(|_| {});
}

/// B has accepted an entry that A delivered, and starts again before it hears of that.
pub(super) fn a_member_that_accepted_and_starts_again(unwritten: Option<fn(&Record) -> bool>) {
    let mut net = Net::new(3, &[("way", "dm")]);
    net.watch.unwritten = unwritten;
    net.cut.insert((A, C));
    let written = net.write(A);
    for _ in 0..2 {
        // What A decides it tells nobody.
        net.run_losing(|packet| packet.from == A && kind_is(packet.message(), "beat"));
        net.read(C);
    }
    net.run_losing(|packet| packet.from == A && kind_is(packet.message(), "beat"));
    let times = [A, B, C].map(|me| net.times(me, written));
    assert_eq!(times, [1, 0, 0], "{:#?}", net.explained());
    net.crash(A);
    net.crash(B);
    net.wire.clear();
    net.cut.clear();
    net.return_of(B);
    let next = net.write(C);
    net.come_to_rest(&[written, next]);
    net.return_of(A);
    net.come_to_rest(&[written, next]);
}

#[test]
fn what_was_accepted_outlives_the_owner_of_its_lane() {
    a_member_that_accepted_and_starts_again(None);
}

/// A whole cluster loses power: nobody knows which time its first slot has.
#[test]
fn a_cluster_that_starts_again_finds_its_order_again() {
    for params in [&[][..], &[("way", "dm")]] {
        let mut net = Net::new(3, params);
        let mut all = vec![net.write(A), net.write(B)];
        net.come_to_rest(&all);
        for _ in 0..3 {
            all.push(net.write(C));
            net.wire.clear();
            (0..3).for_each(|me| net.crash(me));
            // What C's clients asked for may be gone with it.
            all.pop();
            (0..3).for_each(|me| net.return_of(me));
            all.push(net.write(B));
            net.come_to_rest(&all);
        }
    }
}

#[test]
fn an_idle_cluster_arms_no_timer() {
    for params in [&[][..], &[("way", "dm")], &[("heartbeat_ms", "10")]] {
        let mut net = Net::new(3, params);
        assert!(net.timers().is_empty());
        let requests = [net.write(A), net.write(B)];
        net.come_to_rest(&requests);
        let read = net.read(C);
        net.pass(10_000 * MILLIS);
        assert!(net.answer(C, read).is_some());
        assert_eq!(net.timers(), [], "{:#?}", net.explained());
        assert!(net.wire.is_empty());
    }
}

#[test]
fn entries_whose_gateway_is_gone_hold_up_nobody_and_are_kept_by_nobody() {
    let mut net = Net::new(3, &[]);
    net.write(A);
    net.hold("propose", A, C);
    net.flow();
    net.crash(A);
    let written = net.write(B);
    net.come_to_rest(&[written]);
    net.pass(20_000 * MILLIS);
    let orphans = net.explained();
    let are_none = |line: &String| line.contains(" 0 entries without a gateway");
    assert!(orphans.iter().all(are_none), "{orphans:#?}");
    assert_eq!(net.timers(), [], "{:#?}", net.explained());
}

/// A delivered what B has accepted. C takes A's lane over and asks for it again; of that, B's disk has the entry when
/// it loses power, and not the stretch.
#[test]
fn an_entry_that_is_asked_for_again_is_not_hidden_by_a_torn_disk() {
    let mut net = Net::new(3, &[("way", "dm")]);
    net.cut.insert((A, C));
    let written = net.write(A);
    for _ in 0..2 {
        net.run_losing(|packet| packet.from == A && kind_is(packet.message(), "beat"));
        net.read(C);
    }
    net.run_losing(|packet| packet.from == A && kind_is(packet.message(), "beat"));
    assert_eq!([A, B, C].map(|me| net.times(me, written)), [1, 0, 0]);
    net.crash(A);
    net.wire.clear();
    net.cut.clear();
    net.0.fire(C, Timer::Election);
    let asked = net.hold("prepare", C, B);
    net.give(asked);
    let promised = net.hold("promise", B, C);
    assert!(!promised.is_empty());
    net.nodes[C].is_stuck = true;
    net.give(promised);
    let wanted = net.hold("accept", C, B);
    assert!(!wanted.is_empty());
    net.nodes[B].is_stuck = true;
    net.give(wanted);
    assert_eq!(net.nodes[B].unflushed(), 2, "the entry and the stretch");
    net.0.tear(B, 1);
    net.crash(C);
    net.wire.clear();
    [B, C].into_iter().for_each(|me| net.return_of(me));
    let next = net.write(C);
    net.come_to_rest(&[written, next]);
    net.return_of(A);
    net.come_to_rest(&[written, next]);
}

#[test]
fn a_position_an_hour_ahead_is_not_held_for_as_long_as_nearer_ones_come() {
    let mut net = Net::new(3, &[]);
    let first = net.write(B);
    net.come_to_rest(&[first]);
    net.nodes[A].clock_ns = 3_600_000 * MILLIS as i64;
    let far = net.write(A);
    for _ in 0..100 {
        net.write(B);
        net.pass(MILLIS);
    }
    assert_eq!(
        [A, B, C].map(|me| net.times(me, far)),
        [1; 3],
        "{:#?}",
        net.explained()
    );
}

/// C voted for an entry whose gateway is gone, and starts again in an idle cluster.
#[test]
fn whoever_starts_again_with_an_entry_of_nobody_comes_to_rest() {
    let mut net = Net::new(3, &[]);
    let lost = net.write(A);
    net.hold("propose", A, B);
    net.flow();
    net.crash(A);
    net.crash(C);
    net.wire.clear();
    net.return_of(C);
    net.pass(20_000 * MILLIS);
    assert_eq!(
        [B, C].map(|me| net.times(me, lost)),
        [1; 2],
        "{:#?}",
        net.explained()
    );
    assert_eq!(net.timers(), []);
    net.return_of(A);
    net.come_to_rest(&[lost]);
}

/// B lies: it waits for the last position of all. What lies before it is filled, and behind it nothing has a place, for
/// as long as anybody asks.
#[test]
fn behind_the_last_position_nothing_is_placed_and_no_replica_tries_without_end() {
    let mut net = Net::new(3, &[]);
    let first = net.write(B);
    net.come_to_rest(&[first]);
    let (mark, until) = (Mark::default(), Stamp::LAST);
    let lie = Packet {
        number: 0,
        from: B,
        to: A,
        due_ns: 0,
        body: Body::Message(Message::Ask(Ask { mark, until })),
    };
    net.receive(lie);
    net.pass(120_000 * MILLIS);
    for me in [A, B, C] {
        let late = net.write(me);
        net.pass(1_000 * MILLIS);
        assert_eq!(net.times(me, late), 0, "{:#?}", net.explained());
    }
}
