//! `bench large`: what small puts feel of a large one that is always under way.
//!
//! Small puts come at a fixed rate, and latency counts from when each was due, in three phases on one
//! cluster: alone; beside a client that puts one large value after the other; and beside processes
//! that do nothing but use as much CPU time as the large puts took (of servers and load generator,
//! above what the small puts alone took). What the second phase adds to the third is what small puts
//! wait for large ones, other than for a core. A second table says where in the leader the time goes.

pub(crate) mod places;
pub(crate) mod spin;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use places::Spent;
use quorate_protocols::Code;
use serde::Serialize;

use crate::sizes::traffic::Reading;
use crate::systems::System;
use crate::systems::compaction::Compaction;
use crate::systems::ground::{Launch, Running};
use quorate_load::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_tooling::children::Tethered;
use quorate_tooling::process::Usage;
use quorate_tooling::program::Place;
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{show_count, show_ns, show_size};
use quorate_tooling::{cleanup, units};

/// What `bench large` can be told.
#[derive(Debug, Clone, Args)]
pub struct LargeArgs {
    /// How the replicas agree
    #[arg(long, value_enum, default_value = "rs-paxos")]
    pub system: System,
    /// Bytes of a large value
    #[arg(long, default_value = "64MiB", value_parser = units::bytes)]
    pub large: usize,
    /// Bytes of a small value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    pub small: usize,
    /// Small puts per second
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// Length of each phase
    #[arg(long, default_value = "20s", value_parser = units::duration)]
    pub seconds: Duration,
    /// How often all phases run, each time on a fresh cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub turns: u16,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// Also write everything to this file as one JSON object
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What small puts had beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// Small puts alone.
    Nothing,
    /// Large puts, one after the other.
    Large,
    /// As much CPU time used by something else.
    Load,
}

/// What one phase measured.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// In which turn, from 0.
    pub turn: u16,
    /// What small puts had beside them.
    pub beside: Beside,
    /// What they felt.
    pub small: Report,
    /// What the large puts did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large: Option<Report>,
    /// CPU time of servers, load generator and what stands in for large puts, in cores.
    pub cores: f64,
    /// Leaders that were elected meanwhile.
    pub elections: u64,
    /// Time spent at the places of a put's way in the replica that led at first.
    pub places: BTreeMap<&'static str, Spent>,
}

/// Runs all turns and prints the table.
pub fn run(args: &LargeArgs) -> Result<(), String> {
    cleanup::on_interrupt();
    let mut phases = Vec::new();
    for turn in 0..args.turns {
        for phase in Turn::begin(args, turn)?.run()? {
            eprintln!(
                "turn {} of {}: beside {}: p99 {}",
                turn + 1,
                args.turns,
                phase.beside.name(),
                show_ns(phase.small.latency.p99_ns)
            );
            phases.push(phase);
        }
    }
    println!(
        "{} B puts at {}/s, {}; medians of the turns",
        args.small,
        show_count(args.rate),
        args.system.shape(CODE, REPLICAS).title()
    );
    print!("{}", table(&phases, args.large));
    println!("where the time goes, large puts among the samples:");
    print!("{}", places::table(&phases));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&phases).map_err(|error| error.to_string())?;
        units::write(path, &(json + "\n"))?;
    }
    Ok(())
}

struct Turn<'a> {
    args: &'a LargeArgs,
    number: u16,
    /// Ends before the cluster does.
    _compaction: Compaction,
    running: Running,
    leader: String,
}

/// What clients saw.
struct Reports {
    small: Report,
    /// Of the client that puts large values, if there is one.
    large: Option<Report>,
}

