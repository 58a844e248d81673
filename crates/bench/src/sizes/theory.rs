//! What a committed byte should cost, by the protocols' arithmetic alone.

use clap::ValueEnum;
use serde::Serialize;

/// Replicas of each cluster.
pub(crate) const REPLICAS: u8 = 5;
/// How many of RS-Paxos' fragments rebuild a value.
const FRAGMENTS: u8 = 3;
/// Shorter values are ordered whole by both protocols (the parameter `payload_min`).
const PAYLOAD_BYTES_MIN: usize = 4096;

/// A protocol to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Each replica stores a fragment of each value.
    RsPaxos,
    /// Each replica stores each value.
    MultiPaxos,
}

/// Bytes per byte of a committed value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Expected {
    /// Sent by the leader to the others: all that is sent, if clients ask the leader.
    pub sent: f64,
    /// Written to disk by all replicas together.
    pub written: f64,
}

impl System {
    /// Its name in tables, and for `quorate up`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::RsPaxos => "rs-paxos",
            System::MultiPaxos => "multi-paxos",
        }
    }

    /// Of how many fragments a value of this size consists; 1 if it is stored whole.
    pub(crate) fn fragments(self, value_bytes: usize) -> u8 {
        match self {
            System::RsPaxos if value_bytes >= PAYLOAD_BYTES_MIN => FRAGMENTS,
            _ => 1,
        }
    }

    /// What says all this to `quorate up`.
    pub(crate) fn flags(self) -> Vec<String> {
        let mut flags = vec![format!("--protocol={}", self.name())];
        if self == System::RsPaxos {
            flags.push(format!("--code={REPLICAS},{FRAGMENTS}"));
        }
        flags
    }

    /// What a committed byte of such a value should cost.
    pub(crate) fn expected(self, value_bytes: usize) -> Expected {
        let fragments = f64::from(self.fragments(value_bytes));
        Expected {
            sent: f64::from(REPLICAS - 1) / fragments,
            written: f64::from(REPLICAS) / fragments,
        }
    }
}

/// How far a figure is above what was expected, in percent of that.
pub(crate) fn deviation_percent(measured: f64, expected: f64) -> f64 {
    (measured / expected - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coded_byte_costs_a_third_and_a_small_value_is_not_coded() {
        let coded = System::RsPaxos.expected(4096);
        assert_eq!((coded.sent, coded.written), (4.0 / 3.0, 5.0 / 3.0));
        let whole = System::MultiPaxos.expected(4096);
        assert_eq!((whole.sent, whole.written), (4.0, 5.0));
        assert_eq!(System::RsPaxos.expected(4095), whole);
    }

    #[test]
    fn a_deviation_is_in_percent_of_what_was_expected() {
        assert_eq!(deviation_percent(4.5, 4.0), 12.5);
        assert_eq!(deviation_percent(1.5, 2.0), -25.0);
    }
}
