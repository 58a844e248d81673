//! `bench chaos`: whole processes, hurt in every way this machine allows, under load; and everything
//! clients and watchers were told, held against the order that the replicas executed.
//!
//! Each round has keys of its own, on data that all rounds share. It draws one or two faults, heals
//! them, waits until all replicas agree again, and has every replica's log exported: from these
//! follow the changes of every revision, which all answers and all watches must agree with.

mod args;
mod disk;
mod fault;
mod ground;
mod hurt;
mod lease;
mod order;
mod replicas;
mod report;
mod round;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use quorate_load::ended;
use quorate_load::relay::Network;
use quorate_tooling::children;
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::terminal::say;
use rustix::process::Signal;
use tonic::transport::{Channel, Endpoint};

use super::series::{Series, runtime};
use super::session::Session;
pub use args::ChaosArgs;
use fault::{Fault, Plan};
use ground::Ground;
use replicas::{KEPT, Replicas};
use round::{Field, Round};

/// Runs all rounds: 0 when all went well, 1 after a violation, 2 when they could not run.
pub fn run(args: &ChaosArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = args
        .check()
        .and_then(|()| match (&args.inside, args.outside) {
            (Some(directory), Some(outside)) => inside(args, directory, outside),
            _ => outside(args),
        });
    result.unwrap_or_else(|error| ended(Err(error)))
}

/// Runs all rounds in namespaces, or on loopback where there can be none.
fn outside(args: &ChaosArgs) -> Result<ExitCode, String> {
    let mut directory = TempDir::new(args.faults.place.parent()).map_err(|e| e.to_string())?;
    replicas::lay_out(directory.path(), args.replicas.into())?;
    let code = match in_namespaces(args, directory.path())? {
        Some(code) => code,
        None => {
            let ground = Ground::loopback(args.replicas.into())?;
            chaos(args, directory.path(), ground)?
        }
    };
    if directory.path().join(KEPT).exists() {
        directory.keep();
        println!("logs and data are kept in {}", directory.path().display());
    }
    Ok(ExitCode::from(code))
}

/// Runs all rounds in namespaces of their own; `None` if this machine does not allow that.
fn in_namespaces(args: &ChaosArgs, directory: &Path) -> Result<Option<u8>, String> {
    if args.loopback {
        return Ok(None);
    }
    let is_root = rustix::process::geteuid().is_root();
    // An administrator needs no namespace of users, unless one that was stripped of rights.
    let ways: &[bool] = if is_root { &[false, true] } else { &[true] };
    for &as_user in ways {
        let Ok(mut child) = ground::inside(args, directory, as_user) else {
            break;
        };
        let status = child.child().wait().map_err(|error| error.to_string())?;
        cleanup::stop_if_interrupted();
        match status.code() {
            Some(code) if directory.join(PREPARED).exists() => {
                return Ok(Some(u8::try_from(code).unwrap_or(2)));
            }
            None if directory.join(PREPARED).exists() => {
                return Err(format!("the rounds ended with {status}"));
            }
            _ => {}
        }
    }
    say(format_args!(
        "no namespaces are allowed here: all replicas are on loopback, without disks of their own"
    ));
    Ok(None)
}

/// Runs all rounds in the namespaces this process was started in.
fn inside(args: &ChaosArgs, directory: &Path, outside: u32) -> Result<ExitCode, String> {
    children::tie_to_parent(outside, Signal::TERM).map_err(|error| error.to_string())?;
    cleanup::watch_directory(directory);
    let disk = |replica| Replicas::disk_at(directory, replica);
    let ground = Ground::namespaces(args.replicas.into(), disk, args.disk_bytes)?;
    std::fs::write(directory.join(PREPARED), "").map_err(|error| error.to_string())?;
    chaos(args, directory, ground).map(ExitCode::from)
}

/// Runs all rounds; the exit code.
fn chaos(args: &ChaosArgs, directory: &Path, ground: Ground) -> Result<u8, String> {
    let runtime = runtime()?;
    // Connections that are made when they are first needed want to know where.
    let _context = runtime.enter();
    let faults = allowed(args, &ground)?;
    let seed = args.faults.seed();
    let count = usize::from(args.replicas);
    let proxy = |from, to| Some(ground.proxy(from, to));
    let network = Network::start(&runtime, count, proxy, |to| ground.peer(to))?;
    let where_they_live = match &ground {
        Ground::Namespaces => "network namespaces, disks in memory",
        Ground::Loopback { .. } => "loopback",
    };
    say(format_args!(
        "{count} replicas in {where_they_live}; {} clients; seed {seed}; logs in {}",
        args.clients,
        directory.display()
    ));
    let mut replicas = Replicas::begin(args, directory, ground)?;
    let mut field = Field {
        args,
        runtime: &runtime,
        network: &network,
        replicas: &mut replicas,
    };
    let mut plan = Plan::new(faults, count, args.load_seconds, seed);
    let plans = (0..args.rounds).map(|_| plan.draw());
    let series = Series::run(plans, seed, args.faults.keep_going, |turn| {
        let mut round = Round::new(&mut field, turn);
        round.run();
        Ok(round.report)
    });
    print!("{}", report::summary(&series.reports));
    if series.conclude(args.faults.json.as_deref())? {
        return Ok(0);
    }
    replicas.keep();
    Ok(1)
}

/// The faults this run may draw.
fn allowed(args: &ChaosArgs, ground: &Ground) -> Result<Vec<Fault>, String> {
    let asked = match args.kinds.is_empty() {
        true => Fault::value_variants(),
        false => &args.kinds,
    };
    let possible = |fault: &&Fault| ground.has_disks() || !fault.needs_own_disk();
    let faults: Vec<Fault> = asked.iter().filter(possible).copied().collect();
    let left_out: Vec<String> = asked
        .iter()
        .filter(|fault| !possible(fault))
        .map(Fault::to_string)
        .collect();
    if faults.is_empty() {
        return Err(format!(
            "{}: needs a disk for each replica, and so namespaces",
            left_out.join(", ")
        ));
    }
    if !left_out.is_empty() {
        say(format_args!("left out: {}", left_out.join(", ")));
    }
    Ok(faults)
}

/// A connection to a replica for streams, made when it is first used and again whenever it was lost.
fn channel(session: &Session, replica: usize) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(session.endpoints[replica].clone());
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    Ok(endpoint.connect_timeout(CONNECT_PATIENCE).connect_lazy())
}

/// What the names of all keys begin with.
const COMMAND: &str = "chaos";
/// Says that namespaces could be prepared, and the rounds have begun.
const PREPARED: &str = "prepared";
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
