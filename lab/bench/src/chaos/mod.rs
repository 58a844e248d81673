//! `bench chaos`: whole processes, hurt in every way this machine allows, under load; and everything
//! clients and watchers were told, held against the order that the replicas executed.
//!
//! Each round has keys of its own, on data that all rounds share. It draws one or two faults, heals
//! them, waits until all replicas agree again, and has every replica's log exported: from these
//! follow the changes of every revision, which all answers and all watches must agree with.

mod args;
mod client;
mod disk;
mod fault;
mod ground;
mod history;
mod hurt;
mod lease;
mod order;
mod replicas;
mod report;
mod round;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use rustix::process::Signal;

pub use args::ChaosArgs;
use fault::{Fault, Plan};
use ground::Ground;
use quorate_load::relay::Network;
use quorate_tooling::children;
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::terminal::say;
use replicas::{KEPT, Replicas};
use report::RoundReport;
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
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

/// Runs all rounds in namespaces, or on loopback where there can be none.
fn outside(args: &ChaosArgs) -> Result<ExitCode, String> {
    let mut directory = TempDir::new(args.data_dir.as_deref()).map_err(|e| e.to_string())?;
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
    // Clients run on one thread of their own, so that this one can wait for processes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    // Connections that are made when they are first needed want to know where.
    let _context = runtime.enter();
    let faults = allowed(args, &ground)?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
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
    let mut plan = Plan::new(faults, count, args.load_seconds, seed);
    let mut field = Field {
        args,
        runtime: &runtime,
        network: &network,
        replicas: &mut replicas,
    };
    let reports = rounds(&mut field, &mut plan, seed);
    finish(args, &reports, &replicas)
}

/// The faults this run may draw.
fn allowed(args: &ChaosArgs, ground: &Ground) -> Result<Vec<Fault>, String> {
    let asked = match args.faults.is_empty() {
        true => &Fault::ALL[..],
        false => &args.faults,
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

/// Runs rounds until one finds a violation.
fn rounds(field: &mut Field<'_>, plan: &mut Plan, seed: u64) -> Vec<RoundReport> {
    let mut reports = Vec::new();
    for number in 0..field.args.rounds {
        let planned = plan.draw();
        let mut round = Round::new(field, number, seed << 16 | u64::from(number), planned);
        round.run();
        let report = round.report;
        say(format_args!("{report}"));
        let is_wrong = !report.violations.is_empty();
        reports.push(report);
        if is_wrong && !field.args.keep_going {
            break;
        }
    }
    reports
}

fn finish(args: &ChaosArgs, reports: &[RoundReport], replicas: &Replicas) -> Result<u8, String> {
    print!("{}", report::summary(reports));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(reports).map_err(|error| error.to_string())?;
        std::fs::write(path, json + "\n")
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let violations = reports.iter().flat_map(|report| {
        let named = |violation: &String| format!("round {}: {violation}", report.round + 1);
        report.violations.iter().map(named)
    });
    let violations: Vec<String> = violations.collect();
    for violation in &violations {
        println!("violation: {violation}");
    }
    if violations.is_empty() {
        println!("no violation");
        return Ok(0);
    }
    replicas.keep();
    Ok(1)
}

/// Says that namespaces could be prepared, and the rounds have begun.
const PREPARED: &str = "prepared";
