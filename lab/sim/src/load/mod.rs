//! `quorate-lab sim load`: latency against load where cores are the limit.
//!
//! Whole clusters with the plain store and no faults; a replica and a gateway have a core each
//! ([`crate::capacity::Cores`]), as the machines of their own that one machine for all cannot show.
//! Writes come from clients that wait for their answers (closed loop), or at random whether those before
//! are answered or not (open loop).

mod costs;
mod page;
mod share;
mod systems;

use crate::calm::{Calm, Paths};
use crate::core_costs::{CoreCosts, CorePlan};
use crate::meter::share_of;
use crate::parallel::run_all;
use crate::plan::{Arrivals, Spread};
use crate::simulator::Simulator;
use clap::Args;
use costs::Costs;
use quorate_core::{MICROS, SECONDS};
use std::path::PathBuf;
use std::process::ExitCode;
use systems::System;

pub(crate) use share::{ShareOptions, run as run_share};

/// Options: the clusters, and what is written.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Protocols, and ways to run one: nezha-linked (each client is a gateway), nezha-apart (five gateways),
    /// nezha-inside (each replica is one), nezha-ordered, nezha-undated and nezha-counted (apart, without
    /// commutativity, without deadlines, with a leader that counts quorums for gateways), multi-paxos, rabia
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        value_parser = System::named,
        default_value = "nezha-linked,nezha-apart,nezha-inside,multi-paxos,rabia"
    )]
    systems: Vec<System>,

    /// Replicas in each cluster
    #[arg(
        long,
        value_name = "N[,N]",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=9),
        default_value = "3"
    )]
    replicas: Vec<u16>,

    /// Clients in a closed loop
    #[arg(
        long,
        value_name = "COUNT[,COUNT]",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=10_000),
        default_value = "1,8,32,128,512"
    )]
    clients: Vec<u64>,

    /// Writes a second in an open loop
    #[arg(
        long,
        value_name = "RATE[,RATE]",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        default_value = "2000,10000,20000,40000,80000"
    )]
    rates: Vec<u64>,

    /// What messages cost, as --calibrate writes it
    #[arg(long, value_name = "FILE.toml", required_unless_present = "calibrate")]
    costs: Option<PathBuf>,

    /// Measure this machine instead, and write what messages cost
    #[arg(long, value_name = "FILE.toml", exclusive = true)]
    calibrate: Option<PathBuf>,

    /// What a flush takes, of protocols that need a disk
    #[arg(long, value_name = "US", default_value_t = 0)]
    flush_us: u64,

    /// A parameter of nezha; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::options::parse_param)]
    param: Vec<(String, String)>,

    #[command(flatten)]
    calm: Calm,

    /// How long each run is measured, in virtual ms, after the first 200
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: u64,
}

/// When writes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    /// At random, so many a second.
    Rate(u64),
    /// From so many clients, each the next as soon as the last is answered.
    Clients(u64),
}

/// A point that is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    system: System,
    replicas: u16,
    pace: Pace,
}

/// What came of it.
#[derive(Clone, Debug)]
struct Measured {
    writes_a_second: f64,
    refused: u64,
    /// Of entries, where there is a fast path.
    fast_percent: Option<f64>,
    held_us: f64,
    p50_us: u64,
    p99_us: u64,
    /// Percentage of the time in which the core of the busiest replica and of the busiest gateway was busy.
    replica_percent: f64,
    gateway_percent: f64,
    /// What a write takes of gateways' cores.
    gateway_us: f64,
}

/// A point, and what was measured there.
struct Run {
    point: Point,
    measured: Measured,
}

/// Keys there are.
const KEYS: u64 = 100_000;
/// How much more often some keys are chosen, as in the paper.
const SKEW: f64 = 0.5;

/// Measures and prints: exit code 0, 1 if a run broke a promise, 2 if the options make no sense.
pub(crate) fn run(options: &LoadOptions) -> ExitCode {
    let costs = match (&options.calibrate, &options.costs) {
        (Some(path), _) => {
            return match costs::calibrate(path) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => failed(&why, 1),
            };
        }
        (None, Some(path)) => Costs::read(path),
        (None, None) => unreachable!("one of them is required"),
    };
    let costs = match costs {
        Ok(costs) => costs,
        Err(why) => return failed(&why, 2),
    };
    let points = points(options);
    let measured = run_all(&points, options.calm.jobs, |point| {
        measure(options, &costs, *point).map(|measured| Run {
            point: *point,
            measured,
        })
    });
    match measured.into_iter().collect::<Result<Vec<_>, String>>() {
        Ok(runs) => {
            print!("{}", page::text(options, &costs, &runs));
            ExitCode::SUCCESS
        }
        Err(why) => failed(&why, 1),
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(code)
}