impl Turn<'_> {
    fn begin(args: &LargeArgs, number: u16) -> Result<Turn<'_>, String> {
        let launch = Launch {
            place: &args.place,
            options: &args.quorate_option,
            inside: None,
            etcd: None,
        };
        let running = Running::start(&launch, args.system.shape(CODE, REPLICAS))?;
        let compaction = Compaction::begin(&running.endpoints[0])?;
        compaction.every_puts((args.rate * COMPACTION.as_secs_f64()) as i64);
        let mut turn = Turn {
            args,
            number,
            _compaction: compaction,
            leader: running.endpoints[0].clone(),
            running,
        };
        turn.find_leader()?;
        Ok(turn)
    }

    fn find_leader(&mut self) -> Result<(), String> {
        let before = Reading::take(&self.running)?;
        let mut job = self.job(1, PROBE_BYTES);
        job.load.total = Some(PROBES);
        load::run(&job)?;
        let leader = Reading::settled(&self.running)?.leader_since(&before);
        self.leader = self.running.endpoints[leader].clone();
        Ok(())
    }

    fn run(&self) -> Result<Vec<Phase>, String> {
        let alone = self.phase(Beside::Nothing, &[], || self.small())?;
        let beside = self.phase(Beside::Large, &[], || self.small_beside_large())?;
        let spinning = spin::start(beside.cores - alone.cores);
        let spinning = spinning.map_err(|error| format!("cannot use CPU time: {error}"))?;
        let pids: Vec<u32> = spinning.iter().map(Tethered::pid).collect();
        let loaded = self.phase(Beside::Load, &pids, || self.small())?;
        Ok(vec![alone, beside, loaded])
    }

    fn phase(
        &self,
        beside: Beside,
        others: &[u32],
        run: impl FnOnce() -> Result<Reports, String>,
    ) -> Result<Phase, String> {
        let mut pids = self.running.pids.clone();
        pids.push(std::process::id());
        pids.extend(others);
        let (before, usage) = (Reading::settled(&self.running)?, Usage::of(&pids));
        let places = places::Reading::take(&self.leader)?;
        let Reports { small, large } = run()?;
        let places = places::Reading::take(&self.leader)?.since(&places);
        let used = Usage::of(&pids).since(usage);
        let traffic = Reading::settled(&self.running)?.since(&before);
        Ok(Phase {
            turn: self.number,
            beside,
            cores: used.cpu_us as f64 / 1e6 / small.seconds,
            small,
            large,
            elections: traffic.elections,
            places,
        })
    }

    fn small(&self) -> Result<Reports, String> {
        let mut job = self.job(CLIENTS, self.args.small);
        job.load.duration = Some(self.args.seconds);
        job.load.rate = Some(self.args.rate);
        Ok(Reports {
            small: load::run(&job)?,
            large: None,
        })
    }

    /// Small puts while another client puts large values, one after the other.
    fn small_beside_large(&self) -> Result<Reports, String> {
        std::thread::scope(|scope| {
            let mut job = self.job(1, self.args.large);
            job.load.duration = Some(self.args.seconds);
            let large = scope.spawn(move || load::run(&job));
            let Reports { small, .. } = self.small()?;
            let large = large.join().map_err(|_| "the large puts failed")??;
            match large.operations {
                0 => Err(format!("no large put succeeded: {:?}", large.errors)),
                _ => Ok(Reports {
                    small,
                    large: Some(large),
                }),
            }
        })
    }

    fn job(&self, clients: u32, value_bytes: usize) -> Job {
        let load = LoadArgs {
            clients,
            val_size: value_bytes,
            key_space: Some(1),
            timeout: TIMEOUT,
            ..LoadArgs::at(vec![self.leader.clone()])
        };
        Job {
            name: "put",
            read_share: 0.0,
            load,
            read: ReadArgs::default(),
            verify: VerifyArgs::default(),
        }
    }
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "nothing",
            Beside::Large => "large puts",
            Beside::Load => "equal CPU load",
        }
    }
}

