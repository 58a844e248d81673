//! `bench vary`: clusters that differ in one option of `quorate up` alone, and etcd if asked for, in turns, in one sitting.
//!
//! As in `bench compare`, ratios are taken between runs of the same turn; who comes first changes with the turn.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cluster::{Cluster, need_etcd};
use quorate_load::load::{self, Arrivals, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_tooling::program::Place;
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{self, show_count, show_ns};

/// What `bench vary` can be told.
#[derive(Debug, Clone, Args)]
pub struct VaryArgs {
    /// The option that differs, and its values, as in peer-transport=tcp,udp
    #[arg(long, value_name = "OPTION=VALUE,VALUE", value_parser = Variants::parse)]
    option: Variants,
    /// How the replicas agree, each in its turn, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "rabia")]
    protocols: Vec<String>,
    /// The protocols that it is varied for; the others have its first value [default: all]
    #[arg(long, value_delimiter = ',')]
    varied: Vec<String>,
    /// How often every cluster gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    clients: Vec<u32>,
    /// Then also open loops of so many puts a second, separated by commas, which come by chance (a Poisson
    /// process) and whose latency counts from when each was due
    #[arg(long, value_delimiter = ',')]
    rates: Vec<u32>,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Measured time of each run
    #[arg(long, default_value = "3s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    warmup: Duration,
    /// Replicas of each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    /// Measure etcd, too, in its turn: the executable, as built by scripts/build-etcd.sh
    #[arg(long, num_args = 0..=1, default_missing_value = "target/etcd/etcd", value_name = "FILE")]
    etcd: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// An option, and what it is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variants {
    option: String,
    values: Vec<String>,
}

impl Variants {
    fn parse(text: &str) -> Result<Variants, String> {
        let (option, values) = text
            .split_once('=')
            .filter(|(option, values)| !option.is_empty() && values.contains(','))
            .ok_or("must be an option with at least two values, as in peer-transport=tcp,udp")?;
        Ok(Variants {
            option: option.trim_start_matches('-').to_owned(),
            values: values.split(',').map(str::to_owned).collect(),
        })
    }
}

/// What a cluster is loaded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// Clients with one put outstanding each.
    Clients(u32),
    /// Puts a second, whatever becomes of them.
    Rate(u32),
}

impl fmt::Display for Offer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offer::Clients(clients) => write!(out, "{clients} clients"),
            Offer::Rate(rate) => write!(out, "{rate}/s"),
        }
    }
}

/// What one run measured.
#[derive(Debug, Clone)]
struct Run {
    pair: u16,
    protocol: String,
    value: usize,
    offer: Offer,
    report: Report,
}

/// Runs them and prints a table.
pub fn run(args: &VaryArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    if args.clients.contains(&0) || args.rates.contains(&0) {
        return Err("--clients and --rates must be at least 1".to_owned());
    }
    if let Some(etcd) = &args.etcd {
        need_etcd(etcd, "leave it out")?;
    }
    let mut runs = Vec::new();
    for pair in 0..args.pairs {
        let mut order: Vec<Variant<'_>> = args.clusters().collect();
        if pair % 2 == 1 {
            order.reverse();
        }
        for variant in order {
            turn(args, pair, variant, &mut runs)?;
        }
    }
    print!("{}", render(args, &runs));
    Ok(())
}

/// A protocol with one value of the option.
#[derive(Debug, Clone, Copy)]
struct Variant<'a> {
    protocol: &'a str,
    /// The place of the value among those of the option.
    value: usize,
}

impl VaryArgs {
    /// The loads: closed loops and then open ones.
    fn offers(&self) -> impl Iterator<Item = Offer> {
        let clients = self.clients.iter().map(|clients| Offer::Clients(*clients));
        clients.chain(self.rates.iter().map(|rate| Offer::Rate(*rate)))
    }

    /// What the option is set to.
    fn value_of(&self, variant: Variant<'_>) -> &str {
        match variant.protocol {
            ETCD => "-",
            _ => &self.option.values[variant.value],
        }
    }

