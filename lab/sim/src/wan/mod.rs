//! `quorate-lab sim wan`: how long writes take where replicas and clients are far from each other.
//!
//! Whole clusters without faults on a map of places ([`map`]). For each place of clients and each system it tries
//! every way in: through each of the replicas, and for Nezha through a gateway where the clients are. What
//! a way takes is measured with requests on that way only, from their arrival there to the answer; to this
//! comes the way between the client and there and back.

mod map;
mod page;

use crate::meter::share_of;
use crate::parallel;
use crate::plan::Arrivals;
use crate::simulator::Simulator;
use crate::steady::{PLACES_MAX, Places, Steady};
use clap::Args;
pub use map::Map;
use quorate_core::{Durability, MICROS, MILLIS, SECONDS};
use std::path::PathBuf;
use std::process::ExitCode;

/// What is measured, and where everybody is.
#[derive(Args, Clone, Debug)]
pub struct WanOptions {
    /// Protocols
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        default_value = "nezha,multi-paxos,rabia"
    )]
    pub systems: Vec<String>,

    /// Round trips between places
    #[arg(long, value_name = "FILE.toml")]
    pub map: PathBuf,

    /// Where the replicas are, from the first on
    #[arg(
        long,
        value_name = "PLACE[,PLACE]",
        value_delimiter = ',',
        required = true
    )]
    pub replicas: Vec<String>,

    /// Where clients are
    #[arg(
        long,
        value_name = "PLACE[,PLACE]",
        value_delimiter = ',',
        required = true
    )]
    pub clients: Vec<String>,

    /// Writes a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,

    /// Writes of each run
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub requests: u64,

    /// Mean of what messages take beyond half a round trip
    #[arg(long, default_value_t = 500, value_name = "US")]
    pub jitter_us: u64,

    /// How far clocks are off at most
    #[arg(long, default_value_t = 1000, value_name = "US")]
    pub clock_offset_us: u64,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// Where requests go in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entrance {
    /// A replica, counted from 0.
    Replica(usize),
    /// A remote gateway, where these clients are.
    Gateway(usize),
}

/// One run, and what came of it.
struct Way {
    system: System,
    entrance: Entrance,
    /// From a request's arrival there to the answer, ascending, ns.
    latencies_ns: Vec<u64>,
    /// Answers of the fast path, percent; of protocols that have one.
    fast_percent: Option<f64>,
}

/// A protocol as it is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
struct System {
    protocol: String,
    /// For Nezha: deadlines wait for a fast quorum only.
    wan: bool,
}

/// Protocols whose leaders are given up when they were not heard for a time.
const ELECTING: [&str; 4] = ["nezha", "multi-paxos", "raft", "rs-paxos"];

