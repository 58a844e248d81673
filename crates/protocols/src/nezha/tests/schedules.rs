//! Nasty schedules of one view and its successor: which entries survive, and in
//! which order. Each passes, and shows what the rule prevents when that is left out.

use super::super::Timer;
use super::directed::Schedule;
use super::net::Net;
use quorate_core::{MILLIS, SECONDS};

/// S1: a retry with another deadline reaches those who missed the first request; the leader and one
/// follower have the first one. Then the leader dies.
#[test]
fn s1_two_versions_of_an_entry_survive_as_two() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.pass(0, 1, "request");
        net.ripen(0);
        net.pass(0, 1, "log-mod");
        net.take(0, 2, "request");
        net.take(0, 3, "request");
        net.later(4 * MILLIS);
        net.fire(0, Timer::Retry);
        net.spread(0, &[2, 3]);
        net.fall(0);
        net.begin_view(1, &[2, 3]);
        net.agree(1, &[2, 3], &[]);
    };
    Schedule::of(5, run).shows("two-versions", "the result of");
}

/// S2: `W1` and `W2` touch both of two buckets. Only the leader has `W1`, all have `W2`.
#[test]
fn s2_what_touches_two_buckets_cancels_in_their_combined_sum() {
    let run = |net: &mut Net| {
        net.write(0, &[0, 1]);
        net.take(0, 1, "request");
        net.take(0, 2, "request");
        net.write(0, &[0, 1]);
        net.ripen(0);
        net.spread(0, &[1, 2]);
        net.pass(1, 0, "fast-reply");
        net.pass(2, 0, "fast-reply");
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[0]);
    };
    Schedule::of_keys(3, run).shows("xor-sums", "the result of");
}

/// S3: `X` on one bucket is committed fast; `Y` on another one, with a larger deadline, is in the log
/// before it, and synced by a follower. That one leads next, and has something of its own that conflicts
/// with `X`.
#[test]
fn s3_what_is_synced_shuts_out_what_commutes_and_was_committed_fast() {
    let run = |net: &mut Net| {
        net.write(3, &[0]);
        net.take(3, 1, "request");
        net.write(4, &[1]);
        net.spread(4, &[0]);
        net.pass(4, 1, "request");
        net.pass(0, 1, "log-mod");
        net.spread(3, &[0, 2, 3, 4]);
        for member in [0, 2, 4] {
            net.pass(member, 3, "fast-reply");
        }
        net.fall(0);
        net.write(1, &[0]);
        for other in [2, 3] {
            net.take(1, other, "request");
        }
        net.ripen(1);
        net.begin_view(1, &[2, 3]);
        net.agree(1, &[2, 3], &[0]);
    };
    Schedule::of_keys(5, run).shows("global-filter", "the result of");
}

/// `X` is committed fast by all but one, which alone has `Z` with a smaller deadline, and leads the next
/// view.
fn few_against_many(net: &mut Net) {
    net.write(1, &[]);
    for other in [0, 2, 3, 4] {
        net.take(1, other, "request");
    }
    net.ripen(1);
    net.write(0, &[]);
    net.take(0, 1, "request");
    net.ripen(0);
    net.spread(0, &[2, 3, 4]);
    for member in [2, 3, 4] {
        net.pass(member, 0, "fast-reply");
    }
    net.fall(0);
    net.begin_view(1, &[2, 3]);
    net.agree(1, &[2, 3], &[]);
}

#[test]
fn what_too_few_promised_comes_before_what_was_committed_fast() {
    Schedule::of(5, few_against_many).shows("survivors-few", "was answered in");
}

#[test]
fn what_was_committed_fast_does_not_survive_where_more_is_asked_for() {
    Schedule::of(5, few_against_many).shows("survivors-many", "was answered in");
}

#[test]
fn what_was_committed_fast_in_this_order_is_in_that_order() {
    let net = Schedule::of(5, few_against_many).holds();
    assert!(net.branches.get("committed fast") >= Some(&1));
}

/// The leader and the followers have one entry by different deadlines, and the same next one.
#[test]
fn versions_with_other_deadlines_look_the_same() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.take(0, 1, "request");
        net.ripen(0);
        net.spread(0, &[2]);
        net.later(4 * MILLIS);
        net.fire(0, Timer::Retry);
        net.spread(0, &[1]);
        net.write(0, &[]);
        net.ripen(0);
        net.spread(0, &[1, 2]);
        net.pass(1, 0, "fast-reply");
        net.pass(2, 0, "fast-reply");
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("deadline-not-hashed", "was answered in");
}

