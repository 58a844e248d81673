//! Runs searches on all cores and tells people about them. Each search is single-threaded and
//! always goes the same way; nothing but this file knows the real clock.
#![allow(
    clippy::disallowed_methods,
    reason = "wall time is measured here, outside of every search"
)]

use crate::host_model::HostModel;
use crate::options::ModelOptions;
use crate::panics::{self, Guard};
use crate::report::{Row, peak_mib};
use crate::scope::Scope;
use crate::{layers, search, table};
use quorate_core::{Plain, Seat};
use quorate_protocols::{Layers, Mutant, Protocol, Sabotaged, SabotagedConfig, Visitor, visit};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Runs the model checker and prints what it finds: exit code 0 if nothing is wrong, 1 if
/// something is, 2 if the options make no sense.
#[must_use]
pub fn run(options: &ModelOptions) -> ExitCode {
    if options.list {
        for scope in table::configurations().filter(|scope| scope.protocol == options.protocol) {
            println!("{}\t{}", scope.name, scope.what);
        }
        return ExitCode::SUCCESS;
    }
    if options.list_mutants
        && let Some(mutants) = visit(&options.protocol, Mutants)
    {
        mutants
            .iter()
            .for_each(|(name, what)| println!("{name}\t{what}"));
        return ExitCode::SUCCESS;
    }
    let plan = match Plan::new(options) {
        Ok(plan) => Arc::new(plan),
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let last = Arc::clone(&plan);
    panics::install(move |job, step, message| {
        let row = last.search(job, Guard::new(Some((step, message))));
        last.tell(&row);
        std::process::exit(1);
    });
    let began = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| plan.work());
        }
    });
    plan.summarise(began.elapsed().as_secs_f64());
    if plan.failed.load(Ordering::Relaxed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// What is to be searched, and how far that has gone.
struct Plan {
    options: ModelOptions,
    /// A configuration, and which of its outcomes of the coin.
    jobs: Vec<(&'static Scope, usize)>,
    next: AtomicUsize,
    failed: AtomicBool,
}

impl Plan {
    fn new(options: &ModelOptions) -> Result<Plan, String> {
        let protocol = options.protocol.as_str();
        let known = quorate_protocols::all_names().join(", ");
        let mutants = visit(protocol, Mutants)
            .ok_or_else(|| format!("there is no protocol called {protocol}; there are: {known}"))?;
        if let Some(name) = &options.mutant
            && mutants.iter().all(|(known, _)| known != name)
        {
            let known = mutants
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(format!(
                "there is no mutant called {name}; there are: {known}"
            ));
        }
        let all = table::configurations().filter(|scope| scope.protocol == protocol);
        let all = all.collect::<Vec<_>>();
        for name in &options.config {
            if all.iter().all(|scope| scope.name != name) {
                let known = all
                    .iter()
                    .map(|scope| scope.name)
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(format!(
                    "there is no configuration called {name}; there are: {known}"
                ));
            }
        }
        let is_wanted = |scope: &&&Scope| match options.config.as_slice() {
            [] => scope.quick || options.long,
            names => names.iter().any(|name| name == scope.name),
        };
        let seeds = |scope: &&'static Scope| {
            let scope = *scope;
            let searches = if scope.by_layers {
                1
            } else {
                scope.seeds().len()
            };
            (0..searches).map(move |coins| (scope, coins))
        };
        let jobs: Vec<_> = all.iter().filter(is_wanted).flat_map(seeds).collect();
        if jobs.is_empty() {
            return Err(format!(
                "there is nothing to search of {protocol} with these options: --list shows its configurations, if it has any"
            ));
        }
        Ok(Plan {
            options: options.clone(),
            jobs,
            next: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Takes searches until there are none left.
    fn work(&self) {
        loop {
            let job = self.next.fetch_add(1, Ordering::Relaxed);
            let is_caught = self.options.mutant.is_some() && self.failed.load(Ordering::Relaxed);
            if job >= self.jobs.len() || is_caught {
                return;
            }
            panics::enter(job);
            let row = self.search(job, Guard::new(None));
            self.tell(&row);
        }
    }

    fn search(&self, job: usize, guard: Guard) -> Row {
        let (scope, coins) = self.jobs[job];
        let mutant = self.options.mutant.as_deref();
        let states_max = self.options.states_max;
        let searching = Searching {
            scope,
            coins,
            mutant,
            states_max,
            guard,
        };
        visit(scope.protocol, searching).expect("the protocol is registered")
    }

    fn tell(&self, row: &Row) {
        if self.options.json {
            println!("{}", row.json());
        } else {
            row.story().iter().for_each(|line| println!("{line}"));
            println!("{}", row.line());
        }
        let is_bad = match self.options.mutant {
            None => !row.is_good(),
            Some(_) => row.fault.is_some(),
        };
        if is_bad {
            self.failed.store(true, Ordering::Relaxed);
        }
        if let (Some(mutant), Some((fault, _))) = (&self.options.mutant, &row.fault) {
            println!(
                "mutant {mutant} caught by {} ({})",
                row.config, fault.property
            );
        }
    }

    fn summarise(&self, seconds: f64) {
        if !self.options.json {
            let (jobs, peak) = (self.jobs.len(), peak_mib());
            println!("{jobs} searches in {seconds:.1} s, at most {peak} MiB of memory");
        }
    }
}

/// One search, of a protocol whose type is known only at run time.
struct Searching<'a> {
    scope: &'static Scope,
    coins: usize,
    mutant: Option<&'a str>,
    states_max: u64,
    guard: Guard,
}

impl Visitor for Searching<'_> {
    type Output = Row;

    fn visit<P: Protocol>(self) -> Row {
        let mutants = P::mutants();
        let mutant = mutants
            .iter()
            .find(|mutant| Some(mutant.name) == self.mutant);
        let inner = |seat: &Seat| P::config(seat).expect("the parameters of a scope are right");
        match mutant.map(|mutant| mutant.sabotage) {
            None => self.search::<P::Machine>(&inner, P::layers()),
            Some(sabotage) => {
                let configure = |seat: &Seat| SabotagedConfig {
                    inner: inner(seat),
                    sabotage: Some(sabotage),
                };
                let layers = P::layers().map(|inner| Layers {
                    gist: inner.gist,
                    value: inner.value,
                });
                self.search::<Sabotaged<P::Machine>>(&configure, layers)
            }
        }
    }
}

impl Searching<'_> {
    fn search<M: Plain>(
        self,
        configure: &dyn Fn(&Seat) -> M::Config,
        layers: Option<Layers<M>>,
    ) -> Row {
        let began = Instant::now();
        let (scope, coins) = (self.scope, self.coins);
        if scope.by_layers {
            let layers = layers.expect("only protocols that work in layers are searched so");
            let found = layers::search(scope, configure, layers, self.guard);
            return Row::of_layers(scope, found, began.elapsed().as_secs_f64());
        }
        let model: HostModel<'_, M> = HostModel {
            scope,
            seed: scope.seeds()[coins],
            configure,
        };
        let found = search::search(model, self.states_max, self.guard);
        Row::of_search(scope, coins, found, began.elapsed().as_secs_f64())
    }
}

/// The names of a protocol's deliberate faults, and what each breaks.
struct Mutants;

impl Visitor for Mutants {
    type Output = Vec<(&'static str, &'static str)>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let mutants = P::mutants().into_iter();
        mutants
            .map(|mutant: Mutant<P::Machine>| (mutant.name, mutant.what))
            .collect()
    }
}
