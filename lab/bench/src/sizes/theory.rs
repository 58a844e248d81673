//! What a committed byte should cost, by the protocols' arithmetic alone.

use serde::Serialize;

use crate::systems::Shape;

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

impl Shape {
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
    use crate::systems::System;
    use quorate_protocols::Code;

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
