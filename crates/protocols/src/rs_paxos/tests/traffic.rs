//! Where the bytes of values go, and under which codes.

use super::coded::{codes, five};
use super::net::Net;
use crate::rs_paxos::Timer;
use bytes::Bytes;
use quorate_core::{Carry, Input, MILLIS, ReplicaId};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

/// What goes out again goes without the bytes; who lacks them says so, and gets them once.
#[test]
fn fragments_are_sent_again_only_to_who_lacks_them() {
    let mut net = five(|_| {});
    let request = net.write_bulk(A);
    net.lose(|_, to, _| to == D || to == E);
    // B and C accept, and A does not hear it of B.
    [B, C].into_iter().for_each(|to| net.pass(A, to));
    net.lose(|from, _, _| from == B);
    net.run();
    assert_eq!((net.times(A, request), net.count("fragment")), (0, 4));
    net.fire(A, Timer::Retransmit);
    net.fire(A, Timer::Retransmit);
    net.run();
    assert_eq!(net.times(A, request), 1);
    assert_eq!(
        (net.count("fragment"), net.count("lacks")),
        (6, 2),
        "D and E"
    );
}

/// Once, hosts kept the whole of what they forwarded, and of what was forwarded to them.
#[test]
fn what_is_forwarded_is_not_for_keeping() {
    let mut net = five(|_| {});
    net.write_bulk(B);
    let attached = |net: &Net| -> Vec<bool> {
        let messages = net.messages().map(|(.., message)| message);
        let attached = messages.filter(|message| message.attachment().is_some());
        attached.map(Carry::is_to_keep).collect()
    };
    assert_eq!(attached(&net), [false]);
    net.pass(B, A);
    assert_eq!(attached(&net), [true; 4]);
}

/// Connections lose nothing but with themselves: what is large has time to arrive.
#[test]
fn what_may_be_under_way_is_not_sent_again() {
    let mut net = five(|_| {});
    let request = net.write_bytes(A, Bytes::from(vec![7; 240_000]));
    net.lose(|_, to, _| to == D || to == E);
    net.run();
    let remind = |net: &mut Net| {
        net.fire(A, Timer::Retransmit);
        net.fire(A, Timer::Retransmit);
        net.run();
    };
    remind(&mut net);
    assert_eq!((net.count("fragment"), net.count("lacks")), (4, 2));
    // The connection to D breaks; that to E is slow.
    for up in [false, true] {
        let peer = ReplicaId(1 + D as u16);
        net.step(A, Input::Link { peer, up });
    }
    net.run();
    assert_eq!(
        (net.count("fragment"), net.times(A, request)),
        (5, 1),
        "{:?}",
        net.watch.sent
    );
    let request = net.write_bytes(A, Bytes::from(vec![8; 240_000]));
    net.lose(|_, to, _| to == D || to == E);
    net.run();
    // It goes behind four fragments of the first, and one of that which was sent again.
    net.now_ns += 71 * MILLIS;
    remind(&mut net);
    assert_eq!(net.times(A, request), 0);
    net.now_ns += MILLIS;
    remind(&mut net);
    assert_eq!(net.times(A, request), 1);
}

/// A long batch said again waits behind itself: until it had its time, and twice what such ones took of
/// late, nobody says it again; a short one is said again at once, and a lost connection is no reason to wait.
#[test]
fn long_batches_have_time_to_arrive() {
    let said_again = |net: &mut Net, at: usize, what: &str| {
        let before = net.count(what);
        // The first time it is still fresh.
        net.fire(at, Timer::Retransmit);
        net.fire(at, Timer::Retransmit);
        net.lose(|_, _, _| true);
        net.count(what) - before
    };
    for (len, again) in [(1000, 4), (40_000, 0)] {
        let mut net = five(|_| {});
        net.write_inline(A, len);
        net.lose(|_, _, _| true);
        assert_eq!(said_again(&mut net, A, "accept"), again, "{len} bytes");
    }
    let mut net = five(|_| {});
    let request = net.write_inline(A, 40_000);
    net.now_ns += 30 * MILLIS;
    net.run();
    assert_eq!(net.times(A, request), 1);
    net.write_inline(A, 40_000);
    net.lose(|_, _, _| true);
    // Four times 40 kB at 10 MB/s, and twice the 30 ms.
    net.now_ns += 75 * MILLIS;
    assert_eq!(said_again(&mut net, A, "accept"), 0);
    let peer = ReplicaId(1 + D as u16);
    net.step(A, Input::Link { peer, up: false });
    let before = net.count("accept");
    net.step(A, Input::Link { peer, up: true });
    assert_eq!(net.count("accept"), before + 1);
    net.lose(|_, _, _| true);
    // What was given to D anew has all the time that was waited for it before.
    net.now_ns += 76 * MILLIS;
    assert_eq!(said_again(&mut net, A, "accept"), 4);
}

