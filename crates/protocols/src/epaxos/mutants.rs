//! Deliberate faults of EPaxos, and what finds each.

use super::Replica;
use super::config::{Config, Thresholds};
use super::messages::Record;
use super::state::Phase;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of EPaxos that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// What may have been committed on the fast path is proposed, whatever contradicts.
    NoValidate,
    /// To join a ballot is to have accepted at it.
    OneBallot,
    /// Entries are executed and answered when they are committed, whatever is below them.
    AnswerAtCommit,
    /// A coordinator tells of what it commits on the fast path before that is durable, and says after a restart that it
    /// has not.
    CoordinatorForgets,
    /// Entries leave before their coordinator has them on disk.
    EarlyPreAccept,
    /// Any complete root is delivered, with what is below it.
    AnyRoot,
    /// What is delivered goes before nothing any more.
    DropAtDelivery,
    /// The commands of an entry that its instance did not order are forgotten.
    LoseVoid,
    /// Where entries are held, what any one of the fast quorum kept is taken for what all did.
    AnyOfQuorum,
    /// Where entries are held, whoever waits for others speaks against what does not go behind it.
    AnyWaiting,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = rules();
    all.extend(others());
    all
}

/// A rule that is broken, found by a test of the file of mutants.
macro_rules! broken {
    ($($name:literal, $test:literal, $fault:ident: $what:literal;)+) => {
        vec![$(Mutant::<Replica>::by_test(
            $name,
            $what,
            |config| config.faults = Faults::only(Fault::$fault),
            concat!("crates/protocols/src/epaxos/tests/mutants.rs: ", $test),
        )),+]
    };
}

fn rules() -> Vec<Mutant<Replica>> {
    broken! {
        "no-validate", "no_validate", NoValidate:
            "what may have been committed on the fast path is proposed, whatever contradicts";
        "one-ballot", "one_ballot", OneBallot:
            "to join a ballot is to have accepted at it";
        "answer-at-commit", "answer_at_commit", AnswerAtCommit:
            "entries are executed and answered when they are committed, whatever is below them";
        "coordinator-forgets", "coordinator_forgets", CoordinatorForgets:
            "a coordinator tells of fast commits that are not durable, and says after a restart that there were none";
        "early-preaccept", "early_preaccept", EarlyPreAccept:
            "entries leave before their coordinator has them on disk";
        "any-root", "any_root", AnyRoot:
            "any complete root is delivered, with what is below it";
        "drop-at-delivery", "drop_at_delivery", DropAtDelivery:
            "what is delivered goes before nothing any more";
        "lose-void", "lose_void", LoseVoid:
            "the commands of an entry that its instance did not order are forgotten";
        "toq-any-of-quorum", "toq_any_of_quorum", AnyOfQuorum:
            "where entries are held, what any one of the fast quorum kept is taken for what all did";
        "toq-any-waiting", "toq_any_waiting", AnyWaiting:
            "where entries are held, whoever waits for others speaks against what does not go behind it";
    }
}

/// Quorums, and what is not written or not waited for.
fn others() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::<Replica>::by_test(
            "fast-quorum-1",
            "a member too few commits on the fast path",
            |config: &mut Config| config.thresholds.fast -= 1,
            "crates/protocols/src/epaxos/tests/mutants.rs: fast_quorum_1",
        ),
        Mutant::<Replica>::by_test(
            "toq-small-quorum",
            "where entries are held, fast quorums are those of EPaxos* without",
            |config: &mut Config| {
                let members = config.seating.members.len();
                config.thresholds.fast = Thresholds::of(members).fast;
            },
            "crates/protocols/src/epaxos/tests/mutants.rs: toq_small_quorum",
        ),
        Mutant::<Replica>::by_test(
            "slow-quorum-1",
            "a member too few commits on the slow path, and lets instances be recovered",
            |config: &mut Config| config.thresholds.slow -= 1,
            "crates/protocols/src/epaxos/tests/mutants.rs: slow_quorum_1",
        ),
        Mutant::new(
            "forget-preaccept",
            "entries that are kept are not written",
            Sabotage::Forget(is_pre_accept),
            Catcher::Test("crates/protocols/src/epaxos/tests/mutants.rs: forget_preaccept"),
        ),
        Mutant::new(
            "hasty",
            "what this replica keeps, accepts and joins itself counts before it is durable",
            Sabotage::Hasty,
            Catcher::Test("crates/protocols/src/epaxos/tests/mutants.rs: hasty"),
        ),
    ]
}

pub(super) fn is_pre_accept(record: &Record) -> bool {
    matches!(record, Record::Instance(kept) if kept.phase == Phase::PreAccepted)
}
