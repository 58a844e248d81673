//! Deliberate faults of Fast Paxos, and what finds each.

use super::Replica;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of Fast Paxos that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Equal votes of others decide, whatever the leader voted for.
    LeaderNotNeeded,
    /// A leader that has asked for its own value asks for what others voted for.
    LeaderRevotes,
    /// What decides a slot decides all slots before it.
    CommitUpTo,
    /// A new leader counts votes, whatever an earlier one asked for.
    IgnoreAccepts,
    /// An entry that lost its slot gets no other one.
    NoRevote,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let by_test = Mutant::<Replica>::by_test;
    let mut all = vec![
        by_test(
            "leader-not-needed",
            "equal votes of a fast quorum decide, whatever the leader voted for",
            |c| c.faults = Faults::only(Fault::LeaderNotNeeded),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: leader_not_needed",
        ),
        by_test(
            "leader-revotes",
            "a leader that has asked for its own value asks for what others voted for",
            |c| c.faults = Faults::only(Fault::LeaderRevotes),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: leader_revotes",
        ),
        by_test(
            "commit-up-to",
            "a fast quorum decides all slots before its own",
            |c| c.faults = Faults::only(Fault::CommitUpTo),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: commit_up_to",
        ),
        by_test(
            "ignore-accepts",
            "a new leader counts votes, whatever an earlier one asked for",
            |c| c.faults = Faults::only(Fault::IgnoreAccepts),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: ignore_accepts",
        ),
        by_test(
            "no-revote",
            "an entry that lost its slot gets no other one",
            |c| c.faults = Faults::only(Fault::NoRevote),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: no_revote",
        ),
        by_test(
            "fq-1",
            "a fast quorum less one decides",
            |c| c.thresholds.fast -= 1,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: fq_1",
        ),
    ];
    all.extend(thresholds_and_records());
    all
}

fn thresholds_and_records() -> Vec<Mutant<Replica>> {
    let by_test = Mutant::<Replica>::by_test;
    let by = |name, what, sabotage, test| Mutant::new(name, what, sabotage, Catcher::Test(test));
    vec![
        by_test(
            "threshold-1",
            "a new leader takes one vote less for a sign that a fast round chose something",
            |c| c.thresholds.shown_less = 1,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: threshold_1",
        ),
        by_test(
            "classic-1",
            "a majority less one accepts a leader's own value",
            |c| c.thresholds.classic -= 1,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: classic_1",
        ),
        by_test(
            "promises-1",
            "a majority less one makes a leader",
            |c| c.thresholds.promise -= 1,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: promises_1",
        ),
        by_test(
            "read-quorum",
            "a reader hears from a majority less one",
            |c| c.thresholds.read -= 1,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: read_quorum",
        ),
        by(
            "hasty",
            "a leader's own votes and promises count before they are durable",
            Sabotage::Hasty,
            "crates/protocols/src/fast_paxos/tests/mutants.rs: hasty",
        ),
        by(
            "forget-fast-vote",
            "votes of fast rounds are not written",
            Sabotage::Forget(Record::is_fast_vote),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: forget_fast_vote",
        ),
        by(
            "forget-promise",
            "what is promised is not written",
            Sabotage::Forget(Record::is_promise),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: forget_promise",
        ),
        by(
            "forget-accept",
            "what was accepted of a leader is not written",
            Sabotage::Forget(Record::is_accept),
            "crates/protocols/src/fast_paxos/tests/mutants.rs: forget_accept",
        ),
    ]
}
