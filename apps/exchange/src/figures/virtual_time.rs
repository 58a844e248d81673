//! The page of results: `unfairness PICTURE [PROGRAM]` draws unfairness over delays in virtual time and prints the
//! figures of the paper's evaluation; with the program `quorate-exchange`, it measures processes on this machine, too.

use quorate::Protocol;
use quorate_exchange::Histogram;
use quorate_exchange::live::{BenchOptions, BenchSeen, ExchangeOptions, Load, bench};
use quorate_exchange::simulated::{Saturated, Scenario, Seen, paper, saturate};
use quorate_plot::{Curves, Plot, Series};
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// The requests of a run in virtual time.
const REQUESTS: u64 = 20_000;
/// The requests of a run that looks for saturation: a long run of what is overloaded takes minutes.
const SATURATION_REQUESTS: u64 = 5_000;
/// The mean of what is added to a packet's way, in us, where nothing else is said.
const JITTER_US: u64 = 20;
/// The rates at which virtual exchanges are compared, in orders/s.
const RATE: u64 = 20_000;
/// The seed of everything.
const SEED: u64 = 1;
/// Delays and holds, in us.
const DELAYS_US: [u64; 9] = [25, 50, 75, 100, 150, 200, 250, 300, 400];
/// Jitters, in us, each with a color.
const JITTERS_US: [(u64, &str); 3] = [(10, "#0072b2"), (20, "#d55e00"), (40, "#009e73")];
/// Delays of processes, in us, behind a relay with a jitter of 200 us.
const PROCESS_DELAYS_US: [u64; 5] = [100, 250, 500, 1000, 2000];

fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / (of as f64).max(1.0)
}

fn us(times: &Histogram, per_mille: u64) -> u64 {
    times.per_mille(per_mille) / 1000
}

type Value = fn(&Seen) -> f64;

/// What was seen with each jitter at each delay.
fn sweep(set: fn(&mut Scenario, u64)) -> Result<Vec<Vec<Seen>>, String> {
    let of_jitter = |jitter_us: u64| -> Result<Vec<Seen>, String> {
        let seen = DELAYS_US.iter().map(|delay_us| {
            let mut scenario = paper(RATE, REQUESTS, jitter_us * 1000);
            set(&mut scenario, delay_us * 1000);
            scenario.run(SEED)
        });
        seen.collect()
    };
    let jitters = JITTERS_US.iter();
    jitters
        .map(|(jitter_us, _)| of_jitter(*jitter_us))
        .collect()
}

fn plot(title: &str, swept: &[Vec<Seen>], value: Value) -> Plot {
    let curves = JITTERS_US
        .iter()
        .zip(swept)
        .map(|((jitter_us, color), seen)| {
            let points = DELAYS_US.iter().zip(seen);
            let points = points.map(|(delay_us, seen)| (*delay_us as f64, value(seen)));
            let name = format!("jitter {jitter_us} us");
            (Series { name, color }, points.collect())
        });
    Plot {
        title: title.to_owned(),
        curves: curves.collect(),
    }
}

fn picture() -> Result<String, String> {
    let delayed = sweep(|scenario, ns| scenario.order_delay_ns = ns)?;
    let held = sweep(|scenario, ns| scenario.hold_ns = ns)?;
    let overtaken: Value = |seen| {
        let inbound = seen.inbound_by_stamp;
        share(inbound.before_any, inbound.requests)
    };
    let overtaken_of_symbol: Value = |seen| {
        let inbound = seen.inbound_by_stamp;
        share(inbound.before_any_of_symbol, inbound.requests)
    };
    let late: Value = |seen| share(seen.outbound.late, seen.outbound.messages);
    let answer: Value = |seen| us(&seen.latency, 500) as f64;
    Ok(Curves {
        head: format!("Unfairness over delays, {RATE} orders/s in virtual time"),
        plots: vec![
            plot(
                "requests overtaken (%) over the delay of requests (us)",
                &delayed,
                overtaken,
            ),
            plot(
                "requests overtaken in their symbol (%) over that delay (us)",
                &delayed,
                overtaken_of_symbol,
            ),
            plot(
                "messages late at a gateway (%) over the hold (us)",
                &held,
                late,
            ),
            plot(
                "answer, p50 (us) over the delay of requests (us)",
                &delayed,
                answer,
            ),
        ],
        foot: vec![
            "A packet is under way for 30 us and an exponential time with the jitter as its mean."
                .to_owned(),
            "48 participants, 16 gateways, 100 symbols, 3 replicas; an engine of 43,100 orders/s."
                .to_owned(),
        ],
    }
    .render())
}

fn figures_in_virtual_time() -> Result<(), String> {
    println!("## Figures 13 and 14 in virtual time\n");
    println!(
        "A machine for each role, an engine of 43,100 orders/s; a packet is under way for 30 us and an exponential\n\
         time of mean {JITTER_US} us; requests are held for 200 us. Saturation is the highest rate at which the 99th\n\
         percentile of answers stays below 5 ms, in runs of {SATURATION_REQUESTS} orders, which are over before a\n\
         slight overload shows: it is within some hundred of the engine's rate. Latencies are those of {REQUESTS}\n\
         orders at {RATE} orders/s; the paper does not say its rate. Confirmation and result come in one message\n\
         here.\n"
    );
    println!(
        "| | unreplicated | 3 replicas | ratio | published | ratio |\n|---|--:|--:|--:|--:|--:|"
    );
    let mut found = Vec::new();
    for is_replicated in [false, true] {
        let scenario = |rate, requests| Scenario {
            is_replicated,
            ..paper(rate, requests, JITTER_US * 1000)
        };
        let at_rate = scenario(RATE, REQUESTS).run(SEED)?;
        let saturated = saturate(|rate| scenario(rate, SATURATION_REQUESTS), SEED)?;
        found.push((saturated, at_rate));
    }
    let (one, three) = (&found[0], &found[1]);
    let rates = [one.0.rate as f64 / 1e3, three.0.rate as f64 / 1e3];
    row("K orders/s at saturation", rates, 2, [43.10, 42.93]);
    let unfair = |saturated: &Saturated| {
        let inbound = saturated.seen.inbound_by_stamp;
        share(inbound.before_any, inbound.requests)
    };
    row(
        "requests overtaken, %",
        [unfair(&one.0), unfair(&three.0)],
        2,
        [1.49, 1.97],
    );
    let answers = [&one.1, &three.1].map(|seen| us(&seen.latency, 500) as f64);
    row("order to confirmation, p50, us", answers, 0, [288.0, 344.0]);
    row("order to result, p50, us", answers, 0, [407.0, 426.0]);
    println!();
    Ok(())
}

