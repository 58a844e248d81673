//! Deliberate faults, and what finds each.

use super::random::walk;
use super::schedules::{
    forgotten_commit, forgotten_entry, joined_and_not_accepted, kept_by_one_more,
    one_that_has_heard_nothing, power_fails_before_the_flush, two_orphans,
    void_entry_of_a_living_coordinator, with,
};
use super::toq::{
    fast_commit_and_what_only_one_keeps, fast_commit_and_who_waits_behind_it,
    two_fast_quorums_and_who_is_heard,
};
use crate::epaxos::mutants::is_pre_accept;
use crate::epaxos::{Config, EPaxos, Fault, Thresholds};
use crate::registry::{Protocol, Sabotage};
use quorate_testkit::Losers;

fn walks(n: usize, seeds: u64, edit: impl Fn(&mut Config)) {
    walk(n, Losers::Nobody, 0..seeds, edit);
}

/// Where everything conflicts.
fn walks_of_roots(n: usize, seeds: u64, edit: impl Fn(&mut Config)) {
    walks(n, seeds, |config| {
        config.touches = None;
        edit(config);
    });
}

#[test]
#[should_panic(expected = "E4")]
fn no_validate() {
    two_orphans(with(Fault::NoValidate));
}

#[test]
#[should_panic(expected = "E4")]
fn coordinator_forgets() {
    forgotten_commit(with(Fault::CoordinatorForgets));
}

#[test]
#[should_panic(expected = "(E")]
fn early_preaccept() {
    forgotten_entry(with(Fault::EarlyPreAccept));
}

#[test]
#[should_panic(expected = "E4")]
fn one_ballot() {
    joined_and_not_accepted(with(Fault::OneBallot));
}

#[test]
#[should_panic(expected = "E5")]
fn answer_at_commit() {
    walks(3, 100, with(Fault::AnswerAtCommit));
}

#[test]
#[should_panic(expected = "E4")]
fn any_root() {
    walks_of_roots(3, 100, with(Fault::AnyRoot));
}

#[test]
#[should_panic(expected = "E4")]
fn drop_at_delivery() {
    one_that_has_heard_nothing(false, with(Fault::DropAtDelivery));
}

#[test]
#[should_panic(expected = "they do not come to rest")]
fn lose_void() {
    void_entry_of_a_living_coordinator(with(Fault::LoseVoid));
}

#[test]
#[should_panic(expected = "(E")]
fn fast_quorum_1() {
    walks_of_roots(3, 100, |config| config.thresholds.fast -= 1);
}

#[test]
#[should_panic(expected = "(E")]
fn slow_quorum_1() {
    walks_of_roots(3, 100, |config| config.thresholds.slow -= 1);
}

#[test]
#[should_panic(expected = "E4")]
fn forget_preaccept() {
    kept_by_one_more(Some(is_pre_accept));
}

#[test]
#[should_panic(expected = "E4")]
fn hasty() {
    power_fails_before_the_flush(true);
}

#[test]
#[should_panic(expected = "(E")]
fn toq_any_of_quorum() {
    fast_commit_and_what_only_one_keeps(with(Fault::AnyOfQuorum));
}

#[test]
#[should_panic(expected = "(E")]
fn toq_any_waiting() {
    fast_commit_and_who_waits_behind_it(with(Fault::AnyWaiting));
}

#[test]
#[should_panic(expected = "(E")]
fn toq_small_quorum() {
    two_fast_quorums_and_who_is_heard(|config| {
        config.thresholds.fast = Thresholds::of(3).fast;
    });
}

#[test]
fn every_mutant_has_a_test_of_its_own() {
    let all = EPaxos::mutants();
    assert_eq!(all.len(), 15);
    for mutant in all {
        if let Sabotage::Config(edit) = mutant.sabotage {
            let params = [("toq_us", "200")];
            let is_held = mutant.name.starts_with("toq-");
            let params = &params[..usize::from(is_held)];
            let config = EPaxos::config(&super::net::seat(5, 0, params)).unwrap();
            let mut broken = config.clone();
            edit(&mut broken);
            let differs = broken.faults != config.faults || broken.thresholds != config.thresholds;
            assert!(differs, "{}", mutant.name);
        }
    }
}
