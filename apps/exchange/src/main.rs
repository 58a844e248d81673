//! `quorate-exchange`: the exchange in virtual time, seed by seed, and what its figures show there.

#![allow(
    clippy::disallowed_methods,
    reason = "the program says how long it took"
)]

use quorate_exchange::Histogram;
use quorate_exchange::simulated::{Scenario, Seen};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "\
usage: quorate-exchange simulate [--from SEED] [--seeds N]
       quorate-exchange figures [--requests N] [--jitter US] [--seed SEED]

simulate  runs seeds of an exchange in virtual time, with leaders, gateways, clocks and the network at fault, and
          checks everything that must hold; it ends at the first seed that fails
figures   measures an exchange in virtual time, a machine for each role: 48 participants, 16 gateways, 100 symbols;
          replicated beside unreplicated, with an engine of 43,100 orders/s";

/// The time for an order with which the engine does 43,100 orders/s, in ns.
const SLOW_ENGINE_NS: u64 = 1_000_000_000 / 43_100;
/// The 99th percentile of latency up to which an exchange is not saturated, in ns.
const SATURATED_NS: u64 = 5_000_000;
/// A rate that no exchange with this engine bears, in orders/s.
const RATE_MAX: u64 = 100_000;
/// How closely the highest rate is searched, in orders/s.
const RATE_STEP: u64 = 500;

/// Options with a number behind each, of those that are known.
fn numbers(args: &[String], known: &mut [(&str, &mut u64)]) -> Result<(), String> {
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} needs a number", pair[0]));
        };
        let option = known.iter_mut().find(|(option, _)| option == name);
        let (_, into) = option.ok_or_else(|| format!("there is no option {name}"))?;
        **into = value
            .parse()
            .map_err(|_| format!("{name} {value}: that is no number"))?;
    }
    Ok(())
}

fn simulate(args: &[String]) -> Result<(), String> {
    let (mut from, mut seeds) = (0, 100);
    numbers(args, &mut [("--from", &mut from), ("--seeds", &mut seeds)])?;
    let begun = Instant::now();
    let mut all = Seen::default();
    for seed in from..from.saturating_add(seeds) {
        let seen = Scenario::with_faults().run(seed);
        let seen = seen.map_err(|what| {
            format!("seed {seed} fails, and again with --from {seed} --seeds 1: {what}")
        })?;
        all.executed += seen.executed;
        all.repeated += seen.repeated;
        all.trades += seen.trades;
        all.leaders_died += seen.leaders_died;
        all.lost_with_leader += seen.lost_with_leader;
        all.gateways_died += seen.gateways_died;
        all.sequencer.add(&seen.sequencer);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds passed in {seconds:.1} s, {:.1} a second",
        seeds as f64 / seconds.max(1e-9)
    );
    println!(
        "{} requests executed, {} came again, {} trades",
        all.executed, all.repeated, all.trades
    );
    println!(
        "{} leaders died with {} requests that nobody had agreed on, {} gateways died",
        all.leaders_died, all.lost_with_leader, all.gateways_died
    );
    println!("how requests came: {:?}", all.sequencer);
    Ok(())
}

/// The exchange of the paper's evaluation at a rate of orders.
fn paper(rate: u64, requests: u64, jitter_ns: u64) -> Scenario {
    Scenario {
        participants: 48,
        gateways: 16,
        symbols: 100,
        requests,
        between_ns: 1_000_000_000 / rate.max(1),
        jitter_ns,
        ..Scenario::default()
    }
}

fn figures(args: &[String]) -> Result<(), String> {
    let (mut requests, mut jitter_us, mut seed) = (20_000, 20, 1);
    let known = &mut [
        ("--requests", &mut requests),
        ("--jitter", &mut jitter_us),
        ("--seed", &mut seed),
    ];
    numbers(args, known)?;
    let jitter_ns = jitter_us.saturating_mul(1000);
    let base = paper(1, requests, jitter_ns);
    println!(
        "Virtual time, a machine for each role, {requests} orders a run. A packet is under way for {} us and an \
         exponential time of mean {jitter_us} us.",
        base.way_ns / 1000
    );
    println!(
        "Orders are held for {} us, market data for {} us.",
        base.order_delay_ns / 1000,
        base.hold_ns / 1000
    );
    println!("| replicas | orders/s | unfair in | unfair out | answer p50 | answer p99 |");
    println!("|---|---|---|---|---|---|");
    for is_replicated in [false, true] {
        let run = |rate| {
            let scenario = Scenario {
                engine_ns: SLOW_ENGINE_NS,
                is_replicated,
                ..paper(rate, requests, jitter_ns)
            };
            scenario.run(seed)
        };
        let (rate, seen) = saturate(run)?;
        let replicas = if is_replicated { 3 } else { 1 };
        println!("| {replicas} | {rate} | {}", row(&seen));
    }
    Ok(())
}

/// The highest rate that an exchange bears, and what was seen at it.
fn saturate(run: impl Fn(u64) -> Result<Seen, String>) -> Result<(u64, Seen), String> {
    let bears = |seen: &Seen| seen.latency.per_mille(990) < SATURATED_NS;
    let (mut borne, mut best) = (RATE_STEP, run(RATE_STEP)?);
    let mut refused = RATE_MAX;
    while refused - borne > RATE_STEP {
        let rate = (borne + refused) / 2;
        match run(rate) {
            Ok(seen) if bears(&seen) => (borne, best) = (rate, seen),
            // An exchange that falls behind for ever makes no progress in the time it has.
            Ok(_) => refused = rate,
            Err(what) if what.starts_with("no progress") => refused = rate,
            Err(what) => return Err(what),
        }
    }
    Ok((borne, best))
}

fn row(seen: &Seen) -> String {
    let share = |part: u64, of: u64| 100.0 * part as f64 / (of as f64).max(1.0);
    let inbound = &seen.inbound_by_stamp;
    let us = |latency: &Histogram, per_mille| latency.per_mille(per_mille) / 1000;
    format!(
        "{:.2} % | {:.2} % | {} us | {} us |",
        share(inbound.before_any, inbound.requests),
        share(seen.outbound.late, seen.outbound.messages),
        us(&seen.latency, 500),
        us(&seen.latency, 990)
    )
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, rest)) if command == "simulate" => simulate(rest),
        Some((command, rest)) if command == "figures" => figures(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
