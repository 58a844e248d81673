//! Entries that are held until a time (`toq_us`), and members that are not all asked (`thrifty`).

use super::net::{A, B, C, D, E, Net};
use crate::epaxos::{Config, Timer};
use quorate_core::{Class, ClientId, Input, MICROS, MILLIS, RequestId};
use quorate_testkit::id;

/// What is added to the time that messages are thought to take.
const HELD: [(&str, &str); 1] = [("toq_us", "200")];
/// How long an entry is held by its coordinator, then: half a round trip longer.
const HOLD_NS: u64 = 400 * MICROS;

impl Net {
    /// A new entry arrives at members whose clocks are past its time: they keep it at once.
    fn keep_at_once(&mut self, from: usize, members: &[usize]) {
        for to in members {
            self.nodes[*to].clock_ns += 1_000 * MILLIS as i64;
            self.pass_kind("pre-accept", from, *to);
            self.nodes[*to].clock_ns -= 1_000 * MILLIS as i64;
        }
    }

    /// A member takes the link to another to be down, or not.
    fn link(&mut self, me: usize, to: usize, up: bool) {
        self.step(me, Input::Link { peer: id(to), up });
    }

    /// Has members hear of a recovery, and who recovers hear of them.
    fn join(&mut self, me: usize, members: [usize; 2]) {
        for (to, back) in [("recover", "joined"), ("validate", "validated")] {
            for member in members {
                self.try_pass(to, me, member);
                self.try_pass(back, member, me);
            }
        }
    }
}

#[test]
fn a_write_without_conflicts_takes_two_delays_and_what_it_is_held_for() {
    for (n, is_thrifty) in [(3, false), (3, true), (5, false), (5, true), (7, true)] {
        let thrifty = if is_thrifty { "true" } else { "false" };
        let mut net = Net::new(n, &[HELD[0], ("thrifty", thrifty)]);
        let request = net.set(A, 1);
        net.delay();
        assert_eq!(net.count("pre-accepted"), 0, "they hold it");
        net.wait(HOLD_NS);
        net.delay();
        assert!(net.is_answered(A, request), "{n} members");
        net.run();
        // One of five or seven may be missing, and nobody of three.
        let asked = if is_thrifty { n - 1 - n / 5 } else { n - 1 };
        let kinds = ["pre-accept", "pre-accepted", "commit", "accept", "ask"];
        let sent = kinds.map(|kind| net.count(kind));
        assert_eq!(sent, [asked, asked, n - 1, 0, 0], "{n} members");
    }
}

#[test]
fn a_thrifty_write_goes_to_a_fast_quorum_and_tells_all_what_was_decided() {
    for (n, fast) in [(3, 2), (5, 3), (7, 5)] {
        let mut net = Net::new(n, &[("thrifty", "true")]);
        let request = net.set_all(A);
        net.delay();
        net.delay();
        assert!(net.is_answered(A, request), "{n} members");
        net.run();
        let kinds = ["pre-accept", "pre-accepted", "commit", "ask"];
        let sent = kinds.map(|kind| net.count(kind));
        assert_eq!(sent, [fast - 1, fast - 1, n - 1, 0], "{n} members");
        assert!(
            (0..n).all(|me| net.times(me, request) == 1),
            "with the entry"
        );
    }
}

#[test]
fn a_thrifty_write_goes_to_all_when_it_is_said_again() {
    let mut net = Net::new(3, &[("thrifty", "true")]);
    net.die(B);
    let request = net.set_all(A);
    net.run();
    assert_eq!(net.times(A, request), 0);
    net.fire(A, Timer::Retransmit);
    net.run();
    assert_eq!([A, C].map(|me| net.times(me, request)), [1; 2]);
    // Who is known to be away is asked last.
    net.link(A, B, false);
    let request = net.set_all(A);
    net.run();
    assert_eq!([A, C].map(|me| net.times(me, request)), [1; 2]);
}

/// Two coordinators form conflicting entries at the same time, and their messages cross.
#[test]
fn entries_that_cross_commit_on_the_fast_path_where_they_are_held() {
    for n in [3, 5] {
        for (params, is_fast) in [(&HELD[..], true), (&[][..], false)] {
            let mut net = Net::new(n, params);
            let requests = [net.set_all(A), net.set_all(B)];
            net.delay();
            net.wait(HOLD_NS);
            net.run();
            assert_eq!(net.count("accept") == 0, is_fast, "{n} members");
            let times = requests.map(|request| net.times(C, request));
            assert_eq!(times, [1; 2]);
        }
    }
}

