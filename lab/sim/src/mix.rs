//! Which profiles take part in a seed. [`Mix::Swarm`], the default, leaves some out in every seed, for
//! faults also hide each other.

use crate::plan::Plan;
use crate::profiles::{CHANGING, CLASSIC, Draw, NAMED, PROFILES, Profile};
use fastrand::Rng;
use quorate_core::Durability;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The name of the mixture of all profiles.
const SWARM: &str = "swarm";

/// Which profiles seeds are run with.
#[derive(Clone)]
pub(crate) enum Mix {
    /// Each seed draws some; these always.
    Swarm(Vec<&'static Profile>),
    /// These, always.
    Chosen(Vec<&'static Profile>),
}

impl Mix {
    /// Finds the profiles of these names.
    ///
    /// # Errors
    /// Says which name is unknown, and which are known.
    pub(crate) fn parse(names: &[String]) -> Result<Mix, String> {
        for name in names.iter().filter(|name| *name != SWARM) {
            check(name)?;
        }
        let is_chosen = |profile: &&Profile| names.iter().any(|name| name == profile.name);
        let chosen = PROFILES.iter().filter(is_chosen).collect();
        Ok(match names.iter().any(|name| name == SWARM) {
            true => Mix::Swarm(chosen),
            false => Mix::Chosen(chosen),
        })
    }

    /// The names of the profiles that take part in a seed: chosen together, they do to it what
    /// this mix does.
    pub(crate) fn names(&self, seed: u64) -> Vec<&'static str> {
        self.profiles(seed)
            .iter()
            .map(|profile| profile.name)
            .collect()
    }

    /// Whether a profile was named.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        let (Mix::Swarm(named) | Mix::Chosen(named)) = self;
        named.iter().any(|profile| profile.name == name)
    }

    fn profiles(&self, seed: u64) -> Vec<&'static Profile> {
        match self {
            Mix::Swarm(always) => swarm(seed, always),
            Mix::Chosen(profiles) => profiles.clone(),
        }
    }

    /// Faults that many seeds must show and none of these has. Without disks, some cannot.
    pub(crate) fn unseen(&self, seen: &BTreeMap<&'static str, u64>) -> Vec<&'static str> {
        let profiles = match self {
            Mix::Swarm(always) => usual(always).collect(),
            Mix::Chosen(profiles) => profiles.clone(),
        };
        let expected: BTreeSet<_> = profiles.iter().flat_map(|profile| profile.shows).collect();
        let unseen = expected
            .into_iter()
            .filter(|fault| !seen.contains_key(**fault));
        unseen.copied().collect()
    }

    /// The plan of a seed, from the one with the classic faults.
    pub(crate) fn plan(&self, seed: u64, classic: Plan, durability: Durability) -> Plan {
        let chosen = self.profiles(seed);
        if let [only] = &chosen[..]
            && only.name == CLASSIC
        {
            return classic;
        }
        let mut plan = classic.calm();
        plan.load.rich = true;
        plan.quorum_first = generator(seed, "quorum first").bool();
        for profile in chosen {
            (profile.hurt)(&mut Draw {
                plan: &mut plan,
                rng: generator(seed, profile.name),
                classic: &classic,
                durability,
            });
        }
        plan
    }
}

fn check(name: &str) -> Result<(), String> {
    let mut known = PROFILES.iter().map(|profile| profile.name);
    if known.any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
    Err(format!(
        "unknown profile {name}: known are {}, and {SWARM}",
        known.join(", ")
    ))
}

/// Some profiles: a few, a quarter or half of them, and those that take part always.
fn swarm(seed: u64, always: &[&'static Profile]) -> Vec<&'static Profile> {
    let mut rng = generator(seed, SWARM);
    let one_in = [2, 4, 8][rng.usize(..3)];
    let is_always = |profile: &Profile| always.iter().any(|other| other.name == profile.name);
    let chosen = usual(always).filter(|profile| rng.u8(..one_in) == 0 || is_always(profile));
    chosen.collect()
}

/// Those that take part with others. How many disks may be lost is counted for the members that the
/// group began with: where it changes, none is.
fn usual(always: &[&'static Profile]) -> impl Iterator<Item = &'static Profile> {
    let is_changing = |profile: &Profile| CHANGING.contains(&profile.name);
    let is_always = move |profile: &Profile| always.iter().any(|other| other.name == profile.name);
    let changes = always.iter().any(|profile| is_changing(profile));
    PROFILES.iter().filter(move |profile| match changes {
        true if LOSING.contains(&profile.name) => false,
        _ if NAMED.contains(&profile.name) => is_always(profile),
        _ => !is_changing(profile) || is_always(profile),
    })
}

/// The profiles that take away what was durable.
const LOSING: [&str; 5] = [CLASSIC, "wipes", "bit-rot", "rot-everywhere", "read-errors"];

/// The lines of `--list-profiles`: name, tab, what it does.
pub(crate) fn lines() -> Vec<String> {
    let one = |profile: &Profile| format!("{}\t{}", profile.name, profile.what);
    let swarm = format!(
        "{SWARM}\teach seed draws some of the others (the default); with {}, those that lose no disks",
        CHANGING.join(" or ")
    );
    PROFILES.iter().map(one).chain([swarm]).collect()
}

/// A generator for one purpose: the same whatever else a seed draws.
pub(crate) fn generator(seed: u64, purpose: &str) -> Rng {
    Rng::with_seed(xxh3_64_with_seed(purpose.as_bytes(), seed))
}