/// Measures and prints: exit code 0, 1 if a run broke a promise, 2 if the options make no sense.
pub(crate) fn run(options: &WanOptions) -> ExitCode {
    match measure(options) {
        Ok(page) => {
            print!("{page}");
            ExitCode::SUCCESS
        }
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
        Err(Failure::Violated(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is nothing to print.
#[derive(Debug)]
enum Failure {
    Usage(String),
    Violated(String),
}

fn measure(options: &WanOptions) -> Result<String, Failure> {
    let map = Map::read(&options.map).map_err(Failure::Usage)?;
    let n = options.replicas.len();
    if n >= PLACES_MAX {
        let why = format!(
            "--replicas: {n} places, and the most are {}",
            PLACES_MAX - 1
        );
        return Err(Failure::Usage(why));
    }
    let named = options.replicas.iter().chain(&options.clients);
    for (place, other) in named
        .clone()
        .flat_map(|a| named.clone().map(move |b| (a, b)))
    {
        map.round_trip_ns(place, other).map_err(Failure::Usage)?;
    }
    let runs = runs(options);
    let ways = parallel::run_all(&runs, options.jobs, |(system, entrance)| {
        way(options, &map, system, *entrance)
    });
    let ways: Result<Vec<Way>, Failure> = ways.into_iter().collect();
    Ok(page::text(options, &map, &ways?))
}

/// All that is to be measured.
fn runs(options: &WanOptions) -> Vec<(System, Entrance)> {
    let n = options.replicas.len();
    let mut runs = Vec::new();
    for protocol in &options.systems {
        let is_nezha = protocol == "nezha";
        // With fewer members, or that many, a fast quorum is all of them.
        let modes: &[bool] = if is_nezha && n > 3 {
            &[true, false]
        } else {
            &[is_nezha]
        };
        for wan in modes {
            let system = System {
                protocol: protocol.clone(),
                wan: *wan,
            };
            let gateways = if is_nezha { options.clients.len() } else { 0 };
            let entrances = (0..gateways).map(Entrance::Gateway);
            let entrances = entrances.chain((0..n).map(Entrance::Replica));
            runs.extend(entrances.map(|entrance| (system.clone(), entrance)));
        }
    }
    runs
}

fn way(
    options: &WanOptions,
    map: &Map,
    system: &System,
    entrance: Entrance,
) -> Result<Way, Failure> {
    let n = options.replicas.len();
    let mut places: Vec<&String> = options.replicas.iter().collect();
    if let Entrance::Gateway(at) = entrance {
        places.push(&options.clients[at]);
    }
    let (mut ways_ns, mut longest_ns) = ([[0; PLACES_MAX]; PLACES_MAX], 0);
    for (from, a) in places.iter().enumerate() {
        for (to, b) in places.iter().enumerate() {
            let round_ns = map.round_trip_ns(a, b).map_err(Failure::Usage)?;
            ways_ns[from][to] = round_ns / 2;
            longest_ns = round_ns.max(longest_ns);
        }
    }
    let steady = Steady {
        jitter_ns: options.jitter_us * MICROS,
        clock_offset_ns: options.clock_offset_us * MICROS,
        arrivals: Arrivals::About(SECONDS / options.rate),
        requests: options.requests,
        gateways: match entrance {
            Entrance::Replica(replica) => Some((replica, 1)),
            Entrance::Gateway(_) => None,
        },
        places: Some(Places {
            has_gateway: matches!(entrance, Entrance::Gateway(_)),
            ways_ns,
            patience_ns: 60 * SECONDS,
        }),
        ..Steady::default()
    };
    let params = params(&system.protocol, system.wan, longest_ns);
    let params: Vec<_> = (params.iter())
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let simulator = Simulator::steady(&system.protocol, n, Durability::Disk, &params, steady)
        .map_err(Failure::Usage)?;
    let report = simulator.seed(options.seed);
    if let Some(violation) = report.violation {
        let what = format!("{}, {entrance:?}: {violation}", system.protocol);
        return Err(Failure::Violated(what));
    }
    let measured = report.measured.unwrap_or_default();
    let figure = |name| measured.branches.get(name).copied().unwrap_or(0);
    let (fast, slow) = (figure("committed fast"), figure("committed slowly"));
    Ok(Way {
        system: system.clone(),
        entrance,
        fast_percent: (fast + slow > 0).then(|| fast as f64 * 100.0 / (fast + slow) as f64),
        latencies_ns: measured.latencies_ns,
    })
}

/// What a protocol has to be told of places whose furthest two are one round trip of so many ns apart; `wan` is
/// Nezha's.
#[must_use]
pub fn params(protocol: &str, wan: bool, longest_ns: u64) -> Vec<(&'static str, String)> {
    let rtt_us = (longest_ns / MICROS).max(1);
    let mut params = vec![("rtt_us", rtt_us.to_string())];
    if protocol == "nezha" {
        params.extend([
            ("wan", wan.to_string()),
            ("owd_us", (3 * longest_ns / MICROS / 2).to_string()),
            ("far_us", (3 * longest_ns / MICROS).to_string()),
        ]);
    }
    if ELECTING.contains(&protocol) {
        let election_ms = (4 * longest_ns / MILLIS).max(100);
        params.push(("election_ms", election_ms.to_string()));
    }
    params
}

impl Way {
    /// What a part of the requests took at most, ns.
    fn latency_ns(&self, share: f64) -> u64 {
        share_of(&self.latencies_ns, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(line: &str) -> Result<String, Failure> {
        let map = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/wan.toml");
        let options = crate::parse(&format!("--map {map} --jobs 1 {line}"));
        measure(&options.expect("the line parses"))
    }

    /// The cell of a row whose system and place of clients are these.
    fn cell(page: &str, (clients, system): (&str, &str), column: usize) -> String {
        let row = page
            .lines()
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
            .find(|row| row.get(1) == Some(&clients) && row.get(2) == Some(&system));
        row.map_or(String::new(), |row| row[column].to_owned())
    }

    #[test]
    fn a_gateway_beside_its_clients_answers_after_one_round_trip_to_the_fast_quorum() {
        let page =
            measured("--replicas eu-north,asia-northeast,sa-east --clients us-east --requests 300")
                .unwrap();
        let ms =
            |system, column| -> f64 { cell(&page, ("us-east", system), column).parse().unwrap() };
        // The furthest is in asia-northeast, 181 ms away.
        assert!((181.0..190.0).contains(&ms("nezha, wan", 5)), "{page}");
        assert_eq!(cell(&page, ("us-east", "nezha, wan"), 3), "gateway there");
        // To the leader or another replica, and from there to the nearest majority.
        for other in ["multi-paxos", "rabia"] {
            assert!(ms(other, 7) > 1.3 * ms("nezha, wan", 7), "{page}");
        }
    }

    #[test]
    fn every_protocol_can_be_put_on_the_map() {
        let systems = quorate_protocols::names().join(",");
        let line =
            format!("--systems {systems} --replicas us-east,us-west,eu-north --clients us-east");
        let page = measured(&format!("{line} --requests 20")).unwrap();
        assert_eq!(
            page.matches("\n| us-east |").count(),
            quorate_protocols::names().len()
        );
    }

    #[test]
    fn places_that_the_map_does_not_have_are_named() {
        match measured("--replicas eu-north,atlantis --clients us-east") {
            Err(Failure::Usage(why)) => assert!(why.contains("eu-north and atlantis"), "{why}"),
            _ => panic!("there is no such place"),
        }
    }
}