    /// What is compared.
    fn clusters(&self) -> impl Iterator<Item = Variant<'_>> {
        let etcd = self.etcd.iter().map(|_| Variant {
            protocol: ETCD,
            value: 0,
        });
        let protocols = self.protocols.iter().flat_map(|protocol| {
            let is_varied = self.varied.is_empty() || self.varied.contains(protocol);
            let values = if is_varied {
                self.option.values.len()
            } else {
                1
            };
            (0..values).map(move |value| Variant { protocol, value })
        });
        protocols.chain(etcd)
    }
}

/// All loads, one after the other, against a fresh cluster.
fn turn(
    args: &VaryArgs,
    pair: u16,
    variant: Variant<'_>,
    runs: &mut Vec<Run>,
) -> Result<(), String> {
    let Variant { protocol, value } = variant;
    let cluster = start(args, protocol, value)?;
    for offer in args.offers() {
        let report = load::run(&job(args, &cluster, offer))?;
        eprintln!(
            "turn {} of {}: {protocol}, {} {}, {offer}: {}/s",
            pair + 1,
            args.pairs,
            args.option.option,
            args.value_of(variant),
            show_count(report.per_second),
        );
        runs.push(Run {
            pair,
            protocol: protocol.to_owned(),
            value,
            offer,
            report,
        });
    }
    Ok(())
}

fn start(args: &VaryArgs, protocol: &str, value: usize) -> Result<Cluster, String> {
    let parent = args.place.parent();
    if let (ETCD, Some(binary)) = (protocol, &args.etcd) {
        return Cluster::etcd(binary, args.replicas, parent);
    }
    let binary = &args.place.binary()?;
    let Variants { option, values } = &args.option;
    let mut options = vec![
        format!("--protocol={protocol}"),
        format!("--{option}={}", values[value]),
    ];
    options.extend_from_slice(&args.quorate_option);
    Cluster::quorate(binary, args.replicas, parent, &options)
}

fn job(args: &VaryArgs, cluster: &Cluster, offer: Offer) -> Job {
    Job {
        name: "put",
        read_share: 0.0,
        load: LoadArgs {
            clients: match offer {
                Offer::Clients(clients) => clients,
                Offer::Rate(_) => OUTSTANDING_MAX,
            },
            rate: match offer {
                Offer::Clients(_) => None,
                Offer::Rate(rate) => Some(rate.into()),
            },
            arrivals: Arrivals::Poisson,
            duration: Some(args.duration),
            warmup: args.warmup,
            val_size: args.val_size,
            server_pids: cluster.pids(),
            metrics: cluster.pages(),
            ..LoadArgs::at(cluster.endpoints.clone())
        },
        read: ReadArgs::default(),
        verify: VerifyArgs::default(),
    }
}

/// Of an open loop: beyond that, what is due waits to be sent, and its latency counts.
const OUTSTANDING_MAX: u32 = 512;

/// In the place of a protocol's name.
const ETCD: &str = "etcd";

const HEADINGS: [&str; 13] = [
    "protocol",
    "load",
    "option",
    "puts/s",
    "p50",
    "p99",
    "CPU us/put",
    "wake-ups/put",
    "fast %",
    "slow %",
    "held us",
    "puts/s, of the first value",
    "of the first protocol",
];

