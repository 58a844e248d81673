//! Deliberate faults of Racos beside those of Weak-MVC, which are Rabia's, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::Message;
use crate::rabia::weak_mvc;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;
use quorate_core::{Lsn, Outcome, Output};

/// Where a cluster's disks are watched.
const WATCHED: Catcher = Catcher::Test(
    "crates/protocols/src/racos/tests/random.rs: every_mutant_of_the_spreader_is_found",
);
/// Told step by step.
const DIRECTED: Catcher =
    Catcher::Test("crates/protocols/src/racos/tests/schedules.rs: every_directed_mutant_is_found");
/// Every value is coded, however short.
const CODED: &str = "--replicas 5 --code 5,3 --param payload_min=1";

/// A rule of the spreader that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// After a restart, what merely came with a segment is proposed: the candidate bit is ignored.
    IgnoreCandidateBit,
    /// A restart forgets that an own value was announced.
    ForgetAnnounced,
    /// A roster is heeded before everything is applied here that its sender had applied.
    HeedEarlyRoster,
    /// A member that lost its disk votes again without the segments that may count on it.
    SkipRebuild,
    /// An acknowledgement outlives the disk that it speaks of.
    IgnoreLosses,
    /// A roster from before its origin's loss says what becomes of what is spread after the loss.
    HeedOldRosters,
    /// The roster of a new life does not tell what was given up.
    KeepAbandonedSecret,
    /// A value that may have been announced before a disk was lost is given up.
    AbandonOrphans,
    /// With `merged`, the log makes nothing void.
    SkipVoids,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = numbers();
    all.extend(omissions());
    all.extend(haste());
    all.push(older_version());
    all
}

fn numbers() -> Vec<Mutant<Replica>> {
    let config = |name, what, change: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(change), catcher)
    };
    vec![
        config(
            "holders",
            "k + f - 1 holders make a candidate",
            |c| c.thresholds.spare -= 1,
            WATCHED,
        ),
        config(
            "paper-fast-path",
            "k + f proposals give a value the slot, and n - f decide at once: the paper's words",
            |c| {
                let t = &mut c.mvc.thresholds;
                (t.proposal, t.fast_1) = (usize::from(c.code) + t.f, t.wait);
                (t.fast_0, t.read) = (t.n - t.proposal + 1, t.n - t.proposal + 1);
            },
            Catcher::seeds(CODED, 0..200),
        ),
        config(
            "fast-1",
            "T + f - 1 proposals decide a value at once",
            |c| c.mvc.thresholds.fast_1 -= 1,
            Catcher::seeds(CODED, 0..200),
        ),
        config(
            "coded-states",
            "k + f equal States make a vote",
            |c| c.mvc.thresholds.state_majority = usize::from(c.code) + c.thresholds.spare,
            Catcher::seeds(
                "--replicas 7 --code 7,2 --param f=1 --param payload_min=1",
                0..200,
            ),
        ),
        config(
            "read-quorum",
            "a read hears from n - T members",
            |c| c.mvc.thresholds.read -= 1,
            Catcher::seeds("--replicas 4 --code 4,2 --param payload_min=1", 0..200),
        ),
        config(
            "applied-reads",
            "a read is answered by what is applied where it is asked",
            |c| c.mvc.thresholds.read = 1,
            Catcher::seeds(CODED, 0..200),
        ),
    ]
}

