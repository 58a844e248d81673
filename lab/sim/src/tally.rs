//! What all seeds of a run came to, told to people while it goes on and at its end.

use crate::options::SimOptions;
use crate::report::{Report, Totals, Violation};
use crate::simulator::Simulator;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of history printed before a violation.
const HISTORY_LINES: usize = 60;
/// How often a run tells how far it is where there is no terminal to draw on.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// The sums of a run.
pub(crate) struct Tally {
    pub(crate) options: SimOptions,
    pub(crate) simulator: Arc<Simulator>,
    next: AtomicU64,
    stop: AtomicBool,
    sums: Mutex<Sums>,
    bar: ProgressBar,
    began: Instant,
}

struct Sums {
    seeds: u64,
    digest: u64,
    totals: Totals,
    violations: Vec<ReportedViolation>,
    last_line: Instant,
}

/// A violation as it is reported.
#[derive(Clone)]
pub(crate) struct ReportedViolation {
    pub(crate) seed: u64,
    pub(crate) violation: Violation,
    /// What repeats a smaller run that shows it, or the run itself.
    pub(crate) command: String,
}

impl Tally {
    #[allow(
        clippy::disallowed_methods,
        reason = "wall time is measured outside of every seed"
    )]
    pub(crate) fn new(options: SimOptions, simulator: Arc<Simulator>) -> Self {
        let bar = ProgressBar::new(options.seeds.end - options.seeds.start);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}, {eta} left") {
            bar.set_style(style);
        }
        let began = Instant::now();
        Tally {
            next: AtomicU64::new(options.seeds.start),
            stop: AtomicBool::new(false),
            sums: Mutex::new(Sums {
                seeds: 0,
                digest: 0,
                totals: Totals::default(),
                violations: Vec::new(),
                last_line: began,
            }),
            began,
            options,
            simulator,
            bar,
        }
    }

    pub(crate) fn next_seed(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.options.seeds.end).then_some(seed)
    }

    /// A seed is done.
    pub(crate) fn add(&self, report: &Report) {
        let mut sums = self.lock();
        sums.seeds += 1;
        // A sum, so that the order in which threads finish does not matter.
        sums.digest = sums
            .digest
            .wrapping_add(report.digest ^ report.seed.rotate_left(32));
        sums.totals.add(&report.totals);
        let line = self.progress(&sums);
        self.bar.set_position(sums.seeds);
        self.bar.set_message(line.clone());
        if !std::io::stderr().is_terminal() && sums.last_line.elapsed() >= LINE_EVERY {
            sums.last_line += LINE_EVERY;
            eprintln!("{line}");
        }
    }

    /// Whether a violation is the one to tell about: without `--keep-going`, the first ends the
    /// run.
    pub(crate) fn claims(&self) -> bool {
        self.options.keep_going || !self.stop.swap(true, Ordering::Relaxed)
    }

    /// Tells about a violation, the history before it, and the command that repeats it.
    pub(crate) fn found(&self, found: &ReportedViolation, lines: &[String]) {
        let seeds = {
            let mut sums = self.lock();
            sums.violations.push(found.clone());
            sums.seeds
        };
        if self.options.json {
            return;
        }
        self.bar.suspend(|| {
            for line in &lines[lines.len().saturating_sub(HISTORY_LINES)..] {
                println!("{line}");
            }
            println!("violation in seed {}: {}", found.seed, found.violation);
            if let Some(mutant) = &self.options.mutant {
                println!("mutant {mutant} caught after {seeds} seeds");
            }
            println!("repeat it with: {}", found.command);
            println!("and draw its end with: --picture seed-{}.svg", found.seed);
        });
    }

    pub(crate) fn has_violations(&self) -> bool {
        !self.lock().violations.is_empty()
    }

    /// Prints the sums.
    pub(crate) fn summarise(&self) {
        self.bar.finish_and_clear();
        let sums = self.lock();
        if self.options.json {
            println!("{:#}", self.as_json(&sums));
        } else {
            self.print(&sums);
        }
    }

    fn print(&self, sums: &Sums) {
        let totals = &sums.totals;
        let named = |counts: &[(&'static str, u64)]| -> String {
            counts
                .iter()
                .map(|(name, count)| format!(" {name}={count}"))
                .collect()
        };
        let listed = |counts: &std::collections::BTreeMap<&str, u64>| -> String {
            let counts = counts.iter();
            let lines = counts.map(|(name, count)| format!("\n  {count:>10}  {name}"));
            lines.collect()
        };
        let changes = totals.changes.iter();
        let changes = changes.map(|(kind, count)| format!("\n  {count:>10}  {kind}"));
        let changes = changes.collect::<String>();
        let none = |names: Vec<&str>, what: &str| {
            if !names.is_empty() {
                println!("{what}: {}", names.join(", "));
            }
        };
        println!("faults injected:{}", listed(&totals.faults));
        none(self.simulator.unseen(totals), "never injected");
        println!("rare branches reached:{}", listed(&totals.branches));
        none(self.simulator.untaken(totals), "never reached");
        if !changes.is_empty() {
            println!("changes of the group:{changes}");
        }
        println!("{}", self.progress(sums));
        println!(
            "trace={:016x} seeds={} violations={}{} wall_s={:.1}",
            sums.digest,
            sums.seeds,
            sums.violations.len(),
            named(&totals.counts()),
            self.began.elapsed().as_secs_f64()
        );
    }

    fn as_json(&self, sums: &Sums) -> Value {
        let object = |counts: Vec<(&'static str, u64)>| -> Map<String, Value> {
            counts
                .into_iter()
                .map(|(name, count)| (name.into(), count.into()))
                .collect()
        };
        let totals = &sums.totals;
        let violations = sums.violations.iter().map(|found| {
            json!({
                "seed": found.seed,
                "kind": found.violation.kind,
                "what": found.violation.what,
                "command": found.command,
            })
        });
        let options = &self.options;
        json!({
            "protocol": options.protocol,
            "replicas": options.replicas,
            "durability": options.durability.name(),
            "params": options.params().unwrap_or_default(),
            "profile": options.profile,
            "mutant": options.mutant,
            "first_seed": options.seeds.start,
            "seeds": sums.seeds,
            "trace": format!("{:016x}", sums.digest),
            "violations": violations.collect::<Vec<_>>(),
            "counts": object(totals.counts().to_vec()),
            "faults": object(totals.faults.clone().into_iter().collect()),
            "faults_never_injected": self.simulator.unseen(totals),
            "changes": totals.changes,
            "branches": object(totals.branches.clone().into_iter().collect()),
            "branches_never_reached": self.simulator.untaken(totals),
            "wall_s": self.began.elapsed().as_secs_f64(),
        })
    }

    /// How far the run is, in one line.
    fn progress(&self, sums: &Sums) -> String {
        let wall_s = self.began.elapsed().as_secs_f64().max(1e-9);
        let simulated_s = sums.totals.simulated_ns as f64 / 1e9;
        format!(
            "{}/{} seeds, {:.0} a minute, {:.2} h simulated, {} operations, {:.0} times real time",
            sums.seeds,
            self.options.seeds.end - self.options.seeds.start,
            sums.seeds as f64 * 60.0 / wall_s,
            simulated_s / 3600.0,
            sums.totals.ops,
            simulated_s / wall_s
        )
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