/// Who has promised an entry waits long for the leader's word of it.
#[test]
fn a_promise_that_is_dropped_is_missing() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.ripen(0);
        net.spread(0, &[1, 2]);
        net.pass(1, 0, "fast-reply");
        net.pass(2, 0, "fast-reply");
        net.fire(1, Timer::Poll);
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("unsynced-dropped", "was answered in");
}

/// S14: a log modification is lost, the next one arrives.
#[test]
fn s14_a_lost_log_modification_is_vouched_for() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.take(0, 1, "request");
        net.ripen(0);
        net.take(0, 1, "log-mod");
        net.agree(0, &[1], &[]);
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("gaps", "delivers");
}

/// S14: nobody but the leader has the bytes of an entry.
#[test]
fn s14_a_body_that_only_the_leader_has_is_fetched() {
    let run = |net: &mut Net| {
        let id = net.write(0, &[]);
        net.take(0, 1, "request");
        net.ripen(0);
        net.pass(0, 1, "log-mod");
        assert_eq!(net.pass(1, 0, "synced"), 0);
        assert_eq!(net.pass(1, 0, "fetch"), 1);
        net.pass(0, 1, "bodies");
        net.pass(1, 0, "synced");
        assert!(net.is_answered(id));
    };
    Schedule::of(3, run).holds();
}

/// S6: a follower holds an entry whose deadline the leader has lowered, and hears of that first.
#[test]
fn s6_what_the_leader_lowered_is_not_released_later() {
    let run = |net: &mut Net| {
        net.nodes[0].clock_ns = -(3600 * 1000 * MILLIS as i64);
        let id = net.write(1, &[]);
        net.pass(1, 0, "request");
        assert_eq!(net.branches.get("far deadline"), Some(&1));
        net.pass(0, 1, "log-mod");
        net.ripen(1);
        let follower = net.nodes[1].machine.as_ref().expect("it runs");
        assert!(follower.unsynced.is_empty() && follower.early.len() == 0);
        assert_eq!(follower.log.items.len(), 1);
        net.pass(0, 1, "fast-reply");
        assert!(net.is_answered(id));
    };
    Schedule::of(3, run).holds();
}

/// What a leader says is late, and a follower's host is told sooner what was decided. So it has lost the sums, and
/// with them the fast path: the leader's next message has it ask, long before its timer does.
#[test]
fn a_follower_that_its_host_overtook_promises_again_after_one_exchange() {
    let run = |net: &mut Net| {
        net.agree(0, &[1], &[0]);
        net.take(0, 2, "request");
        net.take(0, 2, "log-mod");
        net.give_log(0, 2);
        net.agree(0, &[1, 2], &[0]);
        assert_eq!(net.pass(2, 0, "fast-reply"), 0);
        assert_eq!(net.pass(2, 0, "fetch"), 1);
        net.pass(0, 2, "log-mod");
        let id = net.write(0, &[0]);
        net.spread(0, &[1, 2]);
        net.ripen(0);
        assert_eq!(net.pass(1, 0, "fast-reply"), 1);
        assert!(!net.is_answered(id), "the fast path takes all three");
        assert_eq!(net.pass(2, 0, "fast-reply"), 1);
        assert!(net.is_answered(id));
    };
    Schedule::of_keys(3, run).holds();
}

/// The log of a leader did not move for long, and what a client wrote meanwhile waited. What ends that empties the log,
/// and no other step may come.
#[test]
fn what_waited_while_the_log_stood_still_is_sent_when_it_moves() {
    let run = |net: &mut Net| {
        let first = net.write(0, &[]);
        net.pass(0, 1, "request");
        net.ripen(0);
        net.later(SECONDS);
        let second = net.write(0, &[]);
        assert_eq!(net.take(0, 1, "request").len(), 0, "it waits");
        net.pass(0, 1, "log-mod");
        net.pass(1, 0, "synced");
        assert!(net.is_answered(first));
        assert_eq!(net.pass(0, 1, "request"), 1, "it is sent");
        net.ripen(0);
        net.pass(0, 1, "log-mod");
        net.pass(1, 0, "synced");
        assert!(net.is_answered(second));
    };
    Schedule::of(3, run).holds();
}
