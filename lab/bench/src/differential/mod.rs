//! `bench differential`: the same random requests against a real etcd and against a cluster of
//! Quorate, one after the other, and every answer and every event compared.
//!
//! A sequence is drawn from its seed. It reaches the cluster through all of its endpoints in turn, by
//! gRPC and in JSON, and asked by users with and without rights once there are some; revisions must be
//! etcd's throughout, errors have to have its code and its words. Left out is what every system has of
//! its own: who answers, and the numbers of leases it chose itself.

mod alarms;
mod answer;
mod call;
mod generate;
mod json;
mod leases;
mod members;
mod play;
mod recording;
mod shrink;
mod side;
mod step;
mod stream;
mod turns;
mod users;
mod world;

use std::io::IsTerminal;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cluster::{Cluster, need_etcd};
use play::{Difference, Played, ValueRef, play};
use quorate_server::USERS_LEVEL;
use quorate_tooling::cleanup;
use quorate_tooling::program::Place;
use quorate_tooling::scrape::Fetcher;
use recording::{Recording, Sequence};
use side::Side;

/// What `bench differential` can be told.
#[derive(Debug, Clone, Args)]
pub struct DifferentialArgs {
    /// Seeds, each a sequence on fresh data
    #[arg(long, default_value = "0..10", value_parser = seeds)]
    pub seeds: Range<u64>,
    /// Steps of each sequence
    #[arg(long, default_value_t = 400)]
    pub steps: u64,
    /// Play only the steps with these numbers
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<u64>,
    /// Runs to spend on a shorter sequence after a difference
    #[arg(long, default_value_t = 40)]
    pub shrink_runs: u32,
    /// Replicas of the cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// The etcd executable, as built by scripts/build-etcd.sh
    #[arg(long, default_value = "target/etcd/etcd")]
    pub etcd: PathBuf,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// Write what etcd did to this file
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// Compare with what etcd did earlier, from a file of --record; needs no etcd
    #[arg(long, conflicts_with_all = ["record", "seeds", "steps", "only"])]
    pub replay: Option<PathBuf>,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What was compared.
#[derive(Debug, Default, Serialize)]
struct Summary {
    seeds: u64,
    requests: u64,
    events: u64,
    difference: Option<Report>,
}

/// A difference, for people and programs.
#[derive(Debug, Serialize)]
struct Report {
    seed: u64,
    /// The number of the step in its sequence.
    step: u64,
    /// The steps that are needed to see it.
    only: Vec<u64>,
    request: String,
    etcd: String,
    quorate: String,
}

/// Runs all seeds: 0 when nothing differs, 1 after a difference, 2 when they could not run.
pub fn run(args: &DifferentialArgs) -> ExitCode {
    cleanup::on_interrupt();
    let ran = Differential::new(args).and_then(Differential::run);
    match ran.and_then(|summary| summary.print(args.json)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

struct Differential<'a> {
    args: &'a DifferentialArgs,
    bar: ProgressBar,
    summary: Summary,
    recording: Recording,
}

impl<'a> Differential<'a> {
    fn new(args: &'a DifferentialArgs) -> Result<Self, String> {
        if args.replay.is_none() {
            need_etcd(&args.etcd, "compare with a recording with --replay")?;
        }
        let recording = match &args.replay {
            Some(path) => Recording::read(path)?,
            None => Recording {
                of: "etcd".to_owned(),
                steps: args.steps,
                sequences: Vec::new(),
            },
        };
        Ok(Differential {
            args,
            bar: bar(),
            summary: Summary::default(),
            recording,
        })
    }

    fn run(mut self) -> Result<Summary, String> {
        let steps = self.recording.steps;
        let numbers = match &self.args.only[..] {
            [] => (0..steps).collect(),
            only => only.to_vec(),
        };
        if self.args.replay.is_some() {
            let sequences = std::mem::take(&mut self.recording.sequences);
            self.bar.set_length(sequences.len() as u64 * steps);
            for sequence in sequences {
                if self.sequence(sequence.seed, &numbers, Some(sequence.outcomes))? {
                    break;
                }
            }
        } else {
            let seeds = self.args.seeds.clone();
            self.bar
                .set_length((seeds.end - seeds.start) * numbers.len() as u64);
            for seed in seeds {
                if self.sequence(seed, &numbers, None)? {
                    break;
                }
            }
        }
        self.bar.finish_and_clear();
        if let Some(path) = &self.args.record {
            self.recording.write(path)?;
        }
        Ok(self.summary)
    }

    /// Plays one seed. Whether there was a difference.
    fn sequence(
        &mut self,
        seed: u64,
        numbers: &[u64],
        recorded: Option<Vec<step::Outcome>>,
    ) -> Result<bool, String> {
        self.bar.set_message(format!("seed {seed}"));
        let is_live = recorded.is_none();
        let played = self.play(seed, numbers, recorded)?;
        self.summary.seeds += 1;
        self.summary.requests += played.requests;
        self.summary.events += played.events;
        if let Some(difference) = played.difference {
            let report = match is_live {
                true => self.shrink(seed, numbers, difference)?,
                false => Report::new(seed, numbers.to_vec(), difference),
            };
            self.summary.difference = Some(report);
            return Ok(true);
        }
        if self.args.record.is_some() {
            self.recording.sequences.push(Sequence {
                seed,
                outcomes: played.outcomes,
            });
        }
        Ok(false)
    }

    fn shrink(&self, seed: u64, numbers: &[u64], first: Difference) -> Result<Report, String> {
        let upto = numbers.iter().copied().filter(|n| *n <= first.number);
        let upto = upto.collect();
        let mut last = first;
        let left = shrink::shrink(upto, self.args.shrink_runs, |left| {
            self.bar
                .set_message(format!("seed {seed}: trying {} steps", left.len()));
            let played = self.play(seed, left, None)?;
            let differs = played.difference.is_some();
            last = played.difference.unwrap_or_else(|| last.clone());
            Ok(differs)
        })?;
        Ok(Report::new(seed, left, last))
    }

    /// Plays some steps on fresh systems.
    fn play(
        &self,
        seed: u64,
        numbers: &[u64],
        recorded: Option<Vec<step::Outcome>>,
    ) -> Result<Played, String> {
        let quorate = self.quorate()?;
        let etcd = match recorded {
            None => Some(self.etcd()?),
            Some(_) => None,
        };
        // Goes before the systems do: they would wait for open connections.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        runtime.block_on(async {
            let mut reference = match &etcd {
                Some(etcd) => ValueRef::Live(Side::connect(etcd, true).await?),
                None => ValueRef::Recorded(recorded.unwrap_or_default().into_iter()),
            };
            let mut tested = Side::connect(&quorate, false).await?;
            let passed = || self.bar.inc(1);
            play(seed, numbers, &mut reference, &mut tested, passed).await
        })
    }