fn render(args: &VaryArgs, runs: &[Run]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for offer in args.offers() {
        let of_offer: Vec<&Run> = runs.iter().filter(|run| run.offer == offer).collect();
        for variant in args.clusters() {
            let name = args.value_of(variant).to_owned();
            let mut row = vec![variant.protocol.to_owned(), offer.to_string(), name];
            row.extend(cells(&of_offer, variant, &args.protocols[0]));
            rows.push(row);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "--{} varied: {} replicas, {} B values, {cores} cores for replicas and clients together; medians of {} \
         turns, ratios within each\n{}",
        args.option.option,
        args.replicas,
        args.val_size,
        args.pairs,
        align(&rows)
    )
}

/// Of runs with the same load, those of one protocol with one value of the option.
fn cells(runs: &[&Run], of_row: Variant<'_>, first: &str) -> Vec<String> {
    let middle = |figure: &dyn Fn(&Report) -> Option<f64>| {
        median(
            of(runs, of_row)
                .filter_map(|run| figure(&run.report))
                .collect(),
        )
    };
    let shown = |figure: Option<f64>, show: &dyn Fn(f64) -> String| {
        figure.map_or_else(|| "-".to_owned(), show)
    };
    let costs = |report: &Report| report.servers.clone().unwrap_or_default();
    let ratio = |to: Variant<'_>| {
        let ratios = of(runs, of_row).filter_map(|run| {
            let other = of(runs, to).find(|other| other.pair == run.pair)?;
            Some(run.report.per_second / other.report.per_second)
        });
        shown(median(ratios.collect()), &|ratio| format!("{ratio:.2}"))
    };
    let fast = middle(&|report| costs(report).fast_share);
    let time = |ns: f64| show_ns(ns as u64);
    vec![
        shown(middle(&|report| Some(report.per_second)), &show_count),
        shown(middle(&|report| Some(report.latency.p50_ns as f64)), &time),
        shown(middle(&|report| Some(report.latency.p99_ns as f64)), &time),
        shown(middle(&|report| Some(costs(report).cpu_us_per_op)), &|us| {
            format!("{us:.0}")
        }),
        shown(
            middle(&|report| Some(costs(report).wakeups_per_op)),
            &|count| format!("{count:.2}"),
        ),
        shown(fast, &|share| format!("{:.1}", 100.0 * share)),
        shown(fast, &|share| format!("{:.1}", 100.0 - 100.0 * share)),
        shown(middle(&|report| costs(report).held_us), &|us| {
            format!("{us:.0}")
        }),
        ratio(Variant { value: 0, ..of_row }),
        ratio(Variant {
            protocol: first,
            value: 0,
        }),
    ]
}

/// The runs of one protocol with one value of the option.
fn of<'a>(runs: &'a [&Run], variant: Variant<'a>) -> impl Iterator<Item = &'a Run> {
    let is_one = move |run: &&Run| run.protocol == variant.protocol && run.value == variant.value;
    runs.iter().copied().filter(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_values_to_choose_from() {
        let variants = Variants::parse("--peer-transport=tcp,udp").unwrap();
        assert_eq!(variants.option, "peer-transport");
        assert_eq!(variants.values, ["tcp", "udp"]);
        for bad in ["layout", "layout=fused", "=a,b"] {
            assert!(Variants::parse(bad).is_err(), "{bad}");
        }
    }

    /// Scenario: the machine is twice as fast in the second turn; the ratios are the same in both. One protocol
    /// has the option's first value alone.
    #[test]
    fn ratios_are_of_runs_of_the_same_turn() {
        let variant = |protocol, value| Variant { protocol, value };
        let run = |pair, of: Variant<'_>, per_second| Run {
            pair,
            protocol: of.protocol.to_owned(),
            value: of.value,
            offer: Offer::Clients(1),
            report: Report {
                per_second,
                ..Report::default()
            },
        };
        let (one, two, other) = (
            variant("nezha", 0),
            variant("nezha", 1),
            variant("rabia", 0),
        );
        let runs = [
            run(0, one, 10.0),
            run(0, two, 15.0),
            run(0, other, 5.0),
            run(1, one, 20.0),
            run(1, two, 30.0),
            run(1, other, 10.0),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        let ratios = |of_row| cells(&runs, of_row, "nezha")[8..].join(" ");
        assert_eq!(ratios(one), "1.00 1.00");
        assert_eq!(ratios(two), "1.50 1.50");
        assert_eq!(ratios(other), "1.00 0.50");
    }
}