#[test]
fn an_entry_that_comes_late_to_one_takes_the_slow_path() {
    let mut net = Net::new(3, &HELD);
    let first = net.set_all(A);
    let late = net.hold("pre-accept", A, C);
    let second = net.set_all(B);
    net.delay();
    net.wait(HOLD_NS);
    net.release(late);
    assert_eq!(net.branch("entry kept late"), 1);
    net.run();
    assert!(net.count("accept") > 0);
    net.settle(&[first, second]);
}

#[test]
fn nobody_keeps_an_entry_before_its_time_or_long_after() {
    let mut net = Net::new(3, &[HELD[0], ("far_us", "1000")]);
    // It takes all entries of others to be of the future.
    net.nodes[C].clock_ns = -(60 * MILLIS as i64);
    let request = net.set_all(A);
    net.delay();
    for _ in 0..40 {
        net.fire(C, Timer::Hold);
    }
    let due_ns = net.nodes[C].timers[&Timer::Hold] - net.now_ns;
    assert!(due_ns >= MILLIS, "a clock that stands still costs nothing");
    net.wait(HOLD_NS);
    assert!(net.nodes[C].timers.contains_key(&Timer::Hold));
    net.wait(MILLIS);
    assert!(
        !net.nodes[C].timers.contains_key(&Timer::Hold),
        "for `far_us` at most"
    );
    net.run();
    assert_eq!((net.times(A, request), net.count("accept")), (1, 0));
}

#[test]
fn those_are_asked_whose_answers_come_soonest() {
    let mut net = Net::new(5, &[HELD[0], ("thrifty", "true")]);
    for _ in 0..12 {
        // To B messages take longest.
        net.set_all(A);
        let slow = net.hold("pre-accept", A, B);
        net.delay();
        net.wait(HOLD_NS);
        net.release(slow);
        net.run();
        net.lose_all();
    }
    net.watch.sent.clear();
    net.set_all(A);
    assert!(net.hold("pre-accept", A, B).is_empty());
    assert!(!net.hold("pre-accept", A, E).is_empty());
}

/// All that are heard of a fast quorum found the same, and its coordinator is gone.
#[test]
fn what_a_fast_quorum_kept_goes_on() {
    for n in [3, 5] {
        let mut net = Net::new(n, &HELD);
        let request = net.set_all(A);
        net.delay();
        net.wait(HOLD_NS);
        net.lose_all();
        net.die(A);
        net.suspect(B);
        net.settle(&[request]);
        assert_eq!(net.branch("instance made void"), 0, "{n} members");
    }
}

/// A coordinator restarts while its entry is held there, which others keep.
#[test]
fn an_entry_that_its_coordinator_forgot_makes_way() {
    let mut net = Net::new(3, &HELD);
    let forgotten = net.set_all(A);
    net.delay();
    net.die(A);
    net.restart(A);
    let second = net.set_all(A);
    net.settle(&[second]);
    let last = net.set_all(B);
    net.settle(&[last]);
    assert!([A, B, C].iter().all(|me| net.times(*me, forgotten) == 0));
    assert!(net.branch("instance made void") > 0);
}

/// The entry that a coordinator holds is made void by others meanwhile: its commands get another.
#[test]
fn an_entry_that_is_made_void_while_it_is_held_gets_another() {
    let mut net = Net::new(3, &HELD);
    let request = net.set_all(A);
    net.keep_at_once(A, &[B]);
    net.recover(B);
    net.run();
    assert!(net.branch("instance made void") > 0);
    net.settle(&[request]);
}

/// Two entries are kept by two members each, in fast quorums that differ, and recovered by two at the same time: each
/// contradicts the other.
#[test]
fn two_recoveries_that_wait_for_each_other_end() {
    let mut net = Net::new(5, &HELD);
    net.link(B, D, false);
    net.set_all(A);
    net.keep_at_once(A, &[B, D]);
    net.lose_all();
    net.die(A);
    let second = net.set_all(B);
    net.keep_at_once(B, &[C, E]);
    net.wait(HOLD_NS);
    net.lose_all();
    net.recover(B);
    net.join(B, [D, E]);
    net.lose_all();
    net.recover(C);
    net.join(C, [D, E]);
    assert_eq!(net.branch("recovery waits"), 2);
    net.settle(&[second]);
}

