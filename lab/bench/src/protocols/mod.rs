//! `bench protocols`: all protocols beside each other, set up alike: what a lone write takes in message delays,
//! messages and flushes, what the core of a host takes for it, and throughput and latency in virtual time and on this
//! machine.
//!
//! The lone write and the crowds in virtual time are clusters of the simulator ([`quorate_sim::per_write`]); on this
//! machine they are processes that `quorate up` starts, each in its turn.

mod instructions;
mod machine;
mod page;

pub use instructions::PutInMemoryArgs;
pub(crate) use instructions::run as put_in_memory;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::generator::Generator;
use machine::OnMachine;
use quorate_protocols::all_names;
use quorate_sim::per_write::{CoreTimes, Crowd, Lone, PerWrite, Way};
use quorate_tooling::program::Place;
use quorate_tooling::units;

/// What `bench protocols` can be told.
#[derive(Debug, Clone, Args)]
pub struct ProtocolsArgs {
    /// Protocols and configurations, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = named)]
    protocols: Vec<Way>,
    /// Replicas of each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// Numbers of clients, separated by commas, each with one write under way
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Vec<u32>,
    /// What happens in virtual time alone: no clusters of processes
    #[arg(long)]
    no_processes: bool,
    /// How often every cluster of processes gets its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Measured time of each run
    #[arg(long, default_value = "3s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    warmup: Duration,
    /// The seed of all runs in virtual time
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw throughput and latency
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    generator: Generator,
    #[command(flatten)]
    place: Place,
}

/// What yardsticks are compared as beside their own defaults.
const CONFIGURATIONS: [Way; 4] = [
    Way {
        name: "multi-paxos (NP)",
        protocol: "multi-paxos",
        params: &[
            ("window", "1"),
            ("outstanding", "1"),
            ("batch_commands", "1"),
        ],
    },
    Way {
        name: "epaxos (NP)",
        protocol: "epaxos",
        params: &[("outstanding", "1"), ("batch_commands", "1")],
    },
    Way {
        name: "epaxos (TOQ)",
        protocol: "epaxos",
        params: &[("toq_us", "200")],
    },
    Way {
        name: "raft, one at a time",
        protocol: "raft",
        params: &[
            ("window", "1"),
            ("outstanding", "1"),
            ("batch_commands", "1"),
        ],
    },
];

/// All that can be compared: protocols, and configurations of some.
fn ways() -> Vec<Way> {
    let names = all_names();
    let own = names.iter().map(|name| Way {
        name,
        protocol: name,
        params: &[],
    });
    let configured = CONFIGURATIONS
        .into_iter()
        .filter(|way| names.contains(&way.protocol));
    own.chain(configured).collect()
}

fn named(name: &str) -> Result<Way, String> {
    let ways = ways();
    let found = ways.iter().find(|way| way.name == name);
    let known: Vec<&str> = ways.iter().map(|way| way.name).collect();
    found
        .copied()
        .ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// One protocol's line.
#[derive(Debug, Clone, Serialize)]
struct Row {
    name: &'static str,
    lone: Lone,
    /// Instructions of all hosts for a write, without sockets and files; absent where nobody counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
    /// What a host takes of a core for a message without bytes, ns.
    host_ns_per_message: f64,
    /// In virtual time, by number of clients.
    in_virtual_time: Vec<Crowd>,
    /// On this machine, by number of clients.
    on_this_machine: Vec<OnMachine>,
}

/// Measures all, prints the tables and writes what was asked for.
///
/// # Errors
/// Says what could not be measured or written.
pub fn run(args: &ProtocolsArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    args.generator.check()?;
    let ways = match args.protocols.as_slice() {
        [] => ways(),
        chosen => chosen.to_vec(),
    };
    let mut rows = ways
        .iter()
        .map(|way| in_virtual_time(args, *way))
        .collect::<Result<Vec<Row>, String>>()?;
    if !args.no_processes {
        for (row, found) in rows.iter_mut().zip(machine::measure(args, &ways)?) {
            row.on_this_machine = found;
        }
    }
    let written = |path: &PathBuf, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?;
        written(path, text + "\n")?;
    }
    if let Some(path) = &args.plot {
        written(path, page::picture(args, &rows))?;
    }
    print!("{}", page::text(args, &rows));
    Ok(())
}

fn in_virtual_time(args: &ProtocolsArgs, way: Way) -> Result<Row, String> {
    let per_write = PerWrite {
        way,
        replicas: args.replicas.into(),
        seed: args.seed,
    };
    eprintln!("{}: in virtual time", way.name);
    let cores = CoreTimes::measure(&per_write)?;
    let crowds = args.clients.iter();
    let crowds = crowds.map(|clients| per_write.crowd(*clients, cores));
    Ok(Row {
        name: way.name,
        lone: per_write.lone()?,
        instructions: instructions::count(&per_write),
        host_ns_per_message: cores.per_message_ns()[0],
        in_virtual_time: crowds.collect::<Result<_, _>>()?,
        on_this_machine: Vec::new(),
    })
}
