//! Rules that are broken, and the schedules in which that shows.

use super::{schedules as play, schedules_lanes as lanes};
use crate::mencius::{Config, Fault, Mencius, Record};
use crate::registry::{Protocol, Sabotage};
use crate::shared::faults::Faults;

#[test]
#[should_panic(expected = "(M3)")]
fn implicit_skip() {
    play::a_skip_overtakes_a_suggestion(|c| c.faults = Faults::only(Fault::ImplicitSkip));
}

#[test]
#[should_panic(expected = "(M3)")]
fn no_reserve() {
    play::a_skip_before_a_restart(|c| c.faults = Faults::only(Fault::NoReserve));
}

#[test]
#[should_panic(expected = "(M3)")]
fn noop_over_value() {
    play::a_decided_entry_at_one_member(|c| c.faults = Faults::only(Fault::NoopOverValue));
}

#[test]
#[should_panic(expected = "(M3)")]
fn lower_ballot() {
    lanes::two_takers(|c| c.faults = Faults::only(Fault::LowerBallot));
}

#[test]
#[should_panic(expected = "(M3)")]
fn taker_proposes() {
    play::a_late_skip(|c| c.faults = Faults::only(Fault::TakerProposes));
}

#[test]
#[should_panic(expected = "(M3)")]
fn owner_ignores_promises() {
    lanes::an_owner_behind_noops(|c| c.faults = Faults::only(Fault::OwnerIgnoresPromises));
}

#[test]
#[should_panic(expected = "(M3)")]
fn promise_one_slot() {
    lanes::an_owner_that_goes_on(|c| c.faults = Faults::only(Fault::PromiseOneSlot));
}

#[test]
#[should_panic(expected = "(M3)")]
fn forget_promise() {
    lanes::a_member_that_promised_and_restarts(Some(Record::is_promise));
}

#[test]
#[should_panic(expected = "(M7)")]
fn resuggest_twice() {
    lanes::a_false_suspicion(|c| c.faults = Faults::only(Fault::ResuggestTwice));
}

#[test]
#[should_panic(expected = "(M3)")]
fn hasty() {
    play::an_owner_that_loses_power(true);
}

#[test]
fn never_skip() {
    let is_delivered = play::a_lost_skip(|c| c.faults = Faults::only(Fault::NeverSkip));
    assert!(!is_delivered, "whoever is idle holds up everybody");
}

#[test]
fn every_mutant_changes_something() {
    for mutant in Mencius::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let config = Mencius::config(&super::net::seat(5, 0, &[])).unwrap();
            let mut lowered: Config = config.clone();
            lower(&mut lowered);
            assert_ne!(lowered, config, "{}", mutant.name);
        }
    }
}
