//! What a step of a protocol costs: time, instructions and allocations, per message and per
//! committed command, on three replicas that run in memory without loss; and under full load without
//! batches, on three, five and seven (Chora's Table 1), messages handed over as they are or through rings.
//!
//! ```text
//! cargo bench -p quorate-protocols --bench step
//! cargo bench -p quorate-protocols --bench step -- --full   # the second part alone
//! cargo bench -p quorate-protocols --bench step -- --rings  # the part over rings alone
//! ```
//!
//! Instructions are counted by callgrind if valgrind is installed: the program runs itself under
//! it at two lengths and divides the difference. They are repeatable; times are not.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod cluster;
mod count;
mod full;
mod rings;

use cluster::Cluster;
use count::instructions;
use full::{Full, Way};
use quorate_protocols::{Protocol, Visitor};
use std::process::ExitCode;

const REPLICAS: u16 = 3;
const ROUNDS: u64 = 20_000;
const ROUNDS_COUNTED: u64 = 400;
const BODY_BYTES: usize = 256;

/// Prints one row per batch size.
struct Measure;

impl Visitor for Measure {
    type Output = ();

    fn visit<P: Protocol>(self) {
        for commands in [1, 64] {
            let mut cluster = Cluster::<P>::new(REPLICAS, &[]);
            (0..ROUNDS / 10).for_each(|_| cluster.round(commands));
            let (messages, applied) = (cluster.messages, cluster.applied);
            let began = std::time::Instant::now();
            let counted = allocation_counter::measure(|| {
                (0..ROUNDS).for_each(|_| cluster.round(commands));
            });
            let ns = began.elapsed().as_nanos() as f64;
            let messages = (cluster.messages - messages) as f64;
            let applied = (cluster.applied - applied) as f64;
            assert_eq!(
                applied,
                (ROUNDS * commands) as f64,
                "every command was committed"
            );
            let allocations = counted.count_total as f64;
            println!(
                "{:<11} {commands:>5} {:>9.2} {:>9.0} {:>9.0} {:>9} {:>9} {:>9.2} {:>9.2}",
                P::NAME,
                messages / applied,
                ns / messages,
                ns / applied,
                per_unit(P::NAME, commands, messages / ROUNDS as f64),
                per_unit(P::NAME, commands, commands as f64),
                allocations / messages,
                allocations / applied,
            );
        }
    }
}

/// Runs a number of rounds and nothing else, to be counted from outside.
struct Repeat {
    rounds: u64,
    commands: u64,
}

impl Visitor for Repeat {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let mut cluster = Cluster::<P>::new(REPLICAS, &[]);
        (0..self.rounds).for_each(|_| cluster.round(self.commands));
    }
}

/// Instructions per unit, `per_round` of which one round has; "-" without valgrind.
fn per_unit(protocol: &str, commands: u64, per_round: f64) -> String {
    let arguments = |rounds: u64| {
        [
            "--repeat".into(),
            protocol.into(),
            rounds.to_string(),
            commands.to_string(),
        ]
    };
    match instructions(&[], ROUNDS_COUNTED, arguments) {
        Some(per) => format!("{:.0}", per / per_round),
        None => "-".into(),
    }
}

/// What is to be counted from outside, if that is what the program was started for.
fn repeat(arguments: &[String]) -> Option<()> {
    let [flag, protocol, count, more @ ..] = arguments else {
        return None;
    };
    let count = count.parse().ok()?;
    match (flag.as_str(), more) {
        ("--repeat", [commands]) => {
            let commands = commands.parse().ok()?;
            let rounds = count;
            quorate_protocols::visit(protocol, Repeat { rounds, commands })
        }
        (flag, [replicas]) => {
            let mut ways = [Way::Handed, Way::Rings].into_iter();
            let way = ways.find(|way| way.flag() == flag)?;
            Full::repeat(way, protocol, replicas.parse().ok()?, count)
        }
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if repeat(&arguments).is_some() {
        return ExitCode::SUCCESS;
    }
    for (flag, way) in [("--full", Way::Handed), ("--rings", Way::Rings)] {
        if arguments.iter().any(|argument| argument == flag) {
            full::print(way);
            return ExitCode::SUCCESS;
        }
    }
    println!("{REPLICAS} replicas, {BODY_BYTES} B commands; batch: commands per submission");
    println!(
        "{:<11} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "protocol",
        "batch",
        "msgs/cmd",
        "ns/msg",
        "ns/cmd",
        "instr/msg",
        "instr/cmd",
        "alloc/msg",
        "alloc/cmd"
    );
    for protocol in quorate_protocols::all_names() {
        quorate_protocols::visit(protocol, Measure);
    }
    full::print(Way::Handed);
    full::print(Way::Rings);
    ExitCode::SUCCESS
}
