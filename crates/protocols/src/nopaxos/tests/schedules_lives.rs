//! Nasty schedules of sequencers and of starts.

use super::net::{Net, kind_of};
use super::schedules::{A, B, C, SOUND};
use crate::nopaxos::{Config, Message, Record, Timer, View};
use quorate_core::MemberIndex;

/// N-S4: B stamps something for A alone, starts again, and stamps something else for itself and C.
pub(super) fn a_sequencer_that_starts_again(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(3, &[], edit).begun();
    net.nodes[B].is_stuck = true;
    let x = net.write(A);
    net.pass(A, B);
    net.pass(B, A);
    net.wire.clear();
    net.crash(B);
    net.restart(B);
    net.isolate(A);
    let y = net.write(C);
    for _ in 0..3 {
        net.run();
        net.may_fire(C, Timer::Retry);
    }
    net.settle(&[x, y]);
    net
}

#[test]
fn a_sequencer_that_starts_again_leaves_its_session() {
    let net = a_sequencer_that_starts_again(SOUND);
    assert!(net.machine(A).view.session > View::FIRST.session);
}

/// N-S7: the session is given up, and its sequencer goes on stamping.
#[test]
fn stamps_of_a_session_that_is_over_are_dropped() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(C);
    net.isolate(B);
    net.wire.clear();
    for _ in 0..2 {
        net.may_fire(C, Timer::Sequencer);
        net.run();
    }
    assert_eq!(
        net.machine(C).config.sequencer(net.machine(C).view),
        MemberIndex::new(C)
    );
    assert!(net.is_committed(C, x), "by A and C");
    let y = net.write(B);
    let old: Vec<Message> = net
        .messages()
        .map(|(.., message)| message.clone())
        .collect();
    net.wire.clear();
    net.cut.clear();
    let marked = old.iter().find(|message| kind_of(message) == "marked");
    net.hear(B, A, marked.expect("B stamps in its session"));
    assert_eq!(net.branch("stamp of an old session"), 1);
    net.settle(&[x, y]);
}

/// A member wants another view, which A starts.
fn move_to(net: &mut Net, by: usize, view: View) {
    net.hear(by, A, &Message::ViewChangeReq(view));
    net.run();
    assert_eq!(net.machine(A).last_normal, view);
}

/// C leaves the view in which A has both roles, says so to B, and forgets that if it is not written.
pub(super) fn a_member_that_left_and_starts_again(forget: Option<fn(&Record) -> bool>) -> Net {
    let mut net = Net::new(3, &[]).begun();
    move_to(
        &mut net,
        C,
        View {
            lead: 0,
            session: 3,
        },
    );
    let w = net.write(A);
    net.run();
    net.watch.forget = forget;
    net.cut.extend([(C, A), (A, C)]);
    net.suspect(C);
    let left = net.take_packets(|packet| packet.to == B);
    net.crash(C);
    net.restart(C);
    net.cut.clear();
    net.wire.clear();
    let x = net.write(A);
    net.lose(|_, to, _| to == B);
    net.pass(A, C);
    net.pass(C, A);
    assert_eq!(net.is_committed(A, x), forget.is_some(), "by A and C");
    net.isolate(A);
    net.wire.clear();
    net.release(left);
    net.run();
    let y = net.write(B);
    for _ in 0..6 {
        for me in [B, C] {
            for timer in [Timer::Sync, Timer::Retry, Timer::Sequencer] {
                net.may_fire(me, timer);
                net.run();
            }
        }
    }
    net.settle(&[w, x, y]);
    net
}

#[test]
fn what_is_left_stays_left_across_starts() {
    a_member_that_left_and_starts_again(None);
}

/// C had A's log in A's first view; what it said of that comes when A leads another one, with another log.
pub(super) fn a_log_of_another_view(edit: fn(&mut Config)) -> Net {
    let mut net = Net::edited(5, &[], edit).begun();
    net.nodes[B].is_stuck = true;
    net.write(B);
    net.pass(B, A);
    net.pass(B, C);
    net.fire(A, Timer::Sync);
    net.pass(A, C);
    let late = net.hold("sync reply", A);
    assert_eq!(late.len(), 1);
    // A and C have it, and B forgets it. The others start a view without it, in which D stamps, and A joins.
    net.crash(B);
    net.isolate(A);
    net.isolate(C);
    net.wire.clear();
    net.restart(B);
    net.run();
    let second = View {
        lead: 1,
        session: 3,
    };
    net.hear(3, B, &Message::ViewChangeReq(second));
    net.run();
    assert_eq!(net.machine(B).last_normal, second);
    net.cut.clear();
    net.isolate(C);
    net.hear(B, A, &Message::ViewChangeReq(second));
    net.run();
    assert!(net.machine(A).last_normal == second && net.machine(A).log.len() == 0);
    // A leads again, and has something else that D stamped, and nobody but these two.
    move_to(&mut net, B, View { lead: 5, ..second });
    net.write(3);
    net.lose(|_, to, _| to != A);
    net.run();
    net.fire(A, Timer::Sync);
    net.lose(|_, to, _| to != 3);
    net.run();
    assert_eq!(net.machine(A).log.len(), 1);
    net.cut.clear();
    net.release(late);
    net.crash(A);
    net.crash(3);
    net.wire.clear();
    let z = net.write(B);
    net.settle(&[z]);
    for me in [A, 3] {
        net.restart(me);
        net.settle(&[z]);
    }
    net
}

#[test]
fn logs_count_as_the_leaders_in_one_view() {
    a_log_of_another_view(SOUND);
}

/// A crash between the log of a view and the record that the view has begun leaves the log of the view before.
#[test]
fn a_view_begins_with_its_last_record() {
    let mut net = Net::new(3, &[]).begun();
    let x = net.write(C);
    net.run();
    net.crash(A);
    net.suspect(C);
    net.pass(C, B);
    net.nodes[C].is_stuck = true;
    net.pass(B, C);
    let unflushed = net.nodes[C].unflushed();
    assert!(unflushed > 1, "the log, and the view");
    let last_normal = net.machine(C).last_normal;
    net.tear_up(C, unflushed - 1);
    net.restart(C);
    assert!(net.machine(C).last_normal < last_normal);
    assert_eq!(net.machine(C).log.len(), 1, "x, as it was");
    net.settle(&[x]);
}

/// Both roles move on where their members are known to be gone.
#[test]
fn whoever_is_gone_is_passed_over() {
    let mut net = Net::new(5, &[]).begun();
    for me in [A, B] {
        net.crash(me);
        net.hint(me, false);
    }
    let x = net.write(C);
    net.fire(C, Timer::Sequencer);
    net.run();
    for me in C..5 {
        net.may_fire(me, Timer::Leader);
        net.run();
    }
    net.settle(&[x]);
    assert_eq!(
        net.machine(C).view,
        View {
            lead: 2,
            session: 2
        }
    );
}