    fn etcd(&self) -> Result<Cluster, String> {
        Cluster::etcd_with(&self.args.etcd, 1, self.args.place.parent(), &FLAGS)
    }

    fn quorate(&self) -> Result<Cluster, String> {
        let binary = &self.args.place.binary()?;
        let parent = self.args.place.parent();
        let flags = FLAGS.iter().map(|flag| format!("--server-arg={flag}"));
        let options: Vec<String> = flags.chain(self.args.quorate_option.clone()).collect();
        let mut cluster = Cluster::quorate(binary, self.args.replicas, parent, &options)?;
        cluster.await_level(&Fetcher::default(), USERS_LEVEL)?;
        Ok(cluster)
    }
}

impl Report {
    fn new(seed: u64, only: Vec<u64>, difference: Difference) -> Report {
        Report {
            seed,
            step: difference.number,
            only,
            request: format!("{:?}", difference.step),
            etcd: show(&difference.expected),
            quorate: show(&difference.got),
        }
    }
}

fn show(outcome: &step::Outcome) -> String {
    match outcome.seconds_left {
        0 => outcome.text.clone(),
        seconds => format!("{}, {seconds} s left", outcome.text),
    }
}

impl Summary {
    /// Prints it. Whether nothing differs.
    fn print(&self, json: bool) -> Result<bool, String> {
        if json {
            let line = serde_json::to_string(self).map_err(|error| error.to_string())?;
            println!("{line}");
            return Ok(self.difference.is_none());
        }
        println!(
            "{} seeds, {} requests of each system, {} events",
            self.seeds, self.requests, self.events
        );
        let Some(report) = &self.difference else {
            println!("no difference");
            return Ok(true);
        };
        let only: Vec<String> = report.only.iter().map(u64::to_string).collect();
        println!(
            "seed {}, step {}: {}",
            report.seed, report.step, report.request
        );
        println!("  etcd:    {}", report.etcd);
        println!("  quorate: {}", report.quorate);
        println!(
            "again: quorate-lab bench differential --seeds {} --only {}",
            report.seed,
            only.join(",")
        );
        Ok(false)
    }
}

/// What both systems are started with: passwords that cost little to check, and a quota that a single
/// value may be too large for.
const FLAGS: [&str; 2] = ["--bcrypt-cost=4", "--quota-backend-bytes=1300000"];

/// Shown on a terminal only.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} steps  {msg}  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// Parses `3` or `0..10`.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .map_err(|error| error.to_string())
    };
    let range = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => {
            let seed = number(text)?;
            seed..seed.checked_add(1).ok_or("the seed is too great")?
        }
    };
    if range.is_empty() {
        return Err("the range is empty".to_owned());
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!(seeds("3"), Ok(3..4));
        assert_eq!(seeds("0..10"), Ok(0..10));
        assert!(seeds("4..4").is_err());
        assert!(seeds("x").is_err());
    }
}
