//! `quorate-lab sim commute`: what it brings that writes of different keys may pass each other, without a machine
//! that is the bottleneck.
//!
//! Clusters with the plain store and no faults, in memory. Writes come at random, each to a random replica or gateway,
//! whether those before are answered or not. Whether writes commute, and whether each is of one key or two, is all
//! that differs: the same seed draws the same times and keys.

use crate::calm::{Calm, Cluster, Paths};
use crate::meter::share_of;
use crate::parallel::run_all;
use crate::plan::{Arrivals, Spread};
use crate::simulator::Simulator;
use crate::steady::Offers;
use clap::Args;
use quorate_core::{Durability, MICROS, MILLIS, SECONDS};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Options: the clusters, and what is written.
#[derive(Args, Clone, Debug)]
pub struct CommuteOptions {
    /// The protocol to run
    #[arg(long, default_value = "nezha")]
    protocol: String,

    /// Replicas in each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    replicas: u16,

    /// Remote gateways beside them, through which all writes go; 0 for none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16))]
    gateways: u16,

    /// A parameter of the protocol; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::options::parse_param)]
    param: Vec<(String, String)>,

    /// Writes offered a second
    #[arg(
        long,
        value_name = "RATE[,RATE]",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        default_value = "2000,10000,20000,40000"
    )]
    rates: Vec<u64>,

    /// Keys there are
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,

    /// How much more often some keys are chosen: the i-th as often as 1 / i^SKEW says; 0 for all alike
    #[arg(long, default_value_t = 0.99)]
    skew: f64,

    #[command(flatten)]
    calm: Calm,

    /// How long each run is measured, in virtual ms, after the first 200
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: u64,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A point that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    rate: u64,
    keys_each: usize,
    commutes: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
struct Measured {
    answered: usize,
    writes_each: f64,
    fast_percent: f64,
    held_us: f64,
    p50_us: u64,
    p99_us: u64,
}

/// A point, and what was measured there.
struct Run {
    point: Point,
    measured: Measured,
}

/// Measures and prints: exit code 0, 1 if a run broke a promise, 2 if the options make no sense.
pub(crate) fn run(options: &CommuteOptions) -> ExitCode {
    let mut points = Vec::new();
    for &rate in &options.rates {
        for keys_each in [1, 2] {
            points.extend([false, true].map(|commutes| Point {
                rate,
                keys_each,
                commutes,
            }));
        }
    }
    if let Err(why) = simulator(options, points[0]) {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let measured = run_all(&points, options.calm.jobs, |point| {
        measure(options, *point).map(|measured| Run {
            point: *point,
            measured,
        })
    });
    let runs: Vec<Run> = match measured.into_iter().collect() {
        Ok(runs) => runs,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        let runs: Vec<Value> = runs.iter().map(as_json).collect();
        println!("{:#}", Value::from(runs));
    } else {
        print!("{}", page(options, &runs));
    }
    ExitCode::SUCCESS
}

impl Point {
    fn name(self) -> &'static str {
        match (self.commutes, self.keys_each) {
            (false, 1) => "ordered, one key",
            (true, 1) => "commuting, one key",
            (false, _) => "ordered, two keys",
            (true, _) => "commuting, two keys",
        }
    }
}

fn simulator(options: &CommuteOptions, point: Point) -> Result<Simulator, String> {
    let mut params: BTreeMap<String, String> = options.param.iter().cloned().collect();
    params.insert("commute".to_owned(), point.commutes.to_string());
    let cluster = Cluster {
        protocol: &options.protocol,
        replicas: options.replicas.into(),
        durability: Durability::Memory,
        params,
    };
    let offers = Offers {
        spread: Spread {
            keys: options.keys,
            skew: options.skew,
            keys_each: point.keys_each,
            value_bytes: 0,
        },
        clients: 1,
        is_led: false,
        gateways: options.gateways.into(),
        are_clients_far: false,
        cores: None,
        lasts_ns: options.duration_ms * MILLIS,
    };
    let arrivals = Arrivals::About(SECONDS / point.rate);
    options.calm.simulator(&cluster, arrivals, offers)
}

fn measure(options: &CommuteOptions, point: Point) -> Result<Measured, String> {
    let measured = options.calm.measure(&simulator(options, point)?)?;
    let (paths, latencies_ns) = (Paths::of(&measured), &measured.latencies_ns);
    Ok(Measured {
        answered: latencies_ns.len(),
        writes_each: latencies_ns.len() as f64 / paths.entries().max(1.0),
        fast_percent: paths.fast_percent(),
        held_us: paths.held_us(),
        p50_us: share_of(latencies_ns, 0.5) / MICROS,
        p99_us: share_of(latencies_ns, 0.99) / MICROS,
    })
}

fn page(options: &CommuteOptions, runs: &[Run]) -> String {
    let params = options.param.iter();
    let params: String = params
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    let mut page = format!(
        "{}{params}, {} replicas, {} gateways, memory: {} keys, skew {}; {}\n\n\
         | writes/s | | writes/entry | fast path | slow path | held | p50 | p99 | p50, of ordered | p99, of ordered |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        options.protocol,
        options.replicas,
        options.gateways,
        options.keys,
        options.skew,
        options.calm.words(),
    );
    for pair in runs.chunks(2) {
        let ordered = &pair[0].measured;
        for Run { point, measured } in pair {
            let of = |value: u64, ordered: u64| value as f64 / ordered.max(1) as f64;
            let row = format!(
                "| {} | {} | {:.2} | {:.1} % | {:.1} % | {:.0} us | {} us | {} us | {:.2} | {:.2} |\n",
                point.rate,
                point.name(),
                measured.writes_each,
                measured.fast_percent,
                100.0 - measured.fast_percent,
                measured.held_us,
                measured.p50_us,
                measured.p99_us,
                of(measured.p50_us, ordered.p50_us),
                of(measured.p99_us, ordered.p99_us),
            );
            page += &row;
        }
    }
    page
}

fn as_json(run: &Run) -> Value {
    let Run { point, measured } = run;
    json!({
        "rate": point.rate,
        "keys_each": point.keys_each,
        "commutes": point.commutes,
        "answered": measured.answered,
        "writes_per_entry": measured.writes_each,
        "fast_percent": measured.fast_percent,
        "held_us": measured.held_us,
        "p50_us": measured.p50_us,
        "p99_us": measured.p99_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 20,000 writes a second at three replicas, one message in a hundred late. What comes late is
    /// overtaken by others; who may pass it takes no notice.
    #[test]
    fn writes_that_may_pass_each_other_take_the_fast_path_more_often() {
        let options = crate::parse("--late 10 --duration-ms 100 --param hold=100").unwrap();
        let fast = |commutes| {
            let point = Point {
                rate: 20_000,
                keys_each: 1,
                commutes,
            };
            measure(&options, point).unwrap().fast_percent
        };
        let [ordered, commuting] = [false, true].map(fast);
        assert!(commuting > ordered + 5.0, "{commuting} % and {ordered} %");
    }
}
