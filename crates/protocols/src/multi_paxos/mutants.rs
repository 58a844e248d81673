//! Deliberate faults of Multi-Paxos, and what finds each.

use crate::registry::{Catcher, Mutant, Sabotage};
use crate::rs_paxos::{Config, Fault, Message, Record, Replica};
use crate::shared::faults::Faults;
use quorate_core::Output;

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = thresholds();
    all.extend(omissions());
    all
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
            Sabotage::Config(|c: &mut Config| c.faults = Faults::only(Fault::ForgetGrants)),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/leases.rs: \
                 grants_forgotten_at_a_restart_let_a_leader_read_stale",
            ),
        ),
        Mutant::new(
            "late-lease",
            "a lease runs from when the last grant came, not from when it was asked for",
            Sabotage::Config(|c: &mut Config| c.faults = Faults::only(Fault::CountFromGrant)),
            Catcher::Test(
                "crates/protocols/src/rs_paxos/tests/leases.rs: \
                 a_lease_runs_from_when_it_was_asked_for",
            ),
        ),
        Mutant::new(
            "hasty-reads",
            "a leader's reads do not wait for an order, which may end the epoch",
            Sabotage::Config(|c: &mut Config| c.faults = Faults::only(Fault::ReadPastOrders)),
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
