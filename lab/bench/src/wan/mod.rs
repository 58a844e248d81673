//! `bench wan`: how long writes take where replicas and clients are far from each other, with real processes.
//!
//! All processes are on this machine; what replicas and gateways say to each other passes a relay that holds it
//! as long as a map of places says. Every way in is measured by itself, from a write's arrival there to the
//! answer; to this comes the way between the client and there and back. The same in virtual time, where
//! nothing but the way takes time, is `quorate-lab sim wan`.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use quorate_sim::{Map, wan_params};

use crate::gateways::{GatewayPlan, Gateways};
use quorate_load::load::{self, Arrivals, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::replicas::Replicas;
use quorate_load::report::Report;
use quorate_tooling::cleanup;
use quorate_tooling::program::Place;
use quorate_tooling::scrape::Counters;
use quorate_tooling::terminal::say;
use quorate_tooling::units;

/// What is measured, and where everybody is.
#[derive(Debug, Clone, Args)]
pub struct WanArgs {
    /// The protocols to measure
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        default_value = "nezha,multi-paxos,rabia"
    )]
    systems: Vec<String>,
    /// Round trips between places, as `quorate-lab sim wan` has them
    #[arg(long, value_name = "FILE.toml")]
    map: PathBuf,
    /// Where the replicas are, from the first on
    #[arg(
        long,
        value_name = "PLACE[,PLACE]",
        value_delimiter = ',',
        required = true
    )]
    replicas: Vec<String>,
    /// Where clients are
    #[arg(
        long,
        value_name = "PLACE[,PLACE]",
        value_delimiter = ',',
        required = true
    )]
    clients: Vec<String>,
    /// Writes a second, which come by chance (a Poisson process)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Measured time of each way in
    #[arg(long, default_value = "10s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "3s", value_parser = units::duration)]
    warmup: Duration,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Another option for every `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Where writes go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entrance {
    /// A replica, counted from 0.
    Replica(usize),
    /// A remote gateway, where these clients are.
    Gateway(usize),
}

/// One run, and what came of it.
#[derive(Debug)]
struct Way {
    system: String,
    entrance: Entrance,
    report: Report,
    /// Entries answered on the fast path, of all, where they are ordered by deadlines.
    fast_share: Option<f64>,
}

/// Runs it, and prints a table: 0 when every write was answered, 1 otherwise, 2 when it could not run.
pub fn run(args: &WanArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(wan(args), "every write was answered")
}

fn wan(args: &WanArgs) -> Result<Vec<String>, String> {
    let map = Map::read(&args.map)?;
    let named = || args.replicas.iter().chain(&args.clients);
    for (one, other) in named().flat_map(|one| named().map(move |other| (one, other))) {
        map.round_trip_ns(one, other)?;
    }
    if !(3..=PLACES_MAX).contains(&args.replicas.len()) {
        return Err(format!("--replicas must be 3 to {PLACES_MAX} places"));
    }
    let mut ways = Vec::new();
    for system in &args.systems {
        measure(args, &map, system, &mut ways)?;
    }
    print!("{}", table::text(args, &map, &ways)?);
    let failed = ways
        .iter()
        .filter(|way| way.failed() > 0 || way.report.operations == 0);
    Ok(failed.map(|way| table::line(args, way)).collect())
}

impl Way {
    /// Writes that were not answered.
    fn failed(&self) -> u64 {
        self.report.errors.values().sum()
    }
}

/// One cluster, by every way in.
fn measure(args: &WanArgs, map: &Map, system: &str, ways: &mut Vec<Way>) -> Result<(), String> {
    let binary = args.place.binary()?;
    let mut options = vec![format!("--protocol={system}")];
    options.extend(params(args, map, system)?);
    options.extend_from_slice(&args.quorate_option);
    let count = args.replicas.len();
    let replicas = Replicas::begin(
        binary.clone(),
        count as u8,
        args.place.parent(),
        &options,
        PATIENCE,
        Some(Duration::ZERO),
    )?;
    let network = replicas.network().ok_or("no network")?;
    let half = |one: &str, other: &str| {
        map.round_trip_ns(one, other)
            .map(|round| Duration::from_nanos(round / 2))
    };
    for (one, place) in args.replicas.iter().enumerate() {
        for (other, far) in args.replicas.iter().enumerate().skip(one + 1) {
            network.set_between(one, other, half(place, far)?);
        }
    }
    for (replica, url) in replicas.endpoints.iter().enumerate() {
        ways.push(way(args, system, Entrance::Replica(replica), url)?);
    }
    let places = if system == "nezha" {
        &args.clients[..]
    } else {
        &[]
    };
    for (at, clients) in places.iter().enumerate() {
        for (replica, far) in args.replicas.iter().enumerate() {
            network.set_from_gateways(replica, half(clients, far)?);
        }
        let gateways = Gateways::start(&GatewayPlan {
            binary: &binary,
            count: 1,
            replicas: &replicas.endpoints,
            // Where replicas find each other is as far as they are from each other.
            options: &["--peers-only"],
            directory: replicas.directory(),
            patience: PATIENCE,
        })?;
        let url = &gateways.endpoints[0];
        ways.push(way(args, system, Entrance::Gateway(at), url)?);
    }
    Ok(())
}

/// What a protocol has to know of the distances.
fn params(args: &WanArgs, map: &Map, system: &str) -> Result<Vec<String>, String> {
    let mut longest_ns = 1_000_000;
    for (one, other) in args.replicas.iter().flat_map(|one| {
        let everybody = args.replicas.iter().chain(&args.clients);
        everybody.map(move |other| (one, other))
    }) {
        longest_ns = longest_ns.max(map.round_trip_ns(one, other)?);
    }
    let params = wan_params(system, true, longest_ns).into_iter();
    let option = |(name, value)| format!("--param={name}={value}");
    Ok(params.map(option).collect())
}

/// One way in, under load.
fn way(args: &WanArgs, system: &str, entrance: Entrance, url: &String) -> Result<Way, String> {
    let job = Job {
        name: "put",
        read_share: 0.0,
        load: LoadArgs {
            clients: OUTSTANDING_MAX,
            rate: Some(args.rate.into()),
            arrivals: Arrivals::Poisson,
            duration: Some(args.duration),
            warmup: args.warmup,
            val_size: args.val_size,
            ..LoadArgs::at(vec![url.clone()])
        },
        read: ReadArgs::default(),
        verify: VerifyArgs::default(),
    };
    let count = || Counters::scrape(std::slice::from_ref(url)).unwrap_or_default();
    let before = count();
    let report = load::run(&job)?;
    let after = count();
    let way = Way {
        system: system.to_owned(),
        entrance,
        report,
        fast_share: after.since(before).deadlines.fast_share(),
    };
    say(format_args!("{}", table::line(args, &way)));
    Ok(way)
}

const PLACES_MAX: usize = 9;
/// Writes on their way at once; those beyond wait, and their latency counts.
const OUTSTANDING_MAX: u32 = 512;
const PATIENCE: Duration = Duration::from_secs(60);