fn omissions() -> Vec<Mutant<Replica>> {
    let config = |name, what, change: fn(&mut Config), catcher| {
        Mutant::new(name, what, Sabotage::Config(change), catcher)
    };
    vec![
        config(
            "no-candidate-bit",
            "after a restart, what merely came with a segment is proposed",
            |c| c.faults = Faults::only(Fault::IgnoreCandidateBit),
            WATCHED,
        ),
        config(
            "announced-forgotten",
            "after a restart, an origin takes what it announced for dead",
            |c| c.faults = Faults::only(Fault::ForgetAnnounced),
            WATCHED,
        ),
        config(
            "early-roster",
            "a roster is heeded before what its sender had applied is applied",
            |c| c.faults = Faults::only(Fault::HeedEarlyRoster),
            WATCHED,
        ),
        config(
            "no-rebuild",
            "a replica that lost its disk votes again without the segments that count on it",
            |c| c.faults = Faults::only(Fault::SkipRebuild),
            WATCHED,
        ),
        config(
            "undying-ack",
            "an acknowledgement counts when the disk it speaks of is lost",
            |c| c.faults = Faults::only(Fault::IgnoreLosses),
            WATCHED,
        ),
        config(
            "undying-roster",
            "a roster from before its origin's loss says what becomes of what is spread after it",
            |c| c.faults = Faults::only(Fault::HeedOldRosters),
            DIRECTED,
        ),
        config(
            "untold",
            "nobody is told which values an origin cut anew",
            |c| c.faults = Faults::only(Fault::KeepAbandonedSecret),
            WATCHED,
        ),
        config(
            "orphans-cut",
            "a value that may have been announced before a disk was lost is cut anew",
            |c| c.faults = Faults::only(Fault::AbandonOrphans),
            WATCHED,
        ),
        config(
            "merged-foreign",
            "with merged, who merely knows a value proposes it, without its segment",
            |c| c.mvc.holders_propose = false,
            WATCHED,
        ),
        config(
            "merged-no-void",
            "with merged, nothing that an origin left is made void",
            |c| c.faults = Faults::only(Fault::SkipVoids),
            WATCHED,
        ),
        config(
            "merged-void-ignored",
            "with merged, what was made void takes effect if it is decided later",
            |c| c.mvc.faults = Faults::only(weak_mvc::Fault::IgnoreVoids),
            WATCHED,
        ),
    ]
}

fn haste() -> Vec<Mutant<Replica>> {
    let early = |name, what, change: fn(&mut Output<Replica>) -> bool, catcher| {
        Mutant::new(name, what, Sabotage::Output(change), catcher)
    };
    vec![
        early(
            "early-ack",
            "a segment is acknowledged before it is on the disk",
            |output| {
                if let Output::Send { message, after, .. } = output
                    && matches!(message, Message::SegAck { .. })
                {
                    *after = Lsn(0);
                }
                true
            },
            WATCHED,
        ),
        early(
            "early-candidate",
            "a candidate is told of before it is written that it is one",
            |output| {
                if let Output::Send { message, after, .. } = output
                    && is_candidate(message)
                {
                    *after = Lsn(0);
                }
                true
            },
            WATCHED,
        ),
        early(
            "no-roster",
            "nobody is told what an earlier life left",
            |output| {
                let Output::Send { message, .. } = output else {
                    return true;
                };
                !matches!(message, Message::Roster { .. })
            },
            WATCHED,
        ),
    ]
}

/// A reader that lacks its segment of the newest value is told that it may answer with what it has applied.
fn older_version() -> Mutant<Replica> {
    let change = |replica: &Replica, output: &mut Output<Replica>| {
        if let Output::Reply { outcome, .. } = output
            && let Outcome::ReadAt(slot) = outcome
        {
            let is_held = |id| replica.segments.get(id).is_some_and(|own| own.is_held);
            let mut newer = replica.mvc.undecided().filter(|one| one.bulk_len() > 0);
            if newer.any(|entry| !is_held(entry.id)) {
                *slot = replica.mvc.next();
            }
        }
    };
    Mutant::new(
        "older-version",
        "a read is answered with an older version while the newest is not in enough segments where it is asked",
        Sabotage::Knowing(change),
        Catcher::seeds(CODED, 0..200),
    )
}

fn is_candidate(message: &Message) -> bool {
    match message {
        Message::Mvc(weak_mvc::Message::Batch { entry }) => entry.bulk_len() > 0,
        _ => false,
    }
}
