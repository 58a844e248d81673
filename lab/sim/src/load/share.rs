//! `quorate-lab sim redis-share`: Nezha's Figure 12, with a core for each role.
//!
//! A server of Redis beside each replica carries out every command, on a core of its own, as in command mode; clients
//! wait for their replies. Beside it the same clients ask one such server without replicas. Reads go through the log as
//! writes do, as in the paper. What a command takes a server is measured elsewhere, with real servers.

use super::costs::Costs;
use super::failed;
use super::systems::System;
use crate::calm::Calm;
use crate::capacity::Serial;
use crate::core_costs::{CoreCosts, CorePlan, ServerPlan};
use crate::meter::share_of;
use crate::parallel::run_all;
use crate::plan::{Arrivals, Spread};
use crate::queue::Queue;
use crate::steady::SPIKE_NS_MAX;
use clap::Args;
use fastrand::Rng;
use quorate_core::{MICROS, MILLIS, SECONDS};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options: the servers, and what clients ask.
#[derive(Args, Clone, Debug)]
pub struct ShareOptions {
    /// Protocols, and ways to run one, as `sim load` names them
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        value_parser = System::named,
        default_value = "nezha-apart,nezha-inside,multi-paxos,rabia"
    )]
    systems: Vec<System>,

    /// What messages cost, as `sim load --calibrate` writes it
    #[arg(long, value_name = "FILE.toml")]
    costs: PathBuf,

    /// What `bench redis --systems redis --runs hash:20 --json FILE` found: a command takes a server's core as
    /// long as it took that of the real one
    #[arg(
        long,
        value_name = "FILE.json",
        required_unless_present = "server_rate"
    )]
    server: Option<PathBuf>,

    /// Commands a second that a server does at most, in the place of what was found
    #[arg(long, value_name = "OPS", conflicts_with = "server")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    server_rate: Option<u64>,

    /// Bytes of each of a record's ten fields
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    field_size: usize,

    /// How much more often some of the 1000 records are chosen: the i-th as often as 1 / i^SKEW says; 0 for all alike
    #[arg(long, default_value_t = 0.99)]
    skew: f64,

    /// Clients, each with one command under way
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: u16,

    #[command(flatten)]
    calm: Calm,

    /// How long each run is measured, in virtual ms, after the first 200
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: u64,
}

/// Records there are, and the fields of each, as in the paper.
const RECORDS: u64 = 1000;
const FIELDS: usize = 10;
const REPLICAS: u16 = 3;

/// Of what a Redis alone does, the share that the paper's Nezha left, and its Multi-Paxos.
const PUBLISHED: [(&str, f64); 2] = [("nezha", 0.941), ("multi-paxos", 0.941 / 1.9)];

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    /// Percentage of the time in which the busiest replica's core was busy, and the busiest server's.
    replica_percent: f64,
    server_percent: f64,
}

/// Measures and prints: exit code 0, 1 if a run broke a promise, 2 if the options make no sense.
pub(crate) fn run(options: &ShareOptions) -> ExitCode {
    let found = Costs::read(&options.costs)
        .and_then(|costs| server_ns(options).map(|server_ns| (costs, server_ns)));
    let (costs, server_ns) = match found {
        Ok(found) => found,
        Err(why) => return failed(&why, 2),
    };
    let measured = run_all(&options.systems, options.calm.jobs, |system| {
        let named = |why| format!("{}: {why}", system.name);
        let costs = costs.of(system.protocol).map_err(named)?;
        behind(options, costs, server_ns, *system).map_err(named)
    });
    match measured.into_iter().collect::<Result<Vec<_>, String>>() {
        Ok(measured) => {
            let alone = alone(options, server_ns);
            print!("{}", page(options, server_ns, &alone, &measured));
            ExitCode::SUCCESS
        }
        Err(why) => failed(&why, 1),
    }
}

/// How long a command takes a server's core, ns.
fn server_ns(options: &ShareOptions) -> Result<u64, String> {
    let takes_ns = match (&options.server, options.server_rate) {
        (Some(path), _) => 1e3 * measured_us(path)?,
        (None, rate) => SECONDS as f64 / rate.unwrap_or(1) as f64,
    };
    Ok(takes_ns.round() as u64)
}

