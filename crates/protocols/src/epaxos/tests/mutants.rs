//! Deliberate faults, and what finds each.

use super::random::{Try, walk};
use super::schedules::{forgotten_commit, two_orphans, with};
use crate::epaxos::mutants::is_pre_accept;
use crate::epaxos::{Config, Fault};

/// Random schedules of few keys.
fn walks(n: usize, seeds: u64, edit: impl Fn(&mut Config)) {
    let of = Try {
        n,
        keys: 1,
        has_loser: false,
        seeds: 0..seeds,
    };
    walk(of, edit);
}

/// Where everything conflicts.
fn walks_of_roots(n: usize, seeds: u64, fault: Fault) {
    walks(n, seeds, |config| {
        config.touches = None;
        with(fault)(config);
    });
}

#[test]
#[should_panic(expected = "E4")]
fn no_validate() {
    two_orphans(with(Fault::NoValidate));
}

#[test]
#[should_panic(expected = "E7")]
fn coordinator_forgets() {
    forgotten_commit(with(Fault::CoordinatorForgets));
}

#[test]
#[should_panic(expected = "")]
fn one_ballot() {
    walks_of_roots(5, 300, Fault::OneBallot);
}

#[test]
#[should_panic(expected = "E5")]
fn answer_at_commit() {
    walks(3, 100, with(Fault::AnswerAtCommit));
}

#[test]
#[should_panic(expected = "E4")]
fn any_root() {
    walks_of_roots(3, 100, Fault::AnyRoot);
}

#[test]
#[should_panic(expected = "seed")]
fn no_wait_rule() {
    walks_of_roots(3, 300, Fault::NoWaitRule);
}

#[test]
#[should_panic(expected = "")]
fn drop_at_delivery() {
    walks_of_roots(3, 300, Fault::DropAtDelivery);
}

#[test]
#[should_panic(expected = "seed")]
fn lose_void() {
    walks(3, 50, with(Fault::LoseVoid));
}

#[test]
#[should_panic(expected = "")]
fn vote_unknowing() {
    walks_of_roots(3, 300, Fault::VoteUnknowing);
}

#[test]
#[should_panic(expected = "")]
fn fast_quorum_1() {
    walks(3, 100, |config| {
        config.touches = None;
        config.thresholds.fast -= 1;
    });
}

#[test]
#[should_panic(expected = "")]
fn slow_quorum_1() {
    walks(5, 100, |config| {
        config.touches = None;
        config.thresholds.slow -= 1;
    });
}

#[test]
fn forget_preaccept() {
    let _ = is_pre_accept;
}

#[test]
fn hasty() {}
