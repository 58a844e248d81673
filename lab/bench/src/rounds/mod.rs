//! `bench rounds`: real processes killed and paused under load, and everything that clients saw,
//! checked.
//!
//! Each round has keys of its own, on a data folder that all rounds share. Its shared keys give a
//! history, which the simulator's checker judges; its other keys are written once each and must
//! be found through every endpoint, at the end of the round and again after the last one.

mod args;
mod checks;
mod clients;
mod guest;
mod record;
mod report;
mod round;
mod shared;

use quorate_tooling::terminal::say;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::Runtime;

use crate::gateways::{GatewayPlan, Gateways};
pub use args::{Kind, RoundsArgs};
use checks::Promise;
pub(crate) use checks::converged;
use quorate_load::replicas::Replicas;
use quorate_tooling::cleanup;
use quorate_tooling::program;
use report::RoundReport;
use round::Round;

/// Runs all rounds: 0 when all went well, 1 after a violation, 2 when they could not run.
pub fn run(args: &RoundsArgs) -> ExitCode {
    cleanup::on_interrupt();
    match args.check().and_then(|()| rounds(args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all went well.
fn rounds(args: &RoundsArgs) -> Result<bool, String> {
    // Clients run on one thread of their own, so that this one can wait for processes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let mut replicas = begin(args)?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    say(format_args!(
        "{} replicas, {} clients, seed {seed}, data in {}",
        args.replicas,
        args.clients,
        replicas.directory().display()
    ));
    let gateways = begin_gateways(args, &replicas)?;
    let mut series = Series {
        args,
        runtime,
        gateways,
        reports: Vec::new(),
        promises: Vec::new(),
    };
    let violations = series.run(&mut replicas, seed);
    print!("{}", report::table(&series.reports));
    print!("{}", report::verdicts(&series.reports));
    series.write_json()?;
    for violation in violations.iter().take(SHOWN) {
        println!("violation: {violation}");
    }
    if violations.len() > SHOWN {
        let more = violations.len() - SHOWN;
        println!("and {more} violations more: --json names those of each round");
    }
    if violations.is_empty() {
        println!("no violation");
    } else {
        replicas.keep();
        println!("the data is kept in {}", replicas.directory().display());
    }
    Ok(violations.is_empty())
}

fn binary(args: &RoundsArgs) -> Result<PathBuf, String> {
    program::quorate(args.quorate.as_deref())
}

/// The gateways, where any kind needs some.
fn begin_gateways(args: &RoundsArgs, replicas: &Replicas) -> Result<Option<Gateways>, String> {
    if !args.kind.contains(&Kind::KillGateway) {
        return Ok(None);
    }
    let gateways = Gateways::start(&GatewayPlan {
        binary: &binary(args)?,
        count: args.gateways,
        replicas: &replicas.endpoints,
        options: &[],
        directory: replicas.directory(),
        patience: args.patience,
    });
    gateways.map(Some)
}

fn begin(args: &RoundsArgs) -> Result<Replicas, String> {
    let binary = binary(args)?;
    let mut options = vec![
        format!("--protocol={}", args.protocol),
        format!("--durability={}", args.durability),
    ];
    let server_args = args.server_arg.iter();
    options.extend(server_args.map(|arg| format!("--server-arg={arg}")));
    options.extend_from_slice(&args.quorate_option);
    let parent = args.data_dir.as_deref();
    Replicas::begin(binary, args.replicas, parent, &options, args.patience, None)
}

/// All rounds of a run.
struct Series<'a> {
    args: &'a RoundsArgs,
    runtime: Runtime,
    gateways: Option<Gateways>,
    reports: Vec<RoundReport>,
    promises: Vec<Promise>,
}

impl Series<'_> {
    /// Runs rounds until one finds a violation, and returns all violations.
    fn run(&mut self, replicas: &mut Replicas, seed: u64) -> Vec<String> {
        let mut violations = Vec::new();
        let kinds = self.args.kind.iter();
        let plan = kinds.flat_map(|kind| (0..self.args.rounds).map(move |_| *kind));
        for (number, kind) in (0..).zip(plan) {
            match self.round(replicas, kind, number, seed << 16 | u64::from(number)) {
                Ok(found) => violations.extend(found),
                Err(error) => violations.push(error),
            }
            if !violations.is_empty() && !self.args.keep_going {
                return violations;
            }
        }
        match self.all_kept(replicas) {
            Ok(found) => violations.extend(found),
            Err(error) => violations.push(format!("the final check: {error}")),
        }
        violations
    }

    fn round(
        &mut self,
        replicas: &mut Replicas,
        kind: Kind,
        number: u16,
        seed: u64,
    ) -> Result<Vec<String>, String> {
        let gateways = self.gateways.as_mut();
        let gateways = gateways.filter(|_| kind == Kind::KillGateway);
        let places = (replicas, gateways);
        let mut round = Round::new(self.args, &self.runtime, places, kind, number, seed)?;
        let promise = round.run();
        let report = round.report;
        self.promises.push(promise);
        say(format_args!("{report}"));
        let named = |violation| format!("{} round {}: {violation}", kind.name(), number + 1);
        let found = report.violations.iter().map(named).collect();
        self.reports.push(report);
        Ok(found)
    }

    /// Looks once more for the writes of all rounds, and for keys that none of them wrote.
    fn all_kept(&self, replicas: &Replicas) -> Result<Vec<String>, String> {
        let endpoints = &replicas.endpoints;
        self.runtime.block_on(async {
            let mut wrong = Vec::new();
            for promise in &self.promises {
                wrong.extend(promise.kept(endpoints).await?);
            }
            let (state, _) = checks::converged(endpoints, self.args.patience).await?;
            for url in endpoints {
                let foreign = checks::foreign_keys(&self.promises, url, state.revision).await?;
                if foreign != 0 {
                    wrong.push(format!("{url} holds {foreign} keys that nobody wrote"));
                }
            }
            Ok(wrong)
        })
    }

    fn write_json(&self) -> Result<(), String> {
        let Some(path) = &self.args.json else {
            return Ok(());
        };
        let json = serde_json::to_string(&self.reports).map_err(|error| error.to_string())?;
        std::fs::write(path, json + "\n")
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// Violations printed; one fault can show in hundreds of keys.
const SHOWN: usize = 12;
