//! Rules that are broken, and the schedules in which that shows.

use super::{random, schedules as play, schedules_leaders as leaders};
use crate::fast_paxos::{Config, FastPaxos, Fault, Record};
use crate::registry::{Protocol, Sabotage};
use crate::shared::faults::Faults;
use quorate_testkit::Losers;

#[test]
#[should_panic(expected = "(F1)")]
fn fq_1() {
    play::a_fast_quorum_less_one(|c| c.thresholds.fast -= 1);
}

#[test]
#[should_panic(expected = "(F1)")]
fn threshold_1() {
    play::a_fast_choice_without_its_leader(|c| c.thresholds.shown_less = 1);
}

#[test]
#[should_panic(expected = "(F1)")]
fn leader_not_needed() {
    play::a_fast_quorum_without_its_leader(|c| c.faults = Faults::only(Fault::LeaderNotNeeded));
}

#[test]
#[should_panic(expected = "(F1)")]
fn leader_revotes() {
    play::a_leader_that_asked(|c| c.faults = Faults::only(Fault::LeaderRevotes));
}

#[test]
#[should_panic(expected = "(F1)")]
fn commit_up_to() {
    play::a_fast_quorum_behind_a_gap(|c| c.faults = Faults::only(Fault::CommitUpTo));
}

#[test]
#[should_panic(expected = "(F1)")]
fn ignore_accepts() {
    play::a_leaders_value_beside_a_fast_vote(|c| c.faults = Faults::only(Fault::IgnoreAccepts));
}

#[test]
#[should_panic(expected = "(F1)")]
fn hasty() {
    play::a_leader_that_loses_power(true);
}

#[test]
#[should_panic(expected = "(F1)")]
fn forget_fast_vote() {
    play::voters_that_restart(Some(Record::is_fast_vote));
}

#[test]
#[should_panic(expected = "(F1)")]
fn forget_accept() {
    play::members_that_accepted_and_restart(Some(Record::is_accept));
}

#[test]
#[should_panic(expected = "(F1)")]
fn forget_promise() {
    leaders::a_member_that_promised_and_restarts(Some(Record::is_promise));
}

#[test]
#[should_panic(expected = "(F1)")]
fn classic_1() {
    random::walk(3, Losers::Nobody, 0..50, |c| c.thresholds.classic -= 1);
}

#[test]
#[should_panic(expected = "(F1)")]
fn promises_1() {
    random::walk(3, Losers::Nobody, 0..50, |c| c.thresholds.promise -= 1);
}

#[test]
fn read_quorum() {
    let answered = leaders::a_read_at_a_leader_that_is_cut_off(|c| c.thresholds.read -= 1);
    assert!(answered.is_some(), "it takes itself for the leader");
}

#[test]
fn no_revote() {
    let is_fast = play::a_missed_entry(|c| c.faults = Faults::only(Fault::NoRevote));
    assert!(!is_fast, "the leader has to ask for what lost its slot");
}

#[test]
fn every_mutant_changes_something() {
    for mutant in FastPaxos::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let config = FastPaxos::config(&super::net::seat(5, 0, &[])).unwrap();
            let mut lowered: Config = config.clone();
            lower(&mut lowered);
            assert_ne!(lowered, config, "{}", mutant.name);
        }
    }
}
