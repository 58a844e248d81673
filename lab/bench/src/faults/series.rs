//! All rounds of a run: one after the other until one finds a violation, and what becomes of that.

use std::fmt;
use std::path::Path;

use quorate_tooling::terminal::say;
use serde::Serialize;
use tokio::runtime::Runtime;

/// What a round found: a line for people, an object for programs.
pub(super) trait RoundReport: fmt::Display + Serialize {
    /// What is said of the round before a violation in it.
    fn title(&self) -> String;

    /// What was wrong, in words.
    fn violations(&self) -> &[String];
}

/// The rounds that ran, and what was wrong in all of them.
#[derive(Debug)]
pub(super) struct Series<R> {
    pub(super) reports: Vec<R>,
    pub(super) violations: Vec<String>,
    keeps_going: bool,
}

/// A round that is to run.
#[derive(Debug)]
pub(super) struct Turn<P> {
    /// From 0, counted through the run.
    pub(super) number: u16,
    /// What everything in the round is derived from.
    pub(super) seed: u64,
    /// What happens in it.
    pub(super) plan: P,
}

impl<R: RoundReport> Series<R> {
    /// Runs a round for each plan, until one finds a violation if it is not to keep going.
    pub(super) fn run<P>(
        plans: impl Iterator<Item = P>,
        seed: u64,
        keeps_going: bool,
        mut round: impl FnMut(Turn<P>) -> Result<R, String>,
    ) -> Series<R> {
        let mut series = Series {
            reports: Vec::new(),
            violations: Vec::new(),
            keeps_going,
        };
        for (number, plan) in (0..).zip(plans) {
            let seed = seed << 16 | u64::from(number);
            match round(Turn { number, seed, plan }) {
                Ok(report) => series.add(report),
                Err(error) => series.violations.push(error),
            }
            if !series.goes_on() {
                break;
            }
        }
        series
    }

    fn add(&mut self, report: R) {
        say(format_args!("{report}"));
        let title = report.title();
        let found = report.violations().iter();
        self.violations
            .extend(found.map(|violation| format!("{title}: {violation}")));
        self.reports.push(report);
    }

    /// Whether there is anything left to do.
    pub(super) fn goes_on(&self) -> bool {
        self.violations.is_empty() || self.keeps_going
    }

    /// Writes all rounds to a file, if one is named, and prints what was wrong. Returns whether nothing was.
    pub(super) fn conclude(&self, json: Option<&Path>) -> Result<bool, String> {
        if let Some(path) = json {
            let text = serde_json::to_string(&self.reports).map_err(|error| error.to_string())?;
            std::fs::write(path, text + "\n")
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        for violation in self.violations.iter().take(SHOWN) {
            println!("violation: {violation}");
        }
        if self.violations.len() > SHOWN {
            let more = self.violations.len() - SHOWN;
            println!("and {more} violations more: --json names those of each round");
        }
        if self.violations.is_empty() {
            println!("no violation");
        }
        Ok(self.violations.is_empty())
    }
}

/// The last word of a round's line.
pub(super) fn verdict(violations: &[String]) -> &'static str {
    match violations {
        [] => "ok",
        _ => "VIOLATION",
    }
}

/// The runtime of all clients: one thread of their own, so that this one can wait for processes.
pub(super) fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))
}

/// Violations printed; one fault can show in hundreds of keys.
const SHOWN: usize = 12;
