//! Rules that are broken, and the schedules in which that shows.

use super::net::Net;
use super::schedules as play;
use super::{replay, schedules, schedules_lives};
use crate::raft::{Config, Fault, Raft, Record};
use crate::registry::{Protocol, Sabotage};
use crate::shared::faults::Faults;
use quorate_core::{Outcome, Slot};

#[test]
#[should_panic(expected = "(R5)")]
fn commit_old_term() {
    play::an_old_entry_on_a_majority(|c| c.faults = Faults::only(Fault::CommitOldTerm));
}

#[test]
#[should_panic(expected = "(R5)")]
fn truncate_always() {
    play::a_message_comes_again(|c| c.faults = Faults::only(Fault::TruncateAlways));
}

#[test]
#[should_panic(expected = "(R5)")]
fn commit_own_end() {
    play::a_heartbeat_before_a_stale_tail(|c| c.faults = Faults::only(Fault::CommitOwnEnd));
}

#[test]
#[should_panic(expected = "(R5)")]
fn trust_previous() {
    play::an_entry_behind_a_stale_tail(|c| c.faults = Faults::only(Fault::TrustPrevious));
}

#[test]
#[should_panic(expected = "(R5)")]
fn grant_older_log() {
    play::a_candidate_without_what_is_committed(|c| c.faults = Faults::only(Fault::GrantOlderLog));
}

#[test]
#[should_panic(expected = "(R5)")]
fn grant_unknown_term() {
    play::a_long_log_of_an_old_term(|c| c.faults = Faults::only(Fault::GrantUnknownTerm));
}

#[test]
#[should_panic(expected = "one leader per term (R1)")]
fn forget_vote() {
    let mut net = Net::new(3, &[]);
    net.watch.forget = Some(Record::is_vote);
    play::a_voter_that_restarts(net);
}

#[test]
#[should_panic(expected = "(R5)")]
fn hasty() {
    schedules_lives::a_leader_that_loses_power(true);
}

#[test]
fn replay_in_order() {
    let in_order: fn(&mut Config) = |c| c.faults = Faults::only(Fault::ReplayInOrder);
    assert_eq!(replay::a_cut_entry_again(|_| {}), [(Slot(0), 2)]);
    let wrong = [(Slot(0), 2), (Slot(1), 1)];
    assert_eq!(replay::a_cut_entry_again(in_order), wrong);
}

#[test]
fn read_without_own_term() {
    let early = schedules::a_read_at_a_new_leader(|c| {
        c.faults = Faults::only(Fault::ReadWithoutOwnTerm);
    });
    assert_eq!(early, Some(Outcome::ReadAt(Slot(2))), "before x");
}

#[test]
fn hasty_reads() {
    let early = schedules::a_read_beside_an_order(|c| {
        c.faults = Faults::only(Fault::ReadPastOrders);
    });
    assert_eq!(early, Some(Outcome::ReadAt(Slot(2))), "before the order");
}

#[test]
fn every_mutant_changes_something() {
    for mutant in Raft::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let config = Raft::config(&super::net::seat(5, 0, &[])).unwrap();
            let mut lowered = config.clone();
            lower(&mut lowered);
            assert_ne!(lowered, config, "{}", mutant.name);
        }
    }
}
