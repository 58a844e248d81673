//! What a committed byte should cost, by the protocols' arithmetic alone.

use clap::ValueEnum;
use quorate_protocols::Code;
use serde::Serialize;

/// Shorter values are ordered whole by every protocol (the parameter `payload_min`).
const PAYLOAD_BYTES_MIN: usize = 4096;

/// A protocol to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Each replica stores a fragment of each value, and each takes values from clients and spreads them.
    Racos,
    /// Each replica stores a fragment of each value, and a leader spreads them.
    RsPaxos,
    /// Each replica stores each value, and each takes values from clients.
    Rabia,
    /// Each replica stores each value, which a leader sends.
    MultiPaxos,
}

/// A protocol as it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// The protocol.
    pub system: System,
    /// Replicas of each cluster.
    pub replicas: u8,
    /// How many fragments rebuild a value; 1 where each replica has all of it.
    pub fragments: u8,
}

/// Bytes per byte of a committed value. A replica's link is taken to carry as much in either direction
/// at the same time; what clients are told is next to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Expected {
    /// Sent by all replicas to others.
    pub sent: f64,
    /// Sent by the replica that sends most: the leader where there is one.
    pub most_sent: f64,
    /// What the link of the busiest replica carries in its busier direction.
    pub link: f64,
    /// Sent and received by a replica, clients' values included: the mean over all replicas.
    pub moved: f64,
    /// Written to disk by all replicas together.
    pub written: f64,
}

impl System {
    /// All, in the order of tables.
    pub(crate) const ALL: [System; 4] = [
        System::Racos,
        System::RsPaxos,
        System::Rabia,
        System::MultiPaxos,
    ];

    /// Its name in tables, and for `quorate up`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Racos => "racos",
            System::RsPaxos => "rs-paxos",
            System::Rabia => "rabia",
            System::MultiPaxos => "multi-paxos",
        }
    }

    /// Whether one replica does more than the others, and is the one to ask.
    pub(crate) fn is_led(self) -> bool {
        matches!(self, System::RsPaxos | System::MultiPaxos)
    }

    fn is_coded(self) -> bool {
        matches!(self, System::Racos | System::RsPaxos)
    }

    /// As it is measured: with this code, or with so many replicas that store whole values.
    pub(crate) fn shape(self, code: Code, whole_replicas: u8) -> Shape {
        let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        let (replicas, fragments) = match self.is_coded() {
            true => (small(code.n), small(code.k)),
            false => (whole_replicas, 1),
        };
        Shape {
            system: self,
            replicas,
            fragments,
        }
    }
}

impl Shape {
    /// Of how many fragments a value of this size consists; 1 if it is stored whole.
    pub(crate) fn fragments(self, value_bytes: usize) -> u8 {
        match value_bytes >= PAYLOAD_BYTES_MIN {
            true => self.fragments,
            false => 1,
        }
    }

    /// Its name, and what it consists of.
    pub(crate) fn title(self) -> String {
        let (name, replicas) = (self.system.name(), self.replicas);
        match self.system.is_coded() {
            true => format!("{name} {replicas},{}", self.fragments),
            false => format!("{name} {replicas}"),
        }
    }

    /// What says all this to `quorate up`, but for the number of replicas.
    pub(crate) fn flags(self) -> Vec<String> {
        let mut flags = vec![format!("--protocol={}", self.system.name())];
        if self.system.is_coded() {
            flags.push(format!("--code={},{}", self.replicas, self.fragments));
        }
        flags
    }

    /// What a committed byte of such a value should cost.
    pub(crate) fn expected(self, value_bytes: usize) -> Expected {
        let k = f64::from(self.fragments(value_bytes));
        let n = f64::from(self.replicas);
        let sent = (n - 1.0) / k;
        // Where nobody leads, everybody does so of every n-th value.
        let led = if self.system.is_led() { 1.0 } else { n };
        let (takes, follows) = (1.0 / led, (led - 1.0) / led / k);
        Expected {
            sent,
            most_sent: sent / led,
            link: (sent / led).max(takes + follows),
            moved: (1.0 + 2.0 * sent) / n,
            written: n / k,
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

    const CODE: Code = Code { n: 5, k: 3 };

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_coded_byte_costs_a_third_and_a_small_value_is_not_coded() {
        let shape = System::RsPaxos.shape(CODE, 5);
        let coded = shape.expected(4096);
        assert_eq!((coded.most_sent, coded.written), (4.0 / 3.0, 5.0 / 3.0));
        let whole = System::MultiPaxos.shape(CODE, 5).expected(4096);
        assert_eq!((whole.most_sent, whole.written), (4.0, 5.0));
        assert_eq!(shape.expected(4095), whole);
    }

    #[test]
    fn without_a_leader_every_link_carries_its_share() {
        let racos = System::Racos.shape(CODE, 5).expected(1 << 20);
        // M/n (1 + 2(n-1)/k) in both directions, of which M/n + (n-1)/n M/k arrives.
        assert!(near(racos.moved, 0.2 * (1.0 + 8.0 / 3.0)));
        assert!(near(racos.link, 0.2 + 0.8 / 3.0));
        let led = System::RsPaxos.shape(CODE, 5).expected(1 << 20);
        assert!(near(led.moved, racos.moved) && near(led.link, 4.0 / 3.0));
        let seven = System::Racos
            .shape(Code { n: 7, k: 4 }, 5)
            .expected(1 << 20);
        assert!(near(seven.moved, (1.0 + 3.0) / 7.0) && near(seven.written, 7.0 / 4.0));
    }

    #[test]
    fn a_deviation_is_in_percent_of_what_was_expected() {
        assert_eq!(deviation_percent(4.5, 4.0), 12.5);
        assert_eq!(deviation_percent(1.5, 2.0), -25.0);
    }
}
