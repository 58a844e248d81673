//! `bench rings`: what a message costs between threads of one machine: round trips between two, and rounds of several in
//! which each tells all others, over UDP and over rings in memory, by threads that sleep and by threads that poll.

mod network;

use std::io;
use std::time::{Duration, Instant};
use std::{process, thread};

use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use network::Way;
use network::{End, MESSAGE_BYTES, Message, network};
use quorate_load::latency::Latency;
use quorate_tooling::tables::align;
use quorate_tooling::units::{self, show_count, show_ns};

/// What `bench rings` can be told.
#[derive(Debug, Clone, Args)]
pub struct RingsArgs {
    /// Ways that are measured, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    ways: Vec<Way>,
    /// Threads that take part in rounds, separated by commas; with 2, a round is a message each way at once
    #[arg(long, value_delimiter = ',', default_value = "2,3")]
    threads: Vec<u8>,
    /// Measured time of each
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    /// Let more threads poll than there are cores, which keep each other from working
    #[arg(long)]
    more_pollers_than_cores: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// One asks, the other answers.
    RoundTrip,
    /// Each tells all others, and goes on when all others have told it.
    Round(usize),
}

impl What {
    fn threads(self) -> usize {
        match self {
            What::RoundTrip => 2,
            What::Round(threads) => threads,
        }
    }

    fn name(self) -> String {
        match self {
            What::RoundTrip => "round trip".to_owned(),
            What::Round(threads) => format!("round of {threads}"),
        }
    }
}

/// Runs it and prints a table.
pub fn run(args: &RingsArgs) -> Result<(), String> {
    let cores = cores().map_err(|error| format!("which cores there are: {error}"))?;
    if args
        .threads
        .iter()
        .any(|threads| !(2..=9).contains(threads))
    {
        return Err("--threads: from 2 to 9".to_owned());
    }
    let ways = match args.ways.is_empty() {
        true => Way::ALL.to_vec(),
        false => args.ways.clone(),
    };
    let rounds = args
        .threads
        .iter()
        .map(|threads| What::Round((*threads).into()));
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for what in std::iter::once(What::RoundTrip).chain(rounds) {
        for way in &ways {
            let mut row = vec![what.name(), way.name().to_owned()];
            let is_crowded = way.polls() && what.threads() > cores.len();
            row.extend(match is_crowded && !args.more_pollers_than_cores {
                true => vec![format!("needs {} cores", what.threads())],
                false => {
                    let measured = measure(what, *way, args.duration, &cores);
                    cells(&measured.map_err(|error| format!("{}: {error}", way.name()))?)
                }
            });
            row.resize(HEADINGS.len(), String::new());
            rows.push(row);
        }
    }
    println!(
        "{MESSAGE_BYTES} B messages between threads of process {}, in turns on cores {cores:?}",
        process::id()
    );
    print!("{}", align(&rows));
    Ok(())
}

const HEADINGS: [&str; 7] = ["what", "by", "per second", "p50", "p99", "p99.9", "max"];

/// What a thread saw.
struct Measured {
    latency: Latency,
    /// How long it measured.
    took: Duration,
}

fn cells(measured: &Measured) -> Vec<String> {
    let Measured { latency, took } = measured;
    let summary = latency.summary();
    vec![
        show_count(latency.count() as f64 / took.as_secs_f64()),
        show_ns(summary.p50_ns),
        show_ns(summary.p99_ns),
        show_ns(summary.p999_ns),
        show_ns(summary.max_ns),
    ]
}

/// The cores that this process may use.
fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect())
}

/// As the first thread sees it.
fn measure(what: What, way: Way, duration: Duration, cores: &[usize]) -> io::Result<Measured> {
    let ends = network(way, what.threads())?;
    let threads: Vec<_> = ends
        .into_iter()
        .enumerate()
        .map(|(at, end)| {
            let core = cores[at % cores.len()];
            thread::spawn(move || {
                let mut set = CpuSet::new();
                set.set(core);
                sched_setaffinity(None, &set)?;
                take_part(what, at == 0, end, duration)
            })
        })
        .collect();
    let mut measured = Vec::new();
    for thread in threads {
        let of_thread = thread
            .join()
            .map_err(|_| io::Error::other("a thread failed"))?;
        measured.push(of_thread?);
    }
    Ok(measured.swap_remove(0))
}

/// What a thread does. The first one says when it is over.
fn take_part(
    what: What,
    is_first: bool,
    mut end: Box<dyn End>,
    duration: Duration,
) -> io::Result<Measured> {
    end.register();
    let mut latency = Latency::new();
    let began = Instant::now();
    let others = what.threads() - 1;
    // By whether the round is even: others may be one ahead.
    let mut told = [0; 2];
    let mut last_round = None;
    for round in 0_u64.. {
        let sent = Instant::now();
        // Who hears of the last round takes part in it.
        if is_first && sent - began > duration + WARMUP {
            last_round = Some(round);
        }
        if is_first || what != What::RoundTrip {
            end.multicast(&message(round, last_round == Some(round)))?;
        }
        let parity = (round % 2) as usize;
        while told[parity] < others {
            let message = end.receive()?;
            let Told { round, is_last } = read(&message);
            told[(round % 2) as usize] += 1;
            last_round = last_round.or(is_last.then_some(round));
        }
        told[parity] = 0;
        if !is_first && what == What::RoundTrip {
            end.multicast(&message(round, last_round == Some(round)))?;
        }
        let now = Instant::now();
        if now - began > WARMUP {
            latency.record((now - sent).as_nanos() as u64);
        }
        if last_round == Some(round) {
            break;
        }
    }
    let took = began.elapsed().saturating_sub(WARMUP);
    Ok(Measured { latency, took })
}

fn message(round: u64, is_last: bool) -> Message {
    let mut message = [7; MESSAGE_BYTES];
    message[..8].copy_from_slice(&round.to_le_bytes());
    message[8] = is_last.into();
    message
}

/// What a message says.
struct Told {
    round: u64,
    is_last: bool,
}

fn read(message: &Message) -> Told {
    let round = message.first_chunk().copied().unwrap_or_default();
    Told {
        round: u64::from_le_bytes(round),
        is_last: message[8] == 1,
    }
}

/// Before anything counts.
const WARMUP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every way on which threads sleep, with as many threads as a cluster has replicas: nobody stops early or
    /// waits for ever.
    #[test]
    fn rounds_go_on_until_the_first_ends_them() {
        let cores = cores().unwrap();
        let ways = Way::ALL.into_iter().filter(|way| !way.polls());
        for way in ways {
            for what in [What::RoundTrip, What::Round(3), What::Round(5)] {
                let duration = Duration::from_millis(50);
                let measured = measure(what, way, duration, &cores).unwrap();
                assert!(measured.latency.count() > 10, "{what:?} by {way:?}");
            }
        }
    }
}