/// Of what a follower gives its leader, likewise, nothing goes out again.
#[test]
fn long_forwards_have_time_to_arrive() {
    let forwards = |len: usize, later_ns: u64| {
        let mut net = five(|_| {});
        net.write_inline(B, len);
        net.lose(|_, _, _| true);
        net.now_ns += later_ns;
        // The first time it is still fresh.
        (0..3).for_each(|_| net.fire(B, Timer::Retransmit));
        net.count("forward")
    };
    assert_eq!(forwards(1000, 0), 2);
    // To the leader, and from it to four: 40 kB each, at 10 MB/s.
    assert_eq!(
        (forwards(40_000, 15 * MILLIS), forwards(40_000, 20 * MILLIS)),
        (1, 2)
    );
}

/// A leader that goes on without those that are gone, as far as the profile promises: who is
/// stopped one after the other, and under which code the next value is chosen.
fn stopped_one_by_one(params: &[(&str, &str)], expected: &[u8]) {
    let mut net = Net::coded(5, params).led(A);
    for (gone, code) in [None, Some(E), Some(D), Some(C)].into_iter().zip(expected) {
        if let Some(gone) = gone {
            net.crash(gone);
            net.hint(gone, false);
        }
        let request = net.write_bulk(A);
        net.run();
        assert_eq!(net.times(A, request), 1, "{gone:?}");
        assert_eq!(codes(&net, A).last(), Some(code));
    }
}

#[test]
fn a_prepared_leader_goes_on_with_smaller_codes() {
    stopped_one_by_one(&[], &[3, 3, 2, 1]);
    stopped_one_by_one(&[("profile", "flex")], &[3, 2, 1]);
}

/// Without a word from the links: after some retransmissions, silence is taken for an answer.
#[test]
fn silence_shrinks_the_code() {
    let mut net = five(|_| {});
    for gone in [D, E] {
        net.isolate(gone);
    }
    let request = net.write_bulk(A);
    net.run();
    for _ in 0..7 {
        if net.nodes[A].timers.contains_key(&Timer::Retransmit) {
            net.fire(A, Timer::Retransmit);
        }
        net.run();
    }
    assert_eq!(net.times(A, request), 1);
    assert_eq!(codes(&net, A), [3, 2]);
    let next = net.write_bulk(A);
    net.run();
    assert_eq!(
        (net.times(A, next), codes(&net, A).len()),
        (1, 3),
        "the next one at once"
    );
    net.cut.clear();
    net.write(A);
    net.run();
    net.write_bulk(A);
    net.run();
    assert_eq!(codes(&net, A)[3..], [3], "they answer again");
}

/// Every replica writes a third, and the leader sends four thirds; otherwise it costs the same.
#[test]
fn a_coded_write_costs_a_fragment_for_each() {
    let mut net = five(|_| {});
    net.watch.sent.clear();
    net.nodes.iter_mut().for_each(|node| node.flushes = 0);
    net.write_bulk(A);
    net.run();
    let sent: Vec<_> = std::mem::take(&mut net.watch.sent).into_iter().collect();
    assert_eq!(
        sent,
        [
            ("accept", 4),
            ("accepted", 4),
            ("commit", 4),
            ("fragment", 4)
        ]
    );
    assert!(net.nodes.iter().all(|node| node.flushes == 1));
    let request = net.write_bulk(C);
    net.run();
    assert_eq!(
        (net.count("forward"), net.count("fragment")),
        (1, 5),
        "the whole, and four"
    );
    assert_eq!(net.times(E, request), 1);
}

