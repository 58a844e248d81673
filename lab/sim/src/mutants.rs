//! Everything that can be broken on purpose: a protocol's mutants, and the flaws of the host and of
//! the store.

use quorate_core::Machine;
use quorate_etcd_store::Flaw as StoreFlaw;
use quorate_host::Flaw;
use quorate_protocols::{Catcher, Protocol, Sabotage, Visitor, all_names, visit};
use quorate_redis_effects::Mutant;

/// What is broken in a run: nothing, or something of the protocol, the host, the store or the drivers of servers.
pub(crate) struct Fault<M: Machine> {
    pub(crate) sabotage: Option<Sabotage<M>>,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) store_flaw: Option<StoreFlaw>,
    pub(crate) effects_mutant: Option<Mutant>,
}

impl<M: Machine> Fault<M> {
    pub(crate) fn none() -> Self {
        Fault {
            sabotage: None,
            flaw: None,
            store_flaw: None,
            effects_mutant: None,
        }
    }

    /// Finds a mutant by its name.
    pub(crate) fn named<P: Protocol<Machine = M>>(name: &str) -> Result<Self, String> {
        let mutants = P::mutants();
        let mutant = mutants.iter().find(|mutant| mutant.name == name);
        let flaw = Flaw::ALL.into_iter().find(|flaw| flaw.name() == name);
        let store_flaw = StoreFlaw::ALL.into_iter().find(|flaw| flaw.name() == name);
        let of_effects = of_drivers().find(|mutant| mutant.name() == name);
        let is_known = mutant.is_some() || flaw.is_some() || store_flaw.is_some();
        if !is_known && of_effects.is_none() {
            let known = mutants.iter().map(|mutant| mutant.name);
            let flaws = Flaw::ALL.map(Flaw::name).into_iter();
            let flaws = flaws.chain(StoreFlaw::ALL.map(StoreFlaw::name));
            let flaws = flaws.chain(of_drivers().map(Mutant::name));
            let known: Vec<&str> = known.chain(flaws).collect();
            let known = known.join(", ");
            return Err(format!(
                "{} has no mutant {name}: known are {known}",
                P::NAME
            ));
        }
        Ok(Fault {
            sabotage: mutant.map(|mutant| mutant.sabotage),
            flaw,
            store_flaw,
            effects_mutant: of_effects,
        })
    }
}

/// One line per mutant of every protocol, then those of host, store and effects mode, which any protocol shows:
/// whose it is, the protocol to run, its name, who finds it, where, with which options, and what it
/// breaks.
pub(crate) fn list() -> Vec<String> {
    let protocols = all_names();
    let own = protocols.iter().filter_map(|name| visit(name, Own));
    let mut lines: Vec<String> = own.flatten().collect();
    if let Some(any) = protocols.first() {
        let flaws = Flaw::ALL.into_iter();
        let flaws = flaws.map(|flaw| (flaw.name(), flaw.what(), catcher_of(flaw)));
        lines.extend(flaws.map(|flaw| line("host", any, flaw)));
        let flaws = StoreFlaw::ALL.into_iter();
        let flaws = flaws.map(|flaw| (flaw.name(), flaw.what(), catcher_of_store(flaw)));
        lines.extend(flaws.map(|flaw| line("store", any, flaw)));
        let mutants = Mutant::ALL.into_iter();
        let mutants =
            mutants.map(|mutant| (mutant.name(), mutant.what(), catcher_of_effects(mutant)));
        lines.extend(mutants.map(|mutant| line("effects", any, mutant)));
    }
    lines
}

/// The lines of one protocol.
struct Own;

impl Visitor for Own {
    type Output = Vec<String>;

    fn visit<P: Protocol>(self) -> Vec<String> {
        let mutants = P::mutants().into_iter();
        let mutants = mutants.map(|mutant| (mutant.name, mutant.what, mutant.catcher));
        let lines = mutants.map(|mutant| line(P::NAME, P::NAME, mutant));
        lines.collect()
    }
}

fn line(of: &str, protocol: &str, (name, what, catcher): (&str, &str, Catcher)) -> String {
    let (by, place, options) = match catcher {
        Catcher::Seeds { options, seeds } => {
            ("seeds", format!("{}..{}", seeds.start, seeds.end), options)
        }
        Catcher::Conversation(file) => ("conversation", file.into(), ""),
        Catcher::Test(path) => ("test", path.into(), ""),
    };
    format!("{of}|{protocol}|{name}|{by}|{place}|{options}|{what}")
}

