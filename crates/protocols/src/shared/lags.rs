//! How long messages take to members, as answers to them tell.

use quorate_core::MemberIndex;
use std::collections::{BTreeMap, VecDeque};

/// Answers of a member that are remembered.
const SAMPLES_MAX: usize = 64;
/// Fewer say nothing.
const SAMPLES_MIN: usize = 10;

/// By which a replica learns how long its messages take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Probe {
    /// When the message that is answered left, as the clock of its sender showed.
    pub sent_ns: u64,
    /// When it arrived, as the clock of the member that answers showed.
    pub arrived_ns: u64,
}

/// What the answers of a member told.
#[derive(Clone, Default, Debug)]
struct Samples {
    /// From here to the member, by both clocks, in ns: what they differ by is in it.
    one_way: VecDeque<u64>,
    /// There and back, by the own clock, in ns.
    round_trip: VecDeque<u64>,
}

/// What the answers of members told.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lags {
    by_member: BTreeMap<MemberIndex, Samples>,
}

/// The 95th percentile, if there are enough.
fn high(samples: &VecDeque<u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = samples.iter().copied().collect();
    sorted.sort_unstable();
    let is_enough = sorted.len() >= SAMPLES_MIN;
    is_enough.then(|| sorted[(sorted.len() * 95).div_ceil(100) - 1])
}

fn push(samples: &mut VecDeque<u64>, one: u64) {
    if samples.len() >= SAMPLES_MAX {
        samples.pop_front();
    }
    samples.push_back(one);
}

impl Lags {
    /// A member answered now, by the own clock.
    pub(crate) fn note(&mut self, from: MemberIndex, probe: Probe, clock_ns: u64) {
        let samples = self.by_member.entry(from).or_default();
        // A clock that is behind makes nothing arrive before it left.
        let one_way = probe.arrived_ns.saturating_sub(probe.sent_ns);
        push(&mut samples.one_way, one_way);
        push(
            &mut samples.round_trip,
            clock_ns.saturating_sub(probe.sent_ns),
        );
    }

    /// How long after it leaves here, by the own clock, a member should have a message, by the clock of the member.
    pub(crate) fn one_way_to(&self, member: MemberIndex, default_ns: u64) -> u64 {
        let known = self.by_member.get(&member);
        known.and_then(|of| high(&of.one_way)).unwrap_or(default_ns)
    }

    /// By when so many of `n` members should have what leaves now, this one among them.
    pub(crate) fn one_way(&self, enough: usize, n: usize, default_ns: u64) -> u64 {
        let known = self.by_member.values();
        let known = known.map(|of| high(&of.one_way).unwrap_or(default_ns));
        let mut all: Vec<u64> = known.chain([0]).collect();
        all.resize(n.max(all.len()), default_ns);
        all.sort_unstable();
        all[enough.clamp(1, all.len()) - 1]
    }

    /// How long it takes to hear of so many of `n` members, this one among them; `None` if nobody knows.
    pub(crate) fn round_trip(&self, enough: usize, n: usize) -> Option<u64> {
        let known = self.by_member.values();
        let mut all: Vec<u64> = known
            .filter_map(|of| high(&of.round_trip))
            .chain([0])
            .collect();
        all.sort_unstable();
        all.get(enough.clamp(1, n) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_quorum_takes_is_known_after_some_answers() {
        let mut lags = Lags::default();
        assert_eq!(lags.one_way(3, 3, 500), 500);
        for (at, takes) in [(1, 100), (2, 300)] {
            for sent_ns in 1..=SAMPLES_MIN as u64 {
                let arrived_ns = sent_ns + takes;
                let probe = Probe {
                    sent_ns,
                    arrived_ns,
                };
                lags.note(MemberIndex::new(at), probe, sent_ns + 2 * takes);
            }
        }
        assert_eq!(
            [1, 2, 3].map(|enough| lags.one_way(enough, 3, 500)),
            [0, 100, 300]
        );
        let to = |at| lags.one_way_to(MemberIndex::new(at), 500);
        assert_eq!([0, 1, 2].map(to), [500, 100, 300]);
        assert_eq!(
            [2, 3].map(|enough| lags.round_trip(enough, 3)),
            [Some(200), Some(600)]
        );
        assert_eq!(lags.round_trip(4, 5), None);
        assert_eq!(lags.one_way(4, 5, 500), 500);
    }
}
