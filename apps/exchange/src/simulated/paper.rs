//! The exchange of the paper's evaluation (Nezha, section 9), a machine for each role.

use super::{Scenario, Seen};

/// The time for an order with which the engine does 43,100 orders/s, in ns.
const SLOW_ENGINE_NS: u64 = 1_000_000_000 / 43_100;
/// The 99th percentile of latency up to which an exchange is not saturated, in ns.
const SATURATED_NS: u64 = 5_000_000;
/// A rate that no exchange with this engine bears, in orders/s.
const RATE_MAX: u64 = 100_000;
/// How closely the highest rate is searched, in orders/s.
const RATE_STEP: u64 = 500;

/// The highest rate that an exchange bears, and what was seen at it.
#[derive(Clone, Debug)]
pub struct Saturated {
    /// The rate in orders/s.
    pub rate: u64,
    /// What was seen at this rate.
    pub seen: Seen,
}

/// 48 participants, 16 gateways and 100 symbols at a rate of orders, with an engine of 43,100 orders/s.
#[must_use]
pub fn paper(rate: u64, requests: u64, jitter_ns: u64) -> Scenario {
    Scenario {
        participants: 48,
        gateways: 16,
        symbols: 100,
        requests,
        between_ns: 1_000_000_000 / rate.max(1),
        jitter_ns,
        engine_ns: SLOW_ENGINE_NS,
        ..Scenario::default()
    }
}

/// Searches the highest rate that an exchange bears.
///
/// # Errors
/// What does not hold.
pub fn saturate(scenario: impl Fn(u64) -> Scenario, seed: u64) -> Result<Saturated, String> {
    let run = |rate| scenario(rate).run(seed);
    let bears = |seen: &Seen| seen.latency.per_mille(990) < SATURATED_NS;
    let (mut rate, mut seen) = (RATE_STEP, run(RATE_STEP)?);
    let mut refused = RATE_MAX;
    while refused - rate > RATE_STEP {
        let tried = (rate + refused) / 2;
        match run(tried) {
            Ok(found) if bears(&found) => (rate, seen) = (tried, found),
            // An exchange that falls behind for ever makes no progress in the time it has.
            Ok(_) => refused = tried,
            Err(what) if what.starts_with("no progress") => refused = tried,
            Err(what) => return Err(what),
        }
    }
    Ok(Saturated { rate, seen })
}
