//! Nasty schedules of replicas that lose their promises: words from and to former
//! lives.

use super::directed::Schedule;
use super::net::Net;

/// S7: each follower answers, and begins a new life from a leader that lacks the entry so far. Then the
/// leader gets it.
#[test]
fn s7_replies_of_former_lives_commit_an_entry() {
    let run = |net: &mut Net| {
        net.write(0, &[]);
        net.spread(0, &[1, 2]);
        let stray = [1, 2].map(|follower| (follower, net.take(follower, 0, "fast-reply")));
        net.reborn(1);
        net.rejoin(1, &[0, 2]);
        net.reborn(2);
        net.rejoin(2, &[0, 1]);
        net.ripen(0);
        for (follower, replies) in stray {
            assert_eq!(replies.len(), 1);
            for message in replies {
                net.hear(follower, 0, &message);
            }
        }
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("one-life", "was answered in");
}

/// S8: a follower vouches for an entry, loses its promises, and gets the log that was for its life before
/// that.
#[test]
fn s8_the_log_for_a_former_life_lacks_what_was_vouched_for() {
    let run = |net: &mut Net| {
        net.reborn(2);
        net.rejoin(2, &[0, 1]);
        net.agree(0, &[2], &[]);
        net.reborn(2);
        for (question, answer) in [
            ("crash-vector-req", "crash-vector-rep"),
            ("recovery-req", "recovery-rep"),
        ] {
            for other in [0, 1] {
                net.pass(2, other, question);
                net.pass(other, 2, answer);
            }
        }
        net.again(0, 2, "start-view");
        net.fall(0);
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("former-answers", "was answered in");
}

/// S9: a life of a follower promises to go to view 1. The next one is told of views what the one before
/// was, joins view 0, and vouches for an entry there. Then the leader of view 1 gets the old promise.
#[test]
fn s9_the_views_told_to_a_former_life_are_too_old() {
    let run = |net: &mut Net| {
        net.reborn(2);
        net.rejoin(2, &[0, 1]);
        net.suspect(2);
        let promise = net.take(2, 1, "view-change");
        assert_eq!(promise.len(), 1);
        net.reborn(2);
        for other in [0, 1] {
            net.pass(2, other, "crash-vector-req");
            net.pass(other, 2, "crash-vector-rep");
        }
        for other in [0, 1] {
            net.again(other, 2, "recovery-rep");
        }
        net.pass(2, 0, "state-req");
        net.pass(0, 2, "start-view");
        net.agree(0, &[2], &[]);
        for message in promise {
            net.hear(2, 1, &message);
        }
        net.fall(0);
        net.pass(1, 2, "start-view");
        net.agree(1, &[2], &[]);
    };
    Schedule::of(3, run).shows("former-answers", "was answered in");
}

/// A replica without promises asks the old leader alone, who does not know of the next view.
#[test]
fn one_answer_does_not_make_up_for_lost_promises() {
    let run = |net: &mut Net| {
        net.begin_view(1, &[2]);
        net.agree(1, &[2], &[]);
        net.reborn(2);
        net.rejoin(2, &[0]);
        net.agree(0, &[2], &[]);
    };
    Schedule::of(3, run).shows("rejoin-one", "was answered in");
}

/// A replica that lost its promises makes none before it has the log of a leader.
#[test]
fn who_lost_its_promises_makes_none() {
    let run = |net: &mut Net| {
        net.reborn(2);
        net.write(0, &[]);
        net.ripen(0);
        net.spread(0, &[1, 2]);
        net.pass(0, 2, "log-mod");
        for what in ["fast-reply", "synced", "view-change"] {
            assert_eq!(net.pass(2, 0, what), 0);
        }
        net.suspect(1);
        net.pass(1, 2, "view-change-req");
        assert_eq!(net.pass(2, 1, "view-change"), 0);
    };
    Schedule::of(3, run).holds();
}
