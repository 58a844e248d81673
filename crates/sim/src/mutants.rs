//! Everything that can be broken on purpose: a protocol's mutants, and the flaws of the host.

use quorate_core::Machine;
use quorate_host::Flaw;
use quorate_protocols::{Catcher, Protocol, Sabotage};

/// What is broken in a run: nothing, something of the protocol, or something of the host.
pub(crate) struct Fault<M: Machine> {
    pub(crate) sabotage: Option<Sabotage<M>>,
    pub(crate) flaw: Option<Flaw>,
}

impl<M: Machine> Fault<M> {
    pub(crate) fn none() -> Self {
        Fault {
            sabotage: None,
            flaw: None,
        }
    }

    /// Finds a mutant by its name.
    pub(crate) fn named<P: Protocol<Machine = M>>(name: &str) -> Result<Self, String> {
        let mutants = P::mutants();
        let mutant = mutants.iter().find(|mutant| mutant.name == name);
        let flaw = Flaw::ALL.into_iter().find(|flaw| flaw.name() == name);
        if mutant.is_none() && flaw.is_none() {
            let known = mutants.iter().map(|mutant| mutant.name);
            let known: Vec<&str> = known.chain(Flaw::ALL.map(Flaw::name)).collect();
            let known = known.join(", ");
            return Err(format!(
                "{} has no mutant {name}: known are {known}",
                P::NAME
            ));
        }
        Ok(Fault {
            sabotage: mutant.map(|mutant| mutant.sabotage),
            flaw,
        })
    }
}

/// One line per mutant: its name, who finds it, where, with which options, and what it breaks.
pub(crate) fn list<P: Protocol>() -> Vec<String> {
    let mutants = P::mutants().into_iter();
    let mutants = mutants.map(|mutant| (mutant.name, mutant.what, mutant.catcher));
    let flaws = Flaw::ALL.into_iter();
    let flaws = flaws.map(|flaw| (flaw.name(), flaw.what(), catcher_of(flaw)));
    mutants.chain(flaws).map(line).collect()
}

fn line((name, what, catcher): (&str, &str, Catcher)) -> String {
    let (by, place, options) = match catcher {
        Catcher::Seeds { options, seeds } => {
            ("seeds", format!("{}..{}", seeds.start, seeds.end), options)
        }
        Catcher::Conversation(file) => ("conversation", file.into(), ""),
        Catcher::Test(path) => ("test", path.into(), ""),
    };
    format!("{name}|{by}|{place}|{options}|{what}")
}

/// What finds a flaw of the host.
fn catcher_of(flaw: Flaw) -> Catcher {
    let seeds = |seeds| Catcher::Seeds { options: "", seeds };
    match flaw {
        Flaw::NoDedup | Flaw::SkipsSlot | Flaw::ReadsTooEarly | Flaw::SpeaksTooEarly => {
            seeds(0..200)
        }
        Flaw::SessionsNotCarried | Flaw::BaseNotCarried | Flaw::ReleasesTooEarly => seeds(0..200),
        Flaw::ScalarsNotCarried => {
            Catcher::Test("crates/host/tests/flaws: what_a_release_must_carry_on")
        }
        Flaw::DamageTakenForTorn => Catcher::Seeds {
            options: "--profile rot-everywhere",
            seeds: 0..200,
        },
        Flaw::DigestsNotCompared => {
            Catcher::Test("crates/host/tests/flaws: replicas_that_differ_must_notice")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_protocols::rabia::Rabia;

    /// `scripts/mutants.sh --record` writes the table.
    #[test]
    fn the_table_in_the_documentation_lists_every_mutant() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/testing.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        for line in list::<Rabia>() {
            let name = line.split('|').next().unwrap_or_default();
            assert!(page.contains(&format!("| `{name}` |")), "{name} is missing");
        }
    }

    #[test]
    fn names_are_unique() {
        let lines = list::<Rabia>();
        let mut names: Vec<&str> = lines.iter().filter_map(|l| l.split('|').next()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines.len());
    }
}
