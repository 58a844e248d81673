//! Latency in nanoseconds: the histogram every run records into, and the figures read off it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A high-dynamic-range histogram of latencies, three significant digits from 1 ns to an hour.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Latency {
    /// An empty histogram.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
            .expect("constant bounds that the histogram accepts");
        Latency { histogram }
    }

    /// Records one latency; what exceeds an hour counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds everything another histogram recorded.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram
            .add(&other.histogram)
            .expect("every histogram has the same bounds");
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The figures worth reading.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.histogram.len(),
            mean_ns: self.histogram.mean().round() as u64,
            p50_ns: self.histogram.value_at_quantile(0.50),
            p90_ns: self.histogram.value_at_quantile(0.90),
            p99_ns: self.histogram.value_at_quantile(0.99),
            p999_ns: self.histogram.value_at_quantile(0.999),
            max_ns: self.histogram.max(),
        }
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

/// Percentiles of one kind of operation, in nanoseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The number of operations recorded.
    pub count: u64,
    /// Arithmetic mean; for capacity arithmetic, not for judging.
    pub mean_ns: u64,
    /// The median latency, in ns.
    pub p50_ns: u64,
    /// The 90th percentile, in ns.
    pub p90_ns: u64,
    /// The 99th percentile, in ns.
    pub p99_ns: u64,
    /// The 99.9th percentile, in ns.
    pub p999_ns: u64,
    /// The slowest operation, in ns.
    pub max_ns: u64,
}

const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_two_halves_gives_the_percentiles_of_the_whole() {
        let (mut low, mut high) = (Latency::new(), Latency::new());
        (1..=500).for_each(|us| low.record(us * 1000));
        (501..=1000).for_each(|us| high.record(us * 1000));
        low.merge(&high);
        let summary = low.summary();
        assert_eq!(summary.count, 1000);
        assert!(
            summary.p50_ns.abs_diff(500_000) <= 500,
            "{}",
            summary.p50_ns
        );
        assert!(
            summary.p99_ns.abs_diff(990_000) <= 1000,
            "{}",
            summary.p99_ns
        );
        assert!(
            summary.max_ns.abs_diff(1_000_000) <= 1000,
            "{}",
            summary.max_ns
        );
    }

    #[test]
    fn what_exceeds_an_hour_counts_as_an_hour() {
        let mut latency = Latency::new();
        latency.record(u64::MAX);
        assert_eq!(latency.count(), 1);
    }
}
