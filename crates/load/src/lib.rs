//! Load on a cluster over the etcd API: what `quorate bench` does.
//!
//! - [`load`]: closed- and open-loop load with exact latency histograms, kill-test gaps, and
//!   verification that no acknowledged write is lost;
//! - [`verify`]: gibibytes of random values, read back through every replica, with what they cost in
//!   disk and memory;
//! - [`idle`]: what clusters cost while nobody asks them for anything;
//! - [`replicas`], [`relay`], [`trial`]: clusters of its own on this machine, and what is between them.
//!
//! The executable that holds this crate mounts [`BenchCommand`] as its `bench` subcommand: some
//! commands start the executable again as `<executable> bench <hidden role>`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an outer ring: measuring needs clocks, threads and chance"
)]

pub mod idle;
pub mod latency;
pub mod load;
pub mod relay;
pub mod replicas;
pub mod report;
pub mod trial;
pub mod verify;

use std::process::ExitCode;

use clap::Subcommand;
use quorate_tooling::children::{self, TetherArgs};

use load::Job;
use report::Report;

/// The subcommands of `bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Write values
    #[command(after_help = PUT_EXAMPLES)]
    Put(load::PutArgs),
    /// Read values
    #[command(after_help = GET_EXAMPLES)]
    Get(load::GetArgs),
    /// Read and write
    #[command(after_help = MIXED_EXAMPLES)]
    Mixed(load::MixedArgs),
    /// Write random values of a large sum, and read all of them back through every replica
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Watch clusters that have nothing to do: CPU time and wake-ups of each replica
    #[command(after_help = IDLE_EXAMPLES)]
    Idle(idle::IdleArgs),
    /// Ties a program to the life of the process that starts it.
    #[command(hide = true)]
    Tether(TetherArgs),
}

/// Runs a subcommand: 0 when all went well, 1 when a check failed, 2 when it could not run.
pub fn run(command: BenchCommand) -> ExitCode {
    match command {
        BenchCommand::Put(args) => load(args.into()),
        BenchCommand::Get(args) => load(args.into()),
        BenchCommand::Mixed(args) => load(args.into()),
        BenchCommand::Verify(args) => verify::run(&args),
        BenchCommand::Idle(args) => idle::run(&args),
        BenchCommand::Tether(args) => ended(Err(children::tether(&args))),
    }
}

fn load(job: Job) -> ExitCode {
    finish(load::run(&job), job.load.json)
}

/// Prints a report: 0 when nothing failed, 1 otherwise, 2 when there is none.
pub fn finish(result: Result<Report, String>, json: bool) -> ExitCode {
    let report = match result {
        Ok(report) => report,
        Err(error) => return ended(Err(error)),
    };
    match json.then(|| serde_json::to_string(&report)).transpose() {
        Ok(Some(line)) => println!("{line}"),
        Ok(None) => print!("{}", report.table()),
        Err(error) => return ended(Err(error)),
    }
    if report.failed() {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints why a command could not run, if it could not: 0 when it could, 2 otherwise.
pub fn ended<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// What was found wrong, printed, or that nothing was: 0 then, 1 otherwise, 2 when it could not run.
pub fn ended_with(result: Result<Vec<String>, String>, well: &str) -> ExitCode {
    ended(match result {
        Ok(wrong) if !wrong.is_empty() => {
            wrong
                .iter()
                .for_each(|violation| println!("violation: {violation}"));
            return ExitCode::from(1);
        }
        Ok(_) => {
            println!("{well}");
            Ok(())
        }
        Err(error) => Err(error),
    })
}

const PUT_EXAMPLES: &str = "\
Examples:
  As fast as 64 clients can, for half a minute, after a warm-up:
    quorate bench put --clients 64 --duration 30s --warmup 2s
  Ten thousand a second over three servers, latency from when each was due:
    quorate bench put --endpoints http://10.0.0.1:2379,http://10.0.0.2:2379,http://10.0.0.3:2379 \\
      --rate 10000 --clients 256
  While servers are killed and restarted: how long were clients without service, is all there?
    quorate bench put --endpoints ... --duration 60s --timeout 1s \\
      --gap --verify --allow-down --history history.jsonl";

const GET_EXAMPLES: &str = "\
Examples:
  Linearizable reads of keys written first:
    quorate bench get --fill --clients 64
  What the nearest server knows:
    quorate bench get --serializable --clients 64 --total 1000000";

const MIXED_EXAMPLES: &str = "\
Examples:
  Nine reads to one write, with 4 KiB values:
    quorate bench mixed --read-share 0.9 --fill --val-size 4KiB --clients 64
  Keys overwritten again and again, each read checked against the last write:
    quorate bench mixed --verify --key-space 1000 --duration 60s";

const VERIFY_EXAMPLES: &str = "\
Examples:
  A gibibyte in values of one mebibyte, each cut into fragments any three of which rebuild it:
    quorate bench verify
  Ten, on a disk that has the room:
    quorate bench verify --total 10GiB --data-dir /var/tmp
  Small values, whole on every replica:
    quorate bench verify --protocol multi-paxos --total 64MiB --size 1KiB --clients 64";

const IDLE_EXAMPLES: &str = "\
Examples:
  Chora without and with rounds, about a minute:
    quorate bench idle --protocol chora --replicas 3 --vary mode=auto,responsive,pulsing";
