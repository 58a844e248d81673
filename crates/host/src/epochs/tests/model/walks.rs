//! Random walks: the rules hold, and no broken one does.

use super::{Counts, Fault, Mutant, Scope, World};
use fastrand::Rng;

const STEPS: usize = 1500;
const SOUND: Scope = Scope::of(5, None);
const WITH_VALUES: Scope = Scope {
    has_values: true,
    ..SOUND
};
const AHEAD: Scope = Scope {
    is_ahead: true,
    ..SOUND
};

/// A walk from a seed; its cluster has 1 to 5 members of 5 nodes.
fn walk(scope: Scope, seed: u64, steps: usize) -> Result<Counts, Fault> {
    let mut rng = Rng::with_seed(seed);
    let members = rng.usize(1..=scope.nodes);
    let failures = rng.usize(..=(members - 1) / 2);
    let mut world = World::new(scope, members, failures);
    for _ in 0..steps {
        if let Some(act) = world.draw(&mut rng) {
            world.act(&act)?;
        }
    }
    world.drain()?;
    Ok(world.counts)
}

fn walks(scope: Scope, seeds: u64, steps: usize) -> Counts {
    let mut all = Counts::default();
    for seed in 0..seeds {
        let counts = walk(scope, seed, steps);
        let counts = counts.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        all.add(&counts);
    }
    println!("{seeds} walks of {steps} steps: {all:?}");
    all
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.slots += other.slots;
        self.seals += other.seals;
        self.voids += other.voids;
        self.answers += other.answers;
        self.early += other.early;
        self.gathered += other.gathered;
        self.reads += other.reads;
        self.losses += other.losses;
        self.left += other.left;
        self.refused += other.refused;
    }

    /// Whether everything that the walks are for has happened.
    fn is_complete(&self) -> bool {
        let counts = [
            self.seals,
            self.voids,
            self.answers,
            self.reads,
            self.losses,
            self.left,
            self.refused,
        ];
        counts.iter().all(|count| *count > 0)
    }
}

#[test]
fn random_walks_keep_the_invariants_and_go_on_when_faults_stop() {
    assert!(walks(SOUND, 1000, STEPS).is_complete());
}

#[test]
fn random_walks_with_payloads_under_way_keep_the_invariants() {
    let counts = walks(WITH_VALUES, 500, STEPS);
    assert!(counts.is_complete() && counts.gathered > 0);
}

#[test]
fn random_walks_that_execute_ahead_keep_the_invariants() {
    let counts = walks(AHEAD, 500, STEPS);
    assert!(counts.is_complete() && counts.early > 0);
}

/// Walks until a broken rule has to have shown.
const CATCH_WITHIN: u64 = 2_000;

/// The others need schedules that chance seldom finds: the directed tests have them.
const CAUGHT_BY_CHANCE: [(Mutant, Scope); 16] = [
    (Mutant::AppliesPastTheSeal, SOUND),
    (Mutant::SlotAlone, SOUND),
    (Mutant::StartsOnVotes, SOUND),
    (Mutant::StartsWithoutState, SOUND),
    (Mutant::LeavesAtItsSeal, SOUND),
    (Mutant::LeavesAfterTooFewHolders, SOUND),
    (Mutant::HoldsBeforeDurable, SOUND),
    (Mutant::DropsRecordsEarly, SOUND),
    (Mutant::KeepsIncarnation, SOUND),
    (Mutant::NoSessions, SOUND),
    (Mutant::AnswersWhenDecided, SOUND),
    (Mutant::NoExpect, SOUND),
    (Mutant::ReadQuorumShort, SOUND),
    (Mutant::ExecutesBehindChange, AHEAD),
    (Mutant::VotesWithoutBytes, WITH_VALUES),
    (Mutant::SettlesWhenOpen, WITH_VALUES),
];

#[test]
fn every_broken_rule_shows() {
    println!("{:<26} {:>6}  as", "broken rule", "walks");
    let mut missed = Vec::new();
    for (mutant, scope) in CAUGHT_BY_CHANCE {
        let scope = Scope {
            mutant: Some(mutant),
            ..scope
        };
        let walks = (0..CATCH_WITHIN).map(|seed| walk(scope, seed, STEPS));
        let caught = walks
            .zip(1..)
            .find_map(|(walk, at)| Some((at, walk.err()?)));
        match caught {
            Some((at, fault)) => {
                println!("{:<26} {at:>6}  {}", format!("{mutant:?}"), short(&fault))
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// The head of a fault.
fn short(fault: &str) -> &str {
    fault.split(':').next().unwrap_or_default()
}

#[test]
#[ignore = "minutes"]
fn many_long_random_walks() {
    for scope in [SOUND, WITH_VALUES, AHEAD] {
        walks(scope, 30_000, STEPS);
        walks(scope, 3_000, 10 * STEPS);
    }
}
