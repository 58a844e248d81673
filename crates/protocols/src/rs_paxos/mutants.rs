//! Deliberate faults of coded values, and what finds each. What the faults of Multi-Paxos
//! (`../multi_paxos/mutants.rs`) break is the same with and without codes.

use super::Replica;
use super::config::Config;
use super::messages::{Message, Record};
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;
use quorate_core::Output;

/// A rule of RS-Paxos or Multi-Paxos that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Phase 1(c) counts fragments by ballot, not by the value they belong to.
    CountByBallot,
    /// A value accepted again under another code loses its earlier fragments.
    DropFragments,
    /// A commit notice is taken for a word about accepts in older ballots.
    ClaimOverBallots,
    /// A value that cannot be gathered is taken for one that was not chosen.
    GiveUpFragments,
    /// A start forgets what was granted before, and helps another leader.
    ForgetGrants,
    /// A lease runs from when the last grant came, not from when it was asked for.
    CountFromGrant,
    /// A leader's reads do not wait for the orders it has accepted, one of which may end the epoch.
    ReadPastOrders,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let broken = |name, what, edit: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(edit), catcher)
    };
    vec![
        broken(
            "count-by-ballot",
            "phase 1(c) as the paper can be read: fragments count by ballot, not by value",
            |c| c.faults = Faults::only(Fault::CountByBallot),
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
            |c| c.faults = Faults::only(Fault::DropFragments),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/exhaustive.rs: \
                 without_the_retention_rule_two_values_are_chosen",
            ),
        ),
        broken(
            "index-over-ballots",
            "a commit index is taken for a word about accepts of older ballots",
            |c| c.faults = Faults::only(Fault::ClaimOverBallots),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/coded.rs: \
                 an_index_over_older_accepts_delivers_what_was_not_chosen",
            ),
        ),
        broken(
            "missing-is-no-op",
            "a value that cannot be gathered is taken for one that was not chosen",
            |c| c.faults = Faults::only(Fault::GiveUpFragments),
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