/// What a file of `bench redis` says of a Redis alone.
fn measured_us(path: &Path) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| median_us(&text))
        .map_err(|why| format!("{}: {why}", path.display()))
}

/// The median of the CPU time of a Redis alone for a command of hashes, us, among runs in JSON.
fn median_us(text: &str) -> Result<f64, String> {
    let runs: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let runs = runs.iter();
    let runs = runs.filter(|run| run["system"] == "redis" && run["cell"]["workload"] == "hash");
    let mut taken_us: Vec<f64> = runs
        .filter_map(|run| run["server_cpu_us"].as_f64())
        .collect();
    taken_us.sort_by(f64::total_cmp);
    let median = taken_us.get(taken_us.len() / 2).copied();
    median.ok_or_else(|| "it has no run of redis with hashes".to_owned())
}

/// Clients ask replicas, each of which has a server.
fn behind(
    options: &ShareOptions,
    costs: CoreCosts,
    server_ns: u64,
    system: System,
) -> Result<Measured, String> {
    let record_bytes = FIELDS * options.field_size;
    let spread = Spread {
        keys: RECORDS,
        skew: options.skew,
        keys_each: 1,
        value_bytes: record_bytes,
    };
    let cores = CorePlan {
        costs,
        flush_ns: 0,
        server: Some(ServerPlan {
            command_ns: server_ns,
            command_bytes: record_bytes as u64,
        }),
    };
    let offers = system.offers(spread, options.clients.into(), cores, options.duration_ms);
    let cluster = system.cluster(REPLICAS);
    let simulator = options
        .calm
        .simulator(&cluster, Arrivals::Answered, offers)?;
    let measured = options.calm.measure(&simulator)?;
    let lasts_ns = measured.lasted_offers_ns.max(1);
    let busy_ns = &measured.cores_busy_ns;
    let percent = |busy_ns: &[u64]| {
        let most = busy_ns.iter().copied().max().unwrap_or(0);
        most as f64 * 100.0 / lasts_ns as f64
    };
    let replicas = usize::from(REPLICAS);
    Ok(Measured {
        replica_percent: percent(&busy_ns[..replicas]),
        server_percent: percent(&busy_ns[busy_ns.len() - replicas..]),
        ..Measured::of(&measured.latencies_ns, lasts_ns)
    })
}

/// Clients ask one server, over the same network.
fn alone(options: &ShareOptions, server_ns: u64) -> Measured {
    let (mut rng, mut queue) = (Rng::with_seed(options.calm.seed), Queue::new());
    let mut server = Serial::default();
    let calm = &options.calm;
    let mut message_ns = || {
        let (least_ns, more_ns) = (calm.delay_us * MICROS, calm.jitter_us * MICROS);
        let late_ns = match rng.u32(..1000) < calm.late {
            true => rng.u64(..SPIKE_NS_MAX),
            false => 0,
        };
        least_ns + rng.u64(..=more_ns) + late_ns
    };
    (0..options.clients).for_each(|_| queue.after(message_ns(), 0));
    let ends_ns = options.duration_ms * MILLIS;
    let mut latencies_ns = Vec::new();
    // What is in the queue are commands that come to the server, with the time at which they were asked.
    while let Some(asked_ns) = queue.next() {
        let now_ns = queue.now_ns();
        if now_ns > ends_ns {
            break;
        }
        let answered_ns = server.take(now_ns, server_ns) + message_ns();
        latencies_ns.push(answered_ns - asked_ns);
        queue.after(answered_ns + message_ns() - now_ns, answered_ns);
    }
    latencies_ns.sort_unstable();
    Measured {
        server_percent: server.busy_ns(ends_ns) as f64 * 100.0 / ends_ns as f64,
        ..Measured::of(&latencies_ns, ends_ns)
    }
}

impl Measured {
    /// Of ascending latencies.
    fn of(latencies_ns: &[u64], lasts_ns: u64) -> Measured {
        Measured {
            per_second: latencies_ns.len() as f64 * SECONDS as f64 / lasts_ns as f64,
            p50_us: share_of(latencies_ns, 0.5) / MICROS,
            p99_us: share_of(latencies_ns, 0.99) / MICROS,
            replica_percent: 0.0,
            server_percent: 0.0,
        }
    }
}

