//! Finds gateways whose clocks are wrong, by probes on the links that requests take.

use std::collections::VecDeque;

/// How long a probe counts, in ns.
const WINDOW_NS: u64 = 1_000_000_000;
/// How many probes are kept.
const PROBES_MAX: usize = 64;
/// The offset, in ns, above which a clock is wrong.
const WRONG_NS: u64 = 100_000;
/// The offset, in ns, below which it is right again.
const RIGHT_NS: u64 = 50_000;

/// A question to a gateway and its answer, by the clocks of both ends, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockProbe {
    /// When the question was sent, by the asker's clock.
    pub asked_ns: u64,
    /// When the gateway received it, by its own clock.
    pub received_ns: u64,
    /// When the gateway answered, by its own clock.
    pub answered_ns: u64,
    /// When the answer came, by the asker's clock.
    pub heard_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    round_trip_ns: u64,
    offset_ns: i128,
}

/// What is known of one gateway's clock.
#[derive(Debug, Default)]
pub struct ClockWatch {
    samples: VecDeque<Sample>,
    is_wrong: bool,
}

impl ClockWatch {
    /// Takes a probe in. One whose times are in no possible order tells nothing.
    pub fn handle_probe(&mut self, probe: ClockProbe) {
        let there = probe.answered_ns.checked_sub(probe.received_ns);
        let away = probe.heard_ns.checked_sub(probe.asked_ns);
        let round_trip = away
            .zip(there)
            .and_then(|(away, there)| away.checked_sub(there));
        let Some(round_trip_ns) = round_trip else {
            return;
        };
        let difference = |theirs: u64, ours: u64| i128::from(theirs) - i128::from(ours);
        let offset_ns = (difference(probe.received_ns, probe.asked_ns)
            + difference(probe.answered_ns, probe.heard_ns))
            / 2;
        if self.samples.len() == PROBES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at_ns: probe.heard_ns,
            round_trip_ns,
            offset_ns,
        });
        self.samples
            .retain(|one| one.at_ns.abs_diff(probe.heard_ns) <= WINDOW_NS);
        if let Some(best) = self.best() {
            let limit = if self.is_wrong { RIGHT_NS } else { WRONG_NS };
            // A probe that was long under way proves little: on a busy machine all of them are.
            let certain = best.offset_ns.unsigned_abs();
            let certain = certain.saturating_sub(u128::from(best.round_trip_ns / 2));
            self.is_wrong = certain > u128::from(limit);
        }
    }

    /// How far the gateway's clock is ahead, in ns, by the probe that was under way for the shortest time; the error is
    /// at most half of that time.
    #[must_use]
    pub fn offset_ns(&self) -> Option<i64> {
        let bounded = self
            .best()?
            .offset_ns
            .clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        i64::try_from(bounded).ok()
    }

    fn best(&self) -> Option<&Sample> {
        self.samples.iter().min_by_key(|one| one.round_trip_ns)
    }

    /// Whether stamps of the gateway should not count.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.is_wrong
    }
}
