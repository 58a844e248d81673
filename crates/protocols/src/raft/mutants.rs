//! Deliberate faults of Raft, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of Raft that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A leader commits an entry of an earlier term because a majority has it.
    CommitOldTerm,
    /// A message cuts off what is behind its entries, conflict or not.
    TruncateAlways,
    /// A follower takes its whole log for committed as far as its leader has committed.
    CommitOwnEnd,
    /// A vote is given without a look at the candidate's log.
    GrantOlderLog,
    /// A voter that does not know its last term goes by the log that is not delivered alone.
    GrantUnknownTerm,
    /// A message fits wherever the log reaches.
    TrustPrevious,
    /// Records count in the order in which the disk has them.
    ReplayInOrder,
    /// A leader's reads do not wait for an entry of its own term.
    ReadWithoutOwnTerm,
    /// A leader's reads do not wait for the orders in its log, one of which may end the epoch.
    ReadPastOrders,
    /// Each refusal is answered with the whole log, in as many messages as it takes.
    AnswerRefusals,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = rules();
    all.extend(thresholds());
    all.extend(omissions());
    all
}

/// Rules of the paper, and of logs that are cut and fetched.
fn rules() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::<Replica>::by_test(
            "commit-old-term",
            "a leader commits an entry of an earlier term because a majority has it",
            |c| c.faults = Faults::only(Fault::CommitOldTerm),
            "crates/protocols/src/raft/tests/mutants.rs: commit_old_term",
        ),
        Mutant::<Replica>::by_test(
            "truncate-always",
            "a message cuts off what is behind its entries, conflict or not",
            |c| c.faults = Faults::only(Fault::TruncateAlways),
            "crates/protocols/src/raft/tests/mutants.rs: truncate_always",
        ),
        Mutant::<Replica>::by_test(
            "commit-own-end",
            "a follower takes its whole log for committed as far as its leader has committed",
            |c| c.faults = Faults::only(Fault::CommitOwnEnd),
            "crates/protocols/src/raft/tests/mutants.rs: commit_own_end",
        ),
        Mutant::<Replica>::by_test(
            "grant-older-log",
            "a vote is given without a look at the candidate's log",
            |c| c.faults = Faults::only(Fault::GrantOlderLog),
            "crates/protocols/src/raft/tests/mutants.rs: grant_older_log",
        ),
        Mutant::<Replica>::by_test(
            "grant-unknown-term",
            "a voter that does not know its last term goes by the log that is not delivered alone",
            |c| c.faults = Faults::only(Fault::GrantUnknownTerm),
            "crates/protocols/src/raft/tests/mutants.rs: grant_unknown_term",
        ),
        Mutant::<Replica>::by_test(
            "trust-previous",
            "entries fit wherever the log reaches, whatever the terms",
            |c| c.faults = Faults::only(Fault::TrustPrevious),
            "crates/protocols/src/raft/tests/mutants.rs: trust_previous",
        ),
        Mutant::<Replica>::by_test(
            "replay-in-order",
            "records count in the order in which the disk has them",
            |c| c.faults = Faults::only(Fault::ReplayInOrder),
            "crates/protocols/src/raft/tests/mutants.rs: replay_in_order",
        ),
        Mutant::<Replica>::by_test(
            "read-without-own-term",
            "a leader's reads do not wait for an entry of its own term",
            |c| c.faults = Faults::only(Fault::ReadWithoutOwnTerm),
            "crates/protocols/src/raft/tests/mutants.rs: read_without_own_term",
        ),
        Mutant::<Replica>::by_test(
            "hasty-reads",
            "a leader's reads do not wait for an order, which may end the epoch",
            |c| c.faults = Faults::only(Fault::ReadPastOrders),
            "crates/protocols/src/raft/tests/mutants.rs: hasty_reads",
        ),
        Mutant::new(
            "answer-refusals",
            "each refusal is answered with the whole log, in as many messages as it takes",
            Sabotage::Config(|c: &mut Config| c.faults = Faults::only(Fault::AnswerRefusals)),
            Catcher::seeds("--replicas 5", 70_000_095..70_000_096),
        ),
    ]
}

/// Every majority, lowered.
fn thresholds() -> Vec<Mutant<Replica>> {
    let lowered = |name, what, lower: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(lower), catcher)
    };
    vec![
        lowered(
            "majority-1",
            "a majority less one commits",
            |c| c.thresholds.commit -= 1,
            Catcher::seeds("", 0..200),
        ),
        lowered(
            "votes-1",
            "a majority less one makes a leader",
            |c| c.thresholds.votes -= 1,
            Catcher::seeds("", 0..200),
        ),
        lowered(
            "read-before-confirm",
            "whoever takes itself for the leader answers reads",
            |c| c.thresholds.confirm = 1,
            Catcher::seeds("--profile partitions", 0..400),
        ),
        lowered(
            "early-rejoin",
            "a replica that lost its promises asks nobody how far it may have gone",
            |c| c.thresholds.rejoin = 0,
            Catcher::seeds("--durability memory", 0..400),
        ),
    ]
}

/// What is not written, or not waited for, or counted twice.
fn omissions() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::new(
            "forget-vote",
            "votes and terms are not written",
            Sabotage::Forget(Record::is_vote),
            Catcher::Test("crates/protocols/src/raft/tests/mutants.rs: forget_vote"),
        ),
        Mutant::new(
            "no-append-record",
            "entries are not written",
            Sabotage::Forget(Record::is_append),
            Catcher::seeds("", 0..100),
        ),
        Mutant::new(
            "hasty",
            "own entries and votes count before they are durable",
            Sabotage::Hasty,
            Catcher::Test("crates/protocols/src/raft/tests/mutants.rs: hasty"),
        ),
        Mutant::new(
            "count-messages",
            "an acknowledgement or a vote that comes twice counts for another member, too",
            Sabotage::CountMessages,
            Catcher::seeds("", 0..200),
        ),
        Mutant::new(
            "amnesia",
            "a replica that lost its promises votes as if it had made none",
            Sabotage::Amnesia,
            Catcher::seeds("--durability memory", 0..200),
        ),
    ]
}
