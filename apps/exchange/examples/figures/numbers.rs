//! Numbers as tables have them.

use quorate_exchange::Histogram;

/// A part of a whole, in per cent.
pub(super) fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / (of as f64).max(1.0)
}

/// The duration that so many of a thousand have at most, in us.
pub(super) fn us(times: &Histogram, per_mille: u64) -> u64 {
    times.per_mille(per_mille) / 1000
}

/// How many times the second number the first one is, in words.
pub(super) fn ratio(one: f64, to: f64) -> String {
    match to > 0.0 {
        true => format!("{:.3}", one / to),
        false => "none".to_owned(),
    }
}
