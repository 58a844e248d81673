//! Rules that are broken, and the schedules in which that shows.

use super::random::{Weather, walk};
use super::schedules as play;
use crate::domino::{Config, Domino, Fault, Record};
use crate::registry::{Protocol, Sabotage};
use crate::shared::faults::Faults;

const ROUGH: Weather = Weather {
    loses: false,
    jumps: true,
    is_broken: true,
    unwritten: None,
};

fn has(fault: Fault) -> impl Fn(&mut Config) {
    move |config| config.faults = Faults::only(fault)
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn vote_below_nat() {
    play::late_proposals(None, false, has(Fault::VoteBelowNat));
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn nat_unpersisted() {
    play::late_proposals(Some(Record::is_reserve), true, |_| {});
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn threshold_1() {
    play::a_minority_beside_what_was_chosen(|config| config.thresholds.shown_less = 1);
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn hasty() {
    play::an_owner_that_loses_power(true);
}

#[test]
fn read_quorum() {
    let answer = play::a_read_that_is_cut_off(|config| config.thresholds.read -= 1);
    assert!(answer.is_some(), "it answers by itself");
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn fq_1() {
    walk(3, &[], ROUGH, 0..200, |config| config.thresholds.fast -= 1);
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn classic_1() {
    walk(3, &[], ROUGH, 0..200, |config| {
        config.thresholds.classic -= 1
    });
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn promises_1() {
    walk(3, &[], ROUGH, 0..200, |config| {
        config.thresholds.promise -= 1
    });
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn ignore_since() {
    play::a_member_that_forgot_what_it_delivered(has(Fault::IgnoreSince));
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn ignore_shown() {
    walk(3, &[], ROUGH, 0..200, has(Fault::IgnoreShown));
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn reuse_lane() {
    walk(3, &[("way", "dm")], ROUGH, 0..200, has(Fault::ReuseLane));
}

#[test]
#[should_panic(expected = "(D1, D3)")]
fn forget_entry() {
    play::a_member_that_accepted_and_starts_again(Some(Record::is_entry));
}

#[test]
#[should_panic(expected = "(D1")]
fn forget_lane() {
    let weather = Weather {
        unwritten: Some(Record::is_lane),
        ..ROUGH
    };
    walk(3, &[], weather, 0..200, |_| {});
}

#[test]
fn every_mutant_changes_something() {
    let seat = quorate_testkit::seat(Domino::NAME, 5, 0, 1, &[]);
    let config = Domino::config(&seat).unwrap();
    for mutant in Domino::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let mut broken = config.clone();
            lower(&mut broken);
            assert_ne!(broken, config, "{}", mutant.name);
        }
    }
}
