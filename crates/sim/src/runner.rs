//! Runs many seeds on many threads and tells people about them. A seed itself is always
//! single-threaded, and nothing here reaches into it: this is the only place that knows the real
//! clock.
#![allow(
    clippy::disallowed_methods,
    reason = "wall time is measured here, outside of every seed"
)]

use crate::mutants;
use crate::options::SimOptions;
use crate::panics;
use crate::profiles;
use crate::report::{Report, Totals};
use crate::simulator::{Simulator, panicked};
use indicatif::{ProgressBar, ProgressStyle};
use quorate_protocols::{Protocol, Visitor};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Lines of history printed before a violation.
const HISTORY_LINES: usize = 60;

/// Runs the simulator and prints what it finds: exit code 0 if all seeds passed, 1 if one did not,
/// 2 if the options make no sense.
#[must_use]
pub fn run(options: &SimOptions) -> ExitCode {
    if options.list_mutants {
        return list_mutants(&options.protocol);
    }
    if options.list_profiles {
        profiles::lines().iter().for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let simulator = match Simulator::new(options) {
        Ok(simulator) => simulator,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let tally = Arc::new(Tally::new(options.clone()));
    let last = Arc::clone(&tally);
    panics::install(move |seed, message| {
        let report = panicked(seed, message);
        last.add(&report);
        last.found(&report, &[]);
        last.summarise();
        std::process::exit(1);
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| work(&simulator, &tally));
        }
    });
    tally.summarise();
    if tally.violations.load(Ordering::Relaxed) > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints one line per mutant: name, who finds it, where, with which options, what it breaks.
fn list_mutants(protocol: &str) -> ExitCode {
    struct List;

    impl Visitor for List {
        type Output = Vec<String>;

        fn visit<P: Protocol>(self) -> Vec<String> {
            mutants::list::<P>()
        }
    }

    match quorate_protocols::visit(protocol, List) {
        Some(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        None => {
            let known = quorate_protocols::names().join(", ");
            eprintln!("error: there is no protocol called {protocol}; there are: {known}");
            ExitCode::from(2)
        }
    }
}

/// Takes seeds until there are none left, or a violation ends the run.
fn work(simulator: &Simulator, tally: &Tally) {
    while let Some(seed) = tally.next_seed() {
        let options = &tally.options;
        let report = if options.trace {
            let (report, lines) = simulator.traced(seed);
            lines.iter().for_each(|line| println!("{line}"));
            report
        } else {
            simulator.seed(seed)
        };
        tally.add(&report);
        if report.violation.is_some() {
            let lines = if options.trace {
                Vec::new()
            } else {
                simulator.traced(seed).1
            };
            tally.found(&report, &lines);
        } else if options.check_determinism && simulator.seed(seed).digest != report.digest {
            tally.found(&undetermined(&report), &[]);
        }
    }
}

fn undetermined(report: &Report) -> Report {
    let what = "a second run of the seed went another way".into();
    let violation = Some(crate::report::Violation::new("determinism", what));
    Report {
        violation,
        ..report.clone()
    }
}

/// What all seeds together came to.
struct Tally {
    options: SimOptions,
    next: AtomicU64,
    stop: AtomicBool,
    violations: AtomicU64,
    sums: Mutex<Sums>,
    bar: ProgressBar,
    began: Instant,
}

#[derive(Default)]
struct Sums {
    seeds: u64,
    digest: u64,
    totals: Totals,
}

impl Tally {
    fn new(options: SimOptions) -> Self {
        let bar = ProgressBar::new(options.seeds.end - options.seeds.start);
        let style = "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Tally {
            next: AtomicU64::new(options.seeds.start),
            stop: AtomicBool::new(false),
            violations: AtomicU64::new(0),
            sums: Mutex::default(),
            began: Instant::now(),
            options,
            bar,
        }
    }

    fn next_seed(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.options.seeds.end).then_some(seed)
    }

    fn add(&self, report: &Report) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.seeds += 1;
        // A sum, so that the order in which threads finish does not matter.
        sums.digest = sums
            .digest
            .wrapping_add(report.digest ^ report.seed.rotate_left(32));
        sums.totals.add(&report.totals);
        self.bar.inc(1);
    }

    /// Tells about a violation, the history before it, and the command that repeats it.
    fn found(&self, report: &Report, lines: &[String]) {
        let Some(violation) = &report.violation else {
            return;
        };
        let before = self.violations.fetch_add(1, Ordering::Relaxed);
        if !self.options.keep_going {
            self.stop.store(true, Ordering::Relaxed);
            if before > 0 {
                return;
            }
        }
        let seeds = self
            .sums
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .seeds;
        self.bar.suspend(|| {
            for line in &lines[lines.len().saturating_sub(HISTORY_LINES)..] {
                println!("{line}");
            }
            println!("violation in seed {}: {violation}", report.seed);
            if let Some(mutant) = &self.options.mutant {
                println!("mutant {mutant} caught after {seeds} seeds");
            }
            println!("repeat it with: {}", self.options.command(report.seed));
        });
    }

    fn summarise(&self) {
        self.bar.finish_and_clear();
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = &sums.totals;
        let branches = totals
            .branches
            .iter()
            .map(|(name, count)| format!(" {name}={count}"));
        println!("trace={:016x}", sums.digest);
        println!("branches:{}", branches.collect::<String>());
        let faults = totals
            .faults
            .iter()
            .map(|(name, count)| format!(" {name}={count}"));
        println!("faults:{}", faults.collect::<String>());
        println!(
            "seeds={} violations={} ops={} crashes={} dropped={} snapshots={} installed={} released={} rotten={} granted={} expired={} watched={} overtaken={} compactions={} simulated_s={:.1} wall_s={:.1}",
            sums.seeds,
            self.violations.load(Ordering::Relaxed),
            totals.ops,
            totals.crashes,
            totals.dropped,
            totals.snapshots,
            totals.installed,
            totals.released,
            totals.rotten,
            totals.granted,
            totals.expired,
            totals.watched,
            totals.overtaken,
            totals.compactions,
            totals.simulated_ns as f64 / 1e9,
            self.began.elapsed().as_secs_f64()
        );
    }
}
