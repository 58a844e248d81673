//! `bench repeats`: how often writes are executed twice because a client library repeats them by itself.
//!
//! Three of five replicas are frozen (SIGSTOP), client programs put through the other two with deadlines that
//! end meanwhile, and the three go on at a moment drawn at random. Each key is put once, so its version says how
//! often the put was executed. Several systems are asked in the same way, a real etcd among them.

mod client;
mod page;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;

use client::{Client, Pace, Spec, Tally};
use page::{Page, Row};
use quorate_tooling::cleanup;
use quorate_tooling::program::Place;
use quorate_tooling::terminal::say;
use system::System;

/// The options of `bench repeats`.
#[derive(Debug, Clone, Args)]
pub struct RepeatsArgs {
    /// A client program, as in "go 3.6=target/clients/go-3.6"; scripts/clients/README.md says what it reads and
    /// prints; repeated
    #[arg(long = "client", required = true, value_name = "NAME=COMMAND", value_parser = Spec::parse)]
    clients: Vec<Spec>,
    /// Clients whose name begins so must not execute a put twice under any protocol; repeated
    #[arg(long, value_name = "NAME")]
    once: Vec<String>,
    /// Protocols, and etcd; with etcd, no client may execute more puts twice under a protocol than there
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "rabia,multi-paxos,raft,rs-paxos,racos,chora,nezha,etcd"
    )]
    systems: Vec<String>,
    /// Puts of each client in each system
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..))]
    puts: u32,
    /// Puts of a batch: the replicas are frozen anew for each
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    #[command(flatten)]
    pace: Pace,
    /// Decides when the replicas go on [default: drawn at random and printed]
    #[arg(long)]
    seed: Option<u64>,
    /// The etcd executable, as built by scripts/build-etcd.sh
    #[arg(long, default_value = "target/etcd/etcd")]
    etcd: PathBuf,
    #[command(flatten)]
    place: Place,
}

/// Runs it: 0 when no put was executed twice that should not be, 1 otherwise, 2 when it could not run.
pub fn run(args: &RepeatsArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(measure(args), "no violation")
}

fn measure(args: &RepeatsArgs) -> Result<Vec<String>, String> {
    args.pace.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    say(format_args!("seed {seed}"));
    let mut trial = Trial {
        args,
        runtime,
        chance: fastrand::Rng::with_seed(seed),
    };
    let mut rows = Vec::new();
    for name in &args.systems {
        let mut system = System::begin(args, name)?;
        for spec in &args.clients {
            let row = trial.run(&mut system, name, spec)?;
            say(format_args!("{row}"));
            rows.push(row);
        }
    }
    let page = Page(rows);
    say(format_args!("\n{page}"));
    Ok(page.wrong(&args.once))
}

/// What all trials share.
struct Trial<'a> {
    args: &'a RepeatsArgs,
    runtime: Runtime,
    chance: fastrand::Rng,
}

impl Trial<'_> {
    /// One client in one system.
    fn run(&mut self, system: &mut System, name: &str, spec: &Spec) -> Result<Row, String> {
        let mut client = Client::start(spec, &system.live())?;
        let mut tally = Tally::default();
        let keys = format!("{}/", spec.name.replace(' ', "-"));
        let mut left = self.args.puts;
        while left > 0 {
            let count = self.args.batch.min(left);
            self.runtime.block_on(system.wait_writable())?;
            let prefix = format!("{keys}{left}/");
            self.batch(system, &mut client, &prefix, count, &mut tally)?;
            left -= count;
        }
        let executed = self.runtime.block_on(system.executed(&keys))?;
        Ok(Row::new(name, &spec.name, tally, &executed))
    }

    /// Puts while most replicas are frozen. They go on while some puts wait, others have ended, and others are yet to
    /// begin, or after all.
    fn batch(
        &mut self,
        system: &mut System,
        client: &mut Client,
        prefix: &str,
        count: u32,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let frozen = system.freeze()?;
        client.begin(prefix, count, self.args.pace)?;
        let share = FROZEN_SHARE_MIN + (1.0 - FROZEN_SHARE_MIN) * self.chance.f64();
        std::thread::sleep(self.args.pace.whole().mul_f64(share));
        drop(frozen);
        client.end(tally)
    }
}

/// The least share of a batch's time for which replicas are frozen.
const FROZEN_SHARE_MIN: f64 = 0.4;
