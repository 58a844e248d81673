//! `bench rounds`: real processes killed and paused under load, and everything that clients saw,
//! checked.
//!
//! Each round has keys of its own, on a data folder that all rounds share. Its shared keys give a
//! history, which the simulator's checker judges; its other keys are written once each and must
//! be found through every endpoint, at the end of the round and again after the last one.

mod args;
mod harm;
mod promise;
mod report;
mod round;
mod upgrade;

use std::process::ExitCode;

use quorate_load::ended;
use quorate_load::replicas::Replicas;
use quorate_tooling::cleanup;
use quorate_tooling::terminal::say;

use super::series::{Series, runtime};
use super::state::converged;
use crate::gateways::{GatewayPlan, Gateways};
pub use args::{Kind, RoundsArgs};
use promise::{Promise, foreign_keys};
use round::{Field, Round};

/// Runs all rounds: 0 when all went well, 1 after a violation, 2 when they could not run.
pub fn run(args: &RoundsArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = args.check().and_then(|()| rounds(args));
    result.unwrap_or_else(|error| ended(Err(error)))
}

fn rounds(args: &RoundsArgs) -> Result<ExitCode, String> {
    let runtime = runtime()?;
    let mut replicas = begin(args)?;
    let seed = args.faults.seed();
    say(format_args!(
        "{} replicas, {} clients, seed {seed}, data in {}",
        args.replicas,
        args.clients,
        replicas.directory().display()
    ));
    let mut field = Field {
        args,
        runtime: &runtime,
        gateways: begin_gateways(args, &replicas)?,
        replicas: &mut replicas,
    };
    let mut promises = Vec::new();
    let kinds = args.kind.iter();
    let plans = kinds.flat_map(|kind| (0..args.rounds).map(move |_| *kind));
    let mut series = Series::run(plans, seed, args.faults.keep_going, |turn| {
        let mut round = Round::new(&mut field, &turn)?;
        promises.push(round.run());
        Ok(round.report)
    });
    if series.goes_on() {
        match all_kept(&field, &promises) {
            Ok(found) => series.violations.extend(found),
            Err(error) => series.violations.push(format!("the final check: {error}")),
        }
    }
    print!("{}", report::table(&series.reports));
    print!("{}", report::verdicts(&series.reports));
    if series.conclude(args.faults.json.as_deref())? {
        return Ok(ExitCode::SUCCESS);
    }
    replicas.keep();
    println!("the data is kept in {}", replicas.directory().display());
    Ok(ExitCode::from(1))
}

fn begin(args: &RoundsArgs) -> Result<Replicas, String> {
    let faults = &args.faults;
    let mut options = vec![
        format!("--protocol={}", faults.protocol),
        format!("--durability={}", args.durability),
    ];
    let server_args = faults.server_arg.iter();
    options.extend(server_args.map(|arg| format!("--server-arg={arg}")));
    options.extend_from_slice(&faults.quorate_option);
    let (newer, parent) = (faults.place.binary()?, faults.place.parent());
    let binary = args.older.clone().unwrap_or(newer);
    Replicas::begin(
        binary,
        args.replicas,
        parent,
        &options,
        faults.patience,
        None,
    )
}

/// The gateways, where any kind needs some.
fn begin_gateways(args: &RoundsArgs, replicas: &Replicas) -> Result<Option<Gateways>, String> {
    if !args.kind.contains(&Kind::KillGateway) {
        return Ok(None);
    }
    let gateways = Gateways::start(&GatewayPlan {
        binary: &args.faults.place.binary()?,
        count: args.gateways,
        replicas: &replicas.endpoints,
        options: &[],
        directory: replicas.directory(),
        patience: args.faults.patience,
    });
    gateways.map(Some)
}

/// Looks once more for the writes of all rounds, and for keys that none of them wrote.
fn all_kept(field: &Field<'_>, promises: &[Promise]) -> Result<Vec<String>, String> {
    let endpoints = &field.replicas.endpoints;
    field.runtime.block_on(async {
        let mut wrong = Vec::new();
        for promise in promises {
            wrong.extend(promise.kept(endpoints).await?);
        }
        let state = converged(endpoints, field.args.faults.patience)
            .await?
            .state;
        for url in endpoints {
            let foreign = foreign_keys(promises, url, state.revision).await?;
            if foreign != 0 {
                wrong.push(format!("{url} holds {foreign} keys that nobody wrote"));
            }
        }
        Ok(wrong)
    })
}

/// What the names of shared keys begin with; those of own keys begin with a hexadecimal digit.
const COMMAND: &str = "rounds";
