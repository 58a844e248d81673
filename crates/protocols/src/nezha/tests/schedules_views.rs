//! Nasty schedules of views: late words of earlier ones, leaders that come back, reads.

use super::super::{Message, Timer};
use super::directed::Schedule;
use super::net::Net;
use quorate_core::{Class, MILLIS};

/// S4: the log of a view comes a second time, after the follower synced more.
#[test]
fn s4_a_view_that_begins_again_forgets_what_was_synced() {
    let run = |net: &mut Net| {
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
        net.again(1, 2, "start-view");
        net.fall(1);
        net.begin_view(2, &[0]);
        net.agree(2, &[0], &[]);
    };
    Schedule::of(3, run).shows("start-again", "was answered in");
}

/// S5: who is late asks a follower, which has something that its leader has not.
#[test]
fn s5_a_follower_does_not_tell_its_log_for_the_views() {
    let run = |net: &mut Net| {
        net.begin_view(1, &[2]);
        net.take(1, 0, "start-view");
        net.write(2, &[]);
        net.ripen(2);
        net.pass(1, 0, "view-change-req");
        assert_eq!(net.pass(0, 2, "view-change-req"), 1);
        assert_eq!(net.pass(2, 0, "start-view"), 0);
        net.pass(0, 1, "view-change");
        assert_eq!(net.pass(1, 0, "start-view"), 1);
        let late = net.nodes[0].machine.as_ref().expect("it runs");
        assert_eq!((late.view, late.lnv, late.log.items.len()), (1, 1, 0));
    };
    Schedule::of(3, run).holds();
}

/// A leader begins a view and loses power before that is written down, so it begins it once more, and
/// what it placed before arrives after all. (The model checker found this one.)
#[test]
fn a_leader_that_places_entries_too_early_has_two_logs() {
    let run = |net: &mut Net| {
        net.write(2, &[]);
        net.pass(2, 0, "request");
        net.pass(2, 1, "request");
        net.suspect(2);
        net.watch.is_eager = false;
        net.pass(2, 1, "view-change");
        let early = net.take(1, 0, "log-mod");
        net.fall(1);
        net.restart(1, false);
        net.watch.is_eager = true;
        net.again(2, 1, "view-change");
        net.pass(1, 0, "start-view");
        early.iter().for_each(|message| net.hear(1, 0, message));
        net.write(1, &[]);
        net.ripen(1);
        net.pass(0, 1, "synced");
    };
    Schedule::of(3, run).shows("hasty-leader", "0 delivers s0");
}

/// A leader begins a view with entries that it has only the bytes of, and power fails in the middle of writing that
/// down; what it begins then, with what others have kept, is shorter. (Seed 3000168 found this one.)
#[test]
fn a_view_that_was_not_begun_leaves_no_places_behind() {
    let run = |net: &mut Net| {
        net.watch.is_eager = false;
        net.write(2, &[]);
        net.write(2, &[]);
        net.pass(2, 0, "request");
        net.ripen(0);
        net.pass(0, 2, "log-mod");
        net.flush(2);
        net.fall(0);
        net.restart(0, false);
        net.flush(0);
        net.pass(0, 2, "view-change-req");
        net.flush(2);
        net.pass(2, 1, "view-change");
        net.pass(1, 2, "fetch");
        net.pass(2, 1, "bodies");
        // That it changes views, and the two entries.
        assert_eq!(net.unflushed(1), 4);
        net.wire.retain(|packet| packet.from != 1);
        net.tear(1, 3);
        net.restart(1, false);
        net.flush(1);
        net.pass(0, 1, "view-change");
        net.flush(1);
        net.write(1, &[]);
        net.ripen(1);
        net.flush(1);
        net.fall(1);
        net.restart(1, false);
        let leader = net.nodes[1].machine.as_ref().expect("it runs");
        assert_eq!((leader.lnv, leader.log.items.len()), (1, 1));
        net.watch.is_eager = true;
    };
    Schedule::of(3, run).holds();
}

