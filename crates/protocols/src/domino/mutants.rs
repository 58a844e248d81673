//! Deliberate faults of Domino, and what finds each.

use super::Replica;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of Domino that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Members vote for entries at stamps up to which they said they would not.
    VoteBelowNat,
    /// Whatever was delivered before it became true, what is told and asked for is taken.
    IgnoreSince,
    /// Who takes a lane over proposes nothing, whatever promises show.
    IgnoreShown,
    /// A start goes on in the own lane as if it were new.
    ReuseLane,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let by = Mutant::<Replica>::by_test;
    let mut all = vec![
        by(
            "vote-below-nat",
            "entries get votes at stamps up to which none was to get one",
            |c| c.faults = Faults::only(Fault::VoteBelowNat),
            "crates/protocols/src/domino/tests/mutants.rs: vote_below_nat",
        ),
        by(
            "ignore-since",
            "what is told counts also for those that lack what is missing in it",
            |c| c.faults = Faults::only(Fault::IgnoreSince),
            "crates/protocols/src/domino/tests/mutants.rs: ignore_since",
        ),
        by(
            "ignore-shown",
            "who takes a lane over proposes nothing, whatever promises show",
            |c| c.faults = Faults::only(Fault::IgnoreShown),
            "crates/protocols/src/domino/tests/mutants.rs: ignore_shown",
        ),
        by(
            "reuse-lane",
            "a start goes on in its own lane as if it were new",
            |c| c.faults = Faults::only(Fault::ReuseLane),
            "crates/protocols/src/domino/tests/mutants.rs: reuse_lane",
        ),
        by(
            "fq-1",
            "a fast quorum less one decides",
            |c| c.thresholds.fast -= 1,
            "crates/protocols/src/domino/tests/mutants.rs: fq_1",
        ),
        by(
            "threshold-1",
            "a new leader takes one vote less for a sign that a fast round chose something",
            |c| c.thresholds.shown_less = 1,
            "crates/protocols/src/domino/tests/mutants.rs: threshold_1",
        ),
    ];
    all.extend(quorums());
    all.extend(records());
    all
}

fn quorums() -> Vec<Mutant<Replica>> {
    let by = Mutant::<Replica>::by_test;
    vec![
        by(
            "classic-1",
            "a majority less one accepts what a leader of a lane wants",
            |c| c.thresholds.classic -= 1,
            "crates/protocols/src/domino/tests/mutants.rs: classic_1",
        ),
        by(
            "promises-1",
            "a majority less one makes a leader of a lane",
            |c| c.thresholds.promise -= 1,
            "crates/protocols/src/domino/tests/mutants.rs: promises_1",
        ),
        by(
            "read-quorum",
            "a reader hears from a majority less one",
            |c| c.thresholds.read -= 1,
            "crates/protocols/src/domino/tests/mutants.rs: read_quorum",
        ),
    ]
}

fn records() -> Vec<Mutant<Replica>> {
    let by = |name, what, sabotage, test| Mutant::new(name, what, sabotage, Catcher::Test(test));
    vec![
        by(
            "hasty",
            "own acceptances, votes and promises count before they are durable",
            Sabotage::Hasty,
            "crates/protocols/src/domino/tests/mutants.rs: hasty",
        ),
        by(
            "nat-unpersisted",
            "it is not written up to where stamps and votes may be used",
            Sabotage::Forget(Record::is_reserve),
            "crates/protocols/src/domino/tests/mutants.rs: nat_unpersisted",
        ),
        by(
            "forget-entry",
            "votes for entries are not written",
            Sabotage::Forget(Record::is_entry),
            "crates/protocols/src/domino/tests/mutants.rs: forget_entry",
        ),
        by(
            "forget-lane",
            "what was promised and accepted in lanes is not written",
            Sabotage::Forget(Record::is_lane),
            "crates/protocols/src/domino/tests/mutants.rs: forget_lane",
        ),
    ]
}