fn page(options: &ShareOptions, server_ns: u64, alone: &Measured, measured: &[Measured]) -> String {
    let from = match &options.server {
        Some(path) => format!("the median of {}", path.display()),
        None => "as was asked for".to_owned(),
    };
    let mut page = format!(
        "{} clients in a closed loop, records of {FIELDS} fields of {} B, zipf {}; {REPLICAS} replicas, each with a \
         core, and a server with another; {}. A command takes a server {:.1} us: {from}.\n\n\
         | system | commands/s | share of Redis alone | published | p50 | p99 | replica's core | server's core |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
        options.clients,
        options.field_size,
        options.skew,
        options.calm.words(),
        server_ns as f64 / 1e3,
    );
    page += &row("Redis alone", None, alone, alone);
    for (system, found) in options.systems.iter().zip(measured) {
        page += &row(system.name, Some(system.protocol), found, alone);
    }
    page
}

fn row(name: &str, protocol: Option<&str>, found: &Measured, alone: &Measured) -> String {
    let mut published = PUBLISHED.iter();
    let published = published.find(|(of, _)| Some(*of) == protocol);
    format!(
        "| {name} | {:.0} | {:.1} % | {} | {} us | {} us | {:.0} % | {:.0} % |\n",
        found.per_second,
        100.0 * found.per_second / alone.per_second,
        published.map_or("-".to_owned(), |(_, share)| format!(
            "{:.1} %",
            100.0 * share
        )),
        found.p50_us,
        found.p99_us,
        found.replica_percent,
        found.server_percent,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> ShareOptions {
        crate::parse(&format!("--costs unread --duration-ms 100 --late 0 {line}")).unwrap()
    }

    /// Cores on which a message takes 2 us at either end of a socket, and as long for a step.
    fn share(system: &str, line: &str) -> (Measured, f64) {
        let options = options(line);
        let server_ns = server_ns(&options).unwrap();
        let system = System::named(system).unwrap();
        let costs = Costs::even(2_000.0).of(system.protocol).unwrap();
        let found = behind(&options, costs, server_ns, system).unwrap();
        (
            found,
            found.per_second / alone(&options, server_ns).per_second,
        )
    }

    #[test]
    fn servers_as_slow_as_the_papers_hide_what_ordering_takes() {
        for system in ["nezha-apart", "nezha-inside"] {
            let (found, share) = share(system, "--server-rate 21670");
            assert!((0.85..1.02).contains(&share), "{system}: {share} {found:?}");
            assert!(found.server_percent > 85.0, "{system}: {found:?}");
        }
    }

    #[test]
    fn with_servers_that_take_no_time_the_network_and_the_replicas_count() {
        let (found, share) = share("nezha-inside", "--server-rate 10000000");
        assert!(share < 0.8, "{share} {found:?}");
        assert!(found.server_percent < 10.0, "{found:?}");
    }

    #[test]
    fn one_server_alone_does_what_its_core_lets_through() {
        let options = options("--server-rate 20000");
        let found = alone(&options, server_ns(&options).unwrap());
        assert!(
            (19_500.0..20_300.0).contains(&found.per_second),
            "{found:?}"
        );
        // 20 commands wait for each other.
        assert!((900..1_100).contains(&found.p50_us), "{found:?}");
    }

    #[test]
    fn what_a_command_takes_is_the_median_of_what_was_measured() {
        let run = |system: &str, workload: &str, us: f64| {
            format!(
                r#"{{"system":"{system}","cell":{{"workload":"{workload}"}},"server_cpu_us":{us}}}"#
            )
        };
        let runs = [
            run("redis", "hash", 9.0),
            run("redis", "hash", 7.0),
            run("redis", "hash", 6.5),
            run("redis", "set", 1.0),
            run("wait-1", "hash", 20.0),
        ];
        let text = format!("[{}]", runs.join(","));
        assert_eq!(median_us(&text), Ok(7.0));
        let refused = median_us("[]").unwrap_err();
        assert!(refused.contains("no run of redis with hashes"), "{refused}");
    }
}
