//! Deliberate faults of Multi-Paxos and RS-Paxos, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::{Message, Record};
use crate::registry::{Catcher, Mutant, Sabotage};
use quorate_core::Output;

/// Those of values that are not coded.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = thresholds();
    all.extend(omissions());
    all
}

/// Those of coded values. What the others break is the same with and without codes.
pub(super) fn coded() -> Vec<Mutant<Replica>> {
    let broken = |name, what, edit: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(edit), catcher)
    };
    vec![
        broken(
            "count-by-ballot",
            "phase 1(c) as the paper can be read: fragments count by ballot, not by value",
            |c| c.rules.counts_by_value = false,
            Catcher::Conversation("t1-mutant.txt"),
        ),
        broken(
            "write-quorum",
            "QW(X) - 1 accepts choose a value",
            |c| c.thresholds.write -= 1,
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/exhaustive.rs: \
                 one_accept_too_few_chooses_two_values",
            ),
        ),
        broken(
            "read-quorum",
            "QR - 1 promises make a leader, and a no-op of what they do not show",
            |c| c.thresholds.read -= 1,
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/exhaustive.rs: \
                 one_promise_too_few_chooses_two_values",
            ),
        ),
        broken(
            "no-retention",
            "a value accepted again under another code loses the fragment it had",
            |c| c.rules.keeps_fragments = false,
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/exhaustive.rs: \
                 without_the_retention_rule_two_values_are_chosen",
            ),
        ),
        broken(
            "index-over-ballots",
            "a commit index is taken for a word about accepts of older ballots",
            |c| c.rules.claims_own_ballot = false,
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/coded.rs: \
                 an_index_over_older_accepts_delivers_what_was_not_chosen",
            ),
        ),
        broken(
            "missing-is-no-op",
            "a value that cannot be gathered is taken for one that was not chosen",
            |c| c.rules.waits_for_fragments = false,
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/coded.rs: \
                 a_no_op_for_what_is_out_of_reach_loses_a_chosen_value",
            ),
        ),
        Mutant::new(
            "fresh-name",
            "a value proposed again gets another name",
            Sabotage::Output(rename),
            Catcher::Conversation("t3-mutant.txt"),
        ),
        Mutant::new(
            "silent-loss",
            "a fragment that the disk lost is promised as if it were there",
            Sabotage::Output(claim_lost),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/coded.rs: \
                 a_lost_fragment_that_is_promised_leaves_nothing_to_gather",
            ),
        ),
    ]
}

/// Names what a leader proposes again after itself.
fn rename(output: &mut Output<Replica>) -> bool {
    let (value, ballot) = match output {
        Output::Send {
            message: Message::Accept(accept),
            ..
        } => (&mut accept.value, accept.ballot),
        Output::Persist {
            record: Record::Accept { value, ballot, .. },
            ..
        } => (value, *ballot),
        _ => return true,
    };
    if let Some(entry) = value
        .as_mut()
        .filter(|entry| entry.id.origin != ballot.node)
    {
        entry.id.origin = ballot.node;
        entry.id.seq += 1000;
    }
    true
}

fn claim_lost(output: &mut Output<Replica>) -> bool {
    if let Output::Send { message, .. } = output
        && let Message::Promise(part) = message
    {
        for vote in &mut part.votes {
            vote.fragments = vote.fragments.restored();
        }
    }
    true
}

/// Every number of the quorum arithmetic, lowered.
fn thresholds() -> Vec<Mutant<Replica>> {
    let lowered = |name, what, lower: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(lower), catcher)
    };
    vec![
        lowered(
            "read-quorum",
            "QR - 1 promises make a leader, and a no-op of what they do not show",
            |c| c.thresholds.read -= 1,
            Catcher::seeds("", 0..200),
        ),
        lowered(
            "write-quorum",
            "QW - 1 accepts choose a value",
            |c| c.thresholds.write -= 1,
            Catcher::seeds("", 0..200),
        ),
        lowered(
            "leader-quorum",
            "QL - 1 members confirm a leader",
            |c| c.thresholds.leader -= 1,
            Catcher::seeds("--replicas 5 --profile partitions", 0..400),
        ),
        lowered(
            "unconfirmed-read",
            "whoever takes itself for the leader answers reads",
            |c| c.thresholds.leader = 1,
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

/// What is not written, not waited for, or not said in full.
fn omissions() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::new(
            "no-accept-record",
            "accepts are not written",
            Sabotage::Forget(Record::is_accept),
            Catcher::seeds("", 0..100),
        ),
        Mutant::new(
            "no-promise-record",
            "promises are not written",
            Sabotage::Forget(Record::is_promise),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/schedules.rs: \
                 a_promise_that_was_not_written_lets_two_leaders_decide",
            ),
        ),
        Mutant::new(
            "reused-ballot",
            "own ballots are not written, and used again after a restart",
            Sabotage::Forget(Record::is_candidacy),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/schedules.rs: \
                 a_ballot_that_was_not_written_is_led_twice",
            ),
        ),
        Mutant::new(
            "hasty",
            "the own accept counts before it is durable",
            Sabotage::Hasty,
            Catcher::Conversation("hasty-mutant.txt"),
        ),
        Mutant::new(
            "half-promise",
            "the first part of a promise is taken for all of it",
            Sabotage::Output(end_promises),
            Catcher::seeds("--param promise_bytes=1", 0..400),
        ),
        Mutant::new(
            "forgotten-grants",
            "a replica that starts again helps another leader while a lease that it granted runs",
            Sabotage::Config(|config: &mut Config| config.rules.bars_after_start = false),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/leases.rs: \
                 grants_forgotten_at_a_restart_let_a_leader_read_stale",
            ),
        ),
        Mutant::new(
            "late-lease",
            "a lease runs from when the last grant came, not from when it was asked for",
            Sabotage::Config(|config: &mut Config| config.rules.counts_from_question = false),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/leases.rs: \
                 a_lease_runs_from_when_it_was_asked_for",
            ),
        ),
        Mutant::new(
            "hasty-reads",
            "a leader's reads do not wait for an order, which may end the epoch",
            Sabotage::Config(|config: &mut Config| config.rules.reads_wait_for_orders = false),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/leases.rs: \
                 reads_wait_for_orders_even_under_a_lease",
            ),
        ),
        Mutant::new(
            "short-grant",
            "a grant runs half as long as the lease",
            Sabotage::Config(|config: &mut Config| config.hold_ns = config.lease_ns / 2),
            Catcher::seeds("--param lease_ms=300 --profile partitions", 0..400),
        ),
        Mutant::new(
            "no-new-life",
            "a replica that lost its promises votes as if it had made none",
            Sabotage::Amnesia,
            Catcher::seeds("--durability memory", 0..200),
        ),
    ]
}

fn end_promises(output: &mut Output<Replica>) -> bool {
    if let Output::Send { message, .. } = output
        && let Message::Promise(part) = message
    {
        part.until = None;
    }
    true
}
