//! The figures of the paper's evaluation in words, beside what the paper says.

use super::{Saturated, Scenario, paper, saturate};
use crate::histogram::Histogram;
use std::fmt::Write as _;

/// The requests of a run in virtual time.
const REQUESTS: u64 = 20_000;
/// The requests of a run that looks for saturation, unless it may take minutes: a long run of what is overloaded does.
const SATURATION_REQUESTS: u64 = 5_000;
/// The rate at which latencies are compared, in orders/s.
const RATE: u64 = 20_000;

/// The figures of the paper's evaluation (13 and 14) as a page has them. Where it is long, saturation is looked for in
/// runs that take minutes.
///
/// # Errors
/// What does not hold in a run.
pub fn paper_table(jitter_us: u64, seed: u64, is_long: bool) -> Result<String, String> {
    let saturation_requests = match is_long {
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
         percentile of answers stays below 5 ms, in runs of {saturation_requests} orders: in a short one, it is\n\
         within some hundred of the engine's rate, for it is over before a slight overload shows. Latencies are\n\
         those of {REQUESTS} orders at {RATE} orders/s; the paper does not say its rate. Confirmation and result\n\
         come in one message here.\n\n\
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

fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / (of as f64).max(1.0)
}

fn us(times: &Histogram, per_mille: u64) -> u64 {
    times.per_mille(per_mille) / 1000
}

fn ratio(one: f64, to: f64) -> String {
    match to > 0.0 {
        true => format!("{:.3}", one / to),
        false => "none".to_owned(),
    }
}
