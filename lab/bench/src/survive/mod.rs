//! `bench survive`: what a cluster of real processes serves while replicas are stopped, held against
//! what its quorums promise, and what becomes of fragments that are lost.
//!
//! First a follower's folder is deleted and another's fragments are damaged. Then one replica after
//! the other is stopped, with and without their leader, paused and killed; after each time all
//! come back. In the end every value that was acknowledged is read through every replica. The
//! replicas keep no value whole in memory, so that fragments have to be found.

mod observe;
mod promise;
mod repair;
mod stops;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;

use observe::{Outcome, Written, WrittenValue};
use promise::Quorums;
use quorate_load::replicas::Replicas;
use quorate_load::trial::{Asker, ClusterArgs};
use quorate_tooling::cleanup;
use quorate_tooling::terminal::say;

/// The options of `bench survive`.
#[derive(Debug, Clone, Args)]
pub struct SurviveArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Values written before anything happens, a third of them of 100 bytes, of 4 KiB, and of 300 KiB
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(3..=100_000))]
    values: u64,
    /// What is tried, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "repairs,stops")]
    parts: Vec<Part>,
}

/// Something that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// A deleted folder and damaged fragments
    Repairs,
    /// Replicas stopped, one by one
    Stops,
}

/// A trial in progress.
struct Trial<'a> {
    runtime: &'a Runtime,
    replicas: Replicas,
    quorums: Quorums,
    written: Written,
    wrong: Vec<String>,
}

/// Runs it: 0 when all was as promised, 1 otherwise, 2 when it could not run.
pub fn run(args: &SurviveArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(survive(args), "all as promised")
}

fn survive(args: &SurviveArgs) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let cluster = &args.cluster;
    let is_paper = cluster.is_coded() && cluster.profile.as_deref() != Some("flex");
    let (n, k) = (cluster.replicas.into(), cluster.k());
    let quorums = match cluster.is_led() {
        true => Quorums::led(n, k, is_paper),
        false => Quorums::leaderless(n, k),
    };
    let seed = cluster.seed();
    let mut trial = Trial {
        replicas: cluster.begin(&SERVER_ARGS.map(str::to_owned))?,
        runtime: &runtime,
        quorums,
        written: Written::new(seed),
        wrong: Vec::new(),
    };
    say(format_args!(
        "{}: {} heard before a decision or by a new leader, {} by a read; seed {seed}, data in {}",
        cluster.title(),
        quorums.read,
        quorums.write(),
        trial.replicas.directory().display()
    ));
    let ended = trial.run(args);
    if ended.is_err() || !trial.wrong.is_empty() {
        trial.replicas.keep();
        say(format_args!(
            "the data is kept in {}",
            trial.replicas.directory().display()
        ));
    }
    ended.map(|()| trial.wrong)
}

impl Trial<'_> {
    fn run(&mut self, args: &SurviveArgs) -> Result<(), String> {
        self.write_first(args.values)?;
        if args.parts.contains(&Part::Repairs) {
            self.repairs()?;
        }
        if args.parts.contains(&Part::Stops) {
            self.stops()?;
        }
        self.read_all()
    }

    fn write_first(&mut self, count: u64) -> Result<(), String> {
        let (endpoints, values) = (&self.replicas.endpoints, self.written.values);
        self.runtime.block_on(async {
            for number in 0..count {
                let url = &endpoints[number as usize % endpoints.len()];
                let value = values.value(number, Written::first_len(number));
                let mut asker = Asker::new(url, TIMEOUT)?;
                asker
                    .insist_put(PATIENCE, &values.key(number), value)
                    .await?;
            }
            Ok::<(), String>(())
        })?;
        let written = (0..count).map(|number| WrittenValue {
            number,
            len: Written::first_len(number),
        });
        self.written.kept.extend(written);
        (self.written.first, self.written.next) = (count, count);
        Ok(())
    }

    /// Asks all replicas but those that are stopped for everything.
    fn observe(&mut self, stopped: &[usize], patience: Duration) -> Result<Vec<Outcome>, String> {
        let all = self.replicas.endpoints.iter().cloned().enumerate();
        let running: Vec<(usize, String)> =
            all.filter(|(index, _)| !stopped.contains(index)).collect();
        self.runtime
            .block_on(self.written.observe(&running, patience))
    }

    /// Reads the values of the beginning through these replicas.
    fn read_first(&mut self, what: &str, through: &[usize]) -> Result<(), String> {
        let first = self.written.kept[..self.written.first as usize].to_vec();
        self.read(what, &first, through)
    }

    /// Reads everything through all replicas.
    fn read_all(&mut self) -> Result<(), String> {
        let all: Vec<usize> = (0..self.quorums.n).collect();
        let kept = self.written.kept.clone();
        self.read("in the end", &kept, &all)?;
        let unknown = self.written.unknown.clone();
        let done = self.read_unknown(&unknown)?;
        say(format_args!(
            "in the end: {} values read through every replica; of {} writes that failed, {done} took effect",
            kept.len(),
            unknown.len()
        ));
        Ok(())
    }

    fn read(
        &mut self,
        what: &str,
        expected: &[WrittenValue],
        through: &[usize],
    ) -> Result<(), String> {
        let values = self.written.values;
        for &index in through {
            let url = &self.replicas.endpoints[index];
            let found = self.runtime.block_on(async {
                let mut asker = Asker::new(url, TIMEOUT)?;
                let mut wrong = Vec::new();
                for &WrittenValue { number, len } in expected {
                    let found = asker.insist_get(PATIENCE, &values.key(number)).await;
                    let found = found.map_err(|error| {
                        format!("{what}: value {number} through {url}: {error}")
                    })?;
                    let difference = values.difference(number, len, found.as_deref());
                    wrong.extend(
                        difference
                            .map(|text| format!("{what}: value {number} through {url}: {text}")),
                    );
                }
                Ok::<_, String>(wrong)
            })?;
            self.wrong.extend(found);
        }
        Ok(())
    }

    /// How many of these are there; those that are must be whole.
    fn read_unknown(&mut self, unknown: &[WrittenValue]) -> Result<usize, String> {
        let values = self.written.values;
        let url = &self.replicas.endpoints[0];
        let mut done = 0;
        for &WrittenValue { number, len } in unknown {
            let key = values.key(number);
            let found = self
                .runtime
                .block_on(async { Asker::new(url, TIMEOUT)?.insist_get(PATIENCE, &key).await })?;
            let Some(found) = found else { continue };
            done += 1;
            let difference = values.difference(number, len, Some(&found));
            self.wrong
                .extend(difference.map(|text| format!("a write that failed, {number}: {text}")));
        }
        Ok(done)
    }
}

/// No value is kept whole in memory, and snapshots are taken on the way.
const SERVER_ARGS: [&str; 2] = ["--value-cache-bytes=0", "--snapshot-count=200"];
const TIMEOUT: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_secs(60);
