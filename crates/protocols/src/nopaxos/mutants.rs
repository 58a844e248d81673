//! Deliberate faults of NOPaxos, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of NOPaxos that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A view starts once more when somebody leaves earlier ones late.
    StartViewAgain,
    /// Who takes part in a view begins it once more when its log comes again.
    StartViewTwice,
    /// An entry that anybody has beats a no-op.
    ValueOverNone,
    /// A sequencer that starts again goes on in its session.
    ReuseSession,
    /// An entry is committed by a majority of replies, whoever they are from.
    CountWithoutLeader,
    /// The leader counts what was said of logs in any view.
    SyncAnyView,
}

/// A rule that a test finds broken.
const fn rule(
    name: &'static str,
    what: &'static str,
    edit: fn(&mut Config),
    test: &'static str,
) -> Mutant<Replica> {
    Mutant {
        name,
        what,
        sabotage: Sabotage::Config(edit),
        catcher: Catcher::Test(test),
    }
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = vec![
        rule(
            "start-view-again",
            "a view is started once more, with another log, when more replicas leave earlier ones",
            |c| c.faults = Faults::only(Fault::StartViewAgain),
            "crates/protocols/src/nopaxos/tests/mutants.rs: start_view_again",
        ),
        rule(
            "start-view-twice",
            "a log with which a view starts is adopted again by who takes part in it",
            |c| c.faults = Faults::only(Fault::StartViewTwice),
            "crates/protocols/src/nopaxos/tests/mutants.rs: start_view_twice",
        ),
        rule(
            "value-over-none",
            "a new view has the entry of a slot that the old leader gave up",
            |c| c.faults = Faults::only(Fault::ValueOverNone),
            "crates/protocols/src/nopaxos/tests/mutants.rs: value_over_none",
        ),
        rule(
            "reuse-session",
            "a sequencer that starts again goes on in its session",
            |c| c.faults = Faults::only(Fault::ReuseSession),
            "crates/protocols/src/nopaxos/tests/mutants.rs: reuse_session",
        ),
        rule(
            "count-without-leader",
            "a majority of replies commits an entry, whoever they are from",
            |c| c.faults = Faults::only(Fault::CountWithoutLeader),
            "crates/protocols/src/nopaxos/tests/mutants.rs: count_without_leader",
        ),
        rule(
            "sync-any-view",
            "logs count as the leader's that were those of another view's",
            |c| c.faults = Faults::only(Fault::SyncAnyView),
            "crates/protocols/src/nopaxos/tests/mutants.rs: sync_any_view",
        ),
    ];
    all.extend(majorities());
    all.extend(records());
    all
}

/// Majorities that are too small.
fn majorities() -> [Mutant<Replica>; 4] {
    [
        rule(
            "quorum-1",
            "a majority less one, the leader in it, commits an entry",
            |c| c.thresholds.reply -= 1,
            "crates/protocols/src/nopaxos/tests/mutants.rs: quorum_1",
        ),
        rule(
            "sync-quorum-1",
            "what a majority less one has is decided",
            |c| c.thresholds.sync -= 1,
            "crates/protocols/src/nopaxos/tests/mutants.rs: sync_quorum_1",
        ),
        rule(
            "change-quorum-1",
            "a view starts when a majority less one has left earlier ones",
            |c| c.thresholds.change -= 1,
            "crates/protocols/src/nopaxos/tests/mutants.rs: change_quorum_1",
        ),
        rule(
            "read-quorum-1",
            "a read hears from a majority less one, the leader in it",
            |c| c.thresholds.read -= 1,
            "crates/protocols/src/nopaxos/tests/mutants.rs: read_quorum_1",
        ),
    ]
}

/// What is not written, or not waited for.
fn records() -> [Mutant<Replica>; 3] {
    [
        Mutant {
            name: "gap-unpersisted",
            what: "no-ops in the log are not written",
            sabotage: Sabotage::Forget(Record::is_noop),
            catcher: Catcher::Test(
                "crates/protocols/src/nopaxos/tests/mutants.rs: gap_unpersisted",
            ),
        },
        Mutant {
            name: "view-unpersisted",
            what: "views are not written",
            sabotage: Sabotage::Forget(Record::is_view),
            catcher: Catcher::Test(
                "crates/protocols/src/nopaxos/tests/mutants.rs: view_unpersisted",
            ),
        },
        Mutant {
            name: "hasty",
            what: "own replies, no-ops and logs count before they are durable",
            sabotage: Sabotage::Hasty,
            catcher: Catcher::Test("crates/protocols/src/nopaxos/tests/mutants.rs: hasty"),
        },
    ]
}
