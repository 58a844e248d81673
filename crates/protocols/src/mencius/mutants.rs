//! Deliberate faults of Mencius, and what finds each.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// A rule of Mencius that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// What is skipped names no exceptions.
    ImplicitSkip,
    /// A start uses own slots that an earlier one may have used.
    NoReserve,
    /// Who takes a lane over fills it with no-ops, whatever promises show.
    NoopOverValue,
    /// Of what promises show in a slot, what came first counts, whatever the ballots.
    LowerBallot,
    /// Who takes a lane over puts own entries into it.
    TakerProposes,
    /// An owner that is back uses its next slots, whatever promises show in them.
    OwnerIgnoresPromises,
    /// A promise is for one slot of the lane.
    PromiseOneSlot,
    /// Nobody skips slots.
    NeverSkip,
    /// An owner takes its entries for lost with its lane, and an entry takes effect wherever it is decided.
    ResuggestTwice,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = rules();
    all.extend(others());
    all
}

/// Rules of lanes.
fn rules() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::<Replica>::by_test(
            "implicit-skip",
            "an owner says that it skipped all own slots before its next one",
            |c| c.faults = Faults::only(Fault::ImplicitSkip),
            "crates/protocols/src/mencius/tests/mutants.rs: implicit_skip",
        ),
        Mutant::<Replica>::by_test(
            "no-reserve",
            "a start uses own slots that an earlier one may have skipped",
            |c| c.faults = Faults::only(Fault::NoReserve),
            "crates/protocols/src/mencius/tests/mutants.rs: no_reserve",
        ),
        Mutant::<Replica>::by_test(
            "noop-over-value",
            "who takes a lane over fills it with no-ops, whatever promises show",
            |c| c.faults = Faults::only(Fault::NoopOverValue),
            "crates/protocols/src/mencius/tests/mutants.rs: noop_over_value",
        ),
        Mutant::<Replica>::by_test(
            "lower-ballot",
            "of two values that promises show in a slot, that counts which came first",
            |c| c.faults = Faults::only(Fault::LowerBallot),
            "crates/protocols/src/mencius/tests/mutants.rs: lower_ballot",
        ),
        Mutant::<Replica>::by_test(
            "taker-proposes",
            "who takes a lane over puts own entries into it",
            |c| c.faults = Faults::only(Fault::TakerProposes),
            "crates/protocols/src/mencius/tests/mutants.rs: taker_proposes",
        ),
        Mutant::<Replica>::by_test(
            "owner-ignores-promises",
            "an owner that takes its lane back uses its next slots, whatever promises show in them",
            |c| c.faults = Faults::only(Fault::OwnerIgnoresPromises),
            "crates/protocols/src/mencius/tests/mutants.rs: owner_ignores_promises",
        ),
        Mutant::<Replica>::by_test(
            "promise-one-slot",
            "a promise is for one slot of a lane",
            |c| c.faults = Faults::only(Fault::PromiseOneSlot),
            "crates/protocols/src/mencius/tests/mutants.rs: promise_one_slot",
        ),
        Mutant::<Replica>::by_test(
            "resuggest-twice",
            "own entries are suggested again with a lost lane, and take effect wherever they are decided",
            |c| c.faults = Faults::only(Fault::ResuggestTwice),
            "crates/protocols/src/mencius/tests/mutants.rs: resuggest_twice",
        ),
    ]
}

/// Majorities, what is not written, and what is not waited for or not done.
fn others() -> Vec<Mutant<Replica>> {
    vec![
        Mutant::new(
            "never-skip",
            "nobody skips slots: whoever is idle holds up everybody",
            Sabotage::Config(|c: &mut Config| c.faults = Faults::only(Fault::NeverSkip)),
            Catcher::Test("crates/protocols/src/mencius/tests/mutants.rs: never_skip"),
        ),
        Mutant::new(
            "majority-1",
            "a majority less one decides",
            Sabotage::Config(|c: &mut Config| c.thresholds.accept -= 1),
            Catcher::seeds("", 0..200),
        ),
        Mutant::new(
            "promises-1",
            "a majority less one lets a replica take a lane over",
            Sabotage::Config(|c: &mut Config| c.thresholds.promise -= 1),
            Catcher::seeds("", 0..200),
        ),
        Mutant::new(
            "read-quorum",
            "a read hears from a majority less one",
            Sabotage::Config(|c: &mut Config| c.thresholds.read -= 1),
            Catcher::seeds("--profile partitions", 0..400),
        ),
        Mutant::new(
            "hasty",
            "own acceptances, promises and reservations count before they are durable",
            Sabotage::Hasty,
            Catcher::Test("crates/protocols/src/mencius/tests/mutants.rs: hasty"),
        ),
        Mutant::new(
            "forget-promise",
            "promises are not written",
            Sabotage::Forget(Record::is_promise),
            Catcher::Test("crates/protocols/src/mencius/tests/mutants.rs: forget_promise"),
        ),
        Mutant::new(
            "no-accept-record",
            "what is accepted is not written",
            Sabotage::Forget(Record::is_accept),
            Catcher::seeds("", 0..100),
        ),
    ]
}
