//! A program's own state machine in a deterministic simulator.
//!
//! Say what is asked of the state machine and what that should come to ([`Testable`]), and run seeds of a
//! [`Simulation`] in a `#[test]`. Each seed is a cluster in virtual time: links that lose, repeat and reorder, disks
//! that forget what was not synced, clocks that jump, machines that crash and come back, members and protocols that
//! change. Nothing but the seed decides what happens, so that a seed that fails fails again.
//!
//! # What is checked
//!
//! - All replicas come to the same reply for every command: a state machine that reads a clock is found.
//! - Replies and answers are those of the model, in the one order that the log has: an update that is lost is found, in
//!   `apply` or in `save` and `load`.
//! - That order is one which real time allows (linearizability), and a command is applied at most once.
//! - [`Testable::check`] holds after every command.
//! - Whatever the simulator checks of Quorate itself: agreement, durability, progress.

pub use fastrand::Rng;
pub use quorate_sim::Testable;

use quorate::Protocol;
use quorate_protocols::Protocol as OwnProtocol;
use quorate_sim::{SimOptions, Simulator, parse};
use std::fmt;
use std::ops::Range;

/// The variable that names the one seed to run.
const SEED: &str = "QUORATE_SEED";

/// What is run, and how long. Without options: 20 seeds of Multi-Paxos under all faults, with 200 operations each.
#[derive(Clone, Debug)]
pub struct Simulation {
    protocol: Protocol,
    seeds: Range<u64>,
    replicas: usize,
    operations: u64,
    profiles: Vec<String>,
}

/// A seed that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The number of the seed: `QUORATE_SEED` with it runs it alone.
    pub seed: u64,
    /// What is wrong, in words.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, what } = self;
        write!(f, "seed {seed} fails, and again with {SEED}={seed}: {what}")
    }
}

impl std::error::Error for Failure {}

impl Default for Simulation {
    fn default() -> Self {
        Simulation {
            protocol: Protocol::default(),
            seeds: 0..20,
            replicas: 3,
            operations: 200,
            profiles: vec!["swarm".to_owned()],
        }
    }
}

impl Simulation {
    /// Sets the protocol that the seeds begin with.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the seeds to run.
    #[must_use]
    pub fn seeds(mut self, seeds: Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets how many replicas each cluster has.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets how many operations of clients a seed completes at least.
    #[must_use]
    pub fn operations(mut self, operations: u64) -> Self {
        self.operations = operations;
        self
    }

    /// Sets the profiles of faults that take part in every seed, in the place of a mix of all that each seed draws.
    /// `quorate-lab sim --list-profiles` lists them.
    #[must_use]
    pub fn profiles(mut self, names: &[&str]) -> Self {
        self.profiles = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Runs the seeds one after the other, up to the first that fails. With the variable `QUORATE_SEED`, that one
    /// alone.
    ///
    /// # Errors
    /// The seed that fails, and what is wrong.
    ///
    /// # Panics
    /// When the options make no sense.
    pub fn run<S: Testable>(&self) -> Result<(), Failure> {
        self.run_in(Simulator::embedded::<S>(&self.options()))
    }

    /// Runs the seeds as [`Simulation::run`] does, with a protocol of the program's own in the place of those that come
    /// with the library. Beside what is checked of the state machine, the protocol is: that replicas agree, that
    /// nothing is lost which was acknowledged, that all goes on when faults are over, and what
    /// `quorate_core::Introspect::check` of its machine says after every step.
    ///
    /// # Errors
    /// The seed that fails, and what is wrong.
    ///
    /// # Panics
    /// When the options make no sense.
    pub fn run_by<S: Testable, P: OwnProtocol>(&self) -> Result<(), Failure> {
        self.run_in(Simulator::embedded_by::<S, P>(&self.options()))
    }

    fn run_in(&self, simulator: Result<Simulator, String>) -> Result<(), Failure> {
        let simulator = simulator.unwrap_or_else(|why| panic!("{why}"));
        for seed in self.chosen() {
            if let Some(violation) = simulator.seed(seed).violation {
                let what = format!("{}: {}", violation.kind, violation.what);
                return Err(Failure { seed, what });
            }
        }
        Ok(())
    }

    fn chosen(&self) -> Range<u64> {
        let Ok(text) = std::env::var(SEED) else {
            return self.seeds.clone();
        };
        let seed: u64 = text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED}={text} is no number"));
        seed..seed + 1
    }

    fn options(&self) -> SimOptions {
        let line = format!(
            "--protocol {} --replicas {} --ops {} --profile {}",
            self.protocol.name(),
            self.replicas,
            self.operations,
            self.profiles.join(",")
        );
        parse(&line).unwrap_or_else(|error| panic!("{error}"))
    }
}
