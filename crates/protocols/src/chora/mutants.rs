//! Deliberate faults of Chora, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// The rules that mutants break, one each; a replica without a mutant keeps all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A slot of the present view verifies an old tail before it (6.5 of the paper).
    VerifyOutOfOrder,
    /// The commit index goes beyond the end of the own verified log.
    UnclampedCommit,
    /// Entries of older views are committed by counting, before VIEW-INIT is.
    CountOlderViews,
    /// A NACK is answered with what is neither verified nor of the present view.
    RecoverUnverified,
    /// A proposer goes on in the view it restarted in.
    ProposeAfterRestart,
    /// A read waits for what members acknowledge, not for what they have appended.
    ReadByAck,
    /// An old tail is cut where nothing proves that it differs.
    EagerCut,
    /// A commit index that came with state is passed on as the present view's.
    BorrowedClaim,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = thresholds();
    all.extend(rules());
    all.extend(omissions());
    all
}

fn broken(
    name: &'static str,
    what: &'static str,
    edit: fn(&mut Config),
    catcher: Catcher,
) -> Mutant<Replica> {
    Mutant::new(name, what, Sabotage::Config(edit), catcher)
}

/// Every number of the quorum arithmetic, lowered.
fn thresholds() -> Vec<Mutant<Replica>> {
    vec![
        broken(
            "commit-quorum",
            "f acknowledgements commit",
            |c| c.thresholds.commit -= 1,
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: \
                 one_acknowledgement_too_few_is_noticed",
            ),
        ),
        broken(
            "vote-quorum",
            "f votes begin a view",
            |c| c.thresholds.vote -= 1,
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: one_vote_too_few_is_noticed",
            ),
        ),
        broken(
            "read-quorum",
            "a read hears from f members",
            |c| c.thresholds.read -= 1,
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: a_read_that_asks_too_few_is_noticed",
            ),
        ),
    ]
}

/// What was found to be unsafe.
fn rules() -> Vec<Mutant<Replica>> {
    vec![
        broken(
            "stale-tail",
            "a slot of the present view verifies an old tail before it (6.5 of the paper)",
            |c| c.faults = Faults::only(Fault::VerifyOutOfOrder),
            Catcher::Test("crates/protocols/src/chora/tests/random.rs: a_stale_tail_is_noticed"),
        ),
        broken(
            "unclamped-commit",
            "the commit index goes beyond the own log",
            |c| c.faults = Faults::only(Fault::UnclampedCommit),
            Catcher::Test(
                "crates/protocols/src/chora/tests/mutants.rs: \
                 a_commit_index_beyond_the_own_log_makes_replicas_disagree",
            ),
        ),
        broken(
            "early-commit",
            "entries of older views are committed by counting",
            |c| c.faults = Faults::only(Fault::CountOlderViews),
            Catcher::Test(
                "crates/protocols/src/chora/tests/schedules.rs: \
                 nothing_of_an_older_view_is_committed_by_counting",
            ),
        ),
        broken(
            "unverified-recovery",
            "a NACK is answered with what is not verified",
            |c| c.faults = Faults::only(Fault::RecoverUnverified),
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: \
                 what_is_recovered_unverified_is_noticed",
            ),
        ),
        broken(
            "proposes-again",
            "a proposer goes on in the view it restarted in",
            |c| c.faults = Faults::only(Fault::ProposeAfterRestart),
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: \
                 a_proposer_that_goes_on_after_a_restart_is_noticed",
            ),
        ),
        broken(
            "reads-by-ack",
            "a read waits for what members acknowledge",
            |c| c.faults = Faults::only(Fault::ReadByAck),
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: \
                 a_read_by_acknowledgements_is_noticed",
            ),
        ),
        broken(
            "eager-cut",
            "a tail that no segment tells of is cut",
            |c| c.faults = Faults::only(Fault::EagerCut),
            Catcher::Test(
                "crates/protocols/src/chora/tests/schedules.rs: \
                 an_eager_cut_drops_a_tail_that_may_be_committed",
            ),
        ),
        broken(
            "borrowed-claim",
            "a commit index that came with state is passed on as the view's",
            |c| c.faults = Faults::only(Fault::BorrowedClaim),
            Catcher::Test(
                "crates/protocols/src/chora/tests/mutants.rs: \
                 a_commit_index_that_came_with_state_makes_replicas_disagree",
            ),
        ),
    ]
}

/// What is not written, or forgotten.
fn omissions() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::new(
            "no-view-record",
            "views and votes are not written",
            Sabotage::Forget(Record::is_view),
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: a_vote_that_was_not_written_is_noticed",
            ),
        ),
        Mutant::new(
            "no-append-record",
            "the log is not written",
            Sabotage::Forget(Record::is_append),
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: a_log_that_was_not_written_is_noticed",
            ),
        ),
        Mutant::new(
            "amnesia",
            "a replica that lost its promises comes back as if it had made none",
            Sabotage::Amnesia,
            Catcher::seeds("--durability memory", 0..200),
        ),
        broken(
            "early-rejoin",
            "a replica that lost its promises asks nobody how far it may have gone",
            |c| c.thresholds.rejoin = 0,
            Catcher::Test(
                "crates/protocols/src/chora/tests/random.rs: \
                 a_life_that_nobody_took_note_of_is_noticed",
            ),
        ),
    ]
}
