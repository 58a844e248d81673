//! `bench vary`: clusters that differ in one option of `quorate up` alone, in turns, in one sitting.
//!
//! As in `bench compare`, ratios are taken between runs of the same turn; who comes first changes with the turn.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cluster::Cluster;
use crate::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use crate::report::Report;
use crate::tables::{align, median};
use crate::units::{self, show_count, show_ns};

/// What `bench vary` can be told.
#[derive(Debug, Clone, Args)]
pub struct VaryArgs {
    /// The option that differs, and its values, as in peer-transport=tcp,udp
    #[arg(long, value_name = "OPTION=VALUE,VALUE", value_parser = Variants::parse)]
    option: Variants,
    /// How the replicas agree, each in its turn, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "rabia")]
    protocols: Vec<String>,
    /// How often every cluster gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    clients: Vec<u32>,
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
    /// The quorate executable [default: this one]
    #[arg(long)]
    quorate: Option<PathBuf>,
    /// Directory for all data, on the disk to be measured [default: TMPDIR or here]
    #[arg(long)]
    data_dir: Option<PathBuf>,
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

/// One run.
#[derive(Debug, Clone)]
struct Run {
    pair: u16,
    protocol: String,
    value: usize,
    clients: u32,
    report: Report,
}

/// Runs them and prints a table.
pub fn run(args: &VaryArgs) -> Result<(), String> {
    crate::cleanup::on_interrupt();
    if args.clients.contains(&0) {
        return Err("--clients must be at least 1".to_owned());
    }
    let mut runs = Vec::new();
    for pair in 0..args.pairs {
        for protocol in &args.protocols {
            let mut order: Vec<usize> = (0..args.option.values.len()).collect();
            if pair % 2 == 1 {
                order.reverse();
            }
            for value in order {
                turn(args, (pair, protocol, value), &mut runs)?;
            }
        }
    }
    print!("{}", render(args, &runs));
    Ok(())
}

/// All numbers of clients, one after the other, against a fresh cluster.
fn turn(
    args: &VaryArgs,
    (pair, protocol, value): (u16, &str, usize),
    runs: &mut Vec<Run>,
) -> Result<(), String> {
    let Variants { option, values } = &args.option;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = args.quorate.as_deref().unwrap_or(&this);
    let mut options = vec![
        format!("--protocol={protocol}"),
        format!("--{option}={}", values[value]),
    ];
    options.extend_from_slice(&args.quorate_option);
    let cluster = Cluster::quorate(binary, args.replicas, args.data_dir.as_deref(), &options)?;
    for &clients in &args.clients {
        let report = load::run(&job(args, &cluster, clients))?;
        eprintln!(
            "turn {} of {}: {protocol}, {option} {}, {clients} clients: {}/s",
            pair + 1,
            args.pairs,
            values[value],
            show_count(report.per_second),
        );
        runs.push(Run {
            pair,
            protocol: protocol.to_owned(),
            value,
            clients,
            report,
        });
    }
    Ok(())
}

fn job(args: &VaryArgs, cluster: &Cluster, clients: u32) -> Job {
    Job {
        name: "put",
        read_share: 0.0,
        load: LoadArgs {
            clients,
            duration: Some(args.duration),
            warmup: args.warmup,
            val_size: args.val_size,
            server_pids: cluster.pids(),
            metrics: cluster.endpoints.clone(),
            ..LoadArgs::at(cluster.endpoints.clone())
        },
        read: ReadArgs::default(),
        verify: VerifyArgs::default(),
    }
}

const HEADINGS: [&str; 9] = [
    "protocol",
    "clients",
    "option",
    "puts/s",
    "p50",
    "p99",
    "server CPU us/put",
    "wake-ups/put",
    "puts/s, of the first",
];

fn render(args: &VaryArgs, runs: &[Run]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for protocol in &args.protocols {
        for &clients in &args.clients {
            for (value, name) in args.option.values.iter().enumerate() {
                let is_of_row = |run: &&Run| run.protocol == *protocol && run.clients == clients;
                let row: Vec<&Run> = runs.iter().filter(is_of_row).collect();
                rows.push(cells(&row, value, [protocol, &clients.to_string(), name]));
            }
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

/// One value of the option, of the runs that differ in that alone.
fn cells(runs: &[&Run], value: usize, names: [&str; 3]) -> Vec<String> {
    let of = |figure: &dyn Fn(&Report) -> f64| {
        let mine = runs.iter().filter(|run| run.value == value);
        median(mine.map(|run| figure(&run.report)).collect()).unwrap_or(f64::NAN)
    };
    let costs = |report: &Report| report.servers.clone().unwrap_or_default();
    let ratios = runs
        .iter()
        .filter(|run| run.value == value)
        .filter_map(|run| {
            let mut others = runs.iter().filter(|other| other.pair == run.pair);
            let first = others.find(|other| other.value == 0)?;
            Some(run.report.per_second / first.report.per_second)
        });
    let ratio = median(ratios.collect()).unwrap_or(f64::NAN);
    let mut cells = names.map(str::to_owned).to_vec();
    cells.extend([
        show_count(of(&|report| report.per_second)),
        show_ns(of(&|report| report.latency.p50_ns as f64) as u64),
        show_ns(of(&|report| report.latency.p99_ns as f64) as u64),
        format!("{:.0}", of(&|report| costs(report).cpu_us_per_op)),
        format!("{:.2}", of(&|report| costs(report).wakeups_per_op)),
        format!("{ratio:.2}"),
    ]);
    cells
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

    /// Scenario: the machine is twice as fast in the second turn; the ratio is the same in both.
    #[test]
    fn ratios_are_of_runs_of_the_same_turn() {
        let run = |pair, value, per_second| Run {
            pair,
            protocol: "chora".to_owned(),
            value,
            clients: 1,
            report: Report {
                per_second,
                ..Report::default()
            },
        };
        let runs = [
            run(0, 0, 10.0),
            run(0, 1, 15.0),
            run(1, 0, 20.0),
            run(1, 1, 30.0),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        assert_eq!(cells(&runs, 0, ["", "", ""]).last().unwrap(), "1.00");
        assert_eq!(cells(&runs, 1, ["", "", ""]).last().unwrap(), "1.50");
    }
}
