//! Unfairness over delays, and the figures of the paper's evaluation, in virtual time: a machine for each role.

use super::Figures;
use super::numbers::{ratio, share, us};
use quorate_exchange::simulated::{Saturated, Scenario, Seen, paper, saturate};
use quorate_plot::{Curves, Plot, Series};
use std::fmt::Write as _;

/// The requests of a run in virtual time.
const REQUESTS: u64 = 20_000;
/// The requests of a run that looks for saturation, unless it may take minutes: a long run of what is overloaded does.
const SATURATION_REQUESTS: u64 = 5_000;
/// The rates at which virtual exchanges are compared, in orders/s.
const RATE: u64 = 20_000;
/// Delays and holds, in us.
const DELAYS_US: [u64; 9] = [25, 50, 75, 100, 150, 200, 250, 300, 400];
/// Jitters, in us, each with a color.
const JITTERS_US: [(u64, &str); 3] = [(10, "#0072b2"), (20, "#d55e00"), (40, "#009e73")];

type Value = fn(&Seen) -> f64;

/// What was seen with each jitter at each delay.
fn sweep(seed: u64, set: fn(&mut Scenario, u64)) -> Result<Vec<Vec<Seen>>, String> {
    let of_jitter = |jitter_us: u64| -> Result<Vec<Seen>, String> {
        let seen = DELAYS_US.iter().map(|delay_us| {
            let mut scenario = paper(RATE, REQUESTS, jitter_us * 1000);
            set(&mut scenario, delay_us * 1000);
            scenario.run(seed)
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

/// The picture of unfairness over delays.
pub(super) fn picture(seed: u64) -> Result<String, String> {
    let delayed = sweep(seed, |scenario, ns| scenario.order_delay_ns = ns)?;
    let held = sweep(seed, |scenario, ns| scenario.hold_ns = ns)?;
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

/// The table of both figures.
pub(super) fn table(figures: &Figures) -> Result<String, String> {
    let Figures {
        jitter_us, seed, ..
    } = *figures;
    let saturation_requests = match figures.is_long {
        true => REQUESTS,
        false => SATURATION_REQUESTS,
    };
    let mut found = Vec::new();
    for is_replicated in [false, true] {
        let scenario = |rate, requests| Scenario {
            is_replicated,
            ..paper(rate, requests, jitter_us.saturating_mul(1000))
        };
        let at_rate = scenario(RATE, REQUESTS).run(seed)?;
        let saturated = saturate(|rate| scenario(rate, saturation_requests), seed)?;
        found.push((saturated, at_rate));
    }
    let (one, three) = (&found[0], &found[1]);
    let mut page = format!(
        "## Figures 13 and 14 in virtual time\n\n\
         A machine for each role, an engine of 43,100 orders/s; a packet is under way for 30 us and an exponential\n\
         time of mean {jitter_us} us; requests are held for 200 us. Saturation is the highest rate at which the 99th\n\
         percentile of answers stays below 5 ms, in runs of {saturation_requests} orders: in a short one, it is within\n\
         some hundred of the engine's rate, for it is over before a slight overload shows. Latencies are those of\n\
         {REQUESTS} orders at {RATE} orders/s; the paper does not say its rate. Confirmation and result come in one\n\
         message here.\n\n\
         | | unreplicated | 3 replicas | ratio | published | ratio |\n|---|--:|--:|--:|--:|--:|\n"
    );
    let rates = [one.0.rate as f64 / 1e3, three.0.rate as f64 / 1e3];
    page += &row("K orders/s at saturation", rates, 2, [43.10, 42.93]);
    let unfair = |saturated: &Saturated| {
        let inbound = saturated.seen.inbound_by_stamp;
        share(inbound.before_any, inbound.requests)
    };
    let unfair = [unfair(&one.0), unfair(&three.0)];
    page += &row("requests overtaken, %", unfair, 2, [1.49, 1.97]);
    let answers = [&one.1, &three.1].map(|seen| us(&seen.latency, 500) as f64);
    page += &row("order to confirmation, p50, us", answers, 0, [288.0, 344.0]);
    page += &row("order to result, p50, us", answers, 0, [407.0, 426.0]);
    Ok(page)
}

fn row(name: &str, [one, three]: [f64; 2], digits: usize, published: [f64; 2]) -> String {
    let mut row = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        row,
        "| {name} | {one:.digits$} | {three:.digits$} | {} | {:.digits$}, {:.digits$} | {} |",
        ratio(three, one),
        published[0],
        published[1],
        ratio(published[1], published[0])
    );
    row
}
