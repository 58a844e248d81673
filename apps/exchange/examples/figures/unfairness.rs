//! The picture of unfairness over delays, in virtual time: a machine for each role.

use super::numbers::{share, us};
use quorate_exchange::simulated::{Scenario, Seen, paper};
use quorate_plot::{Curves, Plot, Series};

/// The requests of a run in virtual time.
const REQUESTS: u64 = 20_000;
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