/// Whole values keep their payloads apart, too.
#[test]
fn multi_paxos_attaches_whole_payloads() {
    let mut net = Net::led_by(A, 3, &[]);
    let request = net.write_bulk(A);
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!((net.times(A, request), codes(&net, B)), (1, vec![1]));
    net.crash(A);
    net.lose(|_, _, _| true);
    net.hint(A, false);
    net.elect(B);
    assert_eq!((net.times(B, request), net.times(C, request)), (1, 1));
}

/// A large value gets its slot once enough members have their fragments; what comes later passes it,
/// and the bytes go once.
#[test]
fn large_values_let_small_ones_pass() {
    let mut net = Net::coded(5, &[("spread_min", "10")]).led(A);
    net.watch.sent.clear();
    let large = net.write_bulk(A);
    let small = net.write(A);
    assert_eq!(net.count("accept"), 4, "of the small one");
    net.pass(A, B);
    net.pass(A, C);
    net.lose(|_, to, _| to == D || to == E);
    net.run();
    assert_eq!(
        (net.times(A, small), net.times(A, large)),
        (1, 0),
        "A, B and C have it"
    );
    net.fire(A, Timer::Retransmit);
    net.fire(A, Timer::Retransmit);
    net.run();
    for me in [A, B, C] {
        assert_eq!((net.times(me, small), net.times(me, large)), (1, 1));
    }
    assert_eq!(net.count("fragment"), 6, "four, and two that were lost");
    assert!(
        (0..5).all(|me| codes(&net, me) == [3]),
        "from memory to the disk"
    );
}

/// As many are under way as of small ones.
#[test]
fn large_values_are_not_all_under_way_at_once() {
    let mut net = Net::coded(5, &[("spread_min", "10"), ("outstanding", "1")]).led(A);
    let requests = [net.write_bulk(C), net.write_bulk(C), net.write(C)];
    assert_eq!(net.wire.len(), 2, "a large one and a small one");
    net.run();
    assert!(requests.iter().all(|request| net.times(E, *request) == 1));
}

/// Members that do not answer shrink the code of what is spread, too.
#[test]
fn silence_shrinks_the_code_of_a_large_value() {
    let mut net = Net::coded(5, &[("spread_min", "10")]).led(A);
    for gone in [D, E] {
        net.isolate(gone);
    }
    let request = net.write_bulk(A);
    net.run();
    for _ in 0..9 {
        if net.nodes[A].timers.contains_key(&Timer::Retransmit) {
            net.fire(A, Timer::Retransmit);
        }
        net.run();
    }
    assert_eq!((net.times(A, request), codes(&net, A)), (1, vec![2]));
}

/// Large values that wait share an entry, up to a bound of their own.
#[test]
fn large_values_that_wait_share_an_entry() {
    let fragments = |spread_bytes| {
        let params = [
            ("spread_min", "10"),
            ("outstanding", "1"),
            ("batch_bytes", "1"),
            ("spread_bytes", spread_bytes),
        ];
        let mut net = Net::coded(5, &params).led(A);
        net.watch.sent.clear();
        let requests = [(); 4].map(|()| net.write_bulk(A));
        net.run();
        assert!(requests.iter().all(|request| net.times(E, *request) == 1));
        net.count("fragment")
    };
    assert_eq!((fragments("1"), fragments("100000")), (16, 8));
}

/// What is forwarded has time to arrive and to come back in fragments, before it is forwarded again.
#[test]
fn what_may_be_on_its_way_to_the_leader_is_not_forwarded_again() {
    let mut net = Net::coded(5, &[]).led(A);
    net.watch.sent.clear();
    let request = net.write_bytes(C, Bytes::from(vec![7; 240_000]));
    let remind = |net: &mut Net, ns| {
        net.lose(|_, to, _| to == A);
        net.now_ns += ns;
        net.fire(C, Timer::Retransmit);
        net.fire(C, Timer::Retransmit);
        net.count("forward")
    };
    // 24 ms there, and 32 ms for four fragments.
    assert_eq!(remind(&mut net, 55 * MILLIS), 1);
    assert_eq!(remind(&mut net, MILLIS), 2);
    net.run();
    assert_eq!(net.times(A, request), 1);
}
