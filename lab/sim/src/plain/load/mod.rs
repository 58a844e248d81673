//! `quorate-lab sim load`: latency against load where cores are the limit.
//!
//! Whole clusters with the plain store and no faults; a replica and a gateway have a core each
//! ([`super::cores`]), as the machines of their own that one machine for all cannot show. Writes come from clients
//! that wait for their answers (closed loop), or at random whether those before are answered or not (open loop).

mod costs;
mod page;
mod systems;

use super::calm::{Calm, Paths, WARM_UP_NS};
use super::cores::Cores;
use super::offers::{Offers, Pace};
use super::world::World;
use crate::capacity::CoreCosts;
use crate::meter::share_of;
use crate::parallel::run_all;
use clap::Args;
use costs::Costs;
use quorate_core::{MICROS, MILLIS, SECONDS};
use quorate_tooling::keys::Keys;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use systems::System;

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

    /// How long each run is measured, in virtual ms, after a quarter of a second
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: u64,
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

fn begin(options: &LoadOptions, costs: CoreCosts, point: Point) -> Result<World, String> {
    let system = point.system;
    let mut params: BTreeMap<String, String> = system.params();
    if system.protocol == "nezha" {
        params.extend(options.param.iter().cloned());
    }
    let (protocol, replicas) = (system.protocol, point.replicas.into());
    let world = World::new(
        options.calm.seed,
        protocol,
        replicas,
        system.durability,
        &params,
    )?;
    let mut weather = options.calm.weather();
    if !system.is_linked {
        let longest_ns = weather.delay_ns + weather.jitter_ns.max(1);
        weather.clients_ns = Some(weather.delay_ns..longest_ns);
    }
    let world = World { weather, ..world };
    let mut world = world.with_gateways(system.gateways);
    let endpoints = replicas + system.gateways;
    let flush_ns = options.flush_us * MICROS;
    world.cores = Some(Cores::new(endpoints, costs, flush_ns));
    Ok(world)
}

fn measure(options: &LoadOptions, costs: &Costs, point: Point) -> Result<Measured, String> {
    let mut world = begin(options, costs.of(point.system.protocol)?, point)?;
    let keys = Keys::new(KEYS, SKEW);
    let (seed, entrance) = (options.calm.seed, point.system.entrance);
    world.begin_offers(Offers::new(seed, point.pace, entrance, keys, 1))?;
    let named = |why| format!("{}, {:?}: {why}", point.system.name, point.pace);
    world.take_offers(WARM_UP_NS).map_err(named)?;
    let before = Counted::of(&world);
    let lasts_ns = options.duration_ms * MILLIS;
    let mut latencies_ns = world.take_offers(lasts_ns).map_err(named)?;
    let counted = Counted::of(&world).since(&before);
    latencies_ns.sort_unstable();
    let answered = latencies_ns.len() as f64;
    let paths = counted.paths;
    let (replicas, gateways) = counted.busy_ns.split_at(point.replicas.into());
    let percent = |busy_ns: &[u64]| {
        let most = busy_ns.iter().copied().max().unwrap_or(0);
        most as f64 * 100.0 / lasts_ns as f64
    };
    Ok(Measured {
        writes_a_second: answered * SECONDS as f64 / lasts_ns as f64,
        refused: counted.refused,
        fast_percent: (paths.entries() > 0.0).then(|| paths.fast_percent()),
        held_us: paths.held_us(),
        p50_us: share_of(&latencies_ns, 0.5) / MICROS,
        p99_us: share_of(&latencies_ns, 0.99) / MICROS,
        replica_percent: percent(replicas),
        gateway_percent: percent(gateways),
        gateway_us: gateways.iter().sum::<u64>() as f64 / 1e3 / answered.max(1.0),
    })
}

/// What was counted until some moment.
struct Counted {
    paths: Paths,
    busy_ns: Vec<u64>,
    refused: u64,
}

impl Counted {
    fn of(world: &World) -> Counted {
        let cores = world.cores.as_ref();
        Counted {
            paths: Paths::of(world),
            busy_ns: cores.map_or(Vec::new(), |cores| cores.busy_ns(world.queue.now_ns())),
            refused: world.offers.as_ref().map_or(0, Offers::refused),
        }
    }

    fn since(mut self, before: &Counted) -> Counted {
        self.paths = self.paths.since(before.paths);
        for (now, before) in self.busy_ns.iter_mut().zip(&before.busy_ns) {
            *now -= before;
        }
        self.refused -= before.refused;
        self
    }
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
