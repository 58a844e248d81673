//! Deliberate faults, and what finds them (notes, section 14).

use super::Replica;
use super::config::{Config, Rules};
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = numbers();
    all.extend(rules());
    all.extend(records());
    all
}

macro_rules! found_by {
    ($test:literal) => {
        Catcher::Test(concat!(
            "crates/protocols/src/nezha/tests/mutants.rs: ",
            $test
        ))
    };
}

/// Quorums that are too small.
fn numbers() -> Vec<Mutant<Replica>> {
    let smaller = |name, what, edit: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(edit), catcher)
    };
    vec![
        smaller(
            "fast-quorum",
            "f + 1 equal digests commit",
            |config| config.thresholds.fast = config.thresholds.slow,
            found_by!("a_fast_quorum_of_a_majority_loses_answers"),
        ),
        smaller(
            "slow-quorum",
            "f synced logs commit",
            |config| config.thresholds.slow -= 1,
            found_by!("a_slow_quorum_of_one_loses_what_was_delivered"),
        ),
    ]
}

/// Rules that are left out.
fn rules() -> Vec<Mutant<Replica>> {
    let without = |name, what, edit: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(edit), catcher)
    };
    vec![
        without(
            "gaps",
            "log modifications are taken in with gaps",
            |config| rule(config).waits_for_gaps = false,
            found_by!("a_gap_taken_in_is_vouched_for"),
        ),
        without(
            "start-again",
            "who is in a view begins it again",
            |config| rule(config).keeps_its_view = false,
            found_by!("a_view_begun_again_forgets_what_was_vouched_for"),
        ),
        without(
            "same-leader",
            "a leader that starts again goes on leading its view",
            |config| rule(config).leaves_its_view = false,
            found_by!("a_leader_that_leads_on_after_a_crash_tells_two_logs"),
        ),
    ]
}

fn rule(config: &mut Config) -> &mut Rules {
    &mut config.rules
}

/// Records that are not written.
fn records() -> Vec<Mutant<Replica>> {
    let forgotten = |name, what, forgets: fn(&Record) -> bool, catcher| {
        Mutant::new(name, what, Sabotage::Forget(forgets), catcher)
    };
    vec![forgotten(
        "no-sync-record",
        "a follower writes entries, not where they are",
        |record| matches!(record, Record::Sync { .. }),
        found_by!("a_synced_entry_that_counts_as_unsynced_after_a_crash_is_lost"),
    )]
}
