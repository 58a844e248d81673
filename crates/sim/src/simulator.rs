//! From options to seeds that run: finds the protocol, checks its parameters, breaks it if asked.

use crate::options::SimOptions;
use crate::panics;
use crate::probe::{self, Lines, Probe};
use crate::profiles::Mix;
use crate::report::{Report, Totals, Violation};
use crate::world::{Setup, World, replica};
use quorate_core::{Boot, Durability, Epoch, Group, Incarnation, Machine, Member, Seat, Slot};
use quorate_kv::Store;
use quorate_protocols::{Protocol, Sabotage, Visitor, names, visit};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Most replicas a cluster may have.
const REPLICAS_MAX: usize = 63;

/// Runs single seeds of one kind of cluster.
pub struct Simulator {
    run: Box<dyn Fn(u64, Option<Lines>) -> Report + Send + Sync>,
}

impl Simulator {
    /// Checks the options.
    ///
    /// # Errors
    /// A message that says which option is wrong and what would be right.
    pub fn new(options: &SimOptions) -> Result<Simulator, String> {
        if !(1..=REPLICAS_MAX).contains(&options.replicas) {
            let replicas = options.replicas;
            return Err(format!(
                "--replicas {replicas}: must be 1 to {REPLICAS_MAX}"
            ));
        }
        let chosen = Chosen {
            options: options.clone(),
        };
        visit(&options.protocol, chosen).unwrap_or_else(|| {
            let known = names().join(", ");
            Err(format!(
                "unknown protocol {}: known are {known}",
                options.protocol
            ))
        })
    }

    /// Runs a seed; a panic is a violation like any other.
    #[must_use]
    pub fn seed(&self, seed: u64) -> Report {
        self.run_caught(seed, None)
    }

    /// Runs a seed and writes down everything that happens.
    #[must_use]
    pub fn traced(&self, seed: u64) -> (Report, Vec<String>) {
        let lines = Lines::default();
        let report = self.run_caught(seed, Some(Rc::clone(&lines)));
        let lines = lines.take();
        (report, lines)
    }

    fn run_caught(&self, seed: u64, lines: Option<Lines>) -> Report {
        panics::watch(seed);
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(seed, lines)));
        let message = panics::unwatch();
        result.unwrap_or_else(|_| panicked(seed, message))
    }
}

/// The report of a seed that panicked.
pub(crate) fn panicked(seed: u64, message: String) -> Report {
    let violation = Some(Violation::new("panic", message));
    Report {
        seed,
        digest: 0,
        totals: Totals::default(),
        violation,
    }
}

struct Chosen {
    options: SimOptions,
}

impl Visitor for Chosen {
    type Output = Result<Simulator, String>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let options = self.options;
        let (params, replicas) = (options.params(), options.replicas);
        let durability = Durability::from(options.durability);
        let epoch = sample_epoch::<P>(replicas, durability, &params);
        for index in 0..replicas {
            P::config(&seat(&epoch, index))?;
        }
        let failures_survived = P::failures_survived(&epoch);
        let mix = Mix::parse(&options.profile)?;
        let sabotage = options
            .mutant
            .as_deref()
            .map(sabotage_of::<P>)
            .transpose()?;
        let run = move |seed, lines: Option<Lines>| {
            let kind = Kind::<P> {
                sabotage: sabotage.as_ref(),
                lines: lines.as_ref(),
            };
            if kind.needs_probe() {
                let configure = |seat: &Seat| kind.probe_config(seat);
                let setup = Setup::<Probe<P::Machine>> {
                    seed,
                    protocol: P::NAME,
                    replicas,
                    durability,
                    params: &params,
                    ops: options.ops,
                    mix: &mix,
                    failures_survived,
                    configure: &configure,
                    lines: lines.clone(),
                };
                return World::<_, Store>::new(setup).run();
            }
            let configure = |seat: &Seat| kind.config(seat);
            let setup = Setup::<P::Machine> {
                seed,
                protocol: P::NAME,
                replicas,
                durability,
                params: &params,
                ops: options.ops,
                mix: &mix,
                failures_survived,
                configure: &configure,
                lines: None,
            };
            World::<_, Store>::new(setup).run()
        };
        Ok(Simulator { run: Box::new(run) })
    }
}

/// How the machines of a seed differ from those that ship.
struct Kind<'a, P: Protocol> {
    sabotage: Option<&'a Sabotage<P::Machine>>,
    lines: Option<&'a Lines>,
}

impl<P: Protocol> Kind<'_, P> {
    fn needs_probe(&self) -> bool {
        self.lines.is_some()
            || matches!(self.sabotage, Some(Sabotage::Forget(_) | Sabotage::Amnesia))
    }

    fn config(&self, seat: &Seat) -> Result<<P::Machine as Machine>::Config, String> {
        let mut config = P::config(seat)?;
        if let Some(Sabotage::Config(edit)) = self.sabotage {
            edit(&mut config);
        }
        Ok(config)
    }

    fn probe_config(&self, seat: &Seat) -> Result<probe::Config<P::Machine>, String> {
        let forget = match self.sabotage {
            Some(Sabotage::Forget(forget)) => Some(*forget),
            _ => None,
        };
        Ok(probe::Config {
            inner: self.config(seat)?,
            forget,
            amnesia: matches!(self.sabotage, Some(Sabotage::Amnesia)),
            lines: self.lines.cloned(),
        })
    }
}

fn sabotage_of<P: Protocol>(name: &str) -> Result<Sabotage<P::Machine>, String> {
    let mutants = P::mutants();
    let known: Vec<&str> = mutants.iter().map(|mutant| mutant.name).collect();
    let unknown = format!(
        "{} has no mutant {name}: known are {}",
        P::NAME,
        known.join(", ")
    );
    let found = mutants.into_iter().find(|mutant| mutant.name == name);
    found.map(|mutant| mutant.sabotage).ok_or(unknown)
}

fn sample_epoch<P: Protocol>(
    replicas: usize,
    durability: Durability,
    params: &BTreeMap<String, String>,
) -> Epoch {
    let member = |index| Member {
        id: replica(index),
        incarnation: Incarnation(index as u128),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (0..replicas).map(member).collect(),
        protocol: P::NAME.into(),
        durability,
        seed: 0,
        params: params.clone(),
    }
}

fn seat(epoch: &Epoch, index: usize) -> Seat {
    Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me: replica(index),
        boot: Boot(0),
    }
}