/// The phases, and how much longer small puts take beside large ones.
fn table(phases: &[Phase], large_bytes: usize) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for beside in [Beside::Nothing, Beside::Large, Beside::Load] {
        let own: Vec<&Phase> = phases.iter().filter(|one| one.beside == beside).collect();
        let of = |of: &dyn Fn(&Phase) -> Option<f64>| {
            median(own.iter().filter_map(|one| of(one)).collect())
        };
        let ns = |quantile: fn(&Report) -> u64| {
            let each = of(&|one| Some(quantile(&one.small) as f64));
            each.map_or("-".to_owned(), |ns| show_ns(ns as u64))
        };
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let large = |of_large: fn(&Report) -> f64| of(&|one| one.large.as_ref().map(of_large));
        let errors = |report: &Report| report.errors.values().sum::<u64>() + report.unsent;
        let failed = own.iter().map(|one| errors(&one.small)).sum::<u64>();
        let elections = own.iter().map(|one| one.elections).sum::<u64>();
        rows.push(vec![
            beside.name().to_owned(),
            ns(|small| small.latency.p50_ns),
            ns(|small| small.latency.p99_ns),
            ns(|small| small.latency.p999_ns),
            ns(|small| small.latency.max_ns),
            shown(of(&|one| Some(one.cores)), 2),
            shown(large(|large| large.per_second), 2),
            large(|large| large.latency.p50_ns as f64)
                .map_or("-".to_owned(), |ns| show_ns(ns as u64)),
            failed.to_string(),
            elections.to_string(),
        ]);
    }
    let ratio = median(ratios(phases)).map_or(String::new(), |ratio| {
        format!(
            "p99 beside {} puts: {ratio:.2} times that beside an equal CPU load\n",
            show_size(large_bytes)
        )
    });
    align(&rows) + &ratio
}

/// Of p99 beside large puts to that beside an equal load, in each turn.
fn ratios(phases: &[Phase]) -> Vec<f64> {
    let p99 = |turn: u16, beside: Beside| {
        let mut phases = phases.iter();
        let phase = phases.find(|phase| (phase.turn, phase.beside) == (turn, beside))?;
        Some(phase.small.latency.p99_ns as f64)
    };
    let ratio = |phase: &Phase| {
        let large = (phase.beside == Beside::Large).then(|| p99(phase.turn, Beside::Large))??;
        Some(large / p99(phase.turn, Beside::Load)?)
    };
    phases.iter().filter_map(ratio).collect()
}

const HEADINGS: [&str; 10] = [
    "beside",
    "p50",
    "p99",
    "p99.9",
    "max",
    "cores",
    "large/s",
    "large p50",
    "failed",
    "elections",
];

/// Enough that no put waits for a client.
/// Where values are cut, and how many replicas there are in any case.
const CODE: Code = Code { n: 5, k: 3 };
const REPLICAS: u8 = 5;
const CLIENTS: u32 = 256;
const TIMEOUT: Duration = Duration::from_secs(60);
const COMPACTION: Duration = Duration::from_secs(2);
const PROBES: u64 = 64;
const PROBE_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(turn: u16, beside: Beside, p99_ns: u64) -> Phase {
        let mut small = Report::default();
        small.latency.p99_ns = p99_ns;
        Phase {
            turn,
            beside,
            small,
            large: (beside == Beside::Large).then(Report::default),
            cores: 1.0,
            elections: 1,
            places: BTreeMap::new(),
        }
    }

    #[test]
    fn the_ratio_is_taken_within_a_turn() {
        let phases = [
            phase(0, Beside::Large, 4_000_000),
            phase(0, Beside::Load, 1_000_000),
            phase(1, Beside::Load, 4_000_000),
            phase(1, Beside::Large, 8_000_000),
        ];
        assert_eq!(ratios(&phases), [4.0, 2.0]);
        let table = table(&phases, 64 << 20);
        assert!(table.contains("beside 64 MiB puts: 3.00 times"), "{table}");
        assert!(table.contains("large puts"), "{table}");
    }
}