/// Mutants of drivers that whole clusters show; the others are shown by the servers' own simulation or a test.
fn of_drivers() -> impl Iterator<Item = Mutant> {
    let is_shown = |mutant: &Mutant| matches!(catcher_of_effects(*mutant), Catcher::Seeds { .. });
    Mutant::ALL.into_iter().filter(is_shown)
}

/// What finds a broken rule of the effects mode.
fn catcher_of_effects(mutant: Mutant) -> Catcher {
    match mutant {
        Mutant::EpochUnchecked => Catcher::Test(
            "crates/redis-effects/tests/stream: an_unchecked_epoch_lets_a_deposed_executor_write",
        ),
        Mutant::OffsetUnchecked => {
            Catcher::Test("lab/redis-sim/tests/redis_sim/seeds: pieces_of_any_offset_are_caught")
        }
        Mutant::ReadsUnproven => {
            Catcher::Test("lab/redis-sim/tests/redis_sim/seeds: reads_without_a_proof_are_caught")
        }
        Mutant::RdbAhead => Catcher::seeds("--store effects --profile calm", 0..200),
        Mutant::AnswersNotHeld
        | Mutant::ContinueAlways
        | Mutant::NoBarrier
        | Mutant::OutOfOrder
        | Mutant::CutUnits => Catcher::seeds("--store effects", 0..200),
    }
}

/// What finds a flaw of the store.
fn catcher_of_store(flaw: StoreFlaw) -> Catcher {
    let options = match flaw {
        // A replica must have missed the renewal, and be first to say that the time is over.
        StoreFlaw::ExpiryIgnoresRenewals => "--profile pauses,partitions",
        StoreFlaw::RevisionNotCarried | StoreFlaw::WatchDropsAtCompaction => "",
        StoreFlaw::RightsOfFaceSuffice
        | StoreFlaw::ReadsNotChecked
        | StoreFlaw::RevokedRightsKept
        | StoreFlaw::InnerTxnNotChecked
        | StoreFlaw::PreviousValueNotChecked
        | StoreFlaw::WatchesNotLookedAtAgain => "--profile users",
    };
    Catcher::seeds(options, 0..200)
}

/// What finds a flaw of the host.
fn catcher_of(flaw: Flaw) -> Catcher {
    match flaw {
        Flaw::NoDedup
        | Flaw::SkipsSlot
        | Flaw::ReadsTooEarly
        | Flaw::SpeaksTooEarly
        | Flaw::SessionsNotCarried
        | Flaw::BaseNotCarried
        | Flaw::ReleasesTooEarly => Catcher::seeds("", 0..200),
        Flaw::AppliesBehindSeal => Catcher::seeds("--profile epochs", 0..200),
        Flaw::AsksNoneAgain => Catcher::seeds("--profile epochs", 0..200),
        Flaw::WithdrawsWhatIsOffered => Catcher::seeds("", 0..200),
        Flaw::ScalarsNotCarried => {
            Catcher::Test("crates/host/tests/flaws: what_a_release_must_carry_on")
        }
        Flaw::DamageTakenForTorn => Catcher::seeds("--profile rot-everywhere", 0..200),
        Flaw::FragmentsNotAwaited => {
            Catcher::Test("crates/host/tests/staged: a_record_waits_for_the_fragments_it_names")
        }
        Flaw::ClaimsNotNoted | Flaw::ClaimsTooEarly | Flaw::DigestsNotCompared => {
            Catcher::seeds("--profile old-copies", 0..200)
        }
        Flaw::ClaimsNotChecked => {
            Catcher::Test("crates/host/tests/rollback: messages_of_an_old_copy_are_refused")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scripts/mutants.sh --record` writes the table.
    #[test]
    fn the_table_in_the_documentation_lists_every_mutant() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/mutants.md"
        );
        let page = std::fs::read_to_string(page).expect("the page is there");
        for line in list() {
            let words: Vec<&str> = line.split('|').collect();
            let row = format!("| {} | `{}` |", words[0], words[2]);
            assert!(page.contains(&row), "{row} is missing");
        }
    }

    #[test]
    fn names_are_unique() {
        let lines = list();
        let mut names: Vec<Vec<&str>> = lines
            .iter()
            .map(|l| l.split('|').skip(1).take(2).collect())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines.len());
    }
}