/// The old leader's promises come when the view has begun, and are longer than its log.
#[test]
fn who_is_late_changes_the_log_of_a_view() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.write(0, &[]);
        net.ripen(0);
        for follower in [1, 2] {
            net.take(0, follower, "request");
            net.take(0, follower, "log-mod");
        }
        net.begin_view(1, &[2]);
        net.write(2, &[]);
        net.spread(2, &[1]);
        net.pass(1, 2, "log-mod");
        net.pass(1, 2, "fast-reply");
        net.pass(1, 0, "view-change-req");
        net.pass(0, 1, "view-change");
        net.pass(1, 0, "fetch");
        net.pass(0, 1, "bodies");
        net.pass(2, 1, "synced");
    };
    Schedule::of(3, run).shows("starts-twice", "was answered in");
}

/// S11: a follower was far in view 0; in view 1, which it has not joined, the log is another one.
#[test]
fn s11_how_far_a_follower_was_in_an_earlier_view_counts_in_this_one() {
    let run = |net: &mut Net| {
        for _ in 0..2 {
            net.write(4, &[]);
            net.pass(4, 0, "request");
            net.pass(4, 3, "request");
        }
        net.take(4, 1, "request");
        net.take(4, 2, "request");
        net.ripen(0);
        net.pass(0, 3, "log-mod");
        net.pass(3, 4, "synced");
        net.begin_view(1, &[2, 4]);
        net.write(4, &[]);
        net.spread(4, &[1]);
        net.pass(1, 4, "log-mod");
        net.pass(1, 4, "fast-reply");
        net.fall(1);
        net.fall(4);
        net.begin_view(2, &[3, 0]);
        net.agree(2, &[3, 0], &[]);
    };
    Schedule::of(5, run).shows("any-sync-point", "was answered in");
}

