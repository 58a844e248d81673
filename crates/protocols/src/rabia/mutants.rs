//! Deliberate faults of Rabia, and what finds each.
//!
//! Not among them: a coin that falls alike in every slot. It is as safe as any, and it costs time
//! only against a scheduler that knows it, which no fault of a network is; the coin's own tests
//! in `quorate_core` say that slots and phases are told apart.

use super::{Bits, Config, Message, Record, Replica, Timer};
use crate::registry::{Catcher, Mutant, Sabotage};
use quorate_core::{Output, SECONDS};

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = thresholds();
    all.extend(omissions());
    all.extend(silences());
    all.extend(confusions());
    all
}

/// Every number of the quorum arithmetic, lowered by one.
fn thresholds() -> Vec<Mutant<Replica>> {
    let lowered = |name, what, lower: fn(&mut Config)| {
        Mutant::new(
            name,
            what,
            Sabotage::Config(lower),
            Catcher::seeds("", 0..100),
        )
    };
    vec![
        lowered(
            "fast-1",
            "one proposal too few decides a request at once",
            |c| c.thresholds.fast_1 -= 1,
        ),
        lowered("fast-0", "one proposal too few decides NULL at once", |c| {
            c.thresholds.fast_0 -= 1;
        }),
        lowered(
            "proposal-threshold",
            "less than a majority gives a request the slot",
            |c| c.thresholds.proposal -= 1,
        ),
        lowered(
            "state-majority",
            "less than a majority of States makes a vote",
            |c| c.thresholds.state_majority -= 1,
        ),
        lowered("decide-threshold", "f votes decide", |c| {
            c.thresholds.decide -= 1;
        }),
        lowered("wait-size", "n-f-1 values are a sample", |c| {
            c.thresholds.wait -= 1;
        }),
        lowered("fast-state", "one State too few decides", |c| {
            c.thresholds.fast_state -= 1;
        }),
        lowered("read-quorum", "a read hears from n - T members", |c| {
            c.thresholds.read -= 1;
        }),
        Mutant::new(
            "early-recovery",
            "a replica that lost its promises asks nobody how far it may have gone",
            Sabotage::Config(|c: &mut Config| c.thresholds.rejoin = 0),
            Catcher::Conversation("d7-mutant.txt"),
        ),
    ]
}

/// Records that are not written, and what is taken for written too early.
fn omissions() -> Vec<Mutant<Replica>> {
    let omitted = |name, what, forget: fn(&Record) -> bool, catcher| {
        Mutant::new(name, what, Sabotage::Forget(forget), catcher)
    };
    vec![
        omitted(
            "no-proposal-record",
            "proposals are not written",
            Record::is_proposal,
            Catcher::seeds("", 0..200),
        ),
        omitted(
            "no-state-record",
            "States are not written",
            Record::ends_with_state,
            Catcher::Conversation("d4-mutant.txt"),
        ),
        omitted(
            "no-vote-record",
            "votes are not written",
            Record::ends_with_vote,
            Catcher::seeds("", 0..200),
        ),
        omitted(
            "no-batch-record",
            "a proposal is written without its batch",
            |record| matches!(record, Record::Batch { .. }),
            Catcher::seeds("", 0..200),
        ),
        omitted(
            "no-forced-null",
            "after a restart, what was NULL may be proposed anew",
            Record::is_reserve,
            Catcher::Conversation("d21-mutant.txt"),
        ),
        omitted(
            "no-floor-record",
            "a recovery that a crash interrupts is forgotten",
            |record| matches!(record, Record::Floor { .. }),
            Catcher::seeds("--param lanes=3", 0..800),
        ),
        Mutant::new(
            "no-floor",
            "a replica that lost its promises votes as if it had made none",
            Sabotage::Amnesia,
            Catcher::seeds("--durability memory --param lanes=3", 0..200),
        ),
        Mutant::new(
            "done-forgotten",
            "a replica that starts or has caught up takes every batch for new",
            Sabotage::ForgetBase,
            Catcher::seeds("", 0..200),
        ),
        Mutant::new(
            "hasty-decision",
            "a decision counts own values that the disk may still forget",
            Sabotage::Hasty,
            Catcher::Conversation("late-disk-mutant.txt"),
        ),
    ]
}

/// Things that are not said: these cost progress, not agreement.
fn silences() -> Vec<Mutant<Replica>> {
    let unsaid = |name, what, keeps: fn(&mut Output<Replica>) -> bool, catcher| {
        Mutant::new(name, what, Sabotage::Output(keeps), catcher)
    };
    vec![
        unsaid(
            "silent-after-decision",
            "who has decided tells no laggard",
            |output| {
                !matches!(
                    output,
                    Output::Inform { .. }
                        | Output::Send {
                            message: Message::Decided { .. },
                            ..
                        }
                )
            },
            Catcher::Conversation("d10-mutant.txt"),
        ),
        unsaid(
            "votes-without-proposals",
            "votes are said again, proposals are not",
            |output| match output {
                Output::Send { message, .. } => match message {
                    Message::Slot(said) => !said.want || !said.trail.is_empty(),
                    Message::Nulls(said) => !said.want,
                    _ => true,
                },
                _ => true,
            },
            Catcher::seeds("", 0..200),
        ),
        unsaid(
            "no-retransmission",
            "nothing is said again",
            |output| {
                !matches!(
                    output,
                    Output::Arm {
                        timer: Timer::Retransmit,
                        ..
                    }
                )
            },
            Catcher::seeds("", 0..200),
        ),
        unsaid(
            "no-need",
            "a batch that is named and not here is not asked for",
            |output| {
                !matches!(
                    output,
                    Output::Send {
                        message: Message::Need { .. },
                        ..
                    }
                )
            },
            Catcher::Conversation("d11-mutant.txt"),
        ),
        Mutant::new(
            "no-null",
            "who lacks the batch that a peer proposed never joins the slot",
            Sabotage::Config(|c: &mut Config| c.adopt_wait_ns = 1_000 * SECONDS),
            Catcher::Conversation("d18-mutant.txt"),
        ),
        Mutant::new(
            "grace-forever",
            "a step that learns nothing decisive waits for the dead",
            Sabotage::Config(|c: &mut Config| c.grace_ns = 1_000 * SECONDS),
            Catcher::Conversation("grace-mutant.txt"),
        ),
    ]
}

/// Messages that say something else, or are counted otherwise.
fn confusions() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::new(
            "no-q",
            "a vote for a request does not name it",
            Sabotage::Output(|output| {
                if let Output::Send { message, .. } = output
                    && let Message::Slot(said) = message
                {
                    said.q = None;
                }
                true
            }),
            Catcher::seeds("", 0..20),
        ),
        Mutant::new(
            "implicit-nulls",
            "NULL is said for every slot below the last one",
            Sabotage::Output(|output| {
                if let Output::Send { message, .. } = output
                    && let Message::Nulls(said) = message
                {
                    let last = said.bits.iter().last().unwrap_or(0);
                    said.bits = Bits::default();
                    (0..=last).for_each(|offset| said.bits.insert(offset));
                }
                true
            }),
            Catcher::seeds("--param lanes=3", 0..200),
        ),
        Mutant::new(
            "messages-counted",
            "a message that comes twice counts for two replicas",
            Sabotage::CountMessages,
            Catcher::seeds("", 0..100),
        ),
    ]
}