fn row(name: &str, [one, three]: [f64; 2], digits: usize, published: [f64; 2]) {
    let ratio = |one: f64, three: f64| match one > 0.0 {
        true => format!("{:.3}", three / one),
        false => "none".to_owned(),
    };
    println!(
        "| {name} | {one:.digits$} | {three:.digits$} | {} | {:.digits$}, {:.digits$} | {} |",
        ratio(one, three),
        published[0],
        published[1],
        ratio(published[0], published[1])
    );
}

/// Has participants trade with processes for some seconds.
async fn measure(
    program: &str,
    exchange: ExchangeOptions,
    rate: u64,
    jitter_ns: u64,
) -> Result<BenchSeen, Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("quorate-unfairness-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let options = BenchOptions {
        program: PathBuf::from(program),
        load: Load {
            participants: exchange.participants,
            symbols: exchange.symbols,
            rate,
            time_ns: 4_000_000_000,
            seed: SEED,
        },
        exchange: ExchangeOptions {
            folder: folder.clone(),
            durability: quorate::Durability::Memory,
            ..exchange
        },
        way_ns: 0,
        jitter_ns,
        kills: 0,
    };
    let seen = bench(options).await;
    fs::remove_dir_all(&folder)?;
    Ok(seen?)
}

fn process_row(name: &str, seen: &BenchSeen) {
    let (load, inbound) = (&seen.load, seen.gateways[0].requests.inbound);
    let late = seen.gateways.iter().map(|one| one.late).sum();
    let shown = seen.gateways.iter().map(|one| one.shown).sum();
    println!(
        "| {name} | {:.0} | {:.2} % | {:.2} % | {:.2} % | {}, {} us | {}, {} us |",
        load.answered as f64 * 1e9 / (load.time_ns as f64).max(1.0),
        share(inbound.before_any, inbound.requests),
        share(inbound.before_any_of_symbol, inbound.requests),
        share(late, shown),
        us(&load.confirmed, 500),
        us(&load.confirmed, 990),
        us(&load.executed, 500),
        us(&load.executed, 990)
    );
}

async fn processes(program: &str) -> Result<(), Box<dyn Error>> {
    let exchange = || ExchangeOptions {
        gateways: 4,
        participants: 12,
        symbols: 100,
        ..ExchangeOptions::default()
    };
    let head = |what: &str| {
        println!(
            "| {what} | answered/s | overtaken | in their symbol | shown late \
             | confirmation p50, p99 | result p50, p99 |\
             \n|---|--:|--:|--:|--:|--:|--:|"
        );
    };
    println!("## Processes on one machine\n");
    println!(
        "3 replicas in memory, 4 gateways and 12 participants share two cores with the generator and the relay, so \
         that the scheduler adds to what is measured; a gateway and a replica are 200 us (exponential) apart in each \
         direction. 2,000 orders/s, 100 symbols; market data is held for 2,000 us.\n"
    );
    head("delay of requests");
    for delay_us in PROCESS_DELAYS_US {
        let order_delay_ns = delay_us * 1000;
        let exchange = ExchangeOptions {
            order_delay_ns,
            ..exchange()
        };
        let seen = measure(program, exchange, 2000, 200_000).await?;
        process_row(&format!("{delay_us} us"), &seen);
    }
    let chosen = ExchangeOptions {
        late_per_million: Some(20_000),
        ..exchange()
    };
    process_row(
        "chosen, 2 % late",
        &measure(program, chosen, 2000, 200_000).await?,
    );
    println!("\nWithout a relay, requests held for 200 us, by protocol and rate:\n");
    head("replicas, protocol, rate");
    for rate in [2000, 8000, 16_000] {
        for (replicas, protocol) in [
            (1, Protocol::MultiPaxos),
            (3, Protocol::MultiPaxos),
            (3, Protocol::Rabia),
        ] {
            let exchange = ExchangeOptions {
                replicas,
                protocol,
                order_delay_ns: 200_000,
                ..exchange()
            };
            let name = format!("{replicas}, {}, {rate}/s", protocol.name());
            match measure(program, exchange, rate, 0).await {
                Ok(seen) => process_row(&name, &seen),
                Err(why) => println!("| {name} | not measured: {why} | | | | | |"),
            }
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let picture_path = args.next().ok_or("usage: unfairness PICTURE [PROGRAM]")?;
    fs::write(&picture_path, picture()?)?;
    println!("# Fairness and speed of the exchange\n");
    println!(
        "`cargo run -p quorate-exchange --example unfairness -- docs/results/exchange.svg` prints this page.\n\
         Requests are *overtaken* where one that was stamped later is executed before them.\n"
    );
    println!("![Unfairness over delays](exchange.svg)\n");
    figures_in_virtual_time()?;
    if let Some(program) = args.next() {
        processes(&program).await?;
    }
    Ok(())
}