fn points(options: &LoadOptions) -> Vec<Point> {
    let closed = options.clients.iter().map(|count| Pace::Clients(*count));
    let open = options.rates.iter().map(|rate| Pace::Rate(*rate));
    let mut points = Vec::new();
    for replicas in &options.replicas {
        for pace in closed.clone().chain(open.clone()) {
            points.extend(options.systems.iter().map(|system| Point {
                system: *system,
                replicas: *replicas,
                pace,
            }));
        }
    }
    points
}

fn simulator(options: &LoadOptions, costs: CoreCosts, point: Point) -> Result<Simulator, String> {
    let system = point.system;
    let mut cluster = system.cluster(point.replicas);
    if system.protocol == "nezha" {
        cluster.params.extend(options.param.iter().cloned());
    }
    let (arrivals, clients) = match point.pace {
        Pace::Rate(rate) => (Arrivals::About(SECONDS / rate), 1),
        Pace::Clients(count) => (Arrivals::Answered, count as usize),
    };
    let spread = Spread {
        keys: KEYS,
        skew: SKEW,
        keys_each: 1,
        value_bytes: 0,
    };
    let cores = CorePlan {
        costs,
        flush_ns: options.flush_us * MICROS,
        server: None,
    };
    let offers = system.offers(spread, clients, cores, options.duration_ms);
    options.calm.simulator(&cluster, arrivals, offers)
}

fn measure(options: &LoadOptions, costs: &Costs, point: Point) -> Result<Measured, String> {
    let costs = costs.of(point.system.protocol)?;
    let named = |why| format!("{}, {:?}: {why}", point.system.name, point.pace);
    let simulator = simulator(options, costs, point).map_err(named)?;
    let measured = options.calm.measure(&simulator).map_err(named)?;
    let (paths, latencies_ns) = (Paths::of(&measured), &measured.latencies_ns);
    let answered = latencies_ns.len() as f64;
    let lasts_ns = measured.lasted_offers_ns.max(1);
    let (replicas, gateways) = measured.cores_busy_ns.split_at(point.replicas.into());
    let percent = |busy_ns: &[u64]| {
        let most = busy_ns.iter().copied().max().unwrap_or(0);
        most as f64 * 100.0 / lasts_ns as f64
    };
    Ok(Measured {
        writes_a_second: answered * SECONDS as f64 / lasts_ns as f64,
        refused: measured.refused,
        fast_percent: (paths.entries() > 0.0).then(|| paths.fast_percent()),
        held_us: paths.held_us(),
        p50_us: share_of(latencies_ns, 0.5) / MICROS,
        p99_us: share_of(latencies_ns, 0.99) / MICROS,
        replica_percent: percent(replicas),
        gateway_percent: percent(gateways),
        gateway_us: gateways.iter().sum::<u64>() as f64 / 1e3 / answered.max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores on which a message takes 5 us at either end of a socket, and as long for a step.
    fn measured(system: &str, pace: Pace) -> Measured {
        let options: LoadOptions =
            crate::parse("--costs unread --duration-ms 100 --late 0").expect("the line parses");
        let point = Point {
            system: System::named(system).expect("there is one"),
            replicas: 3,
            pace,
        };
        measure(&options, &Costs::even(5_000.0), point).unwrap()
    }

    #[test]
    fn gateways_take_the_leaders_work_and_answer_more_writes_than_a_leader_can() {
        let apart = measured("nezha-apart", Pace::Clients(256));
        let led = measured("multi-paxos", Pace::Clients(256));
        let ratio = apart.writes_a_second / led.writes_a_second;
        assert!(ratio > 1.2, "{apart:?} {led:?}");
        assert!(led.replica_percent > 80.0, "{led:?}");
    }

    #[test]
    fn what_is_offered_is_answered_while_cores_have_time() {
        for system in ["nezha-linked", "nezha-inside", "multi-paxos", "rabia"] {
            let idle = measured(system, Pace::Rate(2_000));
            assert!(
                (1_500.0..2_500.0).contains(&idle.writes_a_second),
                "{system}: {idle:?}"
            );
            assert!(
                idle.replica_percent < 60.0 && idle.refused == 0,
                "{system}: {idle:?}"
            );
        }
    }
}