/// An entry is committed on the fast path, and nobody but its coordinator knows. Another conflicts with it, which all
/// keep behind it but one that never heard of the first.
pub(super) fn fast_commit_and_what_only_one_keeps(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(5, &HELD, edit);
    net.link(E, A, false);
    net.link(B, E, false);
    let first = net.set_all(E);
    net.keep_at_once(E, &[B, C, D]);
    net.wait(HOLD_NS);
    for member in [B, C, D] {
        net.pass_kind("pre-accepted", member, E);
    }
    assert_eq!(net.times(E, first), 1);
    net.lose_all();
    net.die(E);
    net.set_all(B);
    net.keep_at_once(B, &[A, C, D]);
    net.wait(HOLD_NS);
    net.lose_all();
    net.die(B);
    // The one, and then the other, which came later.
    (0..2).for_each(|_| net.fire(C, Timer::Recover));
    net.join(C, [A, D]);
    net.run();
    let last = net.set_all(C);
    net.settle(&[first, last]);
    net.restart(E);
    net.restart(B);
    net.settle(&[first, last]);
}

#[test]
fn what_members_of_a_fast_quorum_keep_differently_is_made_void() {
    fast_commit_and_what_only_one_keeps(|_| {});
}

/// Two fast quorums share one member, and whoever recovers an entry of one has not heard it.
pub(super) fn two_fast_quorums_and_who_is_heard(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(3, &HELD, edit);
    net.set_all(A);
    net.keep_at_once(A, &[B]);
    net.wait(HOLD_NS);
    let answer = net.hold("pre-accepted", B, A);
    net.lose_all();
    let second = net.set_all(B);
    net.keep_at_once(B, &[C]);
    net.wait(HOLD_NS);
    net.lose_all();
    net.recover(C);
    net.join(C, [A, A]);
    net.recover(B);
    net.join(B, [C, C]);
    net.try_pass("waiting", C, B);
    net.try_pass("accept", B, C);
    net.try_pass("accepted", C, B);
    net.release(answer);
    net.lose_all();
    net.die(A);
    let last = net.set_all(C);
    net.settle(&[second, last]);
    net.restart(A);
    net.settle(&[second, last]);
}

#[test]
fn fast_quorums_and_those_who_are_heard_share_a_member() {
    two_fast_quorums_and_who_is_heard(|_| {});
}

/// A client has two keys written in one entry.
fn set_both(net: &mut Net, me: usize, keys: [u8; 2]) -> [RequestId; 2] {
    let commands = keys.map(|key| {
        let mut command = net.command(Class::Write, vec![key].into(), Vec::new());
        command.id.client = ClientId(me as u64 + 1);
        command
    });
    let requests = commands.clone().map(|command| command.id);
    net.step(me, Input::Submit(commands.into()));
    requests
}

/// Three entries: the first is committed on the fast path, which its coordinator alone knows. The second goes behind
/// it, but for its own coordinator, which has not heard of the first; the third conflicts with the second alone. Who
/// recovers the second waits for the third.
pub(super) fn fast_commit_and_who_waits_behind_it(edit: impl Fn(&mut Config)) {
    let mut net = Net::edited(5, &HELD, edit);
    net.link(B, D, false);
    net.link(E, A, false);
    let first = net.set(A, 1);
    net.keep_at_once(A, &[B, C, D]);
    net.wait(HOLD_NS);
    for member in [B, C, D] {
        net.pass_kind("pre-accepted", member, A);
    }
    assert!(net.is_answered(A, first));
    net.lose_all();
    let third = net.set(B, 2);
    net.keep_at_once(B, &[A, E]);
    net.lose_all();
    // B keeps the second before the third, and E the third before the second.
    let [second, _] = set_both(&mut net, E, [1, 2]);
    net.keep_at_once(E, &[B, C, D]);
    net.wait(HOLD_NS);
    net.lose_all();
    // E recovers the third, and waits.
    net.recover(E);
    net.join(E, [A, D]);
    assert_eq!(net.branch("recovery waits"), 1);
    net.lose_all();
    // C recovers the second, and waits for the third; and the first, against which E speaks.
    net.recover(C);
    let of_first = net.take_packets(|packet| {
        let message = packet
            .message()
            .map(|message| format!("{:?}", message.said));
        message.is_some_and(|said| said.contains("e1."))
    });
    net.recover(C);
    net.join(C, [B, D]);
    assert_eq!(net.branch("recovery waits"), 2);
    net.lose_all();
    of_first
        .into_iter()
        .for_each(|packet| net.wire.push_back(packet));
    net.join(C, [D, E]);
    assert!(net.branch("recovery waits") >= 3);
    for member in [D, E] {
        net.try_pass("accept", C, member);
        net.try_pass("accepted", member, C);
    }
    net.lose_all();
    net.settle(&[first, second, third]);
}

#[test]
fn who_waits_with_a_value_behind_a_fast_commit_does_not_speak_against_it() {
    fast_commit_and_who_waits_behind_it(|_| {});
}
