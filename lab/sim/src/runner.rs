//! Runs many seeds on many threads. A seed itself is always single-threaded, and nothing here
//! reaches into it.

use crate::capacity;
use crate::commute;
use crate::load;
use crate::mix;
use crate::mutants;
use crate::options::{SimArgs, SimOptions, SimReport};
use crate::panics;
use crate::report::{Report, Violation};
use crate::shrink::shrink;
use crate::simulator::{Simulator, panicked};
use crate::speed;
use crate::tally::{ReportedViolation, Tally};
use crate::wan;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Runs the simulator and prints what it finds: exit code 0 if all seeds passed, 1 if one did not,
/// 2 if the options make no sense.
#[must_use]
pub fn run(args: &SimArgs) -> ExitCode {
    match &args.report {
        None => run_seeds(&args.options),
        Some(SimReport::Capacity(options)) => capacity::run(options),
        Some(SimReport::Wan(options)) => wan::run(options),
        Some(SimReport::Commute(options)) => commute::run(options),
        Some(SimReport::Load(options)) => load::run(options),
        Some(SimReport::RedisShare(options)) => load::run_share(options),
        Some(SimReport::Speed(options)) => speed::run(options),
    }
}

fn run_seeds(options: &SimOptions) -> ExitCode {
    if options.list_mutants {
        mutants::list().iter().for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    if options.list_profiles {
        mix::lines().iter().for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let simulator = match Simulator::new(options) {
        Ok(simulator) => simulator,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    if let Some(path) = &options.picture {
        return draw(&simulator, options, path);
    }
    let tally = Arc::new(Tally::new(options.clone(), Arc::new(simulator)));
    let last = Arc::clone(&tally);
    panics::install(move |seed, message| {
        let report = panicked(seed, message);
        last.add(&report);
        tell(&last, &report, &[]);
        last.summarise();
        std::process::exit(1);
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| work(&tally));
        }
    });
    tally.summarise();
    if tally.has_violations() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Draws a part of a seed.
fn draw(simulator: &Simulator, options: &SimOptions, path: &Path) -> ExitCode {
    let seed = options.seeds.start;
    if options.seeds.end - seed != 1 {
        eprintln!("error: --picture draws one seed: --seeds {seed}");
        return ExitCode::from(2);
    }
    panics::install(|seed, message| {
        eprintln!("error: seed {seed} panics, and this build ends with it: {message}");
    });
    let (report, picture) = match simulator.picture(seed, options.from, options.to) {
        Ok(drawn) => drawn,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = std::fs::write(path, picture) {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::from(2);
    }
    println!("{}", path.display());
    match report.violation {
        Some(violation) => {
            println!("violation in seed {seed}: {violation}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Takes seeds until there are none left, or a violation ends the run.
fn work(tally: &Tally) {
    let (simulator, options) = (&tally.simulator, &tally.options);
    while let Some(seed) = tally.next_seed() {
        let report = if options.trace {
            let (report, lines) = simulator.traced(seed);
            lines.iter().for_each(|line| println!("{line}"));
            report
        } else {
            simulator.seed(seed)
        };
        tally.add(&report);
        if report.violation.is_some() {
            let shows_history = !options.trace && !options.json;
            let lines = if shows_history {
                simulator.traced(seed).1
            } else {
                Vec::new()
            };
            tell(tally, &report, &lines);
        } else if options.check_determinism && simulator.seed(seed).digest != report.digest {
            tell(tally, &undetermined(&report), &[]);
        }
    }
}

/// Tells about a violation, with a command that repeats it in a run as small as was found.
fn tell(tally: &Tally, report: &Report, lines: &[String]) {
    let Some(violation) = &report.violation else {
        return;
    };
    if !tally.claims() {
        return;
    }
    let options = &tally.options;
    let small = if options.no_shrink {
        options.clone()
    } else {
        let profiles = tally.simulator.taking_part(report.seed);
        let stays =
            |o: &SimOptions| kind_in_child(o, report.seed).as_deref() == Some(violation.kind);
        shrink(options, &profiles, stays)
    };
    let found = ReportedViolation {
        seed: report.seed,
        violation: violation.clone(),
        command: small.command(report.seed),
    };
    tally.found(&found, lines);
}

/// Runs a seed in a process of its own, for a panic may end it: the kind of violation it shows.
fn kind_in_child(options: &SimOptions, seed: u64) -> Option<String> {
    let command = options.command(seed);
    let (_, line) = command.split_once(" sim ")?;
    let mut child = Command::new(std::env::current_exe().ok()?);
    child
        .arg("sim")
        .args(line.split(' '))
        .args(["--no-shrink", "--jobs", "1", "--json"]);
    let output = child.output().ok()?;
    let sums: Value = serde_json::from_slice(&output.stdout).ok()?;
    sums["violations"][0]["kind"].as_str().map(String::from)
}

fn undetermined(report: &Report) -> Report {
    let what = "a second run of the seed went another way".into();
    Report {
        violation: Some(Violation::new("determinism", what)),
        ..report.clone()
    }
}