/// S12: a leader tells a follower of an entry, and crashes before its disk has it.
#[test]
fn s12_a_leader_that_leads_on_after_a_crash_tells_two_logs() {
    let run = |net: &mut Net| {
        net.watch.is_eager = false;
        net.write(0, &[]);
        net.pass(0, 1, "request");
        net.ripen(0);
        net.pass(0, 1, "log-mod");
        net.flush(1);
        net.fall(0);
        net.restart(0, false);
        net.write(0, &[]);
        net.pass(0, 2, "request");
        net.ripen(0);
        net.flush(0);
        net.pass(0, 2, "log-mod");
        net.flush(2);
        net.pass(2, 0, "synced");
        net.flush(0);
        net.fall(0);
        net.watch.is_eager = true;
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("same-leader", "delivers");
}

/// S13: the log of view 1 comes when view 2 has begun.
#[test]
fn s13_the_log_of_an_old_view_changes_nothing() {
    let run = |net: &mut Net| {
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
        net.begin_view(2, &[0]);
        let id = net.agree(2, &[0], &[]);
        assert!(net.is_answered(id));
        let is_of = |net: &Net| {
            let late = net.nodes[0].machine.as_ref().expect("it runs");
            (late.view, late.end())
        };
        let before = is_of(net);
        assert_eq!(before.0, 2);
        assert_eq!(net.pass(1, 0, "start-view"), 1);
        assert_eq!(is_of(net), before);
    };
    Schedule::of(3, run).holds();
}

/// S15: a leader is deposed with entries executed that nobody else has, and leads again later.
#[test]
fn s15_a_deposed_leader_forgets_what_it_executed() {
    let run = |net: &mut Net| {
        let lost = [net.write(0, &[]), net.write(0, &[])];
        net.ripen(0);
        for follower in [1, 2] {
            net.take(0, follower, "request");
            net.take(0, follower, "log-mod");
        }
        net.begin_view(1, &[2]);
        let first = net.agree(1, &[2], &[]);
        net.begin_view(2, &[0]);
        net.fall(1);
        net.begin_view(0, &[2]);
        let leader = net.nodes[0].machine.as_ref().expect("it runs");
        assert!(leader.leads() && leader.view == 3, "{leader:?}");
        let last = net.agree(0, &[2], &[]);
        assert!(net.is_answered(first));
        net.later(4 * MILLIS);
        net.fire(0, Timer::Retry);
        net.ripen(0);
        net.exchange();
        assert!(net.is_answered(last) && lost.iter().all(|id| net.is_answered(*id)));
    };
    Schedule::of(3, run).holds();
}

/// A leader that was deposed does not know it, and is asked.
#[test]
fn a_read_that_nobody_confirms_is_stale() {
    let run = |net: &mut Net| {
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
        net.submit(0, Class::Read);
    };
    Schedule::of(3, run).shows("unconfirmed-reads", "a stale read");
}

/// A read is to see what was answered in view 0: there it is in the first slot. In view 1, in which it is
/// decided, what commutes with it comes first; the reader has that from its host.
#[test]
fn a_read_misses_what_has_changed_places() {
    let run = |net: &mut Net| {
        // By its deadline this one is first, and it is late at the leader alone.
        net.nodes[3].clock_ns = -100_000;
        net.write(3, &[1]);
        net.nodes[3].clock_ns = 0;
        net.take(3, 0, "request");
        net.spread(3, &[1, 2, 3, 4]);
        let x = net.write(0, &[0]);
        net.ripen(0);
        net.spread(0, &[1, 2, 3, 4]);
        for member in [1, 2, 3] {
            net.pass(member, 0, "fast-reply");
        }
        assert!(net.is_answered(x), "fast, in the first slot");
        net.submit(4, Class::Read);
        for member in [0, 1, 2] {
            net.pass(4, member, "read?");
            net.pass(member, 4, "read!");
        }
        net.fall(0);
        net.begin_view(1, &[2, 3]);
        net.pass(2, 1, "synced");
        net.pass(3, 1, "synced");
        net.give_log(1, 4);
    };
    Schedule::of_keys(5, run).shows("reads-where-it-was", "a stale read");
    assert_eq!(
        Schedule::of_keys(5, run).holds().watch.history.reads_done,
        1
    );
}

/// Links are slow: answers come after the question was asked three times more.
#[test]
fn a_read_counts_answers_that_take_longer_than_its_timer() {
    let run = |net: &mut Net| {
        net.submit(1, Class::Read);
        net.pass(1, 0, "read?");
        let late = net.take(0, 1, "read!");
        assert_eq!(late.len(), 1);
        for _ in 0..3 {
            net.fire(1, Timer::Reads);
        }
        for message in late {
            net.hear(0, 1, &message);
        }
        assert_eq!(net.watch.history.reads_done, 1);
    };
    Schedule::of(3, run).holds();
}

/// Links are slow: fifty messages of a view that was left come at once, and fifty requests for the log of the
/// next. One answer to each member is enough; more would be what the next fifty queue behind.
#[test]
fn late_messages_of_an_earlier_view_get_one_answer() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.ripen(0);
        let late = net.take(0, 2, "log-mod");
        assert!(!late.is_empty());
        net.begin_view(1, &[2]);
        net.take(2, 0, "view-change-req");
        net.take(1, 2, "start-view");
        let asks = Message::VcReq {
            view: 1,
            cv: vec![0; 3],
        };
        for _ in 0..50 {
            net.hear(0, 2, &late[0]);
            net.hear(2, 1, &asks);
        }
        assert_eq!(net.take(2, 0, "view-change-req").len(), 1);
        assert_eq!(net.take(1, 2, "start-view").len(), 1);
        // What was said may be lost.
        net.later(4 * MILLIS);
        net.hear(0, 2, &late[0]);
        net.hear(2, 1, &asks);
        assert_eq!(net.take(2, 0, "view-change-req").len(), 1);
        assert_eq!(net.take(1, 2, "start-view").len(), 1);
    };
    Schedule::of(3, run).holds();
}
